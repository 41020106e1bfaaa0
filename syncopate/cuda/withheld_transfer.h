// A defect made on purpose, for tests of what happens then.
#pragma once

#include <cstdint>

namespace syncopate {

/// A transfer that does not happen in one launch, and raises nothing.
struct WithheldTransfer {
  int rank = 0;
  int queue = 0;
  int transfer = 0;
  std::int64_t launch = 1;
};

}  // namespace syncopate
