// Branches, and masks of loads, that data decide: footprints hold what any data could make a tile read, and are
// compared with what the concrete machine reads for all data there are; what they cannot hold is an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/kernel/footprint.h"
#include "tests/kernel/concrete_fixture.h"

namespace syncopate {
namespace {

using ::testing::HasSubstr;

/// A kernel of one vector: x and z have 64 elements, i and out 32, BLOCK is 8. Its body begins in line 9.
TileKernel kernel_of(const std::string& body, const std::string& helpers = {}) {
  const std::string text = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n" +
                           std::string(
                               "def kernel(x_ptr, z_ptr, i_ptr, out_ptr, n, BLOCK: tl.constexpr):\n"
                               "    pid = tl.program_id(0)\n"
                               "    offsets = pid * BLOCK + tl.arange(0, BLOCK)\n") +
                           body + helpers;
  return TileKernel(parse_module(std::make_shared<SourceFile>("test.py", text)), "kernel");
}

constexpr int kElements[] = {64, 64, 32, 32};
constexpr const char* kParameters[] = {"x_ptr", "z_ptr", "i_ptr", "out_ptr"};

TileSpace analysed(const TileKernel& kernel) {
  TensorBindings tensors;
  for (int t = 0; t < 4; ++t)
    tensors[kParameters[t]] = {
        std::string(kParameters[t]).substr(0, 1), {kElements[t]}, t == 2 ? Dtype::int32 : Dtype::fp32};
  return analyse_tiles(kernel, {{"n", std::int64_t{20}}, {"BLOCK", std::int64_t{8}}}, tensors);
}

std::vector<Region> reads_of(const TileSpace& space, std::size_t tile, const std::string& parameter) {
  for (const ParameterAccess& access : space.tiles[tile].accesses)
    if (access.parameter == parameter) return access.reads;
  return {};
}

bool holds(const std::vector<Region>& regions, std::int64_t element) {
  return std::any_of(regions.begin(), regions.end(),
                     [&](const Region& region) { return region[0].begin <= element && element < region[0].end; });
}

/// Runs each tile for every value that i could hold everywhere, and returns what any of the runs reads of x, by tile.
/// Everything that is read must be in the footprint.
std::vector<std::set<std::int64_t>> read_by_any_data(const TileKernel& kernel, const TileSpace& space) {
  std::vector<std::set<std::int64_t>> read(space.tiles.size());
  const auto program = lower(kernel.shared_module(), kernel.function());
  for (std::size_t tile = 0; tile < space.tiles.size(); ++tile)
    for (int data = -2; data <= 12; ++data) {
      FakeMemory memory;
      Arguments arguments = {{"n", std::int64_t{20}}, {"BLOCK", std::int64_t{8}}};
      for (int t = 0; t < 4; ++t)
        arguments[kParameters[t]] = memory.argument(memory.add(
            t == 2 ? Dtype::int32 : Dtype::fp32, std::vector<double>(static_cast<std::size_t>(kElements[t]), data)));
      run_to_end(program, arguments, {static_cast<std::int64_t>(tile)}, {4}, memory);
      for (const FakeMemory::Access& access : memory.accesses)
        for (const Run& run : access.runs)
          for (std::int64_t i = run.offset; i < run.offset + run.count && access.kind == AccessKind::read; ++i) {
            EXPECT_TRUE(holds(reads_of(space, tile, kParameters[access.buffer]), i))
                << kParameters[access.buffer] << "[" << i << "] of tile " << tile << " with " << data;
            if (access.buffer == 0) read[tile].insert(i);
          }
    }
  return read;
}

/// The footprint of x is what some data make the tile read, and no more.
void expect_exact(const std::string& body, const std::string& helpers = {}) {
  const TileKernel kernel = kernel_of(body, helpers);
  const TileSpace space = analysed(kernel);
  ASSERT_EQ(space.tiles.size(), 4U) << body;
  EXPECT_FALSE(space.reads_by_data.contains("x_ptr")) << body;
  const auto read = read_by_any_data(kernel, space);
  for (std::size_t tile = 0; tile < read.size(); ++tile)
    for (std::int64_t i = 0; i < kElements[0]; ++i)
      EXPECT_EQ(holds(reads_of(space, tile, "x_ptr"), i), read[tile].contains(i))
          << body << "x[" << i << "], tile " << tile;
}

TEST(DataBranches, BothArmsAreRead) {
  expect_exact(
      "    value = tl.zeros((BLOCK,), dtype=tl.float32)\n"
      "    if tl.load(i_ptr + pid) > 3:\n"
      "        value = tl.load(x_ptr + offsets)\n"
      "    tl.store(out_ptr + offsets, value)\n");
  expect_exact(
      "    if tl.load(i_ptr + pid) > 3:\n"
      "        value = tl.load(x_ptr + offsets)\n"
      "    else:\n"
      "        value = tl.load(x_ptr + 32 + offsets)\n"
      "    tl.store(out_ptr + offsets, value)\n");
}

TEST(DataBranches, LoopsAndBranchesInsideArms) {
  expect_exact(
      "    i = tl.load(i_ptr + pid)\n"
      "    value = tl.zeros((BLOCK,), dtype=tl.float32)\n"
      "    if i > 3:\n"
      "        for k in range(0, 3):\n"
      "            if i > 7:\n"
      "                value += tl.load(x_ptr + k * 16 + offsets, mask=offsets < 18, other=0.0)\n"
      "            elif k == 1 and i < 5:\n"
      "                value += tl.load(x_ptr + 63)\n"
      "    elif i < 0:\n"
      "        value += tl.load(x_ptr + offsets + 1)\n"
      "    tl.store(out_ptr + offsets, value)\n");
}

TEST(DataBranches, ConditionalExpressionsAndHelpers) {
  expect_exact(
      "    value = tl.load(x_ptr + offsets) if tl.load(i_ptr + pid) == 4 else chosen(x_ptr + 32, tl.load(i_ptr), "
      "offsets)\n"
      "    tl.store(out_ptr + offsets, value)\n",
      "\n\n@triton.jit\ndef chosen(base, i, offsets):\n"
      "    value = tl.load(base + offsets)\n"
      "    if i == 5:\n"
      "        value += tl.load(base - 1)\n"
      "    return value\n");
}

TEST(DataBranches, WhatBothArmsLeaveAlikeIsKnownBehindThem) {
  expect_exact(
      "    i = tl.load(i_ptr + pid)\n"
      "    start = 1\n"
      "    if i > 3:\n"
      "        start = 9\n"
      "        scale = 2.0\n"
      "    else:\n"
      "        start = 4 + 5\n"
      "        scale = 3.0\n"
      "    tl.store(out_ptr + offsets, tl.load(x_ptr + start + offsets) * scale)\n");
}

TEST(DataBranches, WhatTheyLeaveOtherwiseIsDecidedByData) {
  const TileKernel kernel = kernel_of(
      "    start = 0\n"
      "    if tl.load(i_ptr + pid) > 3:\n"
      "        start = 9\n"
      "    tl.store(out_ptr + offsets, tl.load(x_ptr + start + offsets))\n");
  const TileSpace space = analysed(kernel);
  EXPECT_EQ(reads_of(space, 1, "x_ptr"), (std::vector<Region>{{{0, 64}}}));
  EXPECT_EQ(space.reads_by_data.at("x_ptr").line, 12);
  read_by_any_data(kernel, space);
}

TEST(DataBranches, APointerThatDataChooseAmongTensorsIsRefused) {
  try {
    analysed(
        kernel_of("    base = x_ptr\n    if tl.load(i_ptr) > 0:\n        base = z_ptr\n"
                  "    tl.store(out_ptr + offsets, tl.load(base + offsets))\n"));
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.where().line, 12) << error.what();
    EXPECT_THAT(error.problem(), HasSubstr("the address of this load depends on data"));
  }
}

struct Refused {
  const char* body;
  int line;
  const char* problem;
};

constexpr const char* kEarly = "\n\n@triton.jit\ndef early(i):\n    if i > 0:\n        return 1\n    return 2\n";

TEST(DataBranches, WhatCannotHappenOnOneWayOnly) {
  const Refused cases[] = {
      {"    if tl.load(i_ptr) > 0:\n        tl.store(out_ptr + offsets, 1.0)\n", 10,
       "data decide (at line 9) whether this stores"},
      {"    for k in range(0, 3):\n        if tl.load(i_ptr) > 0:\n            break\n    tl.store(out_ptr + offsets, "
       "1.0)\n",
       11, "this leaves the branch at line 10, which data decide"},
      {"    tl.store(out_ptr + offsets, early(tl.load(i_ptr)))\n", 15,
       "this leaves the branch at line 14, which data decide"},
      {"    if tl.load(i_ptr) > 0:\n        for k in range(0, n):  # syncopate: streamed_loop k\n"
       "            offsets += tl.load(x_ptr + k).to(tl.int32)\n    tl.store(out_ptr + offsets, 1.0)\n",
       12, "the address of this store depends on data"},
      {"    i = tl.load(i_ptr)\n    while i > 0:\n        i -= 1\n    tl.store(out_ptr + offsets, 1.0)\n", 10,
       "this branch depends on data (loaded at line 9)"},
      {"    if tl.load(x_ptr + offsets) > 0:\n        n = n + 1\n    tl.store(out_ptr + offsets, 1.0)\n", 9,
       "this condition is a block"},
  };
  for (const Refused& each : cases) try {
      analysed(kernel_of(each.body, kEarly));
      ADD_FAILURE() << "accepted: " << each.body;
    } catch (const UserError& error) {
      EXPECT_EQ(error.where().line, each.line) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(each.problem));
      EXPECT_NE(error.remedy(), "") << error.what();
    }
}

TEST(DataBranches, AStreamedLoopInOneArmIsRefused) {
  const TileKernel kernel = kernel_of(
      "    value = tl.zeros((BLOCK,), dtype=tl.float32)\n"
      "    if tl.load(i_ptr + pid) > 3:\n"
      "        for k in range(0, n):  # syncopate: streamed_loop k\n"
      "            value += tl.load(x_ptr + k)\n"
      "    tl.store(out_ptr + offsets, value)\n");
  TensorBindings tensors;
  for (int t = 0; t < 4; ++t)
    tensors[kParameters[t]] = {kParameters[t], {kElements[t]}, t == 2 ? Dtype::int32 : Dtype::fp32};
  const ScalarArguments arguments = {{"n", std::int64_t{20}}, {"BLOCK", std::int64_t{8}}};
  try {
    analyse_tiles(kernel, arguments, tensors, 0, true);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.where().line, 11) << error.what();
    EXPECT_THAT(error.problem(), HasSubstr("data decide (at line 10) whether this streams"));
  }
  EXPECT_EQ(reads_of(analyse_tiles(kernel, arguments, tensors, 0, false), 2, "x_ptr"), (std::vector<Region>{{{0, 20}}}))
      << "without streaming it is a loop like others";
}

TEST(DataMasks, LoadsCountAsOfAllThatTheRestOfTheMaskLeaves) {
  expect_exact(
      "    count = tl.load(i_ptr + pid)\n"
      "    value = tl.load(x_ptr + offsets, mask=(offsets - pid * BLOCK < count) & (offsets < n), other=0.0)\n"
      "    tl.store(out_ptr + offsets, value)\n");
  expect_exact(
      "    value = tl.load(x_ptr + offsets, mask=tl.load(i_ptr + offsets) > 3, other=0.0)\n"
      "    tl.store(out_ptr + offsets, value)\n");
}

TEST(DataMasks, OfRowsAndColumns) {
  const TileKernel kernel = kernel_of(
      "    count = tl.load(i_ptr + pid)\n"
      "    rows = pid * 2 + tl.arange(0, 2)\n"
      "    cols = tl.arange(0, 4)\n"
      "    used = (rows[:, None] - pid * 2 < count) & (cols[None, :] < 3)\n"
      "    block = tl.load(x_ptr + rows[:, None] * 4 + cols[None, :], mask=used & (rows < 7)[:, None], other=0.0)\n"
      "    valid = ((rows < count) & (rows < 5))[:, None] & (cols < 4)[None, :]\n"
      "    block += tl.load(z_ptr + rows[:, None] * 4 + cols[None, :], mask=valid, other=0.0)\n"
      "    tl.store(out_ptr + offsets, tl.reshape(block, (BLOCK,)))\n");
  const TensorBindings tensors = {{"x_ptr", {"x", {7, 4}, Dtype::fp32}},
                                  {"z_ptr", {"z", {8, 4}, Dtype::fp32}},
                                  {"i_ptr", {"i", {32}, Dtype::int32}},
                                  {"out_ptr", {"out", {32}, Dtype::fp32}}};
  const TileSpace space = analyse_tiles(kernel, {{"n", std::int64_t{20}}, {"BLOCK", std::int64_t{8}}}, tensors);
  ASSERT_EQ(space.tiles.size(), 4U);
  EXPECT_TRUE(space.reads_by_data.empty());
  EXPECT_EQ(reads_of(space, 1, "x_ptr"), (std::vector<Region>{{{2, 4}, {0, 3}}}));
  EXPECT_EQ(reads_of(space, 3, "x_ptr"), (std::vector<Region>{{{6, 7}, {0, 3}}}));
  EXPECT_EQ(reads_of(space, 2, "z_ptr"), (std::vector<Region>{{{4, 5}, {0, 4}}}));
  EXPECT_EQ(reads_of(space, 3, "z_ptr"), std::vector<Region>{});
}

TEST(DataMasks, OfWhatDataAloneKeepInsideTheWholeTensorCounts) {
  const TileSpace space =
      analysed(kernel_of("    last = tl.load(i_ptr + pid)\n"
                         "    value = tl.load(x_ptr + 60 + offsets, mask=offsets < last, other=0.0)\n"
                         "    tl.store(out_ptr + offsets, value)\n"));
  EXPECT_EQ(reads_of(space, 0, "x_ptr"), (std::vector<Region>{{{0, 64}}}));
  EXPECT_EQ(space.reads_by_data.at("x_ptr").line, 10);
}

TEST(Assertions, AreCheckedWithTheirData) {
  const TileKernel kernel = kernel_of(
      "    count = tl.load(i_ptr + pid)\n"
      "    tl.device_assert((count >= 0) & (count <= n), \"a count beyond n\")\n"
      "    tl.device_assert(tl.load(x_ptr + offsets) < 5, mask=offsets < 20)\n"
      "    tl.store(out_ptr + offsets, count)\n");
  analysed(kernel);  // they decide nothing
  const auto program = lower(kernel.shared_module(), kernel.function());
  const auto complaint = [&](int count, int x_at, double x) -> std::string {
    FakeMemory memory;
    Arguments arguments = {{"n", std::int64_t{20}}, {"BLOCK", std::int64_t{8}}};
    for (int t = 0; t < 4; ++t)
      arguments[kParameters[t]] = memory.argument(memory.add(
          t == 2 ? Dtype::int32 : Dtype::fp32, std::vector<double>(static_cast<std::size_t>(kElements[t]), count)));
    for (int i = 0; i < kElements[0]; ++i) memory.set(0, i, i == x_at ? x : 0);
    try {
      run_to_end(program, arguments, {2}, {4}, memory);
    } catch (const UserError& error) {
      return error.where().to_string() + " " + error.problem();
    }
    return "";
  };
  EXPECT_EQ(complaint(0, 16, 4), "");
  EXPECT_EQ(complaint(20, 16, 4), "");
  EXPECT_THAT(complaint(21, 16, 4), HasSubstr("test.py:10:5 a count beyond n: count is 21, n is 20"));
  EXPECT_THAT(complaint(-1, 16, 4), HasSubstr("a count beyond n: count is -1, n is 20"));
  EXPECT_THAT(complaint(1, 19, 5), HasSubstr("test.py:11:5 an assertion does not hold"));
  EXPECT_EQ(complaint(1, 20, 5), "") << "the mask excuses it";
}

}  // namespace
}  // namespace syncopate
