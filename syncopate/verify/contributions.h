// The values of sums: what every slot stores, as a sum of summands in their order, and whether outputs are what the
// plan says they are.
#pragma once

#include <span>

#include "syncopate/verify/claim.h"
#include "syncopate/verify/summands.h"

namespace syncopate {

/// How much was looked at.
struct ContributionCount {
  std::int64_t sums = 0;      ///< boxes of outputs whose value was compared
  std::int64_t summands = 0;  ///< boxes of summands, or of sums so far, that slots add
};

/// Checks that the outputs of a plan that reduces one are the sums that it says, in the order that it says. `steps`:
/// all of an execution. Summands that may come too early or too late are the subject of other theorems; what depends
/// on them is not looked at.
ContributionCount check_contributions(const PlanIndex& index, const Summands& summands, std::span<const Step> steps,
                                      Claim& claim);

}  // namespace syncopate
