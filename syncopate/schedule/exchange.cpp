// All-reduces and all-to-alls.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "syncopate/schedule/templates.h"

namespace syncopate {

namespace {

/// Adds the operators of `from`, which is about tensor 0, to a schedule that is made.
class Appender {
 public:
  explicit Appender(ScheduleBuilder& builder) : builder_(builder) {}

  /// `before(p2p)`: what an operator waits for besides its own dependencies. Returns what was added.
  template <typename Before>
  std::vector<std::pair<P2P, Dependency>> append(const Schedule& from, int port_offset, Before&& before) {
    std::map<std::pair<int, int>, Dependency> moved;
    std::vector<std::pair<P2P, Dependency>> added;
    for (const Dependency& which : topological_order(from)) {
      const Operator& op = from.at(which);
      const auto& p2p = std::get<P2P>(op.action);
      std::vector<Dependency> dependencies = before(op);
      for (const Dependency& d : op.dependencies) dependencies.push_back(moved.at({d.rank, d.index}));
      const int chunk = builder_.chunk(0, from.chunks[static_cast<std::size_t>(p2p.source_chunk)].region);
      const bool push = p2p.source_rank == which.rank;
      const Dependency made = push ? builder_.push(p2p.source_rank, p2p.destination_rank, chunk, chunk,
                                                   std::move(dependencies), op.port + port_offset, p2p.reduction)
                                   : builder_.pull(p2p.source_rank, p2p.destination_rank, chunk, chunk,
                                                   std::move(dependencies), op.port + port_offset, p2p.reduction);
      moved[{which.rank, which.index}] = made;
      added.push_back({{p2p.source_rank, p2p.destination_rank, chunk, chunk, p2p.reduction}, made});
    }
    return added;
  }

 private:
  ScheduleBuilder& builder_;
};

int ports_of(const Schedule& schedule) {
  int ports = 0;
  for (const auto& list : schedule.operators)
    for (const Operator& op : list) ports = std::max(ports, op.port + 1);
  return ports;
}

}  // namespace

Schedule all_reduce(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                    const SourceLocation& where) {
  check_internal(tensor.before == Placement::partial_sum() && tensor.after == Placement::replicate(),
                 "an all-reduce turns partial(sum) into replicate");
  LogicalTensor reduced = tensor;
  reduced.after = Placement::shard(0);
  LogicalTensor gathered = tensor;
  gathered.before = Placement::shard(0);
  const Schedule first = reduce_scatter(reduced, ranks, options, where);
  const Schedule second = all_gather(gathered, ranks, options, where);
  ScheduleBuilder builder(ranks);
  builder.tensor(tensor);
  Appender appender(builder);
  std::map<std::pair<int, int>, std::vector<Dependency>> additions;  // (owner, chunk)
  for (const auto& [p2p, which] : appender.append(first, 0, [](const Operator&) { return std::vector<Dependency>{}; }))
    additions[{p2p.destination_rank, p2p.destination_chunk}].push_back(which);
  appender.append(second, ports_of(first), [&](const Operator& op) {
    // A first hop starts at the owner, when all has been added there. Later ones follow it.
    if (!op.dependencies.empty()) return std::vector<Dependency>{};
    const auto& p2p = std::get<P2P>(op.action);
    const int chunk = builder.chunk(0, second.chunks[static_cast<std::size_t>(p2p.source_chunk)].region);
    return additions[{p2p.source_rank, chunk}];
  });
  return std::move(builder).build();
}

std::vector<Region> split_box(const Region& box, std::int64_t parts) {
  if (box.empty()) return {};
  int dimension = 0;
  for (int d = 1; d < box.dimensions() && box[dimension].size() < parts; ++d)
    if (box[d].size() > box[dimension].size()) dimension = d;
  std::vector<Region> list;
  for (std::int64_t part = 0; part < parts; ++part) {
    Region region = box;
    region[dimension] = chunk_of(box[dimension], parts, part);
    if (!region.empty()) list.push_back(region);
  }
  return list;
}

Schedule all_to_all(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                    const SourceLocation& where) {
  check_internal(tensor.before.kind == Placement::Kind::shard && tensor.after.kind == Placement::Kind::shard,
                 "an all-to-all turns shard into shard");
  if (options.algorithm != Algorithm::direct)
    throw UserError(where, fmt::format("there is no all-to-all by {}", name_of(options.algorithm)), "\"direct\"");
  if (options.split < 1) throw UserError(where, fmt::format("split is {}", options.split), "at least 1");
  const Region largest =
      intersect(held_region(tensor.before, tensor.shape, ranks, 0), held_region(tensor.after, tensor.shape, ranks, 0));
  std::int64_t most = 0;
  for (int d = 0; d < largest.dimensions(); ++d) most = std::max(most, largest[d].size());
  if (options.split > most)
    throw UserError(where,
                    fmt::format("split is {}, but the largest box that moves of '{}' is {}", options.split, tensor.name,
                                largest.to_string()),
                    fmt::format("at most {}", most));
  ScheduleBuilder builder(ranks);
  const int id = builder.tensor(tensor);
  const bool push = options.initiator == Initiator::push;
  for (int rank = 0; rank < ranks; ++rank)
    for (int round = 1; round < ranks; ++round) {
      const int source = push ? rank : (rank + ranks - round) % ranks;
      const int destination = push ? (rank + round) % ranks : rank;
      const Region box = intersect(held_region(tensor.before, tensor.shape, ranks, source),
                                   held_region(tensor.after, tensor.shape, ranks, destination));
      for (const Region& part : split_box(box, options.split)) {
        const int chunk = builder.chunk(id, part);
        if (push)
          builder.push(source, destination, chunk, chunk);
        else
          builder.pull(source, destination, chunk, chunk);
      }
    }
  return std::move(builder).build();
}

}  // namespace syncopate
