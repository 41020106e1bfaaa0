#include "syncopate/cuda/launch_record.h"

namespace syncopate::cuda {

LaunchRecord::LaunchRecord(Gpu& gpu) : gpu_(gpu) {
  for (std::int64_t i = 0; i < kMost; ++i) {
    began_.push_back(gpu.make_event());
    ended_events_.push_back(gpu.make_event());
  }
}

bool LaunchRecord::begin(Stream stream) {
  {
    const std::lock_guard lock(mutex_);
    if (given_ - ended_ >= kMost) advance();
    if (given_ - ended_ >= kMost) return false;
  }
  gpu_.driver().check(gpu_.driver().event_record(at(began_, given_), stream), "recording an event");
  return true;
}

void LaunchRecord::end(Stream stream) {
  gpu_.driver().check(gpu_.driver().event_record(at(ended_events_, given_), stream), "recording an event");
  ++given_;
}

bool LaunchRecord::happened(Event event) const {
  const Result result = gpu_.driver().event_query(event);
  if (result == kNotReady) return false;
  gpu_.driver().check(result, "running an operator");
  return true;
}

void LaunchRecord::advance() {
  while (ended_ < given_ && happened(at(ended_events_, ended_))) {
    ++ended_;
    seen_at_work_.reset();
  }
}

bool LaunchRecord::all_ended() {
  const std::lock_guard lock(mutex_);
  advance();
  return ended_ == given_;
}

std::int64_t LaunchRecord::ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

std::optional<LaunchRecord::Clock::duration> LaunchRecord::oldest_at_work() {
  const std::lock_guard lock(mutex_);
  advance();
  if (ended_ == given_ || !happened(at(began_, ended_))) return std::nullopt;
  if (!seen_at_work_) seen_at_work_ = Clock::now();
  return Clock::now() - *seen_at_work_;
}

}  // namespace syncopate::cuda
