#include "syncopate/verify/hazards.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "syncopate/verify/claim.h"
#include "syncopate/verify/describe.h"

namespace syncopate {

namespace {

Event transfer_event(const PlanIndex& index, int transfer) {
  return {Event::Kind::transfer, index.place(transfer).rank, transfer};
}

/// The event that fills a part of a buffer on `rank`.
Event filling_event(const PlanIndex& index, int rank, const Source& source) {
  if (source.transfer < 0) return {Event::Kind::start, rank, 0};
  return transfer_event(index, source.transfer);
}

std::string raises_of(const PlanIndex& index, const Event& event) {
  if (event.kind == Event::Kind::transfer && index.transfer(event.transfer).signals.empty()) return "raises no signal";
  std::string text;
  const std::vector<int>* raised = nullptr;
  if (event.kind == Event::Kind::transfer) raised = &index.transfer(event.transfer).signals;
  if (event.kind == Event::Kind::start) raised = &index.program(event.rank).start_signals;
  if (event.kind == Event::Kind::completion) raised = &index.program(event.rank).completion_signals;
  for (const int signal : *raised) text += fmt::format("{}'{}'", text.empty() ? "" : ", ", index.signal(signal).name);
  return text.empty() ? "raises no signal" : "raises " + text;
}

// Reads.

class ReadCheck {
 public:
  ReadCheck(const PlanIndex& index, const Order& order) : index_(index), order_(order), plan_(index.plan()) {}

  Theorem run() {
    for (int t = 0; t < index_.transfers(); ++t) check_transfer(t);
    for (int rank = 0; rank < plan_.ranks; ++rank) check_tiles(rank);
    const Order::WaitCount waits = order_.count_waits();
    return claim_.conclude(
        fmt::format("{} parts of tile reads and {} of transfer sources are there in time; {} waits, "
                    "{} of them redundant",
                    tile_parts_, transfer_parts_, waits.all, waits.redundant));
  }

 private:
  void check_transfer(int t) {
    const View& view = index_.transfer(t).source;
    const Moment reads{transfer_event(index_, t), 1};
    for (const Source& source : sources_of(index_, view.rank, view.buffer, view.region)) {
      ++transfer_parts_;
      const Event filled = filling_event(index_, view.rank, source);
      claim_.check(order_.before({filled, 1}, reads), [&] {
        return fmt::format(
            "{} may send {} before it is there. Order of events: 1. it has waited for {}; 2. it reads {} on rank {}; "
            "3. only then comes {}, which puts it there and {}",
            describe_transfer(index_, t), describe_region(plan_, view.buffer, source.region),
            describe_waits(plan_, index_.transfer(t).waits), describe_region(plan_, view.buffer, source.region),
            view.rank, describe_event(index_, filled), raises_of(index_, filled));
      });
    }
  }

  void check_tiles(int rank) {
    std::vector<std::vector<Source>> sources;
    for (const TileAccess& read : index_.reads()) sources.push_back(sources_of(index_, rank, read.buffer, read.region));
    const std::vector<Slot>& slots = index_.program(rank).slots;
    const auto workers = static_cast<std::size_t>(plan_.workers);
    const auto start = order_.clock_of({{Event::Kind::start, rank, 0}, 1});
    for (std::size_t worker = 0; worker < std::min(workers, slots.size()); ++worker) {
      Order::Clock clock(start.begin(), start.end());
      for (std::size_t s = worker; s < slots.size(); s += workers) {
        for (const Wait& wait : slots[s].waits) order_.learn(clock, wait, 1);
        for (const int read : index_.reads_of(slots[s].tile))
          for (const Source& source : sources[static_cast<std::size_t>(read)])
            check_tile(rank, s, index_.reads()[static_cast<std::size_t>(read)], source, clock);
      }
    }
  }

  void check_tile(int rank, std::size_t slot, const TileAccess& read, const Source& source, const Order::Clock& clock) {
    ++tile_parts_;
    const Event filled = filling_event(index_, rank, source);
    claim_.check(order_.known(clock, {filled, 1}), [&] {
      const auto number = static_cast<int>(slot);
      return fmt::format(
          "{} on rank {} ({}) may read {} before it is there. Order of events: 1. rank {} starts the launch; 2. the "
          "worker, which has waited for {}, runs the tile, which reads {}; 3. only then comes {}, which brings {} and "
          "{}",
          describe_tile(plan_, index_.program(rank).slots[slot].tile), rank, describe_slot(plan_, number),
          describe_region(plan_, read.buffer, source.region), rank, describe_waits(plan_, waits_until(rank, slot)),
          describe_region(plan_, read.buffer, read.region), describe_event(index_, filled),
          describe_region(plan_, read.buffer, source.region), raises_of(index_, filled));
    });
  }

  /// All that the worker of `slot` has waited for, up to and including the slot.
  std::vector<Wait> waits_until(int rank, std::size_t slot) const {
    const std::vector<Slot>& slots = index_.program(rank).slots;
    const auto workers = static_cast<std::size_t>(plan_.workers);
    std::vector<Wait> waits;
    for (std::size_t s = slot % workers; s <= slot; s += workers)
      waits.insert(waits.end(), slots[s].waits.begin(), slots[s].waits.end());
    return waits;
  }

  const PlanIndex& index_;
  const Order& order_;
  const Plan& plan_;
  std::int64_t tile_parts_ = 0;
  std::int64_t transfer_parts_ = 0;
  Claim claim_{"no read before its data",
               "what a tile or a transfer reads has been put there by the caller or brought by a transfer, in the same "
               "launch, before the read begins."};
};

// Overwrites.

class OverwriteCheck {
 public:
  OverwriteCheck(const PlanIndex& index, const Order& order) : index_(index), order_(order), plan_(index.plan()) {}

  Theorem run() {
    for (int t = 0; t < index_.transfers(); ++t) {
      check_tiles_read_before(t);
      check_transfers_read_before(t);
    }
    for (int rank = 0; rank < plan_.ranks; ++rank) check_completion(rank);
    return claim_.conclude(fmt::format(
        "{} transfers overwrite nothing that {} readers of the launch before may still read; {} transfers have ended "
        "when the ranks whose buffers they use complete a launch",
        index_.transfers(), readers_, touching_));
  }

 private:
  /// The destination of t in launch e + 1 against the tiles that read it in launch e.
  void check_tiles_read_before(int t) {
    const View& view = index_.transfer(t).destination;
    const auto& reads = index_.reads();
    const auto overlaps = [&](const TileAccess& read) {
      return read.buffer == view.buffer && read.region.overlaps(view.region);
    };
    const auto read = std::find_if(reads.begin(), reads.end(), overlaps);
    if (read == reads.end()) return;
    ++readers_;
    const Event completion{Event::Kind::completion, view.rank, 0};
    claim_.check(order_.before({completion, 0}, {transfer_event(index_, t), 1}), [&] {
      const auto& slots = index_.program(view.rank).slots;
      const int number = static_cast<int>(read - reads.begin());
      std::size_t slot = slots.size() - 1;  // the last reader is the likeliest victim
      const auto reads_it = [&](int tile) {
        const std::vector<int>& ids = index_.reads_of(tile);
        return std::find(ids.begin(), ids.end(), number) != ids.end();
      };
      while (!reads_it(slots[slot].tile)) --slot;
      return fmt::format(
          "{} may overwrite {} while rank {} still reads it. Order of events: 1. {} on rank {} ({}) begins in launch "
          "e; "
          "2. the transfer, which has waited for {}, writes its data of launch e + 1; 3. the tile reads {}",
          describe_transfer(index_, t), describe_region(plan_, view.buffer, intersect(read->region, view.region)),
          view.rank, describe_tile(plan_, slots[slot].tile), view.rank, describe_slot(plan_, static_cast<int>(slot)),
          describe_waits(plan_, waits_until(t)), describe_region(plan_, view.buffer, read->region));
    });
  }

  /// The destination of t in launch e + 1 against the transfers that send from there in launch e.
  void check_transfers_read_before(int t) {
    const View& view = index_.transfer(t).destination;
    for (const int reader : index_.from(view.rank)) {
      const View& source = index_.transfer(reader).source;
      if (source.buffer != view.buffer || !source.region.overlaps(view.region)) continue;
      ++readers_;
      claim_.check(order_.before({transfer_event(index_, reader), 0}, {transfer_event(index_, t), 1}), [&] {
        return fmt::format(
            "{} may overwrite {} while {} still sends it. Order of events: 1. the latter begins in launch e; 2. the "
            "former, which has waited for {}, writes its data of launch e + 1; 3. the latter reads it",
            describe_transfer(index_, t), describe_region(plan_, view.buffer, intersect(source.region, view.region)),
            describe_transfer(index_, reader), describe_waits(plan_, waits_until(t)));
      });
    }
  }

  /// Nothing still uses the buffers of a rank when its launch is complete.
  void check_completion(int rank) {
    const Event completion{Event::Kind::completion, rank, 0};
    const auto check = [&](int t, const View& view, std::string_view use, std::string_view harm) {
      ++touching_;
      claim_.check(order_.before({transfer_event(index_, t), 0}, {completion, 0}), [&] {
        return fmt::format(
            "rank {} may complete a launch while {} still {} {} there. Order of events: 1. rank {} has waited for {} "
            "and "
            "completes launch e; 2. {}; 3. only then the transfer of launch e, which {}, ends",
            rank, describe_transfer(index_, t), use, describe_region(plan_, view.buffer, view.region), rank,
            describe_waits(plan_, index_.program(rank).completion_waits), harm,
            raises_of(index_, transfer_event(index_, t)));
      });
    };
    for (const int t : index_.from(rank)) {
      const View& view = index_.transfer(t).source;
      const Region& held = plan_.buffer(view.buffer).held[static_cast<std::size_t>(rank)];
      check(t, view, "reads",
            held.overlaps(view.region) ? "its caller puts the inputs of launch e + 1 in place"
                                       : "its caller frees the buffer");
    }
    for (const int t : index_.into(rank))
      check(t, index_.transfer(t).destination, "writes", "its caller frees the buffer");
  }

  /// All that the queue of t has waited for, up to and including t.
  std::vector<Wait> waits_until(int t) const {
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
  std::int64_t readers_ = 0;
  std::int64_t touching_ = 0;
  Claim claim_{
      "no overwrite of live data",
      "what is read in a launch is overwritten in the next one, by a transfer or by the caller, only after the "
      "read has ended; a launch that is complete on a rank leaves nothing running in its buffers."};
};

}  // namespace

Theorem prove_no_early_read(const PlanIndex& index, const Order& order) { return ReadCheck(index, order).run(); }

Theorem prove_no_overwrite(const PlanIndex& index, const Order& order) { return OverwriteCheck(index, order).run(); }

}  // namespace syncopate
