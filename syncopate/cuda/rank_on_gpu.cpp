#include "syncopate/cuda/rank_on_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "syncopate/core/error.h"
#include "syncopate/cuda/copies.h"
#include "syncopate/cuda/device_code.h"
#include "syncopate/cuda/issue.h"
#include "syncopate/cuda/prepared_kernel.h"
#include "syncopate/cuda/rank_tables.h"

namespace syncopate::cuda {
namespace {

constexpr std::size_t kWord = sizeof(std::int64_t);
/// SMs that no kernel of a plan takes where something else needs some while it runs: copies inside a GPU and small
/// kernels in queues.
constexpr int kFreeMultiprocessors = 4;
/// Streams that have a hardware queue each (driver.cpp sets it). Streams beyond share one, and what waits at its head
/// for a kernel behind it would wait forever.
constexpr int kHardwareQueues = 32;

std::size_t bytes_of(const Buffer& buffer) {
  return static_cast<std::size_t>(volume(memory_shape(buffer)) * size_in_bytes(buffer.dtype));
}

}  // namespace

struct RankOnGpu::Parts {
  Parts(const Plan& the_plan, int the_rank, Gpu& the_gpu, const RankOptions& the_options)
      : plan(the_plan),
        rank(the_rank),
        gpu(the_gpu),
        driver(the_gpu.driver()),
        options(the_options),
        program(the_plan.programs[static_cast<std::size_t>(the_rank)]),
        mailboxes(assign_mailboxes(the_plan)),
        words(words_of_signals(the_plan, mailboxes)),
        layout(arena_layout(the_plan, mailboxes)),
        fused(prepare_kernel(the_plan, KernelText::fused, the_gpu, the_options.compile, the_options.compiled)),
        step(the_gpu.load(kDeviceCode, kStepKernel, 1, 0)),
        delay(the_gpu.load(kDeviceCode, kDelayKernel, 1, 0)) {
    for (const Step& each : issue_order(plan))
      if (each.rank == rank) order.push_back(each);
    check_residency();
    check_streams();
    allocate();
  }

  ~Parts() {
    // Failures are ignored: whatever broke has been reported by the call that met it first.
    if (executable != nullptr) driver.graph_executable_destroy(executable);
    if (graph != nullptr) driver.graph_destroy(graph);
  }

  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  // --- preparation -----------------------------------------------------------------------------------------------

  /// Every worker must be resident, whatever the other ranks on this GPU do: one that is not could keep a tile from
  /// being computed that others wait for.
  void check_residency() const {
    const int blocks = fused.loaded.blocks_per_multiprocessor;
    if (blocks < 1)
      throw UserError({plan.kernel.file}, "a thread block of the fused kernel does not fit on an SM",
                      "use smaller tiles or fewer stages");
    bool needed = options.ranks_on_this_gpu > 1 || options.kernels_in_queues;
    for (int each = 0; each < plan.ranks && !needed; ++each)
      needed = queues_need_multiprocessors(plan, each, mailboxes, words);
    // Alone on a GPU, a rank may have as many blocks on each SM as fit. Ranks that share one cannot count on how the
    // hardware deals out their blocks, so they have one for an SM.
    const int per_multiprocessor = options.ranks_on_this_gpu > 1 ? 1 : fused.loaded.blocks_per_multiprocessor;
    const int most =
        (gpu.multiprocessors() - (needed ? kFreeMultiprocessors : 0)) * per_multiprocessor / options.ranks_on_this_gpu;
    if (plan.workers > most)
      throw UserError(
          {},
          fmt::format("the plan has {} workers a rank, but the GPU's {} SMs have room for {} of each rank's",
                      plan.workers, gpu.multiprocessors(), most),
          fmt::format("compile it with --set launch.workers={}", most));
  }

  /// All streams that may be at work at once: of every rank on this GPU its queues' and its caller's, and those that
  /// watch. What a graph launched on the caller's stream does beside it is the driver's affair.
  void check_streams() const {
    std::size_t each = 0;
    for (const RankProgram& any : plan.programs) each = std::max(each, any.queues.size());
    const int needed = options.ranks_on_this_gpu * (static_cast<int>(each) + 1) + options.watching_streams;
    if (needed > kHardwareQueues)
      throw UserError({},
                      fmt::format("{} ranks on one GPU need {} streams at once ({} queues and the caller's for each, "
                                  "and {} to watch them), and it has queues for {}",
                                  options.ranks_on_this_gpu, needed, each, options.watching_streams, kHardwareQueues),
                      "run fewer ranks on it, or choose an algorithm with fewer queues");
  }

  DevicePointer upload_words(const std::vector<std::int64_t>& values, const char* purpose) const {
    const DevicePointer address = gpu.allocate(values.size() * kWord, purpose);
    gpu.upload(address, values.data(), values.size() * kWord);
    return address;
  }

  void allocate() {
    arena = gpu.allocate(layout.bytes, "tensors and signals that peers reach");
    std::vector<std::int64_t> zeros((layout.mailboxes - layout.flags) / kWord, 0);
    gpu.upload(arena + layout.flags, zeros.data(), zeros.size() * kWord);
    std::vector<std::int64_t> mail;
    for (const Mailbox& mailbox : mailboxes.of_rank[static_cast<std::size_t>(rank)])
      mail.push_back(mailbox.previous_launch ? plan.signals[static_cast<std::size_t>(mailbox.signal)].per_launch : 0);
    gpu.upload(arena + layout.mailboxes, mail.data(), mail.size() * kWord);

    epoch = upload_words({1}, "the epoch");
    const std::vector<std::int64_t> nothing_missed(kRecordWords, 0);
    record = arena + layout.record;
    gpu.upload(record, nothing_missed.data(), nothing_missed.size() * kWord);
    records.assign(static_cast<std::size_t>(plan.ranks), 0);
    records[static_cast<std::size_t>(rank)] = record;
    scratch =
        gpu.allocate(static_cast<std::size_t>(plan.workers) * static_cast<std::size_t>(fused.compiled->scratch_bytes),
                     "tensor descriptors");
    for (std::size_t buffer = 0; buffer < plan.buffers.size(); ++buffer) {
      const auto& at = layout.buffers[buffer];
      buffers.push_back(at ? arena + *at : 0);
      if (!at && !cuda::can_bind(plan, static_cast<int>(buffer))) allocate(static_cast<int>(buffer));
    }
    started = gpu.make_event();
    for (std::size_t queue = 0; queue < program.queues.size(); ++queue) {
      queues.push_back(gpu.make_stream(true));
      drained.push_back(gpu.make_event());
    }
  }

  void allocate(int buffer) {
    const Buffer& about = plan.buffer(buffer);
    buffers[static_cast<std::size_t>(buffer)] = gpu.allocate(bytes_of(about), fmt::format("tensor {}", about.name));
  }

  void connect(std::span<const DevicePointer> arenas) {
    check_internal(arenas.size() == static_cast<std::size_t>(plan.ranks), "one arena of each rank is needed");
    check_internal(arenas[static_cast<std::size_t>(rank)] == arena, "the rank's own arena has another address");
    check_internal(!arguments, "a rank is connected once");
    for (std::size_t each = 0; each < arenas.size(); ++each) records[each] = arenas[each] + layout.record;
    steps = rank_steps(plan, rank, layout, mailboxes, words, arenas);
    step_waits = upload_words(steps.waits, "waits of completions and queues");
    std::vector<std::int64_t> raises;
    for (const DevicePointer address : steps.raises) raises.push_back(static_cast<std::int64_t>(address));
    step_raises = upload_words(raises, "what completions and queues raise");
    make_copies(arenas);
    make_arguments(arenas);
    if (options.graph && !options.withheld) capture();
  }

  void make_copies(std::span<const DevicePointer> arenas) {
    const auto address = [&](const View& view) {
      const auto& at = layout.buffers[static_cast<std::size_t>(view.buffer)];
      check_internal(at || view.rank == rank, "a transfer reaches a peer's buffer that is not symmetric");
      return at ? arenas[static_cast<std::size_t>(view.rank)] + *at : buffers[static_cast<std::size_t>(view.buffer)];
    };
    for (const Queue& queue : program.queues) {
      copies.emplace_back();
      for (const Transfer& transfer : queue.transfers) {
        const Buffer& from = plan.buffer(transfer.source.buffer);
        const Buffer& to = plan.buffer(transfer.destination.buffer);
        copies.back().emplace_back();
        for (const Copy& copy : copies_between(in_memory(from, transfer.source.region), memory_shape(from),
                                               in_memory(to, transfer.destination.region), memory_shape(to)))
          for (const Copy2dArguments& operation :
               copy_operations(copy, address(transfer.source), address(transfer.destination),
                               static_cast<std::size_t>(size_in_bytes(from.dtype))))
            copies.back().back().push_back(operation);
      }
    }
  }

  void make_arguments(std::span<const DevicePointer> arenas) {
    const KernelTables tables = tables_on_gpu(plan, rank, layout, words);
    std::vector<std::int64_t> peers;
    for (const DevicePointer each : arenas) peers.push_back(static_cast<std::int64_t>(each + layout.flags));
    RuntimeValues values;
    values.rank = rank;
    values.tile_count = static_cast<std::int32_t>(program.slots.size());
    values.addition_count = static_cast<std::int32_t>(program.additions.size());
    values.time_limit = nanoseconds_limit();
    values.tiles = upload_words(tables.tiles, "the tile order");
    values.waits = upload_words(tables.waits, "waits of tiles");
    values.steps = upload_words(tables.steps, "steps of tiles");
    values.addends = upload_words(tables.addends, "addends of tiles");
    values.additions = upload_words(tables.additions, "sums after the tiles");
    values.signals = upload_words(tables.signals, "signals of tiles");
    values.peers = upload_words(peers, "where peers' signals are");
    if (is_dynamic(plan)) values.claims = upload_words(unclaimed(), "which slots are taken");
    values.flags = arena + layout.flags;
    values.epoch = epoch;
    values.record = record;
    arguments.emplace(driver, plan, fused.signature, *fused.compiled, values, scratch);

    // Flags that satisfy every wait, and peers that are all this array: what tiles raise goes nowhere.
    const std::size_t count = (layout.mailboxes - layout.flags) / kWord + mailboxes.most();
    values.flags = upload_words(std::vector<std::int64_t>(count, kPastEverything), "signals that nobody waits for");
    values.peers = upload_words(std::vector<std::int64_t>(peers.size(), static_cast<std::int64_t>(values.flags)),
                                "signals that nobody waits for");
    if (is_dynamic(plan)) {
      nothing_claimed = upload_words(unclaimed(), "slots that nobody has taken");
      values.claims = satisfied_claims = upload_words(unclaimed(), "which slots are taken");
    }
    satisfied_arguments.emplace(driver, plan, fused.signature, *fused.compiled, values, scratch);
    for (std::size_t buffer = 0; buffer < buffers.size(); ++buffer) set_argument(static_cast<int>(buffer));
  }

  std::vector<std::int64_t> unclaimed() const { return std::vector<std::int64_t>(claim_words(plan, rank), 0); }

  std::int64_t nanoseconds_limit() const { return static_cast<std::int64_t>(options.time_limit * 1e9); }

  void set_argument(int buffer) {
    if (!arguments) return;
    gpu.make_current();  // making tensor maps asks for it
    arguments->set_buffer(buffer, buffers[static_cast<std::size_t>(buffer)]);
    satisfied_arguments->set_buffer(buffer, buffers[static_cast<std::size_t>(buffer)]);
    arguments_changed = true;
  }

  void bind(int buffer, DevicePointer address) {
    const Buffer& about = plan.buffer(buffer);
    if (!cuda::can_bind(plan, buffer))
      throw UserError(
          {}, fmt::format("the memory of '{}' must be the operator's own, since other ranks reach it", about.name),
          "copy into it, or out of it");
    if (address % 16 != 0)
      throw UserError({}, fmt::format("the address {:#x} given for '{}' is not a multiple of 16", address, about.name),
                      "pass a tensor whose first element is aligned so");
    if (buffers[static_cast<std::size_t>(buffer)] == address) return;
    buffers[static_cast<std::size_t>(buffer)] = address;
    set_argument(buffer);
  }

  // --- a launch --------------------------------------------------------------------------------------------------

  void begin(Stream stream) {
    ++launches;
    if (!steps.start.empty()) run_step(stream, steps.start, 0, 0);
    if (queues.empty()) return;
    driver.check(driver.event_record(started, stream), "recording an event");
    for (Stream queue : queues) driver.check(driver.stream_wait_event(queue, started, 0), "waiting for an event");
  }

  void transfer(int queue, int position) {
    const Stream stream = queues[static_cast<std::size_t>(queue)];
    const auto at = static_cast<std::size_t>(position);
    TransferSteps& about = steps.transfers[static_cast<std::size_t>(queue)][at];
    operate(stream, about.take_mail, "waiting for a signal");
    if (!about.wait_kernel.empty()) run_step(stream, about.wait_kernel, 0, who_waits_in_queue(queue));
    // What it waits for is taken all the same: a signal left in a mailbox would let the next launch's transfer go too
    // early.
    if (const auto& withheld = options.withheld; withheld && withheld->launch == launches && withheld->rank == rank &&
                                                 withheld->queue == queue && withheld->transfer == position)
      return;
    for (const Copy2dArguments& copy : copies[static_cast<std::size_t>(queue)][at]) enqueue_copy(driver, copy, stream);
    for (const DevicePointer flag : about.epoch_copies)
      driver.check(driver.copy_async(flag, epoch, kWord, stream), "raising a signal");
    operate(stream, about.send_mail, "raising a signal");
    if (!about.raise_kernel.empty()) run_step(stream, about.raise_kernel, 0, who_waits_in_queue(queue));
  }

  void operate(Stream stream, std::vector<MemoryOperation>& operations, std::string_view doing) const {
    for (std::size_t first = 0; first < operations.size(); first += kMostMemoryOperations) {
      const std::size_t count = std::min(operations.size() - first, kMostMemoryOperations);
      driver.check(
          driver.stream_batch_memory_operations(stream, static_cast<unsigned>(count), operations.data() + first, 0),
          doing);
    }
  }

  void kernel(Stream stream) {
    if (!program.slots.empty()) launch(gpu, fused, static_cast<unsigned>(plan.workers), *arguments, stream);
  }

  /// It takes slots in the launch that is to come, over and over.
  void kernel_without_waiting(Stream stream) {
    if (satisfied_claims != 0)
      driver.check(driver.copy_async(satisfied_claims, nothing_claimed, claim_words(plan, rank) * kWord, stream),
                   "setting back which slots are taken");
    launch(gpu, fused, static_cast<unsigned>(plan.workers), *satisfied_arguments, stream);
  }

  void complete(Stream stream) {
    for (std::size_t queue = 0; queue < queues.size(); ++queue) {
      driver.check(driver.event_record(drained[queue], queues[queue]), "recording an event");
      driver.check(driver.stream_wait_event(stream, drained[queue], 0), "waiting for an event");
    }
    run_step(stream, steps.completion, 1, kCompletionWaits);
  }

  void run_step(Stream stream, const StepRows& rows, std::uint64_t advance, std::int64_t who) {
    std::array<std::uint64_t, 10> values = {step_waits + rows.first_wait * 3 * kWord,
                                            rows.waits,
                                            step_raises + rows.first_raise * kWord,
                                            rows.raises,
                                            arena + layout.flags,
                                            epoch,
                                            advance,
                                            record,
                                            static_cast<std::uint64_t>(nanoseconds_limit()),
                                            static_cast<std::uint64_t>(who)};
    std::array<void*, 10> parameters{};
    for (std::size_t i = 0; i < values.size(); ++i) parameters[i] = &values[i];
    driver.check(driver.launch_kernel(step.function, 1, 1, 1, 1, 1, 1, 0, stream, parameters.data(), nullptr),
                 "launching a small kernel");
  }

  void issue(Stream stream) {
    spent = true;  // unless all of it could be given
    issue_steps(stream);
    spent = false;
  }

  void issue_steps(Stream stream) {
    for (const Step& each : order) {
      switch (each.kind) {
        case Step::Kind::begin:
          begin(stream);
          break;
        case Step::Kind::transfer:
          transfer(each.queue, each.transfer);
          break;
        case Step::Kind::kernel:
          kernel(stream);
          if (capturing_own) remember_kernel_node(stream);
          break;
        case Step::Kind::complete:
          complete(stream);
          break;
      }
    }
  }

  // --- the graph of a launch -------------------------------------------------------------------------------------

  /// On a stream made for it: one that stayed would hold a hardware queue.
  void capture() {
    const Stream stream = gpu.make_stream(false);
    driver.check(driver.stream_begin_capture(stream, kCaptureRelaxed), "beginning a graph");
    capturing_own = true;
    issue_steps(stream);
    capturing_own = false;
    launches = 0;
    driver.check(driver.stream_end_capture(stream, &graph), "ending a graph");
    driver.check(driver.graph_instantiate(&executable, graph, 0), "making a graph ready");
    driver.check(driver.graph_upload(executable, stream), "making a graph ready");
    driver.check(driver.stream_synchronize(stream), "making a graph ready");
    gpu.destroy_stream(stream);
    arguments_changed = false;
  }

  /// The kernel was the last that the stream got.
  void remember_kernel_node(Stream stream) {
    if (program.slots.empty()) return;
    int status = 0;
    std::uint64_t id = 0;
    Graph of = nullptr;
    const GraphNode* last = nullptr;
    std::size_t count = 0;
    driver.check(driver.stream_get_capture_info(stream, &status, &id, &of, &last, &count), "looking into a graph");
    check_internal(count == 1, "the kernel is not the last node of its stream");
    kernel_node = last[0];
  }

  void update_graph() {
    if (!arguments_changed || kernel_node == nullptr) return;
    KernelNodeArguments node;
    node.function = fused.loaded.function;
    node.grid_x = static_cast<unsigned>(plan.workers);
    node.block_x = fused.loaded.threads;
    node.shared_bytes = fused.loaded.shared_bytes;
    node.parameters = arguments->pointers();
    driver.check(driver.graph_executable_set_kernel(executable, kernel_node, &node), "giving a graph other tensors");
    arguments_changed = false;
  }

  void call(Stream stream) {
    gpu.make_current();
    check_callable();
    int status = kCaptureNone;
    driver.check(driver.stream_is_capturing(stream, &status), "looking at the caller's stream");
    if (status != kCaptureNone) return issue_steps(stream);  // nothing is given to the GPU
    if (executable == nullptr) return issue(stream);
    update_graph();
    driver.check(driver.graph_launch(executable, stream), "launching a graph");
  }

  void check_callable() const {
    check_internal(arguments.has_value(), "a rank that is not connected is called");
    if (spent)
      throw UserError({}, fmt::format("a launch of rank {} was given to its GPU in part only", rank),
                      "make the operator anew, on all ranks");
    for (std::size_t buffer = 0; buffer < buffers.size(); ++buffer)
      if (buffers[buffer] == 0)
        throw UserError({}, fmt::format("tensor '{}' has no memory", plan.buffers[buffer].name),
                        "bind it, or let the operator allocate it");
  }

  DevicePointer mailbox(int index) const { return arena + layout.mailboxes + static_cast<std::size_t>(index) * kWord; }

  const Plan& plan;
  const int rank;
  Gpu& gpu;
  const Driver& driver;
  const RankOptions options;
  const RankProgram& program;
  const Mailboxes mailboxes;
  const std::vector<SignalWords> words;
  const ArenaLayout layout;
  const PreparedKernel fused;
  const LoadedKernel step;
  const LoadedKernel delay;
  std::vector<Step> order;  ///< the rank's own steps

  DevicePointer arena = 0;
  DevicePointer epoch = 0;
  DevicePointer record = 0;
  std::vector<DevicePointer> records;  ///< by rank; 0 for what is not connected
  DevicePointer scratch = 0;
  DevicePointer step_waits = 0;
  DevicePointer step_raises = 0;
  DevicePointer nothing_claimed = 0;   ///< zeros for ...
  DevicePointer satisfied_claims = 0;  ///< ... the claims of satisfied_arguments; of a dynamic order
  std::vector<DevicePointer> buffers;
  std::vector<Stream> queues;
  Event started = nullptr;
  std::vector<Event> drained;  ///< per queue

  RankSteps steps;
  std::vector<std::vector<std::vector<Copy2dArguments>>> copies;  ///< [queue][transfer]
  std::optional<KernelArguments> arguments;
  std::optional<KernelArguments> satisfied_arguments;
  std::int64_t launches = 0;

  Graph graph = nullptr;
  GraphExecutable executable = nullptr;
  GraphNode kernel_node = nullptr;
  bool capturing_own = false;
  bool arguments_changed = false;
  bool spent = false;
};

RankOnGpu::RankOnGpu(const Plan& plan, int rank, Gpu& gpu, const RankOptions& options)
    : parts_(std::make_unique<Parts>(plan, rank, gpu, options)) {}

RankOnGpu::~RankOnGpu() = default;

const Plan& RankOnGpu::plan() const { return parts_->plan; }
int RankOnGpu::rank() const { return parts_->rank; }
Gpu& RankOnGpu::gpu() const { return parts_->gpu; }
DevicePointer RankOnGpu::arena() const { return parts_->arena; }
const ArenaLayout& RankOnGpu::layout() const { return parts_->layout; }
void RankOnGpu::connect(std::span<const DevicePointer> arenas) { parts_->connect(arenas); }
DevicePointer RankOnGpu::buffer(int buffer) const { return parts_->buffers[static_cast<std::size_t>(buffer)]; }
bool RankOnGpu::can_bind(int buffer) const { return cuda::can_bind(parts_->plan, buffer); }
void RankOnGpu::bind(int buffer, DevicePointer address) { parts_->bind(buffer, address); }

void RankOnGpu::allocate_unbound() {
  for (std::size_t buffer = 0; buffer < parts_->buffers.size(); ++buffer) {
    if (parts_->buffers[buffer] != 0) continue;
    parts_->allocate(static_cast<int>(buffer));
    parts_->set_argument(static_cast<int>(buffer));
  }
}

void RankOnGpu::call(Stream stream) { parts_->call(stream); }

void RankOnGpu::call_without_graph(Stream stream) {
  parts_->gpu.make_current();
  parts_->check_callable();
  parts_->issue(stream);
}

void RankOnGpu::begin(Stream stream) {
  parts_->check_callable();
  parts_->gpu.make_current();
  parts_->begin(stream);
}

void RankOnGpu::transfer(int queue, int transfer) {
  parts_->gpu.make_current();
  parts_->transfer(queue, transfer);
}

void RankOnGpu::kernel(Stream stream) {
  parts_->gpu.make_current();
  parts_->kernel(stream);
}

void RankOnGpu::complete(Stream stream) {
  parts_->gpu.make_current();
  parts_->complete(stream);
}

bool RankOnGpu::is_spent() const { return parts_->spent; }

bool RankOnGpu::queues_ended() const {
  parts_->gpu.make_current();
  return std::none_of(parts_->queues.begin(), parts_->queues.end(),
                      [&](Stream queue) { return parts_->driver.stream_query(queue) == kNotReady; });
}

Stream RankOnGpu::queue(int queue) const { return parts_->queues[static_cast<std::size_t>(queue)]; }

void RankOnGpu::delay(Stream stream, std::int64_t nanoseconds) {
  parts_->gpu.make_current();
  void* parameters[] = {&nanoseconds};
  const Driver& driver = parts_->driver;
  driver.check(driver.launch_kernel(parts_->delay.function, 1, 1, 1, 1, 1, 1, 0, stream,
                                    static_cast<void**>(parameters), nullptr),
               "delaying a stream");
}

void RankOnGpu::kernel_without_waiting(Stream stream) {
  parts_->gpu.make_current();
  parts_->check_callable();
  parts_->kernel_without_waiting(stream);
}

DevicePointer RankOnGpu::flags() const { return parts_->arena + parts_->layout.flags; }
DevicePointer RankOnGpu::mailbox(int index) const { return parts_->mailbox(index); }
DevicePointer RankOnGpu::epoch() const { return parts_->epoch; }
DevicePointer RankOnGpu::record() const { return parts_->record; }
DevicePointer RankOnGpu::record(int rank) const {
  const DevicePointer at = parts_->records[static_cast<std::size_t>(rank)];
  check_internal(at != 0, "the record of a rank that is not connected");
  return at;
}
const Mailboxes& RankOnGpu::mailboxes() const { return parts_->mailboxes; }
double RankOnGpu::time_limit() const { return parts_->options.time_limit; }

}  // namespace syncopate::cuda
