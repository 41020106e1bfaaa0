// Hand-made plans with a reduced output (tests/support/reduce_builder.h) around a kernel of a few lines: the product of
// each rank's a and b, added up over the ranks.
#pragma once

#include "syncopate/plan/plan.h"
#include "tests/support/reduce_builder.h"

namespace syncopate::test {

/// tile_rows and tile_columns must be powers of two.
Plan small_sum_plan(const testing::ReduceOptions& options);

}  // namespace syncopate::test
