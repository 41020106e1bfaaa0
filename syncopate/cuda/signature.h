// How Triton is to specialise a plan's kernels: the type and the known facts of every parameter. All of it follows from
// the plan, so that a kernel is compiled once and never again for a value that happens to be special.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "syncopate/plan/plan.h"

namespace syncopate::cuda {

struct ParameterType {
  std::string name;
  /// Triton's name of the type: "*bf16", "i32", "i64", "fp32", "u1"; "constexpr" for a value compiled in.
  std::string type;
  bool divisible_by_16 = false;  ///< pointers, which we align, and integers that are
  /// Of scalars that have one on all ranks; of a constexpr too, unless the kernel's own default is meant.
  std::optional<Scalar> value;
};

enum class KernelText { local, fused };

/// In the order of the kernel's parameters. Runtime scalars (rank, world size, tile count, time limit) have no value,
/// nor have arguments that differ by rank: of those is known what holds on every rank, for one kernel runs on all.
/// Throws UserError for a parameter that the plan gives no value and the kernel no default.
std::vector<ParameterType> signature_of(const Plan& plan, KernelText text);

/// Triton's name of an element type.
std::string triton_name(Dtype dtype);

}  // namespace syncopate::cuda
