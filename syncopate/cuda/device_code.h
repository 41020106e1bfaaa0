// The small kernels of the runtime, as PTX that the driver assembles for the GPU at hand.
#pragma once

namespace syncopate::cuda {

inline constexpr const char* kStepKernel = "syncopate_step";
inline constexpr const char* kDelayKernel = "syncopate_delay";

/// syncopate_step(waits, wait_count, raises, raise_count, flags, epoch, advance, record, time_limit, who), all 64-bit,
/// one thread. Waits for flags: `waits` holds rows of flag slot, growth per launch, threshold. Then adds 1 (release,
/// system scope) to every address in `raises`, and `advance` to the epoch. A wait that takes longer than
/// `time_limit` nanoseconds claims `record`, if no wait of this rank has before, and leaves 1, who, slot, expected,
/// seen; from then on no wait of the rank waits.
///
/// syncopate_delay(nanoseconds): spins so long.
extern const char* const kDeviceCode;

}  // namespace syncopate::cuda
