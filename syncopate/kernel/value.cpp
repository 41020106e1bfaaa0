#include "syncopate/kernel/value.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "syncopate/core/error.h"

namespace syncopate::concrete {
namespace {

/// As encode_bf16(round_to(value, bf16)), in a form that vectorises.
std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
}

float bf16_value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

/// As decode_fp16, in a form that vectorises: shifting the exponent into place and scaling is exact, also for
/// subnormals.
float fp16_value(std::uint16_t bits) {
  const std::uint32_t magnitude = (bits & 0x7fffU) << 13;
  const bool special = (bits & 0x7c00U) == 0x7c00U;
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  return std::bit_cast<float>(sign | (special ? magnitude | 0x7f800000U : scaled));
}

template <typename T>
T read(const std::byte* memory, std::int64_t index) {
  T value;
  std::memcpy(&value, memory + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void write(std::byte* memory, std::int64_t index, T value) {
  std::memcpy(memory + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

template <typename T>
void decode_integers(const std::byte* memory, std::int64_t count, std::int64_t* elements) {
  for (std::int64_t i = 0; i < count; ++i) elements[i] = static_cast<std::int64_t>(read<T>(memory, i));
}

template <typename T>
void encode_integers(const std::int64_t* elements, std::int64_t count, std::byte* memory) {
  for (std::int64_t i = 0; i < count; ++i) write(memory, i, static_cast<T>(elements[i]));
}

}  // namespace

std::int64_t Extents::count() const {
  std::int64_t result = 1;
  for (int d = 0; d < rank; ++d) result *= (*this)[d];
  return result;
}

std::string Extents::to_string() const {
  return fmt::format("[{}]", fmt::join(size.begin(), size.begin() + rank, ", "));
}

bool operator==(const Extents& a, const Extents& b) {
  if (a.rank != b.rank) return false;
  for (int d = 0; d < a.rank; ++d)
    if (a[d] != b[d]) return false;
  return true;
}

Storage storage_of(Kind kind, Dtype dtype) {
  if (kind == Kind::pointer) return Storage::int64;
  if (dtype == Dtype::boolean) return Storage::byte;
  if (dtype == Dtype::fp64) return Storage::float64;
  return is_floating(dtype) ? Storage::float32 : Storage::int64;
}

std::size_t bytes_of(Storage storage) {
  switch (storage) {
    case Storage::float32:
      return 4;
    case Storage::float64:
    case Storage::int64:
      return 8;
    case Storage::byte:
      return 1;
  }
  throw InternalError("unknown storage");
}

Value integer_value(std::int64_t value, Dtype dtype) {
  Value result;
  result.kind = Kind::integer;
  result.dtype = dtype;
  result.integer = wrap(value, dtype);
  return result;
}

Value boolean_value(bool value) {
  Value result;
  result.kind = Kind::integer;
  result.dtype = Dtype::boolean;
  result.integer = value;
  return result;
}

Value floating_value(double value, Dtype dtype) {
  Value result;
  result.kind = Kind::floating;
  result.dtype = dtype;
  result.number = dtype == Dtype::fp64 ? value : static_cast<double>(round_to(static_cast<float>(value), dtype));
  return result;
}

Value weak_integer(std::int64_t value) {
  Value result;
  result.kind = Kind::integer;
  result.dtype = Dtype::int64;
  result.weak = true;
  result.integer = value;
  return result;
}

Value weak_number(double value) {
  Value result;
  result.kind = Kind::floating;
  result.dtype = Dtype::fp64;
  result.weak = true;
  result.number = value;
  return result;
}

Value none_value() {
  Value result;
  result.kind = Kind::none;
  return result;
}

Value dtype_value(Dtype dtype) {
  Value result;
  result.kind = Kind::dtype;
  result.dtype = dtype;
  return result;
}

Value new_block(Kind kind, Dtype dtype, const Extents& extents) {
  Value result;
  result.kind = kind;
  result.dtype = dtype;
  result.extents = extents;
  const auto count = static_cast<std::size_t>(extents.count());
  result.data = std::make_shared_for_overwrite<std::byte[]>(count * bytes_of(storage_of(kind, dtype)));
  return result;
}

void make_unique(Value& block) {
  if (block.data.use_count() == 1) return;
  const std::size_t bytes = static_cast<std::size_t>(block.extents.count()) * bytes_of(storage_of(block));
  auto own = std::make_shared_for_overwrite<std::byte[]>(bytes);
  std::memcpy(own.get(), block.data.get(), bytes);
  block.data = std::move(own);
}

std::string describe(const Value& value) {
  const auto typed = [&](std::string_view what) {
    if (value.is_block()) return fmt::format("a block of {} {}", what, value.extents.to_string());
    return fmt::format("a scalar of {}", what);
  };
  switch (value.kind) {
    case Kind::undefined:
      return "a variable without a value";
    case Kind::none:
      return "None";
    case Kind::string:
      return "a string";
    case Kind::dtype:
      return fmt::format("the dtype {}", name_of(value.dtype));
    case Kind::pointer:
      return typed(fmt::format("pointers to {}", name_of(value.dtype)));
    case Kind::descriptor:
      return "a tensor descriptor";
    case Kind::block_pointer:
      return "a block pointer";
    case Kind::integer:
    case Kind::floating:
      break;
  }
  if (value.weak) return value.kind == Kind::integer ? "a Python integer" : "a Python float";
  return typed(name_of(value.dtype));
}

std::int64_t expect_integer(const Value& value, std::string_view what) {
  if (value.kind != Kind::integer || value.is_block())
    throw OperationError{fmt::format("{} is {}", what, describe(value)), "give an integer"};
  return value.integer;
}

Dtype expect_dtype(const Value& value, std::string_view what) {
  if (value.kind != Kind::dtype)
    throw OperationError{fmt::format("{} is {}", what, describe(value)), "give a dtype such as tl.float32"};
  return value.dtype;
}

std::int64_t wrap(std::int64_t value, Dtype dtype) {
  switch (dtype) {
    case Dtype::boolean:
      return value != 0;
    case Dtype::int8:
      return static_cast<std::int8_t>(value);
    case Dtype::int16:
      return static_cast<std::int16_t>(value);
    case Dtype::int32:
      return static_cast<std::int32_t>(value);
    case Dtype::uint8:
      return static_cast<std::uint8_t>(value);
    case Dtype::uint16:
      return static_cast<std::uint16_t>(value);
    case Dtype::uint32:
      return static_cast<std::uint32_t>(value);
    default:
      return value;
  }
}

void wrap_elements(std::span<std::int64_t> elements, Dtype dtype) {
  if (dtype == Dtype::int64 || dtype == Dtype::uint64) return;
  if (dtype == Dtype::int32) {
    for (std::int64_t& element : elements) element = static_cast<std::int32_t>(element);
    return;
  }
  for (std::int64_t& element : elements) element = wrap(element, dtype);
}

void round_elements(std::span<float> elements, Dtype dtype) {
  if (dtype == Dtype::fp32) return;
  if (dtype == Dtype::bf16) {
    for (float& element : elements) element = bf16_value(bf16_bits(element));
    return;
  }
  for (float& element : elements) element = round_to(element, dtype);
}

void decode(const std::byte* memory, std::int64_t count, Dtype dtype, void* elements) {
  auto* const integers = static_cast<std::int64_t*>(elements);
  auto* const floats = static_cast<float*>(elements);
  switch (dtype) {
    case Dtype::boolean:
      for (std::int64_t i = 0; i < count; ++i) static_cast<std::uint8_t*>(elements)[i] = memory[i] != std::byte{0};
      return;
    case Dtype::int8:
      return decode_integers<std::int8_t>(memory, count, integers);
    case Dtype::int16:
      return decode_integers<std::int16_t>(memory, count, integers);
    case Dtype::int32:
      return decode_integers<std::int32_t>(memory, count, integers);
    case Dtype::int64:
    case Dtype::uint64:
    case Dtype::fp64:
      std::memcpy(elements, memory, static_cast<std::size_t>(count) * 8);
      return;
    case Dtype::uint8:
      return decode_integers<std::uint8_t>(memory, count, integers);
    case Dtype::uint16:
      return decode_integers<std::uint16_t>(memory, count, integers);
    case Dtype::uint32:
      return decode_integers<std::uint32_t>(memory, count, integers);
    case Dtype::bf16:
      for (std::int64_t i = 0; i < count; ++i) floats[i] = bf16_value(read<std::uint16_t>(memory, i));
      return;
    case Dtype::fp32:
      std::memcpy(elements, memory, static_cast<std::size_t>(count) * 4);
      return;
    case Dtype::fp16:
      for (std::int64_t i = 0; i < count; ++i) floats[i] = fp16_value(read<std::uint16_t>(memory, i));
      return;
    case Dtype::fp8e4m3:
    case Dtype::fp8e5m2:
      for (std::int64_t i = 0; i < count; ++i) floats[i] = load_element(memory + i, dtype);
      return;
  }
}

void encode(const void* elements, std::int64_t count, Dtype dtype, std::byte* memory) {
  const auto* const integers = static_cast<const std::int64_t*>(elements);
  const auto* const floats = static_cast<const float*>(elements);
  switch (dtype) {
    case Dtype::boolean:
      std::memcpy(memory, elements, static_cast<std::size_t>(count));
      return;
    case Dtype::int8:
    case Dtype::uint8:
      return encode_integers<std::uint8_t>(integers, count, memory);
    case Dtype::int16:
    case Dtype::uint16:
      return encode_integers<std::uint16_t>(integers, count, memory);
    case Dtype::int32:
    case Dtype::uint32:
      return encode_integers<std::uint32_t>(integers, count, memory);
    case Dtype::int64:
    case Dtype::uint64:
    case Dtype::fp64:
      std::memcpy(memory, elements, static_cast<std::size_t>(count) * 8);
      return;
    case Dtype::bf16:
      for (std::int64_t i = 0; i < count; ++i) write(memory, i, bf16_bits(floats[i]));
      return;
    case Dtype::fp32:
      std::memcpy(memory, elements, static_cast<std::size_t>(count) * 4);
      return;
    case Dtype::fp16:
    case Dtype::fp8e4m3:
    case Dtype::fp8e5m2: {
      const int size = size_in_bytes(dtype);
      for (std::int64_t i = 0; i < count; ++i) store_element(memory + i * size, dtype, floats[i]);
      return;
    }
  }
}

}  // namespace syncopate::concrete
