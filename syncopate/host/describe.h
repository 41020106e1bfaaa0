// Words for what agents do, for the machine's messages.
#pragma once

#include <optional>
#include <string>

#include "syncopate/host/agents.h"
#include "syncopate/host/history.h"
#include "syncopate/kernel/concrete.h"

namespace syncopate::host {

class Describer {
 public:
  Describer(const Plan& plan, const AgentLayout& layout) : plan_(plan), layout_(layout) {}

  /// "rank 1's caller", "rank 1's queue 'copy engine 0'", "rank 1's worker 3".
  std::string agent(int agent) const;
  /// "tile (2, 0)", by the slot of a rank's tile order, or "tile (2, 0) cut to [0:3, 0:64]"; "the kernel outside of any
  /// tile" for -1.
  std::string tile(int rank, std::int64_t slot) const;
  /// "transfer 2 of rank 0's queue 'copy engine 0' (a[0:128, 0:64] of rank 0 to rank 1)".
  std::string transfer(int rank, int queue, std::int64_t index) const;
  /// "tile (2, 0) on rank 1's worker 3 in launch 2".
  std::string event(const Event& event) const;
  /// "rank 1's a[3:4, 0:64]": the part of the run within its first row (all of it where it is short).
  std::string elements(int rank, int buffer, const Run& run) const;
  /// "signal 'a chunk 2 arrived' of rank 1".
  std::string signal(int signal) const;

  /// What, other than `reader` itself, the plan says will write an element in every launch, in words; nothing if
  /// nothing does. Tiles are those of the buffer's own rank.
  std::optional<std::string> filler(int rank, int buffer, std::int64_t element, const Event& reader) const;

 private:
  const Plan& plan_;
  const AgentLayout& layout_;
};

}  // namespace syncopate::host
