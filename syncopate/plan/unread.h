// Part of pass 1: what arrives and nobody reads need not be sent. A mask may hide a part of a gathered tensor from all
// tiles of a rank, as a causal one does with keys that come later than the rank's queries.
#pragma once

#include "syncopate/plan/bind.h"

namespace syncopate {

/// Fills CommunicatedTensor::left_out, and takes out of `own_parts`, what no tile of the destination reads, and what is
/// not passed on to where one does. Of inputs; what callers take of outputs is all theirs. Needs tiles and schedules.
void leave_out_unread(BoundOperator& bound);

}  // namespace syncopate
