// The signals of a plan while it runs: their counters, and what a satisfied wait proves. A wait proves only what
// counting can prove: the value says how many raises there were, not which. Joining what merely happened to have been
// raised would hide a threshold that is too low.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "syncopate/host/agents.h"
#include "syncopate/host/history.h"

namespace syncopate::host {

class Signals {
 public:
  Signals(const Plan& plan, const AgentLayout& layout);

  std::int64_t value(int signal) const { return at(signal).value; }
  /// Who raises it, one entry per raise of a launch, in the order of agents.
  const std::vector<int>& raisers(int signal) const { return at(signal).raisers; }
  /// The value for which a wait with this threshold asks in this launch.
  std::int64_t expected(const Wait& wait, std::int64_t launch) const;

  /// One more raise, by `agent` in its launch; whoever waits for it learns `known`, what the agent released for it. If
  /// the signal is waited for and a raise of this launch could be counted in place of one of the launch before, because
  /// nothing orders the two, returns the agent of the latter; else -1.
  int raise(int signal, std::int64_t launch, int agent, Clock known);

  /// A wait of `agent` for `expected` is satisfied (value >= expected): it learns what that proves. With n raises per
  /// launch and `expected` = n * e + t: all raises of the first e launches; and if all raises come from one agent
  /// (then their order is known), the first t of the next launch.
  void join(int signal, std::int64_t expected, int agent, History& history) const;

  /// Forgets what everybody knows: `known` as for Shadow::forget().
  void forget(const Clock& known);

 private:
  struct Release {
    std::int64_t number = 0;  ///< the raises 1 .. number
    Clock known;
  };
  /// One of several raises of a launch.
  struct Raise {
    int agent = 0;
    std::uint32_t clock = 0;
  };
  struct State {
    std::vector<int> raisers;
    bool one_raiser = true;
    bool waited_for = false;
    std::int64_t value = 0;
    std::vector<Release>
        releases;  ///< ascending; a suffix of the raises, or of the launches if there are several raisers
    // With several raisers: the raises of the launch that is being counted, and of the one before.
    std::int64_t launch = 0;
    std::vector<Raise> current;
    std::vector<Raise> previous;
    Clock joined;  ///< what all of `current` know together
  };
  static int raise_by_several(State& state, std::int64_t launch, Raise raise, const Clock& known);

  State& at(int signal) { return states_[static_cast<std::size_t>(signal)]; }
  const State& at(int signal) const { return states_[static_cast<std::size_t>(signal)]; }

  const Plan& plan_;
  std::vector<State> states_;
};

}  // namespace syncopate::host
