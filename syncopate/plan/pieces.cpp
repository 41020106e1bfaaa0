#include "syncopate/plan/pieces.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace syncopate {

namespace {

using Iteration = std::vector<LoopRead>;

/// Adds a box to a list, merging it with one of the last few where the two make a box: the iterations of a loop read
/// one box, or a few in turn, which grow.
void add_box(std::vector<Region>& regions, const Region& region) {
  constexpr std::size_t kLookBack = 4;
  const std::size_t oldest = regions.size() > kLookBack ? regions.size() - kLookBack : 0;
  for (std::size_t i = regions.size(); i > oldest; --i) {
    const Region both = hull(regions[i - 1], region);
    if (both.volume() != regions[i - 1].volume() + region.volume() - intersect(regions[i - 1], region).volume())
      continue;
    regions[i - 1] = both;
    return;
  }
  regions.push_back(region);
}

/// What one instruction reads in an iteration.
std::vector<Region> reads_of(const Iteration& iteration, int instruction) {
  std::vector<Region> regions;
  for (const LoopRead& read : iteration)
    if (read.instruction == instruction) regions.push_back(read.region);
  return regions;
}

/// Sorts the reads of streamed loops.
class Keeper {
 public:
  Keeper(TileSpace& space, const std::set<std::string>& arriving) : space_(space) {
    for (const std::string& parameter : space.parameters) arriving_.push_back(arriving.contains(parameter));
    varying_.resize(space.tiles.empty() ? 0 : space.tiles.front().loops.size());
  }

  void run() {
    for (const TileFootprint& tile : space_.tiles)
      for (std::size_t loop = 0; loop < tile.loops.size(); ++loop) look_at(tile.loops[loop], varying_[loop]);
    bool any = false;
    for (TileFootprint& tile : space_.tiles)
      for (std::size_t loop = 0; loop < tile.loops.size(); ++loop) any = sort(tile, loop) || any;
    if (any) return;
    for (TileFootprint& tile : space_.tiles) tile.loops.clear();
  }

 private:
  /// A record without what does not stay in its loop.
  struct Kept {
    std::shared_ptr<LoopReads> reads = std::make_shared<LoopReads>();
    bool all = true;   ///< nothing was taken out
    bool any = false;  ///< something stays
  };

  /// Adds the instructions that do not read the same in every iteration.
  void look_at(const LoopFootprint& walk, std::set<int>& varying) {
    if (!walk.reads || !seen_.insert(walk.reads.get()).second) return;
    const std::vector<Iteration>& iterations = walk.reads->iterations;
    for (std::size_t i = 1; i < iterations.size(); ++i) {
      if (iterations[i] == iterations[i - 1]) continue;
      for (const Iteration* one : {&iterations[i], &iterations[i - 1]})
        for (const LoopRead& read : *one)
          if (!varying.contains(read.instruction) &&
              reads_of(iterations[i], read.instruction) != reads_of(iterations[i - 1], read.instruction))
            varying.insert(read.instruction);
    }
  }

  bool stays(const LoopRead& read, std::size_t loop) const {
    return arriving_[static_cast<std::size_t>(read.parameter)] && varying_[loop].contains(read.instruction);
  }

  const Kept& kept_of(const std::shared_ptr<const LoopReads>& record, std::size_t loop) {
    const auto [found, is_new] = kept_.try_emplace(record.get());
    Kept& kept = found->second;
    if (!is_new) return kept;
    originals_.push_back(record);
    for (const Iteration& iteration : record->iterations) {
      Iteration& rest = kept.reads->iterations.emplace_back();
      std::copy_if(iteration.begin(), iteration.end(), std::back_inserter(rest),
                   [&](const LoopRead& read) { return stays(read, loop); });
      kept.all = kept.all && rest.size() == iteration.size();
      kept.any = kept.any || !rest.empty();
    }
    return kept;
  }

  /// Returns whether anything stays in the tile's loop.
  bool sort(TileFootprint& tile, std::size_t loop) {
    LoopFootprint& walk = tile.loops[loop];
    if (!walk.reads) return false;
    const Kept& kept = kept_of(walk.reads, loop);
    if (!kept.all)
      for (std::int64_t i = 0; i < walk.iterations; ++i)
        for (const LoopRead& read : walk.reads->iterations[static_cast<std::size_t>(i)])
          if (!stays(read, loop)) add_box(reads_of_tile(tile, read.parameter), read.region);
    walk.reads = kept.reads;
    return kept.any;
  }

  std::vector<Region>& reads_of_tile(TileFootprint& tile, int parameter) const {
    const std::string& name = space_.parameters[static_cast<std::size_t>(parameter)];
    for (ParameterAccess& access : tile.accesses)
      if (access.parameter == name) return access.reads;
    tile.accesses.push_back({name, {}, {}});
    return tile.accesses.back().reads;
  }

  TileSpace& space_;
  std::vector<bool> arriving_;
  std::vector<std::set<int>> varying_;  ///< [loop]: instructions
  std::set<const LoopReads*> seen_;
  std::map<const LoopReads*, Kept> kept_;
  std::vector<std::shared_ptr<const LoopReads>> originals_;  ///< so that no new record has the address of an old one
};

/// What transfers bring to the tensor's buffer, on all ranks together, ascending. Chunks of an exchanged tensor stand
/// elsewhere in it on each rank, and rarely end elsewhere in a loop: where they do, all ranks have all of the ends.
std::vector<Region> arriving(const CommunicatedTensor& communicated, const Plan& plan) {
  const Buffer& buffer = plan.buffer(communicated.buffer);
  std::vector<Region> regions;
  for (const auto& operators : communicated.schedule.operators)
    for (const Operator& op : operators)
      if (const auto* p2p = std::get_if<P2P>(&op.action))
        regions.push_back(
            in_buffer(buffer, p2p->destination_rank,
                      communicated.schedule.chunks[static_cast<std::size_t>(p2p->destination_chunk)].region));
  for (std::size_t rank = 0; rank < communicated.own_parts.size(); ++rank)
    for (const Region& part : communicated.own_parts[rank])
      regions.push_back(in_buffer(buffer, static_cast<int>(rank), part));
  std::sort(regions.begin(), regions.end());
  regions.erase(std::unique(regions.begin(), regions.end()), regions.end());
  return regions;
}

class PieceCutter {
 public:
  PieceCutter(const TileSpace& space, const BoundOperator& bound) {
    for (const std::string& parameter : space.parameters) {
      const auto& buffers = bound.plan.buffers;
      const auto found = std::find_if(buffers.begin(), buffers.end(),
                                      [&](const Buffer& buffer) { return buffer.parameter == parameter; });
      buffers_.push_back(static_cast<int>(found - buffers.begin()));
      std::vector<Region>& chunks = chunks_.emplace_back();
      for (const CommunicatedTensor& communicated : bound.communicated)
        if (communicated.buffer == buffers_.back()) chunks = arriving(communicated, bound.plan);
    }
  }

  void add(const LoopFootprint& walk, int loop, std::vector<LoopPiece>& pieces) {
    if (!walk.reads || walk.iterations == 0) return;
    for (const LoopPiece& whole : cut(*walk.reads)) {
      if (whole.begin >= walk.iterations) break;
      LoopPiece piece = whole;
      piece.loop = loop;
      if (piece.end > walk.iterations) {
        piece.end = walk.iterations;
        piece.reads = reads_of_run(*walk.reads, piece.begin, piece.end);
      }
      pieces.push_back(std::move(piece));
    }
  }

 private:
  /// The pieces of a whole record.
  const std::vector<LoopPiece>& cut(const LoopReads& record) {
    const auto [found, is_new] = cuts_.try_emplace(&record);
    std::vector<LoopPiece>& pieces = found->second;
    if (!is_new) return pieces;
    std::vector<int> needed;
    const auto count = static_cast<std::int64_t>(record.iterations.size());
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<int> chunks = chunks_of(record.iterations[static_cast<std::size_t>(i)]);
      if (i == 0 || chunks != needed) pieces.push_back({0, i, i, {}});
      pieces.back().end = i + 1;
      needed = std::move(chunks);
    }
    for (LoopPiece& piece : pieces) piece.reads = reads_of_run(record, piece.begin, piece.end);
    return pieces;
  }

  /// The chunks that an iteration needs, numbered over all tensors, ascending.
  std::vector<int> chunks_of(const Iteration& iteration) const {
    std::vector<int> needed;
    for (const LoopRead& read : iteration) {
      int number = 0;
      for (std::size_t parameter = 0; parameter < chunks_.size(); ++parameter)
        for (const Region& chunk : chunks_[parameter]) {
          if (static_cast<int>(parameter) == read.parameter && chunk.overlaps(read.region)) needed.push_back(number);
          ++number;
        }
    }
    std::sort(needed.begin(), needed.end());
    needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
    return needed;
  }

  std::vector<TileAccess> reads_of_run(const LoopReads& record, std::int64_t begin, std::int64_t end) const {
    std::vector<std::vector<Region>> regions(buffers_.size());
    for (std::int64_t i = begin; i < end; ++i)
      for (const LoopRead& read : record.iterations[static_cast<std::size_t>(i)])
        add_box(regions[static_cast<std::size_t>(read.parameter)], read.region);
    std::vector<TileAccess> reads;
    for (std::size_t parameter = 0; parameter < regions.size(); ++parameter)
      for (const Region& region : regions[parameter]) reads.push_back({buffers_[parameter], region});
    return reads;
  }

  std::vector<int> buffers_;                 ///< [parameter]
  std::vector<std::vector<Region>> chunks_;  ///< [parameter]
  std::map<const LoopReads*, std::vector<LoopPiece>> cuts_;
};

/// Whether chunks end inside one of the tile's loops.
bool walks_in_pieces(const Tile& tile) {
  for (std::size_t p = 1; p < tile.pieces.size(); ++p)
    if (tile.pieces[p].loop == tile.pieces[p - 1].loop) return true;
  return false;
}

std::vector<Region> reads_in_pieces(const Tile& tile, int buffer) {
  std::vector<Region> regions;
  for (const LoopPiece& piece : tile.pieces)
    for (const TileAccess& read : piece.reads)
      if (read.buffer == buffer) regions.push_back(read.region);
  return regions;
}

/// Whether the pieces of all tiles read the same of a tensor. Then its addresses may follow from the loop's variable
/// alone, and a wait before the tile, which reaches them through the tile's indices, would not guard them.
bool same_for_all_tiles(const std::vector<Tile>& tiles, int buffer) {
  const std::vector<Region> first = reads_in_pieces(tiles.front(), buffer);
  return !first.empty() && std::all_of(tiles.begin(), tiles.end(),
                                       [&](const Tile& tile) { return reads_in_pieces(tile, buffer) == first; });
}

}  // namespace

void keep_streamed_reads(TileSpace& space, const std::set<std::string>& arriving) { Keeper(space, arriving).run(); }

void cut_into_pieces(const TileSpace& space, const TileKernel& kernel, BoundOperator& bound) {
  PieceCutter cutter(space, bound);
  Plan& plan = bound.plan;
  for (std::size_t t = 0; t < plan.tiles.size(); ++t)
    for (std::size_t loop = 0; loop < space.tiles[t].loops.size(); ++loop)
      cutter.add(space.tiles[t].loops[loop], static_cast<int>(loop), plan.tiles[t].pieces);
  bool streams = std::any_of(plan.tiles.begin(), plan.tiles.end(), walks_in_pieces);
  for (const CommunicatedTensor& communicated : bound.communicated)
    streams = streams || same_for_all_tiles(plan.tiles, communicated.buffer);
  if (streams) {
    for (const StreamedLoop& loop : kernel.streamed_loops()) plan.kernel.streamed_loops.push_back(loop.axis);
    return;
  }
  for (Tile& tile : plan.tiles) {
    for (const LoopPiece& piece : tile.pieces)
      tile.reads.insert(tile.reads.end(), piece.reads.begin(), piece.reads.end());
    tile.pieces.clear();
  }
}

}  // namespace syncopate
