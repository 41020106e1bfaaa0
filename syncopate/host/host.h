// CPU ranks: a deterministic machine with R ranks, each with memory, workers, copy-engine queues and flags, on which
// a plan's emitted kernel is executed. One seed fixes the interleaving. The machine detects deadlock exactly, and
// races by ordering: an access whose conflicting partner is not ordered before it by signals is an error even if the
// value happens to be right. All of it runs on the calling thread; distinct calls are independent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "syncopate/plan/difference.h"
#include "syncopate/plan/inputs.h"
#include "syncopate/plan/plan.h"

namespace syncopate {

struct RunOptions {
  std::uint64_t seed = 0;  ///< fixes inputs and interleaving
  bool adversary = false;  ///< delay every transfer and every signal as long as the plan lets anything else happen
  int repeat = 1;          ///< back-to-back launches; ranks are not synchronised between them
  InputKind inputs = InputKind::small_integers;
  bool compare = true;  ///< compare outputs with the unfused operator
  /// Called now and then with (tile executions done, of how many), for progress display. May throw to stop the run.
  std::function<void(std::int64_t, std::int64_t)> progress = {};
};

enum class Outcome : std::uint8_t {
  right,         ///< every output is bitwise equal to the unfused operator's (or compare was off)
  deadlock,      ///< nothing can move; the text says who waits for what
  race,          ///< an access is not ordered with its conflicting partner
  bad_access,    ///< outside a buffer, or a read of bytes that nothing ever wrote, or a second write in one launch
  wrong_result,  ///< executed, but an output differs, or a streamed loop does more than accumulate
};
std::string_view name_of(Outcome outcome);

/// What went in and came out of one launch, for checks by the caller.
struct LaunchData {
  /// inputs[buffer]: the whole logical tensor for communicated buffers (all ranks' shards), else per rank
  std::vector<std::vector<Bytes>> inputs;  ///< [rank][buffer]: what the unfused kernel reads, after the collective
  /// [rank][buffer]: what the fused operator left in output_region(), row-major; empty for inputs
  std::vector<std::vector<Bytes>> outputs;
};

struct RunReport {
  Outcome outcome = Outcome::right;
  std::string message;           ///< for anything but right: what happened, naming ranks, tile, transfer, signal
  std::int64_t tiles = 0;        ///< tile executions
  std::int64_t transfers = 0;    ///< transfers executed
  std::int64_t bytes_moved = 0;  ///< by transfers between different ranks
  std::int64_t steps = 0;        ///< scheduling decisions
  LaunchData last;               ///< of the last complete launch
  /// Of a plan with streamed loops, from the first launch: what their order does to the unfused result, where most.
  std::optional<OrderDifference> order;
};

/// Executes the plan; the first problem ends the run (docs/cpu_ranks.md says what is found and why that does not
/// depend on luck). Throws UserError if the plan's kernel source is not executable (parse errors), or the machine has
/// less memory than the plan's tensors take; InternalError for defects of the machine; anything the plan does wrong is
/// an Outcome.
RunReport run_on_cpu_ranks(const Plan& plan, const RunOptions& options);

/// The unfused meaning: the local kernel of the plan run over whole tensors, its streamed loops in the order in which
/// the tiles of `rank` walk them. `inputs` [buffer] as in LaunchData for that rank; returns the outputs [buffer]: of a
/// reduced buffer the rank's summand (operator_outputs() in plan/sums.h adds).
std::vector<Bytes> run_unfused(const Plan& plan, int rank, const std::vector<Bytes>& inputs);

}  // namespace syncopate
