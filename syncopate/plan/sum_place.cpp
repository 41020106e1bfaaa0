#include "syncopate/plan/sum_place.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "syncopate/kernel/stores.h"
#include "syncopate/plan/staging.h"

namespace syncopate {

namespace {

struct Refusal {
  std::string problem;
  std::string remedy;
};

/// Rows of one rank that two transfers bring summands of, or an empty range.
Range rows_with_two_addends(const Schedule& schedule, int rank) {
  std::vector<Range> arriving;
  for (const std::vector<Operator>& list : schedule.operators)
    for (const Operator& op : list) {
      const auto& p2p = std::get<P2P>(op.action);
      if (p2p.reduction == Reduction::sum && p2p.destination_rank == rank)
        arriving.push_back(schedule.chunks[static_cast<std::size_t>(p2p.source_chunk)].region[0]);
    }
  std::sort(arriving.begin(), arriving.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::int64_t end = 0;
  for (const Range& rows : arriving) {
    if (rows.begin < end) return {rows.begin, std::min(rows.end, end)};
    end = std::max(end, rows.end);
  }
  return {};
}

/// What memory adds at no loss. Its addition of fp32 counts subnormal numbers as 0 (PTX ISA, red), which a tile's does
/// not; so that has to be asked for.
bool adds_in_memory(Dtype dtype, SumPlace place) {
  return dtype == Dtype::bf16 || dtype == Dtype::fp16 || (dtype == Dtype::fp32 && place == SumPlace::in_place);
}

/// Why sums cannot be in place, as far as the schedule and the kernel's text tell.
std::optional<Refusal> why_not_in_place(const CommunicatedTensor& communicated, const TileKernel& kernel,
                                        std::span<const TileSpace> spaces, const Plan& plan) {
  const Buffer& buffer = plan.buffer(communicated.buffer);
  if (!adds_in_memory(buffer.dtype, communicated.sum))
    return Refusal{
        fmt::format("tensor '{}' is {}, and memory adds bf16, fp16 and fp32", buffer.name, name_of(buffer.dtype)),
        "one of these types, or sum = \"staging\""};
  for (const Store& store : find_stores(kernel.shared_module(), kernel.function(), buffer.parameter))
    if (!store.descriptor)
      return Refusal{
          fmt::format("tensor '{}' is stored through pointers, at {}, and memory adds what descriptors store",
                      buffer.name, kernel.module().locate(store.range).to_string()),
          "store all of it through tensor descriptors, or sum = \"staging\""};
  for (const TileSpace& space : spaces)
    if (const auto again = space.stored_again.find(buffer.parameter); again != space.stored_again.end())
      return Refusal{fmt::format("a tile stores some elements of '{}' twice, at {}, and memory would add both",
                                 buffer.name, again->second.to_string()),
                     "store every element once, or sum = \"staging\""};
  for (int rank = 0; rank < plan.ranks; ++rank)
    if (const Range rows = rows_with_two_addends(communicated.schedule, rank); !rows.empty())
      return Refusal{
          fmt::format("several ranks send rank {} summands of rows {} to {} of '{}', and only one can land in it", rank,
                      rows.begin, rows.end, buffer.name),
          "algorithm = \"ring\", or sum = \"staging\""};
  return std::nullopt;
}

/// Whether a peer writes to the tensor of a rank.
bool is_pushed(const Schedule& schedule) {
  for (std::size_t rank = 0; rank < schedule.operators.size(); ++rank)
    for (const Operator& op : schedule.operators[rank])
      if (std::get<P2P>(op.action).destination_rank != static_cast<int>(rank)) return true;
  return false;
}

/// Whether all rows that a piece of work stores are among those that it adds to.
bool adds_to_all(const DependenceGraph& graph, const Work& work) {
  std::int64_t rows = 0;
  for (const int n : work.sums) {
    const Range& chunk = graph.transfers[static_cast<std::size_t>(n)].chunk[0];
    rows += std::max<std::int64_t>(0, std::min(chunk.end, work.rows.end) - std::max(chunk.begin, work.rows.begin));
  }
  return rows == work.rows.size();
}

}  // namespace

void place_sums(CommunicatedTensor& communicated, const TileKernel& kernel, std::span<const TileSpace> spaces,
                Plan& plan) {
  const bool asked_for = communicated.sum == SumPlace::in_place;
  if (asked_for && communicated.memory_budget)
    throw UserError(communicated.budget_where, "sums in place need no staging buffer, which a memory budget is for",
                    "remove the budget, or sum = \"staging\"");
  const std::optional<Refusal> refusal =
      communicated.sum == SumPlace::staging ? Refusal{} : why_not_in_place(communicated, kernel, spaces, plan);
  if (refusal && asked_for) throw UserError(communicated.sum_where, refusal->problem, refusal->remedy);
  if (refusal) return place_summands(communicated, plan);
  Buffer& buffer = plan.buffers[static_cast<std::size_t>(communicated.buffer)];
  buffer.sums_in_place = true;
  buffer.symmetric = buffer.symmetric || is_pushed(communicated.schedule);
  communicated.places = std::numeric_limits<std::int64_t>::max();
}

bool keeps_sums_in_place(BoundOperator& bound, const DependenceGraph& graph) {
  Plan& plan = bound.plan;
  if (!sums_in_place(plan)) return true;
  const auto communicated = std::find_if(bound.communicated.begin(), bound.communicated.end(),
                                         [&](const CommunicatedTensor& c) { return c.buffer == reduced_buffer(plan); });
  for (std::size_t rank = 0; rank < graph.work.size(); ++rank)
    for (const Work& work : graph.work[rank]) {
      if (work.kept.dimensions() == 0 && (work.sums.empty() || adds_to_all(graph, work))) continue;
      Buffer& buffer = plan.buffers[static_cast<std::size_t>(communicated->buffer)];
      if (communicated->sum == SumPlace::in_place)
        throw UserError(
            communicated->sum_where,
            fmt::format("on rank {} tile ({}) stores rows of '{}' that get a summand, beside others that get "
                        "none, or at another time",
                        rank, fmt::join(plan.tiles[static_cast<std::size_t>(work.tile)].index, ", "), buffer.name),
            "make chunks multiples of a tile's rows, or sum = \"staging\"");
      buffer.sums_in_place = false;
      buffer.symmetric = communicated->symmetric;
      place_summands(*communicated, plan);
      return false;
    }
  plan.buffers[static_cast<std::size_t>(communicated->buffer)].purpose +=
      "; what peers send to be added lands in it too, so there is no staging buffer";
  return true;
}

}  // namespace syncopate
