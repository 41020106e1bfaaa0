#include "simulated_ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "syncopate/cuda/device_code.h"
#include "syncopate/cuda/signature.h"
#include "syncopate/kernel/runtime_names.h"
#include "syncopate/plan/inputs.h"

namespace syncopate::cuda {
namespace {

using Element = std::uint16_t;

Element* elements_at(DevicePointer address) { return reinterpret_cast<Element*>(address); }
std::int64_t* words_at(DevicePointer address) { return reinterpret_cast<std::int64_t*>(address); }

/// Element `e` of an input that ranks share.
Element stamp(std::int64_t launch, std::int64_t e) {
  return static_cast<Element>(mix_bits(static_cast<std::uint64_t>(launch * 1000003 + e)));
}
/// Element `e` of the summand of a rank.
Element summand(std::int64_t launch, int rank, std::int64_t e) {
  return static_cast<Element>(mix_bits(static_cast<std::uint64_t>((launch * 64 + rank) * 1000003 + e)) & 0xfff);
}

/// The text that a plan's fused kernel would have, as far as its parameters go.
std::string parameters_only(const Plan& plan) {
  namespace parameter = runtime_parameter;
  std::string text = "import triton\n\n\n@triton.jit\ndef " + plan.kernel.fused_function + "(";
  for (const Buffer& buffer : plan.buffers)
    if (!buffer.parameter.empty()) text += buffer.parameter + ", ";
  for (const char* name : {parameter::kRank, parameter::kWorldSize, parameter::kTiles, parameter::kTileCount,
                           parameter::kWaits, parameter::kFlags, parameter::kEpoch, parameter::kRecord})
    text += std::string(name) + ", ";
  text += parameter::kTimeLimit;
  if (reduced_buffer(plan) >= 0)
    for (const char* name :
         {parameter::kStaging, parameter::kAddends, parameter::kSignals, parameter::kPeers, parameter::kCut})
      text += ", " + std::string(name);
  return text + "):\n    pass\n";
}

/// syncopate_step, as device_code.h describes it; it never gives up.
Work start_step(const std::vector<std::uint64_t>& arguments) {
  return [arguments, row = std::uint64_t{0}, raised = std::uint64_t{0}]() mutable {
    const std::int64_t* waits = words_at(arguments[0]);
    const std::int64_t epoch = *words_at(arguments[5]);
    if (row < arguments[1]) {
      const std::int64_t* wait = waits + 3 * row;
      if (words_at(arguments[4])[wait[0]] < wait[1] * (epoch - 1) + wait[2]) return Progress::none;
      ++row;
      return Progress::some;
    }
    if (raised < arguments[3]) {
      ++*words_at(static_cast<DevicePointer>(words_at(arguments[2])[raised++]));
      return Progress::some;
    }
    *words_at(arguments[5]) += static_cast<std::int64_t>(arguments[6]);
    return Progress::done;
  };
}

}  // namespace

/// One launch of the stand-in for the fused kernel.
class SimulatedRanks::Kernel {
 public:
  Kernel(SimulatedRanks& all, const std::vector<std::uint64_t>& arguments) : all_(all), plan_(all.plan_) {
    std::size_t position = 0;
    for (const ParameterType& type : signature_of(plan_, KernelText::fused))
      if (type.type != "constexpr") arguments_[type.name] = arguments[position++];
    namespace parameter = runtime_parameter;
    rank_ = static_cast<int>(static_cast<std::int32_t>(arguments_.at(parameter::kRank)));
    count_ = static_cast<std::int32_t>(arguments_.at(parameter::kTileCount));
    reduced_ = reduced_buffer(plan_);
    columns_ = static_cast<std::int64_t>(plan_.kernel.axes.size()) + (reduced_ < 0 ? 2 : 11);
    for (int worker = 0; worker < plan_.workers; ++worker) workers_.push_back({worker, 0});
  }

  Progress step() {
    if (launch_ == 0) launch_ = *words_at(arguments_.at(runtime_parameter::kEpoch));
    const std::size_t first = all_.random_.below(workers_.size());
    bool left = false;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[(first + i) % workers_.size()];
      if (worker.slot >= count_) continue;
      left = true;
      if (step(worker)) return Progress::some;
    }
    return left ? Progress::none : Progress::done;
  }

 private:
  struct Worker {
    std::int64_t slot = 0;
    int phase = 0;
  };

  const std::int64_t* row(const Worker& worker) const {
    return words_at(arguments_.at(runtime_parameter::kTiles)) + worker.slot * columns_ +
           static_cast<std::int64_t>(plan_.kernel.axes.size());
  }

  bool ready(std::int64_t first, std::int64_t end) const {
    const std::int64_t* waits = words_at(arguments_.at(runtime_parameter::kWaits));
    const std::int64_t* flags = words_at(arguments_.at(runtime_parameter::kFlags));
    for (std::int64_t i = first; i < end; ++i)
      if (flags[waits[3 * i]] < waits[3 * i + 1] * (launch_ - 1) + waits[3 * i + 2]) return false;
    return true;
  }

  /// One phase of one tile; false if it has to wait.
  bool step(Worker& worker) {
    const std::int64_t* at = row(worker);
    const Slot& slot = plan_.programs[static_cast<std::size_t>(rank_)].slots[static_cast<std::size_t>(worker.slot)];
    const Tile& tile = plan_.tiles[static_cast<std::size_t>(slot.tile)];
    switch (worker.phase++) {
      case 0:
        if (!ready(at[0], at[1])) return --worker.phase, false;
        return true;
      case 1:
        check_reads(tile);
        if (reduced_ < 0) next(worker);
        return true;
      case 2:
        if (!ready(at[2], at[3])) return --worker.phase, false;
        return true;
      case 3:
        store(tile, at);
        return true;
      default:
        for (std::int64_t i = at[7]; i < at[8]; ++i) {
          const std::int64_t* signal = words_at(arguments_.at(runtime_parameter::kSignals)) + 2 * i;
          const std::int64_t flags = words_at(arguments_.at(runtime_parameter::kPeers))[signal[0]];
          ++words_at(static_cast<DevicePointer>(flags))[signal[1]];
        }
        next(worker);
        return true;
    }
  }

  void next(Worker& worker) const {
    worker.slot += plan_.workers;
    worker.phase = 0;
  }

  void check_reads(const Tile& tile) const {
    for (const TileAccess& access : tile.reads) {
      const Buffer& about = plan_.buffer(access.buffer);
      if (!about.symmetric) continue;
      const Element* data = elements_at(all_.rank(rank_).buffer(access.buffer));
      for_each_run(access.region, about.shape, [&](std::int64_t offset, std::int64_t run) {
        for (std::int64_t e = offset; e < offset + run; ++e)
          if (data[e] != stamp(launch_, e))
            return all_.complain(
                fmt::format("rank {}, launch {}: element {} of {} is not there", rank_, launch_, e, about.name));
      });
    }
  }

  /// `at`: the row of the slot, behind the index values.
  void store(const Tile& tile, const std::int64_t* at) const {
    const std::int64_t* addends = words_at(arguments_.at(runtime_parameter::kAddends));
    const Element* staging = elements_at(arguments_.at(runtime_parameter::kStaging));
    Element* c = elements_at(arguments_.at(plan_.buffer(reduced_).parameter));
    for (const TileAccess& access : tile.writes) {
      if (access.buffer != reduced_) continue;
      for_each_run(access.region, plan_.buffer(reduced_).shape, [&](std::int64_t offset, std::int64_t run) {
        for (std::int64_t e = std::max(offset, at[9]); e < std::min(offset + run, at[10]); ++e) {
          Element sum = summand(launch_, rank_, e);
          for (std::int64_t i = at[4]; i < at[6]; ++i)
            if (e >= addends[3 * i + 1] && e < addends[3 * i + 2])
              sum = static_cast<Element>(sum + staging[e + addends[3 * i]]);
          c[e] = sum;
        }
      });
    }
  }

  SimulatedRanks& all_;
  const Plan& plan_;
  std::map<std::string, std::uint64_t> arguments_;
  int rank_ = 0;
  std::int64_t count_ = 0;
  std::int64_t columns_ = 0;
  int reduced_ = -1;
  std::int64_t launch_ = 0;
  std::vector<Worker> workers_;
};

SimulatedRanks::SimulatedRanks(Plan plan, Issue issue, std::uint64_t seed, std::optional<WithheldTransfer> withheld)
    : plan_(std::move(plan)), issue_(issue), machine_(seed), random_(seed + 1) {
  plan_.kernel.fused_function = "stand_in";
  plan_.kernel.fused_source = parameters_only(plan_);
  const auto compiled = std::make_shared<CompiledKernel>();
  compiled->name = "stand_in";
  compiled->warps = 4;
  for (const ParameterType& type : signature_of(plan_, KernelText::fused))
    if (type.type != "constexpr") compiled->parameters.push_back(type.name);
  machine_.define("stand_in", compiled->parameters.size() + 2, [this](const std::vector<std::uint64_t>& arguments) {
    return [kernel = std::make_shared<Kernel>(*this, arguments)] { return kernel->step(); };
  });
  machine_.define(kStepKernel, 10, start_step);
  machine_.define(kDelayKernel, 1, [](const std::vector<std::uint64_t>&) { return [] { return Progress::done; }; });
  gpu_ = std::make_unique<Gpu>(machine_.driver(), 0);
  RankOptions options;
  options.ranks_on_this_gpu = plan_.ranks;
  options.compiled = compiled;
  options.graph = issue == Issue::graph;
  options.withheld = withheld;
  for (int each = 0; each < plan_.ranks; ++each) {
    ranks_.push_back(std::make_unique<RankOnGpu>(plan_, each, *gpu_, options));
    callers_.push_back(gpu_->make_stream(false));
  }
  std::vector<DevicePointer> arenas;
  for (const auto& each : ranks_) arenas.push_back(each->arena());
  for (const auto& each : ranks_) {
    each->connect(arenas);
    each->allocate_unbound();
  }
  if (issue_ != Issue::captured) return;
  for (int each = 0; each < plan_.ranks; ++each) {
    const Stream caller = callers_[static_cast<std::size_t>(each)];
    const Driver& driver = gpu_->driver();
    Graph graph = nullptr;
    captured_.push_back(nullptr);
    driver.stream_begin_capture(caller, kCaptureRelaxed);
    rank(each).call(caller);
    driver.stream_end_capture(caller, &graph);
    driver.graph_instantiate(&captured_.back(), graph, 0);
  }
}

SimulatedRanks::~SimulatedRanks() = default;

void SimulatedRanks::complain(std::string problem) {
  if (problems.size() < 5) problems.push_back(std::move(problem));
}

std::int64_t SimulatedRanks::elements(int buffer) const { return volume(plan_.buffer(buffer).shape); }

bool SimulatedRanks::run(int count) {
  const std::int64_t first = launches_ + 1;
  for (int i = 0; i < count; ++i) issue(++launches_);
  if (!machine_.run()) return false;
  for (std::int64_t launch = first; launch <= launches_; ++launch) check_outputs(launch);
  return true;
}

void SimulatedRanks::issue(std::int64_t launch) {
  outputs_.emplace_back(static_cast<std::size_t>(plan_.ranks), 0);
  if (issue_ == Issue::steps) {
    for (const Step& step : issue_order(plan_)) {
      const Stream caller = callers_[static_cast<std::size_t>(step.rank)];
      if (step.kind == Step::Kind::begin) put_inputs(step.rank, launch);
      if (step.kind == Step::Kind::begin) rank(step.rank).begin(caller);
      if (step.kind == Step::Kind::transfer) rank(step.rank).transfer(step.queue, step.transfer);
      if (step.kind == Step::Kind::kernel) rank(step.rank).kernel(caller);
      if (step.kind == Step::Kind::complete) rank(step.rank).complete(caller);
      if (step.kind == Step::Kind::complete) take_outputs(step.rank, launch);
    }
    return;
  }
  for (int each = 0; each < plan_.ranks; ++each) {
    const auto at = static_cast<std::size_t>(each);
    put_inputs(each, launch);
    if (issue_ == Issue::graph) rank(each).call(callers_[at]);
    if (issue_ == Issue::captured) gpu_->driver().graph_launch(captured_[at], callers_[at]);
    take_outputs(each, launch);
  }
}

void SimulatedRanks::put_inputs(int index, std::int64_t launch) {
  for (std::size_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
    const Buffer& about = plan_.buffers[buffer];
    const Region& held = about.held[static_cast<std::size_t>(index)];
    if (!about.symmetric || held.empty()) continue;
    for_each_run(held, about.shape, [&](std::int64_t offset, std::int64_t run) {
      std::vector<Element> values;
      for (std::int64_t e = offset; e < offset + run; ++e) values.push_back(stamp(launch, e));
      const std::size_t bytes = values.size() * sizeof(Element);
      const DevicePointer from = gpu_->allocate(bytes, "inputs");
      gpu_->upload(from, values.data(), bytes);
      gpu_->driver().copy_async(
          rank(index).buffer(static_cast<int>(buffer)) + static_cast<std::size_t>(offset) * sizeof(Element), from,
          bytes, callers_[static_cast<std::size_t>(index)]);
    });
  }
}

void SimulatedRanks::take_outputs(int index, std::int64_t launch) {
  const int reduced = reduced_buffer(plan_);
  if (reduced < 0) return;
  const std::size_t bytes = static_cast<std::size_t>(elements(reduced)) * sizeof(Element);
  DevicePointer& to = outputs_[static_cast<std::size_t>(launch - 1)][static_cast<std::size_t>(index)];
  to = gpu_->allocate(bytes, "outputs");
  gpu_->driver().copy_async(to, rank(index).buffer(reduced), bytes, callers_[static_cast<std::size_t>(index)]);
}

void SimulatedRanks::check_outputs(std::int64_t launch) {
  const int reduced = reduced_buffer(plan_);
  if (reduced < 0) return;
  for (int index = 0; index < plan_.ranks; ++index) {
    const Element* output =
        elements_at(outputs_[static_cast<std::size_t>(launch - 1)][static_cast<std::size_t>(index)]);
    for_each_run(
        output_region(plan_, reduced, index), plan_.buffer(reduced).shape, [&](std::int64_t offset, std::int64_t run) {
          for (std::int64_t e = offset; e < offset + run; ++e) {
            Element sum = 0;
            for (int each = 0; each < plan_.ranks; ++each) sum = static_cast<Element>(sum + summand(launch, each, e));
            if (output[e] != sum)
              return complain(fmt::format("rank {}, launch {}: element {} of the sum is wrong", index, launch, e));
          }
        });
  }
}

}  // namespace syncopate::cuda
