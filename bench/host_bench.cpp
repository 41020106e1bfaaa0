// CPU ranks: one launch of the fused all-gather GEMM, race detection and comparison with the unfused operator included.
#include <benchmark/benchmark.h>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"

namespace syncopate {
namespace {

void RunOnCpuRanks(benchmark::State& state) {
  const Plan plan = compile_operator(
      SYNCOPATE_SOURCE_DIR "/operators/ag_gemm.toml",
      {{"ranks", "4"}, {"kernel.args.M", "1024"}, {"kernel.args.N", "1024"}, {"kernel.args.K", "512"}});
  for (auto _ : state) {
    const RunReport report = run_on_cpu_ranks(plan, {});
    if (report.outcome != Outcome::right) state.SkipWithError(report.message.c_str());
  }
}
BENCHMARK(RunOnCpuRanks)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace syncopate
