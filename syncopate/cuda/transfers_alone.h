// What a plan's transfers take when nothing is computed, as a plan of its own.
#pragma once

#include "syncopate/plan/plan.h"

namespace syncopate::cuda {

/// The plan as if tiles took no time: no slots; a transfer that waits for tiles waits for what those wait for; the
/// completion of a rank waits for what its tiles wait for. It moves the same bytes between the same places by the same
/// queues. What tiles would have put into summands is not in them.
Plan transfers_alone(const Plan& plan);

}  // namespace syncopate::cuda
