// Whole operators on CPU ranks: every kernel, algorithm, initiator, rank count, split and ragged size; proven, executed
// under many interleavings, and compared with products computed independently of Syncopate.
#include <gtest/gtest.h>

#include <ostream>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/gemm_reference.h"

namespace syncopate {
namespace {

struct Case {
  std::string kernel = "ag_gemm";
  int ranks = 4;
  std::string algorithm = "direct";
  std::string initiator = "push";
  int split = 2;
  int m = 96;
  int n = 64;
  int k = 64;
  int workers = 3;
  bool gather_b = false;  ///< b too, along its columns, pulled in two chunks
  int per_node = 0;       ///< ranks of a node, for algorithms that know nodes

  std::string name() const {
    return kernel + "_" + std::to_string(ranks) + "ranks_" + algorithm + "_" + initiator + "_split" +
           std::to_string(split) + "_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + "_" +
           std::to_string(workers) + "workers" + (gather_b ? "_and_b" : "") +
           (per_node > 0 ? "_nodes_of_" + std::to_string(per_node) : "");
  }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name(); }

Plan compiled(const Case& c) {
  const bool helper = c.kernel == "ag_gemm_split_helper";
  const std::string tensor = helper ? "x" : "a";
  std::vector<Override> overrides = testing::product_overrides({c.m, c.n, c.k}, c.ranks, c.workers, helper);
  overrides.insert(overrides.end(), {{"communicate." + tensor + ".algorithm", c.algorithm},
                                     {"communicate." + tensor + ".initiator", c.initiator},
                                     {"communicate." + tensor + ".split", std::to_string(c.split)}});
  if (c.kernel == "ag_gemm") overrides.push_back({"kernel.args.BLOCK_N", "32"});  // it stores quarters of tiles
  if (c.per_node > 0) overrides.push_back({"communicate." + tensor + ".ranks_per_node", std::to_string(c.per_node)});
  if (c.gather_b)
    overrides.insert(overrides.end(), {{"tensors.b.before", "\"shard(1)\""},
                                       {"tensors.b.inside", "replicate"},
                                       {"communicate.b.initiator", "pull"},
                                       {"communicate.b.split", "2"}});
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/" + c.kernel + ".toml", overrides);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
      for (const char* initiator : {"push", "pull"})
        for (const int split : {1, 2, 3, 5}) {
          Case c;
          c.ranks = ranks;
          c.algorithm = algorithm;
          c.initiator = initiator;
          c.split = split;
          cases.push_back(c);
          // Ragged in every axis, shards that no tile border meets, one program per tile.
          c.kernel = "ag_gemm_pointers";
          c.m = 83;
          c.n = 37;
          c.k = 29;
          c.workers = 4;
          cases.push_back(c);
        }
  for (const int ranks : {2, 3, 8})
    for (const char* initiator : {"push", "pull"}) {
      Case c;
      c.kernel = "ag_gemm_split_helper";
      c.ranks = ranks;
      c.initiator = initiator;
      cases.push_back(c);
      c.kernel = "ag_gemm";  // descriptors clip: ragged sizes work there too
      c.m = 70;
      c.n = 40;
      c.k = 24;
      cases.push_back(c);
    }
  // Two gathered tensors, each with a schedule of its own.
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"}) {
      Case both;
      both.algorithm = algorithm;
      both.initiator = initiator;
      both.gather_b = true;
      cases.push_back(both);
    }
  // Algorithms with merged chunks, two kinds of link, or both; ragged.
  for (const char* algorithm : {"double_ring", "recursive_doubling", "hierarchical", "interleaved"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {2, 3, 6, 8}) {
        Case c;
        c.kernel = "ag_gemm_pointers";
        c.algorithm = algorithm;
        c.initiator = initiator;
        c.ranks = ranks;
        c.m = 83;
        c.n = 37;
        c.k = 29;
        c.split = 1 + ranks % 3;
        const std::string name = algorithm;
        if (name == "hierarchical" || name == "double_ring") c.per_node = ranks == 3 ? 3 : 2;
        cases.push_back(c);
      }
  // More ranks than shards with rows: torch.chunk leaves the last ranks empty.
  Case empty;
  empty.kernel = "ag_gemm_pointers";
  empty.ranks = 8;
  empty.m = 17;
  empty.split = 1;
  cases.push_back(empty);
  return cases;
}

class WholeOperator : public ::testing::TestWithParam<Case> {};

TEST_P(WholeOperator, IsProvenAndRight) {
  const Plan plan = compiled(GetParam());
  const Proof proof = verify(plan);
  ASSERT_TRUE(proof.holds()) << proof.to_string();
  for (const std::uint64_t seed : {0U, 1U}) {
    RunOptions options;
    options.seed = seed;
    options.adversary = seed == 1;
    options.repeat = 2;
    const RunReport report = run_on_cpu_ranks(plan, options);
    ASSERT_EQ(report.outcome, Outcome::right) << report.message;
    EXPECT_EQ(report.tiles, 2 * static_cast<std::int64_t>(plan.tiles.size()) * plan.ranks);
    for (int rank = 0; rank < plan.ranks; ++rank) EXPECT_EQ(testing::compare_exactly(plan, report.last, rank), "");
  }
  RunOptions reals;
  reals.inputs = InputKind::reals;
  const RunReport report = run_on_cpu_ranks(plan, reals);
  ASSERT_EQ(report.outcome, Outcome::right) << report.message;
  for (int rank = 0; rank < plan.ranks; ++rank) EXPECT_EQ(testing::compare_with_bound(plan, report.last, rank), "");
}

TEST_P(WholeOperator, CompilesToTheSameBytes) {
  const Plan plan = compiled(GetParam());
  const std::string text = to_json(plan);
  EXPECT_EQ(to_json(compiled(GetParam())), text);
  EXPECT_EQ(to_json(parse_plan(SourceFile("plan.json", text))), text);
}

INSTANTIATE_TEST_SUITE_P(Cases, WholeOperator, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name(); });

/// Two hundred interleavings of each family, half of them hostile.
class ManySeeds : public ::testing::TestWithParam<Case> {};

TEST_P(ManySeeds, EveryInterleavingIsRight) {
  const Plan plan = compiled(GetParam());
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RunOptions options;
    options.seed = seed;
    options.adversary = seed % 2 == 1;
    options.repeat = 2;
    const RunReport report = run_on_cpu_ranks(plan, options);
    ASSERT_EQ(report.outcome, Outcome::right) << "seed " << seed << ": " << report.message;
  }
}

std::vector<Case> seed_cases() {
  std::vector<Case> cases;
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"}) {
      Case c;
      c.algorithm = algorithm;
      c.initiator = initiator;
      c.kernel = "ag_gemm_pointers";
      c.ranks = 3;
      c.m = 50;
      c.n = 24;
      c.k = 20;
      cases.push_back(c);
    }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, ManySeeds, ::testing::ValuesIn(seed_cases()),
                         [](const auto& test) { return test.param.name(); });

TEST(Determinism, SameSeedSameRun) {
  const Plan plan = compiled({});
  RunOptions options;
  options.seed = 5;
  const RunReport first = run_on_cpu_ranks(plan, options);
  const RunReport second = run_on_cpu_ranks(plan, options);
  EXPECT_EQ(first.steps, second.steps);
  EXPECT_EQ(first.last.outputs, second.last.outputs);
  options.seed = 6;
  EXPECT_NE(run_on_cpu_ranks(plan, options).last.inputs, first.last.inputs) << "another seed, other inputs";
}

}  // namespace
}  // namespace syncopate
