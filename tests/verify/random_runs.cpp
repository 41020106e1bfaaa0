#include "tests/verify/random_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <vector>

namespace syncopate::testing {

namespace {

constexpr int kLaunches = 4;
constexpr int kPriorityChanges = 3;

struct Element {
  int launch = 0;  ///< whose data it holds; 0: none yet
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
  bool begun = false;        ///< the step at `position` has begun
  std::mt19937::result_type priority = 0;
};

class Run {
 public:
  Run(const Plan& plan, std::uint32_t seed) : plan_(plan), random_(seed) {
    values_.assign(plan.signals.size(), 0);
    memory_.resize(static_cast<std::size_t>(plan.ranks));
    for (auto& rank : memory_)
      for (const Buffer& buffer : plan.buffers) rank.emplace_back(static_cast<std::size_t>(volume(buffer.shape)));
    for (int rank = 0; rank < plan.ranks; ++rank) {
      agents_.push_back({Agent::Kind::caller, rank, 0, 0, 0, false, random_()});
      const RankProgram& program = program_of(rank);
      for (std::size_t q = 0; q < program.queues.size(); ++q)
        agents_.push_back({Agent::Kind::queue, rank, q, 0, 0, false, random_()});
      for (std::size_t w = 0; w < static_cast<std::size_t>(plan.workers) && w < program.slots.size(); ++w)
        agents_.push_back({Agent::Kind::worker, rank, w, 0, w, false, random_()});
    }
  }

  std::string run() {
    const std::size_t steps = agents_.size() * 40;
    std::vector<std::size_t> changes;
    for (int c = 0; c < kPriorityChanges; ++c) changes.push_back(random_() % steps);
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
  const RankProgram& program_of(int rank) const { return plan_.programs[static_cast<std::size_t>(rank)]; }
  const Transfer& transfer_of(const Agent& queue) const {
    return program_of(queue.rank).queues[queue.number].transfers[queue.position];
  }
  const Slot& slot_of(const Agent& worker) const { return program_of(worker.rank).slots[worker.position]; }

  bool is_done(const Agent& part) const {
    if (part.kind == Agent::Kind::queue)
      return part.position >= program_of(part.rank).queues[part.number].transfers.size();
    return part.position >= program_of(part.rank).slots.size();
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
               (agent.begun || satisfied(transfer_of(agent).waits, agent.launch));
      case Agent::Kind::worker:
        return agent.launch > 0 && !is_done(agent) && (agent.begun || satisfied(slot_of(agent).waits, agent.launch));
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
      if (element.written || element.launch >= launch) fail(who, launch, access, "is filled twice");
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
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Access held{caller.rank, static_cast<int>(b), plan_.buffers[b].held[static_cast<std::size_t>(caller.rank)]};
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

  /// What the launch must have brought is there, and nobody is at work in the buffers of the rank any more.
  void check_complete(const Agent& caller) {
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
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
    queue.begun = !queue.begun;
    if (queue.begun) {
      begin_read(who, queue.launch, source);
      begin_write(who, queue.launch, destination);
    } else {
      end_read(source);
      end_write(queue.launch, destination);
      raise(transfer.signals);
      ++queue.position;
    }
  }

  void step_worker(Agent& worker) {
    const Slot& slot = slot_of(worker);
    const Tile& tile = plan_.tiles[static_cast<std::size_t>(slot.tile)];
    const std::string who = fmt::format("tile {}", slot.tile);
    worker.begun = !worker.begun;
    for (const TileAccess& read : tile.reads) {
      if (worker.begun)
        begin_read(who, worker.launch, {worker.rank, read.buffer, read.region});
      else
        end_read({worker.rank, read.buffer, read.region});
    }
    for (const TileAccess& write : tile.writes) {
      if (worker.begun)
        begin_write(who, worker.launch, {worker.rank, write.buffer, write.region});
      else
        end_write(worker.launch, {worker.rank, write.buffer, write.region});
    }
    if (!worker.begun) worker.position += static_cast<std::size_t>(plan_.workers);
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
  std::vector<std::int64_t> values_;
  std::vector<std::vector<std::vector<Element>>> memory_;  // [rank][buffer][element]
  std::vector<Agent> agents_;
  std::string error_;
};

}  // namespace

std::string run_at_random(const Plan& plan, std::uint32_t seed) { return Run(plan, seed).run(); }

}  // namespace syncopate::testing
