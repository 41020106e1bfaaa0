// Pass 4, realise: the dependence graph and the orders of work become queues, signals and waits. Runs last. It inserts
// the fewest waits: none that an earlier wait of the same worker or queue already implies. verify/ proves the result
// without sharing any of this.
#pragma once

#include <vector>

#include "syncopate/plan/bind.h"
#include "syncopate/plan/depend.h"

namespace syncopate {

/// Fills Plan::signals and Plan::programs. `orders[rank]` is a permutation of graph.work[rank].
void realise(BoundOperator& bound, const DependenceGraph& graph, const std::vector<std::vector<int>>& orders);

}  // namespace syncopate
