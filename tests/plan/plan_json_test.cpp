// Plans as files: the same bytes every time, read back the same, and no damage goes unnoticed.
#include "syncopate/plan/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/driver/driver.h"

namespace syncopate {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

const std::string kOperator = SYNCOPATE_SOURCE_DIR "/operators/ag_gemm.toml";

std::string small_plan() { return to_json(compile_operator(kOperator, {{"ranks", "2"}, {"kernel.args.M", "256"}})); }

std::string error_of(const std::string& text, bool check_hash = true) {
  const SourceFile file("plan.json", text);
  try {
    parse_plan(file, check_hash);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PlanJson, SameOperatorSameBytes) { EXPECT_EQ(small_plan(), small_plan()); }

TEST(PlanJson, ReadBackTheSame) {
  for (const char* file : {"ag_gemm", "ag_gemm_pointers", "ag_gemm_split_helper", "ag_gemm_k", "attention_sp",
                           "attention_sp_causal", "attention_sp_zigzag", "gemm_ar", "a2a_gemm", "gemm_a2a",
                           "a2a_gemm_rs", "embedding_rs", "grouped_gemm_rs", "rms_norm_ar", "rms_norm_rs"}) {
    const std::string text =
        to_json(compile_operator(std::string(SYNCOPATE_SOURCE_DIR "/operators/") + file + ".toml"));
    EXPECT_EQ(to_json(parse_plan(SourceFile("plan.json", text))), text) << file;
  }
}

TEST(PlanJson, ArgumentsOfRanksAndZigzagAreChecked) {
  const std::string text = to_json(compile_operator(SYNCOPATE_SOURCE_DIR "/operators/attention_sp_zigzag.toml",
                                                    {{"ranks", "2"}, {"kernel.args.KV_LENGTH", "64"}}));
  const std::string first = "{\"q_second\": 48, \"q_start\": 0}";
  ASSERT_THAT(text, HasSubstr("\"rank_arguments\": [" + first));
  const auto error = [&](const std::string& from, const std::string& to) {
    return error_of(replaced(text, from, to), false);
  };
  EXPECT_THAT(error(first + ", ", ""), HasSubstr("'rank_arguments' has 1 part; it must have 2"));
  EXPECT_THAT(error(first, "{\"q_second\": 48}"), HasSubstr("ranks have different arguments of their own"));
  EXPECT_THAT(error(first, "{\"q_second\": 48, \"q_start\": 0.5}"), HasSubstr("ranks have different arguments"));
  EXPECT_THAT(error(first, "{}"), HasSubstr("ranks have different arguments"));
  EXPECT_THAT(error(first, "{\"q_second\": 48, \"q_start\": \"0\"}"), HasSubstr("argument 'q_start' is not a number"));
  EXPECT_THAT(error("\"HEADS\": 4", "\"q_start\": 4"), HasSubstr("argument 'q_start' is one of all ranks, too"));
  EXPECT_THAT(error("\"before\": \"zigzag(0)\"", "\"before\": \"zigzag(2)\""),
              HasSubstr("'zigzag(2)' of a tensor of 2"));
  EXPECT_THAT(error("\"after\": \"replicate\"", "\"after\": \"zigzag(0)\""),
              HasSubstr("zigzag is how ranks hold what"));
  const std::string stretches = "[[[0, 16], [0, 32]], [[48, 64], [0, 32]]]";
  EXPECT_THAT(error(stretches, "[[[0, 16], [0, 33]], [[48, 64], [0, 32]]]"),
              HasSubstr("the range 0:33 is not in dimension 1 of k"));
  EXPECT_THAT(error(stretches, "[]"), HasSubstr("a region has 0 parts"));
}

TEST(PlanJson, OneShotSumsAreReadBackTheSame) {
  for (const char* initiator : {"push", "pull"}) {
    const Plan plan =
        compile_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_ar.toml",
                         {{"communicate.c.algorithm", "one_shot"}, {"communicate.c.initiator", initiator}});
    const std::string text = to_json(plan);
    const Plan back = parse_plan(SourceFile("plan.json", text));
    EXPECT_EQ(to_json(back), text);
    EXPECT_EQ(back.programs[3].additions, plan.programs[3].additions);
    EXPECT_TRUE(back.buffers[2].summed_apart);
  }
  // Plans that have none say nothing of it.
  const std::string other = to_json(compile_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_ar.toml"));
  for (const char* word : {"additions", "summed_apart"}) EXPECT_EQ(other.find(word), std::string::npos) << word;
}

TEST(PlanJson, ReducedOutputsAreReadBackTheSame) {
  for (const char* file : {"gemm_rs", "gemm_rs_pointers"})
    for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
      for (const char* budget : {"1 GiB", "400 KiB"}) {
        const Plan plan = compile_operator(std::string(SYNCOPATE_SOURCE_DIR "/operators/") + file + ".toml",
                                           {{"communicate.c.algorithm", algorithm},
                                            {"communicate.c.memory_budget", budget},
                                            {"kernel.args.M", "1000"},
                                            {"launch.warps", "8"},
                                            {"launch.stages", "5"}});
        const std::string text = to_json(plan);
        const Plan back = parse_plan(SourceFile("plan.json", text));
        EXPECT_EQ(to_json(back), text) << file << ' ' << algorithm << ' ' << budget;
        EXPECT_EQ(back.kernel.warps, 8);
        EXPECT_EQ(back.kernel.stages, 5);
        ASSERT_EQ(back.sums.size(), plan.sums.size());
        for (std::size_t s = 0; s < plan.sums.size(); ++s) EXPECT_EQ(back.sums[s].order, plan.sums[s].order);
        for (std::size_t rank = 0; rank < plan.programs.size(); ++rank)
          EXPECT_EQ(back.programs[rank].slots, plan.programs[rank].slots);
      }
}

TEST(PlanJson, WindowsAreChecked) {
  const std::string text = to_json(compile_operator(SYNCOPATE_SOURCE_DIR "/operators/a2a_gemm.toml", {{"ranks", "2"}}));
  const std::string callers = "\"window\": [[[0, 512], [0, 512]], [[512, 1024], [0, 512]]]";
  const auto error = [&](const std::string& from, const std::string& to) {
    return error_of(replaced(text, from, to), false);
  };
  EXPECT_THAT(error(callers, "\"window\": [[[0, 513], [0, 512]], [[513, 1024], [0, 512]]]"),
              HasSubstr("buffer 'a' shows [0:513, 0:512] of its tensor; no more than its own size, 512 x 512"));
  EXPECT_THAT(
      error(callers, "\"window\": [[[0, 512], [0, 512]], [[9512, 10024], [0, 512]]]"),
      HasSubstr("the windows of buffer 'a' leave parts of a tensor 10024 x 512 out; together they show all of it"));
  EXPECT_THAT(error(callers, "\"window\": [[[0, 512], [0, 512]], [[512, 1024], [0, 511]]]"), "no error");
  EXPECT_THAT(error(callers, "\"window\": [[[0, 512], [0, 511]], [[512, 1024], [0, 511]]]"),
              HasSubstr("buffers 'a' and 'a_inside' show different tensors; both show parts of one"));
  EXPECT_THAT(error(callers, "\"window\": []"), HasSubstr("buffers 'a' and 'a_inside' show different tensors"));
  EXPECT_THAT(error("\"partner\": 0", "\"partner\": 1"),
              HasSubstr("buffer 'a' cannot be the source buffer of buffer 1"));
  EXPECT_THAT(error("\"role\": \"source\"", "\"role\": \"result\""), HasSubstr("buffer 'a'"));
}

TEST(PlanJson, SumsAreChecked) {
  const std::string text = to_json(compile_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_rs_pointers.toml",
                                                    {{"ranks", "2"}, {"kernel.args.M", "100"}}));
  EXPECT_THAT(error_of(replaced(text, "\"partner\": 2", "\"partner\": 1"), false),
              HasSubstr("buffer 'c_staging' cannot be the staging buffer of buffer 1"));
  EXPECT_THAT(error_of(replaced(text, "\"own_place\": 0", "\"own_place\": 3"), false),
              HasSubstr("'own_place' is 3; it must be from 0 to"));
  EXPECT_THAT(error_of(replaced(text, "\"order\": [0, 1]", "\"order\": [0, 2]"), false),
              HasSubstr("the summand's rank is 2; it must be from 0 to 1"));
  EXPECT_THAT(error_of(replaced(text, "\"order\": [0, 1]", "\"order\": []"), false),
              HasSubstr("a sum without terms, or nested too deeply"));
}

TEST(PlanJson, TruncationAnywhereIsAnError) {
  const std::string text = small_plan();
  for (std::size_t length = 0; length + 2 < text.size(); length += text.size() / 97 + 1)
    EXPECT_THAT(error_of(text.substr(0, length)), StartsWith("plan.json:")) << length;
}

TEST(PlanJson, WrongVersion) {
  EXPECT_EQ(error_of(replaced(small_plan(), "\"syncopate_plan\": 5", "\"syncopate_plan\": 7")),
            "plan.json:2:21: this plan is of version 7; this Syncopate reads version 5: compile the operator again");
}

TEST(PlanJson, GridsThatNothingIsLaunchedWith) {
  const std::string text = small_plan();
  const std::string grid = "\"grid\": [1]";
  EXPECT_THAT(error_of(replaced(text, grid, "\"grid\": []"), false), HasSubstr("a grid of 0 axes; it has 1 to 3"));
  EXPECT_THAT(error_of(replaced(text, grid, "\"grid\": [1, 1, 1, 1]"), false), HasSubstr("a grid of 4 axes"));
  EXPECT_THAT(error_of(replaced(text, grid, "\"grid\": [0]"), false), HasSubstr("a number of programs is 0"));
  EXPECT_THAT(error_of(replaced(text, grid, "\"grid\": [1, 2]"), false),
              HasSubstr("a grid of 2 programs; one program of a persistent kernel walks all tiles"));
  const std::string per_tile = replaced(text, "\"persistent\": true", "\"persistent\": false");
  EXPECT_EQ(error_of(replaced(per_tile, grid, "\"grid\": [1024, 2, 512]"), false), "no error");
  EXPECT_THAT(error_of(replaced(per_tile, grid, "\"grid\": [1024, 1048576, 1048576]"), false),
              HasSubstr("a grid of 1125899906842624 programs; it has 1048576 at most"));
}

TEST(PlanJson, EditsAreNoticed) {
  const std::string text = small_plan();
  EXPECT_THAT(error_of(replaced(text, "\"ranks\": 2", "\"ranks\": 1")), StartsWith("plan.json:"));
  EXPECT_THAT(error_of(replaced(text, "\"workers\": 8", "\"workers\": 7")),
              HasSubstr("the plan does not have this hash: it was edited or damaged; compile again; `syncopate verify` "
                        "looks at it as it is"));
  EXPECT_THAT(error_of(replaced(text, "\"hash\": \"", "\"hash\": \"0")), HasSubstr("does not have this hash"));
  EXPECT_THAT(error_of(replaced(text, "while", "whilst"), false),
              HasSubstr("the fused kernel's text does not have this hash"));
}

TEST(PlanJson, IndicesAreChecked) {
  const std::string text = small_plan();
  EXPECT_THAT(error_of(replaced(text, "\"home\": 0", "\"home\": 2"), false),
              HasSubstr("the signal's home is 2; it must be from 0 to 1"));
  EXPECT_THAT(error_of(replaced(text, "\"engine\": \"copy_engine\"", "\"engine\": \"copy\""), false),
              HasSubstr("unknown engine 'copy'"));
  EXPECT_THAT(error_of(replaced(text, "\"buffer\": 0", "\"buffer\": 3"), false), HasSubstr("the view's buffer is 3"));
  EXPECT_THAT(error_of(replaced(text, "\"per_launch\": 1", "\"per_launch\": 0"), false),
              HasSubstr("'per_launch' is 0"));
  EXPECT_THAT(error_of(replaced(text, "\"purpose\"", "\"porpoise\""), false), HasSubstr("has no 'purpose'"));
  EXPECT_THAT(error_of(replaced(text, "\"workers\": 8", "\"workers\": 9"), false),
              HasSubstr("9 workers for at most 8 slots; no more workers than slots"));
  EXPECT_THAT(error_of("{}"), HasSubstr("the plan has no 'syncopate_plan'"));
  EXPECT_THAT(error_of("[]"), HasSubstr("the plan is an array; it must be an object"));
}

/// Each with its place: "plan.json:LINE:COLUMN: ...".
TEST(PlanJson, WhatConsumersRelyOnIsChecked) {
  const std::string text = small_plan();
  const auto error = [&](const std::string& from, const std::string& to) {
    const std::string found = error_of(replaced(text, from, to), false);
    EXPECT_THAT(found, MatchesRegex("plan.json:[0-9]+:[0-9]+: .*"));
    return found;
  };
  EXPECT_THAT(error("\"extents\": [2, 4]", "\"extents\": []"), HasSubstr("0 extents of 2 axes; one extent per axis"));
  EXPECT_THAT(error("\"extents\": [2, 4]", "\"extents\": [2, 0]"), HasSubstr("an extent is 0; it must be from 1 to"));
  EXPECT_THAT(error("\"extents\": [2, 4]", "\"extents\": [2, 3]"),
              HasSubstr("a part of the tile's index is 3; it must be from 0 to 2"));
  EXPECT_THAT(error("\"shape\": [256, 512]", "\"shape\": [256, 4611686018427387904]"),
              HasSubstr("a size of 'shape' is 4611686018427387904"));
  EXPECT_THAT(error("\"shape\": [256, 512]", "\"shape\": [281474976710656, 512]"),
              HasSubstr("a tensor of 281474976710656 x 512 elements; 2^48 at most"));
  EXPECT_THAT(error("\"shape\": [256, 512]", "\"shape\": []"), HasSubstr("a tensor of 0 dimensions; from 1 to 5"));
  EXPECT_THAT(error("\"held\": [[[0, 128], [0, 512]]", "\"held\": [[[0, 128], [0, 513]]"),
              HasSubstr("the range 0:513 is not in dimension 1 of a (256 x 512); 0 <= begin <= end <= 512"));
  EXPECT_THAT(error("\"held\": [[[0, 128], [0, 512]]", "\"held\": [[[-1, 128], [0, 512]]"),
              HasSubstr("the range -1:128 is not in dimension 0 of a"));
  EXPECT_THAT(error("\"before\": \"shard(0)\"", "\"before\": \"shard(2)\""),
              HasSubstr("'shard(2)' of a tensor of 2 dimensions; dimensions count from 0 to 1"));
  EXPECT_THAT(error("\"name\": \"b\"", "\"name\": \"a\""), HasSubstr("a buffer called 'a'; every buffer has a name"));
  EXPECT_THAT(error("\"parameter\": \"b_ptr\"", "\"parameter\": \"a_ptr\""), HasSubstr("the parameter 'a_ptr'"));
  EXPECT_THAT(error("\"partner\": -1", "\"partner\": -2"), HasSubstr("'partner' is -2"));
  EXPECT_THAT(error("\"role\": \"kernel\"", "\"role\": \"depot\""),
              HasSubstr("unknown role 'depot'; kernel, staging, source, result or summands"));
  EXPECT_THAT(error("\"role\": \"kernel\"", "\"role\": \"source\""),
              HasSubstr("the parameter 'a_ptr'; each buffer of the kernel has one of its own, and others have none"));
  EXPECT_THAT(error("\"slot\": 0", "\"slot\": 9"), HasSubstr("is in slot 9 of rank 0, which has "));
  EXPECT_THAT(error("\"slot\": 1", "\"slot\": 0"), HasSubstr(", one there already; slots count from 0"));
  EXPECT_THAT(error("\"completion_signals\": [", "\"completion_signals\": [99, "), HasSubstr("a signal is 99"));
  EXPECT_THAT(error("\"source\": {\"rank\": 0", "\"source\": {\"rank\": 1"),
              HasSubstr("a queue of rank 0 moves from rank 1 to rank 1; one of them is the queue's rank"));
  EXPECT_THAT(
      error("\"sums\": []", "\"sums\": [{\"rank\": 0, \"buffer\": 2, \"region\": [[0, 1], [0, 1]], \"order\": 0}]"),
      HasSubstr("a sum of 'c', which is not reduced; nothing is: remove it"));
}

}  // namespace
}  // namespace syncopate
