#include "syncopate/core/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace syncopate {
namespace {

TEST(Dtype, NamesRoundTripAndAliases) {
  for (int i = 0; i <= static_cast<int>(Dtype::fp64); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
    EXPECT_NE(all_dtype_names().find(name_of(dtype)), std::string_view::npos);
  }
  EXPECT_EQ(dtype_from_name("bfloat16"), Dtype::bf16);
  EXPECT_EQ(dtype_from_name("float8e4nv"), Dtype::fp8e4m3);
  EXPECT_FALSE(dtype_from_name("bf17").has_value());
}

TEST(Dtype, RoundsToNearestEven) {
  // bf16 has 8 significant bits: between 256 and 512 it steps by 2, ties go to the even neighbour.
  EXPECT_EQ(round_to(257.0F, Dtype::bf16), 256.0F);
  EXPECT_EQ(round_to(259.0F, Dtype::bf16), 260.0F);
  EXPECT_EQ(round_to(257.01F, Dtype::bf16), 258.0F);
  // fp16 has 11 bits: between 2048 and 4096 it steps by 2.
  EXPECT_EQ(round_to(2049.0F, Dtype::fp16), 2048.0F);
  EXPECT_EQ(round_to(2051.0F, Dtype::fp16), 2052.0F);
  EXPECT_EQ(round_to(65519.0F, Dtype::fp16), 65504.0F);
  EXPECT_TRUE(std::isinf(round_to(65520.0F, Dtype::fp16)));
  EXPECT_EQ(round_to(1e6F, Dtype::fp8e4m3), 448.0F) << "e4m3 saturates";
  EXPECT_TRUE(std::isinf(round_to(1e6F, Dtype::fp8e5m2)));
  EXPECT_EQ(round_to(std::ldexp(1.0F, -10), Dtype::fp8e4m3), 0.0F) << "half the smallest subnormal ties to even zero";
  EXPECT_EQ(round_to(std::ldexp(1.5F, -10), Dtype::fp8e4m3), std::ldexp(1.0F, -9));
  EXPECT_TRUE(std::isnan(round_to(std::numeric_limits<float>::quiet_NaN(), Dtype::bf16)));
}

TEST(Dtype, EveryBitPatternRoundTrips) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (const float value = decode_fp16(half); !std::isnan(value)) {
      ASSERT_EQ(encode_fp16(value), half);
      ASSERT_EQ(round_to(value, Dtype::fp16), value);
    }
    if (const float value = decode_bf16(half); !std::isnan(value)) {
      ASSERT_EQ(encode_bf16(value), half);
    }
  }
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<std::uint8_t>(bits);
    if (const float value = decode_fp8e4m3(byte); !std::isnan(value)) {
      ASSERT_EQ(encode_fp8e4m3(value), byte);
      ASSERT_EQ(round_to(value, Dtype::fp8e4m3), value);
    }
    if (const float value = decode_fp8e5m2(byte); !std::isnan(value)) {
      ASSERT_EQ(encode_fp8e5m2(value), byte);
    }
  }
  EXPECT_EQ(decode_fp8e4m3(0x7E), 448.0F);
  EXPECT_EQ(decode_fp8e5m2(0x7B), 57344.0F);
  EXPECT_EQ(decode_fp16(0x0001), std::ldexp(1.0F, -24));
}

TEST(Dtype, RoundingPicksTheNearestOfTwoNeighbours) {
  // Independent oracle: among the neighbouring representable values, found by enumeration, none is nearer.
  for (const Dtype dtype : {Dtype::fp16, Dtype::bf16}) {
    const auto decode = dtype == Dtype::fp16 ? decode_fp16 : decode_bf16;
    std::uint32_t state = 12345;
    for (int i = 0; i < 20000; ++i) {
      state = state * 1664525U + 1013904223U;
      const float value =
          std::ldexp(static_cast<float>(state) / 4294967296.0F + 0.5F, static_cast<int>(state % 30) - 15);
      const float rounded = round_to(value, dtype);
      const std::uint16_t bits = dtype == Dtype::fp16 ? encode_fp16(rounded) : encode_bf16(rounded);
      const double error = std::fabs(static_cast<double>(value) - static_cast<double>(rounded));
      for (const int step : {-1, 1}) {
        const float neighbour = decode(static_cast<std::uint16_t>(bits + step));
        ASSERT_LE(error, std::fabs(static_cast<double>(value) - static_cast<double>(neighbour))) << value;
      }
    }
  }
}

TEST(Dtype, ElementsInMemory) {
  std::byte bytes[4] = {};
  store_element(bytes, Dtype::bf16, 1.00390625F);  // halfway between 1 and 1.0078125: even is 1
  EXPECT_EQ(load_element(bytes, Dtype::bf16), 1.0F);
  store_element(bytes, Dtype::fp32, 0.1F);
  EXPECT_EQ(load_element(bytes, Dtype::fp32), 0.1F);
}

}  // namespace
}  // namespace syncopate
