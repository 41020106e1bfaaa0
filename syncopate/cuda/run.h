// Plans executed on GPUs by this process: one GPU for each rank, or all ranks on one GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "syncopate/cuda/compile.h"
#include "syncopate/plan/inputs.h"

namespace syncopate {

/// For tests: a transfer that does not happen in one launch, and raises nothing.
struct WithheldTransfer {
  int rank = 0;
  int queue = 0;
  int transfer = 0;
  std::int64_t launch = 1;
};

struct GpuRunOptions {
  std::uint64_t seed = 0;
  int repeat = 1;  ///< launches; the host waits for none of them before it gives the next
  InputKind inputs = InputKind::small_integers;
  bool share = false;      ///< all ranks on GPU 0, each on its share of the SMs
  double time_limit = 10;  ///< seconds that one wait of a kernel may take
  cuda::CompileOptions compile;
  std::optional<WithheldTransfer> withheld = {};
  /// Called with (launches given to the GPUs, of how many). May throw to stop the run.
  std::function<void(std::int64_t, std::int64_t)> progress = {};
};

enum class GpuOutcome : std::uint8_t {
  right,         ///< every output is bitwise equal to the local kernel's, run on the same GPU over whole tensors
  missed_wait,   ///< a wait exceeded the time limit
  wrong_result,  ///< executed, but an output differs
};
std::string_view name_of(GpuOutcome outcome);

struct GpuRunReport {
  GpuOutcome outcome = GpuOutcome::right;
  std::string message;         ///< for anything but right: rank, tile, signal, expected, seen; or the first difference
  std::string device;          ///< "NVIDIA H200"
  std::int64_t launches = 0;   ///< complete on all ranks
  std::int64_t tiles = 0;      ///< tile executions of those launches
  std::int64_t transfers = 0;  ///< transfers of those launches
  std::int64_t bytes_moved = 0;  ///< by transfers between different ranks
  /// Launches between two stops of the host, at which it checks results and makes new inputs; bounded by memory.
  int launches_at_a_stretch = 0;
};

/// Executes the plan. Throws UserError for what the user can mend: no GPU, too few, no Triton, a kernel that does not
/// compile, more workers than fit.
GpuRunReport run_on_gpu(const Plan& plan, const GpuRunOptions& options);

}  // namespace syncopate
