// What Triton, or the TMA hardware under it, refuses or gets wrong. A kernel that asks for it is refused here too, when
// it is analysed and when it runs on CPU ranks, so that what runs there also compiles.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "syncopate/core/dtype.h"

namespace syncopate {

/// Elements of a block (TRITON_MAX_TENSOR_NUMEL in Triton's language core).
inline constexpr std::int64_t kMostBlockElements = std::int64_t{1} << 20;

struct Refusal {
  std::string problem;
  std::string remedy;
};

/// Of tl.make_tensor_descriptor for a tensor that begins `base` elements into its memory, which is 16-byte aligned; as
/// many strides as block extents, both in elements. Triton wants at least 16 bytes in a block's last dimension, and a
/// last stride of 1; TMA wants the first byte, and every other stride, at a multiple of 16 bytes.
std::optional<Refusal> refused_descriptor(Dtype dtype, std::int64_t base, std::span<const std::int64_t> strides,
                                          std::span<const std::int64_t> block);

}  // namespace syncopate
