// The ranks of a plan on GPUs: their memory, streams and kernels, and how a launch is given to them.
//
// Everything is allocated and loaded by the constructor. After it, issue() gives launches to the GPUs without waiting.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/cuda/copies.h"
#include "syncopate/cuda/gpu.h"
#include "syncopate/cuda/issue.h"
#include "syncopate/cuda/run.h"

namespace syncopate::cuda {

/// SMs that no kernel of ours takes: copies inside one GPU, and kernels that raise counted signals, may need some.
inline constexpr int kFreeMultiprocessors = 4;
/// Launches that may be under way at once; further ones wait on the host, so that no stream's queue fills up.
inline constexpr int kLaunchesUnderWay = 8;
/// Words of a kernel's record of a missed wait (docs/emitted_kernel.md).
inline constexpr std::size_t kRecordWords = 8;

struct Rank {
  Gpu* gpu = nullptr;
  std::vector<DevicePointer> buffers;
  DevicePointer tiles = 0;
  DevicePointer waits = 0;
  DevicePointer flags = 0;
  DevicePointer epoch = 0;
  DevicePointer record = 0;
  DevicePointer scratch = 0;
  LoadedKernel local;
  LoadedKernel fused;
  LoadedKernel raise;  ///< adds 1 to a counter
  Stream stream = nullptr;
  std::vector<Stream> queues;
  Event started = nullptr;
  std::vector<Event> drained;    ///< per queue
  std::vector<Event> completed;  ///< of launch e at e % kLaunchesUnderWay
};

class Ranks {
 public:
  Ranks(const Plan& plan, const GpuRunOptions& options);

  const Plan& plan() const { return plan_; }
  const Rank& rank(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  std::vector<std::unique_ptr<Gpu>>& gpus() { return gpus_; }

  /// Where the inputs of a launch on a rank come from and where its outputs go, per buffer; 0 for what is none.
  struct Data {
    std::vector<DevicePointer> inputs;
    std::vector<DevicePointer> outputs;
  };
  /// Gives launch `epoch` of all ranks to the GPUs. data[rank].
  void issue(std::int64_t epoch, const std::vector<Data>& data);
  /// Runs the local kernel over whole inputs on a rank's GPU and waits for it.
  void run_local(int rank, const Data& data);

  std::size_t bytes_of(int buffer) const;

 private:
  void open_gpus();
  void load_kernels();
  void check_residency() const;
  void allocate(int rank);
  void begin(int rank, std::int64_t epoch, const Data& data);
  void transfer(const Step& step, std::int64_t epoch);
  void launch_fused(int rank);
  void complete(int rank, std::int64_t epoch, const Data& data);
  void wait(const Rank& on, Stream stream, const std::vector<Wait>& waits, std::int64_t epoch);
  void raise(const Rank& on, Stream stream, const std::vector<int>& signals, std::int64_t epoch);
  void copy(const Gpu& gpu, Stream stream, int buffer, DevicePointer destination, DevicePointer source,
            const std::vector<Copy>& copies);
  void launch(const Rank& on, const LoadedKernel& kernel, const CompiledKernel& about,
              const std::vector<ParameterType>& signature, unsigned grid, int rank,
              const std::vector<DevicePointer>& buffers);

  const Plan& plan_;
  const GpuRunOptions& options_;
  std::vector<Step> steps_;
  std::vector<bool> written_;  ///< per buffer: by tiles
  std::vector<ParameterType> local_signature_;
  std::vector<ParameterType> fused_signature_;
  CompiledKernel local_;
  CompiledKernel fused_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<DevicePointer>> poison_;  ///< [gpu][buffer]: NaNs, for buffers that tiles write
};

}  // namespace syncopate::cuda
