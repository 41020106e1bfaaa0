#include "syncopate/cuda/local_kernel.h"

#include <algorithm>

namespace syncopate::cuda {
namespace {

/// A persistent kernel is launched with a block per SM, or per tile if there are fewer; any other with one per tile.
unsigned grid_of(const Plan& plan, const Gpu& gpu) {
  const auto tiles = static_cast<unsigned>(plan.tiles.size());
  return plan.kernel.persistent ? std::min(tiles, static_cast<unsigned>(gpu.multiprocessors())) : tiles;
}

}  // namespace

LocalKernel::LocalKernel(const Plan& plan, Gpu& gpu, const CompileOptions& options)
    : gpu_(gpu),
      kernel_(prepare_kernel(plan, KernelText::local, gpu, options)),
      grid_(grid_of(plan, gpu)),
      arguments_(
          plan, kernel_.signature, *kernel_.compiled, {},
          gpu.allocate(grid_ * static_cast<std::size_t>(kernel_.compiled->scratch_bytes), "tensor descriptors")) {}

void LocalKernel::launch(Stream stream, const std::vector<DevicePointer>& buffers) {
  for (std::size_t buffer = 0; buffer < buffers.size(); ++buffer)
    arguments_.set_buffer(static_cast<int>(buffer), buffers[buffer]);
  gpu_.make_current();
  cuda::launch(gpu_, kernel_, grid_, arguments_, stream);
}

}  // namespace syncopate::cuda
