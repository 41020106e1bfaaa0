// Pass 1, bind: an operator's names become buffers, its kernel's accesses become tiles, and its changes of placement
// become schedules. Runs first; everything after it works on numbers.
#pragma once

#include <string>
#include <vector>

#include "syncopate/kernel/tile_kernel.h"
#include "syncopate/plan/operator.h"
#include "syncopate/plan/plan.h"
#include "syncopate/schedule/schedule.h"

namespace syncopate {

/// A tensor that changes its placement on the way into the kernel, and the schedule that does it: P2P operators only.
struct CommunicatedTensor {
  int buffer = 0;  ///< index into Plan::buffers
  Schedule schedule;
};

struct BoundOperator {
  Plan plan;  ///< everything but signals and programs
  std::vector<CommunicatedTensor> communicated;
};

/// Throws UserError for what the user can mend: parameters without a value, shapes that disagree with the kernel,
/// changes of placement that no collective realises, schedules that do not have the meaning of the collective.
BoundOperator bind(const OperatorStatement& statement, const TileKernel& kernel);

}  // namespace syncopate
