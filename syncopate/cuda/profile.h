// Where the time of a fused operator goes: the whole launch, its parts alone, and what a call costs the host.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "syncopate/cuda/compile.h"
#include "syncopate/cuda/gpu.h"
#include "syncopate/plan/plan.h"

namespace syncopate {

struct GpuProfileOptions {
  std::uint64_t seed = 0;  ///< of the inputs: reals, since what is multiplied changes the clock of a GPU
  int samples = 11;        ///< of each time, taken in turn
  int launches = 20;       ///< of a sample, back to back
  bool share = false;      ///< all ranks on GPU 0, each on its share of the SMs
  double time_limit = 10;  ///< seconds that one wait of a kernel may take
  cuda::CompileOptions compile;
  /// Called with (samples taken, of how many). May throw to stop.
  std::function<void(std::int64_t, std::int64_t)> progress = {};
};

/// Microseconds a launch, medians of the samples.
struct LaunchTimes {
  double fused = 0;      ///< the operator, launched back to back through its graph
  double compute = 0;    ///< its kernel alone, every wait satisfied beforehand
  double transfers = 0;  ///< its transfers alone, as if tiles took no time
  double local = 0;      ///< the local kernel over whole tensors, on as many thread blocks
  /// On the host:
  double call = 0;                ///< a call
  double call_without_graph = 0;  ///< the same operations, given one by one

  /// What communication adds to computing.
  double exposed() const { return fused - compute; }
  double exposed_share() const { return exposed() / fused; }
  /// What waiting and the walk over tables cost: 1 is nothing.
  double cost_of_waiting() const { return compute / local; }
};

struct GpuProfile {
  std::string failure;  ///< a wait that was missed: rank, tile, signal, expected, seen; then there are no times
  std::string device;   ///< "NVIDIA H200"
  bool shared = false;
  int samples = 0;
  int launches = 0;
  std::vector<LaunchTimes> ranks;
  LaunchTimes all;  ///< the same of each sample's maximum over ranks
};

/// Throws UserError as run_on_gpu (run.h) does.
GpuProfile profile_on_gpu(const Plan& plan, const GpuProfileOptions& options);

/// A table with a line of explanation for each column.
std::string to_text(const Plan& plan, const GpuProfile& profile);
std::string to_json(const Plan& plan, const GpuProfile& profile);

namespace cuda {

/// What profile_on_gpu finds or makes, as parameters: the GPUs of all ranks, anew each time, and both kernels compiled.
struct ProfileParts {
  std::function<std::vector<std::unique_ptr<Gpu>>()> open_gpus;
  std::shared_ptr<const CompiledKernel> fused;
  std::shared_ptr<const CompiledKernel> local;
};
GpuProfile profile(const Plan& plan, const GpuProfileOptions& options, const ProfileParts& parts);

}  // namespace cuda
}  // namespace syncopate
