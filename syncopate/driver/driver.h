// From files to plans: the one place that joins the compiler and the emitter. The faces (CLI, later a C ABI) use it.
#pragma once

#include <string>
#include <vector>

#include "syncopate/plan/operator.h"
#include "syncopate/plan/plan.h"

namespace syncopate {

/// Reads an operator file and its kernel, compiles and emits: a complete plan. Throws UserError.
Plan compile_operator(const std::string& operator_file, const std::vector<Override>& overrides = {});

/// A plan from an operator file (compiled) or from a plan file (read), told apart by the name's ending: .json is a
/// plan. Throws UserError; overrides of a plan file are an error.
Plan load_plan(const std::string& path, const std::vector<Override>& overrides = {});

/// A plan as load_plan() reads it, but a plan file without the hash it states is taken as it is: `warning` says so,
/// with the place. Verification has to do with such plans too; nothing else should.
struct UncheckedPlan {
  Plan plan;
  std::string warning;
};
UncheckedPlan load_unchecked_plan(const std::string& path, const std::vector<Override>& overrides = {});

/// Writes plan.json and fused.py into `folder`, both or neither.
void write_plan(const Plan& plan, const std::string& folder);

}  // namespace syncopate
