// Reads whose addresses follow from the indices of a tile: a wait before the tile reaches them through these.
#pragma once

#include <span>
#include <vector>

#include "syncopate/kernel/program_internal.h"
#include "syncopate/kernel/streamed_loops.h"

namespace syncopate {

/// Per instruction of the program: whether it reads memory at an address into which an index variable of the tile
/// enters, or the variable of one of these streamed loops, as the waits inside such a loop reach addresses through
/// that. Whatever the values: `head // GROUP` is 0 for every head where there is one group. That a loop ends where an
/// index says does not make the addresses in it follow from the index.
std::vector<bool> guarded_reads(const Program& program, std::span<const LoweredLoop> loops);

}  // namespace syncopate
