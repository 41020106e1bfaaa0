#include "syncopate/kernel/streamed_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "syncopate/core/error.h"

namespace syncopate {
namespace {

void for_each_expression(const Expression& expression, const std::function<void(const Expression&)>& visit) {
  visit(expression);
  for (const auto& child : expression.children) for_each_expression(*child, visit);
  for (const Keyword& keyword : expression.keywords) for_each_expression(*keyword.value, visit);
}

/// The statements in `body` and all inside them, each with the loops around it, outermost first.
void for_each_statement(const std::vector<std::unique_ptr<Statement>>& body, std::vector<const Statement*>& around,
                        const std::function<void(const Statement&)>& visit) {
  for (const auto& statement : body) {
    visit(*statement);
    const bool loops = statement->kind == StatementKind::for_ || statement->kind == StatementKind::while_;
    if (loops) around.push_back(statement.get());
    for_each_statement(statement->body, around, visit);
    if (loops) around.pop_back();
    for_each_statement(statement->orelse, around, visit);
  }
}

bool is_range(const Expression& value) {
  if (value.kind != ExpressionKind::call) return false;
  const std::string name = value.children.front()->dotted_name();
  return name == "range" || name.ends_with(".range");
}

class LoopCheck {
 public:
  LoopCheck(const TileKernel& kernel, const StreamedLoop& streamed) : kernel_(kernel), loop_(*streamed.loop) {}

  void run() {
    if (loop_.kind != StatementKind::for_ || !is_range(*loop_.value))
      reject(loop_.header, "a streamed loop is a `for` over range or tl.range");
    if (loop_.targets.size() != 1 || loop_.targets.front()->kind != ExpressionKind::name)
      reject(loop_.header, "a streamed loop has one variable");
    variable_ = loop_.targets.front()->text;
    for_each_statement(kernel_.function().body, around_, [&](const Statement& statement) { check(statement); });
    check_bounds();
  }

 private:
  [[noreturn]] void reject(ByteRange range, std::string problem,
                           std::string remedy = "write the loop so, or remove its annotation 'streamed_loop'") const {
    throw UserError(kernel_.module().locate(range), std::move(problem), std::move(remedy));
  }

  bool in_loop() const { return std::find(around_.begin(), around_.end(), &loop_) != around_.end(); }

  void check(const Statement& statement) {
    if (&statement == &loop_) check_place();
    if (in_loop()) check_inside(statement);
    const auto assigns_variable = [&](const Statement* loop) {
      return loop->kind == StatementKind::for_ && loop->targets.front()->kind == ExpressionKind::name &&
             loop->targets.front()->text == variable_;
    };
    if (!std::any_of(around_.begin(), around_.end(), assigns_variable)) check_outside(statement);
  }

  void check_place() const {
    const TileScheduler& scheduler = kernel_.scheduler();
    const bool early =
        loop_.range.begin < scheduler.last_assignment->range.begin ||
        (scheduler.loop != nullptr && std::find(around_.begin(), around_.end(), scheduler.loop) == around_.end());
    if (early) reject(loop_.header, "this streamed loop belongs to no tile", "put it after the tile indices");
    for (const Statement* outer : around_)
      if (outer != kernel_.scheduler().loop)
        reject(loop_.header,
               "this streamed loop stands inside another loop of the tile, so a tile walks it several times");
  }

  void check_inside(const Statement& statement) {
    for (const StreamedLoop& other : kernel_.streamed_loops())
      if (other.loop == &statement) reject(statement.header, "a streamed loop inside another streamed loop");
    const bool leaves = statement.kind == StatementKind::return_ ||
                        (statement.kind == StatementKind::break_ && around_.back() == &loop_);
    if (leaves) reject(statement.range, "this leaves a streamed loop early, so its iterations depend on each other");
    if (statement.kind == StatementKind::assign || statement.kind == StatementKind::augmented_assign ||
        statement.kind == StatementKind::for_)
      for (const auto& target : statement.targets)
        for_each_expression(*target, [&](const Expression& each) {
          if (each.kind == ExpressionKind::name) assigned_.insert(each.text);
        });
  }

  /// Uses of the loop's variable where no loop over it has just set it.
  void check_outside(const Statement& statement) const {
    const auto check = [&](const Expression& each) {
      if (each.kind == ExpressionKind::name && each.text == variable_)
        reject(
            each.range, fmt::format("'{}' is the variable of a streamed loop and is used outside of it", variable_),
            "its last value is another one where the loop is walked in another order; give this use a name of its own");
    };
    if (statement.value) for_each_expression(*statement.value, check);
    if (statement.kind == StatementKind::augmented_assign)
      for (const auto& target : statement.targets) for_each_expression(*target, check);
  }

  /// Start and step are evaluated again for every piece of the loop.
  void check_bounds() const {
    const auto& arguments = loop_.value->children;  // the function, then the bounds
    const auto check = [&](const Expression& bound) {
      for_each_expression(bound, [&](const Expression& each) {
        if (each.kind == ExpressionKind::name && assigned_.contains(each.text) && each.text != variable_)
          reject(each.range,
                 fmt::format("the streamed loop changes '{}', from which it starts or by which it advances", each.text),
                 "give the changed value a name of its own");
        if (each.kind == ExpressionKind::name && each.text == variable_)
          reject(each.range, fmt::format("the bounds of the streamed loop use its own variable '{}'", variable_),
                 "give the loop's variable a name of its own");
      });
    };
    if (arguments.size() > 2) check(*arguments[1]);
    if (arguments.size() > 3) check(*arguments[3]);
  }

  const TileKernel& kernel_;
  const Statement& loop_;
  std::string variable_;
  std::vector<const Statement*> around_;
  std::set<std::string> assigned_;  ///< in the loop's body
};

/// What flows where in the body of a lowered loop.
class Dataflow {
 public:
  Dataflow(const Program& program, LoweredLoop& loop) : program_(program), loop_(loop) {}

  void run() {
    const std::set<Register> deciding = find_deciding(true);
    const std::set<Register> touching = find_deciding(false);
    std::set<Register> written;
    for_each([&](const Instruction& each) {
      for (const Register result : {each.result, each.second_result})
        if (result != kNoRegister) written.insert(result);
    });
    std::set<Register> read_first;
    for_each([&](const Instruction& each) {
      for (const Register operand : program_.operands_of(each))
        if (operand != kNoRegister && !is_set_before(operand, each)) read_first.insert(operand);
    });
    const Register counter = loop_.next->result;
    for (const Register each : read_first) {
      if (each == counter) continue;
      if (!written.contains(each)) {
        if (touching.contains(each)) loop_.inputs.push_back(each);
        continue;
      }
      loop_.carried.push_back(each);
      if (deciding.contains(each)) reject(each);
    }
  }

 private:
  void for_each(const std::function<void(const Instruction&)>& visit) const {
    for (const Instruction* each = loop_.test + 1; each < loop_.next; ++each) visit(*each);
  }

  static bool is_data(const Instruction& instruction) {
    return instruction.opcode == Opcode::load || instruction.opcode == Opcode::descriptor_load ||
           instruction.opcode == Opcode::atomic || instruction.opcode == Opcode::dot;
  }

  /// The operands of an access or a branch that decide what happens: all but stored values.
  bool decides(const Instruction& instruction, std::size_t operand) const {
    switch (instruction.opcode) {
      case Opcode::load:
        return operand != 2;
      case Opcode::store:
      case Opcode::atomic:
      case Opcode::descriptor_store:
        return operand != 1;
      case Opcode::descriptor_load:
      case Opcode::make_descriptor:
      case Opcode::make_block_pointer:
      case Opcode::branch_false:
      case Opcode::branch_decided:
      case Opcode::range_begin:
      case Opcode::range_test:
      case Opcode::range_next:
        return true;
      default:
        return false;
    }
  }

  /// Registers whose values decide which elements are touched; with `all_branches` also what is done to them. Otherwise
  /// a branch does not count that leads around nothing which touches any or decides, as one around a mask.
  std::set<Register> find_deciding(bool all_branches) const {
    std::set<Register> deciding;
    const auto add = [&](Register operand) { return operand != kNoRegister && deciding.insert(operand).second; };
    for (bool grows = true; grows;) {
      grows = false;
      for_each([&](const Instruction& each) {
        const auto operands = program_.operands_of(each);
        if (all_branches || !is_branch(each) || chooses(each, deciding))
          for (std::size_t i = 0; i < operands.size(); ++i)
            if (decides(each, i)) grows = add(operands[i]) || grows;
        if (is_data(each) || !(deciding.contains(each.result) || deciding.contains(each.second_result))) return;
        for (const Register operand : operands) grows = add(operand) || grows;
      });
    }
    return deciding;
  }

  static bool is_branch(const Instruction& instruction) {
    return instruction.opcode == Opcode::branch_false || instruction.opcode == Opcode::branch_decided;
  }

  /// Whether any of what a branch leads around, or to, touches elements, decides which, or goes elsewhere than on.
  bool chooses(const Instruction& branch, const std::set<Register>& deciding) const {
    const Instruction* const code = program_.instructions.data();
    const Instruction* end = code + branch.target;
    if (end <= &branch || end > loop_.next) return true;
    for (const Instruction* each = &branch + 1; each < end; ++each) {
      if (is_access(each->opcode)) return true;
      switch (each->opcode) {
        case Opcode::range_test:
        case Opcode::make_descriptor:
        case Opcode::make_block_pointer:
        case Opcode::check:
        case Opcode::refuse:
          return true;
        default:
          break;
      }
      if (deciding.contains(each->result) || deciding.contains(each->second_result)) return true;
      if (!is_branch(*each) && each->opcode != Opcode::jump) continue;
      const Instruction* const target = code + each->target;
      if (target <= each || target > loop_.next) return true;
      end = std::max(end, target);
    }
    return false;
  }

  /// Whether this iteration has certainly written a register when it comes to `reader`: an earlier instruction of the
  /// body does, and no branch leads around that but not around the reader.
  bool is_set_before(Register value, const Instruction& reader) const {
    for (const Instruction* each = loop_.test + 1; each < &reader; ++each)
      if ((each->result == value || each->second_result == value) && !is_avoided(*each, reader)) return true;
    return false;
  }

  bool is_avoided(const Instruction& writer, const Instruction& reader) const {
    const Instruction* const code = program_.instructions.data();
    for (const Instruction* each = loop_.test + 1; each < &writer; ++each) {
      const bool branches = each->opcode == Opcode::branch_false || each->opcode == Opcode::branch_decided ||
                            each->opcode == Opcode::range_test || each->opcode == Opcode::jump;
      const Instruction* const target = code + each->target;
      if (branches && target > &writer && target <= &reader) return true;
    }
    return false;
  }

  [[noreturn]] void reject(Register value) const {
    const Instruction* writer = loop_.test + 1;
    while (writer->result != value && writer->second_result != value) ++writer;
    throw UserError(program_.locate(*writer),
                    "which elements an iteration of this streamed loop touches depends on what the iteration before it "
                    "computes here",
                    "compute it from the loop's variable, so that iterations can run in any order");
  }

  const Program& program_;
  LoweredLoop& loop_;
};

/// A loop is missing from a lowered kernel where its branch cannot be lowered.
void reject_refused(const Program& program) {
  for (const Instruction& each : program.instructions) {
    if (each.opcode != Opcode::refuse) continue;
    const auto text = [&](std::size_t operand) {
      const Register wanted = program.operands_of(each)[operand];
      const auto constant = std::find_if(program.constants.begin(), program.constants.end(),
                                         [wanted](const ConstantRegister& known) { return known.value == wanted; });
      return program.strings[static_cast<std::size_t>(std::get<StringConstant>(constant->constant).index)];
    };
    throw UserError(program.locate(each), text(0), text(1));
  }
}

}  // namespace

void check_streamed_loops(const TileKernel& kernel) {
  for (const StreamedLoop& loop : kernel.streamed_loops()) LoopCheck(kernel, loop).run();
}

std::vector<LoweredLoop> find_streamed_loops(const Program& program, const std::vector<StreamedLoop>& loops) {
  std::vector<LoweredLoop> lowered;
  for (const StreamedLoop& loop : loops) {
    const auto is_of_loop = [&](const Instruction& each, Opcode opcode) {
      return each.opcode == opcode && each.range == loop.loop->header;
    };
    LoweredLoop& found = lowered.emplace_back();
    for (const Instruction& each : program.instructions) {
      if (is_of_loop(each, Opcode::range_test)) found.test = &each;
      if (is_of_loop(each, Opcode::range_next)) found.next = &each;
    }
    if (found.test == nullptr) reject_refused(program);
    check_internal(found.test != nullptr && found.next != nullptr && found.test > program.instructions.data(),
                   "a streamed loop is not found in the lowered kernel");
    found.begin = found.test - 1;
    check_internal(found.begin->opcode == Opcode::range_begin, "a streamed loop does not begin where it is looked for");
    Dataflow(program, found).run();
  }
  return lowered;
}

}  // namespace syncopate
