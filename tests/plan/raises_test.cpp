// Who raises what tiles have done: of each worker only its last slot that has a part in it. (That no raise can be
// dropped, and none come earlier, is shown over many plans by the mutation tests in tests/driver.)
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "syncopate/driver/driver.h"

namespace syncopate {
namespace {

Plan compiled(const std::string& file, const std::vector<Override>& overrides) {
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/" + file, overrides);
}

/// M = 1024, N = 512, tiles 128 x 128: 8 x 4 tiles. Two ranks: each sends four rows of tiles in chunks of two, so eight
/// tiles a chunk.
Plan scatter(std::vector<Override> overrides) {
  overrides.insert(overrides.begin(), {"ranks", "2"});
  return compiled("gemm_rs.toml", overrides);
}

/// Raises by slots of a rank in a launch.
int raises_of(const RankProgram& program) {
  int raises = 0;
  for (const Slot& slot : program.slots) raises += static_cast<int>(slot.signals.size());
  return raises;
}

/// [signal][worker]: the slots of a rank that raise it, ascending.
using Raisers = std::map<int, std::map<int, std::vector<int>>>;
Raisers raisers_of(const Plan& plan, int rank) {
  Raisers raisers;
  const std::vector<Slot>& slots = plan.programs[static_cast<std::size_t>(rank)].slots;
  for (int s = 0; s < static_cast<int>(slots.size()); ++s)
    for (const int signal : slots[static_cast<std::size_t>(s)].signals) raisers[signal][s % plan.workers].push_back(s);
  return raisers;
}

TEST(Raises, OneForEachWorkerAndChunk) {
  struct Expected {
    const char* workers;
    int raises;
  };
  // Slots 0-7 and 8-15 store the two chunks.
  for (const auto& [workers, raises] : {Expected{"1", 2}, Expected{"3", 6}, Expected{"8", 16}, Expected{"11", 16}})
    for (const char* initiator : {"push", "pull"}) {
      const Plan plan = scatter({{"launch.workers", workers}, {"communicate.c.initiator", initiator}});
      for (const RankProgram& program : plan.programs) EXPECT_EQ(raises_of(program), raises) << workers << initiator;
    }
}

TEST(Raises, TheLastSlotOfAWorkerSpeaksForTheOthers) {
  const Plan plan = scatter({{"launch.workers", "3"}});
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::vector<int>> raising;
    for (const auto& [signal, workers] : raisers_of(plan, rank)) {
      EXPECT_EQ(plan.signals[static_cast<std::size_t>(signal)].per_launch, 3);
      std::vector<int> slots;
      for (const auto& [worker, list] : workers) slots.insert(slots.end(), list.begin(), list.end());
      raising.push_back(slots);
    }
    // Of slots 0-7 worker 0 has 0, 3, 6; worker 1 has 1, 4, 7; worker 2 has 2, 5. Of slots 8-15 they end with 15,
    // 13, 14.
    EXPECT_EQ(raising, (std::vector<std::vector<int>>{{6, 7, 5}, {15, 13, 14}}));
  }
}

/// The slots that have a part in what a transfer waits for: which store what it sends, or add what lies where it puts
/// its chunk.
bool stores(const Plan& plan, const Slot& slot, const View& view) {
  const std::vector<TileAccess>& writes = plan.tiles[static_cast<std::size_t>(slot.tile)].writes;
  return std::any_of(writes.begin(), writes.end(), [&](const TileAccess& write) {
    if (write.buffer != view.buffer) return false;
    const bool cut = slot.kept.dimensions() > 0 && write.buffer == reduced_buffer(plan);
    return (cut ? intersect(write.region, slot.kept) : write.region).overlaps(view.region);
  });
}
bool adds(const Plan& plan, const Slot& slot, const View& view) {
  return view.buffer == staging_buffer(plan) &&
         std::any_of(slot.addends.begin(), slot.addends.end(),
                     [&](const Addend& addend) { return addend.source.overlaps(view.region); });
}

/// Checks a rank's raises of a signal for which a transfer waits: one of each worker, by a slot that has a part in it
/// as no later slot of the worker does, until what was added is there to be added again.
void expect_last_slots(const Plan& plan, int rank, const std::map<int, std::vector<int>>& workers,
                       const std::function<bool(const Slot&)>& has_part, bool until_added) {
  const std::vector<Slot>& slots = plan.programs[static_cast<std::size_t>(rank)].slots;
  for (const auto& [worker, list] : workers) {
    ASSERT_EQ(list.size(), 1U);
    const auto last = static_cast<std::size_t>(list.front());
    EXPECT_TRUE(has_part(slots[last])) << "slot " << last << " of rank " << rank;
    if (until_added) continue;
    for (std::size_t s = last + static_cast<std::size_t>(plan.workers); s < slots.size();
         s += static_cast<std::size_t>(plan.workers))
      EXPECT_FALSE(has_part(slots[s])) << "slot " << s << " of rank " << rank << " comes after the raise in " << last;
  }
}

void check_raises(const Plan& plan) {
  std::map<int, std::int64_t> raised;
  std::vector<Raisers> raisers;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    raisers.push_back(raisers_of(plan, rank));
    for (const auto& [signal, workers] : raisers.back()) raised[signal] += static_cast<std::int64_t>(workers.size());
  }
  ASSERT_FALSE(raised.empty());
  for (const auto& [signal, count] : raised)
    EXPECT_EQ(plan.signals[static_cast<std::size_t>(signal)].per_launch, count);
  std::set<int> checked;
  for (const RankProgram& program : plan.programs)
    for (const Queue& queue : program.queues)
      for (const Transfer& transfer : queue.transfers)
        for (const Wait& wait : transfer.waits)
          for (int rank = 0; rank < plan.ranks; ++rank) {
            const auto found = raisers[static_cast<std::size_t>(rank)].find(wait.signal);
            if (found == raisers[static_cast<std::size_t>(rank)].end()) continue;
            EXPECT_TRUE(checked.insert(wait.signal).second) << "one transfer waits for it";
            const bool of_sum =
                plan.signals[static_cast<std::size_t>(wait.signal)].name.find(" added by ") != std::string::npos;
            const View& view = of_sum ? transfer.destination : transfer.source;
            ASSERT_EQ(view.rank, rank);
            expect_last_slots(
                plan, rank, found->second,
                [&](const Slot& slot) { return of_sum ? adds(plan, slot, view) : stores(plan, slot, view); }, of_sum);
          }
  EXPECT_EQ(checked.size(), raised.size()) << "none is raised for nobody";
}

TEST(Raises, NoSlotOfTheWorkerComesAfterItsRaise) {
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"})
      for (const char* workers : {"1", "3", "7"})
        for (const char* after : {"shard(0)", "replicate"})
          for (const char* split : {"1", "3"}) {
            SCOPED_TRACE(std::string(algorithm) + ' ' + initiator + ' ' + workers + ' ' + after + ' ' + split);
            // 1000 rows over 3 ranks: chunks end inside tiles.
            check_raises(compiled("gemm_rs_pointers.toml", {{"launch.workers", workers},
                                                            {"tensors.c.after", "\"" + std::string(after) + "\""},
                                                            {"communicate.c.algorithm", algorithm},
                                                            {"communicate.c.initiator", initiator},
                                                            {"communicate.c.split", split}}));
          }
}

TEST(Raises, WhereStagingMemoryIsUsedAgain) {
  for (const char* initiator : {"push", "pull"})
    for (const char* workers : {"1", "3", "7"}) {
      SCOPED_TRACE(std::string(initiator) + ' ' + workers);
      const Plan plan = compiled("gemm_rs_pointers.toml", {{"launch.workers", workers},
                                                           {"communicate.c.memory_budget", "400 KiB"},
                                                           {"communicate.c.initiator", initiator},
                                                           {"communicate.c.split", "4"}});
      check_raises(plan);
      EXPECT_TRUE(std::any_of(plan.signals.begin(), plan.signals.end(), [](const Signal& signal) {
        return signal.counts.find("has added its last part of the chunk") != std::string::npos;
      }));
    }
}

TEST(Raises, OfOutputsThatAreSentAsTheyAre) {
  for (const char* initiator : {"push", "pull"})
    for (const char* workers : {"1", "3", "7"}) {
      SCOPED_TRACE(std::string(initiator) + ' ' + workers);
      check_raises(compiled("gemm_a2a.toml", {{"launch.workers", workers}, {"communicate.c.initiator", initiator}}));
    }
}

}  // namespace
}  // namespace syncopate
