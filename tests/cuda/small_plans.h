// Plans of the shipped operators that are small enough to be simulated; without their fused text, which that does not
// need.
#pragma once

#include <string>
#include <vector>

#include "syncopate/plan/operator.h"
#include "syncopate/plan/plan.h"

namespace syncopate::cuda {

Plan small_gather(const std::string& algorithm, const std::string& initiator, int ranks,
                  const std::vector<Override>& more = {});
/// `rows`: 32 for each rank, if 0.
Plan small_reduce(const std::string& algorithm, const std::string& initiator, int ranks, int rows = 0,
                  const std::vector<Override>& more = {});

}  // namespace syncopate::cuda
