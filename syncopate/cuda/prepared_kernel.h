// One of a plan's kernels on a GPU, ready to be launched.
#pragma once

#include <memory>
#include <vector>

#include "syncopate/cuda/compile.h"
#include "syncopate/cuda/gpu.h"
#include "syncopate/cuda/kernel_arguments.h"

namespace syncopate::cuda {

struct PreparedKernel {
  std::shared_ptr<const CompiledKernel> compiled;
  std::vector<ParameterType> signature;
  LoadedKernel loaded;
};

/// Compiles it for the GPU, unless `compiled` is given, and loads it.
PreparedKernel prepare_kernel(const Plan& plan, KernelText text, Gpu& gpu, const CompileOptions& options,
                              std::shared_ptr<const CompiledKernel> compiled = {});

/// Thread blocks along each axis.
struct Grid {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

void launch(const Gpu& gpu, const PreparedKernel& kernel, Grid grid, KernelArguments& arguments, Stream stream);
inline void launch(const Gpu& gpu, const PreparedKernel& kernel, unsigned blocks, KernelArguments& arguments,
                   Stream stream) {
  launch(gpu, kernel, Grid{blocks}, arguments, stream);
}

}  // namespace syncopate::cuda
