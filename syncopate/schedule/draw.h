// Schedules as text for people.
#pragma once

#include <string>
#include <vector>

#include "syncopate/schedule/schedule.h"

namespace syncopate {

/// The time step, from 0, in which each operator ([rank][index]) runs if every one takes one step, the operators of one
/// rank and port run one after the other in topological_order(), and nothing else is in the way. Requires a validated
/// schedule.
std::vector<std::vector<int>> time_steps(const Schedule& schedule);

/// What a schedule moves: transfers, time steps, bytes by port and over the busiest rank.
std::string describe_load(const Schedule& schedule);

/// A picture: a line for each time step and port, a column for each rank, in it what the rank issues: "#3 > 1" pushes
/// chunk 3 to rank 1, "#3 < 1" pulls it from there, "#3 +> 1" and "#3 <+ 1" add it; before that a list of the chunks.
std::string draw(const Schedule& schedule);

}  // namespace syncopate
