#include "simulated_gpu.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace syncopate::cuda {
namespace {

SimulatedGpu* the_gpu = nullptr;

/// What the GPU does meanwhile when it is asked how far it is.
constexpr int kStepsOfAQuery = 100;
constexpr Result kFailure = 719;

template <typename T>
T* pointer(DevicePointer address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace

/// The functions of the driver.
struct SimulatedCalls {
  /// Each thread has its own, or none.
  static thread_local Context current_context;
  static constexpr Result kInvalidContext = 201;

  static SimulatedGpu& gpu() { return *the_gpu; }
  static SimulatedGpu::Mark& mark(Event event) { return *reinterpret_cast<SimulatedGpu::Mark*>(event); }

  static Result copy(DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream) {
    if (gpu().fails()) return kFailure;
    gpu().check_memory(to, bytes);
    gpu().check_memory(from, bytes);
    gpu().enqueue(stream, [=] {
      std::memmove(pointer<void>(to), pointer<void>(from), bytes);
      return Progress::done;
    });
    return kSuccess;
  }

  static Result copy_2d(const Copy2dArguments* arguments, Stream stream) {
    if (gpu().fails()) return kFailure;
    const Copy2dArguments of = *arguments;
    if (of.source_pitch < of.width || of.destination_pitch < of.width) throw std::runtime_error("rows overlap");
    for (std::size_t row = 0; row < of.height; ++row) {
      gpu().check_memory(of.destination + row * of.destination_pitch, of.width);
      gpu().check_memory(of.source + row * of.source_pitch, of.width);
    }
    gpu().enqueue(stream, [=] {
      for (std::size_t row = 0; row < of.height; ++row)
        std::memcpy(pointer<void>(of.destination + row * of.destination_pitch),
                    pointer<void>(of.source + row * of.source_pitch), of.width);
      return Progress::done;
    });
    return kSuccess;
  }

  static Result write_value(Stream stream, DevicePointer address, std::uint64_t value, unsigned) {
    gpu().check_memory(address, sizeof value);
    gpu().enqueue(stream, [=] {
      *pointer<std::uint64_t>(address) = value;
      return Progress::done;
    });
    return kSuccess;
  }

  static Result operate(Stream stream, unsigned count, MemoryOperation* given, unsigned) {
    if (gpu().fails()) return kFailure;
    if (count == 0 || count > kMostMemoryOperations) throw std::runtime_error("a batch is empty or too long");
    const std::vector<MemoryOperation> all(given, given + count);
    for (const MemoryOperation& each : all) gpu().check_memory(each.address, sizeof each.value);
    SimulatedGpu::Operation operation;
    operation.make = [all] {
      return [all, next = std::size_t{0}]() mutable {
        const MemoryOperation& each = all[next];
        auto* word = pointer<std::uint64_t>(each.address);
        if (each.kind == MemoryOperation::kWait && *word < each.value) return Progress::none;
        if (each.kind == MemoryOperation::kWrite) *word = each.value;
        return ++next == all.size() ? Progress::done : Progress::some;
      };
    };
    gpu().enqueue(stream, std::move(operation));
    return kSuccess;
  }

  static Result record(Event event, Stream stream) {
    if (gpu().fails()) return kFailure;
    SimulatedGpu::Mark& at = mark(event);
    SimulatedGpu::Queue& queue = gpu().queue(stream);
    at.capture = queue.capture;
    at.last = queue.last;
    if (queue.capture != nullptr) return kSuccess;
    const std::int64_t number = ++at.recorded;
    gpu().enqueue(stream, [&at, number] {
      at.reached = number;
      at.time = gpu().time_;
      return Progress::done;
    });
    return kSuccess;
  }

  static Result wait_event(Stream stream, Event event, unsigned) {
    if (gpu().fails()) return kFailure;
    SimulatedGpu::Mark& at = mark(event);
    SimulatedGpu::Queue& queue = gpu().queue(stream);
    if (at.capture != nullptr) {
      queue.capture = at.capture;
      for (const std::size_t node : at.last)
        if (std::find(queue.last.begin(), queue.last.end(), node) == queue.last.end()) queue.last.push_back(node);
      return kSuccess;
    }
    if (queue.capture != nullptr) throw std::runtime_error("a captured stream waits for an event outside");
    gpu().enqueue(stream,
                  [&at, number = at.recorded] { return at.reached >= number ? Progress::done : Progress::none; });
    return kSuccess;
  }

  static Result launch(Function function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       Stream stream, void** parameters, void**) {
    if (gpu().fails()) return kFailure;
    SimulatedGpu::Operation operation;
    operation.kernel = reinterpret_cast<const SimulatedGpu::Kernel*>(function);
    for (std::size_t i = 0; i < operation.kernel->arguments; ++i)
      operation.arguments.push_back(*static_cast<std::uint64_t*>(parameters[i]));
    gpu().enqueue(stream, std::move(operation));
    return kSuccess;
  }

  static Result begin_capture(Stream stream, int) {
    gpu().graphs_.push_back(std::make_unique<SimulatedGpu::GraphNodes>());
    gpu().queue(stream).capture = gpu().graphs_.back().get();
    return kSuccess;
  }

  /// Streams that joined must have been joined back.
  static Result end_capture(Stream stream, Graph* graph) {
    SimulatedGpu::GraphNodes* of = gpu().queue(stream).capture;
    std::set<std::size_t> reached;
    std::vector<std::size_t> left = gpu().queue(stream).last;
    while (!left.empty()) {
      const std::size_t node = left.back();
      left.pop_back();
      if (!reached.insert(node).second) continue;
      left.insert(left.end(), of->nodes[node]->after.begin(), of->nodes[node]->after.end());
    }
    if (reached.size() != of->nodes.size()) throw std::runtime_error("a captured stream was not joined");
    for (const auto& queue : gpu().queues_) {
      if (queue->capture != of) continue;
      queue->capture = nullptr;
      queue->last.clear();
    }
    *graph = reinterpret_cast<Graph>(of);
    return kSuccess;
  }

  static Result capture_info(Stream stream, int* status, std::uint64_t*, Graph*, const GraphNode** last,
                             std::size_t* count) {
    static std::vector<GraphNode> nodes;
    const SimulatedGpu::Queue& queue = gpu().queue(stream);
    nodes.clear();
    for (const std::size_t node : queue.last)
      nodes.push_back(reinterpret_cast<GraphNode>(queue.capture->nodes[node].get()));
    *status = queue.capture != nullptr ? kCaptureActive : kCaptureNone;
    *last = nodes.data();
    *count = nodes.size();
    return kSuccess;
  }

  static Result instantiate(GraphExecutable* executable, Graph graph, unsigned long long) {
    gpu().executables_.push_back(std::make_unique<SimulatedGpu::Executable>());
    gpu().executables_.back()->of = reinterpret_cast<const SimulatedGpu::GraphNodes*>(graph);
    gpu().graph_sizes.push_back(gpu().executables_.back()->of->nodes.size());
    *executable = reinterpret_cast<GraphExecutable>(gpu().executables_.back().get());
    return kSuccess;
  }

  static Result set_kernel(GraphExecutable executable, GraphNode node, const KernelNodeArguments* arguments) {
    const auto* kernel = reinterpret_cast<const SimulatedGpu::Kernel*>(arguments->function);
    auto& values =
        reinterpret_cast<SimulatedGpu::Executable*>(executable)->arguments[reinterpret_cast<SimulatedGpu::Node*>(node)];
    values.clear();
    for (std::size_t i = 0; i < kernel->arguments; ++i)
      values.push_back(*static_cast<std::uint64_t*>(arguments->parameters[i]));
    return kSuccess;
  }

  static Result graph_launch(GraphExecutable executable, Stream stream) {
    if (gpu().fails()) return kFailure;
    // Arguments are those of the time of the launch.
    const SimulatedGpu::Executable copy = *reinterpret_cast<SimulatedGpu::Executable*>(executable);
    SimulatedGpu::Operation operation;
    operation.make = [copy] { return gpu().start(copy); };
    gpu().enqueue(stream, std::move(operation));
    ++gpu().graphs_launched;
    return kSuccess;
  }

  static Result synchronize(Stream stream) {
    SimulatedGpu::Queue& queue = gpu().queue(stream);
    while (!queue.operations.empty() || queue.current)
      if (!gpu().step()) throw std::runtime_error("a stream that the host waits for is stuck");
    return kSuccess;
  }
};

thread_local Context SimulatedCalls::current_context = nullptr;

SimulatedGpu::SimulatedGpu(std::uint64_t seed) : random_(seed), driver_(std::make_shared<Driver>()) {
  if (the_gpu != nullptr) throw std::runtime_error("there is a simulated GPU already");
  the_gpu = this;
  queues_.push_back(std::make_unique<Queue>());
  using Calls = SimulatedCalls;
  Driver& driver = *driver_;
  driver.get_error_name = [](Result, const char** text) -> Result { return *text = "ERROR", kSuccess; };
  driver.get_error_string = driver.get_error_name;
  driver.device_get_count = [](int* count) -> Result { return *count = 1, kSuccess; };
  driver.device_get = [](Device* device, int ordinal) -> Result { return *device = ordinal, kSuccess; };
  driver.device_get_attribute = [](int* value, int attribute, Device) -> Result {
    const auto which = static_cast<DeviceAttribute>(attribute);
    *value = which == DeviceAttribute::multiprocessors ? 132 : which == DeviceAttribute::capability_major ? 9 : 0;
    if (which == DeviceAttribute::stream_memory_operations_64) *value = 1;
    return kSuccess;
  };
  driver.primary_context_retain = [](Context* context, Device) -> Result {
    return *context = reinterpret_cast<Context>(&the_gpu), kSuccess;
  };
  driver.primary_context_release = [](Device) -> Result { return kSuccess; };
  driver.context_set_current = [](Context context) -> Result { return Calls::current_context = context, kSuccess; };
  driver.context_get_stream_priority_range = [](int* least, int* greatest) -> Result {
    return *least = *greatest = 0, kSuccess;
  };
  driver.memory_allocate = [](DevicePointer* address, std::size_t bytes) -> Result {
    if (bytes > Calls::gpu().largest_allocation) return kOutOfMemory;
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(memory, 0xab, bytes);
    *address = reinterpret_cast<DevicePointer>(memory);
    Calls::gpu().memory_[*address] = bytes;
    return kSuccess;
  };
  driver.memory_free = [](DevicePointer address) -> Result {
    Calls::gpu().memory_.erase(address);
    std::free(pointer<void>(address));
    return kSuccess;
  };
  driver.memory_allocate_host = [](void** address, std::size_t bytes, unsigned) -> Result {
    DevicePointer at = 0;
    Calls::gpu().driver_->memory_allocate(&at, bytes);
    return *address = pointer<void>(at), kSuccess;
  };
  driver.memory_free_host = [](void* address) -> Result {
    return Calls::gpu().driver_->memory_free(reinterpret_cast<DevicePointer>(address));
  };
  driver.copy_to_device = [](DevicePointer to, const void* from, std::size_t bytes) -> Result {
    Calls::gpu().check_memory(to, bytes);
    return std::memcpy(pointer<void>(to), from, bytes), kSuccess;
  };
  driver.copy_to_host = [](void* to, DevicePointer from, std::size_t bytes) -> Result {
    Calls::gpu().check_memory(from, bytes);
    return std::memcpy(to, pointer<void>(from), bytes), kSuccess;
  };
  driver.copy_to_host_async = [](void* to, DevicePointer from, std::size_t bytes, Stream stream) -> Result {
    return Calls::copy(reinterpret_cast<DevicePointer>(to), from, bytes, stream);
  };
  driver.copy_async = Calls::copy;
  driver.copy_2d_async = Calls::copy_2d;
  driver.stream_create = [](Stream* stream, unsigned, int) -> Result {
    Calls::gpu().queues_.push_back(std::make_unique<Queue>());
    ++Calls::gpu().streams;
    return *stream = reinterpret_cast<Stream>(Calls::gpu().queues_.back().get()), kSuccess;
  };
  driver.stream_destroy = [](Stream) -> Result { return --Calls::gpu().streams, kSuccess; };
  driver.stream_query = [](Stream stream) -> Result {
    const Queue& queue = Calls::gpu().queue(stream);
    const auto busy = [&] { return !queue.operations.empty() || queue.current; };
    for (int i = 0; i < kStepsOfAQuery && busy(); ++i) Calls::gpu().step();
    return busy() ? kNotReady : kSuccess;
  };
  driver.stream_synchronize = Calls::synchronize;
  driver.stream_wait_event = Calls::wait_event;
  driver.stream_batch_memory_operations = Calls::operate;
  driver.stream_write_value_64 = Calls::write_value;
  driver.stream_begin_capture = Calls::begin_capture;
  driver.stream_end_capture = Calls::end_capture;
  driver.stream_is_capturing = [](Stream stream, int* status) -> Result {
    return *status = Calls::gpu().queue(stream).capture != nullptr ? kCaptureActive : kCaptureNone, kSuccess;
  };
  driver.stream_get_capture_info = Calls::capture_info;
  driver.thread_exchange_capture_mode = [](int*) -> Result { return kSuccess; };
  driver.graph_instantiate = Calls::instantiate;
  driver.graph_destroy = [](Graph) -> Result { return kSuccess; };
  driver.graph_executable_destroy = [](GraphExecutable) -> Result { return kSuccess; };
  driver.graph_executable_set_kernel = Calls::set_kernel;
  driver.graph_upload = [](GraphExecutable, Stream) -> Result { return kSuccess; };
  driver.graph_launch = Calls::graph_launch;
  driver.event_create = [](Event* event, unsigned) -> Result {
    Calls::gpu().marks_.push_back(std::make_unique<Mark>());
    return *event = reinterpret_cast<Event>(Calls::gpu().marks_.back().get()), kSuccess;
  };
  driver.event_destroy = [](Event) -> Result { return kSuccess; };
  driver.event_record = Calls::record;
  driver.event_query = [](Event event) -> Result {
    const Mark& mark = Calls::mark(event);
    while (mark.reached < mark.recorded)
      if (!Calls::gpu().step()) return kNotReady;
    return kSuccess;
  };
  driver.event_elapsed_time = [](float* milliseconds, Event begin, Event end) -> Result {
    const std::int64_t steps = Calls::mark(end).time - Calls::mark(begin).time;
    return *milliseconds = 1e-3F * static_cast<float>(steps), kSuccess;
  };
  driver.device_get_name = [](char* name, int, Device) -> Result { return std::strcpy(name, "simulated"), kSuccess; };
  driver.module_load_data = [](Module* module, const void*) -> Result { return *module = nullptr, kSuccess; };
  driver.module_unload = [](Module) -> Result { return kSuccess; };
  driver.module_get_function = [](Function* function, Module, const char* name) -> Result {
    return *function = reinterpret_cast<Function>(Calls::gpu().kernels_.at(name).get()), kSuccess;
  };
  driver.function_set_attribute = [](Function, int, int) -> Result { return kSuccess; };
  // Of a map it has the address.
  driver.tensor_map_encode_tiled = [](TensorMap* map, int, unsigned, DevicePointer address, const std::uint64_t*,
                                      const std::uint64_t*, const std::uint32_t*, const std::uint32_t*, int, int, int,
                                      int) -> Result {
    if (Calls::current_context == nullptr) return Calls::kInvalidContext;
    return map->words[0] = address, kSuccess;
  };
  driver.occupancy = [](int* blocks, Function, int, std::size_t) -> Result { return *blocks = 1, kSuccess; };
  driver.launch_kernel = Calls::launch;
}

SimulatedGpu::~SimulatedGpu() {
  for (const auto& [address, bytes] : memory_) std::free(pointer<void>(address));
  the_gpu = nullptr;
}

std::shared_ptr<const Driver> SimulatedGpu::driver() const { return driver_; }

void SimulatedGpu::define(const std::string& kernel, std::size_t arguments, KernelStart start) {
  kernels_[kernel] = std::make_unique<Kernel>(Kernel{kernel, arguments, std::move(start)});
}

bool SimulatedGpu::fails() {
  if (operations_until_failure < 0) return false;
  return operations_until_failure-- == 0;
}

SimulatedGpu::Queue& SimulatedGpu::queue(Stream stream) {
  return stream == nullptr ? *queues_.front() : *reinterpret_cast<Queue*>(stream);
}

void SimulatedGpu::check_memory(DevicePointer address, std::size_t bytes) const {
  auto block = memory_.upper_bound(address);
  if (block == memory_.begin() || (--block, address + bytes > block->first + block->second))
    throw std::runtime_error("an operation reaches memory that is not allocated");
}

void SimulatedGpu::enqueue(Stream stream, Work work) {
  Operation operation;
  operation.make = [work = std::move(work)] { return work; };
  enqueue(stream, std::move(operation));
}

void SimulatedGpu::enqueue(Stream stream, Operation operation) {
  Queue& to = queue(stream);
  if (to.capture == nullptr) {
    to.operations.push_back(std::move(operation));
    return;
  }
  to.capture->nodes.push_back(std::make_unique<Node>(Node{std::move(operation), to.last}));
  to.last = {to.capture->nodes.size() - 1};
}

Work SimulatedGpu::start(const Operation& operation) {
  if (operation.kernel == nullptr) return operation.make();
  ++kernels_started[operation.kernel->name];
  return operation.kernel->start(operation.arguments);
}

Work SimulatedGpu::start(const Executable& executable) {
  struct Run {
    Executable of;
    std::vector<Work> work;
    std::vector<bool> done;
    std::size_t left;
  };
  const std::size_t count = executable.of->nodes.size();
  auto run = std::make_shared<Run>(Run{executable, std::vector<Work>(count), std::vector<bool>(count, false), count});
  return [this, run, count] {
    const std::size_t first = random_.below(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (first + i) % count;
      const Node& node = *run->of.of->nodes[at];
      if (run->done[at] ||
          !std::all_of(node.after.begin(), node.after.end(), [&](std::size_t n) { return run->done[n]; }))
        continue;
      if (!run->work[at]) {
        Operation operation = node.operation;
        const auto changed = run->of.arguments.find(&node);
        if (changed != run->of.arguments.end()) operation.arguments = changed->second;
        run->work[at] = start(operation);
      }
      const Progress progress = run->work[at]();
      if (progress == Progress::none) continue;
      if (progress == Progress::done) {
        run->done[at] = true;
        --run->left;
      }
      return run->left == 0 ? Progress::done : Progress::some;
    }
    return Progress::none;
  };
}

/// Lets one stream, chosen by chance, move; false if none can.
bool SimulatedGpu::step() {
  const std::size_t first = random_.below(queues_.size());
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    Queue& at = *queues_[(first + i) % queues_.size()];
    if (!at.current) {
      if (at.operations.empty()) continue;
      at.current = start(at.operations.front());
      at.operations.pop_front();
    }
    const Progress progress = at.current();
    if (progress == Progress::none) continue;
    if (progress == Progress::done) at.current = nullptr;
    ++time_;
    return true;
  }
  return false;
}

bool SimulatedGpu::run() {
  while (step()) {
  }
  return std::all_of(queues_.begin(), queues_.end(),
                     [](const auto& queue) { return queue->operations.empty() && !queue->current; });
}

}  // namespace syncopate::cuda
