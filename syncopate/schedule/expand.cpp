// Collectives opened into P2P operators.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "syncopate/schedule/templates.h"

namespace syncopate {

namespace {

bool is_collective(const Operator& op) { return std::holds_alternative<Collective>(op.action); }

bool same_box(const Region& a, const Region& b) { return a == b || (a.empty() && b.empty()); }

const LogicalTensor& tensor_of(const Schedule& schedule, const Collective& c) {
  const Chunk& chunk = schedule.chunks[static_cast<std::size_t>(c.source_chunks.front())];
  return schedule.tensors[static_cast<std::size_t>(chunk.tensor)];
}

/// Throws unless the collective does what a template does: over all ranks in order, it turns what the tensor's
/// placement before the schedule says that each rank holds into what the placement after it says.
void check_as_template(const Schedule& schedule, const Collective& c, const SourceLocation& where) {
  const LogicalTensor& tensor = tensor_of(schedule, c);
  const bool broadcasts = c.type == CollectiveType::broadcast;
  const auto holds = [&](int chunk, const Placement& placement, int rank) {
    const std::vector<Region> boxes = held_regions(placement, tensor.shape, schedule.ranks(), rank);
    return boxes.size() == 1 && same_box(schedule.chunks[static_cast<std::size_t>(chunk)].region, boxes.front());
  };
  bool fits = static_cast<int>(c.ranks.size()) == schedule.ranks() &&
              collective_between(tensor.before, tensor.after, where) == c.type;
  for (std::size_t i = 0; i < c.ranks.size() && fits; ++i) {
    // The root of a broadcast comes first; its other ranks are in any order and contribute nothing.
    fits = broadcasts ? i > 0 || c.ranks[i] == tensor.before.rank : c.ranks[i] == static_cast<int>(i);
    fits = fits && holds(c.destination_chunks[i], tensor.after, c.ranks[i]) &&
           ((broadcasts && i > 0) || holds(c.source_chunks[i], tensor.before, c.ranks[i]));
  }
  if (!fits)
    throw UserError(
        where,
        fmt::format("the {} of '{}' does not turn {} into {}", collective_name(c.type), tensor.name,
                    tensor.before.to_string(), tensor.after.to_string()),
        "a collective that is opened into transfers is over all ranks in order, from the one box that each of them "
        "holds before the schedule to the one that it holds after it; or write the P2P operators yourself");
}

}  // namespace

Schedule expand_collectives(const Schedule& schedule, const TemplateOptions& options, const SourceFile* file) {
  bool any = false;
  for (const auto& list : schedule.operators) any = any || std::any_of(list.begin(), list.end(), is_collective);
  if (!any) return schedule;

  ScheduleBuilder builder(schedule.ranks());
  for (const LogicalTensor& tensor : schedule.tensors) builder.tensor(tensor);
  // For every operator of the old schedule, the operators of the new one that stand for it.
  std::map<std::pair<int, int>, std::vector<Dependency>> stands_for;
  const auto chunk = [&](const Schedule& from, int index, int tensor) {
    return builder.chunk(tensor, from.chunks[static_cast<std::size_t>(index)].region);
  };
  const auto add = [&](P2P p2p, int owner, int source_chunk, int destination_chunk,
                       std::vector<Dependency> dependencies, int port) {
    p2p.source_chunk = source_chunk;
    p2p.destination_chunk = destination_chunk;
    return builder.transfer(owner, p2p, std::move(dependencies), port);
  };
  for (const Dependency& which : topological_order(schedule)) {
    const Operator& op = schedule.at(which);
    std::vector<Dependency> before;
    for (const Dependency& d : op.dependencies) {
      const std::vector<Dependency>& made = stands_for.at({d.rank, d.index});
      before.insert(before.end(), made.begin(), made.end());
    }
    std::vector<Dependency>& made = stands_for[{which.rank, which.index}];
    if (const auto* p2p = std::get_if<P2P>(&op.action)) {
      const int tensor = schedule.chunks[static_cast<std::size_t>(p2p->source_chunk)].tensor;
      made.push_back(add(*p2p, which.rank, chunk(schedule, p2p->source_chunk, tensor),
                         chunk(schedule, p2p->destination_chunk, tensor), before, op.port));
      continue;
    }
    const SourceLocation where = file == nullptr ? SourceLocation{} : file->locate(op.offset);
    const auto& collective = std::get<Collective>(op.action);
    check_as_template(schedule, collective, where);
    const LogicalTensor& tensor = tensor_of(schedule, collective);
    const int tensor_index = schedule.chunks[static_cast<std::size_t>(collective.source_chunks.front())].tensor;
    const Schedule opened = make_collective(tensor, schedule.ranks(), options, where);
    std::map<std::pair<int, int>, Dependency> moved;
    for (const Dependency& inner : topological_order(opened)) {
      const Operator& inner_op = opened.at(inner);
      const auto& p2p = std::get<P2P>(inner_op.action);
      std::vector<Dependency> dependencies = before;
      for (const Dependency& d : inner_op.dependencies) dependencies.push_back(moved.at({d.rank, d.index}));
      made.push_back(add(p2p, inner.rank, chunk(opened, p2p.source_chunk, tensor_index),
                         chunk(opened, p2p.destination_chunk, tensor_index), std::move(dependencies), inner_op.port));
      moved[{inner.rank, inner.index}] = made.back();
    }
  }
  return std::move(builder).build();
}

}  // namespace syncopate
