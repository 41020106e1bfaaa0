#include "syncopate/plan/difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace syncopate {
namespace {

std::string value_text(const std::byte* address, Dtype dtype) {
  if (dtype == Dtype::fp64) {
    double value = 0;
    std::memcpy(&value, address, sizeof value);
    return fmt::format("{}", value);
  }
  if (is_floating(dtype)) return fmt::format("{}", load_element(address, dtype));
  std::uint64_t bits = 0;
  const auto size = static_cast<std::size_t>(size_in_bytes(dtype));
  std::memcpy(&bits, address, size);
  if (!is_signed_integer(dtype)) return fmt::format("{}", bits);
  const auto unused = static_cast<int>(64 - 8 * size);
  return fmt::format("{}", static_cast<std::int64_t>(bits << unused) >> unused);
}

/// "c[3, 17]".
std::string element_text(const Buffer& buffer, const Region& element) {
  std::vector<std::int64_t> index;
  for (int d = 0; d < element.dimensions(); ++d) index.push_back(element[d].begin);
  return fmt::format("{}[{}]", buffer.name, fmt::join(index, ", "));
}

/// The element of a buffer that is element `number` of a part of it.
Region place_in(const Region& part, std::size_t number) {
  Shape extents;
  for (int d = 0; d < part.dimensions(); ++d) extents.push_back(part[d].size());
  Region element = element_region(static_cast<std::int64_t>(number), extents);
  for (int d = 0; d < part.dimensions(); ++d)
    element[d] = {element[d].begin + part[d].begin, element[d].end + part[d].begin};
  return element;
}

std::string writing_tile(const Plan& plan, std::size_t buffer, const Region& element) {
  for (const Tile& tile : plan.tiles)
    for (const TileAccess& access : tile.writes)
      if (access.buffer == static_cast<int>(buffer) && access.region.contains(element))
        return fmt::format(" of tile ({})", fmt::join(tile.index, ", "));
  return {};
}

}  // namespace

Region element_region(std::int64_t element, const Shape& shape) {
  Region region = Region::whole(shape);
  for (int d = region.dimensions() - 1; d >= 0; --d) {
    const std::int64_t extent = std::max<std::int64_t>(shape[static_cast<std::size_t>(d)], 1);
    const std::int64_t index = element % extent;
    region[d] = {index, index + 1};
    element /= extent;
  }
  return region;
}

std::optional<std::string> first_difference(const Plan& plan, int rank, std::int64_t launch,
                                            const std::vector<Bytes>& outputs, const std::vector<Bytes>& expected) {
  for (std::size_t buffer = 0; buffer < outputs.size(); ++buffer) {
    if (outputs[buffer] == expected[buffer]) continue;
    const Buffer& about = plan.buffers[buffer];
    const auto size = static_cast<std::size_t>(size_in_bytes(about.dtype));
    std::size_t at = 0;
    while (std::memcmp(outputs[buffer].data() + at, expected[buffer].data() + at, size) == 0) at += size;
    const Region element = place_in(output_region(plan, static_cast<int>(buffer), rank), at / size);
    return fmt::format("rank {}, launch {}: {}{} is {}, but the unfused operator gives {}", rank, launch,
                       element_text(about, element), writing_tile(plan, buffer, element),
                       value_text(outputs[buffer].data() + at, about.dtype),
                       value_text(expected[buffer].data() + at, about.dtype));
  }
  return std::nullopt;
}

}  // namespace syncopate
