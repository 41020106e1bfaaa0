#include "syncopate/emit/line_editor.h"

#include <gtest/gtest.h>

namespace syncopate {
namespace {

const std::string kText =
    "skipped\n"   // 1
    "def f():\n"  // 2
    "    a = 1\n"
    "\n"
    "    b = 2\n"  // 5
    "\n"
    "    c = \"\"\"x\n"  // 7
    "  y\"\"\"\n"
    "    return c\n"  // 9
    "skipped\n";

ByteRange range_of(const std::string& piece) {
  const auto begin = static_cast<std::uint32_t>(kText.find(piece));
  return {begin, begin + static_cast<std::uint32_t>(piece.size())};
}

class LineEditorTest : public testing::Test {
 protected:
  SourceFile source_{"f.py", kText};
  LineEditor editor_{source_, 2, 9};
};

TEST_F(LineEditorTest, WithoutEditsTheTextStays) { EXPECT_EQ(editor_.render(), kText.substr(8, kText.size() - 16)); }

TEST_F(LineEditorTest, RemovingALineBetweenBlankOnesLeavesOneBlankLine) {
  editor_.remove_lines(5, 5);
  EXPECT_EQ(editor_.render(), "def f():\n    a = 1\n\n    c = \"\"\"x\n  y\"\"\"\n    return c\n");
}

TEST_F(LineEditorTest, RemovingTheFirstLineOfABlockRemovesTheBlankLineAfterIt) {
  editor_.remove_lines(3, 3);
  EXPECT_EQ(editor_.render(), "def f():\n    b = 2\n\n    c = \"\"\"x\n  y\"\"\"\n    return c\n");
}

TEST_F(LineEditorTest, InsertionsComeBeforeLinesEvenRemovedOnes) {
  editor_.insert_before(5, "    new\n");
  editor_.remove_lines(5, 5);
  editor_.insert_before(10, "    last\n");
  EXPECT_EQ(editor_.render(), "def f():\n    a = 1\n\n    new\n\n    c = \"\"\"x\n  y\"\"\"\n    return c\n    last\n");
}

TEST_F(LineEditorTest, IndentingSkipsBlankLinesAndTheInsideOfStrings) {
  editor_.indent_lines(3, 9, "  ", {range_of("\"\"\"x\n  y\"\"\"")});
  EXPECT_EQ(editor_.render(), "def f():\n      a = 1\n\n      b = 2\n\n      c = \"\"\"x\n  y\"\"\"\n      return c\n");
}

TEST_F(LineEditorTest, ReplacementsMaySpanLines) {
  editor_.indent_lines(3, 9, "  ", {});
  editor_.replace(range_of("a = 1\n\n    b = 2"), "ab");
  editor_.replace(range_of("f()"), "g(x)");
  EXPECT_EQ(editor_.render(), "def g(x):\n      ab\n\n      c = \"\"\"x\n    y\"\"\"\n      return c\n");
}

TEST_F(LineEditorTest, OverlappingReplacementsAreADefect) {
  editor_.replace(range_of("b = 2"), "x");
  editor_.replace(range_of("= 2"), "y");
  EXPECT_THROW(static_cast<void>(editor_.render()), InternalError);
}

TEST(LineEditor, LastLineWithoutNewlineGetsOne) {
  const SourceFile source("f.py", "x = 1");
  EXPECT_EQ(LineEditor(source, 1, 1).render(), "x = 1\n");
}

TEST(WrapItems, ContinuesBelowTheFirstItem) {
  const std::vector<std::string> items(4, std::string(50, 'x'));
  EXPECT_EQ(wrap_items("f(", items, 2, ")"),
            "f(" + items[0] + ", " + items[1] + ",\n  " + items[2] + ", " + items[3] + ")");
  EXPECT_EQ(wrap_items("f(", {"a", "b"}, 2, "):"), "f(a, b):");
}

}  // namespace
}  // namespace syncopate
