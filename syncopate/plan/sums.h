// The unfused meaning of outputs that are communicated: what Plan::sums makes of the summands that the ranks' local
// kernels leave, and which parts of other ranks' outputs a result is made of.
#pragma once

#include <vector>

#include "syncopate/plan/inputs.h"
#include "syncopate/plan/plan.h"

namespace syncopate {

/// The elements of `region` of a buffer of this shape, row-major.
Bytes cut_out(const Bytes& whole, const Region& region, const Shape& shape, Dtype dtype);

/// The sum over a stack, as tiles load it.
Bytes sum_of_stack(const Buffer& about, const Bytes& stack);
/// What the local kernel reads on a rank, [buffer], where launches read `inputs`, of launch_inputs(): sums of stacks.
std::vector<Bytes> local_inputs(const Plan& plan, std::vector<Bytes> inputs);

/// The outputs of every rank, [rank][buffer], if rank r's local kernel, run over whole tensors, leaves `unfused[r]`
/// ([buffer], empty for what is no output). Of the reduced buffer a rank's output is its output_region(), cut out, each
/// element added up in the order that Plan::sums states; of a result it is what its window shows of what the kernels
/// have made of the tensor, while its partner is no output. All others are as their kernel leaves them.
std::vector<std::vector<Bytes>> operator_outputs(const Plan& plan, std::vector<std::vector<Bytes>> unfused);

}  // namespace syncopate
