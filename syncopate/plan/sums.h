// The unfused meaning of a reduced output: what Plan::sums makes of the summands that the ranks' local kernels leave.
#pragma once

#include <vector>

#include "syncopate/plan/inputs.h"
#include "syncopate/plan/plan.h"

namespace syncopate {

/// The elements of `region` of a buffer of this shape, row-major.
Bytes cut_out(const Bytes& whole, const Region& region, const Shape& shape, Dtype dtype);

/// The outputs of every rank, [rank][buffer], if rank r's local kernel, run over whole tensors, leaves `unfused[r]`
/// ([buffer], empty for what is no output). Only those of the reduced buffer differ from it: there a rank's output is
/// its output_region(), cut out, each element added up in the order that Plan::sums states.
std::vector<std::vector<Bytes>> reduce_outputs(const Plan& plan, std::vector<std::vector<Bytes>> unfused);

}  // namespace syncopate
