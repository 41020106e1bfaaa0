// Which of a rank's launches have begun and ended, as far as the host can see: an event before and behind each call.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "syncopate/cuda/gpu.h"

namespace syncopate::cuda {

class LaunchRecord {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LaunchRecord(Gpu& gpu);

  /// Around a call, on its stream, of one thread. False: as many launches are under way as can be recorded.
  bool begin(Stream stream);
  void end(Stream stream);

  /// From any thread. Throws UserError with the driver's words if the GPU has failed.
  bool all_ended();
  std::int64_t given() const { return given_; }
  /// As of the last look.
  std::int64_t ended();
  /// How long the oldest launch that has not ended has been at work; nothing if there is none, or it waits for what its
  /// stream held before. Counted from when this was first asked.
  std::optional<Clock::duration> oldest_at_work();

 private:
  static constexpr std::int64_t kMost = 1024;
  Event at(const std::vector<Event>& events, std::int64_t launch) const {
    return events[static_cast<std::size_t>(launch % kMost)];
  }
  bool happened(Event event) const;
  void advance();

  Gpu& gpu_;
  std::vector<Event> began_;
  std::vector<Event> ended_events_;
  std::atomic<std::int64_t> given_ = 0;
  std::mutex mutex_;  ///< of what follows
  std::int64_t ended_ = 0;
  std::optional<Clock::time_point> seen_at_work_;
};

}  // namespace syncopate::cuda
