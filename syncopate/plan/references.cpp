#include "syncopate/plan/references.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

namespace syncopate {
namespace {

bool in(std::int64_t index, std::size_t count) { return index >= 0 && index < static_cast<std::int64_t>(count); }

class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan) {}

  std::optional<std::string> check() {
    const auto ranks = static_cast<std::size_t>(plan_.ranks);
    expect(plan_.ranks >= 1, "the plan has no ranks");
    expect(plan_.workers >= 1, "the plan has no workers");
    expect(plan_.kernel.rank_arguments.empty() || plan_.kernel.rank_arguments.size() == ranks,
           fmt::format("arguments of {} ranks for {} ranks", plan_.kernel.rank_arguments.size(), plan_.ranks));
    expect(plan_.lookahead >= 0, "workers look ahead by less than nothing");
    expect(plan_.programs.size() == ranks,
           fmt::format("{} rank programs for {} ranks", plan_.programs.size(), plan_.ranks));
    for (const Buffer& buffer : plan_.buffers) check_buffer(buffer);
    check_partners();
    check_signals();
    for (std::size_t tile = 0; tile < plan_.tiles.size(); ++tile) check_tile(tile);
    for (const Sum& sum : plan_.sums) check_sum(sum);
    for (std::size_t rank = 0; !problem_ && rank < ranks; ++rank) check_program(static_cast<int>(rank));
    return problem_;
  }

 private:
  void expect(bool condition, const std::string& problem) {
    if (!condition && !problem_) problem_ = problem;
  }

  void check_buffer(const Buffer& buffer) {
    expect(buffer.held.size() == static_cast<std::size_t>(plan_.ranks),
           fmt::format("buffer {} has {} held regions for {} ranks", buffer.name, buffer.held.size(), plan_.ranks));
    for (const std::vector<Region>& boxes : buffer.held)
      for (const Region& held : boxes)
        expect(held.empty() || Region::whole(buffer.shape).contains(held),
               fmt::format("{}{} is held but not in the buffer ({})", buffer.name, held.to_string(),
                           to_string(buffer.shape)));
    check_window(buffer);
    expect(!buffer.stacked || buffer.shape.size() > 1,
           fmt::format("buffer {} is a stack of summands and has {} dimensions", buffer.name, buffer.shape.size()));
    expect(!buffer.fold || (in(buffer.fold->dimension, buffer.shape.size()) && buffer.fold->extent > 0),
           fmt::format("buffer {} is folded along a dimension that it does not have, or to nothing", buffer.name));
  }

  void check_window(const Buffer& buffer) {
    expect(buffer.window.empty() || buffer.window.size() == static_cast<std::size_t>(plan_.ranks),
           fmt::format("buffer {} has {} windows for {} ranks", buffer.name, buffer.window.size(), plan_.ranks));
    for (std::size_t rank = 0; !problem_ && rank < buffer.window.size(); ++rank) {
      const Region& window = buffer.window[rank];
      expect(static_cast<std::size_t>(window.dimensions()) == buffer.shape.size(),
             fmt::format("the window of buffer {} has {} dimensions", buffer.name, window.dimensions()));
      for (int d = 0; !problem_ && d < window.dimensions(); ++d)
        expect(window[d].begin >= 0 && window[d].size() <= buffer.shape[static_cast<std::size_t>(d)],
               fmt::format("buffer {} ({}) is smaller than its window {}", buffer.name, to_string(buffer.shape),
                           window.to_string()));
    }
  }

  void check_partners() {
    const auto is_reduced = [](const Buffer& buffer) { return buffer.is_reduced(); };
    const auto is_staging = [](const Buffer& buffer) { return buffer.role == BufferRole::staging; };
    expect(std::count_if(plan_.buffers.begin(), plan_.buffers.end(), is_reduced) <= 1, "several buffers are reduced");
    expect(std::count_if(plan_.buffers.begin(), plan_.buffers.end(), is_staging) <= 1,
           "there are several staging buffers");
    for (const Buffer& buffer : plan_.buffers) {
      expect(!is_staging(buffer) || buffer.partner == reduced_buffer(plan_),
             fmt::format("buffer {} is for summands of buffer {}, which is not reduced", buffer.name, buffer.partner));
      expect(buffer.role == BufferRole::kernel ||
                 (in(buffer.partner, plan_.buffers.size()) && plan_.buffer(buffer.partner).role == BufferRole::kernel &&
                  plan_.buffer(buffer.partner).dtype == buffer.dtype),
             fmt::format("buffer {} is for buffer {}, which is none of the kernel's", buffer.name, buffer.partner));
      const int dimensions = static_cast<int>(buffer.shape.size());
      check_one_shot(buffer);
      expect(!buffer.is_reduced() || !buffer.after.cuts() ||
                 (buffer.after.kind == Placement::Kind::shard && buffer.after.dimension >= 0 &&
                  buffer.after.dimension < dimensions),
             fmt::format("buffer {} has no dimension {} to be left in shards of", buffer.name, buffer.after.dimension));
    }
  }

  /// What additions index by.
  void check_one_shot(const Buffer& buffer) {
    if (problem_ || buffer.role != BufferRole::summands) return;
    const Buffer& summed = plan_.buffer(buffer.partner);
    Shape shape = summed.shape;
    if (!shape.empty()) shape[0] *= plan_.ranks - 1;
    const int result = caller_side(plan_, buffer.partner);
    expect(
        summed.summed_apart && result >= 0 && plan_.buffer(result).role == BufferRole::result &&
            plan_.buffer(result).shape == summed.shape && buffer.shape == shape,
        fmt::format("buffer {} has other ranks' summands of {}, which is no one-shot sum", buffer.name, summed.name));
  }

  void check_order(const SumOrder& order, const std::string& where) {
    expect(!order.terms.empty() || in(order.rank, static_cast<std::size_t>(plan_.ranks)),
           fmt::format("{} adds the summand of rank {} of {}", where, order.rank, plan_.ranks));
    for (const SumOrder& term : order.terms) check_order(term, where);
  }

  void check_sum(const Sum& sum) {
    expect(in(sum.rank, static_cast<std::size_t>(plan_.ranks)),
           fmt::format("a sum is for rank {} of {}", sum.rank, plan_.ranks));
    const std::string where = fmt::format("the sum of rank {}", sum.rank);
    check_box(sum.buffer, sum.region, where);
    if (problem_) return;
    expect(plan_.buffer(sum.buffer).is_reduced() || sum.buffer == added_up_buffer(plan_),
           fmt::format("{} is of {}, which is not reduced", where, plan_.buffer(sum.buffer).name));
    check_order(sum.order, where);
  }

  void check_signals() {
    std::vector<std::vector<bool>> taken(static_cast<std::size_t>(plan_.ranks));
    for (const Signal& signal : plan_.signals)
      if (in(signal.home, taken.size())) taken[static_cast<std::size_t>(signal.home)].push_back(false);
    for (const Signal& signal : plan_.signals) {
      if (!in(signal.home, taken.size()) || !in(signal.slot, taken[static_cast<std::size_t>(signal.home)].size())) {
        expect(false, fmt::format("signal '{}' lives in flag {} of rank {}, which does not exist", signal.name,
                                  signal.slot, signal.home));
        return;
      }
      auto flag = taken[static_cast<std::size_t>(signal.home)].begin() + signal.slot;
      expect(!*flag, fmt::format("signal '{}' shares flag {} of rank {}", signal.name, signal.slot, signal.home));
      *flag = true;
    }
  }

  void check_region(int buffer, const Region& region, const std::string& where) {
    if (!in(buffer, plan_.buffers.size())) {
      expect(false, fmt::format("{} names buffer {} of {}", where, buffer, plan_.buffers.size()));
      return;
    }
    expect(static_cast<std::size_t>(region.dimensions()) == plan_.buffer(buffer).shape.size(),
           fmt::format("{} names {}{}, which has {} dimensions", where, plan_.buffer(buffer).name, region.to_string(),
                       plan_.buffer(buffer).shape.size()));
  }

  /// A region that must lie in its buffer.
  void check_box(int buffer, const Region& region, const std::string& where) {
    check_region(buffer, region, where);
    if (problem_) return;
    expect(Region::whole(plan_.buffer(buffer).shape).contains(region),
           fmt::format("{} touches {}{}, which is outside of the buffer ({})", where, plan_.buffer(buffer).name,
                       region.to_string(), to_string(plan_.buffer(buffer).shape)));
  }

  void check_tile(std::size_t tile) {
    const std::string where = fmt::format("tile {}", tile);
    expect(
        plan_.tiles[tile].index.size() == plan_.kernel.axes.size(),
        fmt::format("{} has {} indices for {} axes", where, plan_.tiles[tile].index.size(), plan_.kernel.axes.size()));
    for (const auto* accesses : {&plan_.tiles[tile].reads, &plan_.tiles[tile].writes}) {
      for (const TileAccess& access : *accesses) check_box(access.buffer, access.region, where);
    }
    for (const LoopPiece& piece : plan_.tiles[tile].pieces) {
      expect(in(piece.loop, plan_.kernel.streamed_loops.size()),
             fmt::format("{} has a piece of loop {} of {}", where, piece.loop, plan_.kernel.streamed_loops.size()));
      expect(piece.begin >= 0 && piece.begin < piece.end,
             fmt::format("{} has a piece of iterations {} to {}", where, piece.begin, piece.end));
      for (const TileAccess& access : piece.reads) check_box(access.buffer, access.region, where);
    }
  }

  void check_waits(const std::vector<Wait>& waits, int rank, const std::string& where) {
    for (const Wait& wait : waits) {
      if (!in(wait.signal, plan_.signals.size())) {
        expect(false, fmt::format("{} waits for signal {} of {}", where, wait.signal, plan_.signals.size()));
        return;
      }
      const Signal& signal = plan_.signals[static_cast<std::size_t>(wait.signal)];
      expect(signal.home == rank, fmt::format("{} of rank {} waits for signal '{}', which lives on rank {}", where,
                                              rank, signal.name, signal.home));
    }
  }

  void check_raises(const std::vector<int>& signals, const std::string& where) {
    for (const int signal : signals)
      expect(in(signal, plan_.signals.size()),
             fmt::format("{} raises signal {} of {}", where, signal, plan_.signals.size()));
  }

  void check_steps(const Slot& slot, int rank) {
    if (problem_) return;
    const std::vector<LoopPiece>& pieces = plan_.tiles[static_cast<std::size_t>(slot.tile)].pieces;
    std::vector<bool> walked(pieces.size(), false);
    int loop = 0;
    for (const LoopStep& step : slot.steps) {
      check_waits(step.waits, rank, "a step of a tile");
      expect(in(step.piece, pieces.size()) && !walked[static_cast<std::size_t>(step.piece)],
             fmt::format("a tile of rank {} walks piece {} of {}, or does so twice", rank, step.piece, pieces.size()));
      if (problem_) return;
      walked[static_cast<std::size_t>(step.piece)] = true;
      const int next = pieces[static_cast<std::size_t>(step.piece)].loop;
      expect(next >= loop,
             fmt::format("a tile of rank {} walks a piece of loop {} after one of loop {}", rank, next, loop));
      loop = next;
    }
    expect(slot.steps.size() == pieces.size(),
           fmt::format("a tile of rank {} walks {} of its {} pieces", rank, slot.steps.size(), pieces.size()));
  }

  void check_slot(const Slot& slot, int rank) {
    check_waits(slot.waits, rank, "a tile");
    check_waits(slot.sum_waits, rank, "a tile");
    check_steps(slot, rank);
    check_raises(slot.signals, "a tile");
    if (problem_) return;
    const int reduced = reduced_buffer(plan_);
    const int landing = landing_buffer(plan_);
    if (reduced < 0) {
      expect(slot.kept.dimensions() == 0 && slot.sum_waits.empty() && slot.addends.empty(),
             fmt::format("a tile of rank {} has to do with sums, and no buffer is reduced", rank));
      expect(slot.signals.empty() || slots_raise(plan_),
             fmt::format("a tile of rank {} raises signals, and no output leaves its rank", rank));
      return;
    }
    if (slot.kept.dimensions() > 0) check_box(reduced, slot.kept, "what a tile keeps");
    expect(slot.own_place >= 0 && static_cast<std::size_t>(slot.own_place) <= slot.addends.size(),
           fmt::format("a tile of rank {} adds its own value after {} of {} addends", rank, slot.own_place,
                       slot.addends.size()));
    expect(slot.addends.empty() || landing >= 0, fmt::format("a tile of rank {} adds from no staging buffer", rank));
    for (const Addend& addend : slot.addends) {
      if (problem_) return;
      check_box(reduced, addend.target, "an addend");
      check_box(landing, addend.source, "an addend");
    }
  }

  /// Where ranks differ, a rank's slots say which of the tiles with an index is its own.
  void check_tiles_of(int rank) {
    std::map<std::vector<std::int64_t>, int> own;
    for (const Tile& tile : plan_.tiles) own[tile.index] = -1;
    for (const Slot& slot : plan_.programs[static_cast<std::size_t>(rank)].slots) {
      int& tile = own[plan_.tiles[static_cast<std::size_t>(slot.tile)].index];
      expect(tile < 0 || tile == slot.tile,
             fmt::format("rank {} runs tiles {} and {}, which have one index", rank, tile, slot.tile));
      tile = slot.tile;
    }
    for (const auto& [index, tile] : own)
      expect(tile >= 0, fmt::format("rank {} runs no tile ({})", rank, fmt::join(index, ", ")));
  }

  void check_program(int rank) {
    const RankProgram& program = plan_.programs[static_cast<std::size_t>(rank)];
    check_raises(program.start_signals, "a caller");
    check_raises(program.completion_signals, "a caller");
    check_waits(program.completion_waits, rank, "the caller");
    std::map<int, const Slot*> first;
    for (const Slot& slot : program.slots) {
      expect(in(slot.tile, plan_.tiles.size()),
             fmt::format("rank {} runs tile {} of {}", rank, slot.tile, plan_.tiles.size()));
      check_slot(slot, rank);
      const Slot& other = *first.try_emplace(slot.tile, &slot).first->second;
      expect(std::equal(slot.steps.begin(), slot.steps.end(), other.steps.begin(), other.steps.end(),
                        [](const LoopStep& a, const LoopStep& b) { return a.piece == b.piece; }),
             fmt::format("rank {} walks the pieces of tile {} in two orders", rank, slot.tile));
    }
    if (!problem_ && !plan_.kernel.rank_arguments.empty()) check_tiles_of(rank);
    for (const Addition& addition : program.additions) {
      const int stack = summands_buffer(plan_);
      expect(stack >= 0, fmt::format("rank {} adds up a part of no one-shot sum", rank));
      if (problem_) return;
      check_box(plan_.buffer(stack).partner, addition.region, "an addition");
      check_waits(addition.waits, rank, "an addition");
    }
    for (const Queue& queue : program.queues) {
      for (std::size_t index = 0; index < queue.transfers.size(); ++index) {
        const Transfer& transfer = queue.transfers[index];
        const std::string where = fmt::format("transfer {} of queue '{}'", index, queue.name);
        for (const View* view : {&transfer.source, &transfer.destination}) {
          expect(in(view->rank, static_cast<std::size_t>(plan_.ranks)),
                 fmt::format("{} names rank {} of {}", where, view->rank, plan_.ranks));
          check_region(view->buffer, view->region, where);
        }
        expect(transfer.source.rank == rank || transfer.destination.rank == rank,
               fmt::format("{} of rank {} moves data from rank {} to rank {}", where, rank, transfer.source.rank,
                           transfer.destination.rank));
        check_waits(transfer.waits, rank, where);
        check_raises(transfer.signals, where);
      }
    }
  }

  const Plan& plan_;
  std::optional<std::string> problem_;
};

}  // namespace

std::optional<std::string> broken_reference(const Plan& plan) { return Checker(plan).check(); }

}  // namespace syncopate
