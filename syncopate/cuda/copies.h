// Boxes of tensors as copies that a copy engine can make: rows of equal length at equal distance.
#pragma once

#include <cstdint>
#include <vector>

#include "syncopate/core/region.h"
#include "syncopate/cuda/driver.h"

namespace syncopate::cuda {

/// In elements. One row when `rows` is 1; then the pitches mean nothing.
struct Copy {
  std::int64_t source = 0;
  std::int64_t destination = 0;
  std::int64_t width = 0;
  std::int64_t rows = 1;
  std::int64_t source_pitch = 0;
  std::int64_t destination_pitch = 0;
  friend bool operator==(const Copy&, const Copy&) = default;
};

/// The copies that move box `source` of a tensor to box `destination` of another; the boxes have equal extents.
std::vector<Copy> copies_between(const Region& source, const Shape& source_shape, const Region& destination,
                                 const Shape& destination_shape);

/// The largest distance between rows that the driver takes (CU_DEVICE_ATTRIBUTE_MAX_PITCH), in bytes.
inline constexpr std::size_t kLargestPitch = 0x7fffffff;

/// What the driver is told for one of them: one operation, or, where rows are farther apart than it takes, one for each
/// row. A height of 1 is a run of bytes.
std::vector<Copy2dArguments> copy_operations(const Copy& copy, DevicePointer source, DevicePointer destination,
                                             std::size_t element_bytes);
void enqueue_copy(const Driver& driver, const Copy2dArguments& operation, Stream stream);

}  // namespace syncopate::cuda
