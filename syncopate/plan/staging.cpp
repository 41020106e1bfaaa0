#include "syncopate/plan/staging.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "syncopate/core/text.h"

namespace syncopate {

namespace {

/// What one rank receives from another, in order of issue.
struct Inflow {
  int source = 0;
  std::vector<Dependency> operators;
};

class Placer {
 public:
  Placer(CommunicatedTensor& communicated, const Buffer& buffer) : communicated_(communicated), shape_(buffer.shape) {
    row_bytes_ = volume(shape_) / shape_[0] * size_in_bytes(buffer.dtype);
    const Schedule& schedule = communicated.schedule;
    const auto ranks = static_cast<std::size_t>(schedule.ranks());
    communicated.landings.resize(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      communicated.landings[rank].resize(schedule.operators[rank].size());
    inflows_.resize(ranks);
    for (const Dependency& which : topological_order(schedule)) {
      const auto& p2p = std::get<P2P>(schedule.at(which).action);
      if (p2p.reduction == Reduction::none) continue;  // takes the place of a summand
      std::vector<Inflow>& list = inflows_[static_cast<std::size_t>(p2p.destination_rank)];
      auto found = std::find_if(list.begin(), list.end(), [&](const Inflow& i) { return i.source == p2p.source_rank; });
      if (found == list.end()) found = list.insert(list.end(), {p2p.source_rank, {}});
      found->operators.push_back(which);
    }
    for (std::vector<Inflow>& list : inflows_)
      std::sort(list.begin(), list.end(), [](const Inflow& a, const Inflow& b) { return a.source < b.source; });
  }

  /// Returns how many rows the staging buffer needs.
  std::int64_t run() {
    std::int64_t most = 0;
    for (const std::vector<Inflow>& list : inflows_) {
      std::int64_t total = 0;
      for (const Inflow& inflow : list)
        for (const Dependency& which : inflow.operators) total += rows(which).size();
      most = std::max(most, total);
    }
    if (communicated_.memory_budget && most * row_bytes_ > *communicated_.memory_budget) return in_turn();
    one_for_each();
    return most;
  }

 private:
  Range rows(Dependency which) const {
    const Schedule& schedule = communicated_.schedule;
    const auto& p2p = std::get<P2P>(schedule.at(which).action);
    return schedule.chunks[static_cast<std::size_t>(p2p.source_chunk)].region[0];
  }

  void land(Dependency which, std::int64_t first_row, std::optional<Dependency> reuses) {
    Landing& landing =
        communicated_.landings[static_cast<std::size_t>(which.rank)][static_cast<std::size_t>(which.index)];
    landing.region = Region::whole(shape_);
    landing.region[0] = {first_row, first_row + rows(which).size()};
    landing.reuses = reuses;
  }

  void one_for_each() {
    communicated_.places = std::numeric_limits<std::int64_t>::max();
    for (std::vector<Inflow>& list : inflows_) {
      std::int64_t row = 0;
      for (Inflow& inflow : list) {
        std::sort(inflow.operators.begin(), inflow.operators.end(),
                  [&](Dependency a, Dependency b) { return rows(a).begin < rows(b).begin; });
        for (const Dependency& which : inflow.operators) {
          land(which, row, std::nullopt);
          row += rows(which).size();
        }
      }
    }
  }

  std::int64_t in_turn() {
    std::int64_t largest = 0;
    std::size_t sources = 0;
    for (const std::vector<Inflow>& list : inflows_) {
      sources = std::max(sources, list.size());
      for (const Inflow& inflow : list)
        for (const Dependency& which : inflow.operators) largest = std::max(largest, rows(which).size());
    }
    const std::int64_t least = static_cast<std::int64_t>(sources) * largest * row_bytes_;
    const std::int64_t places = *communicated_.memory_budget / least;
    if (places < 1)
      throw UserError(communicated_.budget_where,
                      fmt::format("the memory budget is {}, but a chunk of {} from {} takes {}",
                                  count_of(*communicated_.memory_budget, "byte"), format_bytes(largest * row_bytes_),
                                  sources == 1 ? "the one peer" : fmt::format("each of {} peers", sources),
                                  count_of(least, "byte")),
                      fmt::format("at least {}, or a larger split", count_of(least, "byte")));
    communicated_.places = places;
    for (const std::vector<Inflow>& list : inflows_)
      for (std::size_t s = 0; s < list.size(); ++s) {
        const std::vector<Dependency>& operators = list[s].operators;
        for (std::size_t i = 0; i < operators.size(); ++i) {
          const auto round = static_cast<std::size_t>(places);
          land(operators[i], static_cast<std::int64_t>(s * round + i % round) * largest,
               i < round ? std::nullopt : std::optional(operators[i - round]));
        }
      }
    return static_cast<std::int64_t>(sources) * places * largest;
  }

  CommunicatedTensor& communicated_;
  const Shape& shape_;
  std::int64_t row_bytes_ = 0;
  std::vector<std::vector<Inflow>> inflows_;  ///< [destination], ascending sources
};

}  // namespace

void place_summands(CommunicatedTensor& communicated, Plan& plan) {
  const Buffer& reduced = plan.buffer(communicated.buffer);
  Buffer staging;
  staging.name = reduced.name + "_staging";
  staging.shape = reduced.shape;
  // A buffer needs an address, even where nothing is received.
  staging.shape[0] = std::max<std::int64_t>(1, Placer(communicated, reduced).run());
  staging.dtype = reduced.dtype;
  staging.symmetric = true;
  staging.purpose = fmt::format("summands of {} that have arrived and are to be added", reduced.name);
  staging.role = BufferRole::staging;
  staging.partner = communicated.buffer;
  Region nothing = Region::whole(staging.shape);
  for (int d = 0; d < nothing.dimensions(); ++d) nothing[d] = {0, 0};
  staging.held.assign(static_cast<std::size_t>(plan.ranks), {nothing});
  plan.buffers.push_back(std::move(staging));
}

}  // namespace syncopate
