// Looks at a rank at work from the host, and lets it go when something went wrong. It works while kernels wait: by
// small copies on a stream of its own, each with a time limit of its own. Of one thread at a time, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/cuda/rank_on_gpu.h"

namespace syncopate::cuda {

/// Words of a kernel's record of a missed wait (docs/emitted_kernel.md).
inline constexpr std::size_t kRecordWords = 8;

class RankWatch {
 public:
  explicit RankWatch(RankOnGpu& rank);

  /// What a kernel of this rank has waited for in vain, in words: rank, tile, launch, signal, flag, expected, seen.
  std::optional<std::string> missed();
  /// The first wait of a queue's stream, or else of the completion, that is not satisfied, in words. For a launch that
  /// takes too long though no kernel has missed a wait.
  std::optional<std::string> stuck();
  /// Lets everything on this rank that waits go on; results are worthless from then on. Streams that still have
  /// launches before them set mailboxes back, so this is to be repeated, every millisecond or so, until they have
  /// ended.
  void let_go();

 private:
  std::optional<std::vector<std::int64_t>> read(DevicePointer address, std::size_t count);

  RankOnGpu& rank_;
  Stream control_;
  std::int64_t* words_;
};

}  // namespace syncopate::cuda
