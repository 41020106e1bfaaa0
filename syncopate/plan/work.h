// Part of pass 2: what a rank has to do, tile by tile.
#pragma once

#include <vector>

#include "syncopate/plan/depend.h"

namespace syncopate {

/// The work of one rank: every tile once, or, where a tile stores to rows of the reduced tensor that must not wait for
/// each other, several times, each time keeping other rows. Needs graph.transfers, and nothing else of it. Throws
/// UserError if a sum is sent on before it is complete, and if a tile must stand twice but writes other outputs too.
std::vector<Work> make_work(const BoundOperator& bound, const DependenceGraph& graph, int rank);

}  // namespace syncopate
