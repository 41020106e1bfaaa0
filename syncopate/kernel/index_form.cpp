#include "syncopate/kernel/index_form.h"

#include <algorithm>
#include <limits>

#include "syncopate/core/error.h"

namespace syncopate {
namespace {

/// A period that no block reaches: the bend steps once.
constexpr std::int64_t kOnce = std::int64_t{1} << 40;

std::size_t at_index(int dimension) { return static_cast<std::size_t>(dimension); }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return -floor_divide(-a, b); }

/// A straight line as a bend, so that two dimensions can be added term by term.
Bend straight_bend(std::int64_t slope, const Bend& like) { return {slope, 0, like.split, like.period}; }

/// The two bends as one; nothing if they bend at different lanes.
std::optional<Bend> add_bends(const Bend& a, const Bend& b) {
  if (a.split != b.split) return std::nullopt;
  if (a.jump != 0 && b.jump != 0 && a.period != b.period) return std::nullopt;
  return Bend{a.tail + b.tail, a.jump + b.jump, a.split, a.jump != 0 ? a.period : b.period};
}

/// The dimension along which the form varies; -1 if none does; nothing if several do.
std::optional<int> only_dimension(const IndexForm& form) {
  int only = -1;
  for (int d = 0; d < form.shape.rank; ++d) {
    if (form.constant_along(d)) continue;
    if (only >= 0) return std::nullopt;
    only = d;
  }
  return only;
}

/// The one dimension in which the mask leaves lanes out; nothing if there are several or none.
std::optional<int> masked_dimension(const LaneMask& mask) {
  std::optional<int> only;
  for (int d = 0; d < mask.shape.rank; ++d) {
    if (mask.begin[at_index(d)] == 0 && mask.end[at_index(d)] == mask.shape[d]) continue;
    if (only) return std::nullopt;
    only = d;
  }
  return only;
}

/// Lanes of a straight line, base + slope * lane <= 0, as [begin, end) within [0, extent).
std::pair<std::int64_t, std::int64_t> lanes_not_above_zero(std::int64_t base, std::int64_t slope, std::int64_t extent) {
  if (slope == 0) return base <= 0 ? std::pair{std::int64_t{0}, extent} : std::pair<std::int64_t, std::int64_t>{0, 0};
  if (slope > 0) return {0, std::clamp<std::int64_t>(floor_divide(-base, slope) + 1, 0, extent)};
  return {std::clamp<std::int64_t>(ceil_divide(base, -slope), 0, extent), extent};
}

bool holds(std::int64_t value, CompareOperation comparison) {
  switch (comparison) {
    case CompareOperation::less:
      return value < 0;
    case CompareOperation::less_equal:
      return value <= 0;
    case CompareOperation::greater:
      return value > 0;
    case CompareOperation::greater_equal:
      return value >= 0;
    case CompareOperation::equal:
      return value == 0;
    case CompareOperation::not_equal:
      return value != 0;
  }
  return false;
}

/// Whether the condition holds everywhere (true) or nowhere (false) by the bounds alone.
std::optional<bool> decided(const Bounds& range, CompareOperation comparison) {
  switch (comparison) {
    case CompareOperation::less:
      if (range.largest < 0) return true;
      if (range.smallest >= 0) return false;
      break;
    case CompareOperation::less_equal:
      if (range.largest <= 0) return true;
      if (range.smallest > 0) return false;
      break;
    case CompareOperation::greater:
      if (range.smallest > 0) return true;
      if (range.largest <= 0) return false;
      break;
    case CompareOperation::greater_equal:
      if (range.smallest >= 0) return true;
      if (range.largest < 0) return false;
      break;
    case CompareOperation::equal:
      if (range.smallest == 0 && range.largest == 0) return true;
      if (range.smallest > 0 || range.largest < 0) return false;
      break;
    case CompareOperation::not_equal:
      if (range.smallest > 0 || range.largest < 0) return true;
      if (range.smallest == 0 && range.largest == 0) return false;
      break;
  }
  return std::nullopt;
}

/// The lanes of one dimension where the condition holds, found lane by lane; nothing if they are not consecutive.
std::optional<std::pair<std::int64_t, std::int64_t>> search_lanes(const IndexForm& form, int dimension,
                                                                  CompareOperation comparison, std::int64_t limit) {
  std::int64_t begin = 0, end = 0;
  for (std::int64_t lane = 0; lane < form.shape[dimension]; ++lane) {
    if (!holds(form.base + form.at(dimension, lane) - limit, comparison)) continue;
    if (begin == end) begin = end = lane;
    if (lane != end) return std::nullopt;
    end = lane + 1;
  }
  return std::pair{begin, end};
}

LaneMask mask_of(const LaneShape& shape, int dimension, std::int64_t begin, std::int64_t end) {
  LaneMask mask = LaneMask::all(shape);
  mask.begin[at_index(dimension)] = static_cast<std::int32_t>(begin);
  mask.end[at_index(dimension)] = static_cast<std::int32_t>(end);
  return mask;
}

}  // namespace

std::optional<LaneShape> broadcast_unequal(const LaneShape& a, const LaneShape& b) {
  LaneShape result;
  result.rank = std::max(a.rank, b.rank);
  for (int d = 0; d < result.rank; ++d) {
    const int da = d - (result.rank - a.rank), db = d - (result.rank - b.rank);
    const std::int32_t ea = da < 0 ? 1 : a[da], eb = db < 0 ? 1 : b[db];
    if (ea != eb && ea != 1 && eb != 1) return std::nullopt;
    result[d] = ea == 1 ? eb : ea;
  }
  return result;
}

IndexForm IndexForm::arange(std::int64_t begin, std::int64_t end) {
  IndexForm form(begin);
  form.shape.rank = 1;
  form.shape[0] = static_cast<std::int32_t>(end - begin);
  form.slope[0] = 1;
  return form;
}

void IndexForm::set_bend(int dimension, const Bend& bend) {
  const bool no_bend = bend.split >= shape[dimension] || (bend.tail == slope[at_index(dimension)] && bend.jump == 0);
  if (no_bend) return straighten(dimension);
  bent_ |= static_cast<std::uint8_t>(1U << dimension);
  bends_[at_index(dimension)] = bend;
}

bool IndexForm::constant() const {
  for (int d = 0; d < shape.rank; ++d)
    if (!constant_along(d)) return false;
  return true;
}

std::int64_t IndexForm::at(int dimension, std::int64_t lane) const {
  const std::int64_t head = slope[at_index(dimension)];
  if (!bent(dimension) || lane < bend(dimension).split) return head * lane;
  const Bend& b = bend(dimension);
  const std::int64_t beyond = lane - b.split;
  return head * b.split + b.tail * beyond + b.jump * (1 + beyond / b.period);
}

Piece piece_at(const IndexForm& form, int dimension, std::int64_t begin, std::int64_t end) {
  const std::int64_t head = form.slope[at_index(dimension)];
  if (!form.bent(dimension)) return {begin, end, head * begin, head};
  const Bend& bend = form.bend(dimension);
  if (begin < bend.split) return {begin, std::min(end, bend.split), head * begin, head};
  const std::int64_t next = bend.split + ((begin - bend.split) / bend.period + 1) * bend.period;
  const std::int64_t piece_end = bend.jump == 0 ? end : std::min(end, next);
  return {begin, piece_end, form.at(dimension, begin), bend.tail};
}

Bounds bounds(const IndexForm& form) {
  Bounds result{form.base, form.base};
  for (int d = 0; d < form.shape.rank; ++d) {
    const std::int64_t extent = form.shape[d];
    if (!form.bent(d)) {
      const std::int64_t last = form.slope[at_index(d)] * (extent - 1);
      (last < 0 ? result.smallest : result.largest) += last;
      continue;
    }
    std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
    std::int64_t largest = std::numeric_limits<std::int64_t>::min();
    for (std::int64_t lane = 0; lane < extent;) {
      const Piece piece = piece_at(form, d, lane, extent);
      const std::int64_t last = piece.offset + piece.slope * (piece.end - piece.begin - 1);
      smallest = std::min({smallest, piece.offset, last});
      largest = std::max({largest, piece.offset, last});
      lane = piece.end;
    }
    result.smallest += smallest;
    result.largest += largest;
  }
  return result;
}

std::optional<IndexForm> add(const IndexForm& a, const IndexForm& b) {
  IndexForm result;
  return add(a, b, result) ? std::optional(result) : std::nullopt;
}

bool add(const IndexForm& a, const IndexForm& b, IndexForm& result) {
  if (b.shape.rank == 0) {
    result = a;
    result.base += b.base;
    return true;
  }
  const auto shape = broadcast(a.shape, b.shape);
  if (!shape) return false;
  result.base = a.base + b.base;
  result.shape = *shape;
  const int added_a = shape->rank - a.shape.rank, added_b = shape->rank - b.shape.rank;
  const bool straight = !a.bent() && !b.bent();
  for (int d = 0; d < shape->rank; ++d) {
    const int da = d - added_a, db = d - added_b;
    const std::int64_t sa = da < 0 ? 0 : a.slope[at_index(da)], sb = db < 0 ? 0 : b.slope[at_index(db)];
    result.slope[at_index(d)] = sa + sb;
    if (straight) continue;
    const bool a_bent = da >= 0 && a.bent(da), b_bent = db >= 0 && b.bent(db);
    if (!a_bent && !b_bent) continue;
    const Bend bend_a = a_bent ? a.bend(da) : straight_bend(sa, b.bend(db));
    const Bend bend_b = b_bent ? b.bend(db) : straight_bend(sb, bend_a);
    const auto sum = add_bends(bend_a, bend_b);
    if (!sum) return false;
    result.set_bend(d, *sum);
  }
  return true;
}

IndexForm scale(const IndexForm& form, std::int64_t factor) {
  IndexForm result = form;
  result.base *= factor;
  for (int d = 0; d < form.shape.rank; ++d) {
    result.slope[at_index(d)] *= factor;
    if (!form.bent(d)) continue;
    Bend bend = form.bend(d);
    bend.tail *= factor;
    bend.jump *= factor;
    result.set_bend(d, bend);
  }
  return result;
}

std::optional<IndexForm> divide(const IndexForm& form, std::int64_t divisor) {
  const Bounds range = bounds(form);
  if (divisor <= 0 || range.smallest < 0) return std::nullopt;
  // What is a multiple of the divisor comes out of the division; the rest decides where it steps.
  IndexForm quotient(form.base / divisor), rest(form.base % divisor);
  quotient.shape = rest.shape = form.shape;
  for (int d = 0; d < form.shape.rank; ++d) {
    const std::int64_t slope = form.slope[at_index(d)];
    bool multiple = slope % divisor == 0;
    if (form.bent(d)) multiple = multiple && form.bend(d).tail % divisor == 0 && form.bend(d).jump % divisor == 0;
    IndexForm& target = multiple ? quotient : rest;
    target.slope[at_index(d)] = multiple ? slope / divisor : slope;
    if (!form.bent(d)) continue;
    Bend bend = form.bend(d);
    if (multiple) bend.tail /= divisor, bend.jump /= divisor;
    target.set_bend(d, bend);
  }
  const Bounds rest_range = bounds(rest);
  if (const std::int64_t steps = floor_divide(rest_range.smallest, divisor);
      steps == floor_divide(rest_range.largest, divisor)) {
    quotient.base += steps;
    return quotient;
  }
  const auto dimension = only_dimension(rest);
  if (!dimension || rest.bent(*dimension)) return std::nullopt;
  const std::int64_t slope = rest.slope[at_index(*dimension)];
  if (slope <= 0) return std::nullopt;
  // Steps come at the lanes where rest + slope * lane reaches a multiple of the divisor: they are evenly spaced if
  // the slope divides the divisor, or if there is only one of them.
  const bool even = divisor % slope == 0;
  if (!even && rest_range.largest >= 2 * divisor) return std::nullopt;
  quotient.set_bend(*dimension, Bend{0, 1, ceil_divide(divisor - rest.base, slope), even ? divisor / slope : kOnce});
  return quotient;
}

std::optional<IndexForm> remainder(const IndexForm& form, std::int64_t divisor) {
  const auto quotient = divide(form, divisor);
  return quotient ? add(form, scale(*quotient, -divisor)) : std::nullopt;
}

LaneMask LaneMask::all(const LaneShape& shape) {
  LaneMask mask;
  mask.shape = shape;
  mask.end = shape.extent;
  return mask;
}

LaneMask LaneMask::none(const LaneShape& shape) {
  LaneMask mask;
  mask.shape = shape;
  // A scalar has no lane dimension to be empty in: give it one.
  if (shape.rank == 0) mask.end[0] = -1;
  return mask;
}

bool LaneMask::empty() const {
  if (shape.rank == 0) return end[0] < 0;
  for (int d = 0; d < shape.rank; ++d)
    if (end[at_index(d)] <= begin[at_index(d)]) return true;
  return false;
}

bool LaneMask::full() const {
  if (empty()) return false;
  for (int d = 0; d < shape.rank; ++d)
    if (begin[at_index(d)] != 0 || end[at_index(d)] != shape[d]) return false;
  return true;
}

std::optional<LaneMask> compare(const IndexForm& form, CompareOperation comparison, std::int64_t limit) {
  Bounds range = bounds(form);
  range.smallest -= limit;
  range.largest -= limit;
  if (const auto known = decided(range, comparison))
    return *known ? LaneMask::all(form.shape) : LaneMask::none(form.shape);
  const auto dimension = only_dimension(form);
  if (!dimension || *dimension < 0) return std::nullopt;
  const int d = *dimension;
  if (comparison == CompareOperation::not_equal) {
    const auto equal = compare(form, CompareOperation::equal, limit);
    return equal ? negation(*equal) : std::nullopt;
  }
  const std::int64_t base = form.base - limit, slope = form.slope[at_index(d)], extent = form.shape[d];
  std::pair<std::int64_t, std::int64_t> lanes;
  if (form.bent(d) || comparison == CompareOperation::equal) {
    const auto found = search_lanes(form, d, comparison, limit);
    if (!found) return std::nullopt;
    lanes = *found;
  } else if (comparison == CompareOperation::less || comparison == CompareOperation::less_equal) {
    lanes = lanes_not_above_zero(base + (comparison == CompareOperation::less ? 1 : 0), slope, extent);
  } else {
    lanes = lanes_not_above_zero(-base + (comparison == CompareOperation::greater ? 1 : 0), -slope, extent);
  }
  return mask_of(form.shape, d, lanes.first, lanes.second);
}

std::optional<LaneMask> both(const LaneMask& a, const LaneMask& b) {
  const auto shape = broadcast(a.shape, b.shape);
  if (!shape) return std::nullopt;
  if (a.empty() || b.empty()) return LaneMask::none(*shape);
  LaneMask result = broadcast_to(a, *shape);
  // Where b was broadcast it leaves all lanes.
  const int added = shape->rank - b.shape.rank;
  for (int d = added; d < shape->rank; ++d) {
    const int old = d - added;
    if (b.shape[old] != (*shape)[d]) continue;
    result.begin[at_index(d)] = std::max(result.begin[at_index(d)], b.begin[at_index(old)]);
    result.end[at_index(d)] = std::min(result.end[at_index(d)], b.end[at_index(old)]);
  }
  return result;
}

std::optional<LaneMask> either(const LaneMask& a, const LaneMask& b) {
  const auto shape = broadcast(a.shape, b.shape);
  if (!shape) return std::nullopt;
  LaneMask x = broadcast_to(a, *shape);
  const LaneMask y = broadcast_to(b, *shape);
  if (x.empty() || y.full()) return y;
  if (y.empty() || x.full()) return x;
  // The union is a box if the two differ in one dimension at most, and touch there.
  int different = -1;
  for (int d = 0; d < shape->rank; ++d) {
    if (x.begin[at_index(d)] == y.begin[at_index(d)] && x.end[at_index(d)] == y.end[at_index(d)]) continue;
    if (different >= 0) return std::nullopt;
    different = d;
  }
  if (different < 0) return x;
  const std::size_t d = at_index(different);
  if (y.begin[d] > x.end[d] || x.begin[d] > y.end[d]) return std::nullopt;
  x.begin[d] = std::min(x.begin[d], y.begin[d]);
  x.end[d] = std::max(x.end[d], y.end[d]);
  return x;
}

std::optional<LaneMask> negation(const LaneMask& mask) {
  if (mask.empty()) return LaneMask::all(mask.shape);
  if (mask.full()) return LaneMask::none(mask.shape);
  const auto dimension = masked_dimension(mask);
  if (!dimension) return std::nullopt;
  const std::size_t d = at_index(*dimension);
  if (mask.begin[d] == 0) return mask_of(mask.shape, *dimension, mask.end[d], mask.shape[*dimension]);
  if (mask.end[d] == mask.shape[*dimension]) return mask_of(mask.shape, *dimension, 0, mask.begin[d]);
  return std::nullopt;
}

std::optional<IndexForm> select(const LaneMask& mask, const IndexForm& form, const IndexForm& other) {
  auto shape = broadcast(form.shape, other.shape);
  if (shape) shape = broadcast(*shape, mask.shape);
  if (!shape) return std::nullopt;
  if (mask.full()) return broadcast_to(form, *shape);
  if (mask.empty()) return broadcast_to(other, *shape);
  const LaneMask wide = broadcast_to(mask, *shape);
  const auto dimension = masked_dimension(wide);
  if (!dimension) return std::nullopt;
  const int d = *dimension;
  // The first lanes take one form and the rest the other; the two may differ along this dimension only.
  const bool first_is_form = wide.begin[at_index(d)] == 0;
  if (!first_is_form && wide.end[at_index(d)] != wide.shape[d]) return std::nullopt;
  const std::int64_t split = first_is_form ? wide.end[at_index(d)] : wide.begin[at_index(d)];
  const IndexForm head = broadcast_to(first_is_form ? form : other, *shape);
  const IndexForm tail = broadcast_to(first_is_form ? other : form, *shape);
  if (head.bent(d) || tail.bent(d)) return std::nullopt;
  const auto difference = add(tail, scale(head, -1));
  if (!difference) return std::nullopt;
  for (int other_dimension = 0; other_dimension < shape->rank; ++other_dimension)
    if (other_dimension != d && !difference->constant_along(other_dimension)) return std::nullopt;
  IndexForm result = head;
  const std::int64_t jump = difference->base + difference->slope[at_index(d)] * split;
  result.set_bend(d, Bend{tail.slope[at_index(d)], jump, split, kOnce});
  return result;
}

IndexForm broadcast_to(const IndexForm& form, const LaneShape& shape) {
  if (form.shape == shape) return form;
  IndexForm result(form.base);
  result.shape = shape;
  const int added = shape.rank - form.shape.rank;
  for (int d = added; d < shape.rank; ++d) {
    const int old = d - added;
    if (form.shape[old] != shape[d]) continue;  // extent 1: the same value in every lane
    result.slope[at_index(d)] = form.slope[at_index(old)];
    if (form.bent(old)) result.set_bend(d, form.bend(old));
  }
  return result;
}

LaneMask broadcast_to(const LaneMask& mask, const LaneShape& shape) {
  if (mask.shape == shape) return mask;
  if (mask.empty()) return LaneMask::none(shape);
  LaneMask result = LaneMask::all(shape);
  const int added = shape.rank - mask.shape.rank;
  for (int d = added; d < shape.rank; ++d) {
    const int old = d - added;
    if (mask.shape[old] != shape[d]) continue;
    result.begin[at_index(d)] = mask.begin[at_index(old)];
    result.end[at_index(d)] = mask.end[at_index(old)];
  }
  return result;
}

LaneShape rearrange(const LaneShape& shape, std::span<const int> source) {
  check_internal(source.size() <= kMaxLaneDimensions, "block of too many dimensions");
  LaneShape result;
  result.rank = static_cast<std::int32_t>(source.size());
  for (std::size_t d = 0; d < source.size(); ++d) result.extent[d] = source[d] < 0 ? 1 : shape[source[d]];
  return result;
}

void rearrange(const IndexForm& form, std::span<const int> source, IndexForm& fresh_result) {
  fresh_result.base = form.base;
  fresh_result.shape = rearrange(form.shape, source);
  for (int d = 0; d < fresh_result.shape.rank; ++d) {
    const int old = source[at_index(d)];
    if (old < 0) continue;
    fresh_result.slope[at_index(d)] = form.slope[at_index(old)];
    if (form.bent(old)) fresh_result.set_bend(d, form.bend(old));
  }
}

void insert_dimension(const IndexForm& form, int position, IndexForm& fresh_result) {
  fresh_result.base = form.base;
  fresh_result.shape.rank = form.shape.rank + 1;
  fresh_result.shape[position] = 1;
  for (int old = 0; old < form.shape.rank; ++old) {
    const int d = old < position ? old : old + 1;
    fresh_result.shape[d] = form.shape[old];
    fresh_result.slope[at_index(d)] = form.slope[at_index(old)];
    if (form.bent(old)) fresh_result.set_bend(d, form.bend(old));
  }
}

LaneMask rearrange(const LaneMask& mask, std::span<const int> source) {
  LaneMask result = LaneMask::all(rearrange(mask.shape, source));
  if (mask.empty()) return LaneMask::none(result.shape);
  for (int d = 0; d < result.shape.rank; ++d) {
    const int old = source[at_index(d)];
    if (old < 0) continue;
    result.begin[at_index(d)] = mask.begin[at_index(old)];
    result.end[at_index(d)] = mask.end[at_index(old)];
  }
  return result;
}

std::optional<IndexForm> reshape(const IndexForm& form, const LaneShape& shape) {
  // Each old dimension must be a product of consecutive new ones, or the same but for extents of 1.
  IndexForm result(form.base);
  result.shape = shape;
  int d = shape.rank - 1;
  for (int old = form.shape.rank - 1; old >= 0; --old) {
    std::int64_t covered = 1;
    const std::int64_t slope = form.slope[at_index(old)];
    while (covered < form.shape[old]) {
      if (d < 0) return std::nullopt;
      if (shape[d] > 1 && form.bent(old)) {
        if (shape[d] != form.shape[old]) return std::nullopt;
        result.slope[at_index(d)] = slope;
        result.set_bend(d, form.bend(old));
      } else {
        result.slope[at_index(d)] = slope * covered;
      }
      covered *= shape[d];
      --d;
    }
    if (covered != form.shape[old]) return std::nullopt;
  }
  for (; d >= 0; --d)
    if (shape[d] != 1) return std::nullopt;
  return result;
}

}  // namespace syncopate
