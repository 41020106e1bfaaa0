#include "syncopate/plan/sum_order.h"

#include <algorithm>

namespace syncopate {

namespace {

class SumFinder {
 public:
  SumFinder(const Plan& plan, const DependenceGraph& graph)
      : graph_(graph), arriving_(static_cast<std::size_t>(plan.ranks)), distributed_(arriving_.size()) {
    const int reduced = reduced_buffer(plan);
    for (std::size_t n = 0; n < graph.transfers.size(); ++n) {
      const TransferNode& node = graph.transfers[n];
      if (node.buffer != reduced) continue;
      auto& lists = node.reduces ? arriving_ : distributed_;
      lists[static_cast<std::size_t>(node.destination)].push_back(static_cast<int>(n));
      borders_.insert(borders_.end(), {node.chunk[0].begin, node.chunk[0].end});
    }
    for (std::vector<int>& list : arriving_)
      std::sort(list.begin(), list.end(), [&](int a, int b) { return transfer(a).source < transfer(b).source; });
    std::sort(borders_.begin(), borders_.end());
    borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
  }

  /// Appends the sums of these rows of a rank, neighbours of equal order as one.
  void add(int rank, int buffer, const Region& output, std::vector<Sum>& sums) const {
    std::int64_t begin = output[0].begin;
    const std::size_t first = sums.size();
    while (begin < output[0].end) {
      const auto border = std::upper_bound(borders_.begin(), borders_.end(), begin);
      const std::int64_t end = border == borders_.end() ? output[0].end : std::min(*border, output[0].end);
      SumOrder order = order_of(adder_of(rank, begin), begin);
      if (sums.size() > first && sums.back().order == order) {
        sums.back().region[0].end = end;
      } else {
        Region region = output;
        region[0] = {begin, end};
        sums.push_back({rank, buffer, region, std::move(order)});
      }
      begin = end;
    }
  }

 private:
  const TransferNode& transfer(int n) const { return graph_.transfers[static_cast<std::size_t>(n)]; }

  /// The rank whose tiles make the sum that a rank holds of a row in the end: itself, or whoever distributes it.
  int adder_of(int rank, std::int64_t row) const {
    for (const int n : distributed_[static_cast<std::size_t>(rank)])
      if (row >= transfer(n).chunk[0].begin && row < transfer(n).chunk[0].end) return adder_of(transfer(n).source, row);
    return rank;
  }

  /// The sum that a rank's tiles make of a row. What it receives was complete when it was sent (depend.h).
  SumOrder order_of(int rank, std::int64_t row) const {
    const SumOrder own{rank, {}};
    SumOrder sum;
    bool own_added = false;
    for (const int n : arriving_[static_cast<std::size_t>(rank)]) {
      const TransferNode& node = transfer(n);
      if (row < node.chunk[0].begin || row >= node.chunk[0].end) continue;
      if (!own_added && node.source > rank) {
        sum.terms.push_back(own);
        own_added = true;
      }
      sum.terms.push_back(order_of(node.source, row));
    }
    if (sum.terms.empty()) return own;
    if (!own_added) sum.terms.push_back(own);
    return sum;
  }

  const DependenceGraph& graph_;
  std::vector<std::vector<int>> arriving_;     ///< per rank: nodes that bring summands, ascending by source
  std::vector<std::vector<int>> distributed_;  ///< per rank: nodes that bring whole sums
  std::vector<std::int64_t> borders_;          ///< rows where chunks begin or end
};

/// All summands, in the order of the ranks, on every rank.
void add_one_shot(const Plan& plan, int result, std::vector<Sum>& sums) {
  SumOrder order;
  for (int rank = 0; rank < plan.ranks; ++rank) order.terms.push_back({rank, {}});
  for (int rank = 0; rank < plan.ranks; ++rank)
    sums.push_back({rank, result, output_region(plan, result, rank), order});
}

}  // namespace

std::vector<Sum> sum_orders(const Plan& plan, const DependenceGraph& graph) {
  std::vector<Sum> sums;
  if (const int result = added_up_buffer(plan); result >= 0) add_one_shot(plan, result, sums);
  const int reduced = reduced_buffer(plan);
  if (reduced < 0) return sums;
  const SumFinder finder(plan, graph);
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const Region output = output_region(plan, reduced, rank);
    if (!output.empty()) finder.add(rank, reduced, output, sums);
  }
  return sums;
}

}  // namespace syncopate
