#include "syncopate/emit/emit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "syncopate/emit/prelude.h"
#include "syncopate/emit/references.h"
#include "syncopate/emit/tile_walk.h"

namespace syncopate {
namespace {

constexpr std::string_view kReserved = "syncopate_";

std::string_view base_name(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

/// The words as comment lines of at most 120 columns.
std::string comment_block(std::string_view words) {
  constexpr std::size_t columns = 120;
  std::string text;
  std::string line = "#";
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (line.size() + 1 + end > columns) {
      text += line + "\n";
      line = "#";
    }
    line += fmt::format(" {}", words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return text + line + "\n";
}

std::string file_header(const TileKernel& kernel, const std::string& reduced, const WalkOptions& options) {
  const std::string& name = kernel.function().name;
  std::string sums = reduced.empty() ? ""
                     : options.sums_in_place
                         ? fmt::format(" What it stores to {} it adds to what other ranks have sent there.", reduced)
                         : fmt::format(" To what it stores to {} it adds what other ranks have sent.", reduced);
  if (!options.sent.empty())
    sums +=
        fmt::format(" It says when it has stored to {}, which is sent to other ranks.", fmt::join(options.sent, ", "));
  if (!options.folded.empty()) {
    std::vector<std::string> folded;
    for (const FoldedInput& input : options.folded) folded.push_back(input.parameter);
    sums += fmt::format(" Memory holds a part of {} at a time; it says when it has read what stands there.",
                        fmt::join(folded, ", "));
  }
  const std::string loops =
      options.streams
          ? " Its streamed loops are walked piece by piece (syncopate_steps), in the order in which chunks arrive."
          : "";
  const std::string order =
      options.dynamic
          ? " Programs choose among the tiles: one takes a tile, which it marks so (syncopate_claims), when "
            "those chunks are there."
          : "";
  return comment_block(fmt::format("Made by Syncopate from {}() of {}; generated, so change that file instead.", name,
                                   base_name(kernel.module().source->name()))) +
         "#\n" +
         comment_block(
             fmt::format("The tile loop of {0}_fused() walks this rank's tile order (syncopate_tiles) and "
                         "waits, before each tile, for "
                         "the chunks that the tile reads; the rest is {0}() as written.{1}{2}{3} Rank, schedule "
                         "and sizes are in tables that "
                         "the host passes, so every rank runs this file.",
                         name, order, loops, sums));
}

/// The comment at the head of the user's file: often its copyright.
std::string leading_comment(const Module& module) {
  std::string result;
  int expected = 1;
  for (const Comment& comment : module.comments) {
    if (comment.line != expected++ || module.source->locate(comment.range.begin).column != 1) break;
    const std::string_view text = module.source->slice(comment.range);
    const bool for_tools = text.starts_with("#!") || text.find("coding:") != std::string_view::npos ||
                           text.find("syncopate:") != std::string_view::npos;
    if (!for_tools) result += fmt::format("{}\n", text);
  }
  return result.empty() ? result : result + "\n";
}

/// Where the comment lines begin that stand directly above the line of `offset`.
std::uint32_t with_comment(const Module& module, std::uint32_t offset) {
  int line = module.source->locate(offset).line;
  for (auto comment = module.comments.rbegin(); comment != module.comments.rend(); ++comment) {
    const SourceLocation at = module.source->locate(comment->range.begin);
    if (at.line >= line) continue;
    if (at.line != line - 1 || at.column != 1) break;
    offset = comment->range.begin;
    --line;
  }
  return offset;
}

/// The user's text from the comment above `range` to the end of its last line, without the newline.
std::string piece(const Module& module, ByteRange range) {
  const std::string& text = module.source->text();
  const std::size_t end = std::min(text.find('\n', range.end), text.size());
  const std::uint32_t begin = with_comment(module, range.begin);
  return text.substr(begin, end - begin);
}

/// The decorators that a fused kernel keeps: triton.jit. Tuning and heuristics choose the local kernel's constants;
/// a plan has them chosen.
std::string jit_decorator(const Module& module, const Function& function) {
  const std::string_view text = module.source->slice({function.range.begin, function.name_range.begin});
  for (const std::string_view with_options : {"@triton.jit(", "@jit("}) {
    const std::size_t begin = text.find(with_options);
    if (begin == std::string_view::npos) continue;
    std::size_t end = begin + with_options.size();
    for (int depth = 1; depth > 0 && end < text.size(); ++end) depth += (text[end] == '(') - (text[end] == ')');
    return fmt::format("{}\n", text.substr(begin, end - begin));
  }
  return "@triton.jit\n";
}

void check_reserved(const Module& module, const std::string& name, ByteRange range) {
  if (!name.starts_with(kReserved)) return;
  throw UserError(
      module.locate(range), fmt::format("'{}' begins with '{}'", name, kReserved),
      "names that begin so are those of fused kernels; choose another name (or compile the kernel that this "
      "one was made from)");
}

void check_names(const Module& module, const Function& kernel, const std::string& fused) {
  for (const auto& function : module.functions) {
    check_reserved(module, function->name, function->name_range);
    if (function->name != fused) continue;
    throw UserError(module.locate(function->name_range),
                    fmt::format("the file already has a function '{}', the name of the fused kernel", fused),
                    "rename it");
  }
  for (const Parameter& parameter : kernel.parameters) check_reserved(module, parameter.name, parameter.range);
  const auto check = [&](const Expression& expression) {
    if (expression.kind == ExpressionKind::name) check_reserved(module, expression.text, expression.range);
  };
  for (const auto& statement : kernel.body) visit(*statement, check);
  for (const auto& constant : module.constants) visit(*constant, check);
}

/// The imports that every fused kernel has, then the user's.
std::string import_block(const Needed& needed) {
  std::vector<std::string> lines = {"import triton", "import triton.language as tl"};
  for (const std::string& import : needed.imports) {
    if (std::find(lines.begin(), lines.end(), import) != lines.end()) continue;
    const bool first = import.starts_with("from __future__");
    lines.insert(first ? lines.begin() : lines.end(), import);
  }
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

std::string constant_block(const Module& module, const Needed& needed) {
  std::string text;
  for (const Statement* constant : needed.constants) {
    const std::string lines = piece(module, constant->range);
    if (lines.starts_with('#') && !text.empty()) text += '\n';
    text += lines + '\n';
  }
  return text.empty() ? text : '\n' + text;
}

std::string trim_end(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text + "\n";
}

}  // namespace

FusedSource emit_fused(const TileKernel& kernel, const std::string& reduced_parameter, const WalkOptions& options) {
  const Module& module = kernel.module();
  const Function& function = kernel.function();
  FusedSource result;
  result.function = function.name + "_fused";
  check_names(module, function, result.function);
  const WalkingKernel walking = walk_tiles(kernel, result.function, reduced_parameter, options);
  const Needed needed = find_needed(module, function, walking.names);

  const std::string separator = "\n\n";
  std::string& text = result.text;
  text = leading_comment(module) + file_header(kernel, reduced_parameter, options) + import_block(needed) +
         constant_block(module, needed);
  text += separator + trim_end(std::string(prelude()));
  for (const std::string& helper : helpers_in(walking.text)) text += separator + helper;
  for (const Function* helper : needed.helpers) text += separator + trim_end(piece(module, helper->range));
  text += separator + jit_decorator(module, function) + trim_end(walking.text);
  return result;
}

}  // namespace syncopate
