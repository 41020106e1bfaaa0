#include "syncopate/plan/deal.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

namespace syncopate {

namespace {

/// Elements that a tile reads.
std::int64_t cost_of(const Tile& tile) {
  std::int64_t cost = 0;
  for (const TileAccess& read : tile.reads) cost += read.region.volume();
  for (const LoopPiece& piece : tile.pieces)
    for (const TileAccess& read : piece.reads) cost += read.region.volume();
  return cost;
}

/// Numbers 0, 1, ... sorted by `before`; equal ones stay in this order.
template <typename Before>
std::vector<std::size_t> sorted(std::size_t count, Before&& before) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::stable_sort(numbers.begin(), numbers.end(), before);
  return numbers;
}

void deal_round(std::span<int> round, const std::vector<std::int64_t>& costs, std::vector<std::int64_t>& loads) {
  const std::vector<int> items(round.begin(), round.end());
  const auto cost = [&](std::size_t item) { return costs[static_cast<std::size_t>(items[item])]; };
  const auto longest = sorted(round.size(), [&](std::size_t a, std::size_t b) { return cost(a) > cost(b); });
  const auto idlest = sorted(round.size(), [&](std::size_t a, std::size_t b) { return loads[a] < loads[b]; });
  for (std::size_t i = 0; i < round.size(); ++i) {
    round[idlest[i]] = items[longest[i]];
    loads[idlest[i]] += cost(longest[i]);
  }
}

}  // namespace

void deal_work(const DependenceGraph& graph, const std::vector<Tile>& tiles, int workers, WorkOrder& order) {
  for (std::size_t rank = 0; rank < graph.work.size(); ++rank) {
    const std::vector<Work>& list = graph.work[rank];
    if (std::any_of(list.begin(), list.end(), [](const Work& w) { return !w.sums.empty() || !w.frees.empty(); }))
      continue;
    std::vector<std::int64_t> costs;
    for (const Work& work : list) costs.push_back(cost_of(tiles[static_cast<std::size_t>(work.tile)]));
    const std::int64_t all = std::accumulate(costs.begin(), costs.end(), std::int64_t{0});
    const std::int64_t most = costs.empty() ? 0 : *std::max_element(costs.begin(), costs.end());
    if (4 * (all / std::max<std::int64_t>(1, static_cast<std::int64_t>(costs.size()))) >= 3 * most) continue;
    std::vector<std::int64_t> loads(static_cast<std::size_t>(workers), 0);
    std::vector<int>& slots = order.work[rank];
    for (std::size_t begin = 0; begin < slots.size(); begin += loads.size())
      deal_round(std::span(slots).subspan(begin, std::min(loads.size(), slots.size() - begin)), costs, loads);
  }
}

}  // namespace syncopate
