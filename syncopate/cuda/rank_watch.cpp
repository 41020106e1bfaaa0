#include "syncopate/cuda/rank_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "syncopate/core/error.h"
#include "syncopate/cuda/capture_mode.h"

namespace syncopate::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a copy of a few words may take before it counts as stuck behind what it is to watch.
constexpr auto kReadLimit = std::chrono::seconds(2);

struct Described {
  std::string who;
  std::vector<const std::vector<Wait>*> waits;
};

/// Who left a record, and among which waits its wait is.
Described describe(const Plan& plan, int rank, std::int64_t who) {
  const RankProgram& program = plan.programs[static_cast<std::size_t>(rank)];
  if (who == kCompletionWaits) return {"the completion", {&program.completion_waits}};
  for (std::size_t queue = 0; queue < program.queues.size(); ++queue)
    if (who == who_waits_in_queue(static_cast<int>(queue)))
      return {fmt::format("a transfer of queue '{}'", program.queues[queue].name), {}};
  const std::int64_t addition = who - static_cast<std::int64_t>(program.slots.size());
  check_internal(who >= 0 && addition < static_cast<std::int64_t>(program.additions.size()),
                 "a record of a tile or a sum that is not there");
  if (addition >= 0) {
    const Addition& sum = program.additions[static_cast<std::size_t>(addition)];
    const int result = added_up_buffer(plan);
    return {fmt::format("the sum of {}{}", plan.buffer(result).name, sum.region.to_string()), {&sum.waits}};
  }
  const Slot& slot = program.slots[static_cast<std::size_t>(who)];
  const auto& index = plan.tiles[static_cast<std::size_t>(slot.tile)].index;
  Described tile{fmt::format("tile ({})", fmt::join(index, ", ")), {}};
  for_each_waits_of(slot, [&](const std::vector<Wait>& waits) { tile.waits.push_back(&waits); });
  return tile;
}

}  // namespace

RankWatch::RankWatch(RankOnGpu& rank, Stream control) : rank_(rank), control_(control) {
  words_ = rank.gpu().allocate_host_words(
      std::max({kRecordWords, rank.mailboxes().most(), static_cast<std::size_t>(rank.plan().ranks)}));
}

std::optional<std::vector<std::int64_t>> RankWatch::read(DevicePointer address, std::size_t count) {
  return read_each({address}, count);
}

std::optional<std::vector<std::int64_t>> RankWatch::read_each(const std::vector<DevicePointer>& addresses,
                                                              std::size_t count) {
  const Gpu& gpu = rank_.gpu();
  const Driver& driver = gpu.driver();
  gpu.make_current();
  const CapturesUndisturbed undisturbed(driver);
  driver.check(undisturbed.entered(), "watching a GPU");
  for (std::size_t i = 0; i < addresses.size(); ++i)
    driver.check(driver.copy_to_host_async(words_ + i * count, addresses[i], count * sizeof(std::int64_t), control_),
                 "reading from a GPU at work");
  const auto deadline = Clock::now() + kReadLimit;
  Result result = kNotReady;
  while (result == kNotReady && Clock::now() < deadline) {
    result = driver.stream_query(control_);
    if (result == kNotReady) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  if (result == kNotReady) return std::nullopt;
  driver.check(result, "reading from a GPU at work");
  return std::vector<std::int64_t>(words_, words_ + addresses.size() * count);
}

std::optional<std::string> RankWatch::missed() {
  auto record = read(rank_.record(), kRecordWords);
  if (!record || record->front() == 0) return std::nullopt;
  // Whoever left it claimed it first and is still writing, or was; only expected values above 0 are waited for.
  for (int again = 0; (*record)[3] == 0 && again < 3; ++again) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    record = read(rank_.record(), kRecordWords);
    if (!record) return std::nullopt;
  }
  const std::int64_t flag = (*record)[2];
  const std::int64_t expected = (*record)[3];
  if (expected == 0) return std::nullopt;  // let go, not missed
  const Plan& plan = rank_.plan();
  const Described by = describe(plan, rank_.rank(), (*record)[1]);
  std::string what = fmt::format("flag {}", flag);
  for (const Signal& signal : plan.signals)
    if (signal.home == rank_.rank() && signal.slot == flag)
      what = fmt::format("'{}' (flag {}: {})", signal.name, flag, signal.counts);
  std::string launch;
  for (const std::vector<Wait>* waits : by.waits) {
    for (const Wait& wait : *waits) {
      const Signal& signal = plan.signals[static_cast<std::size_t>(wait.signal)];
      if (signal.slot != flag || (expected - wait.threshold) % signal.per_launch != 0) continue;
      launch = fmt::format(" in launch {}", (expected - wait.threshold) / signal.per_launch + 1);
    }
  }
  return fmt::format("rank {}: {}{} waited {} s for {}: expected {}, seen {}", rank_.rank(), by.who, launch,
                     rank_.time_limit(), what, expected, (*record)[4]);
}

std::optional<std::int64_t> RankWatch::launches_ended() {
  const auto epoch = read(rank_.epoch(), 1);
  if (!epoch) return std::nullopt;
  return epoch->front() - 1;
}

std::optional<int> RankWatch::missed_elsewhere(const std::vector<int>& ranks) {
  std::vector<DevicePointer> records;
  for (const int rank : ranks) records.push_back(rank_.record(rank));
  const auto words = read_each(records, 1);
  for (std::size_t i = 0; words && i < ranks.size(); ++i)
    if ((*words)[i] != 0) return ranks[i];
  return std::nullopt;
}

std::string RankWatch::empty_mailboxes() {
  const Plan& plan = rank_.plan();
  const auto& all = rank_.mailboxes().of_rank[static_cast<std::size_t>(rank_.rank())];
  if (all.empty()) return {};
  const auto values = read(rank_.mailbox(0), all.size());
  if (!values) return fmt::format("rank {}: its memory cannot be read", rank_.rank());
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Signal& signal = plan.signals[static_cast<std::size_t>(all[i].signal)];
    if ((*values)[i] >= signal.per_launch) continue;
    const Queue& queue =
        plan.programs[static_cast<std::size_t>(rank_.rank())].queues[static_cast<std::size_t>(all[i].queue)];
    lines.push_back(fmt::format("rank {}: queue '{}' may wait for '{}' ({}): expected {}, seen {}", rank_.rank(),
                                queue.name, signal.name, signal.counts, signal.per_launch, (*values)[i]));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

void RankWatch::let_go() {
  const Gpu& gpu = rank_.gpu();
  const Driver& driver = gpu.driver();
  gpu.make_current();
  const CapturesUndisturbed undisturbed(driver);
  driver.check(undisturbed.entered(), "watching a GPU");
  if (driver.stream_query(control_) == kNotReady) return;
  const auto write = [&](DevicePointer address, std::int64_t value) {
    driver.check(
        driver.stream_write_value_64(control_, address, static_cast<std::uint64_t>(value), kWriteAfterAllBefore),
        "letting streams go");
  };
  write(rank_.record(), 1);
  const auto& all = rank_.mailboxes().of_rank[static_cast<std::size_t>(rank_.rank())];
  for (std::size_t i = 0; i < all.size(); ++i) write(rank_.mailbox(static_cast<int>(i)), kPastEverything);
}

}  // namespace syncopate::cuda
