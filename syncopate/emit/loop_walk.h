// The streamed loops of a kernel that walks the rank's tile order: each becomes a walk over the slot's steps, which
// runs the loop as written over the iterations of one piece after the other, each after the waits of its step.
#pragma once

#include <cstddef>
#include <string>

#include "syncopate/emit/line_editor.h"
#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

/// The columns of each streamed loop in the rows of the tile order (KernelTables in plan/plan.h).
inline constexpr std::size_t kLoopColumns = 2;

/// A variable that keeps the number of the tile's slot where the user's loop advances before the tile is done.
inline constexpr const char* kKeptSlot = "syncopate_current";
/// Whether any streamed loop stands behind that, and so needs the variable.
bool need_kept_slot(const TileKernel& kernel);

/// Edits the loops. `column` is the first column of the first loop in a row of the tile order, `extra` by how much the
/// tile's statements will move right, `unit` one step of indentation. Throws UserError where a loop cannot be edited.
void edit_streamed_loops(LineEditor& editor, const TileKernel& kernel, std::size_t column, const std::string& extra,
                         const std::string& unit);

}  // namespace syncopate
