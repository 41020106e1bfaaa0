#include "syncopate/emit/signature.h"

#include <fmt/format.h>

#include <algorithm>

#include "syncopate/kernel/runtime_names.h"

namespace syncopate {
namespace {

std::vector<std::string> runtime_parameters(bool with_defaults, const RuntimeNeeds& needs) {
  namespace parameter = runtime_parameter;
  std::vector<std::string> names = {parameter::kRank,      parameter::kWorldSize, parameter::kTiles,
                                    parameter::kTileCount, parameter::kWaits,     parameter::kFlags,
                                    parameter::kEpoch,     parameter::kRecord,    parameter::kTimeLimit};
  if (needs.takes) names.insert(names.end(), {parameter::kClaims, parameter::kLookahead});
  if (needs.streams) names.emplace_back(parameter::kSteps);
  if (needs.addends) names.insert(names.end(), {parameter::kStaging, parameter::kAddends});
  if (needs.raises) names.insert(names.end(), {parameter::kSignals, parameter::kPeers});
  if (needs.additions)
    names.insert(names.end(),
                 {parameter::kResult, parameter::kSummands, parameter::kAdditions, parameter::kAdditionCount});
  if (with_defaults) {
    for (std::string& name : names) name += "=None";
  }
  if (needs.addends)
    names.push_back(fmt::format("{}: tl.constexpr{}", parameter::kCut, with_defaults ? " = None" : ""));
  return names;
}

/// Whether a comma follows the last parameter, comments aside.
bool has_comma(std::string_view tail) {
  for (std::size_t i = 0; i < tail.size(); ++i) {
    if (tail[i] == ',') return true;
    if (tail[i] == '#') i = std::min(tail.find('\n', i), tail.size());
  }
  return false;
}

/// Column (from 0) after the parenthesis that opens the list.
std::size_t first_column(const Module& module, const Function& function) {
  return static_cast<std::size_t>(module.locate(function.parameters_range).column);
}

/// Where a new line of parameters begins.
std::size_t line_column(const LineEditor& editor, const Module& module, const Function& function, std::size_t shift) {
  const int line = editor.line_of(function.parameters.back().range.begin);
  const std::size_t aligned = first_column(module, function);
  if (line == editor.line_of(function.parameters_range.begin)) return aligned + shift;
  const std::size_t column = editor.indentation(line).size();
  return column + (column == aligned ? shift : 0);
}

}  // namespace

void append_runtime_parameters(LineEditor& editor, const Module& module, const Function& function, std::size_t shift,
                               const RuntimeNeeds& needs) {
  if (function.parameters.empty()) {
    throw UserError(module.locate(function.name_range),
                    fmt::format("kernel '{}' has no parameters, so it reads and writes nothing", function.name),
                    "a kernel takes pointers to its tensors");
  }
  // Python wants defaults after the first parameter that has one.
  const bool defaults = std::any_of(function.parameters.begin(), function.parameters.end(),
                                    [](const Parameter& each) { return each.default_value != nullptr; });

  const ByteRange list = function.parameters_range;
  const std::uint32_t last_end = function.parameters.back().range.end;
  const std::string_view tail = module.source->slice({last_end, list.end - 1});  // comma, comments, white space
  const std::size_t content = tail.find_last_not_of(" \t\r\n");
  const auto content_end = last_end + static_cast<std::uint32_t>(content == std::string_view::npos ? 0 : content + 1);
  const bool comma = has_comma(tail);
  if (!comma) editor.replace({last_end, last_end}, ",");
  const std::size_t column = line_column(editor, module, function, shift);
  editor.replace(
      {content_end, content_end},
      "\n" + wrap_items(std::string(column, ' '), runtime_parameters(defaults, needs), column, comma ? "," : ""));

  // Lines that were aligned with the parenthesis stay so.
  for (int line = editor.line_of(list.begin) + 1; line <= editor.line_of(list.end - 1); ++line) {
    if (editor.indentation(line).size() != first_column(module, function)) continue;
    editor.indent_lines(line, line, std::string(shift, ' '), {});
  }
}

}  // namespace syncopate
