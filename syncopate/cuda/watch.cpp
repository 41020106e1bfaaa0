#include "syncopate/cuda/watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

namespace syncopate::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kBetweenLooks = std::chrono::microseconds(50);
constexpr auto kBetweenRecords = milliseconds(50);
/// How much longer than a kernel's wait a launch may take before streams are suspected.
constexpr auto kPatience = std::chrono::seconds(2);
constexpr auto kLettingGo = std::chrono::seconds(10);
/// Above every value that a launch waits for, and below the top bit, which a counter never has.
constexpr std::uint64_t kPastEverything = std::uint64_t{1} << 62;

std::size_t most_words(const Plan& plan) {
  std::size_t most = kRecordWords;
  for (int rank = 0; rank < plan.ranks; ++rank)
    most = std::max(most, static_cast<std::size_t>(signal_count(plan, rank)));
  return most;
}

}  // namespace

Watch::Watch(Ranks& ranks, double time_limit) : ranks_(ranks), time_limit_(time_limit) {
  const Plan& plan = ranks.plan();
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const auto same = [&](int other) { return ranks.rank(other).gpu == ranks.rank(rank).gpu; };
    int first = 0;
    while (!same(first)) ++first;
    if (first < rank) {
      controls_.push_back(controls_[static_cast<std::size_t>(first)]);
    } else {
      Gpu& gpu = *ranks.rank(rank).gpu;
      controls_.push_back({gpu.make_stream(true), gpu.allocate_host_words(most_words(plan))});
    }
  }
}

bool Watch::complete(int rank, std::int64_t epoch) const {
  const Rank& on = ranks_.rank(rank);
  on.gpu->make_current();
  const Result result = on.gpu->driver().event_query(on.completed[static_cast<std::size_t>(epoch % kLaunchesUnderWay)]);
  if (result == kNotReady) return false;
  on.gpu->driver().check(result, fmt::format("running launch {} on rank {}", epoch, rank));
  return true;
}

std::optional<std::string> Watch::await(std::int64_t epoch) {
  const auto begin = Clock::now();
  const auto suspicious =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time_limit_)) + kPatience;
  auto next_records = begin + kBetweenRecords;
  bool ended = false;
  while (!ended) {
    ended = true;
    for (int rank = 0; ended && rank < ranks_.plan().ranks; ++rank) ended = complete(rank, epoch);
    const auto now = Clock::now();
    // Kernels that gave up do end, so records count at the end too.
    if (ended || now >= next_records) {
      if (std::string missed = missed_by_kernels(); !missed.empty()) {
        let_go();
        return missed;
      }
      next_records = now + kBetweenRecords;
    }
    if (!ended && now >= suspicious) {
      std::string missed = missed_by_streams(epoch);
      let_go();
      return missed;
    }
    if (!ended) std::this_thread::sleep_for(kBetweenLooks);
  }
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> Watch::read(int rank, DevicePointer address, std::size_t count) {
  const Control& control = controls_[static_cast<std::size_t>(rank)];
  const Gpu& gpu = *ranks_.rank(rank).gpu;
  gpu.make_current();
  gpu.driver().check(
      gpu.driver().copy_to_host_async(control.words, address, count * sizeof(std::int64_t), control.stream),
      "reading from a GPU at work");
  const auto deadline = Clock::now() + std::chrono::seconds(2);
  Result result = kNotReady;
  while (result == kNotReady && Clock::now() < deadline) {
    result = gpu.driver().stream_query(control.stream);
    if (result == kNotReady) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  if (result == kNotReady) return std::nullopt;
  gpu.driver().check(result, "reading from a GPU at work");
  return std::vector<std::int64_t>(control.words, control.words + count);
}

std::string Watch::missed_by_kernels() {
  std::string lines;
  for (int rank = 0; rank < ranks_.plan().ranks; ++rank) {
    const auto record = read(rank, ranks_.rank(rank).record, kRecordWords);
    if (!record || record->front() == 0) continue;
    if (!lines.empty()) lines += '\n';
    lines += missed_tile(rank, *record);
  }
  return lines;
}

std::string Watch::missed_tile(int rank, const std::vector<std::int64_t>& record) const {
  const Plan& plan = ranks_.plan();
  const std::int64_t slot = record[1];
  const std::int64_t flag = record[2];
  const std::int64_t expected = record[3];
  const auto& slots = plan.programs[static_cast<std::size_t>(rank)].slots;
  check_internal(slot >= 0 && slot < static_cast<std::int64_t>(slots.size()), "a record of a tile that is not there");
  const Slot& about = slots[static_cast<std::size_t>(slot)];
  const auto& index = plan.tiles[static_cast<std::size_t>(about.tile)].index;
  std::string what = fmt::format("flag {}", flag);
  std::string launch;
  for (const Wait& wait : about.waits) {
    const Signal& signal = plan.signals[static_cast<std::size_t>(wait.signal)];
    if (signal.slot != flag) continue;
    what = fmt::format("'{}' (flag {}: {})", signal.name, flag, signal.counts);
    launch = fmt::format(" in launch {}", (expected - wait.threshold) / signal.per_launch + 1);
  }
  return fmt::format("rank {}: tile ({}){} waited {} s for {}: expected {}, seen {}", rank, fmt::join(index, ", "),
                     launch, time_limit_, what, expected, record[4]);
}

std::string Watch::missed_by_streams(std::int64_t epoch) {
  const Plan& plan = ranks_.plan();
  std::vector<std::vector<std::int64_t>> flags;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    auto values = read(rank, ranks_.rank(rank).flags, static_cast<std::size_t>(signal_count(plan, rank)));
    if (!values) return fmt::format("launch {} did not end, and the flags of rank {} cannot be read", epoch, rank);
    flags.push_back(std::move(*values));
  }
  const auto unsatisfied = [&](int rank, const std::vector<Wait>& waits, const std::string& who) -> std::string {
    for (const Wait& wait : waits) {
      const Signal& signal = plan.signals[static_cast<std::size_t>(wait.signal)];
      const std::int64_t expected = signal.per_launch * (epoch - 1) + wait.threshold;
      const std::int64_t seen = flags[static_cast<std::size_t>(rank)][static_cast<std::size_t>(signal.slot)];
      if (seen < expected)
        return fmt::format("rank {}: {} in launch {} waited {} s for '{}' (flag {}: {}): expected {}, seen {}", rank,
                           who, epoch, time_limit_, signal.name, signal.slot, signal.counts, expected, seen);
    }
    return {};
  };
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const RankProgram& program = plan.programs[static_cast<std::size_t>(rank)];
    for (const Queue& queue : program.queues)
      for (std::size_t i = 0; i < queue.transfers.size(); ++i)
        if (std::string missed =
                unsatisfied(rank, queue.transfers[i].waits, fmt::format("transfer {} of queue '{}'", i, queue.name));
            !missed.empty())
          return missed;
  }
  for (int rank = 0; rank < plan.ranks; ++rank)
    if (std::string missed =
            unsatisfied(rank, plan.programs[static_cast<std::size_t>(rank)].completion_waits, "the completion");
        !missed.empty())
      return missed;
  return fmt::format("launch {} did not end within {} s, though all that it waits for has happened", epoch,
                     time_limit_ + std::chrono::duration<double>(kPatience).count());
}

/// Results are worthless from here on; what matters is that every stream ends. Later launches raise their signals to
/// their own values again, which satisfies their own waits, but a value written twice may also lower a flag that was
/// let go: so all flags are raised again and again until the end.
void Watch::let_go() {
  const auto deadline = Clock::now() + kLettingGo;
  const auto all_ended = [&] {
    for (int rank = 0; rank < ranks_.plan().ranks; ++rank) {
      const Rank& on = ranks_.rank(rank);
      on.gpu->make_current();
      if (on.gpu->driver().stream_query(on.stream) == kNotReady) return false;
    }
    return true;
  };
  while (!all_ended()) {
    if (Clock::now() >= deadline) {
      for (auto& gpu : ranks_.gpus()) gpu->abandon();
      return;
    }
    for (int rank = 0; rank < ranks_.plan().ranks; ++rank) {
      const Rank& on = ranks_.rank(rank);
      const Control& control = controls_[static_cast<std::size_t>(rank)];
      on.gpu->make_current();
      if (on.gpu->driver().stream_query(control.stream) == kNotReady) continue;
      for (int flag = 0; flag < signal_count(ranks_.plan(), rank); ++flag)
        on.gpu->driver().check(
            on.gpu->driver().stream_write_value_64(control.stream, on.flags + static_cast<DevicePointer>(flag) * 8,
                                                   kPastEverything, kWriteAfterAllBefore),
            "letting streams go");
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace syncopate::cuda
