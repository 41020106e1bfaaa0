#include "syncopate/plan/order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "syncopate/driver/driver.h"

namespace syncopate {
namespace {

std::vector<Tile> tiles_of(const std::vector<std::vector<std::int64_t>>& indices) {
  std::vector<Tile> tiles;
  for (const auto& index : indices) tiles.push_back({index, {}, {}});
  return tiles;
}

TEST(LocalOrder, ReadsBandsOffTheLocalKernel) {
  const LocalOrder grouped = local_order(tiles_of({{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}, {3, 0}}));
  EXPECT_EQ(grouped.fast_axis, 0);
  EXPECT_EQ(grouped.band, 2);
  const LocalOrder row_major = local_order(tiles_of({{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
  EXPECT_EQ(row_major.fast_axis, 1);
  EXPECT_EQ(row_major.band, 3);
  EXPECT_EQ(local_order(tiles_of({{0}})).band, 1);
}

TEST(TileOrder, IsAPermutationOnEveryRank) {
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"}) {
    const Plan plan =
        compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm_pointers.toml",
                         {{"communicate.a.algorithm", algorithm}, {"communicate.a.split", "5"}, {"ranks", "8"}});
    for (const RankProgram& program : plan.programs) {
      std::vector<int> order;
      for (const Slot& slot : program.slots) order.push_back(slot.tile);
      std::sort(order.begin(), order.end());
      ASSERT_EQ(order.size(), plan.tiles.size());
      for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i));
    }
  }
}

TEST(TileOrder, KeepsTheGroupedOrderInsideAChunk) {
  // Shards of 512 rows = 4 tile rows, GROUP_M = 2: inside each shard two bands of 2 rows, columns in the band's outer
  // loop.
  const Plan plan = compile_operator(
      SYNCOPATE_SOURCE_DIR "/operators/ag_gemm.toml",
      {{"ranks", "2"}, {"kernel.args.GROUP_M", "2"}, {"communicate.a.split", "1"}, {"kernel.args.N", "256"}});
  std::vector<std::vector<std::int64_t>> order;
  for (const Slot& slot : plan.programs[1].slots)
    order.push_back(plan.tiles[static_cast<std::size_t>(slot.tile)].index);
  const std::vector<std::vector<std::int64_t>> expected = {
      {4, 0}, {5, 0}, {4, 1}, {5, 1}, {6, 0}, {7, 0}, {6, 1}, {7, 1},   // own shard
      {0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}, {3, 0}, {2, 1}, {3, 1}};  // the peer's
  EXPECT_EQ(order, expected);
}

const std::string kReducing = SYNCOPATE_SOURCE_DIR "/operators/gemm_rs.toml";

/// First tile indices of the slots of a rank, runs of equal ones as one.
std::vector<std::int64_t> row_order(const Plan& plan, std::size_t rank) {
  std::vector<std::int64_t> order;
  for (const Slot& slot : plan.programs[rank].slots) {
    const std::int64_t row = plan.tiles[static_cast<std::size_t>(slot.tile)].index[0];
    if (order.empty() || order.back() != row) order.push_back(row);
  }
  return order;
}

TEST(TileOrder, WhatLeavesFirstIsMadeFirst) {
  // 8 rows of tiles: two for each of four ranks, each of them a chunk.
  const Plan direct = compile_operator(kReducing);
  EXPECT_EQ(row_order(direct, 0), (std::vector<std::int64_t>{2, 3, 4, 5, 6, 7, 0, 1}));
  EXPECT_EQ(row_order(direct, 2), (std::vector<std::int64_t>{6, 7, 0, 1, 2, 3, 4, 5}));
  const Plan pull = compile_operator(kReducing, {{"communicate.c.initiator", "pull"}});
  EXPECT_EQ(row_order(pull, 1), (std::vector<std::int64_t>{4, 5, 6, 7, 0, 1, 2, 3}));
  const Plan ring = compile_operator(kReducing, {{"communicate.c.algorithm", "ring"}});
  EXPECT_EQ(row_order(ring, 0), (std::vector<std::int64_t>{6, 7, 4, 5, 2, 3, 0, 1})) << "from the owner below";
}

TEST(TileOrder, WithinABudgetOwnTilesFreeMemoryInTime) {
  // Chunks of 64 rows, tiles too: 16 rows of tiles, four for each rank. Chunk by chunk; with two places a peer, the own
  // tiles of chunk k stand before the others' tiles of chunk k + 2.
  const Plan plan = compile_operator(
      kReducing,
      {{"kernel.args.BLOCK_M", "64"}, {"communicate.c.split", "4"}, {"communicate.c.memory_budget", "384 KiB"}});
  EXPECT_EQ(row_order(plan, 0), (std::vector<std::int64_t>{4, 8, 12, 5, 9, 13, 0, 6, 10, 14, 1, 7, 11, 15, 2, 3}));
}

TEST(TileOrder, PartsOfATileStandApart) {
  // 1000 rows over 3 ranks end inside tiles of 64 rows.
  const Plan plan = compile_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_rs_pointers.toml");
  EXPECT_TRUE(cuts_tiles(plan));
  for (int rank = 0; rank < 3; ++rank) {
    const RankProgram& program = plan.programs[static_cast<std::size_t>(rank)];
    const Range own = output_region(plan, reduced_buffer(plan), rank)[0];
    std::vector<std::vector<const Slot*>> slots(plan.tiles.size());
    for (const Slot& slot : program.slots) slots[static_cast<std::size_t>(slot.tile)].push_back(&slot);
    int parts = 0;
    for (std::size_t t = 0; t < slots.size(); ++t) {
      const Range rows = plan.tiles[t].writes[0].region[0];
      const bool straddles =
          (rows.begin < own.begin && own.begin < rows.end) || (rows.begin < own.end && own.end < rows.end);
      ASSERT_EQ(slots[t].size(), straddles ? 2U : 1U);
      if (!straddles) {
        EXPECT_EQ(slots[t][0]->kept.dimensions(), 0);
        continue;
      }
      ++parts;
      EXPECT_TRUE(slots[t][0]->addends.empty()) << "what leaves comes first";
      EXPECT_FALSE(slots[t][1]->addends.empty());
      EXPECT_TRUE(slots[t][1]->signals.empty());
      std::vector<Region> kept = {slots[t][0]->kept, slots[t][1]->kept};
      std::sort(kept.begin(), kept.end());
      EXPECT_EQ(kept[0][0].begin, rows.begin);
      EXPECT_EQ(kept[0][0].end, kept[1][0].begin);
      EXPECT_EQ(kept[1][0].end, rows.end);
      EXPECT_EQ(kept[0][1], (Range{0, 360}));
    }
    EXPECT_EQ(parts, (rank == 1 ? 2 : 1) * 6) << "six columns of tiles at each border";
  }
}

}  // namespace
}  // namespace syncopate
