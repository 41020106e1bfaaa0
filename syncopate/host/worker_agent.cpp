#include "syncopate/host/worker_agent.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "syncopate/host/failure.h"
#include "syncopate/kernel/runtime_names.h"

namespace syncopate::host {
namespace {

constexpr std::int64_t kAdditionColumns = 5;

int runtime_number(const Plan& plan, RuntimeBuffer buffer) {
  return static_cast<int>(plan.buffers.size()) + static_cast<int>(buffer);
}

Arguments fused_arguments(const Plan& plan, int rank) {
  Arguments arguments = kernel_arguments(plan, rank);
  const auto pointer = [&](RuntimeBuffer buffer) { return BufferArgument{runtime_number(plan, buffer), Dtype::int64}; };
  const auto slots = static_cast<std::int64_t>(plan.programs[static_cast<std::size_t>(rank)].slots.size());
  arguments[runtime_parameter::kRank] = std::int64_t{rank};
  arguments[runtime_parameter::kWorldSize] = std::int64_t{plan.ranks};
  arguments[runtime_parameter::kTiles] = pointer(RuntimeBuffer::tiles);
  arguments[runtime_parameter::kTileCount] = slots;
  arguments[runtime_parameter::kWaits] = pointer(RuntimeBuffer::waits);
  arguments[runtime_parameter::kFlags] = pointer(RuntimeBuffer::flags);
  arguments[runtime_parameter::kEpoch] = pointer(RuntimeBuffer::epoch);
  arguments[runtime_parameter::kRecord] = pointer(RuntimeBuffer::record);
  // Nobody counts the time here: a wait that is never satisfied is found as a deadlock.
  arguments[runtime_parameter::kTimeLimit] = std::int64_t{0};
  if (is_dynamic(plan)) {
    arguments[runtime_parameter::kClaims] = pointer(RuntimeBuffer::claims);
    arguments[runtime_parameter::kLookahead] = std::int64_t{plan.lookahead};
  }
  if (slots_raise(plan)) {
    arguments[runtime_parameter::kSignals] = pointer(RuntimeBuffer::signals);
    arguments[runtime_parameter::kPeers] = pointer(RuntimeBuffer::peers);
  }
  if (!plan.kernel.streamed_loops.empty()) arguments[runtime_parameter::kSteps] = pointer(RuntimeBuffer::steps);
  if (const int reduced = reduced_buffer(plan); reduced >= 0 && !sums_in_place(plan)) {
    // Where nothing is added there is no staging buffer, and any pointer does.
    const int staging = staging_buffer(plan) >= 0 ? staging_buffer(plan) : reduced;
    arguments[runtime_parameter::kStaging] = BufferArgument{staging, plan.buffer(staging).dtype};
    arguments[runtime_parameter::kAddends] = pointer(RuntimeBuffer::addends);
    arguments[runtime_parameter::kCut] = cuts_tiles(plan);
  }
  if (const int stack = summands_buffer(plan); stack >= 0) {
    const int result = added_up_buffer(plan);
    arguments[runtime_parameter::kResult] = BufferArgument{result, plan.buffer(result).dtype};
    arguments[runtime_parameter::kSummands] = BufferArgument{stack, plan.buffer(stack).dtype};
    arguments[runtime_parameter::kAdditions] = pointer(RuntimeBuffer::additions);
    arguments[runtime_parameter::kAdditionCount] =
        static_cast<std::int64_t>(plan.programs[static_cast<std::size_t>(rank)].additions.size());
  }
  return arguments;
}

}  // namespace

Arguments kernel_arguments(const Plan& plan, int rank) {
  Arguments arguments;
  for (const auto& [name, scalar] : arguments_of(plan.kernel, rank))
    std::visit([&, &name = name](auto value) { arguments[name] = value; }, scalar);
  for (std::size_t buffer = 0; buffer < plan.buffers.size(); ++buffer)
    if (plan.buffers[buffer].role == BufferRole::kernel)
      arguments[plan.buffers[buffer].parameter] = BufferArgument{static_cast<int>(buffer), plan.buffers[buffer].dtype};
  return arguments;
}

WorkerAgent::WorkerAgent(World& world, int agent, std::shared_ptr<const Program> program)
    : world_(world), agent_(agent), rank_(world.layout.at(agent).rank), program_(std::move(program)) {}

void WorkerAgent::start(std::int64_t launch) {
  launch_ = launch;
  event_ = 0;
  taken_ = -1;
  world_.set_position(agent_, -1);
  worker_.emplace(program_, fused_arguments(world_.plan, rank_),
                  std::vector<std::int64_t>{world_.layout.at(agent_).index},
                  std::vector<std::int64_t>{world_.plan.workers}, *this);
}

bool WorkerAgent::step() {
  if (must_raise_) {
    must_raise_ = raise_held();
    if (must_raise_) return false;
    world_.scheduler.set_next(agent_, Helpfulness::work);
    return worker_->state() == Worker::State::finished;
  }
  if (worker_->step() != Worker::State::finished) return false;
  return !hold_up();
}

bool WorkerAgent::hold_up() {
  if (held_.empty()) return false;
  must_raise_ = true;
  world_.scheduler.set_next(agent_, Helpfulness::raise_signal);
  return true;
}

bool WorkerAgent::raise_held() {
  const Held first = std::move(held_.front());
  held_.pop_front();
  world_.raise(agent_, first.signal, launch_, first.known);
  return !held_.empty();
}

std::span<std::byte> WorkerAgent::access(int buffer, AccessKind kind, std::span<const Run> runs,
                                         const SourceLocation& where) {
  const int buffers = static_cast<int>(world_.plan.buffers.size());
  check_internal(buffer >= 0 && buffer < buffers + kRuntimeBuffers,
                 "the kernel accesses a buffer that it was not given");
  if (buffer >= buffers) return runtime_access(static_cast<RuntimeBuffer>(buffer - buffers), runs, where);
  if (event_ == 0)
    event_ = world_.history.begin(world_.actor(agent_), launch_, EventKind::tile, world_.position(agent_));
  std::span<std::byte> bytes;
  if (kind != AccessKind::write) bytes = world_.memory.read(rank_, buffer, runs, event_, where);
  if (kind != AccessKind::read) bytes = world_.memory.write(rank_, buffer, runs, event_, where);
  return bytes;
}

std::span<std::byte> WorkerAgent::runtime_access(RuntimeBuffer buffer, std::span<const Run> runs,
                                                 const SourceLocation& where) {
  const std::span<std::byte> bytes = world_.memory.runtime_bytes(rank_, buffer);
  const auto elements = static_cast<std::int64_t>(bytes.size() / sizeof(std::int64_t));
  for (const Run& run : runs)
    if (run.offset < 0 || run.count > elements - run.offset)
      fail(
          fmt::format("reads elements {} to {} of a runtime table of {}", run.offset, run.offset + run.count, elements),
          where);
  if (buffer == RuntimeBuffer::tiles && !runs.empty()) {
    // Index values that a worker reads say which tile it works on; the other columns, of other tiles too, say when to
    // wait, what to add and what to raise.
    const auto axes = static_cast<std::int64_t>(world_.plan.kernel.axes.size());
    const std::int64_t columns = axes + tile_columns(world_.plan);
    if (runs.front().offset % columns < axes) come_to(runs.front().offset / columns, where);
  }
  if (buffer == RuntimeBuffer::additions && !runs.empty())
    come_to(slots() + runs.front().offset / kAdditionColumns, where);
  return bytes;
}

void WorkerAgent::come_to(std::int64_t slot, const SourceLocation& where) {
  if (slot == world_.position(agent_)) return;
  if (is_dynamic(world_.plan) && slot != taken_)
    fail(fmt::format("comes to slot {}, which it has not taken", slot), where);
  world_.set_position(agent_, slot);
  event_ = 0;
  if (slot < slots()) world_.count_tile();
}

std::int64_t WorkerAgent::slots() const {
  return static_cast<std::int64_t>(world_.plan.programs[static_cast<std::size_t>(rank_)].slots.size());
}

void WorkerAgent::leave_slot() {
  if (taken_ < 0) return;
  // The caller waits for all slots before it does anything else.
  const int slot = world_.layout.actor_of_slot(rank_, static_cast<std::size_t>(taken_));
  world_.history.join(world_.layout.caller(rank_), world_.history.end(slot));
  world_.set_position(agent_, -1);
  event_ = 0;
  taken_ = -1;
}

std::optional<std::int64_t> WorkerAgent::take(const TakeRequest& request) {
  if (request.claims_buffer != runtime_number(world_.plan, RuntimeBuffer::claims))
    fail("takes slots by something that does not say which are taken", request.where);
  if (request.count != slots())
    fail(fmt::format("takes one of {} slots, and its rank has {}", request.count, slots()), request.where);
  if (hold_up()) return std::nullopt;
  leave_slot();
  const std::optional<std::int64_t> taken = world_.take_slot(agent_, request.lookahead);
  if (!taken || *taken == slots()) return taken;
  // What the worker itself knows is what the launch began with.
  world_.history.begin_anew(world_.layout.actor_of_slot(rank_, static_cast<std::size_t>(*taken)),
                            world_.history.clock(agent_));
  taken_ = *taken;
  come_to(taken_, request.where);
  return taken;
}

bool WorkerAgent::wait(const WaitRequest& request) {
  if (request.flags_buffer != runtime_number(world_.plan, RuntimeBuffer::flags))
    fail("waits for something that is not a flag", request.where);
  const int signal = world_.signal_at(rank_, request.slot);
  if (signal < 0) fail(fmt::format("waits for flag {}, which is no signal of its rank", request.slot), request.where);
  if (request.tile >= 0 && request.tile < slots()) come_to(request.tile, request.where);
  return !hold_up() && world_.wait(agent_, signal, request.expected);
}

void WorkerAgent::raise(int peers_buffer, std::int64_t home, std::int64_t slot, const SourceLocation& where) {
  if (peers_buffer != runtime_number(world_.plan, RuntimeBuffer::peers))
    fail("raises something that is not a flag", where);
  const bool known = home >= 0 && home < world_.plan.ranks;
  const int signal = known ? world_.signal_at(static_cast<int>(home), slot) : -1;
  if (signal < 0) fail(fmt::format("raises flag {} of rank {}, which is no signal", slot, home), where);
  const std::vector<int>& raisers = world_.signals.raisers(signal);
  const int actor = world_.actor(agent_);
  if (!std::binary_search(raisers.begin(), raisers.end(), actor))
    fail(fmt::format("raises {}, and the plan does not say so", world_.describer.signal(signal)), where);
  held_.push_back({signal, world_.history.release(actor)});
  event_ = 0;  // what the tile does from now on is not part of the release
  if (!world_.options.adversary) raise_held();
}

void WorkerAgent::deny(const std::string& assertion, const SourceLocation& where) {
  const std::vector<std::string>& axes = world_.plan.kernel.axes;
  throw UserError(where,
                  fmt::format("rank {}, {} of ({}): {}", rank_, world_.describer.tile(rank_, world_.position(agent_)),
                              fmt::join(axes, ", "), assertion),
                  "change the data, or the kernel's assertion");
}

void WorkerAgent::fail(const std::string& problem, const SourceLocation& where) const {
  throw Failure(Outcome::bad_access,
                fmt::format("{}, {}, {}, at {}", world_.describer.agent(agent_),
                            world_.describer.tile(rank_, world_.position(agent_)), problem, where.to_string()));
}

}  // namespace syncopate::host
