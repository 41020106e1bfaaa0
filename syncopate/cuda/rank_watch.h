// Looks at a rank at work from the host, and lets it go when something went wrong. It works while kernels wait: by
// small copies on a stream of its own, each with a time limit of its own. Of one thread at a time, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/cuda/rank_on_gpu.h"

namespace syncopate::cuda {

class RankWatch {
 public:
  /// `control` is for watching alone; watches of ranks on one GPU may share it.
  RankWatch(RankOnGpu& rank, Stream control);

  /// What a kernel of this rank has waited for in vain, in words: rank, tile, launch, signal, flag, expected, seen.
  std::optional<std::string> missed();
  /// The first of `ranks` whose record says that it has missed a wait, or was let go. A rank that has missed a wait
  /// goes on with garbage, and raises what its peers wait for: their launches then end as if nothing had happened, so
  /// that none of them is good before the records of all ranks have been looked at.
  std::optional<int> missed_elsewhere(const std::vector<int>& ranks);
  /// How many launches of this rank have ended since it was made; nothing if its memory cannot be read.
  std::optional<std::int64_t> launches_ended();
  /// For a launch that takes too long though no kernel has missed a wait: the empty mailboxes of this rank, in words.
  /// One of them may be what a queue's stream waits for; others may have been taken already in this launch.
  std::string empty_mailboxes();
  /// Lets everything on this rank that waits go on; results are worthless from then on. Streams that still have
  /// launches before them set mailboxes back, so this is to be repeated, every millisecond or so, until they have
  /// ended.
  void let_go();

 private:
  /// Nothing if the words do not come in time.
  std::optional<std::vector<std::int64_t>> read(DevicePointer address, std::size_t count);
  /// `count` words from each address, one after the other.
  std::optional<std::vector<std::int64_t>> read_each(const std::vector<DevicePointer>& addresses, std::size_t count);

  RankOnGpu& rank_;
  Stream control_;
  std::int64_t* words_;
};

}  // namespace syncopate::cuda
