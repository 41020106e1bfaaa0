#include "syncopate/plan/dynamic.h"

#include <fmt/format.h>

#include <algorithm>

namespace syncopate {

namespace {

/// Per node: whether it waits for tiles, or for a node that does.
std::vector<bool> behind_tiles(const DependenceGraph& graph) {
  std::vector<bool> behind(graph.transfers.size(), false);
  for (const int n : graph.order) {
    const TransferNode& node = graph.transfers[static_cast<std::size_t>(n)];
    const auto is_behind = [&](int other) { return other >= 0 && behind[static_cast<std::size_t>(other)]; };
    const auto at = static_cast<std::size_t>(n);
    behind[at] = !graph.stored_by[at].empty() || !graph.freed_by[at].empty() || node.reuses >= 0 ||
                 is_behind(node.previous) || std::any_of(node.dependencies.begin(), node.dependencies.end(), is_behind);
  }
  return behind;
}

}  // namespace

void check_dynamic(const BoundOperator& bound, const DependenceGraph& graph, const SourceLocation& where) {
  const Plan& plan = bound.plan;
  if (const int result = added_up_buffer(plan); result >= 0)
    throw UserError(
        where,
        fmt::format("the order of tiles is dynamic, but the sum of '{}' over ranks is one-shot: workers add "
                    "when they have taken the tiles that they were dealt",
                    plan.buffer(result).name),
        fmt::format("remove the order, or choose another algorithm for '{}', such as \"direct\"",
                    plan.buffer(result).name));
  if (plan.kernel.streamed_loops.empty()) return;
  const std::vector<bool> behind = behind_tiles(graph);
  for (const std::vector<Work>& list : graph.work)
    for (const Work& work : list)
      for (std::size_t piece = 0; piece < work.piece_needs->size(); ++piece)
        for (const int n : (*work.piece_needs)[piece]) {
          if (!behind[static_cast<std::size_t>(n)]) continue;
          const TransferNode& node = graph.transfers[static_cast<std::size_t>(n)];
          const int loop = plan.tiles[static_cast<std::size_t>(work.tile)].pieces[piece].loop;
          throw UserError(where,
                          fmt::format("the order of tiles is dynamic, but in their loop over '{}' tiles wait for {}{}, "
                                      "which rank {} sends only when other tiles have been computed",
                                      plan.kernel.streamed_loops[static_cast<std::size_t>(loop)],
                                      plan.buffer(node.buffer).name, node.chunk.to_string(), node.source),
                          plan.buffer(node.buffer).fold ? "remove the order, or the memory budgets"
                                                        : "remove the order, or the loop's annotation 'streamed_loop'");
        }
}

}  // namespace syncopate
