#include "syncopate/plan/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "syncopate/core/text.h"

namespace syncopate {

namespace {

/// Bytes that strides of tensor descriptors are multiples of, but for the last.
constexpr std::int64_t kStrideUnit = 16;

Range hull_of(const Range& a, const Range& b) {
  if (a.empty() || b.empty()) return a.empty() ? b : a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

/// What each tile reads through a parameter along a dimension, from the first index to the last.
std::vector<Range> reads_of_tiles(const TileSpace& space, const std::string& parameter, int dimension) {
  std::map<const LoopReads*, Range> known;  // tiles share records
  const auto of_loop = [&](const LoopReads& reads) {
    const auto [found, is_new] = known.try_emplace(&reads);
    if (!is_new) return found->second;
    for (const std::vector<LoopRead>& iteration : reads.iterations)
      for (const LoopRead& read : iteration)
        if (space.parameters[static_cast<std::size_t>(read.parameter)] == parameter && !read.region.empty())
          found->second = hull_of(found->second, read.region[dimension]);
    return found->second;
  };
  std::vector<Range> ranges;
  for (const TileFootprint& tile : space.tiles) {
    Range range;
    for (const ParameterAccess& access : tile.accesses)
      if (access.parameter == parameter)
        for (const Region& read : access.reads)
          if (!read.empty()) range = hull_of(range, read[dimension]);
    for (const LoopFootprint& loop : tile.loops)
      if (loop.reads && loop.iterations > 0) range = hull_of(range, of_loop(*loop.reads));
    if (!range.empty()) ranges.push_back(range);
  }
  return ranges;
}

Range page_range(const Pages& pages, std::int64_t page) { return {page * pages.size, (page + 1) * pages.size}; }

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

std::optional<Pages> find_pages(std::span<const TileSpace> spaces, const std::string& parameter, const Shape& shape,
                                int sharded) {
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (d == sharded) continue;
    std::vector<Range> ranges;
    for (const TileSpace& space : spaces) {
      const std::vector<Range> more = reads_of_tiles(space, parameter, d);
      ranges.insert(ranges.end(), more.begin(), more.end());
    }
    if (ranges.empty()) continue;
    const std::int64_t size = ranges.front().size();
    const std::int64_t extent = shape[static_cast<std::size_t>(d)];
    // A load that ends outside of the tensor would find there, in folded memory, what belongs to others. It is shorter.
    const bool all = std::all_of(ranges.begin(), ranges.end(),
                                 [&](const Range& range) { return range.size() == size && range.begin % size == 0; });
    if (all && size < extent && extent % size == 0) return Pages{d, size, extent / size};
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
                    "head, parts of one size that make up the dimension; or remove the budget");
  const std::int64_t page = whole / input.shape[static_cast<std::size_t>(pages->dimension)] * pages->size;
  const std::int64_t kept = input.budget / page;
  if (kept == 0)
    throw UserError(
        input.where,
        fmt::format("a memory budget of {} bytes holds no part of '{}' that a tile reads", input.budget, input.name),
        fmt::format("at least {} bytes: of all ranks, indices 0 to {} of dimension {}", page, pages->size - 1,
                    pages->dimension));
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
  LogicalTensor part = tensor;
  part.shape[static_cast<std::size_t>(pages.dimension)] = pages.size;
  const Schedule schedule = of_page(part);
  all.operators.resize(schedule.operators.size());
  for (std::int64_t page = 0; page < pages.count; ++page)
    append(all, schedule, pages.dimension, page_range(pages, page).begin);
  return all;
}

std::vector<Region> in_pages(const std::vector<Region>& boxes, const Pages& pages) {
  std::vector<Region> parts;
  for (std::int64_t page = 0; page < pages.count; ++page)
    for (Region box : boxes) {
      Range& range = box[pages.dimension];
      range = {std::max(range.begin, page_range(pages, page).begin), std::min(range.end, page_range(pages, page).end)};
      if (!box.empty()) parts.push_back(box);
    }
  return parts;
}

}  // namespace syncopate
