// Binding an operator to its kernel: every way in which the two can disagree.
#include "syncopate/plan/bind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/core/files.h"
#include "syncopate/driver/driver.h"
#include "syncopate/schedule/schedule_json.h"
#include "tests/support/temporary_folder.h"

namespace syncopate {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kOperator = SYNCOPATE_SOURCE_DIR "/operators/ag_gemm.toml";

std::string error_of(const std::vector<Override>& overrides, const std::string& file = kOperator) {
  try {
    compile_operator(file, overrides);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Bind, ArgumentsAndParameters) {
  EXPECT_THAT(
      error_of({{"kernel.args.BLOCK_L", "4"}}),
      HasSubstr("--set kernel.args.BLOCK_L=4: kernel 'gemm' has no parameter 'BLOCK_L'; did you mean 'BLOCK_M'?"));
  EXPECT_THAT(error_of({{"tensors.b.parameter", "bb_ptr"}}),
              HasSubstr("kernel 'gemm' has no parameter 'bb_ptr'; did you mean 'b_ptr'?"));
  EXPECT_THAT(error_of({{"tensors.b.parameter", "a_ptr"}}), HasSubstr("parameter 'a_ptr' has two tensors"));
  EXPECT_THAT(error_of({{"kernel.args.a_ptr", "4"}}), HasSubstr("parameter 'a_ptr' has a value here and a tensor"));
  EXPECT_THAT(error_of({{"tensors.c.parameter", "K"}}), HasSubstr("parameter 'K' has a value here and a tensor"));
}

TEST(Bind, GridsOfPersistentKernels) {
  EXPECT_THAT(error_of({{"kernel.grid", "5"}}),
              HasSubstr("--set kernel.grid=5: kernel 'gemm' is persistent, and needs no grid; remove it"));
}

TEST(Bind, ArgumentsThatAreZero) {
  EXPECT_THAT(error_of({{"kernel.args.GROUP_M", "0"}}),
              AllOf(HasSubstr("gemm.py:"), HasSubstr("the tile index pid_m is divided by zero (at line "),
                    HasSubstr("; GROUP_M = 0)")));
}

TEST(Bind, DescriptorsThatTritonRefuses) {
  EXPECT_THAT(error_of({{"kernel.args.BLOCK_N", "16"}}),
              HasSubstr(":9: a descriptor's block of 4 bf16 elements in the last dimension; Triton demands at "
                        "least 16 bytes there, 8 elements"));
  EXPECT_THAT(error_of({{"kernel.args.K", "37"}}),
              HasSubstr(":9: a descriptor with a stride of 37 bf16 elements; TMA demands multiples of 16 "
                        "bytes, 8 elements: use other sizes, or pointers"));
  EXPECT_EQ(error_of({{"kernel.args.K", "40"}, {"kernel.args.BLOCK_N", "32"}}), "no error");
}

TEST(Bind, MissingArgument) {
  testing::TemporaryFolder folder;
  const std::string path =
      folder.write("op.toml", "operator = \"x\"\nranks = 1\n[kernel]\nfile = \"" SYNCOPATE_SOURCE_DIR
                              "/kernels/gemm.py\"\nfunction = \"gemm\"\nargs = { M = 64 }\n[tensors.a]\n"
                              "parameter = \"a_ptr\"\nshape = [64, 64]\ndtype = \"bf16\"\n");
  EXPECT_THAT(error_of({}, path),
              HasSubstr("op.toml:3:1: parameter 'b_ptr' of kernel 'gemm' has no value; add it to args, or "
                        "write a tensor with parameter = \"b_ptr\""));
}

TEST(Bind, ShapesThatDisagreeWithTheKernel) {
  const std::string message = error_of({{"tensors.b.shape", "[\"K\", \"N + 1\"]"}});
  EXPECT_THAT(message, HasSubstr("gemm.py:")) << "at the kernel's line";
  EXPECT_THAT(message, HasSubstr("512 x 513"));
  EXPECT_THAT(
      error_of({{"tensors.b.shape", "[\"K - 64\", \"N\"]"}}, SYNCOPATE_SOURCE_DIR "/operators/ag_gemm_pointers.toml"),
      HasSubstr("gemm_pointers.py:"));
}

TEST(Bind, PlacementsThatNothingRealises) {
  EXPECT_THAT(error_of({{"tensors.a.before", "replicate"}, {"tensors.a.inside", "\"partial(sum)\""}}),
              HasSubstr("no collective turns replicate into partial(sum)"));
  EXPECT_THAT(error_of({{"tensors.a.before", "\"partial(sum)\""}, {"tensors.a.inside", "replicate"}}),
              HasSubstr("this loads 'a_ptr', which is a sum over ranks, through a descriptor"));
  EXPECT_THAT(error_of({{"tensors.a.before", "replicate"}, {"tensors.a.inside", "\"shard(0)\""}}),
              HasSubstr("needs no communication"));
  EXPECT_THAT(error_of({{"tensors.a.inside", "\"shard(0)\""}}), HasSubstr("leave its placements out"));
  EXPECT_THAT(
      error_of({{"tensors.c.before", "\"shard(0)\""}, {"tensors.c.inside", "replicate"}}),
      HasSubstr("tensor 'c' has a placement before the kernel, which writes it; an output has 'inside' and 'after'"));
  EXPECT_THAT(error_of({{"communicate.b.split", "2"}}), HasSubstr("tensor 'b' is not communicated"));
}

TEST(Bind, GatheredTensorsMayNotBeReadBeforeTheTiles) {
  testing::TemporaryFolder folder;
  std::string kernel = SourceFile::read(SYNCOPATE_SOURCE_DIR "/kernels/gemm.py")->text();
  const std::string loop = "    for tile in tl.range(";
  const std::size_t at = kernel.find(loop);
  ASSERT_NE(at, std::string::npos);
  // Even a read whose value is not used would run ahead of every wait.
  const auto operator_with = [&](const std::string& line) {
    std::string text = kernel;
    folder.write("kernel.py", text.insert(at, line));
    std::string op = SourceFile::read(kOperator)->text();
    op.replace(op.find("../kernels/gemm.py"), 18, "kernel.py");
    return folder.write("op.toml", op);
  };
  EXPECT_THAT(error_of({}, operator_with("    first = tl.load(a_ptr)\n")),
              HasSubstr("tensor 'a' is gathered while the kernel runs, but this reads it outside the work of a tile"));
  EXPECT_EQ(error_of({}, operator_with("    first = tl.load(b_ptr)\n")), "no error");
}

TEST(Bind, GatheredTensorsAreAddressedByTileIndices) {
  testing::TemporaryFolder folder;
  std::string text = SourceFile::read(SYNCOPATE_SOURCE_DIR "/kernels/gemm.py")->text();
  text.replace(text.find("a.load([row, k"), 14, "a.load([0, k");
  folder.write("kernel.py", text);
  std::string op = SourceFile::read(kOperator)->text();
  op.replace(op.find("../kernels/gemm.py"), 18, "kernel.py");
  EXPECT_THAT(error_of({}, folder.write("op.toml", op)),
              HasSubstr("tensor 'a' is gathered, but which part of it this reads depends on no tile index"));
}

TEST(Bind, OutputsAreOnlyStoredTo) {
  testing::TemporaryFolder folder;
  folder.write("k.py",
               "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x, y, n, B: tl.constexpr):\n"
               "    pid = tl.program_id(0)\n    i = pid * B + tl.arange(0, B)\n"
               "    tl.atomic_add(y + i, tl.load(x + i, mask=i < n), mask=i < n)\n");
  const std::string op = folder.write(
      "op.toml",
      "operator = \"k\"\nranks = 2\n[kernel]\nfile = \"k.py\"\nfunction = \"k\"\nargs = { n = 100, B = 16 }\n"
      "[tensors.x]\nparameter = \"x\"\nshape = [\"n\"]\ndtype = \"fp32\"\nbefore = \"shard(0)\"\ninside = "
      "\"replicate\"\n"
      "[tensors.y]\nparameter = \"y\"\nshape = [\"n\"]\ndtype = \"fp32\"\n");
  EXPECT_THAT(error_of({}, op),
              HasSubstr("k.py:9:5: the kernel both reads and writes tensor 'y'; an output may only be stored to"));
}

TEST(Bind, AStepArgumentDoesNotChangeTheResult) {
  testing::TemporaryFolder folder;
  std::string text = SourceFile::read(SYNCOPATE_SOURCE_DIR "/kernels/gemm.py")->text();
  text.replace(text.find("tl.num_programs(0)"), 18, "NUM_SMS");
  text.replace(text.find("GROUP_M: tl.constexpr"), 21, "GROUP_M: tl.constexpr, NUM_SMS: tl.constexpr");
  folder.write("kernel.py", text);
  std::string op = SourceFile::read(kOperator)->text();
  op.replace(op.find("../kernels/gemm.py"), 18, "kernel.py");
  const Plan plan = compile_operator(folder.write("op.toml", op), {{"kernel.args.NUM_SMS", "132"}});
  EXPECT_EQ(plan.tiles.size(), 32U);
  EXPECT_EQ(std::get<std::int64_t>(plan.kernel.arguments.at("NUM_SMS")), 1) << "the reference is one program";
}

TEST(Bind, SplitLargerThanTheAxis) {
  EXPECT_THAT(error_of({{"communicate.a.split", "300"}}), HasSubstr("--set communicate.a.split=300: "));
  EXPECT_EQ(error_of({{"communicate.a.split", "256"}}), "no error");
}

TEST(Bind, GatherAlongTheOtherDimension) {
  // The kernel reads all of K for every tile, so every tile needs every chunk.
  const Plan plan =
      compile_operator(kOperator, {{"tensors.a.before", "\"shard(1)\""}, {"launch.workers", "1"}, {"ranks", "2"}});
  std::size_t waits = 0;
  for (const Slot& slot : plan.programs[0].slots) waits += slot.waits.size();
  EXPECT_EQ(waits, 1U) << "both chunks come through one queue: the last implies the first";
  EXPECT_EQ(plan.programs[0].slots[0].waits.size(), 1U);
}

const std::string kReducing = SYNCOPATE_SOURCE_DIR "/operators/gemm_rs.toml";

TEST(BindReduced, BuffersAndSums) {
  const Plan plan = compile_operator(kReducing, {{"launch.warps", "8"}, {"launch.stages", "4"}});
  EXPECT_EQ(plan.kernel.warps, 8);
  EXPECT_EQ(plan.kernel.stages, 4);
  ASSERT_EQ(plan.buffers.size(), 4U);
  const Buffer& c = plan.buffers[2];
  EXPECT_TRUE(c.is_reduced());
  EXPECT_FALSE(c.symmetric) << "pushes read it on its own rank only";
  EXPECT_EQ(c.after, Placement::shard(0));
  EXPECT_EQ(reduced_buffer(plan), 2);
  const Buffer& staging = plan.buffers[3];
  EXPECT_EQ(staging.role, BufferRole::staging);
  EXPECT_EQ(staging.partner, 2);
  EXPECT_TRUE(staging.symmetric);
  EXPECT_TRUE(staging.parameter.empty());
  EXPECT_EQ(staging.shape, (Shape{768, 512})) << "three summands of 256 rows";
  EXPECT_EQ(extra_memory(plan).staging, 768 * 512 * 2);
  ASSERT_EQ(plan.sums.size(), 4U);
  EXPECT_EQ(plan.sums[1].region, Region({{256, 512}, {0, 512}}));
  EXPECT_EQ(plan.sums[1].order, (SumOrder{0, {{0, {}}, {1, {}}, {2, {}}, {3, {}}}}));
  EXPECT_EQ(plan.communication, "c: partial(sum) -> shard(0), reduce-scatter, direct, push, split 2");
  EXPECT_TRUE(compile_operator(kReducing, {{"communicate.c.initiator", "pull"}}).buffers[2].symmetric);
}

TEST(BindReduced, RingsNestTheirSums) {
  const Plan plan = compile_operator(kReducing, {{"communicate.c.algorithm", "ring"}});
  ASSERT_EQ(plan.sums.size(), 4U);
  // The sum of rank 1 starts at rank 2 and passes 3 and 0.
  EXPECT_EQ(plan.sums[1].order, (SumOrder{0, {{0, {{0, {}}, {0, {{2, {}}, {3, {}}}}}}, {1, {}}}}));
}

TEST(BindReduced, OneRankAddsNothing) {
  const Plan plan = compile_operator(kReducing, {{"ranks", "1"}});
  ASSERT_EQ(plan.sums.size(), 1U);
  EXPECT_EQ(plan.sums[0].order, (SumOrder{0, {}}));
  EXPECT_EQ(plan.sums[0].region, Region::whole({1024, 512}));
  EXPECT_TRUE(plan.signals.empty());
  for (const Slot& slot : plan.programs[0].slots) EXPECT_TRUE(slot.addends.empty());
}

TEST(BindReduced, MemoryBudgets) {
  const auto staging_rows = [](const std::string& budget, const std::vector<Override>& more = {}) {
    std::vector<Override> all = {{"communicate.c.memory_budget", budget}, {"communicate.c.split", "4"}};
    all.insert(all.end(), more.begin(), more.end());
    return compile_operator(kReducing, all).buffers[3].shape[0];
  };
  // Chunks of 64 rows of 1 KiB, from three peers: 192 KiB at least.
  EXPECT_EQ(staging_rows("10 GiB"), 768);
  EXPECT_EQ(staging_rows("768 KiB"), 768);
  EXPECT_EQ(staging_rows("767 KiB"), 3 * 3 * 64);
  EXPECT_EQ(staging_rows("400KiB"), 3 * 2 * 64);
  EXPECT_EQ(staging_rows(
                "100 KiB",
                {{"communicate.c.algorithm", "ring"}, {"communicate.c.sum", "staging"}, {"kernel.args.BLOCK_M", "64"}}),
            64);
  EXPECT_EQ(
      error_of({{"communicate.c.memory_budget", "196607"}, {"communicate.c.split", "4"}}, kReducing),
      "--set communicate.c.memory_budget=196607: the memory budget is 196607 bytes, but a chunk of 64.00 KiB from "
      "each of 3 peers takes 196608 bytes; at least 196608 bytes, or a larger split");
  EXPECT_EQ(staging_rows("192 KiB", {{"kernel.args.BLOCK_M", "64"}}), 3 * 64);
}

TEST(BindExchanged, WhatCannotBeExchanged) {
  const std::string in = SYNCOPATE_SOURCE_DIR "/operators/a2a_gemm.toml";
  const std::string out = SYNCOPATE_SOURCE_DIR "/operators/gemm_a2a.toml";
  EXPECT_EQ(
      error_of({{"tensors.a.shape", "[\"M\", 1022]"}}, in),
      "--set tensors.a.shape=[\"M\", 1022]: dimension 1 of tensor 'a' is 1022, which 4 ranks cannot share evenly; "
      "the kernel has shard(1) of it, of one shape on all ranks: make it a multiple of 4");
  EXPECT_THAT(error_of({{"tensors.a.shape", "[\"M\", 512]"}}, in),
              HasSubstr("this descriptor of shard(1) of a has shape 1024 x 256"));
  for (const auto& [file, override] : {std::pair(in, Override{"tensors.a.before", "\"shard(1)\""}),
                                       std::pair(in, Override{"tensors.a.inside", "\"shard(0)\""}),
                                       std::pair(out, Override{"tensors.c.after", "\"shard(0)\""})})
    EXPECT_THAT(error_of({override}, file), HasSubstr("nothing changes; state another placement 'before' or 'after'"));
  EXPECT_THAT(error_of({{"tensors.b.inside", "\"shard(0)\""}}, in),
              HasSubstr("tensor 'b' is shard(0) -> shard(0): nothing changes"));
  EXPECT_THAT(error_of({{"tensors.a.after", "\"shard(0)\""}}, in),
              HasSubstr("tensor 'a' has a placement after the kernel, which only reads it"));
  EXPECT_THAT(error_of({{"tensors.c.before", "\"shard(1)\""}}, out),
              HasSubstr("tensor 'c' has a placement before the kernel, which writes it"));
  EXPECT_THAT(error_of({{"communicate.a.algorithm", "ring"}}, in),
              HasSubstr("through rank 1, which has no place for it"));
  EXPECT_THAT(error_of({{"communicate.a.split", "257"}}, in), HasSubstr("257"));
  EXPECT_THAT(error_of({{"communicate.a.memory_budget", "4096"}}, in),
              HasSubstr("tensor 'a' is exchanged and needs no staging"));
}

TEST(BindExchanged, AChunkHasNoPlaceOnARankInBetween) {
  testing::TemporaryFolder folder;
  ScheduleBuilder builder(3);
  const LogicalTensor tensor{"a", {48, 48}, Dtype::bf16, Placement::shard(0), Placement::shard(1)};
  const int a = builder.tensor(tensor);
  for (int from = 0; from < 3; ++from)
    for (int to = 0; to < 3; ++to) {
      if (from == to) continue;
      const int chunk = builder.chunk(a, intersect(held_region(tensor.before, tensor.shape, 3, from),
                                                   held_region(tensor.after, tensor.shape, 3, to)));
      if (from == 0 && to == 2) {
        const Dependency hop = builder.push(0, 1, chunk, chunk);
        builder.push(1, 2, chunk, chunk, {hop});
      } else {
        builder.push(from, to, chunk, chunk);
      }
    }
  const std::string path = folder.write("a.json", to_json(std::move(builder).build()));
  // A schedule file takes the place of the template's options.
  std::string text = read_file(SYNCOPATE_SOURCE_DIR "/operators/a2a_gemm.toml");
  text.replace(text.find("initiator ="), std::string::npos, "schedule = \"" + path + "\"\n");
  text.replace(text.find("../kernels"), 10, SYNCOPATE_SOURCE_DIR "/kernels");
  const std::string file = folder.write("op.toml", text);
  EXPECT_THAT(error_of({{"ranks", "3"}, {"kernel.args.M", "48"}, {"kernel.args.K", "16"}}, file),
              HasSubstr("the schedule takes a[0:16, 32:48] through rank 1, which has no place for it; send every chunk "
                        "from the rank that has it straight to the one that needs it"));
}

TEST(BindReduced, PlacementsOfOutputs) {
  const auto error = [](const std::vector<Override>& overrides) { return error_of(overrides, kReducing); };
  EXPECT_THAT(error({{"tensors.c.after", "\"shard(1)\""}}),
              HasSubstr("tensor 'c': partial(sum) -> shard(1) is not fused yet; after = \"shard(0)\""));
  EXPECT_THAT(error({{"tensors.c.after", "\"partial(sum)\""}}),
              HasSubstr("tensor 'c' is partial(sum) -> partial(sum): nothing changes"));
  EXPECT_THAT(error({{"tensors.c.inside", "replicate"}}), HasSubstr("replicate -> shard(0) needs no communication"));
  EXPECT_THAT(error({{"tensors.c.before", "replicate"}}),
              HasSubstr("--set tensors.c.before=replicate: tensor 'c' has a placement before the kernel"));
  EXPECT_THAT(error({{"tensors.a.after", "\"shard(0)\""}}),
              HasSubstr("tensor 'a' is shard(0) -> shard(0): nothing changes"));
  EXPECT_THAT(error({{"tensors.c.after", "\"shard(2)\""}}),
              HasSubstr("shards dimension 2 of a tensor of 2 dimensions"));
}

TEST(BindReduced, BudgetsAreForReducedOutputsAndGatheredInputs) {
  EXPECT_EQ(error_of({{"communicate.a.memory_budget", "1 MiB"}}), "no error") << "all of it fits";
  EXPECT_THAT(error_of({{"communicate.a.memory_budget", "4 KiB"}}),
              HasSubstr("--set communicate.a.memory_budget=4 KiB: tensor 'a' is gathered, takes 1.00 MiB and cannot be "
                        "bounded to 4.00 KiB"));
  EXPECT_THAT(error_of({{"tensors.a.inside", "\"shard(1)\""},
                        {"tensors.a.shape", "[\"M\", \"K * ranks\"]"},
                        {"communicate.a.memory_budget", "1 MiB"}}),
              HasSubstr("tensor 'a' is exchanged and needs no staging; a memory budget is for outputs that are reduced "
                        "and for inputs that are gathered: remove it"));
}

TEST(BindReduced, TooManyTransfers) {
  EXPECT_THAT(error_of({{"ranks", "256"}, {"communicate.c.split", "1"}}, kReducing),
              HasSubstr("--set communicate.c.split=1: the operator needs 65280 transfers; plans hold at most 40000"));
}

/// Writes copies of one block of x to two outputs.
class TwoOutputs : public ::testing::Test {
 protected:
  std::string error(const std::string& first, const std::string& second, const std::string& rows,
                    const std::string& dtype = "fp32") const {
    folder_.write("k.py",
                  "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x, y, z, n, B: tl.constexpr):\n"
                  "    pid = tl.program_id(0)\n    i = pid * B + tl.arange(0, B)\n    v = tl.load(x + i, mask=i < n)\n"
                  "    tl.store(y + i, v, mask=i < n)\n    tl.store(z + i, v, mask=i < n)\n");
    const auto tensor = [&](const std::string& name, const std::string& placements) {
      return "[tensors." + name + "]\nparameter = \"" + name + "\"\nshape = [\"n\"]\ndtype = \"" + dtype + "\"\n" +
             placements;
    };
    return error_of(
        {}, folder_.write("op.toml",
                          "operator = \"k\"\nranks = 2\n[kernel]\nfile = \"k.py\"\nfunction = "
                          "\"k\"\nargs = { n = " +
                              rows + ", B = 16 }\n" + tensor("x", "") + tensor("y", first) + tensor("z", second)));
  }
  const std::string reduced_ = "inside = \"partial(sum)\"\nafter = \"shard(0)\"\n";
  testing::TemporaryFolder folder_;
};

TEST_F(TwoOutputs, OneMayBeReduced) {
  EXPECT_THAT(error(reduced_, reduced_, "64"), HasSubstr("op.toml:21:10: tensors 'y' and 'z' are both reduced"));
  EXPECT_EQ(error(reduced_, "", "64"), "no error") << "the shards are whole tiles";
  EXPECT_THAT(error(reduced_, "", "80"),
              HasSubstr("op.toml:15:10: a tile stores to rows of 'y' that leave and to rows that stay, so it must run "
                        "twice, but it writes 'z' too"));
}

TEST_F(TwoOutputs, SumsAreOfFloatingPointNumbers) {
  EXPECT_THAT(error(reduced_, "", "64", "int32"), HasSubstr("tensor 'y' is int32, and sums are taken in fp32"));
  EXPECT_THAT(error(reduced_, "", "64", "fp64"), HasSubstr("tensor 'y' is fp64, and sums are taken in fp32"));
  EXPECT_EQ(error(reduced_, "", "64", "fp16"), "no error");
}

class ScheduleFromFile : public ::testing::Test {
 protected:
  Plan plan_with(const Schedule& schedule) const {
    return compile_operator(
        kOperator, {{"communicate", "{a = {schedule = \"" + folder_.write("s.json", to_json(schedule)) + "\"}}"}});
  }
  std::string error_with(const Schedule& schedule) const {
    try {
      plan_with(schedule);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }
  static LogicalTensor tensor() { return {"a", {1024, 512}, Dtype::bf16, Placement::shard(0), Placement::replicate()}; }
  testing::TemporaryFolder folder_;
};

TEST_F(ScheduleFromFile, GivesThePlanOfItsTemplate) {
  const Schedule schedule = all_gather(tensor(), 4, {Algorithm::ring, Initiator::push, 2}, {});
  const Plan from_file = plan_with(schedule);
  const Plan from_template = compile_operator(kOperator, {{"communicate.a.algorithm", "ring"}});
  ASSERT_EQ(from_file.signals.size(), from_template.signals.size());
  for (std::size_t s = 0; s < from_file.signals.size(); ++s)
    EXPECT_EQ(from_file.signals[s].name, from_template.signals[s].name);
  EXPECT_THAT(from_file.communication, HasSubstr("by the schedule s.json"));
}

TEST_F(ScheduleFromFile, MustBeAboutThisOperator) {
  EXPECT_THAT(error_with(all_gather(tensor(), 3, {}, {})),
              HasSubstr("s.json:1:1: a schedule for 3 ranks; the operator has 4"));
  LogicalTensor other = tensor();
  other.name = "z";
  EXPECT_THAT(error_with(all_gather(other, 4, {}, {})), HasSubstr("the schedule is not about the tensor 'a'"));
  other = tensor();
  other.shape = {1024, 256};
  EXPECT_THAT(error_with(all_gather(other, 4, {}, {})), HasSubstr("the schedule is about 1024 x 256 bf16"));
}

TEST_F(ScheduleFromFile, MustGather) {
  Schedule schedule = all_gather(tensor(), 4, {}, {});
  schedule.operators[2].pop_back();
  EXPECT_THAT(error_with(schedule), HasSubstr("s.json"));
}

class ReducingSchedule : public ::testing::Test {
 protected:
  static LogicalTensor tensor() {
    return {"c", {1024, 512}, Dtype::bf16, Placement::partial_sum(), Placement::shard(0)};
  }
  Plan plan_with(const Schedule& schedule) const {
    return compile_operator(
        kReducing, {{"communicate", "{c = {schedule = \"" + folder_.write("s.json", to_json(schedule)) + "\"}}"}});
  }
  std::string error_with(const Schedule& schedule) const {
    try {
      plan_with(schedule);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }
  testing::TemporaryFolder folder_;
};

TEST_F(ReducingSchedule, GivesThePlanOfItsTemplate) {
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::bidirectional_ring}) {
    const Plan from_file = plan_with(reduce_scatter(tensor(), 4, {algorithm, Initiator::push, 2}, {}));
    const Plan from_template =
        compile_operator(kReducing, {{"communicate.c.algorithm", std::string(name_of(algorithm))}});
    ASSERT_EQ(from_file.signals.size(), from_template.signals.size());
    for (std::size_t rank = 0; rank < 4; ++rank)
      EXPECT_EQ(from_file.programs[rank].slots, from_template.programs[rank].slots);
  }
}

TEST_F(ReducingSchedule, AWholeCollectiveIsOpened) {
  ScheduleBuilder builder(4);
  const int c = builder.tensor(tensor());
  Collective reduce;
  reduce.type = CollectiveType::reduce_scatter;
  for (int rank = 0; rank < 4; ++rank) {
    reduce.ranks.push_back(rank);
    reduce.source_chunks.push_back(builder.chunk(c, Region::whole(tensor().shape)));
    reduce.destination_chunks.push_back(builder.chunk(c, held_region(Placement::shard(0), tensor().shape, 4, rank)));
  }
  builder.collective(reduce);
  const Plan plan = plan_with(std::move(builder).build());
  EXPECT_EQ(plan.sums[3].order.terms.size(), 4U);
}

TEST_F(ReducingSchedule, MustReduce) {
  Schedule schedule = reduce_scatter(tensor(), 4, {}, {});
  schedule.operators[2].pop_back();
  EXPECT_THAT(error_with(schedule),
              HasSubstr("rank 1 holds c[256:512, 0:512] with the summands of ranks 0, 1, 3 only"));
}

TEST_F(ReducingSchedule, ABudgetMayBeTooSmallForItsOrder) {
  // One peer's shard after the other: the second chunk for rank r waits until r has added the first of everybody, who
  // wait with theirs.
  const std::string split =
      folder_.write("s.json", to_json(reduce_scatter(tensor(), 4, {Algorithm::direct, Initiator::push, 2}, {})));
  const auto with_budget = [&](const std::string& budget) {
    return error_of({{"communicate", "{c = {schedule = \"" + split + "\", memory_budget = \"" + budget + "\"}}"}},
                    kReducing);
  };
  EXPECT_THAT(
      with_budget("384 KiB"),
      HasSubstr("within a memory budget of 384.00 KiB transfers would wait for each other in a circle; a larger "
                "budget, or a schedule that sends the first chunk to every peer before the second to any"));
  EXPECT_EQ(with_budget("768 KiB"), "no error");
}

TEST_F(ReducingSchedule, EverySummandIsAdded) {
  std::string text = to_json(reduce_scatter(tensor(), 4, {Algorithm::ring, Initiator::push, 1}, {}));
  const std::string reduce = ", \"reduce\": \"sum\"";
  const std::size_t at = text.find(reduce);
  ASSERT_NE(at, std::string::npos) << text;
  text.erase(at, reduce.size());
  EXPECT_THAT(error_of({{"communicate", "{c = {schedule = \"" + folder_.write("s.json", text) + "\"}}"}}, kReducing),
              AllOf(HasSubstr("s.json:"), HasSubstr(": it moves a summand of 'c' without adding it, which is not fused "
                                                    "yet; give it \"reduce\": \"sum\"")));
}

TEST_F(ReducingSchedule, ChunksAreWholeRows) {
  ScheduleBuilder builder(4);
  const int c = builder.tensor(tensor());
  for (int owner = 0; owner < 4; ++owner)
    for (int source = 0; source < 4; ++source)
      for (const std::int64_t half : {0, 1}) {
        if (source == owner) continue;
        const int chunk = builder.chunk(c, {{owner * 256, owner * 256 + 256}, {half * 256, half * 256 + 256}});
        builder.push(source, owner, chunk, chunk, {}, 0, Reduction::sum);
      }
  EXPECT_THAT(error_with(std::move(builder).build()),
              HasSubstr("the chunk c[256:512, 0:256] is not made of whole rows; for example c[256:512, 0:512]"));
}

/// Two ranks with no more than the sums of the shards that they need, and something that rank 0 does first.
TEST(ReducingScheduleOfTwo, WhatCannotBeFused) {
  testing::TemporaryFolder folder;
  const auto error = [&](const Schedule& schedule) {
    return error_of({{"ranks", std::to_string(schedule.ranks())},
                     {"communicate", "{c = {schedule = \"" + folder.write("s.json", to_json(schedule)) + "\"}}"}},
                    kReducing);
  };
  const LogicalTensor tensor{"c", {1024, 512}, Dtype::bf16, Placement::partial_sum(), Placement::shard(0)};
  {
    // Rank 1 takes rank 2's summand in place of its own, which has left for rank 0.
    ScheduleBuilder builder(3);
    const int c = builder.tensor(tensor);
    const auto shard = [&](int rank) {
      return builder.chunk(c, held_region(Placement::shard(0), {1024, 512}, 3, rank));
    };
    const Dependency left = builder.push(1, 0, shard(0), shard(0), {}, 0, Reduction::sum);
    const Dependency moved = builder.push(2, 1, shard(0), shard(0), {left});
    builder.push(1, 0, shard(0), shard(0), {moved}, 0, Reduction::sum);
    for (const int owner : {1, 2})
      for (const int source : {0, 1, 2})
        if (source != owner) builder.push(source, owner, shard(owner), shard(owner), {}, 0, Reduction::sum);
    EXPECT_THAT(error(std::move(builder).build()),
                HasSubstr("it moves a summand of 'c' without adding it, which is not fused yet"));
  }
  {
    // Rank 1 sends its summand of rank 0's shard, and only then adds rank 2's to it; the sum goes nowhere.
    ScheduleBuilder builder(3);
    const int c = builder.tensor(tensor);
    const auto shard = [&](int rank) {
      return builder.chunk(c, held_region(Placement::shard(0), {1024, 512}, 3, rank));
    };
    const Dependency left = builder.push(1, 0, shard(0), shard(0), {}, 0, Reduction::sum);
    builder.push(2, 1, shard(0), shard(0), {left}, 0, Reduction::sum);
    builder.push(2, 0, shard(0), shard(0), {}, 0, Reduction::sum);
    for (const int owner : {1, 2})
      for (const int source : {0, 1, 2})
        if (source != owner) builder.push(source, owner, shard(owner), shard(owner), {}, 0, Reduction::sum);
    EXPECT_THAT(error(std::move(builder).build()),
                HasSubstr("rank 1 sends its rows 0 to 342 of 'c' to rank 0 before it adds those of rank 2"));
  }
}

}  // namespace
}  // namespace syncopate
