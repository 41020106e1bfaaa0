#include "syncopate/host/history.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "syncopate/core/error.h"

namespace syncopate::host {

History::History(int agents, int actors) : clocks_(static_cast<std::size_t>(std::max(agents, actors))), events_(1) {
  for (std::size_t agent = 0; agent < static_cast<std::size_t>(agents); ++agent) {
    clocks_[agent].assign(clocks_.size(), 0);
    clocks_[agent][agent] = 1;
  }
}

void History::begin_anew(int agent, const Clock& known) {
  Clock& clock = clocks_[static_cast<std::size_t>(agent)];
  clock = known;
  ++clock[static_cast<std::size_t>(agent)];  // past all that it has released before, which whoever starts it knows
}

Clock History::end(int agent) { return std::exchange(clocks_[static_cast<std::size_t>(agent)], {}); }

EventId History::begin(int agent, std::int64_t launch, EventKind kind, std::int64_t index) {
  check_internal(events_.size() < std::numeric_limits<EventId>::max(), "too many events for one run");
  const auto self = static_cast<std::size_t>(agent);
  events_.push_back({agent, clocks_[self][self], launch, kind, index});
  return static_cast<EventId>(events_.size() - 1);
}

Clock History::release(int agent) {
  const auto self = static_cast<std::size_t>(agent);
  Clock known = clocks_[self];
  ++clocks_[self][self];
  return known;
}

void History::join(int agent, const Clock& clock) { join_into(clocks_[static_cast<std::size_t>(agent)], clock); }

void join_into(Clock& target, const Clock& other) {
  std::uint32_t* into = target.data();
  const std::uint32_t* from = other.data();
  const std::size_t count = target.size();
  for (std::size_t i = 0; i < count; ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace syncopate::host
