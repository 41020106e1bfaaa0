#include "syncopate/verify/describe.h"

#include <fmt/format.h>

namespace syncopate {

std::string describe_region(const Plan& plan, int buffer, const Region& region) {
  return plan.buffer(buffer).name + region.to_string();
}

std::string describe_transfer(const PlanIndex& index, int transfer) {
  const Transfer& moved = index.transfer(transfer);
  const View& source = moved.source;
  const View& destination = moved.destination;
  const std::string to = source.buffer == destination.buffer
                             ? ""
                             : describe_region(index.plan(), destination.buffer, destination.region) + " of ";
  const std::string number =
      moved.operator_index < 0 ? "" : fmt::format(" {}.{}", moved.operator_rank, moved.operator_index);
  return fmt::format("transfer{} ({} from rank {} to {}rank {}, at place {} of queue '{}')", number,
                     describe_region(index.plan(), source.buffer, source.region), source.rank, to, destination.rank,
                     index.place(transfer).position, index.queue_of(transfer).name);
}

std::string describe_tile(const Plan& plan, int tile) {
  return fmt::format("tile ({})", fmt::join(plan.tiles[static_cast<std::size_t>(tile)].index, ", "));
}

std::string describe_slot(const Plan& plan, int slot) {
  if (plan.lookahead > 0) return fmt::format("slot {}", slot);
  return fmt::format("slot {}, worker {}", slot, slot % plan.workers);
}

std::string describe_step(const Plan& plan, const Slot& slot, std::size_t step) {
  const Tile& tile = plan.tiles[static_cast<std::size_t>(slot.tile)];
  const LoopPiece& piece = tile.pieces[static_cast<std::size_t>(slot.steps[step].piece)];
  return fmt::format("walks iterations {} to {} of loop {}", piece.begin, piece.end,
                     plan.kernel.streamed_loops[static_cast<std::size_t>(piece.loop)]);
}

std::string describe_waits(const Plan& plan, const std::vector<Wait>& waits) {
  if (waits.empty()) return "nothing";
  std::string text;
  for (const Wait& wait : waits) {
    const Signal& signal = plan.signals[static_cast<std::size_t>(wait.signal)];
    text += text.empty() ? "" : ", ";
    if (wait.threshold == 0)
      text += fmt::format("'{}' of the launch before", signal.name);
    else
      text += fmt::format("'{}' at {} of {}", signal.name, wait.threshold, signal.per_launch);
  }
  return text;
}

std::string describe_addition(const PlanIndex& index, int rank, int addition) {
  const Region& region = index.additions(rank)[static_cast<std::size_t>(addition)].region;
  return fmt::format("the sum of {} on rank {} (addition {}, worker {})",
                     describe_region(index.plan(), index.added_up(), region), rank, addition,
                     addition % index.plan().workers);
}

std::string describe_event(const PlanIndex& index, const Event& event) {
  const Plan& plan = index.plan();
  switch (event.kind) {
    case Event::Kind::start:
      return fmt::format("the start of rank {}", event.rank);
    case Event::Kind::completion:
      return fmt::format("the completion of rank {}", event.rank);
    case Event::Kind::transfer:
      return describe_transfer(index, event.number);
    case Event::Kind::slot: {
      const int tile = index.program(event.rank).slots[static_cast<std::size_t>(event.number)].tile;
      return fmt::format("{} on rank {} ({})", describe_tile(plan, tile), event.rank,
                         describe_slot(plan, event.number));
    }
  }
  throw InternalError("event without a kind");
}

}  // namespace syncopate
