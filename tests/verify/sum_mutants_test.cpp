// Every way of breaking a right plan with a reduced output is found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "syncopate/verify/verify.h"
#include "tests/support/mutate_sums.h"
#include "tests/support/reduce_builder.h"

namespace syncopate {
namespace {

using testing::Mutant;
using testing::ReduceOptions;
using testing::Route;
using testing::SumMutant;

std::vector<ReduceOptions> right_plans() {
  std::vector<ReduceOptions> all;
  for (const Route route : {Route::direct_push, Route::direct_pull, Route::ring_push, Route::ring_pull}) {
    for (const int ranks : {2, 3, 4}) {
      ReduceOptions options;
      options.ranks = ranks;
      options.route = route;
      options.rows = 8 * ranks;
      options.columns = 4;
      all.push_back(options);
      options.rows = 7 * ranks - 2;  // ragged: the last shard is smaller, tiles straddle shards
      options.tile_rows = 3;
      options.workers = 2;
      all.push_back(options);
      if (route == Route::ring_push || route == Route::ring_pull || ranks == 4) continue;
      options.rows = 6 * ranks;  // equal chunks: a later one needs all the room of an earlier one
      options.split = 3;
      options.staging_slots = 1;
      options.workers = 1;
      all.push_back(options);
    }
  }
  return all;
}

std::string describe(const ReduceOptions& options) {
  return fmt::format("route {}, {} ranks, {} rows, {} staging slots", static_cast<int>(options.route), options.ranks,
                     options.rows, options.staging_slots);
}

/// Some changes that break other plans may leave one with sums right: a transfer of a rank to itself may come twice,
/// and where ranks wait for room in the memory of others, waits imply so much that signals may be exchanged. The oracle
/// looks at those.
bool may_be_harmless(const ReduceOptions& options, const Mutant& mutant) {
  const bool pulls = options.route == Route::direct_pull || options.route == Route::ring_pull;
  if (mutant.kind == "duplicate transfer") return pulls;
  return options.staging_slots > 0 && mutant.kind == "swap signals";
}

void expect_verdict(const ReduceOptions& options, const Mutant& mutant, bool must_fail) {
  const Proof proof = verify(mutant.plan);
  EXPECT_TRUE(!must_fail || !proof.holds()) << describe(options) << ": " << mutant.kind << ": " << mutant.description;
  for (const Theorem& theorem : proof.theorems) EXPECT_NE(theorem.holds, theorem.evidence.empty());
  for (const Theorem& theorem : proof.theorems) EXPECT_EQ(theorem.holds, theorem.counterexample.empty());
}

TEST(SumMutants, ThoseThatMustBeWrongAreRejected) {
  for (const ReduceOptions& options : right_plans()) {
    const Plan plan = testing::hand_made_reduce(options);
    ASSERT_TRUE(verify(plan).holds()) << describe(options) << '\n' << verify(plan).to_string();
    for (const Mutant& mutant : testing::all_mutants(plan))
      expect_verdict(options, mutant, !mutant.may_be_valid && !may_be_harmless(options, mutant));
    for (const SumMutant& mutant : testing::sum_mutants(plan))
      expect_verdict(options, mutant, !mutant.may_be_valid || mutant.only_order);
  }
}

TEST(SumMutants, CoverEveryKind) {
  ReduceOptions options;
  options.ranks = 3;
  options.rows = 19;
  options.tile_rows = 3;
  std::set<std::string> kinds;
  for (const SumMutant& mutant : testing::sum_mutants(testing::hand_made_reduce(options))) kinds.insert(mutant.kind);
  const auto& known = testing::sum_mutation_kinds();
  EXPECT_EQ(kinds, std::set<std::string>(known.begin(), known.end()));
}

}  // namespace
}  // namespace syncopate
