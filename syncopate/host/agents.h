// Who acts on CPU ranks: on every rank one caller, who puts inputs in place and takes outputs away, the queues of
// transfers, and the workers that run the kernel. Agents are numbered, rank by rank. In a dynamic order a worker acts
// in the name of the slot that it has taken, as if each slot had a worker of its own: what it did before orders
// nothing.
#pragma once

#include <string>
#include <vector>

#include "syncopate/plan/plan.h"

namespace syncopate::host {

enum class AgentKind : std::uint8_t { caller, queue, worker, slot };

struct Agent {
  int rank = 0;
  AgentKind kind = AgentKind::caller;
  int index = 0;  ///< among the queues, workers or slots of its rank
};

class AgentLayout {
 public:
  explicit AgentLayout(const Plan& plan);

  /// Those that move.
  int count() const { return first_.back(); }
  /// All in whose name something is done: behind those that move the slots of a dynamic order.
  int actors() const { return static_cast<int>(agents_.size()); }
  const Agent& at(int agent) const { return agents_[static_cast<std::size_t>(agent)]; }
  int caller(int rank) const { return first_[static_cast<std::size_t>(rank)]; }
  int queue(int rank, int index) const { return caller(rank) + 1 + index; }
  int worker(int rank, int index) const { return first_worker_[static_cast<std::size_t>(rank)] + index; }
  /// In whose name the work of a slot is done.
  int actor_of_slot(int rank, std::size_t slot) const {
    if (!first_slot_.empty()) return first_slot_[static_cast<std::size_t>(rank)] + static_cast<int>(slot);
    return worker(rank, static_cast<int>(slot % static_cast<std::size_t>(workers_)));
  }
  /// The queues and workers of a rank are the agents [first, last).
  int first_child(int rank) const { return caller(rank) + 1; }
  int last_child(int rank) const { return first_[static_cast<std::size_t>(rank) + 1]; }

 private:
  int workers_;
  std::vector<Agent> agents_;
  std::vector<int> first_;         ///< per rank, and the end
  std::vector<int> first_worker_;  ///< per rank
  std::vector<int> first_slot_;    ///< per rank; empty where workers are dealt their slots
};

}  // namespace syncopate::host
