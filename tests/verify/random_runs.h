// An oracle for the verifier: carries a plan out, step by step in a random order, and looks at every element of every
// buffer. It knows nothing of order or counting; what it finds wrong did happen.
#pragma once

#include <cstdint>
#include <string>

#include "syncopate/plan/plan.h"

namespace syncopate::testing {

/// One run of four launches. Elements of a reduced tensor, and what is sent of them, are sums of named summands. Agents
/// have random priorities, some of which change on the way, and the ready agent of the highest runs; so a slow rank,
/// queue or transfer can be overtaken by as many launches as the plan lets it. Returns what went wrong first, or "".
/// The plan must satisfy the theorem of form.
std::string run_at_random(const Plan& plan, std::uint32_t seed);

}  // namespace syncopate::testing
