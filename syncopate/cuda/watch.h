// Waits for launches on the GPUs without ever hanging: a kernel that gave up a wait leaves a record, a stream that
// waits for what never comes shows by its flag. Both become words, and everything that still waits is let go.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/cuda/ranks.h"

namespace syncopate::cuda {

class Watch {
 public:
  Watch(Ranks& ranks, double time_limit);

  /// Until launch `epoch` is complete on all ranks. Nothing if it is; else what was missed, when every stream has
  /// been let go and has ended (or was abandoned, if that takes longer than some seconds).
  std::optional<std::string> await(std::int64_t epoch);

 private:
  bool complete(int rank, std::int64_t epoch) const;
  /// Words of a rank's memory, while kernels run; nothing if even that copy does not end.
  std::optional<std::vector<std::int64_t>> read(int rank, DevicePointer address, std::size_t count);
  /// One line for each rank that has given up a wait.
  std::string missed_by_kernels();
  std::string missed_tile(int rank, const std::vector<std::int64_t>& record) const;
  /// The first wait of a stream that is not satisfied, where no kernel has missed one.
  std::string missed_by_streams(std::int64_t epoch);
  void let_go();

  Ranks& ranks_;
  double time_limit_;
  struct Control {
    Stream stream = nullptr;
    std::int64_t* words = nullptr;
  };
  std::vector<Control> controls_;  ///< by rank; ranks of one GPU share theirs
};

}  // namespace syncopate::cuda
