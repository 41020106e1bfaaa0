#include "syncopate/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "syncopate/core/error.h"

namespace syncopate::cuda {
namespace {

constexpr const char* kWithoutGpu = "without a GPU, `syncopate run` without --on gpu executes a plan on CPU ranks";

template <typename FunctionPointer>
void find(void* library, FunctionPointer& function, const char* name) {
  void* address = dlsym(library, name);
  if (address == nullptr)
    throw UserError({}, fmt::format("the CUDA driver of this machine has no {}", name),
                    "Syncopate needs a driver of CUDA 12.0 or newer");
  function = reinterpret_cast<FunctionPointer>(address);
}

void find_all(void* library, Driver& driver) {
  find(library, driver.init, "cuInit");
  find(library, driver.driver_get_version, "cuDriverGetVersion");
  find(library, driver.get_error_name, "cuGetErrorName");
  find(library, driver.get_error_string, "cuGetErrorString");
  find(library, driver.device_get_count, "cuDeviceGetCount");
  find(library, driver.device_get, "cuDeviceGet");
  find(library, driver.device_get_name, "cuDeviceGetName");
  find(library, driver.device_get_attribute, "cuDeviceGetAttribute");
  find(library, driver.device_total_memory, "cuDeviceTotalMem_v2");
  find(library, driver.device_get_uuid, "cuDeviceGetUuid_v2");
  find(library, driver.device_can_access_peer, "cuDeviceCanAccessPeer");
  find(library, driver.device_get_p2p_attribute, "cuDeviceGetP2PAttribute");
  find(library, driver.primary_context_retain, "cuDevicePrimaryCtxRetain");
  find(library, driver.primary_context_release, "cuDevicePrimaryCtxRelease_v2");
  find(library, driver.context_set_current, "cuCtxSetCurrent");
  find(library, driver.context_get_current, "cuCtxGetCurrent");
  find(library, driver.context_get_stream_priority_range, "cuCtxGetStreamPriorityRange");
  find(library, driver.context_enable_peer_access, "cuCtxEnablePeerAccess");
  find(library, driver.memory_allocate, "cuMemAlloc_v2");
  find(library, driver.memory_free, "cuMemFree_v2");
  find(library, driver.ipc_get_memory_handle, "cuIpcGetMemHandle");
  find(library, driver.ipc_open_memory_handle, "cuIpcOpenMemHandle_v2");
  find(library, driver.ipc_close_memory_handle, "cuIpcCloseMemHandle");
  find(library, driver.memory_allocate_host, "cuMemHostAlloc");
  find(library, driver.memory_free_host, "cuMemFreeHost");
  find(library, driver.copy_to_device, "cuMemcpyHtoD_v2");
  find(library, driver.copy_to_host, "cuMemcpyDtoH_v2");
  find(library, driver.copy_to_host_async, "cuMemcpyDtoHAsync_v2");
  find(library, driver.copy_async, "cuMemcpyAsync");
  find(library, driver.copy_2d_async, "cuMemcpy2DAsync_v2");
  find(library, driver.stream_create, "cuStreamCreateWithPriority");
  find(library, driver.stream_destroy, "cuStreamDestroy_v2");
  find(library, driver.stream_query, "cuStreamQuery");
  find(library, driver.stream_synchronize, "cuStreamSynchronize");
  find(library, driver.stream_wait_event, "cuStreamWaitEvent");
  find(library, driver.stream_write_value_64, "cuStreamWriteValue64_v2");
  find(library, driver.stream_batch_memory_operations, "cuStreamBatchMemOp_v2");
  find(library, driver.stream_begin_capture, "cuStreamBeginCapture_v2");
  find(library, driver.stream_end_capture, "cuStreamEndCapture");
  find(library, driver.stream_is_capturing, "cuStreamIsCapturing");
  find(library, driver.stream_get_capture_info, "cuStreamGetCaptureInfo_v2");
  find(library, driver.thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  find(library, driver.graph_instantiate, "cuGraphInstantiateWithFlags");
  find(library, driver.graph_destroy, "cuGraphDestroy");
  find(library, driver.graph_executable_destroy, "cuGraphExecDestroy");
  find(library, driver.graph_executable_set_kernel, "cuGraphExecKernelNodeSetParams_v2");
  find(library, driver.graph_upload, "cuGraphUpload");
  find(library, driver.graph_launch, "cuGraphLaunch");
  find(library, driver.event_create, "cuEventCreate");
  find(library, driver.event_destroy, "cuEventDestroy_v2");
  find(library, driver.event_record, "cuEventRecord");
  find(library, driver.event_query, "cuEventQuery");
  find(library, driver.event_elapsed_time, "cuEventElapsedTime");
  find(library, driver.module_load_data, "cuModuleLoadData");
  find(library, driver.module_unload, "cuModuleUnload");
  find(library, driver.module_get_function, "cuModuleGetFunction");
  find(library, driver.function_set_attribute, "cuFuncSetAttribute");
  find(library, driver.tensor_map_encode_tiled, "cuTensorMapEncodeTiled");
  find(library, driver.occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  find(library, driver.launch_kernel, "cuLaunchKernel");
}

}  // namespace

std::shared_ptr<const Driver> Driver::load(const std::string& library) {
  // Kernels are to be loaded when their module is, not at their first launch: loading may wait for the device, on which
  // something may wait for that launch. And more streams than the default of 8 shall have hardware queues of their own.
  // Both are read by the driver when it starts; a user's own setting stays.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: the driver starts threads
  if (handle == nullptr)
    throw UserError({}, fmt::format("there is no CUDA driver on this machine ({} cannot be loaded)", library),
                    kWithoutGpu);
  auto driver = std::make_shared<Driver>();
  find_all(handle, *driver);
  if (const Result result = driver->init(0); result != kSuccess)
    throw UserError({}, fmt::format("the CUDA driver finds no usable GPU: {}", driver->describe(result)), kWithoutGpu);
  if (driver->count() == 0) throw UserError({}, "the CUDA driver finds no GPU", kWithoutGpu);
  return driver;
}

std::string Driver::describe(Result result) const {
  const char* name = nullptr;
  const char* words = nullptr;
  if (get_error_name(result, &name) != kSuccess || get_error_string(result, &words) != kSuccess)
    return fmt::format("error {}", result);
  return fmt::format("{} ({})", name, words);
}

void Driver::check(Result result, std::string_view doing) const {
  if (result != kSuccess) throw UserError({}, fmt::format("the GPU failed while {}: {}", doing, describe(result)));
}

int Driver::count() const {
  int count = 0;
  check(device_get_count(&count), "counting GPUs");
  return count;
}

int Driver::attribute(DeviceAttribute attribute, Device device) const {
  int value = 0;
  check(device_get_attribute(&value, static_cast<int>(attribute), device), "reading a property of the GPU");
  return value;
}

int Driver::attribute(PeerAttribute attribute, Device from, Device to) const {
  int value = 0;
  check(device_get_p2p_attribute(&value, static_cast<int>(attribute), from, to), "reading a property of a link");
  return value;
}

std::string Driver::name(Device device) const {
  std::array<char, 256> name{};
  check(device_get_name(name.data(), static_cast<int>(name.size()) - 1, device), "reading the name of the GPU");
  return name.data();
}

}  // namespace syncopate::cuda
