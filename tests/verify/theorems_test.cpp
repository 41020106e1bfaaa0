// Each theorem has plans that break it, and the counter-example says who breaks it, where, and in which order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "syncopate/verify/verify.h"
#include "tests/support/plan_builder.h"

namespace syncopate {
namespace {

using ::testing::AllOf;
using testing::HandMadeOptions;
using ::testing::HasSubstr;
using testing::Route;
using testing::signal_called;

Plan right(Route route, int ranks = 2) {
  HandMadeOptions options;
  options.route = route;
  options.ranks = ranks;
  options.rows = 8 * ranks;
  options.workers = 2;
  return testing::hand_made(options);
}

Transfer& transfer(Plan& plan, std::size_t rank, std::size_t position) {
  return plan.programs[rank].queues[0].transfers[position];
}

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

TEST(Proof, NamesEveryTheoremWithItsEvidence) {
  const Proof proof = verify(right(Route::direct_push));
  std::vector<std::string> names;
  for (const Theorem& theorem : proof.theorems) names.push_back(theorem.name);
  EXPECT_THAT(names, ::testing::ElementsAre("form", "signal counts", "coverage", "no read before its data",
                                            "no overwrite of live data", "no deadlock"));
  EXPECT_THAT(proof.to_string(), HasSubstr("no deadlock: proven\n"));
  EXPECT_THAT(proof.to_string(), HasSubstr("2 ranks, 3 buffers, 6 signals, 8 tiles, 4 transfers, 10 waits"));
}

TEST(Proof, CountsRedundantWaits) {
  Plan plan = right(Route::direct_push);
  EXPECT_THAT(verify(plan).to_string(), HasSubstr("10 waits, 0 of them redundant"));
  // The second push to rank 1 comes after the first, which has waited for the same.
  transfer(plan, 0, 1).waits = transfer(plan, 0, 0).waits;
  // Slot 6 of worker 0 waits for chunk 1, which comes after chunk 0.
  std::vector<Wait>& waits = plan.programs[1].slots[6].waits;
  ASSERT_EQ(waits, (std::vector<Wait>{{signal_called(plan, "chunk 0.1 at rank 1"), 1}}));
  waits.push_back({signal_called(plan, "chunk 0.0 at rank 1"), 1});
  ASSERT_TRUE(verify(plan).holds());
  EXPECT_THAT(verify(plan).to_string(), HasSubstr("12 waits, 2 of them redundant"));
}

TEST(Form, ATileLeftOut) {
  Plan plan = right(Route::direct_push);
  plan.programs[1].slots.pop_back();
  EXPECT_EQ(refutation(plan, "form"), "rank 1 computes tile (1, 1) 0 times");
  EXPECT_EQ(verify(plan).theorems.size(), 1u) << "nothing else can be said about such a plan";
}

TEST(Form, Regions) {
  Plan plan = right(Route::direct_push);
  transfer(plan, 0, 0).source.region = {{1, 5}, {0, 4}};
  EXPECT_EQ(
      refutation(plan, "form"),
      "transfer 0.0 (place 0 of queue 'rank 0 queue 0') moves a[1:5, 0:4] to [0:4, 0:4]: the elements of a tensor "
      "keep their places");
  plan = right(Route::direct_push);
  transfer(plan, 1, 1).destination.region = {{12, 17}, {0, 4}};
  EXPECT_EQ(refutation(plan, "form"),
            "transfer 1.1 (place 1 of queue 'rank 1 queue 0'): a[12:17, 0:4] is not inside the buffer, whose shape is "
            "16 x 4");
  plan = right(Route::direct_push);
  plan.tiles[3].reads[0].region = {{0, 4}};
  EXPECT_EQ(refutation(plan, "form"), "tile (1, 1): a[0:4] is not inside the buffer, whose shape is 16 x 4");
  plan = right(Route::direct_push);
  plan.buffers[0].held[1] = {Region{{0, 8}, {0, 4}}};
  EXPECT_EQ(refutation(plan, "form"),
            "rank 1 holds a[0:8, 0:4] before the operator, but its placement says [8:16, 0:4]");
}

Plan streamed(Route route, int ranks = 2) {
  HandMadeOptions options;
  options.route = route;
  options.ranks = ranks;
  options.rows = 8 * ranks;
  options.workers = 2;
  options.streamed = true;
  return testing::hand_made(options);
}

TEST(Form, WalksOfPieces) {
  Plan plan = streamed(Route::direct_push);
  plan.tiles[1].pieces[2].begin = 3;
  EXPECT_EQ(refutation(plan, "form"),
            "tile (0, 1): a piece of loop rows holds iterations 3 to 3, and the one before it ends at 2");
  plan = streamed(Route::direct_push);
  plan.tiles[1].pieces[2].loop = 1;
  EXPECT_EQ(refutation(plan, "form"), "tile (0, 1) has a piece of loop number 1 of 1 behind one of loop number 0");
  plan = streamed(Route::direct_push);
  plan.tiles[1].pieces[2].reads[0].region = {{0, 4}};
  EXPECT_EQ(refutation(plan, "form"), "tile (0, 1): a[0:4] is not inside the buffer, whose shape is 16 x 4");
  plan = streamed(Route::direct_push);
  plan.programs[1].slots[3].steps[1].piece = 4;
  EXPECT_EQ(refutation(plan, "form"), "slot 3 of rank 1 walks piece number 4 of 4");
  plan = streamed(Route::direct_push);
  plan.programs[1].slots[3].steps[1].piece = plan.programs[1].slots[3].steps[0].piece;
  EXPECT_EQ(refutation(plan, "form"), "slot 3 of rank 1 walks piece number 2 twice");
  plan = streamed(Route::direct_push);
  plan.programs[1].slots[3].steps.pop_back();
  EXPECT_EQ(refutation(plan, "form"), "slot 3 of rank 1 walks 3 of the 4 pieces of its tile");
  plan = streamed(Route::direct_push);
  plan.programs[1].slots[0].steps[3].waits[0].signal = 99;
  EXPECT_EQ(refutation(plan, "form"), "slot 0 of rank 1 waits for signal number 99 of 6");
  plan = streamed(Route::direct_push);
  plan.programs[1].slots[0].steps.clear();
  plan.tiles[static_cast<std::size_t>(plan.programs[1].slots[0].tile)].pieces.clear();
  EXPECT_THAT(refutation(plan, "form"), HasSubstr("slot 0 of rank 0 walks piece number 0 of 0"));
}

TEST(Form, ReductionsAndLocalBuffersCannotBeMoved) {
  Plan plan = right(Route::direct_push);
  plan.buffers[2].before = Placement::partial_sum();
  EXPECT_EQ(refutation(plan, "form"),
            "buffer c holds partial sums before the operator, and only what its kernel computes is reduced");
  plan = right(Route::direct_push);
  plan.buffers[0].symmetric = false;
  EXPECT_THAT(refutation(plan, "form"), HasSubstr("moves a, which is local: peers cannot reach it"));
}

TEST(Form, AQueueMovesOnlyFromOrToItsRank) {
  Plan plan = right(Route::direct_push, 3);
  transfer(plan, 0, 0).source.rank = 2;
  EXPECT_EQ(
      refutation(plan, "form"),
      "transfer 0.0 (place 0 of queue 'rank 0 queue 0') goes from rank 2 to rank 1, but its queue belongs to rank "
      "0");
}

TEST(Form, SignalsAndWaits) {
  Plan plan = right(Route::direct_push);
  plan.programs[0].slots[0].waits = {{signal_called(plan, "chunk 0.0 at rank 1"), 1}};
  EXPECT_EQ(refutation(plan, "form"),
            "slot 0 of rank 0 waits on rank 0 for 'chunk 0.0 at rank 1', which lives on rank 1");
  plan.programs[0].slots[0].waits = {{signal_called(plan, "chunk 1.0 at rank 0"), 2}};
  EXPECT_EQ(refutation(plan, "form"),
            "slot 0 of rank 0 waits for 'chunk 1.0 at rank 0' with threshold 2; a launch raises it 1 times");
  plan = right(Route::direct_push);
  plan.signals[1].slot = plan.signals[2].slot;
  EXPECT_EQ(refutation(plan, "form"), "signals 'chunk 0.0 at rank 1' and 'chunk 0.1 at rank 1' share slot 1 of rank 1");
  plan = right(Route::direct_push);
  plan.signals[2].name = plan.signals[1].name;
  EXPECT_EQ(refutation(plan, "form"), "two signals are called 'chunk 0.0 at rank 1'");
  plan = right(Route::direct_push);
  plan.programs[1].completion_signals = {17};
  EXPECT_EQ(refutation(plan, "form"), "the completion of rank 1 raises signal number 17 of 6");
}

TEST(SignalCounts, ALostRaiseIsAlsoADeadlock) {
  Plan plan = right(Route::direct_push);
  transfer(plan, 0, 1).signals.clear();
  EXPECT_EQ(refutation(plan, "signal counts"),
            "signal 'chunk 0.1 at rank 1' on rank 1 is raised 0 times in a launch, not 1: nobody raises it");
  EXPECT_THAT(refutation(plan, "no deadlock"),
              AllOf(HasSubstr("a wait for ever: "),
                    HasSubstr("tile (1, 0) on rank 1 (slot 6, worker 0) waits in launch 1 for 'chunk 0.1 at rank 1' to "
                              "reach 1; it is at 0 and nobody is left to raise it")));
}

TEST(SignalCounts, ARaiseTooMany) {
  Plan plan = right(Route::direct_push);
  plan.programs[1].start_signals.push_back(signal_called(plan, "chunk 0.1 at rank 1"));
  EXPECT_THAT(refutation(plan, "signal counts"),
              HasSubstr("signal 'chunk 0.1 at rank 1' on rank 1 is raised 2 times in a launch, not 1: by the start of "
                        "rank 1, by transfer 0.1 (a[4:8, 0:4] from rank 0 to rank 1"));
}

// Two ranks raise one counter and neither waits for the other: twice the one looks like once each.
TEST(SignalCounts, ARankThatRunsAheadIsTakenForAnother) {
  Plan plan = right(Route::direct_pull, 3);
  plan.programs[0].completion_waits.front().threshold = 1;
  EXPECT_THAT(refutation(plan, "signal counts"),
              HasSubstr("signal 'rank 0 drained' on rank 0 counts raises of several: nothing keeps transfer 2.1"));
}

TEST(Coverage, AHole) {
  Plan plan = right(Route::direct_push);
  transfer(plan, 0, 0).source.region = transfer(plan, 0, 0).destination.region = {{0, 3}, {0, 4}};
  EXPECT_THAT(
      refutation(plan, "coverage"),
      HasSubstr("tile (0, 0) on rank 1 reads a[0:4, 0:4], but a[3:4, 0:4] is neither put there by the caller nor "
                "brought by a transfer"));
  // Of an input what no tile reads need not be there.
  for (Tile& tile : plan.tiles)
    for (TileAccess& read : tile.reads)
      if (read.buffer == 0 && read.region[0].begin == 0) read.region[0].end = 3;
  EXPECT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  // Of an output everything is.
  plan = right(Route::direct_push);
  plan.tiles[0].writes[0].region[0].end = 3;
  EXPECT_THAT(refutation(plan, "coverage"), HasSubstr("the kernel needs c to be "));
}

TEST(Coverage, TwoTransfersOfOneChunk) {
  Plan plan = right(Route::direct_push);
  transfer(plan, 0, 1).source.region = transfer(plan, 0, 1).destination.region = {{3, 8}, {0, 4}};
  EXPECT_THAT(
      refutation(plan, "coverage"),
      HasSubstr("a[3:4, 0:4] on rank 1 is filled twice in a launch: by transfer 0.0 (a[0:4, 0:4] from rank 0 to "
                "rank 1, at place 0 of queue 'rank 0 queue 0') and by transfer 0.1 (a[3:8, 0:4]"));
}

TEST(Coverage, OnTopOfWhatTheCallerHolds) {
  Plan plan = right(Route::ring_push);
  Transfer back = transfer(plan, 0, 0);
  std::swap(back.source.rank, back.destination.rank);
  back.signals.clear();
  plan.programs[0].queues[0].transfers.push_back(back);
  EXPECT_THAT(refutation(plan, "coverage"),
              HasSubstr("a[0:4, 0:4] on rank 0 is filled twice in a launch: by transfer 0.0 (a[0:4, "
                        "0:4] from rank 1 to rank 0, at place 2 of queue 'rank 0 queue 0') and by the caller"));
}

TEST(Coverage, WhatIsSentMustBeThere) {
  Plan plan = right(Route::ring_push, 3);
  // Rank 0's first chunk never comes to rank 1, which neither needs it nor reads it, but hands it on.
  transfer(plan, 0, 0).source.region = transfer(plan, 0, 0).destination.region = {{0, 0}, {0, 4}};
  plan.buffers[0].inside = plan.buffers[0].before;
  for (Tile& tile : plan.tiles) tile.reads.clear();
  EXPECT_EQ(
      refutation(plan, "coverage"),
      "transfer 1.2 (a[0:4, 0:4] from rank 1 to rank 2, at place 2 of queue 'rank 1 queue 0') sends a[0:4, 0:4] from "
      "rank 1, where it is neither put by the caller nor brought by a transfer");
}

TEST(Coverage, OutputsAreWrittenOnce) {
  Plan plan = right(Route::direct_push);
  plan.tiles[3].writes.clear();
  EXPECT_THAT(refutation(plan, "coverage"),
              HasSubstr("the kernel needs c to be [0:16, 0:8] on rank 0, but nobody fills c[4:8, 4:8]"));
  plan.tiles[3].writes = plan.tiles[2].writes;
  EXPECT_THAT(refutation(plan, "coverage"),
              HasSubstr("c[4:8, 0:4] on rank 0 is filled twice in a launch: by tile (1, 0) and by tile (1, 1)"));
}

TEST(NoEarlyRead, ATileWithoutItsWait) {
  Plan plan = right(Route::direct_push);
  plan.programs[1].slots[4].waits.clear();
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no read before its data"});
  EXPECT_EQ(
      refutation(plan, "no read before its data"),
      "tile (0, 0) on rank 1 (slot 4, worker 0) may read a[0:4, 0:4] before it is there. Order of events: 1. rank 1 "
      "starts the launch; 2. the worker, which has waited for nothing, runs the tile, which reads a[0:4, 0:4]; 3. "
      "only then comes transfer 0.0 (a[0:4, 0:4] from rank 0 to rank 1, at place 0 of queue 'rank 0 queue 0'), "
      "which brings a[0:4, 0:4] and raises 'chunk 0.0 at rank 1'");
}

TEST(NoEarlyRead, AWaitForTheLaunchBefore) {
  Plan plan = right(Route::direct_push);
  plan.programs[1].slots[4].waits[0].threshold = 0;
  EXPECT_THAT(refutation(plan, "no read before its data"),
              HasSubstr("which has waited for 'chunk 0.0 at rank 1' of the launch before, runs the tile"));
}

TEST(NoEarlyRead, APullFromARankThatHasNotStarted) {
  Plan plan = right(Route::direct_pull, 3);
  transfer(plan, 1, 2).waits.clear();
  EXPECT_THAT(
      refutation(plan, "no read before its data"),
      AllOf(HasSubstr("transfer 1.2 (a[0:4, 0:4] from rank 0 to rank 1, at place 2 of queue 'rank 1 queue 0') may "
                      "send a[0:4, 0:4] before it is there"),
            HasSubstr("3. only then comes the start of rank 0, which puts it there and raises 'rank 0 ready for "
                      "rank 1'")));
}

TEST(NoEarlyRead, AChunkHandedOnTooEarly) {
  Plan plan = right(Route::ring_push, 3);
  transfer(plan, 1, 2).waits.clear();
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no read before its data"});
  EXPECT_THAT(refutation(plan, "no read before its data"),
              AllOf(HasSubstr("transfer 1.2 (a[0:4, 0:4] from rank 1 to rank 2"),
                    HasSubstr("2. it reads a[0:4, 0:4] on rank 1; 3. only then comes transfer 0.0")));
}

// A counter that one queue raises in a known order proves a part of a launch; the first of two raises of a counter that
// several raise proves nothing.
TEST(NoEarlyRead, PartialThresholds) {
  HandMadeOptions options;
  options.counted = true;
  options.workers = 64;
  Plan plan = testing::hand_made(options);
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  const int counter = signal_called(plan, "chunks of rank 0 at rank 1");
  ASSERT_EQ(plan.programs[1].slots[4].waits, (std::vector<Wait>{{counter, 1}}));
  ASSERT_EQ(plan.programs[1].slots[6].waits, (std::vector<Wait>{{counter, 2}}));
  plan.programs[1].slots[6].waits[0].threshold = 1;
  EXPECT_THAT(refutation(plan, "no read before its data"),
              AllOf(HasSubstr("tile (1, 0) on rank 1 (slot 6, worker 6) may read a[4:8, 0:4]"),
                    HasSubstr("'chunks of rank 0 at rank 1' at 1 of 2")));

  // The same chunks in two queues: now the first raise may be either.
  options.queues = 2;
  plan = testing::hand_made(options);
  std::vector<Queue>& queues = plan.programs[0].queues;
  queues[1].transfers.push_back(queues[0].transfers[1]);
  queues[1].transfers[0].waits = queues[0].transfers[0].waits;
  queues[0].transfers.pop_back();
  EXPECT_THAT(refutation(plan, "no read before its data"),
              HasSubstr("tile (0, 0) on rank 1 (slot 4, worker 4) may read a[0:4, 0:4]"));
  plan.programs[1].slots[4].waits[0].threshold = plan.programs[1].slots[5].waits[0].threshold = 2;
  EXPECT_TRUE(verify(plan).holds()) << verify(plan).to_string();
}

TEST(NoOverwrite, APushIntoALaunchThatStillReads) {
  Plan plan = right(Route::direct_push);
  transfer(plan, 0, 0).waits.clear();
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no overwrite of live data"});
  EXPECT_THAT(
      refutation(plan, "no overwrite of live data"),
      AllOf(HasSubstr("transfer 0.0 (a[0:4, 0:4] from rank 0 to rank 1, at place 0 of queue 'rank 0 queue 0') may "
                      "overwrite a[0:4, 0:4] while rank 1 still reads it"),
            HasSubstr("1. tile (0, 1) on rank 1 (slot 5, worker 1) begins in launch e; 2. the transfer, which has "
                      "waited for nothing, writes its data of launch e + 1")));
}

TEST(NoOverwrite, ACallerThatPutsNewInputsTooEarly) {
  Plan plan = right(Route::direct_pull, 3);
  plan.programs[0].completion_waits.clear();
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no overwrite of live data"});
  EXPECT_THAT(
      refutation(plan, "no overwrite of live data"),
      AllOf(HasSubstr("rank 0 may complete a launch while transfer 1.2"), HasSubstr("still reads a[0:4, 0:4] there"),
            HasSubstr("2. its caller puts the inputs of launch e + 1 in place")));
}

TEST(NoOverwrite, AChunkThatTheNeighbourStillTakes) {
  Plan plan = right(Route::ring_pull, 3);
  plan.programs[1].completion_waits.clear();
  const Proof proof = verify(plan);
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no overwrite of live data"});
  EXPECT_THAT(proof.to_string(), HasSubstr("while transfer 2."));
}

TEST(NoOverwrite, AChunkThatIsStillHandedOn) {
  Plan plan = right(Route::ring_push, 3);
  for (Tile& tile : plan.tiles) tile.reads.clear();  // only transfers read
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  transfer(plan, 0, 0).waits.clear();
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no overwrite of live data"});
  EXPECT_THAT(refutation(plan, "no overwrite of live data"),
              AllOf(HasSubstr("transfer 0.0 (a[0:4, 0:4] from rank 0 to rank 1, at place 0 of queue 'rank 0 queue 0') "
                              "may overwrite a[0:4, 0:4] while transfer 1.2"),
                    HasSubstr("still sends it")));
}

TEST(NoOverwrite, ALaunchIsCompleteOnlyWhenItsBuffersAreQuiet) {
  Plan plan = right(Route::direct_push);
  for (Tile& tile : plan.tiles) tile.reads.clear();
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  for (Slot& slot : plan.programs[1].slots) slot.waits.clear();
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no overwrite of live data"});
  EXPECT_THAT(refutation(plan, "no overwrite of live data"),
              AllOf(HasSubstr("rank 1 may complete a launch while transfer 0.0"), HasSubstr("still writes a[0:4, 0:4]"),
                    HasSubstr("2. its caller frees the buffer")));
}

TEST(NoDeadlock, ACycleThroughQueues) {
  Plan plan = right(Route::ring_push, 3);
  // Every rank hands on first what it has yet to receive.
  for (std::size_t rank = 0; rank < 3; ++rank) std::swap(transfer(plan, rank, 0), transfer(plan, rank, 2));
  EXPECT_EQ(
      refutation(plan, "no deadlock"),
      "a cycle of waits: transfer 0.2 (a[16:20, 0:4] from rank 0 to rank 1, at place 0 of queue 'rank 0 queue 0') "
      "waits in launch 1 for 'chunk 2.0 at rank 0' to reach 1, which comes after transfer 2.2 (a[8:12, 0:4] from "
      "rank 2 to rank 0, at place 0 of queue 'rank 2 queue 0'); transfer 2.2 (a[8:12, 0:4] from rank 2 to rank 0, "
      "at place 0 of queue 'rank 2 queue 0') waits in launch 1 for 'chunk 1.0 at rank 2' to reach 1, which comes "
      "after transfer 1.2 (a[0:4, 0:4] from rank 1 to rank 2, at place 0 of queue 'rank 1 queue 0'); transfer 1.2 "
      "(a[0:4, 0:4] from rank 1 to rank 2, at place 0 of queue 'rank 1 queue 0') waits in launch 1 for 'chunk 0.0 "
      "at rank 1' to reach 1, which comes after transfer 0.2 (a[16:20, 0:4] from rank 0 to rank 1, at place 0 of "
      "queue 'rank 0 queue 0')");
}

TEST(NoDeadlock, ACycleThroughTheOrderOfAWorker) {
  // Rank 0 pushes its second chunk only when rank 1 has ended a launch, but rank 1 needs it in that launch.
  Plan plan = right(Route::direct_push);
  transfer(plan, 0, 0).waits[0].threshold = 1;
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no deadlock"});
  EXPECT_THAT(
      refutation(plan, "no deadlock"),
      AllOf(HasSubstr("a cycle of waits: "),
            HasSubstr("waits in launch 1 for 'rank 1 free for rank 0' to reach 1, which comes after the completion "
                      "of rank 1"),
            HasSubstr("the completion of rank 1 comes after tile (0, 0) on rank 1 (slot 4, worker 0)")));
}

// A rank whose first launch is fine may still block the second.
TEST(NoDeadlock, TheSecondLaunchIsLookedAt) {
  Plan plan = right(Route::direct_push);
  plan.programs[1].completion_signals.clear();
  EXPECT_THAT(refutation(plan, "no deadlock"),
              HasSubstr("waits in launch 2 for 'rank 1 free for rank 0' to reach 1; it "
                        "is at 0 and nobody is left to raise it"));
}

TEST(NoEarlyRead, APieceBeforeItsWait) {
  Plan plan = streamed(Route::direct_push);
  std::vector<LoopStep>& steps = plan.programs[1].slots[0].steps;
  ASSERT_EQ(steps[2].piece, 0);
  ASSERT_EQ(steps[2].waits.size(), 1u);
  steps[3].waits.insert(steps[3].waits.begin(), steps[2].waits.front());
  steps[2].waits.clear();
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no read before its data"});
  EXPECT_EQ(
      refutation(plan, "no read before its data"),
      "tile (0, 0) on rank 1 (slot 0, worker 0) may read a[0:4, 0:4] before it is there. Order of events: 1. rank "
      "1 starts the launch; 2. the worker, which has waited for nothing, walks iterations 0 to 1 of loop rows, "
      "which reads a[0:4, 0:4]; 3. only then comes transfer 0.0 (a[0:4, 0:4] from rank 0 to rank 1, at place 0 of "
      "queue 'rank 0 queue 0'), which brings a[0:4, 0:4] and raises 'chunk 0.0 at rank 1'");
}

TEST(NoEarlyRead, AWorkerKnowsInLaterSlotsWhatItsStepsHaveWaitedFor) {
  Plan plan = streamed(Route::direct_push);
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  for (std::size_t s = 2; s < plan.programs[1].slots.size(); ++s)
    for (const LoopStep& step : plan.programs[1].slots[s].steps) EXPECT_TRUE(step.waits.empty());
  plan.workers = 3;
  EXPECT_EQ(refuted(plan), std::vector<std::string>{"no read before its data"});
}

TEST(NoDeadlock, AStepThatWaitsForWhatNobodyRaises) {
  Plan plan = streamed(Route::direct_push);
  const Wait wait = plan.programs[1].slots[0].steps[2].waits.front();
  for (Transfer& moved : plan.programs[0].queues[0].transfers) std::erase(moved.signals, wait.signal);
  EXPECT_THAT(
      refutation(plan, "no deadlock"),
      AllOf(HasSubstr("tile (0, 0) on rank 1 (slot 0, worker 0) waits in launch 1, before it walks iterations 0 "
                      "to 1 of loop rows, for 'chunk 0.0 at rank 1' to reach 1"),
            HasSubstr("nobody is left to raise it")));
}

}  // namespace
}  // namespace syncopate
