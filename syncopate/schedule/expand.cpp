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

/// Throws unless the collective does what a template does: it is over all ranks in order, and joins whole tensors with
/// the shards of its ranks.
void check_as_template(const Schedule& schedule, const Collective& c, const SourceLocation& where) {
  const bool gathers = c.type == CollectiveType::all_gather;
  const std::string remedy =
      fmt::format("{} over all ranks in order, {}; or write the P2P operators yourself",
                  gathers ? "an all-gather" : "a reduce-scatter",
                  gathers ? "from their shards to the whole tensor" : "from whole tensors of summands to their shards");
  if (!gathers && c.type != CollectiveType::reduce_scatter)
    throw UserError(where, "only all-gather and reduce-scatter collectives can be opened into transfers so far",
                    "write the P2P operators yourself");
  const LogicalTensor& tensor = tensor_of(schedule, c);
  const Placement& sharded = gathers ? tensor.before : tensor.after;
  const Placement& whole = gathers ? tensor.after : tensor.before;
  bool fits = static_cast<int>(c.ranks.size()) == schedule.ranks() && sharded.kind == Placement::Kind::shard &&
              whole == (gathers ? Placement::replicate() : Placement::partial_sum());
  const auto region = [&](int index) -> const Region& {
    return schedule.chunks[static_cast<std::size_t>(index)].region;
  };
  for (std::size_t i = 0; i < c.ranks.size() && fits; ++i) {
    const Region& shard = region(gathers ? c.source_chunks[i] : c.destination_chunks[i]);
    const Region& all = region(gathers ? c.destination_chunks[i] : c.source_chunks[i]);
    fits = c.ranks[i] == static_cast<int>(i) && all == Region::whole(tensor.shape) &&
           same_box(shard, held_region(sharded, tensor.shape, schedule.ranks(), c.ranks[i]));
  }
  if (!fits)
    throw UserError(where,
                    fmt::format("the chunks of the {} of '{}' are not its shards",
                                gathers ? "all-gather" : "reduce-scatter", tensor.name),
                    remedy);
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
    check_as_template(schedule, collective, where);
    const LogicalTensor& tensor = tensor_of(schedule, collective);
    const int tensor_index = schedule.chunks[static_cast<std::size_t>(collective.source_chunks.front())].tensor;
    const Schedule opened = collective.type == CollectiveType::all_gather
                                ? all_gather(tensor, schedule.ranks(), options, where)
                                : reduce_scatter(tensor, schedule.ranks(), options, where);
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
