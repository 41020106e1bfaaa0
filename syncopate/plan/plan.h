// The plan: a fused operator, complete. It is the narrow waist of Syncopate. The compiler (compile.h) makes plans;
// verify/, emit/ and host/ work from a plan alone.
//
// Meaning of a launch. Launches are numbered by an epoch, 1, 2, 3, ... Rank r takes part in launch e as follows.
//   1. Its caller puts the inputs in place: for every buffer, the boxes held[r].
//   2. It raises `start_signals`.
//   3. Its queues run, each a list of transfers taken one after the other: a transfer waits for all of its `waits`,
//      moves its bytes, then raises its `signals`. Queues are independent of each other.
//   4. Its kernel runs on `workers` workers. Worker w takes slots w, w + workers, w + 2 workers, ... of the tile
//      order. For each slot it performs `waits`, computes the tile, performs `sum_waits`, adds the `addends` to the
//      values of the tile, stores what the slot keeps of them, and raises `signals` once that is visible to everyone.
//      It may raise them later, but before it waits for anything else and before it ends. A raise says that all that
//      the worker has done before is done and visible, its earlier slots included: so of a worker's slots that share
//      in something others wait for, only the last raises the signal. A tile that has pieces
//      computes them in the order of the slot's `steps`, each after the waits of its step. A worker that has taken its
//      slots takes `additions` w, w + workers, ...: for each it performs `waits`, then adds and stores ("One-shot
//      sums").
//   5. When its kernel and all queues are done it waits for `completion_waits`, then raises `completion_signals`; the
//      launch is complete on this rank; outputs may be read until launch e + 1 begins, at step 1.
// Ranks are not synchronised otherwise: a rank may be in launch e + 1 while another is still in launch e.
//
// Signals are 64-bit counters in the memory of their home rank that only grow. A signal is raised exactly
// `per_launch` times in every launch, so a wait with threshold t in launch e is satisfied when
//   value >= per_launch * (e - 1) + t,   0 <= t <= per_launch.
// Threshold 0 waits for all raises of the previous launch. A wait for t = per_launch orders everything before each of
// the raises before the waiter; a wait for fewer orders nothing of this launch (which raises came is unknown), unless
// per_launch raises all come from one place in a known order.
//
// Sums. An operator may reduce one of its outputs ("c: partial(sum) -> shard(0)"). Then every rank's kernel computes a
// full-size summand, and buffer c on a rank is in the end: in the region that `after` gives the rank, the sum over all
// ranks, which is its output; elsewhere, summands (or sums so far) that transfers send on. What travels has c's type.
// It lands in the receiver's staging buffer, from where tiles add it: each adds in fp32, in the order of its addends
// with its own value at `own_place`, starting from +0, and rounds once, to c's type. Or else, which is possible where
// no element of a rank has more than one addend, it lands in buffer c itself, at its own place, and there is no staging
// buffer (Buffer::sums_in_place): the memory adds the tile's value to what stands there. Of two terms that is the same
// sum, to the bit (in fp32: where neither a term nor the sum is subnormal).
// If every rank is to have the whole sum ("c: partial(sum) -> replicate"), transfers from c to c then distribute it:
// what they bring takes the place of summands that the destination has sent on.
//
// Inputs that arrive. Of a gathered or an exchanged input a rank has in the end what its own tiles read, and what it
// passes on; the rest of what the placement `inside` lets the kernel see need not be there, and is not sent.
//
// Ranks that differ. An argument of the kernel may have another value on every rank, and with it tiles may read and
// write other elements: the place of a rank's queries in a sequence under a causal mask. Then Plan::tiles lists the
// tiles of all ranks; those that are the same on several ranks stand in it once, and of those with one index each
// rank's slots name one.
//
// Exchanges. A tensor may be cut otherwise for the caller than for the kernel ("a: shard(0) -> shard(1)"). Then it has
// two buffers, each of the shape of a part: the kernel's, and the caller's, which is its source (an input) or its
// result (an output). Transfers move it from one to the other, on a rank itself too.
//
// Summed inputs. An input may be a sum over ranks ("x: partial(sum) -> replicate", "-> shard(d)"), of which every rank
// has a summand before the launch. Then the kernel's buffer is a stack: one dimension more, in front, numbers the ranks
// that the summands come from. Transfers bring them there as they bring parts of a gathered tensor ("shard(0) ->
// replicate" of the stack) or of an exchanged one ("shard(0) -> shard(d + 1)"). Where the local kernel loads an
// element the fused kernel loads it of every summand and adds: in fp32, in the order of the ranks, from +0, rounding
// once, to the tensor's type; so all ranks see the same bits.
//
// Folded buffers. Of a gathered input that tiles read part by part along another dimension (the heads of keys and
// values), the kernel's buffer may stand in the memory of a few such parts (Buffer::fold). Regions stay those of the
// whole buffer; what stands in memory where is only a matter of in_memory(). So in every launch transfers put one part
// after the other into the same memory, each when all that reads what stood there has been done. What the caller has of
// the tensor is in a source, as in an exchange.
//
// One-shot sums. If every rank is to have the whole sum of an output, each may also get all summands and add them up
// itself. Then the output has three buffers, none of which is called reduced. Tiles store the rank's own summand in the
// kernel's buffer, and add nothing (Buffer::summed_apart). Transfers bring those of the other ranks to a stack, in
// which whole summands follow each other along the first dimension, in the order of their ranks, without the rank's
// own. Additions put sums into the result, whose part is the whole tensor: each loads its elements of every summand,
// the rank's own from the kernel's buffer, and adds in fp32, in the order of the ranks, from +0, rounding once, to the
// tensor's type; so all ranks have the same bits. What the slots of its own worker have stored an addition may read;
// for what other workers have stored, and for what transfers bring, it waits. Since additions come after all slots of
// their worker, and nobody waits for an addition but through the completion of its rank, they close no circle of waits.
//
// Streamed loops. The user allows (annotation `streamed_loop`) that the iterations of a loop inside a tile run in any
// order: the loop only accumulates, so that its result depends on their order but for rounding. Each tile's iterations
// of such a loop are cut into pieces, which need different chunks; a slot walks them as their chunks arrive. Loops
// follow each other as in the kernel.
//
// Dynamic order. Where a plan has a `lookahead`, workers are not dealt their slots but choose among them: instead of
// slots w, w + workers, ... a worker takes one after the other of those that no worker of its rank has taken in this
// launch, each all of whose `waits` are satisfied and that is less than `lookahead` slots behind the first not taken.
// Taking is one atomic operation, so each slot is taken once. While there is none that it may take a worker looks
// again; when all are taken it ends. Once taken a slot waits (`steps`, `sum_waits`) at most for what needs no slot of
// this launch on any rank: so whoever has taken one finishes it whatever others do. It raises its signals before the
// worker takes another. Nothing is known of the order of a rank's slots, nor of who takes which: each has all the waits
// that it needs, and a raise says that its slot is done, and nothing of others. There is no one-shot sum.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "syncopate/core/dtype.h"
#include "syncopate/core/region.h"
#include "syncopate/kernel/program.h"
#include "syncopate/schedule/placement.h"

namespace syncopate {

inline constexpr int kPlanVersion = 5;

/// Who moves bytes (S11). Only the copy engine is realised so far; the others have their names reserved.
enum class Engine : std::uint8_t { copy_engine };
std::string_view name_of(Engine engine);

/// What a buffer is for.
enum class BufferRole : std::uint8_t {
  kernel,    ///< a tensor as the kernel reads or writes it: a parameter points to it
  staging,   ///< receives summands that the rank's tiles add; its partner is the reduced buffer
  source,    ///< a tensor as the caller supplies it; its partner is the kernel's buffer
  result,    ///< a tensor as the caller takes it; its partner is the kernel's buffer, which tiles write
  summands,  ///< what other ranks' tiles store, stacked, for additions; its partner is the kernel's buffer
};
std::string_view name_of(BufferRole role);
std::optional<BufferRole> buffer_role_from_name(std::string_view name);

/// A buffer whose elements with indices i and i + extent along a dimension stand in the same place of memory. Every
/// transfer and every read of a tile keeps to one fold: the indices from a multiple of `extent` to below the next.
struct Fold {
  int dimension = 0;
  std::int64_t extent = 1;
  friend bool operator==(const Fold&, const Fold&) = default;
};

/// Memory of one tensor, or of a part of it, on every rank, all of one shape.
struct Buffer {
  std::string name;
  std::string parameter;  ///< the kernel parameter that points to it; empty unless its role is `kernel`
  Shape shape;
  Dtype dtype = Dtype::bf16;
  bool symmetric = false;  ///< peers read or write it; else local to its rank
  std::string purpose;     ///< why it exists, in words
  Placement before;        ///< as the operator file states them; of a stack, its own
  Placement inside;
  Placement after;  ///< differs from `inside` only for outputs that are communicated
  /// Per rank: what the caller puts there before each launch, disjoint boxes: one, or of zigzag(d) two. Boxes may be
  /// empty; those of outputs are.
  std::vector<std::vector<Region>> held;
  BufferRole role = BufferRole::kernel;
  int partner = -1;  ///< of another role: the kernel's buffer that it is for
  /// Per rank: the box of the tensor that the buffer shows there, its first element at the buffer's first. Not larger
  /// than the buffer. An empty list: the buffer shows the whole tensor on every rank, or is a staging buffer or a
  /// stack of summands.
  std::vector<Region> window = {};
  /// It holds one tensor, the same for all ranks, of which each has its part or all before the launch; else every rank
  /// has its own.
  bool shared = false;
  /// A stack of summands ("Summed inputs" above): the kernel's buffer, or the source of one, which shows the summand of
  /// its rank.
  bool stacked = false;
  /// Per rank, of integers: from where to below where runs that make up inputs draw them; empty: -1, 0 and 1.
  std::vector<Range> values = {};
  /// Of the reduced buffer: what peers send for its sums lands in it, at its own place. A slot then adds to all that
  /// its tile stores there, each element once, or to none of it; and it keeps all of it.
  bool sums_in_place = false;
  /// Of a gathered input with a source: see "Folded buffers" above.
  std::optional<Fold> fold = {};
  /// Of the kernel's buffer: tiles store summands there of which additions make the sum ("One-shot sums" above).
  bool summed_apart = false;

  bool is_reduced() const {
    return role == BufferRole::kernel && inside.kind == Placement::Kind::partial_sum && !summed_apart;
  }
};

/// The boxes that the caller puts into a buffer on a rank, without those that are empty.
std::vector<Region> held_boxes(const Buffer& buffer, int rank);
/// Whether any of that is in `region`.
bool holds_any_of(const Buffer& buffer, int rank, const Region& region);
/// The box of its tensor that a buffer shows on a rank.
Region shown_region(const Buffer& buffer, int rank);
/// The shape of the tensor that the local kernel has where the fused one has this buffer; what the caller has of it in
/// a source. Without the dimension that numbers summands.
Shape shape_without_stack(const Buffer& buffer);
/// A box of the tensor as a box of the buffer, and the other way round.
Region in_buffer(const Buffer& buffer, int rank, const Region& of_tensor);
Region in_tensor(const Buffer& buffer, int rank, const Region& of_buffer);

/// The extents of what is allocated for a buffer.
Shape memory_shape(const Buffer& buffer);
/// Whether a box of a buffer keeps to one fold, so that it is a box of memory. An empty one does.
bool keeps_to_one_fold(const Buffer& buffer, const Region& of_buffer);
/// A box of a buffer that keeps to one fold, as a box of memory_shape().
Region in_memory(const Buffer& buffer, const Region& of_buffer);
/// Whether two such boxes have memory in common.
bool share_memory(const Buffer& buffer, const Region& one, const Region& other);

struct Signal {
  std::string name;  ///< unique, for people
  int home = 0;      ///< the rank in whose memory it lives and where it is waited for
  int slot = 0;      ///< its index among the signals of its home rank
  std::int64_t per_launch = 1;
  std::string counts;  ///< what one raise means, in words
};

struct Wait {
  int signal = 0;  ///< index into Plan::signals
  std::int64_t threshold = 0;
  friend bool operator==(const Wait&, const Wait&) = default;
};

/// A box of a buffer on a rank.
struct View {
  int rank = 0;
  int buffer = 0;
  Region region;
  friend bool operator==(const View&, const View&) = default;
};

struct Transfer {
  int operator_rank = 0;   ///< the schedule's operator that it realises
  int operator_index = 0;  ///< -1 where a rank copies between buffers of its own, which no schedule says
  View source;
  View destination;
  std::vector<Wait> waits;
  std::vector<int> signals;  ///< indices into Plan::signals
};

/// In-order list of transfers on one engine of one rank. The queue's rank is source or destination of each.
struct Queue {
  std::string name;
  Engine engine = Engine::copy_engine;
  std::vector<Transfer> transfers;
};

/// Summands that a tile adds to its own: elements `target` of the reduced buffer have theirs in `source`, a box of
/// equal extents in the staging buffer, or, where sums are in place, the same box. Both boxes are contiguous in memory.
/// A tile adds to those of its elements that are in `target`, and ignores the rest.
struct Addend {
  Region target;
  Region source;
  friend bool operator==(const Addend&, const Addend&) = default;
};

/// A part of a slot's walk over its tile: a piece of a streamed loop.
struct LoopStep {
  int piece = 0;            ///< index into Tile::pieces
  std::vector<Wait> waits;  ///< before the piece reads anything
  friend bool operator==(const LoopStep&, const LoopStep&) = default;
};

/// One entry of a rank's tile order. A tile that stores summands that must leave before others of its own can be added
/// to stands in the order several times, each time keeping another part.
struct Slot {
  int tile = 0;             ///< index into Plan::tiles
  std::vector<Wait> waits;  ///< before the tile reads anything
  /// The part of the reduced buffer to which the tile's stores to that buffer are cut, a contiguous box; without
  /// dimensions: all of it.
  Region kept;
  std::vector<Wait> sum_waits;  ///< after the tile has computed, before it adds
  std::vector<Addend> addends;  ///< in the order of addition
  int own_place = 0;            ///< how many addends are added before the tile's own value
  std::vector<int> signals;     ///< indices into Plan::signals
  /// Between `waits` and `sum_waits`: each piece of the tile once, those of the first streamed loop before those of the
  /// second, and so on. All slots of one tile on a rank have the same order.
  std::vector<LoopStep> steps = {};
  friend bool operator==(const Slot&, const Slot&) = default;
};

/// A part of a one-shot sum.
struct Addition {
  Region region;            ///< of the result, contiguous
  std::vector<Wait> waits;  ///< before any summand of it is read
  friend bool operator==(const Addition&, const Addition&) = default;
};

struct RankProgram {
  std::vector<int> start_signals;
  std::vector<Queue> queues;
  std::vector<Slot> slots;
  std::vector<Addition> additions;
  std::vector<Wait> completion_waits;
  std::vector<int> completion_signals;
};

struct TileAccess {
  int buffer = 0;  ///< index into Plan::buffers
  Region region;
  friend bool operator==(const TileAccess&, const TileAccess&) = default;
};

/// Consecutive iterations of a streamed loop that need the same chunks of what arrives.
struct LoopPiece {
  int loop = 0;            ///< index into KernelPart::streamed_loops
  std::int64_t begin = 0;  ///< of the tile's iterations of that loop, numbered from 0
  std::int64_t end = 0;
  std::vector<TileAccess> reads;
  friend bool operator==(const LoopPiece&, const LoopPiece&) = default;
};

/// One tile of the kernel, on the ranks whose slots name it.
struct Tile {
  std::vector<std::int64_t> index;  ///< values of Kernel::axes
  std::vector<TileAccess> reads;    ///< but those in pieces
  std::vector<TileAccess> writes;
  std::vector<LoopPiece> pieces = {};  ///< by loop, then ascending; those of a loop are all its iterations
  friend bool operator==(const Tile&, const Tile&) = default;
};

/// The kernel of the operator, before and after fusion. The plan carries both texts, so that it can be run,
/// and its result compared with the unfused operator, from the file alone.
struct KernelPart {
  std::string file;          ///< name of the local kernel's file, for messages
  std::string function;      ///< the local kernel's function
  std::string local_source;  ///< text of that file
  std::string fused_function;
  std::string fused_source;   ///< text of the emitted file; empty until emit has run
  ScalarArguments arguments;  ///< same for both, and on all ranks
  /// Per rank: the arguments that do not have one value on all ranks, the same ones of each rank. Empty if there are
  /// none. They are no constexprs, and the axes and extents below, and the shapes of tensors, do not depend on them.
  std::vector<ScalarArguments> rank_arguments = {};
  std::vector<std::string> axes;
  std::vector<std::int64_t> extents;
  /// The axes that the kernel's annotated loops walk, in the order of the loops, if any of them reads a tensor
  /// that arrives while it runs; else empty.
  std::vector<std::string> streamed_loops;
  bool persistent = false;  ///< how the local kernel is launched: one program for all tiles, or one per tile
  /// Programs of the local kernel's launch, per axis of its grid: 1 to 3 axes. {1} if it is persistent.
  std::vector<std::int64_t> grid = {1};
  int warps = 4;   ///< for Triton: per thread block
  int stages = 3;  ///< for Triton: depth of software pipelines
};

/// All arguments that a kernel has on a rank.
ScalarArguments arguments_of(const KernelPart& kernel, int rank);

/// In which order the summands of a part of a reduced tensor are added. A leaf (no terms) is the summand of `rank`, as
/// its local kernel would store it; a node is the sum of its terms from the first to the last, in fp32 from +0, rounded
/// to the tensor's type.
struct SumOrder {
  int rank = 0;
  std::vector<SumOrder> terms;
  friend bool operator==(const SumOrder&, const SumOrder&) = default;
};

/// What a rank's output of a reduced tensor is, in `region`: the unfused meaning, which results are compared with.
struct Sum {
  int rank = 0;
  int buffer = 0;
  Region region;
  SumOrder order;
};

struct Plan {
  std::string operator_name;
  int ranks = 1;
  KernelPart kernel;
  /// The kernel's in the order of its parameters; a source, a result and a stack of summands behind their partner.
  std::vector<Buffer> buffers;
  std::vector<Signal> signals;
  std::vector<Tile> tiles;            ///< rank 0's in the local kernel's own order, then what other ranks have
  std::vector<Sum> sums;              ///< cover each rank's output of reduced buffers, and one-shot sums, exactly
  int workers = 1;                    ///< thread blocks per rank; all resident at once
  int lookahead = 0;                  ///< of a dynamic order; 0: workers are dealt their slots
  std::vector<RankProgram> programs;  ///< per rank
  std::string communication;          ///< one line per communicated tensor, in words

  const Buffer& buffer(int index) const { return buffers[static_cast<std::size_t>(index)]; }
};

/// Bytes per rank that the fused operator needs beyond what the local kernel's caller supplies, summed over kinds;
/// maxima over ranks.
struct ExtraMemory {
  /// Staging buffers and stacks of summands, parts of gathered buffers that the caller does not fill, the kernel's own
  /// of exchanges and one-shot sums.
  std::int64_t staging = 0;
  std::int64_t signals = 0;
  std::int64_t tables = 0;  ///< tile order, waits, addends, additions and signals, as the kernel reads them
  std::int64_t total() const { return staging + signals + tables; }
};
ExtraMemory extra_memory(const Plan& plan);

/// Whether workers choose among the slots of their rank ("Dynamic order" above).
bool is_dynamic(const Plan& plan);
/// Slots s, s + this, s + 2 * this, ... of a rank are one worker's, in this order; in a dynamic order each is for
/// itself.
std::size_t slot_stride(const Plan& plan);
/// 64-bit words of a rank by which its workers take slots in a dynamic order; none in others. Per slot the last launch
/// in which it was taken; then one that says where to begin to look.
std::size_t claim_words(const Plan& plan, int rank);

/// Flags (number of signals homed at `rank`).
int signal_count(const Plan& plan, int rank);

/// What launches leave in `buffer` on `rank` for the caller to take: all of an output of the rank's own, its part of a
/// reduced one, what a result shows. An empty box for what is no output.
Region output_region(const Plan& plan, int buffer, int rank);

/// The tiles of a rank, ascending: all, or, where ranks differ, those that its slots name.
std::vector<int> tiles_of(const Plan& plan, int rank);

/// The reduced buffer, or -1. A plan has at most one.
int reduced_buffer(const Plan& plan);
/// The staging buffer, or -1.
int staging_buffer(const Plan& plan);
/// Whether the plan reduces an output, and tiles add in place.
bool sums_in_place(const Plan& plan);
/// Where summands land: the staging buffer, or, where sums are in place, the reduced one. Or -1.
int landing_buffer(const Plan& plan);
/// The source or the result that is for this buffer of the kernel, or -1.
int caller_side(const Plan& plan, int buffer);
/// The stack of what other ranks contribute to a one-shot sum, or -1. A plan has at most one.
int summands_buffer(const Plan& plan);
/// Where the stack on `rank` has a box of the summand of `source`, another rank; summands have so many `rows`.
Region in_stack(Region of_summand, std::int64_t rows, int rank, int source);
/// The result of the one-shot sum, or -1.
int added_up_buffer(const Plan& plan);
/// Whether callers have nothing to do with a buffer: it is a staging buffer or a stack of other ranks' summands, or has
/// a source or a result instead.
bool is_the_operators_own(const Plan& plan, int buffer);
/// Whether slots raise signals: outputs leave tile by tile (one is reduced, or one has a result), or tiles make room in
/// a folded buffer.
bool slots_raise(const Plan& plan);
/// Whether any slot keeps only a part of its tile's stores.
bool cuts_tiles(const Plan& plan);

/// What a slot that raises signals does besides computing and storing its tile. The numbers stand in
/// emitted kernels, too.
namespace slot_work {
inline constexpr std::int64_t kAdds = 1;         ///< it has addends, or, not in place, waits before adding
inline constexpr std::int64_t kRaisesLate = 2;   ///< before it stores it raises the signals of its worker's slot before
inline constexpr std::int64_t kRaisesEarly = 4;  ///< it raises its own signals as soon as it has stored
inline constexpr std::int64_t kAddsOne = 8;      ///< it has exactly one row of `addends`
inline constexpr std::int64_t kWaitsToAdd = 16;  ///< it has waits before adding
inline constexpr std::int64_t kAddsToAll = 32;  ///< that one row is for all elements that the tile stores; then the ...
inline constexpr std::int64_t kShift = 64;      ///< ... row's shift times this is in the sum, too
}  // namespace slot_work

/// Calls `visit(waits)` for each list of waits of a slot, in the order in which its worker performs them.
template <typename Visitor>
void for_each_waits_of(const Slot& slot, Visitor&& visit) {
  visit(slot.waits);
  for (const LoopStep& step : slot.steps) visit(step.waits);
  visit(slot.sum_waits);
}
/// Whether the slot waits for anything.
bool waits_for_anything(const Slot& slot);

/// The tables that the fused kernel of one rank reads. All are row-major int64.
struct KernelTables {
  /// Per slot: the tile index values, then first and past-the-last row of `waits` before the tile: axes + 2 columns.
  /// In a plan whose slots raise signals, but which reduces nothing, 5 more columns follow: first and past-the-last row
  /// of `signals` to raise before the slot stores, and of those to raise after it has stored; and which of the two
  /// there are, a sum of numbers of slot_work. In a plan with a reduced buffer 12 more columns follow: first and
  /// past-the-last row of `waits` before adding; first row of `addends`, the row before which the own value is added,
  /// past-the-last row; first and past-the-last row of `signals` to raise before the slot waits to add, or stores, and
  /// of those to raise after it has stored; first and past-the-last element, by row-major number in the reduced buffer,
  /// that the slot keeps (kept as a whole: 0 and the number of elements); and, so that the kernel need not look at most
  /// of these, what the slot does, a sum of numbers of slot_work. In any plan, for each streamed loop 2 more columns
  /// follow: first and past-the-last row of `steps`. A slot's signals are raised once: after it where its worker's next
  /// slot waits for anything or there is none, else before that next slot stores, when waiting until the stores are
  /// complete costs nothing any more. In a dynamic order there is no telling which slot is next: after it.
  std::vector<std::int64_t> tiles;
  /// Per step: first and past-the-last iteration; first and past-the-last row of `waits`. Steps of a slot that are
  /// neighbours in the loop too are one row if the later of them waits for nothing.
  std::vector<std::int64_t> steps;
  /// Per wait: flag slot, per_launch, threshold.
  std::vector<std::int64_t> waits;
  /// Per addend: shift, begin, end. Element e of the reduced buffer, begin <= e < end, has its summand at element
  /// e + shift of the staging buffer. Addends of a slot that follow each other are merged where that changes nothing.
  /// Empty where sums are in place.
  std::vector<std::int64_t> addends;
  /// Per signal of a slot: home rank, flag slot.
  std::vector<std::int64_t> signals;
  /// Per addition: first and past-the-last row of `waits`; first and past-the-last element of the result; elements from
  /// one summand of the stack to the next.
  std::vector<std::int64_t> additions;
};
KernelTables kernel_tables(const Plan& plan, int rank);
/// Columns of KernelTables::tiles after the index values.
std::int64_t tile_columns(const Plan& plan);

}  // namespace syncopate
