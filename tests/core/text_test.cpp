#include "syncopate/core/text.h"

#include <gtest/gtest.h>

#include <vector>

#include "syncopate/core/source.h"

namespace syncopate {
namespace {

TEST(Text, NearestNeedsToBeNear) {
  const std::vector<std::string> known = {"ranks", "kernel", "operator"};
  EXPECT_EQ(nearest("rank", known), "ranks");
  EXPECT_EQ(nearest("kernle", known), "kernel");
  EXPECT_EQ(nearest("temperature", known), "");
  EXPECT_EQ(suggest("rank", known), "did you mean 'ranks'? known: ranks, kernel, operator");
  EXPECT_EQ(suggest("zzzzzz", known), "known: ranks, kernel, operator");
}

TEST(Text, Bytes) {
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(3LL << 30), "3.00 GiB");
}

TEST(Text, HashSeesEveryByte) {
  EXPECT_EQ(content_hash("abc").size(), 32U);
  EXPECT_NE(content_hash("abc"), content_hash("abd"));
  EXPECT_EQ(content_hash(""), "99aa06d3014798d86001c324468d497f") << "XXH3 128 bits of the empty input";
}

TEST(SourceFile, LocatesBytes) {
  const SourceFile source("k.py", "a\nbc\n\nd");
  EXPECT_EQ(source.locate(0).to_string(), "k.py:1:1");
  EXPECT_EQ(source.locate(3).to_string(), "k.py:2:2");
  EXPECT_EQ(source.locate(5).to_string(), "k.py:3:1");
  EXPECT_EQ(source.locate(99).to_string(), "k.py:4:2");
  EXPECT_EQ(source.line_at(3), "bc");
  EXPECT_EQ(source.slice({2, 4}), "bc");
}

TEST(Errors, SayWhatWhereAndWhatWouldBeRight) {
  EXPECT_STREQ(UserError({"f", 3, 4}, "too large", "at most 5").what(), "f:3:4: too large; at most 5");
  EXPECT_STREQ(UserError({}, "too large").what(), "too large");
  EXPECT_THROW(check_internal(false, "broken"), InternalError);
}

}  // namespace
}  // namespace syncopate
