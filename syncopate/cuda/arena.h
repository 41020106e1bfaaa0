// The memory of a rank that peers reach is one allocation, laid out the same on every rank, so that one address per
// rank is all that ranks have to tell each other.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "syncopate/cuda/mailboxes.h"
#include "syncopate/plan/plan.h"

namespace syncopate::cuda {

/// Words of a record of a missed wait: 1, who, flag slot, expected, seen. `who` is a slot of the tile order, behind
/// those an addition, or one of the numbers in rank_on_gpu.h.
inline constexpr std::size_t kRecordWords = 8;

/// In bytes from the arena's start. Parts are aligned to 256 bytes, the whole to 2 MiB: then it shares no page with
/// other allocations, which the driver would make visible to peers too.
struct ArenaLayout {
  std::vector<std::optional<std::size_t>> buffers;  ///< nothing for a buffer that is local to its rank
  std::size_t flags = 0;                            ///< 64-bit words, by Signal::slot
  std::size_t mailboxes = 0;                        ///< 64-bit words, by index in Mailboxes::of_rank
  std::size_t record = 0;                           ///< kRecordWords 64-bit words: peers look at the first
  std::size_t bytes = 0;
};
ArenaLayout arena_layout(const Plan& plan, const Mailboxes& mailboxes);

/// Whether a buffer's memory may be the caller's: it belongs to a tensor of the kernel that neither peers reach nor
/// transfers move, or a one-shot sum is put there.
bool can_bind(const Plan& plan, int buffer);

}  // namespace syncopate::cuda
