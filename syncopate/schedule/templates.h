// Ready schedules for collectives.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "syncopate/schedule/schedule.h"

namespace syncopate {

enum class Algorithm : std::uint8_t { direct, ring, bidirectional_ring };
enum class Initiator : std::uint8_t { push, pull };

std::string_view name_of(Algorithm algorithm);
std::optional<Algorithm> algorithm_from_name(std::string_view name);

struct TemplateOptions {
  Algorithm algorithm = Algorithm::direct;
  Initiator initiator = Initiator::push;
  std::int64_t split = 1;  ///< chunks that each shard is cut into, along the sharded dimension, as torch.chunk cuts
  /// Of direct reduce-scatters: chunk 0 of every peer's shard leaves first, then chunk 1 of every peer's, and so on,
  /// instead of one peer's shard after the other. All summands of an early chunk are then there early, as is needed
  /// where the memory they land in is used again for a later one.
  bool chunk_major = false;
};

/// The collective that turns `before` into `after`: nothing if the two agree (or the change is local, replicate ->
/// shard). Throws UserError at `where` if no collective realises it (e.g. replicate -> partial(sum)).
std::optional<CollectiveType> collective_between(const Placement& before, const Placement& after,
                                                 const SourceLocation& where);

/// All-gather of a tensor that is `shard(d)` before and `replicate` after, over `ranks` ranks.
/// direct: in round s = 1..ranks-1 rank r sends its own chunks to rank r+s, so that no receiver is hit by two at once.
/// ring: chunks travel r -> r+1, each hop after the previous one has delivered. bidirectional_ring: both ways at once
/// (ports 0 and 1), each chunk going the shorter way round; of the chunks that are equally far both ways half go each
/// way. Throws UserError at `where` if split exceeds the largest shard or is less than 1. Empty shards send nothing.
Schedule all_gather(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                    const SourceLocation& where);

/// Reduce-scatter of a tensor that is `partial(sum)` before and `shard(d)` after, over `ranks` ranks. The order of a
/// rank's list is the order in which its summands leave.
/// direct: in round s = 1..ranks-1 rank r sends its summand of the chunks of rank r+s, where it is added. ring: the sum
/// of a chunk starts at the rank above its owner and travels up, each rank adding its summand before the next hop,
/// until it ends at the owner. bidirectional_ring: two sums a chunk, one travelling up to the owner and one down (ports
/// 0 and 1), from as far away as makes the two ways equally long; of the chunks whose farthest summand may take either
/// way half take each. Throws UserError at `where` as all_gather does.
Schedule reduce_scatter(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                        const SourceLocation& where);

/// All-reduce of a tensor that is `partial(sum)` before and `replicate` after: the reduce-scatter to shard(0) by the
/// same algorithm, then its all-gather, on ports of its own. A chunk is distributed as soon as it is summed. Throws
/// UserError at `where` as all_gather does.
Schedule all_reduce(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                    const SourceLocation& where);

/// All-to-all of a tensor that is `shard(i)` before and `shard(j)` after: every pair of ranks has a box, its source's
/// part of i and its destination's part of j, that moves; directly, in rounds as in all_gather. Throws UserError at
/// `where` for other algorithms, and if split is less than 1 or more than the largest box can be cut into.
Schedule all_to_all(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                    const SourceLocation& where);

/// A box cut into `parts` along its outermost dimension that has as many indices, as torch.chunk cuts; without empty
/// parts. Along the longest if none has.
std::vector<Region> split_box(const Region& box, std::int64_t parts);

/// Opens every all-gather and every reduce-scatter collective of a schedule into P2P operators made by the template,
/// with the collective's dependencies in front and its followers behind all of them. Schedules without collectives come
/// back as they are. Throws UserError (with the operator's place in `file` if given) for other collectives, and where
/// the collective is not over all ranks, between whole tensors and the shards of its ranks.
Schedule expand_collectives(const Schedule& schedule, const TemplateOptions& options, const SourceFile* file = nullptr);

}  // namespace syncopate
