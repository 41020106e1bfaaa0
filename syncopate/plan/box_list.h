// Lists of boxes that grow as tiles and iterations add what they read.
#pragma once

#include <algorithm>
#include <vector>

#include "syncopate/core/region.h"

namespace syncopate {

/// Adds a box to a list, merging it with one of the last few where the two make a box: what follows each other reads
/// one box, or a few in turn, which grow.
inline void add_box(std::vector<Region>& boxes, const Region& region) {
  constexpr std::size_t kLookBack = 4;
  const std::size_t oldest = boxes.size() > kLookBack ? boxes.size() - kLookBack : 0;
  for (std::size_t i = boxes.size(); i > oldest; --i) {
    if (boxes[i - 1].contains(region)) return;
    const Region both = hull(boxes[i - 1], region);
    if (both.volume() != boxes[i - 1].volume() + region.volume() - intersect(boxes[i - 1], region).volume()) continue;
    boxes[i - 1] = both;
    return;
  }
  boxes.push_back(region);
}

}  // namespace syncopate
