#include "syncopate/verify/contributions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "syncopate/verify/describe.h"

namespace syncopate {

namespace {

/// Sums by number, so that equal ones have equal numbers.
class SumTable {
 public:
  static constexpr int kUnknown = -1;

  explicit SumTable(int ranks) : ranks_(ranks) {}

  /// The summand of a rank.
  int leaf(int rank) const { return rank; }
  int node(const std::vector<int>& terms) {
    if (std::find(terms.begin(), terms.end(), kUnknown) != terms.end()) return kUnknown;
    const auto [found, is_new] = numbers_.try_emplace(terms, ranks_ + static_cast<int>(nodes_.size()));
    if (is_new) nodes_.push_back(terms);
    return found->second;
  }
  int number(const SumOrder& order) {
    if (order.terms.empty()) return leaf(order.rank);
    std::vector<int> terms;
    for (const SumOrder& term : order.terms) terms.push_back(number(term));
    return node(terms);
  }

  /// "((1 + 2) + 0)", or for the summand of one rank "1 alone". A broken plan's sums may have no end; their text has.
  std::string to_string(int number) const {
    if (number < ranks_) return fmt::format("{} alone", number);
    std::string text;
    write(text, number);
    return text;
  }

 private:
  void write(std::string& text, int number) const {
    constexpr std::size_t kLongest = 200;
    if (number < ranks_ || text.size() > kLongest) {
      text += number < ranks_ ? fmt::format("{}", number) : "...";
      return;
    }
    const std::vector<int>& terms = nodes_[static_cast<std::size_t>(number - ranks_)];
    for (std::size_t i = 0; i < terms.size(); ++i) {
      text += i == 0 ? "(" : " + ";
      write(text, terms[i]);
    }
    text += ")";
  }

  int ranks_;
  std::map<std::vector<int>, int> numbers_;
  std::vector<std::vector<int>> nodes_;
};

/// A box of the reduced buffer whose elements all are one sum.
struct Value {
  Region region;
  int sum = SumTable::kUnknown;
};

/// A box of what a slot is about to store, and what has been added to it.
struct Partial {
  Region region;
  std::vector<int> terms;
};

class ContributionCheck {
 public:
  ContributionCheck(const PlanIndex& index, const Summands& summands, std::span<const Step> steps, Claim& claim)
      : index_(index), plan_(index.plan()), summands_(summands), steps_(steps), claim_(claim), table_(index.ranks()) {}

  ContributionCount run() {
    number_transfers();
    for (int rank = 0; rank < index_.ranks(); ++rank) {
      values_.emplace_back(index_.program(rank).slots.size());
      first_reading_.push_back(first_readings(rank));
    }
    distributed_.resize(static_cast<std::size_t>(index_.transfers()));
    // What a slot adds or a transfer sends has been stored before in every order that the other theorems admit.
    for (const Step& step : steps_) {
      if (step.launch != 0) continue;
      if (step.event.kind == Event::Kind::slot) evaluate(step.event.rank, step.event.number);
      if (step.event.kind == Event::Kind::transfer) distribute(step.event.number);
    }
    for (const Sum& sum : plan_.sums) compare(sum);
    return count_;
  }

 private:
  std::vector<Value>& values(int rank, int slot) {
    return values_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(slot)];
  }

  void number_transfers() {
    turns_.assign(static_cast<std::size_t>(index_.transfers()), 0);
    for (std::size_t s = 0; s < steps_.size(); ++s)
      if (steps_[s].launch == 0 && steps_[s].event.kind == Event::Kind::transfer)
        turns_[static_cast<std::size_t>(steps_[s].event.number)] = s;
  }

  std::vector<std::size_t> first_readings(int rank) const {
    const std::vector<Reading>& readings = summands_.readings(rank);
    std::vector<std::size_t> first(index_.program(rank).slots.size() + 1, readings.size());
    for (std::size_t r = readings.size(); r-- > 0;) first[static_cast<std::size_t>(readings[r].slot)] = r;
    for (std::size_t s = first.size() - 1; s-- > 0;) first[s] = std::min(first[s], first[s + 1]);
    return first;
  }

  void evaluate(int rank, int number) {
    const Slot& slot = index_.slot(rank, number);
    std::vector<Partial> partials;
    for (const Region& region : stored_by(index_, slot)) partials.push_back({region, {}});
    const auto at = first_reading_[static_cast<std::size_t>(rank)].begin() + number;
    std::size_t reading = at[0];
    for (int a = 0; a <= static_cast<int>(slot.addends.size()); ++a) {
      if (a == slot.own_place)
        for (Partial& partial : partials) partial.terms.push_back(table_.leaf(rank));
      for (; reading < at[1] && summands_.readings(rank)[reading].addend == a; ++reading)
        add(partials, rank, summands_.readings(rank)[reading]);
    }
    for (const Partial& partial : partials)
      values(rank, number)
          .push_back({partial.region, partial.terms.size() == 1 ? partial.terms[0] : table_.node(partial.terms)});
  }

  /// Appends the sums that `reading` finds to the terms of the elements that it is for.
  void add(std::vector<Partial>& partials, int rank, const Reading& reading) {
    for (const Value& found : found_by(rank, reading)) {
      ++count_.summands;
      std::vector<Partial> next;
      for (Partial& partial : partials) {
        const Region common = intersect(partial.region, found.region);
        if (common.empty()) {
          next.push_back(std::move(partial));
          continue;
        }
        for (const Region& rest : subtract(partial.region, common)) next.push_back({rest, partial.terms});
        next.push_back({common, std::move(partial.terms)});
        next.back().terms.push_back(found.sum);
      }
      partials = std::move(next);
    }
  }

  /// What stands in the staging buffer for `reading`, by elements of the reduced buffer. Where transfers follow each
  /// other it is what the last one brought.
  std::vector<Value> found_by(int rank, const Reading& reading) {
    std::vector<const Arrival*> arrivals;
    for (const Arrival& arrival : reading.arrivals)
      if (arrival.when != Arrival::When::after) arrivals.push_back(&arrival);
    std::sort(arrivals.begin(), arrivals.end(), [&](const Arrival* a, const Arrival* b) {
      // Whoever may come at any time, comes last.
      return std::pair(a->when == Arrival::When::unordered, turn(a)) >
             std::pair(b->when == Arrival::When::unordered, turn(b));
    });
    std::vector<Value> found;
    std::vector<Region> rest{reading.source};
    for (const Arrival* arrival : arrivals) {
      std::vector<Region> left;
      for (const Region& region : rest) {
        const Region part = intersect(region, arrival->part);
        if (!part.empty()) find(found, rank, reading, *arrival, part);
        const std::vector<Region> others = subtract(region, arrival->part);
        left.insert(left.end(), others.begin(), others.end());
      }
      rest = std::move(left);
    }
    for (const Region& region : rest) found.push_back({Summands::added_to(reading, region), SumTable::kUnknown});
    return found;
  }

  std::size_t turn(const Arrival* arrival) const { return turns_[static_cast<std::size_t>(arrival->transfer)]; }

  void find(std::vector<Value>& found, int rank, const Reading& reading, const Arrival& arrival, const Region& part) {
    const Region target = Summands::added_to(reading, part);
    const Region summands = carried_over(part, arrival.part, arrival.summands);
    // Where others may stand there as well, that it comes at any time is what is wrong.
    if (arrival.when == Arrival::When::unordered && reading.arrivals.size() > 1) {
      found.push_back({target, SumTable::kUnknown});
      return;
    }
    const bool is_meant = claim_.check(target == summands, [&] {
      return fmt::format("{} adds to {} what {} brings, which are summands of {}",
                         describe_event(index_, {Event::Kind::slot, rank, reading.slot}), where(target),
                         describe_transfer(index_, arrival.transfer), where(summands));
    });
    std::vector<Region> known;
    if (is_meant)
      for (const Value& value : sent_by(arrival.transfer)) {
        const Region common = intersect(value.region, summands);
        if (common.empty()) continue;
        found.push_back({common, value.sum});
        known.push_back(common);
      }
    for (const Region& rest : uncovered(target, known)) found.push_back({rest, SumTable::kUnknown});
  }

  /// What a transfer sends of the reduced buffer.
  std::vector<Value> sent_by(int transfer) {
    const int rank = index_.transfer(transfer).source.rank;
    std::vector<Value> sent;
    for (const Supply& supply : summands_.supply_of(transfer)) {
      if (supply.transfer >= 0) {
        for (const Value& value : distributed_[static_cast<std::size_t>(supply.transfer)])
          if (const Region common = intersect(value.region, supply.part); !common.empty())
            sent.push_back({common, supply.sure ? value.sum : SumTable::kUnknown});
        continue;
      }
      summands_.stores(rank).for_each_in(supply.part, [&](int slot, const Region& stored) {
        for (const Value& value : values(rank, slot))
          if (const Region common = intersect(value.region, stored); !common.empty())
            sent.push_back({common, value.sum});
      });
    }
    return sent;
  }

  void distribute(int transfer) {
    if (index_.transfer(transfer).destination.buffer == index_.reduced())
      distributed_[static_cast<std::size_t>(transfer)] = sent_by(transfer);
  }

  void compare(const Sum& sum) {
    const int expected = table_.number(sum.order);
    const auto look = [&](const Value& value, const Region& part, auto&& who) {
      const Region common = intersect(value.region, part);
      if (common.empty() || value.sum == SumTable::kUnknown) return;
      ++count_.sums;
      claim_.check(value.sum == expected, [&] {
        return fmt::format("{} in {} the sum of the summands of ranks {}; it is to be {}", who(), where(common),
                           table_.to_string(value.sum), table_.to_string(expected));
      });
    };
    std::vector<Region> replaced;
    summands_.distributed(sum.rank).for_each_in(sum.region, [&](int transfer, const Region& part) {
      replaced.push_back(part);
      for (const Value& value : distributed_[static_cast<std::size_t>(transfer)])
        look(value, part, [&] { return describe_transfer(index_, transfer) + " leaves"; });
    });
    for (const Region& rest : uncovered(sum.region, replaced))
      summands_.stores(sum.rank).for_each_in(rest, [&](int slot, const Region& stored) {
        for (const Value& value : values(sum.rank, slot))
          look(value, stored, [&] { return describe_event(index_, {Event::Kind::slot, sum.rank, slot}) + " stores"; });
      });
  }

  std::string where(const Region& region) const { return describe_region(plan_, index_.reduced(), region); }

  const PlanIndex& index_;
  const Plan& plan_;
  const Summands& summands_;
  std::span<const Step> steps_;
  Claim& claim_;
  SumTable table_;
  std::vector<std::size_t> turns_;                       // [transfer]: its place among the steps
  std::vector<std::vector<std::vector<Value>>> values_;  // [rank][slot]
  std::vector<std::vector<Value>> distributed_;          // [transfer]: what it puts into the reduced buffer
  std::vector<std::vector<std::size_t>> first_reading_;  // [rank][slot], and past the last
  ContributionCount count_;
};

}  // namespace

ContributionCount check_contributions(const PlanIndex& index, const Summands& summands, std::span<const Step> steps,
                                      Claim& claim) {
  return ContributionCheck(index, summands, steps, claim).run();
}

}  // namespace syncopate
