// Plans as files.
#pragma once

#include <string>

#include "syncopate/core/source.h"
#include "syncopate/plan/plan.h"

namespace syncopate {

/// Deterministic text: same plan, same bytes. Ends with the hash of everything before it.
std::string to_json(const Plan& plan);
/// The inverse. Throws UserError, with its place, for a truncated or malformed file, another version, an index
/// out of range, or a hash that does not match the content (a hand-edited or damaged file).
/// With `check_hash` false the hash is not compared: for tools that edit plans on purpose.
Plan parse_plan(const SourceFile& file, bool check_hash = true);
/// The hash that to_json() writes.
std::string plan_hash(const Plan& plan);

}  // namespace syncopate
