#include "syncopate/cuda/stopwatch.h"

#include <chrono>

namespace syncopate::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// Launches before those that are measured: ranks that started one after the other have found each other by then.
constexpr int kUnmeasured = 2;

}  // namespace

Stopwatch::Stopwatch(Ranks& ranks) : ranks_(ranks), watch_(ranks) {
  for (int rank = 0; rank < ranks.plan().ranks; ++rank) {
    begin_.push_back(ranks.rank(rank).gpu().make_event(true));
    end_.push_back(ranks.rank(rank).gpu().make_event(true));
  }
}

std::vector<double> Stopwatch::on_gpu(const GiveLaunch& give, int launches, double lead) {
  const int ranks = ranks_.plan().ranks;
  const auto record = [&](const std::vector<Event>& events) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Gpu& gpu = ranks_.rank(rank).gpu();
      gpu.make_current();
      gpu.driver().check(gpu.driver().event_record(events[static_cast<std::size_t>(rank)], ranks_.stream(rank)),
                         "recording an event");
    }
  };
  const auto give_all = [&](int count) {
    for (int launch = 0; launch < count; ++launch)
      for (int rank = 0; rank < ranks; ++rank) give(rank);
  };
  watch_.giving([&] {
    for (int rank = 0; rank < ranks; ++rank)
      ranks_.rank(rank).delay(ranks_.stream(rank), static_cast<std::int64_t>(lead * 1e3));
    give_all(kUnmeasured);
    record(begin_);
    give_all(launches);
    record(end_);
  });
  await();
  std::vector<double> microseconds;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const Gpu& gpu = ranks_.rank(rank).gpu();
    gpu.make_current();
    float milliseconds = 0;
    gpu.driver().check(gpu.driver().event_elapsed_time(&milliseconds, begin_[at], end_[at]), "timing a launch");
    microseconds.push_back(1e3 * double{milliseconds} / launches);
  }
  return microseconds;
}

std::vector<double> Stopwatch::on_host(const GiveLaunch& give, int launches) {
  const int ranks = ranks_.plan().ranks;
  std::vector<double> microseconds(static_cast<std::size_t>(ranks), 0);
  watch_.giving([&] {
    for (int launch = 0; launch < launches; ++launch) {
      for (int rank = 0; rank < ranks; ++rank) {
        const auto begin = Clock::now();
        give(rank);
        const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
        microseconds[static_cast<std::size_t>(rank)] += took.count() / launches;
      }
    }
  });
  await();
  return microseconds;
}

/// Until all ranks' streams have ended.
void Stopwatch::await() {
  ranks_.record_completed(++stops_);
  if (auto missed = watch_.await(stops_)) throw MissedWait{std::move(*missed)};
}

}  // namespace syncopate::cuda
