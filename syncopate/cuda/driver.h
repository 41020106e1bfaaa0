// The CUDA driver API, loaded when it is needed, so that one binary also runs where there is no GPU and the build needs
// no toolkit. The types and constants are those of the documented ABI; only what Syncopate uses is here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace syncopate::cuda {

using Result = int;
using Device = int;
using DevicePointer = std::uint64_t;
struct ContextObject;
struct ModuleObject;
struct FunctionObject;
struct StreamObject;
struct EventObject;
struct GraphObject;
struct GraphExecutableObject;
struct GraphNodeObject;
using Context = ContextObject*;
using Module = ModuleObject*;
using Function = FunctionObject*;
using Stream = StreamObject*;
using Event = EventObject*;
using Graph = GraphObject*;
using GraphExecutable = GraphExecutableObject*;
using GraphNode = GraphNodeObject*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotReady = 600;
inline constexpr Result kPeerAccessAlreadyEnabled = 704;

enum class DeviceAttribute : int {
  multiprocessors = 16,
  copy_engines = 40,
  capability_major = 75,
  capability_minor = 76,
  stream_memory_operations_64 = 122,
};

/// Of the way from one GPU to another (CUdevice_P2PAttribute).
enum class PeerAttribute : int {
  performance_rank = 1,  ///< relative, of the driver's own choice
  native_atomics = 3,    ///< what kernels of the one add to memory of the other is added by its memory, as one step
};

enum class FunctionAttribute : int { dynamic_shared_bytes = 8 };

inline constexpr unsigned kStreamNonBlocking = 1;  ///< not ordered with the legacy default stream
inline constexpr unsigned kEventWithoutTiming = 2;
inline constexpr unsigned kWaitGreaterOrEqual = 0;
/// Everything before the write on its stream is visible, system-wide, before the value is.
inline constexpr unsigned kWriteAfterAllBefore = 0;

/// CUstreamBatchMemOpParams: a wait for a 64-bit word, or a write of one.
struct MemoryOperation {
  static constexpr int kWait = 4;
  static constexpr int kWrite = 5;
  int kind = kWait;
  DevicePointer address = 0;
  std::uint64_t value = 0;
  unsigned flags = 0;
  DevicePointer alias = 0;
  std::uint64_t padding = 0;
};
static_assert(sizeof(MemoryOperation) == 48);
/// The most of them in one call.
inline constexpr std::size_t kMostMemoryOperations = 256;

/// CUipcMemHandle: names an allocation to other processes of the machine.
struct MemoryHandle {
  std::array<char, 64> bytes{};
};
inline constexpr unsigned kEnablePeerAccess = 1;  ///< of ipc_open_memory_handle

/// CUtensorMap: a tensor descriptor, passed to a kernel by value.
struct alignas(64) TensorMap {
  std::array<std::uint64_t, 16> words{};
};

/// CUuuid.
struct DeviceUuid {
  std::array<char, 16> bytes{};
};

inline constexpr int kCaptureNone = 0;
inline constexpr int kCaptureActive = 1;
/// A capture, or a thread, that does not forbid others' calls which might disturb captures.
inline constexpr int kCaptureRelaxed = 2;

/// CUDA_KERNEL_NODE_PARAMS of CUDA 12.
struct KernelNodeArguments {
  Function function = nullptr;
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  void** parameters = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  Context context = nullptr;
};

/// CUDA_MEMCPY2D, with both sides given as unified addresses.
struct Copy2dArguments {
  static constexpr int kUnified = 4;
  std::size_t source_x = 0, source_y = 0;
  int source_kind = kUnified;
  const void* source_host = nullptr;
  DevicePointer source = 0;
  void* source_array = nullptr;
  std::size_t source_pitch = 0;
  std::size_t destination_x = 0, destination_y = 0;
  int destination_kind = kUnified;
  void* destination_host = nullptr;
  DevicePointer destination = 0;
  void* destination_array = nullptr;
  std::size_t destination_pitch = 0;
  std::size_t width = 0, height = 0;
};

/// The loaded library. Members are named after the functions they point to.
struct Driver {
  /// Loads the library and initialises it. Throws UserError where there is no driver or no GPU, in words that say
  /// what still works there. `library` is for tests.
  static std::shared_ptr<const Driver> load(const std::string& library = "libcuda.so.1");

  /// Throws UserError that says what was being done, and the driver's name and words for `result`, unless it is
  /// success.
  void check(Result result, std::string_view doing) const;
  /// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  std::string describe(Result result) const;

  int count() const;
  int attribute(DeviceAttribute attribute, Device device) const;
  int attribute(PeerAttribute attribute, Device from, Device to) const;
  std::string name(Device device) const;

  Result (*init)(unsigned flags);
  Result (*driver_get_version)(int* version);
  Result (*get_error_name)(Result, const char** text);
  Result (*get_error_string)(Result, const char** text);
  Result (*device_get_count)(int* count);
  Result (*device_get)(Device* device, int ordinal);
  Result (*device_get_name)(char* name, int length, Device device);
  Result (*device_get_attribute)(int* value, int attribute, Device device);
  Result (*device_total_memory)(std::size_t* bytes, Device device);
  Result (*device_get_uuid)(DeviceUuid* uuid, Device device);
  Result (*device_can_access_peer)(int* can, Device device, Device peer);
  Result (*device_get_p2p_attribute)(int* value, int attribute, Device from, Device to);
  Result (*primary_context_retain)(Context* context, Device device);
  Result (*primary_context_release)(Device device);
  Result (*context_set_current)(Context context);
  Result (*context_get_current)(Context* context);
  Result (*context_get_stream_priority_range)(int* least, int* greatest);
  Result (*context_enable_peer_access)(Context peer, unsigned flags);
  Result (*memory_allocate)(DevicePointer* address, std::size_t bytes);
  Result (*memory_free)(DevicePointer address);
  Result (*ipc_get_memory_handle)(MemoryHandle* handle, DevicePointer address);
  Result (*ipc_open_memory_handle)(DevicePointer* address, MemoryHandle handle, unsigned flags);
  Result (*ipc_close_memory_handle)(DevicePointer address);
  Result (*memory_allocate_host)(void** address, std::size_t bytes, unsigned flags);
  Result (*memory_free_host)(void* address);
  Result (*copy_to_device)(DevicePointer destination, const void* source, std::size_t bytes);
  Result (*copy_to_host)(void* destination, DevicePointer source, std::size_t bytes);
  Result (*copy_to_host_async)(void* destination, DevicePointer source, std::size_t bytes, Stream stream);
  Result (*copy_async)(DevicePointer destination, DevicePointer source, std::size_t bytes, Stream stream);
  Result (*copy_2d_async)(const Copy2dArguments* arguments, Stream stream);
  Result (*stream_create)(Stream* stream, unsigned flags, int priority);
  Result (*stream_destroy)(Stream stream);
  Result (*stream_query)(Stream stream);
  Result (*stream_synchronize)(Stream stream);
  Result (*stream_wait_event)(Stream stream, Event event, unsigned flags);
  Result (*stream_write_value_64)(Stream stream, DevicePointer address, std::uint64_t value, unsigned flags);
  /// One after the other, in their order; captured as one node of a graph.
  Result (*stream_batch_memory_operations)(Stream stream, unsigned count, MemoryOperation* operations, unsigned flags);
  Result (*stream_begin_capture)(Stream stream, int mode);
  Result (*stream_end_capture)(Stream stream, Graph* graph);
  Result (*stream_is_capturing)(Stream stream, int* status);
  Result (*stream_get_capture_info)(Stream stream, int* status, std::uint64_t* id, Graph* graph,
                                    const GraphNode** last_nodes, std::size_t* last_node_count);
  Result (*thread_exchange_capture_mode)(int* mode);
  Result (*graph_instantiate)(GraphExecutable* executable, Graph graph, unsigned long long flags);
  Result (*graph_destroy)(Graph graph);
  Result (*graph_executable_destroy)(GraphExecutable executable);
  Result (*graph_executable_set_kernel)(GraphExecutable executable, GraphNode node,
                                        const KernelNodeArguments* arguments);
  Result (*graph_upload)(GraphExecutable executable, Stream stream);
  Result (*graph_launch)(GraphExecutable executable, Stream stream);
  Result (*event_create)(Event* event, unsigned flags);
  Result (*event_destroy)(Event event);
  Result (*event_record)(Event event, Stream stream);
  Result (*event_query)(Event event);
  Result (*event_elapsed_time)(float* milliseconds, Event start, Event end);
  Result (*module_load_data)(Module* module, const void* image);
  Result (*module_unload)(Module module);
  Result (*module_get_function)(Function* function, Module module, const char* name);
  Result (*function_set_attribute)(Function function, int attribute, int value);
  Result (*tensor_map_encode_tiled)(TensorMap* map, int type, unsigned rank, DevicePointer address,
                                    const std::uint64_t* sizes, const std::uint64_t* strides, const std::uint32_t* box,
                                    const std::uint32_t* element_strides, int interleave, int swizzle, int promotion,
                                    int fill);
  Result (*occupancy)(int* blocks, Function function, int threads, std::size_t dynamic_shared_bytes);
  Result (*launch_kernel)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters,
                          void** extra);
};

}  // namespace syncopate::cuda
