// The stores of a kernel whose outputs are sent to other ranks as they are: around them stand the raises of signals
// that say so. Nothing else of the tile changes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "syncopate/emit/line_editor.h"
#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

/// The columns of the tile order's rows after the waits, in kernels that raise signals and add nothing (KernelTables in
/// plan/plan.h).
inline constexpr std::size_t kSendColumns = 5;

/// Of the tile's own statements, the first and the last that are or hold a store to one of these parameters; null if
/// there are no parameters. Throws UserError for a parameter to which the kernel stores nothing, or nothing in the work
/// of a tile.
struct SentStores {
  const Statement* first = nullptr;
  const Statement* last = nullptr;
};
SentStores find_sent(const TileKernel& kernel, const std::vector<std::string>& parameters);

/// What must stand at the beginning of the tile loop's body, as lines. `axes`: how many index variables there are.
std::string send_start(const std::string& indentation, std::size_t axes);
/// Puts the raises around the stores to `sent`. `extra` is by how much the tile's statements move right.
void edit_sends(LineEditor& editor, const TileKernel& kernel, const std::vector<std::string>& sent,
                const std::string& extra);

}  // namespace syncopate
