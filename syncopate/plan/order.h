// Pass 3, order: in which order each rank works through its tiles (the tile-scheduler swizzle). Runs after depend.
#pragma once

#include <span>
#include <vector>

#include "syncopate/plan/depend.h"
#include "syncopate/plan/plan.h"

namespace syncopate {

/// How the local kernel walks its tiles: consecutive tiles run along one axis, `band` of them, before another
/// axis advances. Grouped (swizzled) orders have a band of GROUP_M tiles; a plain row-major order has the whole row.
struct LocalOrder {
  int fast_axis = 0;
  std::int64_t band = 1;
};
/// Read off the first tiles of the local kernel's order.
LocalOrder local_order(std::span<const Tile> tiles);

/// One order of everything, in which nothing stands before what it waits for.
struct WorkOrder {
  /// Per rank, indices into graph.work[rank]: the rank's part of that order.
  std::vector<std::vector<int>> work;
  /// The transfers in that order.
  std::vector<int> transfers;
};

/// Work whose stores leave stands in the order of departure; if they leave for the callers of other ranks only, in that
/// of the estimated arrival of the last chunk it needs, and of departure where that is the same. Work that adds what
/// arrives and keeps it comes last, by the estimated arrival of the last chunk it needs; within a memory budget, just
/// before the rank makes what leaves when the memory that it frees is wanted again. Where nothing leaves: work that
/// needs no transfer first, then by estimated arrival. Work that belongs together in this keeps the local kernel's
/// grouped order, so that the cache reuse its author intended survives. However many workers take the slots, ranks
/// never wait for each other in a circle, since the orders of all ranks and queues are parts of one.
/// `tiles` are the plan's.
WorkOrder order_work(const DependenceGraph& graph, const std::vector<Tile>& tiles);

}  // namespace syncopate
