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

TEST(Meaning, TheOwnSummandIsSentWithoutWhatIsAdded) {
  // Both ranks send and receive at once; without `own` each would have to wait for the other.
  for (const bool own : {true, false}) {
    ScheduleBuilder builder(2);
    const int c = builder.tensor(partial(Placement::replicate()));
    const int all = builder.chunk(c, Region::whole({4, 2}));
    builder.transfer(0, {0, 1, all, all, Reduction::sum, own});
    builder.transfer(1, {1, 0, all, all, Reduction::sum, own});
    const Schedule schedule = std::move(builder).build();
    if (own) {
      EXPECT_EQ(error_of([&] { check_meaning(schedule); }), "no error");
      continue;
    }
    EXPECT_THAT(error_of([&] { check_meaning(schedule); }), HasSubstr("without waiting for its arrival"));
  }
}

TEST(Meaning, TheOwnSummandStaysTheOwnOne) {
  // Rank 1 sends its own summand after rank 0's has been added: the sum of ranks 0 and 1 does not count twice.
  ScheduleBuilder builder(3);
  const int c = builder.tensor(partial(Placement::replicate()));
  const int all = builder.chunk(c, Region::whole({4, 2}));
  const Dependency first = builder.transfer(0, {0, 1, all, all, Reduction::sum, true});
  builder.transfer(1, {1, 2, all, all, Reduction::sum, true}, {first});
  const Meaning m = meaning(std::move(builder).build());
  EXPECT_THAT(m.holdings[0][1][0].contributors, ElementsAre(0, 1));
  EXPECT_THAT(m.holdings[0][2][0].contributors, ElementsAre(1, 2));
}

TEST(Meaning, ACopyOverASummandWaitsForThoseWhoSendIt) {
  for (const bool waits : {true, false}) {
    ScheduleBuilder builder(2);
    const int c = builder.tensor(partial(Placement::replicate()));
    const int all = builder.chunk(c, Region::whole({4, 2}));
    const Dependency sent = builder.transfer(1, {1, 0, all, all, Reduction::sum, true});
    // Reads the sum on rank 0, so it waits for the sum; or it does not.
    builder.push(0, 1, all, all, waits ? std::vector<Dependency>{sent} : std::vector<Dependency>{});
    const Schedule schedule = std::move(builder).build();
    EXPECT_EQ(error_of([&] { check_meaning(schedule); }) == "no error", waits);
  }
  // A third rank writes where rank 1's summand stands while it is being sent.
  ScheduleBuilder builder(3);
  const int c = builder.tensor(partial(Placement::partial_sum()));
  const int all = builder.chunk(c, Region::whole({4, 2}));
  builder.transfer(1, {1, 0, all, all, Reduction::sum, true});
  builder.push(2, 1, all, all);
  const Schedule schedule = std::move(builder).build();
  EXPECT_THAT(error_of([&] { check_meaning(schedule); }), HasSubstr("while rank 1 operator 0 may be using it"));
}

TEST(Validate, OnlySumsHaveOwnSummandsAndOnlyRanksThatExistHoldTensors) {
  ScheduleBuilder copying(2);
  const int c = copying.tensor(partial(Placement::replicate()));
  const int all = copying.chunk(c, Region::whole({4, 2}));
  copying.transfer(0, {0, 1, all, all, Reduction::none, true});
  EXPECT_EQ(error_of([&] { std::move(copying).build(); }),
            "rank 0 operator 0: it sends a rank's own summand without adding it; only sums have summands: add it, or "
            "send what is there");
  ScheduleBuilder rootless(2);
  rootless.tensor({"a", {4}, Dtype::bf16, Placement::only(2), Placement::replicate()});
  EXPECT_EQ(error_of([&] { std::move(rootless).build(); }), "tensor 'a' is only(2); ranks count from 0 to 1");
}

TEST(Meaning, ASummandCountsOnce) {
  ScheduleBuilder builder(2);
  const int c = builder.tensor(partial(Placement::replicate()));
  const int all = builder.chunk(c, Region::whole({4, 2}));
  const Dependency first = builder.push(0, 1, all, all, {}, 0, Reduction::sum);
  builder.push(0, 1, all, all, {first}, 0, Reduction::sum);
  const Schedule schedule = std::move(builder).build();
  EXPECT_THAT(error_of([&] { check_meaning(schedule); }),
              HasSubstr("it adds to c[0:4, 0:2] on rank 1 summands that are in it already"));
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

TEST(Meaning, AdditionsMayComeInAnyOrder) {
  // Two adds into one place with nothing between them: the order of addition is that of the ranks.
  ScheduleBuilder builder(3);
  const int c = builder.tensor({"c", {1, 1}, Dtype::fp32, Placement::partial_sum(), Placement::partial_sum()});
  const int all = builder.chunk(c, {{0, 1}, {0, 1}});
  builder.push(2, 0, all, all, {}, 0, Reduction::sum);
  builder.push(1, 0, all, all, {}, 0, Reduction::sum);
  EXPECT_THAT(meaning(std::move(builder).build()).holdings[0][0][0].contributors, ElementsAre(0, 1, 2));
}

TEST(Meaning, AReaderWaitsForEveryAddition) {
  const auto schedule = [](bool first, bool second) {
    ScheduleBuilder builder(4);
    const int c = builder.tensor({"c", {1}, Dtype::fp32, Placement::partial_sum(), Placement::partial_sum()});
    const int all = builder.chunk(c, {{0, 1}});
    const Dependency one = builder.push(1, 0, all, all, {}, 0, Reduction::sum);
    const Dependency two = builder.push(2, 0, all, all, {}, 0, Reduction::sum);
    std::vector<Dependency> dependencies;
    if (first) dependencies.push_back(one);
    if (second) dependencies.push_back(two);
    builder.push(0, 3, all, all, dependencies, 0, Reduction::sum);
    return std::move(builder).build();
  };
  EXPECT_THAT(meaning(schedule(true, true)).holdings[0][3][0].contributors, ElementsAre(0, 1, 2, 3));
  // The sums come first in the order that is tried, so the reader is blamed; or the reader does, and a sum is.
  EXPECT_NE(error_of([&] { meaning(schedule(true, false)); }), "no error");
  EXPECT_NE(error_of([&] { meaning(schedule(false, true)); }), "no error");
  EXPECT_NE(error_of([&] { meaning(schedule(false, false)); }), "no error");
}

TEST(Meaning, WhatReplacesASumWaitsForItsAdditions) {
  const auto schedule = [](bool waits) {
    ScheduleBuilder builder(3);
    const int c = builder.tensor({"c", {1}, Dtype::fp32, Placement::partial_sum(), Placement::partial_sum()});
    const int all = builder.chunk(c, {{0, 1}});
    const Dependency added = builder.push(1, 0, all, all, {}, 0, Reduction::sum);
    builder.push(2, 0, all, all, waits ? std::vector<Dependency>{added} : std::vector<Dependency>{});
    return std::move(builder).build();
  };
  EXPECT_THAT(meaning(schedule(true)).holdings[0][0][0].contributors, ElementsAre(2));
  EXPECT_THAT(error_of([&] { meaning(schedule(false)); }),
              HasSubstr("it writes c[0:1] on rank 0 while rank 1 operator 0 may be using it"));
}

/// Each of `ranks` ranks adds up one row in turn, then sends it to all others at once.
Schedule partitioned_all_reduce(int ranks) {
  ScheduleBuilder builder(ranks);
  const int c = builder.tensor({"c", {ranks, 2}, Dtype::fp32, Placement::partial_sum(), Placement::replicate()});
  for (int home = 0; home < ranks; ++home) {
    const int row = builder.chunk(c, {{home, home + 1}, {0, 2}});
    std::vector<Dependency> last;
    for (int step = 1; step < ranks; ++step)
      last = {builder.push((home + step) % ranks, home, row, row, last, 0, Reduction::sum)};
    for (int step = 1; step < ranks; ++step) builder.push(home, (home + step) % ranks, row, row, last);
  }
  return std::move(builder).build();
}

TEST(Meaning, ReadersOfASumMayRunTogether) {
  for (const int ranks : {2, 3, 4, 8}) EXPECT_NO_THROW(check_meaning(partitioned_all_reduce(ranks))) << ranks;
}

TEST(Meaning, EveryDependencyOfAPartitionedAllReduceCounts) {
  const Schedule schedule = partitioned_all_reduce(4);
  for (std::size_t rank = 0; rank < 4; ++rank)
    for (std::size_t i = 0; i < schedule.operators[rank].size(); ++i) {
      if (schedule.operators[rank][i].dependencies.empty()) continue;
      Schedule mutant = schedule;
      mutant.operators[rank][i].dependencies.clear();
      EXPECT_NE(error_of([&] { check_meaning(mutant); }), "no error") << rank << " " << i;
    }
}

TEST(Meaning, ASummandMustHaveLeftBeforeItIsOverwritten) {
  // Rank 0 sends its summand to rank 1; rank 2's arrives at rank 0 in its place.
  ScheduleBuilder builder(3);
  const int c = builder.tensor({"c", {1}, Dtype::fp32, Placement::partial_sum(), Placement::partial_sum()});
  const int all = builder.chunk(c, {{0, 1}});
  const Dependency left = builder.push(0, 1, all, all, {}, 0, Reduction::sum);
  builder.push(2, 0, all, all, {left});
  Schedule schedule = std::move(builder).build();
  const Meaning m = meaning(schedule);
  EXPECT_THAT(m.holdings[0][0][0].contributors, ElementsAre(2));
  EXPECT_THAT(m.holdings[0][1][0].contributors, ElementsAre(0, 1));
  schedule.operators[2][0].dependencies.clear();
  EXPECT_THAT(error_of([&] { meaning(schedule); }),
              HasSubstr("it writes c[0:1] on rank 0 while rank 0 operator 0 may"));
}

TEST(Meaning, DependenciesAreTransitive) {
  ScheduleBuilder builder(3);
  const int a = builder.tensor({"a", {3}, Dtype::bf16, Placement::shard(0), Placement::replicate()});
  const int zero = builder.chunk(a, {{0, 1}});
  const int one = builder.chunk(a, {{1, 2}});
  const int two = builder.chunk(a, {{2, 3}});
  const Dependency sent = builder.push(0, 1, zero, zero);
  const Dependency later = builder.push(2, 0, two, two, {sent});
  const Dependency latest = builder.push(1, 0, one, one, {later});
  builder.push(1, 2, zero, zero, {latest});
  builder.push(1, 2, one, one);
  builder.push(2, 1, two, two);
  Schedule schedule = std::move(builder).build();
  EXPECT_NO_THROW(check_meaning(schedule));
  schedule.operators[2][0].dependencies.clear();
  EXPECT_EQ(error_of([&] { check_meaning(schedule); }),
            "rank 1 operator 1: it reads a[0:1] on rank 1 without waiting for its arrival; add the dependency [0, 0]");
}

TEST(Meaning, BoxesOfAnyShapeMeetInOne) {
  // The shard is cut into columns on one way and into rows on the other.
  ScheduleBuilder builder(3);
  const int a = builder.tensor({"a", {4, 6}, Dtype::bf16, Placement::shard(0), Placement::replicate()});
  for (std::int64_t column = 0; column < 6; column += 2) {
    const int piece = builder.chunk(a, {{0, 2}, {column, column + 2}});
    builder.push(0, 1, piece, piece);
  }
  for (std::int64_t row = 0; row < 2; ++row) {
    const int piece = builder.chunk(a, {{row, row + 1}, {0, 6}});
    builder.push(0, 2, piece, piece);
  }
  const int second = builder.chunk(a, {{2, 4}, {0, 6}});
  builder.push(1, 0, second, second);
  builder.push(1, 2, second, second);
  Schedule schedule = std::move(builder).build();
  EXPECT_NO_THROW(check_meaning(schedule));
  const Meaning m = meaning(schedule);
  for (const auto& holdings : m.holdings[0]) {
    ASSERT_EQ(holdings.size(), 1U);
    EXPECT_EQ(holdings[0].region, Region::whole({4, 6}));
  }
  schedule.operators[0].erase(schedule.operators[0].begin() + 1);
  EXPECT_EQ(error_of([&] { check_meaning(schedule); }),
            "rank 1 never receives a[0:1, 2:4]; after the schedule 'a' must be replicate");
}

TEST(Meaning, TooManyBoxesAreRefusedBeforeTheyTakeMemory) {
  // Cuts of both axes at every place make a grid of 40000 x 40000.
  ScheduleBuilder builder(1);
  const int a = builder.tensor({"a", {40000, 40000}, Dtype::bf16, Placement::replicate(), Placement::replicate()});
  for (std::int64_t i = 0; i < 40000; ++i) builder.chunk(a, {{i, i + 1}, {i, i + 1}});
  const Schedule schedule = std::move(builder).build();
  EXPECT_THAT(error_of([&] { check_meaning(schedule); }), HasSubstr("the chunks of 'a' cut it into more than"));
}

/// A schedule of one collective over a tensor of one dimension; rank i gives and gets the ranges at i.
Schedule one_collective(CollectiveType type, Placement before, Placement after, std::vector<Range> sources,
                        std::vector<Range> destinations) {
  const auto ranks = static_cast<int>(sources.size());
  ScheduleBuilder builder(ranks);
  const int a = builder.tensor({"a", {6}, Dtype::fp32, before, after});
  Collective collective;
  collective.type = type;
  for (int rank = 0; rank < ranks; ++rank) {
    collective.ranks.push_back(rank);
    collective.source_chunks.push_back(builder.chunk(a, {sources[static_cast<std::size_t>(rank)]}));
    collective.destination_chunks.push_back(builder.chunk(a, {destinations[static_cast<std::size_t>(rank)]}));
  }
  builder.collective(std::move(collective));
  return std::move(builder).build();
}

TEST(Meaning, ReduceScatterLeavesEachRankTheSumOfItsPart) {
  const Schedule schedule = one_collective(CollectiveType::reduce_scatter, Placement::partial_sum(),
                                           Placement::shard(0), {{0, 6}, {0, 6}, {0, 6}}, {{0, 2}, {2, 4}, {4, 6}});
  EXPECT_NO_THROW(check_meaning(schedule));
  const Meaning m = meaning(schedule);
  ASSERT_EQ(m.holdings[0][1].size(), 3U);
  EXPECT_THAT(m.holdings[0][1][1].contributors, ElementsAre(0, 1, 2));
  EXPECT_THAT(m.holdings[0][1][2].contributors, ElementsAre(1));
}

TEST(Meaning, BroadcastIsFromTheFirstRank) {
  const auto sum = Placement::partial_sum();
  const Schedule schedule = one_collective(CollectiveType::broadcast, sum, sum, {{0, 6}, {0, 6}}, {{0, 6}, {0, 6}});
  EXPECT_THAT(meaning(schedule).holdings[0][1][0].contributors, ElementsAre(0));
}

TEST(Meaning, AllToAllTurnsRowsIntoColumns) {
  ScheduleBuilder builder(2);
  const int a = builder.tensor({"a", {2, 2}, Dtype::bf16, Placement::shard(0), Placement::shard(1)});
  const std::vector<int> rows = {builder.chunk(a, {{0, 1}, {0, 2}}), builder.chunk(a, {{1, 2}, {0, 2}})};
  const std::vector<int> columns = {builder.chunk(a, {{0, 2}, {0, 1}}), builder.chunk(a, {{0, 2}, {1, 2}})};
  builder.collective({CollectiveType::all_to_all, {0, 1}, rows, columns});
  EXPECT_NO_THROW(check_meaning(std::move(builder).build()));
}

TEST(Meaning, CollectivesThatAreNotWhatTheySay) {
  using enum CollectiveType;
  const Placement shard = Placement::shard(0);
  const Placement all = Placement::replicate();
  const auto error = [](const Schedule& schedule) { return error_of([&] { check_meaning(schedule); }); };
  EXPECT_THAT(error(one_collective(all_reduce, shard, all, {{0, 3}, {3, 6}}, {{0, 6}, {0, 6}})),
              HasSubstr("rank 0 operator 0: it reduces a tensor that is not partial"));
  EXPECT_THAT(error(one_collective(all_gather, shard, all, {{0, 3}, {4, 6}}, {{0, 6}, {0, 6}})),
              HasSubstr("no source chunk of the collective holds a[3:4]"));
  EXPECT_THAT(error(one_collective(all_gather, all, all, {{0, 3}, {2, 6}}, {{0, 6}, {0, 6}})),
              HasSubstr("two of its source chunks hold a[2:3]"));
  EXPECT_THAT(error(one_collective(all_gather, shard, all, {{3, 6}, {0, 3}}, {{0, 6}, {0, 6}})),
              HasSubstr("which rank 0 does not hold by then"));
  EXPECT_THAT(error(one_collective(all_gather, all, all, {{0, 3}, {3, 6}}, {{0, 6}, {0, 6}})),
              HasSubstr("it sends a[3:6] to rank 0, which holds it from the start"));
}

TEST(Meaning, ACollectiveAfterATransferMayNotRepeatIt) {
  for (const bool ordered : {false, true}) {
    ScheduleBuilder builder(2);
    const int a = builder.tensor({"a", {4}, Dtype::bf16, Placement::shard(0), Placement::replicate()});
    const int low = builder.chunk(a, {{0, 2}});
    const int high = builder.chunk(a, {{2, 4}});
    const int all = builder.chunk(a, {{0, 4}});
    const Dependency sent = builder.push(0, 1, low, low);
    builder.collective({CollectiveType::all_gather, {0, 1}, {low, high}, {all, all}},
                       ordered ? std::vector<Dependency>{sent} : std::vector<Dependency>{});
    EXPECT_THAT(error_of([&] { check_meaning(std::move(builder).build()); }), HasSubstr("puts it too"));
  }
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
