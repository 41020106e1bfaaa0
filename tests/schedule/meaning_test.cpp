// Meaning beyond templates: partial sums, collectives, and orders that dependencies do not forbid.
#include "syncopate/schedule/meaning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace syncopate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

LogicalTensor partial(Placement after) { return {"c", {4, 2}, Dtype::fp32, Placement::partial_sum(), after}; }

TEST(Meaning, DirectReduceScatterOfTwo) {
  ScheduleBuilder builder(2);
  const int c = builder.tensor(partial(Placement::shard(0)));
  const int top = builder.chunk(c, {{0, 2}, {0, 2}});
  const int bottom = builder.chunk(c, {{2, 4}, {0, 2}});
  builder.push(1, 0, top, top, {}, 0, Reduction::sum);
  builder.push(0, 1, bottom, bottom, {}, 0, Reduction::sum);
  const Schedule schedule = std::move(builder).build();
  EXPECT_NO_THROW(check_meaning(schedule));
  const Meaning m = meaning(schedule);
  ASSERT_EQ(m.holdings[0][0].size(), 2U);
  EXPECT_THAT(m.holdings[0][0][0].contributors, ElementsAre(0, 1));
  EXPECT_THAT(m.holdings[0][0][1].contributors, ElementsAre(0));
}

TEST(Meaning, PartitionedAllReduce) {
  // Each rank reduces its share, then distributes it; the copy back waits for the sum and for the summand to have left.
  ScheduleBuilder builder(2);
  const int c = builder.tensor(partial(Placement::replicate()));
  const int top = builder.chunk(c, {{0, 2}, {0, 2}});
  const int bottom = builder.chunk(c, {{2, 4}, {0, 2}});
  const Dependency in_top = builder.push(1, 0, top, top, {}, 0, Reduction::sum);
  const Dependency in_bottom = builder.push(0, 1, bottom, bottom, {}, 0, Reduction::sum);
  builder.push(0, 1, top, top, {in_top});
  builder.push(1, 0, bottom, bottom, {in_bottom});
  Schedule schedule = std::move(builder).build();
  EXPECT_NO_THROW(check_meaning(schedule));
  schedule.operators[0][1].dependencies.clear();
  EXPECT_NE(error_of([&] { check_meaning(schedule); }), "no error") << "the copy may leave before the sum is whole";
}

TEST(Meaning, ASummandCountsOnce) {
  ScheduleBuilder builder(2);
  const int c = builder.tensor(partial(Placement::replicate()));
  const int all = builder.chunk(c, Region::whole({4, 2}));
  const Dependency first = builder.push(0, 1, all, all, {}, 0, Reduction::sum);
  builder.push(0, 1, all, all, {first}, 0, Reduction::sum);
  const Schedule schedule = std::move(builder).build();
  EXPECT_THAT(error_of([&] { check_meaning(schedule); }), HasSubstr("which has it already"));
}

TEST(Meaning, AMissingSummandIsNamed) {
  ScheduleBuilder builder(3);
  const int c = builder.tensor({"c", {3, 1}, Dtype::fp32, Placement::partial_sum(), Placement::shard(0)});
  for (int rank = 0; rank < 3; ++rank) {
    const int mine = builder.chunk(c, {{rank, rank + 1}, {0, 1}});
    Dependency last;
    bool first = true;
    for (int other = 0; other < 3; ++other) {
      if (other == rank || (rank == 2 && other == 1)) continue;
      last = builder.push(other, rank, mine, mine, first ? std::vector<Dependency>{} : std::vector<Dependency>{last}, 0,
                          Reduction::sum);
      first = false;
    }
  }
  const Schedule schedule = std::move(builder).build();
  EXPECT_EQ(error_of([&] { check_meaning(schedule); }),
            "rank 2 holds c[2:3, 0:1] with the summands of ranks 0, 2 only; after the schedule 'c' must be shard(0)");
}

TEST(Meaning, UnorderedReductionsAreRefused) {
  // Two adds into one place with nothing between them: their order, and so the rounding, would be luck.
  ScheduleBuilder builder(3);
  const int c = builder.tensor({"c", {1, 1}, Dtype::fp32, Placement::partial_sum(), Placement::replicate()});
  const int all = builder.chunk(c, {{0, 1}, {0, 1}});
  builder.push(1, 0, all, all, {}, 0, Reduction::sum);
  builder.push(2, 0, all, all, {}, 0, Reduction::sum);
  const Schedule schedule = std::move(builder).build();
  EXPECT_THAT(error_of([&] { meaning(schedule); }), HasSubstr("while rank 1 operator 0 may be using it"));
}

TEST(Meaning, CollectivesMeanWhatTheyAreCalled) {
  ScheduleBuilder gather(2);
  const int a = gather.tensor({"a", {4}, Dtype::bf16, Placement::shard(0), Placement::replicate()});
  const int low = gather.chunk(a, {{0, 2}});
  const int high = gather.chunk(a, {{2, 4}});
  const int all = gather.chunk(a, {{0, 4}});
  gather.collective({CollectiveType::all_gather, {0, 1}, {low, high}, {all, all}});
  EXPECT_NO_THROW(check_meaning(std::move(gather).build()));

  ScheduleBuilder reduce(2);
  const int c = reduce.tensor({"c", {4}, Dtype::fp32, Placement::partial_sum(), Placement::replicate()});
  const int whole = reduce.chunk(c, {{0, 4}});
  reduce.collective({CollectiveType::all_reduce, {0, 1}, {whole, whole}, {whole, whole}});
  const Meaning m = meaning(std::move(reduce).build());
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_THAT(m.holdings[0][static_cast<std::size_t>(rank)][0].contributors, ElementsAre(0, 1));
}

TEST(Meaning, ListOrderIsNotADependency) {
  // Rank 1 forwards what rank 0 sent; it stands later in no list of its own, and only a dependency makes it right.
  ScheduleBuilder builder(3);
  const int a = builder.tensor({"a", {3}, Dtype::bf16, Placement::shard(0), Placement::replicate()});
  const int zero = builder.chunk(a, {{0, 1}});
  const Dependency sent = builder.push(0, 1, zero, zero);
  builder.push(1, 2, zero, zero, {sent});
  Schedule schedule = std::move(builder).build();
  EXPECT_NO_THROW(meaning(schedule));
  schedule.operators[1][0].dependencies.clear();
  EXPECT_EQ(error_of([&] { meaning(schedule); }),
            "rank 1 operator 0: it reads a[0:1] on rank 1 without waiting for its arrival; add the dependency [0, 0]");
}

}  // namespace
}  // namespace syncopate
