#include "syncopate/host/unfused.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "syncopate/host/worker_agent.h"
#include "syncopate/kernel/concrete.h"
#include "syncopate/kernel/syntax.h"
#include "syncopate/plan/inputs.h"
#include "syncopate/plan/sums.h"

namespace syncopate::host {
namespace {

/// One rank's memory with nobody else about.
class QuietMemory final : public Environment {
 public:
  QuietMemory(const Plan& plan, std::vector<Bytes> buffers) : plan_(plan), buffers_(std::move(buffers)) {}

  std::span<std::byte> access(int buffer, AccessKind, std::span<const Run> runs, const SourceLocation& where) override {
    const Buffer& about = plan_.buffer(buffer);
    const Shape shape = shape_without_stack(about);
    const std::int64_t elements = volume(shape);
    for (const Run& run : runs)
      if (run.offset < 0 || run.count > elements - run.offset)
        throw UserError(where,
                        fmt::format("the kernel accesses elements {} to {} of {}, which has {} ({})", run.offset,
                                    run.offset + run.count, about.name, elements, to_string(shape)),
                        "check the tensor's shape and the kernel's arguments");
    return buffers_[static_cast<std::size_t>(buffer)];
  }

  bool wait(const WaitRequest& request) override {
    throw UserError(request.where, "the local kernel waits for a signal", "only fused kernels may");
  }

  void raise(int, std::int64_t, std::int64_t, const SourceLocation& where) override {
    throw UserError(where, "the local kernel raises a signal", "only fused kernels may");
  }

  std::vector<Bytes>& buffers() { return buffers_; }

 private:
  const Plan& plan_;
  std::vector<Bytes> buffers_;
};

}  // namespace

std::shared_ptr<const Program> load_program(const std::string& file, const std::string& text,
                                            const std::string& function) {
  const std::shared_ptr<const Module> module = parse_module(std::make_shared<const SourceFile>(file, text));
  const Function* found = module->find(function);
  if (found == nullptr)
    throw UserError({file, 0, 0}, fmt::format("there is no function '{}'", function),
                    "the plan names a kernel that its source does not have");
  return lower(module, *found);
}

namespace {

/// How the tiles of a rank walk their streamed loops.
IterationOrder order_of(const Plan& plan, int rank) {
  std::map<std::vector<std::int64_t>, const Slot*> slots;
  for (const Slot& slot : plan.programs[static_cast<std::size_t>(rank)].slots)
    slots.emplace(plan.tiles[static_cast<std::size_t>(slot.tile)].index, &slot);
  return [&plan, slots = std::move(slots)](std::span<const std::int64_t> tile, int loop) {
    std::vector<Range> ranges;
    const auto found = slots.find(std::vector<std::int64_t>(tile.begin(), tile.end()));
    if (found == slots.end()) return ranges;
    const Slot& slot = *found->second;
    for (const LoopStep& step : slot.steps) {
      const LoopPiece& piece =
          plan.tiles[static_cast<std::size_t>(slot.tile)].pieces[static_cast<std::size_t>(step.piece)];
      if (piece.loop == loop) ranges.push_back({piece.begin, piece.end});
    }
    return ranges;
  };
}

}  // namespace

LocalKernel::LocalKernel(const Plan& plan) {
  const KernelPart& kernel = plan.kernel;
  program_ = load_program(kernel.file, kernel.local_source, kernel.function);
  if (kernel.streamed_loops.empty()) return;
  const TileKernel local(parse_module(std::make_shared<const SourceFile>(kernel.file, kernel.local_source)),
                         kernel.function);
  if (local.streamed_loops().size() != kernel.streamed_loops.size())
    throw UserError({kernel.file, 0, 0},
                    fmt::format("the plan says that {} loops of kernel '{}' are streamed; its annotations say {}",
                                kernel.streamed_loops.size(), kernel.function, local.streamed_loops().size()),
                    "compile the operator again");
  reordered_.emplace(local);
}

std::vector<Bytes> LocalKernel::run(const Plan& plan, int rank, const std::vector<Bytes>& inputs) const {
  if (!reordered_) return run_as_written(plan, rank, inputs);
  const IterationOrder order = order_of(plan, rank);
  return run_in(&order, plan, rank, inputs);
}

std::vector<Bytes> LocalKernel::run_as_written(const Plan& plan, int rank, const std::vector<Bytes>& inputs) const {
  return run_in(nullptr, plan, rank, inputs);
}

std::vector<Bytes> LocalKernel::run_in(const IterationOrder* order, const Plan& plan, int rank,
                                       const std::vector<Bytes>& inputs) const {
  std::vector<Bytes> buffers = local_inputs(plan, inputs);
  for (std::size_t buffer = 0; buffer < plan.buffers.size(); ++buffer) {
    const Buffer& about = plan.buffers[buffer];
    if (buffers[buffer].empty() && about.role == BufferRole::kernel)
      buffers[buffer] = poison(about.dtype, volume(about.shape));
  }
  QuietMemory memory(plan, std::move(buffers));
  const Arguments arguments = kernel_arguments(plan, rank);
  std::vector<std::int64_t> programs(3, 1);
  std::copy(plan.kernel.grid.begin(), plan.kernel.grid.end(), programs.begin());
  for (std::int64_t z = 0; z < programs[2]; ++z)
    for (std::int64_t y = 0; y < programs[1]; ++y)
      for (std::int64_t x = 0; x < programs[0]; ++x) {
        if (order != nullptr)
          reordered_->run_to_end(*order, arguments, {x, y, z}, programs, memory);
        else
          run_to_end(program_, arguments, {x, y, z}, programs, memory);
      }
  std::vector<bool> written(plan.buffers.size(), false);  // by this rank, of which callers take something
  for (const int tile : tiles_of(plan, rank))
    for (const TileAccess& access : plan.tiles[static_cast<std::size_t>(tile)].writes)
      if (!access.region.empty()) written[static_cast<std::size_t>(access.buffer)] = true;
  for (std::size_t buffer = 0; buffer < written.size(); ++buffer)
    if (!written[buffer]) memory.buffers()[buffer].clear();
  return std::move(memory.buffers());
}

}  // namespace syncopate::host

namespace syncopate {

std::vector<Bytes> run_unfused(const Plan& plan, int rank, const std::vector<Bytes>& inputs) {
  return host::LocalKernel(plan).run(plan, rank, inputs);
}

}  // namespace syncopate
