// The compiler: footprints, dependence graph, whole plans, and the proof of them. Figures in docs/performance.md.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "syncopate/driver/driver.h"
#include "syncopate/kernel/footprint.h"
#include "syncopate/plan/bind.h"
#include "syncopate/plan/compile.h"
#include "syncopate/plan/depend.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"

namespace syncopate {
namespace {

const std::string kOperator = SYNCOPATE_SOURCE_DIR "/operators/ag_gemm.toml";

/// Llama-3 70B gate or up projection on 8 ranks: M=8192, N=28672/8, K=8192, tiles 128x256x64, split 4.
OperatorStatement large_operator() {
  return read_operator(kOperator, {{"ranks", "8"},
                                   {"kernel.args.M", "8192"},
                                   {"kernel.args.N", "3584"},
                                   {"kernel.args.K", "8192"},
                                   {"kernel.args.BLOCK_N", "256"},
                                   {"launch.workers", "132"},
                                   {"communicate.a.split", "4"}});
}

/// Sequence-parallel attention over 128K tokens on 8 ranks: 32 heads of 128, 8 of keys; tiles of 128 rows of a head
/// walk 1024 blocks of 128 keys. 4096 tiles and 4 million turns of their loops a rank. Under a causal mask ("causal":
/// successive stretches of the sequence, "zigzag") half of the turns, and tiles that differ by rank.
OperatorStatement long_attention(const std::string& form) {
  std::vector<Override> overrides = {{"ranks", "8"},
                                     {"launch.workers", "132"},
                                     {"kernel.args.KV_LENGTH", "131072"},
                                     {"kernel.args.HEADS", "32"},
                                     {"kernel.args.GROUP", "4"},
                                     {"kernel.args.HEAD_DIM", "128"},
                                     {"kernel.args.BLOCK_M", "128"},
                                     {"kernel.args.BLOCK_N", "128"}};
  if (form == "full") overrides.push_back({"kernel.args.Q_LENGTH", "16384"});
  for (const char* table : {"communicate.k.split", "communicate.v.split"})
    overrides.push_back({table, form == "zigzag" ? "1" : "2"});
  return read_operator(SYNCOPATE_SOURCE_DIR "/operators/attention_sp" + (form == "full" ? "" : "_" + form) + ".toml",
                       overrides);
}

/// Peak resident memory of this process so far, MB (10^6 bytes). Run one benchmark alone to read it:
/// --benchmark_filter=PlanOfLargeOperator
double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

/// Parse, footprints, schedule with its symbolic check, dependence graph, order, waits: everything but the emitted
/// text.
void PlanOfLargeOperator(benchmark::State& state) {
  for (auto _ : state) {
    const OperatorStatement statement = large_operator();
    const TileKernel kernel = TileKernel::read(statement.kernel_file, statement.kernel_function);
    benchmark::DoNotOptimize(compile_plan(statement, kernel));
  }
  state.counters["peak_MB"] = peak_megabytes();
}
BENCHMARK(PlanOfLargeOperator)->Unit(benchmark::kMillisecond);

void FootprintsOfLargeOperator(benchmark::State& state) {
  const OperatorStatement statement = large_operator();
  const TileKernel kernel = TileKernel::read(statement.kernel_file, statement.kernel_function);
  TensorBindings tensors;
  for (const TensorStatement& tensor : statement.tensors)
    tensors[tensor.parameter] = {tensor.name, tensor.shape, tensor.dtype};
  for (auto _ : state) benchmark::DoNotOptimize(analyse_tiles(kernel, statement.arguments, tensors));
}
BENCHMARK(FootprintsOfLargeOperator)->Unit(benchmark::kMillisecond);

void PlanOfLongAttention(benchmark::State& state, const char* form) {
  for (auto _ : state) {
    const OperatorStatement statement = long_attention(form);
    const TileKernel kernel = TileKernel::read(statement.kernel_file, statement.kernel_function);
    benchmark::DoNotOptimize(compile_plan(statement, kernel));
  }
  state.counters["peak_MB"] = peak_megabytes();
}
BENCHMARK_CAPTURE(PlanOfLongAttention, full, "full")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PlanOfLongAttention, causal, "causal")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PlanOfLongAttention, zigzag, "zigzag")->Unit(benchmark::kMillisecond);

/// 4 ranks x 26 tiles + 4 ranks x 3 peers x 8 chunks = 200 nodes.
void DependenceGraphOf200Nodes(benchmark::State& state) {
  const OperatorStatement statement = read_operator(
      kOperator, {{"ranks", "4"}, {"kernel.args.M", "1664"}, {"kernel.args.N", "256"}, {"communicate.a.split", "8"}});
  const TileKernel kernel = TileKernel::read(statement.kernel_file, statement.kernel_function);
  const BoundOperator bound = bind(statement, kernel);
  std::size_t nodes = 0;
  for (auto _ : state) {
    const DependenceGraph graph = depend(bound);
    nodes = graph.transfers.size() + graph.work.size() * bound.plan.tiles.size();
    benchmark::DoNotOptimize(graph);
  }
  state.counters["nodes"] = static_cast<double>(nodes);
}
BENCHMARK(DependenceGraphOf200Nodes)->Unit(benchmark::kMicrosecond);

void VerifyLargePlan(benchmark::State& state) {
  const OperatorStatement statement = large_operator();
  const Plan plan = compile_plan(statement, TileKernel::read(statement.kernel_file, statement.kernel_function));
  for (auto _ : state) {
    const Proof proof = verify(plan);
    if (!proof.holds()) state.SkipWithError("the plan is not proven");
  }
}
BENCHMARK(VerifyLargePlan)->Unit(benchmark::kMillisecond);

void VerifyLongAttention(benchmark::State& state) {
  const OperatorStatement statement = long_attention("full");
  const Plan plan = compile_plan(statement, TileKernel::read(statement.kernel_file, statement.kernel_function));
  for (auto _ : state) {
    const Proof proof = verify(plan);
    if (!proof.holds()) state.SkipWithError("the plan is not proven");
  }
}
BENCHMARK(VerifyLongAttention)->Unit(benchmark::kMillisecond);

void WriteAndReadLargePlan(benchmark::State& state) {
  const OperatorStatement statement = large_operator();
  const Plan plan = compile_plan(statement, TileKernel::read(statement.kernel_file, statement.kernel_function));
  for (auto _ : state) benchmark::DoNotOptimize(parse_plan(SourceFile("plan.json", to_json(plan))));
}
BENCHMARK(WriteAndReadLargePlan)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace syncopate
