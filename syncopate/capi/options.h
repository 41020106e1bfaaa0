// Option structs that may grow: a caller compiled against an older header passes a shorter one.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "syncopate/core/error.h"

namespace syncopate::capi {

/// The caller's options, with defaults for the fields that an older caller does not know. Throws UserError for a
/// struct that was not initialised, or is longer than this library's: a newer caller's fields would be ignored.
template <typename Options>
Options complete(const Options* given, void (*initialise)(Options*)) {
  Options options;
  initialise(&options);
  if (given == nullptr) return options;
  if (given->size < sizeof given->size || given->size > sizeof options)
    throw UserError({}, fmt::format("options of {} bytes; this library knows {}", given->size, sizeof options),
                    "fill them with their _init function first, from the header of this library");
  std::memcpy(&options, given, given->size);
  options.size = sizeof options;
  return options;
}

}  // namespace syncopate::capi
