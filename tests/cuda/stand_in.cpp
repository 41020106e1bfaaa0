#include "stand_in.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "syncopate/cuda/device_code.h"
#include "syncopate/cuda/signature.h"
#include "syncopate/kernel/runtime_names.h"

namespace syncopate::cuda {
namespace {

Element* elements_at(DevicePointer address) { return reinterpret_cast<Element*>(address); }
std::int64_t* words_at(DevicePointer address) { return reinterpret_cast<std::int64_t*>(address); }

/// Steps in which nothing of an impatient rank moves before it gives up: many more than a launch takes.
constexpr int kPatience = 20000;

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
  if (is_dynamic(plan))
    for (const char* name : {parameter::kClaims, parameter::kLookahead}) text += ", " + std::string(name);
  if (reduced_buffer(plan) >= 0)
    for (const char* name :
         {parameter::kStaging, parameter::kAddends, parameter::kSignals, parameter::kPeers, parameter::kCut})
      text += ", " + std::string(name);
  return text + "):\n    pass\n";
}

/// syncopate_step, as device_code.h describes it, without a time limit.
Work start_step(const std::vector<std::uint64_t>& arguments) {
  return [arguments, row = std::uint64_t{0}, raised = std::uint64_t{0}]() mutable {
    const std::int64_t* waits = words_at(arguments[0]);
    const std::int64_t epoch = *words_at(arguments[5]);
    if (row < arguments[1]) {
      const std::int64_t* wait = waits + 3 * row;
      const bool let_go = *words_at(arguments[7]) != 0;
      if (!let_go && words_at(arguments[4])[wait[0]] < wait[1] * (epoch - 1) + wait[2]) return Progress::none;
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

/// Of every tensor, with sizes that say nothing: a simulated GPU looks at addresses only.
std::vector<DescriptorParameter> descriptors_of(const Plan& plan) {
  std::vector<DescriptorParameter> descriptors;
  for (const Buffer& buffer : plan.buffers)
    if (!buffer.parameter.empty())
      descriptors.push_back({buffer.parameter, {"8", "16"}, {"16", "1"}, {8, 8}, 1, sizeof(Element)});
  return descriptors;
}
/// Of a descriptor: the map, its two sizes and its two strides.
constexpr std::size_t kDescriptorArguments = 5;

/// One launch of the stand-in for the fused kernel.
class Kernel {
 public:
  Kernel(const StandIn& stand_in, const std::vector<std::uint64_t>& arguments)
      : stand_in_(stand_in), plan_(*stand_in.plan) {
    std::size_t position = 0;
    for (const ParameterType& type : signature_of(plan_, KernelText::fused))
      if (type.type != "constexpr") arguments_[type.name] = arguments[position++];
    for (const DescriptorParameter& descriptor : descriptors_of(plan_)) {
      if (arguments[position] != arguments_.at(descriptor.pointer))
        stand_in.complain("the descriptor of " + descriptor.pointer + " is of other memory");
      position += kDescriptorArguments;
    }
    namespace parameter = runtime_parameter;
    rank_ = static_cast<int>(static_cast<std::int32_t>(arguments_.at(parameter::kRank)));
    count_ = static_cast<std::int32_t>(arguments_.at(parameter::kTileCount));
    reduced_ = reduced_buffer(plan_);
    columns_ = static_cast<std::int64_t>(plan_.kernel.axes.size()) + (reduced_ < 0 ? 2 : 14);
    for (int worker = 0; worker < plan_.workers; ++worker)
      workers_.push_back({is_dynamic(plan_) ? kNone : std::int64_t{worker}, 0});
  }

  Progress step() {
    if (launch_ == 0) launch_ = *words_at(arguments_.at(runtime_parameter::kEpoch));
    const std::size_t first = stand_in_.random->below(workers_.size());
    bool left = false;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[(first + i) % workers_.size()];
      if (worker.slot >= count_) continue;
      left = true;
      if (step(worker)) {
        waited_ = 0;
        return Progress::some;
      }
    }
    if (!left) return Progress::done;
    if (rank_ != stand_in_.impatient) return Progress::none;
    if (++waited_ == kPatience) give_up();
    return Progress::some;
  }

 private:
  struct Worker {
    std::int64_t slot = 0;
    int phase = 0;
  };

  static constexpr std::int64_t kNone = -1;

  const std::int64_t* row(const Worker& worker) const { return row(worker.slot); }
  const std::int64_t* row(std::int64_t slot) const {
    return words_at(arguments_.at(runtime_parameter::kTiles)) + slot * columns_ +
           static_cast<std::int64_t>(plan_.kernel.axes.size());
  }

  /// A slot for a worker of a dynamic order: any that it may take.
  bool take(Worker& worker) const {
    std::int64_t* claims = words_at(arguments_.at(runtime_parameter::kClaims));
    std::int64_t first = 0;
    while (first < count_ && claims[first] >= launch_) ++first;
    if (first == count_) worker.slot = count_;
    const auto lookahead = static_cast<std::int32_t>(arguments_.at(runtime_parameter::kLookahead));
    std::vector<std::int64_t> possible;
    for (std::int64_t slot = first; slot < std::min(first + lookahead, count_); ++slot)
      if (claims[slot] < launch_ && ready(row(slot)[0], row(slot)[1])) possible.push_back(slot);
    if (possible.empty()) return first == count_;
    worker.slot = possible[stand_in_.random->below(possible.size())];
    claims[worker.slot] = launch_;
    return true;
  }

  bool ready(std::int64_t first, std::int64_t end) const {
    const std::int64_t* waits = words_at(arguments_.at(runtime_parameter::kWaits));
    const std::int64_t* flags = words_at(arguments_.at(runtime_parameter::kFlags));
    for (std::int64_t i = first; i < end; ++i)
      if (flags[waits[3 * i]] < waits[3 * i + 1] * (launch_ - 1) + waits[3 * i + 2]) return given_up();
    return true;
  }

  std::int64_t* record() const { return words_at(arguments_.at(runtime_parameter::kRecord)); }
  bool given_up() const { return record()[0] != 0; }
  void give_up() const {
    for (Worker worker : workers_) {
      const std::int64_t* claims = is_dynamic(plan_) ? words_at(arguments_.at(runtime_parameter::kClaims)) : nullptr;
      if (worker.slot == kNone)
        for (worker.slot = 0; worker.slot < count_ && claims[worker.slot] >= launch_;) ++worker.slot;
      if (worker.slot >= count_ || given_up()) continue;
      const std::int64_t* at = row(worker) + worker.phase;  // phases 0 and 2 wait, for what columns 0 and 2 begin
      const std::int64_t* waits = words_at(arguments_.at(runtime_parameter::kWaits)) + 3 * at[0];
      const std::int64_t seen = words_at(arguments_.at(runtime_parameter::kFlags))[waits[0]];
      const std::int64_t left[] = {1, worker.slot, waits[0], waits[1] * (launch_ - 1) + waits[2], seen};
      std::copy(std::begin(left), std::end(left), record());
    }
  }

  /// One phase of one tile; false if it has to wait.
  bool step(Worker& worker) {
    if (worker.slot == kNone) return take(worker);
    const std::int64_t* at = row(worker);
    const Slot& slot = plan_.programs[static_cast<std::size_t>(rank_)].slots[static_cast<std::size_t>(worker.slot)];
    const Tile& tile = plan_.tiles[static_cast<std::size_t>(slot.tile)];
    switch (worker.phase++) {
      case 0:
        if (!ready(at[0], at[1])) return --worker.phase, false;
        return true;
      case 1:
        check_reads(tile);
        if (reduced_ >= 0) raise(at[7], at[8]);
        if (reduced_ < 0) next(worker);
        return true;
      case 2:
        if (!ready(at[2], at[3])) return --worker.phase, false;
        return true;
      case 3:
        store(tile, at);
        return true;
      default:
        raise(at[9], at[10]);
        next(worker);
        return true;
    }
  }

  void raise(std::int64_t first, std::int64_t end) const {
    for (std::int64_t i = first; i < end; ++i) {
      const std::int64_t* signal = words_at(arguments_.at(runtime_parameter::kSignals)) + 2 * i;
      const std::int64_t flags = words_at(arguments_.at(runtime_parameter::kPeers))[signal[0]];
      ++words_at(static_cast<DevicePointer>(flags))[signal[1]];
    }
  }

  void next(Worker& worker) const {
    worker.slot = is_dynamic(plan_) ? kNone : worker.slot + plan_.workers;
    worker.phase = 0;
  }

  void check_reads(const Tile& tile) const {
    for (const TileAccess& access : tile.reads) {
      const Buffer& about = plan_.buffer(access.buffer);
      if (!about.symmetric) continue;
      const Element* data = elements_at(arguments_.at(about.parameter));
      for_each_run(access.region, about.shape, [&](std::int64_t offset, std::int64_t run) {
        for (std::int64_t e = offset; e < offset + run; ++e)
          if (data[e] != stamp(launch_, e))
            return stand_in_.complain(
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
        for (std::int64_t e = std::max(offset, at[11]); e < std::min(offset + run, at[12]); ++e) {
          Element sum = summand(launch_, rank_, e);
          for (std::int64_t i = at[4]; i < at[6]; ++i)
            if (e >= addends[3 * i + 1] && e < addends[3 * i + 2])
              sum = static_cast<Element>(sum + staging[e + addends[3 * i]]);
          c[e] = sum;
        }
      });
    }
  }

  const StandIn& stand_in_;
  const Plan& plan_;
  std::map<std::string, std::uint64_t> arguments_;
  int rank_ = 0;
  std::int64_t count_ = 0;
  std::int64_t columns_ = 0;
  int reduced_ = -1;
  std::int64_t launch_ = 0;
  int waited_ = 0;
  std::vector<Worker> workers_;
};

}  // namespace

Element stamp(std::int64_t launch, std::int64_t e) {
  return static_cast<Element>(mix_bits(static_cast<std::uint64_t>(launch * 1000003 + e)));
}
Element summand(std::int64_t launch, int rank, std::int64_t e) {
  return static_cast<Element>(mix_bits(static_cast<std::uint64_t>((launch * 64 + rank) * 1000003 + e)) & 0xfff);
}

void name_stand_in(Plan& plan) {
  plan.kernel.fused_function = "stand_in";
  plan.kernel.fused_source = parameters_only(plan);
}

std::shared_ptr<const CompiledKernel> define_stand_in(SimulatedGpu& machine, const StandIn& stand_in) {
  auto compiled = std::make_shared<CompiledKernel>();
  compiled->name = stand_in.plan->kernel.fused_function;
  compiled->warps = 4;
  for (const ParameterType& type : signature_of(*stand_in.plan, KernelText::fused))
    if (type.type != "constexpr") compiled->parameters.push_back(type.name);
  compiled->descriptors = descriptors_of(*stand_in.plan);
  machine.define(compiled->name, compiled->parameters.size() + kDescriptorArguments * compiled->descriptors.size() + 2,
                 [stand_in](const std::vector<std::uint64_t>& arguments) {
                   return [kernel = std::make_shared<Kernel>(stand_in, arguments)] { return kernel->step(); };
                 });
  return compiled;
}

void define_small_kernels(SimulatedGpu& machine) {
  machine.define(kStepKernel, 10, start_step);
  machine.define(kDelayKernel, 1, [](const std::vector<std::uint64_t>&) { return [] { return Progress::done; }; });
}

}  // namespace syncopate::cuda
