#include "syncopate/verify/summands.h"

#include <utility>

namespace syncopate {

Region carried_over(const Region& part, const Region& from, const Region& to) {
  Region carried = part;
  for (int d = 0; d < part.dimensions(); ++d) {
    const std::int64_t shift = to[d].begin - from[d].begin;
    carried[d] = {part[d].begin + shift, part[d].end + shift};
  }
  return carried;
}

std::vector<Region> stored_by(const PlanIndex& index, const Slot& slot) {
  std::vector<Region> stored;
  for (const TileAccess& write : index.tile(slot.tile).writes) {
    if (write.buffer != index.reduced()) continue;
    const Region kept = slot.kept.dimensions() == 0 ? write.region : intersect(write.region, slot.kept);
    if (!kept.empty()) stored.push_back(kept);
  }
  return stored;
}

Summands::Summands(const PlanIndex& index, const Order* order) {
  for (int rank = 0; rank < index.ranks(); ++rank) {
    collect_stores(index, rank);
    collect_fills(index, rank);
    collect_readings(index, rank, order);
  }
}

void Summands::collect_stores(const PlanIndex& index, int rank) {
  std::vector<Box<int>> stores;
  const std::vector<Slot>& slots = index.program(rank).slots;
  for (std::size_t s = 0; s < slots.size(); ++s)
    for (const Region& region : stored_by(index, slots[s])) stores.push_back({region, static_cast<int>(s)});
  stores_.emplace_back(std::move(stores));
}

void Summands::collect_fills(const PlanIndex& index, int rank) {
  std::vector<Box<int>> fills;
  for (const int t : index.into(rank))
    if (const View& view = index.transfer(t).destination; view.buffer == index.staging())
      fills.push_back({view.region, t});
  fills_.emplace_back(std::move(fills));
}

void Summands::collect_readings(const PlanIndex& index, int rank, const Order* order) {
  const std::vector<Slot>& slots = index.program(rank).slots;
  std::vector<std::vector<Reading>> of_slot(slots.size());
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (slots[s].addends.empty()) continue;
    const std::vector<Region> stored = stored_by(index, slots[s]);
    for (std::size_t a = 0; a < slots[s].addends.size(); ++a) {
      const Addend& addend = slots[s].addends[a];
      for (const Region& region : stored) {
        const Region target = intersect(region, addend.target);
        if (target.empty()) continue;
        Reading reading{
            static_cast<int>(s), static_cast<int>(a), target, carried_over(target, addend.target, addend.source), {}};
        fills(rank).for_each_in(reading.source, [&](int t, const Region& part) {
          const Transfer& moved = index.transfer(t);
          reading.arrivals.push_back(
              {t, Arrival::When::unordered, part, carried_over(part, moved.destination.region, moved.source.region)});
        });
        of_slot[s].push_back(std::move(reading));
      }
    }
  }
  const auto date = [&](int slot, const Order::Clock& clock) {
    const Event adding{Event::Kind::slot, rank, slot};
    for (Reading& reading : of_slot[static_cast<std::size_t>(slot)]) {
      for (Arrival& arrival : reading.arrivals) {
        const Event moving{Event::Kind::transfer, index.place(arrival.transfer).rank, arrival.transfer};
        if (order->known(clock, {moving, 1}))
          arrival.when = Arrival::When::before;
        else if (order->before({adding, 1}, {moving, 1}))
          arrival.when = Arrival::When::after;
      }
    }
  };
  for (int worker = 0; worker < index.workers_of(rank) && order != nullptr; ++worker)
    order->walk_worker(
        rank, worker, 1, [](int, const Order::Clock&) {}, [](int, std::size_t, const Order::Clock&) {}, date);
  std::vector<Reading>& all = readings_.emplace_back();
  for (std::vector<Reading>& list : of_slot) std::move(list.begin(), list.end(), std::back_inserter(all));
}

}  // namespace syncopate
