// Part of pass 1: where the summands that a rank receives lie until a tile adds them. They go to a staging buffer, one
// place for each summand of a launch, or, within a memory budget, to places that are used several times in a launch.
#pragma once

#include "syncopate/plan/bind.h"

namespace syncopate {

/// Fills `landings` and `places` of a reduced tensor whose chunks are whole rows and appends its staging buffer to the
/// plan. Without a budget, or where all fits into it: source by source, the rows of each in ascending order, so that
/// what one source sends for neighbouring chunks lies side by side. Else each source gets as many places as the budget
/// allows, each as large as the largest chunk, which its chunks fill in turn. Throws UserError at the budget if it does
/// not hold one chunk of every source.
void place_summands(CommunicatedTensor& communicated, Plan& plan);

}  // namespace syncopate
