#include "syncopate/verify/form.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <type_traits>
#include <utility>

#include "syncopate/core/text.h"
#include "syncopate/verify/boxes.h"
#include "syncopate/verify/claim.h"
#include "syncopate/verify/placed.h"

namespace syncopate {

namespace {

/// Keeps sums of raises over two launches far from the limits of 64 bits.
constexpr std::int64_t kMostRaises = std::int64_t{1} << 40;

template <typename T>
bool in_range(int index, const std::vector<T>& list) {
  return index >= 0 && static_cast<std::size_t>(index) < list.size();
}

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

/// What a message says of `argument`. Functions are asked, so that names are made for messages only.
template <typename Argument>
auto show(const Argument& argument) {
  if constexpr (std::is_invocable_v<Argument>) {
    return argument();
  } else if constexpr (std::is_same_v<Argument, Region>) {
    return argument.to_string();
  } else if constexpr (std::is_convertible_v<Argument, std::string_view>) {
    return std::string_view(argument);
  } else {
    return argument;
  }
}

template <typename Argument>
using Shown = decltype(show(std::declval<const Argument&>()));

bool takes_part_in_sums(const Slot& slot) {
  return slot.kept.dimensions() > 0 || !slot.sum_waits.empty() || !slot.addends.empty() || slot.own_place != 0;
}

/// Slots that a worker of a dynamic order can look at: each thread of a warp at one.
constexpr int kMostLookahead = 32;

/// Far from the limits of 64 bits, so that regions may be moved by it.
constexpr std::int64_t kFarthest = std::int64_t{1} << 60;

class FormCheck {
 public:
  explicit FormCheck(const Plan& plan) : plan_(plan) {}

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
  template <typename... Arguments>
  bool require(bool holds, fmt::format_string<Shown<Arguments>...> text, const Arguments&... arguments) {
    return claim_.check(holds, [&] { return fmt::format(text, show(arguments)...); });
  }

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
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      if (!shape_is_good(buffer) || !stack_is_good(buffer) || !fold_is_good(buffer) || !window_is_good(buffer) ||
          !held_is_good(buffer))
        return false;
      if (buffer.is_reduced() && !is_the_only(reduced_, static_cast<int>(b), "reduced")) return false;
      if (buffer.role == BufferRole::staging && !is_the_only(staging_, static_cast<int>(b), "staging")) return false;
      if (buffer.role == BufferRole::summands && !is_the_only(stack_, static_cast<int>(b), "summands")) return false;
      if (buffer.summed_apart && !is_the_only(apart_, static_cast<int>(b), "one-shot")) return false;
      leaves_ = leaves_ || buffer.is_reduced() || buffer.role == BufferRole::result || buffer.fold;
    }
    std::set<int> exchanged;
    for (const Buffer& buffer : plan_.buffers) {
      const bool callers = buffer.role == BufferRole::source || buffer.role == BufferRole::result;
      if (callers && (!exchange_is_good(buffer) ||
                      !require(exchanged.insert(buffer.partner).second, "two buffers are on the caller's side of {}",
                               plan_.buffer(buffer.partner).name)))
        return false;
    }
    return (staging_ < 0 || staging_is_good(plan_.buffer(staging_))) && in_place_is_good() && folds_have_sources() &&
           one_shot_is_good();
  }

  /// A fold is along a dimension that there is, and not longer.
  bool fold_is_good(const Buffer& buffer) {
    if (!buffer.fold) return true;
    const auto [dimension, extent] = *buffer.fold;
    return require(buffer.role == BufferRole::kernel && !buffer.is_reduced() && !buffer.stacked,
                   "buffer {} is folded, and is no input of the kernel, or a sum", buffer.name) &&
           require(dimension >= 0 && static_cast<std::size_t>(dimension) < buffer.shape.size() && extent >= 1 &&
                       extent <= buffer.shape[static_cast<std::size_t>(dimension)],
                   "buffer {} is folded every {} along dimension {} of shape {}", buffer.name, extent, dimension,
                   [&] { return to_string(buffer.shape); });
  }

  /// What stands in a folded buffer comes by transfers, in every launch anew.
  bool folds_have_sources() {
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      if (!plan_.buffers[b].fold) continue;
      const int source = caller_side(plan_, static_cast<int>(b));
      if (!require(source >= 0 && plan_.buffer(source).role == BufferRole::source,
                   "buffer {} is folded without a source", plan_.buffers[b].name))
        return false;
    }
    return true;
  }

  /// The three buffers of a one-shot sum: whole tensors, and of other ranks one each.
  bool one_shot_is_good() {
    if (stack_ < 0 && apart_ < 0) return true;
    if (!require(stack_ >= 0 && apart_ >= 0 && reduced_ < 0 && plan_.buffer(stack_).partner == apart_,
                 "summands of a one-shot sum, other ranks' summands of one and reduced buffers do not fit together"))
      return false;
    const Buffer& summed = plan_.buffer(apart_);
    const Buffer& stack = plan_.buffer(stack_);
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b)
      if (plan_.buffers[b].role == BufferRole::result && plan_.buffers[b].partner == apart_)
        result_ = static_cast<int>(b);
    Shape shape = summed.shape;
    if (!require(!shape.empty() && plan_.ranks > 1, "a one-shot sum of scalars, or on one rank") ||
        !require(plan_.lookahead == 0, "a one-shot sum where workers choose among slots"))
      return false;
    shape[0] *= plan_.ranks - 1;
    return require(result_ >= 0 && summed.role == BufferRole::kernel && summed.inside == Placement::partial_sum() &&
                       summed.after == Placement::replicate() && plan_.buffer(result_).shape == summed.shape,
                   "buffer {} has summands of a one-shot sum, and no result of its shape that every rank is to have",
                   summed.name) &&
           require(stack.shape == shape && stack.dtype == summed.dtype && stack.window.empty() &&
                       stack.inside == Placement::replicate(),
                   "buffer {} is a stack of other ranks' summands of {}, but has shape {}", stack.name, summed.name,
                   [&] { return to_string(stack.shape); }) &&
           require(is_floating(summed.dtype) && summed.dtype != Dtype::fp64,
                   "sums of {} elements are not taken in fp32", name_of(summed.dtype)) &&
           holds_nothing(stack);
  }

  /// What memory adds to.
  bool in_place_is_good() {
    for (const Buffer& buffer : plan_.buffers)
      if (buffer.sums_in_place &&
          (!require(buffer.is_reduced() && staging_ < 0,
                    "buffer {} has sums in place, and is not reduced, or has a staging buffer, too", buffer.name) ||
           !require(buffer.dtype == Dtype::bf16 || buffer.dtype == Dtype::fp16 || buffer.dtype == Dtype::fp32,
                    "buffer {} has sums in place, and memory does not add {}", buffer.name, name_of(buffer.dtype))))
        return false;
    in_place_ = reduced_ >= 0 && plan_.buffer(reduced_).sums_in_place;
    return true;
  }

  /// Of a stack of summands the kernel's buffer has one of every rank.
  bool stack_is_good(const Buffer& buffer) {
    if (!buffer.stacked) return true;
    const bool of_kernel = buffer.role == BufferRole::kernel;
    return require((of_kernel && !buffer.is_reduced()) || buffer.role == BufferRole::source,
                   "buffer {} is a stack of summands, but neither of the kernel nor of its caller", buffer.name) &&
           require(buffer.shape.size() > 1 && buffer.shape[0] == (of_kernel ? plan_.ranks : 1),
                   "buffer {} is a stack of summands of {}, but has shape {}", buffer.name,
                   of_kernel ? count_of(plan_.ranks, "rank") : "one rank", [&] { return to_string(buffer.shape); }) &&
           require(buffer.before == Placement::shard(0),
                   "buffer {} is a stack of summands, but rank r does not hold "
                   "summand r",
                   buffer.name);
  }

  /// The box of a tensor of these extents that a buffer is to show on a rank.
  Region shown_by(const Buffer& buffer, const Shape& tensor, int rank) const {
    const Placement& placement = buffer.role == BufferRole::source   ? buffer.before
                                 : buffer.role == BufferRole::result ? buffer.after
                                                                     : buffer.inside;
    return placed_region(placement, tensor, plan_.ranks, rank);
  }

  bool window_is_good(const Buffer& buffer) {
    const bool needs_one = buffer.role == BufferRole::source || buffer.role == BufferRole::result;
    if (buffer.window.empty()) return require(!needs_one, "nothing says what buffer {} shows", buffer.name);
    if (!require(buffer.role != BufferRole::staging && !buffer.is_reduced(),
                 "buffer {} is to show a part of a tensor and takes part in sums", buffer.name) ||
        !require(buffer.window.size() == static_cast<std::size_t>(plan_.ranks),
                 "buffer {} says what it shows on {} ranks; the plan is for {}", buffer.name, buffer.window.size(),
                 plan_.ranks))
      return false;
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      const Region& window = buffer.window[static_cast<std::size_t>(rank)];
      const auto fits = [&] {
        if (static_cast<std::size_t>(window.dimensions()) != buffer.shape.size()) return false;
        for (int d = 0; d < window.dimensions(); ++d) {
          const std::int64_t extent = buffer.shape[static_cast<std::size_t>(d)];
          if (window[d].begin < 0 || window[d].end < window[d].begin || window[d].end > kFarthest) return false;
          if (needs_one ? window[d].size() > extent : window[d].size() != extent) return false;
        }
        return true;
      };
      if (!require(
              fits(), "buffer {}, of shape {}, cannot show {} of its tensor on rank {}", buffer.name,
              [&] { return to_string(buffer.shape); }, window, rank))
        return false;
    }
    return true;
  }

  /// Of a source or a result: it and its partner show the parts of one tensor that their placements say.
  bool exchange_is_good(const Buffer& caller) {
    if (!require(in_range(caller.partner, plan_.buffers) && plan_.buffer(caller.partner).role == BufferRole::kernel,
                 "buffer {} is for buffer number {}, which is none of the kernel's", caller.name, caller.partner))
      return false;
    const Buffer& kernel = plan_.buffer(caller.partner);
    if (!require(!kernel.window.empty() && kernel.dtype == caller.dtype && kernel.shape.size() == caller.shape.size() &&
                     kernel.stacked == caller.stacked,
                 "buffers {} and {} cannot be of one tensor", caller.name, kernel.name) ||
        !holds_nothing(kernel) || (caller.role == BufferRole::result && !holds_nothing(caller)))
      return false;
    Shape tensor(caller.shape.size(), 0);
    for (const Region& window : kernel.window)
      for (std::size_t d = 0; d < tensor.size(); ++d) tensor[d] = std::max(tensor[d], window[static_cast<int>(d)].end);
    for (const Buffer* buffer : {&caller, &kernel})
      for (int rank = 0; rank < plan_.ranks; ++rank) {
        const Region placed = shown_by(*buffer, tensor, rank);
        const Region& window = buffer->window[static_cast<std::size_t>(rank)];
        if (!require(window == placed || (window.empty() && placed.empty()),
                     "buffer {} shows {} on rank {}, but its placement says {}", buffer->name, window, rank, placed))
          return false;
      }
    return true;
  }

  bool is_the_only(int& known, int buffer, std::string_view kind) {
    if (known < 0) return known = buffer, true;
    return require(false, "{} and {} are both {} buffers; a plan has at most one", plan_.buffer(known).name,
                   plan_.buffer(buffer).name, kind);
  }

  bool staging_is_good(const Buffer& staging) {
    return require(reduced_ >= 0 && staging.partner == reduced_,
                   "buffer {} is to receive summands of buffer number {}, which is not reduced", staging.name,
                   staging.partner) &&
           require(staging.dtype == plan_.buffer(reduced_).dtype,
                   "buffer {} has {} elements and receives summands of {}, which has {}", staging.name,
                   name_of(staging.dtype), plan_.buffer(reduced_).name, name_of(plan_.buffer(reduced_).dtype)) &&
           holds_nothing(staging);
  }

  bool holds_nothing(const Buffer& buffer) {
    bool any = false;
    for (const std::vector<Region>& boxes : buffer.held)
      any = any || std::any_of(boxes.begin(), boxes.end(), [](const Region& box) { return !box.empty(); });
    return require(!any, "the caller puts something into buffer {}, which the operator fills", buffer.name);
  }

  bool shape_is_good(const Buffer& buffer) {
    if (!require(buffer.shape.size() <= kMaxDimensions, "buffer {} has {} dimensions; at most {} are supported",
                 buffer.name, buffer.shape.size(), kMaxDimensions))
      return false;
    std::int64_t elements = 1;
    for (const std::int64_t extent : buffer.shape) {
      const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 16 / elements;
      if (!require(extent >= 0 && extent <= most, "buffer {} has an impossible extent {}", buffer.name, extent))
        return false;
      elements *= std::max<std::int64_t>(extent, 1);
    }
    const auto dimension_exists = [&](const Placement& placement) {
      return !placement.cuts() ||
             (placement.dimension >= 0 && static_cast<std::size_t>(placement.dimension) < buffer.shape.size());
    };
    const auto is_zigzag = [](const Placement& placement) { return placement.kind == Placement::Kind::zigzag; };
    return require(!is_zigzag(buffer.inside) && !is_zigzag(buffer.after) &&
                       (!is_zigzag(buffer.before) || (buffer.role == BufferRole::kernel && buffer.window.empty())),
                   "buffer {} is placed in zigzag, and not as an input that is gathered", buffer.name) &&
           require(dimension_exists(buffer.before) && dimension_exists(buffer.inside) && dimension_exists(buffer.after),
                   "buffer {} is sharded along a dimension that it does not have", buffer.name) &&
           require(buffer.is_reduced() || buffer.before.kind != Placement::Kind::partial_sum,
                   "buffer {} holds partial sums before the operator, and only what its kernel computes is reduced",
                   buffer.name) &&
           require(!buffer.is_reduced() || buffer.after.kind != Placement::Kind::partial_sum,
                   "buffer {} holds partial sums, which nothing says how to add up", buffer.name);
  }

  bool held_is_good(const Buffer& buffer) {
    if (!require(buffer.held.size() == static_cast<std::size_t>(plan_.ranks),
                 "buffer {} says what {} ranks hold; the plan is for {}", buffer.name, buffer.held.size(), plan_.ranks))
      return false;
    if (buffer.is_reduced() && !holds_nothing(buffer)) return false;
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      const std::vector<Region>& held = buffer.held[static_cast<std::size_t>(rank)];
      for (const Region& box : held)
        if (!region_is_good(buffer, box, [&] { return fmt::format("what rank {} holds", rank); })) return false;
      const std::vector<Region> placed = buffer.window.empty()
                                             ? placed_regions(buffer.before, buffer.shape, plan_.ranks, rank)
                                             : std::vector{in_buffer(buffer, rank, shown_region(buffer, rank))};
      const bool nothing = std::all_of(held.begin(), held.end(), [](const Region& box) { return box.empty(); });
      if (!require(
              nothing || held == placed, "rank {} holds {}{} before the operator, but its placement says {}", rank,
              buffer.name, [&] { return in_words(held); }, [&] { return in_words(placed); }))
        return false;
    }
    return true;
  }

  static std::string in_words(const std::vector<Region>& boxes) {
    std::vector<std::string> words;
    for (const Region& box : boxes) words.push_back(box.to_string());
    return fmt::format("{}", fmt::join(words, " and "));
  }

  template <typename Owner>
  bool region_is_good(const Buffer& buffer, const Region& region, Owner&& owner) {
    const auto fits = [&] {
      if (static_cast<std::size_t>(region.dimensions()) != buffer.shape.size()) return false;
      for (int d = 0; d < region.dimensions(); ++d)
        if (region[d].begin < 0 || region[d].end < region[d].begin ||
            region[d].end > buffer.shape[static_cast<std::size_t>(d)])
          return false;
      return true;
    };
    return claim_.check(fits(), [&] {
      return fmt::format("{}: {}{} is not inside the buffer, whose shape is {}", owner(), buffer.name,
                         region.to_string(), to_string(buffer.shape));
    }) && claim_.check(keeps_to_one_fold(buffer, region), [&] {
      return fmt::format("{}: {}{} is in several folds of the buffer", owner(), buffer.name, region.to_string());
    });
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
    const int summed = result_ >= 0 ? result_ : reduced_;
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
          !order_is_good(sum) || (result_ >= 0 && !is_in_order_of_ranks(sum)))
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
    if (reduced_ >= 0 && staging_ >= 0 && transfer.source.buffer == reduced_ && transfer.destination.buffer == staging_)
      return check_summands(rank, transfer, name);
    if (stack_ >= 0 && transfer.destination.buffer == stack_) return check_stacked(rank, transfer, name);
    if (transfer.source.buffer != transfer.destination.buffer) return check_exchange(rank, transfer, name);
    if (!require(transfer.source.buffer != staging_ && (transfer.source.buffer != reduced_ || in_place_ ||
                                                        buffer.after.kind == Placement::Kind::replicate),
                 "{} stays in buffer {}: summands go from the reduced buffer to the staging buffer", name, buffer.name))
      return;
    require(buffer.symmetric, "{} moves {}, which is local: peers cannot reach it", name, buffer.name);
    keeps_places(transfer, name);
  }

  void check_additions(int rank, const RankProgram& program) {
    const std::vector<Addition>& additions = program.additions;
    if (additions.empty() || !require(result_ >= 0, "rank {} adds up parts of no one-shot sum", rank)) return;
    require(program.slots.size() >= static_cast<std::size_t>(plan_.workers),
            "workers of rank {} add, and have no slots", rank);
    for (std::size_t a = 0; a < additions.size(); ++a) {
      const auto name = [&] { return fmt::format("addition {} of rank {}", a, rank); };
      box_is_good(plan_.buffer(result_), additions[a].region, name);
      check_waits(rank, additions[a].waits, name);
    }
  }

  /// From the kernel's buffer of a one-shot sum to the stack of another rank.
  template <typename Owner>
  void check_stacked(int rank, const Transfer& transfer, Owner&& name) {
    reaches(rank, transfer, name);
    const View& from = transfer.source;
    const View& to = transfer.destination;
    require(from.buffer == apart_ && from.rank != to.rank &&
                to.region == in_stack(from.region, plan_.buffer(apart_).shape[0], to.rank, from.rank),
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
                          transfer.destination.buffer != result_;
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
    most_runs_ = std::max({most_runs_, runs_of(transfer.source.region, plan_.buffer(reduced_).shape),
                           runs_of(transfer.destination.region, plan_.buffer(staging_).shape)});
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
      if (reduced_ >= 0)
        check_sums(rank, slot, name);
      else
        require(!takes_part_in_sums(slot), "{} takes part in a sum, and nothing is reduced", name);
      check_raises(slot.signals, name);
      require(leaves_ || slot.signals.empty(), "{} raises signals, and no output leaves its rank", name);
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
    const Buffer& reduced = plan_.buffer(reduced_);
    check_waits(rank, slot.sum_waits, name);
    if (slot.kept.dimensions() > 0) box_is_good(reduced, slot.kept, name);
    require(slot.own_place >= 0 && static_cast<std::size_t>(slot.own_place) <= slot.addends.size(),
            "{} adds its own value at place {} of {} addends", name, slot.own_place, slot.addends.size());
    if (in_place_) return check_in_place(slot, name);
    if (slot.addends.empty() || !require(staging_ >= 0, "{} adds summands, and no buffer receives any", name)) return;
    for (const Addend& addend : slot.addends) {
      if (box_is_good(reduced, addend.target, name) && box_is_good(plan_.buffer(staging_), addend.source, name))
        require(equal_extents(addend.target, addend.source), "{} adds {} to {}, a box of another size", name,
                addend.source, addend.target);
    }
  }

  /// What a slot adds in place is all that it stores, each element once, or nothing.
  template <typename Owner>
  void check_in_place(const Slot& slot, Owner&& name) {
    const Buffer& reduced = plan_.buffer(reduced_);
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
      if (write.buffer == reduced_)
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

  const Plan& plan_;
  Claim claim_{
      "form",
      "every index is in range, every region inside its buffer, transfers move equal regions of one symmetric "
      "buffer, or of one tensor between the kernel's buffer and the caller's, or of the reduced buffer to where its "
      "summands land, from or to the rank of their queue, every rank has every tile once, or cut, every slot walks "
      "each piece "
      "of its tile once, every sum has an order that names each rank once, every signal has a place "
      "of its own and every wait is on a signal of the waiter's rank."};
  std::vector<int> with_index_;  ///< per tile: the number of its index
  std::size_t indices_ = 0;
  int reduced_ = -1;
  int staging_ = -1;
  int stack_ = -1;   ///< of other ranks' summands of the one-shot sum
  int apart_ = -1;   ///< the kernel's buffer of it
  int result_ = -1;  ///< its result
  bool in_place_ = false;
  bool leaves_ = false;  ///< outputs leave tile by tile
  std::int64_t transfers_ = 0;
  std::int64_t waits_ = 0;
  std::int64_t most_runs_ = 0;
};

}  // namespace

Theorem prove_form(const Plan& plan) { return FormCheck(plan).run(); }

}  // namespace syncopate
