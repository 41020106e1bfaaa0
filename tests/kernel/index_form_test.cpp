// Forms of lane numbers, masks, boxes of offsets and partitions against brute force over every lane and element.
#include "syncopate/kernel/index_form.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>

#include "syncopate/kernel/footprint_access.h"
#include "syncopate/kernel/footprint_cover.h"

namespace syncopate {
namespace {

using Lanes = std::array<std::int64_t, kMaxLaneDimensions>;

std::size_t at_index(int index) { return static_cast<std::size_t>(index); }

void for_each_lane(const LaneShape& shape, const std::function<void(const Lanes&)>& visit) {
  std::int64_t count = 1;
  for (int d = 0; d < shape.rank; ++d) count *= shape[d];
  for (std::int64_t i = 0; i < count; ++i) {
    Lanes lanes{};
    std::int64_t rest = i;
    for (int d = shape.rank - 1; d >= 0; --d) {
      lanes[at_index(d)] = rest % shape[d];
      rest /= shape[d];
    }
    visit(lanes);
  }
}

std::int64_t value_at(const IndexForm& form, const Lanes& lanes) {
  std::int64_t value = form.base;
  for (int d = 0; d < form.shape.rank; ++d) value += form.at(d, lanes[at_index(d)]);
  return value;
}

/// The lanes of an operand whose shape was broadcast to `shape`.
Lanes lanes_of(const LaneShape& operand, const LaneShape& shape, const Lanes& lanes) {
  Lanes result{};
  for (int d = 0; d < operand.rank; ++d)
    result[at_index(d)] = operand[d] == 1 ? 0 : lanes[at_index(d + shape.rank - operand.rank)];
  return result;
}

bool holds_at(const LaneMask& mask, const Lanes& lanes) {
  if (mask.empty()) return false;
  for (int d = 0; d < mask.shape.rank; ++d)
    if (lanes[at_index(d)] < mask.begin[at_index(d)] || lanes[at_index(d)] >= mask.end[at_index(d)]) return false;
  return true;
}

class Random {
 public:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<unsigned>(high - low + 1));
  }
  bool coin() { return between(0, 1) == 1; }

  /// A block of one dimension, perhaps bent.
  IndexForm line() {
    IndexForm form = IndexForm::arange(between(0, 5), between(6, 20));
    const std::int64_t choice = between(0, 4);
    if (choice == 1) form = remainder(form, between(1, 12)).value_or(form);
    if (choice == 2) form = divide(form, between(1, 6)).value_or(form);
    form = scale(form, between(-2, 4));
    form.base += between(-10, 30);
    return form;
  }

  IndexForm plane() {
    IndexForm rows, columns;
    rearrange(line(), std::array{0, -1}, rows);
    rearrange(line(), std::array{-1, 0}, columns);
    return *add(rows, columns);
  }

 private:
  std::mt19937 engine_{20};
};

TEST(IndexForm, BoundsAndPiecesCoverEveryLane) {
  Random random;
  for (int i = 0; i < 2000; ++i) {
    const IndexForm form = random.coin() ? random.line() : random.plane();
    std::int64_t smallest = INT64_MAX, largest = INT64_MIN;
    for_each_lane(form.shape, [&](const Lanes& lanes) {
      smallest = std::min(smallest, value_at(form, lanes));
      largest = std::max(largest, value_at(form, lanes));
    });
    EXPECT_EQ(bounds(form).smallest, smallest);
    EXPECT_EQ(bounds(form).largest, largest);
    for (std::int64_t lane = 0; lane < form.shape[0];) {
      const Piece piece = piece_at(form, 0, lane, form.shape[0]);
      ASSERT_EQ(piece.begin, lane);
      ASSERT_GT(piece.end, lane);
      for (; lane < piece.end; ++lane) EXPECT_EQ(piece.offset + piece.slope * (lane - piece.begin), form.at(0, lane));
    }
  }
}

TEST(IndexForm, ArithmeticIsExactInEveryLane) {
  Random random;
  int sums = 0, quotients = 0, remainders = 0;
  constexpr int kRounds = 3000;
  for (int i = 0; i < kRounds; ++i) {
    const IndexForm a = random.coin() ? random.line() : random.plane();
    IndexForm b = random.coin() ? IndexForm(random.between(-5, 5)) : random.line();
    if (b.shape.rank == 1) b.shape[0] = a.shape[a.shape.rank - 1];
    const std::int64_t divisor = random.between(1, 40);
    if (const auto sum = add(a, b)) {
      ++sums;
      for_each_lane(sum->shape, [&](const Lanes& lanes) {
        EXPECT_EQ(value_at(*sum, lanes), value_at(a, lanes) + value_at(b, lanes_of(b.shape, sum->shape, lanes)));
      });
    }
    const auto quotient = divide(a, divisor);
    const auto rest = remainder(a, divisor);
    EXPECT_EQ(quotient.has_value(), rest.has_value());
    quotients += quotient.has_value();
    remainders += rest.has_value();
    for_each_lane(a.shape, [&](const Lanes& lanes) {
      if (quotient) {
        EXPECT_EQ(value_at(*quotient, lanes), value_at(a, lanes) / divisor);
      }
      if (rest) {
        EXPECT_EQ(value_at(*rest, lanes), value_at(a, lanes) % divisor);
      }
    });
  }
  // The forms that cannot be expressed are the exception in sums; quotients need values that are not negative.
  EXPECT_GT(sums, kRounds * 8 / 10);
  EXPECT_GT(quotients, kRounds / 4);
  EXPECT_GT(remainders, kRounds / 4);
}

TEST(IndexForm, QuotientAndRemainderOfArangeAlwaysExistAndFitTogether) {
  for (std::int64_t begin = 0; begin < 12; ++begin)
    for (std::int64_t divisor = 1; divisor < 20; ++divisor) {
      const IndexForm lanes = IndexForm::arange(begin, begin + 16);
      const auto quotient = divide(lanes, divisor);
      const auto rest = remainder(lanes, divisor);
      ASSERT_TRUE(quotient && rest);
      const auto whole = add(scale(*quotient, divisor), *rest);
      ASSERT_TRUE(whole);
      EXPECT_FALSE(whole->bent());
      EXPECT_EQ(whole->base, begin);
      EXPECT_EQ(whole->slope[0], 1);
    }
}

TEST(IndexForm, NegativeValuesHaveNoQuotient) {
  EXPECT_FALSE(divide(IndexForm::arange(-1, 7), 4));
  EXPECT_FALSE(divide(IndexForm::arange(0, 8), 0));
  EXPECT_FALSE(remainder(IndexForm::arange(0, 8), -4));
}

TEST(IndexForm, ChangesOfShape) {
  Random random;
  for (int i = 0; i < 500; ++i) {
    const IndexForm form = random.plane();
    IndexForm moved;
    rearrange(form, std::array{-1, 1, 0}, moved);
    for_each_lane(moved.shape,
                  [&](const Lanes& lanes) { EXPECT_EQ(value_at(moved, lanes), value_at(form, {lanes[2], lanes[1]})); });
    for (int position = 0; position <= 2; ++position) {
      IndexForm inserted, rearranged;
      std::vector<int> source{0, 1};
      source.insert(source.begin() + position, -1);
      insert_dimension(form, position, inserted);
      rearrange(form, source, rearranged);
      ASSERT_EQ(inserted.shape, rearranged.shape);
      for_each_lane(inserted.shape,
                    [&](const Lanes& lanes) { EXPECT_EQ(value_at(inserted, lanes), value_at(rearranged, lanes)); });
    }
    LaneShape wide = form.shape;
    wide.rank = 3;
    wide.extent = {3, form.shape[0], form.shape[1], 0, 0};
    const IndexForm repeated = broadcast_to(form, wide);
    for_each_lane(
        wide, [&](const Lanes& lanes) { EXPECT_EQ(value_at(repeated, lanes), value_at(form, {lanes[1], lanes[2]})); });
  }
  LaneShape target;
  target.rank = 3;
  target.extent = {2, 3, 4, 0, 0};
  const auto cut = reshape(IndexForm::arange(5, 29), target);
  ASSERT_TRUE(cut);
  for_each_lane(target, [&](const Lanes& lanes) {
    EXPECT_EQ(value_at(*cut, lanes), 5 + lanes[0] * 12 + lanes[1] * 4 + lanes[2]);
  });
  target.extent = {2, 5, 4, 0, 0};
  EXPECT_FALSE(reshape(IndexForm::arange(5, 29), target));
}

TEST(LaneMask, ComparisonsAreExactOrRefused) {
  Random random;
  constexpr std::array kComparisons = {CompareOperation::less,    CompareOperation::less_equal,
                                       CompareOperation::greater, CompareOperation::greater_equal,
                                       CompareOperation::equal,   CompareOperation::not_equal};
  int known = 0;
  constexpr int kRounds = 6000;
  for (int i = 0; i < kRounds; ++i) {
    const IndexForm form = i % 4 != 0 ? random.line() : random.plane();
    const auto comparison = kComparisons[static_cast<std::size_t>(random.between(0, 5))];
    const std::int64_t limit = random.between(-3, 12);
    const auto mask = compare(form, comparison, limit);
    known += mask.has_value();
    if (!mask) continue;
    for_each_lane(form.shape, [&](const Lanes& lanes) {
      const std::int64_t value = value_at(form, lanes) - limit;
      const std::array truths = {value < 0, value <= 0, value > 0, value >= 0, value == 0, value != 0};
      EXPECT_EQ(holds_at(*mask, lanes), truths[static_cast<std::size_t>(comparison)]);
    });
  }
  EXPECT_GT(known, kRounds * 8 / 10);
}

LaneMask random_mask(Random& random, const LaneShape& shape) {
  LaneMask mask = LaneMask::all(shape);
  for (int d = 0; d < shape.rank; ++d) {
    if (random.coin()) continue;
    mask.begin[at_index(d)] = static_cast<std::int32_t>(random.coin() ? 0 : random.between(0, shape[d]));
    mask.end[at_index(d)] = static_cast<std::int32_t>(random.coin() ? shape[d] : random.between(0, shape[d]));
  }
  return mask;
}

TEST(LaneMask, LogicAndSelectionAreExactOrRefused) {
  Random random;
  int unions = 0, negations = 0, selections = 0;
  constexpr int kRounds = 3000;
  for (int i = 0; i < kRounds; ++i) {
    const IndexForm form = random.plane();
    const LaneMask a = random_mask(random, form.shape), b = random_mask(random, form.shape);
    const auto conjunction = both(a, b);
    const auto disjunction = either(a, b);
    const auto opposite = negation(a);
    const IndexForm other = random.coin() ? IndexForm(random.between(-4, 4)) : scale(form, random.between(0, 2));
    const auto chosen = select(a, form, other);
    ASSERT_TRUE(conjunction);
    unions += disjunction.has_value();
    negations += opposite.has_value();
    selections += chosen.has_value();
    for_each_lane(form.shape, [&](const Lanes& lanes) {
      EXPECT_EQ(holds_at(*conjunction, lanes), holds_at(a, lanes) && holds_at(b, lanes));
      if (disjunction) {
        EXPECT_EQ(holds_at(*disjunction, lanes), holds_at(a, lanes) || holds_at(b, lanes));
      }
      if (opposite) {
        EXPECT_EQ(holds_at(*opposite, lanes), !holds_at(a, lanes));
      }
      const IndexForm& expected = holds_at(a, lanes) ? form : other;
      if (chosen) {
        EXPECT_EQ(value_at(*chosen, lanes), value_at(expected, lanes_of(expected.shape, form.shape, lanes)));
      }
    });
  }
  EXPECT_GT(unions, kRounds / 4);
  EXPECT_GT(negations, kRounds / 4);
  EXPECT_GT(selections, kRounds / 4);
}

TEST(LaneMask, ScalarsAreAllOrNothing) {
  EXPECT_TRUE(LaneMask::all({}).full());
  EXPECT_FALSE(LaneMask::all({}).empty());
  EXPECT_TRUE(LaneMask::none({}).empty());
  EXPECT_FALSE(LaneMask::none({}).full());
  EXPECT_TRUE(negation(LaneMask::none({}))->full());
  LaneShape shape;
  shape.rank = 1;
  shape[0] = 4;
  EXPECT_TRUE(both(LaneMask::none({}), LaneMask::all(shape))->empty());
  EXPECT_TRUE(both(LaneMask::all({}), LaneMask::all(shape))->full());
}

/// The elements at base + runs, or nothing if one is outside.
std::optional<std::vector<bool>> elements_of(const Shape& shape, std::int64_t base, std::span<const AddressRun> runs) {
  std::vector<bool> elements(static_cast<std::size_t>(volume(shape)));
  std::vector<std::int64_t> offsets{base};
  for (const AddressRun& run : runs) {
    std::vector<std::int64_t> next;
    for (const std::int64_t offset : offsets)
      for (std::int64_t i = 0; i < run.count; ++i) next.push_back(offset + i * run.stride);
    offsets = next;
  }
  for (const std::int64_t offset : offsets) {
    if (offset < 0 || offset >= volume(shape)) return std::nullopt;
    elements[static_cast<std::size_t>(offset)] = true;
  }
  return elements;
}

TEST(Placement, BoxesHoldExactlyTheElements) {
  Random random;
  int placed = 0, boxes_of_several = 0;
  for (int i = 0; i < 6000; ++i) {
    Shape shape;
    for (std::int64_t d = random.between(1, 4); d > 0; --d) shape.push_back(random.between(1, 6));
    const TensorLayout tensor("t", shape);
    std::vector<AddressRun> runs;
    for (std::int64_t r = random.between(0, 3); r > 0; --r) {
      // Mostly along a dimension of the tensor, in either direction.
      std::int64_t stride = random.between(-3, 9);
      if (random.between(0, 9) > 0) {
        stride = 1;
        for (std::size_t d =
                 static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(shape.size()) - 1)) + 1;
             d < shape.size(); ++d)
          stride *= shape[d];
        if (random.between(0, 4) == 0) stride = -stride;
      }
      runs.push_back({stride, random.between(1, 9)});
    }
    const std::int64_t base = random.between(-2, volume(shape));
    std::vector<Region> boxes;
    Region reached;
    const Placement placement = place(tensor, base, runs, boxes, reached);
    const auto elements = elements_of(shape, base, runs);
    if (!elements) {
      EXPECT_EQ(placement, Placement::outside);
    }
    if (placement != Placement::placed) continue;
    ASSERT_TRUE(elements);
    ++placed;
    boxes_of_several += boxes.size() > 1;
    std::vector<bool> found(elements->size());
    for (const Region& box : boxes) {
      ASSERT_TRUE(Region::whole(shape).contains(box)) << box.to_string();
      for_each_run(box, shape, [&](std::int64_t offset, std::int64_t count) {
        for (std::int64_t e = offset; e < offset + count; ++e) {
          EXPECT_FALSE(found[static_cast<std::size_t>(e)]);
          found[static_cast<std::size_t>(e)] = true;
        }
      });
    }
    EXPECT_EQ(found, *elements);
  }
  EXPECT_GT(placed, 1000);
  EXPECT_GT(boxes_of_several, 100);
}

TEST(Placement, StridesAndOverrunsAreToldApart) {
  const TensorLayout tensor("t", {4, 6});
  std::vector<Region> boxes;
  Region reached;
  const auto placement = [&](std::int64_t base, std::vector<AddressRun> runs) {
    boxes.clear();
    return place(tensor, base, runs, boxes, reached);
  };
  EXPECT_EQ(placement(0, {{2, 3}}), Placement::not_a_box);
  EXPECT_EQ(placement(0, {{2, 1}}), Placement::placed);
  EXPECT_EQ(placement(4, {{6, 2}, {1, 4}}), Placement::outside);
  EXPECT_EQ(reached, Region({{0, 2}, {4, 8}}));
  EXPECT_EQ(placement(18, {{6, 2}}), Placement::outside);
  EXPECT_EQ(reached, Region({{3, 5}, {0, 1}}));
  EXPECT_EQ(placement(-6, {{1, 6}}), Placement::outside);
  EXPECT_EQ(reached, Region({{-1, 0}, {0, 6}}));
  EXPECT_EQ(placement(30, {{1, 0}}), Placement::placed);
  EXPECT_TRUE(boxes.empty());
}

TEST(Cover, FindsOverlapsAndHoles) {
  Random random;
  int holes = 0, overlaps = 0, partitions = 0;
  for (int i = 0; i < 3000; ++i) {
    const Shape shape = {random.between(1, 6), random.between(1, 6), random.between(1, 4)};
    // Cut the whole at random, then perhaps drop or grow a part.
    std::vector<Region> parts = {Region::whole(shape)};
    for (std::int64_t cuts = random.between(0, 6); cuts > 0; --cuts) {
      const auto which = static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(parts.size()) - 1));
      const int d = static_cast<int>(random.between(0, 2));
      Region& part = parts[which];
      if (part[d].size() < 2) continue;
      Region rest = part;
      part[d].end = rest[d].begin = random.between(part[d].begin + 1, part[d].end - 1);
      parts.push_back(rest);
    }
    if (random.between(0, 2) == 0) parts.pop_back();
    if (random.between(0, 2) == 0 && !parts.empty()) parts[0][1] = {0, shape[1]};
    std::shuffle(parts.begin(), parts.end(), std::mt19937(static_cast<unsigned>(i)));
    std::vector<WrittenBox> boxes;
    std::vector<int> count(static_cast<std::size_t>(volume(shape)));
    for (const Region& part : parts) {
      boxes.push_back({part, boxes.size()});
      for_each_run(part, shape, [&](std::int64_t offset, std::int64_t length) {
        for (std::int64_t e = offset; e < offset + length; ++e) ++count[static_cast<std::size_t>(e)];
      });
    }
    const auto [fewest, most] = std::minmax_element(count.begin(), count.end());
    const auto problem = check_partition(shape, boxes);
    ASSERT_EQ(problem.has_value(), *fewest == 0 || *most > 1);
    partitions += !problem;
    if (!problem) continue;
    ASSERT_EQ(problem->overlap, *most > 1);
    ASSERT_FALSE(problem->region.empty());
    (problem->overlap ? overlaps : holes) += 1;
    if (problem->overlap) {
      EXPECT_LT(problem->first_tile, problem->second_tile);
      EXPECT_EQ(problem->region, intersect(boxes[problem->first_tile].region, boxes[problem->second_tile].region));
    } else {
      for_each_run(problem->region, shape, [&](std::int64_t offset, std::int64_t length) {
        for (std::int64_t e = offset; e < offset + length; ++e) EXPECT_EQ(count[static_cast<std::size_t>(e)], 0);
      });
    }
  }
  EXPECT_GT(holes, 100);
  EXPECT_GT(overlaps, 100);
  EXPECT_GT(partitions, 100);
}

TEST(Cover, ScalarsAndEmptyTensors) {
  EXPECT_FALSE(check_partition({}, {{Region(), 0}}));
  EXPECT_TRUE(check_partition({}, {}));
  EXPECT_TRUE(check_partition({}, {{Region(), 0}, {Region(), 1}})->overlap);
  EXPECT_FALSE(check_partition({0, 4}, {}));
}

TEST(Cover, MakeDisjointKeepsTheElements) {
  const std::vector<Region> regions = make_disjoint({{{0, 4}, {0, 4}}, {{2, 6}, {2, 6}}, {{2, 3}, {2, 3}}});
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    elements += regions[i].volume();
    for (std::size_t j = i + 1; j < regions.size(); ++j) EXPECT_FALSE(regions[i].overlaps(regions[j]));
  }
  EXPECT_EQ(elements, 16 + 16 - 4);
}

TEST(Merging, BoxesGrowAndJoin) {
  std::vector<Region> regions;
  add_region(regions, {{0, 4}, {0, 8}});
  add_region(regions, {{8, 12}, {0, 8}});
  add_region(regions, {{0, 4}, {8, 16}});   // beside the first
  add_region(regions, {{8, 12}, {8, 16}});  // beside the second
  add_region(regions, {{1, 2}, {3, 4}});    // inside the first
  EXPECT_EQ(regions, (std::vector<Region>{{{0, 4}, {0, 16}}, {{8, 12}, {0, 16}}}));
  add_region(regions, {{20, 21}, {0, 1}});
  add_region(regions, {{4, 8}, {0, 16}});
  merge_regions(regions);
  EXPECT_EQ(regions, (std::vector<Region>{{{0, 12}, {0, 16}}, {{20, 21}, {0, 1}}}));
}

}  // namespace
}  // namespace syncopate
