// The verifier and an oracle that only watches agree about every small change of right plans: what is accepted never
// goes wrong, and what is refused can be seen to go wrong.
#include <gtest/gtest.h>

#include "syncopate/verify/verify.h"
#include "tests/support/mutate.h"
#include "tests/support/plan_builder.h"
#include "tests/verify/random_runs.h"

namespace syncopate {
namespace {

using testing::HandMadeOptions;
using testing::Route;

constexpr std::uint32_t kRunsOfAcceptedPlans = 20;
constexpr std::uint32_t kRunsOfRefusedPlans = 3000;  ///< the first bad one ends it; most plans need one or two

std::string first_bad_run(const Plan& plan, std::uint32_t runs) {
  for (std::uint32_t seed = 0; seed < runs; ++seed)
    if (std::string error = testing::run_at_random(plan, seed); !error.empty()) return error;
  return "";
}

void compare(const HandMadeOptions& options) {
  const Plan plan = testing::hand_made(options);
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(first_bad_run(plan, 100), "");
  int accepted = 0;
  int refused = 0;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) {
    const Proof proof = verify(mutant.plan);
    if (!proof.theorems.front().holds) continue;  // without form it cannot be run
    if (proof.holds()) {
      ++accepted;
      ASSERT_EQ(first_bad_run(mutant.plan, kRunsOfAcceptedPlans), "") << mutant.kind << ": " << mutant.description;
    } else {
      ++refused;
      EXPECT_NE(first_bad_run(mutant.plan, kRunsOfRefusedPlans), "")
          << mutant.kind << ": " << mutant.description << '\n'
          << proof.to_string();
    }
  }
  EXPECT_GT(accepted, 10);
  EXPECT_GT(refused, 50);
}

class Oracle : public ::testing::TestWithParam<Route> {};

TEST_P(Oracle, AgreesAboutTwoRaggedRanks) {
  HandMadeOptions options;
  options.route = GetParam();
  options.rows = 13;
  options.inner = 1;
  options.tile_rows = 3;
  options.workers = 2;
  compare(options);
}

TEST_P(Oracle, AgreesAboutThreeRanks) {
  HandMadeOptions options;
  options.route = GetParam();
  options.ranks = 3;
  options.rows = 12;
  options.inner = 1;
  options.columns = 4;
  options.tile_rows = 2;
  compare(options);
}

TEST_P(Oracle, AgreesAboutSeveralQueuesAndCounters) {
  HandMadeOptions options;
  options.route = GetParam();
  options.ranks = 4;
  options.rows = 22;
  options.inner = 1;
  options.columns = 1;
  options.tile_rows = 3;
  options.split = 2;
  options.workers = 2;
  options.queues = 2;
  options.counted = true;
  compare(options);
}

TEST_P(Oracle, AgreesAboutStreamedLoops) {
  HandMadeOptions options;
  options.route = GetParam();
  options.rows = 6;
  options.inner = 1;
  options.columns = 2;
  options.tile_rows = 2;
  options.tile_columns = 2;
  options.workers = 2;
  options.streamed = true;
  compare(options);
  options.ranks = 3;
  options.rows = 5;  // the last rank has none, or fewer
  options.split = 1;
  options.workers = 1;
  compare(options);
}

INSTANTIATE_TEST_SUITE_P(Routes, Oracle,
                         ::testing::Values(Route::direct_push, Route::direct_pull, Route::ring_push, Route::ring_pull));

}  // namespace
}  // namespace syncopate
