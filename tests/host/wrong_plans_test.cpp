// Every way in which a plan can be wrong ends in the outcome and the words that say so, under every seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "small_plans.h"
#include "syncopate/host/host.h"

namespace syncopate {
namespace {

using test::find_signal;
using test::Route;
using test::small_plan;
using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;

RankProgram& program(Plan& plan, int rank) { return plan.programs[static_cast<std::size_t>(rank)]; }
Transfer& transfer(Plan& plan, int rank, std::size_t index) { return program(plan, rank).queues[0].transfers[index]; }

/// Runs the plan under many seeds, with and without the adversary, and expects the same outcome every time.
template <typename Matcher>
void expect_always(const Plan& plan, Outcome outcome, const Matcher& message, int repeat = 1) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    for (const bool adversary : {false, true}) {
      const RunReport report = run_on_cpu_ranks(plan, {.seed = seed, .adversary = adversary, .repeat = repeat});
      ASSERT_EQ(report.outcome, outcome) << "seed " << seed << ": " << report.message;
      ASSERT_THAT(report.message, message) << "seed " << seed;
    }
  }
}

TEST(WrongPlans, DroppedWaitOfATileIsARaceUnderEverySeed) {
  Plan plan = small_plan({.ranks = 2});
  // The last slot of rank 0 has the last chunk of rank 1: its data is nearly always there.
  Slot& slot = program(plan, 0).slots.back();
  ASSERT_EQ(slot.tile, 3);
  slot.waits.clear();
  expect_always(plan, Outcome::race,
                AllOf(HasSubstr("tile (3) on rank 0's worker 1 in launch 1 reads rank 0's a[6:7, 0:"),
                      HasSubstr("transfer 1 of rank 1's queue 'copies' (a[6:8, 0:8] of rank 1 to rank 0)"),
                      HasSubstr("nothing orders the two")));
}

TEST(WrongPlans, WaitForAnotherChunkIsARace) {
  Plan plan = small_plan({.ranks = 2, .workers = 4});
  program(plan, 0).slots[3].waits = program(plan, 0).slots[2].waits;
  expect_always(plan, Outcome::race, HasSubstr("tile (3) on rank 0's worker 3"));
}

TEST(WrongPlans, AnEarlierWaitOfTheSameWorkerCounts) {
  // One worker runs both tiles of the shard, the later chunk first: the wait for the second transfer of a queue proves
  // the first as well.
  Plan plan = small_plan({.ranks = 2, .workers = 1});
  std::swap(program(plan, 0).slots[2], program(plan, 0).slots[3]);
  program(plan, 0).slots[3].waits.clear();
  expect_always(plan, Outcome::right, "", 3);
}

TEST(WrongPlans, DroppedWaitForAPeersCompletionIsARaceInTheNextLaunch) {
  Plan plan = small_plan({.ranks = 2});
  for (Transfer& push : program(plan, 0).queues[0].transfers) push.waits.clear();
  expect_always(plan, Outcome::right, "", 1);
  // Either side of the race may be the one that notices.
  expect_always(plan, Outcome::race,
                AllOf(HasSubstr("launch 2"), HasSubstr("launch 1"), HasSubstr("rank 0's queue"), HasSubstr("rank 1's"),
                      HasSubstr("nothing orders the two")),
                2);
}

TEST(WrongPlans, CompletionWhileAPeerStillReadsIsARaceInTheSameLaunch) {
  Plan plan = small_plan({.ranks = 2, .route = Route::pull});
  program(plan, 0).completion_waits.clear();
  expect_always(plan, Outcome::race,
                AllOf(HasSubstr("of rank 1's queue 'copies' (a["), HasSubstr("in launch 1 reads rank 0's a["),
                      ContainsRegex("rank 0's caller (completes launch 1|has completed launch 1 already), and nothing "
                                    "orders the two")));
}

TEST(WrongPlans, PullBeforeTheSourceIsInPlaceIsARace) {
  Plan plan = small_plan({.ranks = 2, .route = Route::pull});
  for (Transfer& pull : program(plan, 1).queues[0].transfers) pull.waits.clear();
  expect_always(plan, Outcome::race,
                AllOf(HasSubstr("transfer 0 of rank 1's queue 'copies'"), HasSubstr("rank 0's caller"),
                      HasSubstr("reads rank 0's a[0:1, 0:")));
}

TEST(WrongPlans, ForwardingBeforeArrivalIsARace) {
  Plan plan = small_plan({.ranks = 3, .route = Route::ring, .split = 1});
  ASSERT_EQ(transfer(plan, 1, 1).waits.size(), 2U);
  transfer(plan, 1, 1).waits.pop_back();
  expect_always(plan, Outcome::race,
                AllOf(HasSubstr("transfer 1 of rank 1's queue 'copies'"), HasSubstr("reads rank 1's a[0:1, 0:"),
                      HasSubstr("transfer 0 of rank 0's queue 'copies'")));
}

TEST(WrongPlans, LoweredThresholdIsARaceUnderEverySeed) {
  Plan plan = small_plan({.ranks = 2, .counted = true});
  Slot& slot = program(plan, 0).slots.back();
  ASSERT_EQ(slot.waits.at(0).threshold, 2);
  slot.waits[0].threshold = 1;
  expect_always(plan, Outcome::race, HasSubstr("tile (3) on rank 0's worker 1"));
}

TEST(WrongPlans, PartialThresholdOfSeveralRaisersProvesNothing) {
  // Ranks 1 and 2 count into one signal of rank 0; having seen one raise says nothing about whose it was.
  Plan plan = small_plan({.ranks = 3, .split = 1, .workers = 1});
  const int first = find_signal(plan, "chunk 1 arrived at 0");
  const int second = find_signal(plan, "chunk 2 arrived at 0");
  for (RankProgram& each : plan.programs)
    for (Transfer& push : each.queues[0].transfers)
      std::replace(push.signals.begin(), push.signals.end(), second, first);
  plan.signals[static_cast<std::size_t>(first)].per_launch = 2;
  plan.signals[static_cast<std::size_t>(second)].per_launch = 0;
  std::vector<Slot>& slots = program(plan, 0).slots;
  slots[1].waits = {{first, 2}};
  slots[2].waits.clear();
  expect_always(plan, Outcome::right, "", 3);
  slots[1].waits = {{first, 1}};
  slots[2].waits = {{first, 2}};
  expect_always(plan, Outcome::race, HasSubstr("tile (1) on rank 0's worker 0"));
}

TEST(WrongPlans, SignalRaisedTooEarlyIsARace) {
  Plan plan = small_plan({.ranks = 2});
  std::swap(transfer(plan, 1, 0).signals, transfer(plan, 1, 1).signals);
  // The wait for chunk 2 is satisfied by the second transfer and proves both; the wait for chunk 3 proves too little.
  expect_always(plan, Outcome::race, HasSubstr("tile (3) on rank 0's worker 1"));
}

TEST(WrongPlans, DroppedSignalIsADeadlock) {
  Plan plan = small_plan({.ranks = 2});
  transfer(plan, 1, 1).signals.clear();
  expect_always(plan, Outcome::deadlock,
                AllOf(HasSubstr("nothing can move; 1 of 2 ranks have not completed their launches"),
                      HasSubstr("rank 0's worker 1, before tile (3) in launch 1, waits for signal 'chunk 3 arrived at "
                                "0' of rank 0 to reach 1, it is 0; nothing in the plan raises it"),
                      Not(HasSubstr("circle"))));
}

TEST(WrongPlans, DroppedSignalThatNobodyMissesYetIsReported) {
  Plan plan = small_plan({.ranks = 2});
  program(plan, 1).completion_signals.clear();
  expect_always(plan, Outcome::deadlock,
                HasSubstr("signal '1 completed, for 0' of rank 0 is raised 0 times in a launch, not 1"));
  expect_always(plan, Outcome::deadlock, HasSubstr("to reach 1, it is 0; nothing in the plan raises it"), 2);
}

TEST(WrongPlans, DoubledSignalIsReported) {
  Plan plan = small_plan({.ranks = 2});
  std::vector<int>& signals = transfer(plan, 1, 1).signals;
  signals.push_back(signals[0]);
  expect_always(plan, Outcome::race, HasSubstr("is raised 2 times in a launch, not 1"));
  expect_always(plan, Outcome::race, HasSubstr("tile (3) on rank 0's worker 1 in launch 2"), 2);
}

TEST(WrongPlans, CycleOfWaitsIsPrinted) {
  Plan plan = small_plan({.ranks = 2});
  const auto add = [&](int raiser, int waiter) {
    const int signal = static_cast<int>(plan.signals.size());
    plan.signals.push_back({"go " + std::to_string(waiter), waiter, signal_count(plan, waiter), 1, "test"});
    transfer(plan, raiser, 1).signals.push_back(signal);
    transfer(plan, waiter, 0).waits.push_back({signal, 1});
  };
  add(0, 1);
  add(1, 0);
  expect_always(plan, Outcome::deadlock,
                AllOf(HasSubstr("2 of 2 ranks"), HasSubstr("they wait in a circle:\n    rank "),
                      HasSubstr("    rank 0's queue 'copies' waits for signal 'go 0' of rank 0 to reach 1, it is 0"),
                      HasSubstr("    rank 1's queue 'copies' waits for signal 'go 1' of rank 1 to reach 1, it is 0")));
}

TEST(WrongPlans, RanksThatOvertakeASharedCounterAreARace) {
  // Ranks 1 and 2 tell rank 0 through one counter that they have completed.
  Plan plan = small_plan({.ranks = 3, .split = 1});
  const int of_one = find_signal(plan, "1 completed, for 0");
  const int of_two = find_signal(plan, "2 completed, for 0");
  for (int& signal : program(plan, 2).completion_signals)
    if (signal == of_two) signal = of_one;
  for (Transfer& push : program(plan, 0).queues[0].transfers)
    for (Wait& wait : push.waits) wait = {of_one, 0};
  plan.signals[static_cast<std::size_t>(of_one)].per_launch = 2;
  plan.signals[static_cast<std::size_t>(of_two)].per_launch = 0;
  // While rank 1 needs rank 2's chunk, it cannot complete a launch before rank 2 has completed the one before.
  expect_always(plan, Outcome::right, "", 3);

  // Now rank 1 has the whole tensor from the start, and rank 2 has rank 1's part: they need nothing of each other, so
  // rank 1 can complete launch 2 while rank 2 is still in launch 1. Rank 0 would take its two raises for one of each.
  const auto needless = [](const Transfer& push) {
    return push.destination.rank == 1 || (push.destination.rank == 2 && push.source.rank == 1);
  };
  plan.buffers[0].held[1] = {Region::whole(plan.buffers[0].shape)};
  plan.buffers[0].held[2].front()[0] = {test::kTileRows, 3 * test::kTileRows};
  for (RankProgram& each : plan.programs) {
    for (Transfer& push : each.queues[0].transfers)
      if (needless(push)) plan.signals[static_cast<std::size_t>(push.signals[0])].per_launch = 0;
    std::erase_if(each.queues[0].transfers, needless);
  }
  const auto never_raised = [&](const Wait& wait) {
    return plan.signals[static_cast<std::size_t>(wait.signal)].per_launch == 0;
  };
  for (RankProgram& each : plan.programs)
    for (Slot& slot : each.slots) std::erase_if(slot.waits, never_raised);
  expect_always(
      plan, Outcome::race,
      AllOf(HasSubstr("raises signal '1 completed, for 0' of rank 0 in launch 2, and nothing orders this after the "
                      "raise of launch 1 by rank 2's caller")),
      3);
}

TEST(WrongPlans, RegionOutsideOfTheBufferIsABadAccess) {
  Plan plan = small_plan({.ranks = 2});
  transfer(plan, 0, 1).destination.region[0] = {7, 9};
  expect_always(plan, Outcome::bad_access,
                HasSubstr("transfer 1 of rank 0's queue 'copies' (a[2:4, 0:8] of rank 0 to rank 1) in launch 1 touches "
                          "a[7:9, 0:8], which is outside of the buffer (8 x 8)"));
}

TEST(WrongPlans, UnequalSizesAreABadAccess) {
  Plan plan = small_plan({.ranks = 2});
  transfer(plan, 0, 1).source.region[0] = {2, 3};
  expect_always(plan, Outcome::bad_access, HasSubstr("copies 8 fp32 elements to 16 fp32 elements"));
  plan = small_plan({.ranks = 2});
  plan.buffers[2].dtype = Dtype::fp16;
  transfer(plan, 0, 1).destination.buffer = 2;
  expect_always(plan, Outcome::bad_access, HasSubstr("copies 16 fp32 elements to 16 fp16 elements"));
}

TEST(WrongPlans, OverlappingChunksAreASecondWrite) {
  Plan plan = small_plan({.ranks = 2});
  transfer(plan, 1, 1).source.region[0] = transfer(plan, 1, 1).destination.region[0] = {5, 7};
  expect_always(plan, Outcome::bad_access,
                AnyOf(AllOf(HasSubstr("writes rank 0's a[5:6, 0:"), HasSubstr("wrote in the same launch")),
                      // The missing row 7 may be noticed first.
                      HasSubstr("reads rank 0's a[7:8, 0:8], at fused.py:")));
}

TEST(WrongPlans, HoleIsABadAccess) {
  Plan plan = small_plan({.ranks = 2});
  for (View* view : {&transfer(plan, 1, 1).source, &transfer(plan, 1, 1).destination}) view->region[0] = {6, 7};
  expect_always(plan, Outcome::bad_access,
                AllOf(HasSubstr("tile (3) on rank 0's worker 1"), HasSubstr("reads rank 0's a[7:8, 0:8]"),
                      HasSubstr("which nothing in the plan writes")));
}

TEST(WrongPlans, TransferIntoWhatTheCallerHoldsIsASecondWrite) {
  Plan plan = small_plan({.ranks = 2});
  transfer(plan, 1, 0).destination.region = transfer(plan, 0, 0).source.region;
  expect_always(
      plan, Outcome::bad_access,
      AnyOf(HasSubstr("which rank 0's caller, putting the inputs of launch 1 in place wrote in the same launch"),
            HasSubstr("which transfer 0 of rank 1's queue"), HasSubstr("nothing in the plan writes")));
}

TEST(WrongPlans, ForgottenTileLeavesAnOutputUnwritten) {
  Plan plan = small_plan({.ranks = 2});
  program(plan, 1).slots.erase(program(plan, 1).slots.begin());
  expect_always(
      plan, Outcome::bad_access,
      HasSubstr("rank 1's caller, taking the outputs of launch 1 reads rank 1's c[4:5, 0:8], which nothing in "
                "the plan writes"));
}

TEST(WrongPlans, TileThatRunsTwiceIsASecondWrite) {
  Plan plan = small_plan({.ranks = 2});
  program(plan, 1).slots.push_back(program(plan, 1).slots.front());
  expect_always(plan, Outcome::bad_access,
                AllOf(HasSubstr("tile (2) on rank 1's worker 0 in launch 1 writes rank 1's c[4:5, 0:8], at fused.py:"),
                      HasSubstr("wrote in the same launch")));
}

TEST(WrongPlans, WrongDataIsAWrongResult) {
  Plan plan = small_plan({.ranks = 2});
  std::swap(transfer(plan, 1, 0).source, transfer(plan, 1, 1).source);
  expect_always(
      plan, Outcome::wrong_result,
      AllOf(HasSubstr("rank 0, launch 1: c["), HasSubstr("of tile ("), HasSubstr("but the unfused operator gives")));
  EXPECT_EQ(run_on_cpu_ranks(plan, {.compare = false}).outcome, Outcome::right);
}

TEST(WrongPlans, KernelThatReadsItsOwnOutputFirstIsABadAccess) {
  Plan plan = small_plan({.ranks = 1});
  std::string& source = plan.kernel.fused_source;
  const std::string load = "tl.load(a_ptr + offsets)";
  source.replace(source.find(load), load.size(), "tl.load(c_ptr + offsets)");
  expect_always(plan, Outcome::bad_access,
                AllOf(HasSubstr("reads rank 0's c["), HasSubstr("which nothing in the plan writes")));
}

TEST(WrongPlans, KernelOutsideOfABufferIsABadAccess) {
  Plan plan = small_plan({.ranks = 1});
  std::string& source = plan.kernel.fused_source;
  const std::string load = "tl.load(a_ptr + offsets)";
  source.replace(source.find(load), load.size(), "tl.load(a_ptr + offsets + 40)");
  expect_always(plan, Outcome::bad_access,
                AllOf(HasSubstr("of rank 0's a, which has 32 (4 x 8)"), HasSubstr("at fused.py:")));
}

TEST(WrongPlans, BrokenReferencesAreNamed) {
  const auto expect = [](auto&& damage, const std::string& message) {
    Plan plan = small_plan({.ranks = 2});
    damage(plan);
    const RunReport report = run_on_cpu_ranks(plan, {});
    EXPECT_EQ(report.outcome, Outcome::bad_access);
    EXPECT_THAT(report.message, HasSubstr(message));
  };
  expect([](Plan& plan) { transfer(plan, 0, 1).source.buffer = 3; },
         "transfer 1 of queue 'copies' names buffer 3 of 3");
  expect([](Plan& plan) { transfer(plan, 0, 1).source.rank = 2; }, "names rank 2 of 2");
  expect([](Plan& plan) { transfer(plan, 0, 1).source.rank = 1; },
         "transfer 1 of queue 'copies' of rank 0 moves data from rank 1 to rank 1");
  expect([](Plan& plan) { transfer(plan, 0, 1).source.region = {{0, 2}}; }, "names a[0:2], which has 2 dimensions");
  expect([](Plan& plan) { transfer(plan, 0, 1).signals = {99}; }, "raises signal 99 of 6");
  expect([](Plan& plan) { program(plan, 0).slots[0].waits = {{-1, 1}}; }, "a tile waits for signal -1 of 6");
  expect([](Plan& plan) { program(plan, 1).completion_waits = {{find_signal(plan, "1 completed, for 0"), 1}}; },
         "the caller of rank 1 waits for signal '1 completed, for 0', which lives on rank 0");
  expect([](Plan& plan) { program(plan, 0).slots[0].tile = 4; }, "rank 0 runs tile 4 of 4");
  expect([](Plan& plan) { plan.signals[1].slot = 7; }, "flag 7");
  expect([](Plan& plan) { plan.signals[1] = plan.signals[0]; }, "shares flag 0");
  expect([](Plan& plan) { plan.programs.pop_back(); }, "1 rank programs for 2 ranks");
  expect([](Plan& plan) { plan.buffers[0].held.pop_back(); }, "buffer a has 1 held regions for 2 ranks");
  expect([](Plan& plan) { plan.buffers[0].held[1] = {Region{{4, 9}, {0, 8}}}; },
         "a[4:9, 0:8] is held but not in the buffer");
  expect([](Plan& plan) { plan.tiles[2].index.clear(); }, "tile 2 has 0 indices for 1 axes");
  expect([](Plan& plan) { plan.tiles[2].writes[0].region[0] = {8, 10}; }, "tile 2 touches c[8:10, 0:8]");
  expect([](Plan& plan) { plan.workers = 0; }, "the plan has no workers");
}

}  // namespace
}  // namespace syncopate
