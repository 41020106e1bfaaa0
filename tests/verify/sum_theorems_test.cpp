// Each theorem has plans with reduced outputs that break it, and the counter-example says who, where, in which order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "syncopate/verify/verify.h"
#include "tests/support/plan_builder.h"
#include "tests/support/reduce_builder.h"

namespace syncopate {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReduceOptions;
using testing::Route;
using testing::signal_called;

Plan right(Route route = Route::direct_push, int ranks = 2) {
  ReduceOptions options;
  options.route = route;
  options.ranks = ranks;
  options.rows = 8 * ranks;
  options.columns = 4;
  options.workers = 2;
  return testing::hand_made_reduce(options);
}

/// Room for one chunk of each source: the second comes when the first has been added.
Plan with_reuse() {
  ReduceOptions options;
  options.columns = 4;
  options.workers = 2;
  options.staging_slots = 1;
  return testing::hand_made_reduce(options);
}

Transfer& transfer(Plan& plan, std::size_t rank, std::size_t position) {
  return plan.programs[rank].queues[0].transfers[position];
}

Slot& slot(Plan& plan, std::size_t rank, std::size_t number) { return plan.programs[rank].slots[number]; }

/// The counter-example of one theorem; a failure if that theorem was not examined or holds.
std::string refutation(const Plan& plan, const std::string& theorem) {
  const Proof proof = verify(plan);
  EXPECT_FALSE(proof.holds());
  for (const Theorem& each : proof.theorems)
    if (each.name == theorem) return each.holds ? "it holds: " + each.evidence : each.counterexample;
  return "not examined:\n" + proof.to_string();
}

std::vector<std::string> refuted(const Plan& plan) {
  std::vector<std::string> names;
  for (const Theorem& theorem : verify(plan).theorems)
    if (!theorem.holds) names.push_back(theorem.name);
  return names;
}

TEST(SumForm, OneReducedBufferAndOneForItsSummands) {
  Plan plan = right();
  plan.buffers[1].inside = Placement::partial_sum();
  plan.buffers[1].held.assign(2, {Region{{0, 0}, {0, 0}}});
  EXPECT_EQ(refutation(plan, "form"), "b and c are both reduced buffers; a plan has at most one");
  plan = right();
  plan.buffers.push_back(plan.buffers[3]);
  plan.buffers[4].name = "more";
  EXPECT_EQ(refutation(plan, "form"), "c_staging and more are both staging buffers; a plan has at most one");
  plan = right();
  plan.buffers[3].partner = 0;
  EXPECT_EQ(refutation(plan, "form"),
            "buffer c_staging is to receive summands of buffer number 0, which is not reduced");
  plan = right();
  plan.buffers[3].dtype = Dtype::fp32;
  EXPECT_EQ(refutation(plan, "form"), "buffer c_staging has fp32 elements and receives summands of c, which has bf16");
  plan = right();
  plan.buffers[2].after = Placement::partial_sum();
  EXPECT_EQ(refutation(plan, "form"), "buffer c holds partial sums, which nothing says how to add up");
  plan = right();
  plan.buffers[3].held[1] = {Region{{0, 8}, {0, 4}}};
  EXPECT_EQ(refutation(plan, "form"), "the caller puts something into buffer c_staging, which the operator fills");
}

TEST(SumForm, SumsNameEveryRankOnceAndCoverTheOutput) {
  Plan plan = right();
  plan.sums[1].order.terms[1].rank = 0;
  EXPECT_EQ(refutation(plan, "form"), "the order of a sum on rank 1 names rank 0, which is there twice");
  plan.sums[1].order.terms[1].rank = 2;
  EXPECT_EQ(refutation(plan, "form"), "the order of a sum on rank 1 names rank 2, which does not exist");
  plan.sums[1].order.terms.pop_back();
  EXPECT_EQ(refutation(plan, "form"), "the order of a sum on rank 1 has a sum of one term");
  plan.sums[1].order = {1, {}};
  EXPECT_EQ(refutation(plan, "form"), "the order of a sum on rank 1 leaves out rank 0");
  plan = right();
  plan.sums[0].region = {{0, 9}, {0, 4}};
  EXPECT_EQ(refutation(plan, "form"), "a sum on rank 0 is said of c[0:9, 0:4]; the rank's output is [0:8, 0:4]");
  plan.sums[0].region = {{0, 7}, {0, 4}};
  EXPECT_EQ(refutation(plan, "form"), "nothing says what the sum in c[7:8, 0:4] on rank 0 is");
  plan = right();
  plan.sums.push_back(plan.sums[0]);
  EXPECT_EQ(refutation(plan, "form"), "two sums are said of c[0:8, 0:4] on rank 0");
  plan.sums[2].buffer = 1;
  EXPECT_EQ(refutation(plan, "form"), "a sum is said of buffer number 1, which is not reduced");
}

TEST(SumForm, SummandsGoFromTheReducedBufferToTheStagingBuffer) {
  Plan plan = right();
  transfer(plan, 0, 0).destination.buffer = 2;
  transfer(plan, 0, 0).destination.region = transfer(plan, 0, 0).source.region;
  EXPECT_EQ(refutation(plan, "form"),
            "transfer 0.0 (place 0 of queue 'rank 0 queue') stays in buffer c: summands go from the reduced buffer to "
            "the staging buffer");
  plan = right();
  transfer(plan, 0, 0).source.buffer = 0;
  EXPECT_EQ(refutation(plan, "form"),
            "transfer 0.0 (place 0 of queue 'rank 0 queue') goes from buffer a to buffer c_staging");
  plan = right();
  --transfer(plan, 0, 0).source.region[0].end;
  EXPECT_EQ(refutation(plan, "form"),
            "transfer 0.0 (place 0 of queue 'rank 0 queue') moves [8:11, 0:4] to [0:4, 0:4], a box of another size");
  plan = right();
  plan.buffers[3].symmetric = false;
  EXPECT_THAT(refutation(plan, "form"), HasSubstr("reaches for c_staging of rank 1, which is local"));
  plan = right(Route::direct_pull);
  plan.buffers[2].symmetric = false;
  EXPECT_THAT(refutation(plan, "form"), HasSubstr("reaches for c of rank 1, which is local"));
}

TEST(SumForm, Slots) {
  Plan plan = right();
  slot(plan, 0, 1).kept = {{4, 8}, {0, 3}};
  EXPECT_EQ(refutation(plan, "form"), "slot 1 of rank 0: c[4:8, 0:3] is not contiguous in memory");
  plan = right();
  ASSERT_EQ(slot(plan, 0, 2).addends.size(), 1u);
  slot(plan, 0, 2).own_place = 2;
  EXPECT_EQ(refutation(plan, "form"), "slot 2 of rank 0 adds its own value at place 2 of 1 addends");
  slot(plan, 0, 2).own_place = 0;
  --slot(plan, 0, 2).addends[0].source[0].end;
  EXPECT_EQ(refutation(plan, "form"), "slot 2 of rank 0 adds [0:3, 0:4] to [0:4, 0:4], a box of another size");
  plan = right();
  slot(plan, 0, 2).sum_waits[0].signal = signal_called(plan, "chunk 1.0 from 0 to 1 arrived");
  EXPECT_EQ(refutation(plan, "form"),
            "slot 2 of rank 0 waits on rank 0 for 'chunk 1.0 from 0 to 1 arrived', which lives on rank 1");
  plan = right();
  slot(plan, 0, 0).signals = {99};
  EXPECT_THAT(refutation(plan, "form"), HasSubstr("slot 0 of rank 0 raises signal number 99 of "));
  plan = right();
  plan.programs[0].slots.push_back(slot(plan, 0, 0));
  EXPECT_EQ(refutation(plan, "form"), "rank 0 computes tile (2, 0) 2 times");
  plan = right();
  plan.tiles[0].reads.push_back({3, {{0, 4}, {0, 4}}});
  EXPECT_EQ(refutation(plan, "form"), "tile (0, 0) uses c_staging, which is none of the kernel's");
}

TEST(SumForm, WithoutAReducedBufferNothingIsAdded) {
  Plan plan = testing::hand_made({});
  plan.programs[0].slots[1].own_place = 1;
  EXPECT_EQ(refutation(plan, "form"), "slot 1 of rank 0 takes part in a sum, and nothing is reduced");
  plan = testing::hand_made({});
  plan.programs[1].slots[0].signals = {0};
  EXPECT_EQ(refutation(plan, "form"), "slot 0 of rank 1 raises signals, and no output leaves its rank");
}

TEST(SumSignals, ATileThatDoesNotSayThatItHasStored) {
  Plan plan = right();
  slot(plan, 0, 1).signals.clear();
  EXPECT_EQ(refuted(plan), (std::vector<std::string>{"signal counts", "no deadlock"}));
  EXPECT_THAT(refutation(plan, "signal counts"),
              HasSubstr("signal 'chunk 1.1 from 0 to 1 stored' on rank 0 is raised 0 times in a launch, not 1"));
  EXPECT_THAT(refutation(plan, "no deadlock"),
              HasSubstr("transfer 0.1 (c[12:16, 0:4] from rank 0 to c_staging[4:8, 0:4] of rank 1, at place 1 of queue "
                        "'rank 0 queue') waits in launch 1 for 'chunk 1.1 from 0 to 1 stored' to reach 1; it is at 0 "
                        "and nobody is left to raise it"));
}

/// Two tiles in a chunk, slots 0 and 1 of rank 0 for the first; only one of them raises.
Plan raised_by_one_of_two(int workers, std::size_t raising) {
  ReduceOptions options;
  options.workers = workers;
  Plan plan = testing::hand_made_reduce(options);
  const int stored = signal_called(plan, "chunk 1.0 from 0 to 1 stored");
  EXPECT_EQ(slot(plan, 0, 0).signals, std::vector<int>{stored});
  EXPECT_EQ(slot(plan, 0, 1).signals, std::vector<int>{stored});
  slot(plan, 0, 1 - raising).signals.clear();
  plan.signals[static_cast<std::size_t>(stored)].per_launch = 1;
  for (Wait& wait : transfer(plan, 0, 0).waits)
    if (wait.signal == stored) wait.threshold = 1;
  return plan;
}

TEST(SumSignals, ASlotSpeaksForThoseOfItsWorkerBefore) {
  Plan plan = raised_by_one_of_two(1, 1);
  EXPECT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  std::erase_if(transfer(plan, 0, 0).waits, [](const Wait& wait) { return wait.threshold > 0; });
  EXPECT_THAT(
      refutation(plan, "no read before its data"),
      HasSubstr("3. only then tile (2, 0) on rank 0 (slot 0, worker 0) stores it and leaves it to tile (2, 1) on "
                "rank 0 (slot 1, worker 0) to raise 'chunk 1.0 from 0 to 1 stored'"));
}

TEST(SumSignals, ASlotSpeaksNeitherForLaterOnesNorForOtherWorkers) {
  Plan plan = raised_by_one_of_two(1, 0);
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no read before its data"});
  EXPECT_THAT(refutation(plan, "no read before its data"),
              AllOf(HasSubstr("'chunk 1.0 from 0 to 1 stored' at 1 of 1; 2. it reads c[8:12, 4:8]"),
                    HasSubstr("3. only then tile (2, 1) on rank 0 (slot 1, worker 0) stores it")));
  plan = raised_by_one_of_two(2, 1);
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no read before its data"});
  EXPECT_THAT(refutation(plan, "no read before its data"),
              HasSubstr("3. only then tile (2, 0) on rank 0 (slot 0, worker 0) stores it"));
}

// Two ranks that count together what they have stored: nothing keeps the one from a second launch while the other has
// not ended the first.
TEST(SumSignals, TilesOfSeveralRanksInOneCounter) {
  Plan plan = right(Route::direct_pull, 3);
  const int counter = signal_called(plan, "chunk 1.1 from 0 to 1 stored");
  const int other = signal_called(plan, "chunk 1.0 from 2 to 1 stored");
  plan.signals[static_cast<std::size_t>(counter)].per_launch = 2;
  Transfer& last = plan.programs[1].queues[0].transfers.back();
  ASSERT_EQ(last.waits, (std::vector<Wait>{{counter, 1}}));
  last.waits[0].threshold = 2;
  for (Slot& each : plan.programs[2].slots)
    if (each.signals == std::vector<int>{other}) each.signals.push_back(counter);
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"signal counts"});
  EXPECT_THAT(refutation(plan, "signal counts"),
              AllOf(HasSubstr("signal 'chunk 1.1 from 0 to 1 stored' on rank 1 counts raises of several: nothing keeps "
                              "tile (2, 0) on rank 2 "),
                    HasSubstr("in launch e + 1 from coming before tile (3, 0) on rank 0")));
}

TEST(SumCoverage, WhatTilesKeepOfTheReducedBuffer) {
  Plan plan = right();
  slot(plan, 0, 0).kept = {{9, 12}, {0, 4}};
  EXPECT_THAT(refutation(plan, "coverage"),
              HasSubstr("the kernel needs c to be [0:16, 0:4] on rank 0, but nobody fills c[8:9, 0:4]"));
  // Twice in the order, and both keep row 10.
  plan = right();
  slot(plan, 0, 0).kept = {{8, 11}, {0, 4}};
  plan.programs[0].slots.push_back({slot(plan, 0, 0).tile, {}, {{10, 12}, {0, 4}}, {}, {}, 0, {}});
  EXPECT_THAT(refutation(plan, "coverage"),
              HasSubstr("c[10:11, 0:4] on rank 0 is filled twice in a launch: by tile (2, 0) on rank 0 (slot 0, worker "
                        "0) and by tile (2, 0) on rank 0 (slot 4, worker 0)"));
}

TEST(SumCoverage, ATileThatIsCutMayNotFillAnythingElse) {
  Plan plan = right();
  Buffer other = plan.buffers[0];
  other.name = "norms";
  other.shape = {4};
  other.held.assign(2, {Region{{0, 0}}});
  plan.buffers.push_back(other);
  for (std::size_t t = 0; t < 4; ++t)
    plan.tiles[t].writes.push_back({4, {{static_cast<std::int64_t>(t), static_cast<std::int64_t>(t) + 1}}});
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  slot(plan, 1, 3).kept = {{12, 14}, {0, 4}};
  Slot rest = slot(plan, 1, 3);
  rest.kept = {{14, 16}, {0, 4}};
  plan.programs[1].slots.push_back(rest);
  EXPECT_EQ(refutation(plan, "coverage"),
            "norms[3:4] on rank 1 is filled twice in a launch: by tile (3, 0) and by tile (3, 0)");
}

TEST(SumCoverage, ASummandThatNobodyBrings) {
  Plan plan = right();
  slot(plan, 0, 2).addends[0].source = {{4, 8}, {0, 4}};  // has it waited for that? it would be wrong all the same
  EXPECT_THAT(refutation(plan, "coverage"),
              HasSubstr("tile (0, 0) on rank 0 (slot 2, worker 0) adds to c[0:4, 0:4] what transfer 1.1 (c[4:8, 0:4] "
                        "from rank 1 to c_staging[4:8, 0:4] of rank 0, at place 1 of queue 'rank 1 queue') brings, "
                        "which are summands of c[4:8, 0:4]"));
  plan = right();
  Transfer& first = transfer(plan, 1, 0);
  --first.source.region[0].end;
  --first.destination.region[0].end;
  EXPECT_EQ(refutation(plan, "coverage"),
            "tile (0, 0) on rank 0 (slot 2, worker 0) adds c_staging[0:4, 0:4] to c[0:4, 0:4], but no transfer brings "
            "c_staging[3:4, 0:4]");
}

TEST(SumCoverage, SumsInAnotherOrder) {
  Plan plan = right(Route::direct_push, 3);
  std::swap(plan.sums[1].order.terms[1], plan.sums[1].order.terms[2]);
  EXPECT_THAT(
      refutation(plan, "coverage"),
      HasSubstr("stores in c[8:12, 0:4] the sum of the summands of ranks (0 + 1 + 2); it is to be (0 + 2 + 1)"));
  plan = right(Route::ring_push, 3);
  EXPECT_TRUE(verify(plan).holds());
  plan.sums[0].order = {0, {{0, {}}, {1, {}}, {2, {}}}};
  EXPECT_THAT(refutation(plan, "coverage"), HasSubstr("ranks ((1 + 2) + 0); it is to be (0 + 1 + 2)"));
  plan = right();
  slot(plan, 0, 2).addends.clear();
  slot(plan, 0, 2).own_place = 0;
  EXPECT_THAT(refutation(plan, "coverage"),
              HasSubstr("stores in c[0:4, 0:4] the sum of the summands of ranks 0 alone; it is to be (0 + 1)"));
}

TEST(SumNoEarlyRead, ATransferThatDoesNotWaitForTiles) {
  Plan plan = right();
  std::erase_if(transfer(plan, 0, 1).waits,
                [&](const Wait& wait) { return wait.signal == signal_called(plan, "chunk 1.1 from 0 to 1 stored"); });
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no read before its data"});
  EXPECT_EQ(refutation(plan, "no read before its data"),
            "transfer 0.1 (c[12:16, 0:4] from rank 0 to c_staging[4:8, 0:4] of rank 1, at place 1 of queue 'rank 0 "
            "queue') may send c[12:16, 0:4] before it is there. Order of events: 1. it has waited for nothing; 2. it "
            "reads c[12:16, 0:4] on rank 0; 3. only then tile (3, 0) on rank 0 (slot 1, worker 1) stores it and raises "
            "'chunk 1.1 from 0 to 1 stored'");
}

TEST(SumNoEarlyRead, ATileThatDoesNotWaitForSummands) {
  Plan plan = right();
  slot(plan, 0, 2).sum_waits.clear();
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no read before its data"});
  EXPECT_EQ(refutation(plan, "no read before its data"),
            "tile (0, 0) on rank 0 (slot 2, worker 0) may add c_staging[0:4, 0:4] to c[0:4, 0:4] before it is there. "
            "Order of events: 1. rank 0 starts the launch; 2. the worker, which has waited for nothing, adds what it "
            "finds; 3. only then comes transfer 1.0 (c[0:4, 0:4] from rank 1 to c_staging[0:4, 0:4] of rank 0, at "
            "place 0 of queue 'rank 1 queue'), which brings the summands and raises 'chunk 0.0 from 1 to 0 arrived'");
}

TEST(SumNoEarlyRead, WhatAWorkerHasWaitedForItKnowsInLaterTiles) {
  Plan plan = right();
  ASSERT_EQ(plan.workers, 2);
  std::swap(slot(plan, 0, 0).sum_waits, slot(plan, 0, 2).sum_waits);  // rank 1 sends that without rank 0's doing
  EXPECT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  slot(plan, 0, 1).sum_waits = slot(plan, 0, 0).sum_waits;
  slot(plan, 0, 0).sum_waits.clear();  // now another worker waits
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no read before its data"});
}

TEST(SumNoEarlyRead, AWaitForTheLaunchBefore) {
  Plan plan = right();
  slot(plan, 1, 2).sum_waits[0].threshold = 0;
  EXPECT_THAT(
      refutation(plan, "no read before its data"),
      HasSubstr("which has waited for 'chunk 1.0 from 0 to 1 arrived' of the launch before, adds what it finds"));
}

TEST(SumNoOverwrite, AChunkThatIsOverwrittenBeforeItIsAdded) {
  Plan plan = with_reuse();
  const int added = signal_called(plan, "chunk 1.0 from 0 to 1 added");
  std::erase_if(transfer(plan, 0, 1).waits, [&](const Wait& wait) { return wait.signal == added; });
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no overwrite of live data"});
  EXPECT_THAT(refutation(plan, "no overwrite of live data"),
              AllOf(HasSubstr("transfer 0.1 (c[12:16, 0:4] from rank 0 to c_staging[0:4, 0:4] of rank 1, at place 1 of "
                              "queue 'rank 0 queue') may overwrite c_staging[0:4, 0:4] while rank 1 still adds it"),
                    HasSubstr("writes its data of launch e; 3. the tile reads it")));
}

TEST(SumNoOverwrite, AChunkOfTheNextLaunch) {
  Plan plan = right();
  const int free = signal_called(plan, "rank 1 free for rank 0");
  std::erase_if(transfer(plan, 0, 0).waits, [&](const Wait& wait) { return wait.signal == free; });
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no overwrite of live data"});
  EXPECT_THAT(refutation(plan, "no overwrite of live data"),
              AllOf(HasSubstr("may overwrite c_staging[0:4, 0:4] while rank 1 still adds it"),
                    HasSubstr("writes its data of launch e + 1; 3. the tile reads it")));
}

TEST(SumNoOverwrite, TwoTransfersInOnePlaceAtOnce) {
  Plan plan = with_reuse();
  Queue second{"rank 0 other queue", {}, {transfer(plan, 0, 1)}};
  second.transfers[0].waits = {{signal_called(plan, "chunk 1.1 from 0 to 1 stored"), 1}};
  plan.programs[0].queues[0].transfers.pop_back();
  plan.programs[0].queues.push_back(second);
  EXPECT_THAT(refuted(plan), ElementsAre("no overwrite of live data"));
  EXPECT_THAT(refutation(plan, "no overwrite of live data"),
              AllOf(HasSubstr("may write c_staging[0:4, 0:4] on rank 1 at the same time, or in any order"),
                    HasSubstr("begins in launch e; 2. the latter")));
}

TEST(SumNoOverwrite, SummandsThatPeersStillTake) {
  Plan plan = right(Route::direct_pull);
  plan.programs[0].completion_waits.clear();
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no overwrite of live data"});
  EXPECT_THAT(refutation(plan, "no overwrite of live data"),
              AllOf(HasSubstr("rank 0 may complete a launch while transfer 1."), HasSubstr("still reads c[")));
}

// The worker of rank 0 adds first what rank 1 sends only when it has got what this worker has yet to store.
TEST(SumNoDeadlock, OwnTilesBeforeThoseOfOthers) {
  ReduceOptions options;
  options.columns = 4;
  options.workers = 1;
  Plan plan = testing::hand_made_reduce(options);
  for (RankProgram& program : plan.programs) std::reverse(program.slots.begin(), program.slots.end());
  // Waits that earlier slots implied come back where they are needed.
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Wait wait;
    for (Slot& each : plan.programs[rank].slots)
      if (!each.sum_waits.empty()) wait = each.sum_waits.front();
    slot(plan, rank, 0).sum_waits = {wait};
  }
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no deadlock"});
  EXPECT_THAT(refutation(plan, "no deadlock"),
              AllOf(HasSubstr("a cycle of waits: "), HasSubstr("waits in launch 1, before it adds, for '"),
                    HasSubstr("to reach 1, which comes after tile (")));
}

}  // namespace
}  // namespace syncopate
