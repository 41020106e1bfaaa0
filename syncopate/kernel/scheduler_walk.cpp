#include "syncopate/kernel/scheduler_walk.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "syncopate/kernel/scheduler_facts.h"

namespace syncopate {
namespace {

constexpr int kMostHops = 16;  // of `a = b; b = c; ...`

class Finder {
 public:
  Finder(const Module& module, const Function& function, const Annotations& annotations)
      : module_(module), function_(function), annotations_(annotations) {}

  TileWalk run() {
    for (const auto& statement : function_.body) {
      if (const auto walk = walk_of(*statement)) {
        if (walk_.loop != nullptr)
          throw error(statement->header,
                      fmt::format("a second loop over tiles; the first is at line {}", line(walk_.loop->header)),
                      "make two kernels of them, or one loop");
        walk_ = *walk;
      }
      for (const auto* nested : {&statement->body, &statement->orelse}) check_nested(*nested);
    }
    check_exits();
    return walk_;
  }

 private:
  UserError error(ByteRange range, std::string problem, std::string remedy) const {
    return {module_.locate(range), std::move(problem), std::move(remedy)};
  }
  int line(ByteRange range) const { return module_.locate(range).line; }

  bool is_parameter(const std::string& name) const {
    return std::any_of(function_.parameters.begin(), function_.parameters.end(),
                       [&name](const Parameter& parameter) { return parameter.name == name; });
  }
  bool is_constant(const std::string& name) const {
    return std::any_of(module_.constants.begin(), module_.constants.end(), [&name](const auto& constant) {
      return own_names_written(*constant) == std::vector<std::string>{name};
    });
  }

  /// The value of a name that a single statement at the function's own level assigns, or nullptr.
  const Expression* only_value(const std::string& name) const {
    const Expression* value = nullptr;
    for (const auto& statement : function_.body) {
      const std::vector<std::string> written = names_written(*statement);
      if (std::find(written.begin(), written.end(), name) == written.end()) continue;
      const bool simple = statement->kind == StatementKind::assign && statement->targets.size() == 1 &&
                          statement->targets[0]->kind == ExpressionKind::name;
      if (value != nullptr || !simple) return nullptr;
      value = statement->value.get();
    }
    return value;
  }

  /// Follows names to what they were assigned.
  const Expression* resolve(const Expression* expression) const {
    for (int hops = 0; expression->kind == ExpressionKind::name && hops < kMostHops; ++hops) {
      const Expression* value = only_value(expression->text);
      if (value == nullptr) break;
      expression = value;
    }
    return expression;
  }
  /// tl.program_id(0). Loops that start at the id of another axis split the work of one tile.
  bool is_program_id(const Expression& expression) const {
    const Expression& value = *resolve(&expression);
    if (called(value) != "program_id") return false;
    const Expression* axis = value.children.size() > 1 ? value.children[1].get() : nullptr;
    for (const Keyword& keyword : value.keywords) axis = keyword.value.get();
    return axis != nullptr && axis->kind == ExpressionKind::integer && axis->integer == 0;
  }
  /// The number of programs: asked for, or passed by the launcher as is usual with NUM_SMS.
  bool is_program_count(const Expression& expression) const {
    const Expression& value = *resolve(&expression);
    if (value.kind == ExpressionKind::name) return is_parameter(value.text) || is_constant(value.text);
    return called(value) == "num_programs";
  }

  bool annotated(const Statement& loop) const {
    return std::any_of(
        annotations_.scheduler_blocks.begin(), annotations_.scheduler_blocks.end(),
        [&loop](ByteRange block) { return loop.header.end <= block.begin && block.end <= loop.range.end; });
  }

  std::optional<TileWalk> walk_of(const Statement& statement) const {
    if (statement.kind == StatementKind::for_) return walk_of_for(statement);
    if (statement.kind == StatementKind::while_) return walk_of_while(statement);
    return std::nullopt;
  }

  std::optional<TileWalk> walk_of_for(const Statement& loop) const {
    if (loop.targets[0]->kind != ExpressionKind::name) return std::nullopt;
    const TileWalk walk{SchedulerKind::persistent_for, &loop, loop.targets[0]->text, nullptr};
    const Expression& range = *loop.value;
    const bool counts = called(range) == "range";
    if (annotated(loop)) {
      if (!counts)
        throw error(loop.header, "the loop around 'tile_scheduler begin' does not count tiles",
                    "write it as `for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):`");
      return walk;
    }
    const Expression* step = range.children.size() == 4 ? range.children[3].get() : nullptr;
    for (const Keyword& keyword : range.keywords)
      if (keyword.name == "step") step = keyword.value.get();
    if (!counts || range.children.size() < 3 || step == nullptr || !is_program_id(*range.children[1]) ||
        !is_program_count(*step))
      return std::nullopt;
    return walk;
  }

  /// The counter of `counter < bound` or `bound > counter`.
  static const Expression* compared_counter(const Expression& condition) {
    if (condition.kind != ExpressionKind::comparison) return nullptr;
    const Expression* counter = condition.text == "<"   ? condition.children[0].get()
                                : condition.text == ">" ? condition.children[1].get()
                                                        : nullptr;
    return counter != nullptr && counter->kind == ExpressionKind::name ? counter : nullptr;
  }

  std::optional<TileWalk> walk_of_while(const Statement& loop) const {
    const Expression* counter = compared_counter(*loop.value);
    const bool marked = annotated(loop);
    if (counter == nullptr || (!marked && !starts_at_program_id(*counter, loop))) {
      if (marked)
        throw error(loop.header, "the loop around 'tile_scheduler begin' does not count tiles",
                    "write it as `while tile < tiles:`");
      return std::nullopt;
    }
    TileWalk walk{SchedulerKind::persistent_while, &loop, counter->text, nullptr};
    for (const auto& statement : loop.body) {
      const std::vector<std::string> written = names_written(*statement);
      if (std::find(written.begin(), written.end(), counter->text) == written.end()) continue;
      if (walk.advance != nullptr || !advances(*statement, counter->text))
        throw error(
            statement->range, fmt::format("'{}' counts the tiles, but changes here in another way", counter->text),
            fmt::format("advance it once, with `{} += tl.num_programs(0)` at the end of the loop", counter->text));
      walk.advance = statement.get();
    }
    if (walk.advance == nullptr)
      throw error(loop.header, fmt::format("nothing in this loop over tiles advances '{}'", counter->text),
                  fmt::format("end it with `{} += tl.num_programs(0)`", counter->text));
    return walk;
  }

  bool starts_at_program_id(const Expression& counter, const Statement& loop) const {
    const Expression* start = nullptr;
    for (const auto& statement : function_.body) {
      if (statement.get() == &loop) break;
      const std::vector<std::string> written = names_written(*statement);
      if (std::find(written.begin(), written.end(), counter.text) == written.end()) continue;
      start = statement->kind == StatementKind::assign ? statement->value.get() : nullptr;
    }
    return start != nullptr && is_program_id(*start);
  }

  /// tile += step, or tile = tile + step.
  bool advances(const Statement& statement, const std::string& counter) const {
    if (statement.kind == StatementKind::augmented_assign)
      return statement.text == "+" && is_program_count(*statement.value);
    if (statement.kind != StatementKind::assign || statement.targets[0]->kind != ExpressionKind::name) return false;
    const Expression& value = *statement.value;
    return value.kind == ExpressionKind::binary && value.text == "+" &&
           value.children[0]->kind == ExpressionKind::name && value.children[0]->text == counter &&
           is_program_count(*value.children[1]);
  }

  void check_nested(const std::vector<std::unique_ptr<Statement>>& statements) const {
    for (const auto& statement : statements) {
      if (walk_of(*statement))
        throw error(statement->header, "the loop over tiles stands inside another statement",
                    "put it directly into the kernel's body; `return` before it is not supported either");
      check_nested(statement->body);
      check_nested(statement->orelse);
    }
  }

  /// A fused kernel goes on to its next tile, so a tile must not end the program.
  void check_exits() const {
    for (const auto& statement : function_.body)
      for_each_statement(*statement, [&](const Statement& each) {
        const bool last = &each == function_.body.back().get() && each.value == nullptr;
        if (each.kind == StatementKind::return_ && !last)
          throw error(each.range, "the kernel returns before its end, but a fused kernel goes on to its next tile",
                      "put what follows under an `if` instead");
      });
    if (walk_.loop != nullptr)
      for (const auto& statement : walk_.loop->body) check_loop_exits(*statement);
  }

  void check_loop_exits(const Statement& statement) const {
    if (statement.kind == StatementKind::for_ || statement.kind == StatementKind::while_) return;
    if (statement.kind == StatementKind::break_ || statement.kind == StatementKind::continue_)
      throw error(statement.range, "a tile ends the loop over tiles, or itself, early",
                  "put what follows under an `if` instead");
    for (const auto& child : statement.body) check_loop_exits(*child);
    for (const auto& child : statement.orelse) check_loop_exits(*child);
  }

  const Module& module_;
  const Function& function_;
  const Annotations& annotations_;
  TileWalk walk_;
};

}  // namespace

std::string annotation_remedy() {
  return "mark the statements that compute the tile indices: put `# syncopate: tile_scheduler begin` on a line before "
         "the first and `# syncopate: tile_scheduler end` after the last (docs/annotations.md)";
}

TileWalk find_walk(const Module& module, const Function& function, const Annotations& annotations) {
  return Finder(module, function, annotations).run();
}

}  // namespace syncopate
