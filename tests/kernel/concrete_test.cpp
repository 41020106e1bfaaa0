#include "syncopate/kernel/concrete.h"

#include <gtest/gtest.h>

#include "tests/kernel/concrete_fixture.h"

namespace syncopate {
namespace {

TEST(ConcreteGemm, DescriptorsGiveExactSmallIntegers) {
  const GemmShape shape{100, 72, 50};
  FakeMemory memory = gemm_memory(shape, Dtype::bf16, small_integers);
  run_to_end(lower_kernel_file("gemm.py", "gemm"), gemm_arguments(shape, {32, 16, 16}, Dtype::bf16), {0}, {1}, memory);
  expect_exact_product(memory, shape);
}

}  // namespace
}  // namespace syncopate
