#include "syncopate/plan/plan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace syncopate {

std::string_view name_of(Engine engine) {
  switch (engine) {
    case Engine::copy_engine:
      return "copy_engine";
  }
  throw InternalError("engine without a name");
}

namespace {

constexpr std::array<std::string_view, 5> kRoleNames = {"kernel", "staging", "source", "result", "summands"};

}  // namespace

std::string_view name_of(BufferRole role) { return kRoleNames[static_cast<std::size_t>(role)]; }

std::optional<BufferRole> buffer_role_from_name(std::string_view name) {
  const auto* const found = std::find(kRoleNames.begin(), kRoleNames.end(), name);
  if (found == kRoleNames.end()) return std::nullopt;
  return static_cast<BufferRole>(found - kRoleNames.begin());
}

std::vector<Region> held_boxes(const Buffer& buffer, int rank) {
  std::vector<Region> boxes = buffer.held[static_cast<std::size_t>(rank)];
  std::erase_if(boxes, [](const Region& box) { return box.empty(); });
  return boxes;
}

bool holds_any_of(const Buffer& buffer, int rank, const Region& region) {
  const std::vector<Region>& boxes = buffer.held[static_cast<std::size_t>(rank)];
  return std::any_of(boxes.begin(), boxes.end(), [&](const Region& box) { return box.overlaps(region); });
}

Region shown_region(const Buffer& buffer, int rank) {
  return buffer.window.empty() ? Region::whole(buffer.shape) : buffer.window[static_cast<std::size_t>(rank)];
}

Shape shape_without_stack(const Buffer& buffer) {
  return {buffer.shape.begin() + (buffer.stacked ? 1 : 0), buffer.shape.end()};
}

namespace {

Region shifted(Region region, const Region& origin, std::int64_t sign) {
  for (int d = 0; d < region.dimensions(); ++d) {
    region[d].begin += sign * origin[d].begin;
    region[d].end += sign * origin[d].begin;
  }
  return region;
}

}  // namespace

Region in_buffer(const Buffer& buffer, int rank, const Region& of_tensor) {
  return shifted(of_tensor, shown_region(buffer, rank), -1);
}

Region in_tensor(const Buffer& buffer, int rank, const Region& of_buffer) {
  return shifted(of_buffer, shown_region(buffer, rank), 1);
}

ScalarArguments arguments_of(const KernelPart& kernel, int rank) {
  ScalarArguments arguments = kernel.arguments;
  if (!kernel.rank_arguments.empty()) {
    const ScalarArguments& own = kernel.rank_arguments[static_cast<std::size_t>(rank)];
    arguments.insert(own.begin(), own.end());
  }
  return arguments;
}

std::vector<int> tiles_of(const Plan& plan, int rank) {
  std::vector<int> tiles(plan.tiles.size());
  std::iota(tiles.begin(), tiles.end(), 0);
  if (plan.kernel.rank_arguments.empty()) return tiles;
  std::vector<bool> has(plan.tiles.size(), false);
  for (const Slot& slot : plan.programs[static_cast<std::size_t>(rank)].slots)
    has[static_cast<std::size_t>(slot.tile)] = true;
  std::erase_if(tiles, [&](int tile) { return !has[static_cast<std::size_t>(tile)]; });
  return tiles;
}

Shape memory_shape(const Buffer& buffer) {
  Shape shape = buffer.shape;
  if (buffer.fold) shape[static_cast<std::size_t>(buffer.fold->dimension)] = buffer.fold->extent;
  return shape;
}

bool keeps_to_one_fold(const Buffer& buffer, const Region& of_buffer) {
  if (!buffer.fold || of_buffer.empty()) return true;
  const Range& range = of_buffer[buffer.fold->dimension];
  return range.begin / buffer.fold->extent == (range.end - 1) / buffer.fold->extent;
}

Region in_memory(const Buffer& buffer, const Region& of_buffer) {
  Region box = of_buffer;
  if (!buffer.fold) return box;
  Range& range = box[buffer.fold->dimension];
  const std::int64_t before = range.begin / buffer.fold->extent * buffer.fold->extent;
  range = {range.begin - before, range.end - before};
  return box;
}

bool share_memory(const Buffer& buffer, const Region& one, const Region& other) {
  return in_memory(buffer, one).overlaps(in_memory(buffer, other));
}

int signal_count(const Plan& plan, int rank) {
  return static_cast<int>(
      std::count_if(plan.signals.begin(), plan.signals.end(), [&](const Signal& s) { return s.home == rank; }));
}

Region output_region(const Plan& plan, int buffer, int rank) {
  const Buffer& about = plan.buffer(buffer);
  if (about.is_reduced()) return held_region(about.after, about.shape, plan.ranks, rank);
  if (about.role == BufferRole::result) return in_buffer(about, rank, shown_region(about, rank));
  for (const Tile& tile : plan.tiles)
    for (const TileAccess& access : tile.writes)
      if (access.buffer == buffer && !access.region.empty() && caller_side(plan, buffer) < 0)
        return Region::whole(about.shape);
  Region empty = Region::whole(about.shape);
  for (int d = 0; d < empty.dimensions(); ++d) empty[d] = {0, 0};
  return empty;
}

int reduced_buffer(const Plan& plan) {
  for (std::size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].is_reduced()) return static_cast<int>(i);
  return -1;
}

int staging_buffer(const Plan& plan) {
  for (std::size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].role == BufferRole::staging) return static_cast<int>(i);
  return -1;
}

bool sums_in_place(const Plan& plan) {
  const int reduced = reduced_buffer(plan);
  return reduced >= 0 && plan.buffer(reduced).sums_in_place;
}

int landing_buffer(const Plan& plan) { return sums_in_place(plan) ? reduced_buffer(plan) : staging_buffer(plan); }

int caller_side(const Plan& plan, int buffer) {
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& other = plan.buffers[i];
    if (other.partner == buffer && (other.role == BufferRole::source || other.role == BufferRole::result))
      return static_cast<int>(i);
  }
  return -1;
}

int summands_buffer(const Plan& plan) {
  for (std::size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].role == BufferRole::summands) return static_cast<int>(i);
  return -1;
}

Region in_stack(Region of_summand, std::int64_t rows, int rank, int source) {
  const std::int64_t first = rows * (source - (source > rank ? 1 : 0));
  of_summand[0] = {of_summand[0].begin + first, of_summand[0].end + first};
  return of_summand;
}

int added_up_buffer(const Plan& plan) {
  for (std::size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].summed_apart) return caller_side(plan, static_cast<int>(i));
  return -1;
}

bool is_the_operators_own(const Plan& plan, int buffer) {
  const BufferRole role = plan.buffer(buffer).role;
  return role == BufferRole::staging || role == BufferRole::summands || caller_side(plan, buffer) >= 0;
}

bool slots_raise(const Plan& plan) {
  return std::any_of(plan.buffers.begin(), plan.buffers.end(), [](const Buffer& buffer) {
    return buffer.is_reduced() || buffer.role == BufferRole::result || buffer.fold;
  });
}

bool cuts_tiles(const Plan& plan) {
  for (const RankProgram& program : plan.programs)
    for (const Slot& slot : program.slots)
      if (slot.kept.dimensions() > 0) return true;
  return false;
}

bool is_dynamic(const Plan& plan) { return plan.lookahead > 0; }

std::size_t slot_stride(const Plan& plan) {
  if (!is_dynamic(plan)) return static_cast<std::size_t>(plan.workers);
  std::size_t most = 1;
  for (const RankProgram& program : plan.programs) most = std::max(most, program.slots.size());
  return most;
}

std::size_t claim_words(const Plan& plan, int rank) {
  return is_dynamic(plan) ? plan.programs[static_cast<std::size_t>(rank)].slots.size() + 1 : 0;
}

bool waits_for_anything(const Slot& slot) {
  bool any = false;
  for_each_waits_of(slot, [&](const std::vector<Wait>& list) { any = any || !list.empty(); });
  return any;
}

namespace {

constexpr std::size_t kStepColumns = 4;

/// Makes the rows of one rank's tables.
class TableMaker {
 public:
  explicit TableMaker(const Plan& plan)
      : plan_(plan),
        reduced_(reduced_buffer(plan)),
        staging_(staging_buffer(plan)),
        in_place_(sums_in_place(plan)),
        raises_(slots_raise(plan)),
        stride_(slot_stride(plan)) {}

  void add(const RankProgram& program, std::size_t index) {
    const Slot& slot = program.slots[index];
    const Tile& tile = plan_.tiles[static_cast<std::size_t>(slot.tile)];
    tables_.tiles.insert(tables_.tiles.end(), tile.index.begin(), tile.index.end());
    add_waits(slot.waits, tables_.tiles);
    if (reduced_ >= 0) {
      add_sums(program, index);
    } else if (raises_) {
      const std::int64_t raises = add_signals(program.slots, index);
      tables_.tiles.push_back(raises);
    }
    add_steps(slot, tile);
  }

  void add(const Addition& addition, const Shape& shape) {
    add_waits(addition.waits, tables_.additions);
    const std::int64_t begin = linear_offset(addition.region, shape);
    tables_.additions.insert(tables_.additions.end(), {begin, begin + addition.region.volume(), volume(shape)});
  }

  KernelTables take() { return std::move(tables_); }

 private:
  static std::int64_t rows(const std::vector<std::int64_t>& table, std::size_t columns) {
    return static_cast<std::int64_t>(table.size() / columns);
  }

  void add_sums(const RankProgram& program, std::size_t index) {
    const Slot& slot = program.slots[index];
    add_waits(slot.sum_waits, tables_.tiles);
    std::int64_t work = add_addends(slot) + add_signals(program.slots, index);
    if (!slot.addends.empty() || (!in_place_ && !slot.sum_waits.empty())) work += slot_work::kAdds;
    if (!slot.sum_waits.empty()) work += slot_work::kWaitsToAdd;
    const Shape& shape = plan_.buffer(reduced_).shape;
    const bool whole = slot.kept.dimensions() == 0;
    const std::int64_t begin = whole ? 0 : linear_offset(slot.kept, shape);
    tables_.tiles.push_back(begin);
    tables_.tiles.push_back(begin + (whole ? volume(shape) : slot.kept.volume()));
    tables_.tiles.push_back(work);
  }

  void add_steps(const Slot& slot, const Tile& tile) {
    auto step = slot.steps.begin();
    for (std::size_t loop = 0; loop < plan_.kernel.streamed_loops.size(); ++loop) {
      const std::int64_t first = rows(tables_.steps, kStepColumns);
      for (; step != slot.steps.end(); ++step) {
        const LoopPiece& piece = tile.pieces[static_cast<std::size_t>(step->piece)];
        if (piece.loop != static_cast<int>(loop)) break;
        std::vector<std::int64_t>& table = tables_.steps;
        std::int64_t* const end = table.empty() ? nullptr : &table[table.size() - kStepColumns + 1];
        if (step->waits.empty() && rows(table, kStepColumns) > first && *end == piece.begin) {
          *end = piece.end;
          continue;
        }
        table.insert(table.end(), {piece.begin, piece.end});
        add_waits(step->waits, table);
      }
      tables_.tiles.insert(tables_.tiles.end(), {first, rows(tables_.steps, kStepColumns)});
    }
  }

  /// Appends the waits, and to `table` their first and past-the-last row.
  void add_waits(const std::vector<Wait>& waits, std::vector<std::int64_t>& table) {
    table.push_back(rows(tables_.waits, 3));
    for (const Wait& wait : waits) {
      const Signal& signal = plan_.signals[static_cast<std::size_t>(wait.signal)];
      tables_.waits.insert(tables_.waits.end(), {signal.slot, signal.per_launch, wait.threshold});
    }
    table.push_back(rows(tables_.waits, 3));
  }

  /// An element belongs to one target, so addends of different targets may be merged, and each element still meets its
  /// own addends in their order; merging looks at neighbours only. Returns what it may say of them by slot_work.
  std::int64_t add_addends(const Slot& slot) {
    const std::int64_t first = rows(tables_.addends, 3);
    if (in_place_) {
      tables_.tiles.insert(tables_.tiles.end(), {first, first, first});
      return 0;
    }
    std::int64_t own = first;
    for (std::size_t i = 0; i <= slot.addends.size(); ++i) {
      const bool at_own = static_cast<std::int64_t>(i) == slot.own_place;
      if (at_own) own = rows(tables_.addends, 3);
      if (i == slot.addends.size()) break;
      const Addend& addend = slot.addends[i];
      const std::int64_t begin = linear_offset(addend.target, plan_.buffer(reduced_).shape);
      const std::int64_t end = begin + addend.target.volume();
      const std::int64_t shift = linear_offset(addend.source, plan_.buffer(staging_).shape) - begin;
      std::vector<std::int64_t>& table = tables_.addends;
      const bool follows =
          !at_own && rows(table, 3) > first && table[table.size() - 3] == shift && table.back() == begin;
      if (follows) {
        table.back() = end;
      } else {
        table.insert(table.end(), {shift, begin, end});
      }
    }
    const std::int64_t last = rows(tables_.addends, 3);
    tables_.tiles.insert(tables_.tiles.end(), {first, own, last});
    if (last - first != 1) return 0;
    const std::int64_t* row = &tables_.addends[tables_.addends.size() - 3];
    if (!stores_within(plan_.tiles[static_cast<std::size_t>(slot.tile)], row[1], row[2])) return slot_work::kAddsOne;
    return slot_work::kAddsOne + slot_work::kAddsToAll + slot_work::kShift * row[0];
  }

  /// Whether all that the tile stores to the reduced buffer is among its elements from `begin` to `end`.
  bool stores_within(const Tile& tile, std::int64_t begin, std::int64_t end) const {
    const Shape& shape = plan_.buffer(reduced_).shape;
    return std::all_of(tile.writes.begin(), tile.writes.end(), [&](const TileAccess& access) {
      if (access.buffer != reduced_ || access.region.empty()) return true;
      Region last = access.region;
      for (int d = 0; d < last.dimensions(); ++d) last[d].begin = last[d].end - 1;
      return linear_offset(access.region, shape) >= begin && linear_offset(last, shape) < end;
    });
  }

  /// Whether the slot's signals are raised only when its worker's next slot has computed.
  bool put_off(const std::vector<Slot>& slots, std::size_t index) const {
    const std::size_t next = index + stride_;
    return next < slots.size() && !waits_for_anything(slots[next]);
  }

  /// Returns when the slot raises signals, by slot_work.
  std::int64_t add_signals(const std::vector<Slot>& slots, std::size_t index) {
    const std::int64_t first = rows(tables_.signals, 2);
    for (const int number : slots[index].signals) {
      const Signal& signal = plan_.signals[static_cast<std::size_t>(number)];
      tables_.signals.insert(tables_.signals.end(), {signal.home, signal.slot});
    }
    const std::pair own{first, rows(tables_.signals, 2)};
    const std::pair none{first, first};
    const bool late = index >= stride_ && put_off(slots, index - stride_);
    const auto [late_begin, late_end] = late ? signals_of_[index - stride_] : none;
    const auto [early_begin, early_end] = put_off(slots, index) ? none : own;
    tables_.tiles.insert(tables_.tiles.end(), {late_begin, late_end, early_begin, early_end});
    signals_of_.push_back(own);
    return (late_begin < late_end ? slot_work::kRaisesLate : 0) +
           (early_begin < early_end ? slot_work::kRaisesEarly : 0);
  }

  const Plan& plan_;
  int reduced_;
  int staging_;
  bool in_place_;
  bool raises_;
  std::size_t stride_;
  KernelTables tables_;
  std::vector<std::pair<std::int64_t, std::int64_t>> signals_of_;  ///< each slot's own rows of signals
};

}  // namespace

KernelTables kernel_tables(const Plan& plan, int rank) {
  TableMaker maker(plan);
  const RankProgram& program = plan.programs[static_cast<std::size_t>(rank)];
  for (std::size_t slot = 0; slot < program.slots.size(); ++slot) maker.add(program, slot);
  const int stack = summands_buffer(plan);
  if (stack >= 0)
    for (const Addition& addition : program.additions)
      maker.add(addition, plan.buffer(plan.buffer(stack).partner).shape);
  return maker.take();
}

namespace {

/// Whether the local kernel's caller has no such buffer, or fills all of it.
bool is_extra(const Plan& plan, int index) {
  const Buffer& buffer = plan.buffer(index);
  if (buffer.role != BufferRole::kernel)
    return buffer.role == BufferRole::staging || buffer.role == BufferRole::summands;
  return caller_side(plan, index) >= 0 || (buffer.symmetric && !buffer.is_reduced());
}

}  // namespace

std::int64_t tile_columns(const Plan& plan) {
  constexpr std::int64_t kWaits = 2;
  constexpr std::int64_t kRaises = 5;
  constexpr std::int64_t kSums = 12;
  constexpr std::int64_t kSteps = 2;  // of each streamed loop
  return kWaits +
         (reduced_buffer(plan) >= 0 ? kSums
          : slots_raise(plan)       ? kRaises
                                    : 0) +
         kSteps * static_cast<std::int64_t>(plan.kernel.streamed_loops.size());
}

ExtraMemory extra_memory(const Plan& plan) {
  // The flags of a rank, the epoch behind them and the 8 words of a missed wait's record; and by which slots are taken.
  constexpr std::int64_t kWord = 8;
  constexpr std::int64_t kEpochAndRecord = 9;
  ExtraMemory most;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    std::int64_t staging = 0;
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
      const Buffer& buffer = plan.buffers[b];
      if (!is_extra(plan, static_cast<int>(b))) continue;
      std::int64_t elements = volume(memory_shape(buffer));
      for (const Region& box : held_boxes(buffer, rank)) elements -= box.volume();
      staging += elements * size_in_bytes(buffer.dtype);
    }
    const KernelTables tables = kernel_tables(plan, rank);
    most.staging = std::max(most.staging, staging);
    const auto claims = static_cast<std::int64_t>(claim_words(plan, rank));
    most.signals = std::max(most.signals, (signal_count(plan, rank) + kEpochAndRecord + claims) * kWord);
    most.tables = std::max(most.tables, static_cast<std::int64_t>(tables.tiles.size() + tables.steps.size() +
                                                                  tables.waits.size() + tables.addends.size() +
                                                                  tables.signals.size() + tables.additions.size()) *
                                            kWord);
  }
  return most;
}

}  // namespace syncopate
