// Boxes in the index space of a tensor, and their set algebra.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "syncopate/core/error.h"

namespace syncopate {

/// The most dimensions a tensor may have.
inline constexpr int kMaxDimensions = 5;

/// Half-open range [begin, end) of indices. Empty when end <= begin.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end > begin ? end - begin : 0; }
  bool empty() const { return end <= begin; }
  friend bool operator==(const Range&, const Range&) = default;
  friend auto operator<=>(const Range&, const Range&) = default;
};

/// Row-major extents of a tensor, in elements.
using Shape = std::vector<std::int64_t>;

/// A box: one half-open Range per dimension. A value type without heap memory. A box with an empty range is
/// empty; a box of zero dimensions holds one element (a scalar).
class Region {
 public:
  Region() = default;
  Region(std::initializer_list<Range> ranges) : Region(std::span<const Range>(ranges.begin(), ranges.size())) {}
  explicit Region(std::span<const Range> ranges);
  /// The whole index space of a tensor.
  static Region whole(const Shape& shape);

  int dimensions() const { return dimensions_; }
  const Range& operator[](int dimension) const { return ranges_[static_cast<std::size_t>(dimension)]; }
  Range& operator[](int dimension) { return ranges_[static_cast<std::size_t>(dimension)]; }

  bool empty() const;
  /// Number of elements.
  std::int64_t volume() const;
  /// Whether every element of `other` is in this box (an empty box is in every box).
  bool contains(const Region& other) const;
  bool overlaps(const Region& other) const;
  /// "[0:128, 0:512]".
  std::string to_string() const;

  friend bool operator==(const Region& a, const Region& b);
  friend std::strong_ordering operator<=>(const Region& a, const Region& b);

 private:
  int dimensions_ = 0;
  std::array<Range, kMaxDimensions> ranges_{};
};

/// The common part of two boxes of equal dimensionality; empty if they do not meet.
Region intersect(const Region& a, const Region& b);
/// The smallest box that holds both.
Region hull(const Region& a, const Region& b);
/// The elements of `a` that are not in `b`, as disjoint boxes (at most two per dimension).
std::vector<Region> subtract(const Region& a, const Region& b);
/// The elements of `whole` that are in none of `parts`, as disjoint boxes. Empty when the parts cover it.
std::vector<Region> uncovered(const Region& whole, std::span<const Region> parts);
/// Adds `part` to a list of boxes, merging it with the last box when the union of the two is itself a box.
void append_merged(std::vector<Region>& regions, const Region& part);
/// Number of contiguous runs of elements that `region` makes in a row-major tensor of this shape.
std::int64_t contiguous_runs(const Region& region, const Shape& shape);
/// Row-major offset, in elements, of the first element of `region`.
std::int64_t linear_offset(const Region& region, const Shape& shape);

/// Calls `visit(offset, count)` for every maximal contiguous run of `region` in a row-major tensor, in ascending
/// order; offset and count are in elements.
template <typename Visitor>
void for_each_run(const Region& region, const Shape& shape, Visitor&& visit) {
  if (region.empty()) return;
  // Trailing dimensions that are covered whole belong to one run; `inner` is the first dimension of the run.
  int inner = region.dimensions();
  std::int64_t run = 1;
  std::vector<std::int64_t> stride(static_cast<std::size_t>(region.dimensions()) + 1, 1);
  for (int d = region.dimensions() - 1; d >= 0; --d)
    stride[static_cast<std::size_t>(d)] = stride[static_cast<std::size_t>(d) + 1] * shape[static_cast<std::size_t>(d)];
  while (inner > 0) {
    --inner;
    run *= region[inner].size();
    if (region[inner].size() != shape[static_cast<std::size_t>(inner)]) break;
  }
  std::array<std::int64_t, kMaxDimensions> index{};
  for (int d = 0; d < region.dimensions(); ++d) index[static_cast<std::size_t>(d)] = region[d].begin;
  for (;;) {
    std::int64_t offset = 0;
    for (int d = 0; d < region.dimensions(); ++d)
      offset += index[static_cast<std::size_t>(d)] * stride[static_cast<std::size_t>(d) + 1];
    visit(offset, run);
    int d = inner - 1;
    for (; d >= 0; --d) {
      if (++index[static_cast<std::size_t>(d)] < region[d].end) break;
      index[static_cast<std::size_t>(d)] = region[d].begin;
    }
    if (d < 0) return;
  }
}

/// "1024 x 512".
std::string to_string(const Shape& shape);
/// Number of elements of a tensor.
std::int64_t volume(const Shape& shape);
/// Part `index` of `range` cut in `parts` as torch.chunk cuts: every part has ceil(size/parts) elements but the last
/// non-empty one, which may be smaller; parts beyond it are empty.
Range chunk_of(Range range, std::int64_t parts, std::int64_t index);

}  // namespace syncopate
