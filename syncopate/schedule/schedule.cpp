#include "syncopate/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

namespace syncopate {

namespace {

/// Numbers operators of all ranks in one row: of rank 0 first.
class Numbering {
 public:
  explicit Numbering(const Schedule& schedule) {
    first_.reserve(schedule.operators.size() + 1);
    std::size_t total = 0;
    for (const auto& list : schedule.operators) {
      first_.push_back(total);
      total += list.size();
    }
    first_.push_back(total);
  }
  std::size_t size() const { return first_.back(); }
  std::size_t of(Dependency d) const {
    return first_[static_cast<std::size_t>(d.rank)] + static_cast<std::size_t>(d.index);
  }

 private:
  std::vector<std::size_t> first_;
};

SourceLocation place(const Operator& op, const SourceFile* file) {
  return file == nullptr ? SourceLocation{} : file->locate(op.offset);
}

std::string name_of(Dependency d) { return fmt::format("rank {} operator {}", d.rank, d.index); }

/// Checks one operator by itself.
class OperatorCheck {
 public:
  OperatorCheck(const Schedule& schedule, const SourceFile* file, Dependency which)
      : schedule_(schedule), file_(file), which_(which), op_(schedule.at(which)) {}

  void run() const {
    if (const auto* p2p = std::get_if<P2P>(&op_.action)) {
      rank(p2p->source_rank, "the source rank");
      rank(p2p->destination_rank, "the destination rank");
      if (p2p->source_rank == p2p->destination_rank)
        fail(fmt::format("source and destination are both rank {}", p2p->source_rank), "a transfer joins two ranks");
      if (which_.rank != p2p->source_rank && which_.rank != p2p->destination_rank)
        fail(fmt::format("it moves data from rank {} to rank {}", p2p->source_rank, p2p->destination_rank),
             "list it at its source (a push) or at its destination (a pull)");
      const Chunk& source = chunk(p2p->source_chunk);
      same_size(source, chunk(p2p->destination_chunk));
      if (source.region.empty()) fail("its chunk is empty", "leave it out");
      if (p2p->own && p2p->reduction != Reduction::sum)
        fail("it sends a rank's own summand without adding it",
             "only sums have summands: add it, or send what is there");
    } else {
      collective(std::get<Collective>(op_.action));
    }
    if (op_.port < 0) fail(fmt::format("port {}", op_.port), "ports count from 0");
    for (const Dependency& d : op_.dependencies) dependency(d);
  }

 private:
  [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const {
    throw UserError(place(op_, file_), fmt::format("{}: {}", name_of(which_), problem), remedy);
  }
  void rank(int value, std::string_view what) const {
    if (value < 0 || value >= schedule_.ranks())
      fail(fmt::format("{} is {}", what, value), fmt::format("ranks count from 0 to {}", schedule_.ranks() - 1));
  }
  const Chunk& chunk(int index) const {
    if (index < 0 || index >= static_cast<int>(schedule_.chunks.size()))
      fail(fmt::format("it names chunk {}", index),
           fmt::format("the schedule has chunks 0 to {}", static_cast<int>(schedule_.chunks.size()) - 1));
    return schedule_.chunks[static_cast<std::size_t>(index)];
  }
  void same_size(const Chunk& source, const Chunk& destination) const {
    for (int d = 0; d < source.region.dimensions() || d < destination.region.dimensions(); ++d)
      if (source.region.dimensions() != destination.region.dimensions() ||
          source.region[d].size() != destination.region[d].size())
        fail(fmt::format("the source chunk {} and the destination chunk {} differ in size", source.region.to_string(),
                         destination.region.to_string()),
             "a transfer fills its destination exactly");
  }
  void collective(const Collective& collective) const {
    if (collective.ranks.empty()) fail("a collective over no ranks", "list its ranks");
    for (const int r : collective.ranks) rank(r, "a rank of the collective");
    std::vector<int> ranks = collective.ranks;
    std::sort(ranks.begin(), ranks.end());
    if (const auto twice = std::adjacent_find(ranks.begin(), ranks.end()); twice != ranks.end())
      fail(fmt::format("rank {} takes part in the collective twice", *twice), "list every rank once");
    if (!std::binary_search(ranks.begin(), ranks.end(), which_.rank))
      fail(fmt::format("rank {} does not take part in the collective", which_.rank), "list it at one of its ranks");
    if (collective.source_chunks.size() != collective.ranks.size() ||
        collective.destination_chunks.size() != collective.ranks.size())
      fail("a collective needs a source and a destination chunk for each of its ranks",
           fmt::format("give {} of each", collective.ranks.size()));
    const int tensor = chunk(collective.source_chunks.front()).tensor;
    for (const auto* chunks : {&collective.source_chunks, &collective.destination_chunks})
      for (const int c : *chunks)
        if (chunk(c).tensor != tensor) fail("the chunks of a collective belong to several tensors", "split it in two");
  }
  void dependency(const Dependency& d) const {
    rank(d.rank, "the rank of a dependency");
    const auto count = static_cast<int>(schedule_.operators[static_cast<std::size_t>(d.rank)].size());
    if (d.index < 0 || d.index >= count)
      fail(fmt::format("it depends on {}, which does not exist", name_of(d)),
           count == 0 ? fmt::format("rank {} has no operators", d.rank)
                      : fmt::format("rank {} has operators 0 to {}", d.rank, count - 1));
    if (d == which_) fail("it depends on itself", "remove the dependency");
  }

  const Schedule& schedule_;
  const SourceFile* file_;
  Dependency which_;
  const Operator& op_;
};

bool earlier(Dependency a, Dependency b) { return std::pair(a.index, a.rank) < std::pair(b.index, b.rank); }

/// Whether every operator stands after its dependencies when all are sorted by (index, rank), as templates make them.
bool sorted_is_topological(const Schedule& schedule) {
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    const auto& list = schedule.operators[static_cast<std::size_t>(rank)];
    for (int index = 0; index < static_cast<int>(list.size()); ++index)
      for (const Dependency& d : list[static_cast<std::size_t>(index)].dependencies)
        if (!earlier(d, {rank, index})) return false;
  }
  return true;
}

std::vector<Dependency> sorted_operators(const Schedule& schedule) {
  std::size_t longest = 0;
  std::size_t total = 0;
  for (const auto& list : schedule.operators) {
    longest = std::max(longest, list.size());
    total += list.size();
  }
  std::vector<Dependency> order;
  order.reserve(total);
  for (int index = 0; index < static_cast<int>(longest); ++index)
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      if (index < static_cast<int>(schedule.operators[static_cast<std::size_t>(rank)].size()))
        order.push_back({rank, index});
  return order;
}

/// Kahn's algorithm, the smallest (index, rank) first. Returns fewer operators than there are if the dependencies have
/// a cycle.
std::vector<Dependency> peel(const Schedule& schedule) {
  if (sorted_is_topological(schedule)) return sorted_operators(schedule);
  const Numbering numbering(schedule);
  std::vector<std::uint32_t> missing(numbering.size());
  std::vector<std::uint32_t> first_user(numbering.size() + 1);
  for (const auto& list : schedule.operators)
    for (const Operator& op : list)
      for (const Dependency& d : op.dependencies) ++first_user[numbering.of(d) + 1];
  for (std::size_t n = 1; n < first_user.size(); ++n) first_user[n] += first_user[n - 1];
  std::vector<Dependency> users(first_user.back());
  std::vector<std::uint32_t> filled(first_user.begin(), first_user.end() - 1);
  const auto later = [](Dependency a, Dependency b) { return earlier(b, a); };
  std::priority_queue<Dependency, std::vector<Dependency>, decltype(later)> ready(later);
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    const auto& list = schedule.operators[static_cast<std::size_t>(rank)];
    for (int index = 0; index < static_cast<int>(list.size()); ++index) {
      const Dependency which{rank, index};
      const auto& dependencies = list[static_cast<std::size_t>(index)].dependencies;
      missing[numbering.of(which)] = static_cast<std::uint32_t>(dependencies.size());
      for (const Dependency& d : dependencies) users[filled[numbering.of(d)]++] = which;
      if (dependencies.empty()) ready.push(which);
    }
  }
  std::vector<Dependency> order;
  order.reserve(numbering.size());
  while (!ready.empty()) {
    const Dependency which = ready.top();
    ready.pop();
    order.push_back(which);
    const std::size_t n = numbering.of(which);
    for (std::uint32_t u = first_user[n]; u < first_user[n + 1]; ++u)
      if (--missing[numbering.of(users[u])] == 0) ready.push(users[u]);
  }
  return order;
}

/// Requires that a cycle exists: follows unfinished dependencies until an operator comes up again. The first and the
/// last operator of the path are the same.
std::vector<Dependency> find_cycle(const Schedule& schedule, const std::vector<Dependency>& peeled) {
  const Numbering numbering(schedule);
  std::vector<bool> done(numbering.size());
  for (const Dependency& d : peeled) done[numbering.of(d)] = true;
  Dependency at;
  for (int rank = schedule.ranks() - 1; rank >= 0; --rank)
    for (int index = static_cast<int>(schedule.operators[static_cast<std::size_t>(rank)].size()) - 1; index >= 0;
         --index)
      if (!done[numbering.of({rank, index})]) at = {rank, index};
  std::vector<Dependency> path;
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    const auto& dependencies = schedule.at(at).dependencies;
    at = *std::find_if(dependencies.begin(), dependencies.end(), [&](Dependency d) { return !done[numbering.of(d)]; });
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  path.push_back(at);
  return path;
}

void check_tensor(const LogicalTensor& tensor, int ranks, const SourceLocation& where) {
  const auto dimensions = static_cast<int>(tensor.shape.size());
  if (dimensions < 1 || dimensions > kMaxDimensions)
    throw UserError(where, fmt::format("tensor '{}' has {} dimensions", tensor.name, dimensions),
                    fmt::format("from 1 to {}", kMaxDimensions));
  for (const std::int64_t extent : tensor.shape)
    if (extent < 1)
      throw UserError(where, fmt::format("tensor '{}' is {}", tensor.name, to_string(tensor.shape)),
                      "sizes are at least 1");
  for (const Placement& placement : {tensor.before, tensor.after}) {
    if (placement.kind == Placement::Kind::only && (placement.rank < 0 || placement.rank >= ranks))
      throw UserError(where, fmt::format("tensor '{}' is {}", tensor.name, placement.to_string()),
                      fmt::format("ranks count from 0 to {}", ranks - 1));
    if (placement.cuts() && (placement.dimension < 0 || placement.dimension >= dimensions))
      throw UserError(where,
                      fmt::format("tensor '{}' of {} dimensions is {}", tensor.name, dimensions, placement.to_string()),
                      fmt::format("dimensions count from 0 to {}", dimensions - 1));
  }
}

void check_chunk(const Schedule& schedule, const Chunk& chunk, const SourceLocation& where) {
  if (chunk.tensor < 0 || chunk.tensor >= static_cast<int>(schedule.tensors.size()))
    throw UserError(where, fmt::format("chunk {} is of tensor {}", chunk.region.to_string(), chunk.tensor),
                    fmt::format("the schedule has {} tensors", schedule.tensors.size()));
  const LogicalTensor& tensor = schedule.tensors[static_cast<std::size_t>(chunk.tensor)];
  if (chunk.region.dimensions() != static_cast<int>(tensor.shape.size()) ||
      !Region::whole(tensor.shape).contains(chunk.region))
    throw UserError(where, fmt::format("chunk {} is not inside tensor '{}'", chunk.region.to_string(), tensor.name),
                    fmt::format("its shape is {}", to_string(tensor.shape)));
}

}  // namespace

std::string_view collective_name(CollectiveType type) {
  switch (type) {
    case CollectiveType::all_gather:
      return "all_gather";
    case CollectiveType::reduce_scatter:
      return "reduce_scatter";
    case CollectiveType::all_reduce:
      return "all_reduce";
    case CollectiveType::all_to_all:
      return "all_to_all";
    case CollectiveType::broadcast:
      return "broadcast";
  }
  throw InternalError("collective without a name");
}

void validate(const Schedule& schedule, const SourceFile* file) {
  const SourceLocation somewhere = file == nullptr ? SourceLocation{} : SourceLocation{file->name()};
  for (const LogicalTensor& tensor : schedule.tensors) check_tensor(tensor, schedule.ranks(), somewhere);
  for (const Chunk& chunk : schedule.chunks) check_chunk(schedule, chunk, somewhere);
  std::size_t total = 0;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    const auto count = static_cast<int>(schedule.operators[static_cast<std::size_t>(rank)].size());
    for (int index = 0; index < count; ++index) OperatorCheck(schedule, file, {rank, index}).run();
    total += static_cast<std::size_t>(count);
  }
  if (sorted_is_topological(schedule)) return;
  const std::vector<Dependency> order = peel(schedule);
  if (order.size() == total) return;
  const std::vector<Dependency> cycle = find_cycle(schedule, order);
  std::string text = name_of(cycle.front());
  for (std::size_t i = 1; i < cycle.size(); ++i) text += " -> " + name_of(cycle[i]);
  throw UserError(place(schedule.at(cycle.front()), file), fmt::format("the dependencies form a cycle: {}", text),
                  "remove one of these dependencies");
}

std::size_t operator_count(const Schedule& schedule) { return Numbering(schedule).size(); }

std::vector<Dependency> topological_order(const Schedule& schedule) {
  std::vector<Dependency> order = peel(schedule);
  check_internal(order.size() == Numbering(schedule).size(), "topological order of a schedule with a cycle");
  return order;
}

}  // namespace syncopate
