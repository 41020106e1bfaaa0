// A prepared rank, its mailboxes and its graphs on a simulated GPU, where everything that may happen in any order
// happens in a random one.
#include "syncopate/cuda/rank_on_gpu.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "repository.h"
#include "simulated_ranks.h"
#include "syncopate/core/error.h"
#include "syncopate/cuda/device_code.h"
#include "syncopate/cuda/rank_watch.h"
#include "syncopate/kernel/tile_kernel.h"
#include "syncopate/plan/compile.h"

namespace syncopate::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Without its fused text, which the simulation does not need.
Plan compiled(const std::string& file, const std::vector<Override>& overrides) {
  const OperatorStatement statement = read_operator(testing::operator_file(file), overrides);
  return compile_plan(statement, TileKernel::read(statement.kernel_file, statement.kernel_function));
}

Plan gather(const std::string& algorithm, const std::string& initiator, int ranks) {
  return compiled("ag_gemm.toml", {{"ranks", std::to_string(ranks)},
                                   {"kernel.args.M", std::to_string(32 * ranks)},
                                   {"kernel.args.N", "32"},
                                   {"kernel.args.K", "16"},
                                   {"kernel.args.BLOCK_M", "16"},
                                   {"kernel.args.BLOCK_N", "16"},
                                   {"kernel.args.BLOCK_K", "16"},
                                   {"launch.workers", "3"},
                                   {"communicate.a.algorithm", algorithm},
                                   {"communicate.a.initiator", initiator}});
}

Plan reduce(const std::string& algorithm, const std::string& initiator, int ranks, int rows = 0,
            const std::vector<Override>& more = {}) {
  std::vector<Override> overrides = {{"ranks", std::to_string(ranks)},
                                     {"kernel.args.M", std::to_string(rows > 0 ? rows : 32 * ranks)},
                                     {"kernel.args.N", "32"},
                                     {"kernel.args.K", "16"},
                                     {"kernel.args.BLOCK_M", "16"},
                                     {"kernel.args.BLOCK_N", "16"},
                                     {"kernel.args.BLOCK_K", "16"},
                                     {"launch.workers", "3"},
                                     {"communicate.c.algorithm", algorithm},
                                     {"communicate.c.initiator", initiator}};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return compiled("gemm_rs.toml", overrides);
}

constexpr Issue kEveryIssue[] = {Issue::steps, Issue::graph, Issue::captured};

void expect_right(const Plan& plan, std::uint64_t seed) {
  for (const Issue issue : kEveryIssue) {
    SCOPED_TRACE(fmt::format("issue {}", static_cast<int>(issue)));
    SimulatedRanks ranks(plan, issue, seed);
    for (int stretch = 0; stretch < 2; ++stretch) ASSERT_TRUE(ranks.run(6)) << "stuck";
    EXPECT_THAT(ranks.problems, IsEmpty());
    EXPECT_EQ(ranks.machine().kernels_started["stand_in"], 12 * plan.ranks);
    EXPECT_EQ(ranks.machine().graphs_launched, issue == Issue::steps ? 0 : 12 * plan.ranks);
  }
}

TEST(RankOnGpu, GathersInEveryInterleaving) {
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {1, 2, 3, 4})
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
          SCOPED_TRACE(fmt::format("{} {} {} ranks, seed {}", algorithm, initiator, ranks, seed));
          expect_right(gather(algorithm, initiator, ranks), seed);
        }
}

TEST(RankOnGpu, ReducesInEveryInterleaving) {
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {1, 2, 3, 4})
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
          SCOPED_TRACE(fmt::format("{} {} {} ranks, seed {}", algorithm, initiator, ranks, seed));
          expect_right(reduce(algorithm, initiator, ranks), seed);
        }
}

}  // namespace
}  // namespace syncopate::cuda
