// All ranks of a plan on a simulated GPU, with a stand-in for the fused kernel (stand_in.h), and checks of what it
// reads and of what ranks put out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulated_gpu.h"
#include "syncopate/cuda/issue.h"
#include "syncopate/cuda/rank_on_gpu.h"
#include "syncopate/plan/plan.h"

namespace syncopate::cuda {

enum class Issue { steps, graph, captured };

class SimulatedRanks {
 public:
  /// `plan` has 16-bit tensors. `impatient`: StandIn's.
  SimulatedRanks(Plan plan, Issue issue, std::uint64_t seed, std::optional<WithheldTransfer> withheld = {},
                 int impatient = -1);
  ~SimulatedRanks();

  /// Gives `count` launches to the GPU, back to back, and runs it. Adds to `problems`; false if something is stuck.
  bool run(int count);

  const Plan& plan() const { return plan_; }
  SimulatedGpu& machine() { return machine_; }
  RankOnGpu& rank(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  std::vector<std::string> problems;  ///< what was wrong in what tiles read or ranks put out; the first few

 private:
  void complain(std::string problem);
  void issue(std::int64_t launch);
  void put_inputs(int rank, std::int64_t launch);
  void take_outputs(int rank, std::int64_t launch);
  void check_outputs(std::int64_t launch);
  std::int64_t elements(int buffer) const;

  Plan plan_;
  Issue issue_;
  SimulatedGpu machine_;
  Random random_;
  std::unique_ptr<Gpu> gpu_;
  std::vector<std::unique_ptr<RankOnGpu>> ranks_;
  std::vector<Stream> callers_;
  std::vector<GraphExecutable> captured_;
  std::int64_t launches_ = 0;
  std::vector<std::vector<DevicePointer>> outputs_;  ///< [launch - 1][rank]: the reduced buffer
};

}  // namespace syncopate::cuda
