#include "syncopate/schedule/placement.h"

#include <gtest/gtest.h>

#include "syncopate/core/error.h"
#include "syncopate/schedule/templates.h"

namespace syncopate {
namespace {

TEST(Placement, TextRoundTrips) {
  for (const Placement& placement : {Placement::replicate(), Placement::shard(0), Placement::shard(3),
                                     Placement::zigzag(0), Placement::zigzag(2), Placement::partial_sum()})
    EXPECT_EQ(Placement::parse(placement.to_string()), placement);
  EXPECT_EQ(Placement::parse("shard( 1 )"), Placement::shard(1));
  for (const char* wrong : {"", "shard", "shard()", "shard(-1)", "shard(x)", "shard(1", "partial(max)", "replicated",
                            "shard(1)x", "zigzag", "zigzag()", "zigzag(-1)", "zigzag(0)+1", "zigzag(0)x"})
    EXPECT_FALSE(Placement::parse(wrong).has_value()) << wrong;
}

TEST(Placement, SchedulesKnowTwoMore) {
  for (const Placement& placement : {Placement::shard(2), Placement::shard(0, 3), Placement::shard(1, -2),
                                     Placement::only(0), Placement::only(17), Placement::partial_sum()})
    EXPECT_EQ(Placement::parse_in_schedule(placement.to_string()), placement);
  EXPECT_EQ(Placement::shard(1, -2).to_string(), "shard(1)-2");
  EXPECT_EQ(Placement::parse_in_schedule("shard( 0 ) + 1"), Placement::shard(0, 1));
  for (const char* wrong : {"only", "only()", "only(-1)", "only(1)+1", "shard(0)+", "shard(0)+-1", "shard(0)1",
                            "shard(0)-", "replicate+1", "partial(sum)+1", ")only(", "shard(0)+1x"})
    EXPECT_FALSE(Placement::parse_in_schedule(wrong).has_value()) << wrong;
  for (const char* unknown_to_operators : {"only(0)", "shard(0)+1"})
    EXPECT_FALSE(Placement::parse(unknown_to_operators).has_value()) << unknown_to_operators;
}

TEST(Placement, ShiftedShardsGoRound) {
  // 10 rows over 4 ranks: 3, 3, 3, 1.
  EXPECT_EQ(held_region(Placement::shard(0, 1), {10, 4}, 4, 1), Region({{0, 3}, {0, 4}}));
  EXPECT_EQ(held_region(Placement::shard(0, 1), {10, 4}, 4, 0), Region({{9, 10}, {0, 4}}));
  EXPECT_EQ(held_region(Placement::shard(0, -5), {10, 4}, 4, 2), Region({{9, 10}, {0, 4}}));
  EXPECT_EQ(held_region(Placement::shard(0, 8), {10, 4}, 4, 2), held_region(Placement::shard(0), {10, 4}, 4, 2));
  EXPECT_EQ(held_region(Placement::only(2), {10, 4}, 4, 2), Region::whole({10, 4}));
  EXPECT_TRUE(held_region(Placement::only(2), {10, 4}, 4, 1).empty());
}

TEST(Placement, ShardsCutAsTorchChunk) {
  EXPECT_EQ(held_region(Placement::shard(0), {10, 4}, 4, 0), Region({{0, 3}, {0, 4}}));
  EXPECT_EQ(held_region(Placement::shard(0), {10, 4}, 4, 3), Region({{9, 10}, {0, 4}}));
  EXPECT_EQ(held_region(Placement::shard(1), {10, 4}, 2, 1), Region({{0, 10}, {2, 4}}));
  EXPECT_TRUE(held_region(Placement::shard(0), {5, 4}, 4, 3).empty());
  EXPECT_EQ(held_region(Placement::replicate(), {5, 4}, 4, 3), Region::whole({5, 4}));
  EXPECT_EQ(held_region(Placement::partial_sum(), {5, 4}, 4, 3), Region::whole({5, 4}));
}

TEST(Placement, ZigzagTakesAStretchFromEitherEnd) {
  const auto rows = [](std::int64_t begin, std::int64_t end) { return Region({{begin, end}, {0, 4}}); };
  // 16 rows over 4 ranks: stretches of 2.
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(held_regions(Placement::zigzag(0), {16, 4}, 4, rank),
              (std::vector{rows(2 * rank, 2 * rank + 2), rows(14 - 2 * rank, 16 - 2 * rank)}));
  // 13 rows: six stretches of 2, one of 1, and one of none.
  EXPECT_EQ(held_regions(Placement::zigzag(0), {13, 4}, 4, 1), (std::vector{rows(2, 4), rows(12, 13)}));
  const std::vector<Region> ends = held_regions(Placement::zigzag(0), {13, 4}, 4, 0);
  EXPECT_EQ(ends[0], rows(0, 2));
  EXPECT_TRUE(ends[1].empty());
  EXPECT_EQ(held_regions(Placement::zigzag(1), {3, 8}, 2, 1),
            (std::vector{Region{{0, 3}, {2, 4}}, Region{{0, 3}, {4, 6}}}));
  EXPECT_EQ(held_regions(Placement::zigzag(0), {4}, 1, 0), (std::vector{Region{{0, 2}}, Region{{2, 4}}}));
  EXPECT_EQ(held_regions(Placement::shard(0), {10, 4}, 4, 0), std::vector{rows(0, 3)});
}

/// Of any length, all ranks together hold every index once.
TEST(Placement, ZigzagHoldsEveryIndexOnce) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (std::int64_t length = 1; length <= 40; ++length) {
      std::vector<int> times(static_cast<std::size_t>(length), 0);
      for (int rank = 0; rank < ranks; ++rank)
        for (const Region& box : held_regions(Placement::zigzag(0), {length}, ranks, rank))
          for (std::int64_t i = box[0].begin; i < box[0].end; ++i) ++times[static_cast<std::size_t>(i)];
      EXPECT_EQ(times, std::vector<int>(static_cast<std::size_t>(length), 1)) << ranks << " ranks, " << length;
    }
}

TEST(Placement, ZigzagIsGatheredAndNothingElse) {
  const auto between = [](Placement a, Placement b) { return collective_between(a, b, {"op.toml", 3, 4}); };
  EXPECT_EQ(between(Placement::zigzag(1), Placement::replicate()), CollectiveType::all_gather);
  EXPECT_EQ(between(Placement::zigzag(1), Placement::zigzag(1)), std::nullopt);
  for (const auto& [from, to] :
       {std::pair(Placement::zigzag(0), Placement::shard(0)), std::pair(Placement::zigzag(0), Placement::zigzag(1)),
        std::pair(Placement::replicate(), Placement::zigzag(0)),
        std::pair(Placement::partial_sum(), Placement::zigzag(0))})
    EXPECT_THROW(between(from, to), UserError) << from.to_string() << " -> " << to.to_string();
}

TEST(Placement, CollectivesFollowFromTheChange) {
  const auto between = [](Placement a, Placement b) { return collective_between(a, b, {"op.toml", 3, 4}); };
  EXPECT_EQ(between(Placement::shard(0), Placement::replicate()), CollectiveType::all_gather);
  EXPECT_EQ(between(Placement::shard(0), Placement::shard(1)), CollectiveType::all_to_all);
  EXPECT_EQ(between(Placement::partial_sum(), Placement::shard(0)), CollectiveType::reduce_scatter);
  EXPECT_EQ(between(Placement::partial_sum(), Placement::replicate()), CollectiveType::all_reduce);
  EXPECT_EQ(between(Placement::shard(0), Placement::shard(0, 1)), CollectiveType::all_to_all);
  EXPECT_EQ(between(Placement::only(3), Placement::replicate()), CollectiveType::broadcast);
  EXPECT_EQ(between(Placement::replicate(), Placement::shard(0)), std::nullopt);
  EXPECT_EQ(between(Placement::shard(1), Placement::shard(1)), std::nullopt);
  try {
    between(Placement::replicate(), Placement::partial_sum());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.where(), (SourceLocation{"op.toml", 3, 4}));
    EXPECT_EQ(error.problem(), "no collective turns replicate into partial(sum)");
  }
}

}  // namespace
}  // namespace syncopate
