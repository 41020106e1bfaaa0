// Whether boxes partition a tensor: every element in exactly one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "syncopate/core/region.h"

namespace syncopate {

struct WrittenBox {
  Region region;
  std::size_t tile = 0;
};

/// Why boxes are no partition: two of them share `region`, or none of them holds it.
struct CoverProblem {
  Region region;
  bool overlap = false;
  std::size_t first_tile = 0;   ///< of an overlap
  std::size_t second_tile = 0;  ///< of an overlap
};

/// The first problem, overlaps before holes; nothing if the boxes partition a tensor of this shape. Sweeps dimension
/// by dimension: for tiles in a grid it takes n log n.
std::optional<CoverProblem> check_partition(const Shape& shape, const std::vector<WrittenBox>& boxes);

/// The same elements as disjoint boxes.
std::vector<Region> make_disjoint(const std::vector<Region>& regions);

}  // namespace syncopate
