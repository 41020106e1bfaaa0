// Decides who moves next. Everything is drawn from one seed, so a run can be repeated exactly.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "syncopate/host/agents.h"
#include "syncopate/plan/random.h"

namespace syncopate::host {

/// How much others would gain from an agent's next step. The adversary lets the least helpful ones go first.
enum class Helpfulness : std::uint8_t { work, start_transfer, move_bytes, raise_signal };

class Scheduler {
 public:
  /// Without `adversary` callers, queues and workers get a share of the steps each, drawn from the seed, so that some
  /// seeds have fast transfers and some slow ones; within a kind all are alike. With it, workers move as long as
  /// any can; then callers; then transfers begin, then bytes move (those of the newest transfer last), and a signal is
  /// raised only when nothing else can move. Ties go by a priority drawn from the seed, fixed for the run.
  Scheduler(const AgentLayout& layout, std::uint64_t seed, bool adversary);

  void add(int agent);
  void remove(int agent);
  /// What the agent will do next; only the adversary asks.
  void set_next(int agent, Helpfulness helpfulness, std::int64_t age = 0);
  bool idle() const;
  /// One of the agents added; it stays.
  int pick();
  /// One of so many that a worker may choose from, every other time the first.
  std::size_t choose(std::size_t count);

 private:
  struct Entry {
    int position = -1;  ///< in the list of its kind
    Helpfulness helpfulness = Helpfulness::work;
    std::int64_t age = 0;
    std::uint64_t priority = 0;
  };
  std::vector<int>& list_of(int agent);
  int pick_fairly();
  int pick_hostile();

  const AgentLayout& layout_;
  Random random_;
  bool adversary_;
  std::array<std::uint64_t, 3> shares_{};
  std::array<std::vector<int>, 3> ready_;  ///< by AgentKind
  std::vector<Entry> entries_;
};

}  // namespace syncopate::host
