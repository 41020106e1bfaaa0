#include "syncopate/cuda/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "syncopate/core/error.h"
#include "syncopate/cuda/local_kernel.h"
#include "syncopate/cuda/ranks.h"
#include "syncopate/cuda/stopwatch.h"
#include "syncopate/cuda/transfers_alone.h"
#include "syncopate/plan/inputs.h"
#include "syncopate/plan/references.h"

namespace syncopate {
namespace cuda {
namespace {

/// Calls of one sample of the host's time.
constexpr int kCallsTogether = 8;
/// How far ahead of the GPUs the host may be, in microseconds.
constexpr double kLongestLead = 20e3;

GpuRunOptions run_options(const GpuProfileOptions& options) {
  GpuRunOptions run;
  run.share = options.share;
  run.time_limit = options.time_limit;
  run.compile = options.compile;
  run.issue = GpuIssue::graph;
  return run;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// One of the times: how a sample of it is taken, and the samples.
struct Measured {
  double LaunchTimes::* time;
  std::function<std::vector<double>()> sample;  ///< per rank
  std::vector<std::vector<double>> samples = {};
};

class Profiler {
 public:
  Profiler(const Plan& plan, const GpuProfileOptions& options, const ProfileParts& parts)
      : plan_(plan),
        options_(options),
        run_(run_options(options)),
        transfers_plan_(transfers_alone(plan)),
        fused_(plan, run_, parts.open_gpus(), parts.fused),
        transfers_(transfers_plan_, run_, parts.open_gpus(), parts.fused),
        fused_watch_(fused_),
        transfers_watch_(transfers_) {
    for (int rank = 0; rank < plan.ranks; ++rank) {
      local_.push_back(std::make_unique<LocalKernel>(
          plan, fused_.rank(rank).gpu(), options.compile,
          LocalLaunch{.most_blocks = static_cast<unsigned>(plan.workers), .compiled = parts.local, .rank = rank}));
      buffers_.emplace_back();
      for (std::size_t buffer = 0; buffer < plan.buffers.size(); ++buffer)
        buffers_.back().push_back(local_buffer(rank, static_cast<int>(buffer)));
    }
    put_inputs();
    measure_on_gpu(&LaunchTimes::fused, fused_watch_, [this](int rank) { call(fused_, rank); });
    measure_on_gpu(&LaunchTimes::compute, fused_watch_,
                   [this](int rank) { fused_.rank(rank).kernel_without_waiting(fused_.stream(rank)); });
    measure_on_gpu(&LaunchTimes::transfers, transfers_watch_, [this](int rank) { call(transfers_, rank); });
    measure_on_gpu(&LaunchTimes::local, fused_watch_, [this](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      local_[at]->launch(fused_.stream(rank), buffers_[at]);
    });
    measure_on_host(&LaunchTimes::call, [this](int rank) { call(fused_, rank); });
    measure_on_host(&LaunchTimes::call_without_graph,
                    [this](int rank) { fused_.rank(rank).call_without_graph(fused_.stream(rank)); });
  }

  GpuProfile run() {
    for (int sample = 0; sample < options_.samples; ++sample) {
      for (Measured& each : measured_) each.samples.push_back(each.sample());
      if (options_.progress) options_.progress(sample + 1, options_.samples);
    }
    GpuProfile profile;
    const Gpu& gpu = *fused_.gpus().front();
    profile.device = gpu.driver().name(gpu.ordinal());
    profile.shared = options_.share;
    profile.samples = options_.samples;
    profile.launches = options_.launches;
    for (int rank = 0; rank < plan_.ranks; ++rank)
      profile.ranks.push_back(
          medians([rank](const std::vector<double>& ranks) { return ranks[static_cast<std::size_t>(rank)]; }));
    profile.all =
        medians([](const std::vector<double>& ranks) { return *std::max_element(ranks.begin(), ranks.end()); });
    return profile;
  }

 private:
  /// Where the local kernel finds a tensor: what the fused one keeps a part of needs memory of its own.
  DevicePointer local_buffer(int rank, int buffer) {
    const Buffer& about = plan_.buffer(buffer);
    if (!about.fold) return fused_.rank(rank).buffer(buffer);
    const auto bytes = static_cast<std::size_t>(volume(about.shape) * size_in_bytes(about.dtype));
    return fused_.rank(rank).gpu().allocate(bytes, fmt::format("all of '{}', for the local kernel", about.name));
  }

  static void call(Ranks& ranks, int rank) { ranks.rank(rank).call(ranks.stream(rank)); }

  void put_inputs() {
    const auto inputs = launch_inputs(plan_, options_.seed, InputKind::reals, 1);
    for (std::size_t rank = 0; rank < inputs.size(); ++rank)
      for (std::size_t buffer = 0; buffer < inputs[rank].size(); ++buffer)
        fused_.rank(static_cast<int>(rank))
            .gpu()
            .upload(buffers_[rank][buffer], inputs[rank][buffer].data(), inputs[rank][buffer].size());
  }

  void measure_on_gpu(double LaunchTimes::* time, Stopwatch& watch, const GiveLaunch& give) {
    // The first are not counted: they warm the GPU up, and say how far ahead the host must be.
    const auto begin = std::chrono::steady_clock::now();
    watch.on_gpu(give, options_.launches, 0);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    const double lead = std::min(took.count(), kLongestLead);
    measured_.push_back({time, [this, &watch, give, lead] { return watch.on_gpu(give, options_.launches, lead); }});
  }

  void measure_on_host(double LaunchTimes::* time, const GiveLaunch& give) {
    fused_watch_.on_host(give, kCallsTogether);
    measured_.push_back({time, [this, give] { return fused_watch_.on_host(give, kCallsTogether); }});
  }

  template <typename OfRanks>
  LaunchTimes medians(OfRanks&& of_ranks) const {
    LaunchTimes times;
    for (const Measured& each : measured_) {
      std::vector<double> values;
      for (const auto& sample : each.samples) values.push_back(of_ranks(sample));
      times.*each.time = median(std::move(values));
    }
    return times;
  }

  const Plan& plan_;
  const GpuProfileOptions& options_;
  const GpuRunOptions run_;
  const Plan transfers_plan_;
  Ranks fused_;
  Ranks transfers_;
  Stopwatch fused_watch_;
  Stopwatch transfers_watch_;
  std::vector<std::unique_ptr<LocalKernel>> local_;  ///< per rank: each has scratch memory of its own
  std::vector<std::vector<DevicePointer>> buffers_;  ///< [rank][buffer]
  std::vector<Measured> measured_;
};

}  // namespace

GpuProfile profile(const Plan& plan, const GpuProfileOptions& options, const ProfileParts& parts) {
  check_internal(options.samples >= 1 && options.launches >= 1, "a profile needs at least one launch");
  try {
    return Profiler(plan, options, parts).run();
  } catch (const MissedWait& missed) {
    GpuProfile profile;
    profile.failure = missed.message;
    return profile;
  }
}

}  // namespace cuda

GpuProfile profile_on_gpu(const Plan& plan, const GpuProfileOptions& options) {
  if (const auto problem = broken_reference(plan)) throw UserError({}, *problem, "compile the plan again");
  cuda::ProfileParts parts;
  parts.open_gpus = [&] { return cuda::open_gpus(plan.ranks, options.share); };
  cuda::CompileOptions compile = options.compile;
  // Kept: making a context anew takes longer than much of what is measured.
  const auto gpus = parts.open_gpus();
  compile.capability = gpus.front()->capability();
  parts.fused = std::make_shared<const cuda::CompiledKernel>(compile_kernel(plan, cuda::KernelText::fused, compile));
  parts.local = std::make_shared<const cuda::CompiledKernel>(compile_kernel(plan, cuda::KernelText::local, compile));
  return cuda::profile(plan, options, parts);
}

}  // namespace syncopate
