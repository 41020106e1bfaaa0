// Pass 4, realise: the dependence graph and the orders of work become queues, signals and waits. Runs last. It inserts
// the fewest waits: none that an earlier wait of the same worker or queue already implies. verify/ proves the result
// without sharing any of this.
#pragma once

#include "syncopate/plan/bind.h"
#include "syncopate/plan/depend.h"
#include "syncopate/plan/order.h"

namespace syncopate {

/// Fills Plan::signals and Plan::programs.
void realise(BoundOperator& bound, const DependenceGraph& graph, const WorkOrder& order);

}  // namespace syncopate
