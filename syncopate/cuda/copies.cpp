#include "syncopate/cuda/copies.h"

#include <algorithm>
#include <deque>

namespace syncopate::cuda {
namespace {

struct Run {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

std::deque<Run> runs_of(const Region& region, const Shape& shape) {
  std::deque<Run> runs;
  for_each_run(region, shape, [&](std::int64_t offset, std::int64_t count) { runs.push_back({offset, count}); });
  return runs;
}

/// Appends a row, to the last copy if it continues it.
void append_row(std::vector<Copy>& copies, std::int64_t source, std::int64_t destination, std::int64_t width) {
  if (!copies.empty() && copies.back().width == width) {
    Copy& last = copies.back();
    const std::int64_t source_step = source - (last.source + (last.rows - 1) * last.source_pitch);
    const std::int64_t destination_step = destination - (last.destination + (last.rows - 1) * last.destination_pitch);
    const bool can_start = last.rows == 1 && source_step >= width && destination_step >= width;
    if (can_start ||
        (last.rows > 1 && source_step == last.source_pitch && destination_step == last.destination_pitch)) {
      last.source_pitch = source_step;
      last.destination_pitch = destination_step;
      ++last.rows;
      return;
    }
  }
  copies.push_back({source, destination, width});
}

}  // namespace

std::vector<Copy> copies_between(const Region& source, const Shape& source_shape, const Region& destination,
                                 const Shape& destination_shape) {
  check_internal(source.volume() == destination.volume(), "a copy between boxes of different sizes");
  std::deque<Run> from = runs_of(source, source_shape);
  std::deque<Run> to = runs_of(destination, destination_shape);
  std::vector<Copy> copies;
  // A box may be whole rows of one tensor but part of the rows of another: the shorter run sets the width.
  while (!from.empty()) {
    const std::int64_t width = std::min(from.front().count, to.front().count);
    append_row(copies, from.front().offset, to.front().offset, width);
    for (std::deque<Run>* side : {&from, &to}) {
      Run& run = side->front();
      run.offset += width;
      run.count -= width;
      if (run.count == 0) side->pop_front();
    }
  }
  return copies;
}

std::vector<Copy2dArguments> copy_operations(const Copy& copy, DevicePointer source, DevicePointer destination,
                                             std::size_t element_bytes) {
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements) * element_bytes; };
  Copy2dArguments operation;
  operation.source = source + bytes(copy.source);
  operation.source_pitch = bytes(copy.source_pitch);
  operation.destination = destination + bytes(copy.destination);
  operation.destination_pitch = bytes(copy.destination_pitch);
  operation.width = bytes(copy.width);
  operation.height = static_cast<std::size_t>(copy.rows);
  if (operation.height == 1 || std::max(operation.source_pitch, operation.destination_pitch) <= kLargestPitch)
    return {operation};
  std::vector<Copy2dArguments> rows(operation.height, operation);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    rows[row].source += row * operation.source_pitch;
    rows[row].destination += row * operation.destination_pitch;
    rows[row].source_pitch = rows[row].destination_pitch = 0;
    rows[row].height = 1;
  }
  return rows;
}

void enqueue_copy(const Driver& driver, const Copy2dArguments& operation, Stream stream) {
  driver.check(operation.height == 1
                   ? driver.copy_async(operation.destination, operation.source, operation.width, stream)
                   : driver.copy_2d_async(&operation, stream),
               "copying between tensors");
}

}  // namespace syncopate::cuda
