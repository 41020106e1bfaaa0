// What ranks on different GPUs need of the link between these: copy engines and streams read and write the peer's
// memory, which takes peer access; and kernels add to counters there (tiles, and the small kernels that tell peers of
// starts and completions) to which others add too, which takes native atomics. Every plan of an operator that we ship
// has some of the latter, so all are held to it.
#pragma once

#include "syncopate/cuda/driver.h"

namespace syncopate::cuda {

/// Throws UserError unless GPU `from` can do all that at GPU `to`. Both are ordinals in this process.
void check_peer_access(const Driver& driver, int from, int to);

}  // namespace syncopate::cuda
