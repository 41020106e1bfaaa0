// Child processes with a time limit.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace syncopate::cuda {

struct ProcessResult {
  bool timed_out = false;  ///< it was killed at the limit
  int exit_code = -1;      ///< -1 if a signal ended it
  int signal = 0;
  std::string output;  ///< standard output and error, together
};

/// Runs `arguments` (the program first, looked for in PATH) in `folder` with standard input empty, and waits for it.
/// At the limit its whole process group is killed. Throws UserError if the program cannot be started.
ProcessResult run_process(const std::vector<std::string>& arguments, const std::string& folder,
                          std::chrono::milliseconds limit);

}  // namespace syncopate::cuda
