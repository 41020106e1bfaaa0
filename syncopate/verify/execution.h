// The theorem that nothing waits for ever, by carrying the plan out in the abstract.
//
// A step that can be taken stays possible whatever the others do: counters only grow and agents take their steps in a
// fixed order. So all interleavings that go on as long as possible take the same steps, and one of them decides for
// all. It raises the signals of a slot at once; a worker that raises them later, before it waits for anything else and
// before it ends, can only be stuck where this run is (docs/verifier.md).
//
// In a dynamic order each slot is an agent of its own, which moves when its waits are satisfied and all slots are taken
// that are `lookahead` or more before it; that stays possible, too. Whoever has taken a slot waits at most for what
// comes without any slot, which a run shows that has none, so there is always a worker that comes to look, and takes it
// or another that is possible.
#pragma once

#include <vector>

#include "syncopate/verify/plan_index.h"
#include "syncopate/verify/verify.h"

namespace syncopate {

/// Launches that are carried out. The second begins from counters that the first left behind, as every later one does.
inline constexpr int kLaunches = 2;

struct Step {
  int launch = 0;
  Event event;
};

struct Execution {
  Theorem theorem;          ///< no deadlock; the counter-example is a cycle of waits, or a raise that never comes
  std::vector<Step> steps;  ///< starts, transfers, completions and, in plans with sums, slots, in a possible order; all
                            ///< of them if there is no deadlock
};

Execution carry_out(const PlanIndex& index);

}  // namespace syncopate
