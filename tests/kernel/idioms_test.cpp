// The idioms of public kernels. Every row of docs/idioms.md is run, or refused, as it says there; and kernels that are
// written as public ones are (tests/kernel/idioms/) are compared with plain loops, their footprints with what they
// touch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "syncopate/kernel/program_internal.h"
#include "syncopate/kernel/stores.h"
#include "tests/kernel/concrete_fixture.h"
#include "tests/kernel/footprint_oracle.h"

namespace syncopate {
namespace {

using testing::HasSubstr;

// ---- The table of docs/idioms.md ----

std::string documentation() {
  std::ifstream file(std::string(SYNCOPATE_SOURCE_DIR) + "/docs/idioms.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) throw std::runtime_error("the page has no " + begin);
  return text.substr(from + begin.size(), text.find(end, from + begin.size()) - from - begin.size());
}

struct Row {
  std::string what;
  std::vector<std::string> lines;  ///< of the example
  std::string outcome;
};

std::vector<Row> rows_of(const std::string& section) {
  std::vector<Row> rows;
  std::stringstream lines(between(documentation(), "\n## " + section + "\n", "\n## "));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ") || line.find('`') == std::string::npos || line.ends_with("| `r` |")) continue;
    const std::size_t second = line.find(" | `") + 3;
    const std::size_t third = line.find("` | ", second) + 1;
    Row row{line.substr(2, second - 5), {}, line.substr(third + 3, line.size() - third - 5)};
    const std::string example = line.substr(second, third - second);
    for (std::size_t at = 0; at < example.size();) {
      const std::size_t open = example.find('`', at);
      const std::size_t close = example.find('`', open + 1);
      row.lines.push_back(example.substr(open + 1, close - open - 1));
      at = close + 1 + std::string("<br>").size();
    }
    rows.push_back(row);
  }
  return rows;
}

/// The example as a kernel. It begins at line kFirstLine.
constexpr int kFirstLine = 5;
std::string example_text(const Row& row) {
  std::string text =
      "@triton.jit\ndef kernel(x, out, n, N: tl.constexpr):\n    i = tl.arange(0, 8)\n    v = tl.load(x + i)\n";
  for (const std::string& line : row.lines) text += "    " + line + "\n";
  text += "    tl.store(out + i, r)\n\n\n";
  return text + between(documentation(), "```python\n", "```");
}

std::vector<double> run_example(const Row& row) {
  FakeMemory memory;
  std::vector<double> numbers;
  for (int k = 1; k <= 16; ++k) numbers.push_back(k);
  const int x = memory.add(Dtype::fp32, numbers);
  const int out = memory.add(Dtype::fp32, std::vector<double>(16));
  const auto module = parse_module(
      std::make_shared<SourceFile>("kernel.py", example_text(row) + "import triton\nimport triton.language as tl\n"));
  run_to_end(lower(module, *module->find("kernel")),
             {{"x", memory.argument(x)}, {"out", memory.argument(out)}, {"n", std::int64_t{8}}, {"N", std::int64_t{8}}},
             {0, 0, 0}, {1, 1, 1}, memory);
  std::vector<double> values = memory.values(out);
  values.resize(8);
  return values;
}

TEST(IdiomsPage, AcceptedExamplesGiveWhatThePageSays) {
  const std::vector<Row> rows = rows_of("Accepted");
  ASSERT_GT(rows.size(), 40U);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    std::stringstream outcome(row.outcome);
    std::vector<double> expected;
    for (double number = 0; outcome >> number;) expected.push_back(number);
    ASSERT_EQ(expected.size(), 8U) << row.outcome;
    try {
      EXPECT_EQ(run_example(row), expected);
    } catch (const UserError& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(IdiomsPage, RefusedExamplesFailWithWhatThePageSays) {
  const std::vector<Row> rows = rows_of("Refused");
  ASSERT_GT(rows.size(), 15U);
  for (Row row : rows) {
    SCOPED_TRACE(row.what);
    row.lines.push_back("r = v");  // if nothing is refused, the kernel is whole
    const std::size_t middle = row.outcome.find("; ");
    ASSERT_NE(middle, std::string::npos);
    try {
      run_example(row);
      ADD_FAILURE() << "nothing is refused";
    } catch (const UserError& error) {
      EXPECT_THAT(error.problem(), HasSubstr(row.outcome.substr(0, middle)));
      EXPECT_THAT(error.remedy(), HasSubstr(row.outcome.substr(middle + 2)));
      const int last = kFirstLine + static_cast<int>(row.lines.size()) - 1;
      EXPECT_TRUE(error.where().line >= kFirstLine && error.where().line <= last) << error.what();
      EXPECT_GT(error.where().column, 4) << error.what();
    }
  }
}

// ---- Kernels written as public ones are ----

TileKernel idiom(const std::string& name) {
  return TileKernel::read(std::string(SYNCOPATE_SOURCE_DIR) + "/tests/kernel/idioms/" + name + ".py", name);
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Runs every program of a grid.
void run_grid(const TileKernel& kernel, const Arguments& arguments, const std::vector<std::int64_t>& grid,
              FakeMemory& memory) {
  const auto program = lower(kernel.shared_module(), kernel.function());
  std::int64_t programs = 1;
  for (const std::int64_t count : grid) programs *= count;
  for (std::int64_t i = 0; i < programs; ++i) {
    std::vector<std::int64_t> position;
    for (std::int64_t rest = i; const std::int64_t count : grid) {
      position.push_back(rest % count);
      rest /= count;
    }
    run_to_end(program, arguments, position, grid, memory);
  }
}

Arguments with_tensors(const ScalarArguments& scalars, const TensorBindings& tensors) {
  Arguments arguments;
  for (const auto& [name, value] : scalars)
    std::visit([&, &parameter = name](const auto& scalar) { arguments[parameter] = scalar; }, value);
  int buffer = 0;
  for (const auto& [name, tensor] : tensors) arguments[name] = BufferArgument{buffer++, tensor.dtype};
  return arguments;
}

/// Buffers in the order of the bindings; value(name, index) gives their elements.
FakeMemory filled(const TensorBindings& tensors, double (*value)(int, std::int64_t)) {
  FakeMemory memory;
  for (const auto& [name, tensor] : tensors) {
    const int buffer = memory.add(tensor.dtype, volume(tensor.shape));
    for (std::int64_t i = 0; i < volume(tensor.shape); ++i) memory.set(buffer, i, value(buffer, i));
  }
  return memory;
}

TEST(Idioms, ProductThroughBlockPointers) {
  const TileKernel kernel = idiom("gemm_block_pointers");
  EXPECT_EQ(kernel.scheduler().index_variables, (std::vector<std::string>{"pid_m", "pid_n"}));
  std::mt19937 random(1);
  const auto between_sizes = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 12; ++i) {
    const bool even = i % 3 == 0;
    const std::int64_t m = between_sizes(1, 50), n = between_sizes(1, 50), k = even ? 32 : between_sizes(1, 50);
    const TensorBindings tensors = {{"a_ptr", {"a", {m, k}, Dtype::fp16}},
                                    {"b_ptr", {"b", {k, n}, Dtype::fp16}},
                                    {"c_ptr", {"c", {m, n}, Dtype::fp16}}};
    const ScalarArguments scalars = {{"M", m},
                                     {"N", n},
                                     {"K", k},
                                     {"BLOCK_M", std::int64_t{16}},
                                     {"BLOCK_N", std::int64_t{8}},
                                     {"BLOCK_K", std::int64_t{16}},
                                     {"EVEN_K", even}};
    SCOPED_TRACE(fmt::format("{} x {} x {}", m, n, k));
    const std::vector<std::int64_t> grid = {ceil_divide(m, 16) * ceil_divide(n, 8)};
    expect_exact(kernel, scalars, tensors, grid);
    FakeMemory memory = filled(tensors, small_integers);
    run_grid(kernel, with_tensors(scalars, tensors), grid, memory);
    expect_exact_product(memory, {m, n, k});
    if (testing::Test::HasFailure()) return;
  }
}

/// Attention of one head in double.
struct Attention {
  std::vector<double> out;
  std::vector<double> lse;
};
Attention attention_in_double(const FakeMemory& memory, int q, int k, int v, std::int64_t queries, std::int64_t keys,
                              std::int64_t stride, std::int64_t head, std::int64_t d, double scale, bool causal) {
  Attention result;
  for (std::int64_t row = 0; row < queries; ++row) {
    std::vector<double> weights;
    double total = 0;
    for (std::int64_t key = 0; key < keys && (!causal || key <= row); ++key) {
      double score = 0;
      for (std::int64_t e = 0; e < d; ++e)
        score += memory.get(q, row * stride + head * d + e) * memory.get(k, key * stride + head * d + e);
      weights.push_back(std::exp2(score * scale));
      total += weights.back();
    }
    result.lse.push_back(std::log2(total));
    for (std::int64_t e = 0; e < d; ++e) {
      double sum = 0;
      for (std::size_t key = 0; key < weights.size(); ++key)
        sum += weights[key] * memory.get(v, static_cast<std::int64_t>(key) * stride + head * d + e);
      result.out.push_back(sum / total);
    }
  }
  return result;
}

TEST(Idioms, AttentionThroughBlockPointersOnAGridOfTwoAxes) {
  const TileKernel kernel = idiom("attention_block_pointers");
  constexpr std::int64_t kHeads = 2, kDepth = 8, kStride = kHeads * kDepth;
  constexpr double kScale = 0.375;
  const std::vector<std::pair<std::int64_t, std::int64_t>> kSizes = {{32, 32}, {29, 29}, {13, 37}, {1, 1}};
  for (const bool causal : {false, true}) {
    for (const auto& [queries, keys] : kSizes) {
      if (causal && queries != keys) continue;
      SCOPED_TRACE(fmt::format("{} queries, {} keys, causal {}", queries, keys, causal));
      // Buffers by name: k, lse, out, q, v.
      const TensorBindings tensors = {{"k_ptr", {"k", {keys, kStride}, Dtype::fp32}},
                                      {"lse_ptr", {"lse", {kHeads, queries}, Dtype::fp32}},
                                      {"out_ptr", {"out", {queries, kStride}, Dtype::fp32}},
                                      {"q_ptr", {"q", {queries, kStride}, Dtype::fp32}},
                                      {"v_ptr", {"v", {keys, kStride}, Dtype::fp32}}};
      const ScalarArguments scalars = {{"queries", queries},
                                       {"keys", keys},
                                       {"stride", kStride},
                                       {"scale", kScale},
                                       {"BLOCK_M", std::int64_t{16}},
                                       {"BLOCK_N", std::int64_t{8}},
                                       {"D", kDepth},
                                       {"CAUSAL", causal}};
      const std::vector<std::int64_t> grid = {ceil_divide(queries, 16), kHeads};
      expect_exact(kernel, scalars, tensors, grid);
      FakeMemory memory = filled(tensors, fractions);
      run_grid(kernel, with_tensors(scalars, tensors), grid, memory);
      // Sums of at most 40 terms of size 1, in fp32: the scores are right to 8 u, weights to |score| u each.
      constexpr double kBound = 1e-5;
      for (std::int64_t head = 0; head < kHeads; ++head) {
        const Attention expected =
            attention_in_double(memory, 3, 0, 4, queries, keys, kStride, head, kDepth, kScale, causal);
        for (std::int64_t row = 0; row < queries; ++row) {
          const auto at = static_cast<std::size_t>(row);
          ASSERT_NEAR(memory.get(1, head * queries + row), expected.lse[at], kBound) << "row " << row;
          for (std::int64_t e = 0; e < kDepth; ++e)
            ASSERT_NEAR(memory.get(2, row * kStride + head * kDepth + e),
                        expected.out[at * kDepth + static_cast<std::size_t>(e)], kBound)
                << "row " << row << ", element " << e;
        }
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(Idioms, NormAndRotaryEmbeddingOfRows) {
  const TileKernel kernel = idiom("norm_rotary");
  for (const std::int64_t width : {16, 10, 2}) {
    for (const std::int64_t casting : {0, 1}) {
      constexpr std::int64_t kRows = 5;
      constexpr double kEps = 1e-3;
      // Buffers by name: cos, out, sin, weight, x.
      const TensorBindings tensors = {{"cos_ptr", {"cos", {kRows, width / 2}, Dtype::fp32}},
                                      {"out_ptr", {"out", {kRows, width}, Dtype::fp32}},
                                      {"sin_ptr", {"sin", {kRows, width / 2}, Dtype::fp32}},
                                      {"weight_ptr", {"weight", {width}, Dtype::fp32}},
                                      {"x_ptr", {"x", {kRows, width}, Dtype::fp32}}};
      const ScalarArguments scalars = {{"rows", kRows},      {"width", width},
                                       {"eps", kEps},        {"WIDTH", std::int64_t{16}},
                                       {"CASTING", casting}, {"OFFSET", 1.0}};
      SCOPED_TRACE(fmt::format("width {}, casting {}", width, casting));
      expect_exact(kernel, scalars, tensors, {kRows});
      FakeMemory memory = filled(tensors, fractions);
      run_grid(kernel, with_tensors(scalars, tensors), {kRows}, memory);
      for (std::int64_t row = 0; row < kRows; ++row) {
        double squares = 0;
        for (std::int64_t c = 0; c < width; ++c) squares += std::pow(memory.get(4, row * width + c), 2);
        const double factor = 1 / std::sqrt(squares / static_cast<double>(width) + kEps);
        const auto normal = [&](std::int64_t c) {
          return memory.get(4, row * width + c) * factor * (1 + memory.get(3, c));
        };
        for (std::int64_t pair = 0; pair < width / 2; ++pair) {
          const double cos = memory.get(0, row * (width / 2) + pair), sin = memory.get(2, row * (width / 2) + pair);
          const double even = normal(2 * pair), odd = normal(2 * pair + 1);
          // A dozen operations in fp32 on numbers below 8.
          ASSERT_NEAR(memory.get(1, row * width + 2 * pair), even * cos - odd * sin, 1e-5) << row << ", " << pair;
          ASSERT_NEAR(memory.get(1, row * width + 2 * pair + 1), odd * cos + even * sin, 1e-5) << row << ", " << pair;
        }
      }
    }
  }
}

TEST(Idioms, GatedActivationOnAGridOfThreeAxes) {
  const TileKernel kernel = idiom("gated_grid");
  for (const bool gelu : {false, true}) {
    for (const std::int64_t width : {32, 19}) {
      constexpr std::int64_t kBatches = 2, kRows = 7;
      const TensorBindings tensors = {{"out_ptr", {"out", {kBatches, kRows, width}, Dtype::fp32}},
                                      {"x_ptr", {"x", {kBatches, kRows, 2 * width}, Dtype::fp32}}};
      const ScalarArguments scalars = {
          {"batches", kBatches},         {"rows", kRows}, {"width", width},         {"BLOCK_M", std::int64_t{4}},
          {"BLOCK_N", std::int64_t{16}}, {"GELU", gelu},  {"EVEN", width % 16 == 0}};
      SCOPED_TRACE(fmt::format("width {}, GELU {}", width, gelu));
      const std::vector<std::int64_t> grid = {ceil_divide(width, 16), 2, kBatches};
      expect_exact(kernel, scalars, tensors, grid);
      FakeMemory memory = filled(tensors, fractions);
      run_grid(kernel, with_tensors(scalars, tensors), grid, memory);
      for (std::int64_t row = 0; row < kBatches * kRows; ++row) {
        for (std::int64_t c = 0; c < width; ++c) {
          const double value = memory.get(1, row * 2 * width + c), gate = memory.get(1, row * 2 * width + width + c);
          const double slope = gelu ? 0.5 * (1 + std::tanh(0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)))
                                    : 1 / (1 + std::exp(-gate));
          ASSERT_NEAR(memory.get(0, row * width + c), value * gate * slope, 1e-6) << row << ", " << c;
        }
      }
    }
  }
}

// ---- Footprints and mistakes ----

constexpr const char* kHead = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n";

TileKernel kernel_of(const std::string& text) {
  return TileKernel(parse_module(std::make_shared<SourceFile>("test.py", kHead + text)), "kernel");
}

/// A kernel whose program `pid` copies its part of x to y; the body of it begins at line 8.
TileKernel copier(const std::string& body) {
  return kernel_of("def kernel(x, y, n, BLOCK: tl.constexpr):\n    pid = tl.program_id(0)\n" + body);
}

const ScalarArguments kCopy = {{"n", std::int64_t{20}}, {"BLOCK", std::int64_t{8}}};
const TensorBindings kCopied = {{"x", {"x", {20}, Dtype::fp32}}, {"y", {"y", {20}, Dtype::fp32}}};

template <typename F>
void expect_error(F f, int line, const std::string& problem, const std::string& remedy) {
  try {
    f();
    ADD_FAILURE() << "nothing is refused";
  } catch (const UserError& error) {
    EXPECT_EQ(error.where().line, line) << error.what();
    EXPECT_THAT(error.problem(), HasSubstr(problem));
    EXPECT_THAT(error.remedy(), HasSubstr(remedy));
  }
}

void expect_refused(const std::string& body, int line, const std::string& problem, const std::string& remedy) {
  expect_error([&] { analyse_tiles(copier(body), kCopy, kCopied); }, line, problem, remedy);
}

constexpr const char* kBlocks = R"(    p = tl.make_block_ptr(x, (n,), (1,), (pid * BLOCK,), (BLOCK,), (0,))
    q = tl.make_block_ptr(y, (n,), (1,), (pid * BLOCK,), (BLOCK,), (0,))
)";

TEST(BlockPointerFootprint, WhatIsNotCheckedIsRead) {
  const std::string store = "    tl.store(q, v, boundary_check=(0,))\n";
  expect_exact(copier(kBlocks + std::string("    v = tl.load(p, boundary_check=(0,))\n") + store), kCopy, kCopied, {3});
  expect_refused(kBlocks + std::string("    v = tl.load(p)\n") + store, 10, "reads x at [16:24], outside its shape 20",
                 "name the dimension in boundary_check, or choose tile sizes that divide the tensor");
  expect_refused(kBlocks + std::string("    tl.store(q, tl.load(p, boundary_check=(0,)))\n"), 10, "writes y at [16:24]",
                 "boundary_check");
}

TEST(BlockPointerFootprint, Mistakes) {
  const auto refused = [](const std::string& line, const std::string& problem, const std::string& remedy) {
    expect_refused(kBlocks + std::string("    ") + line +
                       "\n    tl.store(q, tl.load(p, boundary_check=(0,)), boundary_check=(0,))\n",
                   10, problem, remedy);
  };
  refused("p = tl.advance(p, (1, 2))", "2 offsets in tl.advance of a block pointer of 1 dimensions", "one offset");
  refused("p = tl.advance(x, (1,))", "tl.advance of what is no block pointer", "tl.make_block_ptr");
  refused("p = tl.advance(p, (tl.load(x).to(tl.int32),))",
          "an offset of tl.advance depends on data (loaded at line 10)", "must follow from its indices");
  refused("v = tl.load(p, boundary_check=(1,))", "boundary_check names dimension 1 of a block pointer of 1",
          "dimensions count from 0");
  refused("p = tl.make_block_ptr(x, (n,), (1,), (0,), (12,), (0,))", "tl.make_block_ptr makes a block of size 12",
          "powers of two");
  refused("p = tl.make_block_ptr(x, (n, 1), (1,), (0,), (8,), (0,))", "are not lists of one length",
          "one number per dimension");
  refused("p = tl.make_block_ptr(x, (n,), (1,), (0,), (8,), (1,))", "does not name each dimension once", "(1, 0)");
  refused("p = tl.make_block_ptr(x + tl.arange(0, 8), (n,), (1,), (0,), (8,), (0,))",
          "a block pointer needs a pointer into a tensor argument", "start from a pointer parameter");
}

TEST(BlockPointerFootprint, AdvancingInAStreamedLoopIsRefused) {
  const std::string text = R"(def kernel(x, y, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    p = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))
    for start in range(0, n, BLOCK):  # syncopate: streamed_loop n
)";
  const std::string rest = "    tl.store(y + pid * BLOCK + tl.arange(0, BLOCK), total)\n";
  const TensorBindings tensors = {{"x", {"x", {32}, Dtype::fp32}}, {"y", {"y", {16}, Dtype::fp32}}};
  const ScalarArguments scalars = {{"n", std::int64_t{32}}, {"BLOCK", std::int64_t{8}}};
  expect_error(
      [&] {
        analyse_tiles(kernel_of(text + "        total += tl.load(p)\n        p = tl.advance(p, (BLOCK,))\n" + rest),
                      scalars, tensors, 0, true);
      },
      12, "depends on what the iteration before it computes here", "compute it from the loop's variable");
  // From the loop's variable it is right, and its reads are those of the iterations.
  const TileSpace space = analyse_tiles(kernel_of(text + "        total += tl.load(tl.advance(p, (start,)))\n" + rest),
                                        scalars, tensors, 0, true);
  ASSERT_EQ(space.tiles.size(), 2U);
  ASSERT_EQ(space.tiles[1].loops.size(), 1U);
  ASSERT_EQ(space.tiles[1].loops[0].iterations, 4);
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto& reads = space.tiles[1].loops[0].reads->iterations[static_cast<std::size_t>(i)];
    ASSERT_EQ(reads.size(), 1U);
    EXPECT_EQ(reads[0].region, (Region{{8 * i, 8 * i + 8}}));
  }
}

TEST(BlockPointerFootprint, LoopsThroughDifferentBlockPointersAreKeptApart) {
  // Two tiles walk the same loop from block pointers with other offsets: one must not get the other's reads.
  const TileKernel kernel = kernel_of(R"(def kernel(x, y, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    p = tl.make_block_ptr(x, (2, n), (n, 1), (pid, 0), (1, BLOCK), (1, 0))
    for start in range(0, n, BLOCK):  # syncopate: streamed_loop n
        total += tl.reshape(tl.load(tl.advance(p, (0, start))), (BLOCK,))
    tl.store(y + pid * BLOCK + tl.arange(0, BLOCK), total)
)");
  const TileSpace space = analyse_tiles(kernel, {{"n", std::int64_t{16}}, {"BLOCK", std::int64_t{8}}},
                                        {{"x", {"x", {2, 16}, Dtype::fp32}}, {"y", {"y", {16}, Dtype::fp32}}}, 0, true);
  ASSERT_EQ(space.tiles.size(), 2U);
  for (std::int64_t tile = 0; tile < 2; ++tile)
    EXPECT_EQ(space.tiles[static_cast<std::size_t>(tile)].loops[0].reads->iterations[1][0].region,
              (Region{{tile, tile + 1}, {8, 16}}));
}

TEST(BlockPointerFootprint, BoundsDoNotMoveAddresses) {
  // A read is guarded by the tile's wait if the index enters its address; in the bounds alone it guards nothing.
  const auto guarded = [](const std::string& shape, const std::string& offset) {
    const TileSpace space = analyse_tiles(
        copier("    p = tl.make_block_ptr(x, (" + shape + ",), (1,), (" + offset + ",), (BLOCK,), (0,))\n" +
               "    v = tl.load(p, boundary_check=(0,))\n"
               "    i = pid * BLOCK + tl.arange(0, BLOCK)\n    tl.store(y + i, v, mask=i < n)\n"),
        kCopy, kCopied);
    return !space.reads_past_indices.contains("x");
  };
  EXPECT_TRUE(guarded("n", "pid * BLOCK"));
  EXPECT_FALSE(guarded("n - pid", "0"));
}

TEST(BlockPointerFootprint, InBranchesThatDataDecide) {
  // Both ways leave p as it was, so it can be read through; q is moved on one of them only.
  const std::string branch = R"(    p = tl.make_block_ptr(x, (n,), (1,), (pid * BLOCK,), (BLOCK,), (0,))
    q = p
    v = tl.load(p, boundary_check=(0,))
    if tl.load(x) > 1:
        v += tl.load(p, boundary_check=(0,))
        q = tl.advance(p, (1,))
)";
  const std::string store = "    i = pid * BLOCK + tl.arange(0, BLOCK)\n    tl.store(y + i, v, mask=i < n)\n";
  const TileSpace space = analyse_tiles(copier(branch + store), kCopy, kCopied);
  ASSERT_EQ(space.tiles.size(), 3U);
  EXPECT_EQ(space.tiles[2].accesses[0].reads, (std::vector<Region>{Region{{16, 20}}, Region{{0, 1}}}));
  // Where q points is found by data, so a read through it counts as one of the whole tensor.
  const TileSpace moved =
      analyse_tiles(copier(branch + "    v += tl.load(q, boundary_check=(0,))\n" + store), kCopy, kCopied);
  EXPECT_EQ(moved.tiles[2].accesses[0].reads, (std::vector<Region>{Region{{0, 20}}}));
  EXPECT_EQ(moved.reads_by_data.at("x").line, 14);
}

TEST(Loads, ThroughBlockPointers) {
  const TileKernel kernel = copier(kBlocks + std::string("    tl.store(q, tl.load(p))\n"));
  const std::vector<Load> loads = find_loads(kernel.shared_module(), kernel.function(), "x");
  ASSERT_EQ(loads.size(), 1U);
  EXPECT_TRUE(loads[0].block_pointer);
  EXPECT_FALSE(loads[0].descriptor);
}

TEST(Stores, ThroughBlockPointers) {
  const TileKernel kernel = copier(kBlocks + std::string("    tl.store(q, tl.load(p))\n"));
  const std::vector<Store> stores = find_stores(kernel.shared_module(), kernel.function(), "y");
  ASSERT_EQ(stores.size(), 1U);
  EXPECT_TRUE(stores[0].block_pointer);
  EXPECT_FALSE(stores[0].descriptor);
  EXPECT_TRUE(find_stores(kernel.shared_module(), kernel.function(), "x").empty());
  const TileKernel mixed = copier(kBlocks + std::string("    if n > 8:\n        q = p\n    tl.store(q, tl.load(p))\n"));
  expect_error([&] { find_stores(mixed.shared_module(), mixed.function(), "y"); }, 12,
               "this stores to 'y' or to something else", "a name of its own");
}

TEST(Branches, WhatIsNeverReachedIsNoMistakeAndWhatIsReachedKeepsItsPlace) {
  const std::string body = R"(    if n > 100:
        v = tl.rand(0, pid)
        for k in range(n):
            if k > 3:
                break
        w = v
    else:
        v = 1.0
    tl.store(y + pid * BLOCK + tl.arange(0, BLOCK), v, mask=pid * BLOCK + tl.arange(0, BLOCK) < n)
)";
  EXPECT_EQ(analyse_tiles(copier(body), kCopy, {{"x", {"x", {20}, Dtype::fp32}}, {"y", {"y", {20}, Dtype::fp32}}})
                .tiles.size(),
            3U);
  ScalarArguments large = kCopy;
  large["n"] = std::int64_t{120};
  expect_error(
      [&] { analyse_tiles(copier(body), large, {{"x", {"x", {120}, Dtype::fp32}}, {"y", {"y", {120}, Dtype::fp32}}}); },
      9, "tl.rand is not supported", "draw them before the kernel");
}

TEST(Branches, InALoopTheyLeaveItAsTheyFoundIt) {
  FakeMemory memory;
  const int out = memory.add(Dtype::int32, 1);
  run_text(R"(
@triton.jit
def kernel(out, n):
    total = 0
    for k in range(10):
        if k == n:
            break
        if n > 100:
            for j in range(3):
                if j > k:
                    continue
                total += tl.topk(j, 1)
            break
        total += k
    tl.store(out, total)
)",
           {{"out", memory.argument(out)}, {"n", std::int64_t{5}}}, memory);
  EXPECT_EQ(memory.get(out, 0), 0 + 1 + 2 + 3 + 4);
}

TEST(Branches, AStreamedLoopInOneThatCannotBeLoweredIsReportedAtWhatIsWrong) {
  const TileKernel kernel = copier(R"(    total = tl.zeros((BLOCK,), tl.float32)
    if n > 4:
        for start in range(0, n, BLOCK):  # syncopate: streamed_loop n
            total += tl.rand(0, start)
    tl.store(y + pid * BLOCK + tl.arange(0, BLOCK), total)
)");
  expect_error([&] { analyse_tiles(kernel, kCopy, kCopied, 0, true); }, 11, "tl.rand is not supported", "draw them");
}

TEST(Atomics, TilesThatChangeOneElementAreToldHowToDoWithout) {
  expect_refused("    tl.atomic_add(y + tl.arange(0, BLOCK), 1.0)\n    tl.store(x + pid, 1.0)\n", 8,
                 "changes y at [0:8] by an atomic operation, which tile (", "an output with one axis more");
}

TEST(Imports, AreFollowedWhateverTheyAreCalled) {
  const auto run = [](const std::string& imports, const std::string& expression) {
    FakeMemory memory;
    const int out = memory.add(Dtype::fp32, 1);
    const auto module = parse_module(std::make_shared<SourceFile>(
        "k.py", imports + "\n@triton.jit\ndef kernel(out):\n    tl.store(out, " + expression + ")\n"));
    run_to_end(lower(module, *module->find("kernel")), {{"out", memory.argument(out)}}, {0}, {1}, memory);
    return memory.get(out, 0);
  };
  const std::string usual = "import triton\nimport triton.language as tl\n";
  EXPECT_EQ(run(usual + "from triton.language.extra.libdevice import trunc", "trunc(2.5)"), 2);
  EXPECT_EQ(run(usual + "from triton.language.extra.cuda import libdevice as ld", "ld.trunc(2.5)"), 2);
  EXPECT_EQ(run(usual + "from triton.language.math import floor as down", "down(2.5)"), 2);
  EXPECT_EQ(run("import triton\nfrom triton import language as tl", "tl.extra.libdevice.trunc(2.5)"), 2);
  EXPECT_EQ(
      run("import triton, triton.language as tl\nfrom triton.language import float32", "tl.full((), 2.5, float32)"),
      2.5);
  // Of guarded imports the first counts.
  EXPECT_EQ(
      run(usual + "try:\n    from triton.language.extra.libdevice import trunc as f\nexcept ImportError:\n    from "
                  "triton.language.math import ceil as f",
          "f(2.5)"),
      2);
  EXPECT_EQ(run(usual + "if triton.__version__ > '3':\n    from triton.language.math import ceil as f\nelse:\n    from "
                        "triton.language.extra.libdevice import trunc as f",
                "f(2.5)"),
            3);
  // A function of the file hides an import.
  EXPECT_EQ(
      run(usual + "from triton.language.extra.libdevice import trunc\n@triton.jit\ndef trunc(x):\n    return x * 2",
          "trunc(2.5)"),
      5);
}

TEST(Scans, ReductionsWithFunctionsOfTheFile) {
  FakeMemory memory;
  const int x = memory.add(Dtype::fp32, {3, 1, 4, 1, 5, 9, 2, 6});
  const int out = memory.add(Dtype::fp32, 24);
  run_text(R"(
@triton.jit
def larger(value, index, other, other_index):
    take = (other > value) | ((other == value) & (other_index < index))
    return tl.where(take, other, value), tl.where(take, other_index, index)

@triton.jit
def affine(a, b, c, d):
    return a * c, b * c + d

@triton.jit
def kernel(x, out):
    block = tl.reshape(tl.load(x + tl.arange(0, 8)), (2, 4))
    lanes = tl.broadcast_to(tl.arange(0, 4)[None, :], (2, 4))
    value, index = tl.reduce((block, lanes), 1, larger, keep_dims=True)
    tl.store(out + tl.arange(0, 2), tl.reshape(value, (2,)))
    tl.store(out + 2 + tl.arange(0, 2), tl.reshape(index, (2,)))
    scale = tl.full((2, 4), 2.0, tl.float32)
    a, b = tl.associative_scan((scale, block), 1, affine)
    tl.store(out + 4 + tl.arange(0, 8), tl.reshape(b, (8,)))
    c, d = tl.associative_scan((scale, block), 0, affine, reverse=True)
    tl.store(out + 12 + tl.arange(0, 8), tl.reshape(d, (8,)))
)",
           {{"x", memory.argument(x)}, {"out", memory.argument(out)}}, memory);
  EXPECT_THAT(memory.values(out), testing::ElementsAre(4, 9, 2, 1,                   // the largest and where
                                                       3, 7, 18, 37, 5, 19, 40, 86,  // s = 2 s + x along rows
                                                       13, 19, 8, 13, 5, 9, 2, 6,    // and up the columns
                                                       0, 0, 0, 0));
}

}  // namespace
}  // namespace syncopate
