#include "syncopate/verify/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "syncopate/core/text.h"
#include "syncopate/verify/claim.h"
#include "syncopate/verify/describe.h"

namespace syncopate {

namespace {

Claim deadlock_claim() {
  return Claim("no deadlock",
               "with all workers of a rank resident, every wait is satisfied in the end, whatever the order in which "
               "ranks, queues and workers run.");
}

/// Something that takes steps in order: the caller of a rank, a queue or a worker.
struct Agent {
  enum class Kind : std::uint8_t { caller, queue, worker };
  Kind kind = Kind::caller;
  int rank = 0;
  int number = 0;  ///< of the queue or worker
  int launch = 0;
  /// Transfer in the queue; of a worker its slots, then its additions; caller: 0 before the start, 1 before completion.
  int position = 0;
  std::size_t wait = 0;    ///< next wait of the current step
  std::size_t passed = 0;  ///< of a worker: how many of its slot's lists of waits: before the tile, of its steps
  bool queued = false;     ///< in the list of agents to run
};

class Machine {
 public:
  /// `without_slots`: in the last launch no worker does anything.
  explicit Machine(const PlanIndex& index, bool without_slots = false) : index_(index), without_slots_(without_slots) {
    const auto signals = index.plan().signals.size();
    values_.assign(signals, 0);
    waiting_.resize(signals);
    for (int rank = 0; rank < index.ranks(); ++rank) agents_.push_back({Agent::Kind::caller, rank});
    for (int rank = 0; rank < index.ranks(); ++rank) {
      const RankProgram& program = index.program(rank);
      first_part_.push_back(static_cast<int>(agents_.size()));
      for (std::size_t q = 0; q < program.queues.size(); ++q)
        agents_.push_back({Agent::Kind::queue, rank, static_cast<int>(q)});
      for (int w = 0; w < index.workers_of(rank); ++w) agents_.push_back({Agent::Kind::worker, rank, w});
    }
    first_part_.push_back(static_cast<int>(agents_.size()));
    parts_left_.assign(static_cast<std::size_t>(index.ranks()), 0);
    first_left_ = parts_left_;
    out_of_reach_.resize(parts_left_.size());
  }

  Execution run() {
    go_on();
    Execution execution;
    Claim claim = deadlock_claim();
    const auto stuck = std::find_if(agents_.begin(), agents_.end(), [&](const Agent& agent) {
      return agent.kind == Agent::Kind::caller && agent.launch < kLaunches;
    });
    claim.check(stuck == agents_.end(), [&] { return describe_deadlock(stuck->rank); });
    if (index_.is_dynamic()) check_taken(claim);
    execution.theorem =
        claim.conclude(fmt::format("all {} of {} in {} launches were taken, {} satisfied; a step that is possible "
                                   "stays possible, so every other order ends as well",
                                   count_of(steps_taken_, "step"), count_of(index_.ranks(), "rank"), kLaunches,
                                   count_of(waits_satisfied_, "wait")));
    execution.steps = std::move(steps_);
    return execution;
  }

 private:
  /// Everyone as far as they get.
  void go_on() {
    for (int rank = 0; rank < index_.ranks(); ++rank) wake(rank);
    while (!ready_.empty()) {
      const int agent = ready_.front();
      ready_.pop_front();
      at(agent).queued = false;
      advance(agent);
    }
  }

  /// Whatever a slot waits for when a worker has taken it comes without any slot.
  void check_taken(Claim& claim) const {
    Machine alone(index_, true);
    alone.go_on();
    for (int rank = 0; rank < index_.ranks(); ++rank)
      for (std::size_t s = 0; s < index_.program(rank).slots.size(); ++s) {
        const Slot& slot = index_.program(rank).slots[s];
        for (const LoopStep& step : slot.steps) alone.check_taken(claim, rank, s, step.waits);
        alone.check_taken(claim, rank, s, slot.sum_waits);
      }
  }

  void check_taken(Claim& claim, int rank, std::size_t slot, const std::vector<Wait>& waits) const {
    for (const Wait& wait : waits) {
      const Signal& signal = index_.signal(wait.signal);
      const std::int64_t value = values_[static_cast<std::size_t>(wait.signal)];
      const std::int64_t wanted = signal.per_launch * (kLaunches - 1) + wait.threshold;
      claim.check(value >= wanted, [&] {
        return fmt::format(
            "{}, when a worker has taken it, waits in launch {} for '{}' to reach {}, and without slots that stays at "
            "{}: all workers may have taken slots that wait so, and none is left for those that they wait for",
            describe_event(index_, {Event::Kind::slot, rank, static_cast<int>(slot)}), kLaunches, signal.name, wanted,
            value);
      });
    }
  }

  Agent& at(int agent) { return agents_[static_cast<std::size_t>(agent)]; }
  const Agent& at(int agent) const { return agents_[static_cast<std::size_t>(agent)]; }

  void wake(int agent) {
    if (at(agent).queued) return;
    at(agent).queued = true;
    ready_.push_back(agent);
  }

  int slot_of(const Agent& worker) const { return worker.number + worker.position * index_.stride(); }

  int length_of(const Agent& agent) const {
    if (agent.kind == Agent::Kind::queue) return index_.length_of(index_.queue_agent(agent.rank, agent.number));
    return slots_of(agent) + steps_among(index_.additions(agent.rank).size(), agent);
  }

  /// How many of a rank's slots or additions a worker takes. In a dynamic order there are no additions.
  int steps_among(std::size_t all, const Agent& worker) const {
    const int count = static_cast<int>(all);
    return count <= worker.number ? 0 : (count - worker.number - 1) / index_.stride() + 1;
  }
  int slots_of(const Agent& worker) const { return steps_among(index_.program(worker.rank).slots.size(), worker); }

  /// The addition that an agent comes to next, or -1.
  int addition_of(const Agent& agent) const {
    if (agent.kind != Agent::Kind::worker || agent.position < slots_of(agent)) return -1;
    return agent.number + (agent.position - slots_of(agent)) * index_.stride();
  }

  /// Queues and workers of a rank.
  int parts_of(int rank) const {
    return first_part_[static_cast<std::size_t>(rank) + 1] - first_part_[static_cast<std::size_t>(rank)];
  }

  Event event_of(const Agent& agent) const {
    switch (agent.kind) {
      case Agent::Kind::queue:
        return {Event::Kind::transfer, agent.rank, index_.transfer_at({agent.rank, agent.number, agent.position})};
      case Agent::Kind::worker:
        return {Event::Kind::slot, agent.rank, slot_of(agent)};
      case Agent::Kind::caller:
        return {agent.position == 0 ? Event::Kind::start : Event::Kind::completion, agent.rank, 0};
    }
    throw InternalError("agent without a kind");
  }

  /// The waits that the agent comes to next.
  const std::vector<Wait>& waits_of(const Agent& agent) const {
    static const std::vector<Wait> kNone;
    switch (agent.kind) {
      case Agent::Kind::queue:
        return index_.transfer(event_of(agent).number).waits;
      case Agent::Kind::worker: {
        if (const int addition = addition_of(agent); addition >= 0)
          return index_.additions(agent.rank)[static_cast<std::size_t>(addition)].waits;
        const Slot& slot = index_.slot(agent.rank, slot_of(agent));
        if (agent.passed == 0) return slot.waits;
        return agent.passed <= slot.steps.size() ? slot.steps[agent.passed - 1].waits : slot.sum_waits;
      }
      case Agent::Kind::caller:
        return agent.position == 0 ? kNone : index_.program(agent.rank).completion_waits;
    }
    throw InternalError("agent without a kind");
  }

  std::int64_t expected(const Agent& agent, const Wait& wait) const {
    return index_.signal(wait.signal).per_launch * agent.launch + wait.threshold;
  }

  /// Whether all waits of the agent's step are satisfied; if not, it will be woken when the first of the rest is.
  bool pass_waits(int number) {
    Agent& agent = at(number);
    const std::vector<Wait>& waits = waits_of(agent);
    for (; agent.wait < waits.size(); ++agent.wait) {
      const Wait& wait = waits[agent.wait];
      if (values_[static_cast<std::size_t>(wait.signal)] < expected(agent, wait)) {
        waiting_[static_cast<std::size_t>(wait.signal)].push_back(number);
        return false;
      }
      ++waits_satisfied_;
    }
    agent.wait = 0;
    return true;
  }

  void raise(const std::vector<int>& signals) {
    for (const int signal : signals) {
      ++values_[static_cast<std::size_t>(signal)];
      for (const int agent : std::exchange(waiting_[static_cast<std::size_t>(signal)], {})) wake(agent);
    }
  }

  void advance(int number) {
    if (at(number).kind == Agent::Kind::caller)
      advance_caller(number);
    else
      advance_part(number);
  }

  /// Of a dynamic order: whether workers get as far as this slot while those before it are not all taken.
  bool within_reach(const Agent& agent) const {
    return agent.kind != Agent::Kind::worker || !index_.is_dynamic() ||
           agent.number < first_left_[static_cast<std::size_t>(agent.rank)] + index_.plan().lookahead;
  }

  int part_of_slot(int rank, int slot) const {
    const int queues = static_cast<int>(index_.program(rank).queues.size());
    return first_part_[static_cast<std::size_t>(rank)] + queues + slot % index_.stride();
  }

  /// A slot of a dynamic order is taken; others may come within reach.
  void move_reach(int rank) {
    int& first = first_left_[static_cast<std::size_t>(rank)];
    const int before = first;
    while (first < index_.workers_of(rank) && finished(part_of_slot(rank, first))) ++first;
    if (first == before) return;
    for (const int agent : std::exchange(out_of_reach_[static_cast<std::size_t>(rank)], {})) wake(agent);
  }

  void advance_part(int number) {
    Agent& agent = at(number);
    const int length = length_of(agent);
    while (agent.position < length) {
      if (!within_reach(agent)) return out_of_reach_[static_cast<std::size_t>(agent.rank)].push_back(number);
      if (!pass_waits(number)) return;
      if (addition_of(agent) >= 0) {
        ++steps_taken_;
        ++agent.position;
        continue;
      }
      if (agent.kind == Agent::Kind::worker && agent.passed <= index_.slot(agent.rank, slot_of(agent)).steps.size()) {
        ++agent.passed;
        continue;
      }
      ++steps_taken_;
      const Event event = event_of(agent);
      const bool is_slot = event.kind == Event::Kind::slot;
      if (!is_slot || index_.slots_raise()) steps_.push_back({agent.launch, event});
      agent.passed = 0;
      ++agent.position;
      if (is_slot && index_.is_dynamic()) move_reach(agent.rank);
      raise(is_slot ? index_.slot(event.rank, event.number).signals : index_.transfer(event.number).signals);
    }
    if (--parts_left_[static_cast<std::size_t>(agent.rank)] == 0) wake(agent.rank);
  }

  void advance_caller(int rank) {
    Agent& caller = at(rank);
    while (caller.launch < kLaunches) {
      int& left = parts_left_[static_cast<std::size_t>(rank)];
      if (caller.position == 0) {
        steps_.push_back({caller.launch, event_of(caller)});
        raise(index_.program(rank).start_signals);
        caller.position = 1;
        left = parts_of(rank);
        first_left_[static_cast<std::size_t>(rank)] = 0;
        for (int part = first_part_[static_cast<std::size_t>(rank)];
             part < first_part_[static_cast<std::size_t>(rank) + 1]; ++part) {
          at(part).launch = caller.launch;
          at(part).position = 0;
          const bool idle = without_slots_ && caller.launch + 1 == kLaunches && at(part).kind == Agent::Kind::worker;
          if (!idle) wake(part);
        }
      } else {
        if (left > 0 || !pass_waits(rank)) return;
        steps_.push_back({caller.launch, event_of(caller)});
        raise(index_.program(rank).completion_signals);
        caller.position = 0;
        ++caller.launch;
      }
      ++steps_taken_;
    }
  }

  // What keeps a blocked agent, for the counter-example.

  bool finished(int agent) const { return at(agent).position >= length_of(at(agent)); }

  std::string name_of_step(const Agent& agent) const {
    const int addition = addition_of(agent);
    return addition >= 0 ? describe_addition(index_, agent.rank, addition) : describe_event(index_, event_of(agent));
  }

  /// The agent that has yet to make a raise that `agent` needs, or -1 if nobody will.
  int raiser_for(const Agent& agent, const Wait& wait) const {
    const int launch = wait.threshold > 0 ? agent.launch : agent.launch - 1;
    for (const Raise& raise : index_.raises(wait.signal)) {
      const Event& event = raise.event;
      const Agent& caller = at(event.rank);
      if (caller.launch > launch) continue;  // it has completed that launch
      const bool by_caller = event.kind == Event::Kind::start || event.kind == Event::Kind::completion;
      if (by_caller) {
        if (caller.launch < launch || caller.position <= index_.position_of(event)) return event.rank;
        continue;
      }
      if (caller.launch < launch || caller.position == 0) return event.rank;
      if (const int part = part_of(event); at(part).position <= raise.position) return part;
    }
    return -1;
  }

  /// The queue or worker that a transfer or slot belongs to.
  int part_of(const Event& event) const {
    if (event.kind == Event::Kind::slot) return part_of_slot(event.rank, event.number);
    return first_part_[static_cast<std::size_t>(event.rank)] + index_.place(event.number).queue;
  }

  /// Where in its slot a worker waits, if not before all of it.
  std::string point_in_slot(const Agent& agent) const {
    if (agent.kind != Agent::Kind::worker || agent.passed == 0 || addition_of(agent) >= 0) return "";
    const Slot& slot = index_.slot(agent.rank, slot_of(agent));
    if (agent.passed > slot.steps.size()) return ", before it adds,";
    return fmt::format(", before it {},", describe_step(index_.plan(), slot, agent.passed - 1));
  }

  /// Follows what blocks what until an agent comes again, or until a raise that nobody will make.
  std::string describe_deadlock(int rank) const {
    std::vector<int> seen;
    std::vector<std::string> lines;
    int agent = rank;
    while (std::find(seen.begin(), seen.end(), agent) == seen.end()) {
      seen.push_back(agent);
      const Agent& blocked = at(agent);
      if (blocked.kind == Agent::Kind::caller && parts_left_[static_cast<std::size_t>(blocked.rank)] > 0) {
        const int first = first_part_[static_cast<std::size_t>(blocked.rank)];
        int part = first;
        while (finished(part)) ++part;
        lines.push_back(fmt::format("the completion of rank {} comes after {}", blocked.rank, name_of_step(at(part))));
        agent = part;
        continue;
      }
      if (!within_reach(blocked)) {
        const int first = first_left_[static_cast<std::size_t>(blocked.rank)];
        lines.push_back(fmt::format("{} is more than {} behind slot {}, which comes first", name_of_step(blocked),
                                    count_of(index_.plan().lookahead - 1, "slot"), first));
        agent = part_of_slot(blocked.rank, first);
        continue;
      }
      const Wait& wait = waits_of(blocked)[blocked.wait];
      const Signal& signal = index_.signal(wait.signal);
      const std::string waits =
          fmt::format("{} waits in launch {}{} for '{}' to reach {}", name_of_step(blocked), blocked.launch + 1,
                      point_in_slot(blocked), signal.name, expected(blocked, wait));
      const int raiser = raiser_for(blocked, wait);
      if (raiser < 0) {
        lines.push_back(fmt::format("{}; it is at {} and nobody is left to raise it", waits,
                                    values_[static_cast<std::size_t>(wait.signal)]));
        return fmt::format("a wait for ever: {}", fmt::join(lines, "; "));
      }
      lines.push_back(fmt::format("{}, which comes after {}", waits, name_of_step(at(raiser))));
      agent = raiser;
    }
    const auto first = std::find(seen.begin(), seen.end(), agent) - seen.begin();
    lines.erase(lines.begin(), lines.begin() + first);
    return fmt::format("a cycle of waits: {}", fmt::join(lines, "; "));
  }

  const PlanIndex& index_;
  bool without_slots_;
  std::vector<Agent> agents_;  // callers first, by rank; then queues and workers of each rank
  std::vector<int> first_part_;
  std::vector<int> parts_left_;
  std::vector<int> first_left_;                 // of a dynamic order, per rank: its first slot that is not taken
  std::vector<std::vector<int>> out_of_reach_;  // per rank: slots too far behind that
  std::vector<std::int64_t> values_;
  std::vector<std::vector<int>> waiting_;
  std::deque<int> ready_;
  std::vector<Step> steps_;
  std::int64_t steps_taken_ = 0;
  std::int64_t waits_satisfied_ = 0;
};

}  // namespace

Execution carry_out(const PlanIndex& index) { return Machine(index).run(); }

}  // namespace syncopate
