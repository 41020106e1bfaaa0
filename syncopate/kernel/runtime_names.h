// Names that the emitted kernel, the evaluator and every executor agree on.
#pragma once

namespace syncopate {

/// The helper of the emitted prelude that waits for a flag:
///   syncopate_wait(flags, slot, expected, tile, record, time_limit) -> int32
/// Blocks until the 64-bit counter flags[slot] is >= expected (acquire, system scope) and returns 0; the caller adds
/// the result to the addresses of what the wait guards. After `time_limit` nanoseconds it writes what it waited for to
/// `record` and returns. On a GPU it is inline assembly; the machine that runs kernels on CPU ranks implements it.
inline constexpr const char* kWaitHelper = "syncopate_wait";

/// The helper by which a worker of a dynamic order takes a slot:
///   syncopate_take(claims, lookahead, rows, columns, count, waits, flags, epoch, record, time_limit) -> int32
/// One whose waits are satisfied, as the plan says ("Dynamic order" in plan/plan.h), or `count` if all are taken.
/// Blocks until there is one. `rows` points to where the numbers of the waits of the first slot stand in the tile
/// order, whose rows have `columns` columns. What the tile reads is not ordered by this but by the waits that follow
/// it. On CPU ranks a step of the machine, which takes any slot that the worker may.
inline constexpr const char* kTakeHelper = "syncopate_take";

/// syncopate_is_missing(flags, slot, expected) -> int32: 0 if flags[slot] is known to be >= expected, as after a wait,
/// else 1; does not block. On CPU ranks always 1, so that the wait that follows is made.
inline constexpr const char* kMissingHelper = "syncopate_is_missing";

/// syncopate_elements(pointers, base) -> int64: by how many elements each of `pointers` is past `base`, a parameter
/// that points to a tensor. On a GPU a difference of addresses; on CPU ranks the machine knows it.
inline constexpr const char* kElementsHelper = "syncopate_elements";

/// syncopate_elsewhere(pointers, base, other): pointers that are as far past `other` as `pointers` are past `base`,
/// both parameters that point to tensors of one type. On a GPU arithmetic on addresses; on CPU ranks the machine knows
/// it.
inline constexpr const char* kElsewhereHelper = "syncopate_elsewhere";

/// syncopate_publish() -> int32: what the block has stored so far, by TMA or not, is visible to whoever sees a flag
/// that the block raises from now on. Returns 0, which the caller adds to the slot of that flag. Nothing on CPU ranks.
inline constexpr const char* kPublishHelper = "syncopate_publish";

/// syncopate_raise(peers, home, slot) -> int32: adds 1 to flag `slot` of rank `home` (release, system scope), once per
/// block, and returns 0. `peers` is kPeers. On CPU ranks a step of the worker of its own.
inline constexpr const char* kRaiseHelper = "syncopate_raise";

/// syncopate_tell_tma() -> int32: what the thread has seen by waits, TMA sees from now on. Returns 0, which the caller
/// adds to offsets of what TMA then does. Nothing on CPU ranks.
inline constexpr const char* kTellTmaHelper = "syncopate_tell_tma";

/// syncopate_add_block(descriptor, row, column, value): adds a block to what stands at its place, element by element,
/// each addition rounded once to the tensor's type. On a GPU a reduction by TMA; on CPU ranks one access.
inline constexpr const char* kAddBlockHelper = "syncopate_add_block";

/// The parameters of a fused kernel after those of the local kernel, in this order.
namespace runtime_parameter {
inline constexpr const char* kRank = "syncopate_rank";             ///< int32: this rank
inline constexpr const char* kWorldSize = "syncopate_world_size";  ///< int32: number of ranks
inline constexpr const char* kTiles = "syncopate_tiles";           ///< *int64: KernelTables::tiles
inline constexpr const char* kTileCount = "syncopate_tile_count";  ///< int32: rows of it
inline constexpr const char* kWaits = "syncopate_waits";           ///< *int64: KernelTables::waits
inline constexpr const char* kFlags = "syncopate_flags";           ///< *int64: the signals homed at this rank
inline constexpr const char* kEpoch = "syncopate_epoch";           ///< *int64: one element, the launch's number
inline constexpr const char* kRecord = "syncopate_record";         ///< *int64: 8 elements, a missed wait's record
inline constexpr const char* kTimeLimit = "syncopate_time_limit";  ///< int64: nanoseconds a wait may take

// Then, only in kernels of a dynamic order, these.
inline constexpr const char* kClaims = "syncopate_claims";        ///< *int64: claim_words() of the plan
inline constexpr const char* kLookahead = "syncopate_lookahead";  ///< int32: the plan's

// Then, only in kernels with streamed loops, this.
inline constexpr const char* kSteps = "syncopate_steps";  ///< *int64: KernelTables::steps

// Then, only in kernels with a reduced output whose sums are not in place, these.
inline constexpr const char* kStaging = "syncopate_staging";  ///< *dtype of the reduced tensor: the staging buffer
inline constexpr const char* kAddends = "syncopate_addends";  ///< *int64: KernelTables::addends
// Of kernels whose slots raise signals.
inline constexpr const char* kSignals = "syncopate_signals";  ///< *int64: KernelTables::signals
inline constexpr const char* kPeers = "syncopate_peers";      ///< *int64 [ranks]: where the flags of each rank are
// Again of kernels with a reduced output whose sums are not in place only.
inline constexpr const char* kCut = "syncopate_cut";  ///< constexpr bool: cuts_tiles() of the plan

// Then, only in kernels with a one-shot sum, these.
inline constexpr const char* kResult = "syncopate_result";                 ///< *dtype of the sum: where it is put
inline constexpr const char* kSummands = "syncopate_summands";             ///< the same: the stack of other ranks'
inline constexpr const char* kAdditions = "syncopate_additions";           ///< *int64: KernelTables::additions
inline constexpr const char* kAdditionCount = "syncopate_addition_count";  ///< int32: rows of it
}  // namespace runtime_parameter

}  // namespace syncopate
