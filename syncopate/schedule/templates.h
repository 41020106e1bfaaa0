// Ready schedules for collectives.
#pragma once

#include <optional>
#include <string>
#include <string_view>

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

/// Opens every all-gather collective of a schedule into P2P operators made by the template, with the collective's
/// dependencies in front and its followers behind all of them. Schedules without collectives come back as they are.
/// Throws UserError (with the operator's place in `file` if given) for other collectives, and where the chunks of the
/// collective are not the shards of its ranks.
Schedule expand_collectives(const Schedule& schedule, const TemplateOptions& options, const SourceFile* file = nullptr);

}  // namespace syncopate
