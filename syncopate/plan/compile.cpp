#include "syncopate/plan/compile.h"

#include "syncopate/plan/bind.h"
#include "syncopate/plan/depend.h"
#include "syncopate/plan/order.h"
#include "syncopate/plan/realise.h"

namespace syncopate {

Plan compile_plan(const OperatorStatement& statement, const TileKernel& kernel) {
  BoundOperator bound = bind(statement, kernel);
  const DependenceGraph graph = depend(bound);
  std::vector<std::vector<int>> orders;
  for (int rank = 0; rank < bound.plan.ranks; ++rank) orders.push_back(order_tiles(graph, bound.plan.tiles, rank));
  realise(bound, graph, orders);
  return std::move(bound.plan);
}

}  // namespace syncopate
