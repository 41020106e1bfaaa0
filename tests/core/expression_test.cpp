#include "syncopate/core/expression.h"

#include <gtest/gtest.h>

namespace syncopate {
namespace {

const Names kNames = {{"M", 1000}, {"K", 64}, {"ranks", 3}};

std::int64_t value(std::string_view text) { return evaluate(text, kNames, {"op.toml", 7, 10}); }

std::string error_of(std::string_view text) {
  try {
    value(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Expression, Arithmetic) {
  EXPECT_EQ(value("M"), 1000);
  EXPECT_EQ(value("2 + 3 * 4 - 1"), 13);
  EXPECT_EQ(value("(2 + 3) * -4"), -20);
  EXPECT_EQ(value("M // ranks"), 333);
  EXPECT_EQ(value("-7 // 2"), -4) << "floors as Python does";
  EXPECT_EQ(value("-7 % 3"), 2);
  EXPECT_EQ(value("cdiv(M, ranks)"), 334);
  EXPECT_EQ(value("min(M, K) + max(1, 2)"), 66);
  EXPECT_EQ(value("M / 8"), 125);
}

TEST(Expression, ErrorsPointIntoTheText) {
  EXPECT_EQ(error_of("M + Kk"),
            "op.toml:7:14: in the expression 'M + Kk': unknown name 'Kk'; did you mean 'K'? known: K, M, ranks");
  EXPECT_EQ(error_of("M / ranks").rfind("op.toml:7:19: in the expression 'M / ranks': 1000 / 3 leaves a remainder", 0),
            0U);
  EXPECT_NE(error_of(std::string(200, '(') + "1").find("nested more than 100 deep"), std::string::npos);
  EXPECT_NE(error_of(std::string(100000, '-') + "1").find("nested more than 100 deep"), std::string::npos);
  EXPECT_NE(error_of("(0 - 9223372036854775807 - 1) // -1").find("does not fit in 64 bits"), std::string::npos);
  EXPECT_NE(error_of("-(0 - 9223372036854775807 - 1)").find("does not fit in 64 bits"), std::string::npos);
  EXPECT_NE(error_of("M // 0").find("division by zero"), std::string::npos);
  EXPECT_NE(error_of("(M").find("a parenthesis is not closed"), std::string::npos);
  EXPECT_NE(error_of("M M").find("'M' does not belong here"), std::string::npos);
  EXPECT_NE(error_of("").find("a number or a name is missing"), std::string::npos);
  EXPECT_NE(error_of("9223372036854775807 + 1").find("does not fit in 64 bits"), std::string::npos);
  EXPECT_NE(error_of("cdiv(M)").find("takes two arguments"), std::string::npos);
}

TEST(Expression, LeastNumber) {
  EXPECT_EQ(evaluate("x % -1", {{"x", INT64_MIN}}, {}), 0);
  EXPECT_EQ(evaluate("x // 1", {{"x", INT64_MIN}}, {}), INT64_MIN);
}

TEST(Expression, ValuesAreToBlameElsewhere) {
  const SourceLocation text{"op.toml", 7, 10};
  const SourceLocation values{"--set M=0"};
  const auto where = [&](std::string_view expression) {
    try {
      evaluate(expression, {{"M", 0}}, text, {}, values);
    } catch (const UserError& error) {
      return error.where().to_string();
    }
    return std::string("no error");
  };
  EXPECT_EQ(where("4 // M"), "--set M=0");
  EXPECT_EQ(where("(M + 5) / 2"), "--set M=0");
  EXPECT_EQ(where("(M + 9223372036854775807) * 2"), "--set M=0");
  EXPECT_EQ(where("4 // N"), "op.toml:7:15") << "no value helps";
}

TEST(Expression, NamesOfAnExpression) {
  EXPECT_EQ(names_in("2 * cdiv(M, BLOCK_M) + x1"), (std::vector<std::string>{"cdiv", "M", "BLOCK_M", "x1"}));
  EXPECT_EQ(names_in("12 + 4"), std::vector<std::string>{});
}

}  // namespace
}  // namespace syncopate
