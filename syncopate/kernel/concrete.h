// Running a kernel for real: one Worker is one program instance (a thread block) of a lowered kernel, with its
// memory and its flags supplied by an Environment. bf16/fp16/fp8 round as the hardware does; tl.dot accumulates in
// fp32 in ascending k.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "syncopate/core/dtype.h"
#include "syncopate/core/region.h"
#include "syncopate/core/source.h"
#include "syncopate/kernel/program.h"
#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

enum class AccessKind : std::uint8_t { read, write, atomic };

/// `count` consecutive elements of a buffer from element `offset`.
struct Run {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// A pointer argument: element 0 of buffer `buffer` of the Environment.
struct BufferArgument {
  int buffer = 0;
  Dtype dtype = Dtype::fp32;
};
using Argument = std::variant<std::int64_t, double, bool, BufferArgument>;
using Arguments = std::map<std::string, Argument>;

/// A wait that the kernel asked for: flags[slot] >= expected.
struct WaitRequest {
  int flags_buffer = 0;
  std::int64_t slot = 0;
  std::int64_t expected = 0;
  std::int64_t tile = -1;  ///< what the kernel says it is about to work on: the slot in the rank's tile order
  SourceLocation where;
};

/// A worker of a dynamic order wants a slot.
struct TakeRequest {
  int claims_buffer = 0;
  std::int64_t lookahead = 0;
  std::int64_t count = 0;  ///< of slots
  SourceLocation where;
};

/// The world of a worker. The host floor implements it. Called on the thread that steps the worker.
class Environment {
 public:
  virtual ~Environment() = default;
  /// Announces an access of whole runs and returns the bytes of the whole buffer. The environment checks bounds,
  /// order and poison; it may throw to report what it found. `where` is the kernel's source line.
  virtual std::span<std::byte> access(int buffer, AccessKind kind, std::span<const Run> runs,
                                      const SourceLocation& where) = 0;
  /// Whether the wait is satisfied; if not, the worker becomes blocked and asks again at its next step.
  virtual bool wait(const WaitRequest& request) = 0;
  /// Adds 1 to flag `slot` of rank `home`; `peers_buffer` is the table of where the flags of each rank are. Only
  /// kernels with a reduced output raise flags, so an environment for others need not have this.
  virtual void raise(int peers_buffer, std::int64_t home, std::int64_t slot, const SourceLocation& where);
  /// The slot that the worker takes; `count` if all are taken; nothing if there is none that it may take: then the
  /// worker becomes blocked and asks again at its next step. Only kernels of a dynamic order take slots.
  virtual std::optional<std::int64_t> take(const TakeRequest& request);
  /// A tl.device_assert does not hold. Throws UserError; overridden to say on which rank.
  [[noreturn]] virtual void deny(const std::string& assertion, const SourceLocation& where);
};

/// One running program instance. Not thread-safe; distinct workers are independent.
class Worker {
 public:
  enum class State : std::uint8_t { running, blocked, finished };

  /// `program_ids`/`program_counts` are the grid position and size per axis (axis 0 first, missing axes are 0 of 1).
  /// Throws UserError if an argument is missing or unknown.
  Worker(std::shared_ptr<const Program> program, const Arguments& arguments, std::vector<std::int64_t> program_ids,
         std::vector<std::int64_t> program_counts, Environment& environment);
  ~Worker();
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;

  /// Runs until after the next memory access or raise, or until a wait is not satisfied or no slot can be taken, or to
  /// the end.
  State step();
  State state() const;
  /// The wait that blocks this worker (only while a wait does).
  const WaitRequest& blocked_on() const;

 private:
  friend class ReorderedKernel;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs one program instance to its end in an environment in which no wait ever blocks.
void run_to_end(std::shared_ptr<const Program> program, const Arguments& arguments,
                std::vector<std::int64_t> program_ids, std::vector<std::int64_t> program_counts,
                Environment& environment);

/// How a tile walks one of the kernel's streamed loops, given by its number: ranges of iterations, one after the other,
/// which hold each of the tile's iterations once. `tile` holds the values of the index variables.
using IterationOrder = std::function<std::vector<Range>(std::span<const std::int64_t> tile, int loop)>;

/// A local kernel whose streamed loops can be run in an order other than their own.
class ReorderedKernel {
 public:
  explicit ReorderedKernel(const TileKernel& kernel);
  ~ReorderedKernel();
  ReorderedKernel(ReorderedKernel&&) noexcept;
  ReorderedKernel& operator=(ReorderedKernel&&) noexcept;

  /// As run_to_end(). Throws UserError if an order is not one of the iterations that a loop has.
  void run_to_end(const IterationOrder& order, const Arguments& arguments, std::vector<std::int64_t> program_ids,
                  std::vector<std::int64_t> program_counts, Environment& environment) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace syncopate
