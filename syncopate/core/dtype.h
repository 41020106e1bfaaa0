// Element types of tensors, by Triton's names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace syncopate {

enum class Dtype : std::uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  fp8e4m3,
  fp8e5m2,
  fp16,
  bf16,
  fp32,
  fp64
};

/// Bytes of one element.
int size_in_bytes(Dtype dtype);
bool is_floating(Dtype dtype);
bool is_signed_integer(Dtype dtype);
/// The name used in operator files and plans: "bf16", "fp32", "int32", ...
std::string_view name_of(Dtype dtype);
/// Accepts the names above, and Triton's and PyTorch's other names for the same types ("bfloat16", "float32",
/// "float8e4nv", "int1"). Nothing if unknown.
std::optional<Dtype> dtype_from_name(std::string_view name);
/// All names of name_of(), separated by ", ", for error messages.
std::string_view all_dtype_names();

/// Rounds to the nearest representable value of `dtype`, ties to even, as the hardware's conversion does; the
/// result is exact in the returned type. fp8e4m3 saturates to +-448 (NaN stays NaN); fp8e5m2 and fp16 overflow to
/// infinity; bf16 keeps the range of fp32.
float round_to(float value, Dtype dtype);

/// The bits of a bf16/fp16/fp8 value; the value must already be representable (see round_to).
std::uint16_t encode_bf16(float value);
std::uint16_t encode_fp16(float value);
std::uint8_t encode_fp8e4m3(float value);
std::uint8_t encode_fp8e5m2(float value);
float decode_bf16(std::uint16_t bits);
float decode_fp16(std::uint16_t bits);
float decode_fp8e4m3(std::uint8_t bits);
float decode_fp8e5m2(std::uint8_t bits);

/// Reads or writes one floating element (any floating dtype but fp64) at `address`; writing rounds first.
float load_element(const std::byte* address, Dtype dtype);
void store_element(std::byte* address, Dtype dtype, float value);

}  // namespace syncopate
