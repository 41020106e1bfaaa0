// Step 1 of the search for the tile scheduler (scheduler.h): how a kernel walks its tiles.
#pragma once

#include <string>

#include "syncopate/kernel/annotations.h"
#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

struct TileWalk {
  SchedulerKind kind = SchedulerKind::program_per_tile;
  const Statement* loop = nullptr;
  std::string counter;                 ///< the loop's variable; "" for program_per_tile
  const Statement* advance = nullptr;  ///< persistent_while
};

/// Throws UserError at a tile loop that cannot be understood, at a second one, and at a statement that leaves the walk
/// early.
TileWalk find_walk(const Module& module, const Function& function, const Annotations& annotations);

/// The remedy that ends errors of the search: which annotation to add and where.
std::string annotation_remedy();

}  // namespace syncopate
