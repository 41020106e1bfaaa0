// Schedules one after the other: the dependencies between them are those that are needed and no others.
#include "syncopate/schedule/compose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "syncopate/schedule/meaning.h"
#include "syncopate/schedule/schedule_json.h"
#include "syncopate/schedule/templates.h"

namespace syncopate {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const Shape kShape = {26, 6};

LogicalTensor partial(Placement after) { return {"c", kShape, Dtype::fp32, Placement::partial_sum(), after}; }
LogicalTensor sharded(Placement before, Placement after) { return {"c", kShape, Dtype::fp32, before, after}; }

std::vector<TemplateOptions> all_options(CollectiveType type, int ranks) {
  std::vector<TemplateOptions> list;
  for (const Algorithm algorithm : algorithms_for(type)) {
    TemplateOptions options{algorithm, Initiator::push, 2};
    if (algorithm == Algorithm::hierarchical || algorithm == Algorithm::double_ring)
      options.ranks_per_node = ranks % 2 == 0 ? ranks / 2 : 1;
    list.push_back(options);
  }
  return list;
}

void expect_every_dependency_needed(const Schedule& schedule) {
  for (std::size_t rank = 0; rank < schedule.operators.size(); ++rank)
    for (std::size_t o = 0; o < schedule.operators[rank].size(); ++o)
      for (std::size_t d = 0; d < schedule.operators[rank][o].dependencies.size(); ++d) {
        Schedule mutant = schedule;
        auto& list = mutant.operators[rank][o].dependencies;
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(d));
        ASSERT_THROW(check_meaning(mutant), UserError) << "rank " << rank << " operator " << o << " dependency " << d;
      }
}

TEST(Compose, AnyReduceScatterBeforeAnyAllGather) {
  for (const int ranks : {2, 3, 4})
    for (const TemplateOptions& scatter : all_options(CollectiveType::reduce_scatter, ranks))
      for (const TemplateOptions& gather : all_options(CollectiveType::all_gather, ranks)) {
        SCOPED_TRACE(std::to_string(ranks) + " ranks, " + describe(scatter) + ", then " + describe(gather));
        const Schedule first = reduce_scatter(partial(Placement::shard(0)), ranks, scatter, {});
        const Schedule second = all_gather(sharded(Placement::shard(0), Placement::replicate()), ranks, gather, {});
        const Schedule both = compose(first, second);
        EXPECT_EQ(operator_count(both), operator_count(first) + operator_count(second));
        EXPECT_EQ(both.tensors[0].before, Placement::partial_sum());
        EXPECT_EQ(both.tensors[0].after, Placement::replicate());
        ASSERT_NO_THROW(check_meaning(both));
        expect_every_dependency_needed(both);
      }
}

TEST(Compose, DifferentChunksMeetWhereTheyOverlap) {
  // Two chunks of a shard are summed; the gather sends the shard in three.
  TemplateOptions in_two{Algorithm::direct, Initiator::push, 2};
  TemplateOptions in_three{Algorithm::direct, Initiator::pull, 3};
  const LogicalTensor summed{"c", {12}, Dtype::fp32, Placement::partial_sum(), Placement::shard(0)};
  const LogicalTensor gathered{"c", {12}, Dtype::fp32, Placement::shard(0), Placement::replicate()};
  const Schedule both = compose(reduce_scatter(summed, 2, in_two, {}), all_gather(gathered, 2, in_three, {}));
  ASSERT_EQ(both.operators[0].size(), 5U) << "two pushes of summands of rank 1's rows, three pulls of its sums";
  // Rows 6:9 and 9:12 of rank 1 are summed by rank 0's pushes 0 and 1; chunks are 6:8, 8:10 and 10:12.
  EXPECT_THAT(both.operators[0][2].dependencies, ElementsAre(Dependency{0, 0}));
  EXPECT_THAT(both.operators[0][3].dependencies, UnorderedElementsAre(Dependency{0, 0}, Dependency{0, 1}));
  EXPECT_THAT(both.operators[0][4].dependencies, ElementsAre(Dependency{0, 1}));
  EXPECT_NO_THROW(check_meaning(both));
}

TEST(Compose, TwoRingStepsAreAShiftByTwo) {
  const LogicalTensor k = sharded(Placement::shard(0), {});
  const Schedule one = shift(k, 1, 4, {}, {});
  LogicalTensor moved = k;
  moved.before = Placement::shard(0, 1);
  const Schedule both = compose(one, shift(moved, 1, 4, {}, {}));
  EXPECT_EQ(both.tensors[0].after, Placement::shard(0, 2));
  EXPECT_NO_THROW(check_meaning(both));
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(both.operators[static_cast<std::size_t>(rank)][1].dependencies,
                ElementsAre(Dependency{(rank + 3) % 4, 0}));
  expect_every_dependency_needed(both);
}

TEST(Compose, WhatIsImpliedIsNotSaidTwice) {
  // The ring's last hop waits for all hops before it, so the gather's first hop waits for it alone.
  const TemplateOptions ring{Algorithm::ring, Initiator::push, 1};
  const Schedule both = all_reduce(partial(Placement::replicate()), 4, ring, {});
  for (const auto& list : both.operators)
    for (const Operator& op : list) EXPECT_LE(op.dependencies.size(), 1U);
}

TEST(Compose, CollectivesAreUsedAsAWhole) {
  ScheduleBuilder first(3);
  const int c = first.tensor(sharded(Placement::shard(0), Placement::replicate()));
  Collective gather;
  for (int rank = 0; rank < 3; ++rank) {
    gather.ranks.push_back(rank);
    gather.source_chunks.push_back(first.chunk(c, held_region(Placement::shard(0), kShape, 3, rank)));
    gather.destination_chunks.push_back(first.chunk(c, Region::whole(kShape)));
  }
  first.collective(gather);
  const Schedule gathered = std::move(first).build();
  // What follows reads on rank 0, where the collective is listed, and on rank 2, where it is not.
  ScheduleBuilder second(3);
  second.tensor(sharded(Placement::replicate(), Placement::replicate()));
  Schedule empty = std::move(second).build();
  const Schedule both = compose(gathered, empty);
  EXPECT_EQ(to_json(both), to_json(gathered));
  const Schedule scattered = reduce_scatter(partial(Placement::shard(0)), 3, {}, {});
  const Schedule all = compose(scattered, gathered);
  EXPECT_NO_THROW(check_meaning(all));
  EXPECT_EQ(all.operators[0].back().dependencies.size(), 6U) << "every summand that arrives anywhere";
}

TEST(Compose, PortsOfTheSecondCanBeKeptApart) {
  const Schedule first = reduce_scatter(partial(Placement::shard(0)), 3, {}, {});
  const Schedule second = all_gather(sharded(Placement::shard(0), Placement::replicate()), 3, {}, {});
  const Schedule both = compose(first, second, 2);
  for (std::size_t rank = 0; rank < 3; ++rank)
    for (std::size_t o = 0; o < both.operators[rank].size(); ++o)
      EXPECT_EQ(both.operators[rank][o].port, o < first.operators[rank].size() ? 0 : 2);
}

TEST(Compose, OwnSummandsAreLeftInPeace) {
  // A one-shot sum into a chunk that a copy replaces afterwards: the copy waits for everyone who sends the summand.
  const TemplateOptions one_shot{Algorithm::one_shot, Initiator::push, 1};
  const Schedule sum = all_reduce(partial(Placement::replicate()), 3, one_shot, {});
  ScheduleBuilder builder(3);
  const int c = builder.tensor(sharded(Placement::replicate(), Placement::replicate()));
  const int all = builder.chunk(c, Region::whole(kShape));
  builder.push(0, 1, all, all);
  const Schedule both = compose(sum, std::move(builder).build());
  EXPECT_NO_THROW(check_meaning(both));
  EXPECT_EQ(both.operators[0].back().dependencies.size(), 5U)
      << "two sums into rank 0, two into rank 1, and the two sends of rank 1's summand, of which one is counted "
         "already";
  expect_every_dependency_needed(both);
}

TEST(Compose, MistakesAreNamed) {
  const auto error_of = [](const Schedule& a, const Schedule& b, int ports = 0) -> std::string {
    try {
      compose(a, b, ports);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  const Schedule scatter = reduce_scatter(partial(Placement::shard(0)), 3, {}, {});
  const Schedule gather = all_gather(sharded(Placement::shard(0), Placement::replicate()), 3, {}, {});
  EXPECT_EQ(error_of(scatter, gather), "no error");
  EXPECT_EQ(error_of(scatter, gather, -1), "a port offset of -1; at least 0");
  EXPECT_EQ(error_of(gather, gather),
            "after the first schedule 'c' is replicate, before the second shard(0); the second starts with what the "
            "first leaves");
  EXPECT_EQ(error_of(scatter, all_gather(sharded(Placement::shard(0), Placement::replicate()), 2, {}, {})),
            "a schedule over 2 ranks cannot follow one over 3; make both for the same ranks");
  Schedule other = gather;
  other.tensors[0].name = "d";
  EXPECT_EQ(error_of(scatter, other),
            "the first schedule is about 'c' 26 x 6 fp32, the second about 'd' 26 x 6 fp32; list the same tensors in "
            "both");
  other.tensors.push_back(other.tensors[0]);
  EXPECT_EQ(error_of(scatter, other), "a schedule of 2 tensors cannot follow one of 1; list the same tensors in both");
}

}  // namespace
}  // namespace syncopate
