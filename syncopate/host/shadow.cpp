#include "syncopate/host/shadow.h"

#include <algorithm>

namespace syncopate::host {
namespace {

bool starts_before(const Run& a, const Run& b) { return a.offset < b.offset; }

/// Number of leading elements that equal the first one. Blocks keep the inner loop vectorisable.
std::int64_t equal_prefix(const EventId* ids, std::int64_t count) {
  constexpr std::int64_t kBlock = 32;
  const EventId first = ids[0];
  std::int64_t done = 0;
  while (count - done >= kBlock) {
    EventId difference = 0;
    for (std::int64_t i = 0; i < kBlock; ++i) difference |= ids[done + i] ^ first;
    if (difference != 0) break;
    done += kBlock;
  }
  while (done < count && ids[done] == first) ++done;
  return done;
}

/// Calls `check(id, run)` for the maximal parts of `run` that one event wrote, until it reports a conflict.
template <typename Check>
std::optional<Conflict> for_each_writer(const std::vector<EventId>& ids, const Run& run, Check&& check) {
  std::int64_t at = run.offset;
  const std::int64_t end = run.offset + run.count;
  while (at < end) {
    const EventId* first = ids.data() + at;
    const Run part{at, equal_prefix(first, end - at)};
    if (std::optional<Conflict> conflict = check(*first, part)) return conflict;
    at += part.count;
  }
  return std::nullopt;
}

std::optional<Conflict> check_read(const History& history, EventId reader_id, EventId writer_id, const Run& run) {
  if (writer_id == reader_id) return std::nullopt;
  if (writer_id == 0) return Conflict{ConflictKind::not_filled, run, 0};
  const Event& reader = history.event(reader_id);
  const Event& writer = history.event(writer_id);
  if (writer.launch < reader.launch) return Conflict{ConflictKind::not_filled, run, writer_id};
  if (writer.launch > reader.launch) return Conflict{ConflictKind::overwritten, run, writer_id};
  if (!history.knows(reader.agent, writer_id)) return Conflict{ConflictKind::unordered_write, run, writer_id};
  return std::nullopt;
}

/// Whether two events belong to the same tile (or transfer): a tile that raises signals has several events.
bool same_work(const Event& a, const Event& b) {
  return a.agent == b.agent && a.launch == b.launch && a.kind == b.kind && a.index == b.index;
}

/// `adds`: to what the writer has read.
std::optional<Conflict> check_write(const History& history, EventId writer_id, EventId before_id, Rewrite rewrite,
                                    bool adds, const Run& run) {
  if (before_id == writer_id && adds) return Conflict{ConflictKind::second_write, run, before_id};
  if (before_id == 0 || before_id == writer_id) return std::nullopt;
  const Event& writer = history.event(writer_id);
  const Event& before = history.event(before_id);
  if (same_work(writer, before)) return std::nullopt;
  // A kernel may update what its caller put there, and transfers may reuse room where that is said; nobody else may
  // write again.
  const bool update = before.kind == EventKind::inputs && writer.kind == EventKind::tile;
  const bool reuse = writer.kind == EventKind::transfer &&
                     ((before.kind == EventKind::transfer && allows(rewrite, Rewrite::transfers)) ||
                      (before.kind == EventKind::tile && allows(rewrite, Rewrite::over_tiles)));
  const bool addition = adds && before.kind == EventKind::transfer && writer.kind == EventKind::tile;
  if (before.launch == writer.launch && !update && !reuse && !addition)
    return Conflict{ConflictKind::second_write, run, before_id};
  if (!history.knows(writer.agent, before_id)) return Conflict{ConflictKind::unordered_write, run, before_id};
  return std::nullopt;
}

}  // namespace

void RunSet::add(Run run) {
  if (!runs_.empty()) {
    Run& last = runs_.back();
    if (run.offset >= last.offset && run.offset <= last.offset + last.count) {
      last.count = std::max(last.count, run.offset + run.count - last.offset);
      return;
    }
  }
  runs_.push_back(run);
  if (runs_.size() > 2 * compacted_ + 512) compact();
}

void RunSet::compact() {
  // Appending may have widened the last ordered run over nothing (it is the last), so only the tail needs sorting.
  const auto middle = runs_.begin() + static_cast<std::ptrdiff_t>(std::min(compacted_, runs_.size()));
  std::sort(middle, runs_.end(), starts_before);
  std::inplace_merge(runs_.begin(), middle, runs_.end(), starts_before);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < runs_.size(); ++i) {
    Run& last = runs_[kept];
    if (runs_[i].offset <= last.offset + last.count) {
      last.count = std::max(last.count, runs_[i].offset + runs_[i].count - last.offset);
    } else {
      runs_[++kept] = runs_[i];
    }
  }
  if (!runs_.empty()) runs_.resize(kept + 1);
  compacted_ = runs_.size();
}

const std::vector<Run>& RunSet::runs() {
  if (compacted_ != runs_.size()) compact();
  return runs_;
}

std::optional<Run> RunSet::overlap(Run run) {
  if (run.count <= 0) return std::nullopt;
  const std::vector<Run>& all = runs();
  auto after = std::upper_bound(all.begin(), all.end(), run, starts_before);
  if (after != all.begin() && std::prev(after)->offset + std::prev(after)->count > run.offset) --after;
  if (after == all.end() || after->offset >= run.offset + run.count) return std::nullopt;
  const std::int64_t begin = std::max(run.offset, after->offset);
  return Run{begin, std::min(run.offset + run.count, after->offset + after->count) - begin};
}

bool Shadow::inside(const Run& run) const {
  const auto elements = static_cast<std::int64_t>(last_write_.size());
  return run.offset >= 0 && run.count >= 0 && run.offset <= elements && run.count <= elements - run.offset;
}

std::optional<Conflict> Shadow::read(const History& history, EventId event, std::span<const Run> runs) {
  for (const Run& run : runs) {
    if (!inside(run)) return Conflict{ConflictKind::outside, run, 0};
    if (auto conflict = for_each_writer(last_write_, run, [&](EventId writer, const Run& part) {
          return check_read(history, event, writer, part);
        }))
      return conflict;
  }
  const auto has_elements = [](const Run& run) { return run.count > 0; };
  if (std::none_of(runs.begin(), runs.end(), has_elements)) return std::nullopt;
  RunSet& mine = reads_[event];
  for (const Run& run : runs)
    if (has_elements(run)) mine.add(run);
  return std::nullopt;
}

std::optional<Conflict> Shadow::find_other(std::span<const Run> runs,
                                           const std::function<bool(EventId)>& is_meant) const {
  for (const Run& run : runs)
    if (auto conflict =
            for_each_writer(last_write_, run, [&](EventId writer, const Run& part) -> std::optional<Conflict> {
              if (is_meant(writer)) return std::nullopt;
              return Conflict{ConflictKind::other_part, part, writer};
            }))
      return conflict;
  return std::nullopt;
}

bool Shadow::adds(EventId event, const Run& run) {
  if (!allows(rewrite_, Rewrite::adding)) return false;
  const auto mine = reads_.find(event);
  if (mine == reads_.end()) return false;
  const std::optional<Run> read = mine->second.overlap(run);
  return read && read->count == run.count;
}

std::optional<Conflict> Shadow::write(const History& history, EventId event, std::span<const Run> runs) {
  const int agent = history.event(event).agent;
  for (const Run& run : runs) {
    if (!inside(run)) return Conflict{ConflictKind::outside, run, 0};
    if (auto conflict = for_each_writer(last_write_, run, [&](EventId before, const Run& part) {
          return check_write(history, event, before, rewrite_, adds(event, part), part);
        }))
      return conflict;
  }
  for (auto& [reader, read] : reads_) {
    if (history.knows(agent, reader)) continue;
    for (const Run& run : runs)
      if (const std::optional<Run> common = read.overlap(run))
        return Conflict{ConflictKind::unordered_read, *common, reader};
  }
  for (const Run& run : runs) std::fill_n(last_write_.begin() + run.offset, run.count, event);
  return std::nullopt;
}

std::optional<Conflict> Shadow::complete(const History& history, int agent, std::int64_t launch) {
  const auto may_be_under_way = [&](EventId id) {
    return id != 0 && history.event(id).launch <= launch && !history.knows(agent, id);
  };
  for (auto& [reader, read] : reads_)
    if (may_be_under_way(reader)) return Conflict{ConflictKind::unordered_read, read.runs().front(), reader};
  const Run whole{0, static_cast<std::int64_t>(last_write_.size())};
  return for_each_writer(last_write_, whole, [&](EventId writer, const Run& part) -> std::optional<Conflict> {
    if (may_be_under_way(writer)) return Conflict{ConflictKind::unordered_write, part, writer};
    return std::nullopt;
  });
}

void Shadow::forget(const History& history, const Clock& known) {
  std::erase_if(reads_, [&](const auto& entry) {
    const Event& event = history.event(entry.first);
    return event.clock <= known[static_cast<std::size_t>(event.agent)];
  });
}

}  // namespace syncopate::host
