#include "syncopate/cuda/tensor_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "syncopate/core/error.h"

namespace syncopate::cuda {
namespace {

constexpr std::size_t kMostDimensions = 5;
constexpr std::int64_t kAlignment = 16;  ///< bytes, of the address and of every stride but the last

constexpr int kNotInterleaved = 0;
constexpr int kNoPromotion = 0;  ///< L2 sectors are fetched as they are needed, as through a descriptor of a kernel
constexpr int kZerosOutside = 0;

/// CUtensorMapDataType.
enum class MapType : int { uint8, uint16, uint32, int32, uint64, int64, fp16, fp32, fp64, bf16 };

/// What is none of its types is moved as bits of the same size.
MapType map_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::boolean:
    case Dtype::int8:
    case Dtype::uint8:
    case Dtype::fp8e4m3:
    case Dtype::fp8e5m2:
      return MapType::uint8;
    case Dtype::int16:
    case Dtype::uint16:
      return MapType::uint16;
    case Dtype::int32:
      return MapType::int32;
    case Dtype::uint32:
      return MapType::uint32;
    case Dtype::int64:
      return MapType::int64;
    case Dtype::uint64:
      return MapType::uint64;
    case Dtype::fp16:
      return MapType::fp16;
    case Dtype::bf16:
      return MapType::bf16;
    case Dtype::fp32:
      return MapType::fp32;
    case Dtype::fp64:
      return MapType::fp64;
  }
  throw InternalError("dtype without a name");
}

[[noreturn]] void refuse(const MappedTensor& tensor, const std::string& problem, const std::string& remedy) {
  throw UserError({tensor.kernel},
                  fmt::format("a tensor descriptor of '{}' [{}] with strides [{}] {}", tensor.name,
                              fmt::join(tensor.shape, ", "), fmt::join(tensor.strides, ", "), problem),
                  remedy);
}

std::vector<std::int64_t> evaluated(const std::vector<std::string>& expressions, const Names& sizes,
                                    const std::string& file) {
  std::vector<std::int64_t> values;
  for (const std::string& each : expressions) values.push_back(evaluate(each, sizes, {file}));
  return values;
}

void check_sizes(const MappedTensor& tensor) {
  for (const std::int64_t size : tensor.shape)
    if (size < 1 || size > std::numeric_limits<std::int32_t>::max())
      refuse(tensor, fmt::format("would have a dimension of {}, not of 1 to 2^31 - 1", size),
             "use other sizes, or pointers instead of the descriptor");
  const std::int64_t bytes = size_in_bytes(tensor.dtype);
  for (std::size_t d = 0; d + 1 < tensor.strides.size(); ++d)
    if (tensor.strides[d] * bytes % kAlignment != 0)
      refuse(tensor,
             fmt::format("would have a stride of {} bytes, which is no multiple of 16", tensor.strides[d] * bytes),
             "use sizes that make it one, or pointers instead of the descriptor");
}

}  // namespace

MappedTensor mapped_tensor(const Plan& plan, const Buffer& buffer, const DescriptorParameter& descriptor,
                           const Names& sizes) {
  const std::string& file = plan.kernel.file;
  MappedTensor tensor{file,
                      buffer.name,
                      buffer.dtype,
                      evaluated(descriptor.shape, sizes, file),
                      evaluated(descriptor.strides, sizes, file),
                      descriptor.box,
                      descriptor.swizzle};
  const std::size_t rank = tensor.shape.size();
  check_internal(rank >= 1 && rank <= kMostDimensions && tensor.strides.size() == rank && tensor.box.size() == rank,
                 "a descriptor whose sizes have different numbers of dimensions");
  check_internal(descriptor.element_bytes == size_in_bytes(buffer.dtype), "a descriptor of elements of another size");
  check_sizes(tensor);
  return tensor;
}

TensorMap make_tensor_map(const Driver& driver, const MappedTensor& tensor, DevicePointer address) {
  if (address % kAlignment != 0)
    refuse(tensor, fmt::format("cannot begin at the address {:#x}", address), "pass a tensor aligned to 16 bytes");
  // Innermost dimension first, whose stride is not given.
  const std::size_t rank = tensor.shape.size();
  const auto bytes = static_cast<std::uint64_t>(size_in_bytes(tensor.dtype));
  std::array<std::uint64_t, kMostDimensions> sizes{};
  std::array<std::uint64_t, kMostDimensions> strides{};
  std::array<std::uint32_t, kMostDimensions> box{};
  std::array<std::uint32_t, kMostDimensions> every_element{1, 1, 1, 1, 1};
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t from = rank - 1 - d;
    sizes.at(d) = static_cast<std::uint64_t>(tensor.shape[from]);
    box.at(d) = static_cast<std::uint32_t>(tensor.box[from]);
    if (d > 0) strides.at(d - 1) = static_cast<std::uint64_t>(tensor.strides[from]) * bytes;
  }
  TensorMap map;
  const Result result = driver.tensor_map_encode_tiled(
      &map, static_cast<int>(map_type(tensor.dtype)), static_cast<unsigned>(rank), address, sizes.data(),
      strides.data(), box.data(), every_element.data(), kNotInterleaved, tensor.swizzle, kNoPromotion, kZerosOutside);
  if (result != kSuccess)
    refuse(tensor,
           fmt::format("for boxes of [{}] cannot be made: {}", fmt::join(tensor.box, ", "), driver.describe(result)),
           "change the sizes of the tensor or of the tiles");
  return map;
}

}  // namespace syncopate::cuda
