// Sums that tiles add in place, on CPU ranks: every algorithm with one addend at a time, initiator, rank count, split,
// ragged size, kind of reduction and type; proven, executed under many interleavings, and compared with sums computed
// independently of Syncopate.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ostream>

#include "syncopate/core/files.h"
#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/gemm_reference.h"
#include "tests/support/in_place_kernels.h"
#include "tests/support/temporary_folder.h"

namespace syncopate {
namespace {

struct Case {
  std::string algorithm = "ring";
  std::string initiator = "push";
  int ranks = 2;
  int split = 1;
  int missing = 0;  ///< rows that the last shard lacks
  bool all_reduce = false;
  std::string dtype = "bf16";
  bool gather_a = false;

  std::string name() const {
    return algorithm + "_" + initiator + "_" + std::to_string(ranks) + "ranks_split" + std::to_string(split) +
           (missing > 0 ? "_ragged" : "") + (all_reduce ? "_all_reduce" : "") + "_" + dtype +
           (gather_a ? "_gather_a" : "");
  }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name(); }

Plan compiled(const Case& c, const std::string& sum = "in_place") {
  const int m = 32 * c.split * c.ranks - c.missing;
  std::vector<Override> overrides = testing::product_overrides({m, c.missing > 0 ? 40 : 32, 24}, c.ranks, 3, false);
  overrides.insert(overrides.end(), {{"communicate.c.algorithm", c.algorithm},
                                     {"communicate.c.initiator", c.initiator},
                                     {"communicate.c.split", std::to_string(c.split)},
                                     {"tensors.c.dtype", c.dtype},
                                     {"kernel.args.BLOCK_N", "32"}});
  if (!sum.empty()) overrides.push_back({"communicate.c.sum", sum});
  if (c.all_reduce) overrides.push_back({"tensors.c.after", "replicate"});
  if (c.gather_a)
    overrides.insert(overrides.end(), {{"tensors.a.before", "\"shard(0)\""}, {"tensors.a.inside", "replicate"}});
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_rs.toml", overrides);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const int ranks : {1, 2, 3, 4, 5})
    for (const char* algorithm : {"direct", "ring"})
      for (const char* initiator : {"push", "pull"})
        for (const int split : {1, 2}) {
          if (ranks > 2 && algorithm == std::string("direct")) continue;
          for (const bool all_reduce : {false, true}) {
            if (all_reduce && ranks == 1) continue;
            cases.push_back({algorithm, initiator, ranks, split, split == 1 && ranks > 1 ? ranks - 1 : 0, all_reduce});
          }
        }
  for (const char* dtype : {"fp16", "fp32"}) {
    cases.push_back({"direct", "push", 2, 2, 0, false, dtype});
    cases.push_back({"ring", "pull", 3, 1, 2, true, dtype});
  }
  cases.push_back({"direct", "push", 2, 1, 0, false, "bf16", true});
  cases.push_back({"ring", "push", 3, 2, 0, true, "bf16", true});
  return cases;
}

class InPlace : public ::testing::TestWithParam<Case> {};

TEST_P(InPlace, HasNoStagingBuffer) {
  const Plan plan = compiled(GetParam());
  ASSERT_TRUE(sums_in_place(plan));
  EXPECT_EQ(staging_buffer(plan), -1);
  EXPECT_EQ(landing_buffer(plan), reduced_buffer(plan));
  const bool pushed = GetParam().initiator == "push" && GetParam().ranks > 1;
  EXPECT_TRUE(!pushed || plan.buffer(reduced_buffer(plan)).symmetric) << "peers write to it";
  std::size_t adding = 0;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    EXPECT_TRUE(kernel_tables(plan, rank).addends.empty());
    for (const Slot& slot : plan.programs[static_cast<std::size_t>(rank)].slots) {
      adding += slot.addends.empty() ? 0U : 1U;
      for (const Addend& addend : slot.addends) EXPECT_EQ(addend.target, addend.source);
    }
  }
  EXPECT_EQ(adding > 0, GetParam().ranks > 1);
  const std::string& text = plan.kernel.fused_source;
  for (const char* of_staging : {"syncopate_staging", "syncopate_addends", "syncopate_cut", "syncopate_load_rows"})
    EXPECT_EQ(text.find(of_staging), std::string::npos) << of_staging;
  EXPECT_NE(text.find("syncopate_add_in_place("), std::string::npos);
}

TEST_P(InPlace, IsProvenAndRight) {
  const Plan plan = compiled(GetParam());
  const Proof proof = verify(plan);
  ASSERT_TRUE(proof.holds()) << proof.to_string();
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    RunOptions options;
    options.seed = seed;
    options.adversary = seed % 2 == 1;
    options.repeat = 3;
    const RunReport report = run_on_cpu_ranks(plan, options);
    ASSERT_EQ(report.outcome, Outcome::right) << "seed " << seed << ": " << report.message;
    EXPECT_EQ(testing::compare_sum_exactly(plan, report.last), "");
  }
}

/// The unfused operator adds in fp32 from +0 and rounds once; run_on_cpu_ranks compares with that, bit by bit.
TEST_P(InPlace, GivesTheBitsOfStaging) {
  RunOptions options;
  options.inputs = InputKind::reals;
  const RunReport in_place = run_on_cpu_ranks(compiled(GetParam()), options);
  const RunReport staged = run_on_cpu_ranks(compiled(GetParam(), "staging"), options);
  ASSERT_EQ(in_place.outcome, Outcome::right) << in_place.message;
  ASSERT_EQ(staged.outcome, Outcome::right) << staged.message;
  for (std::size_t rank = 0; rank < in_place.last.outputs.size(); ++rank)
    EXPECT_EQ(in_place.last.outputs[rank][2], staged.last.outputs[rank][2]);
}

TEST_P(InPlace, CompilesToTheSameBytes) {
  const std::string text = to_json(compiled(GetParam()));
  EXPECT_EQ(to_json(compiled(GetParam())), text);
  EXPECT_EQ(to_json(parse_plan(SourceFile("plan.json", text))), text);
  const bool is_default = GetParam().dtype != "fp32";
  EXPECT_EQ(sums_in_place(compiled(GetParam(), "")), is_default) << "memory adds fp32 without subnormal numbers";
}

INSTANTIATE_TEST_SUITE_P(Cases, InPlace, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name(); });

/// As tests/cuda/gpu_test.cpp runs it on a GPU.
Plan scaled(const char* dtype, const std::string& factors) {
  const testing::TemporaryFolder folder;
  const std::string text = testing::scaled_gemm(read_file(SYNCOPATE_SOURCE_DIR "/kernels/gemm.py"), factors);
  Plan plan =
      compile_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_rs.toml", {{"ranks", "2"},
                                                                        {"kernel.file", folder.write("gemm.py", text)},
                                                                        {"kernel.args.M", "64"},
                                                                        {"kernel.args.N", "32"},
                                                                        {"kernel.args.K", "256"},
                                                                        {"kernel.args.BLOCK_M", "16"},
                                                                        {"kernel.args.BLOCK_N", "32"},
                                                                        {"tensors.c.dtype", dtype}});
  EXPECT_TRUE(sums_in_place(plan));
  return plan;
}

RunOptions with_reals() {
  RunOptions options;
  options.inputs = InputKind::reals;
  return options;
}

/// The bits of all elements of the ranks' outputs, which have 16 each.
std::vector<std::uint16_t> bits_of(const RunReport& report) {
  std::vector<std::uint16_t> all;
  for (const std::vector<Bytes>& outputs : report.last.outputs) {
    std::vector<std::uint16_t> of_rank(outputs[2].size() / 2);
    std::memcpy(of_rank.data(), outputs[2].data(), outputs[2].size());
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  }
  return all;
}

TEST(InPlaceSubnormals, AreNoZeros) {
  struct Type {
    const char* dtype;
    const char* factors;
    int least_normal;  ///< its bits
  };
  for (const Type& each :
       {Type{"bf16", testing::kIntoSubnormalBf16, 1 << 7}, {"fp16", testing::kIntoSubnormalFp16, 1 << 10}}) {
    SCOPED_TRACE(each.dtype);
    Plan plan = scaled(each.dtype, each.factors);
    const RunReport report = run_on_cpu_ranks(plan, with_reals());
    ASSERT_EQ(report.outcome, Outcome::right) << report.message;
    const std::vector<std::uint16_t> bits = bits_of(report);
    ASSERT_EQ(bits.size(), 64U * 32U);
    const auto subnormal = std::count_if(bits.begin(), bits.end(), [&](std::uint16_t element) {
      const int magnitude = element & 0x7fff;
      return magnitude > 0 && magnitude < each.least_normal;
    });
    EXPECT_GT(subnormal, 64 * 32 * 9 / 10);
    testing::add_instead(plan, testing::kNothing);
    EXPECT_EQ(run_on_cpu_ranks(plan, with_reals()).outcome, Outcome::wrong_result);
  }
}

/// Zeros of both signs: a sum that starts from +0 is never -0.
TEST(InPlaceZeros, AreAllPositive) {
  for (const char* dtype : {"bf16", "fp16"}) {
    SCOPED_TRACE(dtype);
    Plan plan = scaled(dtype, testing::kIntoZeros);
    const RunReport report = run_on_cpu_ranks(plan, with_reals());
    ASSERT_EQ(report.outcome, Outcome::right) << report.message;
    EXPECT_EQ(bits_of(report), std::vector<std::uint16_t>(64 * 32, 0));
    testing::add_instead(plan, testing::kAsItIs);
    EXPECT_EQ(run_on_cpu_ranks(plan, with_reals()).outcome, Outcome::wrong_result);
  }
}

/// The compiler sees to it that a tile stores an element once; a plan says nothing of it.
TEST(InPlaceTwice, ASecondStoreIsNoticed) {
  Plan plan = compiled({"direct", "push", 2});
  ASSERT_EQ(run_on_cpu_ranks(plan, {}).outcome, Outcome::right);
  const std::string store =
      "            syncopate_add_in_place(c, row, column, first.to(c.dtype), syncopate_arrived)\n";
  std::string& text = plan.kernel.fused_source;
  ASSERT_NE(text.find(store), std::string::npos);
  text.insert(text.find(store), store);
  const RunReport report = run_on_cpu_ranks(plan, {});
  EXPECT_EQ(report.outcome, Outcome::bad_access);
  EXPECT_NE(report.message.find("wrote in the same launch"), std::string::npos) << report.message;
}

}  // namespace
}  // namespace syncopate
