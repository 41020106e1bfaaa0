// Footprints: every element of every tile is compared with what the concrete machine touches when it runs the same
// tile, over many sizes; regions of known kernels by hand; and each mistake with its place and words.
#include "syncopate/kernel/footprint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/kernel/footprint_oracle.h"

namespace syncopate {
namespace {

using testing::HasSubstr;

constexpr const char* kImports = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n";

TileKernel kernel_of(const std::string& text, const std::string& function = "kernel") {
  return TileKernel(parse_module(std::make_shared<SourceFile>("test.py", kImports + text)), function);
}

TileKernel shipped(const std::string& name) {
  return TileKernel::read(std::string(SYNCOPATE_SOURCE_DIR) + "/kernels/" + name + ".py", name);
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// ---- Kernels ----

/// Triton's tutorial: rows and columns wrap round instead of being masked.
constexpr const char* kTutorialMatmul =
    R"(def kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    num_pid_in_group = GROUP_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_bn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c = accumulator.to(tl.float16)
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)
)";

/// Persistent by NUM_SMS; lanes beyond the edge are sent to row 0; b is [N, K].
constexpr const char* kPersistentWhere = R"(def kernel(a_ptr, b_ptr, c_ptr, M, N, K,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_SMS: tl.constexpr):
    tiles_n = tl.cdiv(N, BLOCK_N)
    num_tiles = tl.cdiv(M, BLOCK_M) * tiles_n
    for tile in tl.range(tl.program_id(0), num_tiles, NUM_SMS):
        pid_m = tile // tiles_n
        pid_n = tile % tiles_n
        offs_am = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_bn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        offs_am = tl.where(offs_am < M, offs_am, 0)
        offs_bn = tl.minimum(offs_bn, N - 1)
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            offs_k = k + tl.arange(0, BLOCK_K)
            a = tl.load(a_ptr + offs_am[:, None] * K + offs_k[None, :], mask=offs_k[None, :] < K, other=0.0)
            b = tl.load(b_ptr + offs_bn[:, None] * K + offs_k[None, :], mask=K > offs_k[None, :], other=0.0)
            accumulator = tl.dot(a, b.T, accumulator)
        offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        tl.store(c_ptr + offs_cm[:, None] * N + offs_cn[None, :], accumulator,
                 mask=(offs_cm < M)[:, None] & (offs_cn < N)[None, :])
)";

/// A flat elementwise kernel; the tensors may have any shape.
constexpr const char* kVectorAdd = R"(def kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)
)";

/// A grid of three axes over a batched tensor.
constexpr const char* kBatched = R"(def kernel(a_ptr, c_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid_n = tl.program_id(0)
    pid_m = tl.program_id(1)
    batch = tl.program_id(2)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offsets = batch * M * N + rows[:, None] * N + cols[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    a = tl.load(a_ptr + offsets, mask=mask)
    tl.store(c_ptr + offsets, a * 2.0, mask=mask)
)";

/// Reads a tensor [M, N] at the transposed place, in reverse order of columns; writes out [N, M].
constexpr const char* kReversedTranspose = R"(def kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    pid_r = tl.program_id(0)
    pid_c = tl.program_id(1)
    r = pid_r * BLOCK + tl.arange(0, BLOCK)
    c = pid_c * BLOCK + tl.arange(0, BLOCK)
    inside = (r < N)[:, None] & (c < M)[None, :]
    x = tl.load(x_ptr + c[None, :] * N + (N - 1 - r[:, None]), mask=inside)
    tl.store(out_ptr + r[:, None] * M + c[None, :], x, mask=inside)
)";

/// One row per program, with a shared bias read before the tile is known and a row length that is no power of two.
constexpr const char* kRowwise = R"(def kernel(x_ptr, scale_ptr, out_ptr, N, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    scale = tl.load(scale_ptr + cols, mask=cols < N, other=0.0)
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0)
    total = tl.sum(x, axis=0)
    tl.store(out_ptr + row * N + cols, x * scale / total, mask=cols < N)
)";

/// The flat index taken apart and put together again; only columns from FIRST on are touched.
constexpr const char* kDivided = R"(def kernel(x_ptr, out_ptr, rows, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    row = offsets // N
    col = offsets % N
    inside = offsets < rows * N
    x = tl.load(x_ptr + col * rows + row, mask=inside)
    tl.store(out_ptr + row * N + col, x, mask=inside)
)";

/// Two-stage while loop over descriptors of one matrix of a batch and of the batch seen as one tall matrix.
constexpr const char* kViews = R"(def kernel(x_ptr, out_ptr, B, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    tiles_m = tl.cdiv(M, BLOCK_M)
    out = tl.make_tensor_descriptor(out_ptr, [B, M, N], [M * N, N, 1], [1, BLOCK_M, BLOCK_N])
    tile = tl.program_id(0)
    while tile < tiles_m * B:
        batch = tile // tiles_m
        pid_m = tile % tiles_m
        x = tl.make_tensor_descriptor(x_ptr + batch * M * N, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
        column = 0
        while column < N:
            block = x.load([pid_m * BLOCK_M, column])
            out.store([batch, pid_m * BLOCK_M, column], tl.reshape(block, (1, BLOCK_M, BLOCK_N)))
            column += BLOCK_N
        tile += tl.num_programs(0)
)";

/// Blocks moved up and to the right: a descriptor reads zeros before the first row and beyond the last column.
constexpr const char* kShifted = R"(def kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    out.store([pid_m * BLOCK, pid_n * BLOCK], x.load([pid_m * BLOCK - 3, pid_n * BLOCK + 2]))
)";

TensorBindings product_tensors(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed_b = false) {
  return {{"a_ptr", {"a", {m, k}, Dtype::bf16}},
          {"b_ptr", {"b", transposed_b ? Shape{n, k} : Shape{k, n}, Dtype::bf16}},
          {"c_ptr", {"c", {m, n}, Dtype::bf16}}};
}

ScalarArguments gemm_arguments(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t block_m,
                               std::int64_t block_n, std::int64_t block_k, std::int64_t group) {
  return {{"M", m},          {"N", n}, {"K", k}, {"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"BLOCK_K", block_k},
          {"GROUP_M", group}};
}

/// Sizes for the comparisons: each a random choice, the seed fixed.
class Sizes {
 public:
  explicit Sizes(unsigned seed) : engine_(seed) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<unsigned>(high - low + 1));
  }
  std::int64_t power(int low, int high) { return std::int64_t{1} << between(low, high); }

 private:
  std::mt19937 engine_;
};

// ---- Against the concrete machine ----

TEST(FootprintExact, ShippedGemm) {
  const TileKernel kernel = shipped("gemm");
  Sizes sizes(1);
  for (int i = 0; i < 25; ++i) {
    // Rows of 16 bytes, and stores of a quarter of a tile's columns.
    const std::int64_t m = sizes.between(1, 70), n = 8 * sizes.between(1, 12), k = 8 * sizes.between(1, 9);
    expect_exact(kernel,
                 gemm_arguments(m, n, k, sizes.power(3, 5), sizes.power(5, 6), sizes.power(3, 5), sizes.between(1, 4)),
                 product_tensors(m, n, k));
  }
}

TEST(FootprintExact, ShippedGemmPointers) {
  const TileKernel kernel = shipped("gemm_pointers");
  Sizes sizes(2);
  for (int i = 0; i < 25; ++i) {
    const std::int64_t m = sizes.between(1, 70), n = sizes.between(1, 70), k = sizes.between(1, 70);
    expect_exact(kernel,
                 gemm_arguments(m, n, k, sizes.power(3, 5), sizes.power(3, 5), sizes.power(3, 5), sizes.between(1, 4)),
                 product_tensors(m, n, k));
  }
}

TEST(FootprintExact, ShippedGemmSplitHelper) {
  const TileKernel kernel = shipped("gemm_split_helper");
  Sizes sizes(3);
  for (int i = 0; i < 25; ++i) {
    const std::int64_t m = sizes.between(1, 70), n = 8 * sizes.between(1, 9), k = 8 * sizes.between(1, 9);
    const ScalarArguments arguments = {{"rows", m},
                                       {"cols", n},
                                       {"depth", k},
                                       {"TILE_R", sizes.power(3, 5)},
                                       {"TILE_C", sizes.power(3, 5)},
                                       {"TILE_D", sizes.power(3, 5)},
                                       {"BAND", sizes.between(1, 3)}};
    expect_exact(
        kernel, arguments,
        {{"x", {"x", {m, k}, Dtype::bf16}}, {"w", {"w", {k, n}, Dtype::bf16}}, {"y", {"y", {m, n}, Dtype::bf16}}});
  }
}

TEST(FootprintExact, TutorialMatmulWithWrapAndEitherLayoutOfB) {
  const TileKernel kernel = kernel_of(kTutorialMatmul);
  Sizes sizes(4);
  for (int i = 0; i < 40; ++i) {
    const std::int64_t m = sizes.between(1, 70), n = sizes.between(1, 70), k = sizes.between(1, 70);
    const bool transposed = i % 2 == 1;
    ScalarArguments arguments =
        gemm_arguments(m, n, k, sizes.power(3, 5), sizes.power(3, 5), sizes.power(3, 5), sizes.between(1, 4));
    arguments.merge(ScalarArguments{{"stride_am", k}, {"stride_ak", std::int64_t{1}}, {"stride_cm", n}});
    arguments.merge(ScalarArguments{{"stride_cn", std::int64_t{1}},
                                    {"stride_bk", transposed ? std::int64_t{1} : n},
                                    {"stride_bn", transposed ? k : std::int64_t{1}}});
    expect_exact(kernel, arguments, product_tensors(m, n, k, transposed));
  }
}

TEST(FootprintExact, PersistentByArgumentWithLanesSentElsewhere) {
  const TileKernel kernel = kernel_of(kPersistentWhere);
  Sizes sizes(5);
  for (int i = 0; i < 25; ++i) {
    const std::int64_t m = sizes.between(1, 70), n = sizes.between(1, 70), k = sizes.between(1, 70);
    ScalarArguments arguments = gemm_arguments(m, n, k, sizes.power(3, 5), sizes.power(3, 5), sizes.power(3, 5), 1);
    arguments.erase("GROUP_M");
    arguments["NUM_SMS"] = std::int64_t{7};
    expect_exact(kernel, arguments, product_tensors(m, n, k, true));
  }
}

TEST(FootprintExact, FlatKernelOverTensorsOfAnyShape) {
  const TileKernel kernel = kernel_of(kVectorAdd);
  Sizes sizes(6);
  for (int i = 0; i < 40; ++i) {
    Shape shape;
    for (std::int64_t d = sizes.between(1, 4); d > 0; --d) shape.push_back(sizes.between(1, 9));
    const TensorBindings tensors = {{"x_ptr", {"x", shape, Dtype::fp32}},
                                    {"y_ptr", {"y", shape, Dtype::fp32}},
                                    {"out_ptr", {"out", shape, Dtype::fp32}}};
    expect_exact(kernel, {{"n", volume(shape)}, {"BLOCK", sizes.power(2, 6)}}, tensors);
  }
}

TEST(FootprintExact, GridOfThreeAxes) {
  const TileKernel kernel = kernel_of(kBatched);
  Sizes sizes(7);
  for (int i = 0; i < 20; ++i) {
    const std::int64_t b = sizes.between(1, 3), m = sizes.between(1, 40), n = sizes.between(1, 40);
    const std::int64_t block_m = sizes.power(2, 4), block_n = sizes.power(2, 4);
    expect_exact(kernel, {{"M", m}, {"N", n}, {"BLOCK_M", block_m}, {"BLOCK_N", block_n}},
                 {{"a_ptr", {"a", {b, m, n}, Dtype::fp32}}, {"c_ptr", {"c", {b, m, n}, Dtype::fp32}}},
                 {ceil_divide(n, block_n), ceil_divide(m, block_m), b});
  }
}

TEST(FootprintExact, NegativeStepsAndTransposition) {
  const TileKernel kernel = kernel_of(kReversedTranspose);
  Sizes sizes(8);
  for (int i = 0; i < 20; ++i) {
    const std::int64_t m = sizes.between(1, 40), n = sizes.between(1, 40), block = sizes.power(2, 4);
    expect_exact(kernel, {{"M", m}, {"N", n}, {"BLOCK", block}},
                 {{"x_ptr", {"x", {m, n}, Dtype::fp32}}, {"out_ptr", {"out", {n, m}, Dtype::fp32}}},
                 {ceil_divide(n, block), ceil_divide(m, block)});
  }
}

TEST(FootprintExact, RowsOfAnyLength) {
  const TileKernel kernel = kernel_of(kRowwise);
  for (const std::int64_t n : {1, 7, 8, 13, 16}) {
    expect_exact(kernel, {{"N", n}, {"BLOCK", std::int64_t{16}}},
                 {{"x_ptr", {"x", {5, n}, Dtype::fp32}},
                  {"scale_ptr", {"scale", {n}, Dtype::fp32}},
                  {"out_ptr", {"out", {5, n}, Dtype::fp32}}});
  }
}

TEST(FootprintExact, DivisionAndRemainderOfLanes) {
  const TileKernel kernel = kernel_of(kDivided);
  Sizes sizes(9);
  for (int i = 0; i < 40; ++i) {
    const std::int64_t rows = sizes.between(1, 20), n = sizes.between(1, 20);
    expect_exact(kernel, {{"rows", rows}, {"N", n}, {"BLOCK", sizes.power(2, 5)}},
                 {{"x_ptr", {"x", {n, rows}, Dtype::fp32}}, {"out_ptr", {"out", {rows, n}, Dtype::fp32}}});
  }
}

TEST(FootprintExact, DescriptorsOfPartsOfATensor) {
  const TileKernel kernel = kernel_of(kViews);
  Sizes sizes(10);
  for (int i = 0; i < 20; ++i) {
    const std::int64_t b = sizes.between(1, 3), m = sizes.between(1, 40), n = 4 * sizes.between(1, 10);
    // One matrix of the batch per descriptor; the source's batch is a dimension of its own or part of the rows.
    const Shape source = i % 2 == 0 ? Shape{b, m, n} : Shape{1, b, 1, m, n};
    expect_exact(kernel, {{"B", b}, {"M", m}, {"N", n}, {"BLOCK_M", sizes.power(2, 4)}, {"BLOCK_N", sizes.power(2, 4)}},
                 {{"x_ptr", {"x", source, Dtype::fp32}}, {"out_ptr", {"out", {b, m, n}, Dtype::fp32}}});
  }
}

TEST(FootprintExact, ATileMayWriteAnElementTwice) {
  // Tile 0 is an L of two bands that share a corner; tile 1 is the rest.
  const TileKernel kernel = kernel_of(R"(def kernel(out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    size = BLOCK * 2
    rows = tl.arange(0, BLOCK * 2)[:, None]
    columns = tl.arange(0, BLOCK * 2)[None, :]
    pointers = out_ptr + rows * size + columns
    if pid == 0:
        tl.store(pointers, 1.0, mask=rows < BLOCK)
        tl.store(pointers, 2.0, mask=columns < BLOCK)
    else:
        tl.store(pointers, 3.0, mask=(rows >= BLOCK) & (columns >= BLOCK))
)");
  expect_exact(kernel, {{"BLOCK", std::int64_t{8}}}, {{"out_ptr", {"out", {16, 16}, Dtype::fp32}}});
}

TEST(FootprintExact, AtomicAdditionsReadAndWrite) {
  const TileKernel kernel = kernel_of(R"(def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)
)");
  expect_exact(kernel, {{"n", std::int64_t{21}}, {"BLOCK", std::int64_t{8}}},
               {{"x_ptr", {"x", {21}, Dtype::fp32}}, {"out_ptr", {"out", {21}, Dtype::fp32}}});
}

TEST(FootprintExact, DescriptorsBeforeAndBeyondTheTensor) {
  const TileKernel kernel = kernel_of(kShifted);
  Sizes sizes(11);
  for (int i = 0; i < 20; ++i) {
    const std::int64_t m = sizes.between(1, 40), n = 4 * sizes.between(1, 10), block = sizes.power(2, 4);
    expect_exact(kernel, {{"M", m}, {"N", n}, {"BLOCK", block}},
                 {{"x_ptr", {"x", {m, n}, Dtype::fp32}}, {"out_ptr", {"out", {m, n}, Dtype::fp32}}},
                 {ceil_divide(m, block), ceil_divide(n, block)});
  }
}

// ---- By hand ----

const ParameterAccess& access_of(const TileFootprint& tile, const std::string& parameter) {
  for (const ParameterAccess& access : tile.accesses)
    if (access.parameter == parameter) return access;
  throw std::out_of_range(parameter);
}

TEST(Footprint, RegionsAndOrderOfTheShippedGemm) {
  const TileSpace space =
      analyse_tiles(shipped("gemm"), gemm_arguments(1000, 504, 304, 128, 128, 64, 3), product_tensors(1000, 504, 304));
  EXPECT_EQ(space.axes, (std::vector<std::string>{"pid_m", "pid_n"}));
  EXPECT_EQ(space.extents, (std::vector<std::int64_t>{8, 4}));
  ASSERT_EQ(space.tiles.size(), 32U);
  // Groups of three rows, columns outside rows.
  EXPECT_EQ(space.tiles[0].index, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(space.tiles[1].index, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(space.tiles[3].index, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(space.tiles[12].index, (std::vector<std::int64_t>{3, 0}));
  const TileFootprint& last = space.tiles.back();
  EXPECT_EQ(last.index, (std::vector<std::int64_t>{7, 3}));
  ASSERT_EQ(last.accesses.size(), 3U);
  EXPECT_EQ(last.accesses[0].parameter, "a_ptr");
  EXPECT_EQ(last.accesses[0].reads, (std::vector<Region>{{{896, 1000}, {0, 304}}}));
  EXPECT_EQ(last.accesses[1].reads, (std::vector<Region>{{{0, 304}, {384, 504}}}));
  EXPECT_TRUE(last.accesses[2].reads.empty());
  // Two stores, one box.
  EXPECT_EQ(last.accesses[2].writes, (std::vector<Region>{{{896, 1000}, {384, 504}}}));
}

TEST(Footprint, ARunOverSeveralRowsIsAtMostThreeBoxes) {
  const TensorBindings tensors = {{"x_ptr", {"x", {10, 6}, Dtype::fp32}},
                                  {"y_ptr", {"y", {60}, Dtype::fp32}},
                                  {"out_ptr", {"out", {60}, Dtype::fp32}}};
  const TileSpace space =
      analyse_tiles(kernel_of(kVectorAdd), {{"n", std::int64_t{60}}, {"BLOCK", std::int64_t{16}}}, tensors);
  ASSERT_EQ(space.tiles.size(), 4U);
  const std::vector<Region> expected = {{{2, 3}, {4, 6}}, {{3, 5}, {0, 6}}, {{5, 6}, {0, 2}}};
  EXPECT_EQ(access_of(space.tiles[1], "x_ptr").reads, expected);
  EXPECT_EQ(access_of(space.tiles[1], "y_ptr").reads, (std::vector<Region>{{{16, 32}}}));
}

TEST(Footprint, WrappedRowsAreTwoBoxes) {
  ScalarArguments arguments = gemm_arguments(40, 32, 32, 32, 32, 32, 8);
  arguments.merge(ScalarArguments{{"stride_am", std::int64_t{32}},
                                  {"stride_ak", std::int64_t{1}},
                                  {"stride_bk", std::int64_t{32}},
                                  {"stride_bn", std::int64_t{1}},
                                  {"stride_cm", std::int64_t{32}},
                                  {"stride_cn", std::int64_t{1}}});
  const TileSpace space = analyse_tiles(kernel_of(kTutorialMatmul), arguments, product_tensors(40, 32, 32));
  ASSERT_EQ(space.tiles.size(), 2U);
  EXPECT_EQ(access_of(space.tiles[1], "a_ptr").reads, (std::vector<Region>{{{32, 40}, {0, 32}}, {{0, 24}, {0, 32}}}));
  EXPECT_EQ(access_of(space.tiles[1], "c_ptr").writes, (std::vector<Region>{{{32, 40}, {0, 32}}}));
}

TEST(Footprint, ReadsBeforeATileLoopBelongToEveryTile) {
  const TileKernel kernel = kernel_of(R"(def kernel(x_ptr, bias_ptr, out_ptr, n, BLOCK: tl.constexpr):
    bias = tl.load(bias_ptr)
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        offsets = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) + bias, mask=offsets < n)
)");
  const TensorBindings tensors = {{"x_ptr", {"x", {20}, Dtype::fp32}},
                                  {"bias_ptr", {"bias", {3}, Dtype::fp32}},
                                  {"out_ptr", {"out", {20}, Dtype::fp32}}};
  const TileSpace space = analyse_tiles(kernel, {{"n", std::int64_t{20}}, {"BLOCK", std::int64_t{8}}}, tensors);
  ASSERT_EQ(space.tiles.size(), 3U);
  for (const TileFootprint& tile : space.tiles)
    EXPECT_EQ(access_of(tile, "bias_ptr").reads, (std::vector<Region>{{{0, 1}}}));
  EXPECT_EQ(access_of(space.tiles[2], "out_ptr").writes, (std::vector<Region>{{{16, 20}}}));
}

TEST(Footprint, ReadsInTheLoopBeforeTheIndicesBelongToTheTileThatFollows) {
  const TileKernel kernel = kernel_of(R"(def kernel(x_ptr, bias_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        bias = tl.load(bias_ptr + 1)
        # syncopate: tile_scheduler begin
        pid = tile // 1
        # syncopate: tile_scheduler end
        offsets = pid * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) + bias)
)");
  const TensorBindings tensors = {{"x_ptr", {"x", {24}, Dtype::fp32}},
                                  {"bias_ptr", {"bias", {3}, Dtype::fp32}},
                                  {"out_ptr", {"out", {24}, Dtype::fp32}}};
  const TileSpace space = analyse_tiles(kernel, {{"n", std::int64_t{24}}, {"BLOCK", std::int64_t{8}}}, tensors);
  ASSERT_EQ(space.tiles.size(), 3U);
  for (const TileFootprint& tile : space.tiles)
    EXPECT_EQ(access_of(tile, "bias_ptr").reads, (std::vector<Region>{{{1, 2}}}));
}

TEST(Footprint, OffsetsBeyond32BitsInABigTensor) {
  // 3 * 2^31 elements; the kernel converts its rows to 64 bits.
  const std::int64_t m = 3 * 65536, n = 32768;
  const TileSpace space = analyse_tiles(shipped("gemm_pointers"), gemm_arguments(m, 256, n, 16384, 256, 8192, 1),
                                        product_tensors(m, 256, n));
  ASSERT_EQ(space.tiles.size(), 12U);
  EXPECT_EQ(access_of(space.tiles[11], "a_ptr").reads, (std::vector<Region>{{{m - 16384, m}, {0, n}}}));
}

TEST(Footprint, TheGridMayBeGiven) {
  const TensorBindings tensors = {{"x_ptr", {"x", {20}, Dtype::fp32}},
                                  {"y_ptr", {"y", {20}, Dtype::fp32}},
                                  {"out_ptr", {"out", {20}, Dtype::fp32}}};
  const ScalarArguments arguments = {{"n", std::int64_t{20}}, {"BLOCK", std::int64_t{8}}};
  const TileSpace space = analyse_tiles(kernel_of(kVectorAdd), arguments, tensors, 5);
  // Programs beyond the tensor are tiles that touch nothing.
  ASSERT_EQ(space.tiles.size(), 5U);
  EXPECT_EQ(space.grid, (std::vector<std::int64_t>{5}));
  EXPECT_TRUE(space.tiles[4].accesses.empty());
  EXPECT_EQ(space.extents, (std::vector<std::int64_t>{5}));
}

TEST(Footprint, RepeatsItself) {
  const auto analyse = [] {
    return analyse_tiles(shipped("gemm"), gemm_arguments(96, 80, 40, 16, 32, 16, 2), product_tensors(96, 80, 40));
  };
  const TileSpace first = analyse(), second = analyse();
  ASSERT_EQ(first.tiles.size(), second.tiles.size());
  for (std::size_t t = 0; t < first.tiles.size(); ++t) {
    EXPECT_EQ(first.tiles[t].index, second.tiles[t].index);
    ASSERT_EQ(first.tiles[t].accesses.size(), second.tiles[t].accesses.size());
    for (std::size_t a = 0; a < first.tiles[t].accesses.size(); ++a) {
      EXPECT_EQ(first.tiles[t].accesses[a].reads, second.tiles[t].accesses[a].reads);
      EXPECT_EQ(first.tiles[t].accesses[a].writes, second.tiles[t].accesses[a].writes);
    }
  }
}

// ---- Mistakes ----

/// The error of an analysis: its place, and words of its message.
void expect_error(const TileKernel& kernel, const ScalarArguments& arguments, const TensorBindings& tensors, int line,
                  const std::vector<std::string>& words, std::int64_t grid = 0) {
  try {
    analyse_tiles(kernel, arguments, tensors, grid);
    FAIL() << "no error; expected: " << words.front();
  } catch (const UserError& error) {
    EXPECT_EQ(error.where().line, line) << error.what();
    EXPECT_GT(error.where().column, 0) << error.what();
    for (const std::string& word : words) EXPECT_THAT(std::string(error.what()), HasSubstr(word));
  }
}

/// The line of a shipped kernel that holds this text.
int line_of(const TileKernel& kernel, std::string_view text) {
  const SourceFile& source = *kernel.module().source;
  const std::size_t offset = source.text().find(text);
  EXPECT_NE(offset, std::string::npos) << text;
  return source.locate(offset).line;
}

/// The first line of a kernel's text is this line of the file.
constexpr int kFirstLine = 6;

/// A kernel of one vector whose tile body is given; x and out have 32 elements, BLOCK is 8.
void expect_body_error(const std::string& body, int line_of_body, const std::vector<std::string>& words,
                       std::int64_t grid = 0) {
  const TileKernel kernel = kernel_of(
      "def kernel(x_ptr, i_ptr, out_ptr, n, BLOCK: tl.constexpr):\n"
      "    pid = tl.program_id(0)\n"
      "    offsets = pid * BLOCK + tl.arange(0, BLOCK)\n" +
      body);
  const TensorBindings tensors = {{"x_ptr", {"x", {32}, Dtype::fp32}},
                                  {"i_ptr", {"i", {32}, Dtype::int32}},
                                  {"out_ptr", {"out", {32}, Dtype::fp32}}};
  expect_error(kernel, {{"n", std::int64_t{32}}, {"BLOCK", std::int64_t{8}}}, tensors, kFirstLine + 2 + line_of_body,
               words, grid);
}

TEST(FootprintError, MissingAndUnknownArguments) {
  ScalarArguments arguments = gemm_arguments(64, 64, 64, 32, 32, 32, 1);
  arguments.erase("BLOCK_K");
  const TileKernel gemm = shipped("gemm");
  const int first_line = line_of(gemm, "def gemm"), second_line = line_of(gemm, "BLOCK_K: tl.constexpr");
  expect_error(gemm, arguments, product_tensors(64, 64, 64), second_line, {"needs a value", "'BLOCK_K'"});
  arguments["BLOCK_K"] = std::int64_t{32};
  arguments["BLOCKM"] = std::int64_t{32};
  expect_error(gemm, arguments, product_tensors(64, 64, 64), first_line, {"no parameter 'BLOCKM'", "BLOCK_M"});
  arguments.erase("BLOCKM");
  TensorBindings tensors = product_tensors(64, 64, 64);
  tensors.erase("b_ptr");
  expect_error(gemm, arguments, tensors, first_line, {"needs a value", "'b_ptr'", "bind a tensor"});
}

TEST(FootprintError, DescriptorAndTensorDisagree) {
  const ScalarArguments arguments = gemm_arguments(64, 96, 32, 32, 32, 32, 1);
  TensorBindings tensors = product_tensors(64, 96, 32);
  tensors["b_ptr"].shape = {96, 32};
  const TileKernel gemm = shipped("gemm");
  expect_error(gemm, arguments, tensors, line_of(gemm, "tl.make_tensor_descriptor(b_ptr"),
               {"descriptor of b", "shape 32 x 96", "strides 96, 1", "the tensor is 96 x 32", "declare b"});
}

TEST(FootprintError, AccessOutsideTheTensor) {
  // Declared with one row less than the kernel is told.
  TensorBindings tensors = product_tensors(64, 64, 64);
  tensors["a_ptr"].shape = {63, 64};
  const TileKernel pointers = shipped("gemm_pointers");
  expect_error(pointers, gemm_arguments(64, 64, 64, 32, 32, 32, 1), tensors, line_of(pointers, "tl.load(a_rows"),
               {"tile (1, 0) reads a at [32:64, 0:32], outside its shape 63 x 64", "mask the access"});
  expect_body_error("    tl.store(out_ptr + offsets + 1, tl.load(x_ptr + offsets))\n", 1,
                    {"tile (3) writes out at [25:33], outside its shape 32"});
  expect_body_error("    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets - 1))\n", 1,
                    {"tile (0) reads x at [-1:7], outside its shape 32"});
}

TEST(FootprintError, AnUnmaskedColumnThatRunsIntoTheNextRow) {
  const TileKernel kernel = kernel_of(R"(def kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    rows = pid * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :])
    tl.store(out_ptr + rows, tl.sum(x, axis=1))
)");
  const TensorBindings tensors = {{"x_ptr", {"x", {32, 5}, Dtype::fp32}}, {"out_ptr", {"out", {32}, Dtype::fp32}}};
  expect_error(kernel, {{"M", std::int64_t{32}}, {"N", std::int64_t{5}}, {"BLOCK", std::int64_t{8}}}, tensors,
               kFirstLine + 4, {"tile (0) reads x at [0:8, 0:8], outside its shape 32 x 5"});
}

TEST(Footprint, LoadsWhoseAddressDataDecideCountAsOfTheWholeTensor) {
  const TileKernel kernel = kernel_of(R"(def kernel(ids_ptr, x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + offsets)
    x = tl.load(x_ptr + ids[:, None] * 3 + tl.arange(0, 2)[None, :])
    y = tl.load(y_ptr + offsets, mask=ids > 0, other=0.0)
    tl.store(out_ptr + offsets, tl.sum(x, axis=1) + y)
)");
  const TensorBindings tensors = {{"ids_ptr", {"ids", {16}, Dtype::int32}},
                                  {"x_ptr", {"x", {7, 3}, Dtype::fp32}},
                                  {"y_ptr", {"y", {16}, Dtype::fp32}},
                                  {"out_ptr", {"out", {16}, Dtype::fp32}}};
  const TileSpace space = analyse_tiles(kernel, {{"n", std::int64_t{16}}, {"BLOCK", std::int64_t{8}}}, tensors);
  ASSERT_EQ(space.tiles.size(), 2U);
  const std::vector<ParameterAccess>& accesses = space.tiles[1].accesses;
  ASSERT_EQ(accesses.size(), 4U);
  EXPECT_EQ(accesses[0].reads, (std::vector<Region>{{{8, 16}}}));
  EXPECT_EQ(accesses[1].reads, (std::vector<Region>{{{0, 7}, {0, 3}}}));
  EXPECT_EQ(accesses[2].reads, (std::vector<Region>{{{8, 16}}})) << "data decide the mask only";
  EXPECT_EQ(accesses[3].writes, (std::vector<Region>{{{8, 16}}}));
  ASSERT_EQ(space.reads_by_data.size(), 1U);
  EXPECT_EQ(space.reads_by_data.at("x_ptr").line, kFirstLine + 4);
}

TEST(FootprintError, DependenceOnData) {
  expect_body_error("    i = tl.load(i_ptr + offsets)\n    tl.store(out_ptr + i, 1.0)\n", 2,
                    {"address of this store depends on data (loaded at line 9)"});
  expect_body_error("    i = tl.load(i_ptr + offsets)\n    tl.store(out_ptr + offsets, 1.0, mask=i > 0)\n", 2,
                    {"mask of this store depends on data (loaded at line 9)"});
  expect_body_error("    i = tl.load(i_ptr + offsets)\n    tl.store(out_ptr + offsets, tl.load(i + 1))\n", 2,
                    {"address of this load depends on data (loaded at line 9)"});
  expect_body_error("    i = tl.load(i_ptr)\n    if i > 0:\n        tl.store(out_ptr + offsets, i)\n", 3,
                    {"data decide (at line 10) whether this stores", "keep the rest outside of it"});
  expect_body_error("    n = tl.load(i_ptr)\n    for k in range(0, n):\n        tl.store(out_ptr + offsets, k)\n", 2,
                    {"a loop's bound depends on data (loaded at line 9)"});
  expect_body_error(
      "    n = tl.load(i_ptr)\n    x = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK])\n"
      "    tl.store(out_ptr + offsets, x.load([0]))\n",
      2, {"the shape of a descriptor depends on data (loaded at line 9)"});
}

TEST(FootprintError, BlocksThatTritonRefuses) {
  ScalarArguments arguments = gemm_arguments(96, 96, 96, 48, 32, 32, 1);
  const TileKernel gemm = shipped("gemm"), pointers = shipped("gemm_pointers");
  expect_error(gemm, arguments, product_tensors(96, 96, 96), line_of(gemm, "a = tl.make_tensor_descriptor"),
               {"tl.make_tensor_descriptor makes a block of size 48", "powers of two"});
  expect_error(pointers, arguments, product_tensors(96, 96, 96), line_of(pointers, "BLOCK_M + tl.arange"),
               {"tl.arange makes a block of size 48"});
  arguments["BLOCK_M"] = std::int64_t{1} << 21;
  expect_error(pointers, arguments, product_tensors(96, 96, 96), line_of(pointers, "BLOCK_M + tl.arange"),
               {"at most 1048576 elements"});
}

TEST(FootprintError, MoreTilesThanAPlanHolds) {
  const TileKernel gemm = shipped("gemm");
  expect_error(gemm, gemm_arguments(std::int64_t{1} << 30, 16, 16, 16, 32, 16, 1),
               product_tensors(std::int64_t{1} << 30, 16, 16), line_of(gemm, "pid_n ="), {"more than 262144 tiles"});
}

TEST(FootprintError, ALoopWithoutAnEnd) {
  expect_body_error("    k = 0\n    while k < n:\n        k = k * 1\n    tl.store(out_ptr + offsets, k)\n", 2,
                    {"this loop does not seem to end"});
}

TEST(FootprintError, AccessesThatAreNoBoxes) {
  expect_body_error("    tl.store(out_ptr + offsets * 2, tl.load(x_ptr + offsets))\n", 1,
                    {"tile (0) writes elements of out that are not a box of its shape 32", "strides"});
  expect_body_error("    tl.store(out_ptr + offsets * offsets, tl.load(x_ptr + offsets))\n", 1,
                    {"address of this store is computed (at line 9) in a way"});
}

TEST(FootprintError, A32BitOffsetThatOverflows) {
  const std::string text = R"(def kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    tl.store(out_ptr + pid, tl.sum(tl.load(x_ptr + pid * N + cols), axis=0))
)";
  const TensorBindings tensors = {{"x_ptr", {"x", {4, std::int64_t{1} << 30}, Dtype::fp32}},
                                  {"out_ptr", {"out", {4}, Dtype::fp32}}};
  expect_error(kernel_of(text), {{"N", std::int64_t{1} << 30}, {"BLOCK", std::int64_t{16}}}, tensors, kFirstLine + 3,
               {"address of this load overflows its integer type (at line 9", "tl.int64"});
}

TEST(FootprintError, OutputsWrittenTwiceOrNotAtAll) {
  expect_body_error("    tl.store(out_ptr + tl.arange(0, BLOCK) + (pid // 2) * BLOCK, tl.load(x_ptr + offsets))\n", 1,
                    {"tile (0) and tile (1) both write out at [0:8]", "exactly one tile"}, 4);
  expect_body_error("    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets), mask=offsets < n - 3)\n", 1,
                    {"no tile writes out at [29:32]"}, 4);
  // Without a grid the search for the end of the launch gives up.
  expect_body_error("    tl.store(out_ptr + offsets, 1.0, mask=offsets < n - 3)\n", 1,
                    {"no tile writes out at [29:32]"});
  const TileKernel gemm = shipped("gemm");
  TensorBindings tensors = product_tensors(64, 64, 64);
  ScalarArguments arguments = gemm_arguments(64, 64, 64, 32, 32, 32, 1);
  arguments["M"] = std::int64_t{0};
  tensors["a_ptr"].shape = tensors["c_ptr"].shape = {0, 64};
  expect_error(gemm, arguments, tensors, line_of(gemm, "def gemm"), {"no tile with these arguments"});
}

TEST(FootprintError, StoresOutsideTheTileLoop) {
  const TileKernel kernel = kernel_of(R"(def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.store(out_ptr, 0.0)
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        offsets = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))
)");
  const TensorBindings tensors = {{"x_ptr", {"x", {32}, Dtype::fp32}}, {"out_ptr", {"out", {32}, Dtype::fp32}}};
  expect_error(kernel, {{"n", std::int64_t{32}}, {"BLOCK", std::int64_t{8}}}, tensors, kFirstLine + 1,
               {"writes out outside the loop over tiles"});
}

TEST(FootprintError, AGridOfTheWrongSize) {
  const TensorBindings tensors = {{"a_ptr", {"a", {2, 16, 16}, Dtype::fp32}},
                                  {"c_ptr", {"c", {2, 16, 16}, Dtype::fp32}}};
  const ScalarArguments arguments = {
      {"M", std::int64_t{16}}, {"N", std::int64_t{16}}, {"BLOCK_M", std::int64_t{4}}, {"BLOCK_N", std::int64_t{8}}};
  EXPECT_EQ(analyse_tiles(kernel_of(kBatched), arguments, tensors, 16).tiles.size(), 16U);
  expect_error(kernel_of(kBatched), arguments, tensors, kFirstLine,
               {"a grid of 15 programs, but 2 x 4 x 2", "launch 16"}, 15);
}

TEST(FootprintError, TheNumberOfProgramsIsAskedForButNotKnown) {
  const TileKernel kernel = kernel_of(R"(def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.num_programs(0) - 1 - tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))
)");
  const TensorBindings tensors = {{"x_ptr", {"x", {32}, Dtype::fp32}}, {"out_ptr", {"out", {32}, Dtype::fp32}}};
  const ScalarArguments arguments = {{"BLOCK", std::int64_t{8}}};
  expect_error(kernel, arguments, tensors, kFirstLine + 1, {"the number of programs is not known", "grid"});
  const TileSpace space = analyse_tiles(kernel, arguments, tensors, 4);
  ASSERT_EQ(space.tiles.size(), 4U);
  EXPECT_EQ(space.tiles[0].index, (std::vector<std::int64_t>{3}));
}

}  // namespace
}  // namespace syncopate
