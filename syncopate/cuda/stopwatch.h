// How long launches take, on the GPU and on the host that gives them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "syncopate/cuda/ranks.h"
#include "syncopate/cuda/watch.h"

namespace syncopate::cuda {

/// Thrown where launches that are timed wait for something in vain.
struct MissedWait {
  std::string message;
};

/// Gives a launch of one rank to that rank's stream.
using GiveLaunch = std::function<void(int rank)>;

class Stopwatch {
 public:
  /// `ranks` must outlive it; nothing else may use it.
  explicit Stopwatch(Ranks& ranks);

  /// Microseconds a launch takes on each rank's GPU: `launches` back to back, all ranks at once, between two events of
  /// the rank's stream. The host is `lead` microseconds ahead, so that it is not what is measured.
  std::vector<double> on_gpu(const GiveLaunch& give, int launches, double lead);
  /// Microseconds that giving a launch takes on the host, per rank: the mean of `launches`, after which the host waits
  /// until all have ended, so that it never waits for a full queue.
  std::vector<double> on_host(const GiveLaunch& give, int launches);

 private:
  void await();

  Ranks& ranks_;
  Watch watch_;
  std::vector<Event> begin_;  ///< per rank
  std::vector<Event> end_;
  std::int64_t stops_ = 0;
};

}  // namespace syncopate::cuda
