#include "syncopate/plan/difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

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

double unit_roundoff(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp8e5m2:
      return 0x1p-3;
    case Dtype::fp8e4m3:
      return 0x1p-4;
    case Dtype::bf16:
      return 0x1p-8;
    case Dtype::fp16:
      return 0x1p-11;
    case Dtype::fp32:
      return 0x1p-24;
    case Dtype::fp64:
      return 0x1p-53;
    default:
      return 0;
  }
}

double coarsest_roundoff(const Plan& plan) {
  double largest = 0;
  for (const Buffer& buffer : plan.buffers) largest = std::max(largest, unit_roundoff(buffer.dtype));
  return largest;
}

double value_of(const std::byte* address, Dtype dtype) {
  if (is_floating(dtype) && dtype != Dtype::fp64) return static_cast<double>(load_element(address, dtype));
  return std::stod(value_text(address, dtype));
}

/// One output of a rank in two orders: the elements of `part`, row-major.
class TwoOrders {
 public:
  TwoOrders(const Plan& plan, int rank, std::size_t buffer, const Bytes& reordered, const Bytes& as_written)
      : about_(plan.buffers[buffer]), rank_(rank), one_(reordered), other_(as_written) {
    size_ = static_cast<std::size_t>(size_in_bytes(about_.dtype));
    part_ = Region::whole(about_.shape);
    if (one_.size() != static_cast<std::size_t>(part_.volume()) * size_)
      part_ = output_region(plan, static_cast<int>(buffer), rank);
    for (int d = 0; d < part_.dimensions(); ++d) extents_.push_back(part_[d].size());
  }

  /// `tile` is whose elements they are, in words.
  void compare(const std::string& tile, const Region& written, double roundoff, OrderDifference& worst) const {
    Region box = intersect(written, part_);
    if (box.empty()) return;
    for (int d = 0; d < box.dimensions(); ++d) box[d] = {box[d].begin - part_[d].begin, box[d].end - part_[d].begin};
    double largest = 0;
    for_each_run(box, extents_, [&](std::int64_t offset, std::int64_t count) {
      for (std::int64_t i = offset; i < offset + count; ++i) {
        const double magnitude = std::fabs(value_of(at(other_, i), about_.dtype));
        if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
      }
    });
    const double allowed = is_floating(about_.dtype) ? 16 * roundoff * largest : 0;
    for_each_run(box, extents_, [&](std::int64_t offset, std::int64_t count) {
      for (std::int64_t i = offset; i < offset + count; ++i) compare_element(tile, i, allowed, worst);
    });
  }

 private:
  const std::byte* at(const Bytes& bytes, std::int64_t element) const {
    return bytes.data() + static_cast<std::size_t>(element) * size_;
  }

  void compare_element(const std::string& tile, std::int64_t i, double allowed, OrderDifference& worst) const {
    if (std::memcmp(at(one_, i), at(other_, i), size_) == 0) return;
    double difference = std::fabs(value_of(at(one_, i), about_.dtype) - value_of(at(other_, i), about_.dtype));
    if (std::isnan(difference)) difference = std::numeric_limits<double>::infinity();
    // The larger share of what is allowed; beyond it, any.
    if (!worst.where.empty() && difference * worst.allowed <= worst.difference * allowed) return;
    worst = {difference, allowed,
             fmt::format("rank {}: {}{} is {} in the plan's order and {} in the kernel's own", rank_,
                         element_text(about_, place_in(part_, static_cast<std::size_t>(i))), tile,
                         value_text(at(one_, i), about_.dtype), value_text(at(other_, i), about_.dtype))};
  }

  const Buffer& about_;
  int rank_;
  const Bytes& one_;
  const Bytes& other_;
  std::size_t size_ = 1;
  Region part_;
  Shape extents_;
};

}  // namespace

OrderDifference order_difference(const Plan& plan, int rank, const std::vector<Bytes>& reordered,
                                 const std::vector<Bytes>& as_written) {
  const double roundoff = coarsest_roundoff(plan);
  OrderDifference worst;
  for (std::size_t buffer = 0; buffer < reordered.size(); ++buffer) {
    if (reordered[buffer].empty() || reordered[buffer] == as_written[buffer]) continue;
    const TwoOrders orders(plan, rank, buffer, reordered[buffer], as_written[buffer]);
    if (plan.buffers[buffer].role == BufferRole::result)  // tiles of several ranks have made it
      orders.compare("", Region::whole(plan.buffers[buffer].shape), roundoff, worst);
    for (const int number : tiles_of(plan, rank)) {
      const Tile& tile = plan.tiles[static_cast<std::size_t>(number)];
      for (const TileAccess& write : tile.writes)
        if (write.buffer == static_cast<int>(buffer))
          orders.compare(fmt::format(" of tile ({})", fmt::join(tile.index, ", ")), write.region, roundoff, worst);
    }
  }
  return worst;
}

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
