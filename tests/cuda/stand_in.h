// A stand-in for fused kernels on a simulated GPU. It waits, reads, stores, adds and raises as the tables tell it,
// worker by worker, but computes nothing: elements are 16-bit numbers that name the launch, so that whatever is stale,
// early, lost or in the wrong place shows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "simulated_gpu.h"
#include "syncopate/cuda/compile.h"
#include "syncopate/plan/plan.h"

namespace syncopate::cuda {

using Element = std::uint16_t;
/// Element `e` of an input that ranks share.
Element stamp(std::int64_t launch, std::int64_t e);
/// Element `e` of the summand of a rank.
Element summand(std::int64_t launch, int rank, std::int64_t e);

struct StandIn {
  const Plan* plan = nullptr;  ///< of 16-bit tensors
  Random* random = nullptr;    ///< chooses the worker that goes on
  std::function<void(std::string)> complain;
  int impatient = -1;  ///< a rank that gives up a wait, leaves a record and goes on with garbage; others wait for ever
};

/// Gives the plan a fused text: parameters only.
void name_stand_in(Plan& plan);
/// The stand-in for a plan so named, as if compiled. It uses what `stand_in` points to as long as the machine runs.
std::shared_ptr<const CompiledKernel> define_stand_in(SimulatedGpu& machine, const StandIn& stand_in);
/// The runtime's own kernels.
void define_small_kernels(SimulatedGpu& machine);

}  // namespace syncopate::cuda
