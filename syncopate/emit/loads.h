// The loads of inputs that are sums over ranks: each becomes a call of a helper that loads all summands and adds them.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "syncopate/emit/emit.h"
#include "syncopate/emit/line_editor.h"
#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

/// `extra` is by how many columns the tile's statements will move right. `is_copied` says of a piece of the kernel that
/// it will stand in the file a second time, as it was written. Throws UserError at a load that cannot be edited.
void edit_loads(LineEditor& editor, const TileKernel& kernel, const std::vector<SummedInput>& inputs, std::size_t extra,
                const std::function<bool(ByteRange)>& is_copied);

}  // namespace syncopate
