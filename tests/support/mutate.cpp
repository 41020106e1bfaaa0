#include "tests/support/mutate.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "syncopate/plan/inputs.h"

namespace syncopate::testing {

namespace {

/// Where a transfer stands.
struct Place {
  std::size_t rank = 0;
  std::size_t queue = 0;
  std::size_t position = 0;
};

std::vector<Transfer>& queue_at(Plan& plan, const Place& at) {
  return plan.programs[at.rank].queues[at.queue].transfers;
}

Transfer& transfer_at(Plan& plan, const Place& at) { return queue_at(plan, at)[at.position]; }

void erase_at(std::vector<Transfer>& transfers, std::size_t position) {
  transfers.erase(transfers.begin() + static_cast<std::ptrdiff_t>(position));
}

class Mutator {
 public:
  explicit Mutator(const Plan& plan) : plan_(plan), written_(written_by_tiles(plan)) {
    for (std::size_t rank = 0; rank < plan.programs.size(); ++rank)
      for (std::size_t q = 0; q < plan.programs[rank].queues.size(); ++q)
        for (std::size_t p = 0; p < plan.programs[rank].queues[q].transfers.size(); ++p)
          places_.push_back({rank, q, p});
  }

  std::vector<Mutant> run() {
    for_each_wait_list([&](const std::string& owner, const WaitList& list) { drop_waits(owner, list); });
    for_each_signal_list([&](const std::string& owner, const SignalList& list) { drop_raises(owner, list); });
    for_each_wait_list([&](const std::string& owner, const WaitList& list) { lower_thresholds(owner, list); });
    lower_counts();
    raise_counts();
    swap_transfers();
    swap_signals();
    reorder_queues();
    for (const Place& at : places_) shift_chunk(at);
    for (const Place& at : places_) shrink_chunk(at);
    for (const Place& at : places_) retarget(at);
    for (const Place& at : places_) drop_or_duplicate(at);
    reorder_tiles();
    change_workers();
    change_walks();
    change_additions();
    return std::move(mutants_);
  }

 private:
  using WaitList = std::function<std::vector<Wait>&(Plan&)>;
  using SignalList = std::function<std::vector<int>&(Plan&)>;

  void add(std::string kind, std::string description, bool may_be_valid, const std::function<void(Plan&)>& change) {
    mutants_.push_back({std::move(kind), std::move(description), may_be_valid, plan_});
    change(mutants_.back().plan);
  }

  const Transfer& transfer(const Place& at) const {
    return plan_.programs[at.rank].queues[at.queue].transfers[at.position];
  }

  std::string name(const Place& at) const {
    const Transfer& t = transfer(at);
    return fmt::format("transfer {}.{} (rank {}, queue {}, place {})", t.operator_rank, t.operator_index, at.rank,
                       at.queue, at.position);
  }

  const std::string& signal_name(int signal) const { return plan_.signals[static_cast<std::size_t>(signal)].name; }

  template <typename Visitor>
  void for_each_wait_list(Visitor&& visit) {
    for (std::size_t rank = 0; rank < plan_.programs.size(); ++rank) {
      for (std::size_t s = 0; s < plan_.programs[rank].slots.size(); ++s)
        visit(fmt::format("slot {} of rank {}", s, rank),
              [rank, s](Plan& plan) -> std::vector<Wait>& { return plan.programs[rank].slots[s].waits; });
      for (std::size_t s = 0; s < plan_.programs[rank].slots.size(); ++s)
        for (std::size_t i = 0; i < plan_.programs[rank].slots[s].steps.size(); ++i)
          visit(fmt::format("step {} of slot {} of rank {}", i, s, rank),
                [rank, s, i](Plan& plan) -> std::vector<Wait>& { return plan.programs[rank].slots[s].steps[i].waits; });
      for (std::size_t s = 0; s < plan_.programs[rank].slots.size(); ++s)
        visit(fmt::format("the addition in slot {} of rank {}", s, rank),
              [rank, s](Plan& plan) -> std::vector<Wait>& { return plan.programs[rank].slots[s].sum_waits; });
      for (std::size_t a = 0; a < plan_.programs[rank].additions.size(); ++a)
        visit(fmt::format("addition {} of rank {}", a, rank),
              [rank, a](Plan& plan) -> std::vector<Wait>& { return plan.programs[rank].additions[a].waits; });
      visit(fmt::format("the completion of rank {}", rank),
            [rank](Plan& plan) -> std::vector<Wait>& { return plan.programs[rank].completion_waits; });
    }
    for (const Place& at : places_)
      visit(name(at), [at](Plan& plan) -> std::vector<Wait>& { return transfer_at(plan, at).waits; });
  }

  template <typename Visitor>
  void for_each_signal_list(Visitor&& visit) {
    for (std::size_t rank = 0; rank < plan_.programs.size(); ++rank) {
      visit(fmt::format("the start of rank {}", rank),
            [rank](Plan& plan) -> std::vector<int>& { return plan.programs[rank].start_signals; });
      for (std::size_t s = 0; s < plan_.programs[rank].slots.size(); ++s)
        visit(fmt::format("slot {} of rank {}", s, rank),
              [rank, s](Plan& plan) -> std::vector<int>& { return plan.programs[rank].slots[s].signals; });
      visit(fmt::format("the completion of rank {}", rank),
            [rank](Plan& plan) -> std::vector<int>& { return plan.programs[rank].completion_signals; });
    }
    for (const Place& at : places_)
      visit(name(at), [at](Plan& plan) -> std::vector<int>& { return transfer_at(plan, at).signals; });
  }

  // The plan is not changed through these: lists are reached through a mutable reference only to serve both uses.
  const std::vector<Wait>& original(const WaitList& list) const { return list(const_cast<Plan&>(plan_)); }
  const std::vector<int>& original(const SignalList& list) const { return list(const_cast<Plan&>(plan_)); }

  void drop_waits(const std::string& owner, const WaitList& list) {
    for (std::size_t w = 0; w < original(list).size(); ++w)
      add("drop wait", fmt::format("{} does not wait for '{}'", owner, signal_name(original(list)[w].signal)), false,
          [list, w](Plan& plan) { list(plan).erase(list(plan).begin() + static_cast<std::ptrdiff_t>(w)); });
  }

  void drop_raises(const std::string& owner, const SignalList& list) {
    for (std::size_t s = 0; s < original(list).size(); ++s)
      add("drop raise", fmt::format("{} does not raise '{}'", owner, signal_name(original(list)[s])), false,
          [list, s](Plan& plan) { list(plan).erase(list(plan).begin() + static_cast<std::ptrdiff_t>(s)); });
  }

  void lower_thresholds(const std::string& owner, const WaitList& list) {
    for (std::size_t w = 0; w < original(list).size(); ++w) {
      const Wait& wait = original(list)[w];
      if (wait.threshold == 0) continue;
      add("lower threshold",
          fmt::format("{} waits for '{}' at {} instead of {}", owner, signal_name(wait.signal), wait.threshold - 1,
                      wait.threshold),
          false, [list, w](Plan& plan) { --list(plan)[w].threshold; });
    }
  }

  /// A signal that believes in one raise too few, and whoever waits for all of them.
  void lower_counts() {
    for (std::size_t signal = 0; signal < plan_.signals.size(); ++signal) {
      const std::int64_t all = plan_.signals[signal].per_launch;
      if (all < 2) continue;
      add("lower count", fmt::format("'{}' counts {} raises instead of {}", plan_.signals[signal].name, all - 1, all),
          false, [this, signal, all](Plan& plan) {
            --plan.signals[signal].per_launch;
            for_each_wait_list([&](const std::string&, const WaitList& list) {
              for (Wait& wait : list(plan))
                if (wait.signal == static_cast<int>(signal) && wait.threshold == all) --wait.threshold;
            });
          });
    }
  }

  /// A signal that believes in one raise too many, and whoever waits for all of them.
  void raise_counts() {
    for (std::size_t signal = 0; signal < plan_.signals.size(); ++signal) {
      const std::int64_t all = plan_.signals[signal].per_launch;
      add("raise count", fmt::format("'{}' counts {} raises instead of {}", plan_.signals[signal].name, all + 1, all),
          false, [this, signal, all](Plan& plan) {
            ++plan.signals[signal].per_launch;
            for_each_wait_list([&](const std::string&, const WaitList& list) {
              for (Wait& wait : list(plan))
                if (wait.signal == static_cast<int>(signal) && wait.threshold == all) ++wait.threshold;
            });
          });
    }
  }

  template <typename Visitor>
  void for_each_pair_of_a_rank(Visitor&& visit) {
    for (std::size_t i = 0; i < places_.size(); ++i)
      for (std::size_t j = i + 1; j < places_.size() && places_[j].rank == places_[i].rank; ++j)
        visit(places_[i], places_[j]);
  }

  /// Whether the one of two transfers that others see may be able to stand for the other: they follow each other in a
  /// queue, or whoever waits for one may wait for both.
  bool alike(const Place& a, const Place& b) const {
    return (a.rank == b.rank && a.queue == b.queue) || transfer(a).destination.rank == transfer(b).destination.rank;
  }

  /// What a transfer moves: 0 what callers supply, 1 what tiles have stored, 2 sums that are handed out.
  int stage(const Place& at) const {
    if (transfer(at).destination.buffer == reduced_buffer(plan_)) return 2;
    return written_[static_cast<std::size_t>(transfer(at).source.buffer)] ? 1 : 0;
  }

  /// What tiles store leaves when they have had what they read, and a sum when its summands have come; and with each of
  /// these comes all that was before it in its queue. So who waits for the one may have waited for the other.
  bool may_follow(const Place& a, const Place& b) const { return stage(a) != stage(b); }

  /// Into a folded buffer a transfer comes after tiles, and so after all that these have waited for.
  bool wait_for_tiles(const Place& a, const Place& b) const {
    return plan_.buffer(transfer(a).destination.buffer).fold && plan_.buffer(transfer(b).destination.buffer).fold;
  }

  void swap_transfers() {
    for_each_pair_of_a_rank([&](const Place& a, const Place& b) {
      add("swap transfers", fmt::format("{} and {} change places", name(a), name(b)), true,
          [a, b](Plan& plan) { std::swap(transfer_at(plan, a), transfer_at(plan, b)); });
      // What stays behind are the waits and the signals: the wrong chunk is announced.
      add("swap chunks", fmt::format("{} and {} exchange what they move", name(a), name(b)), alike(a, b),
          [a, b](Plan& plan) {
            std::swap(transfer_at(plan, a).source, transfer_at(plan, b).source);
            std::swap(transfer_at(plan, a).destination, transfer_at(plan, b).destination);
          });
    });
  }

  void swap_signals() {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      for (std::size_t j = i + 1; j < places_.size(); ++j) {
        const Place a = places_[i];
        const Place b = places_[j];
        if (transfer(a).signals == transfer(b).signals) continue;
        add("swap signals", fmt::format("{} and {} exchange their signals", name(a), name(b)),
            alike(a, b) || may_follow(a, b) || wait_for_tiles(a, b),
            [a, b](Plan& plan) { std::swap(transfer_at(plan, a).signals, transfer_at(plan, b).signals); });
      }
    }
  }

  void reorder_queues() {
    for (std::size_t rank = 0; rank < plan_.programs.size(); ++rank) {
      for (std::size_t q = 0; q < plan_.programs[rank].queues.size(); ++q) {
        if (plan_.programs[rank].queues[q].transfers.size() < 2) continue;
        const Place queue{rank, q, 0};
        add("reorder queue", fmt::format("queue {} of rank {} runs backwards", q, rank), true,
            [queue](Plan& plan) { std::reverse(queue_at(plan, queue).begin(), queue_at(plan, queue).end()); });
        add("reorder queue", fmt::format("the first transfer of queue {} of rank {} comes last", q, rank), true,
            [queue](Plan& plan) {
              std::rotate(queue_at(plan, queue).begin(), queue_at(plan, queue).begin() + 1,
                          queue_at(plan, queue).end());
            });
      }
    }
  }

  void shift_chunk(const Place& at) {
    const Region& region = transfer(at).destination.region;
    if (region.dimensions() == 0) return;
    struct Way {
      const char* what;
      bool source;
      bool destination;
    };
    constexpr Way kWays[] = {{"reads from", true, false}, {"writes to", false, true}, {"moves", true, true}};
    std::vector<std::int64_t> distances = {1, -1};
    if (const std::int64_t chunk = region[0].size(); chunk > 1) distances.insert(distances.end(), {chunk, -chunk});
    for (const Way& way : kWays) {
      for (const std::int64_t distance : distances) {
        const auto shift = [distance](Region& moved) {
          moved[0] = {moved[0].begin + distance, moved[0].end + distance};
        };
        add("shift chunk", fmt::format("{} {} a region {} rows further", name(at), way.what, distance), false,
            [at, way, shift](Plan& plan) {
              if (way.source) shift(transfer_at(plan, at).source.region);
              if (way.destination) shift(transfer_at(plan, at).destination.region);
            });
      }
    }
  }

  void shrink_chunk(const Place& at) {
    for (int d = 0; d < transfer(at).destination.region.dimensions(); ++d) {
      add("shrink chunk", fmt::format("{} leaves out the last index of dimension {}", name(at), d), false,
          [at, d](Plan& plan) {
            --transfer_at(plan, at).source.region[d].end;
            --transfer_at(plan, at).destination.region[d].end;
          });
      add("shrink chunk", fmt::format("{} leaves out the first index of dimension {}", name(at), d), false,
          [at, d](Plan& plan) {
            ++transfer_at(plan, at).source.region[d].begin;
            ++transfer_at(plan, at).destination.region[d].begin;
          });
    }
  }

  void retarget(const Place& at) {
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      if (rank != transfer(at).destination.rank)
        add("retarget", fmt::format("{} goes to rank {}", name(at), rank), false,
            [at, rank](Plan& plan) { transfer_at(plan, at).destination.rank = rank; });
      if (rank != transfer(at).source.rank)  // a rank that has the chunk early enough would do as well
        add("retarget", fmt::format("{} comes from rank {}", name(at), rank), true,
            [at, rank](Plan& plan) { transfer_at(plan, at).source.rank = rank; });
    }
  }

  void drop_or_duplicate(const Place& at) {
    add("drop transfer", fmt::format("{} is left out", name(at)), false,
        [at](Plan& plan) { erase_at(queue_at(plan, at), at.position); });
    add("drop transfer", fmt::format("{} moves nothing, but waits and signals", name(at)), false, [at](Plan& plan) {
      if (Transfer& t = transfer_at(plan, at); t.source.region.dimensions() > 0)
        t.source.region[0].end = t.destination.region[0].end = t.source.region[0].begin;
    });
    // Room that may be filled again may be so twice by the same, if nobody waits for either.
    const bool harmless =
        transfer(at).signals.empty() && plan_.buffer(transfer(at).destination.buffer).role == BufferRole::staging;
    add("duplicate transfer", fmt::format("{} comes twice", name(at)), harmless, [at](Plan& plan) {
      std::vector<Transfer>& transfers = queue_at(plan, at);
      transfers.insert(transfers.begin() + static_cast<std::ptrdiff_t>(at.position), Transfer(transfers[at.position]));
    });
    add("duplicate transfer", fmt::format("{} comes twice, the second time without signals", name(at)), harmless,
        [at](Plan& plan) {
          std::vector<Transfer>& transfers = queue_at(plan, at);
          Transfer again = transfers[at.position];
          again.signals.clear();
          transfers.insert(transfers.begin() + static_cast<std::ptrdiff_t>(at.position) + 1, std::move(again));
        });
  }

  void reorder_tiles() {
    for (std::size_t rank = 0; rank < plan_.programs.size(); ++rank) {
      const std::size_t count = plan_.programs[rank].slots.size();
      for (std::size_t s = 0; s + 1 < count; ++s)
        add("reorder tiles", fmt::format("slot {} of rank {} comes last", s, rank), true, [rank, s](Plan& plan) {
          std::vector<Slot>& slots = plan.programs[rank].slots;
          const auto at = slots.begin() + static_cast<std::ptrdiff_t>(s);
          std::rotate(at, at + 1, slots.end());
        });
      for (std::size_t s = 0; s + 1 < count; ++s)
        add("reorder tiles", fmt::format("the tiles of slots {} and {} of rank {} change places", s, s + 1, rank), true,
            [rank, s](Plan& plan) {
              std::swap(plan.programs[rank].slots[s].tile, plan.programs[rank].slots[s + 1].tile);
            });
      if (count < 2) continue;
      add("reorder tiles", fmt::format("rank {} runs its tiles backwards", rank), true,
          [rank](Plan& plan) { std::reverse(plan.programs[rank].slots.begin(), plan.programs[rank].slots.end()); });
      add("drop tile", fmt::format("rank {} leaves out its last tile", rank), false,
          [rank](Plan& plan) { plan.programs[rank].slots.pop_back(); });
      if (plan_.programs[rank].slots[0].tile == plan_.programs[rank].slots[1].tile) continue;
      add("repeat tile", fmt::format("rank {} runs the tile of slot 0 in slot 1 as well", rank), false,
          [rank](Plan& plan) { plan.programs[rank].slots[1].tile = plan.programs[rank].slots[0].tile; });
    }
  }

  void change_workers() {
    if (plan_.workers > 1) add("change workers", "one worker less", true, [](Plan& plan) { --plan.workers; });
    if (plan_.workers > 2) add("change workers", "a single worker", true, [](Plan& plan) { plan.workers = 1; });
    add("change workers", "one worker more", true, [](Plan& plan) { ++plan.workers; });
  }

  void change_walks() {
    for (std::size_t rank = 0; rank < plan_.programs.size(); ++rank)
      for (std::size_t s = 0; s < plan_.programs[rank].slots.size(); ++s) change_walk(rank, s);
  }

  void change_walk(std::size_t rank, std::size_t slot) {
    const auto steps_of = [rank, slot](Plan& plan) -> std::vector<LoopStep>& {
      return plan.programs[rank].slots[slot].steps;
    };
    const Slot& about = plan_.programs[rank].slots[slot];
    for (std::size_t i = 0; i < about.steps.size(); ++i) {
      const std::string name = fmt::format("step {} of slot {} of rank {}", i, slot, rank);
      const auto at = static_cast<std::ptrdiff_t>(i);
      add("drop step", name + " is left out", false,
          [=](Plan& plan) { steps_of(plan).erase(steps_of(plan).begin() + at); });
      add("repeat step", name + " comes twice", false,
          [=](Plan& plan) { steps_of(plan).insert(steps_of(plan).begin() + at, LoopStep(steps_of(plan)[i])); });
      if (i + 1 == about.steps.size()) continue;
      if (!about.steps[i].waits.empty())
        add("late wait", name + " leaves its waits to the next one", false, [=](Plan& plan) {
          std::vector<LoopStep>& steps = steps_of(plan);
          std::vector<Wait>& next = steps[i + 1].waits;
          next.insert(next.begin(), steps[i].waits.begin(), steps[i].waits.end());
          steps[i].waits.clear();
        });
      add("swap steps", name + " and the next one change places, not their waits", true,
          [=](Plan& plan) { std::swap(steps_of(plan)[i].piece, steps_of(plan)[i + 1].piece); });
    }
  }

  void change_additions() {
    for (std::size_t rank = 0; rank < plan_.programs.size(); ++rank)
      for (std::size_t a = 0; a < plan_.programs[rank].additions.size(); ++a) change_addition(rank, a);
  }

  void change_addition(std::size_t rank, std::size_t a) {
    const auto additions = [rank](Plan& plan) -> std::vector<Addition>& { return plan.programs[rank].additions; };
    const std::string name = fmt::format("addition {} of rank {}", a, rank);
    const auto at = static_cast<std::ptrdiff_t>(a);
    const auto workers = static_cast<std::size_t>(plan_.workers);
    const std::size_t count = plan_.programs[rank].additions.size();
    add("drop addition", name + " is left out", false,
        [=](Plan& plan) { additions(plan).erase(additions(plan).begin() + at); });
    add("repeat addition", name + " comes twice", false,
        [=](Plan& plan) { additions(plan).insert(additions(plan).begin() + at, Addition(additions(plan)[a])); });
    for (int d = 0; d < plan_.programs[rank].additions[a].region.dimensions(); ++d)
      for (const std::int64_t distance : {1, -1})
        add("move addition", fmt::format("{} is {} further in dimension {}", name, distance, d), false,
            [=](Plan& plan) {
              Range& range = additions(plan)[a].region[d];
              range = {range.begin + distance, range.end + distance};
            });
    if (a + workers < count && !plan_.programs[rank].additions[a].waits.empty())
      add("late wait", name + " leaves its waits to the next one", false, [=](Plan& plan) {
        std::vector<Wait>& waits = additions(plan)[a].waits;
        std::vector<Wait>& next = additions(plan)[a + workers].waits;
        next.insert(next.begin(), waits.begin(), waits.end());
        waits.clear();
      });
    if (a + 1 < count)
      add("swap additions", name + " and the next one change places, not their waits", true,
          [=](Plan& plan) { std::swap(additions(plan)[a].region, additions(plan)[a + 1].region); });
  }

  const Plan& plan_;
  const std::vector<bool> written_;  ///< per buffer
  std::vector<Place> places_;
  std::vector<Mutant> mutants_;
};

}  // namespace

std::vector<Mutant> all_mutants(const Plan& plan) { return Mutator(plan).run(); }

const std::vector<std::string>& mutation_kinds() {
  static const std::vector<std::string> kKinds = {
      "drop wait",     "drop raise",         "lower threshold", "lower count", "raise count",   "swap transfers",
      "swap chunks",   "swap signals",       "reorder queue",   "shift chunk", "shrink chunk",  "retarget",
      "drop transfer", "duplicate transfer", "reorder tiles",   "repeat tile", "drop tile",     "change workers",
      "drop step",     "repeat step",        "late wait",       "swap steps",  "drop addition", "repeat addition",
      "move addition", "swap additions"};
  return kKinds;
}

}  // namespace syncopate::testing
