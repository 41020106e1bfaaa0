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

/// Whether callers fill any of it.
bool is_input(const Buffer& buffer);
/// Per buffer, whether tiles write it.
std::vector<bool> written_by_tiles(const Plan& plan);

/// What the unfused kernel reads on each rank in one launch: inputs[rank][buffer], empty for what is no input.
/// Shared tensors are the same on all ranks.
std::vector<std::vector<Bytes>> launch_inputs(const Plan& plan, std::uint64_t seed, InputKind kind,
                                              std::int64_t launch);

}  // namespace syncopate
