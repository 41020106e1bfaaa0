#include "syncopate/plan/inputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "small_plans.h"
#include "small_sums.h"

namespace syncopate::host {
namespace {

TEST(Inputs, PoisonIsNaNInFloatsAndConspicuousInIntegers) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16, Dtype::fp8e4m3, Dtype::fp8e5m2}) {
    const Bytes bytes = poison(dtype, 3);
    ASSERT_EQ(bytes.size(), 3U * static_cast<std::size_t>(size_in_bytes(dtype)));
    for (int i = 0; i < 3; ++i)
      EXPECT_TRUE(std::isnan(load_element(bytes.data() + i * size_in_bytes(dtype), dtype))) << name_of(dtype);
  }
  double wide = 0;
  std::memcpy(&wide, poison(Dtype::fp64, 1).data(), sizeof wide);
  EXPECT_TRUE(std::isnan(wide));
  std::int32_t integer = 0;
  std::memcpy(&integer, poison(Dtype::int32, 1).data(), sizeof integer);
  EXPECT_EQ(integer, 0x5a5a5a5a);
}

TEST(Inputs, SmallIntegersAreHalfZeroAndExactInEveryType) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16, Dtype::fp8e4m3, Dtype::fp8e5m2}) {
    const Bytes bytes = random_tensor(dtype, 4096, InputKind::small_integers, 5);
    std::map<float, int> counts;
    for (int i = 0; i < 4096; ++i) ++counts[load_element(bytes.data() + i * size_in_bytes(dtype), dtype)];
    ASSERT_EQ(counts.size(), 3U) << name_of(dtype);
    EXPECT_NEAR(counts[0.0F], 2048, 150);
    EXPECT_NEAR(counts[1.0F], 1024, 150);
    EXPECT_NEAR(counts[-1.0F], 1024, 150);
  }
  std::map<int, int> counts;
  for (const std::byte byte : random_tensor(Dtype::int8, 4096, InputKind::reals, 5))
    ++counts[static_cast<std::int8_t>(byte)];
  EXPECT_EQ(counts.size(), 3U);
  EXPECT_NEAR(counts[-1], 1024, 150);
}

TEST(Inputs, RealsFillTheIntervalAndAreRounded) {
  const Bytes bytes = random_tensor(Dtype::bf16, 4096, InputKind::reals, 9);
  double sum = 0;
  for (int i = 0; i < 4096; ++i) {
    const float value = load_element(bytes.data() + i * 2, Dtype::bf16);
    EXPECT_LE(std::fabs(value), 1.0F);
    EXPECT_EQ(value, round_to(value, Dtype::bf16));
    sum += std::fabs(value);
  }
  EXPECT_NEAR(sum / 4096, 0.5, 0.03);
}

TEST(Inputs, DifferByRankAndLaunchUnlessShared) {
  const Plan plan = test::small_plan({.ranks = 3});
  std::uint64_t seed = 0;
  const auto first = launch_inputs(plan, seed, InputKind::small_integers, 1);
  EXPECT_EQ(first, launch_inputs(plan, seed, InputKind::small_integers, 1));
  EXPECT_EQ(first[0][0], first[2][0]) << "a is one tensor";
  EXPECT_NE(first[0][1], first[2][1]) << "every rank has its own b";
  EXPECT_TRUE(first[0][2].empty()) << "c is an output";
  const auto second = launch_inputs(plan, seed, InputKind::small_integers, 2);
  EXPECT_NE(first[0][0], second[0][0]);
  const Plan sums = test::small_sum_plan({.ranks = 2, .route = testing::Route::direct_pull});
  ASSERT_TRUE(sums.buffers[2].symmetric);
  EXPECT_FALSE(sums.buffers[2].shared) << "every rank has its own summands";
  EXPECT_FALSE(sums.buffers[3].shared) << "and its own staging memory";
  const auto inputs = launch_inputs(sums, seed, InputKind::small_integers, 1);
  EXPECT_NE(inputs[0][0], inputs[1][0]);
  EXPECT_TRUE(inputs[0][2].empty());
  EXPECT_TRUE(inputs[0][3].empty());
  seed = 1;
  EXPECT_NE(first[0][0], launch_inputs(plan, seed, InputKind::small_integers, 1)[0][0]);
}

}  // namespace
}  // namespace syncopate::host
