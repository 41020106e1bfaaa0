#include "syncopate/schedule/templates.h"

#include <fmt/format.h>

#include "syncopate/schedule/check_options.h"
#include "syncopate/schedule/compose.h"
#include "syncopate/schedule/routes.h"

namespace syncopate {

namespace {

/// The chunks of every rank's shard, or of its two stretches.
Ownership shards_of(const LogicalTensor& tensor, const Placement& sharded, int ranks, int dimension,
                    std::int64_t split) {
  Ownership owned(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Region> chunks;
    for (const Region& box : held_regions(sharded, tensor.shape, ranks, rank)) {
      const std::vector<Region> more = cut(box, dimension, split);
      chunks.insert(chunks.end(), more.begin(), more.end());
    }
    owned.add_owner(chunks);
  }
  return owned;
}

/// How many boxes a dimension is cut into over all ranks.
std::int64_t parts_of(const Placement& sharded, int ranks) {
  return sharded.kind == Placement::Kind::zigzag ? std::int64_t{2} * ranks : ranks;
}

/// Of zigzag, the largest stretch.
Region largest_shard(const LogicalTensor& tensor, const Placement& sharded, int ranks) {
  Region shard = Region::whole(tensor.shape);
  shard[sharded.dimension] = chunk_of(shard[sharded.dimension], parts_of(sharded, ranks), 0);
  return shard;
}

/// Along which dimension the shards of a gather are cut: the one that is sharded, unless that leaves nothing to cut.
int dimension_to_cut(const LogicalTensor& tensor, int ranks, std::int64_t split) {
  const Region shard = largest_shard(tensor, tensor.before, ranks);
  return shard[tensor.before.dimension].size() > 1 ? tensor.before.dimension : dimension_to_split(shard, split);
}

/// The routes of a gather; sums go the same ways backwards, so `direction` says where rings go.
Steps gather_steps(const Ownership& owned, const TemplateOptions& options, int direction) {
  switch (options.algorithm) {
    case Algorithm::direct:
    case Algorithm::interleaved:
      return options.chunk_major ? chunk_by_chunk(direct_gather(owned)) : direct_gather(owned);
    case Algorithm::ring:
      return ring_gather(owned, direction);
    case Algorithm::bidirectional_ring:
      return bidirectional_gather(owned, direction);
    case Algorithm::double_ring:
      return double_ring_gather(owned, options.ranks_per_node, direction);
    case Algorithm::recursive:
      return recursive_gather(owned, options.split);
    case Algorithm::hierarchical:
      return hierarchical_gather(owned, options.ranks_per_node);
    case Algorithm::one_shot:
      break;
  }
  throw InternalError("algorithm without routes");
}

Schedule carried(const LogicalTensor& tensor, const std::vector<Region>& atoms, Steps steps, int ranks,
                 const TemplateOptions& options, Reduction reduction, bool own = false) {
  if (options.algorithm == Algorithm::interleaved) share_ports(steps, options.initiator, shares_of(options));
  ScheduleBuilder builder(ranks);
  const int id = builder.tensor(tensor);
  add_operators(builder, id, atoms, steps, {options.initiator, reduction, own});
  return std::move(builder).build();
}

void check_shard_split(const LogicalTensor& tensor, const Placement& sharded, int ranks, int dimension,
                       const TemplateOptions& options, const SourceLocation& where) {
  const std::int64_t largest = largest_shard(tensor, sharded, ranks)[dimension].size();
  check_split(options, largest,
              fmt::format("the largest {} of '{}' has {} {} along dimension {}",
                          sharded.kind == Placement::Kind::zigzag ? "stretch" : "shard", tensor.name, largest,
                          largest == 1 ? "index" : "indices", dimension),
              where);
}

/// Sends of every rank's whole summand, chunk after chunk.
Schedule one_shot_all_reduce(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                             const SourceLocation& where) {
  const Region whole = Region::whole(tensor.shape);
  const int dimension = dimension_to_split(whole, options.split);
  check_whole_split(tensor, options, where);
  const std::vector<Region> atoms = cut(whole, dimension, options.split);
  Steps steps;
  for (int atom = 0; atom < static_cast<int>(atoms.size()); ++atom)
    for (int round = 1; round < ranks; ++round) {
      std::vector<Message>& step = steps.emplace_back();
      for (int rank = 0; rank < ranks; ++rank) step.push_back({atom, atom + 1, rank, (rank + round) % ranks, 0});
    }
  return carried(tensor, atoms, std::move(steps), ranks, options, Reduction::sum, true);
}

}  // namespace

Schedule all_gather(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                    const SourceLocation& where) {
  check_internal(tensor.before.cuts() && tensor.after == Placement::replicate(),
                 "an all-gather turns shard or zigzag into replicate");
  check_options(CollectiveType::all_gather, ranks, options, where);
  const int dimension = dimension_to_cut(tensor, ranks, options.split);
  check_shard_split(tensor, tensor.before, ranks, dimension, options, where);
  const Ownership owned = shards_of(tensor, tensor.before, ranks, dimension, options.split);
  return carried(tensor, owned.atoms(), gather_steps(owned, options, 1), ranks, options, Reduction::none);
}

Schedule reduce_scatter(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                        const SourceLocation& where) {
  check_internal(tensor.before == Placement::partial_sum() && tensor.after.kind == Placement::Kind::shard,
                 "a reduce-scatter turns partial(sum) into shard");
  check_options(CollectiveType::reduce_scatter, ranks, options, where);
  check_shard_split(tensor, tensor.after, ranks, tensor.after.dimension, options, where);
  const Ownership owned = shards_of(tensor, tensor.after, ranks, tensor.after.dimension, options.split);
  const bool direct = options.algorithm == Algorithm::direct || options.algorithm == Algorithm::interleaved;
  return carried(tensor, owned.atoms(),
                 direct ? direct_scatter(owned, options.chunk_major) : backwards(gather_steps(owned, options, -1)),
                 ranks, options, Reduction::sum);
}

Schedule all_reduce(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                    const SourceLocation& where) {
  check_internal(tensor.before == Placement::partial_sum() && tensor.after == Placement::replicate(),
                 "an all-reduce turns partial(sum) into replicate");
  check_options(CollectiveType::all_reduce, ranks, options, where);
  if (options.algorithm == Algorithm::one_shot) return one_shot_all_reduce(tensor, ranks, options, where);
  if (options.dimension < 0 || options.dimension >= static_cast<int>(tensor.shape.size()))
    throw UserError(where,
                    fmt::format("the reduction of '{}' of {} dimensions is shared along dimension {}", tensor.name,
                                tensor.shape.size(), options.dimension),
                    fmt::format("dimensions count from 0 to {}", static_cast<int>(tensor.shape.size()) - 1));
  LogicalTensor scattered = tensor;
  scattered.after = Placement::shard(options.dimension);
  LogicalTensor gathered = tensor;
  gathered.before = scattered.after;
  TemplateOptions gathering = options;
  gathering.chunk_major = false;  // it is about summands
  return compose(reduce_scatter(scattered, ranks, options, where), all_gather(gathered, ranks, gathering, where));
}

Schedule broadcast(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                   const SourceLocation& where) {
  check_internal(tensor.before.kind == Placement::Kind::only && tensor.after == Placement::replicate(),
                 "a broadcast turns only into replicate");
  check_options(CollectiveType::broadcast, ranks, options, where);
  check_whole_split(tensor, options, where);
  const Region whole = Region::whole(tensor.shape);
  Ownership owned(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    owned.add_owner(rank == tensor.before.rank ? cut(whole, dimension_to_split(whole, options.split), options.split)
                                               : std::vector<Region>{});
  const bool direct = options.algorithm == Algorithm::direct || options.algorithm == Algorithm::interleaved;
  return carried(tensor, owned.atoms(),
                 direct ? direct_broadcast(owned, tensor.before.rank) : gather_steps(owned, options, 1), ranks, options,
                 Reduction::none);
}

Schedule shift(LogicalTensor tensor, int steps, int ranks, const TemplateOptions& options,
               const SourceLocation& where) {
  check_internal(tensor.before.kind == Placement::Kind::shard, "what is shifted is sharded");
  tensor.after = Placement::shard(tensor.before.dimension, tensor.before.shift + steps);
  return all_to_all(tensor, ranks, options, where);
}

Schedule make_collective(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                         const SourceLocation& where) {
  const std::optional<CollectiveType> type = collective_between(tensor.before, tensor.after, where);
  if (!type) {
    ScheduleBuilder builder(ranks);
    builder.tensor(tensor);
    return std::move(builder).build();
  }
  switch (*type) {
    case CollectiveType::all_gather:
      return all_gather(tensor, ranks, options, where);
    case CollectiveType::reduce_scatter:
      return reduce_scatter(tensor, ranks, options, where);
    case CollectiveType::all_reduce:
      return all_reduce(tensor, ranks, options, where);
    case CollectiveType::all_to_all:
      return all_to_all(tensor, ranks, options, where);
    case CollectiveType::broadcast:
      return broadcast(tensor, ranks, options, where);
  }
  throw InternalError("collective without a template");
}

}  // namespace syncopate
