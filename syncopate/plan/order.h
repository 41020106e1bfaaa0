// Pass 3, order: in which order each rank works through its tiles (the tile-scheduler swizzle). Runs after depend.
#pragma once

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
LocalOrder local_order(const std::vector<Tile>& tiles);

/// Tile indices in the order in which `rank` should work: tiles that need no transfer first, then by the estimated
/// arrival of the last chunk each one needs. Tiles that become ready together keep the local kernel's grouped
/// order, so that the cache reuse its author intended survives. A permutation of all tiles.
std::vector<int> order_tiles(const DependenceGraph& graph, const std::vector<Tile>& tiles, int rank);

}  // namespace syncopate
