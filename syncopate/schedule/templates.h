// Ready schedules for collectives. docs/schedules.md has a table of the algorithms; routes.h says what each does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "syncopate/schedule/schedule.h"

namespace syncopate {

enum class Algorithm : std::uint8_t {
  direct,
  ring,
  bidirectional_ring,
  double_ring,
  recursive,
  hierarchical,
  interleaved,
  one_shot
};
enum class Initiator : std::uint8_t { push, pull };

std::string_view name_of(Algorithm algorithm);
/// "recursive" goes by the names of its gather and its reduce-scatter too: "recursive_doubling", "recursive_halving".
std::optional<Algorithm> algorithm_from_name(std::string_view name);
/// All of them, in the order of the enumeration, for messages.
std::vector<std::string> algorithm_names();
/// Those that have a template for the collective, in the order of the enumeration.
std::vector<Algorithm> algorithms_for(CollectiveType type);

struct TemplateOptions {
  Algorithm algorithm = Algorithm::direct;
  Initiator initiator = Initiator::push;
  /// Chunks that each shard, or each of the two stretches of zigzag, is cut into, along the sharded dimension, as
  /// torch.chunk cuts. Where there is no one sharded dimension (all-to-all, broadcast, one_shot), or shards of a gather
  /// have one index of it: that each box is cut into, along its outermost dimension with as many indices.
  std::int64_t split = 1;
  /// Of direct and interleaved reduce-scatters, gathers and exchanges: chunk 0 for every peer leaves first, then chunk 1
  /// for every peer, and so on, instead of one peer's after the other's. All summands of an early chunk are then there
  /// early, as is needed where they are added together, or their memory is used again for a later one.
  bool chunk_major = false;
  /// Of hierarchical and double_ring: the second axis of the mesh. Rank = node * ranks_per_node + place in the node;
  /// the network is port 1, the link inside a node port 0.
  int ranks_per_node = 0;
  /// Of interleaved: how many chunks go by port 0 (the link) for how many by port 1 (the network); zeros: as many.
  std::array<int, 2> shares = {0, 0};
  int dimension = 0;  ///< of all-reduces: the one along which ranks share the reduction
};

/// "hierarchical, push, split 2, 4 ranks per node": all that is not left to default.
std::string describe(const TemplateOptions& options);

/// Reads "3:1". Nothing if it is not two numbers from 0 to 1000000 that are not both zero.
std::optional<std::array<int, 2>> parse_shares(std::string_view text);

/// The collective that turns `before` into `after`: nothing if the two agree (or the change is local, replicate ->
/// shard). Throws UserError at `where` if no collective realises it (e.g. replicate -> partial(sum)).
std::optional<CollectiveType> collective_between(const Placement& before, const Placement& after,
                                                 const SourceLocation& where);

/// The schedules of one tensor over `ranks` ranks that turn its placement before into the one after. All throw
/// UserError at `where` if split is less than 1 or more than there are indices to cut; if the collective has no
/// template by that algorithm; and if ranks_per_node or shares are missing, do not fit, or are given to an algorithm
/// that has no use for them. Empty shards send nothing. The order of a rank's list is the order in which its chunks
/// leave.

/// shard(d) -> replicate.
Schedule all_gather(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                    const SourceLocation& where);

/// partial(sum) -> shard(d). Every rank adds all that it receives of a chunk before it sends it on. Algorithms are
/// those of the all-gather backwards; rings travel up.
Schedule reduce_scatter(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                        const SourceLocation& where);

/// partial(sum) -> replicate. one_shot: every rank sends its summand to all others, which add. All other algorithms are
/// partitioned: the reduce-scatter to shard(options.dimension) by that algorithm, then its all-gather, in which a chunk
/// leaves as soon as it is summed (compose).
Schedule all_reduce(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                    const SourceLocation& where);

/// shard(i) -> shard(j): every pair of ranks has a box, its source's part of i and its destination's part of j, that
/// moves. direct and interleaved: in round s from rank r to r + s. ring and bidirectional_ring: hop by hop.
/// hierarchical: inside the node to the rank with the destination's place, from there all boxes of the node, as one,
/// over the network. With i == j the change is a shift (see Placement), and each rank has one box.
Schedule all_to_all(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                    const SourceLocation& where);

/// only(root) -> replicate. A gather in which the root owns everything: direct sends chunk after chunk to all others;
/// rings pass chunks on, so that hops overlap if split is large; recursive is the binomial tree.
Schedule broadcast(const LogicalTensor& tensor, int ranks, const TemplateOptions& options, const SourceLocation& where);

/// The one of the above that the placements ask for; an empty schedule if the change needs no communication.
Schedule make_collective(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                         const SourceLocation& where);

/// shard(d) -> shard(d)+k, for every tensor that is sharded before: what a ring step is. direct: straight to rank + k;
/// ring: in k hops; bidirectional_ring: the shorter way.
Schedule shift(LogicalTensor tensor, int steps, int ranks, const TemplateOptions& options, const SourceLocation& where);

/// Opens every collective of a schedule into P2P operators made by the template, with the collective's dependencies in
/// front and its followers behind all of them. Schedules without collectives come back as they are. Throws UserError
/// (with the operator's place in `file` if given) where the collective is not over all ranks, in order, between what
/// the tensor's placements say that its ranks hold.
Schedule expand_collectives(const Schedule& schedule, const TemplateOptions& options, const SourceFile* file = nullptr);

}  // namespace syncopate
