// One GPU, and what is allocated and loaded on it. Everything lives until the Gpu goes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "syncopate/cuda/driver.h"

namespace syncopate::cuda {

struct LoadedKernel {
  Function function = nullptr;
  unsigned threads = 0;
  unsigned shared_bytes = 0;
  int blocks_per_multiprocessor = 0;
};

class Gpu {
 public:
  Gpu(std::shared_ptr<const Driver> driver, int ordinal);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu();

  int ordinal() const { return ordinal_; }
  int multiprocessors() const { return multiprocessors_; }
  int capability() const { return capability_; }  ///< 10 * major + minor
  const Driver& driver() const { return *driver_; }
  /// For what may outlive this object.
  const std::shared_ptr<const Driver>& shared_driver() const { return driver_; }

  /// Calls below make it current for the calling thread; calls of the driver need it to be.
  void make_current() const;
  /// Throws UserError if ranks on the two cannot work together (peer_access.h).
  void enable_peer_access(const Gpu& peer);

  DevicePointer allocate(std::size_t bytes, std::string_view purpose);
  /// Both return when the bytes are there, for every stream.
  void upload(DevicePointer destination, const void* source, std::size_t bytes) const;
  void download(void* destination, DevicePointer source, std::size_t bytes) const;
  /// Host memory that copies can reach while kernels run.
  std::int64_t* allocate_host_words(std::size_t count);
  Stream make_stream(bool high_priority);
  /// Of one that make_stream() has made, and on which nothing is under way.
  void destroy_stream(Stream stream);
  Event make_event(bool timing = false);
  LoadedKernel load(const std::string& image, const std::string& name, int warps, int shared_bytes);

  /// Nothing is freed: work on the GPU may still use it.
  void abandon() { abandoned_ = true; }

 private:
  std::shared_ptr<const Driver> driver_;
  int ordinal_;
  Device device_ = 0;
  Context context_ = nullptr;
  int multiprocessors_ = 0;
  int capability_ = 0;
  int greatest_priority_ = 0;
  bool abandoned_ = false;
  std::vector<DevicePointer> memory_;
  std::vector<void*> host_memory_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<Module> modules_;
};

}  // namespace syncopate::cuda
