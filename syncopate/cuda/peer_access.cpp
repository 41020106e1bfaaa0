#include "syncopate/cuda/peer_access.h"

#include <fmt/format.h>

#include "syncopate/core/error.h"

namespace syncopate::cuda {
namespace {

constexpr const char* kRemedy =
    "use GPUs joined by NVLink (`syncopate doctor` lists the links), or let ranks share one GPU (--share)";

}  // namespace

void check_peer_access(const Driver& driver, int from, int to) {
  Device mine = 0;
  Device theirs = 0;
  driver.check(driver.device_get(&mine, from), "looking for a GPU");
  driver.check(driver.device_get(&theirs, to), "looking for a GPU");
  int can = 0;
  driver.check(driver.device_can_access_peer(&can, mine, theirs), "asking for peer access");
  if (can == 0) throw UserError({}, fmt::format("GPU {} cannot reach the memory of GPU {}", from, to), kRemedy);
  if (driver.attribute(PeerAttribute::native_atomics, mine, theirs) == 0)
    throw UserError({},
                    fmt::format("GPU {} reaches the memory of GPU {} without native atomics: signals that kernels "
                                "raise there could get lost",
                                from, to),
                    kRemedy);
}

}  // namespace syncopate::cuda
