// Collectives opened into P2P operators.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "syncopate/schedule/templates.h"

namespace syncopate {

namespace {

bool is_collective(const Operator& op) { return std::holds_alternative<Collective>(op.action); }

bool same_box(const Region& a, const Region& b) { return a == b || (a.empty() && b.empty()); }

/// The tensor that an all-gather collective gathers, as a template wants it. Throws if its chunks are not the shards.
const LogicalTensor& gathered_tensor(const Schedule& schedule, const Collective& c, const SourceLocation& where) {
  const std::string remedy =
      "an all-gather over all ranks in order, from their shards to the whole tensor; or write the P2P operators "
      "yourself";
  if (c.type != CollectiveType::all_gather)
    throw UserError(where, "only all-gather collectives can be opened into transfers so far", remedy);
  const auto chunk = [&](int index) -> const Chunk& { return schedule.chunks[static_cast<std::size_t>(index)]; };
  const LogicalTensor& tensor = schedule.tensors[static_cast<std::size_t>(chunk(c.source_chunks.front()).tensor)];
  bool shards = static_cast<int>(c.ranks.size()) == schedule.ranks() && tensor.before.kind == Placement::Kind::shard &&
                tensor.after == Placement::replicate();
  for (std::size_t i = 0; i < c.ranks.size() && shards; ++i)
    shards = c.ranks[i] == static_cast<int>(i) &&
             same_box(chunk(c.source_chunks[i]).region,
                      held_region(tensor.before, tensor.shape, schedule.ranks(), c.ranks[i])) &&
             chunk(c.destination_chunks[i]).region == Region::whole(tensor.shape);
  if (!shards)
    throw UserError(where, fmt::format("the chunks of the all-gather of '{}' are not its shards", tensor.name), remedy);
  return tensor;
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
  const auto add = [&](const P2P& p2p, int owner, int source_chunk, int destination_chunk,
                       std::vector<Dependency> dependencies, int port) {
    return p2p.source_rank == owner ? builder.push(p2p.source_rank, p2p.destination_rank, source_chunk,
                                                   destination_chunk, std::move(dependencies), port, p2p.reduction)
                                    : builder.pull(p2p.source_rank, p2p.destination_rank, source_chunk,
                                                   destination_chunk, std::move(dependencies), port, p2p.reduction);
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
    const LogicalTensor& tensor = gathered_tensor(schedule, collective, where);
    const int tensor_index = schedule.chunks[static_cast<std::size_t>(collective.source_chunks.front())].tensor;
    const Schedule opened = all_gather(tensor, schedule.ranks(), options, where);
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
