#include "syncopate/kernel/footprint_cover.h"

#include <algorithm>

namespace syncopate {
namespace {

class PartitionCheck {
 public:
  using Boxes = std::vector<const WrittenBox*>;

  PartitionCheck(const Shape& shape) : whole_(Region::whole(shape)) {}

  std::optional<CoverProblem> run(const std::vector<WrittenBox>& boxes) {
    Boxes all;
    for (const WrittenBox& box : boxes)
      if (!box.region.empty()) all.push_back(&box);
    if (!whole_.empty()) sweep(0, whole_, std::move(all));
    return overlap_ ? overlap_ : hole_;
  }

 private:
  /// Checks the cell: a box that every one of `boxes` spans in the dimensions before `dimension`.
  void sweep(int dimension, Region cell, Boxes boxes) {
    if (overlap_) return;
    if (dimension == whole_.dimensions()) {
      if (boxes.empty()) report_hole(cell);
      if (boxes.size() > 1) report_overlap(*boxes[0], *boxes[1]);
      return;
    }
    std::sort(boxes.begin(), boxes.end(), [&](const WrittenBox* a, const WrittenBox* b) {
      return a->region[dimension].begin < b->region[dimension].begin;
    });
    Boxes active;
    std::size_t next = 0;
    const std::int64_t end = whole_[dimension].end;
    for (std::int64_t position = 0; position < end && !overlap_;) {
      std::erase_if(active, [&](const WrittenBox* box) { return box->region[dimension].end <= position; });
      for (; next < boxes.size() && boxes[next]->region[dimension].begin <= position; ++next)
        active.push_back(boxes[next]);
      // The set of boxes stays the same up to where the next one begins or the first one ends.
      std::int64_t stop = next < boxes.size() ? boxes[next]->region[dimension].begin : end;
      for (const WrittenBox* box : active) stop = std::min(stop, box->region[dimension].end);
      cell[dimension] = {position, stop};
      // Without any box the whole slab is a hole; do not look for smaller ones.
      sweep(active.empty() ? whole_.dimensions() : dimension + 1, cell, active);
      position = stop;
    }
  }

  void report_hole(const Region& cell) {
    if (!hole_) hole_ = CoverProblem{cell, false, 0, 0};
  }

  void report_overlap(const WrittenBox& a, const WrittenBox& b) {
    const auto [first, second] = std::minmax(a.tile, b.tile);
    overlap_ = CoverProblem{intersect(a.region, b.region), true, first, second};
  }

  Region whole_;
  std::optional<CoverProblem> overlap_;
  std::optional<CoverProblem> hole_;
};

}  // namespace

std::optional<CoverProblem> check_partition(const Shape& shape, const std::vector<WrittenBox>& boxes) {
  return PartitionCheck(shape).run(boxes);
}

std::vector<Region> make_disjoint(const std::vector<Region>& regions) {
  std::vector<Region> result;
  for (const Region& region : regions) {
    const std::vector<Region> fresh = uncovered(region, result);
    result.insert(result.end(), fresh.begin(), fresh.end());
  }
  return result;
}

}  // namespace syncopate
