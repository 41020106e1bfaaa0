// The two theorems about bytes and time: nothing is read before it is there, nothing is overwritten while it is read.
#pragma once

#include "syncopate/verify/summands.h"
#include "syncopate/verify/verify.h"

namespace syncopate {

/// In every launch, what a tile or a transfer reads has been put there by the caller of that rank, brought by a
/// transfer or stored by tiles, in the same launch, before the read begins. `summands`: null without a reduced output.
Theorem prove_no_early_read(const PlanIndex& index, const Order& order, const Summands* summands);

/// What is read in a launch is not overwritten by the next one before the read has ended: neither by a transfer nor by
/// the caller, who may put new inputs in place, or free the buffers, as soon as the launch is complete on its rank. Nor
/// is what has been brought to a staging buffer overwritten in the same launch before it has been added.
Theorem prove_no_overwrite(const PlanIndex& index, const Order& order, const Summands* summands);

}  // namespace syncopate
