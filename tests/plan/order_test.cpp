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

}  // namespace
}  // namespace syncopate
