// Folded buffers within a launch: what stands in memory in turn.
#pragma once

#include <cstdint>

#include "syncopate/verify/claim.h"
#include "syncopate/verify/order.h"
#include "syncopate/verify/plan_index.h"

namespace syncopate {

/// Checks that transfers which bring different parts of a folded buffer to one place follow each other, within a launch
/// and from one to the next, and that who reads a part does so before what comes next there, or comes after what was
/// there before. That the part has come is the subject of another theorem. Returns how many pairs of a transfer and
/// what must be over before it, or come after it, were looked at.
std::int64_t check_folds(const PlanIndex& index, const Order& order, Claim& claim);

}  // namespace syncopate
