// What every agent knows to have happened: vector clocks. An agent's clock counts its own releases (signals raised,
// agents started, work handed back); what it did before a release is known to whoever joins that release.
#pragma once

#include <cstdint>
#include <vector>

namespace syncopate::host {

using Clock = std::vector<std::uint32_t>;

/// Everything an agent reads or writes in one breath: the inputs of one launch, one tile, one transfer.
enum class EventKind : std::uint8_t { inputs, outputs, tile, transfer };

struct Event {
  int agent = 0;
  std::uint32_t clock = 0;
  std::int64_t launch = 0;
  EventKind kind = EventKind::inputs;
  std::int64_t index = 0;  ///< the slot of a tile (-1: outside of any), or the place of a transfer in its queue
};

/// Index of an event; 0 is "nothing happened".
using EventId = std::uint32_t;

class History {
 public:
  /// `agents` know something from the start; of `actors`, those and others, the others only once they have begun anew.
  explicit History(int agents, int actors = 0);

  /// From now on `agent` knows what `known` does, and no more.
  void begin_anew(int agent, const Clock& known);
  /// What `agent` knows, for others to join; it does no more before it begins anew.
  Clock end(int agent);

  /// Starts an event of `agent`. It stays valid until the agent's next release.
  EventId begin(int agent, std::int64_t launch, EventKind kind, std::int64_t index = 0);
  const Event& event(EventId id) const { return events_[id]; }

  /// What `agent` knows now, for others to join; whatever it does later is not part of it.
  Clock release(int agent);
  /// `agent` learns all that `clock` knows.
  void join(int agent, const Clock& clock);
  const Clock& clock(int agent) const { return clocks_[static_cast<std::size_t>(agent)]; }

  bool knows(int agent, int other, std::uint32_t clock) const {
    return clocks_[static_cast<std::size_t>(agent)][static_cast<std::size_t>(other)] >= clock;
  }
  /// Whether the event is ordered before what `agent` does now.
  bool knows(int agent, EventId id) const { return knows(agent, events_[id].agent, events_[id].clock); }

 private:
  std::vector<Clock> clocks_;
  std::vector<Event> events_;
};

/// Elementwise maximum, into `target`.
void join_into(Clock& target, const Clock& other);

}  // namespace syncopate::host
