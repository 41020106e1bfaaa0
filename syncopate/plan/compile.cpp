#include "syncopate/plan/compile.h"

#include "syncopate/plan/bind.h"
#include "syncopate/plan/deal.h"
#include "syncopate/plan/depend.h"
#include "syncopate/plan/dynamic.h"
#include "syncopate/plan/order.h"
#include "syncopate/plan/realise.h"
#include "syncopate/plan/sum_order.h"
#include "syncopate/plan/sum_place.h"

namespace syncopate {

Plan compile_plan(const OperatorStatement& statement, const TileKernel& kernel) {
  BoundOperator bound = bind(statement, kernel);
  DependenceGraph graph = depend(bound);
  if (!keeps_sums_in_place(bound, graph)) graph = depend(bound);
  if (is_dynamic(bound.plan)) check_dynamic(bound, graph, statement.order_where);
  bound.plan.communication = communication_in_words(bound);
  bound.plan.sums = sum_orders(bound.plan, graph);
  WorkOrder order = order_work(graph, bound.plan.tiles);
  if (!is_dynamic(bound.plan)) deal_work(graph, bound.plan.tiles, bound.plan.workers, order);
  realise(bound, graph, order);
  return std::move(bound.plan);
}

}  // namespace syncopate
