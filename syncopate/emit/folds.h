// Inputs that stand in the memory of a part of them: their descriptors are made of that memory, and their loads take an
// offset modulo its extent.
#pragma once

#include <functional>
#include <vector>

#include "syncopate/emit/emit.h"
#include "syncopate/emit/line_editor.h"
#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

/// `is_copied` says of a piece of the kernel that it will stand in the file a second time, as it was written. `ends`:
/// parameters of the outputs after whose last store it is said that a tile has read. Throws UserError at a load or a
/// descriptor that cannot be edited, and at a load that comes later.
void edit_folded(LineEditor& editor, const TileKernel& kernel, const std::vector<FoldedInput>& inputs,
                 const std::vector<std::string>& ends, const std::function<bool(ByteRange)>& is_copied);

}  // namespace syncopate
