// Plans with exchanged tensors and with sums that every rank is to have, each broken in one place: which theorem fails,
// what its counter-example says, and what CPU ranks make of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/verify/verify.h"

namespace syncopate {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Two ranks, tiles of 16 x 16, one chunk for each pair of ranks.
Plan compiled(const std::string& name, std::vector<Override> more = {}) {
  std::vector<Override> overrides = {{"ranks", "2"},
                                     {"kernel.file", "../kernels/gemm_pointers.py"},
                                     {"kernel.function", "gemm_pointers"},
                                     {"kernel.args.M", "32"},
                                     {"kernel.args.N", "32"},
                                     {"kernel.args.K", "16"},
                                     {"launch.workers", "2"},
                                     {"kernel.args.BLOCK_M", "16"},
                                     {"kernel.args.BLOCK_N", "16"},
                                     {"kernel.args.BLOCK_K", "16"},
                                     {name == "a2a_gemm" ? "communicate.a.split" : "communicate.c.split", "1"}};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/" + name + ".toml", overrides);
}

std::string refutation(const Plan& plan, const std::string& theorem) {
  for (const Theorem& each : verify(plan).theorems)
    if (each.name == theorem) return each.holds ? "it holds: " + each.evidence : each.counterexample;
  return "not examined";
}

/// What CPU ranks find, in a few runs; "" if nothing.
std::string found_by_cpu_ranks(const Plan& plan) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    RunOptions options;
    options.seed = seed;
    options.adversary = seed % 2 == 1;
    options.repeat = 3;
    const RunReport report = run_on_cpu_ranks(plan, options);
    if (report.outcome != Outcome::right) return report.message;
  }
  return "";
}

Transfer& transfer(Plan& plan, std::size_t rank, std::size_t queue, std::size_t position = 0) {
  return plan.programs[rank].queues[queue].transfers[position];
}

/// Removes the waits of a transfer for signals whose names contain `text`.
void stop_waiting(const Plan& plan, Transfer& transfer, const std::string& text) {
  const std::size_t before = transfer.waits.size();
  std::erase_if(transfer.waits, [&](const Wait& wait) {
    return plan.signals[static_cast<std::size_t>(wait.signal)].name.find(text) != std::string::npos;
  });
  ASSERT_LT(transfer.waits.size(), before) << "it does not wait for " << text;
}

TEST(ExchangeTheorems, PlansSayWhatEachBufferShows) {
  const Plan plan = compiled("gemm_a2a");
  ASSERT_EQ(plan.buffers.size(), 4U);
  const Buffer& inside = plan.buffers[2];
  const Buffer& result = plan.buffers[3];
  EXPECT_EQ(inside.name, "c_inside");
  EXPECT_EQ(inside.parameter, "c_ptr");
  EXPECT_EQ(inside.shape, (Shape{32, 32}));
  EXPECT_EQ(shown_region(inside, 1), (Region{{32, 64}, {0, 32}}));
  EXPECT_FALSE(inside.symmetric);
  EXPECT_EQ(result.name, "c");
  EXPECT_EQ(result.role, BufferRole::result);
  EXPECT_EQ(result.partner, 2);
  EXPECT_EQ(result.shape, (Shape{64, 16}));
  EXPECT_EQ(shown_region(result, 1), (Region{{0, 64}, {16, 32}}));
  EXPECT_TRUE(result.symmetric);
  EXPECT_EQ(output_region(plan, 3, 1), (Region{{0, 64}, {0, 16}}));
  EXPECT_TRUE(output_region(plan, 2, 1).empty());
  // Rank 0's last 16 columns are rank 1's first.
  const Transfer& sent = plan.programs[0].queues[0].transfers[0];
  EXPECT_EQ(sent.source, (View{0, 2, {{0, 32}, {16, 32}}}));
  EXPECT_EQ(sent.destination, (View{1, 3, {{0, 32}, {0, 16}}}));
  EXPECT_EQ(extra_memory(plan).staging, 32 * 32 * 2);
}

TEST(ExchangeTheorems, AResultIsOverwrittenOnlyWhenItsCallerHasBegunAgain) {
  Plan plan = compiled("gemm_a2a");
  stop_waiting(plan, transfer(plan, 0, 0), "inputs of rank 1");
  EXPECT_THAT(refutation(plan, "no overwrite of live data"),
              AllOf(HasSubstr("may overwrite c[0:32, 0:16] while the caller of rank 1 still takes it"),
                    HasSubstr("1. rank 1 completes launch e, and its caller begins to take the output")));
  EXPECT_THAT(found_by_cpu_ranks(plan), HasSubstr("rank 1"));
  // That it has completed the launch before is not enough: then its caller takes the output.
  Signal finished{"complete", 0, signal_count(plan, 0), 1, "rank 1 has completed a launch"};
  plan.programs[1].completion_signals.push_back(static_cast<int>(plan.signals.size()));
  transfer(plan, 0, 0).waits.push_back({static_cast<int>(plan.signals.size()), 0});
  plan.signals.push_back(finished);
  EXPECT_THAT(refutation(plan, "no overwrite of live data"), HasSubstr("while the caller of rank 1 still takes it"));
  EXPECT_THAT(found_by_cpu_ranks(plan), HasSubstr("taking the outputs of launch 1"));
}

TEST(ExchangeTheorems, WhatTilesStoreLeavesWhenAllHaveStored) {
  Plan plan = compiled("gemm_a2a");
  stop_waiting(plan, transfer(plan, 0, 0), "of rank 0 for rank 1");
  EXPECT_THAT(refutation(plan, "no read before its data"),
              AllOf(HasSubstr("may send c_inside["), HasSubstr("stores it and raises 'c[0:32, 16:32] of rank 0 for")));
  EXPECT_NE(found_by_cpu_ranks(plan), "");
}

TEST(ExchangeTheorems, WhatARankCopiesForItselfIsWaitedForToo) {
  Plan plan = compiled("a2a_gemm");
  const Transfer own = transfer(plan, 0, 1);
  ASSERT_EQ(own.operator_index, -1);
  ASSERT_EQ(own.source.rank, own.destination.rank);
  for (Slot& slot : plan.programs[0].slots)
    std::erase_if(slot.waits, [&](const Wait& wait) { return wait.signal == own.signals.front(); });
  EXPECT_THAT(
      refutation(plan, "no read before its data"),
      AllOf(HasSubstr("may read a_inside[0:16, 0:16] before it is there"),
            HasSubstr("only then comes transfer (a[0:16, 0:16] from rank 0 to a_inside[0:16, 0:16] of rank 0")));
  EXPECT_NE(found_by_cpu_ranks(plan), "");
}

/// What form says of a plan that is changed.
std::string form_of(const std::string& name, const std::function<void(Plan&)>& change) {
  Plan plan = compiled(name);
  change(plan);
  return refutation(plan, "form");
}

TEST(ExchangeTheorems, Form) {
  EXPECT_EQ(form_of("gemm_a2a", [](Plan& plan) { plan.buffers[3].window[1][1] = {15, 31}; }),
            "buffer c shows [0:64, 15:31] on rank 1, but its placement says [0:64, 16:32]");
  EXPECT_EQ(form_of("gemm_a2a", [](Plan& plan) { plan.buffers[2].window[1][0] = {32, 63}; }),
            "buffer c_inside, of shape 32 x 32, cannot show [32:63, 0:32] of its tensor on rank 1");
  EXPECT_EQ(form_of("gemm_a2a", [](Plan& plan) { plan.buffers[3].window.clear(); }),
            "nothing says what buffer c shows");
  EXPECT_EQ(form_of("gemm_a2a", [](Plan& plan) { plan.buffers[3].window.pop_back(); }),
            "buffer c says what it shows on 1 ranks; the plan is for 2");
  EXPECT_EQ(form_of("gemm_a2a", [](Plan& plan) { plan.buffers[3].partner = 3; }),
            "buffer c is for buffer number 3, which is none of the kernel's");
  EXPECT_EQ(form_of("gemm_a2a", [](Plan& plan) { plan.buffers[3].partner = 1; }),
            "buffers c and b cannot be of one tensor");
  EXPECT_EQ(form_of("gemm_a2a", [](Plan& plan) { plan.buffers.push_back(plan.buffers[3]); }),
            "two buffers are on the caller's side of c_inside");
  EXPECT_THAT(form_of("gemm_a2a", [](Plan& plan) { transfer(plan, 0, 0).destination.region[0] = {32, 64}; }),
              HasSubstr("moves c_inside[0:32, 16:32] to [32:64, 0:16]: the elements of a tensor keep their places"));
  EXPECT_THAT(form_of("gemm_a2a", [](Plan& plan) { plan.buffers[3].symmetric = false; }),
              HasSubstr("reaches for c of rank 1, which is local: peers cannot reach it"));
  EXPECT_THAT(form_of("a2a_gemm", [](Plan& plan) { transfer(plan, 0, 0).destination.buffer = 3; }),
              HasSubstr("goes from buffer a to buffer c"));
  EXPECT_THAT(form_of("gemm_a2a", [](Plan& plan) { plan.tiles[0].writes[0].buffer = 3; }),
              HasSubstr("uses c, which is none of the kernel's"));
  EXPECT_THAT(form_of("a2a_gemm", [](Plan& plan) { plan.buffers[0].held[0] = {Region{{0, 32}, {0, 16}}}; }),
              HasSubstr("the caller puts something into buffer a_inside, which the operator fills"));
  EXPECT_THAT(form_of("a2a_gemm", [](Plan& plan) { plan.buffers[1].held[0] = {Region{{0, 8}, {0, 32}}}; }),
              HasSubstr("rank 0 holds a[0:8, 0:32] before the operator, but its placement says [0:16, 0:32]"));
}

TEST(ExchangeTheorems, Coverage) {
  Plan plan = compiled("gemm_a2a");
  Transfer& sent = transfer(plan, 0, 0);
  sent.source.region[0].end = sent.destination.region[0].end = 31;
  EXPECT_THAT(refutation(plan, "coverage"),
              HasSubstr("the caller needs c to be [0:64, 0:16] on rank 1, but nobody fills c[31:32, 0:16]"));
  plan = compiled("a2a_gemm");
  Transfer& own = transfer(plan, 1, 1);
  own.source.region[1].end = own.source.region[1].begin;
  own.destination.region[1].end = own.destination.region[1].begin;
  EXPECT_THAT(
      refutation(plan, "coverage"),
      HasSubstr("tile (1, 0) on rank 1 reads a_inside[16:32, 0:16], but a_inside[16:32, 0:16] is neither put there by "
                "the caller nor brought by a transfer"));
}

// ---- Sums that every rank is to have ------------------------------------------------------------------------------

Plan all_reduce(const std::string& algorithm = "direct", const std::string& ranks = "2") {
  return compiled("gemm_ar", {{"communicate.c.algorithm", algorithm}, {"ranks", ranks}, {"kernel.args.M", "48"}});
}

/// The first transfer of a rank that brings whole sums.
Transfer& distribution(Plan& plan, std::size_t rank) {
  for (Queue& queue : plan.programs[rank].queues)
    for (Transfer& each : queue.transfers)
      if (each.destination.buffer == 2) return each;
  throw InternalError("nothing is distributed");
}

TEST(DistributedSums, LeaveWhenTheyAreComplete) {
  Plan plan = all_reduce();
  distribution(plan, 0).waits.clear();
  EXPECT_THAT(refutation(plan, "no read before its data"), HasSubstr("may send c[0:16, 0:16] before it is there"));
  EXPECT_THAT(refutation(plan, "no overwrite of live data"),
              HasSubstr("may overwrite c[0:24, 0:32] while the caller of rank 1 still takes it"));
  EXPECT_NE(found_by_cpu_ranks(plan), "");
  // That rank 1 has begun is not enough: it has still to store, and to send, its summand.
  plan.programs[1].start_signals.push_back(static_cast<int>(plan.signals.size()));
  distribution(plan, 0).waits = {{static_cast<int>(plan.signals.size()), 1}};
  plan.signals.push_back({"begun", 0, signal_count(plan, 0), 1, "rank 1 has begun a launch"});
  EXPECT_THAT(refutation(plan, "no overwrite of live data"),
              AllOf(HasSubstr("may put its sum into c["), HasSubstr("and the sum is lost")));
  EXPECT_NE(found_by_cpu_ranks(plan), "");
}

TEST(DistributedSums, AreWaitedFor) {
  Plan plan = all_reduce();
  plan.programs[1].completion_waits.clear();
  EXPECT_THAT(refutation(plan, "no overwrite of live data"), HasSubstr("while rank 0 still adds it"));
  EXPECT_NE(found_by_cpu_ranks(plan), "");
}

TEST(DistributedSums, GoEverywhereOnce) {
  Plan plan = all_reduce();
  Transfer& sum = distribution(plan, 0);
  sum.source.region[0].end = sum.destination.region[0].end = 20;
  EXPECT_THAT(refutation(plan, "coverage"),
              AllOf(HasSubstr("stores in c[20:24, 0:16] the sum of the summands of ranks 1 alone"),
                    HasSubstr("it is to be (0 + 1)")));
  EXPECT_NE(found_by_cpu_ranks(plan), "");
  plan = all_reduce();
  for (Queue& queue : plan.programs[0].queues)
    if (queue.transfers.front().destination.buffer == 2) {
      queue.transfers.push_back(queue.transfers.front());
      queue.transfers.back().signals.clear();
    }
  EXPECT_THAT(refutation(plan, "coverage"), HasSubstr("c[0:24, 0:32] on rank 1 is filled twice in a launch"));
}

TEST(DistributedSums, ThatAreSentOnHaveArrived) {
  Plan plan = all_reduce("ring", "3");
  // Rank 1 sends on what rank 0 has summed: without the wait it may be its own summand.
  bool changed = false;
  for (Queue& queue : plan.programs[1].queues)
    for (Transfer& each : queue.transfers)
      if (each.destination.buffer == 2 && each.source.region[0].begin == 0) {
        each.waits.clear();
        changed = true;
      }
  ASSERT_TRUE(changed);
  EXPECT_FALSE(verify(plan).holds());
  EXPECT_NE(found_by_cpu_ranks(plan), "");
}

TEST(DistributedSums, NeedNoSignalThatBuffersAreFree) {
  // That a rank has all sums says that its peers have added all it sent them.
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"}) {
    const Plan plan = all_reduce(algorithm, "3");
    for (const RankProgram& program : plan.programs) EXPECT_TRUE(program.completion_signals.empty()) << algorithm;
  }
}

}  // namespace
}  // namespace syncopate
