#include "syncopate/plan/unread.h"

#include <algorithm>
#include <variant>

#include "syncopate/plan/box_list.h"

namespace syncopate {

namespace {

using Boxes = std::vector<Region>;

bool overlaps_any(const Boxes& boxes, const Region& region) {
  return std::any_of(boxes.begin(), boxes.end(), [&](const Region& box) { return box.overlaps(region); });
}

/// [rank]: what the rank's tiles read of a buffer, as boxes of the tensor.
std::vector<Boxes> reads_of(const BoundOperator& bound, int buffer) {
  const Plan& plan = bound.plan;
  std::vector<Boxes> reads(static_cast<std::size_t>(plan.ranks));
  for (int rank = 0; rank < plan.ranks; ++rank) {
    Boxes& boxes = reads[static_cast<std::size_t>(rank)];
    const auto add = [&](const std::vector<TileAccess>& accesses) {
      for (const TileAccess& access : accesses)
        if (access.buffer == buffer && !access.region.empty()) add_box(boxes, access.region);
    };
    for (const int number : bound.tiles[static_cast<std::size_t>(rank)]) {
      const Tile& tile = plan.tiles[static_cast<std::size_t>(number)];
      add(tile.reads);
      for (const LoopPiece& piece : tile.pieces) add(piece.reads);
    }
    for (Region& box : boxes) box = in_tensor(plan.buffer(buffer), rank, box);
  }
  return reads;
}

/// Goes through the operators backwards: who passes something on comes after who brings it.
void leave_out(CommunicatedTensor& communicated, std::vector<Boxes> wanted) {
  const Schedule& schedule = communicated.schedule;
  std::vector<std::vector<bool>> left_out;
  for (const auto& list : schedule.operators) left_out.emplace_back(list.size(), false);
  bool any = false;
  std::vector<Dependency> order = topological_order(schedule);
  std::reverse(order.begin(), order.end());
  for (const Dependency& which : order) {
    const auto& p2p = std::get<P2P>(schedule.at(which).action);
    const Region& chunk = schedule.chunks[static_cast<std::size_t>(p2p.source_chunk)].region;
    if (overlaps_any(wanted[static_cast<std::size_t>(p2p.destination_rank)], chunk)) {
      add_box(wanted[static_cast<std::size_t>(p2p.source_rank)], chunk);
      continue;
    }
    left_out[static_cast<std::size_t>(which.rank)][static_cast<std::size_t>(which.index)] = true;
    any = true;
  }
  if (any) communicated.left_out = std::move(left_out);
}

}  // namespace

void leave_out_unread(BoundOperator& bound) {
  for (CommunicatedTensor& communicated : bound.communicated) {
    const Buffer& kernel = bound.plan.buffer(communicated.buffer);
    const bool arrives = communicated.caller_buffer < 0
                             ? !kernel.is_reduced() && !kernel.summed_apart
                             : bound.plan.buffer(communicated.caller_buffer).role == BufferRole::source;
    if (!arrives) continue;
    const std::vector<Boxes> reads = reads_of(bound, communicated.buffer);
    for (std::size_t rank = 0; rank < communicated.own_parts.size(); ++rank)
      std::erase_if(communicated.own_parts[rank], [&](const Region& part) { return !overlaps_any(reads[rank], part); });
    leave_out(communicated, reads);
  }
}

}  // namespace syncopate
