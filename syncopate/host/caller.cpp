#include "syncopate/host/caller.h"

#include <cstring>
#include <utility>

#include "syncopate/plan/inputs.h"
#include "syncopate/plan/sums.h"

namespace syncopate::host {

Caller::Caller(World& world, int rank, TakeOutputs take_outputs)
    : world_(world),
      rank_(rank),
      agent_(world.layout.caller(rank)),
      take_outputs_(std::move(take_outputs)),
      program_(world.plan.programs[static_cast<std::size_t>(rank)]),
      outputs_(world.plan.buffers.size()) {
  for (std::size_t buffer = 0; buffer < world.plan.buffers.size(); ++buffer)
    if (!held_boxes(world.plan.buffers[buffer], rank).empty()) inputs_.push_back(buffer);
  for (const int tile : tiles_of(world.plan, rank)) {
    for (const TileAccess& access : world.plan.tiles[static_cast<std::size_t>(tile)].writes) {
      if (world.plan.buffer(access.buffer).is_reduced() || caller_side(world.plan, access.buffer) >= 0) continue;
      RunSet& runs = outputs_[static_cast<std::size_t>(access.buffer)];
      for_each_run(access.region, world.plan.buffer(access.buffer).shape,
                   [&](std::int64_t offset, std::int64_t count) { runs.add({offset, count}); });
    }
  }
  for (std::size_t buffer = 0; buffer < outputs_.size(); ++buffer) {
    const Buffer& about = world.plan.buffers[buffer];
    if (!about.is_reduced() && about.role != BufferRole::result) continue;
    for_each_run(output_region(world.plan, static_cast<int>(buffer), rank), about.shape,
                 [&](std::int64_t offset, std::int64_t count) { outputs_[buffer].add({offset, count}); });
  }
  begin_launch();
}

void Caller::begin_launch() {
  ++launch_;
  world_.set_launch(rank_, launch_);
  event_ = world_.history.begin(agent_, launch_, EventKind::inputs);
  phase_ = Phase::put_inputs;
  next_ = 0;
  settle();
}

Caller::Action Caller::step() {
  switch (phase_) {
    case Phase::put_inputs:
      put_input(inputs_[next_++]);
      break;
    case Phase::raise_start:
      world_.raise(agent_, program_.start_signals[next_++], launch_);
      break;
    case Phase::start:
      ++next_;
      settle();
      return Action::start_children;
    case Phase::wait_completion:
      if (!world_.wait(agent_, program_.completion_waits[next_], launch_)) return Action::none;
      ++next_;
      break;
    case Phase::complete:
      world_.memory.complete(rank_, launch_, agent_);
      ++next_;
      break;
    case Phase::raise_completion:
      world_.raise(agent_, program_.completion_signals[next_++], launch_);
      break;
    case Phase::take_outputs:
      take_outputs();
      ++next_;
      break;
  }
  settle();
  return Action::none;
}

void Caller::settle() {
  const auto size_of = [&](Phase phase) -> std::size_t {
    switch (phase) {
      case Phase::put_inputs:
        return inputs_.size();
      case Phase::raise_start:
        return program_.start_signals.size();
      case Phase::wait_completion:
        return program_.completion_waits.size();
      case Phase::raise_completion:
        return program_.completion_signals.size();
      case Phase::start:
      case Phase::complete:
      case Phase::take_outputs:
        return 1;
    }
    return 0;
  };
  while (next_ == size_of(phase_)) {
    if (phase_ == Phase::take_outputs) {
      world_.forget_common_past();
      if (launch_ == world_.options.repeat) {
        world_.suspend(agent_, {Pending::Kind::ended});
      } else {
        begin_launch();
      }
      return;
    }
    phase_ = static_cast<Phase>(static_cast<int>(phase_) + 1);
    next_ = 0;
  }
  const bool raises = phase_ == Phase::raise_start || phase_ == Phase::raise_completion;
  world_.scheduler.set_next(agent_, raises ? Helpfulness::raise_signal : Helpfulness::work);
}

void Caller::put_input(std::size_t buffer) {
  const Buffer& about = world_.plan.buffers[buffer];
  const Bytes& values = world_.inputs(rank_, launch_)[buffer];
  std::vector<Run> runs;
  for (const Region& box : held_boxes(about, rank_))
    for_each_run(box, about.shape, [&](std::int64_t offset, std::int64_t count) { runs.push_back({offset, count}); });
  const std::span<std::byte> bytes = world_.memory.write(rank_, static_cast<int>(buffer), runs, event_);
  const auto size = static_cast<std::size_t>(size_in_bytes(about.dtype));
  for (const Run& run : runs)
    std::memcpy(bytes.data() + static_cast<std::size_t>(run.offset) * size,
                values.data() + static_cast<std::size_t>(run.offset) * size,
                static_cast<std::size_t>(run.count) * size);
}

Bytes Caller::take_output(int buffer, const std::vector<Run>& runs) {
  const Buffer& about = world_.plan.buffer(buffer);
  world_.memory.read(rank_, buffer, runs, event_);
  Bytes& bytes = world_.memory.bytes(rank_, buffer);
  Bytes output = cut_out(bytes, output_region(world_.plan, buffer, rank_), about.shape, about.dtype);
  // The next launch must not find this one's results. What peers may have filled for the next launch keeps its bytes:
  // there the shadow knows which launch wrote them. Outputs that peers fill they fill once this rank has begun.
  const bool filled_by_peers = about.symmetric && !about.is_reduced() && about.role != BufferRole::result;
  if (!filled_by_peers && !is_input(about)) poison(bytes, about.dtype);
  return output;
}

void Caller::take_outputs() {
  event_ = world_.history.begin(agent_, launch_, EventKind::outputs);
  std::vector<Bytes> outputs(world_.plan.buffers.size());
  for (std::size_t buffer = 0; buffer < outputs.size(); ++buffer) {
    const std::vector<Run>& runs = outputs_[buffer].runs();
    if (!runs.empty()) outputs[buffer] = take_output(static_cast<int>(buffer), runs);
  }
  take_outputs_(rank_, launch_, std::move(outputs));
}

}  // namespace syncopate::host
