// Whether a plan's indices can be followed at all. Everything later may rely on it.
#pragma once

#include <optional>
#include <string>

#include "syncopate/plan/plan.h"

namespace syncopate {

/// The first index that points nowhere (a rank, buffer, signal, tile or flag that the plan does not have; a box outside
/// of its buffer; a wait for a signal that lives on another rank; a transfer that its queue's rank has no part in; a
/// walk that is not one of all pieces of its tile, in one order on a rank), in words. A wrong region of a transfer is
/// not among them: it is found when the transfer runs.
std::optional<std::string> broken_reference(const Plan& plan);

}  // namespace syncopate
