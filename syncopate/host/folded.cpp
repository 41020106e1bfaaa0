#include "syncopate/host/folded.h"

#include <algorithm>

namespace syncopate::host {

const Transfer& FoldedParts::transfer(const Event& event) const {
  const Agent& who = layout_.at(event.agent);
  const RankProgram& program = plan_.programs[static_cast<std::size_t>(who.rank)];
  return program.queues[static_cast<std::size_t>(who.index)].transfers[static_cast<std::size_t>(event.index)];
}

bool FoldedParts::is_meant(int buffer, const Event& reader, const Event& writer) const {
  if (writer.kind != EventKind::transfer) return true;
  const Region& brought = transfer(writer).destination.region;
  if (reader.kind == EventKind::transfer) return transfer(reader).source.region.overlaps(brought);
  const std::vector<Slot>& slots = plan_.programs[static_cast<std::size_t>(layout_.at(reader.agent).rank)].slots;
  if (reader.kind != EventKind::tile || reader.index < 0 || reader.index >= std::ssize(slots)) return true;
  const Tile& tile = plan_.tiles[static_cast<std::size_t>(slots[static_cast<std::size_t>(reader.index)].tile)];
  const auto reads_it = [&](const TileAccess& read) { return read.buffer == buffer && read.region.overlaps(brought); };
  return std::any_of(tile.reads.begin(), tile.reads.end(), reads_it) ||
         std::any_of(tile.pieces.begin(), tile.pieces.end(), [&](const LoopPiece& piece) {
           return std::any_of(piece.reads.begin(), piece.reads.end(), reads_it);
         });
}

bool FoldedParts::comes_again(const Event& writer, const Event& before) const {
  return writer.kind == EventKind::transfer && before.kind == EventKind::transfer && writer.launch == before.launch &&
         transfer(writer).destination.region.overlaps(transfer(before).destination.region);
}

}  // namespace syncopate::host
