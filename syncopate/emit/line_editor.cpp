#include "syncopate/emit/line_editor.h"

#include <algorithm>

#include "syncopate/core/error.h"

namespace syncopate {
namespace {

constexpr std::size_t kColumns = 120;
constexpr std::string_view kSpace = " \t\r\n\f";

bool is_blank(std::string_view line) { return line.find_first_not_of(kSpace) == std::string_view::npos; }

bool opens_block(std::string_view line) {
  const std::size_t last = line.find_last_not_of(kSpace);
  return last != std::string_view::npos && line[last] == ':';
}

}  // namespace

std::string wrap_items(std::string line, const std::vector<std::string>& items, std::size_t column,
                       std::string_view tail) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : std::string(tail));
    const bool first = line.size() <= column;
    if (!first && line.size() + 1 + item.size() > kColumns) {
      text += line + "\n";
      line = std::string(column, ' ') + item;
    } else {
      line += (first ? "" : " ") + item;
    }
  }
  return text + line;
}

LineEditor::LineEditor(const SourceFile& source, int first, int last) : source_(source), first_(first), last_(last) {
  const std::string& text = source.text();
  int number = 1;
  for (std::size_t start = 0; number <= last + 1; ++number) {
    if (number >= first) starts_.push_back(static_cast<std::uint32_t>(start));
    const std::size_t newline = text.find('\n', start);
    start = newline == std::string::npos ? text.size() : newline + 1;
  }
  const auto count = static_cast<std::size_t>(last - first + 1);
  removed_.resize(count, false);
  indents_.resize(count);
  inserted_.resize(count + 1);
}

ByteRange LineEditor::range_of_line(int number) const { return {starts_[index(number)], starts_[index(number) + 1]}; }

std::string_view LineEditor::line(int number) const {
  std::string_view text = source_.slice(range_of_line(number));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::string LineEditor::indentation(int number) const {
  const std::string_view text = line(number);
  return std::string(text.substr(0, std::min(text.find_first_not_of(" \t"), text.size())));
}

int LineEditor::with_comment(int number) const {
  const auto is_comment = [&](int above) {
    const std::string space = indentation(above);
    return line(above).substr(space.size()).starts_with('#') && space == indentation(number);
  };
  while (number - 1 > first_ && !removed(number - 1) && is_comment(number - 1)) --number;
  return number;
}

void LineEditor::replace(ByteRange range, std::string text) { edits_.push_back({range, std::move(text)}); }

void LineEditor::insert_before(int number, std::string text) { inserted_[index(number)] += text; }

void LineEditor::remove_lines(int first, int last) {
  for (int number = first; number <= last; ++number) removed_[index(number)] = true;
}

void LineEditor::indent_lines(int first, int last, const std::string& unit, const std::vector<ByteRange>& strings) {
  for (int number = first; number <= last; ++number) {
    const std::uint32_t start = starts_[index(number)];
    const bool in_string = std::any_of(strings.begin(), strings.end(),
                                       [&](ByteRange string) { return string.begin < start && start < string.end; });
    if (!in_string && !is_blank(line(number))) indents_[index(number)] += unit;
  }
}

std::vector<bool> LineEditor::removed_with_blanks() const {
  std::vector<bool> removed = removed_;
  bool after_removal = false;
  std::string_view previous;  // the last line that stays
  for (int number = first_; number <= last_; ++number) {
    const std::string_view text = line(number);
    if (!inserted_[index(number)].empty()) previous = "inserted";
    if (removed[index(number)]) {
      after_removal = true;
    } else if (after_removal && is_blank(text) && (is_blank(previous) || opens_block(previous))) {
      removed[index(number)] = true;
    } else {
      after_removal = false;
      previous = text;
    }
  }
  return removed;
}

std::string LineEditor::render() const {
  const std::vector<bool> removed = removed_with_blanks();
  std::vector<Edit> edits;
  for (int number = first_; number <= last_; ++number) {
    const ByteRange range = range_of_line(number);
    const std::string& inserted = inserted_[index(number)];
    if (removed[index(number)]) {
      edits.push_back({range, inserted});
    } else {
      edits.push_back({{range.begin, range.begin}, inserted + indents_[index(number)]});
    }
  }
  for (const Edit& edit : edits_) {
    // A replacement that spans lines swallows their beginnings.
    std::erase_if(edits, [&](const Edit& other) {
      return edit.range.begin < other.range.begin && other.range.end < edit.range.end;
    });
    edits.push_back(edit);
  }
  std::stable_sort(edits.begin(), edits.end(),
                   [](const Edit& a, const Edit& b) { return a.range.begin < b.range.begin; });

  std::string result;
  std::uint32_t position = starts_.front();
  for (const Edit& edit : edits) {
    check_internal(edit.range.begin >= position, "edits of a kernel overlap");
    result += source_.slice({position, edit.range.begin});
    result += edit.text;
    position = edit.range.end;
  }
  result += source_.slice({position, starts_.back()});
  if (!result.empty() && result.back() != '\n') result += '\n';
  return result + inserted_.back();
}

}  // namespace syncopate
