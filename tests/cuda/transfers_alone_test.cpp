#include "syncopate/cuda/transfers_alone.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "repository.h"
#include "simulated_ranks.h"
#include "small_plans.h"
#include "syncopate/driver/driver.h"

namespace syncopate::cuda {
namespace {

/// Rank, queue, position.
using Place = std::tuple<int, std::size_t, std::size_t>;

template <typename Function>
void for_each_transfer(const Plan& plan, Function&& function) {
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const auto& queues = plan.programs[static_cast<std::size_t>(rank)].queues;
    for (std::size_t queue = 0; queue < queues.size(); ++queue)
      for (std::size_t i = 0; i < queues[queue].transfers.size(); ++i)
        function(Place{rank, queue, i}, queues[queue].transfers[i]);
  }
}

std::set<Place> raisers(const Plan& plan, int signal) {
  std::set<Place> places;
  for_each_transfer(plan, [&](const Place& place, const Transfer& transfer) {
    if (std::count(transfer.signals.begin(), transfer.signals.end(), signal) > 0) places.insert(place);
  });
  return places;
}

/// The transfers that must be complete before tiles can raise `signal`.
std::set<Place> behind_tiles(const Plan& plan, int signal) {
  std::set<Place> places;
  for (const RankProgram& program : plan.programs)
    for (const Slot& slot : program.slots)
      if (std::count(slot.signals.begin(), slot.signals.end(), signal) > 0)
        for (const Wait& wait : slot.sum_waits) places.merge(raisers(plan, wait.signal));
  return places;
}

template <typename Function>
void for_each_plan(Function&& function) {
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {1, 2, 3, 4})
        for (const bool reduced : {false, true}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", reduced ? "reduce" : "gather", algorithm, initiator, ranks));
          function(reduced ? small_reduce(algorithm, initiator, ranks) : small_gather(algorithm, initiator, ranks));
        }
}

TEST(TransfersAlone, WaitForWhatTheTilesWaitForThatTheyWaitedFor) {
  std::size_t behind = 0;
  for_each_plan([&](const Plan& plan) {
    const Plan alone = transfers_alone(plan);
    for_each_transfer(plan, [&](const Place& place, const Transfer& transfer) {
      const auto [rank, queue, position] = place;
      const Transfer& now = alone.programs[static_cast<std::size_t>(rank)].queues[queue].transfers[position];
      EXPECT_EQ(now.source, transfer.source);
      EXPECT_EQ(now.destination, transfer.destination);
      std::set<Place> waited_for;
      for (const Wait& wait : now.waits) waited_for.merge(raisers(alone, wait.signal));
      for (const Wait& wait : transfer.waits) {
        for (const Place& before : behind_tiles(plan, wait.signal)) {
          EXPECT_EQ(waited_for.count(before), 1U);
          ++behind;
        }
      }
    });
  });
  EXPECT_GT(behind, 50U) << "rings of sums have such waits";
}

TEST(TransfersAlone, WaitForNothingThatTilesRaise) {
  for_each_plan([](const Plan& plan) {
    const Plan alone = transfers_alone(plan);
    std::set<int> raised;
    for (const RankProgram& program : alone.programs) {
      EXPECT_TRUE(program.slots.empty());
      raised.insert(program.start_signals.begin(), program.start_signals.end());
      raised.insert(program.completion_signals.begin(), program.completion_signals.end());
    }
    for_each_transfer(
        alone, [&](const Place&, const Transfer& each) { raised.insert(each.signals.begin(), each.signals.end()); });
    const auto expect_raised = [&](const std::vector<Wait>& waits, int rank) {
      for (const Wait& wait : waits) {
        EXPECT_EQ(raised.count(wait.signal), 1U) << alone.signals[static_cast<std::size_t>(wait.signal)].name;
        EXPECT_EQ(alone.signals[static_cast<std::size_t>(wait.signal)].home, rank);
      }
    };
    for_each_transfer(alone,
                      [&](const Place& place, const Transfer& each) { expect_raised(each.waits, std::get<0>(place)); });
    for (int rank = 0; rank < alone.ranks; ++rank)
      expect_raised(alone.programs[static_cast<std::size_t>(rank)].completion_waits, rank);
  });
}

TEST(TransfersAlone, CompletionsWaitForWhatSumsWaitedFor) {
  const Plan plan = compile_operator(testing::operator_file("gemm_ar.toml"), {{"communicate.c.algorithm", "one_shot"}});
  const Plan alone = transfers_alone(plan);
  for (std::size_t rank = 0; rank < alone.programs.size(); ++rank) {
    EXPECT_TRUE(alone.programs[rank].additions.empty());
    std::set<int> waited_for;
    for (const Wait& wait : alone.programs[rank].completion_waits) waited_for.insert(wait.signal);
    std::size_t arrivals = 0;
    for (const Addition& addition : plan.programs[rank].additions)
      for (const Wait& wait : addition.waits) {
        if (raisers(plan, wait.signal).empty()) continue;  // tiles raise it
        ++arrivals;
        EXPECT_EQ(waited_for.count(wait.signal), 1U);
      }
    EXPECT_GT(arrivals, 0U);
  }
}

/// The elements of a view, on ranks that have run.
std::vector<std::uint16_t> elements(SimulatedRanks& ranks, const View& view) {
  std::vector<std::uint16_t> all;
  const auto* data = reinterpret_cast<const std::uint16_t*>(ranks.rank(view.rank).buffer(view.buffer));
  for_each_run(view.region, ranks.plan().buffer(view.buffer).shape, [&](std::int64_t offset, std::int64_t run) {
    all.insert(all.end(), data + offset, data + offset + run);
  });
  return all;
}

/// Something else in every element of every buffer.
void fill(SimulatedRanks& ranks) {
  std::uint16_t next = 0;
  for (int rank = 0; rank < ranks.plan().ranks; ++rank)
    for (int buffer = 0; buffer < static_cast<int>(ranks.plan().buffers.size()); ++buffer) {
      auto* data = reinterpret_cast<std::uint16_t*>(ranks.rank(rank).buffer(buffer));
      std::generate_n(data, volume(ranks.plan().buffer(buffer).shape), [&] { return next++; });
    }
}

TEST(TransfersAlone, MoveEverythingInEveryInterleaving) {
  for_each_plan([](const Plan& plan) {
    for (std::uint64_t seed = 0; seed < 3; ++seed)
      for (const Issue issue : {Issue::steps, Issue::graph}) {
        SimulatedRanks ranks(transfers_alone(plan), issue, seed);
        fill(ranks);
        ASSERT_TRUE(ranks.run(4)) << "stuck";
        for_each_transfer(ranks.plan(), [&](const Place&, const Transfer& transfer) {
          EXPECT_EQ(elements(ranks, transfer.destination), elements(ranks, transfer.source));
        });
        EXPECT_EQ(ranks.machine().kernels_started["stand_in"], 0);
      }
  });
}

TEST(TransfersAlone, ReuseStagingMemoryWithoutEnd) {
  const Plan plan = small_reduce("direct", "push", 3, 192,
                                 {{"communicate.c.split", "4"}, {"communicate.c.memory_budget", "\"3 KiB\""}});
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    EXPECT_TRUE(SimulatedRanks(transfers_alone(plan), Issue::graph, seed).run(5));
}

}  // namespace
}  // namespace syncopate::cuda
