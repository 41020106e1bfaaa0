// Part of pass 1: what streamed loops read of gathered tensors cuts them into pieces of a tile, which can be walked as
// chunks arrive.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "syncopate/kernel/footprint.h"
#include "syncopate/plan/bind.h"

namespace syncopate {

/// Leaves in the loops of `space` only reads of these parameters whose addresses follow from the loop's variable; the
/// others become reads of their tiles, which come before or after the waits of a tile, not between those of its pieces:
/// a compiler may move what does not depend on the loop's variable out of the loop. No loops are left if nothing is, on
/// any rank.
void keep_streamed_reads(std::span<TileSpace> spaces, const std::set<std::string>& arriving);

/// Makes the pieces of `tiles`, those of each space: maximal runs of iterations that need the same chunks, whichever
/// rank they come to. Needs the schedules. Where no chunk ends inside a loop, on any rank, there is nothing to stream:
/// then the reads of loops become reads of their tiles. Throws UserError if a loop reads two tensors whose chunks come
/// in different ways.
void cut_into_pieces(std::span<const TileSpace> spaces, const TileKernel& kernel, BoundOperator& bound,
                     std::vector<std::vector<Tile>>& tiles);

}  // namespace syncopate
