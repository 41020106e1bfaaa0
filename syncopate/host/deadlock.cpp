#include "syncopate/host/deadlock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace syncopate::host {
namespace {

constexpr std::size_t kMostShown = 8;

/// Where a worker waits: before its tile, in a streamed loop of it, or for summands.
std::string_view place_in_tile(const World& world, int agent) {
  const std::vector<Slot>& slots = world.plan.programs[static_cast<std::size_t>(world.layout.at(agent).rank)].slots;
  const auto slot = static_cast<std::size_t>(world.position(agent));
  const auto names = [&](const std::vector<Wait>& waits) {
    return std::any_of(waits.begin(), waits.end(),
                       [&](const Wait& wait) { return wait.signal == world.pending(agent).signal; });
  };
  if (world.position(agent) < 0 || slot >= slots.size() || names(slots[slot].waits)) return "before";
  if (names(slots[slot].sum_waits)) return "before adding to";
  return slots[slot].steps.empty() ? "before" : "in the streamed loops of";
}

/// "rank 0's worker 1, before tile (2, 0)", "transfer 3 of ...", "rank 0's caller, completing launch 2".
std::string who(const World& world, int agent) {
  const Agent& about = world.layout.at(agent);
  const std::int64_t position = world.position(agent);
  const std::int64_t launch = world.launch(about.rank);
  switch (about.kind) {
    case AgentKind::slot:
      return world.describer.agent(agent);
    case AgentKind::worker:
      if (world.pending(agent).kind == Pending::Kind::slot)
        return fmt::format("{}, which looks for a slot in launch {},", world.describer.agent(agent), launch);
      return fmt::format("{}, {} {} in launch {},", world.describer.agent(agent), place_in_tile(world, agent),
                         world.describer.tile(about.rank, position), launch);
    case AgentKind::queue:
      return fmt::format("{} in launch {}", world.describer.transfer(about.rank, about.index, position), launch);
    case AgentKind::caller:
      return fmt::format("{}, completing launch {},", world.describer.agent(agent), launch);
  }
  return {};
}

/// The worker that has taken a slot of a dynamic order and is not done with it, or -1.
int holder(const World& world, const Agent& slot) {
  for (int worker = 0; worker < world.plan.workers; ++worker)
    if (const int agent = world.layout.worker(slot.rank, worker); world.position(agent) == slot.index) return agent;
  return -1;
}

/// Whether a suspended agent has raised the signal already in the launch its rank is in.
bool has_raised(const World& world, int agent, int signal) {
  const Agent& about = world.layout.at(agent);
  const RankProgram& program = world.plan.programs[static_cast<std::size_t>(about.rank)];
  const auto in = [&](const std::vector<int>& signals) {
    return std::find(signals.begin(), signals.end(), signal) != signals.end();
  };
  if (about.kind == AgentKind::slot)
    return (world.is_taken(about.rank, static_cast<std::size_t>(about.index)) && holder(world, about) < 0) ||
           !in(program.slots[static_cast<std::size_t>(about.index)].signals);
  if (about.kind == AgentKind::caller)
    return world.pending(agent).kind == Pending::Kind::ended || !in(program.completion_signals);
  if (about.kind == AgentKind::worker) {
    if (world.pending(agent).kind == Pending::Kind::launch) return true;
    // Who is suspended has not raised the signals of the slot it is at, but all those before.
    auto slot = static_cast<std::size_t>(std::max<std::int64_t>(world.position(agent), about.index));
    for (; slot < program.slots.size(); slot += static_cast<std::size_t>(world.plan.workers))
      if (in(program.slots[slot].signals)) return false;
    return true;
  }
  const std::vector<Transfer>& transfers = program.queues[static_cast<std::size_t>(about.index)].transfers;
  for (auto index = static_cast<std::size_t>(world.position(agent)); index < transfers.size(); ++index)
    if (in(transfers[index].signals)) return false;
  return true;
}

std::vector<int> distinct_raisers(const World& world, int signal) {
  std::vector<int> raisers = world.signals.raisers(signal);
  raisers.erase(std::unique(raisers.begin(), raisers.end()), raisers.end());
  return raisers;
}

/// The raisers whose raise is missing for the wait of `agent`.
std::vector<int> missing_raisers(const World& world, const Pending& pending) {
  const auto per_launch = static_cast<std::int64_t>(world.signals.raisers(pending.signal).size());
  if (per_launch == 0) return {};
  const std::int64_t needed_launch = (pending.expected + per_launch - 1) / per_launch;
  std::vector<int> missing;
  for (const int raiser : distinct_raisers(world, pending.signal)) {
    const std::int64_t launch = world.launch(world.layout.at(raiser).rank);
    if (launch < needed_launch || (launch == needed_launch && !has_raised(world, raiser, pending.signal)))
      missing.push_back(raiser);
  }
  return missing;
}

/// What keeps a slot of a dynamic order: the worker that has taken it; or else its first wait that is not satisfied; or
/// else that no worker takes it.
Pending pending_of_slot(const World& world, const Agent& slot) {
  if (const int worker = holder(world, slot); worker >= 0) return world.pending(worker);
  const Wait* wait = world.missing_wait(slot.rank, static_cast<std::size_t>(slot.index));
  if (wait == nullptr) return {Pending::Kind::slot};
  return {Pending::Kind::signal, wait->signal, world.signals.expected(*wait, world.launch(slot.rank))};
}

/// What a worker that looks for a slot looks at: the first that is not taken. Others are behind it, or too far behind.
int first_slot(const World& world, int rank) { return world.layout.actor_of_slot(rank, world.first_left(rank)); }

/// Whether this is a slot that workers would take, if one came to look.
bool awaits_worker(const World& world, int agent) {
  const Agent& about = world.layout.at(agent);
  return about.kind == AgentKind::slot &&
         about.index < static_cast<int>(world.first_left(about.rank)) + world.plan.lookahead;
}

/// Why an agent, or a slot, does not move.
Pending reason(const World& world, int agent) {
  const Agent& about = world.layout.at(agent);
  return about.kind == AgentKind::slot ? pending_of_slot(world, about) : world.pending(agent);
}

/// The agents that must move before `agent` can.
std::vector<int> waits_for(const World& world, int agent) {
  const Pending pending = reason(world, agent);
  const int rank = world.layout.at(agent).rank;
  std::vector<int> others;
  switch (pending.kind) {
    case Pending::Kind::signal:
      return missing_raisers(world, pending);
    case Pending::Kind::children:
      for (int child = world.layout.first_child(rank); child < world.layout.last_child(rank); ++child)
        if (world.pending(child).kind != Pending::Kind::launch) others.push_back(child);
      return others;
    case Pending::Kind::launch:
      return {world.layout.caller(rank)};
    case Pending::Kind::slot:
      if (!awaits_worker(world, agent)) return {first_slot(world, rank)};
      for (int worker = 0; worker < world.plan.workers; ++worker) others.push_back(world.layout.worker(rank, worker));
      return others;
    case Pending::Kind::nothing:
    case Pending::Kind::ended:
      return {};
  }
  return {};
}

std::string what(const World& world, int agent) {
  const Pending pending = reason(world, agent);
  if (pending.kind == Pending::Kind::slot) {
    if (awaits_worker(world, agent)) return "waits for a worker";
    const int slot = first_slot(world, world.layout.at(agent).rank);
    if (world.layout.at(agent).kind == AgentKind::slot)
      return fmt::format("is too far behind {}", world.describer.agent(slot));
    return fmt::format("may take none: the first, {}, {}", world.describer.agent(slot), what(world, slot));
  }
  if (pending.kind == Pending::Kind::children) return "waits for its queues and workers";
  if (pending.kind == Pending::Kind::launch) return "waits for its rank's next launch";
  return fmt::format("waits for {} to reach {}, it is {}", world.describer.signal(pending.signal), pending.expected,
                     world.signals.value(pending.signal));
}

/// Who should have raised it, where no agent is left that will.
std::string nobody(const World& world, int agent) {
  Pending pending = reason(world, agent);
  if (pending.kind == Pending::Kind::slot) pending = reason(world, first_slot(world, world.layout.at(agent).rank));
  if (pending.kind != Pending::Kind::signal || !missing_raisers(world, pending).empty()) return {};
  const std::vector<int>& raisers = world.signals.raisers(pending.signal);
  if (raisers.empty()) return "; nothing in the plan raises it";
  return fmt::format("; it is raised {} time{} per launch, the last by {}", raisers.size(),
                     raisers.size() == 1 ? "" : "s", world.describer.agent(raisers.back()));
}

enum class Visit : std::uint8_t { no, open, closed };

/// Depth-first search; `path` holds the open agents. Returns whether `path` ends in a cycle, cut to it.
bool find_cycle(const World& world, int agent, std::vector<Visit>& visits, std::vector<int>& path) {
  visits[static_cast<std::size_t>(agent)] = Visit::open;
  path.push_back(agent);
  for (const int other : waits_for(world, agent)) {
    const Visit visit = visits[static_cast<std::size_t>(other)];
    if (visit == Visit::open) {
      path.erase(path.begin(), std::find(path.begin(), path.end(), other));
      return true;
    }
    if (visit == Visit::no && find_cycle(world, other, visits, path)) return true;
  }
  visits[static_cast<std::size_t>(agent)] = Visit::closed;
  path.pop_back();
  return false;
}

}  // namespace

std::string describe_deadlock(const World& world) {
  std::vector<int> blocked;
  int unfinished = 0;
  for (int agent = 0; agent < world.layout.count(); ++agent) {
    const Pending::Kind kind = world.pending(agent).kind;
    if (kind == Pending::Kind::signal || kind == Pending::Kind::slot) blocked.push_back(agent);
    if (world.layout.at(agent).kind == AgentKind::caller && kind != Pending::Kind::ended) ++unfinished;
  }
  std::string text =
      fmt::format("nothing can move; {} of {} ranks have not completed their launches", unfinished, world.plan.ranks);
  for (std::size_t i = 0; i < std::min(blocked.size(), kMostShown); ++i)
    text += fmt::format("\n  {} {}{}", who(world, blocked[i]), what(world, blocked[i]), nobody(world, blocked[i]));
  if (blocked.size() > kMostShown) text += fmt::format("\n  and {} more", blocked.size() - kMostShown);

  std::vector<Visit> visits(static_cast<std::size_t>(world.layout.actors()), Visit::no);
  for (const int agent : blocked) {
    std::vector<int> path;
    if (visits[static_cast<std::size_t>(agent)] != Visit::no || !find_cycle(world, agent, visits, path)) continue;
    text += "\n  they wait in a circle:";
    for (const int member : path)
      text += fmt::format("\n    {} {}", world.describer.agent(member), what(world, member));
    break;
  }
  return text;
}

}  // namespace syncopate::host
