#include "syncopate/kernel/triton_limits.h"

#include <fmt/format.h>

namespace syncopate {

namespace {
constexpr std::int64_t kAlignment = 16;
}

std::optional<Refusal> refused_descriptor(Dtype dtype, std::int64_t base, std::span<const std::int64_t> strides,
                                          std::span<const std::int64_t> block) {
  const int size = size_in_bytes(dtype);
  if (strides.empty()) return Refusal{"a descriptor of no dimensions", "1 to 5"};
  // An element size divides 16, so that remainders of elements do for remainders of bytes.
  const std::int64_t aligned = kAlignment / size;
  if (block.back() < aligned)
    return Refusal{fmt::format("a descriptor's block of {} {} element{} in the last dimension", block.back(),
                               name_of(dtype), block.back() == 1 ? "" : "s"),
                   fmt::format("Triton demands at least {} bytes there, {} elements", kAlignment, aligned)};
  if (strides.back() != 1)
    return Refusal{fmt::format("a descriptor whose last stride is {}", strides.back()),
                   "the last stride of a descriptor must be 1"};
  for (const std::int64_t stride : strides.first(strides.size() - 1))
    if (stride % aligned != 0)
      return Refusal{fmt::format("a descriptor with a stride of {} {} elements", stride, name_of(dtype)),
                     fmt::format("TMA demands multiples of {} bytes, {} elements: use other sizes, or pointers",
                                 kAlignment, aligned)};
  if (base % aligned != 0)
    return Refusal{
        fmt::format("a descriptor that begins {} {} elements into its tensor", base, name_of(dtype)),
        fmt::format("TMA demands that it begins at a multiple of {} bytes, {} elements", kAlignment, aligned)};
  return std::nullopt;
}

}  // namespace syncopate
