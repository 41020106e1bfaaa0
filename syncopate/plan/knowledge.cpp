#include "syncopate/plan/knowledge.h"

#include <algorithm>

namespace syncopate {

Knowledge::Knowledge(const DependenceGraph& graph, const WorkOrder& order, int stride)
    : graph_(graph), order_(order), stride_(stride) {
  for (const std::vector<int>& work : order.work) {
    std::vector<int>& positions = positions_.emplace_back(work.size());
    for (std::size_t s = 0; s < work.size(); ++s) positions[static_cast<std::size_t>(work[s])] = static_cast<int>(s);
  }
  const std::size_t count = graph.transfers.size();
  reused_by_.resize(count);
  for (std::size_t n = 0; n < count; ++n)
    if (graph.transfers[n].reuses >= 0)
      reused_by_[static_cast<std::size_t>(graph.transfers[n].reuses)].push_back(static_cast<int>(n));
  after_.assign(count, BitSet(count));
  for (const int n : order.transfers) {
    const TransferNode& node = graph.transfers[static_cast<std::size_t>(n)];
    BitSet known(count);
    known.insert(n);
    if (node.previous >= 0) known |= after(node.previous);
    for (const int dependency : node.dependencies) known |= after(dependency);
    known |= after_work(node.source, graph.stored_by[static_cast<std::size_t>(n)]);
    if (node.reuses >= 0) known |= after_work(node.destination, graph.added_by[static_cast<std::size_t>(node.reuses)]);
    after_[static_cast<std::size_t>(n)] = std::move(known);
  }
}

const Work& Knowledge::work_at(int rank, int position) const {
  const auto r = static_cast<std::size_t>(rank);
  return graph_.work[r][static_cast<std::size_t>(order_.work[r][static_cast<std::size_t>(position)])];
}

std::map<int, int> Knowledge::last_positions(int rank, std::span<const int> work) const {
  std::map<int, int> last;
  for (const int w : work) {
    const int position = positions_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(w)];
    const auto [found, is_new] = last.try_emplace(position % stride_, position);
    if (!is_new) found->second = std::max(found->second, position);
  }
  return last;
}

std::vector<int> Knowledge::last_of_workers(int rank, std::span<const int> work) const {
  std::vector<int> list;
  for (const auto& [worker, position] : last_positions(rank, work))
    list.push_back(order_.work[static_cast<std::size_t>(rank)][static_cast<std::size_t>(position)]);
  return list;
}

std::vector<int> Knowledge::behind_work(int rank, std::span<const int> work) const {
  std::vector<int> nodes;
  for (const auto& [worker, end] : last_positions(rank, work))
    for (int position = worker; position <= end; position += stride_) {
      const Work& piece = work_at(rank, position);
      nodes.insert(nodes.end(), piece.needs.begin(), piece.needs.end());
      nodes.insert(nodes.end(), piece.sums.begin(), piece.sums.end());
    }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

BitSet Knowledge::after_work(int rank, std::span<const int> work) const {
  BitSet known(graph_.transfers.size());
  for (const int n : behind_work(rank, work)) known |= after(n);
  return known;
}

bool Knowledge::is_waited_for(const Work& work, const BitSet& known) const {
  const auto is_known = [&](int n) { return known.contains(n); };
  if (std::any_of(work.feeds.begin(), work.feeds.end(), is_known)) return true;
  return std::any_of(work.sums.begin(), work.sums.end(), [&](int sum) {
    const std::vector<int>& followers = reused_by_[static_cast<std::size_t>(sum)];
    return std::any_of(followers.begin(), followers.end(), is_known);
  });
}

std::vector<int> Knowledge::not_done(int rank, std::span<const int> work, const BitSet& known) const {
  const auto slots = static_cast<int>(order_.work[static_cast<std::size_t>(rank)].size());
  std::map<int, int> last_done;  // by worker: its last slot that is done
  std::vector<int> rest;
  for (const int w : work) {
    const int position = positions_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(w)];
    const int worker = position % stride_;
    const auto [last, is_new] = last_done.try_emplace(worker, -1);
    if (is_new)
      for (int s = worker; s < slots; s += stride_)
        if (is_waited_for(work_at(rank, s), known)) last->second = s;
    if (position > last->second) rest.push_back(w);
  }
  return rest;
}

std::vector<int> Knowledge::not_implied(std::span<const int> nodes, const BitSet& known) const {
  std::vector<int> rest;
  for (const int node : nodes)
    if (!known.contains(node)) rest.push_back(node);
  std::vector<int> kept;
  for (const int node : rest) {
    const bool implied =
        std::any_of(rest.begin(), rest.end(), [&](int other) { return other != node && after(other).contains(node); });
    if (!implied) kept.push_back(node);
  }
  return kept;
}

}  // namespace syncopate
