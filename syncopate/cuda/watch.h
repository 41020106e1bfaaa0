// Waits for launches of all ranks of one process without ever hanging: what a kernel or a stream waits for in vain
// becomes words, and everything that still waits is let go.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/cuda/rank_watch.h"
#include "syncopate/cuda/ranks.h"

namespace syncopate::cuda {

class Watch {
 public:
  explicit Watch(Ranks& ranks);

  /// Until launch `epoch` is complete on all ranks, however many are before it: the time limit is for one launch, and
  /// counts from the last that has ended on any rank. Nothing if it is; else what was missed, when every stream has
  /// been let go and has ended (or was abandoned, if that takes longer than some seconds).
  std::optional<std::string> await(std::int64_t epoch);

  /// Calls `give`, which gives launches to the GPUs. If it fails, those may have been given in part, and wait for what
  /// never comes: everything is let go before the failure goes on.
  void giving(const std::function<void()>& give);

 private:
  bool complete(int rank, std::int64_t epoch) const;
  /// Of all ranks together.
  std::int64_t launches_ended();
  /// One line for each rank that has given up a wait.
  std::string missed_by_kernels();
  std::string missed_by_streams(std::int64_t epoch);
  bool all_ended() const;
  void let_go();

  Ranks& ranks_;
  double time_limit_;
  std::vector<RankWatch> watches_;  ///< by rank
};

}  // namespace syncopate::cuda
