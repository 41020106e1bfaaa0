#include "syncopate/capi/tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "syncopate/capi/error.h"
#include "syncopate/core/text.h"
#include "syncopate/plan/inputs.h"

namespace syncopate::capi {
namespace {

constexpr std::uint64_t kAlignment = 16;

/// Codes of DLPack 1.1, which Debian's header is too old to name.
constexpr std::uint8_t kBool = 6;
constexpr std::uint8_t kFloat8E4m3 = 10;
constexpr std::uint8_t kFloat8E5m2 = 12;

constexpr std::array kAllDtypes = {Dtype::boolean, Dtype::int8,   Dtype::int16,  Dtype::int32,  Dtype::int64,
                                   Dtype::uint8,   Dtype::uint16, Dtype::uint32, Dtype::uint64, Dtype::fp8e4m3,
                                   Dtype::fp8e5m2, Dtype::fp16,   Dtype::bf16,   Dtype::fp32,   Dtype::fp64};

std::uint8_t code_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::boolean:
      return kBool;
    case Dtype::fp8e4m3:
      return kFloat8E4m3;
    case Dtype::fp8e5m2:
      return kFloat8E5m2;
    case Dtype::bf16:
      return kDLBfloat;
    default:
      return is_floating(dtype) ? kDLFloat : is_signed_integer(dtype) ? kDLInt : kDLUInt;
  }
}

bool same(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }

[[noreturn]] void refuse(const Buffer& buffer, std::string_view what, std::string_view expected, std::string_view got,
                         std::string remedy) {
  throw UserError({}, fmt::format("tensor {}: {} {} expected, got {}", buffer.name, what, expected, got),
                  std::move(remedy));
}

std::string device_name(DLDevice device) {
  switch (device.device_type) {
    case kDLCPU:
      return "the CPU";
    case kDLCUDA:
      return fmt::format("cuda:{}", device.device_id);
    default:
      return fmt::format("a device of DLPack type {}", static_cast<int>(device.device_type));
  }
}

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

/// Extents of 1 have no stride worth the name.
bool is_row_major(const Shape& shape, const Shape& strides) {
  const Shape expected = row_major_strides(shape);
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && strides[d] != expected[d]) return false;
  return true;
}

/// What a view's `manager_ctx` points to.
struct ViewContext {
  DLManagedTensor tensor{};
  Shape shape;
  Shape strides;
  std::shared_ptr<const void> owner;
};

}  // namespace

Shape shape_for_callers(const Buffer& buffer) {
  return buffer.role == BufferRole::source ? shape_without_stack(buffer) : buffer.shape;
}

DLDataType dlpack_type(Dtype dtype) { return {code_of(dtype), static_cast<std::uint8_t>(8 * size_in_bytes(dtype)), 1}; }

std::string name_of(DLDataType type) {
  for (const Dtype dtype : kAllDtypes)
    if (same(dlpack_type(dtype), type)) return std::string(syncopate::name_of(dtype));
  return fmt::format("DLPack type {} of {} bits", static_cast<int>(type.code), static_cast<int>(type.bits));
}

int find_buffer(const Plan& plan, const std::string& name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    if (is_the_operators_own(plan, static_cast<int>(i))) continue;  // nobody's but the operator's
    if (plan.buffers[i].name == name) return static_cast<int>(i);
    names.push_back(plan.buffers[i].name);
  }
  throw UserError({}, fmt::format("operator {} has no tensor '{}'", plan.operator_name, name), suggest(name, names));
}

void check_tensor(const Buffer& buffer, const DLTensor& tensor, int device) {
  if (!same(tensor.dtype, dlpack_type(buffer.dtype)))
    refuse(buffer, "dtype", syncopate::name_of(buffer.dtype), name_of(tensor.dtype), "convert it, or compile for it");
  const Shape expected = shape_for_callers(buffer);
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr))
    refuse(buffer, "shape", to_string(expected), tensor.ndim < 0 ? "a negative number of dimensions" : "NULL",
           "fill the whole struct");
  const Shape shape(tensor.shape, tensor.shape + tensor.ndim);
  if (shape != expected)
    refuse(buffer, "shape", to_string(expected), to_string(shape), "a plan is compiled for one shape");
  if (tensor.strides != nullptr) {
    const Shape strides(tensor.strides, tensor.strides + tensor.ndim);
    if (!is_row_major(shape, strides))
      refuse(buffer, "strides", fmt::format("({})", fmt::join(row_major_strides(shape), ", ")),
             fmt::format("({})", fmt::join(strides, ", ")), "make it contiguous");
  }
  if (tensor.device.device_type != kDLCUDA || tensor.device.device_id != device)
    refuse(buffer, "device", fmt::format("cuda:{}", device), device_name(tensor.device),
           "move it to the operator's GPU");
  // Extents are at least 1, so no tensor of a plan does without memory.
  if (tensor.data == nullptr) refuse(buffer, "address", "of memory", "null", "pass a tensor that has memory");
  if (address_of(tensor) % kAlignment != 0)
    refuse(buffer, "address", fmt::format("divisible by {}", kAlignment), fmt::format("{:#x}", address_of(tensor)),
           "copy it into memory of its own: a slice may begin anywhere");
}

std::uint64_t address_of(const DLTensor& tensor) {
  return reinterpret_cast<std::uint64_t>(tensor.data) + tensor.byte_offset;
}

Region region_of(const Plan& plan, int index, int part, int rank) {
  const Buffer& buffer = plan.buffer(index);
  switch (part) {
    case SYNCOPATE_WHOLE:
      return Region::whole(buffer.shape);
    case SYNCOPATE_SHARD:
      if (!is_input(buffer))
        throw UserError({}, fmt::format("tensor {} is no input: nobody fills it", buffer.name), "ask for its output");
      return buffer.held[static_cast<std::size_t>(rank)].front();
    case SYNCOPATE_SECOND_STRETCH:
      if (buffer.before.kind != Placement::Kind::zigzag)
        throw UserError(
            {}, fmt::format("tensor {} is {}, and has no second stretch", buffer.name, buffer.before.to_string()),
            "ask for its shard");
      return buffer.held[static_cast<std::size_t>(rank)].back();
    case SYNCOPATE_OUTPUT: {
      bool output = false;
      for (int any = 0; any < plan.ranks; ++any) output = output || !output_region(plan, index, any).empty();
      if (!output)
        throw UserError({}, fmt::format("tensor {} is no output: launches leave nothing in it", buffer.name),
                        "ask for its shard");
      return output_region(plan, index, rank);
    }
  }
  throw UserError({}, fmt::format("there is no part {} of a tensor", static_cast<int>(part)),
                  "use one of the values of syncopate_part");
}

DLManagedTensor* new_view(const Buffer& buffer, const Region& region, int part, std::uint64_t address, int device,
                          std::shared_ptr<const void> owner) {
  auto context = std::make_unique<ViewContext>();
  for (int d = 0; d < region.dimensions(); ++d) context->shape.push_back(region[d].size());
  context->strides = row_major_strides(buffer.shape);
  if (buffer.stacked && (part == SYNCOPATE_SHARD || buffer.role == BufferRole::source)) {
    context->shape.erase(context->shape.begin());
    context->strides.erase(context->strides.begin());
  }
  context->owner = std::move(owner);
  DLTensor& tensor = context->tensor.dl_tensor;
  const std::int64_t offset = region.empty() ? 0 : linear_offset(region, buffer.shape);
  tensor.data = reinterpret_cast<void*>(address + static_cast<std::uint64_t>(offset * size_in_bytes(buffer.dtype)));
  tensor.device = {kDLCUDA, device};
  tensor.ndim = static_cast<int>(context->shape.size());
  tensor.dtype = dlpack_type(buffer.dtype);
  tensor.shape = context->shape.data();
  tensor.strides = context->strides.data();
  tensor.byte_offset = 0;
  context->tensor.manager_ctx = context.get();
  context->tensor.deleter = [](DLManagedTensor* view) { delete static_cast<ViewContext*>(view->manager_ctx); };
  return &context.release()->tensor;
}

}  // namespace syncopate::capi
