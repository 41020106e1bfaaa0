#include "syncopate/plan/depend.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>

#include "syncopate/core/text.h"
#include "syncopate/plan/work.h"

namespace syncopate {

namespace {

/// Reachability takes n^2 bits: 200 MiB at this size.
constexpr std::size_t kMostTransfers = 40000;

/// How much faster a rank copies for itself than a link carries, roughly.
constexpr std::int64_t kLocalSpeed = 8;

/// Appends the transfers of one schedule.
class ScheduleAdder {
 public:
  ScheduleAdder(DependenceGraph& graph, const BoundOperator& bound, int schedule)
      : graph_(graph),
        plan_(bound.plan),
        communicated_(bound.communicated[static_cast<std::size_t>(schedule)]),
        schedule_(schedule),
        element_(size_in_bytes(plan_.buffer(communicated_.buffer).dtype)),
        written_(communicated_.caller_buffer >= 0 &&
                 plan_.buffer(communicated_.caller_buffer).role == BufferRole::result) {}

  /// In topological order; then what ranks copy for themselves.
  void run() {
    for (const Dependency& which : topological_order(communicated_.schedule)) add(which);
    for (std::size_t rank = 0; rank < communicated_.own_parts.size(); ++rank)
      for (const Region& part : communicated_.own_parts[rank]) add_own(static_cast<int>(rank), part);
  }

 private:
  TransferNode& node(int n) { return graph_.transfers[static_cast<std::size_t>(n)]; }

  void add(Dependency which) {
    const Operator& op = communicated_.schedule.at(which);
    const auto* p2p = std::get_if<P2P>(&op.action);
    check_internal(p2p != nullptr, "bind leaves only P2P operators");
    TransferNode made;
    made.op = which;
    made.source = p2p->source_rank;
    made.destination = p2p->destination_rank;
    made.chunk = communicated_.schedule.chunks[static_cast<std::size_t>(p2p->source_chunk)].region;
    const bool apart = plan_.buffer(communicated_.buffer).summed_apart;
    made.reduces = p2p->reduction == Reduction::sum && !apart;
    place(made);
    if (apart) {
      made.destination_buffer = summands_buffer(plan_);
      made.destination_region =
          in_stack(made.chunk, plan_.buffer(communicated_.buffer).shape[0], made.destination, made.source);
    }
    if (made.reduces && !plan_.buffer(communicated_.buffer).sums_in_place) {
      const Landing& landing =
          communicated_.landings[static_cast<std::size_t>(which.rank)][static_cast<std::size_t>(which.index)];
      made.destination_buffer = staging_buffer(plan_);
      made.destination_region = landing.region;
      if (landing.reuses) made.reuses = node_of_.at({landing.reuses->rank, landing.reuses->index});
    }
    for (const Dependency& dependency : op.dependencies) {
      made.dependencies.push_back(node_of_.at({dependency.rank, dependency.index}));
      const TransferNode& before = node(made.dependencies.back());
      made.start = std::max(made.start, before.arrival);
      made.level = std::max(made.level, before.level + 1);
    }
    const bool distributes = plan_.buffer(communicated_.buffer).is_reduced() && !made.reduces;
    node_of_[{which.rank, which.index}] = issue(std::move(made), op.port, distributes, 1);
  }

  /// Of an output what leaves the rank goes first, and what stays last.
  void add_own(int rank, const Region& part) {
    TransferNode made;
    made.op = {rank, -1};
    made.source = made.destination = rank;
    made.chunk = part;
    place(made);
    for (const TransferNode& other : graph_.transfers)
      if (written_ && other.schedule == schedule_ && other.source == rank && other.op.index >= 0)
        made.start = std::max(made.start, other.arrival);
    constexpr int kOwnPort = -1;
    issue(std::move(made), kOwnPort, false, kLocalSpeed);
  }

  /// Sums that are handed out have queues of their own: one that is not ready holds up no summand, nor the other way
  /// round.
  int issue(TransferNode made, int port_number, bool distributes, std::int64_t speed) {
    const int id = static_cast<int>(graph_.transfers.size());
    made.schedule = schedule_;
    made.owner = made.op.rank;
    made.buffer = communicated_.buffer;
    const Port port{made.owner, port_number, distributes};
    auto& queues = graph_.queues[static_cast<std::size_t>(made.owner)];
    const auto [queue, is_new] = queue_of_.try_emplace(port, static_cast<int>(queues.size()));
    if (is_new) queues.emplace_back();
    made.queue = queue->second;
    std::vector<int>& issued = queues[static_cast<std::size_t>(made.queue)];
    if (!issued.empty()) {
      made.previous = issued.back();
      made.level = std::max(made.level, node(made.previous).level);
    }
    issued.push_back(id);
    made.start = std::max(made.start, busy_[port]);
    made.arrival = made.start + made.chunk.volume() * element_ / speed;
    busy_[port] = made.arrival;
    graph_.transfers.push_back(std::move(made));
    return id;
  }

  /// Which buffers a chunk moves between. With a source or a result, a rank holds a chunk on the caller's side or on
  /// the kernel's, where its window has it.
  void place(TransferNode& made) const {
    const int kernel = communicated_.buffer;
    const int caller = communicated_.caller_buffer;
    const int origin = written_ ? kernel : caller < 0 ? kernel : caller;
    const int end = written_ ? caller : kernel;
    made.source_buffer = shows(origin, made.source, made.chunk) ? origin : end;
    made.destination_buffer = end;
    for (const auto& [buffer, rank] : {std::pair(made.source_buffer, made.source), std::pair(end, made.destination)})
      if (!shows(buffer, rank, made.chunk))
        throw UserError(communicated_.where,
                        fmt::format("the schedule takes {}{} through rank {}, which has no place for it",
                                    communicated_.schedule.tensors.front().name, made.chunk.to_string(), rank),
                        "send every chunk from the rank that has it straight to the one that needs it");
    made.source_region = in_buffer(plan_.buffer(made.source_buffer), made.source, made.chunk);
    made.destination_region = in_buffer(plan_.buffer(end), made.destination, made.chunk);
  }

  bool shows(int buffer, int rank, const Region& chunk) const {
    return shown_region(plan_.buffer(buffer), rank).contains(chunk);
  }

  DependenceGraph& graph_;
  const Plan& plan_;
  const CommunicatedTensor& communicated_;
  int schedule_;
  std::int64_t element_;
  bool written_;                                ///< there is a result
  using Port = std::tuple<int, int, bool>;      // rank, port of the schedule, whether it distributes sums
  std::map<std::pair<int, int>, int> node_of_;  // (rank, index) -> node
  std::map<Port, int> queue_of_;
  std::map<Port, std::int64_t> busy_;  // estimated time its last transfer ends
};

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
    for (const std::vector<Region>& parts : communicated.own_parts) count += parts.size();
    check_transfer_count(count, communicated.where);
  }
  for (std::size_t s = 0; s < bound.communicated.size(); ++s) ScheduleAdder(graph, bound, static_cast<int>(s)).run();
  for (int rank = 0; rank < bound.plan.ranks; ++rank) graph.work.push_back(make_work(bound, graph, rank));
  join(graph);
  put_in_order(graph);
  check_order(graph, bound);
  return graph;
}

}  // namespace syncopate
