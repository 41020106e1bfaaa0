// Part of pass 1: the tiles of every rank. They are the same on all, unless arguments of the kernel differ by rank.
#pragma once

#include <span>
#include <vector>

#include "syncopate/kernel/footprint.h"
#include "syncopate/kernel/tile_kernel.h"
#include "syncopate/plan/bind.h"

namespace syncopate {

/// What each rank's tiles touch; one for all ranks if no argument differs. Throws UserError for what must not differ
/// and does: constexprs, the number of tiles, the launch.
std::vector<TileSpace> analyse_ranks(const OperatorStatement& statement, const TileKernel& kernel,
                                     const TensorBindings& tensors, bool streams);

/// Makes Plan::tiles, with their pieces, and BoundOperator::tiles. Needs the buffers and the schedules.
void make_tiles(std::span<const TileSpace> spaces, const TileKernel& kernel, BoundOperator& bound);

}  // namespace syncopate
