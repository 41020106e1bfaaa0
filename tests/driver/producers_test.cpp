// Whole operators whose output is reduced, on CPU ranks: every kernel, algorithm, initiator, rank count, split, ragged
// size and memory budget; proven, executed under many interleavings, and compared with sums of products computed
// independently of Syncopate.
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
  std::string kernel = "gemm";
  int ranks = 4;
  std::string algorithm = "direct";
  std::string initiator = "push";
  int split = 2;
  int m = 96;
  int n = 48;
  int k = 32;
  int workers = 3;
  int chunks_staged = 0;    ///< of each peer, by a memory budget; 0: no budget
  bool gather_a = false;    ///< a too, along its rows: gathered, multiplied, summed
  int per_node = 0;         ///< ranks of a node, for algorithms that know nodes
  bool all_reduce = false;  ///< every rank is to have the whole sum

  std::string name() const {
    return kernel + "_" + std::to_string(ranks) + "ranks_" + algorithm + "_" + initiator + "_split" +
           std::to_string(split) + "_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + "_" +
           std::to_string(workers) + "workers" + (chunks_staged > 0 ? "_staging" + std::to_string(chunks_staged) : "") +
           (gather_a ? "_gather_a" : "") + (per_node > 0 ? "_nodes_of_" + std::to_string(per_node) : "") +
           (all_reduce ? "_all_reduce" : "");
  }
  /// Bytes of the largest chunks of all peers, so many of each.
  std::int64_t budget() const {
    const std::int64_t shard = (m + ranks - 1) / ranks;
    const std::int64_t peers = algorithm == "direct" ? ranks - 1 : algorithm == "ring" ? 1 : 2;
    return peers * chunks_staged * ((shard + split - 1) / split) * n * 2;
  }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name(); }

Plan compiled(const Case& c) {
  const bool helper = c.kernel == "gemm_split_helper";
  const std::string file = helper               ? "/tests/driver/gemm_rs_split_helper.toml"
                           : c.kernel == "gemm" ? "/operators/gemm_rs.toml"
                                                : "/operators/gemm_rs_pointers.toml";
  const std::string output = helper ? "communicate.y." : "communicate.c.";
  std::vector<Override> overrides = testing::product_overrides({c.m, c.n, c.k}, c.ranks, c.workers, helper);
  overrides.insert(overrides.end(), {{output + "algorithm", c.algorithm},
                                     {output + "initiator", c.initiator},
                                     {output + "split", std::to_string(c.split)}});
  if (c.kernel == "gemm") overrides.push_back({"kernel.args.BLOCK_N", "32"});  // it stores quarters of tiles
  if (c.per_node > 0) overrides.push_back({output + "ranks_per_node", std::to_string(c.per_node)});
  if (c.chunks_staged > 0) overrides.push_back({output + "memory_budget", std::to_string(c.budget())});
  if (c.gather_a)
    overrides.insert(overrides.end(), {{"tensors.a.before", "\"shard(0)\""}, {"tensors.a.inside", "replicate"}});
  if (c.all_reduce) overrides.push_back({helper ? "tensors.y.after" : "tensors.c.after", "replicate"});
  return compile_operator(SYNCOPATE_SOURCE_DIR + file, overrides);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8})
    for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
      for (const char* initiator : {"push", "pull"})
        for (const int split : {1, 2, 3, 5}) {
          // All splits for some rank counts, one for the others.
          if (ranks != 2 && ranks != 3 && ranks != 8 && split != 1 + ranks % 3) continue;
          Case c;
          c.ranks = ranks;
          c.algorithm = algorithm;
          c.initiator = initiator;
          c.split = split;
          c.n = 32;
          cases.push_back(c);
          // Ragged in every axis, shards that no tile border meets, one program per tile.
          c.kernel = "gemm_pointers";
          c.m = 83;
          c.n = 37;
          c.k = 29;
          c.workers = 4;
          cases.push_back(c);
        }
  for (const int ranks : {2, 3, 8})
    for (const char* initiator : {"push", "pull"}) {
      Case c;
      c.kernel = "gemm_split_helper";
      c.ranks = ranks;
      c.initiator = initiator;
      cases.push_back(c);
      c.kernel = "gemm";  // descriptors clip: ragged sizes work there too
      c.m = 70;
      c.n = 40;
      c.k = 24;
      cases.push_back(c);
    }
  // Staging memory that is used again. Room for one chunk asks for chunks of whole tiles; with room for two the last
  // shard may be smaller, and its chunks may end inside tiles.
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {2, 3, 4})
        for (const int staged : {1, 2}) {
          Case c;
          c.kernel = "gemm_pointers";
          c.algorithm = algorithm;
          c.initiator = initiator;
          c.ranks = ranks;
          c.m = 16 * 5 * ranks - (staged == 1 ? 0 : 5);
          c.n = 20;
          c.k = 16;
          c.split = 5;
          c.workers = 1 + 3 * (staged - 1);
          c.chunks_staged = staged;
          cases.push_back(c);
        }
  // A gathered input beside the reduced output.
  for (const char* algorithm : {"direct", "ring"})
    for (const char* initiator : {"push", "pull"}) {
      Case both;
      both.algorithm = algorithm;
      both.initiator = initiator;
      both.gather_a = true;
      both.ranks = 3;
      cases.push_back(both);
    }
  // Algorithms with merged chunks, two kinds of link, or both; ragged.
  for (const char* algorithm : {"double_ring", "recursive_halving", "hierarchical", "interleaved"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {2, 3, 6, 8}) {
        Case c;
        c.kernel = "gemm_pointers";
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
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"}) {
    Case empty;
    empty.kernel = "gemm_pointers";
    empty.algorithm = algorithm;
    empty.ranks = 8;
    empty.m = 17;
    empty.split = 1;
    cases.push_back(empty);
  }
  // All of the sum on every rank: the same, with fewer splits for each rank count.
  const std::vector<Case> scattered = cases;
  for (const Case& c : scattered) {
    if (c.chunks_staged == 0 && !c.gather_a && c.m > 17 && c.split != 1 + c.ranks % 3) continue;
    cases.push_back(c);
    cases.back().all_reduce = true;
  }
  return cases;
}

std::int64_t slots_of(const Plan& plan) {
  std::int64_t slots = 0;
  for (const RankProgram& program : plan.programs) slots += static_cast<std::int64_t>(program.slots.size());
  return slots;
}

class WholeProducer : public ::testing::TestWithParam<Case> {};

TEST_P(WholeProducer, IsProvenAndRight) {
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
    EXPECT_EQ(report.tiles, 2 * slots_of(plan));
    EXPECT_EQ(testing::compare_sum_exactly(plan, report.last), "");
  }
  RunOptions reals;
  reals.inputs = InputKind::reals;
  const RunReport report = run_on_cpu_ranks(plan, reals);
  ASSERT_EQ(report.outcome, Outcome::right) << report.message;
  EXPECT_EQ(testing::compare_sum_with_bound(plan, report.last), "");
}

TEST_P(WholeProducer, CompilesToTheSameBytes) {
  const Plan plan = compiled(GetParam());
  const std::string text = to_json(plan);
  EXPECT_EQ(to_json(compiled(GetParam())), text);
  EXPECT_EQ(to_json(parse_plan(SourceFile("plan.json", text))), text);
}

TEST_P(WholeProducer, StaysInItsBudget) {
  const Case& c = GetParam();
  const Plan plan = compiled(c);
  ASSERT_GE(landing_buffer(plan), 0);
  if (c.chunks_staged == 0) return;
  const int staging = staging_buffer(plan);
  ASSERT_GE(staging, 0);
  const std::int64_t bytes = volume(plan.buffer(staging).shape) * 2;
  EXPECT_LE(bytes, c.budget());
  Case free = c;
  free.chunks_staged = 0;
  EXPECT_GT(extra_memory(compiled(free)).staging, bytes) << "the budget takes something away";
}

INSTANTIATE_TEST_SUITE_P(Cases, WholeProducer, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name(); });

/// Whatever the algorithm, all ranks have the same bits.
TEST_P(WholeProducer, OfAllReducesGivesTheSameBitsEverywhere) {
  const Plan plan = compiled(GetParam());
  if (!GetParam().all_reduce) return;
  RunOptions options;
  options.inputs = InputKind::reals;
  const RunReport report = run_on_cpu_ranks(plan, options);
  ASSERT_EQ(report.outcome, Outcome::right) << report.message;
  for (const std::vector<Bytes>& outputs : report.last.outputs) EXPECT_EQ(outputs[2], report.last.outputs[0][2]);
  // One owner adds each element, in one order.
  for (const Sum& sum : plan.sums)
    for (const Sum& other : plan.sums)
      if (const Region common = intersect(sum.region, other.region); !common.empty()) {
        EXPECT_EQ(sum.order, other.order);
      }
}

/// Two hundred interleavings of each family, half of them hostile.
class ManyProducerSeeds : public ::testing::TestWithParam<Case> {};

TEST_P(ManyProducerSeeds, EveryInterleavingIsRight) {
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
  for (const int staged : {0, 1})
    for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
      for (const char* initiator : {"push", "pull"}) {
        Case c;
        c.algorithm = algorithm;
        c.initiator = initiator;
        c.kernel = "gemm_pointers";
        c.ranks = 3;
        c.m = 16 * 3 * 3 - (staged == 1 ? 0 : 7);
        c.n = 20;
        c.k = 16;
        c.split = 3;
        c.chunks_staged = staged;
        cases.push_back(c);
        c.all_reduce = true;
        cases.push_back(c);
      }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, ManyProducerSeeds, ::testing::ValuesIn(seed_cases()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace syncopate
