// The heart of the emitter: a kernel whose tile scheduler is replaced by a walk over the rank's tile order.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "syncopate/emit/emit.h"
#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

struct WalkingKernel {
  std::string text;             ///< the `def`, without decorators; ends in a newline
  std::set<std::string> names;  ///< that it uses, as far as they are the user's
};

/// `name` is the fused kernel's; `reduced` the parameter of an output that is a sum over ranks, or "". Throws UserError
/// where the kernel cannot be edited.
WalkingKernel walk_tiles(const TileKernel& kernel, const std::string& name, const std::string& reduced,
                         const WalkOptions& options);

}  // namespace syncopate
