// What all agents share while a plan runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "syncopate/host/describe.h"
#include "syncopate/host/host.h"
#include "syncopate/host/memory.h"
#include "syncopate/host/scheduler.h"
#include "syncopate/host/signals.h"

namespace syncopate::host {

/// Why an agent does not move.
struct Pending {
  enum class Kind : std::uint8_t {
    nothing,   ///< it can move
    signal,    ///< a signal's value
    children,  ///< a caller: its queues and workers
    launch,    ///< a queue or worker: its rank's next launch
    slot,      ///< a worker of a dynamic order: a slot that it may take
    ended,     ///< a caller that has completed all launches
  };
  Kind kind = Kind::nothing;
  int signal = -1;
  std::int64_t expected = 0;
};

class World {
 public:
  World(const Plan& plan, const RunOptions& options);

  const Plan& plan;
  const RunOptions& options;
  const AgentLayout layout;
  const Describer describer;
  History history;
  Signals signals;
  Memory memory;
  Scheduler scheduler;
  RunReport report;

  /// The launch that a rank is in.
  std::int64_t launch(int rank) const { return launches_[static_cast<std::size_t>(rank)]; }
  void set_launch(int rank, std::int64_t launch) { launches_[static_cast<std::size_t>(rank)] = launch; }

  /// How far an agent is: the slot of a worker (-1 before the first; additions are numbered behind slots), the transfer
  /// of a queue.
  std::int64_t position(int agent) const { return positions_[static_cast<std::size_t>(agent)]; }
  void set_position(int agent, std::int64_t position) { positions_[static_cast<std::size_t>(agent)] = position; }

  /// In whose name an agent acts: a worker of a dynamic order in that of the slot that it has taken.
  int actor(int agent) const;

  const Pending& pending(int agent) const { return pending_[static_cast<std::size_t>(agent)]; }
  /// The agent stops being scheduled until it is resumed (for a signal: by the raise that satisfies it).
  void suspend(int agent, Pending why);
  void resume(int agent);

  /// The signal in a slot of a rank's flags; -1 if there is none.
  int signal_at(int rank, std::int64_t slot) const;
  /// If the wait is satisfied, `agent` learns what it proves; else it is suspended. Returns whether it was satisfied.
  bool wait(int agent, const Wait& wait, std::int64_t launch);
  bool wait(int agent, int signal, std::int64_t expected);
  /// Throws Failure if the raise could be taken for one of another launch. `known`: see Signals::raise().
  void raise(int agent, int signal, std::int64_t launch, Clock known);
  void raise(int agent, int signal, std::int64_t launch) {
    raise(agent, signal, launch, history.release(actor(agent)));
  }

  // Of a dynamic order.

  /// A slot of its rank that the worker takes, or how many slots there are if all are taken. If it may take none it is
  /// suspended, and there is none.
  std::optional<std::int64_t> take_slot(int worker, std::int64_t lookahead);
  bool is_taken(int rank, std::size_t slot) const {
    return claims_[static_cast<std::size_t>(rank)][slot] == launch(rank);
  }
  /// The first slot of a rank that is not taken, or how many there are.
  std::size_t first_left(int rank) const;
  /// The first wait of a slot that is not satisfied; nullptr if all are.
  const Wait* missing_wait(int rank, std::size_t slot) const;

  /// What the unfused kernel reads on `rank` in a launch; dropped by drop_inputs().
  const std::vector<Bytes>& inputs(int rank, std::int64_t launch);
  void drop_inputs(std::int64_t launch) { inputs_.erase(launch); }

  void count_tile();
  /// Lets go of the history that every agent which may still move knows.
  void forget_common_past();

 private:
  std::vector<std::int64_t> launches_;
  std::vector<std::int64_t> positions_;
  std::vector<Pending> pending_;
  void resume_looking(int rank);

  std::vector<std::vector<int>> waiting_;  ///< per signal
  std::vector<std::vector<int>> looking_;  ///< per rank: workers that find no slot
  /// Per rank and slot: the last launch in which it was taken; empty where workers are dealt their slots.
  std::vector<std::vector<std::int64_t>> claims_;
  std::vector<std::vector<int>> slots_;  ///< per rank: the signals by slot
  std::map<std::int64_t, std::vector<std::vector<Bytes>>> inputs_;
  std::int64_t all_tiles_ = 0;
  std::int64_t tiles_between_reports_ = 1;
};

}  // namespace syncopate::host
