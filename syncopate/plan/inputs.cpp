#include "syncopate/plan/inputs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "syncopate/plan/random.h"

namespace syncopate {
namespace {

/// Any element but a floating one of eight bytes, which load_element does not know.
void write_float(std::byte* address, Dtype dtype, double value) {
  if (dtype == Dtype::fp64) {
    std::memcpy(address, &value, sizeof value);
  } else {
    store_element(address, dtype, static_cast<float>(value));
  }
}

void fill(Bytes& bytes, std::span<const std::byte> pattern) {
  for (std::size_t at = 0; at < bytes.size(); at += pattern.size())
    std::memcpy(bytes.data() + at, pattern.data(), pattern.size());
}

using Element = std::array<std::byte, 8>;

/// The bytes of -1, 0 and 1; unsigned types and booleans have 1 for -1.
std::array<Element, 3> encode_units(Dtype dtype) {
  std::array<Element, 3> elements{};
  for (int value = -1; value <= 1; ++value) {
    Element& element = elements[static_cast<std::size_t>(value + 1)];
    if (is_floating(dtype)) {
      write_float(element.data(), dtype, value);
    } else if (is_signed_integer(dtype)) {
      std::memset(element.data(), value < 0 ? 0xff : 0, element.size());
      if (value > 0) element[0] = std::byte{1};
    } else if (value != 0) {
      element[0] = std::byte{1};
    }
  }
  return elements;
}

/// Half of the elements are zero and the others -1 or 1, so that sums of thousands of products stay below 256 and are
/// exact even in bf16.
void fill_units(Bytes& bytes, Dtype dtype, Random& random) {
  const std::array<Element, 3> units = encode_units(dtype);
  const std::array<const Element*, 4> choices = {&units[0], &units[1], &units[1], &units[2]};
  const auto size = static_cast<std::size_t>(size_in_bytes(dtype));
  std::uint64_t bits = 0;
  int left = 0;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    if (left == 0) {
      bits = random.next();
      left = 32;
    }
    std::memcpy(bytes.data() + at, choices[bits & 3]->data(), size);
    bits >>= 2;
    --left;
  }
}

void fill_integers(Bytes& bytes, Dtype dtype, Range values, Random& random) {
  const auto size = static_cast<std::size_t>(size_in_bytes(dtype));
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const auto count = static_cast<std::uint64_t>(values.size());
    const std::int64_t value = values.begin + static_cast<std::int64_t>(random.next() % count);
    std::memcpy(bytes.data() + at, &value, size);  // the low bytes come first
  }
}

void fill_reals(Bytes& bytes, Dtype dtype, Random& random) {
  const auto size = static_cast<std::size_t>(size_in_bytes(dtype));
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    // 53 random bits give every multiple of 2^-52 in [-1, 1).
    const double value = static_cast<double>(random.next() >> 11) * 0x1p-52 - 1.0;
    write_float(bytes.data() + at, dtype, value);
  }
}

}  // namespace

void poison(Bytes& bytes, Dtype dtype) {
  Element pattern;
  pattern.fill(std::byte{0x5a});
  if (is_floating(dtype)) write_float(pattern.data(), dtype, std::numeric_limits<double>::quiet_NaN());
  fill(bytes, std::span(pattern).first(static_cast<std::size_t>(size_in_bytes(dtype))));
}

Bytes poison(Dtype dtype, std::int64_t elements) {
  Bytes bytes(static_cast<std::size_t>(elements) * static_cast<std::size_t>(size_in_bytes(dtype)));
  poison(bytes, dtype);
  return bytes;
}

Bytes random_tensor(Dtype dtype, std::int64_t elements, InputKind kind, std::uint64_t stream, Range values) {
  Bytes bytes(static_cast<std::size_t>(elements) * static_cast<std::size_t>(size_in_bytes(dtype)));
  Random random(stream);
  // "Reals" of an integer type would be zeros.
  if (!values.empty()) {
    fill_integers(bytes, dtype, values, random);
  } else if (kind == InputKind::reals && is_floating(dtype)) {
    fill_reals(bytes, dtype, random);
  } else {
    fill_units(bytes, dtype, random);
  }
  return bytes;
}

Shape tensor_shape(const Buffer& buffer) {
  if (buffer.window.empty()) return buffer.shape;
  Shape shape(buffer.shape.size(), 0);
  for (const Region& window : buffer.window)
    for (std::size_t d = 0; d < shape.size() && !window.empty(); ++d)
      shape[d] = std::max(shape[d], window[static_cast<int>(d)].end);
  return shape;
}

void copy_box(const Bytes& from, const Shape& from_shape, const Region& from_box, Bytes& to, const Shape& to_shape,
              const Region& to_box, Dtype dtype) {
  struct Run {
    std::int64_t offset;
    std::int64_t count;
  };
  const auto element = static_cast<std::size_t>(size_in_bytes(dtype));
  std::vector<Run> sources;
  for_each_run(from_box, from_shape,
               [&](std::int64_t offset, std::int64_t count) { sources.push_back({offset, count}); });
  std::size_t next = 0;
  for_each_run(to_box, to_shape, [&](std::int64_t offset, std::int64_t count) {
    while (count > 0) {
      Run& source = sources[next];
      const std::int64_t common = std::min(count, source.count);
      std::memcpy(to.data() + static_cast<std::size_t>(offset) * element,
                  from.data() + static_cast<std::size_t>(source.offset) * element,
                  static_cast<std::size_t>(common) * element);
      offset += common;
      count -= common;
      source = {source.offset + common, source.count - common};
      if (source.count == 0) ++next;
    }
  });
}

bool is_input(const Buffer& buffer) {
  const auto is_there = [](const Region& box) { return !box.empty(); };
  return std::any_of(buffer.held.begin(), buffer.held.end(), [&](const std::vector<Region>& boxes) {
    return std::any_of(boxes.begin(), boxes.end(), is_there);
  });
}

std::vector<bool> written_by_tiles(const Plan& plan) {
  std::vector<bool> written(plan.buffers.size(), false);
  for (const Tile& tile : plan.tiles)
    for (const TileAccess& access : tile.writes)
      if (!access.region.empty()) written[static_cast<std::size_t>(access.buffer)] = true;
  return written;
}

std::vector<bool> left_by_launches(const Plan& plan) {
  std::vector<bool> left = written_by_tiles(plan);
  for (std::size_t buffer = 0; buffer < left.size(); ++buffer)
    left[buffer] = left[buffer] || plan.buffers[buffer].role == BufferRole::result;
  return left;
}

namespace {

/// One tensor, of which the callers' buffers show parts, and the kernels' others.
void fill_exchanged(const Plan& plan, int source, std::uint64_t stream, InputKind kind,
                    std::vector<std::vector<Bytes>>& inputs) {
  const Shape shape = tensor_shape(plan.buffer(source));
  const std::vector<Range>& values = plan.buffer(source).values;
  const Bytes tensor =
      random_tensor(plan.buffer(source).dtype, volume(shape), kind, stream, values.empty() ? Range{} : values.front());
  for (const int index : {source, plan.buffer(source).partner}) {
    const Buffer& about = plan.buffer(index);
    for (int rank = 0; rank < plan.ranks; ++rank) {
      Bytes& bytes = inputs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(index)];
      bytes = poison(about.dtype, volume(about.shape));
      const Region window = shown_region(about, rank);
      if (window.empty()) continue;
      copy_box(tensor, shape, window, bytes, about.shape, in_buffer(about, rank, window), about.dtype);
    }
  }
}

}  // namespace

std::vector<std::vector<Bytes>> launch_inputs(const Plan& plan, std::uint64_t seed, InputKind kind,
                                              std::int64_t launch) {
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  std::vector<std::vector<Bytes>> inputs(ranks, std::vector<Bytes>(plan.buffers.size()));
  const auto stream_of = [&](std::size_t buffer, std::size_t rank) {
    std::uint64_t stream = mix_bits(seed + 1);
    for (const std::uint64_t part : {static_cast<std::uint64_t>(launch), std::uint64_t{buffer}, std::uint64_t{rank}})
      stream = mix_bits(stream ^ mix_bits(part + 1));
    return stream;
  };
  for (std::size_t buffer = 0; buffer < plan.buffers.size(); ++buffer) {
    const Buffer& about = plan.buffers[buffer];
    if (about.role == BufferRole::source)
      fill_exchanged(plan, static_cast<int>(buffer), stream_of(buffer, 0), kind, inputs);
    if (!is_input(about) || about.role == BufferRole::source) continue;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (rank > 0 && about.shared) {
        inputs[rank][buffer] = inputs[0][buffer];
        continue;
      }
      inputs[rank][buffer] = random_tensor(about.dtype, volume(about.shape), kind, stream_of(buffer, rank),
                                           about.values.empty() ? Range{} : about.values[rank]);
    }
  }
  return inputs;
}

std::vector<bool> has_launch_inputs(const Plan& plan) {
  std::vector<bool> has;
  for (std::size_t buffer = 0; buffer < plan.buffers.size(); ++buffer) {
    const int caller = caller_side(plan, static_cast<int>(buffer));
    has.push_back(is_input(plan.buffers[buffer]) || (caller >= 0 && plan.buffer(caller).role == BufferRole::source));
  }
  return has;
}

}  // namespace syncopate
