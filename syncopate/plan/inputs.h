// The values that runs of a plan compute with, on CPU ranks and on GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "syncopate/plan/plan.h"

namespace syncopate {

/// Bytes of one buffer on one rank, row-major.
using Bytes = std::vector<std::byte>;

/// What the inputs hold. Every rank and every launch gets different values.
enum class InputKind : std::uint8_t {
  small_integers,  ///< integers small enough that sums of products are exact; any stale or missing chunk shows
  reals,           ///< uniform in [-1, 1], rounded to the tensor's type
};

/// `elements` elements that nobody has written: quiet NaNs; 0x5a5a... in integers.
Bytes poison(Dtype dtype, std::int64_t elements);
void poison(Bytes& bytes, Dtype dtype);

/// The tensor that `stream` names; equal streams give equal values. `values`, of integers: as Buffer::values.
Bytes random_tensor(Dtype dtype, std::int64_t elements, InputKind kind, std::uint64_t stream, Range values = {});

/// The extents of the tensor of which the buffer shows parts.
Shape tensor_shape(const Buffer& buffer);
/// Copies elements from a box of one tensor to a box of equal extents of another.
void copy_box(const Bytes& from, const Shape& from_shape, const Region& from_box, Bytes& to, const Shape& to_shape,
              const Region& to_box, Dtype dtype);
/// Whether callers fill any of it.
bool is_input(const Buffer& buffer);
/// Per buffer, whether tiles write it.
std::vector<bool> written_by_tiles(const Plan& plan);
/// Per buffer, whether launches leave something in it: tiles write it, or it is a result.
std::vector<bool> left_by_launches(const Plan& plan);

/// What the unfused kernel reads on each rank in one launch, and what the caller has of it in a source: inputs[rank]
/// [buffer], empty for what is no input. Shared tensors are the same on all ranks.
std::vector<std::vector<Bytes>> launch_inputs(const Plan& plan, std::uint64_t seed, InputKind kind,
                                              std::int64_t launch);
/// Per buffer, whether launch_inputs() has something for it: callers fill it, or it is the kernel's of a source.
std::vector<bool> has_launch_inputs(const Plan& plan);

}  // namespace syncopate
