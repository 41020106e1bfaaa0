// Plans made by hand, without the compiler: c = a b, where the rows of `a` are gathered from the ranks. Right, and with
// no wait too many, so that tests can break them. Those whose output is reduced are in reduce_builder.h.
#pragma once

#include <cstdint>
#include <string>

#include "syncopate/plan/plan.h"

namespace syncopate::testing {

enum class Route : std::uint8_t { direct_push, direct_pull, ring_push, ring_pull };

struct HandMadeOptions {
  int ranks = 2;
  Route route = Route::direct_push;
  std::int64_t rows = 16;  ///< of a and c
  std::int64_t inner = 4;
  std::int64_t columns = 8;  ///< of b and c
  std::int64_t tile_rows = 4;
  std::int64_t tile_columns = 4;
  int split = 2;  ///< chunks per shard
  int workers = 3;
  int queues = 1;  ///< per rank; direct routes deal the peers over them
  /// Every tile reads all of `a`, chunk by chunk in a streamed loop: the chunks of the own rank first.
  bool streamed = false;
  /// direct_push: one arrival signal per source that counts its chunks, instead of one per chunk.
  bool counted = false;
};

Plan hand_made(const HandMadeOptions& options);

/// The kernel's axes and tiles of c = a b: buffers 0, 1 and 2 of the plan.
void make_product_tiles(Plan& plan, std::int64_t tile_rows, std::int64_t tile_columns);

/// Takes away the signals that nobody waits for, with their raises, and numbers the others anew.
void drop_unused_signals(Plan& plan);

/// Appends a signal in the next flag of its home and returns its index.
int add_signal(Plan& plan, std::string name, int home, std::int64_t per_launch = 1);

/// Index of the signal of that name; throws InternalError if there is none.
int signal_called(const Plan& plan, const std::string& name);

}  // namespace syncopate::testing
