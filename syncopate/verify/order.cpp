#include "syncopate/verify/order.h"

#include <algorithm>
#include <set>
#include <utility>

namespace syncopate {

namespace {

void join(Order::Clock& clock, std::span<const std::int32_t> other) {
  for (std::size_t a = 0; a < clock.size(); ++a) clock[a] = std::max(clock[a], other[a]);
}

}  // namespace

Order::Order(const PlanIndex& index, std::span<const Step> steps)
    : index_(index),
      agents_(static_cast<std::size_t>(index.agents())),
      rows_(2 * static_cast<std::size_t>(index.ranks()) + static_cast<std::size_t>(index.transfers())) {
  check_internal(steps.size() == rows_ * kLaunches, "an order needs a whole execution");
  clocks_.assign(rows_ * kLaunches * agents_, 0);
  for (int rank = 0; rank < index.ranks(); ++rank) {
    std::set<std::pair<int, std::int64_t>> seen;
    std::vector<Wait>& waits = slot_waits_.emplace_back();
    for (const Slot& slot : index.program(rank).slots)
      for (const Wait& wait : slot.waits)
        if (seen.insert({wait.signal, wait.threshold}).second) waits.push_back(wait);
  }
  for (const Step& step : steps) take({step.event, step.launch});
}

bool Order::before(const Moment& earlier, const Moment& later) const {
  return !(earlier.event == later.event && earlier.launch == later.launch) && known(clock_of(later), earlier);
}

bool Order::known(std::span<const std::int32_t> clock, const Moment& earlier) const {
  return clock[static_cast<std::size_t>(index_.agent_of(earlier.event))] >= number(earlier);
}

std::span<const std::int32_t> Order::clock_of(const Moment& moment) const {
  return std::span(clocks_).subspan(row(moment) * agents_, agents_);
}

std::vector<Moment> Order::proven_by(const Wait& wait, int launch) const {
  const std::vector<Raise>& raises = index_.raises(wait.signal);
  std::vector<Moment> proven;
  if (raises.empty()) return proven;
  const bool one_agent = raises.front().agent == raises.back().agent;
  const auto count = static_cast<std::int64_t>(raises.size());
  if (wait.threshold > 0 && (one_agent || wait.threshold >= count)) {
    const auto end = static_cast<std::size_t>(std::min(wait.threshold, count));
    for (std::size_t i = 0; i < end; ++i)
      if (i + 1 == end || raises[i + 1].agent != raises[i].agent) proven.push_back({raises[i].event, launch});
  } else if (launch > 0) {
    for (std::size_t i = 0; i < raises.size(); ++i)
      if (i + 1 == raises.size() || raises[i + 1].agent != raises[i].agent)
        proven.push_back({raises[i].event, launch - 1});
  }
  return proven;
}

void Order::learn(Clock& clock, const Moment& moment) const { join(clock, clock_of(moment)); }

void Order::learn(Clock& clock, const Wait& wait, int launch) const {
  for (const Moment& moment : proven_by(wait, launch)) learn(clock, moment);
}

std::size_t Order::row(const Moment& moment) const {
  const auto ranks = static_cast<std::size_t>(index_.ranks());
  const Event& event = moment.event;
  std::size_t within = static_cast<std::size_t>(event.rank);
  if (event.kind == Event::Kind::completion) within += ranks;
  if (event.kind == Event::Kind::transfer) within = 2 * ranks + static_cast<std::size_t>(event.transfer);
  return static_cast<std::size_t>(moment.launch) * rows_ + within;
}

std::int32_t Order::number(const Moment& moment) const {
  const int per_launch = index_.length_of(index_.agent_of(moment.event));
  return moment.launch * per_launch + index_.position_of(moment.event) + 1;
}

Order::Clock Order::without_waits(const Moment& moment) const {
  Clock clock(agents_, 0);
  const auto [event, launch] = moment;
  switch (event.kind) {
    case Event::Kind::start:
      if (launch > 0) learn(clock, {{Event::Kind::completion, event.rank, 0}, launch - 1});
      break;
    case Event::Kind::transfer:
      if (index_.place(event.transfer).position > 0)
        learn(clock, {{Event::Kind::transfer, event.rank, event.transfer - 1}, launch});
      else
        learn(clock, {{Event::Kind::start, event.rank, 0}, launch});
      break;
    case Event::Kind::completion: {
      learn(clock, {{Event::Kind::start, event.rank, 0}, launch});
      const std::vector<Queue>& queues = index_.program(event.rank).queues;
      for (std::size_t q = 0; q < queues.size(); ++q) {
        if (queues[q].transfers.empty()) continue;
        const int last = static_cast<int>(queues[q].transfers.size()) - 1;
        const int transfer = index_.transfer_at({event.rank, static_cast<int>(q), last});
        learn(clock, {{Event::Kind::transfer, event.rank, transfer}, launch});
      }
      for (const Wait& wait : slot_waits_[static_cast<std::size_t>(event.rank)]) learn(clock, wait, launch);
      break;
    }
  }
  return clock;
}

void Order::take(const Moment& moment) {
  Clock clock = without_waits(moment);
  const auto learn_all = [&](const std::vector<Wait>& waits) {
    for (const Wait& wait : waits) learn(clock, wait, moment.launch);
  };
  if (moment.event.kind == Event::Kind::transfer) learn_all(index_.transfer(moment.event.transfer).waits);
  if (moment.event.kind == Event::Kind::completion) learn_all(index_.program(moment.event.rank).completion_waits);
  auto& own = clock[static_cast<std::size_t>(index_.agent_of(moment.event))];
  own = std::max(own, number(moment));
  std::copy(clock.begin(), clock.end(), clocks_.begin() + static_cast<std::ptrdiff_t>(row(moment) * agents_));
}

std::int64_t Order::redundant_among(const std::vector<Wait>& waits, const Clock& base) const {
  std::vector<Wait> kept = waits;
  for (std::size_t i = 0; i < kept.size();) {
    Clock others = base;
    for (std::size_t j = 0; j < kept.size(); ++j)
      if (j != i) learn(others, kept[j], 1);
    const std::vector<Moment> proven = proven_by(kept[i], 1);
    if (std::all_of(proven.begin(), proven.end(), [&](const Moment& m) { return known(others, m); }))
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  return static_cast<std::int64_t>(waits.size() - kept.size());
}

Order::WaitCount Order::count_waits() const {
  WaitCount count;
  const auto add = [&](const std::vector<Wait>& waits, const Clock& base) {
    if (waits.empty()) return;
    count.all += static_cast<std::int64_t>(waits.size());
    count.redundant += redundant_among(waits, base);
  };
  for (int t = 0; t < index_.transfers(); ++t) {
    if (index_.transfer(t).waits.empty()) continue;
    add(index_.transfer(t).waits, without_waits({{Event::Kind::transfer, index_.place(t).rank, t}, 1}));
  }
  const auto workers = static_cast<std::size_t>(index_.plan().workers);
  for (int rank = 0; rank < index_.ranks(); ++rank) {
    const std::vector<Slot>& slots = index_.program(rank).slots;
    for (std::size_t worker = 0; worker < std::min(workers, slots.size()); ++worker) {
      Clock clock(agents_, 0);
      learn(clock, {{Event::Kind::start, rank, 0}, 1});
      for (std::size_t s = worker; s < slots.size(); s += workers) {
        add(slots[s].waits, clock);
        for (const Wait& wait : slots[s].waits) learn(clock, wait, 1);
      }
    }
    add(index_.program(rank).completion_waits, without_waits({{Event::Kind::completion, rank, 0}, 1}));
  }
  return count;
}

}  // namespace syncopate
