#include "syncopate/plan/one_shot.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace syncopate {
namespace {

/// Less is not worth a worker's while: 16 bytes for each of 256 threads.
constexpr std::int64_t kLeastBytes = 4096;
/// What threads load and store at a time.
constexpr std::int64_t kVectorBytes = 16;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Each of the boxes in boxes of `step` indices along a dimension.
std::vector<Region> cut_all(const std::vector<Region>& boxes, int dimension, std::int64_t step) {
  std::vector<Region> pieces;
  for (const Region& box : boxes)
    for (std::int64_t begin = box[dimension].begin; begin < box[dimension].end; begin += step) {
      pieces.push_back(box);
      pieces.back()[dimension] = {begin, std::min(begin + step, box[dimension].end)};
    }
  return pieces;
}

/// Cuts whole rows (of the outermost dimension) into about `parts` contiguous boxes. Borders inside the innermost
/// dimension are multiples of `vector` elements.
std::vector<Region> cut_evenly(const Region& rows, std::int64_t parts, std::int64_t vector) {
  std::vector<Region> boxes = {rows};
  const int innermost = rows.dimensions() - 1;
  for (int d = 0; d < innermost; ++d) {
    if (rows[d].size() >= parts) return cut_all(boxes, d, ceil_div(rows[d].size(), parts));
    boxes = cut_all(boxes, d, 1);
    parts = ceil_div(parts, rows[d].size());
  }
  return cut_all(boxes, innermost, ceil_div(ceil_div(rows[innermost].size(), parts), vector) * vector);
}

Buffer buffer_for(const Plan& plan, int partner, std::string name, BufferRole role, std::string purpose) {
  const Buffer& kernel = plan.buffer(partner);
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.shape = kernel.shape;
  buffer.dtype = kernel.dtype;
  buffer.purpose = std::move(purpose);
  buffer.role = role;
  buffer.partner = partner;
  return buffer;
}

std::vector<std::vector<Region>> nothing(const Shape& shape, int ranks) {
  Region empty = Region::whole(shape);
  for (int d = 0; d < empty.dimensions(); ++d) empty[d] = {0, 0};
  return std::vector<std::vector<Region>>(static_cast<std::size_t>(ranks), {empty});
}

void check_options(const CommunicatedTensor& communicated) {
  const std::string what = "a one-shot all-reduce keeps all summands until they are added, after the tiles";
  if (communicated.memory_budget)
    throw UserError(communicated.budget_where, what,
                    "remove the memory budget, or choose an algorithm that shares the reduction, such as \"direct\"");
  if (communicated.sum == SumPlace::in_place)
    throw UserError(communicated.sum_where, what, "remove 'sum', or sum = \"staging\"");
}

/// The work that stores any of a region of a buffer.
std::vector<int> storing(const Plan& plan, const std::vector<Work>& work, int buffer, const Region& region) {
  std::vector<int> list;
  for (std::size_t w = 0; w < work.size(); ++w) {
    const std::vector<TileAccess>& writes = plan.tiles[static_cast<std::size_t>(work[w].tile)].writes;
    if (std::any_of(writes.begin(), writes.end(),
                    [&](const TileAccess& write) { return write.buffer == buffer && write.region.overlaps(region); }))
      list.push_back(static_cast<int>(w));
  }
  return list;
}

}  // namespace

bool is_one_shot(const Schedule& schedule) {
  bool any = false;
  for (const std::vector<Operator>& list : schedule.operators)
    for (const Operator& op : list) {
      const auto& p2p = std::get<P2P>(op.action);
      if (!p2p.own || p2p.reduction != Reduction::sum) return false;
      any = true;
    }
  return any;
}

void place_one_shot(const CommunicatedTensor& communicated, Plan& plan) {
  check_options(communicated);
  const int kernel = communicated.buffer;
  Buffer& summed = plan.buffers[static_cast<std::size_t>(kernel)];
  const std::string name = std::exchange(summed.name, summed.name + "_inside");
  const std::vector<Region> whole(static_cast<std::size_t>(plan.ranks), Region::whole(summed.shape));
  bool pushed = false;
  bool pulled = false;
  for (std::size_t rank = 0; rank < communicated.schedule.operators.size(); ++rank)
    for (const Operator& op : communicated.schedule.operators[rank])
      (std::get<P2P>(op.action).source_rank == static_cast<int>(rank) ? pushed : pulled) = true;
  summed.summed_apart = true;
  summed.before = Placement::replicate();
  summed.symmetric = pulled;
  summed.window = whole;
  summed.purpose = "output as the kernel writes it: the rank's summand, sent to all peers";

  Buffer result = buffer_for(plan, kernel, name, BufferRole::result,
                             "output as the caller takes it: sums that workers add up after their tiles");
  result.before = Placement::replicate();
  result.inside = plan.buffer(kernel).inside;
  result.after = plan.buffer(kernel).after;
  result.window = whole;
  result.held = nothing(result.shape, plan.ranks);
  Buffer stack = buffer_for(plan, kernel, name + "_summands", BufferRole::summands,
                            fmt::format("summands of {} that other ranks send", name));
  stack.shape[0] *= plan.ranks - 1;
  stack.symmetric = pushed;
  stack.before = stack.inside = stack.after = Placement::replicate();
  stack.held = nothing(stack.shape, plan.ranks);
  plan.buffers.push_back(std::move(result));
  plan.buffers.push_back(std::move(stack));
}

std::vector<OneShotPart> one_shot_parts(const Plan& plan, const DependenceGraph& graph, int rank) {
  const int stack = summands_buffer(plan);
  if (stack < 0) return {};
  const int kernel = plan.buffer(stack).partner;
  const Buffer& summed = plan.buffer(kernel);
  std::vector<int> arriving;
  std::vector<std::int64_t> borders = {0, summed.shape[0]};
  for (std::size_t n = 0; n < graph.transfers.size(); ++n) {
    const TransferNode& node = graph.transfers[n];
    if (node.destination != rank || node.destination_buffer != stack) continue;
    arriving.push_back(static_cast<int>(n));
    borders.insert(borders.end(), {node.chunk[0].begin, node.chunk[0].end});
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());

  std::vector<std::pair<std::int64_t, OneShotPart>> parts;  // by arrival
  for (std::size_t b = 0; b + 1 < borders.size(); ++b) {
    Region stretch = Region::whole(summed.shape);
    stretch[0] = {borders[b], borders[b + 1]};
    auto& [arrival, part] = parts.emplace_back();
    part.stretch = stretch;
    for (const int n : arriving) {
      const TransferNode& node = graph.transfers[static_cast<std::size_t>(n)];
      if (!node.chunk.overlaps(stretch)) continue;
      part.arriving.push_back(n);
      arrival = std::max(arrival, node.arrival);
    }
    const std::int64_t element = size_in_bytes(summed.dtype);
    const std::int64_t most = ceil_div(stretch.volume() * element, kLeastBytes);
    part.additions = cut_evenly(stretch, std::min<std::int64_t>(plan.workers, most), kVectorBytes / element);
    for (const Region& region : part.additions)
      part.stored_by.push_back(storing(plan, graph.work[static_cast<std::size_t>(rank)], kernel, region));
  }
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<OneShotPart> sorted;
  for (auto& [arrival, part] : parts) sorted.push_back(std::move(part));
  return sorted;
}

}  // namespace syncopate
