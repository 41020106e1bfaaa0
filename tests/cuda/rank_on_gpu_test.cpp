// A prepared rank, its mailboxes and its graphs on a simulated GPU, where everything that may happen in any order
// happens in a random one.
#include "syncopate/cuda/rank_on_gpu.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulated_ranks.h"
#include "small_plans.h"
#include "syncopate/core/error.h"
#include "syncopate/cuda/device_code.h"
#include "syncopate/cuda/rank_watch.h"

namespace syncopate::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Issue kEveryIssue[] = {Issue::steps, Issue::graph, Issue::captured};

void expect_right(const Plan& plan, std::uint64_t seed) {
  for (const Issue issue : kEveryIssue) {
    SCOPED_TRACE(fmt::format("issue {}", static_cast<int>(issue)));
    SimulatedRanks ranks(plan, issue, seed);
    for (int stretch = 0; stretch < 2; ++stretch) ASSERT_TRUE(ranks.run(6)) << "stuck";
    EXPECT_THAT(ranks.problems, IsEmpty());
    EXPECT_EQ(ranks.machine().kernels_started["stand_in"], 12 * plan.ranks);
    EXPECT_EQ(ranks.machine().graphs_launched, issue == Issue::steps ? 0 : 12 * plan.ranks);
  }
}

TEST(RankOnGpu, GathersInEveryInterleaving) {
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {1, 2, 3, 4})
        for (std::uint64_t seed = 0; seed < 3; ++seed) {
          SCOPED_TRACE(fmt::format("{} {} {} ranks, seed {}", algorithm, initiator, ranks, seed));
          expect_right(small_gather(algorithm, initiator, ranks), seed);
        }
}

TEST(RankOnGpu, ReducesInEveryInterleaving) {
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {1, 2, 3, 4})
        for (std::uint64_t seed = 0; seed < 3; ++seed) {
          SCOPED_TRACE(fmt::format("{} {} {} ranks, seed {}", algorithm, initiator, ranks, seed));
          expect_right(small_reduce(algorithm, initiator, ranks), seed);
        }
}

TEST(RankOnGpu, ReducesWhereTilesStraddleAndStagingIsReused) {
  for (const char* initiator : {"push", "pull"}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      SCOPED_TRACE(fmt::format("{} seed {}", initiator, seed));
      const Plan ragged = small_reduce("direct", initiator, 3, 120);
      ASSERT_TRUE(cuts_tiles(ragged));
      expect_right(ragged, seed);
      expect_right(small_reduce("ring", initiator, 3, 120), seed);
    }
  }
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::vector<Override> four = {{"communicate.c.split", "4"}};
    std::vector<Override> tight = four;
    tight.push_back({"communicate.c.memory_budget", "\"3 KiB\""});
    const Plan plan = small_reduce("direct", "push", 3, 192, tight);
    ASSERT_LT(extra_memory(plan).staging, extra_memory(small_reduce("direct", "push", 3, 192, four)).staging);
    expect_right(plan, seed);
  }
}

const std::vector<Override> kDynamic = {{"launch.order", "dynamic"}};

TEST(RankOnGpu, WorkersChooseAmongTilesInEveryInterleaving) {
  for (const char* algorithm : {"direct", "ring"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {1, 2, 3})
        for (std::uint64_t seed = 0; seed < 3; ++seed) {
          SCOPED_TRACE(fmt::format("{} {} {} ranks, seed {}", algorithm, initiator, ranks, seed));
          expect_right(small_gather(algorithm, initiator, ranks, kDynamic), seed);
          expect_right(small_reduce(algorithm, initiator, ranks, 0, kDynamic), seed);
        }
  std::vector<Override> near = kDynamic;
  near.push_back({"launch.lookahead", "1"});
  for (std::uint64_t seed = 0; seed < 5; ++seed) expect_right(small_reduce("direct", "push", 3, 120, near), seed);
}

TEST(RankOnGpu, AWaitThatHasNoMailboxIsAKernel) {
  Plan plan = small_gather("direct", "pull", 3);
  for (RankProgram& program : plan.programs)
    for (Queue& queue : program.queues)
      for (Transfer& transfer : queue.transfers) {
        const std::vector<Wait> waits = transfer.waits;  // each also for the launch before: true, and no mailbox can be
        for (const Wait& wait : waits) transfer.waits.push_back({wait.signal, 0});
      }
  EXPECT_EQ(assign_mailboxes(plan).most(), 0U);
  for (std::uint64_t seed = 0; seed < 10; ++seed) expect_right(plan, seed);
}

/// Whether some interleaving shows that something is wrong.
bool shows(const Plan& plan) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SimulatedRanks ranks(plan, Issue::graph, seed);
    if (!ranks.run(6) || !ranks.problems.empty()) return true;
  }
  return false;
}

TEST(RankOnGpu, TheSimulationShowsWhatIsWrong) {
  Plan plan = small_gather("direct", "push", 3);
  for (Slot& slot : plan.programs[0].slots) slot.waits.clear();
  EXPECT_TRUE(shows(plan)) << "tiles that do not wait";

  plan = small_gather("direct", "push", 3);
  for (Queue& queue : plan.programs[1].queues)
    for (Transfer& transfer : queue.transfers) transfer.waits.clear();
  EXPECT_TRUE(shows(plan)) << "pushes into buffers that are still read";

  plan = small_reduce("direct", "push", 3);
  for (Slot& slot : plan.programs[0].slots) slot.sum_waits.clear();
  EXPECT_TRUE(shows(plan)) << "sums of what is not there yet";
}

TEST(RankOnGpu, AGraphHasNoNodeThatIsNotNeeded) {
  // The kernel, the completion; and for two chunks, each a copy and its flag. A push into memory that is read waits
  // once, for the launch before; chunks of summands wait for the tiles, the first one also for the launch before.
  EXPECT_THAT(SimulatedRanks(small_gather("direct", "push", 2), Issue::graph, 0).machine().graph_sizes,
              ElementsAre(7, 7));
  EXPECT_THAT(SimulatedRanks(small_reduce("direct", "push", 2), Issue::graph, 0).machine().graph_sizes,
              ElementsAre(8, 8));
  // A pull needs a small kernel that says that inputs are in place, waits for the peer's, and tells it of the end.
  EXPECT_THAT(SimulatedRanks(small_gather("direct", "pull", 2), Issue::graph, 0).machine().graph_sizes,
              ElementsAre(9, 9));
}

TEST(RankOnGpu, AWithheldTransferBlocksItsLaunch) {
  for (const Issue issue : {Issue::steps, Issue::graph}) {
    SimulatedRanks ranks(small_reduce("direct", "push", 2), issue, 1,
                         WithheldTransfer{.rank = 1, .queue = 0, .transfer = 0, .launch = 3});
    EXPECT_TRUE(ranks.run(2));
    EXPECT_FALSE(ranks.run(1));
    EXPECT_THAT(ranks.problems, IsEmpty());
  }
}

TEST(RankOnGpu, TheLaunchBehindAWithheldTransferDoesNotMakeUpForIt) {
  // The push of launch 3 is the one that takes the word that launch 2 has read; without it that of launch 4 must wait.
  SimulatedRanks ranks(small_gather("direct", "push", 2), Issue::steps, 1,
                       WithheldTransfer{.rank = 0, .queue = 0, .transfer = 0, .launch = 3});
  EXPECT_TRUE(ranks.run(2));
  EXPECT_FALSE(ranks.run(2));
  EXPECT_THAT(ranks.problems, IsEmpty());
}

TEST(RankOnGpu, TheKernelWithoutWaitingDisturbsNoLaunch) {
  for (const Plan& plan :
       {small_gather("direct", "push", 3), small_reduce("direct", "push", 3),
        small_gather("direct", "push", 3, kDynamic), small_reduce("direct", "push", 3, 0, kDynamic)}) {
    SimulatedRanks ranks(plan, Issue::graph, 3);
    ASSERT_TRUE(ranks.run(3));
    ranks.problems.clear();
    for (int rank = 0; rank < 3; ++rank) ranks.rank(rank).kernel_without_waiting(nullptr);
    ASSERT_TRUE(ranks.run(0)) << "it needs nobody";
    ranks.problems.clear();  // it has read what the launch before left
    ASSERT_TRUE(ranks.run(3));
    EXPECT_THAT(ranks.problems, IsEmpty());
  }
}

/// Over and over in the same launch: it takes all tiles each time.
TEST(RankOnGpu, TheKernelWithoutWaitingTakesItsTilesAnew) {
  SimulatedRanks ranks(small_gather("direct", "push", 3, kDynamic), Issue::graph, 3);
  ASSERT_TRUE(ranks.run(2));
  for (int time = 0; time < 3; ++time) {
    ranks.problems.clear();
    ranks.rank(1).kernel_without_waiting(nullptr);
    ASSERT_TRUE(ranks.run(0));
    EXPECT_FALSE(ranks.problems.empty()) << "it has read nothing, which would be of the launch before";
  }
  ranks.problems.clear();
  ASSERT_TRUE(ranks.run(2));
  EXPECT_THAT(ranks.problems, IsEmpty());
}

int index_of(const Plan& plan, const std::string& name) {
  for (std::size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].name == name) return static_cast<int>(i);
  throw std::runtime_error("no buffer " + name);
}

template <typename Call>
void expect_user_error(Call&& call, const std::string& problem) {
  try {
    call();
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr(problem));
    EXPECT_FALSE(error.remedy().empty());
  }
}

TEST(RankOnGpu, LocalTensorsMayBeTheCallers) {
  const Plan plan = small_gather("direct", "push", 2);
  SimulatedRanks ranks(plan, Issue::graph, 5);
  RankOnGpu& rank = ranks.rank(0);
  const int weight = index_of(plan, "b");
  EXPECT_TRUE(rank.can_bind(weight));
  EXPECT_FALSE(rank.can_bind(index_of(plan, "a")));
  const DevicePointer other = rank.gpu().allocate(1 << 16, "a weight");
  rank.bind(weight, other);
  EXPECT_EQ(rank.buffer(weight), other);
  ASSERT_TRUE(ranks.run(3));
  EXPECT_THAT(ranks.problems, IsEmpty());
  expect_user_error([&] { rank.bind(weight, other + 8); }, "is not a multiple of 16");
  expect_user_error([&] { rank.bind(index_of(plan, "a"), other); }, "the memory of 'a' must be the operator's own");
}

TEST(RankOnGpu, AReducedTensorIsTheOperators) {
  const Plan plan = small_reduce("direct", "push", 2);
  SimulatedRanks ranks(plan, Issue::graph, 5);
  EXPECT_FALSE(ranks.rank(0).can_bind(reduced_buffer(plan)));
  EXPECT_NE(ranks.rank(0).buffer(reduced_buffer(plan)), 0U);
}

TEST(RankOnGpu, MoreWorkersThanAreResidentAreAnError) {
  Plan plan = small_gather("direct", "push", 4);
  plan.workers = 33;
  expect_user_error([&] { SimulatedRanks ranks(plan, Issue::steps, 0); },
                    "the plan has 33 workers a rank, but the GPU's 132 SMs have room for 32");
}

TEST(RankOnGpu, MoreStreamsThanHardwareQueuesAreAnError) {
  Plan plan = small_gather("direct", "push", 4);
  for (RankProgram& program : plan.programs) program.queues.resize(8);
  expect_user_error(
      [&] { SimulatedRanks ranks(plan, Issue::steps, 0); },
      "4 ranks on one GPU need 37 streams at once (8 queues and the caller's for each, and 1 to watch them)");
  plan = small_gather("direct", "push", 8);
  plan.programs[5].queues.resize(3);  // of all ranks the one with most queues counts
  expect_user_error([&] { SimulatedRanks ranks(plan, Issue::graph, 0); }, "8 ranks on one GPU need 33 streams at once");
  for (RankProgram& program : plan.programs) program.queues.resize(2);
  EXPECT_TRUE(SimulatedRanks(plan, Issue::graph, 0).run(1)) << "25";
}

TEST(RankOnGpu, TheStreamOfACaptureDoesNotStay) {
  const Plan plan = small_gather("direct", "push", 2);
  const auto streams = [&](Issue issue) { return SimulatedRanks(plan, issue, 0).machine().streams; };
  EXPECT_EQ(streams(Issue::graph), streams(Issue::steps));
  EXPECT_EQ(streams(Issue::graph), 2 * (1 + 1)) << "a queue's and the caller's for each";
}

/// Gives launch 3 of all ranks, that of rank 0 up to an operation that the driver refuses. False if it refused none.
bool give_in_part(SimulatedRanks& ranks, int operations) {
  const int others = ranks.plan().ranks;
  for (int rank = 1; rank < others; ++rank)
    ranks.rank(rank).call_without_graph(ranks.rank(rank).gpu().make_stream(false));
  const Stream caller = ranks.rank(0).gpu().make_stream(false);
  ranks.machine().operations_until_failure = operations;
  try {
    ranks.rank(0).call_without_graph(caller);
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("the GPU failed while "));
    EXPECT_TRUE(ranks.rank(0).is_spent());
    expect_user_error([&] { ranks.rank(0).call(caller); }, "a launch of rank 0 was given to its GPU in part only");
    expect_user_error([&] { ranks.rank(0).begin(caller); }, "a launch of rank 0 was given to its GPU in part only");
    return true;
  }
  return false;
}

TEST(RankOnGpu, ALaunchGivenInPartSpendsItsRankAndCanBeLetGo) {
  for (const Plan& plan : {small_gather("direct", "push", 3), small_gather("direct", "pull", 2),
                           small_reduce("direct", "push", 2), small_reduce("ring", "push", 3)}) {
    int operations = 0;
    int stuck = 0;
    for (bool refused = true; refused; ++operations) {
      SCOPED_TRACE(fmt::format("{}, {} operations", plan.communication, operations));
      SimulatedRanks ranks(plan, Issue::steps, static_cast<std::uint64_t>(operations));
      ASSERT_TRUE(ranks.run(2));
      refused = give_in_part(ranks, operations);
      const bool ended = ranks.machine().run();
      EXPECT_TRUE(refused || ended);
      if (!ended) ++stuck;
      std::vector<RankWatch> watches;
      for (int rank = 0; rank < plan.ranks; ++rank)
        watches.emplace_back(ranks.rank(rank), ranks.rank(rank).gpu().make_stream(true));
      for (int again = 0; refused && again < 50 && !ranks.machine().run(); ++again)
        for (RankWatch& watch : watches) watch.let_go();
      ASSERT_TRUE(ranks.machine().run());
      for (int rank = 0; rank < plan.ranks; ++rank) EXPECT_TRUE(ranks.rank(rank).queues_ended());
    }
    EXPECT_GT(operations, 7);
    EXPECT_GT(stuck, 3) << "it waited for what never came";
  }
}

TEST(RankOnGpu, AQueueThatWaitsHasNotEnded) {
  const Plan plan = small_reduce("direct", "push", 2);
  SimulatedRanks ranks(plan, Issue::steps, 1);
  EXPECT_TRUE(ranks.rank(0).queues_ended());
  ranks.rank(0).transfer(0, 0);
  EXPECT_FALSE(ranks.rank(0).queues_ended());
  EXPECT_TRUE(ranks.rank(1).queues_ended());
}

TEST(RankOnGpu, TooLittleMemoryIsAnErrorThatSaysForWhat) {
  SimulatedGpu machine(0);
  machine.largest_allocation = 1000;
  Gpu gpu(machine.driver(), 0);
  EXPECT_NE(gpu.allocate(1000, "tensor a"), 0U);
  expect_user_error([&] { gpu.allocate(2048, "tensor a"); },
                    "too little free memory for allocating 2.00 KiB on GPU 0 for tensor a");
}

/// What a kernel leaves in the record of rank 0 becomes words.
std::string words_of_record(SimulatedRanks& ranks, const std::vector<std::int64_t>& record) {
  RankOnGpu& rank = ranks.rank(0);
  rank.gpu().upload(rank.record(), record.data(), record.size() * sizeof(std::int64_t));
  return RankWatch(rank, rank.gpu().make_stream(true)).missed().value_or("nothing");
}

TEST(RankWatch, SaysWhoWaitedForWhat) {
  const Plan plan = small_reduce("direct", "push", 2);
  SimulatedRanks ranks(plan, Issue::steps, 0);
  const auto& slots = plan.programs[0].slots;
  std::size_t own = 0;
  while (slots[own].sum_waits.empty()) ++own;
  const Signal& arrival = plan.signals[static_cast<std::size_t>(slots[own].sum_waits[0].signal)];
  EXPECT_EQ(words_of_record(ranks, {0, 0, 0, 0, 0}), "nothing");
  EXPECT_EQ(words_of_record(ranks, {1, 0, 0, 0, 0}), "nothing") << "it was let go";
  const std::string tile = words_of_record(ranks, {1, static_cast<std::int64_t>(own), arrival.slot, 3, 2});
  EXPECT_THAT(tile, HasSubstr("rank 0: tile ("));
  EXPECT_THAT(tile, HasSubstr(fmt::format("in launch 3 waited 10 s for '{}' (flag {}: {}): expected 3, seen 2",
                                          arrival.name, arrival.slot, arrival.counts)));
  EXPECT_THAT(words_of_record(ranks, {1, kCompletionWaits, arrival.slot, 5, 1}),
              HasSubstr("rank 0: the completion waited 10 s for 'c["));
  EXPECT_THAT(words_of_record(ranks, {1, who_waits_in_queue(0), arrival.slot, 5, 1}),
              HasSubstr("rank 0: a transfer of queue '"));
}

TEST(RankWatch, SeesARankElsewhereThatHasMissedAWaitThoughThisRanksLaunchEnded) {
  const Plan plan = small_reduce("ring", "push", 3);
  const int victim = plan.programs[0].queues[0].transfers[0].destination.rank;
  ASSERT_NE(victim, 0);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedRanks ranks(plan, Issue::steps, seed, WithheldTransfer{.rank = 0, .queue = 0, .transfer = 0, .launch = 2},
                         victim);
    const auto seen_by = [&](int rank) {
      RankWatch watch(ranks.rank(rank), ranks.rank(rank).gpu().make_stream(true));
      EXPECT_EQ(watch.missed().has_value(), rank == victim && !ranks.problems.empty());
      std::vector<int> others;
      for (int other = 0; other < plan.ranks; ++other)
        if (other != rank) others.push_back(other);
      return watch.missed_elsewhere(others);
    };
    ASSERT_TRUE(ranks.run(1));
    EXPECT_THAT(ranks.problems, IsEmpty());
    for (int rank = 0; rank < plan.ranks; ++rank) EXPECT_EQ(seen_by(rank), std::nullopt) << rank;
    ASSERT_TRUE(ranks.run(1)) << "every launch ends";
    EXPECT_FALSE(ranks.problems.empty()) << "with a wrong result";
    for (int rank = 0; rank < plan.ranks; ++rank)
      EXPECT_EQ(seen_by(rank), rank == victim ? std::nullopt : std::optional(victim)) << rank;
  }
}

TEST(RankWatch, NamesEmptyMailboxesAndFillsThem) {
  SimulatedRanks ranks(small_reduce("direct", "push", 2), Issue::steps, 0);
  RankOnGpu& rank = ranks.rank(0);
  const Stream control = rank.gpu().make_stream(true);
  RankWatch watch(rank, control);
  EXPECT_THAT(watch.empty_mailboxes(), HasSubstr("rank 0: queue '"));
  EXPECT_THAT(watch.empty_mailboxes(), HasSubstr("expected 2, seen 0")) << "tiles of a chunk";
  watch.let_go();
  rank.gpu().driver().stream_synchronize(control);
  EXPECT_EQ(watch.empty_mailboxes(), "");
  EXPECT_EQ(watch.missed(), std::nullopt);
  std::int64_t record = 0;
  rank.gpu().download(&record, rank.record(), sizeof record);
  EXPECT_EQ(record, 1) << "kernels that wait see it";
}

}  // namespace
}  // namespace syncopate::cuda
