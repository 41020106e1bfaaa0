// How streamed loops are cut into pieces, walked, printed, stored and turned into tables.
#include "syncopate/plan/pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "syncopate/driver/driver.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/plan/print.h"
#include "syncopate/plan/references.h"

namespace syncopate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// c = a b of 32 x 16 x 100 in blocks of 16, a and b gathered along the inner dimension: 50 of it to each of two ranks.
Plan product(std::vector<Override> overrides = {}) {
  std::vector<Override> all = {{"ranks", "2"},
                               {"launch.workers", "1"},
                               {"kernel.args.M", "32"},
                               {"kernel.args.N", "16"},
                               {"kernel.args.K", "100"},
                               {"kernel.args.BLOCK_M", "16"},
                               {"kernel.args.BLOCK_N", "16"},
                               {"kernel.args.BLOCK_K", "16"},
                               {"communicate.a.split", "1"},
                               {"communicate.b.split", "1"}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm_k.toml", all);
}

std::vector<std::pair<std::int64_t, std::int64_t>> cuts(const Tile& tile) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const LoopPiece& piece : tile.pieces) pairs.emplace_back(piece.begin, piece.end);
  return pairs;
}

TEST(Pieces, AreCutWhereOtherChunksAreNeeded) {
  const Plan plan = product();
  EXPECT_THAT(plan.kernel.streamed_loops, ElementsAre("k"));
  ASSERT_EQ(plan.tiles.size(), 2u);
  // Iteration 3 reads 48 to 64, so both shards; 6 is the ragged end.
  for (const Tile& tile : plan.tiles) {
    EXPECT_THAT(cuts(tile), ElementsAre(std::pair(0, 3), std::pair(3, 4), std::pair(4, 7)));
    EXPECT_TRUE(tile.reads.empty());
  }
  const std::vector<TileAccess>& reads = plan.tiles[1].pieces[2].reads;
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0].buffer, 0);
  EXPECT_EQ(reads[0].region, Region({{16, 32}, {64, 100}}));
  EXPECT_EQ(reads[1].region, Region({{64, 100}, {0, 16}}));
}

/// Gathered along rows, `a` needs one chunk for all of a tile's loop.
TEST(Pieces, ALoopOfOneChunkIsNoWalk) {
  const Plan plan = compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm_pointers.toml",
                                     {{"kernel.args.M", "192"}, {"ranks", "3"}, {"communicate.a.split", "1"}});
  EXPECT_TRUE(plan.kernel.streamed_loops.empty());
  for (const Tile& tile : plan.tiles) {
    EXPECT_TRUE(tile.pieces.empty());
    EXPECT_EQ(tile.reads.size(), 2u);
  }
}

TEST(Pieces, WhatNothingBringsIsReadByTheTile) {
  const Plan plan = compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm_pointers.toml",
                                     {{"tensors.a.before", "\"shard(1)\""}, {"tensors.a.inside", "replicate"}});
  ASSERT_FALSE(plan.kernel.streamed_loops.empty());
  for (const Tile& tile : plan.tiles) {
    ASSERT_EQ(tile.reads.size(), 1u);
    EXPECT_EQ(tile.reads[0].buffer, 1);
    for (const LoopPiece& piece : tile.pieces)
      for (const TileAccess& read : piece.reads) EXPECT_EQ(read.buffer, 0);
  }
}

TEST(Pieces, ARankStartsWithItsOwn) {
  const Plan plan = product();
  const auto walk = [&](int rank, std::size_t slot) {
    std::vector<int> pieces;
    for (const LoopStep& step : plan.programs[static_cast<std::size_t>(rank)].slots[slot].steps)
      pieces.push_back(step.piece);
    return pieces;
  };
  EXPECT_THAT(walk(0, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(walk(1, 0), ElementsAre(2, 0, 1));
  EXPECT_THAT(walk(1, 1), ElementsAre(0, 1, 2)) << "the worker has waited for all";
  const std::vector<LoopStep>& steps = plan.programs[1].slots[0].steps;
  EXPECT_TRUE(steps[0].waits.empty());
  EXPECT_EQ(steps[1].waits.size(), 2u);
  EXPECT_TRUE(steps[2].waits.empty());
}

TEST(Pieces, AsTables) {
  const Plan plan = product();
  const KernelTables tables = kernel_tables(plan, 1);
  EXPECT_EQ(tile_columns(plan), 4);
  EXPECT_THAT(tables.tiles, ElementsAre(0, 0, 0, 0, 0, 2, 1, 0, 2, 2, 2, 3));
  // Own iterations; then those that follow the wait for what brings the first of them, in one go; then all.
  EXPECT_THAT(tables.steps, ElementsAre(4, 7, 0, 0, 0, 4, 0, 2, 0, 7, 2, 2));
  EXPECT_EQ(tables.waits.size(), 6u);
}

TEST(Pieces, Printed) {
  const std::string text = show(product());
  EXPECT_THAT(text, HasSubstr("2 per rank (2 pid_m x 1 pid_n), on 1 worker; their loops over k in up to 3 pieces"));
  EXPECT_THAT(text, HasSubstr("0 before 4 tiles, 4 in streamed loops, "));
  EXPECT_THAT(text, HasSubstr("0 tile (0, 0), worker 0: walks k 4:7, 0:3 after \"a[0:32, 0:50] at rank 1\", "
                              "\"b[0:50, 0:16] at rank 1\", 3:4\n"));
}

TEST(Pieces, ReadFromAFile) {
  const std::string text = to_json(product());
  EXPECT_EQ(to_json(parse_plan(SourceFile("plan.json", text))), text);
  EXPECT_THAT(text, HasSubstr("\"streamed_loops\""));
}

TEST(Pieces, ReferencesThatPointNowhere) {
  const auto problem = [](const std::function<void(Plan&)>& change) {
    Plan plan = product();
    change(plan);
    return broken_reference(plan).value_or("none");
  };
  EXPECT_EQ(problem([](Plan&) {}), "none");
  EXPECT_EQ(problem([](Plan& plan) { plan.tiles[1].pieces[0].loop = 1; }), "tile 1 has a piece of loop 1 of 1");
  EXPECT_EQ(problem([](Plan& plan) { plan.tiles[1].pieces[0].end = 0; }), "tile 1 has a piece of iterations 0 to 0");
  EXPECT_THAT(problem([](Plan& plan) { plan.tiles[1].pieces[0].reads[0].region[0].end = 33; }),
              HasSubstr("tile 1 touches a[16:33, 0:48], which is outside of the buffer"));
  EXPECT_EQ(problem([](Plan& plan) { plan.programs[0].slots[1].steps[0].piece = 3; }),
            "a tile of rank 0 walks piece 3 of 3, or does so twice");
  EXPECT_EQ(problem([](Plan& plan) { plan.programs[0].slots[1].steps.pop_back(); }),
            "a tile of rank 0 walks 2 of its 3 pieces");
  EXPECT_EQ(problem([](Plan& plan) { plan.programs[0].slots[0].steps[1].waits[0].signal = 99; }).substr(0, 38),
            "a step of a tile waits for signal 99 o");
}

}  // namespace
}  // namespace syncopate
