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

Stores::Stores(const PlanIndex& index) {
  std::vector<bool> leaves;
  for (std::size_t b = 0; b < index.plan().buffers.size(); ++b) leaves.push_back(index.plan().buffers[b].is_reduced());
  for (const Buffer& buffer : index.plan().buffers)
    if (buffer.role == BufferRole::result) leaves[static_cast<std::size_t>(buffer.partner)] = true;
  for (int rank = 0; rank < index.ranks(); ++rank) {
    std::vector<std::vector<Box<int>>> boxes(leaves.size());
    const std::vector<Slot>& slots = index.program(rank).slots;
    for (std::size_t s = 0; s < slots.size(); ++s) {
      const auto slot = static_cast<int>(s);
      for (const TileAccess& write : index.tile(slots[s].tile).writes)
        if (write.buffer != index.reduced() && leaves[static_cast<std::size_t>(write.buffer)])
          boxes[static_cast<std::size_t>(write.buffer)].push_back({write.region, slot});
      if (index.has_sums())
        for (const Region& region : stored_by(index, slots[s]))
          boxes[static_cast<std::size_t>(index.reduced())].push_back({region, slot});
    }
    std::vector<BoxIndex<int>>& of_rank = of_.emplace_back();
    for (std::vector<Box<int>>& list : boxes) of_rank.emplace_back(std::move(list));
  }
}

Summands::Summands(const PlanIndex& index, const Order* order) : index_(index), order_(order) {
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
  std::vector<Box<int>> distributed;
  for (const int t : index.into(rank)) {
    const View& view = index.transfer(t).destination;
    if (view.buffer == index.landing()) fills.push_back({view.region, t});
    if (view.buffer == index.reduced() && distributes(t)) distributed.push_back({view.region, t});
  }
  fills_.emplace_back(std::move(fills));
  distributed_.emplace_back(std::move(distributed));
}

bool Summands::distributes(int transfer) const {
  if (!index_.in_place()) return true;
  if (order_ == nullptr) return false;
  const View& view = index_.transfer(transfer).destination;
  const Event bringing{Event::Kind::transfer, index_.place(transfer).rank, transfer};
  bool behind_all = true;
  stores(view.rank).for_each_in(view.region, [&](int slot, const Region&) {
    behind_all = behind_all && order_->before({{Event::Kind::slot, view.rank, slot}, 1}, {bringing, 1});
  });
  return behind_all;
}

std::vector<Supply> Summands::supply_of(int transfer) const {
  const View& source = index_.transfer(transfer).source;
  const Event sending{Event::Kind::transfer, index_.place(transfer).rank, transfer};
  std::vector<Supply> supplies;
  std::vector<Region> rest{source.region};
  distributed(source.rank).for_each_in(source.region, [&](int other, const Region& part) {
    const Event bringing{Event::Kind::transfer, index_.place(other).rank, other};
    if (order_ != nullptr && (other == transfer || order_->before({sending, 1}, {bringing, 1}))) return;
    supplies.push_back({part, other, order_ != nullptr && order_->before({bringing, 1}, {sending, 1})});
    std::vector<Region> left;
    for (const Region& region : rest)
      for (const Region& outside : subtract(region, part)) left.push_back(outside);
    rest = std::move(left);
  });
  for (const Region& region : rest) supplies.push_back({region, -1, true});
  return supplies;
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
