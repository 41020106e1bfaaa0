#include "syncopate/plan/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "syncopate/plan/box_list.h"

namespace syncopate {

namespace {

using Iteration = std::vector<LoopRead>;

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
  Keeper(std::span<TileSpace> spaces, const std::set<std::string>& arriving)
      : spaces_(spaces), parameters_(spaces.front().parameters) {
    for (const std::string& parameter : parameters_) arriving_.push_back(arriving.contains(parameter));
    const std::vector<TileFootprint>& tiles = spaces.front().tiles;
    varying_.resize(tiles.empty() ? 0 : tiles.front().loops.size());
  }

  void run() {
    for (const TileSpace& space : spaces_)
      for (const TileFootprint& tile : space.tiles)
        for (std::size_t loop = 0; loop < tile.loops.size(); ++loop) look_at(tile.loops[loop], varying_[loop]);
    bool any = false;
    for (TileSpace& space : spaces_)
      for (TileFootprint& tile : space.tiles)
        for (std::size_t loop = 0; loop < tile.loops.size(); ++loop) any = sort(tile, loop) || any;
    if (any) return;
    for (TileSpace& space : spaces_)
      for (TileFootprint& tile : space.tiles) tile.loops.clear();
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
    const std::string& name = parameters_[static_cast<std::size_t>(parameter)];
    for (ParameterAccess& access : tile.accesses)
      if (access.parameter == name) return access.reads;
    tile.accesses.push_back({name, {}, {}});
    return tile.accesses.back().reads;
  }

  std::span<TileSpace> spaces_;
  const std::vector<std::string>& parameters_;
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
      first_chunk_.push_back(chunk_count_);
      for (const CommunicatedTensor& communicated : bound.communicated)
        if (communicated.buffer == buffers_.back()) chunks = arriving(communicated, bound.plan);
      chunk_count_ += static_cast<int>(chunks.size());
    }
  }

  void add(const LoopFootprint& walk, int loop, std::vector<LoopPiece>& pieces) {
    if (!walk.reads || walk.iterations == 0) return;
    const std::vector<LoopPiece>& whole = cut(*walk.reads);
    const auto first_behind = std::partition_point(
        whole.begin(), whole.end(), [&](const LoopPiece& piece) { return piece.end <= walk.iterations; });
    const auto first = static_cast<std::ptrdiff_t>(pieces.size());
    pieces.reserve(pieces.size() + static_cast<std::size_t>(first_behind - whole.begin()) + 1);
    pieces.insert(pieces.end(), whole.begin(), first_behind);
    if (first_behind != whole.end() && first_behind->begin < walk.iterations)
      pieces.push_back({loop, first_behind->begin, walk.iterations,
                        beginning_of(*walk.reads, first_behind->begin, walk.iterations)});
    for (auto piece = pieces.begin() + first; piece != pieces.end(); ++piece) piece->loop = loop;
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

  /// What the first iterations of a piece read. Tiles of a causal kernel end inside of pieces, many at one place.
  const std::vector<TileAccess>& beginning_of(const LoopReads& record, std::int64_t begin, std::int64_t end) {
    const auto [found, is_new] = beginnings_.try_emplace({&record, end});
    if (is_new) found->second = reads_of_run(record, begin, end);
    return found->second;
  }

  /// The chunks that an iteration needs, numbered over all tensors, ascending.
  std::vector<int> chunks_of(const Iteration& iteration) const {
    std::vector<int> needed;
    for (const LoopRead& read : iteration) {
      const auto parameter = static_cast<std::size_t>(read.parameter);
      int number = first_chunk_[parameter];
      for (const Region& chunk : chunks_[parameter]) {
        if (chunk.overlaps(read.region)) needed.push_back(number);
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
  std::vector<int> first_chunk_;             ///< [parameter]: the number of its first chunk
  int chunk_count_ = 0;
  std::map<const LoopReads*, std::vector<LoopPiece>> cuts_;
  std::map<std::pair<const LoopReads*, std::int64_t>, std::vector<TileAccess>> beginnings_;
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

/// The tensors that a loop reads as they arrive, as indices into BoundOperator::communicated: along the dimension that
/// is cut, pieces of one tile read different parts of them. Of rows that are gathered beside them, for a product say, a
/// tile reads the same in all pieces.
std::vector<std::size_t> read_in_loop(const BoundOperator& bound, const std::vector<std::vector<Tile>>& tiles,
                                      int loop) {
  std::vector<bool> varies(bound.plan.buffers.size(), false);
  for (const std::vector<Tile>& own : tiles)
    for (const Tile& tile : own) {
      std::map<int, Range> first;  // by buffer
      for (const LoopPiece& piece : tile.pieces) {
        if (piece.loop != loop) continue;
        for (const TileAccess& read : piece.reads) {
          const Range& range = read.region[bound.plan.buffer(read.buffer).before.dimension];
          const auto [found, is_new] = first.try_emplace(read.buffer, range);
          if (!is_new && found->second != range) varies[static_cast<std::size_t>(read.buffer)] = true;
        }
      }
    }
  std::vector<std::size_t> communicated;
  for (std::size_t c = 0; c < bound.communicated.size(); ++c)
    if (varies[static_cast<std::size_t>(bound.communicated[c].buffer)]) communicated.push_back(c);
  return communicated;
}

/// An iteration that reads two tensors waits for both. Where they lie, or travel, in different ways it waits for one
/// while the other is there: nobody means that.
void check_alike(const BoundOperator& bound, const CommunicatedTensor& one, const CommunicatedTensor& other,
                 const std::string& loop) {
  const Buffer& a = bound.plan.buffer(one.buffer);
  const Buffer& b = bound.plan.buffer(other.buffer);
  if (a.before.kind != b.before.kind)
    throw UserError(other.where,
                    fmt::format("the loop over {} reads '{}', which is {} before, and '{}', which is {}", loop, a.name,
                                a.before.to_string(), b.name, b.before.to_string()),
                    "place them alike: each of its iterations needs both");
  const auto way = [](const CommunicatedTensor& tensor) -> std::string {
    const TemplateOptions& options = tensor.communication.options;
    if (!tensor.communication.schedule_file.empty()) return "a schedule file";
    std::string text = fmt::format("{}, split {}", name_of(options.algorithm), options.split);
    if (options.ranks_per_node != 0) text += fmt::format(", {} ranks per node", options.ranks_per_node);
    return text;
  };
  if (way(one) != way(other))
    throw UserError(other.communication.where,
                    fmt::format("the loop over {} reads '{}', which is communicated by {}, and '{}', by {}", loop,
                                a.name, way(one), b.name, way(other)),
                    "give both the same algorithm and split: each of its iterations needs both");
}

void check_loops(const BoundOperator& bound, const std::vector<std::vector<Tile>>& tiles) {
  for (std::size_t loop = 0; loop < bound.plan.kernel.streamed_loops.size(); ++loop) {
    const std::vector<std::size_t> read = read_in_loop(bound, tiles, static_cast<int>(loop));
    for (std::size_t r = 1; r < read.size(); ++r)
      check_alike(bound, bound.communicated[read[0]], bound.communicated[read[r]],
                  bound.plan.kernel.streamed_loops[loop]);
  }
}

}  // namespace

void keep_streamed_reads(std::span<TileSpace> spaces, const std::set<std::string>& arriving) {
  Keeper(spaces, arriving).run();
}

void cut_into_pieces(std::span<const TileSpace> spaces, const TileKernel& kernel, BoundOperator& bound,
                     std::vector<std::vector<Tile>>& tiles) {
  PieceCutter cutter(spaces.front(), bound);
  bool streams = false;
  for (std::size_t s = 0; s < spaces.size(); ++s) {
    for (std::size_t t = 0; t < tiles[s].size(); ++t)
      for (std::size_t loop = 0; loop < spaces[s].tiles[t].loops.size(); ++loop)
        cutter.add(spaces[s].tiles[t].loops[loop], static_cast<int>(loop), tiles[s][t].pieces);
    streams = streams || std::any_of(tiles[s].begin(), tiles[s].end(), walks_in_pieces);
    for (const CommunicatedTensor& communicated : bound.communicated)
      streams = streams || same_for_all_tiles(tiles[s], communicated.buffer);
  }
  if (streams) {
    for (const StreamedLoop& loop : kernel.streamed_loops()) bound.plan.kernel.streamed_loops.push_back(loop.axis);
    check_loops(bound, tiles);
    return;
  }
  for (std::vector<Tile>& own : tiles)
    for (Tile& tile : own) {
      for (const LoopPiece& piece : tile.pieces)
        tile.reads.insert(tile.reads.end(), piece.reads.begin(), piece.reads.end());
      tile.pieces.clear();
    }
}

}  // namespace syncopate
