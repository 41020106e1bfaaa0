// Right plans are proven right.
#include <gtest/gtest.h>

#include "syncopate/verify/verify.h"
#include "tests/support/plan_builder.h"

namespace syncopate {
namespace {

using testing::HandMadeOptions;
using testing::Route;

constexpr Route kRoutes[] = {Route::direct_push, Route::direct_pull, Route::ring_push, Route::ring_pull};

TEST(RightPlans, EveryRouteAndNumberOfRanks) {
  for (const Route route : kRoutes) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (const int split : {1, 2, 3}) {
        HandMadeOptions options;
        options.ranks = ranks;
        options.route = route;
        options.split = split;
        options.rows = 8 * ranks;
        const Proof proof = verify(testing::hand_made(options));
        ASSERT_EQ(proof.theorems.size(), 6u);
        ASSERT_TRUE(proof.holds()) << "route " << int(route) << ", " << ranks << " ranks, split " << split << '\n'
                                   << proof.to_string();
      }
    }
  }
}

TEST(RightPlans, StreamedLoops) {
  for (const Route route : kRoutes)
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (const int split : {1, 3}) {
        HandMadeOptions options;
        options.ranks = ranks;
        options.route = route;
        options.split = split;
        options.rows = 8 * ranks - 3;
        options.streamed = true;
        const Proof proof = verify(testing::hand_made(options));
        ASSERT_TRUE(proof.holds()) << "route " << int(route) << ", " << ranks << " ranks, split " << split << '\n'
                                   << proof.to_string();
      }
}

TEST(RightPlans, RaggedShardsChunksAndTiles) {
  for (const Route route : kRoutes) {
    for (const std::int64_t rows : {1, 3, 7, 13, 29}) {
      HandMadeOptions options;
      options.ranks = 4;
      options.route = route;
      options.rows = rows;
      options.inner = 5;
      options.columns = 11;
      options.tile_rows = 3;
      options.split = 3;
      const Proof proof = verify(testing::hand_made(options));
      ASSERT_TRUE(proof.holds()) << "route " << int(route) << ", " << rows << " rows\n" << proof.to_string();
    }
  }
}

}  // namespace
}  // namespace syncopate
