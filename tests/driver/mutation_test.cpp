// Mutated plans. Each one is either rejected by verify or right under every interleaving tried; every dropped wait is
// rejected (waits are minimal); and CPU ranks, which know nothing of verify, catch every rejected mutant themselves.
#include <gtest/gtest.h>

#include <map>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/verify/verify.h"
#include "tests/support/mutate.h"

namespace syncopate {
namespace {

struct Family {
  std::string algorithm;
  std::string initiator;
  int ranks;
  bool gather_b = false;
  std::string name() const {
    return algorithm + "_" + initiator + "_" + std::to_string(ranks) + "ranks" + (gather_b ? "_and_b" : "");
  }
};

Plan compiled(const Family& family) {
  std::vector<Override> overrides = {{"ranks", std::to_string(family.ranks)},
                                     {"kernel.args.M", "44"},
                                     {"kernel.args.N", "24"},
                                     {"kernel.args.K", "20"},
                                     {"kernel.args.BLOCK_M", "16"},
                                     {"kernel.args.BLOCK_N", "16"},
                                     {"kernel.args.BLOCK_K", "16"},
                                     {"launch.workers", "2"},
                                     {"communicate.a.algorithm", family.algorithm},
                                     {"communicate.a.initiator", family.initiator},
                                     {"communicate.a.split", "2"}};
  if (family.gather_b)
    overrides.insert(overrides.end(), {{"tensors.b.before", "\"shard(1)\""}, {"tensors.b.inside", "replicate"}});
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm_pointers.toml", overrides);
}

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

class Mutations : public ::testing::TestWithParam<Family> {};

TEST_P(Mutations, VerifyAndCpuRanksAgree) {
  const Plan plan = compiled(GetParam());
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(caught_by_cpu_ranks(plan, 5), "");
  std::map<std::string, std::pair<int, int>> counts;  // kind -> rejected, all
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) {
    const Proof proof = verify(mutant.plan);
    auto& [rejected, all] = counts[mutant.kind];
    ++all;
    rejected += proof.holds() ? 0 : 1;
    if (!mutant.may_be_valid) {
      EXPECT_FALSE(proof.holds()) << "accepted: " << mutant.description;
    }
    const std::string caught = caught_by_cpu_ranks(mutant.plan, 4);
    if (proof.holds())
      EXPECT_EQ(caught, "") << "verify accepts, CPU ranks do not: " << mutant.description;
    else
      EXPECT_NE(caught, "") << "CPU ranks do not notice: " << mutant.description << '\n' << proof.to_string();
  }
  for (const auto& [kind, count] : counts)
    std::printf("  %-40s %d of %d rejected\n", kind.c_str(), count.first, count.second);
}

std::vector<Family> families() {
  std::vector<Family> all;
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {2, 3}) all.push_back({algorithm, initiator, ranks, false});
  all.push_back({"ring", "push", 2, true});
  all.push_back({"direct", "pull", 2, true});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Families, Mutations, ::testing::ValuesIn(families()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace syncopate
