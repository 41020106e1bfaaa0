#include "syncopate/verify/form_buffers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "syncopate/core/text.h"
#include "syncopate/verify/form_part.h"
#include "syncopate/verify/placed.h"

namespace syncopate {

namespace {

/// Far from the limits of 64 bits, so that regions may be moved by it.
constexpr std::int64_t kFarthest = std::int64_t{1} << 60;

class BufferCheck : FormPart {
 public:
  BufferCheck(const Plan& plan, Claim& claim) : FormPart(plan, claim) {}

  bool run() {
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      if (!shape_is_good(buffer) || !stack_is_good(buffer) || !fold_is_good(buffer) || !window_is_good(buffer) ||
          !held_is_good(buffer))
        return false;
      if (buffer.is_reduced() && !is_the_only(facts_.reduced, static_cast<int>(b), "reduced")) return false;
      if (buffer.role == BufferRole::staging && !is_the_only(facts_.staging, static_cast<int>(b), "staging"))
        return false;
      if (buffer.role == BufferRole::summands && !is_the_only(facts_.stack, static_cast<int>(b), "summands"))
        return false;
      if (buffer.summed_apart && !is_the_only(facts_.apart, static_cast<int>(b), "one-shot")) return false;
      facts_.leaves = facts_.leaves || buffer.is_reduced() || buffer.role == BufferRole::result || buffer.fold;
    }
    std::set<int> exchanged;
    for (const Buffer& buffer : plan_.buffers) {
      const bool callers = buffer.role == BufferRole::source || buffer.role == BufferRole::result;
      if (callers && (!exchange_is_good(buffer) ||
                      !require(exchanged.insert(buffer.partner).second, "two buffers are on the caller's side of {}",
                               plan_.buffer(buffer.partner).name)))
        return false;
    }
    return (facts_.staging < 0 || staging_is_good(plan_.buffer(facts_.staging))) && in_place_is_good() &&
           folds_have_sources() && one_shot_is_good();
  }

  const BufferFacts& facts() const { return facts_; }

 private:
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
    if (facts_.stack < 0 && facts_.apart < 0) return true;
    if (!require(facts_.stack >= 0 && facts_.apart >= 0 && facts_.reduced < 0 &&
                     plan_.buffer(facts_.stack).partner == facts_.apart,
                 "summands of a one-shot sum, other ranks' summands of one and reduced buffers do not fit together"))
      return false;
    const Buffer& summed = plan_.buffer(facts_.apart);
    const Buffer& stack = plan_.buffer(facts_.stack);
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b)
      if (plan_.buffers[b].role == BufferRole::result && plan_.buffers[b].partner == facts_.apart)
        facts_.result = static_cast<int>(b);
    Shape shape = summed.shape;
    if (!require(!shape.empty() && plan_.ranks > 1, "a one-shot sum of scalars, or on one rank") ||
        !require(plan_.lookahead == 0, "a one-shot sum where workers choose among slots"))
      return false;
    shape[0] *= plan_.ranks - 1;
    return require(facts_.result >= 0 && summed.role == BufferRole::kernel &&
                       summed.inside == Placement::partial_sum() && summed.after == Placement::replicate() &&
                       plan_.buffer(facts_.result).shape == summed.shape,
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
          (!require(buffer.is_reduced() && facts_.staging < 0,
                    "buffer {} has sums in place, and is not reduced, or has a staging buffer, too", buffer.name) ||
           !require(buffer.dtype == Dtype::bf16 || buffer.dtype == Dtype::fp16 || buffer.dtype == Dtype::fp32,
                    "buffer {} has sums in place, and memory does not add {}", buffer.name, name_of(buffer.dtype))))
        return false;
    facts_.in_place = facts_.reduced >= 0 && plan_.buffer(facts_.reduced).sums_in_place;
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
    return require(facts_.reduced >= 0 && staging.partner == facts_.reduced,
                   "buffer {} is to receive summands of buffer number {}, which is not reduced", staging.name,
                   staging.partner) &&
           require(staging.dtype == plan_.buffer(facts_.reduced).dtype,
                   "buffer {} has {} elements and receives summands of {}, which has {}", staging.name,
                   name_of(staging.dtype), plan_.buffer(facts_.reduced).name,
                   name_of(plan_.buffer(facts_.reduced).dtype)) &&
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

  BufferFacts facts_;
};

}  // namespace

std::optional<BufferFacts> check_buffers(const Plan& plan, Claim& claim) {
  BufferCheck check(plan, claim);
  if (!check.run()) return std::nullopt;
  return check.facts();
}

}  // namespace syncopate
