#include "syncopate/plan/plan_values.h"

#include <fmt/format.h>

#include <limits>

#include "syncopate/plan/limits.h"

namespace syncopate {

std::int64_t PlanValues::integer(const Json& value, std::string_view what, std::int64_t least,
                                 std::int64_t most) const {
  const std::int64_t number = expect_integer(file_, value, what);
  if (number < least || number > most)
    throw error(value, fmt::format("{} is {}", what, number), fmt::format("it must be from {} to {}", least, most));
  return number;
}

int PlanValues::small(const Json& value, std::string_view what, std::int64_t least, std::int64_t most) const {
  check_internal(least >= std::numeric_limits<int>::min() && most <= std::numeric_limits<int>::max(),
                 "a range of integers that are no int");
  return static_cast<int>(integer(value, what, least, most));
}

int PlanValues::index(const Json& value, std::string_view what, std::size_t size) const {
  if (size == 0) throw error(value, fmt::format("{} refers to an empty list", what), "remove it");
  return small(value, what, 0, static_cast<std::int64_t>(size) - 1);
}

bool PlanValues::boolean(const Json& value, std::string_view what) const {
  if (value.kind() != Json::Kind::boolean)
    throw error(value, fmt::format("{} is not a boolean", what), "true or false");
  return value.boolean();
}

const std::vector<Json>& PlanValues::tuple(const Json& value, std::string_view what, std::size_t size) const {
  const std::vector<Json>& items = expect_array(file_, value, what);
  if (items.size() != size)
    throw error(value, fmt::format("{} has {} part{}", what, items.size(), items.size() == 1 ? "" : "s"),
                fmt::format("it must have {}", size));
  return items;
}

std::vector<std::int64_t> PlanValues::integers(const Json& value, std::string_view what, std::int64_t least,
                                               std::int64_t most) const {
  std::vector<std::int64_t> list;
  for (const Json& item : expect_array(file_, value, what)) list.push_back(integer(item, what, least, most));
  return list;
}

Placement PlanValues::placement(const Json& value, std::string_view what, std::size_t dimensions) const {
  const std::string& text = expect_string(file_, value, what);
  const std::optional<Placement> parsed = Placement::parse(text);
  if (!parsed)
    throw error(value, fmt::format("'{}' is not a placement", text),
                "shard(dimension), zigzag(dimension), replicate or partial(sum)");
  if (parsed->cuts() && static_cast<std::size_t>(parsed->dimension) >= dimensions)
    throw error(value, fmt::format("'{}' of a tensor of {} dimension{}", text, dimensions, dimensions == 1 ? "" : "s"),
                fmt::format("dimensions count from 0 to {}", dimensions - 1));
  return *parsed;
}

Dtype PlanValues::dtype(const Json& value) const {
  const std::string& name = expect_string(file_, value, "'dtype'");
  const std::optional<Dtype> known = dtype_from_name(name);
  if (!known) throw error(value, fmt::format("unknown dtype '{}'", name), fmt::format("known: {}", all_dtype_names()));
  return *known;
}

Shape PlanValues::shape(const Json& value) const {
  Shape shape = integers(value, "a size of 'shape'", 1, kMostElements);
  if (shape.empty() || shape.size() > kMaxDimensions)
    throw error(value, fmt::format("a tensor of {} dimensions", shape.size()),
                fmt::format("from 1 to {}", kMaxDimensions));
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent > kMostElements / elements)
      throw error(value, fmt::format("a tensor of {} elements", to_string(shape)), "2^48 at most");
    elements *= extent;
  }
  return shape;
}

Region PlanValues::region(const Json& value, const Shape& shape, std::string_view tensor) const {
  const std::vector<Json>& items = tuple(value, "a region", shape.size());
  Region region = Region::whole(shape);
  for (int d = 0; d < region.dimensions(); ++d) {
    const Json& item = items[static_cast<std::size_t>(d)];
    const std::vector<Json>& pair = tuple(item, "a range", 2);
    const Range range{expect_integer(file_, pair[0], "the begin of a range"),
                      expect_integer(file_, pair[1], "the end of a range")};
    if (range.begin < 0 || range.end < range.begin || range.end > region[d].end)
      throw error(item,
                  fmt::format("the range {}:{} is not in dimension {} of {} ({})", range.begin, range.end, d, tensor,
                              to_string(shape)),
                  fmt::format("0 <= begin <= end <= {}", region[d].end));
    region[d] = range;
  }
  return region;
}

Region PlanValues::contiguous(const Json& value, const Shape& shape, std::string_view tensor) const {
  const Region box = region(value, shape, tensor);
  if (box.empty()) return box;
  // Of one run if no dimension before the last that is cut has more than one index.
  int d = box.dimensions() - 1;
  while (d > 0 && box[d].size() == shape[static_cast<std::size_t>(d)]) --d;
  for (--d; d >= 0; --d)
    if (box[d].size() > 1)
      throw error(value, fmt::format("{}{} is not contiguous in memory", tensor, box.to_string()),
                  "what tiles keep and add is contiguous");
  return box;
}

}  // namespace syncopate
