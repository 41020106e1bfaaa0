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

Plan reduce(const std::string& algorithm, const std::string& initiator, int ranks) {
  return compile_operator(testing::operator_file("gemm_rs.toml"), {{"ranks", std::to_string(ranks)},
                                                                   {"communicate.c.algorithm", algorithm},
                                                                   {"communicate.c.initiator", initiator}});
}

const RankProgram& program(const Plan& plan, int rank) { return plan.programs[static_cast<std::size_t>(rank)]; }

/// Checks an order step by step.
class Replay {
 public:
  explicit Replay(const Plan& plan)
      : plan_(plan),
        raised_(plan.signals.size(), 0),
        state_(static_cast<std::size_t>(plan.ranks), 0),
        next_(static_cast<std::size_t>(plan.ranks), std::vector<int>(8, 0)) {}

  void run(const std::vector<Step>& steps) {
    for (const Step& step : steps) take(step);
    std::size_t transfers = 0;
    for (int rank = 0; rank < plan_.ranks; ++rank)
      for (const Queue& queue : program(plan_, rank).queues) transfers += queue.transfers.size();
    EXPECT_EQ(transfers_, transfers);
    EXPECT_THAT(state_, ::testing::Each(3));
    for (std::size_t signal = 0; signal < raised_.size(); ++signal)
      EXPECT_EQ(raised_[signal], plan_.signals[signal].per_launch) << plan_.signals[signal].name;
    for (int rank = 0; rank < plan_.ranks; ++rank)
      for (const Slot& slot : program(plan_, rank).slots) {
        expect_raised(slot.waits);
        expect_raised(slot.sum_waits);
      }
  }

  bool kernels_came_last = true;  ///< no transfer behind a kernel

 private:
  void take(const Step& step) {
    const auto rank = static_cast<std::size_t>(step.rank);
    const RankProgram& of = program(plan_, step.rank);
    switch (step.kind) {
      case Step::Kind::begin:
        EXPECT_EQ(state_[rank]++, 0);
        raise(of.start_signals);
        break;
      case Step::Kind::transfer: {
        EXPECT_GE(state_[rank], 1);
        EXPECT_EQ(next_[rank][static_cast<std::size_t>(step.queue)]++, step.transfer) << "queues are in order";
        const Transfer& transfer =
            of.queues[static_cast<std::size_t>(step.queue)].transfers[static_cast<std::size_t>(step.transfer)];
        expect_raised(transfer.waits);
        raise(transfer.signals);
        ++transfers_;
        kernels_came_last = kernels_came_last && state_[rank] == 1;
        break;
      }
      case Step::Kind::kernel:
        EXPECT_EQ(state_[rank]++, 1);
        for (const Slot& slot : of.slots) raise(slot.signals);
        break;
      case Step::Kind::complete:
        EXPECT_EQ(state_[rank]++, 2) << "after the kernel";
        expect_raised(of.completion_waits);
        raise(of.completion_signals);
        break;
    }
  }

  void raise(const std::vector<int>& signals) {
    for (const int signal : signals) ++raised_[static_cast<std::size_t>(signal)];
  }

  void expect_raised(const std::vector<Wait>& waits) const {
    for (const Wait& wait : waits)
      EXPECT_GE(raised_[static_cast<std::size_t>(wait.signal)], wait.threshold)
          << plan_.signals[static_cast<std::size_t>(wait.signal)].name;
  }

  const Plan& plan_;
  std::vector<std::int64_t> raised_;
  std::vector<int> state_;  ///< per rank: begun, kernel given, complete
  std::vector<std::vector<int>> next_;
  std::size_t transfers_ = 0;
};

TEST(IssueOrder, HoldsEveryStepOnceAfterAllThatItsStreamWaitsFor) {
  for (const bool producer : {false, true}) {
    for (const char* algorithm : {"direct", "ring", "bidirectional_ring"}) {
      for (const char* initiator : {"push", "pull"}) {
        for (const int ranks : {1, 2, 3, 5}) {
          SCOPED_TRACE(fmt::format("producer {} {} {} {}", producer, algorithm, initiator, ranks));
          const Plan plan = producer ? reduce(algorithm, initiator, ranks) : gemm(algorithm, initiator, ranks);
          Replay replay(plan);
          replay.run(issue_order(plan));
          EXPECT_EQ(replay.kernels_came_last, !producer || ranks == 1);
        }
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

  Plan sum = reduce("direct", "push", 2);
  for (Queue& queue : sum.programs[0].queues)
    for (Transfer& each : queue.transfers) each.signals.clear();
  expect_blocked(sum, "a tile");

  Plan producer = reduce("direct", "push", 2);
  for (Slot& slot : producer.programs[0].slots) slot.signals.clear();
  expect_blocked(producer, "a transfer");

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
