#include "syncopate/verify/hazards.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "syncopate/verify/additions.h"
#include "syncopate/verify/claim.h"
#include "syncopate/verify/describe.h"
#include "syncopate/verify/folds.h"

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

std::string names_of(const PlanIndex& index, const std::vector<int>& signals) {
  std::string text;
  for (const int signal : signals) text += fmt::format("{}'{}'", text.empty() ? "" : ", ", index.signal(signal).name);
  return text;
}

/// What a slot that raises nothing leaves to a later slot of its worker; "" if none raises anything.
std::string left_to_later_slot(const PlanIndex& index, const Event& slot) {
  const auto slots = static_cast<int>(index.program(slot.rank).slots.size());
  for (int later = slot.number + index.stride(); later < slots; later += index.stride()) {
    const std::vector<int>& signals = index.slot(slot.rank, later).signals;
    if (signals.empty()) continue;
    return fmt::format("leaves it to {} to raise {}", describe_event(index, {Event::Kind::slot, slot.rank, later}),
                       names_of(index, signals));
  }
  return "";
}

std::string raises_of(const PlanIndex& index, const Event& event) {
  const std::vector<int>* raised = nullptr;
  if (event.kind == Event::Kind::transfer) raised = &index.transfer(event.number).signals;
  if (event.kind == Event::Kind::start) raised = &index.program(event.rank).start_signals;
  if (event.kind == Event::Kind::slot) raised = &index.slot(event.rank, event.number).signals;
  if (event.kind == Event::Kind::completion) raised = &index.program(event.rank).completion_signals;
  if (!raised->empty()) return "raises " + names_of(index, *raised);
  const std::string left = event.kind == Event::Kind::slot ? left_to_later_slot(index, event) : "";
  return left.empty() ? "raises no signal" : left;
}

// Reads.

class ReadCheck {
 public:
  ReadCheck(const PlanIndex& index, const Order& order, const Summands* summands)
      : index_(index), order_(order), plan_(index.plan()), summands_(summands), stores_(index) {}

  Theorem run() {
    for (int t = 0; t < index_.transfers(); ++t) {
      check_transfer(t);
      if (stores_.leaves(index_.transfer(t).source.buffer)) check_stored(t);
    }
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      check_tiles(rank);
      if (summands_ == nullptr) continue;
      for (const Reading& reading : summands_->readings(rank)) check_added(rank, reading);
    }
    const std::int64_t summands = check_additions_read(index_, order_, stores_, claim_);
    const Order::WaitCount waits = order_.count_waits();
    std::string evidence = fmt::format("{} parts of tile reads and {} of transfer sources are there in time",
                                       tile_parts_, transfer_parts_);
    if (summands_ != nullptr) evidence += fmt::format(", and so are {} boxes of summands", added_);
    if (summands > 0) evidence += fmt::format(", and so are {} parts of summands that are added up", summands);
    return claim_.conclude(fmt::format("{}; {} waits, {} of them redundant", evidence, waits.all, waits.redundant));
  }

 private:
  void check_transfer(int t) {
    const View& view = index_.transfer(t).source;
    const Moment reads{transfer_event(index_, t), 1};
    // In the reduced buffer a sum may also arrive after a summand has been sent: that is a matter of overwriting.
    if (view.buffer == index_.reduced()) return;
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

  /// What a transfer sends of what tiles make has been stored.
  void check_stored(int t) {
    const View& view = index_.transfer(t).source;
    stores_.of(view.rank, view.buffer).for_each_in(view.region, [&](int slot, const Region& part) {
      ++transfer_parts_;
      const Event stored{Event::Kind::slot, view.rank, slot};
      claim_.check(order_.before({stored, 1}, {transfer_event(index_, t), 1}), [&] {
        return fmt::format(
            "{} may send {} before it is there. Order of events: 1. it has waited for {}; 2. it reads {} on rank {}; "
            "3. only then {} stores it and {}",
            describe_transfer(index_, t), describe_region(plan_, view.buffer, part),
            describe_waits(plan_, index_.transfer(t).waits), describe_region(plan_, view.buffer, part), view.rank,
            describe_event(index_, stored), raises_of(index_, stored));
      });
    });
  }

  /// What a slot adds has come before. Transfers that may overwrite it are no concern of this theorem.
  void check_added(int rank, const Reading& reading) {
    ++added_;
    std::vector<Region> there;
    for (const Arrival& arrival : reading.arrivals)
      if (arrival.when == Arrival::When::before) there.push_back(arrival.part);
    if (there.size() == 1 && reading.arrivals.size() == 1) return;
    const std::vector<Region> missing = uncovered(reading.source, there);
    for (const Arrival& arrival : reading.arrivals) {
      const bool is_missed = std::any_of(missing.begin(), missing.end(),
                                         [&](const Region& region) { return region.overlaps(arrival.part); });
      const bool is_early = arrival.when == Arrival::When::after       ? is_missed
                            : arrival.when == Arrival::When::unordered ? Summands::is_meant(reading, arrival)
                                                                       : false;
      claim_.check(!is_early, [&] {
        const Event moved = transfer_event(index_, arrival.transfer);
        return fmt::format(
            "{} may add {} to {} before it is there. Order of events: 1. rank {} starts the launch; 2. the worker, "
            "which "
            "has waited for {}, adds what it finds; 3. only then comes {}, which brings the summands and {}",
            describe_event(index_, {Event::Kind::slot, rank, reading.slot}),
            describe_region(plan_, index_.landing(), arrival.part),
            describe_region(plan_, index_.reduced(), Summands::added_to(reading, arrival.part)), rank,
            describe_waits(plan_, waits_until(rank, static_cast<std::size_t>(reading.slot), 0, true)),
            describe_event(index_, moved), raises_of(index_, moved));
      });
    }
  }

  void check_tiles(int rank) {
    std::vector<std::vector<Source>> sources(index_.reads().size());
    for (const int read : index_.reads_on(rank)) {
      const TileAccess& access = index_.reads()[static_cast<std::size_t>(read)];
      sources[static_cast<std::size_t>(read)] = sources_of(index_, rank, access.buffer, access.region);
    }
    const auto check = [&](const std::vector<int>& reads, int slot, std::size_t steps, const Order::Clock& clock) {
      for (const int read : reads)
        for (const Source& source : sources[static_cast<std::size_t>(read)])
          check_tile(rank, static_cast<std::size_t>(slot), steps, index_.reads()[static_cast<std::size_t>(read)],
                     source, clock);
    };
    const auto at_reads = [&](int slot, const Order::Clock& clock) {
      check(index_.reads_of(index_.slot(rank, slot).tile), slot, 0, clock);
    };
    const auto at_step = [&](int number, std::size_t step, const Order::Clock& clock) {
      const Slot& slot = index_.slot(rank, number);
      check(index_.reads_of_piece(slot.tile, slot.steps[step].piece), number, step + 1, clock);
    };
    for (int worker = 0; worker < index_.workers_of(rank); ++worker)
      order_.walk_worker(rank, worker, 1, at_reads, at_step, [](int, const Order::Clock&) {});
  }

  /// What a tile reads once it has come to `steps` of its steps.
  void check_tile(int rank, std::size_t slot, std::size_t steps, const TileAccess& read, const Source& source,
                  const Order::Clock& clock) {
    ++tile_parts_;
    const Event filled = filling_event(index_, rank, source);
    claim_.check(order_.known(clock, {filled, 1}), [&] {
      const auto number = static_cast<int>(slot);
      return fmt::format(
          "{} on rank {} ({}) may read {} before it is there. Order of events: 1. rank {} starts the launch; 2. the "
          "worker, which has waited for {}, {}, which reads {}; 3. only then comes {}, which brings {} and {}",
          describe_tile(plan_, index_.program(rank).slots[slot].tile), rank, describe_slot(plan_, number),
          describe_region(plan_, read.buffer, source.region), rank,
          describe_waits(plan_, waits_until(rank, slot, steps, false)),
          steps == 0 ? "runs the tile" : describe_step(plan_, index_.slot(rank, number), steps - 1),
          describe_region(plan_, read.buffer, read.region), describe_event(index_, filled),
          describe_region(plan_, read.buffer, source.region), raises_of(index_, filled));
    });
  }

  /// All that the worker of `slot` has waited for, up to and including the slot, until it has come to so many of its
  /// steps, or until it adds.
  std::vector<Wait> waits_until(int rank, std::size_t slot, std::size_t steps, bool adds) const {
    const std::vector<Slot>& slots = index_.program(rank).slots;
    const auto stride = static_cast<std::size_t>(index_.stride());
    std::vector<Wait> waits;
    for (std::size_t s = slot % stride; s <= slot; s += stride) {
      std::size_t lists = s < slot || adds ? slots[s].steps.size() + 2 : steps + 1;
      for_each_waits_of(slots[s], [&](const std::vector<Wait>& list) {
        if (lists == 0) return;
        --lists;
        waits.insert(waits.end(), list.begin(), list.end());
      });
    }
    return waits;
  }

  const PlanIndex& index_;
  const Order& order_;
  const Plan& plan_;
  const Summands* summands_;
  const Stores stores_;
  std::int64_t tile_parts_ = 0;
  std::int64_t transfer_parts_ = 0;
  std::int64_t added_ = 0;
  Claim claim_{"no read before its data",
               "what a tile or a transfer reads has been put there by the caller, brought by a transfer or stored by "
               "tiles, in the same launch, before the read begins."};
};

// Overwrites.

class OverwriteCheck {
 public:
  OverwriteCheck(const PlanIndex& index, const Order& order, const Summands* summands)
      : index_(index), order_(order), plan_(index.plan()), summands_(summands) {}

  Theorem run() {
    for (int t = 0; t < index_.transfers(); ++t) {
      check_tiles_read_before(t);
      check_transfers_read_before(t);
      check_output_taken(t);
      if (summands_ == nullptr || index_.transfer(t).destination.buffer != index_.reduced()) continue;
      if (summands_->distributes(t))
        check_distribution(t);
      else
        check_landing(t);
    }
    readers_ += check_stack_overwritten(index_, order_, claim_);
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      check_completion(rank);
      if (summands_ == nullptr) continue;
      for (const Box<int>& fill : summands_->fills(rank).all()) check_refills(rank, fill.owner);
      for (const Reading& reading : summands_->readings(rank)) check_added_before(rank, reading);
    }
    std::string evidence = fmt::format(
        "{} transfers overwrite nothing that {} readers of the launch before may still read; {} transfers have ended "
        "when the ranks whose buffers they use complete a launch",
        index_.transfers(), readers_, touching_);
    if (std::any_of(plan_.buffers.begin(), plan_.buffers.end(), [](const Buffer& buffer) { return buffer.fold; }))
      evidence += fmt::format("; in folded buffers {} pairs of what shares a place follow each other",
                              check_folds(index_, order_, claim_));
    return claim_.conclude(std::move(evidence));
  }

 private:
  /// The destination of t in launch e + 1 against the tiles that read it in launch e. Mostly the whole launch is known
  /// to be over there; where what a rank has sent implies that its tiles are done, that is enough.
  void check_tiles_read_before(int t) {
    const View& view = index_.transfer(t).destination;
    const auto& reads = index_.reads();
    const Moment writes{transfer_event(index_, t), 1};
    bool is_read = false;
    int reading = -1;  // the last slot that may still read is the likeliest victim
    int number = -1;
    const bool is_over = order_.before({{Event::Kind::completion, view.rank, 0}, 0}, writes);
    for (const int r : index_.reads_on(view.rank)) {
      const TileAccess& read = reads[static_cast<std::size_t>(r)];
      if (read.buffer != view.buffer || !share_memory(plan_.buffer(view.buffer), read.region, view.region)) continue;
      is_read = true;
      if (is_over) break;
      const int slot = last_reading(view.rank, r, writes);
      if (slot <= reading) continue;
      reading = slot;
      number = r;
    }
    if (!is_read) return;
    ++readers_;
    claim_.check(reading < 0, [&] {
      const TileAccess& read = reads[static_cast<std::size_t>(number)];
      const Slot& slot = index_.slot(view.rank, reading);
      return fmt::format(
          "{} may overwrite {} while rank {} still reads it. Order of events: 1. {} on rank {} ({}) begins in launch "
          "e; "
          "2. the transfer, which has waited for {}, writes its data of launch e + 1; 3. the tile reads {}",
          describe_transfer(index_, t), describe_region(plan_, view.buffer, overwritten(view, read.region)), view.rank,
          describe_tile(plan_, slot.tile), view.rank, describe_slot(plan_, reading),
          describe_waits(plan_, waits_until(t)), describe_region(plan_, view.buffer, read.region));
    });
  }

  /// The last slot of a rank whose tile has this read and is not known to end, in launch e, before a moment; or -1.
  /// Where slots raise nothing, all that is ever known of one is that its launch is over.
  int last_reading(int rank, int read, const Moment& moment) const {
    for (auto slot = static_cast<int>(index_.program(rank).slots.size()) - 1; slot >= 0; --slot)
      if (index_.is_read_by(read, index_.slot(rank, slot).tile) &&
          !(index_.slots_raise() && order_.before({{Event::Kind::slot, rank, slot}, 0}, moment)))
        return slot;
    return -1;
  }

  /// The destination of t in launch e + 1 against the transfers that send from there in launch e.
  void check_transfers_read_before(int t) {
    const View& view = index_.transfer(t).destination;
    for (const int reader : index_.from(view.rank)) {
      const View& source = index_.transfer(reader).source;
      if (source.buffer != view.buffer || !share_memory(plan_.buffer(view.buffer), source.region, view.region))
        continue;
      ++readers_;
      claim_.check(order_.before({transfer_event(index_, reader), 0}, {transfer_event(index_, t), 1}), [&] {
        return fmt::format(
            "{} may overwrite {} while {} still sends it. Order of events: 1. the latter begins in launch e; 2. the "
            "former, which has waited for {}, writes its data of launch e + 1; 3. the latter reads it",
            describe_transfer(index_, t), describe_region(plan_, view.buffer, overwritten(view, source.region)),
            describe_transfer(index_, reader), describe_waits(plan_, waits_until(t)));
      });
    }
  }

  /// What of a region that is read a transfer to `view` overwrites, as far as it can be said of the buffer: of another
  /// fold than that of the view, all of the region.
  static Region overwritten(const View& view, const Region& read) {
    return read.overlaps(view.region) ? intersect(read, view.region) : read;
  }

  /// The destination of t in launch e + 1 against the caller, who takes the output of launch e until it starts again.
  void check_output_taken(int t) {
    const View& view = index_.transfer(t).destination;
    if (view.buffer != index_.reduced() && plan_.buffer(view.buffer).role != BufferRole::result) return;
    ++readers_;
    const Event start{Event::Kind::start, view.rank, 0};
    claim_.check(order_.before({start, 1}, {transfer_event(index_, t), 1}), [&] {
      return fmt::format(
          "{} may overwrite {} while the caller of rank {} still takes it. Order of events: 1. rank {} completes "
          "launch e, and its caller begins to take the output; 2. the transfer, which has waited for {}, writes its "
          "data of launch e + 1; 3. the caller reads it",
          describe_transfer(index_, t), describe_region(plan_, view.buffer, view.region), view.rank, view.rank,
          describe_waits(plan_, waits_until(t)));
    });
  }

  /// Of a transfer that puts a sum in the place of summands: they have been stored there, and everyone who sends from
  /// there has either done so or waits for the sum.
  void check_distribution(int t) {
    const View& view = index_.transfer(t).destination;
    const Event event = transfer_event(index_, t);
    summands_->stores(view.rank).for_each_in(view.region, [&](int slot, const Region& part) {
      const Event stored{Event::Kind::slot, view.rank, slot};
      claim_.check(order_.before({stored, 1}, {event, 1}), [&] {
        return fmt::format(
            "{} may put its sum into {} before {} stores there. Order of events: 1. it has waited for {}; 2. it writes "
            "the sum; 3. only then the tile stores its summand, and the sum is lost",
            describe_transfer(index_, t), describe_region(plan_, view.buffer, part), describe_event(index_, stored),
            describe_waits(plan_, waits_until(t)));
      });
    });
    for (const int reader : index_.from(view.rank)) {
      const View& source = index_.transfer(reader).source;
      if (reader == t || source.buffer != view.buffer || !source.region.overlaps(view.region)) continue;
      ++readers_;
      const Event reading = transfer_event(index_, reader);
      claim_.check(order_.before({reading, 1}, {event, 1}) || order_.before({event, 1}, {reading, 1}), [&] {
        return fmt::format(
            "{} may put its sum into {} while {} sends from there, or before, or after. Order of events: 1. the latter "
            "begins; 2. the former, which has waited for {}, writes the sum; 3. the latter reads a part of it",
            describe_transfer(index_, t), describe_region(plan_, view.buffer, intersect(source.region, view.region)),
            describe_transfer(index_, reader), describe_waits(plan_, waits_until(t)));
      });
    }
  }

  /// Of a transfer that brings a summand to where it is added in place: whoever stores there adds, and after it.
  void check_landing(int t) {
    const View& view = index_.transfer(t).destination;
    const std::vector<Reading>& readings = summands_->readings(view.rank);
    const auto of_earlier_slot = [](const Reading& reading, int slot) { return reading.slot < slot; };
    summands_->stores(view.rank).for_each_in(view.region, [&](int slot, const Region& part) {
      std::vector<Region> added;
      auto reading = std::lower_bound(readings.begin(), readings.end(), slot, of_earlier_slot);
      for (; reading != readings.end() && reading->slot == slot; ++reading)
        for (const Arrival& arrival : reading->arrivals)
          if (arrival.transfer == t && arrival.when == Arrival::When::before) added.push_back(arrival.part);
      claim_.check(uncovered(part, added).empty(), [&] {
        const Event storing{Event::Kind::slot, view.rank, slot};
        return fmt::format(
            "{} brings summands to {}, and {} stores there without having waited to add them. Order of events: 1. the "
            "worker, which has waited for {}, adds or stores; 2. the transfer, which has waited for {}, writes; or the "
            "other way round",
            describe_transfer(index_, t), describe_region(plan_, view.buffer, part), describe_event(index_, storing),
            describe_waits(plan_, index_.slot(view.rank, slot).sum_waits), describe_waits(plan_, waits_until(t)));
      });
    });
  }

  /// Transfers that fill the same place of a staging buffer follow each other, within a launch and to the next.
  void check_refills(int rank, int t) {
    const View& view = index_.transfer(t).destination;
    const Event event = transfer_event(index_, t);
    summands_->fills(rank).for_each_in(view.region, [&](int other, const Region& part) {
      const Event next = transfer_event(index_, other);
      const bool in_launch = other <= t || order_.before({event, 1}, {next, 1}) || order_.before({next, 1}, {event, 1});
      const bool in_next = order_.before({event, 0}, {next, 1});
      claim_.check(in_launch && in_next, [&] {
        return fmt::format(
            "{} and {} may write {} on rank {} at the same time, or in any order. Order of events: 1. the former "
            "begins "
            "in launch e; 2. the latter, which has waited for {}, begins in launch e{}",
            describe_transfer(index_, t), describe_transfer(index_, other), describe_region(plan_, view.buffer, part),
            rank, describe_waits(plan_, waits_until(other)), in_launch ? " + 1" : "");
      });
    });
  }

  /// What a slot adds is not overwritten in the same launch, nor in the next, until it has been added.
  void check_added_before(int rank, const Reading& reading) {
    ++readers_;
    const Event adding{Event::Kind::slot, rank, reading.slot};
    for (const Arrival& arrival : reading.arrivals) {
      const Event moved = transfer_event(index_, arrival.transfer);
      const bool in_launch = arrival.when != Arrival::When::unordered || Summands::is_meant(reading, arrival);
      const bool in_next = order_.before({adding, 0}, {moved, 1});
      claim_.check(in_launch && in_next, [&] {
        return fmt::format(
            "{} may overwrite {} while rank {} still adds it. Order of events: 1. {} begins to add in launch e; 2. the "
            "transfer, which has waited for {}, writes its data of launch e{}; 3. the tile reads it",
            describe_transfer(index_, arrival.transfer), describe_region(plan_, index_.landing(), arrival.part), rank,
            describe_event(index_, adding), describe_waits(plan_, waits_until(arrival.transfer)),
            in_launch ? " + 1" : "");
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
      check(t, view, "reads",
            holds_any_of(plan_.buffer(view.buffer), rank, view.region)
                ? "its caller puts the inputs of launch e + 1 in place"
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
  const Summands* summands_;
  std::int64_t readers_ = 0;
  std::int64_t touching_ = 0;
  Claim claim_{
      "no overwrite of live data",
      "what is read in a launch is overwritten, by a transfer or in the next launch by the caller, only after the "
      "read has ended; a launch that is complete on a rank leaves nothing running in its buffers."};
};

}  // namespace

Theorem prove_no_early_read(const PlanIndex& index, const Order& order, const Summands* summands) {
  return ReadCheck(index, order, summands).run();
}

Theorem prove_no_overwrite(const PlanIndex& index, const Order& order, const Summands* summands) {
  return OverwriteCheck(index, order, summands).run();
}

}  // namespace syncopate
