#include "syncopate/core/region.h"

#include <fmt/format.h>

#include <algorithm>

namespace syncopate {

Region::Region(std::span<const Range> ranges) : dimensions_(static_cast<int>(ranges.size())) {
  check_internal(ranges.size() <= kMaxDimensions, "region of too many dimensions");
  std::copy(ranges.begin(), ranges.end(), ranges_.begin());
}

Region Region::whole(const Shape& shape) {
  Region region;
  check_internal(shape.size() <= kMaxDimensions, "tensor of too many dimensions");
  region.dimensions_ = static_cast<int>(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) region.ranges_[d] = {0, shape[d]};
  return region;
}

bool Region::empty() const {
  for (int d = 0; d < dimensions_; ++d)
    if ((*this)[d].empty()) return true;
  return false;
}

std::int64_t Region::volume() const {
  std::int64_t product = 1;
  for (int d = 0; d < dimensions_; ++d) product *= (*this)[d].size();
  return product;
}

bool Region::contains(const Region& other) const {
  check_internal(dimensions_ == other.dimensions_, "regions of different dimensionality");
  if (other.empty()) return true;
  for (int d = 0; d < dimensions_; ++d)
    if (other[d].begin < (*this)[d].begin || other[d].end > (*this)[d].end) return false;
  return true;
}

bool Region::overlaps(const Region& other) const { return !intersect(*this, other).empty(); }

std::string Region::to_string() const {
  std::string text = "[";
  for (int d = 0; d < dimensions_; ++d)
    text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", (*this)[d].begin, (*this)[d].end);
  return text + "]";
}

bool operator==(const Region& a, const Region& b) { return (a <=> b) == std::strong_ordering::equal; }

std::strong_ordering operator<=>(const Region& a, const Region& b) {
  if (const auto order = a.dimensions_ <=> b.dimensions_; order != 0) return order;
  for (int d = 0; d < a.dimensions_; ++d)
    if (const auto order = a[d] <=> b[d]; order != 0) return order;
  return std::strong_ordering::equal;
}

Region intersect(const Region& a, const Region& b) {
  check_internal(a.dimensions() == b.dimensions(), "regions of different dimensionality");
  Region result = a;
  for (int d = 0; d < a.dimensions(); ++d) {
    result[d].begin = std::max(a[d].begin, b[d].begin);
    result[d].end = std::max(result[d].begin, std::min(a[d].end, b[d].end));
  }
  return result;
}

Region hull(const Region& a, const Region& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  Region result = a;
  for (int d = 0; d < a.dimensions(); ++d) result[d] = {std::min(a[d].begin, b[d].begin), std::max(a[d].end, b[d].end)};
  return result;
}

std::vector<Region> subtract(const Region& a, const Region& b) {
  std::vector<Region> pieces;
  const Region common = intersect(a, b);
  if (common.empty()) {
    if (!a.empty()) pieces.push_back(a);
    return pieces;
  }
  Region rest = a;
  for (int d = 0; d < a.dimensions(); ++d) {
    Region before = rest;
    before[d].end = common[d].begin;
    if (!before.empty()) pieces.push_back(before);
    Region after = rest;
    after[d].begin = common[d].end;
    if (!after.empty()) pieces.push_back(after);
    rest[d] = common[d];
  }
  return pieces;
}

std::vector<Region> uncovered(const Region& whole, std::span<const Region> parts) {
  std::vector<Region> holes;
  if (!whole.empty()) holes.push_back(whole);
  for (const Region& part : parts) {
    std::vector<Region> rest;
    for (const Region& hole : holes) {
      const std::vector<Region> pieces = subtract(hole, part);
      rest.insert(rest.end(), pieces.begin(), pieces.end());
    }
    holes = std::move(rest);
    if (holes.empty()) break;
  }
  return holes;
}

void append_merged(std::vector<Region>& regions, const Region& part) {
  if (part.empty()) return;
  if (!regions.empty()) {
    Region& last = regions.back();
    if (last.contains(part)) return;
    // The union is a box if the two agree in every dimension but one, and touch or overlap in that one.
    int different = -1;
    bool box = true;
    for (int d = 0; d < part.dimensions() && box; ++d) {
      if (last[d] == part[d]) continue;
      box = different < 0 && part[d].begin <= last[d].end && last[d].begin <= part[d].end;
      different = d;
    }
    if (box) {
      last = hull(last, part);
      return;
    }
  }
  regions.push_back(part);
}

std::int64_t contiguous_runs(const Region& region, const Shape& shape) {
  std::int64_t runs = 0;
  for_each_run(region, shape, [&](std::int64_t, std::int64_t) { ++runs; });
  return runs;
}

std::int64_t linear_offset(const Region& region, const Shape& shape) {
  std::int64_t offset = 0;
  for (int d = 0; d < region.dimensions(); ++d) offset = offset * shape[static_cast<std::size_t>(d)] + region[d].begin;
  return offset;
}

std::string to_string(const Shape& shape) { return fmt::format("{}", fmt::join(shape, " x ")); }

std::int64_t volume(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

Range chunk_of(Range range, std::int64_t parts, std::int64_t index) {
  check_internal(parts > 0 && index >= 0 && index < parts, "no such part");
  const std::int64_t step = (range.size() + parts - 1) / parts;
  const std::int64_t begin = std::min(range.begin + index * step, range.end);
  return {begin, std::min(begin + step, range.end)};
}

}  // namespace syncopate
