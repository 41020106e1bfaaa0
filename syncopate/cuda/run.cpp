#include "syncopate/cuda/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "syncopate/cuda/local_kernel.h"
#include "syncopate/cuda/ranks.h"
#include "syncopate/cuda/watch.h"
#include "syncopate/plan/difference.h"
#include "syncopate/plan/references.h"
#include "syncopate/plan/sums.h"

namespace syncopate {
namespace cuda {
namespace {

/// Inputs and outputs of launches that wait on a GPU take at most this much, over all ranks.
constexpr std::size_t kStretchBytes = std::size_t{4} << 30;
constexpr int kLongestStretch = 1000;

/// Inputs, outputs and expected outputs of the launches of a stretch. Device memory is taken once and used by each.
class Stretch {
 public:
  Stretch(Ranks& ranks, const GpuRunOptions& options) : ranks_(ranks), options_(options) {
    const Plan& plan = ranks.plan();
    for (int rank = 0; rank < plan.ranks; ++rank)
      local_.push_back(
          std::make_unique<LocalKernel>(plan, ranks.rank(rank).gpu(), options.compile, LocalLaunch{.rank = rank}));
    const std::vector<bool> given = has_launch_inputs(plan);
    const std::vector<bool> left = left_by_launches(plan);
    std::size_t bytes = 0;
    for (std::size_t buffer = 0; buffer < plan.buffers.size(); ++buffer)
      bytes += ranks.bytes_of(static_cast<int>(buffer)) *
               (std::size_t{given[buffer]} + std::size_t{left[buffer]});
    bytes *= static_cast<std::size_t>(plan.ranks);
    length_ =
        static_cast<int>(std::clamp<std::size_t>(kStretchBytes / std::max<std::size_t>(bytes, 1), 1,
                                                 static_cast<std::size_t>(std::min(options.repeat, kLongestStretch))));
    for (int launch = 0; launch < length_; ++launch) data_.push_back(allocate(given, left));
    for (int rank = 0; rank < plan.ranks; ++rank) sums_.push_back(allocate_sums(rank));
  }

  int length() const { return length_; }
  const std::vector<Ranks::Data>& data(int launch) const { return data_[static_cast<std::size_t>(launch)]; }

  /// Makes the inputs of launches first, ..., first + count - 1 and what the local kernel makes of them.
  void prepare(std::int64_t first, int count) {
    const Plan& plan = ranks_.plan();
    expected_.assign(static_cast<std::size_t>(count), {});
    for (int launch = 0; launch < count; ++launch) {
      const auto inputs = launch_inputs(plan, options_.seed, options_.inputs, first + launch);
      std::vector<std::vector<Bytes>> unfused;
      for (int rank = 0; rank < plan.ranks; ++rank) {
        const std::vector<Bytes>& own = inputs[static_cast<std::size_t>(rank)];
        const Ranks::Data& data = data_[static_cast<std::size_t>(launch)][static_cast<std::size_t>(rank)];
        upload(rank, data, own);
        run_local(rank, data, own);
        unfused.push_back(outputs(launch, rank));
      }
      expected_[static_cast<std::size_t>(launch)] = operator_outputs(plan, std::move(unfused));
    }
  }

  /// The first difference between what the launches left and what they should have.
  std::optional<std::string> check(std::int64_t first, int count) const {
    for (int launch = 0; launch < count; ++launch)
      for (int rank = 0; rank < ranks_.plan().ranks; ++rank)
        if (auto difference = difference_at(first, launch, rank)) return difference;
    return std::nullopt;
  }

 private:
  std::optional<std::string> difference_at(std::int64_t first, int launch, int rank) const {
    const Plan& plan = ranks_.plan();
    const auto& expected = expected_[static_cast<std::size_t>(launch)][static_cast<std::size_t>(rank)];
    const std::vector<Bytes> outputs = own_outputs(launch, rank);
    if (plan.kernel.streamed_loops.empty()) return first_difference(plan, rank, first + launch, outputs, expected);
    // The local kernel runs its loops in its own order.
    const OrderDifference order = order_difference(plan, rank, outputs, expected);
    if (order.is_rounding()) return std::nullopt;
    return fmt::format("launch {}: {}; rounding may make them differ by {:.3g}", first + launch, order.where,
                       order.allowed);
  }

  std::vector<Ranks::Data> allocate(const std::vector<bool>& given, const std::vector<bool>& left) {
    const Plan& plan = ranks_.plan();
    std::vector<Ranks::Data> ranks(static_cast<std::size_t>(plan.ranks));
    for (int rank = 0; rank < plan.ranks; ++rank) {
      Gpu& gpu = ranks_.rank(rank).gpu();
      Ranks::Data& data = ranks[static_cast<std::size_t>(rank)];
      for (std::size_t buffer = 0; buffer < plan.buffers.size(); ++buffer) {
        const std::size_t bytes = ranks_.bytes_of(static_cast<int>(buffer));
        data.inputs.push_back(given[buffer] ? gpu.allocate(bytes, "inputs of a launch") : 0);
        data.outputs.push_back(left[buffer] ? gpu.allocate(bytes, "outputs of a launch") : 0);
      }
    }
    return ranks;
  }

  /// Per buffer: room for what the local kernel reads where the fused one has a stack of summands, else 0.
  std::vector<DevicePointer> allocate_sums(int rank) {
    const Plan& plan = ranks_.plan();
    std::vector<DevicePointer> sums;
    for (const Buffer& buffer : plan.buffers) {
      const std::int64_t bytes = volume(shape_without_stack(buffer)) * size_in_bytes(buffer.dtype);
      const bool needed = buffer.stacked && buffer.role == BufferRole::kernel;
      sums.push_back(needed ? ranks_.rank(rank).gpu().allocate(static_cast<std::size_t>(bytes), "a sum of inputs") : 0);
    }
    return sums;
  }

  void upload(int rank, const Ranks::Data& data, const std::vector<Bytes>& inputs) {
    const Plan& plan = ranks_.plan();
    const Gpu& gpu = ranks_.rank(rank).gpu();
    for (std::size_t buffer = 0; buffer < inputs.size(); ++buffer) {
      const Buffer& about = plan.buffers[buffer];
      if (data.inputs[buffer] != 0) gpu.upload(data.inputs[buffer], inputs[buffer].data(), inputs[buffer].size());
      if (data.outputs[buffer] == 0) continue;
      const Bytes before = inputs[buffer].empty() ? poison(about.dtype, volume(about.shape)) : inputs[buffer];
      gpu.upload(data.outputs[buffer], before.data(), before.size());
    }
  }

  void run_local(int rank, const Ranks::Data& data, const std::vector<Bytes>& inputs) {
    const Gpu& gpu = ranks_.rank(rank).gpu();
    std::vector<DevicePointer> buffers;
    for (std::size_t buffer = 0; buffer < data.inputs.size(); ++buffer) {
      if (const DevicePointer place = sums_[static_cast<std::size_t>(rank)][buffer]; place != 0) {
        const Bytes sum = sum_of_stack(ranks_.plan().buffers[buffer], inputs[buffer]);
        gpu.upload(place, sum.data(), sum.size());
        buffers.push_back(place);
      } else {
        buffers.push_back(data.outputs[buffer] != 0 ? data.outputs[buffer] : data.inputs[buffer]);
      }
    }
    local_[static_cast<std::size_t>(rank)]->launch(ranks_.stream(rank), buffers);
    gpu.driver().check(gpu.driver().stream_synchronize(ranks_.stream(rank)), "running the local kernel");
  }

  /// What a rank's caller takes of each buffer.
  std::vector<Bytes> own_outputs(int launch, int rank) const {
    const Plan& plan = ranks_.plan();
    std::vector<Bytes> own = outputs(launch, rank);
    for (std::size_t buffer = 0; buffer < own.size(); ++buffer) {
      const Buffer& about = plan.buffers[buffer];
      own[buffer] = cut_out(own[buffer], output_region(plan, static_cast<int>(buffer), rank), about.shape, about.dtype);
    }
    return own;
  }

  /// What a launch or the local kernel has left, whole buffers.
  std::vector<Bytes> outputs(int launch, int rank) const {
    const Ranks::Data& data = data_[static_cast<std::size_t>(launch)][static_cast<std::size_t>(rank)];
    std::vector<Bytes> outputs(data.outputs.size());
    for (std::size_t buffer = 0; buffer < outputs.size(); ++buffer) {
      if (data.outputs[buffer] == 0) continue;
      outputs[buffer].resize(ranks_.bytes_of(static_cast<int>(buffer)));
      ranks_.rank(rank).gpu().download(outputs[buffer].data(), data.outputs[buffer], outputs[buffer].size());
    }
    return outputs;
  }

  Ranks& ranks_;
  const GpuRunOptions& options_;
  std::vector<std::unique_ptr<LocalKernel>> local_;  ///< by rank
  int length_ = 1;
  std::vector<std::vector<DevicePointer>> sums_;           ///< [rank][buffer]
  std::vector<std::vector<Ranks::Data>> data_;             ///< [launch][rank]
  std::vector<std::vector<std::vector<Bytes>>> expected_;  ///< [launch][rank][buffer]
};

/// What one launch of all ranks does.
void count_launch(const Plan& plan, GpuRunReport& report) {
  ++report.launches;
  for (const RankProgram& program : plan.programs) {
    report.tiles += static_cast<std::int64_t>(program.slots.size());
    for (const Queue& queue : program.queues) {
      report.transfers += static_cast<std::int64_t>(queue.transfers.size());
      for (const Transfer& transfer : queue.transfers)
        if (transfer.source.rank != transfer.destination.rank)
          report.bytes_moved +=
              transfer.source.region.volume() * size_in_bytes(plan.buffer(transfer.source.buffer).dtype);
    }
  }
}

std::optional<std::string> run_stretch(Ranks& ranks, Watch& watch, const Stretch& stretch, std::int64_t first,
                                       int count, const GpuRunOptions& options) {
  for (int launch = 0; launch < count; ++launch) {
    if (launch >= kLaunchesUnderWay)
      if (auto missed = watch.await(first + launch - kLaunchesUnderWay)) return missed;
    watch.giving([&] { ranks.issue(first + launch, stretch.data(launch)); });
    if (options.progress) options.progress(first + launch, options.repeat);
  }
  for (int launch = std::max(0, count - kLaunchesUnderWay); launch < count; ++launch)
    if (auto missed = watch.await(first + launch)) return missed;
  return std::nullopt;
}

}  // namespace
}  // namespace cuda

std::string_view name_of(GpuOutcome outcome) {
  switch (outcome) {
    case GpuOutcome::right:
      return "right";
    case GpuOutcome::missed_wait:
      return "missed wait";
    case GpuOutcome::wrong_result:
      return "wrong result";
  }
  throw InternalError("outcome without a name");
}

GpuRunReport run_on_gpu(const Plan& plan, const GpuRunOptions& options) {
  check_internal(options.repeat >= 1, "a run needs at least one launch");
  if (const auto problem = broken_reference(plan)) throw UserError({}, *problem, "compile the plan again");
  cuda::Ranks ranks(plan, options);
  cuda::Watch watch(ranks);
  cuda::Stretch stretch(ranks, options);
  GpuRunReport report;
  report.device = ranks.gpus().front()->driver().name(0);
  report.launches_at_a_stretch = stretch.length();
  const auto fail = [&](GpuOutcome outcome, std::string message) {
    report.outcome = outcome;
    report.message = std::move(message);
    return report;
  };
  for (std::int64_t first = 1; first <= options.repeat; first += stretch.length()) {
    const int count = static_cast<int>(std::min<std::int64_t>(stretch.length(), options.repeat - first + 1));
    stretch.prepare(first, count);
    if (auto missed = cuda::run_stretch(ranks, watch, stretch, first, count, options))
      return fail(GpuOutcome::missed_wait, std::move(*missed));
    for (int launch = 0; launch < count; ++launch) cuda::count_launch(plan, report);
    if (auto difference = stretch.check(first, count)) return fail(GpuOutcome::wrong_result, std::move(*difference));
  }
  return report;
}

}  // namespace syncopate
