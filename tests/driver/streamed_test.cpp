// Whole operators whose kernel streams a loop over chunks as they arrive, on CPU ranks: products gathered along their
// inner dimension and attention over a gathered sequence; every algorithm and initiator, ragged sizes, many seeds; each
// proven, executed under many interleavings, and compared bit for bit with the local kernel walked in the plan's order.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/attention_reference.h"
#include "tests/driver/gemm_reference.h"
#include "tests/support/temporary_folder.h"

namespace syncopate {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Waits that stand inside of tiles.
std::int64_t step_waits(const Plan& plan) {
  std::int64_t count = 0;
  for (const RankProgram& program : plan.programs)
    for (const Slot& slot : program.slots)
      for (const LoopStep& step : slot.steps) count += static_cast<std::int64_t>(step.waits.size());
  return count;
}

void expect_right(const Plan& plan, std::uint64_t seeds, InputKind inputs = InputKind::small_integers) {
  const Proof proof = verify(plan);
  ASSERT_TRUE(proof.holds()) << proof.to_string();
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    RunOptions options;
    options.seed = seed;
    options.adversary = seed % 2 == 1;
    options.repeat = 2;
    options.inputs = inputs;
    const RunReport report = run_on_cpu_ranks(plan, options);
    ASSERT_EQ(report.outcome, Outcome::right) << "seed " << seed << ": " << report.message;
  }
}

struct Product {
  int ranks = 4;
  std::string algorithm = "direct";
  std::string initiator = "push";
  int split = 2;
  int m = 48;
  int n = 32;
  int k = 128;
  int workers = 3;
  bool gather_b = true;
  bool sum = false;  ///< c is a sum over ranks besides

  std::string name() const {
    return std::to_string(ranks) + "ranks_" + algorithm + "_" + initiator + "_split" + std::to_string(split) + "_" +
           std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + "_" + std::to_string(workers) +
           "workers" + (gather_b ? "" : "_a_only") + (sum ? "_sum" : "");
  }
};
void PrintTo(const Product& c, std::ostream* out) { *out << c.name(); }

Plan compiled(const Product& c) {
  std::vector<Override> overrides = testing::product_overrides({c.m, c.n, c.k}, c.ranks, c.workers, false);
  for (const char* tensor : {"a", "b"}) {
    if (*tensor == 'b' && !c.gather_b) continue;
    const std::string table = std::string("communicate.") + tensor + ".";
    overrides.insert(overrides.end(), {{table + "algorithm", c.algorithm},
                                       {table + "initiator", c.initiator},
                                       {table + "split", std::to_string(c.split)}});
  }
  if (!c.gather_b) {
    overrides.push_back({"tensors.a.before", "\"shard(1)\""});
    overrides.push_back({"tensors.a.inside", "\"replicate\""});
  }
  if (c.sum) {
    overrides.push_back({"tensors.c.inside", "\"partial(sum)\""});
    overrides.push_back({"tensors.c.after", "\"shard(0)\""});
  }
  return compile_operator(
      SYNCOPATE_SOURCE_DIR + std::string(c.gather_b ? "/operators/ag_gemm_k.toml" : "/operators/ag_gemm_pointers.toml"),
      overrides);
}

class StreamedProduct : public ::testing::TestWithParam<Product> {};

TEST_P(StreamedProduct, IsProvenAndRight) {
  const Plan plan = compiled(GetParam());
  // One rank has all there is.
  const std::vector<std::string> loops(GetParam().ranks > 1 ? 1 : 0, "k");
  ASSERT_EQ(plan.kernel.streamed_loops, loops);
  EXPECT_EQ(step_waits(plan) > 0, GetParam().ranks > 1);
  expect_right(plan, 3);
  RunOptions options;
  options.repeat = 1;
  const RunReport report = run_on_cpu_ranks(plan, options);
  ASSERT_EQ(report.outcome, Outcome::right) << report.message;
  if (GetParam().sum) {
    EXPECT_EQ(testing::compare_sum_exactly(plan, report.last), "");
  } else {
    for (int rank = 0; rank < plan.ranks; ++rank) EXPECT_EQ(testing::compare_exactly(plan, report.last, rank), "");
  }
  expect_right(plan, 1, InputKind::reals);
}

TEST_P(StreamedProduct, CompilesToTheSameBytes) {
  const Plan plan = compiled(GetParam());
  const std::string text = to_json(plan);
  EXPECT_EQ(to_json(compiled(GetParam())), text);
  EXPECT_EQ(to_json(parse_plan(SourceFile("plan.json", text))), text);
}

std::vector<Product> products() {
  std::vector<Product> cases;
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {1, 2, 3, 4, 8}) {
        Product c;
        c.algorithm = algorithm;
        c.initiator = initiator;
        c.ranks = ranks;
        c.split = 1 + ranks % 3;
        cases.push_back(c);
        // Shards that end inside blocks, ragged edges everywhere.
        c.m = 37;
        c.n = 29;
        c.k = 16 * ranks * 2 + 7;
        c.workers = 2;
        cases.push_back(c);
        c.gather_b = false;
        if (ranks > 1) cases.push_back(c);
      }
  Product sum;
  sum.sum = true;
  sum.ranks = 2;
  cases.push_back(sum);
  sum.ranks = 3;
  sum.m = 41;
  sum.algorithm = "ring";
  cases.push_back(sum);
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, StreamedProduct, ::testing::ValuesIn(products()),
                         [](const auto& test) { return test.param.name(); });

struct Attention {
  int ranks = 4;
  std::string algorithm = "direct";
  std::string initiator = "push";
  int split = 2;
  int q_length = 32;
  int length = 128;
  int workers = 3;
  bool causal = false;

  std::string name() const {
    return std::to_string(ranks) + "ranks_" + algorithm + "_" + initiator + "_split" + std::to_string(split) + "_" +
           std::to_string(q_length) + "of" + std::to_string(length) + "_" + std::to_string(workers) + "workers" +
           (causal ? "_causal" : "");
  }
};
void PrintTo(const Attention& c, std::ostream* out) { *out << c.name(); }

Plan compiled(const Attention& c) {
  std::vector<Override> overrides = {{"ranks", std::to_string(c.ranks)},
                                     {"launch.workers", std::to_string(c.workers)},
                                     {"kernel.args.Q_LENGTH", std::to_string(c.q_length)},
                                     {"kernel.args.KV_LENGTH", std::to_string(c.length)},
                                     {"kernel.args.CAUSAL", c.causal ? "true" : "false"}};
  for (const char* table : {"communicate.k.", "communicate.v."})
    overrides.insert(overrides.end(), {{std::string(table) + "algorithm", c.algorithm},
                                       {std::string(table) + "initiator", c.initiator},
                                       {std::string(table) + "split", std::to_string(c.split)}});
  if (c.algorithm == "double_ring")
    overrides.insert(overrides.end(), {{"communicate.k.ranks_per_node", "2"}, {"communicate.v.ranks_per_node", "2"}});
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/attention_sp.toml", overrides);
}

/// Attention of one rank in fp64 against what came out. "" if all is as near as roundings allow.
std::string compare_attention(const Plan& plan, const Attention& c, const LaunchData& data, int rank) {
  const auto matrix = [&](const char* name) { return testing::matrix_of(plan, data, rank, name); };
  return testing::compare_attention({4, 2, 16, 0.25, c.causal}, matrix("q"), matrix("k"), matrix("v"), matrix("o"),
                                    matrix("lse"), Dtype::bf16);
}

class StreamedAttention : public ::testing::TestWithParam<Attention> {};

TEST_P(StreamedAttention, IsProvenAndRight) {
  const Plan plan = compiled(GetParam());
  ASSERT_EQ(plan.kernel.streamed_loops, std::vector<std::string>{"keys"});
  EXPECT_GT(step_waits(plan), 0);
  expect_right(plan, 3, InputKind::reals);
  RunOptions options;
  options.repeat = 1;
  options.inputs = InputKind::reals;
  const RunReport report = run_on_cpu_ranks(plan, options);
  ASSERT_EQ(report.outcome, Outcome::right) << report.message;
  for (int rank = 0; rank < plan.ranks; ++rank) EXPECT_EQ(compare_attention(plan, GetParam(), report.last, rank), "");
}

TEST_P(StreamedAttention, WalksItsOwnShardFirst) {
  const Plan plan = compiled(GetParam());
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const Region& own = plan.buffers[1].held[at(rank)].front();
    const Slot& slot = plan.programs[at(rank)].slots.front();
    const std::vector<LoopPiece>& pieces = plan.tiles[at(slot.tile)].pieces;
    const auto is_own = [&](const LoopPiece& piece) {
      return std::all_of(piece.reads.begin(), piece.reads.end(), [&](const TileAccess& read) {
        return own[0].begin <= read.region[0].begin && read.region[0].end <= own[0].end;
      });
    };
    const bool any = std::any_of(pieces.begin(), pieces.end(), is_own);
    EXPECT_EQ(is_own(pieces[at(slot.steps.front().piece)]), any) << "rank " << rank;
    if (any) {
      EXPECT_TRUE(slot.steps.front().waits.empty()) << "rank " << rank;
    }
  }
}

std::vector<Attention> attentions() {
  std::vector<Attention> cases;
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring", "double_ring"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {2, 3, 4}) {
        if (std::string_view(algorithm) == "double_ring" && ranks != 4) continue;
        Attention c;
        c.algorithm = algorithm;
        c.initiator = initiator;
        c.ranks = ranks;
        cases.push_back(c);
        c.length = 117;
        c.q_length = 27;
        c.split = 3;
        c.workers = 5;
        cases.push_back(c);
        c.q_length = 117;
        c.causal = true;
        c.workers = 4;
        cases.push_back(c);
      }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, StreamedAttention, ::testing::ValuesIn(attentions()),
                         [](const auto& test) { return test.param.name(); });

TEST(Streamed, EveryInterleavingIsRight) {
  for (const char* algorithm : {"direct", "ring"}) {
    Attention c;
    c.algorithm = algorithm;
    c.ranks = 3;
    c.length = 72;
    c.q_length = 20;
    expect_right(compiled(c), 60, InputKind::reals);
  }
}

TEST(Streamed, LaterTilesOfAWorkerWaitNoMoreAndWalkAsWritten) {
  Attention c;
  c.workers = 2;
  const Plan plan = compiled(c);
  for (const RankProgram& program : plan.programs)
    for (std::size_t s = 2; s < program.slots.size(); ++s)
      for (std::size_t i = 0; i < program.slots[s].steps.size(); ++i) {
        EXPECT_EQ(program.slots[s].steps[i].piece, static_cast<int>(i));
        EXPECT_TRUE(program.slots[s].steps[i].waits.empty());
      }
  // So the kernel walks them in one go.
  const KernelTables tables = kernel_tables(plan, 0);
  const std::size_t columns = plan.kernel.axes.size() + static_cast<std::size_t>(tile_columns(plan));
  for (std::size_t s = 2; s < plan.programs[0].slots.size(); ++s)
    EXPECT_EQ(tables.tiles[(s + 1) * columns - 1] - tables.tiles[(s + 1) * columns - 2], 1);
}

TEST(Streamed, CausalTilesWaitOnlyForWhatTheySee) {
  Attention c;
  c.causal = true;
  c.q_length = 128;
  c.workers = 32;
  const Plan plan = compiled(c);
  for (const Tile& tile : plan.tiles) {
    std::int64_t last = 0;
    for (const LoopPiece& piece : tile.pieces)
      for (const TileAccess& read : piece.reads) last = std::max(last, read.region[0].end);
    EXPECT_EQ(last, (tile.index[1] + 1) * 16) << "block " << tile.index[1];
  }
}

/// A product whose K loop multiplies one block behind the one that it loads.
std::string one_block_behind() {
  std::string text = SourceFile::read(SYNCOPATE_SOURCE_DIR "/kernels/gemm_pointers.py")->text();
  const auto replace = [&](const std::string& from, const std::string& to) {
    const std::size_t begin = text.find(from);
    EXPECT_NE(begin, std::string::npos) << from;
    text.replace(begin, from.size(), to);
  };
  replace("    for k in range",
          "    a_tile = tl.zeros((BLOCK_M, BLOCK_K), dtype=a_ptr.dtype.element_ty)\n"
          "    b_tile = tl.zeros((BLOCK_K, BLOCK_N), dtype=b_ptr.dtype.element_ty)\n    for k in range");
  replace("        offs_k = k * BLOCK_K",
          "        accumulator = tl.dot(a_tile, b_tile, accumulator) * 0.5\n        offs_k = k * BLOCK_K");
  replace("        accumulator = tl.dot(a_tile, b_tile, accumulator)\n\n",
          "    accumulator = tl.dot(a_tile, b_tile, accumulator)\n\n");
  return text;
}

/// The annotation promises what cannot be seen from the text; a run shows it.
TEST(Streamed, ALoopThatDoesMoreThanAccumulateIsFound) {
  testing::TemporaryFolder folder;
  folder.write("kernel.py", one_block_behind());
  std::string text = SourceFile::read(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm_k.toml")->text();
  text.replace(text.find("../kernels/gemm_pointers.py"), 27, "kernel.py");
  const Plan plan =
      compile_operator(folder.write("op.toml", text), testing::product_overrides({32, 32, 128}, 2, 2, false));
  ASSERT_TRUE(verify(plan).holds()) << "the data is there in time";
  const RunReport report = run_on_cpu_ranks(plan, {});
  EXPECT_EQ(report.outcome, Outcome::wrong_result);
  EXPECT_NE(report.message.find("the streamed loop does more than accumulate"), std::string::npos) << report.message;
  EXPECT_NE(report.message.find("rank 1: c["), std::string::npos) << report.message;
}

TEST(Streamed, TheOrderShowsInRoundingOnly) {
  RunOptions options;
  options.inputs = InputKind::reals;
  const RunReport attention = run_on_cpu_ranks(compiled(Attention{}), options);
  ASSERT_EQ(attention.outcome, Outcome::right) << attention.message;
  ASSERT_TRUE(attention.order.has_value());
  EXPECT_GT(attention.order->difference, 0);
  EXPECT_LT(attention.order->difference, attention.order->allowed / 2) << attention.order->where;
  options.inputs = InputKind::small_integers;
  const RunReport product = run_on_cpu_ranks(compiled(Product{}), options);
  ASSERT_TRUE(product.order.has_value());
  EXPECT_EQ(product.order->where, "") << "sums of integers are exact in any order";
  Product in_order;
  in_order.ranks = 1;
  options.inputs = InputKind::reals;
  EXPECT_FALSE(run_on_cpu_ranks(compiled(in_order), options).order.has_value()) << "nothing is streamed";
}

/// Where no chunk ends inside the loop, it stays as it is.
TEST(Streamed, ALoopThatNeedsOneChunkIsNotStreamed) {
  const Plan plan = compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm_pointers.toml", {});
  EXPECT_TRUE(plan.kernel.streamed_loops.empty());
  for (const Tile& tile : plan.tiles) EXPECT_TRUE(tile.pieces.empty());
  EXPECT_EQ(plan.kernel.fused_source.find("syncopate_steps"), std::string::npos);
}

}  // namespace
}  // namespace syncopate
