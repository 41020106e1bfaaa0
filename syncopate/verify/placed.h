// What a placement demands of a rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "syncopate/core/region.h"
#include "syncopate/schedule/placement.h"

namespace syncopate {

/// The part of a tensor that `rank` of `ranks` has under a placement, other than zigzag, that exists for this shape.
/// Worked out here, and not by the floor that made the plan, so that an error there is not repeated by the proof.
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

/// The boxes that it has under any placement.
inline std::vector<Region> placed_regions(const Placement& placement, const Shape& shape, int ranks, int rank) {
  if (placement.kind != Placement::Kind::zigzag) return {placed_region(placement, shape, ranks, rank)};
  const std::int64_t extent = shape[static_cast<std::size_t>(placement.dimension)];
  const std::int64_t stretches = std::int64_t{2} * ranks;
  const std::int64_t length = (extent + stretches - 1) / stretches;
  std::vector<Region> boxes;
  for (const std::int64_t stretch : {std::int64_t{rank}, stretches - 1 - rank}) {
    Region& box = boxes.emplace_back(Region::whole(shape));
    box[placement.dimension] = {std::min(extent, length * stretch), std::min(extent, length * (stretch + 1))};
  }
  return boxes;
}

}  // namespace syncopate
