#include "syncopate/emit/emit.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "syncopate/emit/prelude.h"
#include "syncopate/kernel/runtime_names.h"

namespace syncopate {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kImports = "import triton\nimport triton.language as tl\n";

TileKernel read(const std::string& text, const std::string& function) {
  return {parse_module(std::make_shared<const SourceFile>("folder/k.py", text)), function};
}

/// The fused file of a kernel `f` in `text`.
std::string emit(const std::string& text) { return emit_fused(read(text, "f")).text; }

/// Only the fused kernel's own function.
std::string emit_function(const std::string& text) {
  const std::string file = emit(kImports + text);
  return file.substr(file.find("def f_fused("));
}

void expect_error(const std::string& text, int line, int column, const std::string& problem,
                  const std::string& remedy) {
  try {
    static_cast<void>(emit(text));
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.where(), (SourceLocation{"folder/k.py", line, column})) << error.what();
    EXPECT_EQ(error.problem(), problem);
    EXPECT_EQ(error.remedy(), remedy);
  }
}

TEST(Prelude, HoldsTheHelpersByTheNamesThatExecutorsKnow) {
  EXPECT_TRUE(prelude().starts_with("@triton.jit\ndef " + std::string(kWaitHelper) + "("));
  EXPECT_THAT(std::string(prelude()), HasSubstr("def syncopate_wait_for_tile("));
  EXPECT_THAT(std::string(prelude()), HasSubstr("ld.acquire.sys.global.u64"));
  EXPECT_THAT(std::string(prelude()), HasSubstr("fence.proxy.async"));
}

TEST(Emit, OneProgramPerTileGetsALoopAroundItsTile) {
  EXPECT_EQ(
      emit_function("@triton.jit\n"
                    "def f(x, n, B: tl.constexpr):\n"
                    "    \"\"\"Adds\n"
                    "  one.\"\"\"\n"
                    "    blocks = tl.cdiv(n, B)  # not the tile's\n"
                    "    pid = tl.program_id(0)  # which block\n"
                    "\n"
                    "    # Where it is.\n"
                    "    at = x + (pid * B +\n"
                    "              tl.arange(0, B))\n"
                    "    if blocks > 1:\n"
                    "        # Two steps in.\n"
                    "        tl.store(at, tl.load(at) + 1)\n"),
      "def f_fused(x, n, B: tl.constexpr,\n"
      "            syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count, syncopate_waits,\n"
      "            syncopate_flags, syncopate_epoch, syncopate_record, syncopate_time_limit):\n"
      "    \"\"\"Adds\n"
      "  one.\"\"\"\n"
      "    blocks = tl.cdiv(n, B)  # not the tile's\n"
      "    syncopate_launch = tl.load(syncopate_epoch)\n"
      "    syncopate_slot = tl.program_id(0)\n"
      "    while syncopate_slot < syncopate_tile_count:\n"
      "        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 3\n"
      "        syncopate_ready = syncopate_wait_for_tile(syncopate_row + 1, syncopate_waits, syncopate_flags, "
      "syncopate_launch,\n"
      "                                                  syncopate_slot, syncopate_record, syncopate_time_limit)\n"
      "        pid = tl.load(syncopate_row).to(tl.int32) + syncopate_ready  # which block\n"
      "\n"
      "        # Where it is.\n"
      "        at = x + (pid * B +\n"
      "                  tl.arange(0, B))\n"
      "        if blocks > 1:\n"
      "            # Two steps in.\n"
      "            tl.store(at, tl.load(at) + 1)\n"
      "        syncopate_slot += tl.num_programs(0)\n");
}

/// The fused kernel's own function, where workers choose among the tiles.
std::string emit_dynamic(const std::string& text) {
  WalkOptions options;
  options.dynamic = true;
  const std::string file = emit_fused(read(kImports + text, "f"), "", options).text;
  EXPECT_THAT(file, HasSubstr("def " + std::string(kTakeHelper) + "("));
  EXPECT_THAT(file, HasSubstr("syncopate_claims), when"));
  return file.substr(file.find("def f_fused("));
}

constexpr const char* kTake =
    "syncopate_slot = syncopate_take(syncopate_claims, syncopate_lookahead, syncopate_tiles + 1, 3,\n";

TEST(EmitDynamic, OneProgramPerTileTakesOneTileAfterTheOther) {
  const std::string text = emit_dynamic(
      "@triton.jit\n"
      "def f(x, n, B: tl.constexpr):\n"
      "    pid = tl.program_id(0)\n"
      "    tl.store(x + pid * B + tl.arange(0, B), 1)\n");
  EXPECT_EQ(
      text,
      "def f_fused(x, n, B: tl.constexpr,\n"
      "            syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count, syncopate_waits,\n"
      "            syncopate_flags, syncopate_epoch, syncopate_record, syncopate_time_limit, syncopate_claims,\n"
      "            syncopate_lookahead):\n"
      "    syncopate_launch = tl.load(syncopate_epoch)\n"
      "    syncopate_slot = syncopate_take(syncopate_claims, syncopate_lookahead, syncopate_tiles + 1, 3, "
      "syncopate_tile_count,\n"
      "                                    syncopate_waits, syncopate_flags, syncopate_launch, syncopate_record,\n"
      "                                    syncopate_time_limit)\n"
      "    while syncopate_slot < syncopate_tile_count:\n"
      "        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 3\n"
      "        syncopate_ready = syncopate_wait_for_tile(syncopate_row + 1, syncopate_waits, syncopate_flags, "
      "syncopate_launch,\n"
      "                                                  syncopate_slot, syncopate_record, "
      "syncopate_time_limit)\n"
      "        pid = tl.load(syncopate_row).to(tl.int32) + syncopate_ready\n"
      "        tl.store(x + pid * B + tl.arange(0, B), 1)\n"
      "        syncopate_slot = syncopate_take(syncopate_claims, syncopate_lookahead, syncopate_tiles + 1, 3,\n"
      "                                        syncopate_tile_count, syncopate_waits, syncopate_flags, "
      "syncopate_launch,\n"
      "                                        syncopate_record, syncopate_time_limit)\n");
}

TEST(EmitDynamic, APersistentForBecomesAWhile) {
  const std::string text = emit_dynamic(
      "@triton.jit\n"
      "def f(x, n, B: tl.constexpr):\n"
      "    for t in tl.range(tl.program_id(0), n, tl.num_programs(0), flatten=True):  # tiles\n"
      "        tl.store(x + t * B + tl.arange(0, B), 1)\n"
      "        # The end.\n"
      "    tl.static_assert(B > 1)\n");
  EXPECT_THAT(text, HasSubstr("    while syncopate_slot < syncopate_tile_count:  # tiles\n"));
  EXPECT_THAT(text, Not(HasSubstr("flatten")));
  EXPECT_THAT(text, HasSubstr("        tl.store(x + t * B + tl.arange(0, B), 1)\n        # The end.\n        " +
                              std::string(kTake)));
  EXPECT_THAT(text, HasSubstr("    tl.static_assert(B > 1)\n"));
}

/// A worker that looked for a slot before it is done with its own might keep others waiting for that.
TEST(EmitDynamic, TheNextTileIsTakenBehindAllOfTheOne) {
  const std::string text = emit_dynamic(
      "@triton.jit\n"
      "def f(x, n, B: tl.constexpr):\n"
      "    t = tl.program_id(0)\n"
      "    while t < n:\n"
      "        at = x + t * B + tl.arange(0, B)\n"
      "        t += tl.num_programs(0)\n"
      "        tl.store(at, 1)\n");
  EXPECT_THAT(text, HasSubstr("        at = x + t * B + tl.arange(0, B)\n"
                              "        tl.store(at, 1)\n"
                              "        " +
                              std::string(kTake)));
}

TEST(Emit, LoopOptionsStay) {
  const std::string text = emit_function(
      "@triton.jit\n"
      "def f(x, n, W, B: tl.constexpr):\n"
      "    for t in tl.range(tl.program_id(0), n, tl.num_programs(0), num_stages=2 + 1):  # tiles\n"
      "        # Row and column.\n"
      "        row = t // W\n"
      "        column = t % W\n"
      "        tl.store(x + row * B + column + tl.arange(0, B), 1)\n");
  EXPECT_THAT(text, HasSubstr("    for syncopate_slot in tl.range(tl.program_id(0), syncopate_tile_count, "
                              "tl.num_programs(0), num_stages=2 + 1):  # tiles\n"));
  EXPECT_THAT(text, HasSubstr("        row = tl.load(syncopate_row).to(tl.int32) + syncopate_ready\n"
                              "        column = tl.load(syncopate_row + 1).to(tl.int32) + syncopate_ready\n"
                              "        tl.store(x + row * B + column + tl.arange(0, B), 1)\n"));
}

TEST(Emit, LongLoopHeadersAreWrapped) {
  EXPECT_THAT(
      emit_function("@triton.jit\n"
                    "def f(x, n, SMS: tl.constexpr, B: tl.constexpr):\n"
                    "    for t in tl.range(tl.program_id(0), n, SMS, flatten=True,\n"
                    "                      warp_specialize=True):\n"
                    "        tl.store(x + t * B + tl.arange(0, B), 1)\n"),
      HasSubstr("    for syncopate_slot in tl.range(tl.program_id(0), syncopate_tile_count, tl.num_programs(0), "
                "flatten=True,\n"
                "                                   warp_specialize=True):\n"
                "        syncopate_row = "));
}

TEST(Emit, ALoopCounterThatIsTheTileIsLoadedFirst) {
  EXPECT_THAT(emit_function("@triton.jit\n"
                            "def f(x, n, B: tl.constexpr):\n"
                            "    for t in range(tl.program_id(0), n, tl.num_programs(0)):\n"
                            "        tl.store(x + t * B + tl.arange(0, B), 1)\n"),
              HasSubstr("        t = tl.load(syncopate_row).to(tl.int32) + syncopate_ready\n"
                        "        tl.store(x + t * B + tl.arange(0, B), 1)\n"));
}

TEST(Emit, AnnotationsAndTheCommentsOfTheSchedulerGo) {
  const std::string text = emit_function(
      "@triton.jit\n"
      "def f(x, n, W, B: tl.constexpr):\n"
      "    # syncopate: tile_scheduler begin\n"
      "    # Of the scheduler.\n"
      "    pid = tl.program_id(0)\n"
      "\n"
      "    # Also.\n"
      "    row = pid // W\n"
      "    column = pid % W\n"
      "    # syncopate: tile_scheduler end\n"
      "    # syncopate: tile_index row, column\n"
      "    # Of the tile.\n"
      "    tl.store(x + row * W + column + tl.arange(0, B), 1)\n");
  EXPECT_THAT(text, Not(HasSubstr("syncopate:")));
  EXPECT_THAT(text, Not(HasSubstr("# Of the scheduler")));
  EXPECT_THAT(text, Not(HasSubstr("# Also")));
  EXPECT_THAT(text, HasSubstr("        column = tl.load(syncopate_row + 1).to(tl.int32) + syncopate_ready\n"
                              "        # Of the tile.\n"
                              "        tl.store("));
}

TEST(Emit, ParametersAreLaidOutAsTheUsersAre) {
  const std::string one_per_line = emit_function(
      "@triton.jit\n"
      "def f(\n"
      "    x,  # the vector\n"
      "    B: tl.constexpr,  # of a block\n"
      "):\n"
      "    pid = tl.program_id(0)\n"
      "    tl.store(x + pid * B + tl.arange(0, B), 1)\n");
  EXPECT_THAT(
      one_per_line,
      HasSubstr("def f_fused(\n"
                "    x,  # the vector\n"
                "    B: tl.constexpr,  # of a block\n"
                "    syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count, syncopate_waits, "
                "syncopate_flags,\n"
                "    syncopate_epoch, syncopate_record, syncopate_time_limit,\n"
                "):\n"));
  const std::string with_default = emit_function(
      "@triton.jit\n"
      "def f(x,\n"
      "      B: tl.constexpr = 16):\n"
      "    pid = tl.program_id(0)\n"
      "    tl.store(x + pid * B + tl.arange(0, B), 1)\n");
  EXPECT_THAT(with_default, HasSubstr("def f_fused(x,\n"
                                      "            B: tl.constexpr = 16,\n"
                                      "            syncopate_rank=None, syncopate_world_size=None,"));
  EXPECT_THAT(with_default, HasSubstr("syncopate_time_limit=None):\n"));
}

TEST(Emit, TheFileKeepsWhatTheKernelNeedsAndNoMore) {
  const std::string text = emit(
      "#!/usr/bin/env python\n"
      "# Copyright the authors\n"
      "\n"
      "import math\n"
      "import torch\n"
      "import triton\n"
      "import triton.language as tl\n"
      "\n"
      "# How much.\n"
      "STEP = tl.constexpr(math.e)\n"
      "OTHER = 3\n"
      "\n"
      "\n"
      "# One step.\n"
      "@triton.jit\n"
      "def step(x):\n"
      "    return x + STEP  # on\n"
      "\n"
      "\n"
      "def configurations():\n"
      "    return [triton.Config({'B': 16})]\n"
      "\n"
      "\n"
      "@triton.autotune(configs=configurations(), key=['B'])\n"
      "@triton.jit\n"
      "def f(x, B: tl.constexpr):\n"
      "    pid = tl.program_id(0)\n"
      "    at = x + pid * B + tl.arange(0, B)\n"
      "    tl.store(at, step(tl.load(at)))\n"
      "\n"
      "\n"
      "if __name__ == '__main__':\n"
      "    f[(1,)](torch.zeros(16), 16)\n");
  EXPECT_TRUE(text.starts_with("# Copyright the authors\n\n# Made by Syncopate from f() of k.py;")) << text;
  EXPECT_THAT(text, HasSubstr("import triton\nimport triton.language as tl\nimport math\n\n"
                              "# How much.\nSTEP = tl.constexpr(math.e)\n\n\n@triton.jit\ndef syncopate_wait("));
  EXPECT_THAT(text, HasSubstr("\n\n\n# One step.\n@triton.jit\ndef step(x):\n    return x + STEP  # on\n\n\n"
                              "@triton.jit\ndef f_fused(x, B: tl.constexpr,\n"));
  for (const char* dropped : {"torch", "OTHER", "configurations", "autotune", "__main__", "/usr/bin", "folder/"}) {
    EXPECT_THAT(text, Not(HasSubstr(dropped)));
  }
}

TEST(Emit, JitOptionsStay) {
  EXPECT_THAT(emit(std::string(kImports) + "@triton.jit(do_not_specialize=(\"n\",))\n"
                                           "def f(x, n, B: tl.constexpr):\n"
                                           "    pid = tl.program_id(0)\n"
                                           "    tl.store(x + pid * B + tl.arange(0, B), n)\n"),
              HasSubstr("\n@triton.jit(do_not_specialize=(\"n\",))\ndef f_fused(x, n,"));
}

TEST(Emit, ReservedNamesAreRefused) {
  const std::string remedy =
      "names that begin so are those of fused kernels; choose another name (or compile the kernel that this one was "
      "made from)";
  const std::string body = "    pid = tl.program_id(0)\n    tl.store(x + pid * B + tl.arange(0, B), 1)\n";
  expect_error(std::string(kImports) + "@triton.jit\ndef f(x, B: tl.constexpr, syncopate_rank):\n" + body, 4, 27,
               "'syncopate_rank' begins with 'syncopate_'", remedy);
  expect_error(std::string(kImports) + "@triton.jit\ndef f(x, B: tl.constexpr):\n    syncopate_x = 1\n" + body, 5, 5,
               "'syncopate_x' begins with 'syncopate_'", remedy);
  expect_error(std::string(kImports) +
                   "@triton.jit\ndef f_fused(x):\n    return x\n\n@triton.jit\ndef f(x, B: tl.constexpr):\n" + body,
               4, 5, "the file already has a function 'f_fused', the name of the fused kernel", "rename it");
}

TEST(Emit, AChangedParameterWouldCarryOverToTheNextTile) {
  expect_error(std::string(kImports) +
                   "@triton.jit\n"
                   "def f(x, B: tl.constexpr):\n"
                   "    pid = tl.program_id(0)\n"
                   "    x += pid * B\n"
                   "    tl.store(x + tl.arange(0, B), 1)\n",
               6, 5, "parameter 'x' is changed, but the fused kernel's next tile needs its first value",
               "give the new value a name of its own, e.g. `tile_x = x + ...`");
}

TEST(Emit, ValuesThatTilesChangeStartAfreshInEachTile) {
  EXPECT_THAT(emit_function("@triton.jit\n"
                            "def f(x, n, B: tl.constexpr):\n"
                            "    last = n - 1\n"
                            "    tl.static_assert(B > 1)\n"
                            "    total = 0\n"
                            "    pid = tl.program_id(0)\n"
                            "    for i in range(n):\n"
                            "        total += i\n"
                            "    tl.store(x + pid * B + tl.arange(0, B), total + last)\n"),
              HasSubstr("    last = n - 1\n"
                        "    tl.static_assert(B > 1)\n"
                        "    syncopate_launch = tl.load(syncopate_epoch)\n"
                        "    syncopate_slot = tl.program_id(0)\n"
                        "    while syncopate_slot < syncopate_tile_count:\n"));
}

TEST(Emit, LoadsBeforeTheProgramIdHappenAfterTheWait) {
  const std::string text = emit_function(
      "@triton.jit\n"
      "def f(x, y, B: tl.constexpr):\n"
      "    scale = tl.load(y)\n"
      "    pid = tl.program_id(0)\n"
      "    tl.store(x + pid * B + tl.arange(0, B), scale)\n");
  EXPECT_LT(text.find("syncopate_wait_for_tile("), text.find("scale = tl.load(y)"));
}

TEST(Emit, AFinalReturnGoes) {
  const std::string text = emit_function(
      "@triton.jit\n"
      "def f(x, n, B: tl.constexpr):\n"
      "    pid = tl.program_id(0)\n"
      "    tl.store(x + pid * B + tl.arange(0, B), 1)\n"
      "    return\n");
  EXPECT_THAT(text, Not(HasSubstr("return")));
}

TEST(Emit, AWhileLoopStaysOne) {
  EXPECT_EQ(
      emit_function("@triton.jit\n"
                    "def f(x, n, W, B: tl.constexpr):\n"
                    "    tile = tl.program_id(0)\n"
                    "    # Over all tiles.\n"
                    "    while tile < n:  # of them\n"
                    "        row, column = tile // W, tile % W  # its place\n"
                    "        tl.store(x + row * B + column + tl.arange(0, B), 1)\n"
                    "        tile += tl.num_programs(0)  # on\n"
                    "    tl.store(x, 0)\n"),
      "def f_fused(x, n, W, B: tl.constexpr,\n"
      "            syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count, syncopate_waits,\n"
      "            syncopate_flags, syncopate_epoch, syncopate_record, syncopate_time_limit):\n"
      "    syncopate_launch = tl.load(syncopate_epoch)\n"
      "    syncopate_slot = tl.program_id(0)\n"
      "    # Over all tiles.\n"
      "    while syncopate_slot < syncopate_tile_count:  # of them\n"
      "        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 4\n"
      "        syncopate_ready = syncopate_wait_for_tile(syncopate_row + 2, syncopate_waits, syncopate_flags, "
      "syncopate_launch,\n"
      "                                                  syncopate_slot, syncopate_record, syncopate_time_limit)\n"
      "        row = tl.load(syncopate_row).to(tl.int32) + syncopate_ready\n"
      "        column = tl.load(syncopate_row + 1).to(tl.int32) + syncopate_ready  # its place\n"
      "        tl.store(x + row * B + column + tl.arange(0, B), 1)\n"
      "        syncopate_slot += tl.num_programs(0)  # on\n"
      "    tl.store(x, 0)\n");
}

TEST(Emit, ProgramIdsOfTwoAxesAreBothLoaded) {
  const std::string text = emit_function(
      "@triton.jit\n"
      "def f(x, n, B: tl.constexpr):\n"
      "    i = tl.program_id(0)\n"
      "    j = tl.program_id(1)\n"
      "    tl.store(x + (i * n + j) * B + tl.arange(0, B), 1)\n");
  EXPECT_THAT(text, HasSubstr("        i = tl.load(syncopate_row).to(tl.int32) + syncopate_ready\n"
                              "        j = tl.load(syncopate_row + 1).to(tl.int32) + syncopate_ready\n"
                              "        tl.store("));
}

TEST(Emit, HelpersOfTheSchedulerGoWithIt) {
  const std::string text = emit(std::string(kImports) +
                                "@triton.jit\n"
                                "def place(t, W):\n"
                                "    return t // W, t % W\n"
                                "\n"
                                "@triton.jit\n"
                                "def f(x, W, B: tl.constexpr):\n"
                                "    row, column = place(tl.program_id(0), W)\n"
                                "    tl.store(x + row * B + column + tl.arange(0, B), 1)\n");
  EXPECT_THAT(text, Not(HasSubstr("place")));
}

TEST(Emit, TwoSpacesAreKeptAndFilesMayLackTheLastNewline) {
  EXPECT_THAT(emit_function("@triton.jit\n"
                            "def f(x, B: tl.constexpr):\n"
                            "  pid = tl.program_id(0)\n"
                            "  tl.store(x + pid * B + tl.arange(0, B), 1)"),
              HasSubstr("  while syncopate_slot < syncopate_tile_count:\n"
                        "    syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 3\n"));
}

// ---- Sums over ranks ----

/// The fused kernel f whose output `c` is a sum over ranks; `body` is the tile's.
std::string emit_sum(const std::string& body, const std::string& before = "") {
  std::string text = before + "@triton.jit\ndef f(c, n, B: tl.constexpr):\n    pid = tl.program_id(0)\n";
  for (std::size_t begin = 0; begin < body.size();) {
    const std::size_t end = std::min(body.find('\n', begin), body.size());
    text += "    " + body.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return emit_fused(read(kImports + text, "f"), "c").text;
}

std::string sum_function(const std::string& body) {
  const std::string file = emit_sum(body);
  return file.substr(file.find("def f_fused("));
}

void expect_sum_error(const std::string& body, int line, int column, const std::string& problem,
                      const std::string& remedy, const std::string& before = "") {
  try {
    static_cast<void>(emit_sum(body, before));
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.where(), (SourceLocation{"folder/k.py", line, column})) << error.what();
    EXPECT_EQ(error.problem(), problem);
    EXPECT_EQ(error.remedy(), remedy);
  }
}

TEST(EmitSum, StoresThroughPointers) {
  EXPECT_EQ(
      sum_function("# Where.\n"
                   "at = pid * B + tl.arange(0, B)\n"
                   "value = at * 2.0\n"
                   "# What every rank\n"
                   "# contributes.\n"
                   "tl.store(c + at, value, mask=at < n)  # done\n"),
      "def f_fused(c, n, B: tl.constexpr,\n"
      "            syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count, syncopate_waits,\n"
      "            syncopate_flags, syncopate_epoch, syncopate_record, syncopate_time_limit, syncopate_staging,\n"
      "            syncopate_addends, syncopate_signals, syncopate_peers, syncopate_cut: tl.constexpr):\n"
      "    syncopate_launch = tl.load(syncopate_epoch)\n"
      "    syncopate_slot = tl.program_id(0)\n"
      "    while syncopate_slot < syncopate_tile_count:\n"
      "        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 15\n"
      "        syncopate_entry = syncopate_row + 1\n"
      "        syncopate_work = syncopate_load_work(syncopate_entry, syncopate_waits, syncopate_flags, "
      "syncopate_launch)\n"
      "        syncopate_ready = syncopate_wait_for_tile(syncopate_row + 1, syncopate_waits, syncopate_flags, "
      "syncopate_launch,\n"
      "                                                  syncopate_slot, syncopate_record, syncopate_time_limit)\n"
      "        pid = tl.load(syncopate_row).to(tl.int32) + syncopate_ready\n"
      "        # Where.\n"
      "        syncopate_raise_late(syncopate_work, syncopate_entry + 7, syncopate_signals, syncopate_peers)\n"
      "        if syncopate_adds(syncopate_work):\n"
      "            syncopate_arrived = syncopate_wait_to_add(syncopate_work, syncopate_entry, syncopate_waits, "
      "syncopate_flags,\n"
      "                                                      syncopate_launch, syncopate_slot, syncopate_record,\n"
      "                                                      syncopate_time_limit)\n"
      "            at = pid * B + tl.arange(0, B)\n"
      "            value = at * 2.0\n"
      "            # What every rank\n"
      "            # contributes.\n"
      "            syncopate_pointers = (c + at)\n"
      "            syncopate_value = syncopate_sum_at(value, syncopate_pointers, c, at < n, syncopate_entry, "
      "syncopate_arrived,\n"
      "                                               syncopate_staging, syncopate_addends)\n"
      "            if syncopate_cut:\n"
      "                syncopate_kept_here = syncopate_kept(syncopate_pointers, c, syncopate_entry)\n"
      "                tl.store(syncopate_pointers, syncopate_value, mask=(at < n) & syncopate_kept_here)\n"
      "            else:\n"
      "                tl.store(syncopate_pointers, syncopate_value, mask=at < n)  # done\n"
      "        else:\n"
      "            at = pid * B + tl.arange(0, B)\n"
      "            value = at * 2.0\n"
      "            # What every rank\n"
      "            # contributes.\n"
      "            if syncopate_cut:\n"
      "                syncopate_kept_here = syncopate_kept(c + at, c, syncopate_entry)\n"
      "                tl.store(c + at, value, mask=(at < n) & syncopate_kept_here)\n"
      "            else:\n"
      "                tl.store(c + at, value, mask=at < n)  # done\n"
      "        syncopate_raise_early(syncopate_work, syncopate_entry + 9, syncopate_signals, syncopate_peers)\n"
      "        syncopate_slot += tl.num_programs(0)\n");
}

TEST(EmitSum, MasksOfEveryForm) {
  const auto stored = [](const std::string& rest) {
    return sum_function("at = c + pid * B + tl.arange(0, B)\ntl.store(at, 1.0" + rest + ")\n");
  };
  const std::string kept = "            tl.store(at, syncopate_value";
  EXPECT_THAT(stored(""), HasSubstr(kept + ", mask=syncopate_kept_here)\n"));
  EXPECT_THAT(stored(""), HasSubstr("syncopate_sum_at(1.0, at, c, True, syncopate_entry"));
  EXPECT_THAT(stored(", None"), HasSubstr(kept + ", syncopate_kept_here)\n"));
  EXPECT_THAT(stored(", cache_modifier='.cs'"),
              HasSubstr(kept + ", cache_modifier='.cs', mask=syncopate_kept_here)\n"));
  EXPECT_THAT(stored(", (n > 2) & (n < 9)"), HasSubstr(kept + ", (n > 2) & (n < 9) & syncopate_kept_here)\n"));
  EXPECT_THAT(stored(", (n > 2) | (n < 9)"), HasSubstr(kept + ", ((n > 2) | (n < 9)) & syncopate_kept_here)\n"));
}

TEST(EmitSum, StoresThroughDescriptors) {
  const std::string text = sum_function(
      "out = tl.make_tensor_descriptor(c, [n, n], [n, 1], [B, B])\n"
      "place = [pid * B, 0]\n"
      "if n > 2:\n"
      "    out.store(value=tl.zeros([B, B], tl.float32), offsets=place)\n"
      "else:\n"
      "    tl.store_tensor_descriptor(out, [pid * B, 0], tl.zeros([B, B], tl.float32))\n");
  EXPECT_THAT(text, HasSubstr("        out = tl.make_tensor_descriptor(c, [n, n], [n, 1], [B, B])\n"
                              "        syncopate_raise_late("))
      << "a descriptor is made once";
  EXPECT_THAT(
      text,
      HasSubstr(
          "            syncopate_addend = syncopate_first_addend(syncopate_work, syncopate_entry, syncopate_addends)\n"
          "            place = [pid * B, 0]\n"
          "            if n > 2:\n"
          "                syncopate_value = tl.zeros([B, B], tl.float32)\n"
          "                syncopate_first = syncopate_first_summands(out, place[0], place[1], "
          "syncopate_addend, syncopate_arrived,\n"
          "                                                           syncopate_staging)\n"
          "                syncopate_value = syncopate_sum_block(syncopate_value, "
          "syncopate_first, out, place[0], place[1],\n"));
  EXPECT_THAT(text, HasSubstr("                if syncopate_cuts_block(out, place[0], syncopate_entry, "
                              "syncopate_cut):\n"
                              "                    syncopate_store_kept(c, syncopate_value, out, place[0], place[1], "
                              "syncopate_entry)\n"
                              "                else:\n"
                              "                    out.store(value=syncopate_value, offsets=place)\n"
                              "            else:\n"
                              "                syncopate_value = tl.zeros([B, B], tl.float32)\n"
                              "                syncopate_first = syncopate_first_summands(out, pid * B, 0, "));
  EXPECT_THAT(text, HasSubstr("                    tl.store_tensor_descriptor(out, [pid * B, 0], syncopate_value)\n"
                              "        else:\n"
                              "            place = [pid * B, 0]\n"
                              "            if n > 2:\n"
                              "                if syncopate_cuts_block(out, place[0], syncopate_entry, "
                              "syncopate_cut):\n"
                              "                    syncopate_store_kept(c, tl.zeros([B, B], tl.float32), out, "
                              "place[0], place[1], syncopate_entry)\n"
                              "                else:\n"
                              "                    out.store(value=tl.zeros([B, B], tl.float32), offsets=place)\n"
                              "            else:\n"));
  EXPECT_THAT(text, HasSubstr("                    tl.store_tensor_descriptor(out, [pid * B, 0], tl.zeros([B, B], "
                              "tl.float32))\n"
                              "        syncopate_raise_early("));
}

TEST(EmitSum, WhatSlotsWithoutAddendsRunBeginsAfterTheLastLoop) {
  const std::string text = sum_function(
      "at = pid * B + tl.arange(0, B)\n"
      "for i in range(n):\n"
      "    at += 1\n"
      "x = at * 2\n"
      "x += 1\n"
      "tl.store(c + at, x)\n");
  EXPECT_THAT(text, HasSubstr("            at += 1\n        syncopate_raise_late("));
  EXPECT_THAT(text,
              HasSubstr("        else:\n            x = at * 2\n            x += 1\n            if syncopate_cut:\n"));
}

TEST(EmitSum, CallsThatBecomeTooLongAreWrapped) {
  const std::string name = "a_long_name_of_a_value_that_is_stored_in_one_line_of_its_own_which_is_nearly_full";
  const std::string text =
      sum_function(name + " = pid * B + tl.arange(0, B)\ntl.store(c + pid, " + name + ", mask=(pid < n))\n");
  EXPECT_THAT(text, HasSubstr("                tl.store(c + pid, " + name +
                              ",\n"
                              "                         mask=((pid < n)) & syncopate_kept_here)\n"));
}

/// In which order the stores of a tile are worked on: "v0" its first value converted, "f0" first summands loaded,
/// "s0" summed.
std::vector<std::string> order_of_stores(const std::string& statements) {
  const std::string text = sum_function(
      "out = tl.make_tensor_descriptor(c, [n, n], [n, 1], [B, B])\n"
      "x = tl.zeros([B, B], tl.float32)\n"
      "row = pid * B\n" +
      statements);
  std::vector<std::string> order;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto number = [&](const std::string& word) {
      const std::size_t at = line.find(word) + word.size();
      return line.substr(at, line[at] == '_' ? 2 : 0);
    };
    const bool sum = line.find("syncopate_sum_block(") != std::string::npos;
    if (sum)
      order.push_back("s" + (line.find("syncopate_first") == std::string::npos ? "" : number("syncopate_first")));
    if (line.find("syncopate_first_summands(") != std::string::npos) order.push_back("f" + number("syncopate_first"));
    const bool value = line.substr(0, line.find(" = ")).find("  syncopate_value") != std::string::npos;
    if (!sum && value && line.find(" = ") != std::string::npos && line.find("store(") == std::string::npos)
      order.push_back("v" + number("syncopate_value"));
  }
  return order;
}

TEST(EmitSum, SummandsOfSeveralStoresAreLoadedTogether) {
  const auto order = [](const std::string& statements) {
    return fmt::format("{}", fmt::join(order_of_stores(statements), " "));
  };
  const std::string first = "out.store([row, 0], x)\n";
  EXPECT_EQ(order(first), "v f s");
  EXPECT_EQ(order(first + "out.store([row, B // 2], x.to(out.dtype))\n"), "v_0 v_1 f_0 f_1 s_0 s_1");
  // What is stored is not known before: only the place is.
  EXPECT_EQ(order(first + "x = x + 1\nout.store([row, B], x)\n"), "v_0 f_0 f_1 s_0 s_1");
  EXPECT_EQ(order(first + "out.store([row, B], tl.sqrt(x))\n"), "v_0 f_0 f_1 s_0 s_1");
  // Nor is the place.
  EXPECT_EQ(order(first + "row += 1\nout.store([row, B], x)\n"), "v f s v f s");
  EXPECT_EQ(order(first + "if n > 2:\n    row = 0\nout.store([row, B], x)\n"), "v f s v f s");
  EXPECT_EQ(order(first + "for row in range(2):\n    x = x + 1\nout.store([row, B], x)\n"), "v f s v f s");
  EXPECT_EQ(order(first + "out.store([tl.cdiv(n, B), B], x)\n"), "v f s v f s");
  EXPECT_EQ(order(first + "row += 1\nout.store([row, B], x)\nout.store([pid, 0], x)\n"),
            "v_0 v_1 f_0 f_1 s_0 v f s s_1");
  // Other statements of their own.
  EXPECT_EQ(order(first + "if n > 2:\n    out.store([row, B], x)\n    out.store([row, 0], x)\n"),
            "v f s v_0 v_1 f_0 f_1 s_0 s_1");
  EXPECT_EQ(order("for i in range(2):\n    out.store([row + i, B], x)\n    out.store([row + i, 0], x)\n"),
            "v_0 v_1 f_0 f_1 s_0 s_1");
}

TEST(EmitSum, OnlyTheHelpersThatAreUsed) {
  const std::string pointers = emit_sum("tl.store(c + pid * B + tl.arange(0, B), 1.0)\n");
  EXPECT_THAT(pointers, HasSubstr("def syncopate_sum_at("));
  EXPECT_THAT(pointers, HasSubstr("def syncopate_elsewhere("));
  EXPECT_THAT(pointers, Not(HasSubstr("def syncopate_sum_block(")));
  const std::string blocks = emit_sum(
      "out = tl.make_tensor_descriptor(c, [n, n], [n, 1], [B, B])\n"
      "out.store([pid * B, 0], tl.zeros([B, B], tl.float32))\n");
  EXPECT_THAT(blocks, HasSubstr("def syncopate_sum_block("));
  EXPECT_THAT(blocks, Not(HasSubstr("def syncopate_elsewhere(")));
  for (const std::string& text : {pointers, blocks}) {
    EXPECT_THAT(text, HasSubstr("def " + std::string(kPublishHelper) + "("));
    EXPECT_THAT(text, HasSubstr("def " + std::string(kRaiseHelper) + "("));
  }
}

TEST(EmitSum, AWhileLoopThatAdvancesBeforeItStores) {
  const std::string text = emit_fused(read(kImports + std::string("@triton.jit\n"
                                                                  "def f(c, n, B: tl.constexpr):\n"
                                                                  "    t = tl.program_id(0)\n"
                                                                  "    while t < n:\n"
                                                                  "        row = t % 4\n"
                                                                  "        t += tl.num_programs(0)\n"
                                                                  "        tl.store(c + row * B, 1.0)\n"),
                                           "f"),
                                      "c")
                               .text;
  EXPECT_THAT(text, HasSubstr("        syncopate_current = syncopate_slot\n"));
  EXPECT_THAT(text, HasSubstr("syncopate_launch, syncopate_current, syncopate_record"));
}

TEST(EmitStreamed, AWhileLoopThatAdvancesBeforeItWalks) {
  const TileKernel kernel = read(kImports + std::string("@triton.jit\n"
                                                        "def f(a, c, n, K, B: tl.constexpr):\n"
                                                        "    t = tl.program_id(0)\n"
                                                        "    while t < n:\n"
                                                        "        row = t % 4\n"
                                                        "        t += tl.num_programs(0)\n"
                                                        "        total = 0.0\n"
                                                        "        for k in range(0, K):  # syncopate: streamed_loop k\n"
                                                        "            total += tl.load(a + k)\n"
                                                        "        tl.store(c + row * B, total)\n"),
                                 "f");
  const std::string kept = "        syncopate_current = syncopate_slot\n";
  for (const WalkOptions& options : {WalkOptions{false, true, {}}, WalkOptions{false, true, {"c"}}}) {
    const std::string text = emit_fused(kernel, "", options).text;
    EXPECT_NE(text.find(kept), std::string::npos);
    EXPECT_EQ(text.find(kept), text.rfind(kept));
    EXPECT_LT(text.find(kept), text.find("while syncopate_step <"));
    EXPECT_LT(text.find("while syncopate_step <"), text.find("syncopate_current,"));
  }
  const std::string text = emit_fused(kernel, "c", {false, true, {}}).text;
  EXPECT_EQ(text.find(kept), text.rfind(kept));
  EXPECT_THAT(emit_fused(kernel).text, Not(HasSubstr("syncopate_current")));
}

TEST(EmitStreamed, OutputsThatLeaveAreStoredBehindTheLoops) {
  const auto error = [](const std::string& body, const std::string& reduced, std::vector<std::string> sent) {
    try {
      emit_fused(read(kImports +
                          std::string("@triton.jit\n"
                                      "def f(a, c, n, K, B: tl.constexpr):\n"
                                      "    row = tl.program_id(0)\n") +
                          body,
                      "f"),
                 reduced, {true, true, std::move(sent)});
    } catch (const UserError& found) {
      return std::to_string(found.where().line) + ": " + found.problem();
    }
    return std::string("none");
  };
  const std::string loop = "    for k in range(0, K):  # syncopate: streamed_loop k\n        x = tl.load(a + k)\n";
  const std::string store = "    tl.store(c + row, 1.0)\n";
  EXPECT_EQ(error(loop + store, "c", {}), "none");
  EXPECT_EQ(error(loop + store, "", {"c"}), "none");
  EXPECT_EQ(error(store + loop, "", {"c"}), "none");
  EXPECT_THAT(error(loop + "    " + store, "c", {}),
              HasSubstr("8: this stores to 'c', which is a sum over ranks, in a streamed loop"));
  EXPECT_THAT(error(store + loop, "c", {}),
              HasSubstr("6: this stores to 'c', which is a sum over ranks, before a streamed loop"));
  EXPECT_THAT(error(loop + "    " + store, "", {"c"}),
              HasSubstr("8: this stores to 'c', which is sent to other ranks, in a streamed loop"));
}

TEST(EmitSum, AWhileLoopThatAdvancesBetweenItsStores) {
  const std::string text = kImports + std::string(
                                          "@triton.jit\n"
                                          "def f(c, n, B: tl.constexpr):\n"
                                          "    t = tl.program_id(0)\n"
                                          "    while t < n:\n"
                                          "        row = t % 4\n"
                                          "        tl.store(c + row * B, 1.0)\n"
                                          "        t += tl.num_programs(0)\n"
                                          "        tl.store(c + row * B + 1, 1.0)\n");
  try {
    static_cast<void>(emit_fused(read(text, "f"), "c"));
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.where().line, 9);
    EXPECT_EQ(error.problem(), "this stands between stores to 'c', which is a sum over ranks");
    EXPECT_EQ(error.remedy(), "put it after the last of them");
  }
}

TEST(EmitSum, TilesThatWaitAreNotBegunBeforeTheOneBeforeIsStored) {
  const std::string options =
      "num_stages=3, flatten=True, loop_unroll_factor=2, warp_specialize=True, disallow_acc_multi_buffer=True";
  const TileKernel kernel = read(kImports + std::string("@triton.jit\n"
                                                        "def f(c, n, B: tl.constexpr):\n"
                                                        "    for t in tl.range(tl.program_id(0), n, "
                                                        "tl.num_programs(0), " +
                                                        options +
                                                        "):\n"
                                                        "        row = t % 4\n"
                                                        "        tl.store(c + row * B, 1.0)\n"),
                                 "f");
  const std::string loop =
      "    for syncopate_slot in tl.range(tl.program_id(0), syncopate_tile_count, tl.num_programs(0)";
  const auto unbroken = [](std::string text) {
    for (std::size_t at = 0; (at = text.find(",\n", at)) != std::string::npos;)
      text.replace(at, text.find_first_not_of(" \n", at + 1) - at, ", ");
    return text;
  };
  const std::string all = loop + ", " + options + "):\n";
  EXPECT_THAT(unbroken(emit_fused(kernel, "c").text), HasSubstr(all));
  EXPECT_THAT(unbroken(emit_fused(kernel, "", {true}).text), HasSubstr(all));
  const std::string text = unbroken(emit_fused(kernel, "c", {true}).text);
  EXPECT_THAT(text, HasSubstr(loop + ", loop_unroll_factor=2, disallow_acc_multi_buffer=True):\n"));
  const std::string other = unbroken(emit_fused(kernel, "c").text);
  EXPECT_EQ(text.substr(text.find("):\n", text.find(loop))), other.substr(other.find("):\n", other.find(loop))));
}

TEST(EmitSum, DefaultsOfParameters) {
  const std::string text = emit_fused(read(kImports + std::string("@triton.jit\n"
                                                                  "def f(c, B: tl.constexpr = 16):\n"
                                                                  "    pid = tl.program_id(0)\n"
                                                                  "    tl.store(c + pid * B + tl.arange(0, B), 1.0)\n"),
                                           "f"),
                                      "c")
                               .text;
  EXPECT_THAT(text, HasSubstr("syncopate_peers=None,"));
  EXPECT_THAT(text, HasSubstr("syncopate_cut: tl.constexpr = None):\n"));
}

TEST(EmitSum, StoresThatCannotBeEdited) {
  expect_sum_error("put(c + pid)\n", 5, 5, "a helper stores to 'c', which is a sum over ranks",
                   "let the helper return the value, and store it in f itself",
                   "@triton.jit\ndef put(at):\n    tl.store(at, 1.0)\n");
  expect_sum_error("x = tl.store(c + pid, 1.0)\n", 6, 9, "this store to 'c' is part of a larger expression",
                   "make it a statement of its own");
  expect_sum_error("if n > 2: tl.store(c + pid, 1.0)\n", 6, 15, "this store to 'c' shares its line with other code",
                   "put it on a line of its own");
  expect_sum_error(
      "out = tl.make_tensor_descriptor(c, [n, n, n], [n * n, n, 1], [B, B, B])\n"
      "out.store([pid, 0, 0], tl.zeros([B, B, B], tl.float32))\n",
      7, 5, "this stores to 'c', which is a sum over ranks, through a descriptor of 3 dimensions",
      "use a descriptor of 2 dimensions, or pointers");
  expect_sum_error(
      "tl.make_tensor_descriptor(c, [n, n], [n, 1], [B, B]).store([pid, 0], tl.zeros([B, B], tl.float32))\n", 6, 5,
      "a descriptor without a name stores to what is a sum over ranks", "give the descriptor a name of its own");
  expect_sum_error("out = tl.make_tensor_descriptor(c, [n, n], [n, 1], [B, B])\nout.load([pid, 0])\n", 4, 5,
                   "kernel f stores nothing to 'c'", "the kernel must store its summands there");
}

TEST(Emit, SchedulerStatementsNeedTheirOwnLines) {
  expect_error(std::string(kImports) +
                   "@triton.jit\n"
                   "def f(x, n, B: tl.constexpr):\n"
                   "    pid = tl.program_id(0); y = 1\n"
                   "    tl.store(x + pid * B + tl.arange(0, B), y)\n",
               5, 5, "a statement of the tile scheduler shares its line with other code",
               "put it on a line of its own");
}

}  // namespace
}  // namespace syncopate
