#include "syncopate/cuda/issue.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "repository.h"
#include "syncopate/core/error.h"
#include "syncopate/driver/driver.h"

namespace syncopate::cuda {
namespace {

using ::testing::HasSubstr;

Plan gemm(const std::string& algorithm, const std::string& initiator, int ranks) {
  return compile_operator(testing::operator_file("ag_gemm.toml"), {{"ranks", std::to_string(ranks)},
                                                                   {"communicate.a.algorithm", algorithm},
                                                                   {"communicate.a.initiator", initiator}});
}

const RankProgram& program(const Plan& plan, int rank) { return plan.programs[static_cast<std::size_t>(rank)]; }

void expect_raised(const Plan& plan, const std::vector<std::int64_t>& raised, const std::vector<Wait>& waits) {
  for (const Wait& wait : waits)
    EXPECT_GE(raised[static_cast<std::size_t>(wait.signal)], wait.threshold)
        << plan.signals[static_cast<std::size_t>(wait.signal)].name;
}

TEST(IssueOrder, HoldsEveryStepOnceAfterAllThatItWaitsFor) {
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"}) {
    for (const char* initiator : {"push", "pull"}) {
      for (const int ranks : {1, 2, 3, 5}) {
        SCOPED_TRACE(fmt::format("{} {} {}", algorithm, initiator, ranks));
        const Plan plan = gemm(algorithm, initiator, ranks);
        std::vector<std::int64_t> raised(plan.signals.size(), 0);
        std::vector<int> begun(static_cast<std::size_t>(ranks), 0);
        std::vector<int> completed(static_cast<std::size_t>(ranks), 0);
        std::size_t transfers = 0;
        std::size_t left = 0;
        for (int rank = 0; rank < ranks; ++rank)
          for (const Queue& queue : program(plan, rank).queues) left += queue.transfers.size();
        std::vector<std::vector<int>> next(static_cast<std::size_t>(ranks), std::vector<int>(8, 0));
        for (const Step& step : issue_order(plan)) {
          const auto rank = static_cast<std::size_t>(step.rank);
          const RankProgram& of = program(plan, step.rank);
          const std::vector<int>* signals = nullptr;
          if (step.kind == Step::Kind::begin) {
            EXPECT_EQ(begun[rank]++, 0);
            signals = &of.start_signals;
          } else if (step.kind == Step::Kind::transfer) {
            EXPECT_EQ(next[rank][static_cast<std::size_t>(step.queue)]++, step.transfer) << "queues are in order";
            EXPECT_EQ(begun[rank], 1);
            const Transfer& transfer =
                of.queues[static_cast<std::size_t>(step.queue)].transfers[static_cast<std::size_t>(step.transfer)];
            expect_raised(plan, raised, transfer.waits);
            signals = &transfer.signals;
            ++transfers;
          } else if (step.kind == Step::Kind::kernel) {
            EXPECT_EQ(begun[rank], 1);
            ++begun[rank];
            for (const Slot& slot : of.slots) expect_raised(plan, raised, slot.waits);
          } else {
            EXPECT_EQ(begun[rank], 2) << "after the kernel";
            expect_raised(plan, raised, of.completion_waits);
            ++completed[rank];
            signals = &of.completion_signals;
          }
          if (signals != nullptr)
            for (const int signal : *signals) ++raised[static_cast<std::size_t>(signal)];
        }
        EXPECT_EQ(transfers, left);
        EXPECT_THAT(completed, ::testing::Each(1));
        for (std::size_t signal = 0; signal < raised.size(); ++signal)
          EXPECT_EQ(raised[signal], plan.signals[signal].per_launch) << plan.signals[signal].name;
      }
    }
  }
}

void expect_blocked(const Plan& plan, const std::string& who) {
  try {
    issue_order(plan);
    FAIL() << "an order was found";
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("the plan blocks: " + who));
    EXPECT_THAT(error.remedy(), HasSubstr("syncopate verify"));
  }
}

TEST(IssueOrder, APlanThatBlocksHasNone) {
  Plan tile = gemm("direct", "push", 2);
  for (Queue& queue : tile.programs[0].queues)
    for (Transfer& transfer : queue.transfers) transfer.signals.clear();
  expect_blocked(tile, "a tile");

  Plan transfer = gemm("ring", "push", 3);
  Transfer& first = transfer.programs[0].queues[0].transfers[0];
  const int own = static_cast<int>(transfer.signals.size());
  transfer.signals.push_back({"own", 0, signal_count(transfer, 0), 1, "itself"});
  first.waits.push_back({own, 1});
  first.signals.push_back(own);
  expect_blocked(transfer, "a transfer");

  Plan completion = gemm("direct", "pull", 2);
  ASSERT_FALSE(completion.programs[0].completion_waits.empty());
  completion.programs[0].completion_waits[0].threshold += 1;
  expect_blocked(completion, "the completion of a rank");
}

}  // namespace
}  // namespace syncopate::cuda
