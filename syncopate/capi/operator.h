// Making an operator, apart from syncopate_operator_create(), so that tests can give it a driver and a kernel.
#pragma once

#include <memory>

#include "syncopate/capi/syncopate.h"
#include "syncopate/cuda/rank_on_gpu.h"
#include "syncopate/plan/plan.h"

namespace syncopate::capi {

/// An operator for syncopate_operator_destroy(). It shares `driver` with its views, the last of which may be the last
/// owner. `asked` is complete and right; of it come the device, the rank, and how many of them share the device.
syncopate_operator* new_operator(std::shared_ptr<const Plan> plan, std::shared_ptr<const cuda::Driver> driver,
                                 const syncopate_operator_options& asked, const cuda::RankOptions& options);

}  // namespace syncopate::capi
