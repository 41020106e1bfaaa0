#include "tests/verify/random_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace syncopate::testing {

namespace {

constexpr int kLaunches = 4;
constexpr std::uint32_t kFewestChanges = 3;  ///< of priorities; some runs have many
constexpr std::uint32_t kMostChanges = 18;

/// What a number of a reduced tensor is made of: the summand of a rank for an element, or a sum of such. Equal ones
/// have equal numbers.
class Values {
 public:
  int summand(int rank, std::int64_t element) { return number({{-1, rank, element}}); }
  int sum(const std::vector<int>& terms) {
    std::vector<Term> key;
    for (const int term : terms) key.push_back({term, 0, 0});
    return number(key);
  }

 private:
  using Term = std::tuple<int, int, std::int64_t>;
  int number(const std::vector<Term>& key) {
    return numbers_.try_emplace(key, static_cast<int>(numbers_.size())).first->second;
  }
  std::map<std::vector<Term>, int> numbers_;
};

struct Element {
  int launch = 0;  ///< whose data it holds; 0: none yet
  int value = 0;   ///< of a reduced tensor or a staging buffer
  int readers = 0;
  bool written = false;  ///< a write has begun and not ended
};

struct Access {
  int rank = 0;
  int buffer = 0;
  Region region;
};

struct Agent {
  enum class Kind : std::uint8_t { caller, queue, worker };
  Kind kind = Kind::caller;
  int rank = 0;
  std::size_t number = 0;
  int launch = 0;            ///< callers and parts alike: the launch they are in; 0: none
  std::size_t position = 0;  ///< next transfer or slot; of a caller: 1 between start and completion
  int phase = 0;             ///< of the step at `position`; 0: it has not begun
  std::vector<int> pending;  ///< raises of slots, yet to be made
  std::vector<int> values;   ///< what the present step is about to write, in the order of its elements
  std::mt19937::result_type priority = 0;
};

class Run {
 public:
  Run(const Plan& plan, std::uint32_t seed)
      : plan_(plan), random_(seed), changes_(seed % 2 == 0 ? kFewestChanges : kMostChanges) {
    values_.assign(plan.signals.size(), 0);
    memory_.resize(static_cast<std::size_t>(plan.ranks));
    for (auto& rank : memory_)
      for (const Buffer& buffer : plan.buffers) rank.emplace_back(static_cast<std::size_t>(volume(buffer.shape)));
    for (int rank = 0; rank < plan.ranks; ++rank) {
      add_agent(Agent::Kind::caller, rank, 0);
      const RankProgram& program = program_of(rank);
      for (std::size_t q = 0; q < program.queues.size(); ++q) add_agent(Agent::Kind::queue, rank, q);
      for (std::size_t w = 0; w < static_cast<std::size_t>(plan.workers) && w < program.slots.size(); ++w)
        add_agent(Agent::Kind::worker, rank, w);
    }
    staging_ = staging_buffer(plan);
    reduced_ = reduced_buffer(plan);
    late_ = random_() % 2 == 0;
  }

  std::string run() {
    const std::size_t steps = agents_.size() * 40;
    std::vector<std::size_t> changes;
    for (std::uint32_t c = 0; c < changes_; ++c) changes.push_back(random_() % steps);
    for (std::size_t step = 0; error_.empty(); ++step) {
      if (std::find(changes.begin(), changes.end(), step) != changes.end())
        agents_[random_() % agents_.size()].priority = random_();
      Agent* next = nullptr;
      for (Agent& agent : agents_)
        if ((next == nullptr || agent.priority > next->priority) && can_step(agent)) next = &agent;
      if (next == nullptr) break;
      take_step(*next);
    }
    if (error_.empty()) check_end();
    return error_;
  }

 private:
  void add_agent(Agent::Kind kind, int rank, std::size_t number) {
    Agent agent;
    agent.kind = kind;
    agent.rank = rank;
    agent.number = number;
    agent.position = kind == Agent::Kind::worker ? number : 0;
    agent.priority = random_();
    agents_.push_back(std::move(agent));
  }

  const RankProgram& program_of(int rank) const { return plan_.programs[static_cast<std::size_t>(rank)]; }
  const Transfer& transfer_of(const Agent& queue) const {
    return program_of(queue.rank).queues[queue.number].transfers[queue.position];
  }
  const Slot& slot_of(const Agent& worker) const { return program_of(worker.rank).slots[worker.position]; }

  bool is_done(const Agent& part) const {
    if (part.kind == Agent::Kind::queue)
      return part.position >= program_of(part.rank).queues[part.number].transfers.size();
    return part.position >= program_of(part.rank).slots.size() && part.pending.empty();
  }

  /// Whether the worker has to raise what is pending: it comes to waits, or to its end.
  bool must_raise(const Agent& worker) const {
    if (worker.pending.empty()) return false;
    if (worker.position >= program_of(worker.rank).slots.size()) return true;
    return !next_waits(worker).empty();
  }

  /// What the worker waits for before its slot's next phase: waits before the tile, of each step, before it adds.
  const std::vector<Wait>& next_waits(const Agent& worker) const {
    static const std::vector<Wait> kNone;
    const Slot& slot = slot_of(worker);
    const auto phase = static_cast<std::size_t>(worker.phase);
    if (phase == 0) return slot.waits;
    if (phase <= slot.steps.size()) return slot.steps[phase - 1].waits;
    return phase == slot.steps.size() + 1 ? slot.sum_waits : kNone;
  }

  bool worker_can_step(const Agent& worker) const {
    if (worker.launch == 0 || is_done(worker)) return false;
    return must_raise(worker) || satisfied(next_waits(worker), worker.launch);
  }

  bool satisfied(const std::vector<Wait>& waits, int launch) const {
    return std::all_of(waits.begin(), waits.end(), [&](const Wait& wait) {
      const auto signal = static_cast<std::size_t>(wait.signal);
      return values_[signal] >= plan_.signals[signal].per_launch * (launch - 1) + wait.threshold;
    });
  }

  bool parts_are_done(int rank) const {
    return std::all_of(agents_.begin(), agents_.end(), [&](const Agent& agent) {
      return agent.kind == Agent::Kind::caller || agent.rank != rank || is_done(agent);
    });
  }

  bool can_step(const Agent& agent) const {
    switch (agent.kind) {
      case Agent::Kind::caller:
        if (agent.position == 0) return agent.launch < kLaunches;
        return parts_are_done(agent.rank) && satisfied(program_of(agent.rank).completion_waits, agent.launch);
      case Agent::Kind::queue:
        return agent.launch > 0 && !is_done(agent) &&
               (agent.phase > 0 || satisfied(transfer_of(agent).waits, agent.launch));
      case Agent::Kind::worker:
        return worker_can_step(agent);
    }
    return false;
  }

  void raise(const std::vector<int>& signals) {
    for (const int signal : signals) ++values_[static_cast<std::size_t>(signal)];
  }

  void fail(std::string_view who, int launch, const Access& access, std::string_view what) {
    if (error_.empty())
      error_ = fmt::format("{} in launch {}: {}{} on rank {} {}", who, launch, plan_.buffer(access.buffer).name,
                           access.region.to_string(), access.rank, what);
  }

  template <typename Visitor>
  void for_each_element(const Access& access, Visitor&& visit) {
    auto& elements = memory_[static_cast<std::size_t>(access.rank)][static_cast<std::size_t>(access.buffer)];
    for_each_run(access.region, plan_.buffer(access.buffer).shape, [&](std::int64_t offset, std::int64_t count) {
      for (std::int64_t i = offset; i < offset + count; ++i) visit(elements[static_cast<std::size_t>(i)]);
    });
  }

  void begin_read(std::string_view who, int launch, const Access& access) {
    for_each_element(access, [&](Element& element) {
      if (element.written || element.launch != launch) fail(who, launch, access, "is not there, or is there no more");
      ++element.readers;
    });
  }
  void end_read(const Access& access) {
    for_each_element(access, [](Element& element) { --element.readers; });
  }
  void begin_write(std::string_view who, int launch, const Access& access) {
    for_each_element(access, [&](Element& element) {
      // Staging memory may be filled again in a launch; that nothing is lost by it is seen by the sums.
      if (element.written || (element.launch >= launch && access.buffer != staging_))
        fail(who, launch, access, "is filled twice");
      if (element.readers > 0) fail(who, launch, access, "is still being read");
      element.written = true;
    });
  }
  void end_write(int launch, const Access& access) {
    for_each_element(access, [&](Element& element) {
      element.written = false;
      element.launch = launch;
    });
  }
  void write_values(const Access& access, const std::vector<int>& values) {
    std::size_t next = 0;
    for_each_element(access, [&](Element& element) { element.value = values[next++]; });
  }

  void take_step(Agent& agent) {
    switch (agent.kind) {
      case Agent::Kind::caller:
        step_caller(agent);
        break;
      case Agent::Kind::queue:
        step_queue(agent);
        break;
      case Agent::Kind::worker:
        step_worker(agent);
        break;
    }
  }

  void step_caller(Agent& caller) {
    const RankProgram& program = program_of(caller.rank);
    if (caller.position == 1) {
      check_complete(caller);
      raise(program.completion_signals);
      caller.position = 0;
      return;
    }
    ++caller.launch;
    caller.position = 1;
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b)
      for (const Region& box : plan_.buffers[b].held[static_cast<std::size_t>(caller.rank)]) {
        const Access held{caller.rank, static_cast<int>(b), box};
        begin_write("the caller", caller.launch, held);
        end_write(caller.launch, held);
      }
    raise(program.start_signals);
    for (Agent& part : agents_) {
      if (part.rank != caller.rank || part.kind == Agent::Kind::caller) continue;
      part.launch = caller.launch;
      part.position = part.kind == Agent::Kind::worker ? part.number : 0;
    }
  }

  int value_of(const SumOrder& order, std::int64_t element) {
    if (order.terms.empty()) return values_of_sums_.summand(order.rank, element);
    std::vector<int> terms;
    for (const SumOrder& term : order.terms) terms.push_back(value_of(term, element));
    return values_of_sums_.sum(terms);
  }

  /// The outputs of the rank are the sums that the plan says, and everywhere.
  void check_sums(const Agent& caller) {
    const std::vector<Element>& elements =
        memory_[static_cast<std::size_t>(caller.rank)][static_cast<std::size_t>(reduced_)];
    for (const Sum& sum : plan_.sums) {
      if (sum.rank != caller.rank) continue;
      for_each_run(sum.region, plan_.buffer(reduced_).shape, [&](std::int64_t offset, std::int64_t count) {
        for (std::int64_t i = offset; i < offset + count; ++i)
          if (elements[static_cast<std::size_t>(i)].value != value_of(sum.order, i))
            fail("the completion", caller.launch, {caller.rank, reduced_, sum.region}, "is another sum");
      });
    }
  }

  /// What the launch must have brought is there, and nobody is at work in the buffers of the rank any more.
  void check_complete(const Agent& caller) {
    if (reduced_ >= 0) check_sums(caller);
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      if (static_cast<int>(b) == staging_) continue;
      const Buffer& buffer = plan_.buffers[b];
      Region needed = Region::whole(buffer.shape);
      if (buffer.inside.kind == Placement::Kind::shard)
        needed[buffer.inside.dimension] = chunk_of(needed[buffer.inside.dimension], plan_.ranks, caller.rank);
      const Access access{caller.rank, static_cast<int>(b), needed};
      for_each_element(access, [&](Element& element) {
        if (element.launch < caller.launch) fail("the completion", caller.launch, access, "has holes");
        if (element.readers > 0) fail("the completion", caller.launch, access, "is still being read");
      });
    }
    for (const Agent& queue : agents_) {
      if (queue.kind != Agent::Kind::queue || queue.launch > caller.launch) continue;
      const std::vector<Transfer>& transfers = program_of(queue.rank).queues[queue.number].transfers;
      for (std::size_t t = queue.launch < caller.launch ? 0 : queue.position; t < transfers.size(); ++t)
        if (transfers[t].source.rank == caller.rank || transfers[t].destination.rank == caller.rank)
          fail("the completion", caller.launch, {caller.rank, transfers[t].source.buffer, transfers[t].source.region},
               "is still being moved");
    }
  }

  void step_queue(Agent& queue) {
    const Transfer& transfer = transfer_of(queue);
    const Access source{transfer.source.rank, transfer.source.buffer, transfer.source.region};
    const Access destination{transfer.destination.rank, transfer.destination.buffer, transfer.destination.region};
    const std::string who = fmt::format("transfer {}.{}", transfer.operator_rank, transfer.operator_index);
    queue.phase = 1 - queue.phase;
    if (queue.phase == 1) {
      begin_read(who, queue.launch, source);
      begin_write(who, queue.launch, destination);
    } else {
      end_read(source);
      queue.values.clear();
      for_each_element(source, [&](Element& element) { queue.values.push_back(element.value); });
      write_values(destination, queue.values);
      end_write(queue.launch, destination);
      raise(transfer.signals);
      ++queue.position;
    }
  }

  /// A slot in steps: it begins to read; it comes to each of its pieces, and begins to read that; it has waited before
  /// it adds, and begins to add and to store; it ends.
  void step_worker(Agent& worker) {
    if (must_raise(worker)) return raise_pending(worker);
    const Slot& slot = slot_of(worker);
    const Tile& tile = plan_.tiles[static_cast<std::size_t>(slot.tile)];
    const std::string who = fmt::format("tile {}", slot.tile);
    const auto begin_reads = [&](const std::vector<TileAccess>& reads) {
      for (const TileAccess& read : reads) begin_read(who, worker.launch, {worker.rank, read.buffer, read.region});
    };
    const auto end_reads = [&](const std::vector<TileAccess>& reads) {
      for (const TileAccess& read : reads) end_read({worker.rank, read.buffer, read.region});
    };
    const auto piece_of = [&](std::size_t step) -> const LoopPiece& {
      return tile.pieces[static_cast<std::size_t>(slot.steps[step].piece)];
    };
    const auto phase = static_cast<std::size_t>(worker.phase++);
    if (phase >= 2 && phase <= slot.steps.size() + 1) end_reads(piece_of(phase - 2).reads);
    if (phase >= 1 && phase <= slot.steps.size()) return begin_reads(piece_of(phase - 1).reads);
    switch (phase == 0 ? 0 : phase - slot.steps.size()) {
      case 0:
        begin_reads(tile.reads);
        break;
      case 1:
        end_reads(tile.reads);
        for_each_added(worker, [&](const Access& added) { begin_read(who, worker.launch, added); });
        for_each_write(worker, [&](const Access& write) { begin_write(who, worker.launch, write); });
        break;
      default:
        for_each_write(worker, [&](const Access& write) {
          if (write.buffer == reduced_) write_values(write, sums_of(worker, write.region));
          end_write(worker.launch, write);
        });
        for_each_added(worker, [&](const Access& added) { end_read(added); });
        worker.pending.insert(worker.pending.end(), slot.signals.begin(), slot.signals.end());
        worker.phase = 0;
        worker.position += static_cast<std::size_t>(plan_.workers);
        if (!late_ || random_() % 2 == 0) raise_pending(worker);
    }
  }

  void raise_pending(Agent& worker) { raise(std::exchange(worker.pending, {})); }

  Region kept_of(const Slot& slot, const TileAccess& write) const {
    return write.buffer == reduced_ && slot.kept.dimensions() > 0 ? intersect(write.region, slot.kept) : write.region;
  }

  template <typename Visitor>
  void for_each_write(const Agent& worker, Visitor&& visit) {
    const Slot& slot = slot_of(worker);
    for (const TileAccess& write : plan_.tiles[static_cast<std::size_t>(slot.tile)].writes)
      visit(Access{worker.rank, write.buffer, kept_of(slot, write)});
  }

  /// The parts of the staging buffer that a slot adds.
  template <typename Visitor>
  void for_each_added(const Agent& worker, Visitor&& visit) {
    for_each_write(worker, [&](const Access& write) {
      if (write.buffer != reduced_) return;
      for (const Addend& addend : slot_of(worker).addends) {
        Region part = intersect(write.region, addend.target);
        if (part.empty()) continue;
        for (int d = 0; d < part.dimensions(); ++d) {
          const std::int64_t shift = addend.source[d].begin - addend.target[d].begin;
          part[d] = {part[d].begin + shift, part[d].end + shift};
        }
        visit(Access{worker.rank, staging_, part});
      }
    });
  }

  /// The values that the slot stores in `region`, element by element.
  std::vector<int> sums_of(const Agent& worker, const Region& region) {
    const Slot& slot = slot_of(worker);
    const Shape& shape = plan_.buffer(reduced_).shape;
    std::vector<int> sums;
    for_each_run(region, shape, [&](std::int64_t offset, std::int64_t count) {
      for (std::int64_t element = offset; element < offset + count; ++element) {
        std::vector<int> terms;
        for (std::size_t a = 0; a <= slot.addends.size(); ++a) {
          if (static_cast<int>(a) == slot.own_place) terms.push_back(values_of_sums_.summand(worker.rank, element));
          if (a < slot.addends.size()) append_term(terms, worker.rank, slot.addends[a], element);
        }
        sums.push_back(terms.size() == 1 ? terms.front() : values_of_sums_.sum(terms));
      }
    });
    return sums;
  }

  /// Targets and sources are contiguous: their elements come in the same order.
  void append_term(std::vector<int>& terms, int rank, const Addend& addend, std::int64_t element) {
    if (addend.target.empty()) return;
    const std::int64_t within = element - linear_offset(addend.target, plan_.buffer(reduced_).shape);
    if (within < 0 || within >= addend.target.volume()) return;
    const std::int64_t at = linear_offset(addend.source, plan_.buffer(staging_).shape) + within;
    terms.push_back(
        memory_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(staging_)][static_cast<std::size_t>(at)]
            .value);
  }

  void check_end() {
    for (const Agent& agent : agents_)
      if (agent.kind == Agent::Kind::caller && (agent.launch < kLaunches || agent.position != 0))
        error_ = fmt::format("rank {} is stuck in launch {}", agent.rank, agent.launch);
    for (std::size_t s = 0; s < values_.size() && error_.empty(); ++s)
      if (values_[s] != plan_.signals[s].per_launch * kLaunches)
        error_ = fmt::format("signal '{}' ends at {}", plan_.signals[s].name, values_[s]);
  }

  const Plan& plan_;
  std::mt19937 random_;
  std::uint32_t changes_;
  std::vector<std::int64_t> values_;
  std::vector<std::vector<std::vector<Element>>> memory_;  // [rank][buffer][element]
  std::vector<Agent> agents_;
  int reduced_ = -1;
  int staging_ = -1;
  bool late_ = false;  ///< workers raise late as often as not
  Values values_of_sums_;
  std::string error_;
};

}  // namespace

std::string run_at_random(const Plan& plan, std::uint32_t seed) { return Run(plan, seed).run(); }

}  // namespace syncopate::testing
