#include "syncopate/cuda/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "repository.h"
#include "syncopate/core/error.h"
#include "syncopate/driver/driver.h"

namespace syncopate::cuda {
namespace {

using ::testing::HasSubstr;

Plan gemm() { return compile_operator(testing::operator_file("ag_gemm.toml")); }

const ParameterType& find(const std::vector<ParameterType>& types, const std::string& name) {
  const auto found = std::find_if(types.begin(), types.end(), [&](const auto& type) { return type.name == name; });
  if (found == types.end()) throw std::runtime_error("no parameter " + name);
  return *found;
}

TEST(Signature, TensorsArePointersOfTheirTypeAlignedTo16) {
  Plan plan = gemm();
  plan.buffers[1].dtype = Dtype::fp8e4m3;
  const auto types = signature_of(plan, KernelText::local);
  ASSERT_EQ(types.size(), 10U);
  EXPECT_EQ(types[0].name, "a_ptr");
  EXPECT_EQ(types[0].type, "*bf16");
  EXPECT_TRUE(types[0].divisible_by_16);
  EXPECT_EQ(types[1].type, "*fp8e4nv");
}

TEST(Signature, IntegersAreNarrowWhereTheyFitAndDivisibleWhereTheyAre) {
  Plan plan = gemm();
  plan.kernel.arguments["M"] = std::int64_t{1} << 40;
  plan.kernel.arguments["N"] = std::int64_t{520};
  plan.kernel.arguments["K"] = std::int64_t{-16};
  const auto types = signature_of(plan, KernelText::local);
  EXPECT_EQ(find(types, "M").type, "i64");
  EXPECT_TRUE(find(types, "M").divisible_by_16);
  EXPECT_EQ(find(types, "N").type, "i32");
  EXPECT_FALSE(find(types, "N").divisible_by_16);
  EXPECT_EQ(find(types, "K").type, "i32");
  EXPECT_TRUE(find(types, "K").divisible_by_16);
  plan.kernel.arguments["M"] = 0.5;
  plan.kernel.arguments["N"] = true;
  const auto others = signature_of(plan, KernelText::local);
  EXPECT_EQ(find(others, "M").type, "fp32");
  EXPECT_EQ(find(others, "N").type, "u1");
}

TEST(Signature, WhatDiffersByRankIsWhatHoldsOnAllOfThem) {
  Plan plan = gemm();
  const auto give = [&](const std::vector<std::int64_t>& values) {
    plan.kernel.arguments.erase("M");
    plan.kernel.rank_arguments.clear();
    for (const std::int64_t value : values) plan.kernel.rank_arguments.push_back({{"M", value}});
    return find(signature_of(plan, KernelText::local), "M");
  };
  ParameterType type = give({0, 16, 32, 48});
  EXPECT_EQ(type.type, "i32");
  EXPECT_TRUE(type.divisible_by_16);
  EXPECT_FALSE(type.value.has_value());
  type = give({0, 8, 16, 24});
  EXPECT_FALSE(type.divisible_by_16) << "rank 0's is, but one kernel runs on all";
  type = give({8, 16, 32, 48});
  EXPECT_FALSE(type.divisible_by_16);
  type = give({0, std::int64_t{1} << 40, 16, 32});
  EXPECT_EQ(type.type, "i64");
  EXPECT_TRUE(type.divisible_by_16);
  plan.kernel.rank_arguments.assign(4, {{"BLOCK_M", std::int64_t{16}}});
  EXPECT_THROW(signature_of(plan, KernelText::local), UserError);
}

TEST(Signature, ConstexprsCarryTheirValue) {
  const auto types = signature_of(gemm(), KernelText::local);
  EXPECT_EQ(find(types, "BLOCK_M").type, "constexpr");
  EXPECT_EQ(std::get<std::int64_t>(*find(types, "BLOCK_M").value), 128);
}

TEST(Signature, TheFusedKernelHasTheRuntimesParametersToo) {
  const auto types = signature_of(gemm(), KernelText::fused);
  ASSERT_EQ(types.size(), 19U);
  for (const char* name :
       {"syncopate_tiles", "syncopate_waits", "syncopate_flags", "syncopate_epoch", "syncopate_record"}) {
    EXPECT_EQ(find(types, name).type, "*i64") << name;
    EXPECT_TRUE(find(types, name).divisible_by_16) << name;
  }
  for (const char* name : {"syncopate_rank", "syncopate_world_size", "syncopate_tile_count"}) {
    EXPECT_EQ(find(types, name).type, "i32") << name;
    EXPECT_FALSE(find(types, name).divisible_by_16) << name << " differs between ranks, the kernel does not";
  }
  EXPECT_EQ(find(types, "syncopate_time_limit").type, "i64");
}

TEST(Signature, AReducedOutputBringsMoreParameters) {
  Plan plan = compile_operator(testing::operator_file("gemm_rs.toml"));
  const auto types = signature_of(plan, KernelText::fused);
  EXPECT_EQ(find(types, "syncopate_staging").type, "*bf16");
  EXPECT_TRUE(find(types, "syncopate_staging").divisible_by_16);
  for (const char* name : {"syncopate_addends", "syncopate_signals", "syncopate_peers"}) {
    EXPECT_EQ(find(types, name).type, "*i64") << name;
    EXPECT_TRUE(find(types, name).divisible_by_16) << name;
  }
  EXPECT_EQ(find(types, "syncopate_cut").type, "constexpr");
  EXPECT_FALSE(std::get<bool>(*find(types, "syncopate_cut").value)) << "tiles end where shards do";
  for (RankProgram& program : plan.programs) program.slots[0].kept = {{0, 64}, {0, 512}};
  EXPECT_TRUE(std::get<bool>(*find(signature_of(plan, KernelText::fused), "syncopate_cut").value));
}

TEST(Signature, SumsInPlaceNeedNoAddends) {
  const Plan plan = compile_operator(testing::operator_file("gemm_rs.toml"), {{"ranks", "2"}});
  const auto types = signature_of(plan, KernelText::fused);
  for (const char* name : {"syncopate_signals", "syncopate_peers"}) EXPECT_EQ(find(types, name).type, "*i64") << name;
  for (const ParameterType& type : types)
    EXPECT_THAT((std::vector<std::string>{"syncopate_staging", "syncopate_addends", "syncopate_cut"}),
                ::testing::Not(::testing::Contains(type.name)));
}

TEST(Signature, AOneShotSumBringsItsOwnParameters) {
  const Plan plan = compile_operator(testing::operator_file("gemm_ar.toml"), {{"communicate.c.algorithm", "one_shot"}});
  const auto types = signature_of(plan, KernelText::fused);
  for (const char* name : {"syncopate_result", "syncopate_summands"}) {
    EXPECT_EQ(find(types, name).type, "*bf16") << name;
    EXPECT_TRUE(find(types, name).divisible_by_16) << name;
  }
  EXPECT_EQ(find(types, "syncopate_additions").type, "*i64");
  EXPECT_EQ(find(types, "syncopate_addition_count").type, "i32");
  EXPECT_FALSE(find(types, "syncopate_addition_count").divisible_by_16);
  for (const ParameterType& type : types)
    EXPECT_THAT((std::vector<std::string>{"syncopate_staging", "syncopate_addends", "syncopate_cut"}),
                ::testing::Not(::testing::Contains(type.name)));
}

TEST(Signature, AParameterWithoutAValueIsAnErrorAtItsPlace) {
  Plan plan = gemm();
  plan.kernel.arguments.erase("K");
  try {
    signature_of(plan, KernelText::local);
    FAIL() << "K had no value";
  } catch (const UserError& error) {
    EXPECT_THAT(error.where().file, HasSubstr("gemm.py"));
    EXPECT_GT(error.where().line, 1);
    EXPECT_THAT(error.problem(), HasSubstr("parameter 'K'"));
    EXPECT_THAT(error.remedy(), HasSubstr("[kernel] args"));
  }
}

}  // namespace
}  // namespace syncopate::cuda
