#include "syncopate/verify/additions.h"

#include <fmt/format.h>

#include <vector>

#include "syncopate/verify/describe.h"

namespace syncopate {
namespace {

/// The additions of one rank.
class ReadingAdditions {
 public:
  ReadingAdditions(const PlanIndex& index, const Order& order, const Stores& stores, int rank, Claim& claim)
      : index_(index), order_(order), stores_(stores.of(rank, index.summed())), rank_(rank), claim_(claim) {
    std::vector<Box<int>> arrivals;
    for (const int t : index.into(rank))
      if (index.transfer(t).destination.buffer == index.stack())
        arrivals.push_back({index.transfer(t).destination.region, t});
    arrivals_ = BoxIndex<int>(std::move(arrivals));
  }

  std::int64_t run() {
    for (int worker = 0; worker < index_.workers_of(rank_); ++worker)
      order_.walk_additions(rank_, worker, 1, [&](int addition, const Order::Clock& clock) { check(addition, clock); });
    return parts_;
  }

 private:
  void check(int addition, const Order::Clock& clock) {
    const Region& region = index_.additions(rank_)[static_cast<std::size_t>(addition)].region;
    stores_.for_each_in(region, [&](int slot, const Region& part) {
      expect(addition, clock, {Event::Kind::slot, rank_, slot}, describe_region(index_.plan(), index_.summed(), part));
    });
    for (int source = 0; source < index_.ranks(); ++source) {
      if (source == rank_) continue;
      arrivals_.for_each_in(in_stack(region, index_.plan().buffer(index_.summed()).shape[0], rank_, source),
                            [&](int t, const Region& part) {
                              expect(addition, clock, {Event::Kind::transfer, index_.place(t).rank, t},
                                     describe_region(index_.plan(), index_.stack(), part));
                            });
    }
  }

  void expect(int addition, const Order::Clock& clock, const Event& bringing, const std::string& what) {
    ++parts_;
    claim_.check(order_.known(clock, {bringing, 1}), [&] {
      return fmt::format(
          "{} may read {} before it is there. Order of events: 1. the worker, which has waited for {} after its "
          "tiles, adds; 2. only then comes {}, which puts it there",
          describe_addition(index_, rank_, addition), what, describe_waits(index_.plan(), waited_for(addition)),
          describe_event(index_, bringing));
    });
  }

  /// By the addition and those that its worker takes before it.
  std::vector<Wait> waited_for(int addition) const {
    std::vector<Wait> waits;
    for (int a = addition % index_.plan().workers; a <= addition; a += index_.plan().workers) {
      const std::vector<Wait>& own = index_.additions(rank_)[static_cast<std::size_t>(a)].waits;
      waits.insert(waits.end(), own.begin(), own.end());
    }
    return waits;
  }

  const PlanIndex& index_;
  const Order& order_;
  const BoxIndex<int>& stores_;
  BoxIndex<int> arrivals_;
  int rank_;
  Claim& claim_;
  std::int64_t parts_ = 0;
};

}  // namespace

std::int64_t check_additions_read(const PlanIndex& index, const Order& order, const Stores& stores, Claim& claim) {
  std::int64_t parts = 0;
  for (int rank = 0; rank < index.ranks() && index.stack() >= 0; ++rank)
    parts += ReadingAdditions(index, order, stores, rank, claim).run();
  return parts;
}

std::int64_t check_stack_overwritten(const PlanIndex& index, const Order& order, Claim& claim) {
  std::int64_t transfers = 0;
  for (int t = 0; t < index.transfers(); ++t) {
    const View& view = index.transfer(t).destination;
    if (view.buffer != index.stack()) continue;
    ++transfers;
    const Event completion{Event::Kind::completion, view.rank, 0};
    const Event writes{Event::Kind::transfer, index.place(t).rank, t};
    claim.check(order.before({completion, 0}, {writes, 1}), [&] {
      return fmt::format(
          "{} may overwrite {} while rank {} still adds it. Order of events: 1. rank {} begins to add in launch e; 2. "
          "the transfer, which has waited for {}, writes its data of launch e + 1; 3. an addition reads it",
          describe_transfer(index, t), describe_region(index.plan(), view.buffer, view.region), view.rank, view.rank,
          describe_waits(index.plan(), index.transfer(t).waits));
    });
  }
  return transfers;
}

}  // namespace syncopate
