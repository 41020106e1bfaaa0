// Waits are minimal: counted here for shapes whose numbers can be worked out by hand. (That no wait can be dropped is
// shown over many plans by the mutation tests in tests/driver.)
#include <gtest/gtest.h>

#include <set>

#include "syncopate/driver/driver.h"

namespace syncopate {
namespace {

/// M = 1024, N = 512, tiles 128 x 128: 8 x 4 tiles.
Plan compiled(std::vector<Override> overrides) {
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm.toml", overrides);
}

std::vector<int> tile_waits(const Plan& plan) {
  std::vector<int> counts;
  for (const RankProgram& program : plan.programs) {
    int count = 0;
    for (const Slot& slot : program.slots) count += static_cast<int>(slot.waits.size());
    counts.push_back(count);
  }
  return counts;
}

TEST(Waits, OneWorkerWaitsOncePerRemoteChunk) {
  // Split 2 makes chunks of 128 rows: a tile row each. One worker meets 3 peers x 2 chunks, each for the first time
  // once.
  const Plan plan = compiled({{"launch.workers", "1"}});
  EXPECT_EQ(tile_waits(plan), (std::vector<int>{6, 6, 6, 6}));
}

TEST(Waits, EachWorkerWaitsForWhatItMeets) {
  // Slots 0-7 are local; each later chunk is 4 slots, so each of 8 workers meets 3 remote tiles of 3 different peers.
  const Plan plan = compiled({{"launch.workers", "8"}});
  EXPECT_EQ(tile_waits(plan), (std::vector<int>{24, 24, 24, 24}));
}

TEST(Waits, ALaterChunkOfTheSameQueueImpliesTheEarlier) {
  // Split 4: chunks of 64 rows, so every remote tile (128 rows) needs two chunks. Both come through one in-order
  // queue: the later one implies the earlier, so a tile waits once.
  const Plan plan = compiled({{"launch.workers", "32"}, {"communicate.a.split", "4"}});
  EXPECT_EQ(tile_waits(plan), (std::vector<int>{24, 24, 24, 24}));
}

TEST(Waits, ATileThatStraddlesTwoPeersWaitsForBoth) {
  // 1000 rows: shards of 250, so the tile row 128..255 holds rows of ranks 0 and 1. Ranks 2 and 3 get them through two
  // different queues, neither of which implies the other.
  const Plan plan = compiled({{"kernel.args.M", "1000"}, {"launch.workers", "32"}, {"communicate.a.split", "1"}});
  for (const int rank : {2, 3}) {
    int seen = 0;
    for (const Slot& slot : plan.programs[static_cast<std::size_t>(rank)].slots) {
      if (plan.tiles[static_cast<std::size_t>(slot.tile)].index[0] != 1) continue;
      ++seen;
      EXPECT_EQ(slot.waits.size(), 2U);
    }
    EXPECT_EQ(seen, 4);
  }
  // Rank 0 holds rows 128..249 itself and waits only for rank 1.
  for (const Slot& slot : plan.programs[0].slots)
    if (plan.tiles[static_cast<std::size_t>(slot.tile)].index[0] == 1) {
      EXPECT_EQ(slot.waits.size(), 1U);
    }
}

TEST(Waits, LocalTilesComeFirstAndWaitForNothing) {
  const Plan plan = compiled({});
  for (int rank = 0; rank < 4; ++rank) {
    const auto& slots = plan.programs[static_cast<std::size_t>(rank)].slots;
    for (std::size_t s = 0; s < 8; ++s) {
      EXPECT_TRUE(slots[s].waits.empty());
      EXPECT_EQ(plan.tiles[static_cast<std::size_t>(slots[s].tile)].index[0] / 2, rank);
    }
  }
}

TEST(Waits, TilesFollowTheOrderOfArrival) {
  // Direct push: rank r hears from r-1 first, then r-2, then r-3, each peer's chunks in order.
  const Plan plan = compiled({});
  for (int rank = 0; rank < 4; ++rank) {
    std::vector<std::int64_t> rows;
    for (const Slot& slot : plan.programs[static_cast<std::size_t>(rank)].slots) {
      const std::int64_t row = plan.tiles[static_cast<std::size_t>(slot.tile)].index[0];
      if (rows.empty() || rows.back() != row) rows.push_back(row);
    }
    std::vector<std::int64_t> remote(rows.end() - 6, rows.end());
    std::vector<std::int64_t> expected;
    for (int step = 1; step < 4; ++step)
      for (int chunk = 0; chunk < 2; ++chunk) expected.push_back((rank + 4 - step) % 4 * 2 + chunk);
    EXPECT_EQ(remote, expected) << "rank " << rank;
  }
}

TEST(Waits, OneRankNeedsNothing) {
  const Plan plan = compiled({{"ranks", "1"}});
  EXPECT_EQ(tile_waits(plan), (std::vector<int>{0}));
  EXPECT_TRUE(plan.signals.empty());
  std::vector<int> order;
  for (const Slot& slot : plan.programs[0].slots) order.push_back(slot.tile);
  for (std::size_t i = 0; i < order.size(); ++i)
    EXPECT_EQ(order[i], static_cast<int>(i)) << "the local kernel's own order";
}

TEST(Waits, EverySignalIsWaitedForByItsHome) {
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"}) {
      const Plan plan = compiled({{"communicate.a.algorithm", algorithm}, {"communicate.a.initiator", initiator}});
      std::set<int> waited;
      for (const RankProgram& program : plan.programs) {
        for (const Slot& slot : program.slots)
          for (const Wait& wait : slot.waits) waited.insert(wait.signal);
        for (const Queue& queue : program.queues)
          for (const Transfer& transfer : queue.transfers)
            for (const Wait& wait : transfer.waits) waited.insert(wait.signal);
        for (const Wait& wait : program.completion_waits) waited.insert(wait.signal);
      }
      EXPECT_EQ(waited.size(), plan.signals.size()) << algorithm << ' ' << initiator;
    }
}

}  // namespace
}  // namespace syncopate
