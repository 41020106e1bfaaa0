#include "syncopate/host/queue_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "syncopate/host/failure.h"

namespace syncopate::host {
namespace {

/// In how many steps a transfer moves its bytes, if it has that many elements.
constexpr std::int64_t kSteps = 4;

std::vector<Run> runs_of(const View& view, const Buffer& buffer) {
  std::vector<Run> runs;
  for_each_run(in_memory(buffer, view.region), memory_shape(buffer),
               [&](std::int64_t offset, std::int64_t count) { runs.push_back({offset, count}); });
  return runs;
}

}  // namespace

QueueAgent::QueueAgent(World& world, int agent)
    : world_(world),
      agent_(agent),
      queue_(world.plan.programs[static_cast<std::size_t>(world.layout.at(agent).rank)]
                 .queues[static_cast<std::size_t>(world.layout.at(agent).index)]) {}

void QueueAgent::start(std::int64_t launch) {
  launch_ = launch;
  current_ = waits_done_ = signals_done_ = 0;
  moving_ = false;
  world_.set_position(agent_, 0);
  announce_next();
}

bool QueueAgent::step() {
  if (current_ == queue_.transfers.size()) return true;
  if (!moving_) {
    if (!wait()) return false;
    begin();
  } else if (!steps_.empty()) {
    move_piece();
  } else if (signals_done_ < transfer().signals.size()) {
    world_.raise(agent_, transfer().signals[signals_done_++], launch_);
  }
  if (moving_ && steps_.empty() && signals_done_ == transfer().signals.size()) {
    ++world_.report.transfers;
    ++current_;
    waits_done_ = signals_done_ = 0;
    moving_ = false;
    world_.set_position(agent_, static_cast<std::int64_t>(current_));
  }
  announce_next();
  return current_ == queue_.transfers.size();
}

bool QueueAgent::wait() {
  for (; waits_done_ < transfer().waits.size(); ++waits_done_)
    if (!world_.wait(agent_, transfer().waits[waits_done_], launch_)) return false;
  return true;
}

void QueueAgent::begin() {
  const View& from = transfer().source;
  const View& to = transfer().destination;
  const Buffer& source = world_.plan.buffer(from.buffer);
  const Buffer& destination = world_.plan.buffer(to.buffer);
  event_ = world_.history.begin(agent_, launch_, EventKind::transfer, static_cast<std::int64_t>(current_));
  const auto fail = [&](const std::string& problem) {
    throw Failure(Outcome::bad_access,
                  fmt::format("{} {}", world_.describer.event(world_.history.event(event_)), problem));
  };
  for (const View* view : {&from, &to}) {
    const Buffer& buffer = world_.plan.buffer(view->buffer);
    if (!Region::whole(buffer.shape).contains(view->region))
      fail(fmt::format("touches {}{}, which is outside of the buffer ({})", buffer.name, view->region.to_string(),
                       to_string(buffer.shape)));
  }
  if (from.region.volume() != to.region.volume() || source.dtype != destination.dtype)
    fail(fmt::format("copies {} {} elements to {} {} elements", from.region.volume(), name_of(source.dtype),
                     to.region.volume(), name_of(destination.dtype)));

  const std::vector<Run> sources = runs_of(from, source);
  const std::vector<Run> destinations = runs_of(to, destination);
  const std::int64_t step_size = (from.region.volume() + kSteps - 1) / kSteps;
  steps_.clear();
  std::int64_t room = 0;
  Run left;
  std::size_t next = 0;
  for (Run run : sources) {
    while (run.count > 0) {
      if (left.count == 0) left = destinations[next++];
      if (room == 0) {
        steps_.emplace_back();
        room = step_size;
      }
      const std::int64_t count = std::min({run.count, left.count, room});
      steps_.back().push_back({run.offset, left.offset, count});
      run = {run.offset + count, run.count - count};
      left = {left.offset + count, left.count - count};
      room -= count;
    }
  }
  std::reverse(steps_.begin(), steps_.end());
  moving_ = true;
}

void QueueAgent::move_piece() {
  const View& from = transfer().source;
  const View& to = transfer().destination;
  const std::vector<Piece> pieces = std::move(steps_.back());
  steps_.pop_back();
  std::vector<Run> reads;
  std::vector<Run> writes;
  for (const Piece& piece : pieces) {
    reads.push_back({piece.source, piece.count});
    writes.push_back({piece.destination, piece.count});
  }
  const std::span<const std::byte> source = world_.memory.read(from.rank, from.buffer, reads, event_);
  const std::span<std::byte> destination = world_.memory.write(to.rank, to.buffer, writes, event_);
  const auto size = static_cast<std::size_t>(size_in_bytes(world_.plan.buffer(from.buffer).dtype));
  for (const Piece& piece : pieces) {
    const std::size_t bytes = static_cast<std::size_t>(piece.count) * size;
    // A wrong plan may copy a region onto itself.
    std::memmove(destination.data() + static_cast<std::size_t>(piece.destination) * size,
                 source.data() + static_cast<std::size_t>(piece.source) * size, bytes);
    if (from.rank != to.rank) world_.report.bytes_moved += static_cast<std::int64_t>(bytes);
  }
}

void QueueAgent::announce_next() {
  if (!moving_) {
    world_.scheduler.set_next(agent_, Helpfulness::start_transfer);
  } else if (!steps_.empty()) {
    world_.scheduler.set_next(agent_, Helpfulness::move_bytes, static_cast<std::int64_t>(event_));
  } else {
    world_.scheduler.set_next(agent_, Helpfulness::raise_signal);
  }
}

}  // namespace syncopate::host
