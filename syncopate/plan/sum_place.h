// Part of pass 1: where the sums of a reduced tensor are taken. If every element of a rank has at most one addend, that
// may land in the tensor itself, where the memory adds what a tile stores: no staging buffer, and nothing to load.
#pragma once

#include <span>

#include "syncopate/kernel/footprint.h"
#include "syncopate/kernel/tile_kernel.h"
#include "syncopate/plan/bind.h"
#include "syncopate/plan/depend.h"

namespace syncopate {

/// Marks the buffer of a reduced tensor as one with sums in place (Buffer::sums_in_place), or gives it a staging
/// buffer, by what its communication says, its type, its schedule, and how the kernel stores to it. Throws UserError
/// where sums in place are asked for and cannot be.
void place_sums(CommunicatedTensor& communicated, const TileKernel& kernel, std::span<const TileSpace> spaces,
                Plan& plan);

/// Sums in place want whole tiles: all that a tile stores has an addend, or nothing. Where `graph` has others, returns
/// false and gives the tensor a staging buffer after all; or throws UserError if sums in place are asked for.
bool keeps_sums_in_place(BoundOperator& bound, const DependenceGraph& graph);

}  // namespace syncopate
