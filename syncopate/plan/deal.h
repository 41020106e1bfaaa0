// Pass 3, second part: which worker gets which of the slots that run at the same time. Runs after order.
#pragma once

#include <vector>

#include "syncopate/plan/depend.h"
#include "syncopate/plan/order.h"
#include "syncopate/plan/plan.h"

namespace syncopate {

/// Where tiles have unequal work, as under a causal mask, sorts each round of slots (one for each worker) anew: the
/// longest goes to the worker that has had least so far. Otherwise orders and workers in step with each other would
/// deal one worker the longest tile of every round. What a tile reads counts as its work, and tiles count as unequal
/// if they have less than three quarters of the longest on average: not where only the last ones are cut off.
///
/// Only rounds change inside, and only where tiles neither add what arrives nor make room for it: then what a tile
/// waits for comes whatever other tiles do, so no order makes ranks wait for each other. `tiles` are the plan's.
void deal_work(const DependenceGraph& graph, const std::vector<Tile>& tiles, int workers, WorkOrder& order);

}  // namespace syncopate
