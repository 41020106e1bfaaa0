#include "syncopate/host/scheduler.h"

#include <algorithm>
#include <tuple>

namespace syncopate::host {
namespace {
constexpr auto kWorkers = static_cast<std::size_t>(AgentKind::worker);
}

Scheduler::Scheduler(const AgentLayout& layout, std::uint64_t seed, bool adversary)
    : layout_(layout), random_(seed), adversary_(adversary), entries_(static_cast<std::size_t>(layout.count())) {
  for (std::uint64_t& share : shares_) share = 1 + random_.below(8);
  for (Entry& entry : entries_) entry.priority = random_.next();
}

std::vector<int>& Scheduler::list_of(int agent) { return ready_[static_cast<std::size_t>(layout_.at(agent).kind)]; }

void Scheduler::add(int agent) {
  Entry& entry = entries_[static_cast<std::size_t>(agent)];
  if (entry.position >= 0) return;
  std::vector<int>& list = list_of(agent);
  entry.position = static_cast<int>(list.size());
  list.push_back(agent);
}

void Scheduler::remove(int agent) {
  Entry& entry = entries_[static_cast<std::size_t>(agent)];
  if (entry.position < 0) return;
  std::vector<int>& list = list_of(agent);
  const int last = list.back();
  list[static_cast<std::size_t>(entry.position)] = last;
  entries_[static_cast<std::size_t>(last)].position = entry.position;
  list.pop_back();
  entry.position = -1;
}

void Scheduler::set_next(int agent, Helpfulness helpfulness, std::int64_t age) {
  Entry& entry = entries_[static_cast<std::size_t>(agent)];
  entry.helpfulness = helpfulness;
  entry.age = age;
}

bool Scheduler::idle() const {
  return std::all_of(ready_.begin(), ready_.end(), [](const std::vector<int>& list) { return list.empty(); });
}

int Scheduler::pick() { return adversary_ ? pick_hostile() : pick_fairly(); }

std::size_t Scheduler::choose(std::size_t count) { return random_.below(2) == 0 ? 0 : random_.below(count); }

int Scheduler::pick_fairly() {
  std::uint64_t total = 0;
  for (std::size_t kind = 0; kind < ready_.size(); ++kind)
    if (!ready_[kind].empty()) total += shares_[kind];
  std::uint64_t draw = random_.below(total);
  for (std::size_t kind = 0; kind < ready_.size(); ++kind) {
    if (ready_[kind].empty()) continue;
    if (draw < shares_[kind]) return ready_[kind][random_.below(ready_[kind].size())];
    draw -= shares_[kind];
  }
  return -1;
}

int Scheduler::pick_hostile() {
  if (!ready_[kWorkers].empty()) return ready_[kWorkers][random_.below(ready_[kWorkers].size())];
  int best = -1;
  const auto key = [&](int agent) {
    const Entry& entry = entries_[static_cast<std::size_t>(agent)];
    return std::tuple(entry.helpfulness, entry.age, entry.priority, agent);
  };
  for (const std::vector<int>& list : ready_)
    for (const int agent : list)
      if (best < 0 || key(agent) < key(best)) best = agent;
  return best;
}

}  // namespace syncopate::host
