// Tensor maps, through which a kernel's descriptors reach tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "syncopate/core/expression.h"
#include "syncopate/cuda/compile.h"
#include "syncopate/cuda/driver.h"
#include "syncopate/plan/plan.h"

namespace syncopate::cuda {

/// All of a tensor map but the address. Dimensions are outermost first.
struct MappedTensor {
  std::string kernel;  ///< the file, for errors
  std::string name;    ///< of the tensor
  Dtype dtype = Dtype::bf16;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< in elements
  std::vector<std::int64_t> box;
  int swizzle = 0;
};

/// `sizes`: the kernel's integer parameters. Throws UserError that says what of a tensor no descriptor can have.
MappedTensor mapped_tensor(const Plan& plan, const Buffer& buffer, const DescriptorParameter& descriptor,
                           const Names& sizes);

/// Throws UserError if the driver cannot make it.
TensorMap make_tensor_map(const Driver& driver, const MappedTensor& tensor, DevicePointer address);

}  // namespace syncopate::cuda
