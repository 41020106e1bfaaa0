// The C++ way to write a schedule.
#include <fmt/format.h>

#include <utility>

#include "syncopate/schedule/schedule.h"

namespace syncopate {

ScheduleBuilder::ScheduleBuilder(int ranks) {
  if (ranks < 1) throw UserError({}, fmt::format("a schedule over {} ranks", ranks), "at least 1");
  schedule_.operators.resize(static_cast<std::size_t>(ranks));
}

int ScheduleBuilder::tensor(LogicalTensor tensor) {
  schedule_.tensors.push_back(std::move(tensor));
  return static_cast<int>(schedule_.tensors.size()) - 1;
}

int ScheduleBuilder::chunk(int tensor, const Region& region) {
  const auto [found, is_new] = chunk_index_.try_emplace({tensor, region}, static_cast<int>(schedule_.chunks.size()));
  if (is_new) schedule_.chunks.push_back({tensor, region});
  return found->second;
}

Dependency ScheduleBuilder::push(int source, int destination, int source_chunk, int destination_chunk,
                                 std::vector<Dependency> dependencies, int port, Reduction reduction) {
  return transfer(source, {source, destination, source_chunk, destination_chunk, reduction}, std::move(dependencies),
                  port);
}

Dependency ScheduleBuilder::pull(int source, int destination, int source_chunk, int destination_chunk,
                                 std::vector<Dependency> dependencies, int port, Reduction reduction) {
  return transfer(destination, {source, destination, source_chunk, destination_chunk, reduction},
                  std::move(dependencies), port);
}

Dependency ScheduleBuilder::transfer(int rank, const P2P& p2p, std::vector<Dependency> dependencies, int port) {
  return add(rank, {p2p, std::move(dependencies), port, 0});
}

Dependency ScheduleBuilder::collective(Collective collective, std::vector<Dependency> dependencies) {
  if (collective.ranks.empty()) throw UserError({}, "a collective over no ranks", "list its ranks");
  const int first = collective.ranks.front();
  return add(first, {std::move(collective), std::move(dependencies), 0, 0});
}

Dependency ScheduleBuilder::add(int rank, Operator op) {
  if (rank < 0 || rank >= schedule_.ranks())
    throw UserError({}, fmt::format("an operator of rank {}", rank),
                    fmt::format("ranks count from 0 to {}", schedule_.ranks() - 1));
  auto& list = schedule_.operators[static_cast<std::size_t>(rank)];
  list.push_back(std::move(op));
  return {rank, static_cast<int>(list.size()) - 1};
}

Schedule ScheduleBuilder::build() && {
  validate(schedule_);
  return std::move(schedule_);
}

}  // namespace syncopate
