#include "syncopate/cuda/gpu.h"

#include <fmt/format.h>

#include "syncopate/core/error.h"
#include "syncopate/core/text.h"
#include "syncopate/cuda/peer_access.h"

namespace syncopate::cuda {

Gpu::Gpu(std::shared_ptr<const Driver> driver, int ordinal) : driver_(std::move(driver)), ordinal_(ordinal) {
  driver_->check(driver_->device_get(&device_, ordinal), fmt::format("looking for GPU {}", ordinal));
  multiprocessors_ = driver_->attribute(DeviceAttribute::multiprocessors, device_);
  capability_ = 10 * driver_->attribute(DeviceAttribute::capability_major, device_) +
                driver_->attribute(DeviceAttribute::capability_minor, device_);
  if (driver_->attribute(DeviceAttribute::stream_memory_operations_64, device_) == 0)
    throw UserError({}, fmt::format("GPU {} has no 64-bit stream memory operations", ordinal),
                    "`syncopate doctor` lists what each GPU can do");
  driver_->check(driver_->primary_context_retain(&context_, device_), fmt::format("starting to use GPU {}", ordinal));
  make_current();
  int least = 0;
  driver_->check(driver_->context_get_stream_priority_range(&least, &greatest_priority_), "reading stream priorities");
}

Gpu::~Gpu() {
  if (abandoned_) return;
  // Failures are ignored here: whatever broke has been reported by the call that met it first.
  driver_->context_set_current(context_);
  for (Event event : events_) driver_->event_destroy(event);
  for (Stream stream : streams_) driver_->stream_destroy(stream);
  for (Module module : modules_) driver_->module_unload(module);
  for (DevicePointer address : memory_) driver_->memory_free(address);
  for (void* address : host_memory_) driver_->memory_free_host(address);
  driver_->primary_context_release(device_);
}

void Gpu::make_current() const {
  driver_->check(driver_->context_set_current(context_), fmt::format("switching to GPU {}", ordinal_));
}

void Gpu::enable_peer_access(const Gpu& peer) {
  check_peer_access(*driver_, ordinal_, peer.ordinal_);
  make_current();
  const Result result = driver_->context_enable_peer_access(peer.context_, 0);
  if (result != kPeerAccessAlreadyEnabled)
    driver_->check(result, fmt::format("giving GPU {} access to GPU {}", ordinal_, peer.ordinal_));
}

DevicePointer Gpu::allocate(std::size_t bytes, std::string_view purpose) {
  make_current();
  DevicePointer address = 0;
  const std::string doing =
      fmt::format("allocating {} on GPU {} for {}", format_bytes(static_cast<std::int64_t>(bytes)), ordinal_, purpose);
  const Result result = driver_->memory_allocate(&address, bytes > 0 ? bytes : 1);
  if (result == kOutOfMemory)
    throw UserError({}, fmt::format("the GPU has too little free memory for {}", doing),
                    "use smaller tensors, put fewer ranks on this GPU, or end what else uses its memory");
  driver_->check(result, doing);
  memory_.push_back(address);
  return address;
}

void Gpu::upload(DevicePointer destination, const void* source, std::size_t bytes) const {
  if (bytes == 0) return;
  make_current();
  driver_->check(driver_->copy_to_device(destination, source, bytes), "copying to the GPU");
  // That call returns when it has read the source; the bytes may still be on their way to the GPU, on the default
  // stream, with which our streams are not ordered.
  driver_->check(driver_->stream_synchronize(nullptr), "copying to the GPU");
}

void Gpu::download(void* destination, DevicePointer source, std::size_t bytes) const {
  if (bytes == 0) return;
  make_current();
  driver_->check(driver_->copy_to_host(destination, source, bytes), "copying from the GPU");
}

std::int64_t* Gpu::allocate_host_words(std::size_t count) {
  make_current();
  void* address = nullptr;
  driver_->check(driver_->memory_allocate_host(&address, (count > 0 ? count : 1) * sizeof(std::int64_t), 0),
                 "allocating host memory for the GPU");
  host_memory_.push_back(address);
  return static_cast<std::int64_t*>(address);
}

Stream Gpu::make_stream(bool high_priority) {
  make_current();
  Stream stream = nullptr;
  driver_->check(driver_->stream_create(&stream, kStreamNonBlocking, high_priority ? greatest_priority_ : 0),
                 "making a stream");
  streams_.push_back(stream);
  return stream;
}

void Gpu::destroy_stream(Stream stream) {
  make_current();
  std::erase(streams_, stream);
  driver_->check(driver_->stream_destroy(stream), "ending a stream");
}

Event Gpu::make_event(bool timing) {
  make_current();
  Event event = nullptr;
  driver_->check(driver_->event_create(&event, timing ? 0 : kEventWithoutTiming), "making an event");
  events_.push_back(event);
  return event;
}

LoadedKernel Gpu::load(const std::string& image, const std::string& name, int warps, int shared_bytes) {
  make_current();
  Module module = nullptr;
  driver_->check(driver_->module_load_data(&module, image.c_str()), fmt::format("loading kernel {}", name));
  modules_.push_back(module);
  LoadedKernel kernel;
  kernel.threads = static_cast<unsigned>(32 * warps);
  kernel.shared_bytes = static_cast<unsigned>(shared_bytes);
  driver_->check(driver_->module_get_function(&kernel.function, module, name.c_str()),
                 fmt::format("looking for kernel {}", name));
  if (shared_bytes > 0)
    driver_->check(driver_->function_set_attribute(
                       kernel.function, static_cast<int>(FunctionAttribute::dynamic_shared_bytes), shared_bytes),
                   fmt::format("giving kernel {} {} of shared memory (use smaller tiles or fewer stages)", name,
                               format_bytes(shared_bytes)));
  driver_->check(driver_->occupancy(&kernel.blocks_per_multiprocessor, kernel.function,
                                    static_cast<int>(kernel.threads), kernel.shared_bytes),
                 fmt::format("asking how many blocks of {} are resident", name));
  return kernel;
}

}  // namespace syncopate::cuda
