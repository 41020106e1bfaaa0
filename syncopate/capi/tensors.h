// DLPack tensors against what a plan says of them.
#pragma once

#include <memory>

#include "syncopate/capi/syncopate.h"
#include "syncopate/plan/plan.h"

namespace syncopate::capi {

DLDataType dlpack_type(Dtype dtype);
/// "bf16"; for a type that plans do not know, its code and width.
std::string name_of(DLDataType type);

/// The buffer of that name, as an index. Throws UserError, naming the nearest.
int find_buffer(const Plan& plan, const std::string& name);

/// Throws UserError, naming the tensor, what was expected and what is there, unless `tensor` can be the memory of
/// `buffer` on CUDA device `device`: dtype, shape, row-major contiguity, device, alignment to 16 bytes.
void check_tensor(const Buffer& buffer, const DLTensor& tensor, int device);
/// Of its first element.
std::uint64_t address_of(const DLTensor& tensor);

/// The box of a buffer that a part (syncopate_part) means on a rank. Throws UserError if it is none: no input, no
/// output.
Region region_of(const Plan& plan, int buffer, int part, int rank);

/// The shape in which callers know a buffer. Of an input that is summed they know their summand as the tensor.
Shape shape_for_callers(const Buffer& buffer);

/// A view of `region`, which is that `part` of a row-major buffer at `address`; it keeps `owner` alive.
DLManagedTensor* new_view(const Buffer& buffer, const Region& region, int part, std::uint64_t address, int device,
                          std::shared_ptr<const void> owner);

}  // namespace syncopate::capi
