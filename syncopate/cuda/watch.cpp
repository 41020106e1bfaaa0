#include "syncopate/cuda/watch.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <thread>

#include "syncopate/core/error.h"

namespace syncopate::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kBetweenLooks = std::chrono::microseconds(50);
constexpr auto kBetweenRecords = milliseconds(50);
/// How much longer than a kernel's wait a launch may take before streams are suspected.
constexpr auto kPatience = milliseconds(500);
constexpr auto kLettingGo = std::chrono::seconds(10);

void append_line(std::string& lines, const std::string& line) {
  if (line.empty()) return;
  if (!lines.empty()) lines += '\n';
  lines += line;
}

}  // namespace

Watch::Watch(Ranks& ranks) : ranks_(ranks), time_limit_(ranks.options().time_limit) {
  std::map<Gpu*, Stream> controls;
  for (int rank = 0; rank < ranks.plan().ranks; ++rank) {
    RankOnGpu& on = ranks.rank(rank);
    const auto [control, is_new] = controls.try_emplace(&on.gpu(), nullptr);
    if (is_new) control->second = on.gpu().make_stream(true);
    watches_.emplace_back(on, control->second);
  }
}

bool Watch::complete(int rank, std::int64_t epoch) const {
  const Gpu& gpu = ranks_.rank(rank).gpu();
  gpu.make_current();
  const Result result = gpu.driver().event_query(ranks_.completed(rank, epoch));
  if (result == kNotReady) return false;
  if (result != kSuccess) gpu.driver().check(result, fmt::format("running launch {} on rank {}", epoch, rank));
  return true;
}

std::optional<std::string> Watch::await(std::int64_t epoch) {
  const auto one_launch =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time_limit_)) + kPatience;
  auto suspicious = Clock::now() + one_launch;
  auto next_records = Clock::now() + kBetweenRecords;
  std::int64_t launches = 0;
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
      if (const std::int64_t so_far = launches_ended(); so_far > launches) {
        suspicious = now + one_launch;
        launches = so_far;
      }
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

std::int64_t Watch::launches_ended() {
  std::int64_t launches = 0;
  for (RankWatch& watch : watches_) launches += watch.launches_ended().value_or(0);
  return launches;
}

std::string Watch::missed_by_kernels() {
  std::string lines;
  for (RankWatch& watch : watches_) append_line(lines, watch.missed().value_or(""));
  return lines;
}

std::string Watch::missed_by_streams(std::int64_t epoch) {
  std::string lines = fmt::format("launch {} did not end within {} s, and no tile waits for anything", epoch,
                                  time_limit_ + std::chrono::duration<double>(kPatience).count());
  for (RankWatch& watch : watches_) append_line(lines, watch.empty_mailboxes());
  return lines;
}

bool Watch::all_ended() const {
  for (int rank = 0; rank < ranks_.plan().ranks; ++rank) {
    const Gpu& gpu = ranks_.rank(rank).gpu();
    gpu.make_current();
    if (gpu.driver().stream_query(ranks_.stream(rank)) == kNotReady || !ranks_.rank(rank).queues_ended()) return false;
  }
  return true;
}

void Watch::giving(const std::function<void()>& give) {
  try {
    give();
  } catch (...) {
    try {
      let_go();
    } catch (const UserError&) {  // a GPU that has failed frees nothing, and waits for nothing
      for (auto& gpu : ranks_.gpus()) gpu->abandon();
    }
    throw;
  }
}

void Watch::let_go() {
  const auto deadline = Clock::now() + kLettingGo;
  while (!all_ended()) {
    if (Clock::now() >= deadline) {
      for (auto& gpu : ranks_.gpus()) gpu->abandon();
      return;
    }
    for (RankWatch& watch : watches_) watch.let_go();
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace syncopate::cuda
