#include "syncopate/schedule/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "syncopate/core/text.h"

namespace syncopate {

namespace {

std::string text_of(const Operator& op, int rank) {
  if (const auto* p2p = std::get_if<P2P>(&op.action)) {
    const bool push = p2p->source_rank == rank;
    const bool adds = p2p->reduction == Reduction::sum;
    return fmt::format("#{} {} {}", p2p->source_chunk, push ? (adds ? "+>" : ">") : (adds ? "<+" : "<"),
                       push ? p2p->destination_rank : p2p->source_rank);
  }
  return std::string(collective_name(std::get<Collective>(op.action).type));
}

std::string port_text(const std::set<int>& ports, int port) {
  return ports.size() == 1 ? "" : fmt::format("port {}", port);
}

std::string chunk_list(const Schedule& schedule) {
  std::string text = "chunks\n";
  const auto digits = static_cast<int>(fmt::format("{}", schedule.chunks.size() - 1).size());
  for (std::size_t i = 0; i < schedule.chunks.size(); ++i) {
    const Chunk& chunk = schedule.chunks[i];
    text += fmt::format("  {:>{}}  {}{}\n", fmt::format("#{}", i), digits + 1,
                        schedule.tensors[static_cast<std::size_t>(chunk.tensor)].name, chunk.region.to_string());
  }
  return text;
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::int64_t bytes_of(const Schedule& schedule, int chunk) {
  const Chunk& c = schedule.chunks[static_cast<std::size_t>(chunk)];
  return c.region.volume() * size_in_bytes(schedule.tensors[static_cast<std::size_t>(c.tensor)].dtype);
}

}  // namespace

std::vector<std::vector<int>> time_steps(const Schedule& schedule) {
  std::vector<std::vector<int>> steps;
  for (const auto& list : schedule.operators) steps.emplace_back(list.size(), 0);
  const auto step_of = [&](Dependency d) -> int& {
    return steps[static_cast<std::size_t>(d.rank)][static_cast<std::size_t>(d.index)];
  };
  std::map<std::pair<int, int>, int> next;  // (rank, port) -> first step in which nothing is issued yet
  for (const Dependency& which : topological_order(schedule)) {
    const Operator& op = schedule.at(which);
    int& free = next[{which.rank, op.port}];
    int step = free;
    for (const Dependency& d : op.dependencies) step = std::max(step, step_of(d) + 1);
    step_of(which) = step;
    free = step + 1;
  }
  return steps;
}

std::string describe_load(const Schedule& schedule) {
  std::map<int, std::int64_t> by_port;
  std::vector<std::int64_t> sent(static_cast<std::size_t>(schedule.ranks()));
  std::vector<std::int64_t> received(sent);
  for (const auto& list : schedule.operators)
    for (const Operator& op : list)
      if (const auto* p2p = std::get_if<P2P>(&op.action)) {
        const std::int64_t bytes = bytes_of(schedule, p2p->source_chunk);
        by_port[op.port] += bytes;
        sent[static_cast<std::size_t>(p2p->source_rank)] += bytes;
        received[static_cast<std::size_t>(p2p->destination_rank)] += bytes;
      }
  int steps = 0;
  for (const std::vector<int>& list : time_steps(schedule))
    for (const int step : list) steps = std::max(steps, step + 1);
  const std::size_t count = operator_count(schedule);
  std::string text = fmt::format("  {:<14}{} transfer{} in {} step{}\n", "moves", count, count == 1 ? "" : "s", steps,
                                 steps == 1 ? "" : "s");
  for (const auto& [port, bytes] : by_port)
    text += fmt::format("  {:<14}{}\n", fmt::format("port {}", port), format_bytes(bytes));
  text += fmt::format("  {:<14}{} sent, {} received\n", "busiest rank",
                      format_bytes(*std::max_element(sent.begin(), sent.end())),
                      format_bytes(*std::max_element(received.begin(), received.end())));
  return text;
}

std::string draw(const Schedule& schedule) {
  if (operator_count(schedule) == 0) return "nothing moves\n";
  const std::vector<std::vector<int>> steps = time_steps(schedule);
  std::map<std::pair<int, int>, std::vector<std::string>> lines;  // (step, port) -> cells of ranks
  std::set<int> ports;
  std::size_t width = fmt::format("rank {}", schedule.ranks() - 1).size();
  for (std::size_t rank = 0; rank < steps.size(); ++rank)
    for (std::size_t i = 0; i < steps[rank].size(); ++i) {
      const Operator& op = schedule.operators[rank][i];
      const std::string cell = text_of(op, static_cast<int>(rank));
      width = std::max(width, cell.size());
      ports.insert(op.port);
      auto& cells = lines[{steps[rank][i], op.port}];
      cells.resize(steps.size());
      cells[rank] = cell;
    }
  const std::size_t left = ports.size() == 1 ? 4 : 4 + 2 + fmt::format("port {}", *ports.rbegin()).size();
  std::string head = fmt::format("{:<{}}", "step", left);
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    head += fmt::format("  {:<{}}", fmt::format("rank {}", rank), width);
  std::string text = chunk_list(schedule) + without_trailing_spaces(head) + '\n';
  int last = -1;
  for (const auto& [place, cells] : lines) {
    const std::string step = place.first == last ? "" : fmt::format("{}", place.first);
    last = place.first;
    std::string line = fmt::format("{:<{}}", fmt::format("{:>4}  {}", step, port_text(ports, place.second)), left);
    if (ports.size() == 1) line = fmt::format("{:>4}", step);
    for (const std::string& cell : cells) line += fmt::format("  {:<{}}", cell, width);
    text += without_trailing_spaces(line) + '\n';
  }
  return text;
}

}  // namespace syncopate
