// Names for the things of a plan, as counter-examples use them.
#pragma once

#include <string>
#include <vector>

#include "syncopate/verify/plan_index.h"

namespace syncopate {

/// "a[0:128, 0:64]".
std::string describe_region(const Plan& plan, int buffer, const Region& region);
/// "transfer 0.1 (a[0:128, 0:64] from rank 0 to rank 1, at place 2 of queue 'rank 0 copy engine 0')"; between buffers
/// "(c[0:128, 0:64] from rank 0 to c_staging[128:256, 0:64] of rank 1, ...".
std::string describe_transfer(const PlanIndex& index, int transfer);
/// "tile (2, 0)".
std::string describe_tile(const Plan& plan, int tile);
/// "slot 5, worker 1".
std::string describe_slot(const Plan& plan, int slot);
/// "walks iterations 4 to 8 of loop n".
std::string describe_step(const Plan& plan, const Slot& slot, std::size_t step);
/// "'arrival 3' at 1 of 1, 'free' of the launch before" or "nothing".
std::string describe_waits(const Plan& plan, const std::vector<Wait>& waits);
/// "the sum of c[0:128, 0:64] on rank 1 (addition 5, worker 1)".
std::string describe_addition(const PlanIndex& index, int rank, int addition);
/// "the start of rank 1", "the completion of rank 1", the transfer, or "tile (2, 0) on rank 1 (slot 5, worker 1)".
std::string describe_event(const PlanIndex& index, const Event& event);

}  // namespace syncopate
