// Attention over a gathered sequence whose keys and values stand in the memory of a few heads at a time, on CPU ranks:
// every algorithm and initiator, one to several heads in memory, ragged sizes, many interleavings; each proven,
// executed and as near to attention in fp64 as its roundings allow. Every dropped wait is refused, by the verifier and
// by a run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/attention_reference.h"
#include "tests/driver/gemm_reference.h"
#include "tests/driver/right_run.h"
#include "tests/support/mutate.h"
#include "tests/support/temporary_folder.h"

namespace syncopate {
namespace {

using testing::AttentionSizes;
using ::testing::HasSubstr;
using testing::Matrix;
using testing::matrix_of;
using testing::run_of;
using testing::stacked;

struct Bounded {
  std::string algorithm = "ring";
  std::string initiator = "push";
  int ranks = 4;
  int kept = 2;  ///< key heads in memory
  int split = 2;
  int q_length = 32;
  int length = 128;
  int heads = 8;
  int group = 2;
  int workers = 3;
  bool causal = false;

  std::int64_t budget() const { return std::int64_t{kept} * length * 16 * 2; }
  std::string name() const {
    return fmt::format("{}ranks_{}_{}_split{}_keep{}of{}_{}of{}_{}workers{}", ranks, algorithm, initiator, split, kept,
                       heads / group, q_length, length, workers, causal ? "_causal" : "");
  }
};
void PrintTo(const Bounded& c, std::ostream* out) { *out << c.name(); }

std::vector<Override> overrides_of(const Bounded& c) {
  std::vector<Override> overrides = {{"ranks", std::to_string(c.ranks)},
                                     {"launch.workers", std::to_string(c.workers)},
                                     {"kernel.args.Q_LENGTH", std::to_string(c.q_length)},
                                     {"kernel.args.KV_LENGTH", std::to_string(c.length)},
                                     {"kernel.args.HEADS", std::to_string(c.heads)},
                                     {"kernel.args.GROUP", std::to_string(c.group)},
                                     {"kernel.args.CAUSAL", c.causal ? "true" : "false"}};
  for (const std::string table : {"communicate.k.", "communicate.v."}) {
    overrides.insert(overrides.end(), {{table + "algorithm", c.algorithm},
                                       {table + "initiator", c.initiator},
                                       {table + "split", std::to_string(c.split)},
                                       {table + "memory_budget", std::to_string(c.budget())}});
    if (c.algorithm == "double_ring") overrides.push_back({table + "ranks_per_node", "2"});
  }
  return overrides;
}

Plan compiled(const Bounded& c) { return compile_operator(testing::operator_file("attention_ring"), overrides_of(c)); }

std::string compare_attention(const Plan& plan, const Bounded& c, const LaunchData& data, int rank) {
  const auto whole = [&](const std::string& name) {
    std::vector<Matrix> parts;
    for (int each = 0; each < plan.ranks; ++each) parts.push_back(matrix_of(plan, data, each, name));
    return stacked(parts);
  };
  const AttentionSizes sizes{c.heads, c.group, 16, 0.25, c.causal};
  return testing::compare_attention(sizes, matrix_of(plan, data, rank, "q"), whole("k"), whole("v"),
                                    matrix_of(plan, data, rank, "o"), matrix_of(plan, data, rank, "lse"), Dtype::bf16);
}

class BoundedAttention : public ::testing::TestWithParam<Bounded> {};

TEST_P(BoundedAttention, IsProvenAndRight) {
  const Bounded& c = GetParam();
  const Plan plan = compiled(c);
  for (const char* tensor : {"k_inside", "v_inside"}) {
    const Buffer& buffer = plan.buffer(testing::buffer_named(plan, tensor));
    ASSERT_TRUE(buffer.fold.has_value());
    EXPECT_EQ(*buffer.fold, (Fold{1, std::int64_t{c.kept} * 16}));
  }
  EXPECT_EQ(extra_memory(plan).staging, 2 * c.budget());
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const LaunchData data = run_of(plan, InputKind::reals, seed);
    if (::testing::Test::HasFailure()) return;
    for (int rank = 0; rank < plan.ranks && seed == 0; ++rank) EXPECT_EQ(compare_attention(plan, c, data, rank), "");
  }
}

std::vector<Bounded> cases() {
  std::vector<Bounded> list;
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring", "double_ring"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {1, 2, 3, 4}) {
        if (std::string_view(algorithm) == "double_ring" && ranks != 4) continue;
        Bounded c;
        c.algorithm = algorithm;
        c.initiator = initiator;
        c.ranks = ranks;
        c.kept = 1 + ranks % 3;
        list.push_back(c);
        c.length = 117;
        c.q_length = 27;
        c.split = 3;
        c.workers = 5;
        c.kept = 1 + (ranks + 1) % 3;
        list.push_back(c);
        c.q_length = 117;
        c.causal = true;
        c.workers = 4;
        list.push_back(c);
      }
  Bounded c;
  c.ranks = 8;
  c.kept = 1;
  list.push_back(c);
  c.algorithm = "direct";
  c.heads = 12;
  c.group = 4;
  c.length = 100;
  c.workers = 7;
  list.push_back(c);
  return list;
}
INSTANTIATE_TEST_SUITE_P(Cases, BoundedAttention, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name(); });

/// The first seed, plain or hostile, under which CPU ranks find something wrong; "" if none does.
std::string caught_by_cpu_ranks(const Plan& plan, int seeds) {
  for (int seed = 0; seed < seeds; ++seed)
    for (const bool adversary : {false, true}) {
      RunOptions options;
      options.seed = static_cast<std::uint64_t>(seed);
      options.adversary = adversary;
      options.repeat = 3;
      const RunReport report = run_on_cpu_ranks(plan, options);
      if (report.outcome != Outcome::right) return std::string(name_of(report.outcome)) + ": " + report.message;
    }
  return "";
}

/// Each mutant is either rejected by verify or right under every interleaving tried; every dropped wait is rejected;
/// and CPU ranks catch every rejected mutant themselves.
void expect_agreement(const Plan& plan) {
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(caught_by_cpu_ranks(plan, 3), "");
  int refused = 0;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) {
    const Proof proof = verify(mutant.plan);
    if (!mutant.may_be_valid) {
      EXPECT_FALSE(proof.holds()) << "accepted: " << mutant.description;
    }
    const std::string caught = caught_by_cpu_ranks(mutant.plan, 3);
    if (proof.holds()) {
      EXPECT_EQ(caught, "") << "verify accepts, CPU ranks do not: " << mutant.description;
    } else {
      ++refused;
      EXPECT_NE(caught, "") << "CPU ranks do not notice: " << mutant.description << '\n' << proof.to_string();
    }
  }
  EXPECT_GT(refused, 0);
}

/// A product with b [24, 96] in memory for 32 or 64 of its columns at a time.
struct BoundedFactor {
  std::string algorithm;
  std::string initiator;
  int ranks;
  int kept;
  int workers = 2;
  bool one_shot = false;  ///< the output is a sum, so that tiles raise signals for that, too
  std::string name() const {
    return fmt::format("{}_{}_{}ranks_keep{}_{}workers{}", algorithm, initiator, ranks, kept, workers,
                       one_shot ? "_one_shot" : "");
  }
};
void PrintTo(const BoundedFactor& c, std::ostream* out) { *out << c.name(); }

Plan compiled(const BoundedFactor& c) {
  std::vector<Override> overrides = testing::product_overrides({20, 96, 24}, c.ranks, c.workers, false);
  overrides.insert(overrides.end(), {{"kernel.args.BLOCK_N", "32"},
                                     {"communicate.b.algorithm", c.algorithm},
                                     {"communicate.b.initiator", c.initiator},
                                     {"communicate.b.memory_budget", std::to_string(c.kept * 24 * 32 * 2)}});
  if (c.one_shot)
    overrides.insert(overrides.end(), {{"tensors.c.inside", "partial(sum)"},
                                       {"tensors.c.after", "replicate"},
                                       {"communicate.c.algorithm", "one_shot"},
                                       {"communicate.c.initiator", c.initiator}});
  return compile_operator(SYNCOPATE_SOURCE_DIR "/tests/driver/bounded_gemm.toml", overrides);
}

class BoundedFactorMutations : public ::testing::TestWithParam<BoundedFactor> {};

TEST_P(BoundedFactorMutations, VerifyAndCpuRanksAgree) { expect_agreement(compiled(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Cases, BoundedFactorMutations,
                         ::testing::Values(BoundedFactor{"direct", "push", 2, 1}, BoundedFactor{"direct", "push", 3, 2},
                                           BoundedFactor{"direct", "pull", 2, 2}, BoundedFactor{"direct", "pull", 3, 1},
                                           BoundedFactor{"ring", "push", 3, 1}, BoundedFactor{"ring", "push", 3, 2, 3},
                                           BoundedFactor{"ring", "pull", 3, 1}, BoundedFactor{"ring", "pull", 3, 2},
                                           BoundedFactor{"bidirectional_ring", "push", 3, 1},
                                           BoundedFactor{"direct", "push", 2, 1, 2, true},
                                           BoundedFactor{"ring", "pull", 3, 2, 2, true}),
                         [](const auto& test) { return test.param.name(); });

Bounded small(const std::string& algorithm, const std::string& initiator, int ranks, int kept) {
  Bounded c;
  c.algorithm = algorithm;
  c.initiator = initiator;
  c.ranks = ranks;
  c.kept = kept;
  c.split = 1;
  c.q_length = 20;
  c.length = 24;
  c.heads = kept + 1;
  c.group = 1;
  c.workers = 2;
  return c;
}

/// Two tensors whose loops wait between pieces.
TEST(BoundedMutations, VerifyAndCpuRanksAgree) { expect_agreement(compiled(small("ring", "push", 2, 1))); }

/// A budget for everything changes nothing.
TEST(BoundedMemory, ABudgetForAllOfItLeavesTheGatherAsItIs) {
  Bounded c;
  c.kept = 4;
  const Plan plan = compiled(c);
  EXPECT_EQ(plan.buffers.size(), 5U);
  EXPECT_FALSE(slots_raise(plan));
  EXPECT_EQ(plan.kernel.fused_source.find(" % "), std::string::npos);
  std::vector<Override> overrides = overrides_of(c);
  std::erase_if(overrides, [](const Override& each) { return each.key.ends_with("memory_budget"); });
  overrides.insert(overrides.begin(), {"operator", "attention_ring"});
  Plan without = compile_operator(testing::operator_file("attention_sp"), overrides);
  without.communication = plan.communication;  // which tells the budget
  EXPECT_EQ(to_json(plan), to_json(without));
}

/// One key head more than fit makes as many transfers as heads, and the bytes are the same.
TEST(BoundedMemory, WhatMovesIsTheSame) {
  const auto moved = [](const Plan& plan) {
    std::int64_t elements = 0;
    for (const RankProgram& program : plan.programs)
      for (const Queue& queue : program.queues)
        for (const Transfer& transfer : queue.transfers)
          if (transfer.source.rank != transfer.destination.rank) elements += transfer.destination.region.volume();
    return elements;
  };
  Bounded c;
  const Plan bounded = compiled(c);
  c.kept = 4;
  EXPECT_EQ(moved(bounded), moved(compiled(c)));
  EXPECT_EQ(moved(bounded), 2 * std::int64_t{c.ranks - 1} * c.length * 64);
}

/// The numbers of docs/operators/attention_sp.md.
TEST(BoundedMemory, OfLongSequencesIsWhatThePageSays) {
  const auto staging = [](const std::string& budget) {
    std::vector<Override> overrides = {{"ranks", "8"},
                                       {"kernel.args.Q_LENGTH", "16384"},
                                       {"kernel.args.KV_LENGTH", "131072"},
                                       {"kernel.args.HEADS", "32"},
                                       {"kernel.args.GROUP", "4"},
                                       {"kernel.args.HEAD_DIM", "128"},
                                       {"kernel.args.BLOCK_M", "128"},
                                       {"kernel.args.BLOCK_N", "128"},
                                       {"launch.workers", "132"}};
    for (const std::string table : {"communicate.k.", "communicate.v."})
      overrides.push_back({table + "memory_budget", "\"" + budget + "\""});
    return extra_memory(compile_operator(testing::operator_file("attention_ring"), overrides)).staging;
  };
  constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
  EXPECT_EQ(staging("256 MiB"), 448 * kMebibyte);
  EXPECT_EQ(staging("64 MiB"), 128 * kMebibyte);
  EXPECT_EQ(staging("32 MiB"), 64 * kMebibyte);
}

/// c = a b of what all callers have, exactly: inputs are small integers.
void expect_product(const Plan& plan, const LaunchData& data, int rank) {
  std::vector<Matrix> parts;
  for (int each = 0; each < plan.ranks; ++each) parts.push_back(matrix_of(plan, data, each, "b"));
  const Matrix a = matrix_of(plan, data, rank, "a");
  const Matrix b = stacked(parts);
  const Matrix c = matrix_of(plan, data, rank, "c");
  ASSERT_EQ(a.columns, b.rows);
  for (std::int64_t row = 0; row < a.rows; ++row)
    for (std::int64_t column = 0; column < b.columns; ++column) {
      double sum = 0;
      for (std::int64_t k = 0; k < b.rows; ++k) sum += a.at(row, k) * b.at(k, column);
      ASSERT_EQ(c.at(row, column), sum) << "rank " << rank << ", row " << row << ", column " << column;
    }
}

/// What tiles of another kernel read of b, a block of columns, in a persistent loop; a is gathered as well, without a
/// budget.
TEST(BoundedMemory, HoldsABlockOfColumnsOfAFactor) {
  for (const char* algorithm : {"direct", "ring"})
    for (const int kept : {1, 2}) {
      std::vector<Override> overrides = testing::product_overrides({40, 96, 56}, 3, 3, false);
      overrides.insert(overrides.end(), {{"kernel.args.BLOCK_N", "32"},
                                         {"tensors.b.before", "\"shard(0)\""},
                                         {"tensors.b.inside", "replicate"},
                                         {"communicate.b.algorithm", algorithm},
                                         {"communicate.b.memory_budget", std::to_string(kept * 56 * 32 * 2)}});
      const Plan plan = compile_operator(testing::operator_file("ag_gemm"), overrides);
      EXPECT_EQ(*plan.buffer(testing::buffer_named(plan, "b_inside")).fold, (Fold{1, std::int64_t{kept} * 32}));
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        const LaunchData data = run_of(plan, InputKind::small_integers, seed);
        for (int rank = 0; rank < plan.ranks; ++rank) expect_product(plan, data, rank);
      }
    }
}

TEST(BoundedMemory, EveryInterleavingIsRight) {
  for (const char* initiator : {"push", "pull"})
    for (const int kept : {1, 2}) {
      Bounded c = small("ring", initiator, 3, kept);
      c.split = 2;
      c.heads = 4;
      const Plan plan = compiled(c);
      for (std::uint64_t seed = 0; seed < 40; ++seed) run_of(plan, InputKind::small_integers, seed);
    }
}

// What cannot be.

std::string error_of(const std::string& file, const std::vector<Override>& overrides) {
  try {
    compile_operator(file, overrides);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of_ring(const std::vector<Override>& overrides) {
  return error_of(testing::operator_file("attention_ring"), overrides);
}

TEST(BoundedMemory, HoldsOnePartAtLeast) {
  EXPECT_EQ(
      error_of_ring({{"communicate.k.memory_budget", "4096"}}),
      "--set communicate.k.memory_budget=4096: a memory budget of 4096 bytes holds no part of 'k' that a tile reads; "
      "at least 8192 bytes: of all ranks, indices 0 to 15 of dimension 1");
}

TEST(BoundedMemory, NeedsPartsThatTilesRead) {
  // Every tile reads rows of a from its first column to its last.
  EXPECT_THAT(error_of(testing::operator_file("ag_gemm"), {{"communicate.a.memory_budget", "4096"}}),
              HasSubstr("--set communicate.a.memory_budget=4096: tensor 'a' is gathered, takes 1.00 MiB and cannot be "
                        "bounded to 4.00 KiB; what a tile reads of it must keep to a part of another dimension"));
  EXPECT_THAT(error_of(testing::operator_file("a2a_gemm"), {{"communicate.a.memory_budget", "4096"}}),
              HasSubstr("tensor 'a' is exchanged and needs no staging"));
}

/// A load past the tensor's end, which reads zeros there, would find something else in folded memory.
TEST(BoundedMemory, HasNoPartThatIsShorter) {
  EXPECT_THAT(error_of(testing::operator_file("ag_gemm"), {{"kernel.args.N", "448"},
                                                           {"tensors.b.before", "\"shard(0)\""},
                                                           {"tensors.b.inside", "replicate"},
                                                           {"communicate.b.memory_budget", "\"128 KiB\""}}),
              HasSubstr("tensor 'b' is gathered, takes 448.00 KiB and cannot be bounded to 128.00 KiB"));
}

TEST(BoundedMemory, IsReadThroughDescriptors) {
  EXPECT_THAT(error_of(testing::operator_file("ag_gemm_pointers"), {{"kernel.args.N", "256"},
                                                                    {"tensors.b.before", "\"shard(0)\""},
                                                                    {"tensors.b.inside", "replicate"},
                                                                    {"communicate.b.memory_budget", "\"64 KiB\""}}),
              HasSubstr("kernels/gemm_pointers.py:34:18: this loads, through pointers, 'b_ptr', which is kept in less "
                        "memory than it has (memory_budget); load it through a descriptor: tl.make_tensor_descriptor"));
}

TEST(BoundedMemory, OfSeveralTensorsIsReadInOneOrder) {
  // Tiles walk blocks of rows of a and blocks of columns of b; one of the two would have to come several times.
  EXPECT_THAT(
      error_of(testing::operator_file("ag_gemm"), {{"tensors.a.before", "\"shard(1)\""},
                                                   {"tensors.b.before", "\"shard(0)\""},
                                                   {"tensors.b.inside", "replicate"},
                                                   {"communicate.a.memory_budget", "\"256 KiB\""},
                                                   {"communicate.b.memory_budget", "\"256 KiB\""}}),
      HasSubstr("transfers would wait for each other in a circle; a larger budget: tiles read the tensor's parts "
                "in another order than those of other tensors"));
}

/// The kernel of the ring with one line changed, and the file of an operator that uses it.
std::string error_with_kernel(const std::string& from, const std::string& to) {
  testing::TemporaryFolder folder;
  std::string kernel = SourceFile::read(SYNCOPATE_SOURCE_DIR "/kernels/attention_streamed.py")->text();
  const std::size_t at = kernel.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  folder.write("kernel.py", kernel.replace(at, from.size(), to));
  std::string text = SourceFile::read(testing::operator_file("attention_ring"))->text();
  text.replace(text.find("../kernels/attention_streamed.py"), 32, "kernel.py");
  return error_of(folder.write("op.toml", text), {});
}

TEST(BoundedMemory, HasDescriptorsThatCanBeEdited) {
  EXPECT_THAT(error_with_kernel("k.load([first, kv_column])", "k.load(place)"), HasSubstr("'place'"));
  EXPECT_THAT(error_with_kernel("        scores = tl.dot(queries, k.load([first, kv_column]).T)\n",
                                "        place = [first, kv_column]\n"
                                "        scores = tl.dot(queries, k.load(place).T)\n"),
              HasSubstr(":34: the offsets are not written where this uses 'k_ptr', which is kept in less "
                        "memory than it has (memory_budget); write them there, as a list of 2 entries"));
  EXPECT_THAT(error_with_kernel("    queries = q.load([row, column])\n",
                                "    queries = q.load([row, column])\n"
                                "    k_again = k_ptr\n"
                                "    k = tl.make_tensor_descriptor(k_again, shape=[KV_LENGTH, kv_width], "
                                "strides=[kv_width, 1], block_shape=[BLOCK_N, HEAD_DIM])\n"),
              HasSubstr("no error"))
      << "another name for the pointer is as good";
}

TEST(BoundedMemory, IsReadBeforeATileStores) {
  EXPECT_THAT(error_with_kernel("    o.store([row, column], (sums / divisor[:, None]).to(o.dtype))\n",
                                "    o.store([row, column], (sums / divisor[:, None]).to(o.dtype))\n"
                                "    last = k.load([row, kv_column])\n"),
              HasSubstr("this loads, after the tile's last store, 'k_ptr'"));
}

}  // namespace
}  // namespace syncopate
