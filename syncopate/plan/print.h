// Plans in words and small pictures, for people.
#pragma once

#include <string>

#include "syncopate/plan/plan.h"

namespace syncopate {

/// A dozen lines: what is communicated, chunks, tile order, waits and signals, extra memory.
std::string summary(const Plan& plan);

/// The whole plan: summary; the schedule, transfer by transfer; and per rank the tile order as a picture, each tile
/// marked with the chunk that it waits for last, and the waits of every slot.
std::string show(const Plan& plan);

/// The tile order of one rank as a picture: one cell per tile (rows: first axis; columns: the second), written as
/// position:mark. The mark is `.` for tiles that wait for nothing, then 1, 2, ... 9, a, b, ... by the chunk that has to
/// arrive, in order of first use. Large grids are thinned evenly. Kernels of more than two axes get a line of marks.
std::string tile_picture(const Plan& plan, int rank);

}  // namespace syncopate
