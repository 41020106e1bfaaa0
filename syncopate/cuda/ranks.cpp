#include "syncopate/cuda/ranks.h"

#include <fmt/format.h>

#include "syncopate/core/error.h"
#include "syncopate/cuda/copies.h"
#include "syncopate/plan/inputs.h"

namespace syncopate::cuda {

std::vector<std::unique_ptr<Gpu>> open_gpus(int ranks, bool share) {
  const std::shared_ptr<const Driver> driver = Driver::load();
  const int needed = share ? 1 : ranks;
  if (driver->count() < needed)
    throw UserError({},
                    fmt::format("the plan has {} ranks and this machine {} GPU{}", ranks, driver->count(),
                                driver->count() == 1 ? "" : "s"),
                    "run all ranks on one GPU with --share");
  std::vector<std::unique_ptr<Gpu>> gpus;
  for (int ordinal = 0; ordinal < needed; ++ordinal) gpus.push_back(std::make_unique<Gpu>(driver, ordinal));
  for (const auto& gpu : gpus) {
    if (gpu->capability() != gpus.front()->capability())
      throw UserError({}, "the GPUs are of different kinds", "run all ranks on one GPU with --share");
    for (const auto& peer : gpus)
      if (gpu != peer) gpu->enable_peer_access(*peer);
  }
  return gpus;
}

Ranks::Ranks(const Plan& plan, const GpuRunOptions& options)
    : Ranks(plan, options, open_gpus(plan.ranks, options.share), nullptr) {}

Ranks::Ranks(const Plan& plan, const GpuRunOptions& options, std::vector<std::unique_ptr<Gpu>> gpus,
             std::shared_ptr<const CompiledKernel> compiled)
    : plan_(plan),
      options_(options),
      steps_(issue_order(plan)),
      left_(left_by_launches(plan)),
      gpus_(std::move(gpus)),
      callers_(static_cast<std::size_t>(plan.ranks)),
      random_(options.seed) {
  if (!compiled) {
    CompileOptions compile = options.compile;
    compile.capability = gpus_.front()->capability();
    compiled = std::make_shared<const CompiledKernel>(compile_kernel(plan, KernelText::fused, compile));
  }
  for (int rank = 0; rank < plan.ranks; ++rank) prepare(rank, compiled);
  std::vector<DevicePointer> arenas;
  for (const auto& rank : ranks_) arenas.push_back(rank->arena());
  for (const auto& rank : ranks_) rank->connect(arenas);
  if (options.issue == GpuIssue::captured)
    for (int rank = 0; rank < plan.ranks; ++rank) capture(rank);
}

Ranks::~Ranks() {
  for (const Caller& caller : callers_) {
    if (caller.executable != nullptr) gpus_.front()->driver().graph_executable_destroy(caller.executable);
    if (caller.graph != nullptr) gpus_.front()->driver().graph_destroy(caller.graph);
  }
}

void Ranks::prepare(int index, std::shared_ptr<const CompiledKernel> compiled) {
  Gpu& gpu = *gpus_[options_.share ? 0 : static_cast<std::size_t>(index)];
  RankOptions options;
  options.ranks_on_this_gpu = options_.share ? plan_.ranks : 1;
  options.time_limit = options_.time_limit;
  options.compile = options_.compile;
  options.compiled = std::move(compiled);
  options.kernels_in_queues = options_.longest_delay > 0;
  options.graph = options_.issue == GpuIssue::graph;
  options.withheld = options_.withheld;
  ranks_.push_back(std::make_unique<RankOnGpu>(plan_, index, gpu, options));
  ranks_.back()->allocate_unbound();
  Caller& caller = callers_[static_cast<std::size_t>(index)];
  for (std::size_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
    const Buffer& about = plan_.buffers[buffer];
    const Bytes nan = poison(about.dtype, volume(memory_shape(about)));
    gpu.upload(ranks_.back()->buffer(static_cast<int>(buffer)), nan.data(), nan.size());
    caller.poison.push_back(left_[buffer] ? gpu.allocate(nan.size(), fmt::format("NaNs for {}", about.name)) : 0);
    if (left_[buffer]) gpu.upload(caller.poison.back(), nan.data(), nan.size());
  }
  caller.stream = gpu.make_stream(false);
  for (int i = 0; i < kLaunchesUnderWay; ++i) caller.completed.push_back(gpu.make_event());
}

void Ranks::capture(int index) {
  Caller& caller = callers_[static_cast<std::size_t>(index)];
  const Driver& driver = rank(index).gpu().driver();
  rank(index).gpu().make_current();
  driver.check(driver.stream_begin_capture(caller.stream, kCaptureRelaxed), "beginning a graph");
  rank(index).call(caller.stream);
  driver.check(driver.stream_end_capture(caller.stream, &caller.graph), "ending a graph");
  driver.check(driver.graph_instantiate(&caller.executable, caller.graph, 0), "making a graph ready");
  driver.check(driver.graph_upload(caller.executable, caller.stream), "making a graph ready");
  driver.check(driver.stream_synchronize(caller.stream), "making a graph ready");
}

Event Ranks::completed(int rank, std::int64_t epoch) const {
  return callers_[static_cast<std::size_t>(rank)].completed[static_cast<std::size_t>(epoch % kLaunchesUnderWay)];
}

void Ranks::record_completed(std::int64_t epoch) {
  for (int index = 0; index < plan_.ranks; ++index) {
    const Gpu& gpu = rank(index).gpu();
    gpu.make_current();
    gpu.driver().check(gpu.driver().event_record(completed(index, epoch), stream(index)), "recording an event");
  }
}

std::size_t Ranks::bytes_of(int buffer) const {
  const Buffer& about = plan_.buffer(buffer);
  return static_cast<std::size_t>(volume(about.shape) * size_in_bytes(about.dtype));
}

void Ranks::issue(std::int64_t epoch, const std::vector<Data>& data) {
  if (options_.issue == GpuIssue::steps) return issue_steps(epoch, data);
  for (int index = 0; index < plan_.ranks; ++index) {
    const Data& of = data[static_cast<std::size_t>(index)];
    const Caller& caller = callers_[static_cast<std::size_t>(index)];
    const Driver& driver = rank(index).gpu().driver();
    rank(index).gpu().make_current();
    put_inputs(index, of);
    delay_sometimes(index, caller.stream);
    if (caller.executable != nullptr) {
      driver.check(driver.graph_launch(caller.executable, caller.stream), "launching a graph");
    } else {
      rank(index).call(caller.stream);
    }
    take_outputs(index, epoch, of);
  }
}

void Ranks::issue_steps(std::int64_t epoch, const std::vector<Data>& data) {
  for (const Step& step : steps_) {
    RankOnGpu& on = rank(step.rank);
    const Data& of = data[static_cast<std::size_t>(step.rank)];
    const Stream caller = stream(step.rank);
    on.gpu().make_current();
    switch (step.kind) {
      case Step::Kind::begin:
        put_inputs(step.rank, of);
        delay_sometimes(step.rank, caller);
        on.begin(caller);
        delay_sometimes(step.rank, caller);
        break;
      case Step::Kind::transfer:
        delay_sometimes(step.rank, on.queue(step.queue));
        on.transfer(step.queue, step.transfer);
        break;
      case Step::Kind::kernel:
        on.kernel(caller);
        break;
      case Step::Kind::complete:
        delay_sometimes(step.rank, caller);
        on.complete(caller);
        take_outputs(step.rank, epoch, of);
        break;
    }
  }
}

/// The inputs in place, and NaNs where the launch will leave something: what a launch leaves unwritten must not look
/// right because the launch before wrote it.
void Ranks::put_inputs(int index, const Data& data) {
  RankOnGpu& on = rank(index);
  const Driver& driver = on.gpu().driver();
  const Caller& caller = callers_[static_cast<std::size_t>(index)];
  for (std::size_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
    const Buffer& about = plan_.buffers[buffer];
    const std::vector<Region> held = held_boxes(about, index);
    const DevicePointer to = on.buffer(static_cast<int>(buffer));
    if (held.empty()) {
      if (left_[buffer])
        driver.check(driver.copy_async(to, caller.poison[buffer], bytes_of(static_cast<int>(buffer)), caller.stream),
                     "filling an output with NaNs");
      continue;
    }
    const auto element = static_cast<std::size_t>(size_in_bytes(about.dtype));
    for (const Region& box : held)
      for (const Copy& copy : copies_between(box, about.shape, box, about.shape))
        for (const Copy2dArguments& operation : copy_operations(copy, data.inputs[buffer], to, element))
          enqueue_copy(driver, operation, caller.stream);
  }
}

void Ranks::take_outputs(int index, std::int64_t epoch, const Data& data) {
  RankOnGpu& on = rank(index);
  const Driver& driver = on.gpu().driver();
  for (std::size_t buffer = 0; buffer < plan_.buffers.size(); ++buffer)
    if (left_[buffer])
      driver.check(driver.copy_async(data.outputs[buffer], on.buffer(static_cast<int>(buffer)),
                                     bytes_of(static_cast<int>(buffer)), stream(index)),
                   "taking an output");
  driver.check(driver.event_record(completed(index, epoch), stream(index)), "recording an event");
}

void Ranks::delay_sometimes(int index, Stream on) {
  if (options_.longest_delay <= 0 || random_.below(4) != 0) return;
  const auto most = static_cast<std::uint64_t>(options_.longest_delay * 1e9);
  rank(index).delay(on, static_cast<std::int64_t>(random_.below(most + 1)));
}

}  // namespace syncopate::cuda
