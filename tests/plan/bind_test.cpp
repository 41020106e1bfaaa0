// Binding an operator to its kernel: every way in which the two can disagree.
#include "syncopate/plan/bind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/driver/driver.h"
#include "syncopate/schedule/schedule_json.h"
#include "tests/support/temporary_folder.h"

namespace syncopate {
namespace {

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
              HasSubstr("a collective of type all-reduce, which is not fused yet; an all-gather is supported"));
  EXPECT_THAT(error_of({{"tensors.a.before", "replicate"}, {"tensors.a.inside", "\"shard(0)\""}}),
              HasSubstr("needs no communication"));
  EXPECT_THAT(error_of({{"tensors.a.inside", "\"shard(0)\""}}), HasSubstr("leave before and inside out"));
  EXPECT_THAT(error_of({{"tensors.c.before", "\"shard(0)\""}, {"tensors.c.inside", "replicate"}}),
              HasSubstr("tensor 'c' is gathered, but the kernel writes it"));
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
              HasSubstr("tensor 'a' is gathered, but which part of it a tile reads depends on no tile index"));
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
              HasSubstr("op.toml:13:1: the kernel both reads and writes tensor 'y'; an output may only be stored to"));
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

}  // namespace
}  // namespace syncopate
