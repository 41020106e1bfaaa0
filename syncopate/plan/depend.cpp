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

using Port = std::tuple<int, int, bool>;  // rank, port of the schedule, whether it distributes sums

/// The queues that transfers have been put in.
struct Ports {
  std::map<Port, int> queue_of;
  std::map<Port, std::int64_t> busy;  ///< estimated time its last transfer ends
};

/// Appends the transfers of one schedule.
class ScheduleAdder {
 public:
  /// `own_inputs`: where ranks copy parts of inputs for themselves. All of these wait for nothing, and memory is no
  /// faster for several at once: so a rank has one queue for them, whichever schedule they belong to. Parts of a folded
  /// buffer wait for tiles, and have queues of their own.
  ScheduleAdder(DependenceGraph& graph, const BoundOperator& bound, int schedule, Ports& own_inputs)
      : graph_(graph),
        plan_(bound.plan),
        communicated_(bound.communicated[static_cast<std::size_t>(schedule)]),
        schedule_(schedule),
        element_(size_in_bytes(plan_.buffer(communicated_.buffer).dtype)),
        written_(communicated_.caller_buffer >= 0 &&
                 plan_.buffer(communicated_.caller_buffer).role == BufferRole::result),
        own_ports_(written_ || communicated_.pages ? ports_ : own_inputs) {}

  /// In topological order, and page by page; then what ranks copy for themselves.
  void run() {
    std::vector<Dependency> order = topological_order(communicated_.schedule);
    if (communicated_.pages)
      std::stable_sort(order.begin(), order.end(), [&](const Dependency& a, const Dependency& b) {
        return communicated_.pages->page_of(chunk_of(a)) < communicated_.pages->page_of(chunk_of(b));
      });
    for (const Dependency& which : order) add(which);
    for (std::size_t rank = 0; rank < communicated_.own_parts.size(); ++rank)
      for (const Region& part : communicated_.own_parts[rank]) add_own(static_cast<int>(rank), part);
  }

 private:
  TransferNode& node(int n) { return graph_.transfers[static_cast<std::size_t>(n)]; }

  const Region& chunk_of(Dependency which) const {
    const auto* p2p = std::get_if<P2P>(&communicated_.schedule.at(which).action);
    check_internal(p2p != nullptr, "bind leaves only P2P operators");
    return communicated_.schedule.chunks[static_cast<std::size_t>(p2p->source_chunk)].region;
  }

  void add(Dependency which) {
    const Operator& op = communicated_.schedule.at(which);
    if (is_left_out(which)) {
      behind_[{which.rank, which.index}] = nodes_of(op.dependencies);
      return;
    }
    TransferNode made;
    made.chunk = chunk_of(which);
    const auto& p2p = std::get<P2P>(op.action);
    made.op = which;
    made.source = p2p.source_rank;
    made.destination = p2p.destination_rank;
    const bool apart = plan_.buffer(communicated_.buffer).summed_apart;
    made.reduces = p2p.reduction == Reduction::sum && !apart;
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
    made.dependencies = nodes_of(op.dependencies);
    replace(made);
    come_after_dependencies(made);
    const bool distributes = plan_.buffer(communicated_.buffer).is_reduced() && !made.reduces;
    node_of_[{which.rank, which.index}] = issue(std::move(made), ports_, op.port, distributes, 1);
  }

  bool is_left_out(Dependency which) const {
    return !communicated_.left_out.empty() &&
           communicated_.left_out[static_cast<std::size_t>(which.rank)][static_cast<std::size_t>(which.index)];
  }

  /// The nodes of operators; of one that is left out those that it would have come after.
  std::vector<int> nodes_of(const std::vector<Dependency>& operators) const {
    std::vector<int> nodes;
    for (const Dependency& d : operators) {
      const auto made = node_of_.find({d.rank, d.index});
      const std::vector<int>& more = made != node_of_.end() ? std::vector{made->second} : behind_.at({d.rank, d.index});
      for (const int n : more)
        if (std::find(nodes.begin(), nodes.end(), n) == nodes.end()) nodes.push_back(n);
    }
    return nodes;
  }

  /// Of an output what leaves the rank goes first, and what stays last.
  void add_own(int rank, const Region& part) {
    TransferNode made;
    made.op = {rank, -1};
    made.source = made.destination = rank;
    made.chunk = part;
    place(made);
    replace(made);
    come_after_dependencies(made);
    for (const TransferNode& other : graph_.transfers)
      if (written_ && other.schedule == schedule_ && other.source == rank && other.op.index >= 0)
        made.start = std::max(made.start, other.arrival);
    constexpr int kOwnPort = -1;
    issue(std::move(made), own_ports_, kOwnPort, false, kLocalSpeed);
  }

  void come_after_dependencies(TransferNode& made) {
    for (const int dependency : made.dependencies) {
      const TransferNode& before = node(dependency);
      made.start = std::max(made.start, before.arrival);
      made.level = std::max(made.level, before.level + 1);
    }
  }

  /// In a folded buffer: what stands where a chunk will has come, and whoever sends it on from there has done so.
  void replace(TransferNode& made) {
    if (!communicated_.pages) return;
    const Buffer& buffer = plan_.buffer(communicated_.buffer);
    const auto kept = static_cast<int>(buffer.fold->extent / communicated_.pages->size);
    const int page = communicated_.pages->page_of(made.chunk);
    const auto number = static_cast<int>(graph_.transfers.size());
    at_page_[{made.destination, page}].push_back(number);
    if (made.source_buffer == communicated_.buffer) at_page_[{made.source, page}].push_back(number);
    // Where a chunk of the page before was left out, what stands there is older.
    for (int before = page - kept; before >= 0 && made.replaces.empty(); before -= kept) {
      const auto found = at_page_.find({made.destination, before});
      if (found == at_page_.end()) continue;
      for (const int n : found->second) {
        const TransferNode& other = node(n);
        if (!share_memory(buffer, other.chunk, made.chunk)) continue;
        made.dependencies.push_back(n);
        if (other.destination == made.destination) made.replaces.push_back(n);
      }
    }
    std::sort(made.dependencies.begin(), made.dependencies.end());
  }

  /// Sums that are handed out have queues of their own: one that is not ready holds up no summand, nor the other way
  /// round.
  int issue(TransferNode made, Ports& ports, int port_number, bool distributes, std::int64_t speed) {
    const int id = static_cast<int>(graph_.transfers.size());
    made.schedule = schedule_;
    made.owner = made.op.rank;
    made.buffer = communicated_.buffer;
    const Port port{made.owner, port_number, distributes};
    auto& queues = graph_.queues[static_cast<std::size_t>(made.owner)];
    const auto [queue, is_new] = ports.queue_of.try_emplace(port, static_cast<int>(queues.size()));
    if (is_new) queues.emplace_back();
    made.queue = queue->second;
    std::vector<int>& issued = queues[static_cast<std::size_t>(made.queue)];
    if (!issued.empty()) {
      made.previous = issued.back();
      made.level = std::max(made.level, node(made.previous).level);
    }
    issued.push_back(id);
    made.start = std::max(made.start, ports.busy[port]);
    made.arrival = made.start + made.chunk.volume() * element_ / speed;
    ports.busy[port] = made.arrival;
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
  bool written_;  ///< there is a result
  Ports ports_;
  Ports& own_ports_;
  std::map<std::pair<int, int>, int> node_of_;              // (rank, index) -> node
  std::map<std::pair<int, int>, std::vector<int>> behind_;  // of operators that are left out: what they wait for
  /// (rank, page) -> nodes that bring something of it there, or send something of it on from there
  std::map<std::pair<int, int>, std::vector<int>> at_page_;
};

/// What work must be done before a transfer lands. Needs `added_by`.
void find_freed(DependenceGraph& graph) {
  graph.freed_by.resize(graph.transfers.size());
  std::vector<std::vector<int>> read_by(graph.transfers.size());
  for (const std::vector<Work>& list : graph.work)
    for (std::size_t w = 0; w < list.size(); ++w)
      for (const int n : list[w].needs) read_by[static_cast<std::size_t>(n)].push_back(static_cast<int>(w));
  for (std::size_t n = 0; n < graph.transfers.size(); ++n) {
    const TransferNode& node = graph.transfers[n];
    std::vector<int>& freeing = graph.freed_by[n];
    if (node.reuses >= 0) freeing = graph.added_by[static_cast<std::size_t>(node.reuses)];
    for (const int old : node.replaces) {
      const std::vector<int>& readers = read_by[static_cast<std::size_t>(old)];
      freeing.insert(freeing.end(), readers.begin(), readers.end());
    }
    std::sort(freeing.begin(), freeing.end());
    freeing.erase(std::unique(freeing.begin(), freeing.end()), freeing.end());
    std::vector<Work>& list = graph.work[static_cast<std::size_t>(node.destination)];
    for (const int w : freeing) list[static_cast<std::size_t>(w)].frees.push_back(static_cast<int>(n));
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
  find_freed(graph);
  for (std::size_t n = 0; n < graph.transfers.size(); ++n) {
    TransferNode& node = graph.transfers[n];
    std::vector<int>& behind = node.behind_tiles;
    const auto add = [&](const std::vector<Work>& list, const std::vector<int>& selected) {
      const Work* last = nullptr;  // neighbours need much the same
      for (const int w : selected) {
        const Work& work = list[static_cast<std::size_t>(w)];
        if (last == nullptr || last->needs != work.needs)
          behind.insert(behind.end(), work.needs.begin(), work.needs.end());
        last = &work;
        behind.insert(behind.end(), work.sums.begin(), work.sums.end());
      }
    };
    add(graph.work[static_cast<std::size_t>(node.source)], graph.stored_by[n]);
    add(graph.work[static_cast<std::size_t>(node.destination)], graph.freed_by[n]);
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
          communicated.pages
              ? "a larger budget: tiles read the tensor's parts in another order than those of other tensors"
              : "a larger budget, or a schedule that sends the first chunk to every peer before the second to any");
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
  Ports own_inputs;
  for (std::size_t s = 0; s < bound.communicated.size(); ++s)
    ScheduleAdder(graph, bound, static_cast<int>(s), own_inputs).run();
  for (int rank = 0; rank < bound.plan.ranks; ++rank) graph.work.push_back(make_work(bound, graph, rank));
  join(graph);
  put_in_order(graph);
  check_order(graph, bound);
  return graph;
}

}  // namespace syncopate
