// Broken plans: all small changes of a right plan, one at a time.
#pragma once

#include <string>
#include <vector>

#include "syncopate/plan/plan.h"

namespace syncopate::testing {

struct Mutant {
  std::string kind;         ///< "drop wait", "swap transfers", ...: one of mutation_kinds()
  std::string description;  ///< what was changed, and where
  /// Whether the changed plan may still be right. The others are wrong whenever the plan was right, waited for nothing
  /// twice and filled nothing that no tile reads.
  bool may_be_valid = false;
  Plan plan;
};

/// Every mutant of a plan of good form, in a fixed order. Their number grows with the square of the transfers.
std::vector<Mutant> all_mutants(const Plan& plan);

/// The kinds, in the order of all_mutants().
const std::vector<std::string>& mutation_kinds();

}  // namespace syncopate::testing
