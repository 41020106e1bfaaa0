#include "syncopate/cuda/arena.h"

#include <algorithm>

namespace syncopate::cuda {
namespace {

constexpr std::size_t kWord = sizeof(std::int64_t);
constexpr std::size_t kPartAlignment = 256;
constexpr std::size_t kArenaAlignment = std::size_t{2} << 20;

std::size_t align(std::size_t bytes, std::size_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

bool can_bind(const Plan& plan, int buffer) {
  if (plan.buffer(buffer).symmetric) return false;
  if (plan.buffer(buffer).parameter.empty() && buffer != added_up_buffer(plan)) return false;
  for (const RankProgram& program : plan.programs)
    for (const Queue& queue : program.queues)
      for (const Transfer& transfer : queue.transfers)
        if (transfer.source.buffer == buffer || transfer.destination.buffer == buffer) return false;
  return true;
}

ArenaLayout arena_layout(const Plan& plan, const Mailboxes& mailboxes) {
  ArenaLayout layout;
  const auto place = [&](std::size_t bytes) {
    const std::size_t at = layout.bytes;
    layout.bytes = align(at + bytes, kPartAlignment);
    return at;
  };
  std::size_t flags = 0;
  for (int rank = 0; rank < plan.ranks; ++rank)
    flags = std::max(flags, static_cast<std::size_t>(signal_count(plan, rank)));
  layout.flags = place(flags * kWord);
  layout.mailboxes = place(mailboxes.most() * kWord);
  layout.record = place(kRecordWords * kWord);
  for (const Buffer& buffer : plan.buffers) {
    layout.buffers.emplace_back();
    if (buffer.symmetric)
      layout.buffers.back() =
          place(static_cast<std::size_t>(volume(memory_shape(buffer)) * size_in_bytes(buffer.dtype)));
  }
  layout.bytes = align(std::max(layout.bytes, kWord), kArenaAlignment);
  return layout;
}

}  // namespace syncopate::cuda
