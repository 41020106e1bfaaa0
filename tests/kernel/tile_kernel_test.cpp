#include "syncopate/kernel/tile_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace syncopate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TileKernel analyse(const std::string& text, const std::string& name = "kernel") {
  return TileKernel(parse_module(std::make_shared<const SourceFile>("k.py", text)), name);
}

std::string text_of(const TileKernel& kernel, const Statement* statement) {
  return statement == nullptr ? "" : std::string(kernel.module().source->slice(statement->range));
}

/// The texts of the statements that are removed.
std::vector<std::string> removed(const TileKernel& kernel) {
  std::vector<std::string> texts;
  for (const Statement* statement : kernel.scheduler().statements) texts.push_back(text_of(kernel, statement));
  return texts;
}

std::vector<std::string> index_of(const TileKernel& kernel) { return kernel.scheduler().index_variables; }

/// The place of the first `snippet` in a text.
SourceLocation place_of(const std::string& text, const std::string& snippet) {
  const std::size_t offset = text.find(snippet);
  EXPECT_NE(offset, std::string::npos) << snippet;
  return SourceFile("k.py", text).locate(offset);
}

void expect_failure(const std::string& text, const std::string& at, const std::string& problem,
                    const std::string& remedy) {
  try {
    const TileKernel kernel = analyse(text);
    ADD_FAILURE() << "no error; index variables: " << testing::PrintToString(index_of(kernel)) << " in\n" << text;
  } catch (const UserError& error) {
    EXPECT_EQ(error.where(), place_of(text, at)) << error.what() << "\n" << text;
    EXPECT_THAT(error.problem(), HasSubstr(problem));
    EXPECT_THAT(error.remedy(), HasSubstr(remedy));
  }
}

// --- The kernels we ship.

TileKernel shipped(const std::string& name) {
  return TileKernel::read(std::string(SYNCOPATE_SOURCE_DIR "/kernels/") + name + ".py", name);
}

TEST(ShippedKernels, persistent_loop) {
  const TileKernel kernel = shipped("gemm");
  EXPECT_EQ(kernel.scheduler().kind, SchedulerKind::persistent_for);
  EXPECT_THAT(index_of(kernel), ElementsAre("pid_m", "pid_n"));
  EXPECT_THAT(
      removed(kernel),
      ElementsAre("tiles_m = tl.cdiv(M, BLOCK_M)", "tiles_n = tl.cdiv(N, BLOCK_N)", "num_tiles = tiles_m * tiles_n",
                  "group_size = GROUP_M * tiles_n", "group = tile // group_size", "first_m = group * GROUP_M",
                  "rows = min(tiles_m - first_m, GROUP_M)", "pid_m = first_m + (tile % group_size) % rows",
                  "pid_n = (tile % group_size) // rows"));
  EXPECT_EQ(text_of(kernel, kernel.scheduler().last_assignment), "pid_n = (tile % group_size) // rows");
  ASSERT_NE(kernel.scheduler().loop, nullptr);
  EXPECT_EQ(kernel.module().source->slice(kernel.scheduler().loop->header),
            "for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0), flatten=True):");
  EXPECT_EQ(kernel.scheduler().advance, nullptr);
}

TEST(ShippedKernels, program_per_tile) {
  const TileKernel kernel = shipped("gemm_pointers");
  EXPECT_EQ(kernel.scheduler().kind, SchedulerKind::program_per_tile);
  EXPECT_THAT(index_of(kernel), ElementsAre("pid_m", "pid_n"));
  EXPECT_EQ(removed(kernel).size(), 8u);
  EXPECT_EQ(removed(kernel).front(), "pid = tl.program_id(axis=0)");
  EXPECT_EQ(text_of(kernel, kernel.scheduler().last_assignment), "pid_n = (pid % group_size) // rows");
  EXPECT_EQ(kernel.scheduler().loop, nullptr);
}

TEST(ShippedKernels, helper_and_while) {
  const TileKernel kernel = shipped("gemm_split_helper");
  EXPECT_EQ(kernel.scheduler().kind, SchedulerKind::persistent_while);
  EXPECT_THAT(index_of(kernel), ElementsAre("tile_r", "tile_c"));
  EXPECT_THAT(
      removed(kernel),
      ElementsAre("tiles_r = tl.cdiv(rows, TILE_R)", "tiles_c = tl.cdiv(cols, TILE_C)", "tile = tl.program_id(0)",
                  "tile_r, tile_c = place_tile(tile, tiles_r, tiles_c, BAND)", "tile += tl.num_programs(0)"));
  EXPECT_EQ(text_of(kernel, kernel.scheduler().advance), "tile += tl.num_programs(0)");
  EXPECT_EQ(text_of(kernel, kernel.scheduler().last_assignment),
            "tile_r, tile_c = place_tile(tile, tiles_r, tiles_c, BAND)");
}

// --- One program per tile.

TEST(ProgramPerTile, the_program_id_itself_is_the_index) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    pid = tl.program_id(0)
    start = pid * B
    offsets = start + tl.arange(0, B)
    tl.store(y + offsets, tl.load(x + offsets, mask=offsets < n), mask=offsets < n)
)");
  EXPECT_EQ(kernel.scheduler().kind, SchedulerKind::program_per_tile);
  EXPECT_THAT(index_of(kernel), ElementsAre("pid"));
  EXPECT_THAT(removed(kernel), ElementsAre("pid = tl.program_id(0)"));
  EXPECT_EQ(text_of(kernel, kernel.scheduler().last_assignment), "pid = tl.program_id(0)");
}

TEST(ProgramPerTile, a_grid_of_two_axes) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, M, N, B: tl.constexpr):
    col = tl.program_id(1)
    row = tl.program_id(0)
    offsets = (row * B + tl.arange(0, B))[:, None] * N + col * B + tl.arange(0, B)[None, :]
    tl.store(x + offsets, 0.0)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("col", "row"));
  EXPECT_EQ(text_of(kernel, kernel.scheduler().last_assignment), "row = tl.program_id(0)");
}

TEST(ProgramPerTile, wrapped_offsets_and_assumptions_are_work) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(a, M, N, BM: tl.constexpr, BN: tl.constexpr, G: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    in_group = G * num_n
    group_id = pid // in_group
    first = group_id * G
    size = min(num_m - first, G)
    pid_m = first + ((pid % in_group) % size)
    pid_n = (pid % in_group) // size
    tl.assume(pid >= 0)
    tl.assume(pid_m >= 0)
    offs_m = (pid_m * BM + tl.arange(0, BM)) % M
    offs_n = (pid_n * BN + tl.arange(0, BN)) % N
    tl.store(a + offs_m[:, None] * N + offs_n[None, :], num_n)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("pid_m", "pid_n"));
  // num_n is used by the work as well and stays; the assumption about pid goes with pid.
  EXPECT_THAT(removed(kernel), ElementsAre("pid = tl.program_id(axis=0)", "num_m = tl.cdiv(M, BM)",
                                           "in_group = G * num_n", "group_id = pid // in_group", "first = group_id * G",
                                           "size = min(num_m - first, G)", "pid_m = first + ((pid % in_group) % size)",
                                           "pid_n = (pid % in_group) // size", "tl.assume(pid >= 0)"));
}

TEST(ProgramPerTile, what_follows_from_index_variables_is_work) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(q, k, o, H, GROUP: tl.constexpr, B: tl.constexpr, N):
    start = tl.program_id(0)
    head_and_batch = tl.program_id(1)
    batch = head_and_batch // H
    head = head_and_batch % H
    kv_head = head // GROUP
    limit = min((start + 1) * B, N)
    for n in range(0, limit, B):
        tl.store(o + batch * N + start * B + head, tl.load(k + kv_head * N + n))
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("start", "batch", "head"));
  EXPECT_THAT(removed(kernel), ElementsAre("start = tl.program_id(0)", "head_and_batch = tl.program_id(1)",
                                           "batch = head_and_batch // H", "head = head_and_batch % H"));
}

TEST(ProgramPerTile, a_program_id_that_work_uses_leaves_the_rest_to_the_work) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, log, n):
    pid = tl.program_id(0)
    pid_m = pid // n
    tl.store(x + pid_m, 1.0)
    tl.store(log + pid, 1.0)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("pid"));
  EXPECT_THAT(removed(kernel), ElementsAre("pid = tl.program_id(0)"));
}

TEST(ProgramPerTile, reassigned_names_count_by_their_last_value) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, M, N, G: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    pid_m, pid_n = tl.swizzle2d(pid_m, pid_n, M, N, G)
    tl.store(x + pid_m * N + pid_n, 1.0)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("pid_m", "pid_n"));
  EXPECT_EQ(removed(kernel).size(), 3u);
  EXPECT_EQ(text_of(kernel, kernel.scheduler().last_assignment), "pid_m, pid_n = tl.swizzle2d(pid_m, pid_n, M, N, G)");
}

TEST(ProgramPerTile, descending_order) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, B: tl.constexpr):
    pid = tl.program_id(0)
    row = tl.num_programs(0) - 1 - pid
    tl.store(x + row * B + tl.arange(0, B), 1.0)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("row"));
  EXPECT_EQ(removed(kernel).size(), 2u);
}

TEST(ProgramPerTile, branches_on_the_program_id_are_work) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, n, FLIP: tl.constexpr):
    pid = tl.program_id(0)
    if FLIP:
        row = pid % n
    else:
        row = pid // n
    tl.store(x + row, 1.0)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("pid"));
}

TEST(ProgramPerTile, a_strided_loop_from_another_axis_is_no_loop_over_tiles) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, K, SPLIT: tl.constexpr):
    pid = tl.program_id(0)
    pid_k = tl.program_id(1)
    for k in range(pid_k, K, SPLIT):
        tl.atomic_add(x + pid, k)
)");
  EXPECT_EQ(kernel.scheduler().kind, SchedulerKind::program_per_tile);
  EXPECT_THAT(index_of(kernel), ElementsAre("pid", "pid_k"));
}

// --- Helpers.

constexpr const char* kHelpers = R"(
@triton.jit
def inner(tile, n):
    return tile // n, tile % n

@triton.jit
def outer(tile, n):
    """Where a tile is."""
    tl.static_assert(n > 0)
    if tile < 4:
        return inner(tile, n)
    return inner(tile, n)

@triton.jit
def offset(row, B: tl.constexpr):
    return row * B

@triton.jit
def lookup(table, tile):
    return tl.load(table + tile) // 2

@triton.jit
def where_am_i(n):
    return tl.program_id(0) // n, tl.program_id(0) % n
)";

TEST(Helpers, tuples_through_two_helpers) {
  const TileKernel kernel = analyse(std::string(kHelpers) + R"(
@triton.jit
def kernel(x, n, B: tl.constexpr):
    tile = tl.program_id(0)
    r, c = outer(tile, n)
    tl.store(x + offset(r, B) + c, 1.0)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("r", "c"));
  EXPECT_THAT(removed(kernel), ElementsAre("tile = tl.program_id(0)", "r, c = outer(tile, n)"));
}

TEST(Helpers, that_only_scale_are_work) {
  const TileKernel kernel = analyse(std::string(kHelpers) + R"(
@triton.jit
def kernel(x, B: tl.constexpr):
    pid = tl.program_id(0)
    start = offset(pid, B)
    tl.store(x + start, 1.0)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("pid"));
  EXPECT_THAT(removed(kernel), ElementsAre("pid = tl.program_id(0)"));
}

TEST(Helpers, that_read_memory_are_work) {
  const TileKernel kernel = analyse(std::string(kHelpers) + R"(
@triton.jit
def kernel(x, table):
    pid = tl.program_id(0)
    row = lookup(table, pid)
    tl.store(x + row, 1.0)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("pid"));
}

TEST(Helpers, a_tuple_kept_whole_is_work) {
  const TileKernel kernel = analyse(std::string(kHelpers) + R"(
@triton.jit
def kernel(x, n):
    pid = tl.program_id(0)
    place = inner(pid, n)
    tl.store(x + place[0], place[1])
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("pid"));
}

TEST(Helpers, that_ask_for_the_program_id) {
  const TileKernel kernel = analyse(std::string(kHelpers) + R"(
@triton.jit
def kernel(x, n):
    r, c = where_am_i(n)
    tl.store(x + r * n + c, 1.0)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("r", "c"));
}

// --- Persistent kernels.

TEST(Persistent, the_counter_itself_is_the_index) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, rows, B: tl.constexpr):
    first = tl.program_id(0)
    step = tl.num_programs(0)
    for row in tl.range(first, rows, step, num_stages=2):
        tl.store(x + row * B + tl.arange(0, B), 1.0)
)");
  EXPECT_EQ(kernel.scheduler().kind, SchedulerKind::persistent_for);
  EXPECT_THAT(index_of(kernel), ElementsAre("row"));
  EXPECT_THAT(removed(kernel), ElementsAre("first = tl.program_id(0)", "step = tl.num_programs(0)"));
  EXPECT_EQ(kernel.scheduler().last_assignment, kernel.scheduler().loop);
}

TEST(Persistent, a_parameter_may_be_the_number_of_programs) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, tiles, n, SMS: tl.constexpr):
    for tile in range(tl.program_id(axis=0), tiles, SMS):
        row, col = tile // n, tile % n
        tl.store(x + row * n + col, 1.0)
    tl.static_assert(SMS > 0)
)");
  EXPECT_EQ(kernel.scheduler().kind, SchedulerKind::persistent_for);
  EXPECT_THAT(index_of(kernel), ElementsAre("row", "col"));
  EXPECT_THAT(removed(kernel), ElementsAre("row, col = tile // n, tile % n"));
}

TEST(Persistent, while_with_the_counter_as_index) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, rows):
    pid = tl.program_id(0)
    row = pid
    while rows > row:
        tl.store(x + row, 1.0)
        row = row + tl.num_programs(0)
)");
  EXPECT_EQ(kernel.scheduler().kind, SchedulerKind::persistent_while);
  EXPECT_THAT(index_of(kernel), ElementsAre("row"));
  EXPECT_THAT(removed(kernel), ElementsAre("pid = tl.program_id(0)", "row = pid", "row = row + tl.num_programs(0)"));
  EXPECT_EQ(kernel.scheduler().last_assignment, kernel.scheduler().loop);
  EXPECT_EQ(text_of(kernel, kernel.scheduler().advance), "row = row + tl.num_programs(0)");
}

TEST(Persistent, values_made_anew_in_every_tile_are_not_carried) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, tiles, n, BIAS: tl.constexpr):
    total = 0.0
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        total = 0.0
        row = tile // n
        if BIAS:
            bias = tl.load(x + row)
        for k in range(n):
            total += k
        if BIAS:
            total += bias
        tl.store(x + row, total)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("row"));
}

TEST(PersistentError, a_second_counter_for_the_epilogue) {
  expect_failure(R"(
@triton.jit
def kernel(x, y, tiles, n, SMS: tl.constexpr):
    pid = tl.program_id(0)
    tile_c = pid - SMS
    for tile in tl.range(pid, tiles, SMS, flatten=True):
        row = tile // n
        value = tl.load(x + row)
        tile_c += SMS
        row = tile_c // n
        tl.store(y + row, value)
)",
                 "tile_c += SMS", "'tile_c' carries a value from one tile to the next", "from the tile's own indices");
}

TEST(PersistentError, carried_values) {
  expect_failure(R"(
@triton.jit
def kernel(x, tiles, n):
    total = 0.0
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        row = tile // n
        if row > 2:
            total = 1.0
        tl.store(x + row, total)
)",
                 "total)", "'total' carries a value from one tile to the next", "beginning of every tile");
  expect_failure(R"(
@triton.jit
def kernel(x, tiles, n):
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        x += n
        tl.store(x + tile // n, 1.0)
)",
                 "x += n", "'x' carries a value from one tile to the next", "beginning of every tile");
}

TEST(PersistentError, indices_assigned_twice) {
  expect_failure(R"(
@triton.jit
def kernel(x, y, tiles, n):
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):
        row = tile // n
        value = tl.load(x + row)
        row = tile % n
        tl.store(y + row, value)
)",
                 "row = tile % n", "the tile index 'row' is assigned a second time (first at line 5)",
                 "# syncopate: tile_scheduler begin");
}

TEST(PersistentError, work_that_depends_on_the_program) {
  const std::string head = R"(
@triton.jit
def kernel(x, tiles, n):
    pid = tl.program_id(0)
    scratch = x + pid * 128
    for tile in range(pid, tiles, tl.num_programs(0)):
)";
  expect_failure(head + "        tl.store(scratch, tile // n)\n", "pid * 128",
                 "the tile's work depends on the program id through 'pid', not only on 'tile'", "from 'tile'");
  const std::string plain = R"(
@triton.jit
def kernel(x, tiles, n):
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        row = tile // n
)";
  expect_failure(plain + "        tl.store(x + row, tl.program_id(1))\n", "tl.program_id(1)", "asks for the program id",
                 "from the tile's indices");
  expect_failure(plain + "        row += tl.program_id(1) // 2\n        tl.store(x + row, 1)\n", "tl.program_id(1)",
                 "the tile index depends on the program id or the number of programs", "from 'tile'");
}

TEST(PersistentError, more_than_one_loop) {
  expect_failure(R"(
@triton.jit
def kernel(x, y, n):
    for tile in range(tl.program_id(0), n, tl.num_programs(0)):
        tl.store(x + tile, 1.0)
    for other in range(tl.program_id(0), n, tl.num_programs(0)):
        tl.store(y + other, 1.0)
)",
                 "for other", "a second loop over tiles; the first is at line 4", "two kernels");
}

TEST(PersistentError, nested_loop) {
  expect_failure(R"(
@triton.jit
def kernel(x, n, ON: tl.constexpr):
    if ON:
        for tile in range(tl.program_id(0), n, tl.num_programs(0)):
            tl.store(x + tile, 1.0)
)",
                 "for tile", "stands inside another statement", "directly into the kernel's body");
}

TEST(PersistentError, early_exits) {
  const std::string head = R"(
@triton.jit
def kernel(x, n):
    for tile in range(tl.program_id(0), n, tl.num_programs(0)):
)";
  expect_failure(head + "        if tile > 3:\n            break\n        tl.store(x + tile, 1.0)\n", "break",
                 "ends the loop over tiles, or itself, early", "under an `if`");
  expect_failure(head + "        if tile > 3:\n            continue\n        tl.store(x + tile, 1.0)\n", "continue",
                 "ends the loop over tiles, or itself, early", "under an `if`");
  expect_failure(head + "        if tile > 3:\n            return\n        tl.store(x + tile, 1.0)\n", "return",
                 "returns before its end", "under an `if`");
}

TEST(PersistentError, while_loops) {
  const std::string head = R"(
@triton.jit
def kernel(x, n):
    tile = tl.program_id(0)
    while tile < n:
)";
  expect_failure(head + "        tl.store(x + tile, 1.0)\n", "while", "nothing in this loop over tiles advances 'tile'",
                 "tile += tl.num_programs(0)");
  expect_failure(head + "        tl.store(x + tile, 1.0)\n        tile *= 2\n", "tile *= 2",
                 "'tile' counts the tiles, but changes here in another way", "tile += tl.num_programs(0)");
  expect_failure(head + "        tile += tl.num_programs(0)\n        tl.store(x + tile, 1.0)\n", "tile, 1.0",
                 "'tile' already counts the next tile here", "at the end of the loop");
}

TEST(PersistentError, a_loop_that_uses_no_tile) {
  expect_failure(R"(
@triton.jit
def kernel(x, n):
    for tile in range(tl.program_id(0), n, tl.num_programs(0)):
        tl.atomic_add(x, 1.0)
)",
                 "for tile", "nothing in this loop over tiles depends on 'tile'", "tile_scheduler begin");
}

TEST(ProgramPerTileError, no_program_id) {
  expect_failure("@triton.jit\ndef kernel(x):\n    tl.store(x, 1.0)\n", "kernel(x)",
                 "the kernel 'kernel' never asks which tile is its own", "# syncopate: tile_scheduler begin");
  expect_failure("@triton.jit\ndef kernel(x):\n    pid = tl.program_id(0)\n    tl.store(x, 1.0)\n", "kernel(x)",
                 "no statement of the kernel 'kernel' uses its program id", "# syncopate: tile_scheduler begin");
}

TEST(ProgramPerTileError, a_program_id_without_a_name) {
  expect_failure(R"(
@triton.jit
def kernel(x, B: tl.constexpr):
    offsets = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + offsets, 1.0)
)",
                 "tl.program_id(0)", "asks for the program id", "`pid = tl.program_id(0)`");
  expect_failure(R"(
@triton.jit
def kernel(x, B: tl.constexpr):
    start = tl.program_id(0) * B
    tl.store(x + start + tl.arange(0, B), 1.0)
)",
                 "tl.program_id(0)", "scaled before it has a name", "`pid = tl.program_id(0)`");
}

TEST(TileIndex, an_id_may_be_converted_where_it_is_asked_for) {
  const TileKernel narrow = analyse(R"(
@triton.jit
def kernel(x):
    pid = tl.program_id(0).to(tl.int32)
    tl.store(x + pid, 1.0)
)");
  EXPECT_THAT(index_of(narrow), ElementsAre("pid"));
  EXPECT_THAT(narrow.scheduler().wide_index_variables, ElementsAre());
  const TileKernel wide = analyse(R"(
@triton.jit
def kernel(x, n):
    pid = tl.program_id(axis=0).to(tl.int64)
    row = pid // n
    column = pid % n
    head = tl.program_id(1)
    tl.store(x + row * n * n + column * n + head, 1.0)
)");
  EXPECT_THAT(index_of(wide), ElementsAre("row", "column", "head"));
  EXPECT_THAT(wide.scheduler().wide_index_variables, ElementsAre("row", "column"));
}

TEST(ProgramPerTileError, return_in_the_middle) {
  expect_failure(R"(
@triton.jit
def kernel(x, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    tl.store(x + pid, 1.0)
)",
                 "return", "returns before its end", "under an `if`");
  const TileKernel kernel =
      analyse("@triton.jit\ndef kernel(x):\n    pid = tl.program_id(0)\n    tl.store(x + pid, 1.0)\n    return\n");
  EXPECT_THAT(index_of(kernel), ElementsAre("pid"));
}

TEST(TileIndex, data_may_be_looked_up_by_tile) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, experts, lengths, n, B: tl.constexpr):
    pid = tl.program_id(0)
    row = pid // n
    expert = tl.load(experts + row)
    length = tl.load(lengths) // 2
    block = tl.load(x + row * B + tl.arange(0, B)) // 2
    tl.store(x + expert * n + row + tl.arange(0, B), block + length)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("row"));
}

TEST(TileIndexError, depends_on_data) {
  expect_failure(R"(
@triton.jit
def kernel(x, order, n):
    pid = tl.program_id(0)
    tile = tl.load(order + pid)
    row = tile // n
    tl.store(x + row, 1.0)
)",
                 "row = tile // n", "the tile index 'row' depends on data: 'tile' is loaded at line 5",
                 "scalar arguments");
  expect_failure(R"(
@triton.jit
def kernel(x, order, tiles, n):
    for slot in range(tl.program_id(0), tiles, tl.num_programs(0)):
        tile = tl.load(order + slot).to(tl.int32) + 1
        shifted = tile - 1
        row = shifted % n
        tl.store(x + row, 1.0)
)",
                 "row = shifted", "the tile index 'row' depends on data: 'shifted' is loaded at line 6",
                 "scalar arguments");
  expect_failure(R"(
@triton.jit
def kernel(x, count):
    tiles = tl.atomic_add(count, 0)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        tl.store(x + tile, 1.0)
)",
                 "tiles, tl.num", "the number of tiles depends on data: 'tiles' is loaded at line 4",
                 "scalar arguments");
}

// --- Names of kernels.

TEST(TileKernelError, no_such_kernel) {
  const std::string text = "@triton.jit\ndef gemm(x): pass\ndef launch(): pass\n";
  const auto fails = [&text](const std::string& name, const std::string& place, const std::string& what) {
    try {
      analyse(text, name);
      ADD_FAILURE();
    } catch (const UserError& error) {
      EXPECT_EQ(error.where().to_string(), place);
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  };
  fails("gemn", "k.py", "there is no kernel 'gemn' in this file; did you mean 'gemm'?");
  fails("launch", "k.py:3:5", "'launch' is not a kernel; put @triton.jit before it");
}

// --- Annotations.

TEST(Annotations, a_marked_scheduler) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, n, B: tl.constexpr):
    # syncopate: tile_scheduler begin
    pid = tl.program_id(0)
    twice = pid * 2
    if pid < n:
        row = twice
    else:
        row = twice - n
    # syncopate: tile_scheduler end
    tl.store(x + row * B, 1.0)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("row"));
  EXPECT_EQ(removed(kernel).size(), 3u);
  EXPECT_THAT(text_of(kernel, kernel.scheduler().last_assignment), testing::StartsWith("if pid < n:"));
}

TEST(Annotations, a_marked_scheduler_in_a_loop_whose_step_is_not_known) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, n, tiles, sms):
    for tile in range(tl.program_id(0), tiles, sms * 1):
        # syncopate: tile_scheduler begin
        row = tile * 3
        col = tile + 1
        # syncopate: tile_scheduler end
        # syncopate: tile_index col, row
        tl.store(x + row + col, 1.0)
)");
  EXPECT_EQ(kernel.scheduler().kind, SchedulerKind::persistent_for);
  EXPECT_THAT(index_of(kernel), ElementsAre("col", "row"));
  EXPECT_THAT(removed(kernel), ElementsAre("row = tile * 3", "col = tile + 1"));
  EXPECT_EQ(text_of(kernel, kernel.scheduler().last_assignment), "col = tile + 1");
}

TEST(Annotations, tile_index_moves_the_frontier) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, n, B: tl.constexpr):
    # syncopate: tile_index row, col
    pid = tl.program_id(0)
    part = pid // n
    row = part * 2
    col = pid - part * n
    start = row * B
    tl.store(x + start + col, 1.0)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("row", "col"));
  EXPECT_THAT(removed(kernel),
              ElementsAre("pid = tl.program_id(0)", "part = pid // n", "row = part * 2", "col = pid - part * n"));
  EXPECT_EQ(text_of(kernel, kernel.scheduler().last_assignment), "col = pid - part * n");
}

TEST(Annotations, sizes_and_streams_are_recorded) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def kernel(x, K, BM: tl.constexpr, BN: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    # syncopate: tile_size pid_m=BM, pid_n = BN
    # syncopate: streamed_loop k
    # walks K
    for i in range(0, K):
        tl.store(x + pid_m + pid_n, i)
    for j in range(0, K):  # syncopate: streamed_loop again
        tl.store(x + pid_m + pid_n, j)
)");
  EXPECT_THAT(kernel.tile_sizes(), ElementsAre(Pair("pid_m", "BM"), Pair("pid_n", "BN")));
  ASSERT_EQ(kernel.streamed_loops().size(), 2u);
  EXPECT_EQ(kernel.streamed_loops()[0].axis, "k");
  EXPECT_EQ(kernel.module().source->slice(kernel.streamed_loops()[0].loop->header), "for i in range(0, K):");
  EXPECT_EQ(kernel.streamed_loops()[1].axis, "again");
  EXPECT_EQ(kernel.module().source->slice(kernel.streamed_loops()[1].loop->header), "for j in range(0, K):");
}

TEST(Annotations, the_documented_example) {
  const auto page = SourceFile::read(SYNCOPATE_SOURCE_DIR "/docs/annotations.md");
  const std::string& text = page->text();
  const std::size_t begin = text.find("```python\n") + 10;
  const TileKernel kernel = analyse(text.substr(begin, text.find("```", begin) - begin), "scale_rows");
  EXPECT_EQ(kernel.scheduler().kind, SchedulerKind::persistent_for);
  EXPECT_THAT(index_of(kernel), ElementsAre("strip"));
  EXPECT_EQ(removed(kernel).size(), 2u);
  EXPECT_THAT(kernel.tile_sizes(), ElementsAre(Pair("strip", "BLOCK_M")));
  ASSERT_EQ(kernel.streamed_loops().size(), 1u);
  EXPECT_EQ(kernel.streamed_loops()[0].axis, "n");
}

TEST(Annotations, those_of_other_kernels_do_not_count) {
  const TileKernel kernel = analyse(R"(
@triton.jit
def other(x):
    # syncopate: tile_index nothing
    pass

@triton.jit
def kernel(x):
    pid = tl.program_id(0)  # a comment that speaks of syncopate
    tl.store(x + pid, 1.0)
)");
  EXPECT_THAT(index_of(kernel), ElementsAre("pid"));
  EXPECT_THAT(kernel.tile_sizes(), IsEmpty());
}

/// A kernel with an annotation in the middle.
std::string with_annotation(const std::string& annotation) {
  return "@triton.jit\ndef kernel(x, K, BM: tl.constexpr):\n    pid = tl.program_id(0)\n    row = pid // K\n    " +
         annotation + "\n    tl.store(x + row, 1.0)\n    for k in range(K):\n        tl.store(x + row, k)\n";
}

TEST(AnnotationError, spelling) {
  const auto fails = [](const std::string& annotation, const std::string& problem, const std::string& remedy) {
    SCOPED_TRACE(annotation);
    expect_failure(with_annotation(annotation), "# syncopate", problem, remedy);
  };
  fails("# syncopate: tile_indx row", "'tile_indx' is not an annotation", "did you mean 'tile_index'?");
  fails("# syncopate: tile_scheduler begn", "'tile_scheduler' is followed by 'begn'", "did you mean 'begin'?");
  fails("# syncopate: tile_index", "'tile_index' needs distinct names", "tile_index pid_m, pid_n");
  fails("# syncopate: tile_index row row", "'tile_index' needs distinct names", "tile_index pid_m, pid_n");
  fails("# syncopate: tile_index row, row", "'tile_index' needs distinct names", "tile_index pid_m, pid_n");
  fails("# syncopate: tile_size row", "'tile_size' needs pairs of names, not 'row'", "pid_m=BLOCK_M");
  fails("# syncopate: tile_size row=64", "'tile_size' needs pairs of names, not 'row=64'", "pid_m=BLOCK_M");
  fails("# syncopate: streamed_loop", "'streamed_loop' needs the name of an axis, not ''", "streamed_loop k");
}

TEST(AnnotationError, places) {
  const auto fails = [](const std::string& annotation, const std::string& at, const std::string& problem,
                        const std::string& remedy) {
    SCOPED_TRACE(annotation);
    expect_failure(with_annotation(annotation), at, problem, remedy);
  };
  fails("# syncopate: tile_scheduler begin", "# syncopate", "'tile_scheduler begin' has no end", "tile_scheduler end");
  fails("# syncopate: tile_scheduler end", "# syncopate", "'tile_scheduler end' has no begin", "tile_scheduler begin");
  fails("# syncopate: tile_scheduler begin\n    # syncopate: tile_scheduler begin  # second",
        "# syncopate: tile_scheduler begin  # second", "'tile_scheduler' is followed by 'begin  # second'", "begin");
  fails("# syncopate: tile_scheduler begin\n    x = x\n    #  syncopate: tile_scheduler begin", "#  syncopate",
        "'tile_scheduler begin' inside another one", "end the one of line 5 first");
  fails("# syncopate: streamed_loop k", "# syncopate", "'streamed_loop' stands at no loop", "on the line before it");
  fails("# syncopate: tile_index row\n    #  syncopate: tile_index pid", "#  syncopate", "a second 'tile_index'",
        "in one annotation");
  fails("# syncopate: tile_index column", "# syncopate", "the scheduler assigns no variable 'column'", "assigned");
  fails("# syncopate: tile_size pid=BM", "# syncopate", "'pid' is not an index variable", "known: row");
  fails("# syncopate: tile_size row=BN", "# syncopate", "'BN' is not a parameter", "did you mean 'BM'?");
  fails("# syncopate: tile_size row=BM, row=K", "# syncopate", "'row' has two tile sizes", "keep one");
  expect_failure("# syncopate: tile_index a\n" + with_annotation(""), "# syncopate", "stands outside any kernel",
                 "inside the @triton.jit function");
  expect_failure(with_annotation("") + "# syncopate: tile_index a\n", "# syncopate", "stands outside any kernel",
                 "inside the @triton.jit function");
}

TEST(AnnotationError, two_streams_at_one_loop) {
  expect_failure(R"(
@triton.jit
def kernel(x, K):
    pid = tl.program_id(0)
    # syncopate: streamed_loop k
    for k in range(K):  # syncopate: streamed_loop n
        tl.store(x + pid, k)
)",
                 "# syncopate: streamed_loop n", "this loop has a second 'streamed_loop'", "keep one");
}

TEST(AnnotationError, the_loop_over_tiles_is_not_streamed) {
  expect_failure(R"(
@triton.jit
def kernel(x, K):
    for t in range(tl.program_id(0), K, tl.num_programs(0)):  # syncopate: streamed_loop t
        tl.store(x + t, 1.0)
)",
                 "# syncopate", "this is the loop over tiles", "the loop inside it");
}

TEST(AnnotationError, blocks_that_hold_no_whole_statement) {
  expect_failure(R"(
@triton.jit
def kernel(x, K):
    pid = tl.program_id(0)
    # syncopate: tile_scheduler begin
    if pid > K:
        row = pid // K
        # syncopate: tile_scheduler end
        row = row + 1
    tl.store(x + row, 1.0)
)",
                 "# syncopate", "begins or ends inside a statement", "whole statements");
  expect_failure(R"(
@triton.jit
def kernel(x, K):
    pid = tl.program_id(0)
    # syncopate: tile_scheduler begin
    # syncopate: tile_scheduler end
    tl.store(x + pid, 1.0)
)",
                 "# syncopate", "no statement between 'tile_scheduler' begin and end", "before the first");
}

TEST(AnnotationError, work_that_uses_more_than_the_annotations_allow) {
  expect_failure(R"(
@triton.jit
def kernel(x, n):
    pid = tl.program_id(0)
    # syncopate: tile_scheduler begin
    row = pid // n
    # syncopate: tile_scheduler end
    tl.store(x + row, pid)
)",
                 "pid)\n", "'pid' belongs to the tile scheduler, but the tile's work uses it",
                 "between 'tile_scheduler' begin and end");
  expect_failure(R"(
@triton.jit
def kernel(x, n):
    # syncopate: tile_index row
    pid = tl.program_id(0)
    row = pid // n
    col = pid % n
    tl.store(x + row, col)
)",
                 "pid % n", "'pid' belongs to the tile scheduler, but the tile's work uses it",
                 "# syncopate: tile_index row");
}

TEST(AnnotationError, a_marked_scheduler_that_reads_memory) {
  expect_failure(R"(
@triton.jit
def kernel(x, order, n):
    pid = tl.program_id(0)
    # syncopate: tile_scheduler begin
    row = tl.load(order + pid)
    # syncopate: tile_scheduler end
    tl.store(x + row, 1.0)
)",
                 "tl.load", "the tile scheduler depends on data", "scalar arguments");
}

TEST(AnnotationError, a_marked_scheduler_in_a_loop_that_does_not_count) {
  expect_failure(R"(
@triton.jit
def kernel(x, n):
    tile = tl.program_id(0)
    while tile != n:
        # syncopate: tile_scheduler begin
        row = tile // 2
        # syncopate: tile_scheduler end
        tl.store(x + row, 1.0)
        tile += 1
)",
                 "while", "does not count tiles", "`while tile < tiles:`");
}

}  // namespace
}  // namespace syncopate
