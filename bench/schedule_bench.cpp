// Schedules at scale: a template and the proof of its meaning.
#include <benchmark/benchmark.h>

#include "syncopate/schedule/meaning.h"
#include "syncopate/schedule/templates.h"

namespace syncopate {
namespace {

/// Ring all-gather over state.range(0) ranks, split 1: build the schedule and check its meaning.
void RingAllGather(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const LogicalTensor tensor{"a", {8 * ranks, 64}, Dtype::bf16, Placement::shard(0), Placement::replicate()};
  for (auto _ : state) {
    const Schedule schedule = all_gather(tensor, ranks, {Algorithm::ring, Initiator::push, 1}, {});
    check_meaning(schedule);
    benchmark::DoNotOptimize(schedule);
  }
}
BENCHMARK(RingAllGather)->Arg(64)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace syncopate
