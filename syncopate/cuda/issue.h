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

/// Every step of one launch, each after all steps that it waits for (plan.h: steps 1 and 2, a transfer of 3, 4, 5). In
/// this order nothing given to a GPU ever waits for something not yet given. So streams may share a hardware queue, and
/// a driver call may wait for the device, without a deadlock. Throws UserError if the plan has no such order: it would
/// block on any machine.
std::vector<Step> issue_order(const Plan& plan);

}  // namespace syncopate::cuda
