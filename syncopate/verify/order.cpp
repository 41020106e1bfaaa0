#include "syncopate/verify/order.h"

#include <algorithm>
#include <set>
#include <utility>

namespace syncopate {

namespace {

void join(std::span<std::int32_t> clock, std::span<const std::int32_t> other) {
  for (std::size_t a = 0; a < clock.size(); ++a) clock[a] = std::max(clock[a], other[a]);
}

bool raised_by_slot(const std::vector<Raise>& raises) {
  return std::any_of(raises.begin(), raises.end(),
                     [](const Raise& raise) { return raise.event.kind == Event::Kind::slot; });
}

}  // namespace

Order::Order(const PlanIndex& index, std::span<const Step> steps)
    : index_(index),
      agents_(static_cast<std::size_t>(index.agents())),
      events_(2 * static_cast<std::size_t>(index.ranks()) + static_cast<std::size_t>(index.transfers())),
      rows_(events_) {
  std::size_t slots = 0;
  for (int rank = 0; rank < index.ranks(); ++rank) {
    std::set<std::pair<int, std::int64_t>> seen;
    std::vector<Wait>& waits = waits_of_workers_.emplace_back();
    const auto note = [&](const std::vector<Wait>& list) {
      for (const Wait& wait : list)
        if (seen.insert({wait.signal, wait.threshold}).second) waits.push_back(wait);
    };
    for (const Slot& slot : index.program(rank).slots) for_each_waits_of(slot, note);
    for (const Addition& addition : index.additions(rank)) note(addition.waits);
    if (index.slots_raise()) slots += index.program(rank).slots.size();
  }
  check_internal(steps.size() == (events_ + slots) * kLaunches, "an order needs a whole execution");
  find_levels();
  clocks_.assign(rows_ * kLaunches * agents_, 0);
  worker_clocks_.resize(agents_);
  for (const Step& step : steps) take({step.event, step.launch});
  worker_clocks_ = std::vector<Clock>();
}

/// A wait may ask for less than all raises of a signal; that tells something only if one agent makes them.
void Order::find_levels() {
  levels_.resize(index_.plan().signals.size());
  std::vector<std::set<std::int64_t>> asked(levels_.size());
  index_.for_each_wait([&](const Wait& wait) { asked[static_cast<std::size_t>(wait.signal)].insert(wait.threshold); });
  for (std::size_t s = 0; s < levels_.size(); ++s) {
    const std::vector<Raise>& raises = index_.raises(static_cast<int>(s));
    if (!raised_by_slot(raises)) continue;
    Levels& levels = levels_[s];
    levels.one_agent = raises.front().agent == raises.back().agent;
    const auto count = static_cast<std::int64_t>(raises.size());
    for (const std::int64_t threshold : asked[s])
      if (levels.one_agent && threshold > 0 && threshold < count) levels.thresholds.push_back(threshold);
    levels.thresholds.push_back(count);
    levels.first_row = rows_;
    rows_ += levels.thresholds.size();
  }
}

bool Order::before(const Moment& earlier, const Moment& later) const {
  return !(earlier.event == later.event && earlier.launch == later.launch) && known(clock_of(later), earlier);
}

bool Order::known(std::span<const std::int32_t> clock, const Moment& earlier) const {
  return clock[static_cast<std::size_t>(index_.agent_of(earlier.event))] >= number(earlier);
}

std::span<const std::int32_t> Order::clock_at(std::size_t row) const {
  return std::span(clocks_).subspan(row * agents_, agents_);
}

std::span<const std::int32_t> Order::clock_of(const Moment& moment) const { return clock_at(row(moment)); }

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
  const Levels& levels = levels_[static_cast<std::size_t>(wait.signal)];
  if (levels.thresholds.empty()) {
    for (const Moment& moment : proven_by(wait, launch)) learn(clock, moment);
    return;
  }
  const std::vector<std::int64_t>& all = levels.thresholds;
  if (wait.threshold > 0 && (levels.one_agent || wait.threshold >= all.back())) {
    const auto level = std::lower_bound(all.begin(), all.end(), std::min(wait.threshold, all.back())) - all.begin();
    join(clock, clock_at(row(levels, static_cast<std::size_t>(level), launch)));
  } else if (launch > 0) {
    join(clock, clock_at(row(levels, all.size() - 1, launch - 1)));
  }
}

std::size_t Order::row(const Moment& moment) const {
  const auto ranks = static_cast<std::size_t>(index_.ranks());
  const Event& event = moment.event;
  check_internal(event.kind != Event::Kind::slot, "slots have no clocks");
  std::size_t within = static_cast<std::size_t>(event.rank);
  if (event.kind == Event::Kind::completion) within += ranks;
  if (event.kind == Event::Kind::transfer) within = 2 * ranks + static_cast<std::size_t>(event.number);
  return static_cast<std::size_t>(moment.launch) * rows_ + within;
}

std::size_t Order::row(const Levels& levels, std::size_t level, int launch) const {
  return static_cast<std::size_t>(launch) * rows_ + levels.first_row + level;
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
      if (index_.place(event.number).position > 0)
        learn(clock, {{Event::Kind::transfer, event.rank, event.number - 1}, launch});
      else
        learn(clock, {{Event::Kind::start, event.rank, 0}, launch});
      break;
    case Event::Kind::slot:
      throw InternalError("slots have no clocks");
    case Event::Kind::completion: {
      learn(clock, {{Event::Kind::start, event.rank, 0}, launch});
      const std::vector<Queue>& queues = index_.program(event.rank).queues;
      for (std::size_t q = 0; q < queues.size(); ++q) {
        if (queues[q].transfers.empty()) continue;
        const int last = static_cast<int>(queues[q].transfers.size()) - 1;
        const int transfer = index_.transfer_at({event.rank, static_cast<int>(q), last});
        learn(clock, {{Event::Kind::transfer, event.rank, transfer}, launch});
      }
      for (const Wait& wait : waits_of_workers_[static_cast<std::size_t>(event.rank)]) learn(clock, wait, launch);
      know_own_slots(clock, event.rank, launch);
      break;
    }
  }
  return clock;
}

void Order::know_own_slots(Clock& clock, int rank, int launch) const {
  if (!index_.slots_raise()) return;
  for (int worker = 0; worker < index_.workers_of(rank); ++worker) {
    const int agent = index_.worker_agent(rank, worker);
    clock[static_cast<std::size_t>(agent)] = (launch + 1) * index_.length_of(agent);
  }
}

void Order::end_slot(Clock& clock, const Moment& moment) const {
  if (index_.slots_raise()) clock[static_cast<std::size_t>(index_.agent_of(moment.event))] = number(moment);
}

void Order::take(const Moment& moment) {
  if (moment.event.kind == Event::Kind::slot) return take_slot(moment);
  const RankProgram& program = index_.program(moment.event.rank);
  const std::vector<Wait>* waits = nullptr;
  const std::vector<int>* signals = &program.start_signals;
  if (moment.event.kind == Event::Kind::transfer) {
    waits = &index_.transfer(moment.event.number).waits;
    signals = &index_.transfer(moment.event.number).signals;
  } else if (moment.event.kind == Event::Kind::completion) {
    waits = &program.completion_waits;
    signals = &program.completion_signals;
  }
  Clock clock = without_waits(moment);
  if (waits != nullptr)
    for (const Wait& wait : *waits) learn(clock, wait, moment.launch);
  auto& own = clock[static_cast<std::size_t>(index_.agent_of(moment.event))];
  own = std::max(own, number(moment));
  std::copy(clock.begin(), clock.end(), clocks_.begin() + static_cast<std::ptrdiff_t>(row(moment) * agents_));
  note_raises(*signals, clock, moment.launch);
}

void Order::take_slot(const Moment& moment) {
  const auto agent = static_cast<std::size_t>(index_.agent_of(moment.event));
  Clock& clock = worker_clocks_[agent];
  if (index_.position_of(moment.event) == 0) {
    const auto start = clock_of({{Event::Kind::start, moment.event.rank, 0}, moment.launch});
    clock.assign(start.begin(), start.end());
  }
  const Slot& slot = index_.slot(moment.event.rank, moment.event.number);
  for_each_waits_of(slot, [&](const std::vector<Wait>& waits) {
    for (const Wait& wait : waits) learn(clock, wait, moment.launch);
  });
  end_slot(clock, moment);
  note_raises(slot.signals, clock, moment.launch);
  if (index_.position_of(moment.event) + 1 == index_.length_of(index_.agent_of(moment.event))) clock = Clock();
}

void Order::note_raises(const std::vector<int>& signals, std::span<const std::int32_t> clock, int launch) {
  for (const int signal : signals) {
    Levels& levels = levels_[static_cast<std::size_t>(signal)];
    if (levels.thresholds.empty()) continue;
    const std::vector<std::int64_t>& all = levels.thresholds;
    const std::int64_t raised = ++levels.raised[launch];
    // Of several raisers only all together say something. What one agent knows only grows: the level that its raise
    // completes is the first that is not behind.
    const auto level =
        levels.one_agent ? std::lower_bound(all.begin(), all.end(), raised) - all.begin() : std::ptrdiff_t{0};
    const std::size_t at = row(levels, static_cast<std::size_t>(level), launch) * agents_;
    join(std::span(clocks_).subspan(at, agents_), clock);
  }
}

Order::Clock Order::clock_at_raise(int rank, int slot, int launch) const {
  Clock found;
  walk_worker(
      rank, slot % index_.stride(), launch, [](int, const Clock&) {}, [](int, std::size_t, const Clock&) {},
      [&](int at, const Clock& clock) {
        if (at == slot) found = clock;
      });
  return found;
}

Order::Clock Order::clock_after_slots(int rank, int worker, int launch) const {
  Clock after = Clock(agents_, 0);
  learn(after, {{Event::Kind::start, rank, 0}, launch});
  walk_worker(
      rank, worker, launch, [](int, const Clock&) {}, [](int, std::size_t, const Clock&) {},
      [&](int slot, const Clock& clock) {
        after = clock;
        end_slot(after, {{Event::Kind::slot, rank, slot}, launch});
      });
  return after;
}

/// Looks at single entries, since most waits are for something that nothing else there knows.
std::int64_t Order::redundant_among(const std::vector<Wait>& waits, const Clock& base) const {
  struct Known {
    std::vector<Moment> proven;
    Clock clock;
  };
  std::vector<Known> kept;
  for (const Wait& wait : waits) {
    kept.push_back({proven_by(wait, 1), Clock(waits.size() > 1 ? agents_ : 0, 0)});
    if (waits.size() > 1) learn(kept.back().clock, wait, 1);
  }
  for (std::size_t i = 0; i < kept.size();) {
    const auto known_by_others = [&](const Moment& moment) {
      if (known(base, moment)) return true;
      for (std::size_t j = 0; j < kept.size(); ++j)
        if (j != i && known(kept[j].clock, moment)) return true;
      return false;
    };
    if (std::all_of(kept[i].proven.begin(), kept[i].proven.end(), known_by_others))
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
  for (int rank = 0; rank < index_.ranks(); ++rank) {
    for (int worker = 0; worker < index_.workers_of(rank); ++worker) {
      Clock clock(agents_, 0);
      learn(clock, {{Event::Kind::start, rank, 0}, 1});
      const std::vector<Slot>& slots = index_.program(rank).slots;
      for (auto s = static_cast<std::size_t>(worker); s < slots.size();
           s += static_cast<std::size_t>(index_.stride())) {
        for_each_waits_of(slots[s], [&](const std::vector<Wait>& list) {
          add(list, clock);
          for (const Wait& wait : list) learn(clock, wait, 1);
        });
        end_slot(clock, {{Event::Kind::slot, rank, static_cast<int>(s)}, 1});
      }
      const std::vector<Addition>& additions = index_.additions(rank);
      for (auto a = static_cast<std::size_t>(worker); a < additions.size();
           a += static_cast<std::size_t>(index_.plan().workers)) {
        add(additions[a].waits, clock);
        for (const Wait& wait : additions[a].waits) learn(clock, wait, 1);
      }
    }
    add(index_.program(rank).completion_waits, without_waits({{Event::Kind::completion, rank, 0}, 1}));
  }
  return count;
}

}  // namespace syncopate
