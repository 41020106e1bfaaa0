#include "syncopate/emit/tile_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "syncopate/emit/folds.h"
#include "syncopate/emit/line_editor.h"
#include "syncopate/emit/loads.h"
#include "syncopate/emit/loop_walk.h"
#include "syncopate/emit/references.h"
#include "syncopate/emit/sends.h"
#include "syncopate/emit/signature.h"
#include "syncopate/emit/sums.h"
#include "syncopate/kernel/runtime_names.h"
#include "syncopate/kernel/stores.h"

namespace syncopate {
namespace {

bool is_scheduler_annotation(std::string_view comment, std::string_view word) {
  return comment.find("tile_scheduler") != std::string_view::npos && comment.find(word) != std::string_view::npos;
}

bool is_annotation(std::string_view comment) {
  comment.remove_prefix(std::min(comment.find_first_not_of("# \t"), comment.size()));
  return comment.starts_with("syncopate:");
}

bool is_call_of(const Expression& expression, std::string_view function) {
  if (expression.kind != ExpressionKind::call) return false;
  const std::string name = expression.children.front()->dotted_name();
  return name == function || name.ends_with("." + std::string(function));
}

class Walk {
 public:
  Walk(const TileKernel& kernel, std::string name, const std::string& reduced, const WalkOptions& options)
      : kernel_(kernel),
        sent_(raised_after(options)),
        summed_(options.summed),
        folded_(options.folded),
        added_(options.added),
        module_(kernel.module()),
        function_(kernel.function()),
        scheduler_(kernel.scheduler()),
        name_(std::move(name)),
        editor_(*module_.source, line_of(function_.name_range.begin), line_of(function_.range.end - 1)),
        in_order_(options.tiles_wait && (!reduced.empty() || !sent_.empty())),
        streams_(options.streams),
        dynamic_(options.dynamic),
        has_addends_(!reduced.empty() && !options.sums_in_place) {
    if (!reduced.empty()) sums_.emplace(editor_, kernel, reduced, sent_, options.sums_in_place, extra_indentation());
    if (streams_) check_stores(reduced);
    ends_ = sent_;
    if (!reduced.empty()) ends_.push_back(reduced);
    if (added_) check_added();
  }

  WalkingKernel run() {
    note_comments();
    rename();
    append_runtime_parameters(
        editor_, module_, function_, name_.size() - function_.name.size(),
        {dynamic_, streams_, sums_.has_value() || !sent_.empty(), has_addends_, added_.has_value()});
    remove_annotations();
    remove_scheduler();
    if (streams_) edit_streamed_loops(editor_, kernel_, columns_before_loops(), extra_indentation(), unit());
    edit_loads(editor_, kernel_, summed_, extra_indentation().size(),
               [&](ByteRange range) { return sums_ && sums_->copies(range); });
    edit_folded(editor_, kernel_, folded_, ends_, [&](ByteRange range) { return sums_ && sums_->copies(range); });
    if (sums_) sums_->edit_stores();
    if (!sums_ && !sent_.empty()) edit_sends(editor_, kernel_, sent_, extra_indentation());
    if (scheduler_.kind == SchedulerKind::program_per_tile) {
      wrap_body();
    } else {
      replace_loop();
    }
    if (sums_) sums_->insert_waits();
    WalkingKernel result;
    result.names = kept_names();
    result.text = editor_.render();
    return result;
  }

 private:
  /// Parameters of the outputs, but for a reduced one, after whose stores a slot's signals are raised.
  static std::vector<std::string> raised_after(const WalkOptions& options) {
    std::vector<std::string> parameters = options.sent;
    parameters.insert(parameters.end(), options.kept.begin(), options.kept.end());
    return parameters;
  }

  int line_of(std::size_t offset) const { return module_.source->locate(offset).line; }
  int first_line(ByteRange range) const { return line_of(range.begin); }
  int last_line(ByteRange range) const { return line_of(range.end - 1); }
  std::string_view text_of(ByteRange range) const { return module_.source->slice(range); }

  [[noreturn]] void reject(ByteRange range, std::string problem, std::string remedy) const {
    throw UserError(module_.locate(range), std::move(problem), std::move(remedy));
  }

  /// A tile adds what has arrived after it has walked its loops, and says only once that it has stored.
  void check_stores(const std::string& reduced) const {
    const auto in_loop = [](const Store& store, const Statement& loop) {
      return loop.range.begin <= store.range.begin && store.range.end <= loop.range.end;
    };
    for (const StreamedLoop& streamed : kernel_.streamed_loops()) {
      for (const std::string& sent : sent_)
        for (const Store& store : find_stores(kernel_.shared_module(), function_, sent))
          if (in_loop(store, *streamed.loop))
            reject(store.range,
                   fmt::format("this stores to '{}', which is sent to other ranks, in a streamed loop", sent),
                   "store it after the loop");
      if (!sums_) continue;
      for (const Store& store : find_stores(kernel_.shared_module(), function_, reduced)) {
        const bool inside = in_loop(store, *streamed.loop);
        if (inside || (in_function(store) && store.range.end <= streamed.loop->range.begin))
          reject(store.range,
                 fmt::format("this stores to '{}', which is a sum over ranks, {} a streamed loop", reduced,
                             inside ? "in" : "before"),
                 "store it after the loop");
      }
    }
  }

  /// What tiles have stored is read once more, where the parameter points.
  void check_added() const {
    for (const auto& each : function_.body)
      visit_statements(*each, [&](const Statement& statement) {
        for (const Expression* variable : assigned_variables(statement))
          if (variable->text == added_->parameter)
            reject(statement.range,
                   fmt::format("parameter '{}' is changed, but the sum over ranks of what the kernel stores is taken "
                               "where it points first",
                               added_->parameter),
                   fmt::format("give the new value a name of its own, e.g. `tile_{0} = {0} + ...`", added_->parameter));
      });
  }

  /// What follows the tile loop: the program's share of a one-shot sum.
  std::string sum_lines(const std::string& indentation) const {
    namespace parameter = runtime_parameter;
    if (!added_) return "";
    const std::string call = indentation + "syncopate_add_up(";
    return wrap_items(call,
                      {added_->parameter, parameter::kResult, parameter::kSummands, parameter::kAdditions,
                       parameter::kAdditionCount, parameter::kTileCount, parameter::kWaits, parameter::kFlags,
                       "syncopate_launch", parameter::kRank, parameter::kRecord, parameter::kTimeLimit,
                       fmt::format("ranks={}", added_->ranks), fmt::format("multiple={}", added_->multiple)},
                      call.size(), ")\n");
  }

  bool in_function(const Store& store) const {
    return function_.range.begin <= store.range.begin && store.range.end <= function_.range.end;
  }

  void note_comments() {
    for (const Comment& comment : module_.comments) {
      if (comment.line < editor_.first_line() || comment.line > editor_.last_line()) continue;
      if (editor_.line(comment.line).substr(editor_.indentation(comment.line).size()) == text_of(comment.range)) {
        comment_lines_.insert(comment.line);
      }
    }
  }

  /// The first of the comment lines that stand directly above `line`, or `line`.
  int with_comment(int line) const {
    while (comment_lines_.contains(line - 1) && editor_.indentation(line - 1) == editor_.indentation(line)) --line;
    return line;
  }

  /// The lines of a statement that has them for itself.
  std::pair<int, int> own_lines(const Statement& statement) const {
    const int first = first_line(statement.range);
    const int last = last_line(statement.range);
    const std::string_view text = module_.source->text();
    std::string_view after = text.substr(statement.range.end);
    after = after.substr(0, after.find('\n'));
    after.remove_prefix(std::min(after.find_first_not_of(" \t\r"), after.size()));
    const auto column = static_cast<std::size_t>(module_.locate(statement.range).column - 1);
    if (column != editor_.indentation(first).size() || (!after.empty() && after.front() != '#')) {
      reject(statement.range, "a statement of the tile scheduler shares its line with other code",
             "put it on a line of its own");
    }
    return {first, last};
  }

  void rename() { editor_.replace(function_.name_range, name_); }

  void remove_annotations() {
    bool in_scheduler = false;
    for (const Comment& comment : module_.comments) {
      if (comment.line < editor_.first_line() || comment.line > editor_.last_line()) continue;
      const std::string_view text = text_of(comment.range);
      const bool annotation = is_annotation(text);
      const bool whole_line = comment_lines_.contains(comment.line);
      if (annotation && is_scheduler_annotation(text, "begin")) in_scheduler = true;
      if (annotation && is_scheduler_annotation(text, "end")) in_scheduler = false;
      if (whole_line && (annotation || in_scheduler)) editor_.remove_lines(comment.line, comment.line);
      if (!whole_line && annotation) {
        const std::string_view before = editor_.line(comment.line);
        const auto column = static_cast<std::size_t>(module_.locate(comment.range).column - 1);
        const std::size_t code = before.find_last_not_of(" \t", column - 1) + 1;
        const auto begin = static_cast<std::uint32_t>(comment.range.begin - (column - code));
        trailing_annotations_.push_back({begin, comment.range.end});
      }
    }
  }

  bool is_removed(const Statement& statement) const {
    const auto& removed = scheduler_.statements;
    return std::find(removed.begin(), removed.end(), &statement) != removed.end();
  }

  bool in_loop(const Statement& statement) const {
    if (scheduler_.kind == SchedulerKind::program_per_tile) return true;
    return scheduler_.loop->range.begin <= statement.range.begin && statement.range.end <= scheduler_.loop->range.end;
  }

  /// Removes the scheduler's statements; the last one that assigns an index variable becomes a load from the table.
  void remove_scheduler() {
    std::map<std::string, const Statement*> last_assignment;
    for (const Statement* statement : scheduler_.statements) {
      if (statement == scheduler_.advance || !in_loop(*statement)) continue;
      visit_statements(*statement, [&](const Statement& each) {
        for (const Expression* variable : assigned_variables(each)) last_assignment[variable->text] = statement;
      });
    }
    for (const Statement* statement : scheduler_.statements) {
      if (statement == scheduler_.advance) continue;  // replace_loop() does it
      const auto [first, last] = own_lines(*statement);
      std::vector<std::string> loads;
      for (std::size_t axis = 0; axis < scheduler_.index_variables.size(); ++axis) {
        const std::string& variable = scheduler_.index_variables[axis];
        const auto found = last_assignment.find(variable);
        if (found == last_assignment.end() || found->second != statement) continue;
        loads.push_back(index_load(axis));
        loaded_.insert(variable);
      }
      if (loads.empty()) {
        editor_.remove_lines(with_comment(first), last);
      } else {
        const std::string separator = "\n" + editor_.indentation(first) + extra_indentation();
        editor_.replace(statement->range, fmt::format("{}", fmt::join(loads, separator)));
      }
    }
    for (const ByteRange range : trailing_annotations_) {
      if (!editor_.removed(first_line(range))) editor_.replace(range, "");
    }
  }

  std::string index_load(std::size_t axis) const {
    const std::string offset = axis == 0 ? "" : fmt::format(" + {}", axis);
    const std::string& name = scheduler_.index_variables[axis];
    const auto& wide = scheduler_.wide_index_variables;  // the table's own type
    const bool narrow = std::find(wide.begin(), wide.end(), name) == wide.end();
    return fmt::format("{} = tl.load(syncopate_row{}){} + syncopate_ready", name, offset,
                       narrow ? ".to(tl.int32)" : "");
  }

  /// One step of the user's indentation.
  std::string unit() const { return editor_.indentation(first_line(function_.body.front()->range)); }
  /// By how much the tile's statements move right.
  std::string extra_indentation() const {
    return scheduler_.kind == SchedulerKind::program_per_tile ? unit() : std::string();
  }

  std::string launch_line(const std::string& indentation) const {
    return fmt::format("{}syncopate_launch = tl.load({})\n", indentation, runtime_parameter::kEpoch);
  }

  /// The walk as a `while`. Triton pipelines a `for` over its iterations, which takes shared memory that a kernel
  /// without that `for` did not need, and would wait for a tile's chunks before the tile before it is done.
  std::string while_start(const std::string& indentation) const {
    return dynamic_ ? take(indentation) : indentation + "syncopate_slot = tl.program_id(0)\n";
  }
  static std::string while_header() { return fmt::format("while syncopate_slot < {}:", runtime_parameter::kTileCount); }
  static std::string while_advance() { return "syncopate_slot += tl.num_programs(0)"; }

  /// In a dynamic order: takes a slot. That stands at the end of the loop, wherever the user's advances: who looks for
  /// a slot may have to wait for what others make of the one before.
  std::string take(const std::string& indentation) const {
    namespace parameter = runtime_parameter;
    const std::string call = indentation + "syncopate_slot = syncopate_take(";
    return wrap_items(call,
                      {parameter::kClaims, parameter::kLookahead,
                       fmt::format("{} + {}", parameter::kTiles, scheduler_.index_variables.size()),
                       fmt::format("{}", columns()), parameter::kTileCount, parameter::kWaits, parameter::kFlags,
                       "syncopate_launch", parameter::kRecord, parameter::kTimeLimit},
                      call.size(), ")\n");
  }

  std::size_t columns_before_loops() const {
    const std::size_t columns = sums_ ? kSumColumns : sent_.empty() ? 0 : kSendColumns;
    return scheduler_.index_variables.size() + kWaitColumns + columns;
  }
  std::size_t columns() const {
    return columns_before_loops() + (streams_ ? kernel_.streamed_loops().size() * kLoopColumns : 0);
  }

  /// What comes first in the loop: the slot's row of the table, and its waits.
  std::string loop_start(const std::string& indentation) const {
    namespace parameter = runtime_parameter;
    const std::size_t axes = scheduler_.index_variables.size();
    std::string text = fmt::format("{}syncopate_row = {} + tl.cast(syncopate_slot, tl.int64) * {}\n", indentation,
                                   parameter::kTiles, columns());
    if (sums_) text += sums_->loop_start(indentation);
    if (!sums_ && !sent_.empty()) text += send_start(indentation, axes);
    if (streams_ && !sums_ && need_kept_slot(kernel_))  // with sums it is there
      text += fmt::format("{}{} = syncopate_slot\n", indentation, kKeptSlot);
    const std::string call = indentation + "syncopate_ready = syncopate_wait_for_tile(";
    text += wrap_items(call,
                       {fmt::format("syncopate_row + {}", axes), parameter::kWaits, parameter::kFlags,
                        "syncopate_launch", "syncopate_slot", parameter::kRecord, parameter::kTimeLimit},
                       call.size(), ")\n");
    for (std::size_t axis = 0; axis < axes; ++axis) {
      if (loaded_.contains(scheduler_.index_variables[axis])) continue;
      text += indentation + index_load(axis) + "\n";
    }
    return text;
  }

  void replace_loop() {
    const Statement& loop = *scheduler_.loop;
    const int header = first_line(loop.header);
    const int body = last_line(loop.header) + 1;
    if (first_line(loop.body.front()->range) < body) {
      reject(loop.body.front()->range, "the tile loop's body begins on the line of its header",
             "put it on a line of its own");
    }
    const int before = with_comment(header);
    const std::string indentation = editor_.indentation(header);
    editor_.insert_before(before, launch_line(indentation));
    const std::string inner = editor_.indentation(first_line(loop.body.front()->range));
    if (scheduler_.kind == SchedulerKind::persistent_for && !dynamic_) {
      editor_.replace(loop.header, for_header(loop));
    } else {
      editor_.insert_before(before, while_start(indentation));
      editor_.replace(loop.header, while_header());
      replace_advance(inner);
    }
    editor_.insert_before(body, loop_start(inner));
    editor_.insert_before(last_line(loop.range) + 1, sum_lines(indentation));
  }

  void replace_advance(const std::string& indentation) {
    if (scheduler_.advance != nullptr) {
      const auto [first, last] = own_lines(*scheduler_.advance);
      if (!dynamic_) return editor_.replace(scheduler_.advance->range, while_advance());
      editor_.remove_lines(with_comment(first), last);
    }
    editor_.insert_before(last_line(scheduler_.loop->range) + 1, take(indentation));
  }

  /// Whether an option of a loop makes Triton begin an iteration before the one before it has ended.
  static bool mixes_tiles(const std::string& option) {
    return option == "flatten" || option == "num_stages" || option == "warp_specialize";
  }

  /// The user's loop, its options included, over the rank's tile order.
  std::string for_header(const Statement& loop) const {
    const std::string written = loop.value->children.front()->dotted_name();
    const std::string range = written.ends_with(".range") ? written : "tl.range";
    std::vector<std::string> arguments = {"tl.program_id(0)", runtime_parameter::kTileCount, "tl.num_programs(0)"};
    for (const Keyword& keyword : loop.value->keywords) {
      if (in_order_ && mixes_tiles(keyword.name)) continue;
      if (keyword.name == "arg1" || keyword.name == "arg2" || keyword.name == "step") continue;
      arguments.push_back(fmt::format("{}={}", keyword.name, text_of(keyword.value->range)));
    }
    const std::string indentation = editor_.indentation(first_line(loop.header));
    const std::string start = fmt::format("{}for syncopate_slot in {}(", indentation, range);
    return wrap_items(start, arguments, start.size(), "):").substr(indentation.size());
  }

  void wrap_body() {
    const std::size_t first = first_wrapped();
    check_wrapped(first);
    const int begin = with_comment(first_line(function_.body[first]->range));
    const std::string step = unit();
    editor_.insert_before(
        begin, launch_line(step) + while_start(step) + step + while_header() + "\n" + loop_start(step + step));
    editor_.insert_before(editor_.last_line() + 1,
                          (dynamic_ ? take(step + step) : step + step + while_advance() + "\n") + sum_lines(step));
    const Statement& last = *function_.body.back();
    if (last.kind == StatementKind::return_) {
      const auto [from, to] = own_lines(last);
      editor_.remove_lines(with_comment(from), to);
    }
    std::vector<ByteRange> strings;
    for (const auto& statement : function_.body) {
      visit(*statement, [&](const Expression& expression) {
        if (expression.kind == ExpressionKind::string) strings.push_back(expression.range);
      });
    }
    editor_.indent_lines(begin, editor_.last_line(), step, strings);
  }

  /// Of a kernel with one program per tile: the first statement of the tile. Before it stand the docstring and
  /// statements that need not be repeated for each tile: they only name values that never change.
  std::size_t first_wrapped() const {
    std::map<std::string, int> assignments;
    for (const auto& statement : function_.body) {
      visit_statements(*statement, [&](const Statement& each) {
        for (const Expression* variable : assigned_variables(each)) ++assignments[variable->text];
      });
    }
    for (std::size_t i = 0; i < function_.body.size(); ++i) {
      const Statement& statement = *function_.body[i];
      const bool docstring =
          i == 0 && statement.kind == StatementKind::expression && statement.value->kind == ExpressionKind::string;
      if (!docstring && (is_removed(statement) || !is_invariant(statement, assignments))) return i;
    }
    check_internal(false, "a kernel has no statement that belongs to a tile");
    return 0;
  }

  bool is_invariant(const Statement& statement, const std::map<std::string, int>& assignments) const {
    if (statement.kind == StatementKind::expression) return is_call_of(*statement.value, "static_assert");
    if (statement.kind != StatementKind::assign) return false;
    for (const Expression* variable : assigned_variables(statement)) {
      if (assignments.at(variable->text) != 1 || is_parameter(variable->text)) return false;
    }
    bool invariant = true;
    visit(*statement.value, [&](const Expression& expression) {
      if (expression.kind != ExpressionKind::call) return;
      invariant = invariant &&
                  (is_call_of(expression, "cdiv") || is_call_of(expression, "make_tensor_descriptor") ||
                   is_call_of(expression, "arange") || is_call_of(expression, "min") || is_call_of(expression, "max"));
    });
    return invariant;
  }

  bool is_parameter(const std::string& name) const {
    return std::any_of(function_.parameters.begin(), function_.parameters.end(),
                       [&](const Parameter& parameter) { return parameter.name == name; });
  }

  /// A tile's statements run once for each of several tiles, where they used to run once.
  void check_wrapped(std::size_t first) {
    for (std::size_t i = first; i < function_.body.size(); ++i) {
      visit_kept(*function_.body[i], [&](const Statement& statement) {
        for (const Expression* variable : assigned_variables(statement)) {
          if (!is_parameter(variable->text)) continue;
          reject(statement.range,
                 fmt::format("parameter '{0}' is changed, but the fused kernel's next tile needs its first value",
                             variable->text),
                 fmt::format("give the new value a name of its own, e.g. `tile_{0} = {0} + ...`", variable->text));
        }
      });
    }
  }

  /// Calls `visitor` for each statement that stays.
  void visit_kept(const Statement& statement, const std::function<void(const Statement&)>& visitor) const {
    if (is_removed(statement)) return;
    visitor(statement);
    for (const auto& inner : statement.body) visit_kept(*inner, visitor);
    for (const auto& inner : statement.orelse) visit_kept(*inner, visitor);
  }

  /// Calls `visitor` for each expression that stays.
  void visit_kept_expressions(const ExpressionVisitor& visitor) const {
    for (const auto& each : function_.body) {
      visit_kept(*each, [&](const Statement& statement) {
        if (&statement == scheduler_.loop) return;
        for (const auto& target : statement.targets) visit(*target, visitor);
        if (statement.value) visit(*statement.value, visitor);
      });
    }
  }

  /// Names that only the scheduler assigned, index variables aside: gone after the edit.
  std::set<std::string> lost_names() const {
    std::set<std::string> lost;
    const auto note = [&](const Statement& statement) {
      for (const Expression* variable : assigned_variables(statement)) lost.insert(variable->text);
    };
    for (const Statement* statement : scheduler_.statements) visit_statements(*statement, note);
    if (scheduler_.loop != nullptr) note(*scheduler_.loop);
    for (const std::string& variable : scheduler_.index_variables) lost.erase(variable);
    for (const auto& statement : function_.body) {
      visit_kept(*statement, [&](const Statement& each) {
        if (&each == scheduler_.loop) return;
        for (const Expression* variable : assigned_variables(each)) lost.erase(variable->text);
      });
    }
    return lost;
  }

  std::set<std::string> kept_names() const {
    const std::set<std::string> lost = lost_names();
    std::set<std::string> names;
    visit_kept_expressions([&](const Expression& expression) {
      if (expression.kind != ExpressionKind::name) return;
      check_internal(!lost.contains(expression.text), "the tile's work uses a value of the removed tile scheduler");
      names.insert(expression.text);
    });
    add_parameter_names(module_, function_, names);
    return names;
  }

  const TileKernel& kernel_;
  const std::vector<std::string> sent_;
  const std::vector<SummedInput>& summed_;
  const std::vector<FoldedInput>& folded_;
  std::vector<std::string> ends_;  ///< parameters after whose stores a slot's signals are raised
  const std::optional<AddedOutput>& added_;
  const Module& module_;
  const Function& function_;
  const TileScheduler& scheduler_;
  std::string name_;
  LineEditor editor_;
  std::set<int> comment_lines_;  ///< lines that hold nothing else
  std::vector<ByteRange> trailing_annotations_;
  bool in_order_;  ///< a tile may not begin to wait before the one before it is stored
  bool streams_;
  bool dynamic_;
  bool has_addends_;  ///< whether tiles add what lies elsewhere
  std::optional<SumEditor> sums_;
  std::set<std::string> loaded_;  ///< index variables that are loaded where the scheduler assigned them
};

}  // namespace

WalkingKernel walk_tiles(const TileKernel& kernel, const std::string& name, const std::string& reduced,
                         const WalkOptions& options) {
  return Walk(kernel, name, reduced, options).run();
}

}  // namespace syncopate
