// From addresses to boxes: which boxes of a row-major tensor a set of evenly spaced element offsets is.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "syncopate/core/region.h"
#include "syncopate/kernel/index_form.h"

namespace syncopate {

/// A tensor behind a pointer parameter.
struct TensorLayout {
  TensorLayout(std::string tensor_name, Shape tensor_shape);

  std::string name;
  Shape shape;
  Region whole;
  std::int64_t volume = 1;
  /// The dimensions of more than one element, outermost first, and their strides and sizes. Dimensions of one element
  /// have no stride of their own: their index is 0.
  int long_dimensions = 0;
  std::array<int, kMaxDimensions> dimension{};
  std::array<std::int64_t, kMaxDimensions> stride{};
  std::array<std::int64_t, kMaxDimensions> size{};
};

/// `count` offsets, `stride` elements apart. Several runs together stand for all sums of one offset from each.
struct AddressRun {
  std::int64_t stride = 0;
  std::int64_t count = 0;
};

enum class Placement : std::uint8_t { placed, outside, not_a_box };

/// Appends the boxes that hold exactly the elements at `base` plus `runs`. Each run must step along one dimension of
/// the tensor; one that runs past the end of its dimension continues in the next outer one, as memory does, unless
/// another run steps along that one (then the access leaves the tensor's shape: `outside`). On failure
/// `reached`, if it can be told, is the box that the access asks for, and `boxes` is of no use.
Placement place(const TensorLayout& tensor, std::int64_t base, std::span<const AddressRun> runs,
                std::vector<Region>& boxes, Region& reached);

/// The same for a block of offsets and the lanes of it that a mask leaves.
Placement place(const TensorLayout& tensor, const IndexForm& offsets, const LaneMask& lanes, std::vector<Region>& boxes,
                Region& reached);

/// Adds a box to a list, merging it with one of the last few if the two make a box.
void add_region(std::vector<Region>& regions, const Region& region);
/// Merges boxes of the list with each other as long as any two make a box.
void merge_regions(std::vector<Region>& regions);

}  // namespace syncopate
