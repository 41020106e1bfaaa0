#include "syncopate/kernel/footprint_access.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace syncopate {
namespace {

std::size_t at_index(int index) { return static_cast<std::size_t>(index); }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

/// At most one run per dimension of a block, ordered by descending stride.
struct SortedRuns {
  int count = 0;
  std::array<AddressRun, kMaxLaneDimensions> run{};
};

/// Drops runs that stand still, turns descending ones round (moving `base`), sorts, and joins a run whose stride is
/// the length of the next one with it: rows that follow each other without a gap are one run.
SortedRuns sort_runs(std::int64_t& base, std::span<const AddressRun> runs) {
  SortedRuns sorted;
  for (AddressRun run : runs) {
    if (run.count == 1 || run.stride == 0) continue;
    if (run.stride < 0) {
      base += run.stride * (run.count - 1);
      run.stride = -run.stride;
    }
    int position = sorted.count++;
    for (; position > 0 && sorted.run[at_index(position - 1)].stride < run.stride; --position)
      sorted.run[at_index(position)] = sorted.run[at_index(position - 1)];
    sorted.run[at_index(position)] = run;
  }
  for (int i = sorted.count - 2; i >= 0; --i) {
    AddressRun& outer = sorted.run[at_index(i)];
    const AddressRun inner = sorted.run[at_index(i + 1)];
    if (outer.stride != inner.stride * inner.count) continue;
    outer = {inner.stride, outer.count * inner.count};
    std::copy(sorted.run.begin() + i + 2, sorted.run.begin() + sorted.count, sorted.run.begin() + i + 1);
    --sorted.count;
  }
  return sorted;
}

/// The coordinates of an offset. The outermost one takes what is left, so that it shows how far outside an offset is.
Region coordinates(const TensorLayout& tensor, std::int64_t offset) {
  Region region = tensor.whole;
  for (int i = 0; i < tensor.long_dimensions; ++i) {
    const std::int64_t stride = tensor.stride[at_index(i)];
    const std::int64_t index = stride == 1 ? offset : floor_divide(offset, stride);
    region[tensor.dimension[at_index(i)]] = {index, index + 1};
    offset -= index * stride;
  }
  return region;
}

/// Appends the boxes of the elements [begin, end) counted in row-major order over the long dimensions first..last.
void append_flat(const TensorLayout& tensor, int first, int last, Range elements, Region box,
                 std::vector<Region>& boxes) {
  Range& range = box[tensor.dimension[at_index(first)]];
  if (first == last) {
    range = elements;
    boxes.push_back(box);
    return;
  }
  const std::int64_t row = tensor.stride[at_index(first)] / tensor.stride[at_index(last)];
  const auto append_part = [&](std::int64_t index, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    range = {index, index + 1};
    append_flat(tensor, first + 1, last, {begin, end}, box, boxes);
  };
  std::int64_t begin_row = elements.begin / row;
  const std::int64_t end_row = elements.end / row, head = elements.begin % row, tail = elements.end % row;
  if (begin_row == end_row) return append_part(begin_row, head, tail);
  if (head != 0) append_part(begin_row++, head, row);
  if (begin_row < end_row) {
    range = {begin_row, end_row};
    for (int i = first + 1; i <= last; ++i) box[tensor.dimension[at_index(i)]] = {0, tensor.size[at_index(i)]};
    boxes.push_back(box);
  }
  append_part(end_row, 0, tail);
}

/// A run that is longer than its dimension: the long dimensions first..last that it goes through, and its elements
/// counted over these.
struct LongRun {
  int first = 0;
  int last = 0;
  Range elements;
};

/// Nothing if the run leaves the tensor, or goes into a dimension along which another run steps.
std::optional<LongRun> extend(const TensorLayout& tensor, const Region& corner,
                              const std::array<bool, kMaxDimensions>& taken, int dimension, std::int64_t count) {
  LongRun result{dimension, dimension, {}};
  const auto index_at = [&](int i) { return corner[tensor.dimension[at_index(i)]].begin; };
  std::int64_t capacity = tensor.size[at_index(dimension)];
  std::int64_t begin = index_at(dimension);
  while (begin + count > capacity) {
    const int outer = result.first - 1;
    if (outer < 0 || taken[at_index(outer)]) return std::nullopt;
    begin += index_at(outer) * capacity;
    capacity *= tensor.size[at_index(outer)];
    result.first = outer;
  }
  result.elements = {begin, begin + count};
  return result;
}

/// The union of two boxes where it is a box.
std::optional<Region> joined(const Region& a, const Region& b) {
  int different = -1;
  for (int d = 0; d < a.dimensions(); ++d) {
    if (a[d] == b[d]) continue;
    if (different >= 0) {
      if (a.contains(b)) return a;
      if (b.contains(a)) return b;
      return std::nullopt;
    }
    different = d;
  }
  if (different < 0) return a;
  if (b[different].begin > a[different].end || a[different].begin > b[different].end) return std::nullopt;
  return hull(a, b);
}

/// Goes through the straight pieces of the bent dimensions from `dimension` on and places every combination.
Placement place_pieces(const TensorLayout& tensor, const IndexForm& offsets, const LaneMask& lanes, int dimension,
                       std::int64_t base, std::array<AddressRun, kMaxLaneDimensions>& runs, std::vector<Region>& boxes,
                       Region& reached) {
  const int rank = offsets.shape.rank;
  if (dimension == rank) return place(tensor, base, std::span(runs.data(), at_index(rank)), boxes, reached);
  const std::int64_t end = lanes.end[at_index(dimension)];
  for (std::int64_t lane = lanes.begin[at_index(dimension)]; lane < end;) {
    const Piece piece = piece_at(offsets, dimension, lane, end);
    runs[at_index(dimension)] = {piece.slope, piece.end - piece.begin};
    const Placement placement =
        place_pieces(tensor, offsets, lanes, dimension + 1, base + piece.offset, runs, boxes, reached);
    if (placement != Placement::placed) return placement;
    lane = piece.end;
  }
  return Placement::placed;
}

}  // namespace

TensorLayout::TensorLayout(std::string tensor_name, Shape tensor_shape)
    : name(std::move(tensor_name)),
      shape(std::move(tensor_shape)),
      whole(Region::whole(shape)),
      volume(syncopate::volume(shape)) {
  std::int64_t next_stride = volume;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1 || volume == 0) continue;
    next_stride /= shape[d];
    const std::size_t i = at_index(long_dimensions++);
    dimension[i] = static_cast<int>(d);
    stride[i] = next_stride;
    size[i] = shape[d];
  }
}

Placement place(const TensorLayout& tensor, std::int64_t base, std::span<const AddressRun> runs,
                std::vector<Region>& boxes, Region& reached) {
  for (const AddressRun& run : runs)
    if (run.count <= 0) return Placement::placed;
  const SortedRuns sorted = sort_runs(base, runs);
  Region box = coordinates(tensor, base);
  std::int64_t largest = base;
  bool box_like = true, long_run = false;
  std::array<bool, kMaxDimensions> taken{};
  std::array<int, kMaxLaneDimensions> along{};
  int dimension = 0;
  for (int r = 0; r < sorted.count; ++r) {
    const AddressRun& run = sorted.run[at_index(r)];
    largest += run.stride * (run.count - 1);
    while (dimension < tensor.long_dimensions && tensor.stride[at_index(dimension)] > run.stride) ++dimension;
    if (dimension == tensor.long_dimensions || tensor.stride[at_index(dimension)] != run.stride ||
        taken[at_index(dimension)]) {
      box_like = false;
      continue;
    }
    taken[at_index(dimension)] = true;
    along[at_index(r)] = dimension;
    Range& range = box[tensor.dimension[at_index(dimension)]];
    range.end = range.begin + run.count;
    long_run = long_run || range.end > tensor.size[at_index(dimension)];
  }
  reached = box_like ? box : Region();
  if (base < 0 || largest >= tensor.volume) return Placement::outside;
  if (!box_like) return Placement::not_a_box;
  if (!long_run) {
    boxes.push_back(box);
    return Placement::placed;
  }
  std::vector<Region> parts{box}, next;
  for (int r = 0; r < sorted.count; ++r) {
    const int d = along[at_index(r)];
    if (box[tensor.dimension[at_index(d)]].end <= tensor.size[at_index(d)]) continue;
    const auto run = extend(tensor, box, taken, d, sorted.run[at_index(r)].count);
    if (!run) return Placement::outside;
    next.clear();
    for (const Region& part : parts) append_flat(tensor, run->first, run->last, run->elements, part, next);
    parts.swap(next);
  }
  boxes.insert(boxes.end(), parts.begin(), parts.end());
  return Placement::placed;
}

Placement place(const TensorLayout& tensor, const IndexForm& offsets, const LaneMask& lanes, std::vector<Region>& boxes,
                Region& reached) {
  if (lanes.empty()) return Placement::placed;
  std::array<AddressRun, kMaxLaneDimensions> runs;
  if (offsets.bent()) return place_pieces(tensor, offsets, lanes, 0, offsets.base, runs, boxes, reached);
  std::int64_t base = offsets.base;
  const int rank = offsets.shape.rank;
  for (int d = 0; d < rank; ++d) {
    const std::int64_t begin = lanes.begin[at_index(d)];
    base += offsets.slope[at_index(d)] * begin;
    runs[at_index(d)] = {offsets.slope[at_index(d)], lanes.end[at_index(d)] - begin};
  }
  return place(tensor, base, std::span(runs.data(), at_index(rank)), boxes, reached);
}

void add_region(std::vector<Region>& regions, const Region& region) {
  if (region.empty()) return;
  // A loop that reads a few boxes of one tensor in turn grows each of them.
  constexpr std::size_t kLookBack = 4;
  const std::size_t oldest = regions.size() > kLookBack ? regions.size() - kLookBack : 0;
  for (std::size_t i = regions.size(); i > oldest; --i) {
    const auto both = joined(regions[i - 1], region);
    if (!both) continue;
    regions[i - 1] = *both;
    // What is read in halves, one after the other, has grown by a whole that continues the box before.
    if (i < 2) return;
    if (const auto all = joined(regions[i - 2], *both)) {
      regions[i - 2] = *all;
      regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(i - 1));
    }
    return;
  }
  regions.push_back(region);
}

void merge_regions(std::vector<Region>& regions) {
  // Quadratic, so not for long lists: being merged is a convenience, not a promise.
  constexpr std::size_t kLongest = 64;
  if (regions.size() > kLongest) return;
  for (std::size_t i = 0; i < regions.size();) {
    bool merged = false;
    for (std::size_t j = i + 1; j < regions.size() && !merged; ++j) {
      const auto both = joined(regions[i], regions[j]);
      if (!both) continue;
      regions[i] = *both;
      regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(j));
      merged = true;
    }
    i = merged ? 0 : i + 1;
  }
}

}  // namespace syncopate
