// Right plans with reduced outputs are proven right.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/verify/verify.h"
#include "tests/support/reduce_builder.h"

namespace syncopate {
namespace {

using ::testing::HasSubstr;
using testing::ReduceOptions;
using testing::Route;

constexpr Route kRoutes[] = {Route::direct_push, Route::direct_pull, Route::ring_push, Route::ring_pull};

void expect_proof(const ReduceOptions& options) {
  const Proof proof = verify(testing::hand_made_reduce(options));
  ASSERT_EQ(proof.theorems.size(), 6u);
  ASSERT_TRUE(proof.holds()) << fmt::format("route {}, {} ranks, split {}, {} rows, {} workers, {} staging slots\n",
                                            static_cast<int>(options.route), options.ranks, options.split, options.rows,
                                            options.workers, options.staging_slots)
                             << proof.to_string();
  ASSERT_THAT(proof.to_string(), HasSubstr("waits, 0 of them redundant"));
}

TEST(RightSums, EveryRouteAndNumberOfRanks) {
  for (const Route route : kRoutes) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (const int split : {1, 2, 3}) {
        ReduceOptions options;
        options.ranks = ranks;
        options.route = route;
        options.split = split;
        options.rows = 8 * ranks;
        expect_proof(options);
      }
    }
  }
}

TEST(RightSums, RaggedShardsChunksAndTiles) {
  for (const Route route : kRoutes) {
    for (const std::int64_t rows : {1, 3, 7, 13, 29}) {
      for (const int workers : {1, 2, 64}) {
        ReduceOptions options;
        options.ranks = 4;
        options.route = route;
        options.rows = rows;
        options.columns = 11;
        options.tile_rows = 3;
        options.split = 3;
        options.workers = workers;
        expect_proof(options);
      }
    }
  }
}

TEST(RightSums, StagingMemoryThatIsReused) {
  for (const Route route : {Route::direct_push, Route::direct_pull}) {
    for (const int slots : {1, 2}) {
      for (const std::int64_t rows : {32, 29}) {
        for (const int workers : {1, 3, 64}) {
          ReduceOptions options;
          options.ranks = 3;
          options.route = route;
          options.rows = rows;
          options.tile_rows = 3;
          options.split = 4;
          options.workers = workers;
          options.staging_slots = slots;
          expect_proof(options);
        }
      }
    }
  }
}

}  // namespace
}  // namespace syncopate
