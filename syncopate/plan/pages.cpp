#include "syncopate/plan/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "syncopate/core/text.h"

namespace syncopate {

namespace {

/// Bytes that strides of tensor descriptors are multiples of, but for the last.
constexpr std::int64_t kStrideUnit = 16;

/// All that tiles read through a parameter.
std::vector<Region> reads_of(const TileSpace& space, const std::string& parameter) {
  std::vector<Region> regions;
  std::set<const LoopReads*> seen;
  for (const TileFootprint& tile : space.tiles) {
    for (const ParameterAccess& access : tile.accesses)
      if (access.parameter == parameter) regions.insert(regions.end(), access.reads.begin(), access.reads.end());
    for (const LoopFootprint& loop : tile.loops) {
      if (!loop.reads || !seen.insert(loop.reads.get()).second) continue;
      for (const std::vector<LoopRead>& iteration : loop.reads->iterations)
        for (const LoopRead& read : iteration)
          if (space.parameters[static_cast<std::size_t>(read.parameter)] == parameter) regions.push_back(read.region);
    }
  }
  std::erase_if(regions, [](const Region& region) { return region.empty(); });
  return regions;
}

/// How many indices the largest set of ranges spans that overlap each other, one the next.
std::int64_t largest_span(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::int64_t largest = 0;
  Range span;
  for (const Range& range : ranges) {
    if (range.begin >= span.end) span = range;
    span.end = std::max(span.end, range.end);
    largest = std::max(largest, span.size());
  }
  return largest;
}

Range page_range(const Pages& pages, std::int64_t page, std::int64_t extent) {
  return {page * pages.size, std::min((page + 1) * pages.size, extent)};
}

/// Appends the operators of one page, whose chunks count from its first index.
void append(Schedule& all, const Schedule& page, int dimension, std::int64_t begin) {
  const auto first_chunk = static_cast<int>(all.chunks.size());
  for (Chunk chunk : page.chunks) {
    chunk.region[dimension].begin += begin;
    chunk.region[dimension].end += begin;
    all.chunks.push_back(chunk);
  }
  std::vector<int> first;
  for (const std::vector<Operator>& list : all.operators) first.push_back(static_cast<int>(list.size()));
  for (std::size_t rank = 0; rank < page.operators.size(); ++rank)
    for (Operator op : page.operators[rank]) {
      auto& p2p = std::get<P2P>(op.action);
      p2p.source_chunk += first_chunk;
      p2p.destination_chunk += first_chunk;
      for (Dependency& dependency : op.dependencies)
        dependency.index += first[static_cast<std::size_t>(dependency.rank)];
      all.operators[rank].push_back(std::move(op));
    }
}

}  // namespace

std::optional<Pages> find_pages(const TileSpace& space, const std::string& parameter, const Shape& shape, int sharded) {
  const std::vector<Region> reads = reads_of(space, parameter);
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (d == sharded) continue;
    std::vector<Range> ranges;
    for (const Region& read : reads) ranges.push_back(read[d]);
    Pages pages{d, largest_span(ranges), 0};
    const std::int64_t extent = shape[static_cast<std::size_t>(d)];
    if (pages.size == 0 || pages.size >= extent) continue;
    pages.count = (extent + pages.size - 1) / pages.size;
    if (std::all_of(ranges.begin(), ranges.end(),
                    [&](const Range& range) { return range.begin / pages.size == (range.end - 1) / pages.size; }))
      return pages;
  }
  return std::nullopt;
}

std::optional<Fold> fold_within(const BoundedInput& input, const std::optional<Pages>& pages) {
  const std::int64_t element = size_in_bytes(input.dtype);
  const std::int64_t whole = volume(input.shape) * element;
  if (whole <= input.budget) return std::nullopt;
  if (!pages)
    throw UserError(input.where,
                    fmt::format("tensor '{}' is gathered, takes {} and cannot be bounded to {}", input.name,
                                format_bytes(whole), format_bytes(input.budget)),
                    "what a tile reads of it must keep to a part of another dimension than the sharded one, such as a "
                    "head, parts of one size side by side; or remove the budget");
  const std::int64_t page = whole / input.shape[static_cast<std::size_t>(pages->dimension)] * pages->size;
  const std::int64_t kept = input.budget / page;
  if (kept == 0)
    throw UserError(input.where,
                    fmt::format("a memory budget of {} holds no part of '{}' that a tile reads",
                                format_bytes(input.budget), input.name),
                    fmt::format("at least {}: of all ranks, indices 0 to {} of dimension {}", format_bytes(page),
                                pages->size - 1, pages->dimension));
  if (kept >= pages->count) return std::nullopt;
  const Fold fold{pages->dimension, kept * pages->size};
  Shape memory = input.shape;
  memory[static_cast<std::size_t>(fold.dimension)] = fold.extent;
  std::int64_t stride = element;
  for (std::size_t d = memory.size() - 1; d > 0; --d) {
    stride *= memory[d];
    if (stride % kStrideUnit != 0)
      throw UserError(input.where,
                      fmt::format("within a memory budget of {} tensor '{}' would be {} in memory, with a stride of {} "
                                  "bytes, of which no tensor descriptor can be made",
                                  format_bytes(input.budget), input.name, to_string(memory), stride),
                      fmt::format("a budget for a number of parts ({} each) that makes it a multiple of {}",
                                  format_bytes(page), kStrideUnit));
  }
  return fold;
}

Schedule in_pages(const LogicalTensor& tensor, const Pages& pages,
                  const std::function<Schedule(const LogicalTensor& page)>& of_page) {
  Schedule all;
  all.tensors = {tensor};
  const std::int64_t extent = tensor.shape[static_cast<std::size_t>(pages.dimension)];
  for (std::int64_t page = 0; page < pages.count; ++page) {
    const Range range = page_range(pages, page, extent);
    LogicalTensor part = tensor;
    part.shape[static_cast<std::size_t>(pages.dimension)] = range.size();
    const Schedule schedule = of_page(part);
    all.operators.resize(schedule.operators.size());
    append(all, schedule, pages.dimension, range.begin);
  }
  return all;
}

std::vector<Region> in_pages(const std::vector<Region>& boxes, const Pages& pages) {
  std::vector<Region> parts;
  for (std::int64_t page = 0; page < pages.count; ++page)
    for (Region box : boxes) {
      const Range range = page_range(pages, page, box[pages.dimension].end);
      box[pages.dimension] = {std::max(range.begin, box[pages.dimension].begin), range.end};
      if (!box.empty()) parts.push_back(box);
    }
  return parts;
}

}  // namespace syncopate
