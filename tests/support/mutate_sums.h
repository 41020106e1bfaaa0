// Broken plans, continued: small changes of what a plan with a reduced output says about sums.
#pragma once

#include <string>
#include <vector>

#include "syncopate/plan/plan.h"
#include "tests/support/mutate.h"

namespace syncopate::testing {

struct SumMutant : Mutant {
  /// Only the order of additions changes: a proof must fail unless the order is the stated one after all, but the
  /// results may be the same bit by bit.
  bool only_order = false;
};

/// Every such mutant of a plan of good form whose reduced output lies in rows, in a fixed order. The common changes
/// (waits, raises, transfers, tiles) are in all_mutants().
std::vector<SumMutant> sum_mutants(const Plan& plan);

/// The kinds, in the order of sum_mutants(). Plans with sums in place have, instead of those about addends and what is
/// kept, "store instead" and "add instead".
const std::vector<std::string>& sum_mutation_kinds();

}  // namespace syncopate::testing
