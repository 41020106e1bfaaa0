// Plans made by hand whose output is reduced: c = a b on every rank, summed over the ranks, rank r's shard of the rows
// of the sum left with rank r. Right, and with no wait too many, so that tests can break them. Shards and chunks need
// not end where tiles do: then tiles stand in the order several times, each time keeping other rows.
#pragma once

#include <cstdint>

#include "syncopate/plan/plan.h"
#include "tests/support/plan_builder.h"

namespace syncopate::testing {

struct ReduceOptions {
  int ranks = 2;
  Route route = Route::direct_push;
  std::int64_t rows = 16;    ///< of a and c
  std::int64_t inner = 4;    ///< of each rank's own a and b
  std::int64_t columns = 8;  ///< of b and c
  std::int64_t tile_rows = 4;
  std::int64_t tile_columns = 4;
  int split = 2;  ///< chunks per shard
  int workers = 3;
  /// Direct routes: so many chunks of each source fit in the staging buffer, and later ones reuse the room of earlier
  /// ones. 0: all fit.
  int staging_slots = 0;
};

/// Buffers a, b, c and, with more than one rank, the staging buffer. The kernel's part has no texts.
Plan hand_made_reduce(const ReduceOptions& options);

}  // namespace syncopate::testing
