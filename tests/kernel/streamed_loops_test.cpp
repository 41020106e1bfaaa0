// Streamed loops: which loops may be walked in another order, what their iterations read, and that the concrete machine
// walks them as it is told.
#include "syncopate/kernel/streamed_loops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "syncopate/kernel/concrete.h"
#include "syncopate/kernel/footprint.h"

namespace syncopate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A kernel of one program per tile, whose loop is put together from its parts.
struct Text {
  std::string before;  ///< lines in front of the loop
  std::string loop = "for n in range(0, N, BLOCK):  # syncopate: streamed_loop n";
  std::string body = "        total += tl.sum(tl.load(x + row * N + n + tl.arange(0, BLOCK)), 0)\n";
  std::string after = "    tl.store(y + row, total)\n";

  std::string whole() const {
    return "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
           "def kernel(x, y, M, N, BLOCK: tl.constexpr):\n    row = tl.program_id(0)\n    total = 0.0\n" +
           before + "    " + loop + "\n" + body + after;
  }
  TileKernel kernel() const {
    return TileKernel(parse_module(std::make_shared<SourceFile>("test.py", whole())), "kernel");
  }
};

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kColumns = 24;

TileSpace analysed(const TileKernel& kernel, std::int64_t columns = kColumns) {
  return analyse_tiles(kernel, {{"M", kRows}, {"N", columns}, {"BLOCK", std::int64_t{8}}},
                       {{"x", {"x", {kRows, columns}, Dtype::fp32}}, {"y", {"y", {kRows}, Dtype::fp32}}}, 0, true);
}

std::string error_of(const Text& text) {
  try {
    analysed(text.kernel());
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(StreamedLoops, ReadsAreKeptApartIterationByIteration) {
  const TileSpace space = analysed(Text{}.kernel());
  ASSERT_EQ(space.tiles.size(), 3u);
  EXPECT_THAT(space.parameters, ElementsAre("x", "y"));
  for (std::int64_t row = 0; row < kRows; ++row) {
    const TileFootprint& tile = space.tiles[static_cast<std::size_t>(row)];
    ASSERT_EQ(tile.accesses.size(), 1u);
    EXPECT_EQ(tile.accesses[0].parameter, "y");
    ASSERT_EQ(tile.loops.size(), 1u);
    ASSERT_EQ(tile.loops[0].iterations, 3);
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::vector<LoopRead>& reads = tile.loops[0].reads->iterations[static_cast<std::size_t>(i)];
      ASSERT_EQ(reads.size(), 1u);
      EXPECT_EQ(reads[0].parameter, 0);
      EXPECT_EQ(reads[0].region, Region({{row, row + 1}, {8 * i, 8 * i + 8}}));
    }
  }
}

TEST(StreamedLoops, WithoutStreamingTheyAreReadsLikeOthers) {
  const TileKernel kernel = Text{}.kernel();
  const TileSpace space =
      analyse_tiles(kernel, {{"M", kRows}, {"N", kColumns}, {"BLOCK", std::int64_t{8}}},
                    {{"x", {"x", {kRows, kColumns}, Dtype::fp32}}, {"y", {"y", {kRows}, Dtype::fp32}}});
  EXPECT_TRUE(space.tiles[1].loops.empty());
  ASSERT_EQ(space.tiles[1].accesses.size(), 2u);
  EXPECT_THAT(space.tiles[1].accesses[0].reads, ElementsAre(Region({{1, 2}, {0, 24}})));
}

/// Tiles that differ only in how far they go share a record, which grows.
TEST(StreamedLoops, TilesShareWhatTheyReadAlike) {
  Text text;
  text.loop = "for n in range(0, (row + 1) * BLOCK, BLOCK):  # syncopate: streamed_loop n";
  text.body = "        total += tl.sum(tl.load(x + n + tl.arange(0, BLOCK)), 0)\n";
  const TileSpace space = analysed(text.kernel());
  ASSERT_EQ(space.tiles.size(), 3u);
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(space.tiles[row].loops[0].reads, space.tiles[0].loops[0].reads);
    EXPECT_EQ(space.tiles[row].loops[0].iterations, static_cast<std::int64_t>(row) + 1);
  }
  const auto& iterations = space.tiles[0].loops[0].reads->iterations;
  ASSERT_EQ(iterations.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(iterations[i][0].region, Region({{0, 1}, {8 * std::int64_t(i), 8 * std::int64_t(i) + 8}}));
}

/// What differs in a mask does not share.
TEST(StreamedLoops, TilesWithOtherMasksReadOtherThings) {
  Text text;
  text.body =
      "        c = n + tl.arange(0, BLOCK)\n        total += tl.sum(tl.load(x + c, mask=c < N - 2 * row, other=0.0), "
      "0)\n";
  const TileSpace space = analysed(text.kernel());
  for (std::int64_t row = 0; row < kRows; ++row)
    EXPECT_EQ(space.tiles[static_cast<std::size_t>(row)].loops[0].reads->iterations[2][0].region,
              Region({{0, 1}, {16, 24 - 2 * row}}));
}

TEST(StreamedLoops, MasksOnDataDoNotKeepTilesFromSharing) {
  Text text;
  text.body =
      "        c = n + tl.arange(0, BLOCK)\n        total += tl.sum(tl.where(c < N - 2 * row, tl.load(x + c), 0.0), "
      "0)\n";
  const TileSpace space = analysed(text.kernel());
  EXPECT_EQ(space.tiles[2].loops[0].reads, space.tiles[0].loops[0].reads);
}

/// Whether two tiles whose loops differ in `row` alone share a record. x is read alike by all of them.
bool shares(const std::string& body) {
  Text text;
  text.body = body;
  const TileSpace space = analysed(text.kernel());
  return space.tiles[0].loops[0].reads == space.tiles[1].loops[0].reads;
}

TEST(StreamedLoops, ABranchAroundWhatTouchesNothingDoesNotKeepTilesFromSharing) {
  const std::string load = "        a = tl.load(x + n + tl.arange(0, BLOCK))\n";
  const std::string add = "        total += tl.sum(a, 0)\n";
  EXPECT_TRUE(shares(load + "        if n > row * BLOCK:\n            a = a * 2.0\n" + add));
  EXPECT_TRUE(shares(load +
                     "        if n > row * BLOCK:\n            if n > 2 * row:\n                a = a * 2.0\n"
                     "            else:\n                a = a * 3.0\n        else:\n            a = a * 4.0\n" +
                     add));
  // One around a load, on either side, or around what a load is addressed by, does.
  EXPECT_FALSE(
      shares("        a = tl.zeros((BLOCK,), dtype=tl.float32)\n        if n > row * BLOCK:\n    " + load + add));
  EXPECT_FALSE(
      shares("        if n > row * BLOCK:\n            a = tl.zeros((BLOCK,), dtype=tl.float32)\n"
             "        else:\n    " +
             load + add));
  EXPECT_FALSE(
      shares("        m = n\n        if n > row * BLOCK:\n            m = 0\n"
             "        a = tl.load(x + m + tl.arange(0, BLOCK))\n" +
             add));
}

/// Where x is read at an address into which neither the tile's index nor the loop's variable enters; 0: nowhere.
int line_past_indices(const Text& text) {
  const TileSpace space = analysed(text.kernel());
  const auto found = space.reads_past_indices.find("x");
  return found == space.reads_past_indices.end() ? 0 : found->second.line;
}

TEST(StreamedLoops, WhatEntersAnAddressIsKnownWhateverItsValue) {
  Text text;
  EXPECT_EQ(line_past_indices(text), 0);
  text.body = "        total += tl.load(x + n)\n";  // by the loop's variable
  EXPECT_EQ(line_past_indices(text), 0);
  text.before = "    total += tl.sum(tl.load(x + row // 64 + tl.arange(0, BLOCK)), 0)\n";  // 0 for every row
  EXPECT_EQ(line_past_indices(text), 0);
  text.before = "    total += tl.sum(tl.load(x + tl.arange(0, BLOCK)), 0)\n";
  EXPECT_EQ(line_past_indices(text), 9);
  text.before = "    i = row * 2\n    p = x + i\n    i = 0\n    total += tl.sum(tl.load(p + tl.arange(0, BLOCK)), 0)\n";
  EXPECT_EQ(line_past_indices(text), 0);
  // That a loop ends where an index says does not reach its addresses.
  text.before = "    for m in range(0, row + 1):\n        total += tl.load(x + m)\n";
  EXPECT_EQ(line_past_indices(text), 10);
  text.before = "    for m in range(row, row + 1):\n        total += tl.load(x + m)\n";
  EXPECT_EQ(line_past_indices(text), 0);
}

TEST(StreamedLoops, ALoopOfNoIterations) {
  Text text;
  text.loop = "for n in range(N, N + row * 0, BLOCK):  # syncopate: streamed_loop n";
  const TileSpace space = analysed(text.kernel());
  EXPECT_EQ(space.tiles[1].loops[0].iterations, 0);
}

TEST(StreamedLoopError, FormOfTheLoop) {
  Text text;
  text.loop = "for n in tl.static_range(0, 24, BLOCK):  # syncopate: streamed_loop n";
  EXPECT_THAT(error_of(text), HasSubstr("test.py:9:5: a streamed loop is a `for` over range or tl.range; "));
  text = {};
  text.before = "    n = 0\n";
  text.loop = "while n < N:  # syncopate: streamed_loop n";
  text.body += "        n += BLOCK\n";
  EXPECT_THAT(error_of(text), HasSubstr("test.py:10:5: a streamed loop is a `for` over range or tl.range; "));
  text = {};
  text.loop = "for n in range(N - BLOCK, -1, -BLOCK):  # syncopate: streamed_loop n";
  EXPECT_THAT(error_of(text), HasSubstr("this streamed loop counts down; count up, or remove its annotation"));
}

TEST(StreamedLoopError, PlaceOfTheLoop) {
  Text text;
  text.loop = "for h in range(0, 2):\n        for n in range(0, N, BLOCK):  # syncopate: streamed_loop n";
  text.body = "            total += tl.load(x + row * N + n)\n";
  EXPECT_THAT(error_of(text), HasSubstr("test.py:10:9: this streamed loop stands inside another loop of the tile"));
  text.loop =
      "for h in range(0, 2):  # syncopate: streamed_loop h\n        for n in range(0, N, BLOCK):  # syncopate: "
      "streamed_loop n";
  EXPECT_THAT(error_of(text), HasSubstr("test.py:10:9: a streamed loop inside another streamed loop"));
}

TEST(StreamedLoopError, IterationsThatDependOnEachOther) {
  Text text;
  text.body += "        if n > 8:\n            break\n";
  EXPECT_THAT(error_of(text), HasSubstr("test.py:12:13: this leaves a streamed loop early"));
  text = {};
  text.before = "    p = x + row * N\n";
  text.body = "        total += tl.sum(tl.load(p + tl.arange(0, BLOCK)), 0)\n        p += BLOCK\n";
  EXPECT_THAT(error_of(text),
              HasSubstr("test.py:12:9: which elements an iteration of this streamed loop touches depends on what the "
                        "iteration before it computes here; compute it from the loop's variable"));
  text = {};
  text.before = "    first = 1\n";
  text.body += "        if first == 1:\n            total += 1.0\n        first = 0\n";
  EXPECT_THAT(error_of(text), HasSubstr("depends on what the iteration before it computes here"));
  text = {};
  text.before = "    offset = 0\n";
  text.body = "        if n > 8:\n            offset = n\n        total += tl.load(x + row * N + offset)\n";
  EXPECT_THAT(error_of(text), HasSubstr("depends on what the iteration before it computes here"))
      << "the assignment may be skipped";
  text.body = "        offset = n\n        total += tl.load(x + row * N + offset)\n";
  EXPECT_EQ(error_of(text), "no error");
}

TEST(StreamedLoopError, TheVariableAndTheBounds) {
  Text text;
  text.after = "    tl.store(y + row, total + n)\n";
  EXPECT_THAT(error_of(text), HasSubstr("test.py:11:31: 'n' is the variable of a streamed loop and is used outside"));
  text = {};
  text.before = "    begin = 0\n";
  text.loop = "for n in range(begin, N, BLOCK):  # syncopate: streamed_loop n";
  text.body += "        begin = 8\n";
  EXPECT_THAT(error_of(text), HasSubstr("test.py:10:20: the streamed loop changes 'begin', from which it starts"));
}

/// Memory of one rank: x holds its own column numbers as text of the order in which they are read.
class Recorder final : public Environment {
 public:
  Recorder() : x_(kRows * kColumns * sizeof(float)), y_(kRows * sizeof(float)) {}
  std::span<std::byte> access(int buffer, AccessKind kind, std::span<const Run> runs, const SourceLocation&) override {
    if (kind == AccessKind::read) offsets.push_back(runs.front().offset);
    return buffer == 0 ? std::span(x_) : std::span(y_);
  }
  bool wait(const WaitRequest&) override { return true; }

  std::vector<std::int64_t> offsets;

 private:
  std::vector<std::byte> x_;
  std::vector<std::byte> y_;
};

std::vector<std::int64_t> walked(const std::vector<Range>& order) {
  const ReorderedKernel kernel(Text{}.kernel());
  Recorder recorder;
  const Arguments arguments = {{"x", BufferArgument{0, Dtype::fp32}},
                               {"y", BufferArgument{1, Dtype::fp32}},
                               {"M", kRows},
                               {"N", kColumns},
                               {"BLOCK", std::int64_t{8}}};
  kernel.run_to_end(
      [&](std::span<const std::int64_t> tile, int loop) {
        EXPECT_EQ(loop, 0);
        EXPECT_THAT(std::vector<std::int64_t>(tile.begin(), tile.end()), ElementsAre(1));
        return order;
      },
      arguments, {1}, {kRows}, recorder);
  return recorder.offsets;
}

TEST(ReorderedKernel, WalksAsItIsTold) {
  EXPECT_THAT(walked({{0, 3}}), ElementsAre(24, 32, 40));
  EXPECT_THAT(walked({{2, 3}, {0, 2}}), ElementsAre(40, 24, 32));
  EXPECT_THAT(walked({{1, 2}, {2, 2}, {0, 1}, {2, 3}}), ElementsAre(32, 24, 40));
}

TEST(ReorderedKernel, RefusesOrdersOfOtherIterations) {
  for (const std::vector<Range>& order :
       {std::vector<Range>{}, {{0, 2}}, {{0, 4}}, {{0, 2}, {1, 3}}, {{1, 3}}, {{0, 1}, {2, 3}}}) {
    try {
      walked(order);
      ADD_FAILURE() << "accepted";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a plan's pieces are not the iterations of this streamed loop"));
    }
  }
}

}  // namespace
}  // namespace syncopate
