// What happens before what, in every possible run of two consecutive launches.
//
// Order has three sources: an agent takes its steps one after the other, a rank's queues and workers run between its
// start and its completion, and a satisfied wait comes after the raises that its value proves. The latter follow from
// counting alone:
//   - if one agent makes all raises of a signal, a wait with threshold t proves the first t raises of its launch and
//   all
//     of the launch before;
//   - if several do, it proves all raises of the launch before, and those of its own launch only if t is their number.
// The second needs that no agent raises for a launch before all have raised for the launch before it; that is part of
// the theorem of signal counts.
//
// Kept as vector clocks: per event and agent, how many steps of that agent have ended before the event ends. Only
// callers and queues are agents here; tiles learn but are not learned from before their rank completes.
#pragma once

#include <cstdint>
#include <span>
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

  /// Whether `earlier` ends before `later` begins in every run. An event is not before itself.
  bool before(const Moment& earlier, const Moment& later) const;
  /// Whether somebody with this knowledge knows that `earlier` has ended.
  bool known(std::span<const std::int32_t> clock, const Moment& earlier) const;
  std::span<const std::int32_t> clock_of(const Moment& moment) const;

  /// The moments that a satisfied wait in `launch` proves; at most one, the last, per agent. Moments of the launch
  /// before the first are left out.
  std::vector<Moment> proven_by(const Wait& wait, int launch) const;
  /// Adds to `clock` what is known at a moment, or after a wait.
  void learn(Clock& clock, const Moment& moment) const;
  void learn(Clock& clock, const Wait& wait, int launch) const;

  /// Waits that were looked at, and those that say nothing that the step before or the other waits there do not.
  struct WaitCount {
    std::int64_t all = 0;
    std::int64_t redundant = 0;
  };
  WaitCount count_waits() const;

 private:
  std::size_t row(const Moment& moment) const;
  std::int32_t number(const Moment& moment) const;
  void take(const Moment& moment);
  /// What precedes an event apart from its own waits.
  Clock without_waits(const Moment& moment) const;
  std::int64_t redundant_among(const std::vector<Wait>& waits, const Clock& base) const;

  const PlanIndex& index_;
  std::size_t agents_;
  std::size_t rows_;                           ///< events of one launch
  std::vector<std::int32_t> clocks_;           ///< [launch][event][agent]
  std::vector<std::vector<Wait>> slot_waits_;  ///< [rank], each once
};

}  // namespace syncopate
