// Looking at a GPU while some thread captures a graph.
#pragma once

#include "syncopate/cuda/driver.h"

namespace syncopate::cuda {

/// As long as it lives, what this thread asks of the driver belongs to no capture and breaks none, not even another
/// thread's that forbids it.
class CapturesUndisturbed {
 public:
  explicit CapturesUndisturbed(const Driver& driver)
      : driver_(driver), entered_(driver.thread_exchange_capture_mode(&mode_)) {}
  CapturesUndisturbed(const CapturesUndisturbed&) = delete;
  CapturesUndisturbed& operator=(const CapturesUndisturbed&) = delete;
  ~CapturesUndisturbed() { driver_.thread_exchange_capture_mode(&mode_); }

  /// What the driver said to it.
  Result entered() const { return entered_; }

 private:
  const Driver& driver_;
  int mode_ = kCaptureRelaxed;
  Result entered_;
};

}  // namespace syncopate::cuda
