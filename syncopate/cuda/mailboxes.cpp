#include "syncopate/cuda/mailboxes.h"

#include <algorithm>
#include <map>

namespace syncopate::cuda {
namespace {

/// Where a raise of a signal stands in the plan.
struct Raiser {
  enum class Place { start, transfer, tile, completion };
  Place place = Place::start;
  int rank = 0;
  int queue = 0;  ///< of a transfer
  int transfer = 0;
};

/// The waits of one queue for one signal.
struct QueueWaits {
  int last_transfer = 0;
  std::int64_t last_threshold = 0;
  bool previous_launch = true;  ///< all of threshold 0
  bool this_launch = true;      ///< all of another
};

class Assigner {
 public:
  explicit Assigner(const Plan& plan)
      : plan_(plan),
        raisers_(plan.signals.size()),
        waited_fully_(plan.signals.size(), false),
        mailboxes_{std::vector<std::vector<Mailbox>>(static_cast<std::size_t>(plan.ranks))} {
    for (int rank = 0; rank < plan.ranks; ++rank) read(rank);
  }

  Mailboxes run() {
    for (int rank = 0; rank < plan_.ranks; ++rank)
      for (std::size_t queue = 0; queue < program(rank).queues.size(); ++queue) assign(rank, static_cast<int>(queue));
    return std::move(mailboxes_);
  }

 private:
  const RankProgram& program(int rank) const { return plan_.programs[static_cast<std::size_t>(rank)]; }
  const std::vector<Transfer>& transfers(int rank, int queue) const {
    return program(rank).queues[static_cast<std::size_t>(queue)].transfers;
  }
  const Signal& signal(int index) const { return plan_.signals[static_cast<std::size_t>(index)]; }

  void read(int rank) {
    const auto raises = [&](const std::vector<int>& signals, Raiser raiser) {
      for (const int index : signals) raisers_[static_cast<std::size_t>(index)].push_back(raiser);
    };
    const auto waits = [&](const std::vector<Wait>& list) {
      for (const Wait& wait : list)
        if (wait.threshold == signal(wait.signal).per_launch)
          waited_fully_[static_cast<std::size_t>(wait.signal)] = true;
    };
    const RankProgram& of = program(rank);
    raises(of.start_signals, {Raiser::Place::start, rank});
    for (std::size_t queue = 0; queue < of.queues.size(); ++queue) {
      const auto& list = of.queues[queue].transfers;
      for (std::size_t i = 0; i < list.size(); ++i) {
        raises(list[i].signals, {Raiser::Place::transfer, rank, static_cast<int>(queue), static_cast<int>(i)});
        waits(list[i].waits);
      }
    }
    for (const Slot& slot : of.slots) {
      raises(slot.signals, {Raiser::Place::tile, rank});
      for_each_waits_of(slot, waits);
    }
    for (const Addition& addition : of.additions) waits(addition.waits);
    raises(of.completion_signals, {Raiser::Place::completion, rank});
    waits(of.completion_waits);
  }

  void assign(int rank, int queue) {
    std::map<int, QueueWaits> by_signal;
    const auto& list = transfers(rank, queue);
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (const Wait& wait : list[i].waits) {
        QueueWaits& waits = by_signal[wait.signal];
        waits.last_transfer = static_cast<int>(i);
        waits.last_threshold = wait.threshold;
        waits.previous_launch = waits.previous_launch && wait.threshold == 0;
        waits.this_launch = waits.this_launch && wait.threshold != 0;
      }
    }
    for (const auto& [index, waits] : by_signal) {
      if (!(waits.previous_launch || waits.this_launch) || !returns_in_time(rank, queue, index, waits)) continue;
      mailboxes_.of_rank[static_cast<std::size_t>(rank)].push_back(
          {queue, index, waits.last_transfer, waits.previous_launch});
    }
  }

  /// Whether no raise of the next round comes before the queue has set the mailbox back, as the header explains.
  bool returns_in_time(int rank, int queue, int index, const QueueWaits& waits) const {
    // Raises that the last wait does not wait for could come after the setting back, and would count for the next
    // launch.
    if (waits.this_launch && waits.last_threshold != signal(index).per_launch) return false;
    const auto& raisers = raisers_[static_cast<std::size_t>(index)];
    return std::all_of(raisers.begin(), raisers.end(), [&](const Raiser& raiser) {
      if (waits.previous_launch && raiser.place != Raiser::Place::completion) return false;
      if (raiser.rank == rank || hears_from(raiser.rank, rank, queue, waits.last_transfer)) return true;
      return waits.this_launch && raiser.place == Raiser::Place::transfer && waits_for_completion_of(rank, raiser);
    });
  }

  /// Whether `listener` waits, in each launch, for a signal that transfer `first` of the queue or one behind it raises.
  bool hears_from(int listener, int rank, int queue, int first) const {
    const auto& list = transfers(rank, queue);
    return std::any_of(list.begin() + first, list.end(), [&](const Transfer& transfer) {
      return std::any_of(transfer.signals.begin(), transfer.signals.end(), [&](int index) {
        return signal(index).home == listener && waited_fully_[static_cast<std::size_t>(index)];
      });
    });
  }

  /// Whether a transfer, or one before it in its queue, waits for `rank` to have completed the launch before.
  bool waits_for_completion_of(int rank, const Raiser& raiser) const {
    const auto& list = transfers(raiser.rank, raiser.queue);
    return std::any_of(list.begin(), list.begin() + raiser.transfer + 1, [&](const Transfer& transfer) {
      return std::any_of(transfer.waits.begin(), transfer.waits.end(), [&](const Wait& wait) {
        const auto& raisers = raisers_[static_cast<std::size_t>(wait.signal)];
        return wait.threshold == 0 && std::any_of(raisers.begin(), raisers.end(), [&](const Raiser& other) {
                 return other.place == Raiser::Place::completion && other.rank == rank;
               });
      });
    });
  }

  const Plan& plan_;
  std::vector<std::vector<Raiser>> raisers_;  ///< per signal
  std::vector<bool> waited_fully_;            ///< per signal: its home waits for all raises of a launch
  Mailboxes mailboxes_;
};

}  // namespace

int Mailboxes::find(int rank, int queue, int signal) const {
  const auto& all = of_rank[static_cast<std::size_t>(rank)];
  const auto found = std::find_if(all.begin(), all.end(), [&](const Mailbox& mailbox) {
    return mailbox.queue == queue && mailbox.signal == signal;
  });
  return found == all.end() ? -1 : static_cast<int>(found - all.begin());
}

std::size_t Mailboxes::most() const {
  std::size_t most = 0;
  for (const auto& all : of_rank) most = std::max(most, all.size());
  return most;
}

Mailboxes assign_mailboxes(const Plan& plan) { return Assigner(plan).run(); }

std::vector<SignalWords> words_of_signals(const Plan& plan, const Mailboxes& mailboxes) {
  std::vector<SignalWords> words(plan.signals.size());
  const auto need_flags = [&](const std::vector<Wait>& waits) {
    for (const Wait& wait : waits) words[static_cast<std::size_t>(wait.signal)].flag = true;
  };
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const RankProgram& program = plan.programs[static_cast<std::size_t>(rank)];
    for (const Slot& slot : program.slots) for_each_waits_of(slot, need_flags);
    for (const Addition& addition : program.additions) need_flags(addition.waits);
    need_flags(program.completion_waits);
    for (std::size_t queue = 0; queue < program.queues.size(); ++queue)
      for (const Transfer& transfer : program.queues[queue].transfers)
        for (const Wait& wait : transfer.waits)
          if (mailboxes.find(rank, static_cast<int>(queue), wait.signal) < 0) need_flags({wait});
    const auto& own = mailboxes.of_rank[static_cast<std::size_t>(rank)];
    for (std::size_t index = 0; index < own.size(); ++index)
      words[static_cast<std::size_t>(own[index].signal)].mailboxes.push_back(static_cast<int>(index));
  }
  return words;
}

}  // namespace syncopate::cuda
