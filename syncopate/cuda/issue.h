// In which order a launch of all ranks is given to the GPUs.
#pragma once

#include <vector>

#include "syncopate/plan/plan.h"

namespace syncopate::cuda {

struct Step {
  enum class Kind : std::uint8_t { begin, transfer, kernel, complete };
  Kind kind = Kind::begin;
  int rank = 0;
  int queue = 0;     ///< of a transfer
  int transfer = 0;  ///< its index in the queue
  friend bool operator==(const Step&, const Step&) = default;
};

/// Every step of one launch (plan.h: steps 1 and 2, a transfer of 3, 4, 5). Each step comes after all that its stream
/// waits for, where a kernel counts from its start for what its tiles raise. What waits inside a kernel, tiles for
/// transfers, may wait for steps behind it. So
///   - where tiles raise nothing that transfers wait for, all transfers come before all kernels, and nothing given to a
///     GPU ever waits for something not yet given: streams may share hardware queues;
///   - else no transfer is in front of a kernel that it waits for, but kernels wait for transfers behind them: each
///     stream needs a hardware queue of its own, and no call of the driver may wait for the device until all is given.
/// Throws UserError if there is no such order, or if a tile waits for what never comes: the plan would block on any
/// machine.
std::vector<Step> issue_order(const Plan& plan);

}  // namespace syncopate::cuda
