// The theorem of coverage: which bytes are where.
#pragma once

#include "syncopate/verify/plan_index.h"
#include "syncopate/verify/verify.h"

namespace syncopate {

/// In every launch, every element that the kernel's placement demands on a rank, that a tile reads or that a transfer
/// sends, is put there by the rank's caller or arrives by a transfer, exactly once; and every element of an output is
/// written by exactly one tile.
Theorem prove_coverage(const PlanIndex& index);

}  // namespace syncopate
