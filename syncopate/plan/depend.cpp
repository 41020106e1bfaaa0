#include "syncopate/plan/depend.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

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
    check_internal(p2p != nullptr && p2p->reduction == Reduction::none, "bind leaves only plain P2P operators");
    const int id = static_cast<int>(graph.transfers.size());
    TransferNode node;
    node.schedule = schedule_index;
    node.op = which;
    node.owner = which.rank;
    node.source = p2p->source_rank;
    node.destination = p2p->destination_rank;
    node.buffer = communicated.buffer;
    node.source_region = schedule.chunks[static_cast<std::size_t>(p2p->source_chunk)].region;
    node.destination_region = schedule.chunks[static_cast<std::size_t>(p2p->destination_chunk)].region;

    const std::pair<int, int> port{which.rank, op.port};
    auto& queues = graph.queues[static_cast<std::size_t>(which.rank)];
    const auto [queue, is_new] = queue_of.try_emplace(port, static_cast<int>(queues.size()));
    if (is_new) queues.emplace_back();
    node.queue = queue->second;
    std::vector<int>& issued = queues[static_cast<std::size_t>(node.queue)];
    if (!issued.empty()) node.previous = issued.back();
    issued.push_back(id);

    std::int64_t start = busy[port];
    for (const Dependency& dependency : op.dependencies) {
      node.dependencies.push_back(node_of.at({dependency.rank, dependency.index}));
      start = std::max(start, graph.transfers[static_cast<std::size_t>(node.dependencies.back())].arrival);
    }
    node.arrival = start + node.destination_region.volume() * element;
    busy[port] = node.arrival;
    node_of[{which.rank, which.index}] = id;
    graph.transfers.push_back(std::move(node));
  }
}

void close(DependenceGraph& graph) {
  const std::size_t count = graph.transfers.size();
  graph.closure.assign(count, BitSet(count));
  for (std::size_t n = 0; n < count; ++n) {
    BitSet& closure = graph.closure[n];
    const TransferNode& node = graph.transfers[n];
    closure.insert(static_cast<int>(n));
    if (node.previous >= 0) closure |= graph.closure[static_cast<std::size_t>(node.previous)];
    for (const int dependency : node.dependencies) closure |= graph.closure[static_cast<std::size_t>(dependency)];
  }
}

/// needs[tile] of one rank.
std::vector<std::vector<int>> tile_needs(const DependenceGraph& graph, const std::vector<Tile>& tiles, int rank) {
  std::vector<int> arriving;
  for (std::size_t n = 0; n < graph.transfers.size(); ++n)
    if (graph.transfers[n].destination == rank) arriving.push_back(static_cast<int>(n));
  std::vector<std::vector<int>> needs(tiles.size());
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    for (const int n : arriving) {
      const TransferNode& node = graph.transfers[static_cast<std::size_t>(n)];
      const bool needed = std::any_of(tiles[t].reads.begin(), tiles[t].reads.end(), [&](const TileAccess& read) {
        return read.buffer == node.buffer && read.region.overlaps(node.destination_region);
      });
      if (needed) needs[t].push_back(n);
    }
  }
  return needs;
}

}  // namespace

DependenceGraph depend(const BoundOperator& bound) {
  DependenceGraph graph;
  const auto ranks = static_cast<std::size_t>(bound.plan.ranks);
  graph.queues.resize(ranks);
  std::size_t count = 0;
  for (const CommunicatedTensor& communicated : bound.communicated)
    for (const auto& list : communicated.schedule.operators) count += list.size();
  if (count > kMostTransfers)
    throw UserError({}, fmt::format("the operator needs {} transfers", count),
                    fmt::format("plans hold at most {}: use fewer ranks or a smaller split", kMostTransfers));
  for (std::size_t s = 0; s < bound.communicated.size(); ++s) add_schedule(graph, bound, static_cast<int>(s));
  close(graph);
  graph.needs.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    graph.needs[rank] = tile_needs(graph, bound.plan.tiles, static_cast<int>(rank));
  return graph;
}

std::vector<int> not_implied(const DependenceGraph& graph, std::span<const int> nodes, const BitSet& known) {
  std::vector<int> rest;
  for (const int node : nodes)
    if (!known.contains(node)) rest.push_back(node);
  std::vector<int> kept;
  for (const int node : rest) {
    const bool implied = std::any_of(rest.begin(), rest.end(), [&](int other) {
      return other != node && graph.closure[static_cast<std::size_t>(other)].contains(node);
    });
    if (!implied) kept.push_back(node);
  }
  return kept;
}

}  // namespace syncopate
