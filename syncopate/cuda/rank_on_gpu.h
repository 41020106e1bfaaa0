// One rank of a plan on one GPU, prepared: everything is compiled, loaded and allocated by the constructor and
// connect(); a call allocates nothing. Several ranks may share a GPU, and ranks may be in one process or in several;
// what a rank needs of the others is one address each.
//
//   RankOnGpu rank(plan, r, gpu, options);
//   rank.connect(arenas);              // of all ranks, as this GPU addresses them
//   rank.bind(weight, address); ...    // tensors of the caller's; then rank.allocate_unbound() for the rest
//   rank.call(stream);                 // as often as wanted
//
// The steps of a launch on the GPU, in the words of plan.h:
//   1. On the caller's stream, a small kernel raises start_signals, if there are any. An event lets the queues begin.
//   2. Each queue has a stream of high priority. A transfer waits on mailboxes (mailboxes.h), copies, and raises its
//      signals: a flag that is raised once a launch gets a copy of the epoch, which lies in the rank's memory; a
//      mailbox gets 1; what is raised several times is added to by a small kernel.
//   3. The kernel runs on the caller's stream.
//   4. Behind it and the queues a small kernel waits for completion_waits, raises completion_signals and counts the
//      epoch up.
// No constant of a launch is in any of these, so that one graph, captured once, replays every launch: call() launches
// such a graph. While the caller captures `stream`, call() puts the same steps into the caller's graph instead.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "syncopate/cuda/arena.h"
#include "syncopate/cuda/compile.h"
#include "syncopate/cuda/gpu.h"
#include "syncopate/cuda/withheld_transfer.h"

namespace syncopate::cuda {

/// In a record of a missed wait (arena.h), who waited, if not a tile.
inline constexpr std::int64_t kCompletionWaits = -1;
constexpr std::int64_t who_waits_in_queue(int queue) { return -2 - std::int64_t{queue}; }
/// Above every value that a launch waits for, and below the top bit, which a counter never has.
inline constexpr std::int64_t kPastEverything = std::int64_t{1} << 62;

struct RankOptions {
  int ranks_on_this_gpu = 1;
  int watching_streams = 1;  ///< on this GPU, of those who look at its ranks at work
  double time_limit = 10;    ///< seconds that one wait of a kernel may take
  CompileOptions compile;    ///< its `capability` is the GPU's
  /// The caller puts kernels of its own into the queues' streams, which need SMs.
  bool kernels_in_queues = false;
  bool graph = true;                                    ///< false: call() always issues step by step
  std::shared_ptr<const CompiledKernel> compiled = {};  ///< the fused kernel, where it is compiled already
  std::optional<WithheldTransfer> withheld = {};  ///< counted by calls that are not captured; call() uses no graph then
};

class RankOnGpu {
 public:
  /// Throws UserError for what the user can mend: no Triton, a kernel that does not compile, more workers than fit,
  /// too little memory. `plan` and `gpu` must outlive it.
  RankOnGpu(const Plan& plan, int rank, Gpu& gpu, const RankOptions& options);
  RankOnGpu(const RankOnGpu&) = delete;
  RankOnGpu& operator=(const RankOnGpu&) = delete;
  /// What runs must have ended.
  ~RankOnGpu();

  const Plan& plan() const;
  int rank() const;
  Gpu& gpu() const;

  /// The rank's arena, its size in layout().bytes: what the other ranks pass to connect().
  DevicePointer arena() const;
  const ArenaLayout& layout() const;
  /// The arenas of all ranks, by rank, as this GPU addresses them. Once, before anything runs anywhere.
  void connect(std::span<const DevicePointer> arenas);

  /// Where a buffer is: in the arena, in memory of the rank's own, or what was bound; 0 if nothing was.
  DevicePointer buffer(int buffer) const;
  /// Whether its memory may be the caller's. A buffer that peers reach or that transfers move is the rank's own.
  bool can_bind(int buffer) const;
  /// The memory of a buffer in later calls, 16-byte aligned.
  void bind(int buffer, DevicePointer address);
  /// Gives buffers to which nothing is bound memory of the rank's own.
  void allocate_unbound();

  /// One launch, after all that `stream` has, and before all that it gets. Calls of a rank must be ordered one after
  /// the other by streams or events. Never waits for the GPU. If the driver fails while a launch is given operation by
  /// operation, what was given stays given: the rank is spent, and further calls throw UserError.
  void call(Stream stream);
  /// The same, operation by operation.
  void call_without_graph(Stream stream);

  /// The same in steps, for several ranks in one process (issue.h says in which order).
  void begin(Stream stream);
  void transfer(int queue, int transfer);
  void kernel(Stream stream);
  void complete(Stream stream);
  Stream queue(int queue) const;

  /// Whether a launch was given in part only. What its queues wait for may never come: they must be let go.
  bool is_spent() const;
  /// Whether nothing is under way in any queue's stream. From any thread.
  bool queues_ended() const;

  /// Nanoseconds of spinning in a stream, for tests: so much later comes whatever follows.
  void delay(Stream stream, std::int64_t nanoseconds);

  /// The kernel alone with every wait satisfied beforehand, raising signals that nobody waits for: what computing
  /// takes. It changes outputs and nothing else.
  void kernel_without_waiting(Stream stream);

  /// For those who look from outside while it runs (rank_watch.h).
  DevicePointer flags() const;
  DevicePointer mailbox(int index) const;
  DevicePointer epoch() const;
  DevicePointer record() const;
  /// Of any rank, as this GPU addresses it; of others only when connected.
  DevicePointer record(int rank) const;
  const Mailboxes& mailboxes() const;
  double time_limit() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace syncopate::cuda
