// Where sums are taken: in the output itself, or from a staging buffer; and what users are told who ask for the former.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/core/files.h"
#include "syncopate/core/source.h"
#include "syncopate/driver/driver.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/plan/print.h"
#include "tests/support/temporary_folder.h"

namespace syncopate {
namespace {

using ::testing::HasSubstr;

const std::string kDescriptors = SYNCOPATE_SOURCE_DIR "/operators/gemm_rs.toml";
const std::string kPointers = SYNCOPATE_SOURCE_DIR "/operators/gemm_rs_pointers.toml";

Plan compiled(std::vector<Override> overrides, const std::string& file = kDescriptors) {
  return compile_operator(file, overrides);
}

std::string error_of(const std::vector<Override>& overrides, const std::string& file = kDescriptors) {
  try {
    compile_operator(file, overrides);
    return "no error";
  } catch (const UserError& error) {
    return error.what();
  }
}

const Override kTwo{"ranks", "2"};
const Override kRing{"communicate.c.algorithm", "ring"};
const Override kInPlace{"communicate.c.sum", "in_place"};

TEST(SumPlace, TheOutputWhereNoElementGetsTwoSummands) {
  EXPECT_TRUE(sums_in_place(compiled({kTwo})));
  EXPECT_FALSE(sums_in_place(compiled({})));
  EXPECT_TRUE(sums_in_place(compiled({kRing})));
  EXPECT_TRUE(sums_in_place(compiled({kTwo, {"tensors.c.after", "replicate"}})));
  EXPECT_TRUE(sums_in_place(compiled({kRing, {"tensors.c.after", "replicate"}})));
  // Both directions of this ring end at the owner.
  EXPECT_FALSE(sums_in_place(compiled({{"communicate.c.algorithm", "bidirectional_ring"}})));
}

TEST(SumPlace, AStagingBufferIfThatIsAskedFor) {
  const Plan plan = compiled({kTwo, {"communicate.c.sum", "staging"}});
  EXPECT_FALSE(sums_in_place(plan));
  EXPECT_GE(staging_buffer(plan), 0);
  EXPECT_FALSE(plan.buffers[2].symmetric);
}

TEST(SumPlace, BuffersAndAddends) {
  for (const char* initiator : {"push", "pull"}) {
    const Plan plan = compiled({kTwo, {"communicate.c.initiator", initiator}});
    ASSERT_EQ(plan.buffers.size(), 3U);
    const Buffer& c = plan.buffers[2];
    EXPECT_TRUE(c.sums_in_place);
    EXPECT_TRUE(c.symmetric);
    EXPECT_THAT(c.purpose, HasSubstr("there is no staging buffer"));
    EXPECT_EQ(extra_memory(plan).staging, 0);
    for (const Queue& queue : plan.programs[0].queues)
      for (const Transfer& transfer : queue.transfers) {
        EXPECT_EQ(transfer.destination.buffer, 2);
        EXPECT_EQ(transfer.destination.region, transfer.source.region);
      }
    EXPECT_EQ(plan.sums[0].order, (SumOrder{0, {{0, {}}, {1, {}}}}));
  }
}

/// What lands in c overwrites what its rank's caller may still take of the launch before.
TEST(SumPlace, PushesWaitForTheStartOfTheirDestination) {
  for (const auto& overrides : {std::vector<Override>{kTwo}, std::vector<Override>{kRing}}) {
    const Plan plan = compiled(overrides);
    ASSERT_TRUE(sums_in_place(plan));
    for (const RankProgram& program : plan.programs) {
      ASSERT_FALSE(program.queues.empty());
      for (const Queue& queue : program.queues) {
        ASSERT_FALSE(queue.transfers.empty());
        bool knows = false;  // a queue takes its transfers one after the other
        for (const Transfer& transfer : queue.transfers) {
          const std::vector<int>& starts =
              plan.programs[static_cast<std::size_t>(transfer.destination.rank)].start_signals;
          for (const Wait& wait : transfer.waits)
            knows = knows || (wait.threshold == 1 && std::count(starts.begin(), starts.end(), wait.signal) == 1);
          EXPECT_TRUE(knows);
        }
      }
    }
  }
}

TEST(SumPlace, TilesThatWouldAddToAPartOnlyTakeTheStagingBuffer) {
  const std::vector<Override> straddling = {kTwo, {"kernel.args.M", "1000"}};  // shards of 500 rows, tiles of 128
  const Plan plan = compiled(straddling);
  EXPECT_FALSE(sums_in_place(plan));
  EXPECT_FALSE(plan.buffers[2].symmetric) << "as if in place had never been thought of";
  EXPECT_TRUE(cuts_tiles(plan));
  std::vector<Override> asked = straddling;
  asked.push_back(kInPlace);
  EXPECT_EQ(error_of(asked),
            "--set communicate.c.sum=in_place: on rank 0 tile (3, 0) stores rows of 'c' that get a summand, beside "
            "others that get none, or at another time; make chunks multiples of a tile's rows, or sum = \"staging\"");
  // Tiles that straddle chunks of one shard add both.
  EXPECT_TRUE(sums_in_place(compiled({kTwo, {"communicate.c.split", "3"}})));
}

TEST(SumPlace, TypesThatMemoryAdds) {
  EXPECT_TRUE(sums_in_place(compiled({kTwo, {"tensors.c.dtype", "fp16"}})));
  EXPECT_FALSE(sums_in_place(compiled({kTwo, {"tensors.c.dtype", "fp32"}}))) << "subnormal numbers would be lost";
  EXPECT_TRUE(sums_in_place(compiled({kTwo, {"tensors.c.dtype", "fp32"}, kInPlace})));
  EXPECT_FALSE(sums_in_place(compiled({kTwo, {"tensors.c.dtype", "fp8e5m2"}})));
  EXPECT_EQ(
      error_of({kTwo, {"tensors.c.dtype", "fp8e5m2"}, kInPlace}),
      "--set communicate.c.sum=in_place: tensor 'c' is fp8e5m2, and memory adds bf16, fp16 and fp32; one of these "
      "types, or sum = \"staging\"");
}

TEST(SumPlace, WhatCannotBeInPlace) {
  EXPECT_EQ(
      error_of({kInPlace}),
      "--set communicate.c.sum=in_place: several ranks send rank 0 summands of rows 0 to 128 of 'c', and only one "
      "can land in it; algorithm = \"ring\", or sum = \"staging\"");
  EXPECT_FALSE(sums_in_place(compiled({kTwo}, kPointers)));
  EXPECT_THAT(error_of({kTwo, kInPlace}, kPointers),
              ::testing::AllOf(HasSubstr("tensor 'c' is stored through pointers, at "), HasSubstr("gemm_pointers.py:"),
                               HasSubstr("and memory adds what descriptors store; store all of it through tensor "
                                         "descriptors, or sum = \"staging\"")));
}

TEST(SumPlace, WhatIsStoredTwiceWouldBeAddedTwice) {
  testing::TemporaryFolder folder;
  std::string text = read_file(SYNCOPATE_SOURCE_DIR "/kernels/gemm.py");
  const std::string store = "        c.store([row, column], first.to(c.dtype))\n";
  ASSERT_NE(text.find(store), std::string::npos);
  text.insert(text.find(store), store);
  const Override kernel{"kernel.file", folder.write("gemm.py", text)};
  EXPECT_FALSE(sums_in_place(compiled({kTwo, kernel})));
  EXPECT_THAT(error_of({kTwo, kernel, kInPlace}),
              ::testing::AllOf(HasSubstr("a tile stores some elements of 'c' twice, at "), HasSubstr("gemm.py:"),
                               HasSubstr("and memory would add both; store every element once")));
}

TEST(SumPlace, ABudgetHasNothingToBound) {
  const Plan plan = compiled({kTwo, {"communicate.c.memory_budget", "1"}});
  EXPECT_TRUE(sums_in_place(plan)) << "no byte is needed";
  EXPECT_EQ(plan.communication, "c: partial(sum) -> shard(0), reduce-scatter, direct, push, split 2");
  // Tiles that straddle shards need a staging buffer after all, which is bounded.
  const Plan staged = compiled({kTwo, {"kernel.args.M", "1000"}, {"communicate.c.memory_budget", "1 MiB"}});
  EXPECT_FALSE(sums_in_place(staged));
  EXPECT_EQ(staged.communication,
            "c: partial(sum) -> shard(0), reduce-scatter, direct, push, split 2, memory budget 1.00 MiB");
  EXPECT_THAT(error_of({kTwo, {"communicate.c.memory_budget", "1"}, {"communicate.c.sum", "staging"}}),
              HasSubstr("the memory budget is 1 byte"));
  EXPECT_EQ(error_of({kTwo, {"communicate.c.memory_budget", "1 MiB"}, kInPlace}),
            "--set communicate.c.memory_budget=1 MiB: sums in place need no staging buffer, which a memory budget is "
            "for; remove the budget, or sum = \"staging\"");
}

TEST(SumPlace, Statements) {
  EXPECT_THAT(error_of({{"communicate.c.sum", "inplace"}}),
              HasSubstr("--set communicate.c.sum=inplace: unknown place of sums 'inplace'; did you mean 'in_place'?"));
  EXPECT_THAT(error_of({{"communicate.a.sum", "in_place"}}, SYNCOPATE_SOURCE_DIR "/operators/ag_gemm.toml"),
              HasSubstr("tensor 'a' is gathered, not summed; 'sum' is for outputs that are reduced: remove it"));
  EXPECT_THAT(error_of({{"communicate.a.sum", "staging"}}, SYNCOPATE_SOURCE_DIR "/operators/a2a_gemm.toml"),
              HasSubstr("tensor 'a' is exchanged, not summed"));
}

TEST(SumPlace, PlansSaySo) {
  const Plan plan = compiled({kTwo});
  const std::string text = to_json(plan);
  EXPECT_EQ(to_json(parse_plan(SourceFile("plan.json", text))), text);
  EXPECT_THAT(show(plan), HasSubstr("adds to the summand in place, after"));
  const auto edited = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    try {
      parse_plan(SourceFile("plan.json", other), false);
      return std::string("no error");
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  // The first buffer is a, which nobody reduces.
  EXPECT_THAT(edited("\"sums_in_place\": false", "\"sums_in_place\": true"),
              HasSubstr("buffer 'a' has sums in place; of a reduced buffer only, and without a staging buffer"));
  EXPECT_THAT(edited("\"sums_in_place\": true", "\"sums_in_place\": false"),
              HasSubstr("an addend, but there is no staging buffer"));
}

}  // namespace
}  // namespace syncopate
