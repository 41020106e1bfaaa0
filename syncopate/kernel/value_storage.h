// The type that holds a block's elements, as an argument of a generic function.
#pragma once

#include <cstdint>

#include "syncopate/kernel/value.h"

namespace syncopate::concrete {

/// Calls f with a null pointer of the type that holds the elements.
template <typename F>
void with_storage(Storage storage, F f) {
  switch (storage) {
    case Storage::float32:
      return f(static_cast<float*>(nullptr));
    case Storage::float64:
      return f(static_cast<double*>(nullptr));
    case Storage::int64:
      return f(static_cast<std::int64_t*>(nullptr));
    case Storage::byte:
      return f(static_cast<std::uint8_t*>(nullptr));
  }
}

}  // namespace syncopate::concrete
