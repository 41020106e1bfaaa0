// What a dynamic order asks of an operator.
#pragma once

#include "syncopate/core/source.h"
#include "syncopate/plan/bind.h"
#include "syncopate/plan/depend.h"

namespace syncopate {

/// A worker that has taken a tile may wait, in the tile's streamed loops, only for chunks that come whatever tiles do:
/// else all workers might wait so, and none be left for the tiles that they wait for. And additions of a one-shot sum
/// wait for what their worker was not dealt, which supposes that it was dealt something. Throws UserError at `where`,
/// which asks for the order, if a chunk is sent only when tiles have been computed, or if there is such a sum.
void check_dynamic(const BoundOperator& bound, const DependenceGraph& graph, const SourceLocation& where);

}  // namespace syncopate
