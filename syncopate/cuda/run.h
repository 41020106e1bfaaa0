// Plans executed on GPUs by this process: one GPU for each rank, or all ranks on one GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "syncopate/cuda/compile.h"
#include "syncopate/cuda/withheld_transfer.h"
#include "syncopate/plan/inputs.h"

namespace syncopate {

/// How a launch is given to the GPUs.
enum class GpuIssue : std::uint8_t {
  steps,     ///< operation by operation, in one order over all ranks
  graph,     ///< a graph for each rank, as an operator in a program does it
  captured,  ///< the caller captures an operator's call into a graph of its own and replays that
};

struct GpuRunOptions {
  std::uint64_t seed = 0;
  int repeat = 1;  ///< launches; the host waits for none of them before it gives the next
  InputKind inputs = InputKind::small_integers;
  bool share = false;      ///< all ranks on GPU 0, each on its share of the SMs
  double time_limit = 10;  ///< seconds that one wait of a kernel may take
  GpuIssue issue = GpuIssue::steps;
  double longest_delay = 0;  ///< seconds: streams of all ranks are held up by chance, each time at most so long
  cuda::CompileOptions compile;
  std::optional<WithheldTransfer> withheld = {};
  /// Called with (launches given to the GPUs, of how many). May throw to stop the run.
  std::function<void(std::int64_t, std::int64_t)> progress = {};
};

enum class GpuOutcome : std::uint8_t {
  right,         ///< every output is bitwise equal to what the local kernel, run on the same GPU, and the sums give
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
