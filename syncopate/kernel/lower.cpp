// Lowering of statements and control flow. Every variable of a function keeps one register (a tuple:
// one per item) from its first assignment on, so loops need no joining of values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "syncopate/core/error.h"
#include "syncopate/core/text.h"
#include "syncopate/kernel/imports.h"
#include "syncopate/kernel/lower_internal.h"

namespace syncopate {

std::shared_ptr<const Program> lower(std::shared_ptr<const Module> module, const Function& function,
                                     const std::vector<std::string>& index_variables, const Statement* probe_after) {
  check_internal(index_variables.empty() == (probe_after == nullptr),
                 "index variables and the statement after which to probe them come together");
  return lowering::Lowering(std::move(module), probe_after).lower(function, index_variables);
}

}  // namespace syncopate

namespace syncopate::lowering {
namespace {

/// What names of the file stand for. Without imports (in tests), "tl" is what it always is.
std::map<std::string, std::string, std::less<>> find_imported(const std::vector<std::string>& imports) {
  std::map<std::string, std::string, std::less<>> paths = {{"tl", "triton.language"}, {"triton", "triton"}};
  for (const std::string& statement : imports)
    for (ImportBinding& binding : import_bindings(statement)) paths[binding.name] = std::move(binding.path);
  return paths;
}

}  // namespace

Lowering::Lowering(std::shared_ptr<const Module> module, const Statement* probe_after)
    : program_(std::make_shared<Program>()), module_(*module), probe_after_(probe_after) {
  imported_ = find_imported(module->imports);
  program_->module = std::move(module);
}

void Lowering::fail(ByteRange where, std::string problem, std::string remedy) const {
  refused_ = where;
  throw UserError(module_.locate(where), std::move(problem), std::move(remedy));
}

std::shared_ptr<const Program> Lowering::lower(const Function& function,
                                               const std::vector<std::string>& index_variables) {
  program_->name = function.name;
  program_->index_variables = index_variables;
  Scope scope;
  scope.function = &function;
  scope_ = outermost_ = &scope;
  call_stack_.push_back(&function);
  for (const Parameter& parameter : function.parameters) {
    ProgramParameter entry{parameter.name, parameter.constexpr_, new_register(), kNoRegister};
    if (parameter.default_value) {
      entry.default_value = evaluate_value(*parameter.default_value);
      if (!constant_in(entry.default_value))
        fail(parameter.range, fmt::format("the default of '{}' is not a constant", parameter.name),
             "give a number, a string, None or a dtype");
    }
    mark_variable(entry.value);
    scope.variables.emplace(parameter.name, Operand::single(entry.value));
    program_->parameters.push_back(std::move(entry));
  }
  lower_body(function.body);
  for (const std::size_t jump : scope.return_jumps) patch(jump);
  const std::uint32_t last = function.range.end > 0 ? function.range.end - 1 : 0;
  emit(Opcode::end, 0, kNoRegister, {}, {last, function.range.end});
  scope_ = outermost_ = nullptr;
  return program_;
}

// ---- Building blocks ----

std::size_t Lowering::emit(Opcode opcode, std::uint8_t operation, Register result, std::span<const Register> operands,
                           ByteRange range) {
  Instruction entry;
  entry.opcode = opcode;
  entry.operation = operation;
  entry.result = result;
  entry.first_operand = static_cast<std::uint32_t>(program_->operands.size());
  entry.operand_count = static_cast<std::uint32_t>(operands.size());
  entry.range = range;
  program_->operands.insert(program_->operands.end(), operands.begin(), operands.end());
  program_->instructions.push_back(entry);
  return program_->instructions.size() - 1;
}

Register Lowering::compute(Opcode opcode, std::uint8_t operation, std::span<const Register> operands, ByteRange range,
                           Register into) {
  const Register result = into == kNoRegister ? new_register() : into;
  emit(opcode, operation, result, operands, range);
  return result;
}

Register Lowering::constant(Constant value) {
  for (const ConstantRegister& known : program_->constants)
    if (known.constant == value) return known.value;
  program_->constants.push_back({new_register(), value});
  return program_->constants.back().value;
}

Register Lowering::string_constant(const std::string& text) {
  const auto found = std::find(program_->strings.begin(), program_->strings.end(), text);
  const auto index = static_cast<std::int32_t>(found - program_->strings.begin());
  if (found == program_->strings.end()) program_->strings.push_back(text);
  return constant(StringConstant{index});
}

std::optional<Constant> Lowering::constant_in(Register value) const {
  for (const ConstantRegister& known : program_->constants)
    if (known.value == value) return known.constant;
  return std::nullopt;
}

std::int64_t Lowering::constant_integer(Register value, ByteRange where, std::string_view what) const {
  const std::optional<Constant> known = constant_in(value);
  if (!known || !std::holds_alternative<std::int64_t>(*known))
    fail(where, fmt::format("{} is not a constant integer", what), "write it as a number");
  return std::get<std::int64_t>(*known);
}

// ---- Statements ----

void Lowering::lower_body(const std::vector<std::unique_ptr<Statement>>& body) {
  for (const auto& statement : body) lower_statement(*statement);
}

void Lowering::lower_statement(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::assign:
      lower_assignment(statement);
      break;
    case StatementKind::augmented_assign:
      lower_augmented(statement);
      break;
    case StatementKind::expression:
      if (statement.value->kind == ExpressionKind::string) break;  // a docstring
      evaluate(*statement.value);
      break;
    case StatementKind::if_:
      lower_if(statement);
      break;
    case StatementKind::for_:
      lower_for(statement);
      return;  // probes at the start of its body
    case StatementKind::while_:
      lower_while(statement);
      return;
    case StatementKind::return_:
      lower_return(statement);
      break;
    case StatementKind::pass:
      break;
    case StatementKind::break_:
    case StatementKind::continue_: {
      if (loops_.empty()) fail(statement.range, "break or continue outside a loop");
      const std::size_t jump = emit(Opcode::jump, 0, kNoRegister, {}, statement.range);
      (statement.kind == StatementKind::break_ ? loops_.back().breaks : loops_.back().continues).push_back(jump);
      break;
    }
  }
  if (&statement == probe_after_) emit_probe(statement.range);
}

void Lowering::emit_probe(ByteRange range) {
  std::vector<Register> registers;
  for (const std::string& name : program_->index_variables) {
    const auto found = outermost_->variables.find(name);
    if (found == outermost_->variables.end() || found->second.is_tuple)
      fail(range, fmt::format("the tile index '{}' has no single value here", name));
    registers.push_back(found->second.value);
  }
  emit(Opcode::probe, 0, kNoRegister, registers, range);
}

void Lowering::lower_assignment(const Statement& statement) {
  if (!statement.value) return;  // a bare annotation
  const Expression& first = *statement.targets.front();
  if (statement.targets.size() == 1 && first.kind == ExpressionKind::name) {
    const auto found = scope_->variables.find(first.text);
    const bool known = found != scope_->variables.end();
    if (known && (found->second.is_tuple || found->second.function != nullptr)) {
      assign(first, detach(evaluate(*statement.value), statement.range));
      return;
    }
    const Register target = known ? found->second.value : new_register();
    const Operand value = evaluate(*statement.value, target);
    if (!known && !value.is_tuple && value.function == nullptr) {
      scope_->variables.emplace(first.text, Operand::single(target));
      mark_variable(target);
    }
    if (value.is_tuple || value.function != nullptr || value.value != target) assign(first, value);
    return;
  }
  const Operand value = detach(evaluate(*statement.value), statement.range);
  for (const auto& target : statement.targets) assign(*target, value);
}

void Lowering::lower_augmented(const Statement& statement) {
  const Expression& target = *statement.targets.front();
  if (target.kind != ExpressionKind::name)
    fail(target.range, fmt::format("'{}=' to something that is not a name", statement.text), "assign to a variable");
  const Operand left = evaluate_name(target);
  if (left.is_tuple) fail(target.range, fmt::format("'{}' is a tuple", target.text));
  const std::optional<BinaryOperation> operation = binary_operation(statement.text);
  if (!operation) fail(statement.range, fmt::format("'{}=' is not supported", statement.text));
  const Register right = evaluate_value(*statement.value);
  compute(Opcode::binary, static_cast<std::uint8_t>(*operation), {left.value, right}, statement.range, left.value);
}

void Lowering::lower_if(const Statement& statement) {
  const Register condition = evaluate_value(*statement.value);
  const std::size_t skip = emit(Opcode::branch_false, 0, kNoRegister, std::array{condition}, statement.value->range);
  lower_branch(statement.body);
  if (statement.orelse.empty()) {
    patch(skip);
  } else {
    const std::size_t done = emit(Opcode::jump, 0, kNoRegister, {}, statement.header);
    patch(skip);
    lower_branch(statement.orelse);
    patch(done);
  }
  instruction(skip).meeting = here();
}

/// Branches are often chosen by constexpr arguments, which are not known yet: what is not supported in one that is
/// never taken is no mistake. So a branch that cannot be lowered becomes a refusal, for whoever comes to it.
void Lowering::lower_branch(const std::vector<std::unique_ptr<Statement>>& body) {
  Scope* const scope = scope_;
  const std::size_t returns = scope->return_jumps.size();
  const std::size_t begin = program_->instructions.size();
  const std::size_t calls = call_stack_.size();
  const std::vector<Loop> loops = loops_;
  try {
    lower_body(body);
  } catch (const UserError& error) {
    if (holds_probe(body)) throw;
    scope_ = scope;
    scope->return_jumps.resize(returns);
    program_->instructions.resize(begin);
    call_stack_.resize(calls);
    loops_ = loops;
    constant_depth_ = 0;
    emit_refusal(error.problem(), error.remedy(), refused_);
  }
}

bool Lowering::holds_probe(const std::vector<std::unique_ptr<Statement>>& body) const {
  return probe_after_ != nullptr && !body.empty() && body.front()->range.begin <= probe_after_->range.begin &&
         probe_after_->range.end <= body.back()->range.end;
}

void Lowering::emit_refusal(const std::string& problem, const std::string& remedy, ByteRange range) {
  emit(Opcode::refuse, 0, kNoRegister, std::array{string_constant(problem), string_constant(remedy)}, range);
}

void Lowering::repeat(Register begin, Register end, ByteRange range, const std::function<void(Register)>& body) {
  const Register one = constant(std::int64_t{1});
  const Register counter = compute(Opcode::range_begin, 0, {begin, end, one}, range);
  const std::int32_t test = here();
  const std::size_t leave = emit(Opcode::range_test, 0, kNoRegister, std::array{counter, end, one}, range);
  body(counter);
  compute(Opcode::range_next, 0, {counter, one}, range, counter);
  const std::size_t again = emit(Opcode::jump, 0, kNoRegister, {}, range);
  instruction(again).target = test;
  patch(leave);
}

/// The start, end and step of a range, which Python evaluates once.
std::vector<Register> Lowering::range_bounds(const Expression& call, std::string_view shown) {
  static const std::set<std::string, std::less<>> kOptions = {
      "num_stages", "loop_unroll_factor", "disallow_acc_multi_buffer", "flatten", "warp_specialize", "disable_licm"};
  std::vector<const Expression*> given;
  for (std::size_t i = 1; i < call.children.size(); ++i) given.push_back(call.children[i].get());
  if (given.size() > 3) fail(call.range, fmt::format("{} takes one, two or three numbers", shown));
  const Expression* step = nullptr;
  for (const Keyword& keyword : call.keywords) {
    const std::string& name = keyword.name;
    const bool bounds = shown != "range" && (name == "arg1" || name == "arg2" || name == "step");
    if (!bounds && !(shown == "tl.range" && kOptions.contains(name)))
      fail(keyword.value->range, fmt::format("the argument '{}' of {} is not supported", name, shown),
           shown == "range" ? "range takes no keywords; tl.range does"
                            : fmt::format("supported are arg1, arg2, step{}{}", shown == "tl.range" ? ", " : "",
                                          shown == "tl.range" ? fmt::format("{}", fmt::join(kOptions, ", ")) : ""));
    if (!bounds) continue;
    const std::size_t position = name == "arg1" ? 0 : 1;
    if (name == "step" ? given.size() == 3 : given.size() > position)
      fail(keyword.value->range, fmt::format("'{}' is given twice", name));
    if (name == "step")
      step = keyword.value.get();
    else if (given.size() == position)
      given.push_back(keyword.value.get());
    else
      fail(keyword.value->range, fmt::format("{} without 'arg1'", shown));
  }
  if (given.empty()) fail(call.range, fmt::format("{} takes one, two or three numbers", shown));
  std::vector<Register> bounds;
  const auto add = [&](const Expression& expression) {
    Register bound = evaluate_value(expression);
    // The body may assign to a variable among them.
    if (variables_.contains(bound)) bound = compute(Opcode::copy, 0, {bound}, call.range);
    bounds.push_back(bound);
  };
  for (const Expression* each : given) add(*each);
  if (bounds.size() == 1) bounds.insert(bounds.begin(), constant(std::int64_t{0}));
  if (step != nullptr) add(*step);
  if (bounds.size() == 2) bounds.push_back(constant(std::int64_t{1}));
  return bounds;
}

void Lowering::lower_for(const Statement& statement) {
  const Expression& call = *statement.value;
  const std::string name = call.kind == ExpressionKind::call ? call.children[0]->dotted_name() : "";
  const std::string function = name == "range" && !is_local(name) ? "range" : language_name(name);
  if (function != "range" && function != "static_range")
    fail(call.range, "a loop over something that is not a range", "loop over range, tl.range or tl.static_range");
  const std::vector<Register> bounds = range_bounds(call, name == "range" ? "range" : "tl." + function);
  const Register counter = compute(Opcode::range_begin, function == "static_range", bounds, call.range);
  const std::int32_t test = here();
  const std::size_t leave =
      emit(Opcode::range_test, 0, kNoRegister, std::array{counter, bounds[1], bounds[2]}, statement.header);
  assign(*statement.targets.front(), Operand::single(counter));
  if (&statement == probe_after_) emit_probe(statement.header);
  loops_.emplace_back();
  lower_body(statement.body);
  for (const std::size_t jump : loops_.back().continues) patch(jump);
  compute(Opcode::range_next, 0, {counter, bounds[2]}, statement.header, counter);
  const std::size_t again = emit(Opcode::jump, 0, kNoRegister, {}, statement.header);
  instruction(again).target = test;
  patch(leave);
  for (const std::size_t jump : loops_.back().breaks) patch(jump);
  loops_.pop_back();
}

void Lowering::lower_while(const Statement& statement) {
  const std::int32_t test = here();
  const Register condition = evaluate_value(*statement.value);
  const std::size_t leave = emit(Opcode::branch_false, 0, kNoRegister, std::array{condition}, statement.value->range);
  if (&statement == probe_after_) emit_probe(statement.header);
  loops_.emplace_back();
  lower_body(statement.body);
  const std::size_t again = emit(Opcode::jump, 0, kNoRegister, {}, statement.header);
  instruction(again).target = test;
  for (const std::size_t jump : loops_.back().continues) instruction(jump).target = test;
  patch(leave);
  for (const std::size_t jump : loops_.back().breaks) patch(jump);
  loops_.pop_back();
}

void Lowering::lower_return(const Statement& statement) {
  Operand value = statement.value ? evaluate(*statement.value) : Operand::single(constant(std::monostate{}));
  if (scope_ != outermost_) {
    if (value.is_tuple) value = detach(value, statement.range);
    if (!scope_->result) scope_->result = new_like(value, false);
    copy_into(*scope_->result, value, "the returned value", statement.range);
  }
  scope_->return_jumps.push_back(emit(Opcode::jump, 0, kNoRegister, {}, statement.range));
}

// ---- Assignment ----

Operand Lowering::new_like(const Operand& value, bool variable) {
  if (value.function != nullptr) return value;
  if (!value.is_tuple) {
    const Register result = new_register();
    if (variable) mark_variable(result);
    return Operand::single(result);
  }
  Operand result = Operand::tuple({});
  for (const Operand& item : value.items) result.items.push_back(new_like(item, variable));
  return result;
}

/// Copies what later statements may write, so that `a, b = b, a` exchanges.
Operand Lowering::detach(const Operand& value, ByteRange where) {
  if (value.function != nullptr) return value;
  if (!value.is_tuple) {
    if (!variables_.contains(value.value)) return value;
    return Operand::single(compute(Opcode::copy, 0, {value.value}, where));
  }
  Operand result = Operand::tuple({});
  for (const Operand& item : value.items) result.items.push_back(detach(item, where));
  return result;
}

void Lowering::assign(const Expression& target, const Operand& value) {
  if (target.kind == ExpressionKind::name) {
    assign_name(target.text, value, target.range);
    return;
  }
  if (target.kind != ExpressionKind::tuple)
    fail(target.range, "assignment to something that is not a name", "assign to a variable or a tuple of variables");
  if (!value.is_tuple || value.items.size() != target.children.size())
    fail(target.range, fmt::format("{} names for {}", target.children.size(),
                                   value.is_tuple ? fmt::format("{} values", value.items.size()) : "one value"));
  for (std::size_t i = 0; i < value.items.size(); ++i) assign(*target.children[i], value.items[i]);
}

void Lowering::assign_name(const std::string& name, const Operand& value, ByteRange where) {
  const auto found = scope_->variables.find(name);
  if (found != scope_->variables.end()) {
    copy_into(found->second, value, "'" + name + "'", where);
    return;
  }
  const Operand target = new_like(value, true);
  scope_->variables.emplace(name, target);
  copy_into(target, value, name, where);
}

void Lowering::copy_into(const Operand& target, const Operand& value, const std::string& name, ByteRange where) {
  if (target.function != value.function)
    fail(where, fmt::format("{} is a function here and something else before", name), "use two names");
  if (value.function != nullptr) return;
  if (target.is_tuple != value.is_tuple || target.items.size() != value.items.size()) {
    const auto describe = [](const Operand& operand) {
      return operand.is_tuple ? fmt::format("a tuple of {}", operand.items.size()) : std::string("a single value");
    };
    fail(where, fmt::format("{} is {} here and {} before", name, describe(value), describe(target)),
         "let it have one form in the whole function");
  }
  if (!target.is_tuple) {
    if (target.value != value.value) compute(Opcode::copy, 0, {value.value}, where, target.value);
    return;
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) copy_into(target.items[i], value.items[i], name, where);
}

}  // namespace syncopate::lowering
