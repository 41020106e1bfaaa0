// The form of a plan's buffers: shapes, what they are for, and what callers put there. Internal to verify/.
#pragma once

#include <optional>

#include "syncopate/plan/plan.h"
#include "syncopate/verify/claim.h"

namespace syncopate {

/// Which buffers are what, as indices into Plan::buffers; -1 where there is none.
struct BufferFacts {
  int reduced = -1;
  int staging = -1;
  int stack = -1;   ///< of other ranks' summands of the one-shot sum
  int apart = -1;   ///< the kernel's buffer of it
  int result = -1;  ///< its result
  bool in_place = false;
  bool leaves = false;  ///< outputs leave tile by tile, or tiles make room
};

/// Nothing if a check has failed, which the claim then says.
std::optional<BufferFacts> check_buffers(const Plan& plan, Claim& claim);

}  // namespace syncopate
