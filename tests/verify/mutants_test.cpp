// Every way of breaking a right plan is found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "syncopate/verify/verify.h"
#include "tests/support/mutate.h"
#include "tests/support/plan_builder.h"

namespace syncopate {
namespace {

using testing::HandMadeOptions;
using testing::Mutant;
using testing::Route;

std::vector<HandMadeOptions> right_plans() {
  std::vector<HandMadeOptions> all;
  for (const Route route : {Route::direct_push, Route::direct_pull, Route::ring_push, Route::ring_pull}) {
    for (const int ranks : {2, 3, 4}) {
      HandMadeOptions options;
      options.ranks = ranks;
      options.route = route;
      options.rows = 8 * ranks;
      options.columns = 4;
      all.push_back(options);
      options.rows = 7 * ranks - 2;  // ragged: the last shard is smaller, tiles straddle chunks
      options.tile_rows = 3;
      all.push_back(options);
      options.queues = 2;
      options.split = 3;
      options.workers = 1;
      if (route == Route::direct_push || route == Route::direct_pull) all.push_back(options);
      options.counted = true;
      if (route == Route::direct_push) all.push_back(options);
    }
  }
  return all;
}

std::string describe(const HandMadeOptions& options) {
  return fmt::format("route {}, {} ranks, {} rows, {} queues, counted {}", static_cast<int>(options.route),
                     options.ranks, options.rows, options.queues, options.counted);
}

TEST(Mutants, ThoseThatMustBeWrongAreRejected) {
  for (const HandMadeOptions& options : right_plans()) {
    const Plan plan = testing::hand_made(options);
    ASSERT_TRUE(verify(plan).holds()) << describe(options) << '\n' << verify(plan).to_string();
    for (const Mutant& mutant : testing::all_mutants(plan)) {
      const Proof proof = verify(mutant.plan);
      EXPECT_TRUE(mutant.may_be_valid || !proof.holds())
          << describe(options) << ": " << mutant.kind << ": " << mutant.description;
      for (const Theorem& theorem : proof.theorems) EXPECT_NE(theorem.holds, theorem.evidence.empty());
      for (const Theorem& theorem : proof.theorems) EXPECT_EQ(theorem.holds, theorem.counterexample.empty());
    }
  }
}

TEST(Mutants, CoverEveryKind) {
  HandMadeOptions options;
  options.route = Route::direct_pull;
  options.ranks = 3;
  options.rows = 24;
  const Plan plan = testing::hand_made(options);
  std::set<std::string> kinds;
  std::set<std::string> descriptions;
  for (const Mutant& mutant : testing::all_mutants(plan)) {
    kinds.insert(mutant.kind);
    EXPECT_TRUE(descriptions.insert(mutant.kind + mutant.description).second) << mutant.description;
  }
  options.streamed = true;
  for (const Mutant& mutant : testing::all_mutants(testing::hand_made(options))) kinds.insert(mutant.kind);
  // Additions of no one-shot sum: what becomes of those of right plans is for tests/driver/mutation_test.cpp.
  Plan with_additions = plan;
  with_additions.programs[0].additions = {{{{0, 12}, {0, 8}}, {}}, {{{12, 24}, {0, 8}}, {}}};
  for (const Mutant& mutant : testing::all_mutants(with_additions)) kinds.insert(mutant.kind);
  const auto& known = testing::mutation_kinds();
  EXPECT_EQ(kinds, std::set<std::string>(known.begin(), known.end()));
}

// Not every change is an error: a verifier that refuses everything would pass the tests above.
TEST(Mutants, HarmlessOnesAreAccepted) {
  HandMadeOptions options;
  options.ranks = 3;
  options.rows = 24;
  options.workers = 64;  // a tile each: no tile relies on the waits of an earlier one
  const Plan plan = testing::hand_made(options);
  std::map<std::string, int> accepted;
  for (const Mutant& mutant : testing::all_mutants(plan)) {
    if (!mutant.may_be_valid || !verify(mutant.plan).holds()) continue;
    ++accepted[mutant.kind];
  }
  const int slots = static_cast<int>(plan.tiles.size());
  EXPECT_GE(accepted["reorder tiles"], plan.ranks * slots);
  EXPECT_EQ(accepted["change workers"], 3);
  EXPECT_GT(accepted["swap transfers"], 0);
}

}  // namespace
}  // namespace syncopate
