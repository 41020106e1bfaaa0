// What stands behind a plan's handle.
#pragma once

#include <memory>

#include "syncopate/capi/syncopate.h"
#include "syncopate/plan/plan.h"

/// Shared with the operators made from it, which may outlive the handle.
struct syncopate_plan {
  std::shared_ptr<const syncopate::Plan> plan;
};
