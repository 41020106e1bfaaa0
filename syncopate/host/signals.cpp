#include "syncopate/host/signals.h"

#include <algorithm>
#include <utility>

#include "syncopate/core/error.h"

namespace syncopate::host {

Signals::Signals(const Plan& plan, const AgentLayout& layout) : plan_(plan), states_(plan.signals.size()) {
  const auto raised_by = [&](const std::vector<int>& signals, int agent) {
    for (const int signal : signals) at(signal).raisers.push_back(agent);
  };
  const auto waited_for = [&](const std::vector<Wait>& waits) {
    for (const Wait& wait : waits) at(wait.signal).waited_for = true;
  };
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const RankProgram& program = plan.programs[static_cast<std::size_t>(rank)];
    raised_by(program.start_signals, layout.caller(rank));
    for (std::size_t queue = 0; queue < program.queues.size(); ++queue) {
      for (const Transfer& transfer : program.queues[queue].transfers) {
        raised_by(transfer.signals, layout.queue(rank, static_cast<int>(queue)));
        waited_for(transfer.waits);
      }
    }
    raised_by(program.completion_signals, layout.caller(rank));
    for (std::size_t slot = 0; slot < program.slots.size(); ++slot) {
      raised_by(program.slots[slot].signals, layout.actor_of_slot(rank, slot));
      for_each_waits_of(program.slots[slot], waited_for);
    }
    for (const Addition& addition : program.additions) waited_for(addition.waits);
    waited_for(program.completion_waits);
  }
  for (State& state : states_) {
    std::sort(state.raisers.begin(), state.raisers.end());
    state.one_raiser = state.raisers.empty() || state.raisers.front() == state.raisers.back();
  }
}

std::int64_t Signals::expected(const Wait& wait, std::int64_t launch) const {
  return plan_.signals[static_cast<std::size_t>(wait.signal)].per_launch * (launch - 1) + wait.threshold;
}

int Signals::raise(int signal, std::int64_t launch, int agent, Clock known) {
  State& state = at(signal);
  ++state.value;
  if (!state.waited_for) return -1;
  if (!state.one_raiser) return raise_by_several(state, launch, {agent, known[static_cast<std::size_t>(agent)]}, known);
  state.releases.push_back({state.value, std::move(known)});
  return -1;
}

int Signals::raise_by_several(State& state, std::int64_t launch, Raise raise, const Clock& known) {
  if (launch != state.launch) {
    if (state.launch > 0 && state.current.size() < state.raisers.size()) {
      std::vector<int> came;
      for (const Raise& other : state.current) came.push_back(other.agent);
      std::sort(came.begin(), came.end());
      return *std::mismatch(state.raisers.begin(), state.raisers.end(), came.begin(), came.end()).first;
    }
    state.launch = launch;
    state.previous = std::exchange(state.current, {});
    state.joined.clear();
  }
  for (const Raise& other : state.previous)
    if (known[static_cast<std::size_t>(other.agent)] < other.clock) return other.agent;
  state.current.push_back(raise);
  if (state.joined.empty()) state.joined.assign(known.size(), 0);
  join_into(state.joined, known);
  if (state.current.size() == state.raisers.size()) state.releases.push_back({state.value, state.joined});
  return -1;
}

void Signals::join(int signal, std::int64_t expected, int agent, History& history) const {
  const State& state = at(signal);
  check_internal(state.value >= expected, "a wait is joined before it is satisfied");
  const auto raises = static_cast<std::int64_t>(state.raisers.size());
  if (expected <= 0 || raises == 0) return;
  const std::int64_t proved = state.one_raiser ? expected : expected / raises * raises;
  const auto release = std::find_if(state.releases.begin(), state.releases.end(),
                                    [&](const Release& candidate) { return candidate.number == proved; });
  if (release != state.releases.end()) history.join(agent, release->known);
}

void Signals::forget(const Clock& known) {
  for (State& state : states_) {
    std::erase_if(state.releases, [&](const Release& release) {
      for (std::size_t agent = 0; agent < known.size(); ++agent)
        if (release.known[agent] > known[agent]) return false;
      return true;
    });
  }
}

}  // namespace syncopate::host
