#include "syncopate/kernel/annotations.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "syncopate/core/text.h"

namespace syncopate {
namespace {

const std::vector<std::string> kWords = {"tile_scheduler", "tile_index", "tile_size", "streamed_loop"};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

bool is_identifier(std::string_view text) {
  const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), word);
}

/// What follows "# syncopate:" in a comment, if it is an annotation.
std::optional<std::string_view> annotation_text(std::string_view comment) {
  constexpr std::string_view kMark = "syncopate";
  comment = trimmed(comment.substr(1));
  if (!comment.starts_with(kMark)) return std::nullopt;
  comment = trimmed(comment.substr(kMark.size()));
  if (!comment.starts_with(":")) return std::nullopt;
  return trimmed(comment.substr(1));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// The function that a comment stands in. A comment behind the last statement is still inside if it is indented.
const Function* function_around(const Module& module, const Comment& comment) {
  const Function* found = nullptr;
  for (const auto& function : module.functions)
    if (function->range.begin <= comment.range.begin) found = function.get();
  if (found == nullptr) return nullptr;
  const bool inside = comment.range.begin < found->range.end;
  return inside || module.locate(comment.range).column > 1 ? found : nullptr;
}

void collect_loops(const std::vector<std::unique_ptr<Statement>>& statements, std::vector<const Statement*>& loops) {
  for (const auto& statement : statements) {
    if (statement->kind == StatementKind::for_ || statement->kind == StatementKind::while_)
      loops.push_back(statement.get());
    collect_loops(statement->body, loops);
    collect_loops(statement->orelse, loops);
  }
}

class Reader {
 public:
  Reader(const Module& module, const Function& function) : module_(module), function_(function) {
    collect_loops(function.body, loops_);
  }

  Annotations run() {
    for (const Comment& comment : module_.comments) {
      const auto text = annotation_text(module_.source->slice(comment.range));
      if (!text) continue;
      const Function* around = function_around(module_, comment);
      if (around == nullptr || !around->jit)
        throw error(comment, "this annotation stands outside any kernel",
                    "put it inside the @triton.jit function that it describes");
      if (around == &function_) read(comment, *text);
    }
    if (begin_ != nullptr)
      throw error(*begin_, "'tile_scheduler begin' has no end",
                  "put `# syncopate: tile_scheduler end` after the last statement of the scheduler");
    return std::move(result_);
  }

 private:
  UserError error(const Comment& comment, std::string problem, std::string remedy) const {
    return {module_.locate(comment.range), std::move(problem), std::move(remedy)};
  }

  void read(const Comment& comment, std::string_view text) {
    const std::string word(text.substr(0, text.find_first_of(" \t")));
    const std::string_view rest = trimmed(text.substr(word.size()));
    if (word == "tile_scheduler") {
      scheduler(comment, rest);
    } else if (word == "tile_index") {
      index(comment, rest);
    } else if (word == "tile_size") {
      size(comment, rest);
    } else if (word == "streamed_loop") {
      stream(comment, rest);
    } else {
      throw error(comment, fmt::format("'{}' is not an annotation", word), suggest(word, kWords));
    }
  }

  void scheduler(const Comment& comment, std::string_view rest) {
    if (rest == "begin") {
      if (begin_ != nullptr)
        throw error(comment, "'tile_scheduler begin' inside another one",
                    fmt::format("end the one of line {} first", begin_->line));
      begin_ = &comment;
    } else if (rest == "end") {
      if (begin_ == nullptr)
        throw error(comment, "'tile_scheduler end' has no begin",
                    "put `# syncopate: tile_scheduler begin` before the first statement of the scheduler");
      result_.scheduler_blocks.push_back({begin_->range.begin, comment.range.begin});
      begin_ = nullptr;
    } else {
      const std::vector<std::string> known = {"begin", "end"};
      throw error(comment, fmt::format("'tile_scheduler' is followed by '{}'", rest), suggest(rest, known));
    }
  }

  void index(const Comment& comment, std::string_view rest) {
    AnnotatedNames named{comment.range, {}};
    for (const std::string_view name : split(rest, ',')) {
      if (!is_identifier(name) || std::count(named.names.begin(), named.names.end(), name) > 0)
        throw error(comment, fmt::format("'tile_index' needs distinct names of variables, not '{}'", rest),
                    "write them as in `# syncopate: tile_index pid_m, pid_n`");
      named.names.emplace_back(name);
    }
    if (!result_.tile_index.empty())
      throw error(comment, "a second 'tile_index'", "name all index variables in one annotation");
    result_.tile_index.push_back(std::move(named));
  }

  void size(const Comment& comment, std::string_view rest) {
    for (const std::string_view pair : split(rest, ',')) {
      const std::vector<std::string_view> sides = split(pair, '=');
      if (sides.size() != 2 || !is_identifier(sides[0]) || !is_identifier(sides[1]))
        throw error(comment, fmt::format("'tile_size' needs pairs of names, not '{}'", pair),
                    "write them as in `# syncopate: tile_size pid_m=BLOCK_M, pid_n=BLOCK_N`");
      result_.tile_sizes.push_back({comment.range, std::string(sides[0]), std::string(sides[1])});
    }
  }

  void stream(const Comment& comment, std::string_view rest) {
    if (!is_identifier(rest))
      throw error(comment, fmt::format("'streamed_loop' needs the name of an axis, not '{}'", rest),
                  "write it as in `# syncopate: streamed_loop k`");
    const Statement* loop = loop_at(comment);
    if (loop == nullptr)
      throw error(comment, "'streamed_loop' stands at no loop",
                  "put it at the end of the line of a `for` or `while`, or on the line before it");
    for (const Annotations::Stream& other : result_.streamed_loops)
      if (other.loop == loop)
        throw error(comment, "this loop has a second 'streamed_loop'", "one loop walks one axis; keep one of them");
    result_.streamed_loops.push_back({loop, comment.range, std::string(rest)});
  }

  /// The loop whose header holds the comment's line, or follows the comment with nothing but comments between.
  const Statement* loop_at(const Comment& comment) const {
    for (const Statement* loop : loops_) {
      const int first = module_.locate(loop->header).line;
      const int last = module_.source->locate(loop->header.end - 1).line;
      if (first <= comment.line && comment.line <= last) return loop;
      if (comment.range.begin < loop->header.begin && only_comments(comment.range.end, loop->header.begin) &&
          own_line(comment))
        return loop;
    }
    return nullptr;
  }

  bool own_line(const Comment& comment) const {
    const auto column = static_cast<std::size_t>(module_.locate(comment.range).column - 1);
    return trimmed(module_.source->line_at(comment.range.begin).substr(0, column)).empty();
  }

  bool only_comments(std::uint32_t begin, std::uint32_t end) const {
    std::string_view text = module_.source->slice({begin, end});
    for (const std::string_view line : split(text, '\n'))
      if (!line.empty() && line[0] != '#') return false;
    return true;
  }

  const Module& module_;
  const Function& function_;
  std::vector<const Statement*> loops_;
  const Comment* begin_ = nullptr;
  Annotations result_;
};

}  // namespace

Annotations read_annotations(const Module& module, const Function& function) { return Reader(module, function).run(); }

}  // namespace syncopate
