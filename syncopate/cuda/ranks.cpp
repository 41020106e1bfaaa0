#include "syncopate/cuda/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "syncopate/core/error.h"
#include "syncopate/kernel/runtime_names.h"

namespace syncopate::cuda {
namespace {

/// Adds 1 to a counter after all that came before it on its stream. The driver assembles it for the GPU at hand.
constexpr const char* kRaiseText = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry syncopate_raise(.param .u64 address)
{
    .reg .b64 %address;
    ld.param.u64 %address, [address];
    cvta.to.global.u64 %address, %address;
    red.release.sys.global.add.u64 [%address], 1;
    ret;
}
)";

/// Arguments of a launch, each in 8 bytes of its own.
class ArgumentList {
 public:
  template <typename T>
  void add(T value) {
    std::uint64_t bits = 0;
    static_assert(sizeof value <= sizeof bits);
    std::memcpy(&bits, &value, sizeof value);
    values_.push_back(bits);
  }
  void add(const ParameterType& type) {
    check_internal(type.value.has_value(), "a scalar argument without a value");
    if (type.type == "u1") return add(static_cast<std::uint8_t>(std::get<bool>(*type.value)));
    if (type.type == "fp32") return add(static_cast<float>(std::get<double>(*type.value)));
    if (type.type == "i32") return add(static_cast<std::int32_t>(std::get<std::int64_t>(*type.value)));
    add(std::get<std::int64_t>(*type.value));
  }
  std::vector<void*> pointers() {
    std::vector<void*> pointers;
    for (std::uint64_t& value : values_) pointers.push_back(&value);
    return pointers;
  }

 private:
  std::vector<std::uint64_t> values_;
};

}  // namespace

Ranks::Ranks(const Plan& plan, const GpuRunOptions& options)
    : plan_(plan),
      options_(options),
      steps_(issue_order(plan)),
      written_(written_by_tiles(plan)),
      local_signature_(signature_of(plan, KernelText::local)),
      fused_signature_(signature_of(plan, KernelText::fused)) {
  open_gpus();
  load_kernels();
  check_residency();
  for (int rank = 0; rank < plan.ranks; ++rank) allocate(rank);
}

void Ranks::open_gpus() {
  const std::shared_ptr<const Driver> driver = Driver::load();
  const int needed = options_.share ? 1 : plan_.ranks;
  if (driver->count() < needed)
    throw UserError({},
                    fmt::format("the plan has {} ranks and this machine {} GPU{}", plan_.ranks, driver->count(),
                                driver->count() == 1 ? "" : "s"),
                    "run all ranks on one GPU with --share");
  for (int ordinal = 0; ordinal < needed; ++ordinal) gpus_.push_back(std::make_unique<Gpu>(driver, ordinal));
  for (const auto& gpu : gpus_)
    for (const auto& peer : gpus_)
      if (gpu != peer) gpu->enable_peer_access(*peer);
  ranks_.resize(static_cast<std::size_t>(plan_.ranks));
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].gpu = gpus_[options_.share ? 0 : rank].get();
}

void Ranks::load_kernels() {
  CompileOptions compile = options_.compile;
  compile.capability = gpus_.front()->capability();
  local_ = compile_kernel(plan_, KernelText::local, compile);
  fused_ = compile_kernel(plan_, KernelText::fused, compile);
  for (const auto& gpu : gpus_) {
    if (gpu->capability() != compile.capability)
      throw UserError({}, "the GPUs are of different kinds", "run all ranks on one GPU with --share");
    const LoadedKernel local = gpu->load(local_.image, local_.name, local_.warps, local_.shared_bytes);
    const LoadedKernel fused = gpu->load(fused_.image, fused_.name, fused_.warps, fused_.shared_bytes);
    const LoadedKernel raise = gpu->load(kRaiseText, "syncopate_raise", 1, 0);
    for (Rank& rank : ranks_) {
      if (rank.gpu != gpu.get()) continue;
      rank.local = local;
      rank.fused = fused;
      rank.raise = raise;
    }
  }
}

/// Every worker must have its SM, whatever the other ranks on this GPU do: one that is not resident could keep a tile
/// from being computed that others wait for.
void Ranks::check_residency() const {
  const Rank& first = ranks_.front();
  if (first.fused.blocks_per_multiprocessor < 1)
    throw UserError({plan_.kernel.file}, "a thread block of the fused kernel does not fit on an SM",
                    "use smaller tiles or fewer stages");
  const int most = (first.gpu->multiprocessors() - kFreeMultiprocessors) / (options_.share ? plan_.ranks : 1);
  if (plan_.workers > most)
    throw UserError(
        {},
        fmt::format("the plan has {} workers a rank, but only {} of the GPU's {} SMs are there for each rank",
                    plan_.workers, most, first.gpu->multiprocessors()),
        fmt::format("compile it with --set launch.workers={}", most));
}

std::size_t Ranks::bytes_of(int buffer) const {
  const Buffer& about = plan_.buffer(buffer);
  return static_cast<std::size_t>(volume(about.shape) * size_in_bytes(about.dtype));
}

void Ranks::allocate(int index) {
  Rank& rank = ranks_[static_cast<std::size_t>(index)];
  Gpu& gpu = *rank.gpu;
  const RankProgram& program = plan_.programs[static_cast<std::size_t>(index)];
  const auto at = static_cast<std::size_t>(options_.share ? 0 : index);
  if (poison_.size() <= at) poison_.resize(at + 1);
  const bool new_gpu = poison_[at].empty();
  for (std::size_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
    const Buffer& about = plan_.buffers[buffer];
    const Bytes nan = poison(about.dtype, volume(about.shape));
    rank.buffers.push_back(gpu.allocate(nan.size(), fmt::format("tensor {}", about.name)));
    gpu.upload(rank.buffers.back(), nan.data(), nan.size());
    if (!new_gpu) continue;
    poison_[at].push_back(written_[buffer] ? gpu.allocate(nan.size(), fmt::format("NaNs for {}", about.name)) : 0);
    if (written_[buffer]) gpu.upload(poison_[at].back(), nan.data(), nan.size());
  }
  const auto words = [&](const std::vector<std::int64_t>& values, const char* purpose) {
    const DevicePointer address = gpu.allocate(values.size() * sizeof(std::int64_t), purpose);
    gpu.upload(address, values.data(), values.size() * sizeof(std::int64_t));
    return address;
  };
  const KernelTables tables = kernel_tables(plan_, index);
  rank.tiles = words(tables.tiles, "the tile order");
  rank.waits = words(tables.waits, "waits");
  rank.flags = words(std::vector<std::int64_t>(static_cast<std::size_t>(signal_count(plan_, index)), 0), "signals");
  rank.epoch = words({0}, "the epoch");
  rank.record = words(std::vector<std::int64_t>(kRecordWords, 0), "the record of a missed wait");
  const auto blocks = std::max<std::size_t>(static_cast<std::size_t>(plan_.workers), plan_.tiles.size());
  rank.scratch = gpu.allocate(blocks * static_cast<std::size_t>(std::max(local_.scratch_bytes, fused_.scratch_bytes)),
                              "tensor descriptors");
  rank.stream = gpu.make_stream(false);
  rank.started = gpu.make_event();
  for (std::size_t queue = 0; queue < program.queues.size(); ++queue) {
    rank.queues.push_back(gpu.make_stream(true));
    rank.drained.push_back(gpu.make_event());
  }
  for (int i = 0; i < kLaunchesUnderWay; ++i) rank.completed.push_back(gpu.make_event());
}

void Ranks::issue(std::int64_t epoch, const std::vector<Data>& data) {
  for (const Step& step : steps_) {
    rank(step.rank).gpu->make_current();
    switch (step.kind) {
      case Step::Kind::begin:
        begin(step.rank, epoch, data[static_cast<std::size_t>(step.rank)]);
        break;
      case Step::Kind::transfer:
        transfer(step, epoch);
        break;
      case Step::Kind::kernel:
        launch_fused(step.rank);
        break;
      case Step::Kind::complete:
        complete(step.rank, epoch, data[static_cast<std::size_t>(step.rank)]);
        break;
    }
  }
}

void Ranks::begin(int index, std::int64_t epoch, const Data& data) {
  const Rank& on = rank(index);
  const Driver& driver = on.gpu->driver();
  driver.check(
      driver.stream_write_value_64(on.stream, on.epoch, static_cast<std::uint64_t>(epoch), kWriteAfterAllBefore),
      "writing the epoch");
  for (std::size_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
    const Buffer& about = plan_.buffers[buffer];
    const Region& held = about.held[static_cast<std::size_t>(index)];
    if (!held.empty()) {
      copy(*on.gpu, on.stream, static_cast<int>(buffer), on.buffers[buffer], data.inputs[buffer],
           copies_between(held, about.shape, held, about.shape));
    } else if (written_[buffer] && !about.symmetric) {
      // What a launch leaves unwritten must not look right because the launch before wrote it.
      const DevicePointer nan = poison_[options_.share ? 0 : static_cast<std::size_t>(index)][buffer];
      driver.check(driver.copy_async(on.buffers[buffer], nan, bytes_of(static_cast<int>(buffer)), on.stream),
                   "filling an output with NaNs");
    }
  }
  raise(on, on.stream, plan_.programs[static_cast<std::size_t>(index)].start_signals, epoch);
  driver.check(driver.event_record(on.started, on.stream), "recording an event");
  for (Stream queue : on.queues) driver.check(driver.stream_wait_event(queue, on.started, 0), "waiting for an event");
}

void Ranks::transfer(const Step& step, std::int64_t epoch) {
  if (const auto& withheld = options_.withheld; withheld && withheld->launch == epoch && withheld->rank == step.rank &&
                                                withheld->queue == step.queue && withheld->transfer == step.transfer)
    return;
  const Rank& on = rank(step.rank);
  const Stream stream = on.queues[static_cast<std::size_t>(step.queue)];
  const Transfer& about = plan_.programs[static_cast<std::size_t>(step.rank)]
                              .queues[static_cast<std::size_t>(step.queue)]
                              .transfers[static_cast<std::size_t>(step.transfer)];
  wait(on, stream, about.waits, epoch);
  const auto address = [&](const View& view) { return rank(view.rank).buffers[static_cast<std::size_t>(view.buffer)]; };
  copy(*on.gpu, stream, about.source.buffer, address(about.destination), address(about.source),
       copies_between(about.source.region, plan_.buffer(about.source.buffer).shape, about.destination.region,
                      plan_.buffer(about.destination.buffer).shape));
  raise(on, stream, about.signals, epoch);
}

void Ranks::complete(int index, std::int64_t epoch, const Data& data) {
  const Rank& on = rank(index);
  const Driver& driver = on.gpu->driver();
  const RankProgram& program = plan_.programs[static_cast<std::size_t>(index)];
  for (std::size_t queue = 0; queue < on.queues.size(); ++queue) {
    driver.check(driver.event_record(on.drained[queue], on.queues[queue]), "recording an event");
    driver.check(driver.stream_wait_event(on.stream, on.drained[queue], 0), "waiting for an event");
  }
  wait(on, on.stream, program.completion_waits, epoch);
  for (std::size_t buffer = 0; buffer < plan_.buffers.size(); ++buffer)
    if (written_[buffer])
      driver.check(
          driver.copy_async(data.outputs[buffer], on.buffers[buffer], bytes_of(static_cast<int>(buffer)), on.stream),
          "taking an output");
  raise(on, on.stream, program.completion_signals, epoch);
  driver.check(driver.event_record(on.completed[static_cast<std::size_t>(epoch % kLaunchesUnderWay)], on.stream),
               "recording an event");
}

void Ranks::wait(const Rank& on, Stream stream, const std::vector<Wait>& waits, std::int64_t epoch) {
  const Driver& driver = on.gpu->driver();
  for (const Wait& wait : waits) {
    const Signal& signal = plan_.signals[static_cast<std::size_t>(wait.signal)];
    const std::int64_t value = signal.per_launch * (epoch - 1) + wait.threshold;
    if (value == 0) continue;
    driver.check(driver.stream_wait_value_64(stream, on.flags + static_cast<DevicePointer>(signal.slot) * 8,
                                             static_cast<std::uint64_t>(value), kWaitGreaterOrEqual),
                 "waiting for a signal");
  }
}

void Ranks::raise(const Rank& on, Stream stream, const std::vector<int>& signals, std::int64_t epoch) {
  const Driver& driver = on.gpu->driver();
  for (const int index : signals) {
    const Signal& signal = plan_.signals[static_cast<std::size_t>(index)];
    DevicePointer address = rank(signal.home).flags + static_cast<DevicePointer>(signal.slot) * 8;
    if (signal.per_launch == 1) {
      // Raised once a launch, its value is the launch's number, which the copy engine's stream can write itself.
      driver.check(
          driver.stream_write_value_64(stream, address, static_cast<std::uint64_t>(epoch), kWriteAfterAllBefore),
          "raising a signal");
    } else {
      void* arguments[] = {&address};
      driver.check(driver.launch_kernel(on.raise.function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr),
                   "raising a counted signal");
    }
  }
}

void Ranks::copy(const Gpu& gpu, Stream stream, int buffer, DevicePointer destination, DevicePointer source,
                 const std::vector<Copy>& copies) {
  const auto size = static_cast<std::size_t>(size_in_bytes(plan_.buffer(buffer).dtype));
  const Driver& driver = gpu.driver();
  for (const Copy& copy : copies) {
    const std::size_t width = static_cast<std::size_t>(copy.width) * size;
    const DevicePointer from = source + static_cast<std::size_t>(copy.source) * size;
    const DevicePointer to = destination + static_cast<std::size_t>(copy.destination) * size;
    if (copy.rows == 1) {
      driver.check(driver.copy_async(to, from, width, stream), "moving a chunk");
      continue;
    }
    Copy2dArguments arguments;
    arguments.source = from;
    arguments.source_pitch = static_cast<std::size_t>(copy.source_pitch) * size;
    arguments.destination = to;
    arguments.destination_pitch = static_cast<std::size_t>(copy.destination_pitch) * size;
    arguments.width = width;
    arguments.height = static_cast<std::size_t>(copy.rows);
    driver.check(driver.copy_2d_async(&arguments, stream), "moving rows of a chunk");
  }
}

void Ranks::launch_fused(int index) {
  const Rank& on = rank(index);
  launch(on, on.fused, fused_, fused_signature_, static_cast<unsigned>(plan_.workers), index, on.buffers);
}

void Ranks::run_local(int index, const Data& data) {
  const Rank& on = rank(index);
  on.gpu->make_current();
  std::vector<DevicePointer> buffers;
  for (std::size_t buffer = 0; buffer < plan_.buffers.size(); ++buffer)
    buffers.push_back(written_[buffer] ? data.outputs[buffer] : data.inputs[buffer]);
  const auto tiles = static_cast<unsigned>(plan_.tiles.size());
  const unsigned grid =
      plan_.kernel.persistent ? std::min(tiles, static_cast<unsigned>(on.gpu->multiprocessors())) : tiles;
  launch(on, on.local, local_, local_signature_, grid, index, buffers);
  on.gpu->driver().check(on.gpu->driver().stream_synchronize(on.stream), "running the local kernel");
}

void Ranks::launch(const Rank& on, const LoadedKernel& kernel, const CompiledKernel& about,
                   const std::vector<ParameterType>& signature, unsigned grid, int index,
                   const std::vector<DevicePointer>& buffers) {
  namespace parameter = runtime_parameter;
  const std::map<std::string, DevicePointer> pointers = {{parameter::kTiles, on.tiles},
                                                         {parameter::kWaits, on.waits},
                                                         {parameter::kFlags, on.flags},
                                                         {parameter::kEpoch, on.epoch},
                                                         {parameter::kRecord, on.record}};
  const auto slots = plan_.programs[static_cast<std::size_t>(index)].slots.size();
  const std::map<std::string, std::int32_t> numbers = {{parameter::kRank, index},
                                                       {parameter::kWorldSize, plan_.ranks},
                                                       {parameter::kTileCount, static_cast<std::int32_t>(slots)}};
  ArgumentList arguments;
  std::size_t position = 0;
  for (const ParameterType& type : signature) {
    if (type.type == "constexpr") continue;
    check_internal(position < about.parameters.size() && about.parameters[position] == type.name,
                   "the compiled kernel has other parameters than the plan");
    ++position;
    const auto buffer = std::find_if(plan_.buffers.begin(), plan_.buffers.end(),
                                     [&](const Buffer& each) { return each.parameter == type.name; });
    if (buffer != plan_.buffers.end()) {
      arguments.add(buffers[static_cast<std::size_t>(buffer - plan_.buffers.begin())]);
    } else if (const auto pointer = pointers.find(type.name); pointer != pointers.end()) {
      arguments.add(pointer->second);
    } else if (const auto number = numbers.find(type.name); number != numbers.end()) {
      arguments.add(number->second);
    } else if (type.name == parameter::kTimeLimit) {
      arguments.add(static_cast<std::int64_t>(options_.time_limit * 1e9));
    } else {
      arguments.add(type);
    }
  }
  arguments.add(on.scratch);
  arguments.add(DevicePointer{0});  // of profiles
  std::vector<void*> parameters = arguments.pointers();
  const Driver& driver = on.gpu->driver();
  driver.check(driver.launch_kernel(kernel.function, grid, 1, 1, kernel.threads, 1, 1, kernel.shared_bytes, on.stream,
                                    parameters.data(), nullptr),
               fmt::format("launching {}", about.name));
}

}  // namespace syncopate::cuda
