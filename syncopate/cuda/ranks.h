// The ranks of a plan in one process, each on its GPU or all on one, and how a launch is given to all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "syncopate/cuda/gpu.h"
#include "syncopate/cuda/issue.h"
#include "syncopate/cuda/rank_on_gpu.h"
#include "syncopate/cuda/run.h"
#include "syncopate/plan/random.h"

namespace syncopate::cuda {

/// Launches that may be under way at once; further ones wait on the host, so that no stream's queue fills up.
inline constexpr int kLaunchesUnderWay = 8;

/// The GPUs of a plan's ranks, peer access between them included: GPU 0 if they share it, else one each.
std::vector<std::unique_ptr<Gpu>> open_gpus(int ranks, bool share);

class Ranks {
 public:
  /// Opens the GPUs and compiles the plan's kernel. `plan` and `options` must outlive it.
  Ranks(const Plan& plan, const GpuRunOptions& options);
  Ranks(const Plan& plan, const GpuRunOptions& options, std::vector<std::unique_ptr<Gpu>> gpus,
        std::shared_ptr<const CompiledKernel> compiled);
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks();

  const Plan& plan() const { return plan_; }
  const GpuRunOptions& options() const { return options_; }
  RankOnGpu& rank(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  Stream stream(int rank) const { return callers_[static_cast<std::size_t>(rank)].stream; }
  /// Of a launch that is under way, or was among the last.
  Event completed(int rank, std::int64_t epoch) const;
  /// The same for those who launch by themselves: all that the ranks' streams have now is launch `epoch`, or earlier.
  void record_completed(std::int64_t epoch);
  std::vector<std::unique_ptr<Gpu>>& gpus() { return gpus_; }

  /// Where the inputs of a launch on a rank come from and where its outputs go, per buffer; 0 for what is none.
  struct Data {
    std::vector<DevicePointer> inputs;
    std::vector<DevicePointer> outputs;
  };
  /// Gives launch `epoch` of all ranks to the GPUs. data[rank].
  void issue(std::int64_t epoch, const std::vector<Data>& data);

  std::size_t bytes_of(int buffer) const;

 private:
  /// What a rank's caller has: a stream, NaNs to fill outputs with, and in one mode a graph of its own.
  struct Caller {
    Stream stream = nullptr;
    std::vector<Event> completed;       ///< of launch e at e % kLaunchesUnderWay
    std::vector<DevicePointer> poison;  ///< per buffer; 0 for what tiles do not write
    Graph graph = nullptr;
    GraphExecutable executable = nullptr;
  };

  void prepare(int rank, std::shared_ptr<const CompiledKernel> compiled);
  void capture(int rank);
  void issue_steps(std::int64_t epoch, const std::vector<Data>& data);
  void put_inputs(int rank, const Data& data);
  void take_outputs(int rank, std::int64_t epoch, const Data& data);
  void delay_sometimes(int rank, Stream stream);

  const Plan& plan_;
  const GpuRunOptions& options_;
  std::vector<Step> steps_;
  std::vector<bool> left_;  ///< per buffer: by launches
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::vector<std::unique_ptr<RankOnGpu>> ranks_;
  std::vector<Caller> callers_;
  Random random_;
};

}  // namespace syncopate::cuda
