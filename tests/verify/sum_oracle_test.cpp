// The verifier and the oracle agree about every small change of right plans with reduced outputs.
#include <gtest/gtest.h>

#include "syncopate/verify/verify.h"
#include "tests/support/mutate_sums.h"
#include "tests/support/reduce_builder.h"
#include "tests/verify/random_runs.h"

namespace syncopate {
namespace {

using testing::Mutant;
using testing::ReduceOptions;
using testing::Route;

constexpr std::uint32_t kRunsOfAcceptedPlans = 20;
constexpr std::uint32_t kRunsOfRefusedPlans = 2000;  ///< the first bad one ends it; most plans need one or two

std::string first_bad_run(const Plan& plan, std::uint32_t runs) {
  for (std::uint32_t seed = 0; seed < runs; ++seed)
    if (std::string error = testing::run_at_random(plan, seed); !error.empty()) return error;
  return "";
}

struct Verdicts {
  int accepted = 0;
  int refused = 0;
};

void compare(const Mutant& mutant, Verdicts& verdicts) {
  const Proof proof = verify(mutant.plan);
  if (!proof.theorems.front().holds) return;  // without form it cannot be run
  if (proof.holds()) {
    ++verdicts.accepted;
    EXPECT_EQ(first_bad_run(mutant.plan, kRunsOfAcceptedPlans), "") << mutant.kind << ": " << mutant.description;
  } else {
    ++verdicts.refused;
    EXPECT_NE(first_bad_run(mutant.plan, kRunsOfRefusedPlans), "") << mutant.kind << ": " << mutant.description << '\n'
                                                                   << proof.to_string();
  }
}

void compare_all(const ReduceOptions& options) {
  const Plan plan = testing::hand_made_reduce(options);
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(first_bad_run(plan, 100), "");
  Verdicts verdicts;
  for (const Mutant& mutant : testing::all_mutants(plan)) compare(mutant, verdicts);
  for (const testing::SumMutant& mutant : testing::sum_mutants(plan)) compare(mutant, verdicts);
  EXPECT_GT(verdicts.accepted, 5);
  EXPECT_GT(verdicts.refused, 50);
}

class SumOracle : public ::testing::TestWithParam<Route> {};

TEST_P(SumOracle, AgreesAboutTwoRaggedRanks) {
  ReduceOptions options;
  options.route = GetParam();
  options.rows = 13;
  options.inner = 1;
  options.columns = 4;
  options.tile_rows = 3;
  options.tile_columns = 2;
  options.workers = 2;
  compare_all(options);
}

TEST_P(SumOracle, AgreesAboutThreeRanks) {
  ReduceOptions options;
  options.route = GetParam();
  options.ranks = 3;
  options.rows = 11;
  options.inner = 1;
  options.columns = 1;
  options.tile_rows = 3;
  options.split = 1;
  options.workers = 1;
  compare_all(options);
}

class SumOracleOfReuse : public ::testing::TestWithParam<Route> {};

TEST_P(SumOracleOfReuse, AgreesAboutRoomForOneChunk) {
  ReduceOptions options;
  options.route = GetParam();
  options.rows = 12;
  options.inner = 1;
  options.columns = 2;
  options.tile_rows = 2;
  options.tile_columns = 1;
  options.split = 3;
  options.workers = 3;
  options.staging_slots = 1;
  compare_all(options);
}

TEST_P(SumOracleOfReuse, AgreesAboutRoomForTwoRaggedOnes) {
  ReduceOptions options;
  options.route = GetParam();
  options.ranks = 3;
  options.rows = 17;
  options.inner = 1;
  options.columns = 1;
  options.tile_rows = 4;
  options.tile_columns = 1;
  options.split = 3;
  options.workers = 2;
  options.staging_slots = 2;
  compare_all(options);
}

INSTANTIATE_TEST_SUITE_P(Routes, SumOracle,
                         ::testing::Values(Route::direct_push, Route::direct_pull, Route::ring_push, Route::ring_pull));
INSTANTIATE_TEST_SUITE_P(Routes, SumOracleOfReuse, ::testing::Values(Route::direct_push, Route::direct_pull));

}  // namespace
}  // namespace syncopate
