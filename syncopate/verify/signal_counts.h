// The theorem of signal counts: what a counter's value says about who has raised it.
#pragma once

#include "syncopate/verify/order.h"
#include "syncopate/verify/verify.h"

namespace syncopate {

/// Every launch raises every signal exactly `per_launch` times; and where several agents raise a signal that is waited
/// for, none of them raises it for a launch before all have for the launch before. The second part needs `order`, and
/// is left out without it (the plan deadlocks).
Theorem prove_signal_counts(const PlanIndex& index, const Order* order);

}  // namespace syncopate
