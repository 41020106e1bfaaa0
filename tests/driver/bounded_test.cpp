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
#include "syncopate/verify/verify.h"
#include "tests/driver/attention_reference.h"
#include "tests/driver/right_run.h"
#include "tests/support/mutate.h"

namespace syncopate {
namespace {

using testing::AttentionSizes;
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

class BoundedMutations : public ::testing::TestWithParam<Bounded> {};

TEST_P(BoundedMutations, VerifyAndCpuRanksAgree) {
  const Plan plan = compiled(GetParam());
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(caught_by_cpu_ranks(plan, 3), "");
  int refused = 0;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) {
    const Proof proof = verify(mutant.plan);
    if (!mutant.may_be_valid) {
      EXPECT_FALSE(proof.holds()) << "accepted: " << mutant.description;
    }
    const std::string caught = caught_by_cpu_ranks(mutant.plan, 4);
    if (proof.holds()) {
      EXPECT_EQ(caught, "") << "verify accepts, CPU ranks do not: " << mutant.description;
    } else {
      ++refused;
      EXPECT_NE(caught, "") << "CPU ranks do not notice: " << mutant.description << '\n' << proof.to_string();
    }
  }
  EXPECT_GT(refused, 0);
}

Bounded small(const std::string& algorithm, const std::string& initiator, int ranks, int kept) {
  Bounded c;
  c.algorithm = algorithm;
  c.initiator = initiator;
  c.ranks = ranks;
  c.kept = kept;
  c.split = 1;
  c.q_length = 20;
  c.length = 24;
  c.heads = 3;
  c.group = 1;
  c.workers = 2;
  return c;
}

INSTANTIATE_TEST_SUITE_P(Cases, BoundedMutations,
                         ::testing::Values(small("direct", "push", 2, 1), small("direct", "pull", 2, 2),
                                           small("ring", "push", 3, 1), small("ring", "pull", 3, 2),
                                           small("bidirectional_ring", "push", 3, 2)),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace syncopate
