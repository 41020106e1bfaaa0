// Schedules written in C++: what the builder shares, the order of operators, and mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/schedule/schedule.h"

namespace syncopate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Dependency kFirst{0, 0};

LogicalTensor tensor() { return {"a", {4}, Dtype::bf16, Placement::shard(0), Placement::replicate()}; }

std::string error_of(Schedule schedule) {
  try {
    validate(schedule);
  } catch (const UserError& error) {
    EXPECT_EQ(error.where(), SourceLocation{});
    return error.what();
  }
  return "no error";
}

/// Two ranks that send each other their halves.
Schedule exchange() {
  ScheduleBuilder builder(2);
  const int a = builder.tensor(tensor());
  const int low = builder.chunk(a, {{0, 2}});
  const int high = builder.chunk(a, {{2, 4}});
  builder.push(0, 1, low, low);
  builder.push(1, 0, high, high);
  return std::move(builder).build();
}

TEST(ScheduleBuilder, SharesEqualChunks) {
  ScheduleBuilder builder(2);
  const int a = builder.tensor(tensor());
  const int b = builder.tensor({"b", {4}, Dtype::bf16, Placement::shard(0), Placement::replicate()});
  const int low = builder.chunk(a, {{0, 2}});
  EXPECT_NE(builder.chunk(a, {{2, 4}}), low);
  EXPECT_NE(builder.chunk(b, {{0, 2}}), low);
  EXPECT_EQ(builder.chunk(a, {{0, 2}}), low);
  EXPECT_EQ(std::move(builder).build().chunks.size(), 3U);
}

TEST(ScheduleBuilder, NamesOperatorsByTheirOwner) {
  ScheduleBuilder builder(3);
  const int a = builder.tensor(tensor());
  const int low = builder.chunk(a, {{0, 2}});
  EXPECT_EQ(builder.push(0, 1, low, low), (Dependency{0, 0}));
  EXPECT_EQ(builder.pull(0, 2, low, low), (Dependency{2, 0}));
  EXPECT_EQ(builder.push(0, 2, low, low, {kFirst}, 3), (Dependency{0, 1}));
  const Schedule schedule = std::move(builder).build();
  EXPECT_EQ(schedule.at({0, 1}).port, 3);
  EXPECT_THAT(schedule.at({0, 1}).dependencies, ElementsAre(kFirst));
}

TEST(ScheduleBuilder, MistakesAreTheUsers) {
  EXPECT_THROW(ScheduleBuilder(0), UserError);
  ScheduleBuilder builder(2);
  EXPECT_THROW(builder.push(2, 0, 0, 0), UserError);
  EXPECT_THROW(builder.pull(0, -1, 0, 0), UserError);
  EXPECT_THROW(builder.collective({}), UserError);
}

TEST(Validate, AcceptsARightSchedule) { EXPECT_EQ(error_of(exchange()), "no error"); }

TEST(Validate, IndicesInRange) {
  Schedule schedule = exchange();
  std::get<P2P>(schedule.operators[1][0].action).source_chunk = 2;
  EXPECT_EQ(error_of(schedule), "rank 1 operator 0: it names chunk 2; the schedule has chunks 0 to 1");
  schedule = exchange();
  std::get<P2P>(schedule.operators[1][0].action).destination_rank = 7;
  EXPECT_EQ(error_of(schedule), "rank 1 operator 0: the destination rank is 7; ranks count from 0 to 1");
  schedule = exchange();
  schedule.chunks[1].tensor = 1;
  EXPECT_THAT(error_of(schedule), HasSubstr("chunk [2:4] is of tensor 1; the schedule has 1 tensors"));
  schedule = exchange();
  schedule.operators[0][0].port = -1;
  EXPECT_THAT(error_of(schedule), HasSubstr("port -1; ports count from 0"));
}

TEST(Validate, OperatorsStandAtOneOfTheirRanks) {
  Schedule schedule = exchange();
  schedule.operators.emplace_back();
  std::swap(schedule.operators[0], schedule.operators[2]);
  EXPECT_THAT(error_of(schedule),
              HasSubstr("rank 2 operator 0: it moves data from rank 0 to rank 1; list it at its source"));
}

TEST(Validate, ChunksInsideTheirTensors) {
  Schedule schedule = exchange();
  schedule.chunks[1].region = {{2, 5}};
  EXPECT_EQ(error_of(schedule), "chunk [2:5] is not inside tensor 'a'; its shape is 4");
  schedule.chunks[1].region = {{2, 4}, {0, 1}};
  EXPECT_EQ(error_of(schedule), "chunk [2:4, 0:1] is not inside tensor 'a'; its shape is 4");
}

TEST(Validate, Tensors) {
  Schedule schedule = exchange();
  schedule.tensors[0].shape = {0};
  EXPECT_EQ(error_of(schedule), "tensor 'a' is 0; sizes are at least 1");
  schedule.tensors[0].shape = {};
  EXPECT_EQ(error_of(schedule), "tensor 'a' has 0 dimensions; from 1 to 5");
  schedule = exchange();
  schedule.tensors[0].after = Placement::shard(1);
  EXPECT_EQ(error_of(schedule), "tensor 'a' of 1 dimensions is shard(1); dimensions count from 0 to 0");
}

TEST(Validate, CollectivesOfOneTensor) {
  ScheduleBuilder builder(2);
  const int a = builder.chunk(builder.tensor(tensor()), {{0, 4}});
  const int b = builder.chunk(builder.tensor(tensor()), {{0, 4}});
  builder.collective({CollectiveType::all_gather, {0, 1}, {a, b}, {a, a}});
  EXPECT_THROW(std::move(builder).build(), UserError);
}

TEST(Validate, PrintsOnlyTheCycle) {
  // 0.0 waits for a cycle of three without being in it.
  ScheduleBuilder builder(4);
  const int a = builder.tensor({"a", {4}, Dtype::bf16, Placement::replicate(), Placement::replicate()});
  const int all = builder.chunk(a, {{0, 4}});
  builder.push(0, 1, all, all, {{1, 1}});
  builder.push(1, 2, all, all);
  builder.push(1, 2, all, all, {{1, 0}, {3, 0}});
  builder.push(2, 3, all, all, {{1, 1}});
  builder.push(3, 0, all, all, {{2, 0}});
  try {
    std::move(builder).build();
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "the dependencies form a cycle: rank 1 operator 1 -> rank 3 operator 0 -> rank 2 operator 0 -> rank 1 "
                 "operator 1; remove one of these dependencies");
  }
}

TEST(TopologicalOrder, RanksAdvanceTogether) {
  Schedule schedule = exchange();
  schedule.operators[0].push_back(schedule.operators[0][0]);
  schedule.operators[1].push_back(schedule.operators[1][0]);
  EXPECT_THAT(topological_order(schedule),
              ElementsAre(Dependency{0, 0}, Dependency{1, 0}, Dependency{0, 1}, Dependency{1, 1}));
  // The first operator of rank 0 waits for the last of rank 1: everything else comes as early as it can.
  schedule.operators[0][0].dependencies = {{1, 1}};
  EXPECT_THAT(topological_order(schedule),
              ElementsAre(Dependency{1, 0}, Dependency{0, 1}, Dependency{1, 1}, Dependency{0, 0}));
}

}  // namespace
}  // namespace syncopate
