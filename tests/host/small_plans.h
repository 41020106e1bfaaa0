// Hand-made plans around a kernel of a few lines: c = 2 a + b, row block by row block, where `a` is gathered from the
// ranks. What the compiler would make is not involved.
#pragma once

#include <cstdint>
#include <string>

#include "syncopate/plan/plan.h"

namespace syncopate::test {

enum class Route : std::uint8_t { push, pull, ring };

struct SmallPlanOptions {
  int ranks = 2;
  Route route = Route::push;
  int split = 2;         ///< chunks, and tiles, per shard
  bool counted = false;  ///< one arrival signal per shard that counts its chunks, instead of one per chunk
  int workers = 2;
};

inline constexpr std::int64_t kColumns = 8;
inline constexpr std::int64_t kTileRows = 2;

/// Rank r's caller holds rows of shard r; tile t reads and writes row block t; chunk t is row block t.
Plan small_plan(const SmallPlanOptions& options);

/// Index of the signal of that name.
int find_signal(const Plan& plan, const std::string& name);

}  // namespace syncopate::test
