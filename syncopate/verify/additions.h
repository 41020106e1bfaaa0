// One-shot sums: what additions read has come before they read it, and is overwritten after.
#pragma once

#include <cstdint>

#include "syncopate/verify/claim.h"
#include "syncopate/verify/order.h"
#include "syncopate/verify/summands.h"

namespace syncopate {

/// Of the theorem that nothing is read before its data: an addition reads, for its elements, what tiles of its rank
/// have stored and what transfers have brought of every other rank. Returns how many parts of it were looked at.
std::int64_t check_additions_read(const PlanIndex& index, const Order& order, const Stores& stores, Claim& claim);

/// Of the theorem that no live data are overwritten: a transfer writes to the stack of a rank in launch e + 1 when the
/// additions there have read what it brought in launch e, which is when that launch is complete. Returns how many
/// transfers were looked at.
std::int64_t check_stack_overwritten(const PlanIndex& index, const Order& order, Claim& claim);

}  // namespace syncopate
