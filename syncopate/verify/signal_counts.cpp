#include "syncopate/verify/signal_counts.h"

#include <fmt/format.h>

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
      for (std::size_t i = 0; i < index.raises(s).size(); ++i)
        text += (i == 0 ? "by " : ", by ") + describe_event(index, index.raises(s)[i].event);
      return text;
    });
    if (order == nullptr || !index.waited_for(s)) continue;
    const std::vector<Share> shares = shares_of(index, s);
    if (shares.size() < 2) continue;
    ++shared;
    for (const Share& early : shares) {
      for (const Share& late : shares) {
        claim.check(order->before({late.last, 0}, {early.first, 1}), [&] {
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
