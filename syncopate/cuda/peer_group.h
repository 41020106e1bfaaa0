// One rank among processes: it tells the others how to reach its memory, opens theirs, gives launches to its GPU, and
// sees to it that a failure on any rank ends in the same words on all of them, and never in a hang.
//
// A thread looks on while launches are under way (and from the first captured call on always: replays of a graph are
// not seen from the host). Every 50 ms it looks whether a kernel of this rank has missed a wait, whether another rank
// has told of a failure, and whether a process has died. After a failure it lets this rank's GPU go, and
// every further call fails. Before launches are called good, the records of all ranks are looked at: a rank that has
// missed a wait goes on with garbage, with which its peers' launches may end before it is seen.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/cuda/rank_on_gpu.h"

namespace syncopate::cuda {

class PeerGroup {
 public:
  /// `rank` must outlive it. Throws UserError if memory cannot be shared here.
  PeerGroup(RankOnGpu& rank, int ranks_on_device);
  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;
  /// leave(), if that has not been called.
  ~PeerGroup();

  /// What connect() of the other ranks needs.
  const std::string& handle() const;
  /// Once, with the handles of all ranks, by rank. Throws UserError if they do not fit together or cannot be reached.
  void connect(const std::vector<std::string>& handles);

  /// One launch (RankOnGpu::call). Nothing, or why no launch is possible any more. Waits for the GPU only while 1024
  /// launches are under way (LaunchRecord), until the oldest has ended or failed.
  std::optional<std::string> call(Stream stream);
  /// The failure of the group, if this rank can know of one by now. From any thread.
  std::optional<std::string> failure();
  /// Waits until all calls so far (but those captured) are complete, or have failed.
  std::optional<std::string> synchronize();

  /// Waits for this rank's launches, closes the peers' memory, and then waits some seconds for the peers to do so with
  /// this rank's. If they do not, nothing on this GPU is freed. Nothing else may follow.
  void leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace syncopate::cuda
