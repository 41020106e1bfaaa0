#include "syncopate/verify/form.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "syncopate/core/text.h"
#include "syncopate/verify/boxes.h"
#include "syncopate/verify/claim.h"
#include "syncopate/verify/form_buffers.h"
#include "syncopate/verify/form_part.h"
#include "syncopate/verify/placed.h"

namespace syncopate {

namespace {

/// Keeps sums of raises over two launches far from the limits of 64 bits.
constexpr std::int64_t kMostRaises = std::int64_t{1} << 40;

/// Contiguous runs of a region that lies in its tensor, without visiting them: a broken plan may have very many.
std::int64_t runs_of(const Region& region, const Shape& shape) {
  if (region.empty()) return 0;
  int d = region.dimensions() - 1;
  while (d > 0 && region[d].size() == shape[static_cast<std::size_t>(d)]) --d;
  std::int64_t runs = 1;
  for (--d; d >= 0; --d) runs *= region[d].size();
  return runs;
}

std::int64_t runs_in_memory(const Buffer& buffer, const Region& region) {
  return runs_of(in_memory(buffer, region), memory_shape(buffer));
}

std::string describe(const Tile& tile) { return fmt::format("tile ({})", fmt::join(tile.index, ", ")); }

bool takes_part_in_sums(const Slot& slot) {
  return slot.kept.dimensions() > 0 || !slot.sum_waits.empty() || !slot.addends.empty() || slot.own_place != 0;
}

/// Slots that a worker of a dynamic order can look at: each thread of a warp at one.
constexpr int kMostLookahead = 32;

class FormCheck : FormPart {
 public:
  FormCheck(const Plan& plan, Claim& claim) : FormPart(plan, claim) {}

  Theorem run() {
    // Later checks index with what earlier ones have found to be in range.
    if (sizes() && arguments() && buffers() && signals() && tiles() && sums())
      for (int rank = 0; rank < plan_.ranks; ++rank) check_program(rank);
    return claim_.conclude(fmt::format("{}, {}, {}, {}, {}, {}; a transfer is at most {}",
                                       count_of(plan_.ranks, "rank"), count_of(plan_.buffers.size(), "buffer"),
                                       count_of(plan_.signals.size(), "signal"), count_of(plan_.tiles.size(), "tile"),
                                       count_of(transfers_, "transfer"), count_of(waits_, "wait"),
                                       count_of(most_runs_, "contiguous run")));
  }

 private:
  bool sizes() {
    return require(plan_.ranks >= 1, "the plan is for {} ranks", plan_.ranks) &&
           require(plan_.workers >= 1, "the plan has {} workers", plan_.workers) &&
           require(plan_.lookahead >= 0 && plan_.lookahead <= kMostLookahead,
                   "workers look {} slots ahead, and can look at {}", plan_.lookahead, kMostLookahead) &&
           require(plan_.programs.size() == static_cast<std::size_t>(plan_.ranks),
                   "the plan is for {} and has programs for {}", count_of(plan_.ranks, "rank"),
                   plan_.programs.size()) &&
           require(plan_.kernel.axes.size() == plan_.kernel.extents.size(), "the kernel has {} axes and {} extents",
                   plan_.kernel.axes.size(), plan_.kernel.extents.size());
  }

  /// Ranks have arguments of their own, of the same names and kinds, or none has.
  bool arguments() {
    const std::vector<ScalarArguments>& lists = plan_.kernel.rank_arguments;
    if (!require(lists.empty() || lists.size() == plan_.programs.size(), "{} ranks of {} have arguments of their own",
                 lists.size(), plan_.ranks))
      return false;
    for (const ScalarArguments& own : lists) {
      const auto alike = [](const auto& a, const auto& b) {
        return a.first == b.first && a.second.index() == b.second.index();
      };
      if (!require(std::equal(own.begin(), own.end(), lists.front().begin(), lists.front().end(), alike),
                   "ranks have other arguments of their own than rank 0"))
        return false;
      for (const auto& [name, value] : own)
        if (!require(!plan_.kernel.arguments.contains(name), "argument {} is one of all ranks and one of each", name))
          return false;
    }
    return true;
  }

  bool buffers() {
    const std::optional<BufferFacts> facts = check_buffers(plan_, claim_);
    if (facts) facts_ = *facts;
    return facts.has_value();
  }

  bool signals() {
    std::map<int, int> count;  // per home
    for (const Signal& signal : plan_.signals) ++count[signal.home];
    std::set<std::string> names;
    std::map<std::pair<int, int>, std::string> places;
    for (const Signal& signal : plan_.signals) {
      if (!require(in_range(signal.home, plan_.programs), "signal '{}' lives on rank {}; ranks are 0 to {}",
                   signal.name, signal.home, plan_.ranks - 1) ||
          !require(signal.slot >= 0 && signal.slot < count[signal.home],
                   "signal '{}' has slot {} of rank {}, which has {}", signal.name, signal.slot, signal.home,
                   count_of(count[signal.home], "signal")) ||
          !require(signal.per_launch >= 1 && signal.per_launch <= kMostRaises,
                   "signal '{}' is said to be raised {} times in a launch", signal.name, signal.per_launch))
        return false;
      require(names.insert(signal.name).second, "two signals are called '{}'", signal.name);
      const auto [other, is_new] = places.try_emplace({signal.home, signal.slot}, signal.name);
      require(is_new, "signals '{}' and '{}' share slot {} of rank {}", other->second, signal.name, signal.slot,
              signal.home);
    }
    return true;
  }

  bool tiles() {
    std::map<std::vector<std::int64_t>, int> indices;
    for (const Tile& tile : plan_.tiles) {
      if (!require(tile.index.size() == plan_.kernel.axes.size(), "a tile has {} index values; the kernel has {} axes",
                   tile.index.size(), plan_.kernel.axes.size()))
        return false;
      for (std::size_t a = 0; a < tile.index.size(); ++a)
        require(tile.index[a] >= 0 && tile.index[a] < plan_.kernel.extents[a],
                "{}: axis {} has indices from 0 up to, not including, {}", describe(tile), plan_.kernel.axes[a],
                plan_.kernel.extents[a]);
      const auto [index, is_new] = indices.try_emplace(tile.index, static_cast<int>(indices.size()));
      require(is_new || !plan_.kernel.rank_arguments.empty(), "{} is there twice", describe(tile));
      with_index_.push_back(index->second);
      if (!accesses_are_good(tile, tile.reads, true) || !accesses_are_good(tile, tile.writes, false)) return false;
      if (!pieces_are_good(tile)) return false;
    }
    indices_ = indices.size();
    return true;
  }

  /// The pieces of a loop follow each other without a gap, from its first iteration.
  bool pieces_are_good(const Tile& tile) {
    const auto name = [&] { return describe(tile); };
    int loop = -1;
    std::int64_t end = 0;
    for (const LoopPiece& piece : tile.pieces) {
      if (!require(in_range(piece.loop, plan_.kernel.streamed_loops) && piece.loop >= loop,
                   "{} has a piece of loop number {} of {} behind one of loop number {}", name, piece.loop,
                   plan_.kernel.streamed_loops.size(), loop))
        return false;
      if (piece.loop != loop) end = 0;
      if (!require(piece.begin == end && piece.end > piece.begin,
                   "{}: a piece of loop {} holds iterations {} to {}, and the one before it ends at {}", name,
                   plan_.kernel.streamed_loops[static_cast<std::size_t>(piece.loop)], piece.begin, piece.end, end))
        return false;
      loop = piece.loop;
      end = piece.end;
      if (!accesses_are_good(tile, piece.reads, true)) return false;
    }
    return true;
  }

  /// A load from a stack is one of every summand.
  template <typename Owner>
  bool is_of_all_summands(const TileAccess& access, bool is_read, Owner&& owner) {
    const Buffer& buffer = plan_.buffer(access.buffer);
    if (!buffer.stacked || access.region.empty()) return true;
    return require(is_read, "{} writes to {}, a stack of summands", owner, buffer.name) &&
           require(access.region[0] == Range{0, buffer.shape[0]},
                   "{} reads {}{}, which is not the same of every summand", owner, buffer.name, access.region);
  }

  bool accesses_are_good(const Tile& tile, const std::vector<TileAccess>& accesses, bool is_read) {
    const auto name = [&] { return describe(tile); };
    return std::all_of(accesses.begin(), accesses.end(), [&](const TileAccess& access) {
      return require(in_range(access.buffer, plan_.buffers), "{} uses buffer number {} of {}", name, access.buffer,
                     plan_.buffers.size()) &&
             require(plan_.buffer(access.buffer).role == BufferRole::kernel,
                     "{} uses {}, which is none of the kernel's", name, plan_.buffer(access.buffer).name) &&
             region_is_good(plan_.buffer(access.buffer), access.region, name) &&
             is_of_all_summands(access, is_read, name);
    });
  }

  bool sums() {
    const int summed = facts_.result >= 0 ? facts_.result : facts_.reduced;
    for (const Sum& sum : plan_.sums) {
      if (!require(sum.buffer == summed && summed >= 0, "a sum is said of buffer number {}, which is not reduced",
                   sum.buffer) ||
          !require(in_range(sum.rank, plan_.programs), "a sum is said to be on rank {}; ranks are 0 to {}", sum.rank,
                   plan_.ranks - 1))
        return false;
      const Buffer& buffer = plan_.buffer(sum.buffer);
      const auto owner = [&] { return fmt::format("a sum on rank {}", sum.rank); };
      if (!region_is_good(buffer, sum.region, owner)) return false;
      const Region output = placed_region(buffer.after, buffer.shape, plan_.ranks, sum.rank);
      if (!require(output.contains(sum.region), "a sum on rank {} is said of {}{}; the rank's output is {}", sum.rank,
                   buffer.name, sum.region, output) ||
          !order_is_good(sum) || (facts_.result >= 0 && !is_in_order_of_ranks(sum)))
        return false;
    }
    for (int rank = 0; rank < plan_.ranks && summed >= 0; ++rank) check_sums_cover(rank, plan_.buffer(summed));
    return true;
  }

  /// As additions add: one summand after the other.
  bool is_in_order_of_ranks(const Sum& sum) {
    const std::vector<SumOrder>& terms = sum.order.terms;
    bool in_order = terms.size() == static_cast<std::size_t>(plan_.ranks);
    for (std::size_t r = 0; r < terms.size() && in_order; ++r)
      in_order = terms[r].terms.empty() && terms[r].rank == static_cast<int>(r);
    return require(in_order, "a one-shot sum on rank {} is said to be in another order than that of the ranks",
                   sum.rank);
  }

  /// Every rank once. Visits at most twice as many nodes as there are ranks, however deep they stand.
  bool order_is_good(const Sum& sum) {
    std::vector<bool> named(plan_.programs.size(), false);
    std::vector<const SumOrder*> open{&sum.order};
    while (!open.empty()) {
      const SumOrder& order = *open.back();
      open.pop_back();
      if (order.terms.empty()) {
        if (!require(in_range(order.rank, plan_.programs) && !named[static_cast<std::size_t>(order.rank)],
                     "the order of a sum on rank {} names rank {}, which {}", sum.rank, order.rank,
                     in_range(order.rank, plan_.programs) ? "is there twice" : "does not exist"))
          return false;
        named[static_cast<std::size_t>(order.rank)] = true;
      } else if (!require(order.terms.size() > 1, "the order of a sum on rank {} has a sum of one term", sum.rank)) {
        return false;
      }
      for (const SumOrder& term : order.terms) open.push_back(&term);
    }
    const auto missing = std::find(named.begin(), named.end(), false) - named.begin();
    return require(missing == std::ssize(named), "the order of a sum on rank {} leaves out rank {}", sum.rank, missing);
  }

  void check_sums_cover(int rank, const Buffer& buffer) {
    std::vector<Box<int>> parts;
    std::vector<Region> regions;
    for (const Sum& sum : plan_.sums) {
      if (sum.rank != rank || sum.region.empty()) continue;
      parts.push_back({sum.region, 0});
      regions.push_back(sum.region);
    }
    const auto overlap = find_overlap(parts);
    claim_.check(!overlap.has_value(), [&] {
      return fmt::format("two sums are said of {}{} on rank {}", buffer.name,
                         intersect(overlap->first.region, overlap->second.region).to_string(), rank);
    });
    const auto holes = uncovered(placed_region(buffer.after, buffer.shape, plan_.ranks, rank), regions);
    claim_.check(holes.empty(), [&] {
      return fmt::format("nothing says what the sum in {}{} on rank {} is", buffer.name, holes.front().to_string(),
                         rank);
    });
  }

  void check_program(int rank) {
    const RankProgram& program = plan_.programs[static_cast<std::size_t>(rank)];
    check_raises(program.start_signals, [&] { return fmt::format("the start of rank {}", rank); });
    for (const Queue& queue : program.queues) {
      require(queue.engine == Engine::copy_engine, "queue '{}' is for an engine that does not exist", queue.name);
      for (std::size_t p = 0; p < queue.transfers.size(); ++p) check_transfer(rank, queue, p);
    }
    check_slots(rank, program.slots);
    check_additions(rank, program);
    check_waits(rank, program.completion_waits, [&] { return fmt::format("the completion of rank {}", rank); });
    check_raises(program.completion_signals, [&] { return fmt::format("the completion of rank {}", rank); });
  }

  void check_transfer(int rank, const Queue& queue, std::size_t position) {
    const Transfer& transfer = queue.transfers[position];
    const auto name = [&] {
      return fmt::format("transfer {}.{} (place {} of queue '{}')", transfer.operator_rank, transfer.operator_index,
                         position, queue.name);
    };
    ++transfers_;
    check_waits(rank, transfer.waits, name);
    check_raises(transfer.signals, name);
    if (!view_is_good(transfer.source, name) || !view_is_good(transfer.destination, name)) return;
    const Buffer& buffer = plan_.buffer(transfer.source.buffer);
    require(transfer.source.rank == rank || transfer.destination.rank == rank,
            "{} goes from rank {} to rank {}, but its queue belongs to rank {}", name, transfer.source.rank,
            transfer.destination.rank, rank);
    if (facts_.reduced >= 0 && facts_.staging >= 0 && transfer.source.buffer == facts_.reduced &&
        transfer.destination.buffer == facts_.staging)
      return check_summands(rank, transfer, name);
    if (facts_.stack >= 0 && transfer.destination.buffer == facts_.stack) return check_stacked(rank, transfer, name);
    if (transfer.source.buffer != transfer.destination.buffer) return check_exchange(rank, transfer, name);
    if (!require(
            transfer.source.buffer != facts_.staging && (transfer.source.buffer != facts_.reduced || facts_.in_place ||
                                                         buffer.after.kind == Placement::Kind::replicate),
            "{} stays in buffer {}: summands go from the reduced buffer to the staging buffer", name, buffer.name))
      return;
    require(buffer.symmetric, "{} moves {}, which is local: peers cannot reach it", name, buffer.name);
    keeps_places(transfer, name);
  }

  void check_additions(int rank, const RankProgram& program) {
    const std::vector<Addition>& additions = program.additions;
    if (additions.empty() || !require(facts_.result >= 0, "rank {} adds up parts of no one-shot sum", rank)) return;
    require(program.slots.size() >= static_cast<std::size_t>(plan_.workers),
            "workers of rank {} add, and have no slots", rank);
    for (std::size_t a = 0; a < additions.size(); ++a) {
      const auto name = [&] { return fmt::format("addition {} of rank {}", a, rank); };
      box_is_good(plan_.buffer(facts_.result), additions[a].region, name);
      check_waits(rank, additions[a].waits, name);
    }
  }

  /// From the kernel's buffer of a one-shot sum to the stack of another rank.
  template <typename Owner>
  void check_stacked(int rank, const Transfer& transfer, Owner&& name) {
    reaches(rank, transfer, name);
    const View& from = transfer.source;
    const View& to = transfer.destination;
    require(from.buffer == facts_.apart && from.rank != to.rank &&
                to.region == in_stack(from.region, plan_.buffer(facts_.apart).shape[0], to.rank, from.rank),
            "{} moves {}{} of rank {} to {}{} of rank {}, which is not the place of that summand", name,
            plan_.buffer(from.buffer).name, from.region, from.rank, plan_.buffer(to.buffer).name, to.region, to.rank);
    most_runs_ = std::max({most_runs_, runs_of(from.region, plan_.buffer(from.buffer).shape),
                           runs_of(to.region, plan_.buffer(to.buffer).shape)});
  }

  /// From a source to the kernel's buffer, or from the kernel's to a result.
  template <typename Owner>
  void check_exchange(int rank, const Transfer& transfer, Owner&& name) {
    const Buffer& source = plan_.buffer(transfer.source.buffer);
    const Buffer& destination = plan_.buffer(transfer.destination.buffer);
    const bool goes_in = source.role == BufferRole::source && source.partner == transfer.destination.buffer;
    const bool goes_out = destination.role == BufferRole::result && destination.partner == transfer.source.buffer &&
                          transfer.destination.buffer != facts_.result;
    if (!require(goes_in || goes_out, "{} goes from buffer {} to buffer {}", name, source.name, destination.name))
      return;
    reaches(rank, transfer, name);
    keeps_places(transfer, name);
  }

  template <typename Owner>
  void keeps_places(const Transfer& transfer, Owner&& name) {
    const Buffer& source = plan_.buffer(transfer.source.buffer);
    const Buffer& destination = plan_.buffer(transfer.destination.buffer);
    require(in_tensor(source, transfer.source.rank, transfer.source.region) ==
                in_tensor(destination, transfer.destination.rank, transfer.destination.region),
            "{} moves {}{} to {}: the elements of a tensor keep their places", name, source.name,
            transfer.source.region, transfer.destination.region);
    most_runs_ = std::max({most_runs_, runs_in_memory(source, transfer.source.region),
                           runs_in_memory(destination, transfer.destination.region)});
  }

  /// The end that is not on the queue's rank is reached as a peer's.
  template <typename Owner>
  void reaches(int rank, const Transfer& transfer, Owner&& name) {
    for (const View* view : {&transfer.source, &transfer.destination})
      require(view->rank == rank || plan_.buffer(view->buffer).symmetric,
              "{} reaches for {} of rank {}, which is local: peers cannot reach it", name,
              plan_.buffer(view->buffer).name, view->rank);
  }

  /// From the reduced buffer to the staging buffer.
  template <typename Owner>
  void check_summands(int rank, const Transfer& transfer, Owner&& name) {
    reaches(rank, transfer, name);
    require(equal_extents(transfer.source.region, transfer.destination.region),
            "{} moves {} to {}, a box of another size", name, transfer.source.region, transfer.destination.region);
    most_runs_ = std::max({most_runs_, runs_of(transfer.source.region, plan_.buffer(facts_.reduced).shape),
                           runs_of(transfer.destination.region, plan_.buffer(facts_.staging).shape)});
  }

  static bool equal_extents(const Region& a, const Region& b) {
    if (a.dimensions() != b.dimensions()) return false;
    for (int d = 0; d < a.dimensions(); ++d)
      if (a[d].size() != b[d].size()) return false;
    return true;
  }

  template <typename Owner>
  bool view_is_good(const View& view, Owner&& owner) {
    return require(in_range(view.rank, plan_.programs), "{} is about rank {}; ranks are 0 to {}", owner, view.rank,
                   plan_.ranks - 1) &&
           require(in_range(view.buffer, plan_.buffers), "{} is about buffer number {} of {}", owner, view.buffer,
                   plan_.buffers.size()) &&
           region_is_good(plan_.buffer(view.buffer), view.region, owner);
  }

  void check_slots(int rank, const std::vector<Slot>& slots) {
    // By index: where ranks differ, each has one of the tiles with an index.
    std::vector<int> times(indices_, 0);
    std::vector<int> cut(indices_, 0);
    std::vector<const Slot*> first(indices_, nullptr);
    for (std::size_t s = 0; s < slots.size(); ++s) {
      const Slot& slot = slots[s];
      const auto name = [&] { return fmt::format("slot {} of rank {}", s, rank); };
      check_waits(rank, slot.waits, name);
      if (facts_.reduced >= 0)
        check_sums(rank, slot, name);
      else
        require(!takes_part_in_sums(slot), "{} takes part in a sum, and nothing is reduced", name);
      check_raises(slot.signals, name);
      require(facts_.leaves || slot.signals.empty(), "{} raises signals, and no output leaves its rank", name);
      if (!require(in_range(slot.tile, plan_.tiles), "{} is for tile number {} of {}", name, slot.tile,
                   plan_.tiles.size()))
        continue;
      check_steps(rank, slot, name);
      const auto index = static_cast<std::size_t>(with_index_[static_cast<std::size_t>(slot.tile)]);
      const Slot*& other = first[index];
      if (other == nullptr) other = &slot;
      require(other->tile == slot.tile, "{} is for another tile than an earlier slot with its index", name);
      require(walk_alike(*other, slot), "{} walks the pieces of its tile in another order than an earlier slot", name);
      ++times[index];
      if (slot.kept.dimensions() > 0) ++cut[index];
    }
    // Tiles that are cut may stand in the order several times; coverage looks at what of them is kept.
    for (std::size_t i = 0; i < indices_; ++i)
      require(
          times[i] == 1 || (times[i] > 0 && cut[i] == times[i]), "rank {} computes {} {} times", rank,
          [&] {
            const auto tile = std::find(with_index_.begin(), with_index_.end(), static_cast<int>(i));
            return describe(plan_.tiles[static_cast<std::size_t>(tile - with_index_.begin())]);
          },
          times[i]);
  }

  static bool walk_alike(const Slot& a, const Slot& b) {
    return std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                      [](const LoopStep& one, const LoopStep& other) { return one.piece == other.piece; });
  }

  /// Every piece once, those of earlier loops before those of later ones.
  template <typename Owner>
  void check_steps(int rank, const Slot& slot, Owner&& name) {
    const std::vector<LoopPiece>& pieces = plan_.tiles[static_cast<std::size_t>(slot.tile)].pieces;
    std::vector<bool> walked(pieces.size(), false);
    int loop = 0;
    for (const LoopStep& step : slot.steps) {
      check_waits(rank, step.waits, name);
      if (!require(in_range(step.piece, pieces), "{} walks piece number {} of {}", name, step.piece, pieces.size()))
        return;
      const auto piece = static_cast<std::size_t>(step.piece);
      if (!require(!walked[piece], "{} walks piece number {} twice", name, step.piece)) return;
      walked[piece] = true;
      require(pieces[piece].loop >= loop, "{} walks a piece of loop number {} behind one of loop number {}", name,
              pieces[piece].loop, loop);
      loop = pieces[piece].loop;
    }
    require(slot.steps.size() == pieces.size(), "{} walks {} of the {} pieces of its tile", name, slot.steps.size(),
            pieces.size());
  }

  template <typename Owner>
  void check_sums(int rank, const Slot& slot, Owner&& name) {
    const Buffer& reduced = plan_.buffer(facts_.reduced);
    check_waits(rank, slot.sum_waits, name);
    if (slot.kept.dimensions() > 0) box_is_good(reduced, slot.kept, name);
    require(slot.own_place >= 0 && static_cast<std::size_t>(slot.own_place) <= slot.addends.size(),
            "{} adds its own value at place {} of {} addends", name, slot.own_place, slot.addends.size());
    if (facts_.in_place) return check_in_place(slot, name);
    if (slot.addends.empty() || !require(facts_.staging >= 0, "{} adds summands, and no buffer receives any", name))
      return;
    for (const Addend& addend : slot.addends) {
      if (box_is_good(reduced, addend.target, name) && box_is_good(plan_.buffer(facts_.staging), addend.source, name))
        require(equal_extents(addend.target, addend.source), "{} adds {} to {}, a box of another size", name,
                addend.source, addend.target);
    }
  }

  /// What a slot adds in place is all that it stores, each element once, or nothing.
  template <typename Owner>
  void check_in_place(const Slot& slot, Owner&& name) {
    const Buffer& reduced = plan_.buffer(facts_.reduced);
    require(slot.kept.dimensions() == 0, "{} keeps a part of its tile, and adds in place", name);
    require(!slot.addends.empty() || slot.sum_waits.empty(), "{} waits to add in place, and adds nothing", name);
    std::vector<Box<int>> boxes;
    std::vector<Region> targets;
    for (const Addend& addend : slot.addends) {
      if (!box_is_good(reduced, addend.target, name)) return;
      require(addend.target == addend.source, "{} adds {} to {}, and sums are in place", name, addend.source,
              addend.target);
      boxes.push_back({addend.target, 0});
      targets.push_back(addend.target);
    }
    require(!find_overlap(boxes).has_value(), "{} adds to an element in place twice", name);
    if (targets.empty() || !in_range(slot.tile, plan_.tiles)) return;
    for (const TileAccess& write : plan_.tiles[static_cast<std::size_t>(slot.tile)].writes)
      if (write.buffer == facts_.reduced)
        require(uncovered(write.region, targets).empty(), "{} adds in place to only a part of {}{}, which it stores",
                name, reduced.name, write.region);
  }

  template <typename Owner>
  bool box_is_good(const Buffer& buffer, const Region& region, Owner&& name) {
    return region_is_good(buffer, region, name) &&
           require(runs_of(region, buffer.shape) <= 1, "{}: {}{} is not contiguous in memory", name, buffer.name,
                   region);
  }

  template <typename Owner>
  void check_waits(int rank, const std::vector<Wait>& waits, Owner&& owner) {
    for (const Wait& wait : waits) {
      ++waits_;
      const bool exists = claim_.check(in_range(wait.signal, plan_.signals), [&] {
        return fmt::format("{} waits for signal number {} of {}", owner(), wait.signal, plan_.signals.size());
      });
      if (!exists) continue;
      const Signal& signal = plan_.signals[static_cast<std::size_t>(wait.signal)];
      claim_.check(signal.home == rank, [&] {
        return fmt::format("{} waits on rank {} for '{}', which lives on rank {}", owner(), rank, signal.name,
                           signal.home);
      });
      claim_.check(wait.threshold >= 0 && wait.threshold <= signal.per_launch, [&] {
        return fmt::format("{} waits for '{}' with threshold {}; a launch raises it {} times", owner(), signal.name,
                           wait.threshold, signal.per_launch);
      });
    }
  }

  template <typename Owner>
  void check_raises(const std::vector<int>& raised, Owner&& owner) {
    for (const int signal : raised)
      claim_.check(in_range(signal, plan_.signals), [&] {
        return fmt::format("{} raises signal number {} of {}", owner(), signal, plan_.signals.size());
      });
  }

  std::vector<int> with_index_;  ///< per tile: the number of its index
  std::size_t indices_ = 0;
  BufferFacts facts_;
  std::int64_t transfers_ = 0;
  std::int64_t waits_ = 0;
  std::int64_t most_runs_ = 0;
};

}  // namespace

Theorem prove_form(const Plan& plan) {
  Claim claim{
      "form",
      "every index is in range, every region inside its buffer, transfers move equal regions of one symmetric "
      "buffer, or of one tensor between the kernel's buffer and the caller's, or of the reduced buffer to where its "
      "summands land, from or to the rank of their queue, every rank has every tile once, or cut, every slot walks "
      "each piece "
      "of its tile once, every sum has an order that names each rank once, every signal has a place "
      "of its own and every wait is on a signal of the waiter's rank."};
  return FormCheck(plan, claim).run();
}

}  // namespace syncopate
