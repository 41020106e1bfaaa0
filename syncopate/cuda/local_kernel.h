// A plan's local kernel on a GPU: the unfused operator's half that computes.
#pragma once

#include <vector>

#include "syncopate/cuda/prepared_kernel.h"

namespace syncopate::cuda {

struct LocalLaunch {
  unsigned most_blocks = 0;                             ///< of a persistent kernel; 0: one for each SM
  std::shared_ptr<const CompiledKernel> compiled = {};  ///< where it is compiled already
  int rank = 0;                                         ///< whose arguments it has
};

class LocalKernel {
 public:
  /// One launch of it at a time: its thread blocks have scratch memory.
  LocalKernel(const Plan& plan, Gpu& gpu, const CompileOptions& options, const LocalLaunch& launch = {});

  /// Over whole tensors, `buffers` by the plan's index.
  void launch(Stream stream, const std::vector<DevicePointer>& buffers);

 private:
  const Gpu& gpu_;
  PreparedKernel kernel_;
  Grid grid_;
  KernelArguments arguments_;
};

}  // namespace syncopate::cuda
