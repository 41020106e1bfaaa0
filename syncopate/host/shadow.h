// Beside the bytes of a buffer, who touched them last: for every element the event that wrote it, and for every
// event the runs it read. An access that is not ordered with its conflicting partner is found whatever the
// interleaving made of it. The idea is FastTrack's (Flanagan, Freund, 2009), with launches added: an element counts as
// filled only by a write of the reader's own launch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "syncopate/host/history.h"
#include "syncopate/kernel/concrete.h"

namespace syncopate::host {

/// What is wrong with an access.
enum class ConflictKind : std::uint8_t {
  outside,          ///< not in the buffer
  not_filled,       ///< read: nothing has written it in this launch (`partner`: the older write, or 0)
  overwritten,      ///< read: a later launch has written it already
  unordered_write,  ///< read or write: the last write is not ordered before it
  unordered_read,   ///< write: an earlier read is not ordered before it
  second_write,     ///< write: written in this launch already
  other_part,       ///< read: of a folded buffer another part stands there
};

struct Conflict {
  ConflictKind kind = ConflictKind::outside;
  Run run;              ///< elements concerned, within one run of the access
  EventId partner = 0;  ///< the other side
};

/// A set of elements as runs, built by appending.
class RunSet {
 public:
  void add(Run run);
  /// A part of `run` that is in the set.
  std::optional<Run> overlap(Run run);
  /// The runs, ascending, apart from each other.
  const std::vector<Run>& runs();

 private:
  void compact();
  std::vector<Run> runs_;
  std::size_t compacted_ = 0;  ///< leading runs that are in order
};

/// Who may write again, in the same launch, what has been written: each after the one before and its readers. A set.
enum class Rewrite : std::uint8_t {
  nobody = 0,
  transfers = 1,   ///< a transfer, where a transfer has written
  over_tiles = 2,  ///< a transfer, where a tile has written
  adding = 4,      ///< a tile that has read it, where a transfer has written; but once
};
constexpr Rewrite operator|(Rewrite a, Rewrite b) {
  return static_cast<Rewrite>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr bool allows(Rewrite set, Rewrite one) {
  return (static_cast<std::uint8_t>(set) & static_cast<std::uint8_t>(one)) != 0;
}

/// The shadow of one buffer on one rank.
class Shadow {
 public:
  explicit Shadow(std::int64_t elements, Rewrite rewrite = Rewrite::nobody)
      : last_write_(static_cast<std::size_t>(elements), 0), rewrite_(rewrite) {}

  /// Checks an access and, if nothing is wrong, remembers it. The first conflict ends the check.
  std::optional<Conflict> read(const History& history, EventId event, std::span<const Run> runs);
  std::optional<Conflict> write(const History& history, EventId event, std::span<const Run> runs);

  /// The first part of the runs of whose last writer `is_meant` says no, if any.
  std::optional<Conflict> find_other(std::span<const Run> runs, const std::function<bool(EventId)>& is_meant) const;

  /// Whether `agent`, who completes `launch` on this rank, knows of every access of that launch and those before it;
  /// if not, the first access that may still be under way.
  std::optional<Conflict> complete(const History& history, int agent, std::int64_t launch);

  /// Forgets reads that everybody who may still write knows of: `known[agent]` is the clock of `agent` that all know.
  void forget(const History& history, const Clock& known);

 private:
  bool inside(const Run& run) const;
  /// Whether the event adds to the run: it has read it.
  bool adds(EventId event, const Run& run);
  std::vector<EventId> last_write_;
  Rewrite rewrite_;
  std::map<EventId, RunSet> reads_;
};

}  // namespace syncopate::host
