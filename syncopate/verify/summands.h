// Outputs on their way: which slots store what leaves, which transfers move it, what a slot finds in the staging buffer
// when it adds, and what is sent of the reduced buffer, where sums may have taken the place of summands.
#pragma once

#include <cstdint>
#include <vector>

#include "syncopate/verify/boxes.h"
#include "syncopate/verify/order.h"

namespace syncopate {

/// A transfer that fills a part of what a slot adds.
struct Arrival {
  /// The transfer as the slot sees it when it adds, in the same launch: it has ended in every run, or begins in every
  /// run only when the slot has ended, or neither is sure.
  enum class When : std::uint8_t { before, after, unordered };
  int transfer = 0;
  When when = When::unordered;
  Region part;      ///< of the staging buffer
  Region summands;  ///< of the reduced buffer: where the elements of `part` come from
};

/// What a slot adds of one of its addends: the part that it also stores. In the words below the buffer where summands
/// land (PlanIndex::landing) is called the staging buffer; sums in place have it and the reduced buffer in one.
struct Reading {
  int slot = 0;
  int addend = 0;
  Region target;  ///< of the reduced buffer
  Region source;  ///< of the staging buffer
  std::vector<Arrival> arrivals;
};

/// What a transfer sends of a part of the reduced buffer.
struct Supply {
  Region part;
  int transfer = -1;  ///< that has brought it; -1: what slots have stored there
  bool sure = true;   ///< else the two are in no order
};

/// What the slots of each rank store of the buffers from which transfers send: the reduced one, and those with a
/// result.
class Stores {
 public:
  explicit Stores(const PlanIndex& index);
  /// Whether tiles store what transfers send from `buffer`.
  bool leaves(int buffer) const { return !of_[0][static_cast<std::size_t>(buffer)].all().empty(); }
  const BoxIndex<int>& of(int rank, int buffer) const {
    return of_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(buffer)];
  }

 private:
  std::vector<std::vector<BoxIndex<int>>> of_;  ///< [rank][buffer]
};

/// A box of the extents of `part`, which lies in `from`, at the same place in `to`.
Region carried_over(const Region& part, const Region& from, const Region& to);

/// Of a plan that reduces an output.
class Summands {
 public:
  /// Without an order (null), nothing is known of when transfers are.
  Summands(const PlanIndex& index, const Order* order);

  /// What the slots of a rank store of the reduced buffer.
  const BoxIndex<int>& stores(int rank) const { return stores_[static_cast<std::size_t>(rank)]; }
  /// What transfers fill of the staging buffer of a rank.
  const BoxIndex<int>& fills(int rank) const { return fills_[static_cast<std::size_t>(rank)]; }
  /// What transfers put into the reduced buffer of a rank in place of summands.
  const BoxIndex<int>& distributed(int rank) const { return distributed_[static_cast<std::size_t>(rank)]; }
  /// Whether a transfer into the reduced buffer brings what takes the place of summands. Where sums are in place, it
  /// does if it comes after all that slots store there; else it brings a summand.
  bool distributes(int transfer) const;
  /// What a transfer from the reduced buffer sends, in parts that do not overlap if those that are distributed do not.
  std::vector<Supply> supply_of(int transfer) const;
  /// In the order of slots, and of addends within a slot.
  const std::vector<Reading>& readings(int rank) const { return readings_[static_cast<std::size_t>(rank)]; }
  /// The elements of `part`, of the staging buffer, where `reading` adds them.
  static Region added_to(const Reading& reading, const Region& part) {
    return carried_over(part, reading.source, reading.target);
  }
  /// Whether an arrival brings the summands of just the elements to which the slot adds them.
  static bool is_meant(const Reading& reading, const Arrival& arrival) {
    return added_to(reading, arrival.part) == arrival.summands;
  }

 private:
  void collect_stores(const PlanIndex& index, int rank);
  void collect_fills(const PlanIndex& index, int rank);
  void collect_readings(const PlanIndex& index, int rank, const Order* order);

  const PlanIndex& index_;
  const Order* order_;
  std::vector<BoxIndex<int>> stores_;
  std::vector<BoxIndex<int>> fills_;
  std::vector<BoxIndex<int>> distributed_;
  std::vector<std::vector<Reading>> readings_;
};

/// What a slot stores of the reduced buffer: what its tile writes there, as far as it is kept.
std::vector<Region> stored_by(const PlanIndex& index, const Slot& slot);

}  // namespace syncopate
