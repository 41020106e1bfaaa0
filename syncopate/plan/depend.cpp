#include "syncopate/plan/depend.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "syncopate/core/text.h"
#include "syncopate/plan/work.h"

namespace syncopate {

namespace {

/// Reachability takes n^2 bits: 200 MiB at this size.
constexpr std::size_t kMostTransfers = 40000;

/// Appends the operators of one schedule, in topological order.
void add_schedule(DependenceGraph& graph, const BoundOperator& bound, int schedule_index) {
  const CommunicatedTensor& communicated = bound.communicated[static_cast<std::size_t>(schedule_index)];
  const Schedule& schedule = communicated.schedule;
  const std::int64_t element = size_in_bytes(bound.plan.buffer(communicated.buffer).dtype);
  std::map<std::pair<int, int>, int> node_of;        // (rank, index) -> node
  std::map<std::pair<int, int>, int> queue_of;       // (rank, port) -> queue
  std::map<std::pair<int, int>, std::int64_t> busy;  // (rank, port) -> estimated time its last transfer ends
  for (const Dependency& which : topological_order(schedule)) {
    const Operator& op = schedule.at(which);
    const auto* p2p = std::get_if<P2P>(&op.action);
    check_internal(p2p != nullptr, "bind leaves only P2P operators");
    const int id = static_cast<int>(graph.transfers.size());
    TransferNode node;
    node.schedule = schedule_index;
    node.op = which;
    node.owner = which.rank;
    node.source = p2p->source_rank;
    node.destination = p2p->destination_rank;
    node.buffer = communicated.buffer;
    node.chunk = schedule.chunks[static_cast<std::size_t>(p2p->source_chunk)].region;
    node.destination_buffer = communicated.buffer;
    node.destination_region = node.chunk;
    if (communicated.is_reduced()) {
      const Landing& landing =
          communicated.landings[static_cast<std::size_t>(which.rank)][static_cast<std::size_t>(which.index)];
      node.reduces = true;
      node.destination_buffer = staging_buffer(bound.plan);
      node.destination_region = landing.region;
      if (landing.reuses) node.reuses = node_of.at({landing.reuses->rank, landing.reuses->index});
    }

    const std::pair<int, int> port{which.rank, op.port};
    auto& queues = graph.queues[static_cast<std::size_t>(which.rank)];
    const auto [queue, is_new] = queue_of.try_emplace(port, static_cast<int>(queues.size()));
    if (is_new) queues.emplace_back();
    node.queue = queue->second;
    std::vector<int>& issued = queues[static_cast<std::size_t>(node.queue)];
    if (!issued.empty()) node.previous = issued.back();
    issued.push_back(id);

    node.start = busy[port];
    if (node.previous >= 0) node.level = graph.transfers[static_cast<std::size_t>(node.previous)].level;
    for (const Dependency& dependency : op.dependencies) {
      node.dependencies.push_back(node_of.at({dependency.rank, dependency.index}));
      const TransferNode& before = graph.transfers[static_cast<std::size_t>(node.dependencies.back())];
      node.start = std::max(node.start, before.arrival);
      node.level = std::max(node.level, before.level + 1);
    }
    node.arrival = node.start + node.chunk.volume() * element;
    busy[port] = node.arrival;
    node_of[{which.rank, which.index}] = id;
    graph.transfers.push_back(std::move(node));
  }
}

/// Joins work and transfers: who stores what is sent, who adds what arrives, and what that implies.
void join(DependenceGraph& graph) {
  graph.stored_by.resize(graph.transfers.size());
  graph.added_by.resize(graph.transfers.size());
  for (const std::vector<Work>& list : graph.work)
    for (std::size_t w = 0; w < list.size(); ++w) {
      for (const int n : list[w].feeds) graph.stored_by[static_cast<std::size_t>(n)].push_back(static_cast<int>(w));
      for (const int n : list[w].sums) graph.added_by[static_cast<std::size_t>(n)].push_back(static_cast<int>(w));
    }
  for (std::size_t n = 0; n < graph.transfers.size(); ++n) {
    TransferNode& node = graph.transfers[n];
    std::vector<int>& behind = node.behind_tiles;
    const auto add = [&](const std::vector<Work>& list, const std::vector<int>& selected) {
      for (const int w : selected) {
        const Work& work = list[static_cast<std::size_t>(w)];
        behind.insert(behind.end(), work.needs.begin(), work.needs.end());
        behind.insert(behind.end(), work.sums.begin(), work.sums.end());
      }
    };
    add(graph.work[static_cast<std::size_t>(node.source)], graph.stored_by[n]);
    if (node.reuses >= 0)
      add(graph.work[static_cast<std::size_t>(node.destination)],
          graph.added_by[static_cast<std::size_t>(node.reuses)]);
    std::sort(behind.begin(), behind.end());
    behind.erase(std::unique(behind.begin(), behind.end()), behind.end());
  }
}

/// Kahn's algorithm, the smallest node first. Leaves out what waits for itself.
void put_in_order(DependenceGraph& graph) {
  const std::size_t count = graph.transfers.size();
  std::vector<std::vector<int>> followers(count);
  std::vector<int> missing(count, 0);
  for (std::size_t n = 0; n < count; ++n) {
    const TransferNode& node = graph.transfers[n];
    const auto comes_after = [&](int before) {
      followers[static_cast<std::size_t>(before)].push_back(static_cast<int>(n));
      ++missing[n];
    };
    if (node.previous >= 0) comes_after(node.previous);
    std::for_each(node.dependencies.begin(), node.dependencies.end(), comes_after);
    std::for_each(node.behind_tiles.begin(), node.behind_tiles.end(), comes_after);
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t n = 0; n < count; ++n)
    if (missing[n] == 0) ready.push(static_cast<int>(n));
  while (!ready.empty()) {
    const int n = ready.top();
    ready.pop();
    graph.order.push_back(n);
    for (const int follower : followers[static_cast<std::size_t>(n)])
      if (--missing[static_cast<std::size_t>(follower)] == 0) ready.push(follower);
  }
}

/// The levels of transfers rule out circles, except through memory that is used twice.
void check_order(const DependenceGraph& graph, const BoundOperator& bound) {
  if (graph.order.size() == graph.transfers.size()) return;
  for (const CommunicatedTensor& communicated : bound.communicated)
    if (communicated.memory_budget)
      throw UserError(
          communicated.budget_where,
          fmt::format("within a memory budget of {} transfers would wait for each other in a circle",
                      format_bytes(*communicated.memory_budget)),
          "a larger budget, or a schedule that sends the first chunk to every peer before the second to any");
  throw InternalError("transfers wait for each other in a circle");
}

}  // namespace

void check_transfer_count(std::size_t count, const SourceLocation& where) {
  if (count > kMostTransfers)
    throw UserError(where, fmt::format("the operator needs {} transfers", count),
                    fmt::format("plans hold at most {}: use fewer ranks or a smaller split", kMostTransfers));
}

DependenceGraph depend(const BoundOperator& bound) {
  DependenceGraph graph;
  const auto ranks = static_cast<std::size_t>(bound.plan.ranks);
  graph.queues.resize(ranks);
  std::size_t count = 0;
  for (const CommunicatedTensor& communicated : bound.communicated) {
    count += operator_count(communicated.schedule);
    check_transfer_count(count, communicated.where);
  }
  for (std::size_t s = 0; s < bound.communicated.size(); ++s) add_schedule(graph, bound, static_cast<int>(s));
  for (int rank = 0; rank < bound.plan.ranks; ++rank) graph.work.push_back(make_work(bound, graph, rank));
  join(graph);
  put_in_order(graph);
  check_order(graph, bound);
  return graph;
}

}  // namespace syncopate
