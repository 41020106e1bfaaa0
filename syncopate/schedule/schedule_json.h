// The text form of a schedule.
#pragma once

#include <string>

#include "syncopate/core/source.h"
#include "syncopate/schedule/schedule.h"

namespace syncopate {

/// Parses and validates. Format: docs/schedules.md. Throws UserError at the exact place of a mistake.
Schedule parse_schedule(const SourceFile& file);
/// The inverse, deterministic.
std::string to_json(const Schedule& schedule);

}  // namespace syncopate
