// Many boxes of one tensor, and which of them a box meets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "syncopate/core/region.h"

namespace syncopate {

/// A box and whatever it belongs to.
template <typename Owner>
struct Box {
  Region region;
  Owner owner;
};

/// Two boxes that share an element, if there are any. Sorts the boxes.
template <typename Owner>
std::optional<std::pair<Box<Owner>, Box<Owner>>> find_overlap(std::vector<Box<Owner>>& boxes) {
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const Box<Owner>& a, const Box<Owner>& b) { return a.region < b.region; });
  if (boxes.size() < 2) return std::nullopt;
  if (boxes.front().region.dimensions() == 0) return std::pair(boxes[0], boxes[1]);
  // A sweep along the first dimension: `open` are those that reach the present place.
  std::vector<const Box<Owner>*> open;
  for (const Box<Owner>& box : boxes) {
    std::erase_if(open, [&](const Box<Owner>* other) { return other->region[0].end <= box.region[0].begin; });
    for (const Box<Owner>* other : open)
      if (other->region.overlaps(box.region)) return std::pair(*other, box);
    open.push_back(&box);
  }
  return std::nullopt;
}

/// Finds boxes by their place along the first dimension. Empty boxes are not kept.
template <typename Owner>
class BoxIndex {
 public:
  BoxIndex() = default;
  explicit BoxIndex(std::vector<Box<Owner>> boxes) : boxes_(std::move(boxes)) {
    std::erase_if(boxes_, [](const Box<Owner>& box) { return box.region.empty(); });
    std::stable_sort(boxes_.begin(), boxes_.end(),
                     [](const Box<Owner>& a, const Box<Owner>& b) { return a.region < b.region; });
    for (const Box<Owner>& box : boxes_)
      if (box.region.dimensions() > 0) longest_ = std::max(longest_, box.region[0].size());
  }

  const std::vector<Box<Owner>>& all() const { return boxes_; }

  /// Calls `visit(owner, common part)` for every box that meets `region`.
  template <typename Visitor>
  void for_each_in(const Region& region, Visitor&& visit) const {
    if (region.empty()) return;
    auto box = boxes_.begin();
    if (region.dimensions() > 0) {
      const std::int64_t first = region[0].begin - longest_;  // none that begins before reaches the region
      box = std::lower_bound(boxes_.begin(), boxes_.end(), first, [](const Box<Owner>& other, std::int64_t begin) {
        return other.region[0].begin <= begin;
      });
    }
    for (; box != boxes_.end(); ++box) {
      if (region.dimensions() > 0 && box->region[0].begin >= region[0].end) break;
      if (box->region.overlaps(region)) visit(box->owner, intersect(box->region, region));
    }
  }

 private:
  std::vector<Box<Owner>> boxes_;
  std::int64_t longest_ = 0;
};

}  // namespace syncopate
