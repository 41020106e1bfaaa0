#include "syncopate/cuda/local_kernel.h"

#include <algorithm>
#include <array>

namespace syncopate::cuda {
namespace {

/// A persistent kernel is launched with a block per SM, or per tile if there are fewer; any other with its own grid.
Grid grid_of(const Plan& plan, const Gpu& gpu, const LocalLaunch& launch) {
  if (!plan.kernel.persistent) {
    std::array<unsigned, 3> blocks{1, 1, 1};
    std::transform(plan.kernel.grid.begin(), plan.kernel.grid.end(), blocks.begin(),
                   [](std::int64_t programs) { return static_cast<unsigned>(programs); });
    return {blocks[0], blocks[1], blocks[2]};
  }
  const auto tiles = static_cast<unsigned>(tiles_of(plan, 0).size());
  const unsigned most = launch.most_blocks > 0 ? launch.most_blocks : static_cast<unsigned>(gpu.multiprocessors());
  return {std::min(tiles, most)};
}

std::size_t blocks_of(const Grid& grid) { return std::size_t{grid.x} * grid.y * grid.z; }

}  // namespace

LocalKernel::LocalKernel(const Plan& plan, Gpu& gpu, const CompileOptions& options, const LocalLaunch& launch)
    : gpu_(gpu),
      kernel_(prepare_kernel(plan, KernelText::local, gpu, options, launch.compiled)),
      grid_(grid_of(plan, gpu, launch)),
      arguments_(gpu.driver(), plan, kernel_.signature, *kernel_.compiled, RuntimeValues{.rank = launch.rank},
                 gpu.allocate(blocks_of(grid_) * static_cast<std::size_t>(kernel_.compiled->scratch_bytes),
                              "tensor descriptors")) {}

void LocalKernel::launch(Stream stream, const std::vector<DevicePointer>& buffers) {
  gpu_.make_current();  // making tensor maps asks for it too
  for (std::size_t buffer = 0; buffer < buffers.size(); ++buffer)
    arguments_.set_buffer(static_cast<int>(buffer), buffers[buffer]);
  cuda::launch(gpu_, kernel_, grid_, arguments_, stream);
}

}  // namespace syncopate::cuda
