#include "syncopate/capi/operator.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "syncopate/capi/error.h"
#include "syncopate/capi/options.h"
#include "syncopate/capi/plan.h"
#include "syncopate/capi/tensors.h"
#include "syncopate/core/text.h"
#include "syncopate/cuda/local_kernel.h"
#include "syncopate/cuda/peer_group.h"

namespace syncopate::capi {
namespace {

/// All that a rank stands on. Views share it, so that memory lives as long as any of them.
struct Prepared {
  Prepared(std::shared_ptr<const Plan> the_plan, std::shared_ptr<const cuda::Driver> driver,
           const syncopate_operator_options& asked, const cuda::RankOptions& options)
      : plan(std::move(the_plan)),
        gpu(std::move(driver), asked.device),
        rank(*plan, asked.rank, gpu, options),
        group(rank, asked.ranks_on_device),
        compile(options.compile) {}

  std::shared_ptr<const Plan> plan;
  cuda::Gpu gpu;
  cuda::RankOnGpu rank;
  cuda::PeerGroup group;
  cuda::CompileOptions compile;
  std::optional<cuda::LocalKernel> local;  ///< once it has been asked for
};

/// Leaves the caller's current CUDA context as it was: frameworks take it for the choice of a GPU. It shares the
/// driver, since an operator may go in between that was the last to hold it.
class ContextKept {
 public:
  explicit ContextKept(std::shared_ptr<const cuda::Driver> driver)
      : driver_(std::move(driver)), result_(driver_->context_get_current(&context_)) {}
  ContextKept(const ContextKept&) = delete;
  ContextKept& operator=(const ContextKept&) = delete;
  ~ContextKept() {
    if (is_known()) driver_->context_set_current(context_);
  }

  bool is_known() const { return result_ == cuda::kSuccess; }
  void check() const { driver_->check(result_, "asking for the current GPU"); }

 private:
  std::shared_ptr<const cuda::Driver> driver_;
  cuda::Context context_ = nullptr;
  cuda::Result result_;
};

cuda::RankOptions rank_options_of(const syncopate_operator_options& options) {
  cuda::RankOptions rank;
  rank.ranks_on_this_gpu = options.ranks_on_device;
  rank.watching_streams = options.ranks_on_device;  // each group watches its own
  rank.time_limit = options.time_limit;
  rank.compile.python = options.python;
  rank.compile.cache = options.cache;
  if (options.withheld_queue >= 0)
    rank.withheld = WithheldTransfer{.rank = options.rank,
                                     .queue = options.withheld_queue,
                                     .transfer = options.withheld_transfer,
                                     .launch = options.withheld_launch};
  return rank;
}

std::shared_ptr<Prepared> prepare(std::shared_ptr<const Plan> plan, const std::shared_ptr<const cuda::Driver>& driver,
                                  const syncopate_operator_options& asked, const cuda::RankOptions& options) {
  const ContextKept kept(driver);
  kept.check();
  auto made = std::make_unique<Prepared>(std::move(plan), driver, asked, options);
  // The last view may go on any thread, long after the operator, and nobody is there to hear of a failure. A driver
  // that does not even know the current GPU any more frees nothing.
  return {made.release(), [driver](Prepared* last) noexcept {
            const ContextKept kept_then(driver);
            last->group.leave();
            if (kept_then.is_known()) delete last;
          }};
}

void check_options(const Plan& plan, const syncopate_operator_options& options) {
  require(options.python, "python");
  require(options.cache, "cache");
  if (options.rank < 0 || options.rank >= plan.ranks)
    throw UserError({}, fmt::format("rank {} of a plan of {} ranks", options.rank, plan.ranks),
                    "start as many processes as the plan has ranks, or compile it for the number there is");
  if (options.ranks_on_device < 1 || options.ranks_on_device > plan.ranks)
    throw UserError({}, fmt::format("{} ranks on one GPU, of a plan of {}", options.ranks_on_device, plan.ranks),
                    "name how many of the plan's ranks share this GPU");
  if (!(options.time_limit >= 0.001 && options.time_limit <= 3600))
    throw UserError({}, fmt::format("a time limit of {} s", options.time_limit), "use 0.001 to 3600 seconds");
  const int devices = cuda::Driver::load()->count();
  if (options.device < 0 || options.device >= devices)
    throw UserError({}, fmt::format("there is no GPU {}: this process sees {}", options.device, devices),
                    "`syncopate doctor` lists them");
}

void throw_if_failed(std::optional<std::string> failure) {
  if (failure) throw LaunchFailed{std::move(*failure)};
}

}  // namespace
}  // namespace syncopate::capi

struct syncopate_operator {
  std::shared_ptr<syncopate::capi::Prepared> prepared;
  std::size_t without_memory = 0;  ///< tensors that must be bound or viewed before a call
};

namespace syncopate::capi {
namespace {

/// Runs `body` on what stands behind a handle, with the caller's context kept.
template <typename Body>
syncopate_code with_operator(const syncopate_operator* op, syncopate_error** error, Body&& body) {
  return guard(error, [&] {
    require(op, "op");
    const ContextKept kept(op->prepared->gpu.shared_driver());
    kept.check();
    body(*op->prepared);
  });
}

bool lacks_memory(const Prepared& on, int buffer) { return on.rank.can_bind(buffer) && on.rank.buffer(buffer) == 0; }

std::size_t count_without_memory(const Prepared& on) {
  std::size_t count = 0;
  for (int i = 0; i < static_cast<int>(on.plan->buffers.size()); ++i)
    if (lacks_memory(on, i)) ++count;
  return count;
}

[[noreturn]] void throw_without_memory(const Prepared& on) {
  for (int i = 0; i < static_cast<int>(on.plan->buffers.size()); ++i)
    if (lacks_memory(on, i))
      throw UserError({}, fmt::format("tensor {} has no memory yet", on.plan->buffer(i).name),
                      "bind one of the caller's to it, or ask for a view of it, before the call");
  throw InternalError("tensors without memory were counted wrong");
}

void bind_buffer(syncopate_operator& op, int buffer, cuda::DevicePointer address) {
  Prepared& on = *op.prepared;
  if (lacks_memory(on, buffer)) --op.without_memory;
  on.rank.bind(buffer, address);
}

}  // namespace

syncopate_operator* new_operator(std::shared_ptr<const Plan> plan, std::shared_ptr<const cuda::Driver> driver,
                                 const syncopate_operator_options& asked, const cuda::RankOptions& options) {
  auto op = std::make_unique<syncopate_operator>();
  op->prepared = prepare(std::move(plan), driver, asked, options);
  op->without_memory = count_without_memory(*op->prepared);
  return op.release();
}

}  // namespace syncopate::capi

using namespace syncopate;
using namespace syncopate::capi;

void syncopate_operator_options_init(syncopate_operator_options* options) {
  if (options == nullptr) return;
  *options = {};
  options->size = sizeof *options;
  options->ranks_on_device = 1;
  options->time_limit = 10;
  options->python = "python3";
  options->withheld_queue = -1;
  options->withheld_launch = 1;
}

syncopate_code syncopate_operator_create(const syncopate_plan* plan, const syncopate_operator_options* given,
                                         syncopate_operator** made, syncopate_error** error) {
  return guard(error, [&] {
    require(plan, "plan");
    require(given, "options");
    require(made, "the place for the operator");
    const syncopate_operator_options options = complete(given, syncopate_operator_options_init);
    check_options(*plan->plan, options);
    *made = new_operator(plan->plan, cuda::Driver::load(), options, rank_options_of(options));
  });
}

syncopate_code syncopate_operator_handle(const syncopate_operator* op, const void** bytes, size_t* size,
                                         syncopate_error** error) {
  return with_operator(op, error, [&](Prepared& on) {
    require(bytes, "the place for the handle");
    require(size, "the place for its size");
    *bytes = on.group.handle().data();
    *size = on.group.handle().size();
  });
}

syncopate_code syncopate_operator_connect(syncopate_operator* op, const void* const* handles, const size_t* sizes,
                                          size_t count, syncopate_error** error) {
  return with_operator(op, error, [&](Prepared& on) {
    require(handles, "handles");
    require(sizes, "sizes");
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < count; ++i) {
      require(handles[i], fmt::format("handle {}", i));
      texts.emplace_back(static_cast<const char*>(handles[i]), sizes[i]);
    }
    on.group.connect(texts);
  });
}

syncopate_code syncopate_operator_bind(syncopate_operator* op, const char* name, const DLTensor* tensor,
                                       syncopate_error** error) {
  return with_operator(op, error, [&](Prepared& on) {
    require(name, "name");
    require(tensor, "tensor");
    const int buffer = find_buffer(*on.plan, name);
    if (!on.rank.can_bind(buffer))
      throw UserError({}, fmt::format("tensor {} lives in the operator's memory, where transfers reach it", name),
                      "ask for a view of it and copy from or to that");
    check_tensor(on.plan->buffer(buffer), *tensor, on.gpu.ordinal());
    bind_buffer(*op, buffer, address_of(*tensor));
  });
}

syncopate_code syncopate_operator_view(syncopate_operator* op, const char* name, int part, DLManagedTensor** view,
                                       syncopate_error** error) {
  return with_operator(op, error, [&](Prepared& on) {
    require(name, "name");
    require(view, "the place for the view");
    const int buffer = find_buffer(*on.plan, name);
    const Buffer& about = on.plan->buffer(buffer);
    const Region region = region_of(*on.plan, buffer, part, on.rank.rank());
    if (lacks_memory(on, buffer)) {
      const auto bytes = static_cast<std::size_t>(volume(about.shape) * size_in_bytes(about.dtype));
      bind_buffer(*op, buffer, on.gpu.allocate(bytes, fmt::format("tensor {}", about.name)));
    }
    *view = new_view(about, region, part, on.rank.buffer(buffer), on.gpu.ordinal(), op->prepared);
  });
}

syncopate_code syncopate_operator_call(syncopate_operator* op, void* stream, syncopate_error** error) {
  return with_operator(op, error, [&](Prepared& on) {
    if (op->without_memory > 0) throw_without_memory(on);
    on.gpu.make_current();
    throw_if_failed(on.group.call(static_cast<cuda::Stream>(stream)));
  });
}

syncopate_code syncopate_operator_prepare_local(syncopate_operator* op, syncopate_error** error) {
  return with_operator(op, error, [](Prepared& on) {
    if (on.local) return;
    for (const Buffer& buffer : on.plan->buffers)
      if (buffer.fold)
        throw UserError({},
                        fmt::format("the operator keeps a part of '{}' at a time in memory, and the local kernel reads "
                                    "all of it",
                                    buffer.name),
                        "make an operator without that memory_budget");
    const auto workers = static_cast<unsigned>(on.plan->workers);
    on.local.emplace(*on.plan, on.gpu, on.compile, cuda::LocalLaunch{.most_blocks = workers, .rank = on.rank.rank()});
  });
}

syncopate_code syncopate_operator_call_local(syncopate_operator* op, void* stream, syncopate_error** error) {
  return with_operator(op, error, [&](Prepared& on) {
    if (!on.local)
      throw UserError({}, "the local kernel is not prepared", "call syncopate_operator_prepare_local() first");
    if (op->without_memory > 0) throw_without_memory(on);
    std::vector<cuda::DevicePointer> buffers;
    for (int i = 0; i < static_cast<int>(on.plan->buffers.size()); ++i) buffers.push_back(on.rank.buffer(i));
    on.local->launch(static_cast<cuda::Stream>(stream), buffers);
  });
}

syncopate_code syncopate_operator_status(syncopate_operator* op, syncopate_error** error) {
  return with_operator(op, error, [](Prepared& on) { throw_if_failed(on.group.failure()); });
}

syncopate_code syncopate_operator_synchronize(syncopate_operator* op, syncopate_error** error) {
  return with_operator(op, error, [](Prepared& on) { throw_if_failed(on.group.synchronize()); });
}

void syncopate_operator_destroy(syncopate_operator* op) {
  if (op == nullptr) return;
  // Nobody is left to hear of failures; what could not be freed stays.
  guard(nullptr, [&] {
    const ContextKept kept(op->prepared->gpu.shared_driver());
    op->prepared->group.leave();
    op->prepared.reset();
  });
  delete op;
}
