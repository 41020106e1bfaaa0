// The compiler: operator -> plan, in the passes bind, depend, order, realise. Each pass is a function of its own,
// in its own file, so that it can be tested and dumped alone; compile_plan() is the straight list of them.
#pragma once

#include "syncopate/kernel/footprint.h"
#include "syncopate/kernel/tile_kernel.h"
#include "syncopate/plan/operator.h"
#include "syncopate/plan/plan.h"
#include "syncopate/schedule/schedule.h"

namespace syncopate {

/// Compiles everything but the emitted source (Plan::kernel.fused_* stay empty; driver/ fills them). Throws UserError
/// for what the user can mend. Deterministic.
Plan compile_plan(const OperatorStatement& statement, const TileKernel& kernel);

}  // namespace syncopate
