// A plan's local kernel on a GPU: the unfused operator's half that computes.
#pragma once

#include <vector>

#include "syncopate/cuda/prepared_kernel.h"

namespace syncopate::cuda {

class LocalKernel {
 public:
  LocalKernel(const Plan& plan, Gpu& gpu, const CompileOptions& options);

  /// Over whole tensors, `buffers` by the plan's index.
  void launch(Stream stream, const std::vector<DevicePointer>& buffers);

 private:
  const Gpu& gpu_;
  PreparedKernel kernel_;
  unsigned grid_;
  KernelArguments arguments_;
};

}  // namespace syncopate::cuda
