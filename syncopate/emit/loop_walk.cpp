#include "syncopate/emit/loop_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "syncopate/emit/references.h"
#include "syncopate/kernel/runtime_names.h"
#include "syncopate/kernel/streamed_loops.h"

namespace syncopate {
namespace {

/// Whether the number of the next tile's slot is there before the loop is.
bool advances_before(const TileScheduler& scheduler, const Statement& loop) {
  return scheduler.advance != nullptr && scheduler.advance->range.begin < loop.range.begin;
}

class LoopEdit {
 public:
  LoopEdit(LineEditor& editor, const TileKernel& kernel, const Statement& loop, std::string extra, std::string unit)
      : editor_(editor),
        module_(kernel.module()),
        loop_(loop),
        range_(*loop.value),
        slot_(advances_before(kernel.scheduler(), loop) ? kKeptSlot : "syncopate_slot"),
        extra_(std::move(extra)),
        unit_(std::move(unit)) {}

  void run(std::size_t column) {
    const int header = editor_.line_of(loop_.header.begin);
    const int last = editor_.line_of(loop_.range.end - 1);
    if (editor_.line_of(loop_.body.front()->range.begin) == editor_.line_of(loop_.header.end - 1))
      throw UserError(module_.locate(loop_.body.front()->range),
                      "the streamed loop's body begins on the line of its header", "put it on a line of its own");
    const std::string indentation = editor_.indentation(header) + extra_;
    editor_.replace(loop_.header, new_header(indentation.size() + unit_.size()));
    editor_.indent_lines(header, last, unit_, strings());
    editor_.insert_before(header, walk_start(indentation, column));
    editor_.insert_before(last + 1, indentation + unit_ + "syncopate_step += 1\n");
  }

 private:
  std::string_view text_of(const Expression& expression) const { return module_.source->slice(expression.range); }

  /// As an operand of a sum or a product.
  std::string operand(const Expression& expression) const {
    const bool plain = expression.kind == ExpressionKind::name || expression.kind == ExpressionKind::integer ||
                       expression.kind == ExpressionKind::attribute || expression.kind == ExpressionKind::call;
    return fmt::format(fmt::runtime(plain ? "{}" : "({})"), text_of(expression));
  }

  static bool is_integer(const Expression& expression, std::int64_t value) {
    return expression.kind == ExpressionKind::integer && expression.integer == value;
  }

  /// The value of the loop's variable in the iteration that `number` counts.
  std::string value_at(const std::string& number) const {
    const std::vector<std::unique_ptr<Expression>>& arguments = range_.children;  // the function, then the bounds
    std::string value = number;
    if (arguments.size() > 3 && !is_integer(*arguments[3], 1)) value += " * " + operand(*arguments[3]);
    if (arguments.size() > 2 && !is_integer(*arguments[1], 0))
      value = fmt::format("{} + {}", operand(*arguments[1]), value);
    return value;
  }

  std::string new_header(std::size_t column) const {
    const auto& arguments = range_.children;
    std::vector<std::string> items = {value_at("syncopate_begin"), value_at("syncopate_end")};
    if (arguments.size() > 3) items.emplace_back(text_of(*arguments[3]));
    for (const Keyword& keyword : range_.keywords)
      items.push_back(fmt::format("{}={}", keyword.name, text_of(*keyword.value)));
    const std::string start = fmt::format("{}for {} in {}(", std::string(column, ' '), loop_.targets.front()->text,
                                          text_of(*arguments.front()));
    return wrap_items(start, items, start.size(), "):").substr(column);
  }

  std::string walk_start(const std::string& indentation, std::size_t column) const {
    namespace parameter = runtime_parameter;
    const std::string inner = indentation + unit_;
    std::string text = fmt::format(
        "{0}syncopate_step = tl.load(syncopate_row + {1})\n"
        "{0}syncopate_past_step = tl.load(syncopate_row + {2})\n"
        "{0}while syncopate_step < syncopate_past_step:\n"
        "{3}syncopate_piece = {4} + syncopate_step * 4\n",
        indentation, column, column + 1, inner, parameter::kSteps);
    const std::string call = inner + "syncopate_ready = syncopate_wait_for_tile(";
    text += wrap_items(call,
                       {"syncopate_piece + 2", parameter::kWaits, parameter::kFlags, "syncopate_launch", slot_,
                        parameter::kRecord, parameter::kTimeLimit},
                       call.size(), ")\n");
    text += fmt::format(
        "{0}syncopate_begin = tl.load(syncopate_piece).to(tl.int32) + syncopate_ready\n"
        "{0}syncopate_end = tl.load(syncopate_piece + 1).to(tl.int32)\n",
        inner);
    return text;
  }

  /// The loop's strings, whose inner lines stay as they are.
  std::vector<ByteRange> strings() const {
    std::vector<ByteRange> found;
    visit(loop_, [&](const Expression& expression) {
      if (expression.kind == ExpressionKind::string) found.push_back(expression.range);
    });
    return found;
  }

  LineEditor& editor_;
  const Module& module_;
  const Statement& loop_;
  const Expression& range_;
  std::string slot_;  ///< the variable that holds the number of the tile's slot where the loop is
  std::string extra_;
  std::string unit_;
};

}  // namespace

bool need_kept_slot(const TileKernel& kernel) {
  const std::vector<StreamedLoop>& loops = kernel.streamed_loops();
  return std::any_of(loops.begin(), loops.end(),
                     [&](const StreamedLoop& streamed) { return advances_before(kernel.scheduler(), *streamed.loop); });
}

void edit_streamed_loops(LineEditor& editor, const TileKernel& kernel, std::size_t column, const std::string& extra,
                         const std::string& unit) {
  check_streamed_loops(kernel);
  for (const StreamedLoop& streamed : kernel.streamed_loops()) {
    LoopEdit(editor, kernel, *streamed.loop, extra, unit).run(column);
    column += kLoopColumns;
  }
}

}  // namespace syncopate
