// What a placement demands of a rank.
#pragma once

#include <algorithm>
#include <cstdint>

#include "syncopate/core/region.h"
#include "syncopate/schedule/placement.h"

namespace syncopate {

/// The part of a tensor that `rank` of `ranks` has under a placement that exists for this shape. Worked out here, and
/// not by the floor that made the plan, so that an error there is not repeated by the proof.
inline Region placed_region(const Placement& placement, const Shape& shape, int ranks, int rank) {
  Region region = Region::whole(shape);
  if (placement.kind == Placement::Kind::shard) {
    const std::int64_t extent = region[placement.dimension].end;
    const std::int64_t part = (extent + ranks - 1) / ranks;
    const std::int64_t begin = std::min(extent, part * rank);
    region[placement.dimension] = {begin, std::min(extent, begin + part)};
  }
  return region;
}

}  // namespace syncopate
