#include "syncopate/plan/order.h"

#include <algorithm>
#include <numeric>

namespace syncopate {

namespace {

/// Sorts tiles that become ready together: bands along the fast axis, and inside a band all other axes before it.
void sort_in_bands(std::span<int> group, const std::vector<Tile>& tiles, const LocalOrder& local) {
  const auto axis = static_cast<std::size_t>(local.fast_axis);
  const auto index = [&](int tile) -> const std::vector<std::int64_t>& {
    return tiles[static_cast<std::size_t>(tile)].index;
  };
  // Bands count the rows that are present, so that a chunk's own rows make full bands wherever it starts.
  std::vector<std::int64_t> rows;
  for (const int tile : group) rows.push_back(index(tile)[axis]);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const auto band = [&](int tile) {
    return (std::lower_bound(rows.begin(), rows.end(), index(tile)[axis]) - rows.begin()) / local.band;
  };
  std::sort(group.begin(), group.end(), [&](int a, int b) {
    if (band(a) != band(b)) return band(a) < band(b);
    for (std::size_t d = 0; d < index(a).size(); ++d)
      if (d != axis && index(a)[d] != index(b)[d]) return index(a)[d] < index(b)[d];
    if (index(a)[axis] != index(b)[axis]) return index(a)[axis] < index(b)[axis];
    return a < b;
  });
}

}  // namespace

LocalOrder local_order(const std::vector<Tile>& tiles) {
  LocalOrder order;
  if (tiles.size() < 2) return order;
  const auto differing_axis = [&](std::size_t a, std::size_t b) {
    int axis = -1;
    for (std::size_t d = 0; d < tiles[a].index.size(); ++d) {
      if (tiles[a].index[d] == tiles[b].index[d]) continue;
      if (axis >= 0) return -1;
      axis = static_cast<int>(d);
    }
    return axis;
  };
  const int fast = differing_axis(0, 1);
  if (fast < 0) return order;
  order.fast_axis = fast;
  order.band = 2;
  while (static_cast<std::size_t>(order.band) < tiles.size() &&
         differing_axis(static_cast<std::size_t>(order.band) - 1, static_cast<std::size_t>(order.band)) == fast)
    ++order.band;
  return order;
}

std::vector<int> order_tiles(const DependenceGraph& graph, const std::vector<Tile>& tiles, int rank) {
  // ready[tile]: estimated arrival of the last chunk it needs; 0 for tiles that need none.
  std::vector<std::int64_t> ready(tiles.size(), 0);
  for (std::size_t t = 0; t < tiles.size(); ++t)
    for (const int node : graph.needs[static_cast<std::size_t>(rank)][t])
      ready[t] = std::max(ready[t], graph.transfers[static_cast<std::size_t>(node)].arrival);
  std::vector<int> order(tiles.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return ready[static_cast<std::size_t>(a)] < ready[static_cast<std::size_t>(b)];
  });
  const LocalOrder local = local_order(tiles);
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() &&
           ready[static_cast<std::size_t>(order[end])] == ready[static_cast<std::size_t>(order[begin])])
      ++end;
    sort_in_bands(std::span(order).subspan(begin, end - begin), tiles, local);
    begin = end;
  }
  return order;
}

}  // namespace syncopate
