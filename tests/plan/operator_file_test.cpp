// Operator files: what they mean, and an error at the exact place for everything that is wrong with one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/core/error.h"
#include "syncopate/plan/operator.h"
#include "tests/support/temporary_folder.h"

namespace syncopate {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const char* const kGood = R"toml(operator = "ag"
ranks = 4

[kernel]
file = "../kernels/k.py"
function = "k"
args = { M = 1024, K = 64, alpha = 0.5, flag = true }

[tensors.x]
parameter = "x_ptr"
shape = ["M", "2 * K // ranks"]
dtype = "bf16"
before = "shard(0)"
inside = "replicate"

[tensors.a]
parameter = "a_ptr"
shape = [16, "K"]
dtype = "fp32"

[communicate.x]
algorithm = "ring"
initiator = "pull"
split = 3
)toml";

/// Replaces the first occurrence of `from`.
std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class OperatorFile : public ::testing::Test {
 protected:
  std::string error_of(const std::string& text, const std::vector<Override>& overrides = {}) const {
    const std::string path = folder_.write("op.toml", text);
    try {
      read_operator(path, overrides);
    } catch (const UserError& error) {
      const std::string message = error.what();
      // The folder differs from run to run.
      return message.rfind(path, 0) == 0 ? "op.toml" + message.substr(path.size()) : message;
    }
    return "no error";
  }
  testing::TemporaryFolder folder_;
};

TEST_F(OperatorFile, MeansWhatItSays) {
  const OperatorStatement op = read_operator(folder_.write("op.toml", kGood));
  EXPECT_EQ(op.name, "ag");
  EXPECT_EQ(op.ranks, 4);
  EXPECT_EQ(op.workers, 132);
  EXPECT_EQ(op.kernel_file, std::filesystem::path(folder_.path("../kernels/k.py")).lexically_normal().string());
  EXPECT_EQ(std::get<std::int64_t>(op.arguments.at("M")), 1024);
  EXPECT_EQ(std::get<double>(op.arguments.at("alpha")), 0.5);
  EXPECT_TRUE(std::get<bool>(op.arguments.at("flag")));
  ASSERT_EQ(op.tensors.size(), 2U);
  EXPECT_EQ(op.tensors[0].name, "x") << "the order of the file, not of the alphabet";
  EXPECT_EQ(op.tensors[0].shape, (Shape{1024, 32}));
  EXPECT_EQ(op.tensors[0].before, Placement::shard(0));
  EXPECT_EQ(op.tensors[0].inside, Placement::replicate());
  EXPECT_EQ(op.tensors[1].dtype, Dtype::fp32);
  EXPECT_EQ(op.tensors[1].before, op.tensors[1].inside);
  ASSERT_EQ(op.communications.size(), 1U);
  EXPECT_EQ(op.communications[0].options.algorithm, Algorithm::ring);
  EXPECT_EQ(op.communications[0].options.initiator, Initiator::pull);
  EXPECT_EQ(op.communications[0].options.split, 3);
}

TEST_F(OperatorFile, OverridesComeFirst) {
  const std::string path = folder_.write("op.toml", kGood);
  const OperatorStatement op = read_operator(path, {{"ranks", "8"},
                                                    {"kernel.args.M", "2048"},
                                                    {"communicate.x.algorithm", "direct"},
                                                    {"communicate.x.initiator", "\"push\""},
                                                    {"launch.workers", "7"}});
  EXPECT_EQ(op.ranks, 8);
  EXPECT_EQ(op.tensors[0].shape, (Shape{2048, 16})) << "shapes follow the overridden sizes";
  EXPECT_EQ(op.communications[0].options.algorithm, Algorithm::direct);
  EXPECT_EQ(op.communications[0].options.initiator, Initiator::push);
  EXPECT_EQ(op.workers, 7) << "an override may add a table";
}

TEST_F(OperatorFile, MistakesOfOverridesAreShownThere) {
  EXPECT_EQ(error_of(kGood, {{"kernel.args.M", "0"}}),
            "--set kernel.args.M=0: 'shape' of [tensors.x] has a size of 0; sizes are at least 1");
  EXPECT_EQ(
      error_of(kGood, {{"kernel.args.K", "9223372036854775807"}}),
      "--set kernel.args.K=9223372036854775807: in the expression '2 * K // ranks': the result does not fit in 64 "
      "bits; use smaller sizes");
  EXPECT_EQ(error_of(kGood, {{"ranks", "1000"}}),
            "--set ranks=1000: 'shape' of [tensors.x] has a size of 0; sizes are at least 1");
  EXPECT_EQ(error_of(replaced("2 * K // ranks", "2 * Q // ranks"), {{"ranks", "8"}}).substr(0, 31),
            "op.toml:11:20: in the expressio")
      << "the text itself is wrong";
  EXPECT_EQ(error_of(replaced("M = 1024", "M = 0"), {{"kernel.args.K", "64"}}),
            "op.toml:11:10: 'shape' of [tensors.x] has a size of 0; sizes are at least 1");
}

TEST_F(OperatorFile, NumbersThatPlansCannotHold) {
  EXPECT_EQ(error_of(kGood, {{"kernel.args.M", "9223372036854775808"}}),
            "--set kernel.args.M=9223372036854775808: this does not fit in 64 bits; a number below 2^63");
  EXPECT_EQ(error_of(kGood, {{"kernel.args.M", "-99999999999999999999"}}),
            "--set kernel.args.M=-99999999999999999999: this does not fit in 64 bits; a number below 2^63");
  EXPECT_THAT(error_of(replaced("M = 1024", "M = 99999999999999999999")), StartsWith("op.toml:7:"));
  EXPECT_EQ(error_of(replaced("alpha = 0.5", "alpha = nan")),
            "op.toml:7:36: argument 'alpha' is nan; plans hold finite numbers");
  EXPECT_EQ(error_of(kGood, {{"kernel.args.alpha", "-inf"}}),
            "--set kernel.args.alpha=-inf: argument 'alpha' is -inf; plans hold finite numbers");
  EXPECT_EQ(error_of(kGood, {{"kernel.grid", "2000000"}}),
            "--set kernel.grid=2000000: 'grid' of [kernel] is 2000000; from 1 to 1048576 programs");
}

TEST_F(OperatorFile, NodesAndShares) {
  const std::string path = folder_.write("op.toml", kGood);
  const OperatorStatement nodes =
      read_operator(path, {{"communicate.x.algorithm", "hierarchical"}, {"communicate.x.ranks_per_node", "2"}});
  EXPECT_EQ(nodes.communications[0].options.algorithm, Algorithm::hierarchical);
  EXPECT_EQ(nodes.communications[0].options.ranks_per_node, 2);
  const OperatorStatement shares =
      read_operator(path, {{"communicate.x.algorithm", "interleaved"}, {"communicate.x.shares", "\"3:1\""}});
  EXPECT_EQ(shares.communications[0].options.shares, (std::array<int, 2>{3, 1}));
  EXPECT_EQ(
      read_operator(path, {{"communicate.x.algorithm", "recursive_doubling"}}).communications[0].options.algorithm,
      Algorithm::recursive);
  EXPECT_EQ(
      error_of(replaced("split = 3", "shares = \"3\"")),
      "op.toml:24:10: 'shares' of [communicate.x] is '3'; chunks by port 0 and chunks by port 1, such as \"3:1\"");
  EXPECT_THAT(error_of(replaced("split = 3", "ranks_per_node = 0")),
              StartsWith("op.toml:24:18: 'ranks_per_node' of [communicate.x] is 0"));
}

TEST_F(OperatorFile, OverrideErrorsNameTheOverride) {
  EXPECT_EQ(error_of(kGood, {{"rankz", "8"}}),
            "--set rankz=8: unknown key 'rankz' in the operator file; did you mean 'ranks'? known: operator, ranks, "
            "kernel, launch, tensors, communicate");
  EXPECT_THAT(error_of(kGood, {{"ranks", "many"}}), StartsWith("--set ranks=many: 'ranks' is a string"));
  EXPECT_THAT(error_of(kGood, {{"ranks", "0"}}), StartsWith("--set ranks=0: 'ranks' is 0; it must be from 1 to"));
  EXPECT_THAT(error_of(kGood, {{"ranks.x", "1"}}), HasSubstr("'x' is below a value"));
  EXPECT_THAT(error_of(kGood, {{"kernel..x", "1"}}), HasSubstr("the key has an empty part"));
}

TEST_F(OperatorFile, MissingFile) {
  try {
    read_operator(folder_.path("none.toml"));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("none.toml: no such file"));
  }
}

TEST_F(OperatorFile, SyntaxErrors) {
  EXPECT_THAT(error_of(replaced("ranks = 4", "ranks = = 4")), StartsWith("op.toml:2:9: not valid TOML"));
  EXPECT_THAT(error_of(replaced("\"ag\"", "\"ag")), StartsWith("op.toml:1:"));
  EXPECT_THAT(error_of(replaced("ranks = 4", "ranks = 4\nranks = 5")), StartsWith("op.toml:3:"));
}

TEST_F(OperatorFile, WrongValuesAreFoundWhereTheyStand) {
  EXPECT_EQ(error_of(replaced("ranks = 4", "ranks = \"4\"")),
            "op.toml:2:9: 'ranks' is a string; it must be an integer");
  EXPECT_THAT(error_of(replaced("ranks = 4", "ranks = 100000")), StartsWith("op.toml:2:9: 'ranks' is 100000"));
  EXPECT_THAT(error_of(replaced("split = 3", "splt = 3")),
              StartsWith("op.toml:24:1: unknown key 'splt' in [communicate.x]; did you mean 'split'?"));
  EXPECT_THAT(error_of(replaced("\"ring\"", "\"rings\"")),
              StartsWith("op.toml:22:13: unknown algorithm 'rings'; did you mean 'ring'?"));
  EXPECT_THAT(error_of(replaced("\"pull\"", "\"poll\"")), StartsWith("op.toml:23:13: unknown initiator 'poll'"));
  EXPECT_THAT(error_of(replaced("split = 3", "split = 0")),
              StartsWith("op.toml:24:9: 'split' of [communicate.x] is 0"));
  EXPECT_THAT(error_of(replaced("\"bf16\"", "\"bf17\"")),
              StartsWith("op.toml:12:9: unknown dtype 'bf17'; known: bool"));
  EXPECT_THAT(error_of(replaced("shard(0)", "sharded")),
              StartsWith("op.toml:13:10: 'before' of [tensors.x] is 'sharded'"));
  EXPECT_THAT(error_of(replaced("shard(0)", "shard(2)")), HasSubstr("shards dimension 2 of a tensor of 2 dimensions"));
  EXPECT_THAT(error_of(replaced("\"2 * K // ranks\"", "\"2 * Q\"")),
              StartsWith("op.toml:11:20: in the expression '2 * Q': unknown name 'Q'"));
  EXPECT_EQ(error_of(replaced("\"2 * K // ranks\"", "\"2 * alpha\"")),
            "op.toml:11:20: in the expression '2 * alpha': 'alpha' is 0.5, not an integer; sizes are integers");
  EXPECT_THAT(error_of(kGood, {{"kernel.args.K", "3.5"}}), HasSubstr("'K' is 3.5, not an integer"));
  EXPECT_THAT(error_of(kGood, {{"kernel.args.K", "true"}}), HasSubstr("'K' is true, not an integer"));
  EXPECT_THAT(error_of(replaced("\"2 * K // ranks\"", "\"K - 64\"")), HasSubstr("has a size of 0"));
  EXPECT_THAT(error_of(kGood, {{"kernel.args.M", "9223372036854775807"}}),
              HasSubstr("a tensor of more than 2^48 elements"));
  EXPECT_THAT(error_of(replaced("[16, \"K\"]", "[]")), HasSubstr("is not a list of 1 to 5 sizes"));
  EXPECT_THAT(error_of(replaced("alpha = 0.5", "alpha = \"half\"")),
              StartsWith("op.toml:7:37: in the expression 'half': unknown name 'half'"));
  EXPECT_THAT(error_of(replaced("alpha = 0.5", "alpha = [0.5]")),
              StartsWith("op.toml:7:36: argument 'alpha' is not a number"));
  EXPECT_THAT(error_of(replaced("alpha = 0.5", "alpha = 1979-05-27")), HasSubstr("dates and times mean nothing here"));
  EXPECT_THAT(error_of(replaced("[communicate.x]", "[communicate.y]")),
              StartsWith("op.toml:21:14: [communicate.y] names no tensor; did you mean 'x'?"));
  EXPECT_THAT(error_of(replaced("split = 3", "schedule = \"s.json\"")),
              HasSubstr("names a schedule file and a template's option"));
}

TEST_F(OperatorFile, ArgumentsMayBeExpressions) {
  // Of each other, in any order; K is the same on all ranks, first and last are not.
  const OperatorStatement op = read_operator(folder_.write(
      "op.toml", replaced("K = 64, alpha = 0.5",
                          "last = \"first + K - 1\", first = \"rank * K\", K = \"M // ranks // 4\", alpha = 0.5")));
  EXPECT_EQ(op.arguments.at("K"), Scalar(std::int64_t{64}));
  EXPECT_FALSE(op.arguments.contains("first"));
  ASSERT_EQ(op.rank_arguments.size(), 4U);
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(op.rank_arguments[static_cast<std::size_t>(rank)],
              (ScalarArguments{{"first", std::int64_t{64} * rank}, {"last", std::int64_t{64} * rank + 63}}));
  EXPECT_EQ(op.tensors[0].shape, (Shape{1024, 32})) << "sizes of arguments that are expressions";
  EXPECT_EQ(op.argument_where.at("first").line, 7);
  EXPECT_TRUE(
      read_operator(folder_.write("op.toml", replaced("K = 64", "K = \"64 + rank * 0\""))).rank_arguments.empty());
  EXPECT_TRUE(read_operator(folder_.write("op.toml", replaced("K = 64", "K = 64, r = \"rank\"")), {{"ranks", "1"}})
                  .rank_arguments.empty());
}

TEST_F(OperatorFile, WhatDiffersByRankIsNoSize) {
  EXPECT_EQ(
      error_of(replaced("K = 64", "K = \"64 + rank\"")),
      "op.toml:11:15: 'shape' of [tensors.x] is \"2 * K // ranks\", and 'K' differs by rank; an expression that is the "
      "same on all ranks");
  EXPECT_EQ(
      error_of(replaced("[16, \"K\"]", "[16, \"K + rank\"]")),
      "op.toml:18:14: 'shape' of [tensors.a] is \"K + rank\", and 'rank' differs by rank; an expression that is the "
      "same on all ranks");
  EXPECT_THAT(error_of(replaced("function = \"k\"", "function = \"k\"\ngrid = \"rank + 1\"")),
              HasSubstr("'grid' of [kernel] is \"rank + 1\", and 'rank' differs by rank"));
  EXPECT_THAT(error_of(replaced("K = 64", "K = \"L\", L = \"K\"")), HasSubstr("argument 'K' depends on itself: \"L\""));
  EXPECT_THAT(error_of(replaced("K = 64", "K = \"rank //\"")), HasSubstr("a number or a name is missing"));
  EXPECT_THAT(error_of(replaced("K = 64", "K = \"2 * flag\"")), HasSubstr("'flag' is true, not an integer"));
}

TEST_F(OperatorFile, ValuesOfIntegers) {
  std::string text = replaced("dtype = \"fp32\"", "dtype = \"int32\"\nvalues = [\"rank * 10\", \"rank * 10 + M\"]");
  const OperatorStatement op = read_operator(folder_.write("op.toml", text));
  const auto a =
      std::find_if(op.tensors.begin(), op.tensors.end(), [](const TensorStatement& t) { return t.name == "a"; });
  ASSERT_EQ(a->values.size(), static_cast<std::size_t>(op.ranks));
  const std::int64_t m = std::get<std::int64_t>(op.arguments.at("M"));
  EXPECT_EQ(a->values[0], (Range{0, m}));
  EXPECT_EQ(a->values[3], (Range{30, 30 + m}));
  const auto error = [&](const char* dtype, const char* values) {
    return error_of(replaced("dtype = \"fp32\"", fmt::format("dtype = \"{}\"\nvalues = {}", dtype, values)));
  };
  EXPECT_THAT(error("fp32", "[0, 1]"), HasSubstr("[tensors.a] has values for fp32"));
  EXPECT_THAT(error("int32", "[0, 1, 2]"), HasSubstr("'values' of [tensors.a] is not a pair"));
  EXPECT_THAT(error("int32", "[1, 1]"), HasSubstr("goes from 1 to below 1"));
  EXPECT_THAT(error("int8", "[0, 129]"), HasSubstr("at least one value of int8"));
  EXPECT_THAT(error("uint8", "[-1, 1]"), HasSubstr("goes from -1 to below 1"));
  EXPECT_THAT(error("int32", "[0, \"Q\"]"), HasSubstr("unknown name 'Q'"));
}

TEST_F(OperatorFile, MissingKeysSayWhatToAdd) {
  EXPECT_EQ(error_of(replaced("function = \"k\"\n", "")),
            "op.toml:4:1: [kernel] has no 'function'; add function = \"name of the @triton.jit function\"");
  EXPECT_THAT(error_of(replaced("ranks = 4\n", "")), StartsWith("op.toml:1:1: the operator file has no 'ranks'"));
  EXPECT_THAT(error_of(replaced("dtype = \"fp32\"\n", "")), StartsWith("op.toml:16:1: [tensors.a] has no 'dtype'"));
}

TEST_F(OperatorFile, GridMayBeAnExpression) {
  const OperatorStatement op = read_operator(
      folder_.write("op.toml", replaced("function = \"k\"", "function = \"k\"\ngrid = \"cdiv(M, 100)\"")));
  EXPECT_EQ(op.grid, 11);
}

TEST_F(OperatorFile, PlacementsOfAnOutput) {
  const OperatorStatement op = read_operator(folder_.write(
      "op.toml",
      replaced("dtype = \"fp32\"\n", "dtype = \"fp32\"\ninside = \"partial(sum)\"\nafter = \"shard(0)\"\n")));
  const TensorStatement& x = op.tensors[0];
  EXPECT_TRUE(x.states_before);
  EXPECT_FALSE(x.states_after);
  EXPECT_EQ(x.after, x.inside);
  const TensorStatement& a = op.tensors[1];
  EXPECT_FALSE(a.states_before);
  EXPECT_TRUE(a.states_after);
  EXPECT_EQ(a.inside, Placement::partial_sum());
  EXPECT_EQ(a.before, a.inside);
  EXPECT_EQ(a.after, Placement::shard(0));
  EXPECT_EQ(a.after_where.line, 21);
  EXPECT_EQ(a.after_where.column, 9);
  EXPECT_EQ(a.placement_where.line, 20);
  EXPECT_THAT(error_of(replaced("dtype = \"fp32\"\n", "dtype = \"fp32\"\nafter = \"shard\"\n")),
              StartsWith("op.toml:20:9: 'after' of [tensors.a] is 'shard'"));
}

TEST_F(OperatorFile, LaunchSettings) {
  const std::string path = folder_.write("op.toml", kGood);
  const OperatorStatement plain = read_operator(path);
  EXPECT_EQ(plain.warps, 4);
  EXPECT_EQ(plain.stages, 3);
  const OperatorStatement op = read_operator(path, {{"launch.warps", "16"}, {"launch.stages", "5"}});
  EXPECT_EQ(op.warps, 16);
  EXPECT_EQ(op.stages, 5);
  EXPECT_EQ(error_of(kGood, {{"launch.warps", "6"}}),
            "--set launch.warps=6: 'warps' of [launch] is 6; a power of two up to 32");
  EXPECT_THAT(error_of(kGood, {{"launch.warps", "64"}}),
              HasSubstr("'warps' of [launch] is 64; it must be from 1 to 32"));
  EXPECT_THAT(error_of(kGood, {{"launch.stages", "0"}}), HasSubstr("'stages' of [launch] is 0"));
}

TEST_F(OperatorFile, OrdersOfTiles) {
  const std::string path = folder_.write("op.toml", kGood);
  EXPECT_EQ(read_operator(path).lookahead, 0);
  EXPECT_EQ(read_operator(path, {{"launch.order", "static"}}).lookahead, 0);
  const OperatorStatement dynamic = read_operator(path, {{"launch.order", "dynamic"}});
  EXPECT_EQ(dynamic.lookahead, 32);
  EXPECT_EQ(dynamic.order_where.file, "--set launch.order=dynamic");
  EXPECT_EQ(read_operator(path, {{"launch.order", "dynamic"}, {"launch.lookahead", "3"}}).lookahead, 3);
  EXPECT_THAT(error_of(kGood, {{"launch.order", "dynamik"}}),
              StartsWith("--set launch.order=dynamik: unknown order of tiles 'dynamik'; "));
  EXPECT_EQ(error_of(kGood, {{"launch.order", "1"}}),
            "--set launch.order=1: 'order' of [launch] is an integer; it must be a string");
  EXPECT_EQ(
      error_of(kGood, {{"launch.lookahead", "3"}}),
      "--set launch.lookahead=3: [launch] has a 'lookahead', but workers do not choose among tiles; remove it, or "
      "add order = \"dynamic\"");
  for (const char* wrong : {"0", "33"})
    EXPECT_THAT(error_of(kGood, {{"launch.order", "dynamic"}, {"launch.lookahead", wrong}}),
                HasSubstr("it must be from 1 to 32"));
}

TEST_F(OperatorFile, MemoryBudgets) {
  const std::string path = folder_.write("op.toml", kGood);
  const auto budget = [&](const std::string& text) {
    return read_operator(path, {{"communicate.x.memory_budget", text}}).communications[0].memory_budget;
  };
  EXPECT_EQ(read_operator(path).communications[0].memory_budget, std::nullopt);
  EXPECT_EQ(budget("12345"), 12345);
  EXPECT_EQ(budget("\"7 B\""), 7);
  EXPECT_EQ(budget("\"3 KiB\""), 3 << 10);
  EXPECT_EQ(budget("64 MiB"), 64 << 20) << "a bare word is text";
  EXPECT_EQ(budget("64MiB"), 64 << 20);
  EXPECT_EQ(budget("\"5 GiB\""), std::int64_t{5} << 30);
  for (const char* wrong : {"\"\"", "\"MiB\"", "64 MB", "1.5", "\"1.5 MiB\"", "true", "\"64  MiB\"", "\"64 MiB \""})
    EXPECT_THAT(
        error_of(kGood, {{"communicate.x.memory_budget", wrong}}),
        HasSubstr("'memory_budget' of [communicate.x] is not a number of bytes; an integer, or text with a unit"))
        << wrong;
  for (const char* wrong : {"0", "-5", "\"0 KiB\"", "300000 GiB", "281474976710657"})
    EXPECT_THAT(error_of(kGood, {{"communicate.x.memory_budget", wrong}}), HasSubstr("from 1 byte to 2^48 bytes"))
        << wrong;
}

}  // namespace
}  // namespace syncopate
