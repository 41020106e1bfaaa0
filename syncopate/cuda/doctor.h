// What this machine can do for Syncopate, in words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "syncopate/cuda/driver.h"
#include "syncopate/cuda/nvml.h"

namespace syncopate::cuda {

struct DoctorOptions {
  std::string python = "python3";  ///< whose Triton and torch are looked for
  /// For tests:
  std::string library = "libcuda.so.1";
  std::string management_library = "libnvidia-ml.so.1";
};

/// One line for what is there and works, what is not, why not, and what to do. Never fails.
std::string doctor(const DoctorOptions& options);

/// What doctor() finds out, apart from what it says of it.
struct Machine {
  struct GpuFacts {
    std::string name;
    std::int64_t bytes = 0;
    int multiprocessors = 0;
    int capability = 0;  ///< 10 * major + minor
    int copy_engines = 0;
    bool stream_operations = false;  ///< of 64 bits
    int nvlinks = 0;                 ///< that are up, as far as it is known
  };
  struct LinkFacts {
    bool access = false;
    bool atomics = false;
    std::optional<bool> nvlink;
    int rank = 0;  ///< PeerAttribute::performance_rank
    friend bool operator==(const LinkFacts&, const LinkFacts&) = default;
  };

  std::string no_gpus;         ///< why none can be asked; empty if they can
  std::string driver_version;  ///< "580.65.06", or empty
  int cuda_version = 0;        ///< of the driver: 13000 for 13.0
  std::vector<GpuFacts> gpus;
  std::vector<std::vector<LinkFacts>> links;  ///< [from][to]

  std::string python;     ///< its name
  std::string no_python;  ///< why it cannot be asked; empty if it can
  std::string triton;     ///< versions; empty for what it has not
  std::string torch;
  std::string no_shared_memory;  ///< why processes cannot share host memory; empty if they can
};
void examine_gpus(const Driver& driver, const std::optional<Nvml>& nvml, Machine& machine);
std::string describe(const Machine& machine);

}  // namespace syncopate::cuda
