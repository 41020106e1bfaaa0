// Why nothing can move.
#pragma once

#include <string>

#include "syncopate/host/world.h"

namespace syncopate::host {

/// For a world in which no agent can move and not all callers have ended: who waits for what, and the cycle of agents
/// that wait for each other, if there is one.
std::string describe_deadlock(const World& world);

}  // namespace syncopate::host
