// The plan: a fused operator, complete. It is the narrow waist of Syncopate. The compiler (compile.h) makes plans;
// verify/, emit/ and host/ work from a plan alone.
//
// Meaning of a launch. Launches are numbered by an epoch, 1, 2, 3, ... Rank r takes part in launch e as follows.
//   1. Its caller puts the inputs in place: for every buffer, the region held[r].
//   2. It raises `start_signals`.
//   3. Its queues run, each a list of transfers taken one after the other: a transfer waits for all of its `waits`,
//      moves its bytes, then raises its `signals`. Queues are independent of each other.
//   4. Its kernel runs on `workers` workers. Worker w takes slots w, w + workers, w + 2 workers, ... of the tile
//      order; for each slot it performs the slot's waits, then the tile.
//   5. When all tiles and all queues are done it waits for `completion_waits`, then raises `completion_signals`; the
//      launch is complete on this rank; outputs may be read, and launch e + 1 may begin at step 1.
// Ranks are not synchronised otherwise: a rank may be in launch e + 1 while another is still in launch e.
//
// Signals are 64-bit counters in the memory of their home rank that only grow. A signal is raised exactly
// `per_launch` times in every launch, so a wait with threshold t in launch e is satisfied when
//   value >= per_launch * (e - 1) + t,   0 <= t <= per_launch.
// Threshold 0 waits for all raises of the previous launch. A wait for t = per_launch orders everything before each of
// the raises before the waiter; a wait for fewer orders nothing of this launch (which raises came is unknown), unless
// per_launch raises all come from one place in a known order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "syncopate/core/dtype.h"
#include "syncopate/core/region.h"
#include "syncopate/kernel/program.h"
#include "syncopate/schedule/placement.h"

namespace syncopate {

inline constexpr int kPlanVersion = 1;

/// Who moves bytes (S11). Only the copy engine is realised so far; the others have their names reserved.
enum class Engine : std::uint8_t { copy_engine };
std::string_view name_of(Engine engine);

/// Memory of one tensor on every rank, all of one shape.
struct Buffer {
  std::string name;
  std::string parameter;  ///< the kernel parameter that points to it
  Shape shape;
  Dtype dtype = Dtype::bf16;
  bool symmetric = false;  ///< peers read or write it; else local to its rank
  std::string purpose;     ///< why it exists, in words
  Placement before;        ///< as the operator file states them
  Placement inside;
  std::vector<Region> held;  ///< per rank: what the caller puts there before each launch; empty boxes for outputs
};

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
  int operator_rank = 0;  ///< the schedule's operator that it realises
  int operator_index = 0;
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

/// One entry of a rank's tile order.
struct Slot {
  int tile = 0;  ///< index into Plan::tiles
  std::vector<Wait> waits;
};

struct RankProgram {
  std::vector<int> start_signals;
  std::vector<Queue> queues;
  std::vector<Slot> slots;
  std::vector<Wait> completion_waits;
  std::vector<int> completion_signals;
};

struct TileAccess {
  int buffer = 0;  ///< index into Plan::buffers
  Region region;
};

/// One tile of the kernel: the same for all ranks.
struct Tile {
  std::vector<std::int64_t> index;  ///< values of Kernel::axes
  std::vector<TileAccess> reads;
  std::vector<TileAccess> writes;
};

/// The kernel of the operator, before and after fusion. The plan carries both texts, so that it can be run,
/// and its result compared with the unfused operator, from the file alone.
struct KernelPart {
  std::string file;          ///< name of the local kernel's file, for messages
  std::string function;      ///< the local kernel's function
  std::string local_source;  ///< text of that file
  std::string fused_function;
  std::string fused_source;   ///< text of the emitted file; empty until emit has run
  ScalarArguments arguments;  ///< same for both
  std::vector<std::string> axes;
  std::vector<std::int64_t> extents;
  bool persistent = false;  ///< how the local kernel is launched: one program for all tiles, or one per tile
};

struct Plan {
  std::string operator_name;
  int ranks = 1;
  KernelPart kernel;
  std::vector<Buffer> buffers;  ///< in the order of the kernel's parameters
  std::vector<Signal> signals;
  std::vector<Tile> tiles;            ///< in the local kernel's own order
  int workers = 1;                    ///< thread blocks per rank; all resident at once
  std::vector<RankProgram> programs;  ///< per rank
  std::string communication;          ///< one line per communicated tensor, in words

  const Buffer& buffer(int index) const { return buffers[static_cast<std::size_t>(index)]; }
};

/// Bytes per rank that the fused operator needs beyond what the local kernel's caller supplies, summed over kinds;
/// maxima over ranks.
struct ExtraMemory {
  std::int64_t staging = 0;  ///< parts of symmetric buffers that the caller does not fill
  std::int64_t signals = 0;
  std::int64_t tables = 0;  ///< tile order and waits, as the kernel reads them
  std::int64_t total() const { return staging + signals + tables; }
};
ExtraMemory extra_memory(const Plan& plan);

/// Flags (number of signals homed at `rank`).
int signal_count(const Plan& plan, int rank);

/// The tables that the fused kernel of one rank reads. All are row-major int64.
struct KernelTables {
  /// Per slot: the tile index values, then first and past-the-last row of `waits`: axes + 2 columns.
  std::vector<std::int64_t> tiles;
  /// Per wait: flag slot, per_launch, threshold.
  std::vector<std::int64_t> waits;
};
KernelTables kernel_tables(const Plan& plan, int rank);

}  // namespace syncopate
