#include "instant_gpu.h"

#include <cstring>

#include "syncopate/core/error.h"

namespace syncopate::cuda {
namespace {

InstantGpu* the_gpu = nullptr;

}  // namespace

/// The functions of the driver.
struct InstantCalls {
  static InstantGpu& gpu() { return *the_gpu; }
  static std::lock_guard<std::mutex> lock() { return std::lock_guard(gpu().mutex_); }

  template <typename Name>
  static Result make_name(Name* name) {
    const auto locked = lock();
    *name = reinterpret_cast<Name>(++gpu().names_);
    return kSuccess;
  }
  static Result allocate(DevicePointer* address, std::size_t bytes) {
    const auto locked = lock();
    auto memory = std::make_unique<std::byte[]>(bytes + 256);
    *address = (reinterpret_cast<DevicePointer>(memory.get()) + 255) / 256 * 256;
    gpu().memory_[*address] = std::move(memory);
    return kSuccess;
  }
  static Result free(DevicePointer address) {
    const auto locked = lock();
    ++gpu().freed_;
    return gpu().memory_.erase(address) == 1 ? kSuccess : 1;
  }
  static Result copy(void* to, const void* from, std::size_t bytes) {
    const auto locked = lock();
    std::memcpy(to, from, bytes);
    return kSuccess;
  }
  static Result write_value(Stream, DevicePointer address, std::uint64_t value, unsigned) {
    const auto locked = lock();
    std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
    for (auto held = gpu().held_.begin(); held != gpu().held_.end();) {
      if (held->second != address) {
        ++held;
        continue;
      }
      std::erase_if(gpu().pending_, [&](const auto& pending) { return pending.second == held->first; });
      held = gpu().held_.erase(held);
    }
    return kSuccess;
  }
  static Result record(Event event, Stream stream) {
    const auto locked = lock();
    gpu().pending_.erase(event);
    // The first event on a held stream has happened: work begins, and does not end.
    if (gpu().held_.contains(stream) && !gpu().begun_.insert(stream).second) gpu().pending_[event] = stream;
    return kSuccess;
  }
  static Result query(Event event) {
    const auto locked = lock();
    if (gpu().broken_ != kSuccess) return gpu().broken_;
    return gpu().pending_.contains(event) ? kNotReady : kSuccess;
  }
  static Result open(DevicePointer* address, MemoryHandle, unsigned) {
    allocate(address, std::size_t{1} << 22);
    const auto locked = lock();
    gpu().opened_.insert(*address);
    return kSuccess;
  }
  static Result close(DevicePointer address) {
    const auto locked = lock();
    gpu().memory_.erase(address);
    return gpu().opened_.erase(address) == 1 ? kSuccess : 1;
  }
  static Result is_capturing(Stream, int* status) {
    const auto locked = lock();
    *status = gpu().captured_ ? kCaptureActive : kCaptureNone;
    return kSuccess;
  }
};

InstantGpu::InstantGpu() : driver_(std::make_shared<Driver>()) {
  check_internal(the_gpu == nullptr, "there is such a GPU already");
  the_gpu = this;
  using Calls = InstantCalls;
  Driver& driver = *driver_;
  driver.get_error_name = [](Result, const char** text) -> Result { return *text = "CUDA_ERROR_OF_A_TEST", kSuccess; };
  driver.get_error_string = [](Result, const char** text) -> Result { return *text = "made on purpose", kSuccess; };
  driver.device_get_count = [](int* count) -> Result { return *count = 1, kSuccess; };
  driver.device_get = [](Device* device, int ordinal) -> Result { return *device = ordinal, kSuccess; };
  driver.device_get_attribute = [](int* value, int attribute, Device) -> Result {
    const auto which = static_cast<DeviceAttribute>(attribute);
    *value = which == DeviceAttribute::multiprocessors ? 132 : which == DeviceAttribute::capability_major ? 9 : 1;
    return kSuccess;
  };
  driver.device_get_uuid = [](DeviceUuid* uuid, Device) -> Result { return uuid->bytes.fill('u'), kSuccess; };
  driver.primary_context_retain = [](Context* context, Device) -> Result { return *context = nullptr, kSuccess; };
  driver.primary_context_release = [](Device) -> Result { return kSuccess; };
  driver.context_set_current = [](Context) -> Result { return kSuccess; };
  driver.context_get_stream_priority_range = [](int* least, int* most) -> Result {
    return *least = *most = 0, kSuccess;
  };
  driver.memory_allocate = Calls::allocate;
  driver.memory_free = Calls::free;
  driver.memory_allocate_host = [](void** address, std::size_t bytes, unsigned) -> Result {
    DevicePointer at = 0;
    Calls::allocate(&at, bytes);
    return *address = reinterpret_cast<void*>(at), kSuccess;
  };
  driver.memory_free_host = [](void* address) -> Result {
    return Calls::free(reinterpret_cast<DevicePointer>(address));
  };
  driver.ipc_get_memory_handle = [](MemoryHandle*, DevicePointer) -> Result { return kSuccess; };
  driver.ipc_open_memory_handle = Calls::open;
  driver.ipc_close_memory_handle = Calls::close;
  driver.copy_to_device = [](DevicePointer to, const void* from, std::size_t bytes) -> Result {
    return Calls::copy(reinterpret_cast<void*>(to), from, bytes);
  };
  driver.copy_to_host_async = [](void* to, DevicePointer from, std::size_t bytes, Stream) -> Result {
    return Calls::copy(to, reinterpret_cast<const void*>(from), bytes);
  };
  driver.copy_async = [](DevicePointer, DevicePointer, std::size_t, Stream) -> Result { return kSuccess; };
  driver.copy_2d_async = [](const Copy2dArguments*, Stream) -> Result { return kSuccess; };
  driver.stream_create = [](Stream* stream, unsigned, int) -> Result { return Calls::make_name(stream); };
  driver.stream_destroy = [](Stream) -> Result { return kSuccess; };
  driver.stream_query = [](Stream) -> Result { return kSuccess; };
  driver.stream_synchronize = [](Stream) -> Result { return kSuccess; };
  driver.stream_wait_event = [](Stream, Event, unsigned) -> Result { return kSuccess; };
  driver.stream_batch_memory_operations = [](Stream, unsigned, MemoryOperation*, unsigned) -> Result {
    return kSuccess;
  };
  driver.stream_write_value_64 = Calls::write_value;
  driver.stream_is_capturing = Calls::is_capturing;
  driver.thread_exchange_capture_mode = [](int*) -> Result { return kSuccess; };
  driver.event_create = [](Event* event, unsigned) -> Result { return Calls::make_name(event); };
  driver.event_destroy = [](Event) -> Result { return kSuccess; };
  driver.event_record = Calls::record;
  driver.event_query = Calls::query;
  driver.module_load_data = [](Module* module, const void*) -> Result { return Calls::make_name(module); };
  driver.module_unload = [](Module) -> Result { return kSuccess; };
  driver.module_get_function = [](Function* function, Module, const char*) -> Result {
    return Calls::make_name(function);
  };
  driver.function_set_attribute = [](Function, int, int) -> Result { return kSuccess; };
  driver.occupancy = [](int* blocks, Function, int, std::size_t) -> Result { return *blocks = 1, kSuccess; };
  driver.launch_kernel = [](Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                            void**, void**) -> Result {
    const auto locked = Calls::lock();
    return Calls::gpu().broken_launches_;
  };
}

InstantGpu::~InstantGpu() { the_gpu = nullptr; }

void InstantGpu::hold(Stream stream, DevicePointer record) {
  const std::lock_guard lock(mutex_);
  held_[stream] = record;
  begun_.erase(stream);
}

void InstantGpu::write_words(DevicePointer address, const std::array<std::int64_t, 8>& words) {
  const std::lock_guard lock(mutex_);
  std::memcpy(reinterpret_cast<void*>(address), words.data(), sizeof words);
}

void InstantGpu::capture(bool captured) {
  const std::lock_guard lock(mutex_);
  captured_ = captured;
}

void InstantGpu::break_with(Result result) {
  const std::lock_guard lock(mutex_);
  broken_ = result;
}

void InstantGpu::break_launches_with(Result result) {
  const std::lock_guard lock(mutex_);
  broken_launches_ = result;
}

int InstantGpu::opened() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(opened_.size());
}

int InstantGpu::freed() const {
  const std::lock_guard lock(mutex_);
  return freed_;
}

}  // namespace syncopate::cuda
