#include "syncopate/cuda/kernel_arguments.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "syncopate/core/error.h"
#include "syncopate/kernel/runtime_names.h"

namespace syncopate::cuda {
namespace {

template <typename T>
std::uint64_t bits_of(T value) {
  static_assert(sizeof value <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

std::uint64_t scalar_bits(const ParameterType& type, const ScalarArguments& own) {
  const auto differing = own.find(type.name);
  check_internal(type.value.has_value() || differing != own.end(), "a scalar argument without a value");
  const Scalar& value = type.value ? *type.value : differing->second;
  if (type.type == "u1") return bits_of(static_cast<std::uint8_t>(std::get<bool>(value)));
  if (type.type == "fp32") return bits_of(static_cast<float>(std::get<double>(value)));
  if (type.type == "i32") return bits_of(static_cast<std::int32_t>(std::get<std::int64_t>(value)));
  return bits_of(std::get<std::int64_t>(value));
}

/// The arguments that the rank has for itself.
ScalarArguments own_arguments(const Plan& plan, std::int32_t rank) {
  const std::vector<ScalarArguments>& by_rank = plan.kernel.rank_arguments;
  return by_rank.empty() ? ScalarArguments{} : by_rank[static_cast<std::size_t>(rank)];
}

/// The buffer that a parameter points to, or -1.
int buffer_of(const Plan& plan, const std::string& parameter) {
  if (parameter == runtime_parameter::kStaging) return staging_buffer(plan);
  if (parameter == runtime_parameter::kSummands) return summands_buffer(plan);
  if (parameter == runtime_parameter::kResult) return added_up_buffer(plan);
  const auto found = std::find_if(plan.buffers.begin(), plan.buffers.end(),
                                  [&](const Buffer& buffer) { return buffer.parameter == parameter; });
  return found == plan.buffers.end() ? -1 : static_cast<int>(found - plan.buffers.begin());
}

Names integers_of(const std::vector<ParameterType>& signature, const ScalarArguments& own) {
  Names integers;
  for (const auto& [name, value] : own)
    if (const auto* integer = std::get_if<std::int64_t>(&value)) integers[name] = *integer;
  for (const ParameterType& type : signature)
    if (type.value && std::holds_alternative<std::int64_t>(*type.value))
      integers[type.name] = std::get<std::int64_t>(*type.value);
  return integers;
}

}  // namespace

KernelArguments::KernelArguments(const Driver& driver, const Plan& plan, const std::vector<ParameterType>& signature,
                                 const CompiledKernel& kernel, const RuntimeValues& runtime, DevicePointer scratch)
    : driver_(driver), position_(plan.buffers.size(), -1) {
  namespace parameter = runtime_parameter;
  const std::map<std::string, std::uint64_t> given = {
      {parameter::kRank, bits_of(runtime.rank)},
      {parameter::kWorldSize, bits_of(static_cast<std::int32_t>(plan.ranks))},
      {parameter::kTileCount, bits_of(runtime.tile_count)},
      {parameter::kTimeLimit, bits_of(runtime.time_limit)},
      {parameter::kTiles, runtime.tiles},
      {parameter::kWaits, runtime.waits},
      {parameter::kSteps, runtime.steps},
      {parameter::kFlags, runtime.flags},
      {parameter::kEpoch, runtime.epoch},
      {parameter::kRecord, runtime.record},
      {parameter::kAddends, runtime.addends},
      {parameter::kSignals, runtime.signals},
      {parameter::kPeers, runtime.peers},
      {parameter::kClaims, runtime.claims},
      {parameter::kLookahead, bits_of(static_cast<std::int32_t>(plan.lookahead))},
      {parameter::kAdditions, runtime.additions},
      {parameter::kAdditionCount, bits_of(runtime.addition_count)},
      {parameter::kStaging, 0},  // of a plan with one rank, which needs none
  };
  const ScalarArguments own = own_arguments(plan, runtime.rank);
  for (const ParameterType& type : signature) {
    if (type.type == "constexpr") continue;
    check_internal(values_.size() < kernel.parameters.size() && kernel.parameters[values_.size()] == type.name,
                   "the compiled kernel has other parameters than the plan");
    if (const int buffer = buffer_of(plan, type.name); buffer >= 0) {
      position_[static_cast<std::size_t>(buffer)] = static_cast<int>(values_.size());
      values_.push_back(0);
    } else if (const auto value = given.find(type.name); value != given.end()) {
      values_.push_back(value->second);
    } else {
      values_.push_back(scalar_bits(type, own));
    }
  }
  check_internal(values_.size() == kernel.parameters.size(), "the compiled kernel has more parameters than the plan");
  add_descriptors(plan, integers_of(signature, own), kernel);
  values_.push_back(scratch);
  values_.push_back(0);  // of profiles
  point();
}

void KernelArguments::add_descriptors(const Plan& plan, const Names& sizes, const CompiledKernel& kernel) {
  for (const DescriptorParameter& about : kernel.descriptors) {
    const int buffer = buffer_of(plan, about.pointer);
    check_internal(buffer >= 0, "a descriptor of something that is no tensor");
    const MappedTensor tensor = mapped_tensor(plan, plan.buffer(buffer), about, sizes);
    descriptors_.push_back({buffer, tensor, values_.size(), 0, {}});
    for (const std::int64_t size : tensor.shape) values_.push_back(bits_of(static_cast<std::int32_t>(size)));
    for (const std::int64_t stride : tensor.strides) values_.push_back(bits_of(stride));
  }
}

/// When all values are there: they and the maps stay where they are from now on.
void KernelArguments::point() {
  auto descriptor = descriptors_.begin();
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (descriptor != descriptors_.end() && descriptor->position == i) pointers_.push_back(&(descriptor++)->map);
    pointers_.push_back(&values_[i]);
  }
}

void KernelArguments::set_buffer(int buffer, DevicePointer address) {
  const int position = position_[static_cast<std::size_t>(buffer)];
  if (position < 0) return;
  values_[static_cast<std::size_t>(position)] = address;
  for (Descriptor& each : descriptors_) {
    if (each.buffer != buffer || each.address == address) continue;
    each.map = address == 0 ? TensorMap{} : make_tensor_map(driver_, each.tensor, address);
    each.address = address;
  }
}

}  // namespace syncopate::cuda
