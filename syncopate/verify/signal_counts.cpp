#include "syncopate/verify/signal_counts.h"

#include <fmt/format.h>

#include <algorithm>

#include "syncopate/verify/claim.h"
#include "syncopate/verify/describe.h"

namespace syncopate {

namespace {

/// One early and one late raise of a launch for each agent that raises the signal.
struct Share {
  Event first;
  Event last;
};

std::vector<Share> shares_of(const PlanIndex& index, int signal) {
  std::vector<Share> shares;
  const std::vector<Raise>& raises = index.raises(signal);
  for (std::size_t i = 0; i < raises.size(); ++i) {
    if (i == 0 || raises[i].agent != raises[i - 1].agent) shares.push_back({raises[i].event, raises[i].event});
    shares.back().last = raises[i].event;
  }
  return shares;
}

/// What is known, in the second launch, when an event has waited for all it waits for.
Order::Clock knowledge_at(const Order& order, const Event& event) {
  if (event.kind == Event::Kind::slot) return order.clock_at_raise(event.rank, event.number, 1);
  const auto clock = order.clock_of({event, 1});
  return Order::Clock(clock.begin(), clock.end());
}

}  // namespace

Theorem prove_signal_counts(const PlanIndex& index, const Order* order) {
  Claim claim(
      "signal counts",
      "every launch raises every signal exactly as often as the plan says, and no raise can be counted in place "
      "of one of the launch before, so a counter's value tells which raises have come.");
  std::int64_t raises = 0;
  std::int64_t shared = 0;
  const auto signals = static_cast<int>(index.plan().signals.size());
  for (int s = 0; s < signals; ++s) {
    const Signal& signal = index.signal(s);
    const auto count = static_cast<std::int64_t>(index.raises(s).size());
    raises += count;
    claim.check(count == signal.per_launch, [&] {
      std::string text = fmt::format("signal '{}' on rank {} is raised {} times in a launch, not {}: ", signal.name,
                                     signal.home, count, signal.per_launch);
      if (count == 0) return text + "nobody raises it";
      constexpr std::int64_t kMost = 6;
      for (std::int64_t i = 0; i < std::min(count, kMost); ++i)
        text += (i == 0 ? "by " : ", by ") + describe_event(index, index.raises(s)[static_cast<std::size_t>(i)].event);
      return count > kMost ? text + fmt::format(" and by {} more", count - kMost) : text;
    });
    if (order == nullptr || !index.waited_for(s)) continue;
    const std::vector<Share> shares = shares_of(index, s);
    if (shares.size() < 2) continue;
    ++shared;
    for (const Share& early : shares) {
      Order::Clock clock;
      for (const Share& late : shares) {
        // A rank completes a launch, and all its agents with it, before it starts the next.
        if (late.last.rank == early.first.rank) continue;
        if (clock.empty()) clock = knowledge_at(*order, early.first);
        claim.check(order->known(clock, {late.last, 0}), [&] {
          return fmt::format(
              "signal '{}' on rank {} counts raises of several: nothing keeps {} in launch e + 1 from coming before {} "
              "in launch e, and its raise from being taken for the missing one",
              signal.name, signal.home, describe_event(index, early.first), describe_event(index, late.last));
        });
      }
    }
  }
  return claim.conclude(
      fmt::format("{} signals, {} raises in a launch; {} signals count raises of several", signals, raises, shared));
}

}  // namespace syncopate
