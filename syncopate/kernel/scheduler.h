// The search for the tile scheduler of a kernel: which statements turn a program id or a loop counter into tile
// indices. tile_kernel.h describes the result; this is how it is found:
//
//   1. The walk. A loop over range(program id, tiles, number of programs), or a while loop that advances a counter
//      that starts at the program id by the number of programs, makes the kernel persistent and its counter is the
//      source. In other kernels the program ids are the sources.
//   2. Candidates: statements at the walk's own level that assign scalar integer arithmetic of the sources.
//   3. The frontier. At first all candidates belong to the scheduler and everything else to the tile's work. A
//      candidate that work uses moves to the work if it only adds or multiplies (row = pid_m * BLOCK_M), or if all that
//      it reads is known to the work already (kv_head = head // GROUP). What remains and is used by work are the index
//      variables.
//   4. What only served the removed statements (tiles_per_group = ...) is removed with them.
//
// Annotations take the place of steps 2 and 3 where they are given.
#pragma once

#include "syncopate/kernel/annotations.h"
#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

/// Throws UserError at the function or the statement that stands in the way, with the remedy.
TileScheduler find_scheduler(const Module& module, const Function& function, const Annotations& annotations);

}  // namespace syncopate
