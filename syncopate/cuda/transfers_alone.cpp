#include "syncopate/cuda/transfers_alone.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace syncopate::cuda {
namespace {

class Maker {
 public:
  explicit Maker(const Plan& plan) : plan_(plan), made_(plan), raised_by_(plan.signals.size()) {
    for (const RankProgram& program : plan.programs)
      for (const Slot& slot : program.slots)
        for (const int signal : slot.signals) raised_by_[static_cast<std::size_t>(signal)].push_back(&slot);
  }

  Plan run() {
    for (int rank = 0; rank < plan_.ranks; ++rank) rewrite(rank);
    // Only now: raises of these must not be taken for the plan's own while waits are followed.
    for (const auto& [of, copy] : copies_) raise_too(of.first, copy);
    for (RankProgram& program : made_.programs) {
      program.slots.clear();
      program.additions.clear();
    }
    made_.workers = 1;
    made_.lookahead = 0;
    return std::move(made_);
  }

 private:
  bool by_tiles(int signal) const { return !raised_by_[static_cast<std::size_t>(signal)].empty(); }
  const Signal& signal(int index) const { return made_.signals[static_cast<std::size_t>(index)]; }

  void rewrite(int rank) {
    const RankProgram& from = plan_.programs[static_cast<std::size_t>(rank)];
    RankProgram& to = made_.programs[static_cast<std::size_t>(rank)];
    for (std::size_t queue = 0; queue < from.queues.size(); ++queue)
      for (std::size_t i = 0; i < from.queues[queue].transfers.size(); ++i)
        to.queues[queue].transfers[i].waits = followed(from.queues[queue].transfers[i].waits, rank);
    std::vector<Wait> last = from.completion_waits;
    for (const Slot& slot : from.slots)
      for_each_waits_of(slot,
                        [&](const std::vector<Wait>& waits) { last.insert(last.end(), waits.begin(), waits.end()); });
    for (const Addition& addition : from.additions)
      last.insert(last.end(), addition.waits.begin(), addition.waits.end());
    to.completion_waits = followed(last, rank);
  }

  std::vector<Wait> followed(const std::vector<Wait>& waits, int rank) {
    std::map<int, std::int64_t> thresholds;  // in an order that does not depend on addresses
    for (const Wait& wait : waits) follow(wait, rank, thresholds);
    std::vector<Wait> all;
    for (const auto& [signal, threshold] : thresholds) all.push_back({signal, threshold});
    return all;
  }

  void follow(const Wait& wait, int rank, std::map<int, std::int64_t>& thresholds) {
    if (!by_tiles(wait.signal)) {
      const int here = signal(wait.signal).home == rank ? wait.signal : copy_at(wait.signal, rank);
      auto& threshold = thresholds.try_emplace(here, wait.threshold).first->second;
      threshold = std::max(threshold, wait.threshold);
      return;
    }
    const bool previous_launch = wait.threshold == 0;
    for (const Slot* slot : raised_by_[static_cast<std::size_t>(wait.signal)])
      for_each_waits_of(*slot, [&](const std::vector<Wait>& waits) {
        for (const Wait& before : waits)
          follow({before.signal, previous_launch ? 0 : before.threshold}, rank, thresholds);
      });
  }

  /// A signal is waited for at home: another of the same raises, for a rank whose transfer waits for tiles of the
  /// first one's home.
  int copy_at(int of, int rank) {
    const auto [found, is_new] = copies_.try_emplace({of, rank}, static_cast<int>(made_.signals.size()));
    if (is_new) {
      Signal copy = signal(of);
      copy.name += fmt::format(" at rank {}", rank);
      copy.home = rank;
      copy.slot = signal_count(made_, rank);
      made_.signals.push_back(std::move(copy));
    }
    return found->second;
  }

  void raise_too(int of, int copy) {
    const auto add = [&](std::vector<int>& signals) {
      const auto count = std::count(signals.begin(), signals.end(), of);
      signals.insert(signals.end(), static_cast<std::size_t>(count), copy);
    };
    for (RankProgram& program : made_.programs) {
      add(program.start_signals);
      for (Queue& queue : program.queues)
        for (Transfer& transfer : queue.transfers) add(transfer.signals);
      add(program.completion_signals);
    }
  }

  const Plan& plan_;
  Plan made_;
  std::vector<std::vector<const Slot*>> raised_by_;  ///< per signal
  std::map<std::pair<int, int>, int> copies_;        ///< by signal and home
};

}  // namespace

Plan transfers_alone(const Plan& plan) { return Maker(plan).run(); }

}  // namespace syncopate::cuda
