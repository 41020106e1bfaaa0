#include "syncopate/cuda/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "syncopate/core/error.h"
#include "syncopate/kernel/runtime_names.h"
#include "syncopate/kernel/syntax.h"

namespace syncopate::cuda {
namespace {

std::optional<ParameterType> runtime_type(const Plan& plan, const std::string& name) {
  namespace parameter = runtime_parameter;
  for (const char* pointer : {parameter::kTiles, parameter::kWaits, parameter::kSteps, parameter::kFlags,
                              parameter::kEpoch, parameter::kRecord, parameter::kAddends, parameter::kSignals,
                              parameter::kPeers, parameter::kClaims, parameter::kAdditions})
    if (name == pointer) return ParameterType{name, "*i64", true, {}};
  for (const char* number : {parameter::kRank, parameter::kWorldSize, parameter::kTileCount, parameter::kLookahead,
                             parameter::kAdditionCount})
    if (name == number) return ParameterType{name, "i32", false, {}};
  if (name == parameter::kTimeLimit) return ParameterType{name, "i64", false, {}};
  if (name == parameter::kStaging && reduced_buffer(plan) >= 0)
    return ParameterType{name, "*" + triton_name(plan.buffer(reduced_buffer(plan)).dtype), true, {}};
  if (const int stack = summands_buffer(plan);
      stack >= 0 && (name == parameter::kResult || name == parameter::kSummands))
    return ParameterType{name, "*" + triton_name(plan.buffer(stack).dtype), true, {}};
  if (name == parameter::kCut) return ParameterType{name, "constexpr", false, cuts_tiles(plan)};
  return std::nullopt;
}

ParameterType scalar_type(const std::string& name, const Scalar& value) {
  if (std::holds_alternative<bool>(value)) return {name, "u1", false, value};
  if (std::holds_alternative<double>(value)) return {name, "fp32", false, value};
  const std::int64_t integer = std::get<std::int64_t>(value);
  const bool narrow =
      integer >= std::numeric_limits<std::int32_t>::min() && integer <= std::numeric_limits<std::int32_t>::max();
  return {name, narrow ? "i32" : "i64", integer % 16 == 0, value};
}

/// Of an argument that differs by rank.
ParameterType common_type(const Plan& plan, const std::string& name) {
  ParameterType common;
  for (const ScalarArguments& own : plan.kernel.rank_arguments) {
    const ParameterType type = scalar_type(name, own.at(name));
    const bool first = common.type.empty();
    common.divisible_by_16 = type.divisible_by_16 && (first || common.divisible_by_16);
    if (first || type.type == "i64") common.type = type.type;
  }
  common.name = name;
  return common;
}

ParameterType type_of(const Plan& plan, const Parameter& parameter, const SourceLocation& where) {
  const auto buffer = std::find_if(plan.buffers.begin(), plan.buffers.end(),
                                   [&](const Buffer& about) { return about.parameter == parameter.name; });
  if (buffer != plan.buffers.end()) return {parameter.name, "*" + triton_name(buffer->dtype), true, {}};
  if (auto runtime = runtime_type(plan, parameter.name)) return *runtime;
  const std::vector<ScalarArguments>& by_rank = plan.kernel.rank_arguments;
  if (!by_rank.empty() && by_rank.front().contains(parameter.name)) {
    if (parameter.constexpr_)
      throw UserError(where, fmt::format("argument '{}' differs by rank, and is compiled in", parameter.name),
                      "one value for all ranks, which run one kernel");
    return common_type(plan, parameter.name);
  }
  const auto argument = plan.kernel.arguments.find(parameter.name);
  if (argument == plan.kernel.arguments.end()) {
    if (parameter.default_value) return {parameter.name, "constexpr", false, {}};
    throw UserError(where, fmt::format("the plan gives parameter '{}' no value", parameter.name),
                    "add it to [kernel] args of the operator file");
  }
  if (parameter.constexpr_) return {parameter.name, "constexpr", false, argument->second};
  return scalar_type(parameter.name, argument->second);
}

}  // namespace

std::string triton_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::boolean:
      return "i1";
    case Dtype::int8:
      return "i8";
    case Dtype::int16:
      return "i16";
    case Dtype::int32:
      return "i32";
    case Dtype::int64:
      return "i64";
    case Dtype::uint8:
      return "u8";
    case Dtype::uint16:
      return "u16";
    case Dtype::uint32:
      return "u32";
    case Dtype::uint64:
      return "u64";
    case Dtype::fp8e4m3:
      return "fp8e4nv";
    case Dtype::fp8e5m2:
      return "fp8e5";
    case Dtype::fp16:
      return "fp16";
    case Dtype::bf16:
      return "bf16";
    case Dtype::fp32:
      return "fp32";
    case Dtype::fp64:
      return "fp64";
  }
  throw InternalError("dtype without a name");
}

std::vector<ParameterType> signature_of(const Plan& plan, KernelText text) {
  const KernelPart& kernel = plan.kernel;
  const bool fused = text == KernelText::fused;
  const std::string& name = fused ? kernel.fused_function : kernel.function;
  const auto module = parse_module(std::make_shared<const SourceFile>(
      fused ? "fused.py" : kernel.file, fused ? kernel.fused_source : kernel.local_source));
  const syncopate::Function* function = module->find(name);
  if (function == nullptr)
    throw UserError({fused ? "fused.py" : kernel.file}, fmt::format("there is no function '{}'", name),
                    "the plan names a kernel that its source does not have");
  std::vector<ParameterType> types;
  for (const Parameter& parameter : function->parameters)
    types.push_back(type_of(plan, parameter, module->locate(parameter.range)));
  return types;
}

}  // namespace syncopate::cuda
