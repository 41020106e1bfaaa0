#include "syncopate/host/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "syncopate/host/failure.h"
#include "syncopate/plan/inputs.h"

namespace syncopate::host {

World::World(const Plan& the_plan, const RunOptions& the_options)
    : plan(the_plan),
      options(the_options),
      layout(the_plan),
      describer(the_plan, layout),
      history(layout.count(), layout.actors()),
      signals(the_plan, layout),
      memory(the_plan, layout, history, describer),
      scheduler(layout, the_options.seed, the_options.adversary),
      launches_(static_cast<std::size_t>(the_plan.ranks), 0),
      positions_(static_cast<std::size_t>(layout.count()), -1),
      pending_(static_cast<std::size_t>(layout.count())),
      waiting_(the_plan.signals.size()),
      looking_(static_cast<std::size_t>(the_plan.ranks)) {
  for (const RankProgram& program : plan.programs)
    if (is_dynamic(plan)) claims_.emplace_back(program.slots.size(), 0);
  for (int rank = 0; rank < plan.ranks; ++rank)
    slots_.emplace_back(static_cast<std::size_t>(signal_count(plan, rank)), -1);
  for (std::size_t signal = 0; signal < plan.signals.size(); ++signal) {
    const Signal& about = plan.signals[signal];
    slots_[static_cast<std::size_t>(about.home)][static_cast<std::size_t>(about.slot)] = static_cast<int>(signal);
  }
  for (const RankProgram& program : plan.programs) all_tiles_ += static_cast<std::int64_t>(program.slots.size());
  all_tiles_ *= options.repeat;
  // Often enough for a person to see it move and for Ctrl-C to be heard, seldom enough to cost nothing.
  tiles_between_reports_ = std::clamp<std::int64_t>(all_tiles_ / 200, 1, 64);
}

void World::suspend(int agent, Pending why) {
  pending_[static_cast<std::size_t>(agent)] = why;
  if (why.kind == Pending::Kind::signal) waiting_[static_cast<std::size_t>(why.signal)].push_back(agent);
  if (why.kind == Pending::Kind::slot) looking_[static_cast<std::size_t>(layout.at(agent).rank)].push_back(agent);
  scheduler.remove(agent);
}

void World::resume(int agent) {
  pending_[static_cast<std::size_t>(agent)] = {};
  scheduler.add(agent);
}

void World::resume_looking(int rank) {
  for (const int worker : std::exchange(looking_[static_cast<std::size_t>(rank)], {})) resume(worker);
}

int World::actor(int agent) const {
  const Agent& about = layout.at(agent);
  const std::int64_t slot = position(agent);
  if (about.kind != AgentKind::worker || !is_dynamic(plan) || slot < 0) return agent;
  return layout.actor_of_slot(about.rank, static_cast<std::size_t>(slot));
}

std::size_t World::first_left(int rank) const {
  const std::size_t slots = claims_[static_cast<std::size_t>(rank)].size();
  std::size_t slot = 0;
  while (slot < slots && is_taken(rank, slot)) ++slot;
  return slot;
}

const Wait* World::missing_wait(int rank, std::size_t slot) const {
  for (const Wait& wait : plan.programs[static_cast<std::size_t>(rank)].slots[slot].waits)
    if (signals.value(wait.signal) < signals.expected(wait, launch(rank))) return &wait;
  return nullptr;
}

std::optional<std::int64_t> World::take_slot(int worker, std::int64_t lookahead) {
  const int rank = layout.at(worker).rank;
  std::vector<std::int64_t>& claims = claims_[static_cast<std::size_t>(rank)];
  const std::size_t first = first_left(rank);
  if (first == claims.size()) return static_cast<std::int64_t>(first);
  std::vector<std::size_t> possible;
  for (std::size_t slot = first; slot < std::min(claims.size(), first + static_cast<std::size_t>(lookahead)); ++slot)
    if (!is_taken(rank, slot) && missing_wait(rank, slot) == nullptr) possible.push_back(slot);
  if (possible.empty()) {
    suspend(worker, {Pending::Kind::slot});
    return std::nullopt;
  }
  const std::size_t taken = possible[scheduler.choose(possible.size())];
  claims[taken] = launch(rank);
  resume_looking(rank);
  return static_cast<std::int64_t>(taken);
}

int World::signal_at(int rank, std::int64_t slot) const {
  const std::vector<int>& slots = slots_[static_cast<std::size_t>(rank)];
  return slot >= 0 && slot < static_cast<std::int64_t>(slots.size()) ? slots[static_cast<std::size_t>(slot)] : -1;
}

bool World::wait(int agent, const Wait& wait, std::int64_t launch) {
  return this->wait(agent, wait.signal, signals.expected(wait, launch));
}

bool World::wait(int agent, int signal, std::int64_t expected) {
  if (signals.value(signal) < expected) {
    suspend(agent, {Pending::Kind::signal, signal, expected});
    return false;
  }
  signals.join(signal, expected, actor(agent), history);
  return true;
}

void World::raise(int agent, int signal, std::int64_t launch, Clock known) {
  const int by = actor(agent);
  const int other = signals.raise(signal, launch, by, std::move(known));
  if (other >= 0)
    throw Failure(
        Outcome::race,
        fmt::format("{} raises {} in launch {}, and nothing orders this after the raise of launch {} by {}: "
                    "a wait for the latter could count the former",
                    describer.agent(by), describer.signal(signal), launch, launch - 1, describer.agent(other)));
  const Signal& about = plan.signals[static_cast<std::size_t>(signal)];
  memory.flag(about.home, about.slot) = signals.value(signal);
  std::vector<int>& waiting = waiting_[static_cast<std::size_t>(signal)];
  const auto satisfied = [&](int waiter) { return pending(waiter).expected <= signals.value(signal); };
  const auto still = std::stable_partition(waiting.begin(), waiting.end(), satisfied);
  const std::vector<int> woken(waiting.begin(), still);
  waiting.erase(waiting.begin(), still);
  for (const int waiter : woken) resume(waiter);
  resume_looking(about.home);
}

const std::vector<Bytes>& World::inputs(int rank, std::int64_t launch) {
  auto found = inputs_.find(launch);
  if (found == inputs_.end())
    found = inputs_.emplace(launch, launch_inputs(plan, options.seed, options.inputs, launch)).first;
  return found->second[static_cast<std::size_t>(rank)];
}

void World::count_tile() {
  ++report.tiles;
  if (options.progress && (report.tiles % tiles_between_reports_ == 0 || report.tiles == all_tiles_))
    options.progress(report.tiles, all_tiles_);
}

void World::forget_common_past() {
  Clock common;
  for (int agent = 0; agent < layout.count(); ++agent) {
    // Who waits for a launch to begin will know all that its caller knows by then, and the caller counts.
    const Pending::Kind kind = pending(agent).kind;
    if (kind == Pending::Kind::launch || kind == Pending::Kind::ended) continue;
    const Clock& clock = history.clock(agent);
    if (common.empty()) common = clock;
    for (std::size_t i = 0; i < common.size(); ++i) common[i] = std::min(common[i], clock[i]);
  }
  if (common.empty()) return;
  memory.forget(common);
  signals.forget(common);
}

}  // namespace syncopate::host
