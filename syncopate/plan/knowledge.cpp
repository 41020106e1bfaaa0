#include "syncopate/plan/knowledge.h"

#include <algorithm>
#include <iterator>

namespace syncopate {

Knowledge::Knowledge(const DependenceGraph& graph, const WorkOrder& order, int stride)
    : graph_(graph), order_(order), stride_(stride) {
  for (const std::vector<int>& work : order.work) {
    std::vector<int>& positions = positions_.emplace_back(work.size());
    for (std::size_t s = 0; s < work.size(); ++s) positions[static_cast<std::size_t>(work[s])] = static_cast<int>(s);
  }
  const std::size_t count = graph.transfers.size();
  after_.assign(count, BitSet(count));
  for (const int n : order.transfers) {
    const TransferNode& node = graph.transfers[static_cast<std::size_t>(n)];
    BitSet known(count);
    known.insert(n);
    if (node.previous >= 0) known |= after(node.previous);
    for (const int dependency : node.dependencies) known |= after(dependency);
    known |= after_work(node.source, graph.stored_by[static_cast<std::size_t>(n)]);
    known |= after_work(node.destination, graph.freed_by[static_cast<std::size_t>(n)]);
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

const std::vector<int>& Knowledge::behind_work(int rank, std::span<const int> work) const {
  std::map<int, int> last = last_positions(rank, work);
  const auto [found, is_new] = behind_.try_emplace({rank, last});
  std::vector<int>& nodes = found->second;
  if (!is_new) return nodes;
  std::vector<bool> seen(graph_.transfers.size(), false);
  for (const auto& [worker, end] : last)
    for (int position = worker; position <= end; position += stride_) {
      const Work& piece = work_at(rank, position);
      for (const std::vector<int>* list : {&piece.needs, &piece.sums})
        for (const int n : *list) {
          if (seen[static_cast<std::size_t>(n)]) continue;
          seen[static_cast<std::size_t>(n)] = true;
          nodes.push_back(n);
        }
    }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

BitSet Knowledge::after_work(int rank, std::span<const int> work) const {
  BitSet known(graph_.transfers.size());
  for (const int n : behind_work(rank, work)) known |= after(n);
  return known;
}

bool Knowledge::is_waited_for(const Work& work, const BitSet& known) const {
  const auto is_known = [&](int n) { return known.contains(n); };
  return std::any_of(work.feeds.begin(), work.feeds.end(), is_known) ||
         std::any_of(work.frees.begin(), work.frees.end(), is_known);
}

std::vector<int> Knowledge::not_done(int rank, std::span<const int> work, const BitSet& known) const {
  const auto slots = static_cast<int>(order_.work[static_cast<std::size_t>(rank)].size());
  const auto position_of = [&](int w) {
    return positions_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(w)];
  };
  std::map<int, int> first;  // by worker: its first slot that is asked for
  for (const int w : work) {
    const auto [found, is_new] = first.try_emplace(position_of(w) % stride_, position_of(w));
    found->second = std::min(found->second, position_of(w));
  }
  std::map<int, int> last_done;  // by worker: its last slot that is done, if that is not before
  for (const auto& [worker, begin] : first) {
    int s = (slots - 1 - worker) / stride_ * stride_ + worker;
    while (s >= begin && !is_waited_for(work_at(rank, s), known)) s -= stride_;
    last_done[worker] = s;
  }
  std::vector<int> rest;
  std::copy_if(work.begin(), work.end(), std::back_inserter(rest),
               [&](int w) { return position_of(w) > last_done[position_of(w) % stride_]; });
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
