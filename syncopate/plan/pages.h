// Part of pass 1: a gathered input whose memory is bounded. Where tiles read it part by part along a dimension that is
// not sharded, such as the heads of keys and values, it travels in such parts, its pages, one after the other, and the
// kernel's buffer is folded (Plan, "Folded buffers"): memory holds a few pages at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "syncopate/core/dtype.h"
#include "syncopate/core/source.h"
#include "syncopate/kernel/footprint.h"
#include "syncopate/plan/plan.h"
#include "syncopate/schedule/schedule.h"

namespace syncopate {

/// Along one dimension of a tensor the indices from a multiple of `size` to below the next, `count` times: each is all
/// that some tiles read, along that dimension, and no tile reads parts of two.
struct Pages {
  int dimension = 0;
  std::int64_t size = 1;
  std::int64_t count = 1;
  int page_of(const Region& region) const { return static_cast<int>(region[dimension].begin / size); }
};

/// The pages of a tensor that the kernel, whose tiles are those of all `spaces`, has as a whole and reads through
/// `parameter`, along the first dimension but `sharded` that has more than one; nothing if none has.
std::optional<Pages> find_pages(std::span<const TileSpace> spaces, const std::string& parameter, const Shape& shape,
                                int sharded);

/// A gathered input whose memory is to be bounded.
struct BoundedInput {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::bf16;
  std::int64_t budget = 0;  ///< bytes
  SourceLocation where;     ///< of the budget
};
/// The fold that holds as many pages as the budget allows; nothing if that is all of them, or if the budget is enough
/// for the whole tensor. Throws UserError, at the budget, if it is not enough for one page, if there are no pages, and
/// if no descriptor could be made of the folded memory.
std::optional<Fold> fold_within(const BoundedInput& input, const std::optional<Pages>& pages);

/// The schedule of a tensor that travels page by page: `of_page(page)` makes that of each, a tensor of a page's size
/// with all else as in `tensor`. Every rank's list has the operators of a page before those of the next.
Schedule in_pages(const LogicalTensor& tensor, const Pages& pages,
                  const std::function<Schedule(const LogicalTensor& page)>& of_page);
/// The boxes, page by page.
std::vector<Region> in_pages(const std::vector<Region>& boxes, const Pages& pages);

}  // namespace syncopate
