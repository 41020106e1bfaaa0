#include "tests/support/mutate_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace syncopate::testing {

namespace {

class SumMutator {
 public:
  explicit SumMutator(const Plan& plan) : plan_(plan), reduced_(reduced_buffer(plan)), staging_(staging_buffer(plan)) {}

  std::vector<SumMutant> run() {
    if (sums_in_place(plan_)) {
      for_each_slot([&](std::size_t rank, std::size_t slot) { store_instead(rank, slot); });
      for_each_slot([&](std::size_t rank, std::size_t slot) { add_instead(rank, slot); });
    } else {
      for_each_slot([&](std::size_t rank, std::size_t slot) { drop_addends(rank, slot); });
      for_each_slot([&](std::size_t rank, std::size_t slot) { swap_sources(rank, slot); });
      for_each_slot([&](std::size_t rank, std::size_t slot) { shift_addends(rank, slot); });
      for_each_slot([&](std::size_t rank, std::size_t slot) { shrink_addends(rank, slot); });
      for_each_slot([&](std::size_t rank, std::size_t slot) { change_kept(rank, slot); });
    }
    for_each_slot([&](std::size_t rank, std::size_t slot) { move_own_place(rank, slot); });
    for_each_slot([&](std::size_t rank, std::size_t slot) { raise_twice(rank, slot); });
    for_each_slot([&](std::size_t rank, std::size_t slot) { raise_early(rank, slot); });
    for_each_slot([&](std::size_t rank, std::size_t slot) { swap_raises(rank, slot); });
    change_sums();
    return std::move(mutants_);
  }

 private:
  static Slot& slot_at(Plan& plan, std::size_t rank, std::size_t slot) { return plan.programs[rank].slots[slot]; }
  const Slot& slot_at(std::size_t rank, std::size_t slot) const { return plan_.programs[rank].slots[slot]; }

  template <typename Visitor>
  void for_each_slot(Visitor&& visit) {
    for (std::size_t rank = 0; rank < plan_.programs.size(); ++rank)
      for (std::size_t slot = 0; slot < plan_.programs[rank].slots.size(); ++slot) visit(rank, slot);
  }

  SumMutant& add(std::string kind, std::string description, bool may_be_valid,
                 const std::function<void(Plan&)>& change) {
    SumMutant mutant;
    mutant.kind = std::move(kind);
    mutant.description = std::move(description);
    mutant.may_be_valid = may_be_valid;
    mutant.plan = plan_;
    change(mutant.plan);
    return mutants_.emplace_back(std::move(mutant));
  }

  static std::string name(std::size_t rank, std::size_t slot) { return fmt::format("slot {} of rank {}", slot, rank); }

  /// The rows that a slot stores.
  Range stored_rows(const Slot& slot) const {
    Range rows;
    for (const TileAccess& access : plan_.tiles[static_cast<std::size_t>(slot.tile)].writes)
      if (access.buffer == reduced_)
        rows = rows.empty()
                   ? access.region[0]
                   : Range{std::min(rows.begin, access.region[0].begin), std::max(rows.end, access.region[0].end)};
    if (slot.kept.dimensions() == 0) return rows;
    return {std::max(rows.begin, slot.kept[0].begin), std::min(rows.end, slot.kept[0].end)};
  }

  static bool within(std::int64_t row, const Range& rows) { return rows.begin <= row && row < rows.end; }

  /// Of sums in place what a slot adds is all or nothing: more than that its kernel does not know.
  void store_instead(std::size_t rank, std::size_t slot) {
    if (slot_at(rank, slot).addends.empty()) return;
    for (const bool waits : {true, false})
      add("store instead", fmt::format("{} adds nothing{}", name(rank, slot), waits ? ", but waits" : ""), false,
          [=](Plan& plan) {
            Slot& changed = slot_at(plan, rank, slot);
            changed.addends.clear();
            changed.own_place = 0;
            if (!waits) changed.sum_waits.clear();
          });
  }

  void add_instead(std::size_t rank, std::size_t slot) {
    if (!slot_at(rank, slot).addends.empty()) return;
    add("add instead", fmt::format("{} adds to what nobody has sent", name(rank, slot)), false, [=, this](Plan& plan) {
      Slot& changed = slot_at(plan, rank, slot);
      Region rows = Region::whole(plan.buffer(reduced_).shape);
      rows[0] = stored_rows(changed);
      changed.addends = {{rows, rows}};
    });
  }

  void drop_addends(std::size_t rank, std::size_t slot) {
    for (std::size_t a = 0; a < slot_at(rank, slot).addends.size(); ++a)
      add("drop addend", fmt::format("{} leaves out addend {}", name(rank, slot), a), false, [=](Plan& plan) {
        Slot& changed = slot_at(plan, rank, slot);
        changed.addends.erase(changed.addends.begin() + static_cast<std::ptrdiff_t>(a));
        if (static_cast<int>(a) < changed.own_place) --changed.own_place;
      });
  }

  void swap_sources(std::size_t rank, std::size_t slot) {
    const std::vector<Addend>& addends = slot_at(rank, slot).addends;
    for (std::size_t a = 0; a < addends.size(); ++a) {
      for (std::size_t b = a + 1; b < addends.size(); ++b) {
        if (addends[a].source[0].size() != addends[b].source[0].size()) continue;
        // Of the first two terms of a sum the order is nothing that could be seen.
        const bool same_target = addends[a].target == addends[b].target;
        add("swap sources", fmt::format("addends {} and {} of {} exchange their sources", a, b, name(rank, slot)),
            same_target,
            [=](Plan& plan) {
              std::vector<Addend>& changed = slot_at(plan, rank, slot).addends;
              std::swap(changed[a].source, changed[b].source);
            })
            .only_order = same_target;
      }
    }
  }

  void shift_addends(std::size_t rank, std::size_t slot) {
    struct Side {
      const char* what;
      Region Addend::* box;
      int buffer;
    };
    const Side kSides[] = {{"source", &Addend::source, staging_}, {"target", &Addend::target, reduced_}};
    for (std::size_t a = 0; a < slot_at(rank, slot).addends.size(); ++a) {
      for (const Side& side : kSides) {
        for (const std::int64_t distance : {1, -1}) {
          const Range& rows = (slot_at(rank, slot).addends[a].*side.box)[0];
          const Range moved{rows.begin + distance, rows.end + distance};
          if (moved.begin < 0 || moved.end > plan_.buffer(side.buffer).shape[0]) continue;
          add("shift addend",
              fmt::format("the {} of addend {} of {} is {} rows further", side.what, a, name(rank, slot), distance),
              false, [=](Plan& plan) { (slot_at(plan, rank, slot).addends[a].*side.box)[0] = moved; });
        }
      }
    }
  }

  void shrink_addends(std::size_t rank, std::size_t slot) {
    const Range stored = stored_rows(slot_at(rank, slot));
    for (std::size_t a = 0; a < slot_at(rank, slot).addends.size(); ++a) {
      const Range& rows = slot_at(rank, slot).addends[a].target[0];
      if (within(rows.begin, stored))
        add("shrink addend", fmt::format("addend {} of {} lacks its first row", a, name(rank, slot)), false,
            [=](Plan& plan) {
              Addend& changed = slot_at(plan, rank, slot).addends[a];
              ++changed.target[0].begin;
              ++changed.source[0].begin;
            });
      if (within(rows.end - 1, stored))
        add("shrink addend", fmt::format("addend {} of {} lacks its last row", a, name(rank, slot)), false,
            [=](Plan& plan) {
              Addend& changed = slot_at(plan, rank, slot).addends[a];
              --changed.target[0].end;
              --changed.source[0].end;
            });
    }
  }

  void move_own_place(std::size_t rank, std::size_t slot) {
    const auto count = static_cast<int>(slot_at(rank, slot).addends.size());
    for (int place = -1; count > 0 && place <= count + 1; ++place) {
      if (place == slot_at(rank, slot).own_place) continue;
      const bool possible = place >= 0 && place <= count;
      add("move own place", fmt::format("{} adds its own value after {} of {} addends", name(rank, slot), place, count),
          possible, [=](Plan& plan) { slot_at(plan, rank, slot).own_place = place; })
          .only_order = possible;
    }
  }

  void change_kept(std::size_t rank, std::size_t slot) {
    const Slot& original = slot_at(rank, slot);
    const Range stored = stored_rows(original);
    if (stored.empty()) return;
    const auto keep = [&](const char* kind, const char* what, const Range& rows) {
      Region box = Region::whole(plan_.buffer(reduced_).shape);
      box[0] = rows;
      add(kind, fmt::format("{} {}", name(rank, slot), what), false,
          [=](Plan& plan) { slot_at(plan, rank, slot).kept = box; });
    };
    keep("shrink kept", "does not keep its first row", {stored.begin + 1, stored.end});
    keep("shrink kept", "does not keep its last row", {stored.begin, stored.end - 1});
    if (original.kept.dimensions() == 0) return;
    Slot whole = original;
    whole.kept = {};
    const Range all = stored_rows(whole);
    if (all.begin < stored.begin) keep("grow kept", "keeps the row before", {stored.begin - 1, stored.end});
    if (all.end > stored.end) keep("grow kept", "keeps the row after", {stored.begin, stored.end + 1});
    if (all == stored) return;
    add("grow kept", fmt::format("{} keeps all of its tile", name(rank, slot)), false,
        [=](Plan& plan) { slot_at(plan, rank, slot).kept = {}; });
  }

  void raise_twice(std::size_t rank, std::size_t slot) {
    for (const int signal : slot_at(rank, slot).signals)
      add("raise twice",
          fmt::format("{} raises '{}' twice", name(rank, slot), plan_.signals[static_cast<std::size_t>(signal)].name),
          false, [=](Plan& plan) { slot_at(plan, rank, slot).signals.push_back(signal); });
  }

  /// The worker's slot before speaks for what this one has yet to do. Where slots raise more than they must, whoever
  /// waits may know of it otherwise.
  void raise_early(std::size_t rank, std::size_t slot) {
    const auto workers = static_cast<std::size_t>(plan_.workers);
    if (slot < workers) return;
    const std::vector<int>& signals = slot_at(rank, slot).signals;
    for (std::size_t s = 0; s < signals.size(); ++s)
      add("raise early",
          fmt::format("{} has '{}' raised by slot {} of its worker", name(rank, slot),
                      plan_.signals[static_cast<std::size_t>(signals[s])].name, slot - workers),
          true, [=](Plan& plan) {
            std::vector<int>& own = slot_at(plan, rank, slot).signals;
            slot_at(plan, rank, slot - workers).signals.push_back(own[s]);
            own.erase(own.begin() + static_cast<std::ptrdiff_t>(s));
          });
  }

  /// Which slots of a rank tell what: only neighbours, and those of equal workers.
  void swap_raises(std::size_t rank, std::size_t slot) {
    for (const std::size_t step : {std::size_t{1}, static_cast<std::size_t>(plan_.workers)}) {
      const std::size_t other = slot + step;
      if (other >= plan_.programs[rank].slots.size() || (step == 1 && plan_.workers == 1)) continue;
      if (slot_at(rank, slot).signals == slot_at(rank, other).signals) continue;
      add("swap raises", fmt::format("{} and slot {} exchange their signals", name(rank, slot), other), true,
          [=](Plan& plan) { std::swap(slot_at(plan, rank, slot).signals, slot_at(plan, rank, other).signals); });
    }
  }

  void change_sums() {
    for (std::size_t sum = 0; sum < plan_.sums.size(); ++sum) {
      const std::string name = fmt::format("sum {}", sum);
      add("drop sum", name + " is not stated", false,
          [=](Plan& plan) { plan.sums.erase(plan.sums.begin() + static_cast<std::ptrdiff_t>(sum)); });
      if (plan_.sums[sum].order.terms.empty()) continue;
      add("change order", name + " runs backwards", true, [=](Plan& plan) {
        std::reverse(plan.sums[sum].order.terms.begin(), plan.sums[sum].order.terms.end());
      }).only_order = true;
      add("change summands", name + " lacks its last term", false,
          [=](Plan& plan) { plan.sums[sum].order.terms.pop_back(); });
      add("change summands", name + " has its last term twice", false, [=](Plan& plan) {
        const SumOrder last = plan.sums[sum].order.terms.back();
        plan.sums[sum].order.terms.push_back(last);
      });
    }
  }

  const Plan& plan_;
  int reduced_;
  int staging_;
  std::vector<SumMutant> mutants_;
};

}  // namespace

std::vector<SumMutant> sum_mutants(const Plan& plan) { return SumMutator(plan).run(); }

const std::vector<std::string>& sum_mutation_kinds() {
  static const std::vector<std::string> kKinds = {
      "drop addend", "swap sources", "shift addend", "shrink addend", "move own place", "shrink kept",    "grow kept",
      "raise twice", "raise early",  "swap raises",  "drop sum",      "change order",   "change summands"};
  return kKinds;
}

}  // namespace syncopate::testing
