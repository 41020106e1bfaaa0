// What this machine can do for Syncopate, in words.
#pragma once

#include <string>

namespace syncopate::cuda {

struct DoctorOptions {
  std::string python = "python3";        ///< whose Triton is looked for
  std::string library = "libcuda.so.1";  ///< for tests
};

/// Never fails: what is missing is a line of the report.
std::string doctor(const DoctorOptions& options);

}  // namespace syncopate::cuda
