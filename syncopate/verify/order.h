// What happens before what, in every possible run of two consecutive launches.
//
// Order has three sources: an agent takes its steps one after the other, a rank's queues and workers run between its
// start and its completion, and a satisfied wait comes after the raises that its value proves. The latter follow from
// counting alone:
//   - if one agent makes all raises of a signal, a wait with threshold t proves the first t raises of its launch and
//     all of the launch before;
//   - if several do, it proves all raises of the launch before, and those of its own launch only if t is their number.
// The second needs that no agent raises for a launch before all have raised for the launch before it; that is part of
// the theorem of signal counts.
//
// Kept as vector clocks: per event and agent, how many steps of that agent have ended before the event ends. Slots have
// no clocks of their own, there are too many. They are worked out again, worker by worker, where they are asked for;
// what slots tell others is kept per signal and threshold.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "syncopate/verify/execution.h"
#include "syncopate/verify/plan_index.h"

namespace syncopate {

/// An event in the first or second of the two launches (0 or 1).
struct Moment {
  Event event;
  int launch = 0;
};

class Order {
 public:
  using Clock = std::vector<std::int32_t>;

  /// `steps` must hold all steps of both launches.
  Order(const PlanIndex& index, std::span<const Step> steps);

  /// Whether `earlier` ends before `later`, which is no slot, begins in every run. An event is not before itself.
  bool before(const Moment& earlier, const Moment& later) const;
  /// Whether somebody with this knowledge knows that `earlier` has ended.
  bool known(std::span<const std::int32_t> clock, const Moment& earlier) const;
  /// What is known when a moment that is no slot ends.
  std::span<const std::int32_t> clock_of(const Moment& moment) const;

  /// Adds to `clock` what is known at a moment that is no slot, or after a wait.
  void learn(Clock& clock, const Moment& moment) const;
  void learn(Clock& clock, const Wait& wait, int launch) const;

  /// Calls `at_reads(slot, clock)` with what a worker knows when its tile reads, `at_step(slot, step, clock)` with what
  /// it knows when it comes to a piece of a streamed loop, and `at_sums(slot, clock)` with what it knows when it adds
  /// and stores, for the slots of a worker in their order.
  template <typename AtReads, typename AtStep, typename AtSums>
  void walk_worker(int rank, int worker, int launch, AtReads&& at_reads, AtStep&& at_step, AtSums&& at_sums) const;
  /// Calls `at_addition(number, clock)` with what a worker knows when it adds, for its additions in their order.
  template <typename AtAddition>
  void walk_additions(int rank, int worker, int launch, AtAddition&& at_addition) const;
  /// What the worker of a slot knows when it raises the slot's signals.
  Clock clock_at_raise(int rank, int slot, int launch) const;

  /// Waits that were looked at, and those that say nothing that the step before or the other waits there do not.
  struct WaitCount {
    std::int64_t all = 0;
    std::int64_t redundant = 0;
  };
  WaitCount count_waits() const;

 private:
  /// What waits for one signal can prove that a slot raises: rows of clocks, one per threshold that matters.
  struct Levels {
    bool one_agent = false;
    std::vector<std::int64_t> thresholds;  ///< ascending; the last is the number of raises. Empty: no slot raises it
    std::size_t first_row = 0;
    std::int64_t raised[kLaunches] = {};  ///< so far
  };

  void find_levels();
  std::size_t row(const Moment& moment) const;
  std::size_t row(const Levels& levels, std::size_t level, int launch) const;
  std::span<const std::int32_t> clock_at(std::size_t row) const;
  std::int32_t number(const Moment& moment) const;
  /// The moments that a satisfied wait in `launch` proves; at most one, the last, per agent. Moments of the launch
  /// before the first are left out.
  std::vector<Moment> proven_by(const Wait& wait, int launch) const;
  void take(const Moment& moment);
  void take_slot(const Moment& moment);
  void note_raises(const std::vector<int>& signals, std::span<const std::int32_t> clock, int launch);
  /// What precedes an event apart from its own waits.
  Clock without_waits(const Moment& moment) const;
  void end_slot(Clock& clock, const Moment& moment) const;
  Clock clock_after_slots(int rank, int worker, int launch) const;
  void know_own_slots(Clock& clock, int rank, int launch) const;
  std::int64_t redundant_among(const std::vector<Wait>& waits, const Clock& base) const;

  const PlanIndex& index_;
  std::size_t agents_;
  std::size_t events_;                               ///< of one launch that have rows
  std::size_t rows_;                                 ///< of one launch: events and levels
  std::vector<Levels> levels_;                       ///< [signal]
  std::vector<std::int32_t> clocks_;                 ///< [launch][row][agent]
  std::vector<std::vector<Wait>> waits_of_workers_;  ///< [rank], each once
  std::vector<Clock> worker_clocks_;                 ///< [agent]; only while the order is made
};

template <typename AtReads, typename AtStep, typename AtSums>
void Order::walk_worker(int rank, int worker, int launch, AtReads&& at_reads, AtStep&& at_step,
                        AtSums&& at_sums) const {
  const std::vector<Slot>& slots = index_.program(rank).slots;
  const auto start = clock_of({{Event::Kind::start, rank, 0}, launch});
  Clock clock(start.begin(), start.end());
  for (auto s = static_cast<std::size_t>(worker); s < slots.size(); s += static_cast<std::size_t>(index_.stride())) {
    const int slot = static_cast<int>(s);
    for (const Wait& wait : slots[s].waits) learn(clock, wait, launch);
    at_reads(slot, std::as_const(clock));
    for (std::size_t step = 0; step < slots[s].steps.size(); ++step) {
      for (const Wait& wait : slots[s].steps[step].waits) learn(clock, wait, launch);
      at_step(slot, step, std::as_const(clock));
    }
    for (const Wait& wait : slots[s].sum_waits) learn(clock, wait, launch);
    at_sums(slot, std::as_const(clock));
    end_slot(clock, {{Event::Kind::slot, rank, slot}, launch});
  }
}

template <typename AtAddition>
void Order::walk_additions(int rank, int worker, int launch, AtAddition&& at_addition) const {
  Clock clock = clock_after_slots(rank, worker, launch);
  const std::vector<Addition>& additions = index_.additions(rank);
  for (auto a = static_cast<std::size_t>(worker); a < additions.size();
       a += static_cast<std::size_t>(index_.plan().workers)) {
    for (const Wait& wait : additions[a].waits) learn(clock, wait, launch);
    at_addition(static_cast<int>(a), std::as_const(clock));
  }
}

}  // namespace syncopate
