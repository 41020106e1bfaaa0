// The caller of a rank: the life of its launches, steps 1 to 5 of plan.h.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "syncopate/host/world.h"

namespace syncopate::host {

/// What happens to the outputs of a launch: (rank, launch, outputs[buffer], empty for what is no output).
using TakeOutputs = std::function<void(int, std::int64_t, std::vector<Bytes>)>;

class Caller {
 public:
  enum class Action : std::uint8_t {
    none,
    start_children,  ///< the rank's queues and workers begin their launch; resume the caller when all are done
  };

  Caller(World& world, int rank, TakeOutputs take_outputs);

  /// One step.
  Action step();

 private:
  enum class Phase : std::uint8_t {
    put_inputs,
    raise_start,
    start,
    wait_completion,
    complete,
    raise_completion,
    take_outputs
  };

  void put_input(std::size_t buffer);
  void take_outputs();
  Bytes take_output(int buffer, const std::vector<Run>& runs);
  void begin_launch();
  /// Skips phases that have nothing to do, and tells the scheduler what comes next.
  void settle();

  World& world_;
  int rank_;
  int agent_;
  TakeOutputs take_outputs_;
  const RankProgram& program_;
  std::vector<std::size_t> inputs_;  ///< buffers of which this rank holds a part
  std::vector<RunSet> outputs_;      ///< per buffer: what a launch leaves for the caller
  Phase phase_ = Phase::put_inputs;
  std::size_t next_ = 0;  ///< within the phase
  EventId event_ = 0;
  std::int64_t launch_ = 0;
};

}  // namespace syncopate::host
