// Editing a piece of the user's source by lines and byte ranges, so that all bytes that are not edited stay as they
// were written: comments, names, spacing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "syncopate/core/source.h"

namespace syncopate {

/// `line` and the items, separated by commas and followed by `tail`, in lines of at most 120 columns. Every item
/// stands in column `column` (from 0) or further right.
std::string wrap_items(std::string line, const std::vector<std::string>& items, std::size_t column,
                       std::string_view tail);

/// Collects edits of the lines `first`..`last` of a file, then renders the edited text. Lines count from 1. Edits must
/// not overlap, except that a removed line swallows its indentation.
class LineEditor {
 public:
  LineEditor(const SourceFile& source, int first, int last);

  int line_of(std::size_t offset) const { return source_.locate(offset).line; }
  int first_line() const { return first_; }
  int last_line() const { return last_; }
  /// The line without its newline.
  std::string_view line(int number) const;
  /// The white space at the line's beginning.
  std::string indentation(int number) const;
  bool removed(int number) const { return removed_[index(number)]; }
  /// The first of the comment lines that stand directly above a line and stay, or that line.
  int with_comment(int number) const;

  void replace(ByteRange range, std::string text);
  /// `text` holds whole lines, newlines included, which come before line `number` (or after the last one).
  void insert_before(int number, std::string text);
  /// Removes whole lines. Blank lines that would then stand in a row, or open a block, go too.
  void remove_lines(int first, int last);
  /// Puts `unit`, once more, before lines that are neither blank nor the inside of a string that spans lines.
  void indent_lines(int first, int last, const std::string& unit, const std::vector<ByteRange>& strings);

  std::string render() const;

 private:
  struct Edit {
    ByteRange range;
    std::string text;
  };

  std::size_t index(int number) const { return static_cast<std::size_t>(number - first_); }
  ByteRange range_of_line(int number) const;  ///< its newline included
  std::vector<bool> removed_with_blanks() const;

  const SourceFile& source_;
  int first_;
  int last_;
  std::vector<std::uint32_t> starts_;  ///< of each line, and past the last one
  std::vector<bool> removed_;
  std::vector<std::string> inserted_;  ///< before each line, and after the last one
  std::vector<std::string> indents_;
  std::vector<Edit> edits_;
};

}  // namespace syncopate
