// How the streams of queues wait for signals.
//
// A stream can only wait for a constant, and a captured graph replays the same constant, but a flag's value grows with
// every launch. So a stream waits on a mailbox: a word of its rank to which every raise of one signal also adds, and
// which the stream itself sets back to 0 behind its last wait for that signal in a launch. Each raise of a launch is
// thus seen once.
//
// That is right if no raise of a later round falls between the last wait and the setting back. assign_mailboxes gives
// a signal and a queue a mailbox only where the plan shows that; it is shown where
//   - the raiser is the rank itself: its next launch begins when its queues have ended; or
//   - the raiser's rank p waits, in each launch, for a signal that the queue raises behind its last wait: p's launch
//     is complete, and so its next one begins, only after the setting back; or
//   - the raiser is a transfer that first waits (or one before it in its queue does) for the rank to have completed
//     the launch before.
// A wait for the previous launch (threshold 0) has a mailbox that starts full, and needs its signal to be raised by the
// completion of a rank for which one of the first two holds.
// Every other wait of a queue is a small kernel that compares flags with the epoch (device_code.h): always right, but
// it needs an SM.
#pragma once

#include <vector>

#include "syncopate/plan/plan.h"

namespace syncopate::cuda {

struct Mailbox {
  int queue = 0;  ///< of the rank
  int signal = 0;
  int last_transfer = 0;         ///< of the queue: it sets the mailbox back
  bool previous_launch = false;  ///< its waits have threshold 0: it starts full
};

struct Mailboxes {
  std::vector<std::vector<Mailbox>> of_rank;  ///< [rank][index]

  /// The index of the mailbox on which a queue waits for a signal, or -1: its wait is a kernel.
  int find(int rank, int queue, int signal) const;
  /// The largest number on a rank.
  std::size_t most() const;
};
Mailboxes assign_mailboxes(const Plan& plan);

/// Which words of its home rank the raises of a signal reach. Only those that something waits on.
struct SignalWords {
  bool flag = false;           ///< tiles, completions, or kernels of queues wait
  std::vector<int> mailboxes;  ///< indices at the home rank
};
/// Per signal.
std::vector<SignalWords> words_of_signals(const Plan& plan, const Mailboxes& mailboxes);

}  // namespace syncopate::cuda
