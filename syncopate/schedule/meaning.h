// The symbolic meaning of a schedule: for every rank and region, whose contributions it holds when all operators
// have completed, in whatever order their dependencies allow. "This schedule is an all-gather" is computed here, not
// believed.
#pragma once

#include <string>
#include <vector>

#include "syncopate/core/region.h"
#include "syncopate/schedule/schedule.h"

namespace syncopate {

/// What a rank holds of one atom (a box no chunk border cuts): the ranks whose summands are in it, ascending. A
/// tensor that is not partial has one contributor, "the value", written as the empty set and held == true.
struct Holding {
  Region region;
  bool held = false;
  std::vector<int> contributors;
};

struct Meaning {
  /// holdings[tensor][rank], atoms in ascending order, merged where neighbours agree.
  std::vector<std::vector<std::vector<Holding>>> holdings;
};

/// Computes the meaning. Throws UserError (with the operator's place in `file` if given) if an operator may read an
/// element that its source does not hold by then, in some order the dependencies allow; if an element arrives twice;
/// or if a reduction would count a contribution twice. Requires a validated schedule.
Meaning meaning(const Schedule& schedule, const SourceFile* file = nullptr);

/// Throws UserError, naming rank and region, unless after the schedule every rank holds what each tensor's `after`
/// placement demands: no holes, all contributions exactly once. Computes the meaning without materialising it, fast
/// enough for 1024 ranks.
void check_meaning(const Schedule& schedule, const SourceFile* file = nullptr);

}  // namespace syncopate
