// Plans and reports as JSON, for callers of the C interface (docs/c_api.md lists the members).
#pragma once

#include <string>

#include "syncopate/host/host.h"
#include "syncopate/plan/plan.h"
#include "syncopate/verify/verify.h"

namespace syncopate::capi {

std::string describe(const Plan& plan);
std::string describe(const Proof& proof);
std::string describe(const RunReport& report);

}  // namespace syncopate::capi
