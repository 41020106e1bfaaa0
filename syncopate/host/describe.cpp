#include "syncopate/host/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "syncopate/plan/difference.h"

namespace syncopate::host {

std::string Describer::agent(int agent) const {
  const Agent& who = layout_.at(agent);
  switch (who.kind) {
    case AgentKind::caller:
      return fmt::format("rank {}'s caller", who.rank);
    case AgentKind::queue: {
      const RankProgram& program = plan_.programs[static_cast<std::size_t>(who.rank)];
      return fmt::format("rank {}'s queue '{}'", who.rank, program.queues[static_cast<std::size_t>(who.index)].name);
    }
    case AgentKind::worker:
      return fmt::format("rank {}'s worker {}", who.rank, who.index);
    case AgentKind::slot:
      return fmt::format("rank {}'s slot {}, {}", who.rank, who.index, tile(who.rank, who.index));
  }
  return {};
}

std::string Describer::tile(int rank, std::int64_t slot) const {
  const std::vector<Slot>& slots = plan_.programs[static_cast<std::size_t>(rank)].slots;
  const std::vector<Addition>& additions = plan_.programs[static_cast<std::size_t>(rank)].additions;
  const auto addition = slot - static_cast<std::int64_t>(slots.size());
  if (addition >= 0 && addition < static_cast<std::int64_t>(additions.size()))
    return fmt::format("the sum of {}{}", plan_.buffer(added_up_buffer(plan_)).name,
                       additions[static_cast<std::size_t>(addition)].region.to_string());
  if (slot < 0 || addition >= 0) return "the kernel outside of any tile";
  const Slot& entry = slots[static_cast<std::size_t>(slot)];
  const std::string name =
      fmt::format("tile ({})", fmt::join(plan_.tiles[static_cast<std::size_t>(entry.tile)].index, ", "));
  return entry.kept.dimensions() == 0 ? name : fmt::format("{} cut to {}", name, entry.kept.to_string());
}

std::string Describer::transfer(int rank, int queue, std::int64_t index) const {
  const Queue& in = plan_.programs[static_cast<std::size_t>(rank)].queues[static_cast<std::size_t>(queue)];
  const Transfer& transfer = in.transfers[static_cast<std::size_t>(index)];
  return fmt::format("transfer {} of rank {}'s queue '{}' ({}{} of rank {} to rank {})", index, rank, in.name,
                     plan_.buffer(transfer.source.buffer).name, transfer.source.region.to_string(),
                     transfer.source.rank, transfer.destination.rank);
}

std::string Describer::event(const Event& event) const {
  const Agent& who = layout_.at(event.agent);
  switch (event.kind) {
    case EventKind::inputs:
      return fmt::format("rank {}'s caller, putting the inputs of launch {} in place", who.rank, event.launch);
    case EventKind::outputs:
      return fmt::format("rank {}'s caller, taking the outputs of launch {}", who.rank, event.launch);
    case EventKind::transfer:
      return fmt::format("{} in launch {}", transfer(who.rank, who.index, event.index), event.launch);
    case EventKind::tile:
      if (who.kind == AgentKind::slot)
        return fmt::format("{} on rank {} in launch {}", tile(who.rank, event.index), who.rank, event.launch);
      return fmt::format("{} on rank {}'s worker {} in launch {}", tile(who.rank, event.index), who.rank, who.index,
                         event.launch);
  }
  return {};
}

std::string Describer::elements(int rank, int buffer, const Run& run) const {
  const Buffer& about = plan_.buffer(buffer);
  const Shape memory = memory_shape(about);
  Region region = element_region(run.offset, memory);
  if (const int last = region.dimensions() - 1; last >= 0) {
    const std::int64_t row_end = memory[static_cast<std::size_t>(last)];
    region[last].end = std::min(region[last].begin + run.count, row_end);
  }
  return fmt::format("rank {}'s {}{}{}", rank, about.name, region.to_string(), about.fold ? " in memory" : "");
}

std::string Describer::signal(int signal) const {
  const Signal& about = plan_.signals[static_cast<std::size_t>(signal)];
  return fmt::format("signal '{}' of rank {}", about.name, about.home);
}

std::optional<std::string> Describer::filler(int rank, int buffer, std::int64_t element, const Event& reader) const {
  const Buffer& about = plan_.buffer(buffer);
  const Region where = element_region(element, memory_shape(about));
  if (holds_any_of(about, rank, where)) return fmt::format("rank {}'s caller", rank);
  for (int from = 0; from < plan_.ranks; ++from) {
    const std::vector<Queue>& queues = plan_.programs[static_cast<std::size_t>(from)].queues;
    for (std::size_t queue = 0; queue < queues.size(); ++queue) {
      const std::vector<Transfer>& transfers = queues[queue].transfers;
      for (std::size_t index = 0; index < transfers.size(); ++index) {
        const View& into = transfers[index].destination;
        if (into.rank == rank && into.buffer == buffer && in_memory(about, into.region).contains(where))
          return transfer(from, static_cast<int>(queue), static_cast<std::int64_t>(index));
      }
    }
  }
  const std::vector<Slot>& slots = plan_.programs[static_cast<std::size_t>(rank)].slots;
  const bool reader_is_tile = reader.kind == EventKind::tile && layout_.at(reader.agent).rank == rank;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    if (reader_is_tile && reader.index == static_cast<std::int64_t>(slot)) continue;
    if (about.is_reduced() && slots[slot].kept.dimensions() > 0 && !slots[slot].kept.contains(where)) continue;
    for (const TileAccess& access : plan_.tiles[static_cast<std::size_t>(slots[slot].tile)].writes)
      if (access.buffer == buffer && access.region.contains(where)) return tile(rank, static_cast<std::int64_t>(slot));
  }
  if (buffer != added_up_buffer(plan_)) return std::nullopt;
  const std::vector<Addition>& additions = plan_.programs[static_cast<std::size_t>(rank)].additions;
  for (std::size_t a = 0; a < additions.size(); ++a)
    if (additions[a].region.contains(where)) return tile(rank, static_cast<std::int64_t>(slots.size() + a));
  return std::nullopt;
}

}  // namespace syncopate::host
