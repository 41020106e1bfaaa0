// One-shot sums in passes 1 and 4: every rank sends its summand to all others, and each adds them up itself.
#pragma once

#include <vector>

#include "syncopate/plan/bind.h"
#include "syncopate/plan/depend.h"

namespace syncopate {

/// Whether a schedule of a tensor that is reduced sends nothing but ranks' own summands, of which all keep the sum.
bool is_one_shot(const Schedule& schedule);

/// Appends to the plan the result and the stack of other ranks' summands of a tensor, whose last buffer is so far the
/// kernel's, and makes that one of summands. Throws UserError for options that such a sum has no use for.
void place_one_shot(const CommunicatedTensor& communicated, Plan& plan);

/// A stretch of a one-shot sum that no border of a chunk cuts, and who fills it on a rank.
struct OneShotPart {
  Region stretch;
  std::vector<Region> additions;            ///< disjoint, contiguous; together the stretch
  std::vector<std::vector<int>> stored_by;  ///< per addition: the rank's work that stores its own summand of it
  std::vector<int> arriving;                ///< nodes that bring summands of other ranks
};

/// The parts of the sum on one rank, in the order in which their last summands are expected. Each is cut for all
/// workers, since the last to arrive is what the launch ends with.
std::vector<OneShotPart> one_shot_parts(const Plan& plan, const DependenceGraph& graph, int rank);

}  // namespace syncopate
