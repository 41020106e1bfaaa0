#include "syncopate/cuda/mailboxes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "repository.h"
#include "syncopate/driver/driver.h"

namespace syncopate::cuda {
namespace {

Plan compiled(const std::string& file, const std::string& tensor, const std::string& algorithm,
              const std::string& initiator, int ranks) {
  return compile_operator(testing::operator_file(file), {{"ranks", std::to_string(ranks)},
                                                         {"communicate." + tensor + ".algorithm", algorithm},
                                                         {"communicate." + tensor + ".initiator", initiator}});
}

int waits_without_mailbox(const Plan& plan) {
  const Mailboxes mailboxes = assign_mailboxes(plan);
  int count = 0;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const auto& queues = plan.programs[static_cast<std::size_t>(rank)].queues;
    for (std::size_t queue = 0; queue < queues.size(); ++queue)
      for (const Transfer& transfer : queues[queue].transfers)
        for (const Wait& wait : transfer.waits)
          count += mailboxes.find(rank, static_cast<int>(queue), wait.signal) < 0 ? 1 : 0;
  }
  return count;
}

struct Shipped {
  const char* file;
  const char* tensor;
};

TEST(Mailboxes, NoQueueOfAShippedOperatorNeedsAKernelToWait) {
  for (const Shipped& shipped : {Shipped{"ag_gemm.toml", "a"}, Shipped{"gemm_rs.toml", "c"}})
    for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
      for (const char* initiator : {"push", "pull"})
        for (const int ranks : {2, 3, 4, 5, 8}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", shipped.file, algorithm, initiator, ranks));
          EXPECT_EQ(waits_without_mailbox(compiled(shipped.file, shipped.tensor, algorithm, initiator, ranks)), 0);
        }
}

TEST(Mailboxes, NoQueueOfAOneShotSumNeedsAKernelToWait) {
  for (const char* initiator : {"push", "pull"})
    for (const int ranks : {2, 3, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} {}", initiator, ranks));
      const Plan plan = compiled("gemm_ar.toml", "c", "one_shot", initiator, ranks);
      EXPECT_EQ(waits_without_mailbox(plan), 0);
      // What additions wait for is in flags, which kernels read.
      const std::vector<SignalWords> words = words_of_signals(plan, assign_mailboxes(plan));
      for (const RankProgram& program : plan.programs)
        for (const Addition& addition : program.additions)
          for (const Wait& wait : addition.waits) EXPECT_TRUE(words[static_cast<std::size_t>(wait.signal)].flag);
    }
}

/// Two ranks that push one chunk each: each queue waits for the other rank to have completed the launch before.
Plan pushing() {
  return compile_operator(testing::operator_file("ag_gemm.toml"), {{"ranks", "2"}, {"communicate.a.split", "1"}});
}

TEST(Mailboxes, AWaitForThePreviousLaunchHasOneThatStartsFull) {
  const Plan plan = pushing();
  const Mailboxes mailboxes = assign_mailboxes(plan);
  ASSERT_EQ(mailboxes.of_rank[0].size(), 1U);
  EXPECT_EQ(mailboxes.most(), 1U);
  const Mailbox& mailbox = mailboxes.of_rank[0][0];
  EXPECT_TRUE(mailbox.previous_launch);
  EXPECT_EQ(mailbox.queue, 0);
  EXPECT_EQ(mailbox.last_transfer, 0);
  EXPECT_EQ(mailboxes.find(0, 0, mailbox.signal), 0);
  EXPECT_EQ(mailboxes.find(1, 0, mailbox.signal), -1);
}

TEST(Mailboxes, AWaitForThePreviousLaunchOfARankThatDoesNotHearOfItHasNone) {
  // Nothing on rank 1 waits for what rank 0 sends: its next completion could come before rank 0 has taken this one.
  Plan plan = pushing();
  for (Slot& slot : plan.programs[1].slots) slot.waits.clear();
  const Mailboxes mailboxes = assign_mailboxes(plan);
  EXPECT_TRUE(mailboxes.of_rank[0].empty());
  EXPECT_EQ(mailboxes.of_rank[1].size(), 1U);
}

/// Two ranks that pull one chunk each: each queue waits for the other rank's inputs.
Plan pulling() {
  return compile_operator(testing::operator_file("ag_gemm.toml"),
                          {{"ranks", "2"}, {"communicate.a.split", "1"}, {"communicate.a.initiator", "pull"}});
}

TEST(Mailboxes, AWaitForThisLaunchHasOneThatStartsEmpty) {
  const Mailboxes mailboxes = assign_mailboxes(pulling());
  ASSERT_EQ(mailboxes.of_rank[1].size(), 1U);
  EXPECT_FALSE(mailboxes.of_rank[1][0].previous_launch);
}

TEST(Mailboxes, ARaiserThatMayRunAheadMeansThereIsNone) {
  // Rank 0 completes without knowing that rank 1 has pulled, so it could raise its next start before.
  Plan plan = pulling();
  plan.programs[0].completion_waits.clear();
  const Mailboxes mailboxes = assign_mailboxes(plan);
  EXPECT_TRUE(mailboxes.of_rank[1].empty());
  EXPECT_EQ(mailboxes.of_rank[0].size(), 1U);
}

TEST(Mailboxes, AWaitForSomeOfTheRaisesOrOfTwoLaunchesHasNone) {
  Plan some = pulling();
  const int signal = some.programs[1].queues[0].transfers[0].waits.at(0).signal;
  some.signals[static_cast<std::size_t>(signal)].per_launch = 2;
  EXPECT_TRUE(assign_mailboxes(some).of_rank[1].empty()) << "the second raise may come after it was set back";

  Plan both = pulling();
  both.programs[1].queues[0].transfers[0].waits.push_back({signal, 0});
  EXPECT_TRUE(assign_mailboxes(both).of_rank[1].empty());
}

TEST(Mailboxes, RaisesReachOnlyWhatSomethingWaitsOn) {
  const Plan plan = pulling();
  const Mailboxes mailboxes = assign_mailboxes(plan);
  const auto words = words_of_signals(plan, mailboxes);
  const int started = plan.programs[1].queues[0].transfers[0].waits.at(0).signal;
  const int arrived = plan.programs[1].queues[0].transfers[0].signals.at(0);
  EXPECT_FALSE(words[static_cast<std::size_t>(started)].flag);
  EXPECT_EQ(words[static_cast<std::size_t>(started)].mailboxes, std::vector<int>{0});
  EXPECT_TRUE(words[static_cast<std::size_t>(arrived)].flag);
  EXPECT_TRUE(words[static_cast<std::size_t>(arrived)].mailboxes.empty());
}

}  // namespace
}  // namespace syncopate::cuda
