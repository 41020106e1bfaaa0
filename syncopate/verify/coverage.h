// The theorem of coverage: which bytes are where.
#pragma once

#include <span>

#include "syncopate/verify/summands.h"
#include "syncopate/verify/verify.h"

namespace syncopate {

/// In every launch, every element that the kernel's placement demands on a rank, that a tile reads or that a transfer
/// sends, is put there by the rank's caller or arrives by a transfer, exactly once; every element of an output is
/// written by exactly one tile; and a reduced output is the sum that the plan says. `summands`: null without a reduced
/// output. `steps`: all of an execution, or none, then the sums are left out (the plan deadlocks).
Theorem prove_coverage(const PlanIndex& index, const Summands* summands, std::span<const Step> steps);

}  // namespace syncopate
