// Part of pass 4: what has completed when something else has, once the order of work is fixed.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "syncopate/plan/bit_set.h"
#include "syncopate/plan/depend.h"
#include "syncopate/plan/order.h"

namespace syncopate {

/// Knowledge is carried by queues and workers, which do one thing after the other, by dependencies, and by the tiles
/// that a transfer waits for.
class Knowledge {
 public:
  /// Work `stride` apart in the order is one worker's.
  Knowledge(const DependenceGraph& graph, const WorkOrder& order, int stride);

  /// The transfers that have completed when transfer n has, n itself included.
  const BitSet& after(int n) const { return after_[static_cast<std::size_t>(n)]; }
  /// The transfers that have completed when these pieces of a rank's work are done, because they or earlier slots of
  /// their workers wait for them; without what those imply.
  const std::vector<int>& behind_work(int rank, std::span<const int> work) const;
  /// The same with what those imply.
  BitSet after_work(int rank, std::span<const int> work) const;
  /// Those of a rank's pieces of work that are not done whenever all transfers in `known` have completed: neither they
  /// nor a later slot of their worker has been waited for by one of these.
  std::vector<int> not_done(int rank, std::span<const int> work, const BitSet& known) const;
  /// Of a rank's pieces of work the last of each worker, by worker: when these are done, so are the others.
  std::vector<int> last_of_workers(int rank, std::span<const int> work) const;
  /// The members of `nodes` that no other member implies, in their order; without those in `known`.
  std::vector<int> not_implied(std::span<const int> nodes, const BitSet& known) const;
  /// By worker: the place in the order of its last piece among `work`.
  std::map<int, int> last_positions(int rank, std::span<const int> work) const;

 private:
  const Work& work_at(int rank, int position) const;
  bool is_waited_for(const Work& work, const BitSet& known) const;

  const DependenceGraph& graph_;
  const WorkOrder& order_;
  int stride_;
  std::vector<std::vector<int>> positions_;  ///< [rank][work]: its place in the order
  std::vector<BitSet> after_;
  /// What behind_work() has found: many transfers wait for the same work.
  mutable std::map<std::pair<int, std::map<int, int>>, std::vector<int>> behind_;
};

}  // namespace syncopate
