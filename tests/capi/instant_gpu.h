// A GPU behind the functions of a Driver on which everything happens at once, from any thread, except what a test holds
// back: for what hosts do around launches. (tests/cuda/simulated_gpu.h is for what launches do.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "syncopate/cuda/driver.h"

namespace syncopate::cuda {

/// What the driver's functions reach; there is one at a time.
class InstantGpu {
 public:
  InstantGpu();
  InstantGpu(const InstantGpu&) = delete;
  InstantGpu& operator=(const InstantGpu&) = delete;
  ~InstantGpu();

  std::shared_ptr<const Driver> driver() const { return driver_; }

  /// Work given to `stream` from now on does not end before the word at `record` is written to, as letting go does.
  void hold(Stream stream, DevicePointer record);
  /// As a kernel of a rank that gives up leaves them: eight words.
  void write_words(DevicePointer address, const std::array<std::int64_t, 8>& words);
  /// Every stream is being captured.
  void capture(bool captured);
  /// From now on, asking for events ends in this result.
  void break_with(Result result);
  /// From now on, launching kernels does.
  void break_launches_with(Result result);

  int opened() const;  ///< memory of other processes that is mapped
  int freed() const;

 private:
  friend struct InstantCalls;
  mutable std::mutex mutex_;
  std::shared_ptr<Driver> driver_;
  std::map<Stream, DevicePointer> held_;
  std::set<Stream> begun_;  ///< held ones that got their first event
  std::map<Event, Stream> pending_;
  std::set<DevicePointer> opened_;
  std::map<DevicePointer, std::unique_ptr<std::byte[]>> memory_;
  std::uintptr_t names_ = 1000;
  bool captured_ = false;
  Result broken_ = kSuccess;
  Result broken_launches_ = kSuccess;
  int freed_ = 0;
};

}  // namespace syncopate::cuda
