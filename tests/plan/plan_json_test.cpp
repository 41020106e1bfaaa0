// Plans as files: the same bytes every time, read back the same, and no damage goes unnoticed.
#include "syncopate/plan/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/driver/driver.h"

namespace syncopate {
namespace {

using ::testing::HasSubstr;
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
  for (const char* file : {"ag_gemm", "ag_gemm_pointers", "ag_gemm_split_helper"}) {
    const std::string text =
        to_json(compile_operator(std::string(SYNCOPATE_SOURCE_DIR "/operators/") + file + ".toml"));
    EXPECT_EQ(to_json(parse_plan(SourceFile("plan.json", text))), text) << file;
  }
}

TEST(PlanJson, TruncationAnywhereIsAnError) {
  const std::string text = small_plan();
  for (std::size_t length = 0; length + 2 < text.size(); length += text.size() / 97 + 1)
    EXPECT_THAT(error_of(text.substr(0, length)), StartsWith("plan.json:")) << length;
}

TEST(PlanJson, WrongVersion) {
  EXPECT_EQ(error_of(replaced(small_plan(), "\"syncopate_plan\": 1", "\"syncopate_plan\": 7")),
            "plan.json:2:21: this plan is of version 7; this Syncopate reads version 1: compile the operator again");
}

TEST(PlanJson, EditsAreNoticed) {
  const std::string text = small_plan();
  EXPECT_THAT(error_of(replaced(text, "\"ranks\": 2", "\"ranks\": 1")), StartsWith("plan.json:"));
  EXPECT_THAT(error_of(replaced(text, "\"workers\": 8", "\"workers\": 9")),
              HasSubstr("the plan does not have this hash: it was edited or damaged; compile the operator again"));
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
  EXPECT_THAT(error_of("{}"), HasSubstr("the plan has no 'syncopate_plan'"));
  EXPECT_THAT(error_of("[]"), HasSubstr("the plan is an array; it must be an object"));
}

}  // namespace
}  // namespace syncopate
