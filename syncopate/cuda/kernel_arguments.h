// What a launch of one of a plan's kernels passes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "syncopate/cuda/compile.h"
#include "syncopate/cuda/driver.h"
#include "syncopate/cuda/signature.h"
#include "syncopate/cuda/tensor_map.h"

namespace syncopate::cuda {

/// What the runtime gives a fused kernel (runtime_names.h). The local kernel needs none of it; arguments that differ by
/// rank are those of `rank`.
struct RuntimeValues {
  std::int32_t rank = 0;
  std::int32_t tile_count = 0;
  std::int32_t addition_count = 0;
  std::int64_t time_limit = 0;  ///< nanoseconds
  DevicePointer tiles = 0;
  DevicePointer waits = 0;
  DevicePointer steps = 0;
  DevicePointer flags = 0;
  DevicePointer epoch = 0;
  DevicePointer record = 0;
  DevicePointer addends = 0;
  DevicePointer signals = 0;
  DevicePointer peers = 0;
  DevicePointer claims = 0;
  DevicePointer additions = 0;
};

/// The arguments in the kernel's order, ready for the driver. Addresses of buffers are 0, and descriptors of them
/// empty, until they are set.
class KernelArguments {
 public:
  /// `scratch` has kernel.scratch_bytes for each thread block. Throws UserError if a descriptor cannot have the sizes.
  KernelArguments(const Driver& driver, const Plan& plan, const std::vector<ParameterType>& signature,
                  const CompiledKernel& kernel, const RuntimeValues& runtime, DevicePointer scratch);

  KernelArguments(const KernelArguments&) = delete;
  KernelArguments& operator=(const KernelArguments&) = delete;

  /// On a thread whose current context is the GPU's. Throws UserError if the driver can make no descriptor of it.
  void set_buffer(int buffer, DevicePointer address);
  /// Pointers to the values, for the driver; valid as long as this object stays where it is.
  void** pointers() { return pointers_.data(); }

 private:
  struct Descriptor {
    int buffer = -1;
    MappedTensor tensor;
    std::size_t position = 0;   ///< of the value that follows it, its first size
    DevicePointer address = 0;  ///< that the map has
    TensorMap map;
  };

  void add_descriptors(const Plan& plan, const Names& sizes, const CompiledKernel& kernel);
  void point();

  const Driver& driver_;
  std::vector<Descriptor> descriptors_;
  std::vector<std::uint64_t> values_;  ///< each argument but tensor maps, in 8 bytes of its own
  std::vector<int> position_;          ///< per buffer: its argument, or -1
  std::vector<void*> pointers_;
};

}  // namespace syncopate::cuda
