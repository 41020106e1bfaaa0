#include "syncopate/core/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "syncopate/core/error.h"

namespace syncopate {

namespace {

struct DtypeFacts {
  std::string_view name;
  std::array<std::string_view, 2> other_names;
  int bytes;
};

constexpr std::array<DtypeFacts, 15> kFacts = {{
    {"bool", {"int1", "i1"}, 1},
    {"int8", {"i8", ""}, 1},
    {"int16", {"i16", ""}, 2},
    {"int32", {"i32", ""}, 4},
    {"int64", {"i64", ""}, 8},
    {"uint8", {"u8", ""}, 1},
    {"uint16", {"u16", ""}, 2},
    {"uint32", {"u32", ""}, 4},
    {"uint64", {"u64", ""}, 8},
    {"fp8e4m3", {"float8e4nv", "float8_e4m3fn"}, 1},
    {"fp8e5m2", {"float8e5", "float8_e5m2"}, 1},
    {"fp16", {"float16", "half"}, 2},
    {"bf16", {"bfloat16", ""}, 2},
    {"fp32", {"float32", "float"}, 4},
    {"fp64", {"float64", "double"}, 8},
}};

const DtypeFacts& facts(Dtype dtype) { return kFacts[static_cast<std::size_t>(dtype)]; }

/// A binary floating-point format: `mantissa` explicit bits, exponents from `minimum` (of the smallest normal).
struct Format {
  int mantissa;
  int minimum;
  float largest;
  bool saturates;
};
constexpr Format kFp16 = {10, -14, 65504.0F, false};
constexpr Format kE4m3 = {3, -6, 448.0F, true};
constexpr Format kE5m2 = {2, -14, 57344.0F, false};

/// Rounds in double, where every step is exact but the rounding itself. Source of the rule: IEEE 754 with the
/// format's own exponent range; OCP 8-bit floating point specification for e4m3 and e5m2.
float round_to_format(float value, const Format& format) {
  if (std::isnan(value) || value == 0) return value;
  if (std::isinf(value)) return format.saturates ? std::copysign(format.largest, value) : value;
  int exponent = 0;
  std::frexp(static_cast<double>(value), &exponent);  // |value| in [2^(exponent-1), 2^exponent)
  const int quantum_exponent = std::max(exponent - 1, format.minimum) - format.mantissa;
  const double scaled = std::ldexp(static_cast<double>(value), -quantum_exponent);
  const double rounded = std::ldexp(std::nearbyint(scaled), quantum_exponent);
  if (std::fabs(rounded) <= static_cast<double>(format.largest)) return static_cast<float>(rounded);
  if (format.saturates) return std::copysign(format.largest, value);
  return std::copysign(std::numeric_limits<float>::infinity(), value);
}

/// Bits of a representable value: sign, exponent field with `bias`, mantissa.
std::uint32_t encode(float value, const Format& format, int exponent_bits) {
  const std::uint32_t sign = std::signbit(value) ? 1U : 0U;
  const std::uint32_t sign_bit = sign << (exponent_bits + format.mantissa);
  const std::uint32_t all_exponent = ((1U << exponent_bits) - 1U) << format.mantissa;
  if (std::isnan(value)) return sign_bit | all_exponent | ((1U << format.mantissa) - 1U);
  if (std::isinf(value)) return sign_bit | all_exponent;
  if (value == 0) return sign_bit;
  int exponent = 0;
  std::frexp(value, &exponent);
  --exponent;
  if (exponent < format.minimum) {  // subnormal
    const double units = std::ldexp(static_cast<double>(std::fabs(value)), format.mantissa - format.minimum);
    return sign_bit | static_cast<std::uint32_t>(units);
  }
  const double fraction = std::ldexp(static_cast<double>(std::fabs(value)), -exponent) - 1.0;
  const auto mantissa = static_cast<std::uint32_t>(std::ldexp(fraction, format.mantissa));
  const auto field = static_cast<std::uint32_t>(exponent - format.minimum + 1);
  return sign_bit | (field << format.mantissa) | mantissa;
}

float decode(std::uint32_t bits, const Format& format, int exponent_bits, bool has_infinity) {
  const std::uint32_t mantissa = bits & ((1U << format.mantissa) - 1U);
  const std::uint32_t field = (bits >> format.mantissa) & ((1U << exponent_bits) - 1U);
  const bool negative = ((bits >> (format.mantissa + exponent_bits)) & 1U) != 0;
  const std::uint32_t all_ones = (1U << exponent_bits) - 1U;
  float magnitude = 0;
  if (field == all_ones && has_infinity) {
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (field == all_ones && mantissa == (1U << format.mantissa) - 1U && !has_infinity) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else if (field == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), format.minimum - format.mantissa);
  } else {
    magnitude = std::ldexp(1.0F + std::ldexp(static_cast<float>(mantissa), -format.mantissa),
                           static_cast<int>(field) + format.minimum - 1);
  }
  return negative ? -magnitude : magnitude;
}

}  // namespace

int size_in_bytes(Dtype dtype) { return facts(dtype).bytes; }

bool is_floating(Dtype dtype) { return dtype >= Dtype::fp8e4m3; }

bool is_signed_integer(Dtype dtype) { return dtype >= Dtype::int8 && dtype <= Dtype::int64; }

std::string_view name_of(Dtype dtype) { return facts(dtype).name; }

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    const DtypeFacts& entry = kFacts[i];
    if (name == entry.name) return static_cast<Dtype>(i);
    for (const std::string_view other : entry.other_names)
      if (!other.empty() && name == other) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

std::string_view all_dtype_names() {
  return "bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, fp8e4m3, fp8e5m2, fp16, bf16, fp32, fp64";
}

float round_to(float value, Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return decode_bf16(encode_bf16(value));
    case Dtype::fp16:
      return round_to_format(value, kFp16);
    case Dtype::fp8e4m3:
      return round_to_format(value, kE4m3);
    case Dtype::fp8e5m2:
      return round_to_format(value, kE5m2);
    default:
      return value;
  }
}

std::uint16_t encode_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

std::uint16_t encode_fp16(float value) { return static_cast<std::uint16_t>(encode(value, kFp16, 5)); }
std::uint8_t encode_fp8e4m3(float value) { return static_cast<std::uint8_t>(encode(value, kE4m3, 4)); }
std::uint8_t encode_fp8e5m2(float value) { return static_cast<std::uint8_t>(encode(value, kE5m2, 5)); }

float decode_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
float decode_fp16(std::uint16_t bits) { return decode(bits, kFp16, 5, true); }
float decode_fp8e4m3(std::uint8_t bits) { return decode(bits, kE4m3, 4, false); }
float decode_fp8e5m2(std::uint8_t bits) { return decode(bits, kE5m2, 5, true); }

namespace {
template <typename T>
T read_as(const std::byte* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}
template <typename T>
void write_as(std::byte* address, T value) {
  std::memcpy(address, &value, sizeof value);
}
}  // namespace

float load_element(const std::byte* address, Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return decode_bf16(read_as<std::uint16_t>(address));
    case Dtype::fp16:
      return decode_fp16(read_as<std::uint16_t>(address));
    case Dtype::fp8e4m3:
      return decode_fp8e4m3(read_as<std::uint8_t>(address));
    case Dtype::fp8e5m2:
      return decode_fp8e5m2(read_as<std::uint8_t>(address));
    case Dtype::fp32:
      return read_as<float>(address);
    default:
      throw InternalError("load_element of a type that a float does not hold");
  }
}

void store_element(std::byte* address, Dtype dtype, float value) {
  switch (dtype) {
    case Dtype::bf16:
      return write_as(address, encode_bf16(value));
    case Dtype::fp16:
      return write_as(address, encode_fp16(round_to(value, dtype)));
    case Dtype::fp8e4m3:
      return write_as(address, encode_fp8e4m3(round_to(value, dtype)));
    case Dtype::fp8e5m2:
      return write_as(address, encode_fp8e5m2(round_to(value, dtype)));
    case Dtype::fp32:
      return write_as(address, value);
    default:
      throw InternalError("store_element of a type that a float does not hold");
  }
}

}  // namespace syncopate
