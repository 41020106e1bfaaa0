#include "syncopate/verify/folds.h"

#include <fmt/format.h>

#include <algorithm>

#include "syncopate/verify/describe.h"

namespace syncopate {

namespace {

class FoldCheck {
 public:
  FoldCheck(const PlanIndex& index, const Order& order, Claim& claim)
      : index_(index), order_(order), plan_(index.plan()), claim_(claim) {}

  std::int64_t run() {
    for (int rank = 0; rank < plan_.ranks; ++rank)
      for (int buffer = 0; buffer < static_cast<int>(plan_.buffers.size()); ++buffer)
        if (plan_.buffer(buffer).fold) check(rank, buffer);
    return pairs_;
  }

 private:
  Event event_of(int transfer) const { return {Event::Kind::transfer, index_.place(transfer).rank, transfer}; }
  const Region& filled_by(int transfer) const { return index_.transfer(transfer).destination.region; }

  void check(int rank, int buffer) {
    fills_.clear();
    for (const int t : index_.into(rank))
      if (index_.transfer(t).destination.buffer == buffer) fills_.push_back(t);
    check_fills(rank, buffer);
    for (const int reader : index_.from(rank)) {
      const View& source = index_.transfer(reader).source;
      if (source.buffer == buffer) check_reader(rank, buffer, source.region, {event_of(reader)});
    }
    for (std::size_t r = 0; r < index_.reads().size(); ++r) {
      const TileAccess& read = index_.reads()[r];
      if (read.buffer == buffer) check_reader(rank, buffer, read.region, last_readers(rank, static_cast<int>(r)));
    }
  }

  /// Transfers to one place follow each other: which comes first is the same in every run and every launch.
  void check_fills(int rank, int buffer) {
    for (std::size_t i = 0; i < fills_.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const int one = fills_[i];
        const int other = fills_[j];
        if (!share_memory(plan_.buffer(buffer), filled_by(one), filled_by(other))) continue;
        ++pairs_;
        const auto before = [&](int a, int launch_of_a, int b, int launch_of_b) {
          return order_.before({event_of(a), launch_of_a}, {event_of(b), launch_of_b});
        };
        const bool in_launch = before(one, 1, other, 1) || before(other, 1, one, 1);
        claim_.check(in_launch && before(one, 0, other, 1) && before(other, 0, one, 1), [&] {
          return fmt::format(
              "{} and {} bring different parts of {} to the same place of rank {}'s memory, and nothing says which "
              "comes first{}. Order of events: 1. the former begins; 2. the latter, which has waited for {}, begins, "
              "too",
              describe_transfer(index_, one), describe_transfer(index_, other), plan_.buffer(buffer).name, rank,
              in_launch ? ", from one launch to the next" : "", describe_waits(plan_, waits_of(other)));
        });
      }
  }

  /// Of each worker the last slot whose tile has this read: the others come before it.
  std::vector<Event> last_readers(int rank, int read) const {
    std::vector<Event> readers;
    const auto slots = static_cast<int>(index_.program(rank).slots.size());
    for (int worker = 0; worker < index_.workers_of(rank); ++worker)
      for (int slot = (slots - 1 - worker) / plan_.workers * plan_.workers + worker; slot >= 0; slot -= plan_.workers)
        if (index_.is_read_by(read, index_.slot(rank, slot).tile)) {
          readers.push_back({Event::Kind::slot, rank, slot});
          break;
        }
    return readers;
  }

  /// Readers of one box against what comes to its place besides what they read.
  void check_reader(int rank, int buffer, const Region& region, const std::vector<Event>& readers) {
    const Buffer& about = plan_.buffer(buffer);
    for (const int t : fills_) {
      if (filled_by(t).overlaps(region) || !share_memory(about, filled_by(t), region)) continue;
      ++pairs_;
      if (is_replaced(t, about, region)) continue;
      for (const Event& reader : readers)
        claim_.check(order_.before({reader, 1}, {event_of(t), 1}), [&] {
          return fmt::format(
              "{} may overwrite {}, which lies in the same place of rank {}'s memory, while {} still reads it. Order "
              "of events: 1. the latter begins; 2. the transfer, which has waited for {}, writes its data; 3. the "
              "former part is read",
              describe_transfer(index_, t), describe_region(plan_, buffer, region), rank,
              describe_event(index_, reader), describe_waits(plan_, waits_of(t)));
        });
    }
  }

  /// Whether what t brings has made room, in every run, for whatever of the box would lie in its place.
  bool is_replaced(int t, const Buffer& about, const Region& region) const {
    bool any = false;
    for (const int u : fills_) {
      if (!filled_by(u).overlaps(region) || !share_memory(about, filled_by(u), filled_by(t))) continue;
      if (!order_.before({event_of(t), 1}, {event_of(u), 1})) return false;
      any = true;
    }
    return any;
  }

  /// All that the queue of t has waited for, up to and including t.
  std::vector<Wait> waits_of(int t) const {
    std::vector<Wait> waits;
    const std::vector<Transfer>& transfers = index_.queue_of(t).transfers;
    for (int p = 0; p <= index_.place(t).position; ++p) {
      const std::vector<Wait>& own = transfers[static_cast<std::size_t>(p)].waits;
      waits.insert(waits.end(), own.begin(), own.end());
    }
    return waits;
  }

  const PlanIndex& index_;
  const Order& order_;
  const Plan& plan_;
  Claim& claim_;
  std::vector<int> fills_;  ///< of the buffer that is looked at
  std::int64_t pairs_ = 0;
};

}  // namespace

std::int64_t check_folds(const PlanIndex& index, const Order& order, Claim& claim) {
  return FoldCheck(index, order, claim).run();
}

}  // namespace syncopate
