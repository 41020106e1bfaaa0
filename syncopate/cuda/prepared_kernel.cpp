#include "syncopate/cuda/prepared_kernel.h"

#include <fmt/format.h>

namespace syncopate::cuda {

PreparedKernel prepare_kernel(const Plan& plan, KernelText text, Gpu& gpu, const CompileOptions& options,
                              std::shared_ptr<const CompiledKernel> compiled) {
  if (!compiled) {
    CompileOptions own = options;
    own.capability = gpu.capability();
    compiled = std::make_shared<const CompiledKernel>(compile_kernel(plan, text, own));
  }
  PreparedKernel kernel{compiled, signature_of(plan, text), {}};
  kernel.loaded = gpu.load(compiled->image, compiled->name, compiled->warps, compiled->shared_bytes);
  return kernel;
}

void launch(const Gpu& gpu, const PreparedKernel& kernel, Grid grid, KernelArguments& arguments, Stream stream) {
  const Driver& driver = gpu.driver();
  const Result result = driver.launch_kernel(kernel.loaded.function, grid.x, grid.y, grid.z, kernel.loaded.threads, 1,
                                             1, kernel.loaded.shared_bytes, stream, arguments.pointers(), nullptr);
  // The words are made only when they are needed: this is in the path of every call.
  if (result != kSuccess) driver.check(result, fmt::format("launching {}", kernel.compiled->name));
}

}  // namespace syncopate::cuda
