// Plans with a reduced output: right ones run right under every seed and the adversary; wrong ones are found, and the
// message says what is wrong.
#include "syncopate/plan/sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "small_sums.h"
#include "syncopate/host/host.h"

namespace syncopate {
namespace {

using test::small_sum_plan;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Options = syncopate::testing::ReduceOptions;
using Route = syncopate::testing::Route;

constexpr std::size_t kC = 2;

RankProgram& program(Plan& plan, int rank) { return plan.programs[static_cast<std::size_t>(rank)]; }

std::vector<float> floats(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = load_element(bytes.data() + 2 * i, Dtype::bf16);
  return values;
}

/// The sum of the ranks' products, in integers.
std::vector<long> sum_of_products(const Plan& plan, const LaunchData& data) {
  const auto rows = static_cast<std::size_t>(plan.buffers[0].shape[0]);
  const auto inner = static_cast<std::size_t>(plan.buffers[0].shape[1]);
  const auto columns = static_cast<std::size_t>(plan.buffers[1].shape[1]);
  std::vector<long> sum(rows * columns, 0);
  for (const std::vector<Bytes>& inputs : data.inputs) {
    const std::vector<float> a = floats(inputs[0]);
    const std::vector<float> b = floats(inputs[1]);
    for (std::size_t m = 0; m < rows; ++m)
      for (std::size_t n = 0; n < columns; ++n)
        for (std::size_t k = 0; k < inner; ++k)
          sum[m * columns + n] += static_cast<long>(a[m * inner + k]) * static_cast<long>(b[k * columns + n]);
  }
  return sum;
}

void expect_summed(const Plan& plan, const LaunchData& data) {
  const std::vector<long> all = sum_of_products(plan, data);
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < data.outputs.size(); ++rank) {
    EXPECT_TRUE(data.inputs[rank][kC].empty());
    const std::vector<float> mine = floats(data.outputs[rank][kC]);
    const Region part = output_region(plan, static_cast<int>(kC), static_cast<int>(rank));
    ASSERT_EQ(static_cast<std::int64_t>(mine.size()), part.volume()) << "rank " << rank;
    for (const float value : mine) ASSERT_EQ(value, static_cast<float>(all[at++])) << "rank " << rank;
  }
  EXPECT_EQ(at, all.size()) << "the shards cover the output";
}

struct Case {
  const char* name;
  Options options;
};

class RightSums : public ::testing::TestWithParam<Case> {};

TEST_P(RightSums, AreRightUnderEverySeedAndTheAdversary) {
  const Plan plan = small_sum_plan(GetParam().options);
  std::int64_t slots = 0;
  for (const RankProgram& each : plan.programs) slots += static_cast<std::int64_t>(each.slots.size());
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    for (const bool adversary : {false, true}) {
      const RunReport report = run_on_cpu_ranks(plan, {.seed = seed, .adversary = adversary, .repeat = 3});
      ASSERT_EQ(report.outcome, Outcome::right) << "seed " << seed << ": " << report.message;
      ASSERT_EQ(report.tiles, 3 * slots);
      expect_summed(plan, report.last);
    }
  }
  const RunReport reals = run_on_cpu_ranks(plan, {.repeat = 2, .inputs = InputKind::reals});
  EXPECT_EQ(reals.outcome, Outcome::right) << "bit by bit in the stated order: " << reals.message;
}

INSTANTIATE_TEST_SUITE_P(
    Small, RightSums,
    ::testing::Values(
        Case{"alone", {.ranks = 1}}, Case{"push2", {.ranks = 2}}, Case{"push2_one_worker", {.ranks = 2, .workers = 1}},
        Case{"push3_ragged", {.ranks = 3, .rows = 23, .columns = 7, .split = 3}},
        Case{"push4_small_shards", {.ranks = 4, .rows = 10, .split = 2, .workers = 2}},
        Case{"push4_empty_shard", {.ranks = 4, .rows = 9, .tile_rows = 2, .split = 1}},
        Case{"push3_reuse1", {.ranks = 3, .rows = 25, .split = 4, .staging_slots = 1}},
        Case{"push2_reuse2", {.ranks = 2, .rows = 24, .split = 5, .workers = 1, .staging_slots = 2}},
        Case{"pull2", {.ranks = 2, .route = Route::direct_pull, .rows = 18}},
        Case{"pull4_ragged", {.ranks = 4, .route = Route::direct_pull, .rows = 22, .columns = 5, .workers = 5}},
        Case{"pull3_reuse", {.ranks = 3, .route = Route::direct_pull, .rows = 25, .split = 4, .staging_slots = 1}},
        Case{"ring2", {.ranks = 2, .route = Route::ring_push}},
        Case{"ring3", {.ranks = 3, .route = Route::ring_push, .rows = 23}},
        Case{"ring4_pull", {.ranks = 4, .route = Route::ring_pull, .rows = 26, .workers = 1}},
        Case{"ring5", {.ranks = 5, .route = Route::ring_push, .rows = 16, .columns = 4, .split = 1}}),
    [](const auto& example) { return std::string(example.param.name); });

TEST(Sums, UnfusedMeaningRoundsEachSummand) {
  // With reals a sum of rounded summands is not the rounded sum: the reference must be the former.
  const Plan plan = small_sum_plan({.ranks = 3, .rows = 24, .inner = 16});
  const RunReport report = run_on_cpu_ranks(plan, {.inputs = InputKind::reals});
  ASSERT_EQ(report.outcome, Outcome::right) << report.message;
  std::vector<std::vector<Bytes>> unfused;
  for (int rank = 0; rank < plan.ranks; ++rank)
    unfused.push_back(run_unfused(plan, rank, report.last.inputs[static_cast<std::size_t>(rank)]));
  EXPECT_EQ(unfused[0][kC].size(), 24U * 8 * 2) << "the whole summand";
  EXPECT_TRUE(unfused[0][3].empty()) << "no staging";
  const auto expected = operator_outputs(plan, unfused);
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(expected[rank][kC], report.last.outputs[rank][kC]);
  int different = 0;
  for (std::size_t i = 0; i < 8 * 8; ++i) {
    double exact = 0;
    for (const std::vector<Bytes>& inputs : report.last.inputs) {
      const std::vector<float> a = floats(inputs[0]);
      const std::vector<float> b = floats(inputs[1]);
      for (std::size_t k = 0; k < 16; ++k)
        exact += static_cast<double>(a[i / 8 * 16 + k]) * static_cast<double>(b[k * 8 + i % 8]);
    }
    const float got = floats(expected[0][kC])[i];
    EXPECT_NEAR(got, exact, 0.1);
    different += got != round_to(static_cast<float>(exact), Dtype::bf16);
  }
  EXPECT_GT(different, 0);
}

// ---- plan/sums.h by itself ----

Plan one_sum(Dtype dtype, int ranks, SumOrder order) {
  Plan plan;
  plan.ranks = ranks;
  Buffer c;
  c.name = "c";
  c.shape = {2, 2};
  c.dtype = dtype;
  c.inside = Placement::partial_sum();
  c.after = Placement::shard(0);
  c.held.assign(static_cast<std::size_t>(ranks), {Region{{0, 0}, {0, 0}}});
  plan.buffers = {c};
  plan.programs.resize(static_cast<std::size_t>(ranks));
  plan.sums.push_back({1, 0, {{1, 2}, {0, 2}}, std::move(order)});
  return plan;
}

/// Rank 1's sum, its second row, of what the ranks have there.
std::vector<float> summed(Dtype dtype, const std::vector<std::vector<float>>& summands, SumOrder order) {
  const auto size = static_cast<std::size_t>(size_in_bytes(dtype));
  std::vector<std::vector<Bytes>> unfused;
  for (const std::vector<float>& values : summands) {
    Bytes bytes = poison(dtype, 4);
    for (std::size_t i = 0; i < 2; ++i) {
      const double wide = static_cast<double>(values[i]);
      if (dtype == Dtype::fp64)
        std::memcpy(bytes.data() + (2 + i) * size, &wide, sizeof wide);
      else
        store_element(bytes.data() + (2 + i) * size, dtype, values[i]);
    }
    unfused.push_back({bytes});
  }
  const Plan plan = one_sum(dtype, static_cast<int>(summands.size()), std::move(order));
  const Bytes result = operator_outputs(plan, unfused)[1][0];
  EXPECT_EQ(result.size(), 2 * size) << "only the rank's own row";
  std::vector<float> values;
  for (std::size_t i = 0; i < 2; ++i) {
    double wide = 0;
    if (dtype == Dtype::fp64)
      std::memcpy(&wide, result.data() + i * size, sizeof wide);
    else
      wide = static_cast<double>(load_element(result.data() + i * size, dtype));
    values.push_back(static_cast<float>(wide));
  }
  return values;
}

SumOrder leaf(int rank) { return {rank, {}}; }

TEST(SumOrders, AreAddedFromTheFirstToTheLastInFp32AndRoundedOnce) {
  const float big = 0x1p24F;
  // In fp32 (big + 1) + 1 is big, and (1 + 1) + big is not.
  for (const Dtype dtype : {Dtype::fp32, Dtype::fp64}) {
    EXPECT_EQ(summed(dtype, {{big, 0}, {1, 0}, {1, 0}}, {0, {leaf(0), leaf(1), leaf(2)}})[0], big);
    EXPECT_EQ(summed(dtype, {{big, 0}, {1, 0}, {1, 0}}, {0, {leaf(1), leaf(2), leaf(0)}})[0], big + 2);
  }
  // In bf16 256 + 1 is a tie that rounds to 256; fp32 keeps it until the end.
  EXPECT_EQ(summed(Dtype::bf16, {{256, 0}, {1, 0}, {1, 0}}, {0, {leaf(0), leaf(1), leaf(2)}})[0], 258);
  EXPECT_EQ(summed(Dtype::bf16, {{256, 0}, {1, 0}, {1, 0}}, {0, {{0, {leaf(0), leaf(1)}}, leaf(2)}})[0], 256)
      << "each node rounds";
  EXPECT_EQ(summed(Dtype::fp16, {{2048, 3}, {1, 5}, {1, 7}}, {0, {{0, {leaf(0), leaf(1)}}, leaf(2)}}),
            (std::vector<float>{2048, 15}));
}

TEST(SumOrders, StartFromPlusZeroUnlessTheyAreALeaf) {
  const std::vector<float> sum = summed(Dtype::bf16, {{-0.0F, 1}, {-0.0F, 2}}, {0, {leaf(0), leaf(1)}});
  EXPECT_FALSE(std::signbit(sum[0]));
  const std::vector<float> single = summed(Dtype::bf16, {{5, 5}, {-0.0F, 2}}, leaf(1));
  EXPECT_TRUE(std::signbit(single[0])) << "as it was stored";
  EXPECT_EQ(single[1], 2);
}

TEST(SumOrders, WhatNoSumStatesIsPoison) {
  Plan plan = one_sum(Dtype::bf16, 2, leaf(0));
  plan.sums.clear();
  const auto outputs = operator_outputs(plan, {{Bytes(8)}, {Bytes(8)}});
  for (const float value : floats(outputs[1][0])) EXPECT_TRUE(std::isnan(value));
}

// ---- wrong plans ----

void expect_always(const Plan& plan, Outcome outcome, const ::testing::Matcher<const std::string&>& message,
                   int repeat = 1) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    for (const bool adversary : {false, true}) {
      const RunReport report = run_on_cpu_ranks(plan, {.seed = seed, .adversary = adversary, .repeat = repeat});
      ASSERT_EQ(report.outcome, outcome) << "seed " << seed << ", adversary " << adversary << ": " << report.message;
      ASSERT_THAT(report.message, message) << "seed " << seed;
    }
  }
}

/// The first slot of a rank that adds, and the first that raises.
Slot& adding_slot(Plan& plan, int rank) {
  for (Slot& slot : program(plan, rank).slots)
    if (!slot.sum_waits.empty()) return slot;
  throw InternalError("no slot adds");
}
Slot& raising_slot(Plan& plan, int rank) {
  for (Slot& slot : program(plan, rank).slots)
    if (!slot.signals.empty()) return slot;
  throw InternalError("no slot raises");
}
std::vector<Transfer>& transfers(Plan& plan, int rank) { return program(plan, rank).queues[0].transfers; }

/// What transfer `index` of `rank` waits for, apart from waits for an earlier launch.
std::vector<Wait>::iterator wait_in_launch(Transfer& transfer) {
  return std::find_if(transfer.waits.begin(), transfer.waits.end(),
                      [](const Wait& wait) { return wait.threshold > 0; });
}

TEST(WrongSums, DroppedWaitForSummandsIsARace) {
  Plan plan = small_sum_plan({.ranks = 2});
  adding_slot(plan, 0).sum_waits.clear();
  expect_always(plan, Outcome::race,
                AllOf(HasSubstr("on rank 0's worker"), HasSubstr("reads rank 0's c_staging["),
                      HasSubstr("nothing orders the two"), HasSubstr("transfer")));
}

TEST(WrongSums, TransferBeforeTheTilesThatFillItIsARace) {
  for (const Route route : {Route::direct_push, Route::direct_pull}) {
    Plan plan = small_sum_plan({.ranks = 2, .route = route});
    Transfer& first = transfers(plan, 0)[0];
    first.waits.erase(wait_in_launch(first));
    expect_always(plan, Outcome::race,
                  AllOf(HasSubstr("transfer 0 of rank 0's queue"),
                        HasSubstr(route == Route::direct_push ? "reads rank 0's c[" : "reads rank 1's c["),
                        HasSubstr("nothing orders the two"), HasSubstr("tile (")));
  }
}

TEST(WrongSums, LoweredCountOfTilesProvesNothing) {
  Plan plan = small_sum_plan({.ranks = 2, .workers = 4});
  Wait& wait = *wait_in_launch(transfers(plan, 0)[0]);
  ASSERT_EQ(wait.threshold, 2) << "two tiles fill the chunk";
  wait.threshold = 1;
  expect_always(plan, Outcome::race, AllOf(HasSubstr("reads rank 0's c["), HasSubstr("tile (")));
}

TEST(WrongSums, ARaiseThatIsHeldBackSaysNothingOfLaterTiles) {
  // One worker stores both tiles of the chunk before it waits for anything: then the adversary lets its raise be seen.
  Plan plan = small_sum_plan({.ranks = 2, .workers = 1});
  std::vector<Slot>& slots = program(plan, 0).slots;
  ASSERT_EQ(slots[0].signals, slots[1].signals);
  slots[1].signals.clear();
  Wait& wait = *wait_in_launch(transfers(plan, 0)[0]);
  wait.threshold = plan.signals[static_cast<std::size_t>(wait.signal)].per_launch = 1;
  expect_always(plan, Outcome::race,
                AllOf(HasSubstr("transfer 0 of rank 0's queue"), HasSubstr("reads rank 0's c[8:"),
                      HasSubstr("tile (2, 1)"), HasSubstr("nothing orders the two")));
}

TEST(WrongSums, ARaiseSpeaksForTheTilesOfItsWorkerBefore) {
  // The second tile of the chunk raises for both: the worker of the first one has it, too, or it has not.
  for (const int workers : {1, 2}) {
    Plan plan = small_sum_plan({.ranks = 2, .workers = workers});
    std::vector<Slot>& slots = program(plan, 0).slots;
    ASSERT_EQ(slots[0].signals, slots[1].signals);
    slots[0].signals.clear();
    Wait& wait = *wait_in_launch(transfers(plan, 0)[0]);
    ASSERT_EQ(wait.threshold, 2);
    wait.threshold = plan.signals[static_cast<std::size_t>(wait.signal)].per_launch = 1;
    if (workers == 1) {
      expect_always(plan, Outcome::right, ::testing::_, 2);
    } else {
      expect_always(plan, Outcome::race,
                    AllOf(HasSubstr("transfer 0 of rank 0's queue"), HasSubstr("reads rank 0's c[8:"),
                          HasSubstr("tile (2, 0)"), HasSubstr("nothing orders the two")));
    }
  }
}

TEST(WrongSums, TileThatDoesNotRaiseIsADeadlockOfThoseThatNeedIt) {
  Plan plan = small_sum_plan({.ranks = 2, .workers = 1});
  raising_slot(plan, 0).signals.clear();
  expect_always(
      plan, Outcome::deadlock,
      AllOf(HasSubstr("rank 1's worker 0, before adding to tile (2, 0) in launch 1, waits for signal 'chunk 1.0 "
                      "from 0 to 1 arrived' of rank 1 to reach 1, it is 0"),
            HasSubstr("transfer 0 of rank 0's queue 'rank 0 queue' (c[8:12, 0:8] of rank 0 to rank 1) in launch "
                      "1 waits for signal 'chunk 1.0 from 0 to 1 stored' of rank 0 to reach 2, it is 1")));
}

TEST(WrongSums, TilesThatWaitForEachOtherAreACircle) {
  // Each rank begins with the tile that wants what the other one would send away afterwards.
  Plan plan = small_sum_plan({.ranks = 2, .rows = 8, .columns = 4, .split = 1, .workers = 1});
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<Slot>& slots = program(plan, rank).slots;
    ASSERT_EQ(slots.size(), 2U);
    std::swap(slots[0], slots[1]);
  }
  expect_always(plan, Outcome::deadlock,
                AllOf(HasSubstr("2 of 2 ranks"), HasSubstr("they wait in a circle:\n    rank "),
                      HasSubstr("    rank 0's worker 0 waits for signal 'chunk 0.0 from 1 to 0 arrived'"),
                      HasSubstr("    rank 1's worker 0 waits for signal 'chunk 1.0 from 0 to 1 arrived'"),
                      HasSubstr("    rank 0's queue"), HasSubstr("    rank 1's queue"),
                      HasSubstr("rank 0's worker 0, before adding to tile (0, 0) in launch 1,")));
}

TEST(WrongSums, DroppedAddendIsAWrongResult) {
  Plan plan = small_sum_plan({.ranks = 3});
  Slot& slot = adding_slot(plan, 2);
  slot.addends.pop_back();
  slot.own_place = static_cast<int>(slot.addends.size());
  expect_always(plan, Outcome::wrong_result, AllOf(HasSubstr("rank 2, launch 1: c["), HasSubstr("unfused operator")));
}

TEST(WrongSums, DifferencesArePlacedInTheWholeOutput) {
  Plan plan = small_sum_plan({.ranks = 2, .rows = 16, .columns = 4, .workers = 1});
  std::vector<Slot>& slots = program(plan, 1).slots;
  Slot& last = slots.back();
  ASSERT_EQ(plan.tiles[static_cast<std::size_t>(last.tile)].index, (std::vector<std::int64_t>{3, 0}));
  last.addends.clear();
  last.own_place = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const RunReport report = run_on_cpu_ranks(plan, {.seed = seed});
    ASSERT_EQ(report.outcome, Outcome::wrong_result);
    EXPECT_THAT(report.message, ::testing::ContainsRegex("rank 1, launch 1: c\\[1[2-5], [0-3]\\] of tile \\(3, 0\\)"));
  }
}

TEST(WrongSums, RoundingInBetweenShowsInReals) {
  Plan plan = small_sum_plan({.ranks = 3, .rows = 24});
  for (Sum& sum : plan.sums) {
    const std::vector<SumOrder> terms = sum.order.terms;
    sum.order.terms = {{0, {terms[0], terms[1]}}, terms[2]};
  }
  EXPECT_EQ(run_on_cpu_ranks(plan, {}).outcome, Outcome::right) << "integers are exact in any order";
  EXPECT_EQ(run_on_cpu_ranks(plan, {.inputs = InputKind::reals}).outcome, Outcome::wrong_result);
}

TEST(WrongSums, TilesThatKeepTooMuchOrTooLittle) {
  const Options options = {.ranks = 2, .rows = 12, .columns = 4};  // the shards meet in the middle of a tile
  Plan plan = small_sum_plan(options);
  const auto cut = std::find_if(program(plan, 0).slots.begin(), program(plan, 0).slots.end(),
                                [](const Slot& slot) { return slot.kept.dimensions() > 0; });
  ASSERT_NE(cut, program(plan, 0).slots.end());
  ASSERT_EQ(cut->kept, (Region{{6, 8}, {0, 4}}));
  cut->kept = {};
  expect_always(plan, Outcome::bad_access,
                AllOf(HasSubstr("writes rank 0's c["), HasSubstr("wrote in the same launch"),
                      HasSubstr("tile (1, 0) cut to [4:6, 0:4]")));
  cut->kept = {{7, 8}, {0, 4}};
  expect_always(plan, Outcome::bad_access,
                AllOf(HasSubstr("reads rank 0's c[6:7, 0:"), HasSubstr("which nothing in the plan")));
}

TEST(WrongSums, MemoryThatIsStillNeededIsNotReused) {
  Plan plan = small_sum_plan({.ranks = 2, .rows = 24, .split = 3, .staging_slots = 1});
  int dropped = 0;
  for (Transfer& transfer : transfers(plan, 0)) {
    dropped += static_cast<int>(std::erase_if(transfer.waits, [&](const Wait& wait) {
      return plan.signals[static_cast<std::size_t>(wait.signal)].name.ends_with("added");
    }));
  }
  ASSERT_EQ(dropped, 2);
  expect_always(plan, Outcome::race, HasSubstr("rank 1's c_staging["));
}

TEST(WrongSums, StagingOfTheNextLaunchWaitsForThisOne) {
  Plan plan = small_sum_plan({.ranks = 2});
  Transfer& first = transfers(plan, 0)[0];
  std::erase_if(first.waits, [](const Wait& wait) { return wait.threshold == 0; });
  expect_always(plan, Outcome::right, "", 1);
  expect_always(plan, Outcome::race, AllOf(HasSubstr("rank 1's c_staging["), HasSubstr("launch 2")), 2);
}

TEST(WrongSums, CompletionBeforeAPeerHasTakenItsSummandsIsARace) {
  Plan plan = small_sum_plan({.ranks = 2, .route = Route::direct_pull});
  program(plan, 0).completion_waits.clear();
  expect_always(plan, Outcome::race,
                AllOf(HasSubstr("of rank 1's queue"), HasSubstr("reads rank 0's c["), HasSubstr("rank 0's caller")));
}

TEST(WrongSums, RaisesThatThePlanDoesNotKnowAreBadAccesses) {
  const auto expect = [](const std::string& raise, const std::string& message) {
    Plan plan = small_sum_plan({.ranks = 2});
    std::string& source = plan.kernel.fused_source;
    const std::string publish = "        syncopate_publish()\n";
    source.insert(source.find(publish), "        " + raise + "\n");
    const RunReport report = run_on_cpu_ranks(plan, {});
    EXPECT_EQ(report.outcome, Outcome::bad_access);
    EXPECT_THAT(report.message, AllOf(HasSubstr(message), HasSubstr("at fused.py:")));
  };
  expect("syncopate_raise(syncopate_peers, 2, 0)", "raises flag 0 of rank 2, which is no signal");
  expect("syncopate_raise(syncopate_peers, 1, 99)", "raises flag 99 of rank 1, which is no signal");
  expect("syncopate_raise(syncopate_flags, 0, 0)", "raises something that is not a flag");
  expect("syncopate_raise(syncopate_peers, 1 - syncopate_rank, 0)", "and the plan does not say so");
}

TEST(WrongSums, LocalKernelsRaiseNothing) {
  Plan plan = small_sum_plan({.ranks = 1});
  plan.kernel.local_source = plan.kernel.fused_source;
  std::string& source = plan.kernel.local_source;
  source +=
      "\n\n@triton.jit\ndef product(a_ptr, b_ptr, c_ptr, M, N, K, TILE_M: tl.constexpr, TILE_N: tl.constexpr):\n"
      "    syncopate_raise(a_ptr, 0, 0)\n";
  try {
    run_on_cpu_ranks(plan, {});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the local kernel raises a signal"));
    EXPECT_EQ(error.where().file, "product.py");
  }
}

TEST(WrongSums, BrokenReferencesAreNamed) {
  const auto expect = [](auto&& damage, const std::string& message) {
    Plan plan = small_sum_plan({.ranks = 2});
    damage(plan);
    const RunReport report = run_on_cpu_ranks(plan, {});
    EXPECT_EQ(report.outcome, Outcome::bad_access);
    EXPECT_THAT(report.message, HasSubstr(message));
  };
  expect([](Plan& plan) { adding_slot(plan, 0).sum_waits[0].signal = 99; }, "a tile waits for signal 99 of");
  expect([](Plan& plan) { adding_slot(plan, 0).sum_waits = adding_slot(plan, 1).sum_waits; },
         "a tile of rank 0 waits for signal");
  expect([](Plan& plan) { raising_slot(plan, 0).signals = {-1}; }, "a tile raises signal -1 of");
  expect([](Plan& plan) { adding_slot(plan, 1).own_place = -1; }, "adds its own value after -1 of 1 addends");
  expect([](Plan& plan) { adding_slot(plan, 1).own_place = 2; }, "adds its own value after 2 of 1 addends");
  expect([](Plan& plan) { adding_slot(plan, 1).addends[0].source = {{0, 2}}; },
         "an addend names c_staging[0:2], which has 2 dimensions");
  expect([](Plan& plan) { adding_slot(plan, 1).addends[0].target = {{15, 17}, {0, 8}}; },
         "an addend touches c[15:17, 0:8], which is outside of the buffer");
  expect([](Plan& plan) { raising_slot(plan, 1).kept = {{0, 2}, {0, 9}}; }, "what a tile keeps touches c[0:2, 0:9]");
  expect([](Plan& plan) { plan.sums[0].rank = 2; }, "a sum is for rank 2 of 2");
  expect([](Plan& plan) { plan.sums[0] = {0, 0, {{0, 2}, {0, 2}}, {}}; },
         "the sum of rank 0 is of a, which is not reduced");
  expect([](Plan& plan) { plan.sums[0].region[0] = {9, 17}; }, "the sum of rank 0 touches c[9:17, 0:8]");
  expect([](Plan& plan) { plan.sums[0].order.terms[1].rank = 2; }, "adds the summand of rank 2 of 2");
  expect([](Plan& plan) { plan.buffers[3].partner = 1; }, "buffer c_staging is for summands of buffer 1");
  expect([](Plan& plan) { plan.buffers[1].inside = Placement::partial_sum(); }, "several buffers are reduced");
  expect([](Plan& plan) { plan.buffers[1].role = BufferRole::staging; }, "there are several staging buffers");
  expect([](Plan& plan) { plan.buffers[2].after = Placement::shard(2); }, "no dimension 2 to be left in shards of");
  expect([](Plan& plan) { plan.buffers[3].role = BufferRole::kernel; }, "adds from no staging buffer");
  expect(
      [](Plan& plan) {
        plan.buffers[2].inside = Placement::replicate();
        plan.buffers[3].role = BufferRole::kernel;
        plan.sums.clear();
      },
      "a tile of rank 0 raises signals, and no output leaves its rank");
  expect(
      [](Plan& plan) {
        plan.buffers[2].inside = Placement::replicate();
        plan.buffers[3].role = BufferRole::kernel;
        plan.sums.clear();
        for (RankProgram& program : plan.programs)
          for (Slot& slot : program.slots) slot.signals.clear();
      },
      "a tile of rank 0 has to do with sums, and no buffer is reduced");
}

}  // namespace
}  // namespace syncopate
