// Inputs that are sums over ranks, which tiles add up as they load: residual and RMS norm from the files we ship, and
// kernels of our own; held against mathematics, against the unfused operator, and against mistakes of users.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/right_run.h"
#include "tests/support/temporary_folder.h"

namespace syncopate {
namespace {

using testing::buffer_named;
using testing::numbers;
using testing::operator_file;
using testing::run_of;

const Buffer& buffer(const Plan& plan, const std::string& name) { return plan.buffer(buffer_named(plan, name)); }

/// Rows of x that a rank's kernel reads, of the shape of the operator file.
struct Sizes {
  std::int64_t rows = 0;  ///< of the kernel's x
  std::int64_t width = 0;
};

/// Rank r's summand of element (row, column) of the kernel's x on `reader`.
class Summands {
 public:
  Summands(const Plan& plan, const LaunchData& data, const Sizes& sizes, bool scattered)
      : sizes_(sizes), scattered_(scattered) {
    for (int rank = 0; rank < plan.ranks; ++rank) {
      // Of a source the rank's own; of a stack in the kernel's buffer all of them.
      stacks_.push_back(numbers(plan, data.inputs, rank, "x"));
    }
  }
  double at(int reader, int rank, std::int64_t row, std::int64_t column) const {
    const std::int64_t first = scattered_ ? reader * sizes_.rows : rank * sizes_.rows;
    return stacks_[static_cast<std::size_t>(rank)][static_cast<std::size_t>((first + row) * sizes_.width + column)];
  }

 private:
  Sizes sizes_;
  bool scattered_;
  std::vector<std::vector<double>> stacks_;
};

/// x in fp32 from +0 in the order of ranks, rounded once to bf16: what every tile must see.
double added(const Summands& summands, int ranks, int reader, std::int64_t row, std::int64_t column) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += static_cast<float>(summands.at(reader, rank, row, column));
  std::byte bytes[2];
  store_element(bytes, Dtype::bf16, sum);
  return static_cast<double>(load_element(bytes, Dtype::bf16));
}

/// h is exact to a rounding of bf16 of an fp32 sum, so it is known bit by bit; y has a bound.
void expect_norm(const Plan& plan, const LaunchData& data, const Sizes& sizes, bool scattered) {
  const double u32 = std::ldexp(1.0, -24), u16 = std::ldexp(1.0, -8), eps = 1e-5;
  const Summands summands(plan, data, sizes, scattered);
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const auto residual = numbers(plan, data.inputs, rank, "residual"),
               weight = numbers(plan, data.inputs, rank, "weight");
    const auto y = numbers(plan, data.outputs, rank, "y"), h = numbers(plan, data.outputs, rank, "h");
    ASSERT_EQ(y.size(), static_cast<std::size_t>(sizes.rows * sizes.width));
    ASSERT_EQ(h.size(), y.size());
    for (std::int64_t i = 0; i < sizes.rows; ++i) {
      std::vector<double> exact;
      double squares = 0;
      for (std::int64_t j = 0; j < sizes.width; ++j) {
        const auto at = static_cast<std::size_t>(i * sizes.width + j);
        exact.push_back(added(summands, plan.ranks, rank, i, j) + residual[at]);
        squares += exact.back() * exact.back();
        std::byte bytes[2];
        store_element(bytes, Dtype::bf16, static_cast<float>(exact.back()));
        ASSERT_EQ(h[at], static_cast<double>(load_element(bytes, Dtype::bf16)))
            << "h on rank " << rank << " at " << i << ", " << j;
      }
      // Relative errors: of h u32; of the mean of squares, all of one sign, (width + 4) u32, of which the root takes
      // half; of the root's reciprocal and the two products 4 u32; and of the rounding u16.
      const double relative = (static_cast<double>(sizes.width) / 2 + 8) * u32;
      const double scale = 1 / std::sqrt(squares / static_cast<double>(sizes.width) + eps);
      for (std::int64_t j = 0; j < sizes.width; ++j) {
        const double expected = exact[static_cast<std::size_t>(j)] * scale * weight[static_cast<std::size_t>(j)];
        const double bound = std::fabs(expected) * (1.01 * relative + u16 * (1 + relative)) + 1e-38;
        ASSERT_LE(std::fabs(y[static_cast<std::size_t>(i * sizes.width + j)] - expected), bound)
            << "y on rank " << rank << " at " << i << ", " << j;
      }
    }
  }
}

std::vector<std::vector<Override>> variants() {
  std::vector<std::vector<Override>> all;
  for (const char* ranks : {"1", "2", "3", "4"})
    for (const char* initiator : {"push", "pull"})
      for (const char* split : {"1", "3"})
        all.push_back({{"ranks", ranks},
                       {"communicate.x.initiator", initiator},
                       {"communicate.x.split", split},
                       {"kernel.args.M", "13"},  // ragged tiles, chunks and rows
                       {"kernel.args.N", "37"},
                       {"kernel.args.BLOCK_M", "4"},
                       {"kernel.args.BLOCK_N", "64"},
                       {"launch.workers", "3"}});
  return all;
}

TEST(RmsNorm, OfTheRanksRowsAgreesWithFp64) {
  std::uint64_t seed = 0;
  for (const std::vector<Override>& overrides : variants()) {
    const Plan plan = compile_operator(operator_file("rms_norm_rs"), overrides);
    for (const InputKind inputs : {InputKind::small_integers, InputKind::reals})
      expect_norm(plan, run_of(plan, inputs, seed++), {13, 37}, true);
  }
}

TEST(RmsNorm, OfAllRowsAgreesWithFp64AndIsTheSameOnAllRanks) {
  std::uint64_t seed = 0;
  for (std::vector<Override> overrides : variants())
    for (const char* algorithm : {"direct", "ring"}) {
      overrides.push_back({"communicate.x.algorithm", algorithm});
      const Plan plan = compile_operator(operator_file("rms_norm_ar"), overrides);
      const LaunchData data = run_of(plan, InputKind::reals, seed++);
      expect_norm(plan, data, {13, 37}, false);
      for (int rank = 1; rank < plan.ranks; ++rank)
        for (const char* output : {"y", "h"})
          EXPECT_EQ(numbers(plan, data.outputs, rank, output), numbers(plan, data.outputs, 0, output));
    }
}

TEST(RmsNorm, TilesWaitForTheChunksOfTheirRowsOnly) {
  const Plan plan = compile_operator(operator_file("rms_norm_rs"), {{"launch.workers", "32"}});
  // Four chunks of 32 rows from each of three peers and the rank itself; tiles of 4 rows.
  for (const RankProgram& program : plan.programs) {
    ASSERT_EQ(program.slots.size(), 32u);
    for (const Slot& slot : program.slots) EXPECT_EQ(slot.waits.size(), 4u);
  }
  const Buffer& stack = buffer(plan, "x_inside");
  EXPECT_TRUE(stack.stacked);
  EXPECT_EQ(stack.shape, (Shape{4, 128, 192}));
  EXPECT_EQ(buffer(plan, "x").shape, (Shape{1, 512, 192}));
  for (const Tile& tile : plan.tiles)
    for (const TileAccess& read : tile.reads)
      if (read.buffer == buffer_named(plan, "x_inside")) {
        EXPECT_EQ(read.region[0], (Range{0, 4}));
      }
}

TEST(RmsNorm, FirstChunksLeaveForAllPeersBeforeSecondOnes) {
  for (const char* file : {"rms_norm_rs", "rms_norm_ar"}) {
    const Plan plan = compile_operator(operator_file(file), {});
    for (int rank = 0; rank < 4; ++rank) {
      const std::vector<Transfer>& sent = plan.programs[static_cast<std::size_t>(rank)].queues[0].transfers;
      ASSERT_EQ(sent.size(), 12u) << file;
      for (std::size_t i = 0; i < sent.size(); ++i) {
        EXPECT_EQ(sent[i].destination.rank, (rank + 1 + static_cast<int>(i) % 3) % 4) << file;
        EXPECT_EQ(sent[i].destination.region[1].begin, static_cast<std::int64_t>(i) / 3 * 32) << file;
      }
    }
    // The first tiles need a chunk from each peer, and nothing of the others.
    EXPECT_EQ(plan.programs[0].slots[0].waits.size(), file == std::string("rms_norm_rs") ? 4u : 3u);
  }
}

TEST(RmsNorm, PlansThatLeaveSummandsOutAreRefused) {
  const Plan right = compile_operator(operator_file("rms_norm_ar"), {{"ranks", "2"}});
  const auto x = static_cast<std::size_t>(buffer_named(right, "x"));
  Plan part = right;
  part.tiles[0].reads[0].region[0] = {0, 1};
  EXPECT_FALSE(verify(part).holds());
  EXPECT_NE(verify(part).to_string().find("which is not the same of every summand"), std::string::npos);
  Plan written = right;
  written.tiles[0].writes.push_back(written.tiles[0].reads[0]);
  EXPECT_NE(verify(written).to_string().find("writes to x, a stack of summands"), std::string::npos);
  Plan replicated = right;
  replicated.buffers[x].before = Placement::replicate();
  EXPECT_NE(verify(replicated).to_string().find("rank r does not hold summand r"), std::string::npos);
  const auto refused = [](const Plan& plan) -> std::string {
    try {
      parse_plan(SourceFile("plan.json", to_json(plan)));
    } catch (const UserError& error) {
      EXPECT_GT(error.where().line, 0);
      return error.what();
    }
    return "";
  };
  Plan other = right;
  other.buffers[static_cast<std::size_t>(buffer_named(right, "residual"))].stacked = true;
  EXPECT_NE(refused(other).find("buffer 'residual' is no stack of summands"), std::string::npos) << refused(other);
  EXPECT_FALSE(verify(other).holds());
  Plan one_side = compile_operator(operator_file("rms_norm_rs"), {{"ranks", "2"}});
  one_side.buffers[static_cast<std::size_t>(buffer_named(one_side, "x"))].stacked = false;
  EXPECT_NE(refused(one_side).find("one is a stack of summands"), std::string::npos) << refused(one_side);
  EXPECT_FALSE(verify(one_side).holds());
}

/// A kernel and an operator file of ours: `load` is how the kernel loads x, and `statements` stand before it.
class Written {
 public:
  explicit Written(const std::string& body,
                   const std::string& placement = "before = \"partial(sum)\"\ninside = \"replicate\"",
                   const std::string& dtype = "fp16", const std::string& more = "") {
    folder_.write("kernel.py", "import triton\nimport triton.language as tl\n\n\n" + body);
    folder_.write("operator.toml",
                  "operator = \"written\"\nranks = 3\n[kernel]\nfile = \"kernel.py\"\nfunction = \"scale\"\nargs = { M "
                  "= 10, N = 24, "
                  "BLOCK = 16 }\n[tensors.x]\nparameter = \"x_ptr\"\nshape = [\"M\", \"N\"]\ndtype = \"" +
                      dtype + "\"\n" + placement +
                      "\n[tensors.y]\nparameter = \"y_ptr\"\nshape = [\"M\", \"N\"]\ndtype = \"fp32\"\n" + more);
  }
  Plan compile() const { return compile_operator(folder_.path("operator.toml")); }
  /// The error's place in the kernel (0: elsewhere), problem and remedy.
  void expect_error(const std::string& problem, const std::string& remedy, int line) const {
    SCOPED_TRACE(problem);
    try {
      compile();
      FAIL() << "compiled";
    } catch (const UserError& error) {
      EXPECT_NE(error.problem().find(problem), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(remedy), std::string::npos) << error.what();
      EXPECT_EQ(error.where().line, line) << error.what();
    }
  }

 private:
  testing::TemporaryFolder folder_;
};

std::string scale_kernel(const std::string& load, const std::string& parameters = "x_ptr, y_ptr") {
  return "@triton.jit\ndef scale(" + parameters +
         ", M, N, BLOCK: tl.constexpr):\n"
         "    row = tl.program_id(0)\n"
         "    for start in range(0, N, BLOCK):\n"
         "        columns = start + tl.arange(0, BLOCK)\n" +
         load + "        tl.store(y_ptr + row * N + columns, 2.0 * x, mask=columns < N)\n";
}

TEST(SummedInput, LoadsMayBeWrittenInManyWays) {
  for (const char* load :
       {"        x = tl.load(x_ptr + row * N + columns, mask=columns < N, other=0.0)\n",
        "        x = tl.load(x_ptr + row * N + columns, columns < N, 1.0, cache_modifier=\".ca\")  # kept\n",
        "        x = tl.load(pointer=x_ptr + row * N + columns, eviction_policy=\"evict_first\", mask=columns < N)\n",
        "        line = x_ptr + row * N\n        x = tl.load(line + columns,\n                    mask=columns < N) + "
        "0.0\n",
        "        x = (tl.load(x_ptr + row * N + columns, mask=columns < N, other=0.0).to(tl.float32) + 3.0) - 3.0\n",
        "        x = tl.where(columns < N - 1, tl.load(x_ptr + row * N + columns, mask=columns < N - 1, other=0.0), "
        "tl.load(x_ptr + row * N + N - 1))\n"}) {
    const Plan plan = Written(scale_kernel(load)).compile();
    EXPECT_EQ(plan.kernel.fused_source.find("cache_modifier=\".ca\""), std::string::npos);
    const LaunchData data = run_of(plan, InputKind::small_integers, 1);
    const std::vector<double> stack = numbers(plan, data.inputs, 0, "x"), y = numbers(plan, data.outputs, 2, "y");
    ASSERT_EQ(stack.size(), 3 * y.size());
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(y[i], 2 * (stack[i] + stack[i + y.size()] + stack[i + 2 * y.size()])) << load << " element " << i;
  }
}

TEST(SummedInput, MayComeToColumnsToo) {
  const Written written(
      "@triton.jit\ndef scale(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):\n    row = tl.program_id(0)\n"
      "    columns = tl.arange(0, BLOCK)\n"
      "    x = tl.load(x_ptr + row * (N // 3) + columns, mask=columns < N // 3, other=0.0)\n"
      "    tl.store(y_ptr + row * N + columns, x + 0.0, mask=columns < N // 3)\n"
      "    tl.store(y_ptr + row * N + N // 3 + columns, x + 1.0, mask=columns < N - N // 3)\n",
      "before = \"partial(sum)\"\ninside = \"shard(1)\"");
  const Plan plan = written.compile();
  const LaunchData data = run_of(plan, InputKind::small_integers, 3);
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<double> y = numbers(plan, data.outputs, rank, "y");
    for (std::size_t row = 0; row < 10; ++row)
      for (std::size_t column = 0; column < 8; ++column) {
        const std::size_t place = row * 24 + static_cast<std::size_t>(rank) * 8 + column;
        double sum = 0;
        for (int other = 0; other < 3; ++other) sum += numbers(plan, data.inputs, other, "x")[place];
        ASSERT_EQ(y[row * 24 + column], sum);
      }
  }
}

TEST(SummedInput, ASumIsRoundedOnce) {
  const Plan plan =
      Written(scale_kernel("        x = tl.load(x_ptr + row * N + columns, mask=columns < N)\n")).compile();
  const LaunchData data = run_of(plan, InputKind::reals, 2);
  const std::vector<double> stack = numbers(plan, data.inputs, 0, "x"), y = numbers(plan, data.outputs, 1, "y");
  std::size_t once_only = 0;
  const auto half = [](float value) {
    std::byte bytes[2];
    store_element(bytes, Dtype::fp16, value);
    return load_element(bytes, Dtype::fp16);
  };
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto a = static_cast<float>(stack[i]), b = static_cast<float>(stack[i + y.size()]),
               c = static_cast<float>(stack[i + 2 * y.size()]);
    ASSERT_EQ(y[i], 2.0 * static_cast<double>(half(a + b + c)));
    once_only += half(a + b + c) != half(half(a + b) + c) ? 1U : 0U;
  }
  EXPECT_GT(once_only, 0u) << "no element tells one rounding from two";
}

TEST(SummedInput, OnAPersistentKernelWithAReducedOutput) {
  const Written written(
      "@triton.jit\ndef scale(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):\n"
      "    for tile in range(tl.program_id(0), M, tl.num_programs(0)):\n"
      "        columns = tl.arange(0, 32)\n"
      "        x = tl.load(x_ptr + tile * N + columns, mask=columns < N, other=0.0)\n"
      "        total = tl.zeros((32,), tl.float32)\n"
      "        for step in range(0, 2):\n"
      "            total += x\n"
      "        tl.store(y_ptr + tile * N + columns, total, mask=columns < N)\n",
      "before = \"partial(sum)\"\ninside = \"replicate\"", "fp16",
      "inside = \"partial(sum)\"\nafter = \"replicate\"\n");
  const Plan plan = written.compile();
  const LaunchData data = run_of(plan, InputKind::small_integers, 5);
  const std::vector<double> stack = numbers(plan, data.inputs, 0, "x"), y = numbers(plan, data.outputs, 1, "y");
  for (std::size_t i = 0; i < y.size(); ++i)
    ASSERT_EQ(y[i], 6 * (stack[i] + stack[i + y.size()] + stack[i + 2 * y.size()]));
}

TEST(SummedInput, RefusesWhatItCannotAdd) {
  const std::string good = "        x = tl.load(x_ptr + row * N + columns, mask=columns < N)\n";
  Written(scale_kernel(good + "        tl.store(x_ptr + row * N + columns, x, mask=columns < N)\n"))
      .expect_error("the kernel both reads and writes tensor 'x'", "an output may only be stored to", 10);
  Written(scale_kernel(good + "        tl.atomic_add(x_ptr + row * N + columns, x, mask=columns < N)\n"))
      .expect_error("the kernel both reads and writes tensor 'x'", "no atomics on it", 10);
  Written(scale_kernel("        x = tl.load(x_ptr + row * N + columns + tl.load(y_ptr), mask=columns < N)\n",
                       "x_ptr, y_ptr"))
      .expect_error("tensor 'x' is summed while the kernel runs, but data decide what this reads of it",
                    "must follow from its indices", 10);
  Written(scale_kernel("        x = load_it(x_ptr + row * N + columns, columns < N)\n") +
          "\n\n@triton.jit\ndef load_it(pointer, mask):\n    return tl.load(pointer, mask=mask)\n")
      .expect_error("a helper loads 'x_ptr', which is a sum over ranks", "load it in scale itself", 16);
  Written(scale_kernel("        x_desc = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [1, BLOCK])\n"
                       "        x = tl.reshape(x_desc.load([row, start]), (BLOCK,))\n"))
      .expect_error("loads 'x_ptr', which is a sum over ranks, through a descriptor", "load it through pointers", 11);
  Written(scale_kernel(good), "before = \"partial(max)\"\ninside = \"replicate\"")
      .expect_error("'partial(max)'", "\"partial(sum)\"", 11);
  Written(scale_kernel(good), "before = \"partial(sum)\"\ninside = \"shard(0)\"")
      .expect_error("dimension 0 of tensor 'x' is 10, which 3 ranks cannot share evenly", "a multiple of 3", 9);
  Written(scale_kernel(good), "before = \"partial(sum)\"\ninside = \"partial(sum)\"")
      .expect_error("tensor 'x' is partial(sum) -> partial(sum): nothing changes", "state another placement", 12);
  Written(scale_kernel(good), "before = \"shard(0)\"\ninside = \"partial(sum)\"")
      .expect_error("no collective turns shard(0) into partial(sum)", "not made partial", 12);
  Written(scale_kernel(good), "before = \"partial(sum)\"\ninside = \"replicate\"", "fp64")
      .expect_error("tensor 'x' is fp64, and sums are taken in fp32", "at most 32 bits", 12);
  Written(scale_kernel(good), "before = \"partial(sum)\"\ninside = \"replicate\"", "int32")
      .expect_error("tensor 'x' is int32, and sums are taken in fp32", "floating-point", 12);
  Written(scale_kernel(good), "before = \"partial(sum)\"\ninside = \"replicate\"", "fp16",
          "[communicate.x]\nmemory_budget = 4096\n")
      .expect_error("summands of 'x' stay until the tiles that add them have read", "remove it", 18);
  Written(scale_kernel("        x = tl.load(x_ptr + columns, mask=columns < N)\n"))
      .expect_error("tensor 'x' is summed, but which part of it this reads depends on no tile index",
                    "do this for the tensor beforehand", 10);
  Written(scale_kernel(good), "before = \"partial(sum)\"\ninside = \"replicate\"", "fp16",
          "inside = \"partial(sum)\"\nafter = \"replicate\"\n")
      .expect_error("among what makes the values of an output that is one, too", "an operator of its own", 10);
}

}  // namespace
}  // namespace syncopate
