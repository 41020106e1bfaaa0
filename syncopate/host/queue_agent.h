// A queue of transfers: in order, each in steps. A transfer waits, then moves its bytes in a few pieces, so that a
// reader who comes too early can see some of them, then raises its signals one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "syncopate/host/world.h"

namespace syncopate::host {

class QueueAgent {
 public:
  QueueAgent(World& world, int agent);

  /// Begins a launch.
  void start(std::int64_t launch);
  /// One step. Returns whether the queue is done with this launch.
  bool step();

 private:
  struct Piece {
    std::int64_t source = 0;  ///< offsets and count in elements
    std::int64_t destination = 0;
    std::int64_t count = 0;
  };

  const Transfer& transfer() const { return queue_.transfers[current_]; }
  bool wait();
  void begin();
  void move_piece();
  void announce_next();

  World& world_;
  int agent_;
  const Queue& queue_;
  std::int64_t launch_ = 0;
  std::size_t current_ = 0;
  std::size_t waits_done_ = 0;
  std::size_t signals_done_ = 0;
  bool moving_ = false;
  EventId event_ = 0;
  std::vector<std::vector<Piece>> steps_;  ///< what is left to move, last first
};

}  // namespace syncopate::host
