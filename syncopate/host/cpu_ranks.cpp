#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "syncopate/core/text.h"
#include "syncopate/host/caller.h"
#include "syncopate/host/deadlock.h"
#include "syncopate/host/failure.h"
#include "syncopate/host/host.h"
#include "syncopate/host/queue_agent.h"
#include "syncopate/host/unfused.h"
#include "syncopate/host/worker_agent.h"
#include "syncopate/host/world.h"
#include "syncopate/plan/difference.h"
#include "syncopate/plan/references.h"
#include "syncopate/plan/sums.h"

namespace syncopate::host {
namespace {

/// Compares the outputs of launches as they come and keeps the last launch that every rank has completed.
class Results {
 public:
  explicit Results(World& world) : world_(world) {
    if (world.options.compare) local_.emplace(world.plan);
  }

  void take(int rank, std::int64_t launch, std::vector<Bytes> outputs) {
    const std::vector<Bytes>& inputs = world_.inputs(rank, launch);
    Launch& entry = open_[launch];
    if (world_.options.compare) {
      const std::vector<Bytes> expected = expected_outputs(entry, rank, launch);
      if (const auto difference = first_difference(world_.plan, rank, launch, outputs, expected))
        throw Failure(Outcome::wrong_result, *difference);
    }
    entry.data.inputs.resize(static_cast<std::size_t>(world_.plan.ranks));
    entry.data.outputs.resize(static_cast<std::size_t>(world_.plan.ranks));
    entry.data.inputs[static_cast<std::size_t>(rank)] = inputs;
    entry.data.outputs[static_cast<std::size_t>(rank)] = std::move(outputs);
    if (++entry.ranks < world_.plan.ranks) return;
    world_.report.last = std::move(entry.data);
    open_.erase(launch);
    world_.drop_inputs(launch);
  }

 private:
  struct Launch {
    int ranks = 0;
    LaunchData data;
    std::vector<std::vector<Bytes>> expected;  ///< [rank][buffer], where one rank's depends on all ranks' inputs
  };

  /// Whether what a rank has in the end depends on what other ranks compute.
  static bool outputs_leave(const Plan& plan) {
    return std::any_of(plan.buffers.begin(), plan.buffers.end(),
                       [](const Buffer& buffer) { return buffer.is_reduced() || buffer.role == BufferRole::result; });
  }

  std::vector<Bytes> expected_outputs(Launch& entry, int rank, std::int64_t launch) {
    if (!outputs_leave(world_.plan)) return run_local(rank, launch);
    if (entry.expected.empty()) {
      std::vector<std::vector<Bytes>> unfused;
      for (int other = 0; other < world_.plan.ranks; ++other) unfused.push_back(run_local(other, launch));
      entry.expected = operator_outputs(world_.plan, std::move(unfused));
    }
    return std::move(entry.expected[static_cast<std::size_t>(rank)]);
  }

  std::vector<Bytes> run_local(int rank, std::int64_t launch) {
    const std::vector<Bytes>& inputs = world_.inputs(rank, launch);
    std::vector<Bytes> outputs = local_->run(world_.plan, rank, inputs);
    if (launch == 1 && !world_.plan.kernel.streamed_loops.empty())
      note_order(order_difference(world_.plan, rank, outputs, local_->run_as_written(world_.plan, rank, inputs)));
    return outputs;
  }

  /// The order of a loop that only accumulates shows in rounding and nowhere else.
  void note_order(OrderDifference found) {
    if (!found.is_rounding())
      throw Failure(Outcome::wrong_result,
                    fmt::format("{}; rounding may make them differ by {:.3g}: the streamed loop does more than "
                                "accumulate, so its annotation 'streamed_loop' is wrong",
                                found.where, found.allowed));
    std::optional<OrderDifference>& worst = world_.report.order;
    if (!worst || worst->where.empty() || found.difference * worst->allowed > worst->difference * found.allowed)
      worst = std::move(found);
  }

  World& world_;
  std::optional<LocalKernel> local_;
  std::map<std::int64_t, Launch> open_;
};

/// All agents, and the loop that moves them.
class Agents {
 public:
  Agents(World& world, Results& results, const std::shared_ptr<const Program>& fused)
      : world_(world), running_(static_cast<std::size_t>(world.plan.ranks), 0) {
    for (int rank = 0; rank < world.plan.ranks; ++rank) {
      callers_.emplace_back(world, rank, [&results](int from, std::int64_t launch, std::vector<Bytes> outputs) {
        results.take(from, launch, std::move(outputs));
      });
      world.scheduler.add(world.layout.caller(rank));
    }
    children_.resize(static_cast<std::size_t>(world.layout.count()));
    for (int agent = 0; agent < world.layout.count(); ++agent) {
      if (world.layout.at(agent).kind == AgentKind::caller) continue;
      Child& child = children_[static_cast<std::size_t>(agent)];
      if (world.layout.at(agent).kind == AgentKind::queue) {
        child.queue = std::make_unique<QueueAgent>(world, agent);
      } else {
        child.worker = std::make_unique<WorkerAgent>(world, agent, fused);
      }
      world.suspend(agent, {Pending::Kind::launch});
    }
  }

  void run() {
    while (!world_.scheduler.idle()) {
      ++world_.report.steps;
      const int agent = world_.scheduler.pick();
      if (world_.layout.at(agent).kind == AgentKind::caller) {
        step_caller(agent);
      } else {
        step_child(agent);
      }
    }
    for (int rank = 0; rank < world_.plan.ranks; ++rank)
      if (world_.pending(world_.layout.caller(rank)).kind != Pending::Kind::ended)
        throw Failure(Outcome::deadlock, describe_deadlock(world_));
  }

 private:
  struct Child {
    std::unique_ptr<QueueAgent> queue;
    std::unique_ptr<WorkerAgent> worker;
  };

  void step_caller(int agent) {
    const int rank = world_.layout.at(agent).rank;
    if (callers_[static_cast<std::size_t>(rank)].step() == Caller::Action::start_children) start_children(rank);
  }

  void start_children(int rank) {
    const int caller = world_.layout.caller(rank);
    const std::int64_t launch = world_.launch(rank);
    const Clock known = world_.history.release(caller);
    world_.memory.set_epoch(rank, launch);
    for (int agent = world_.layout.first_child(rank); agent < world_.layout.last_child(rank); ++agent) {
      world_.history.join(agent, known);
      Child& child = children_[static_cast<std::size_t>(agent)];
      if (child.queue) {
        child.queue->start(launch);
      } else {
        child.worker->start(launch);
      }
      world_.resume(agent);
      ++running_[static_cast<std::size_t>(rank)];
    }
    world_.suspend(caller, {Pending::Kind::children});
  }

  void step_child(int agent) {
    Child& child = children_[static_cast<std::size_t>(agent)];
    if (!(child.queue ? child.queue->step() : child.worker->step())) return;
    const int rank = world_.layout.at(agent).rank;
    const int caller = world_.layout.caller(rank);
    world_.history.join(caller, world_.history.release(agent));
    world_.suspend(agent, {Pending::Kind::launch});
    if (--running_[static_cast<std::size_t>(rank)] == 0) world_.resume(caller);
  }

  World& world_;
  std::deque<Caller> callers_;
  std::vector<Child> children_;  ///< by agent; empty for callers
  std::vector<int> running_;     ///< per rank: children that are not done
};

/// A signal that is not raised as often as it says starves or misleads a wait of some later launch, even if no wait of
/// this run noticed.
void check_signal_counts(const World& world) {
  for (std::size_t signal = 0; signal < world.plan.signals.size(); ++signal) {
    const std::int64_t stated = world.plan.signals[signal].per_launch;
    const auto raised = static_cast<std::int64_t>(world.signals.raisers(static_cast<int>(signal)).size());
    if (raised == stated) continue;
    throw Failure(raised < stated ? Outcome::deadlock : Outcome::race,
                  fmt::format("{} is raised {} in a launch, not {}: {}",
                              world.describer.signal(static_cast<int>(signal)), count_of(raised, "time"), stated,
                              raised < stated ? "sooner or later a wait for it never ends"
                                              : "sooner or later a wait for it ends too early"));
  }
}

/// Memory that is not there would be noticed by the system, which ends programs without a word.
void check_memory(const Plan& plan) {
  const std::int64_t there = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE);
  std::int64_t needed = 0;
  for (const Buffer& buffer : plan.buffers) {
    needed += volume(memory_shape(buffer)) * size_in_bytes(buffer.dtype) * plan.ranks;
    if (needed > there)
      throw UserError({},
                      fmt::format("CPU ranks need at least {} for the tensors of {}, and this machine has {}",
                                  format_bytes(needed), count_of(plan.ranks, "rank"), format_bytes(there)),
                      "use smaller sizes or fewer ranks");
  }
}

}  // namespace
}  // namespace syncopate::host

namespace syncopate {

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::right:
      return "right";
    case Outcome::deadlock:
      return "deadlock";
    case Outcome::race:
      return "race";
    case Outcome::bad_access:
      return "bad access";
    case Outcome::wrong_result:
      return "wrong result";
  }
  throw InternalError("outcome without a name");
}

RunReport run_on_cpu_ranks(const Plan& plan, const RunOptions& options) {
  check_internal(options.repeat >= 1, "a run needs at least one launch");
  if (const auto problem = broken_reference(plan)) {
    RunReport report;
    report.outcome = Outcome::bad_access;
    report.message = *problem;
    return report;
  }
  host::check_memory(plan);
  const KernelPart& kernel = plan.kernel;
  const auto fused = host::load_program("fused.py", kernel.fused_source, kernel.fused_function);
  host::World world(plan, options);
  try {
    host::Results results(world);
    host::Agents agents(world, results, fused);
    agents.run();
    host::check_signal_counts(world);
  } catch (const host::Failure& failure) {
    world.report.outcome = failure.outcome();
    world.report.message = failure.what();
  }
  return std::move(world.report);
}

}  // namespace syncopate
