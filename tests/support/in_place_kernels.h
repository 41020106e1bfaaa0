// Kernels whose sums in place are subnormal, or zeros of both signs, and plans whose fused kernels add something else.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "syncopate/plan/plan.h"

namespace syncopate::testing {

inline void replace_once(std::string& text, const std::string& part, const std::string& by) {
  const std::size_t at = text.find(part);
  ASSERT_NE(at, std::string::npos) << part;
  text.replace(at, part.size(), by);
  ASSERT_EQ(text.find(part, at + by.size()), std::string::npos) << part;
}

/// `text` is that of kernels/gemm.py; `factors` such as "0.5 * 0.25". What is stored is the product times each of them
/// in turn, in fp32, rounded once.
inline std::string scaled_gemm(std::string text, const std::string& factors) {
  replace_once(text, "halves(accumulator)", "halves(accumulator * " + factors + ")");
  return text;
}

/// Turn sums of some hundred products of small reals into numbers most of which are below the least normal one of the
/// type, and not multiples of its least one. Each factor is a normal number of fp32.
inline constexpr const char* kIntoSubnormalBf16 = "7.888609052210118e-31 * 2.3283064365386963e-10";  // 2^-100, 2^-32
inline constexpr const char* kIntoSubnormalFp16 = "9.5367431640625e-07";                             // 2^-20

/// Leaves zeros of both signs. (A literal -0.0 would be 0.0 to Triton.)
inline constexpr const char* kIntoZeros = "0.0";

/// Lets the fused kernel hand the memory something else to add than its tile's own value from +0.
inline void add_instead(Plan& plan, const std::string& value) {
  replace_once(plan.kernel.fused_source, "value.to(descriptor.dtype) + 0.0", value);
}
inline constexpr const char* kNothing = "value.to(descriptor.dtype) * 0.0";
inline constexpr const char* kAsItIs = "value.to(descriptor.dtype)";  // so -0 and -0 become -0

}  // namespace syncopate::testing
