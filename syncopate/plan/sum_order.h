// Which sum a rank's output of a reduced tensor is: the unfused meaning of the schedule. Runs after depend.
#pragma once

#include <vector>

#include "syncopate/plan/depend.h"
#include "syncopate/plan/plan.h"

namespace syncopate {

/// Plan::sums. Every rank that a sum passes through adds, in ascending order of the ranks they come from, what it
/// receives and its own summand, and rounds.
std::vector<Sum> sum_orders(const Plan& plan, const DependenceGraph& graph);

}  // namespace syncopate
