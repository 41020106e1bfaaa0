// The matrix-product kernels of different vector widths give the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "syncopate/kernel/value_dot_kernel.h"

namespace syncopate::concrete {
namespace {

using Multiply = void (*)(const Product&);

std::vector<float> product(Multiply multiply_blocks, std::size_t m, std::size_t n, std::size_t k) {
  const auto fill = [](std::size_t count, double seed) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(std::sin(static_cast<double>(i) * 12.9898 + seed));
    return values;
  };
  const std::vector<float> a = fill(m * k, 1);
  const std::vector<float> b = fill(k * n, 2);
  std::vector<float> out = fill(m * n, 3);
  multiply_blocks({a.data(), b.data(), out.data(), m, n, k});
  return out;
}

void expect_same_bits(Multiply multiply_blocks) {
  for (const std::size_t m : {1U, 7U, 8U, 21U})
    for (const std::size_t n : {1U, 16U, 31U, 32U, 65U})
      for (const std::size_t k : {1U, 33U}) {
        const std::vector<float> expected = product(multiply<1, 1, 1>, m, n, k);
        const std::vector<float> found = product(multiply_blocks, m, n, k);
        ASSERT_EQ(std::memcmp(expected.data(), found.data(), expected.size() * sizeof(float)), 0)
            << m << " x " << n << " x " << k;
      }
}

TEST(DotKernels, PortableVectorsGiveTheBitsOfTheScalarKernel) { expect_same_bits(multiply<4, 2, 4>); }

#if defined(__x86_64__)
TEST(DotKernels, Avx2GivesTheBitsOfTheScalarKernel) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no AVX2";
  expect_same_bits(multiply_avx2);
}

TEST(DotKernels, Avx512GivesTheBitsOfTheScalarKernel) {
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "this processor has no AVX-512";
  expect_same_bits(multiply_avx512);
}
#endif

}  // namespace
}  // namespace syncopate::concrete
