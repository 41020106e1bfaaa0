// The memories of all ranks: the plan's buffers, every access of which is checked, and what the kernel's runtime
// parameters point to.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "syncopate/host/describe.h"
#include "syncopate/host/folded.h"
#include "syncopate/host/host.h"
#include "syncopate/host/shadow.h"

namespace syncopate::host {

/// Numbers by which a worker's kernel knows its rank's memory: the plan's buffers, then these.
enum class RuntimeBuffer : std::uint8_t {
  tiles,
  waits,
  steps,
  flags,
  epoch,
  record,
  addends,
  signals,
  peers,
  claims,
  additions
};
inline constexpr int kRuntimeBuffers = 11;

class Memory {
 public:
  Memory(const Plan& plan, const AgentLayout& layout, const History& history, const Describer& describer);

  /// Announces an access within `event` and returns the bytes of the whole buffer. Throws Failure if the plan does not
  /// justify it; `where`, if known, is the line of the kernel.
  std::span<std::byte> read(int rank, int buffer, std::span<const Run> runs, EventId event,
                            const SourceLocation& where = {});
  std::span<std::byte> write(int rank, int buffer, std::span<const Run> runs, EventId event,
                             const SourceLocation& where = {});

  /// `agent`, the rank's caller, completes `launch`: nothing may be under way in the rank's buffers for that launch any
  /// more, nor come later, since the buffers may now be overwritten or freed. Throws Failure.
  void complete(int rank, std::int64_t launch, int agent);

  /// The bytes, without a check; for the machine itself.
  Bytes& bytes(int rank, int buffer) { return at(rank).buffers[static_cast<std::size_t>(buffer)]; }
  /// Empty for `peers` and `claims`: the machine follows a raise to another rank, and takes slots, by itself, and no
  /// kernel may look there.
  std::span<std::byte> runtime_bytes(int rank, RuntimeBuffer buffer);
  std::int64_t& flag(int rank, int slot) { return at(rank).flags[static_cast<std::size_t>(slot)]; }
  void set_epoch(int rank, std::int64_t epoch) { at(rank).epoch = epoch; }

  /// See Shadow::forget.
  void forget(const Clock& known);

 private:
  struct RankMemory {
    std::vector<Bytes> buffers;
    std::vector<Shadow> shadows;
    KernelTables tables;
    std::vector<std::int64_t> flags;
    std::int64_t epoch = 0;
    std::int64_t completed = 0;  ///< the last launch that is complete
    std::array<std::int64_t, 8> record{};
  };

  RankMemory& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  void check_not_completed(int rank, int buffer, std::span<const Run> runs, EventId event, const char* verb) const;
  [[noreturn]] void fail_read(int rank, int buffer, const Conflict& conflict, EventId event,
                              const SourceLocation& where) const;
  [[noreturn]] void fail_write(int rank, int buffer, const Conflict& conflict, EventId event,
                               const SourceLocation& where) const;
  std::string sentence(EventId event, const char* verb, int rank, int buffer, const Conflict& conflict,
                       const SourceLocation& where) const;

  const Plan& plan_;
  const History& history_;
  const Describer& describer_;
  const FoldedParts folded_;
  std::vector<RankMemory> ranks_;
};

}  // namespace syncopate::host
