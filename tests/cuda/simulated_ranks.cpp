#include "simulated_ranks.h"

#include <fmt/format.h>

#include "stand_in.h"
#include "syncopate/plan/inputs.h"

namespace syncopate::cuda {
namespace {

Element* elements_at(DevicePointer address) { return reinterpret_cast<Element*>(address); }

}  // namespace

SimulatedRanks::SimulatedRanks(Plan plan, Issue issue, std::uint64_t seed, std::optional<WithheldTransfer> withheld,
                               int impatient)
    : plan_(std::move(plan)), issue_(issue), machine_(seed), random_(seed + 1) {
  name_stand_in(plan_);
  const auto compiled = define_stand_in(
      machine_, {&plan_, &random_, [this](std::string problem) { complain(std::move(problem)); }, impatient});
  define_small_kernels(machine_);
  gpu_ = std::make_unique<Gpu>(machine_.driver(), 0);
  RankOptions options;
  options.ranks_on_this_gpu = plan_.ranks;
  options.compiled = compiled;
  options.graph = issue == Issue::graph;
  options.withheld = withheld;
  for (int each = 0; each < plan_.ranks; ++each) {
    ranks_.push_back(std::make_unique<RankOnGpu>(plan_, each, *gpu_, options));
    callers_.push_back(gpu_->make_stream(false));
  }
  std::vector<DevicePointer> arenas;
  for (const auto& each : ranks_) arenas.push_back(each->arena());
  for (const auto& each : ranks_) {
    each->connect(arenas);
    each->allocate_unbound();
  }
  if (issue_ != Issue::captured) return;
  for (int each = 0; each < plan_.ranks; ++each) {
    const Stream caller = callers_[static_cast<std::size_t>(each)];
    const Driver& driver = gpu_->driver();
    Graph graph = nullptr;
    captured_.push_back(nullptr);
    driver.stream_begin_capture(caller, kCaptureRelaxed);
    rank(each).call(caller);
    driver.stream_end_capture(caller, &graph);
    driver.graph_instantiate(&captured_.back(), graph, 0);
  }
}

SimulatedRanks::~SimulatedRanks() = default;

void SimulatedRanks::complain(std::string problem) {
  if (problems.size() < 5) problems.push_back(std::move(problem));
}

std::int64_t SimulatedRanks::elements(int buffer) const { return volume(plan_.buffer(buffer).shape); }

bool SimulatedRanks::run(int count) {
  const std::int64_t first = launches_ + 1;
  for (int i = 0; i < count; ++i) issue(++launches_);
  if (!machine_.run()) return false;
  for (std::int64_t launch = first; launch <= launches_; ++launch) check_outputs(launch);
  return true;
}

void SimulatedRanks::issue(std::int64_t launch) {
  outputs_.emplace_back(static_cast<std::size_t>(plan_.ranks), 0);
  if (issue_ == Issue::steps) {
    for (const Step& step : issue_order(plan_)) {
      const Stream caller = callers_[static_cast<std::size_t>(step.rank)];
      if (step.kind == Step::Kind::begin) put_inputs(step.rank, launch);
      if (step.kind == Step::Kind::begin) rank(step.rank).begin(caller);
      if (step.kind == Step::Kind::transfer) rank(step.rank).transfer(step.queue, step.transfer);
      if (step.kind == Step::Kind::kernel) rank(step.rank).kernel(caller);
      if (step.kind == Step::Kind::complete) rank(step.rank).complete(caller);
      if (step.kind == Step::Kind::complete) take_outputs(step.rank, launch);
    }
    return;
  }
  for (int each = 0; each < plan_.ranks; ++each) {
    const auto at = static_cast<std::size_t>(each);
    put_inputs(each, launch);
    if (issue_ == Issue::graph) rank(each).call(callers_[at]);
    if (issue_ == Issue::captured) gpu_->driver().graph_launch(captured_[at], callers_[at]);
    take_outputs(each, launch);
  }
}

void SimulatedRanks::put_inputs(int index, std::int64_t launch) {
  for (std::size_t buffer = 0; buffer < plan_.buffers.size(); ++buffer) {
    const Buffer& about = plan_.buffers[buffer];
    const std::vector<Region>& held = about.held[static_cast<std::size_t>(index)];
    if (!about.symmetric || held.empty()) continue;
    for_each_run(held.front(), about.shape, [&](std::int64_t offset, std::int64_t run) {
      std::vector<Element> values;
      for (std::int64_t e = offset; e < offset + run; ++e) values.push_back(stamp(launch, e));
      const std::size_t bytes = values.size() * sizeof(Element);
      const DevicePointer from = gpu_->allocate(bytes, "inputs");
      gpu_->upload(from, values.data(), bytes);
      gpu_->driver().copy_async(
          rank(index).buffer(static_cast<int>(buffer)) + static_cast<std::size_t>(offset) * sizeof(Element), from,
          bytes, callers_[static_cast<std::size_t>(index)]);
    });
  }
}

void SimulatedRanks::take_outputs(int index, std::int64_t launch) {
  const int reduced = reduced_buffer(plan_);
  if (reduced < 0) return;
  const std::size_t bytes = static_cast<std::size_t>(elements(reduced)) * sizeof(Element);
  DevicePointer& to = outputs_[static_cast<std::size_t>(launch - 1)][static_cast<std::size_t>(index)];
  to = gpu_->allocate(bytes, "outputs");
  gpu_->driver().copy_async(to, rank(index).buffer(reduced), bytes, callers_[static_cast<std::size_t>(index)]);
}

void SimulatedRanks::check_outputs(std::int64_t launch) {
  const int reduced = reduced_buffer(plan_);
  if (reduced < 0) return;
  for (int index = 0; index < plan_.ranks; ++index) {
    const Element* output =
        elements_at(outputs_[static_cast<std::size_t>(launch - 1)][static_cast<std::size_t>(index)]);
    for_each_run(
        output_region(plan_, reduced, index), plan_.buffer(reduced).shape, [&](std::int64_t offset, std::int64_t run) {
          for (std::int64_t e = offset; e < offset + run; ++e) {
            Element sum = 0;
            for (int each = 0; each < plan_.ranks; ++each) sum = static_cast<Element>(sum + summand(launch, each, e));
            if (output[e] != sum)
              return complain(fmt::format("rank {}, launch {}: element {} of the sum is wrong", index, launch, e));
          }
        });
  }
}

}  // namespace syncopate::cuda
