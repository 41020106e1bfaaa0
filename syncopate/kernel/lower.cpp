// Lowering of statements, control flow and helpers. Every variable of a function keeps one register (a tuple:
// one per item) from its first assignment on, so loops need no joining of values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "syncopate/core/error.h"
#include "syncopate/core/text.h"
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

void collect_names(const Expression& target, std::set<std::string, std::less<>>& names) {
  if (target.kind == ExpressionKind::name) names.insert(target.text);
  if (target.kind == ExpressionKind::tuple)
    for (const auto& child : target.children) collect_names(*child, names);
}

void collect_assigned(const std::vector<std::unique_ptr<Statement>>& body, std::set<std::string, std::less<>>& names) {
  for (const auto& statement : body) {
    for (const auto& target : statement->targets) collect_names(*target, names);
    collect_assigned(statement->body, names);
    collect_assigned(statement->orelse, names);
  }
}

/// "tl" of "import triton.language as tl"; every import text is looked at, whatever its form.
std::vector<std::string> find_language_aliases(const std::vector<std::string>& imports) {
  std::vector<std::string> aliases = {"tl", "triton.language"};
  constexpr std::string_view kWords[] = {"triton.language as ", "import language as "};
  for (const std::string& text : imports) {
    for (const std::string_view words : kWords) {
      const std::size_t at = text.find(words);
      if (at == std::string::npos) continue;
      const std::size_t begin = at + words.size();
      const std::size_t end = text.find_first_of(" ,;\n", begin);
      aliases.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    }
  }
  return aliases;
}

}  // namespace

Lowering::Lowering(std::shared_ptr<const Module> module, const Statement* probe_after)
    : program_(std::make_shared<Program>()), module_(*module), probe_after_(probe_after) {
  language_aliases_ = find_language_aliases(module->imports);
  program_->module = std::move(module);
}

void Lowering::fail(ByteRange where, std::string problem, std::string remedy) const {
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
    if (known && found->second.is_tuple) {
      assign(first, detach(evaluate(*statement.value), statement.range));
      return;
    }
    const Register target = known ? found->second.value : new_register();
    const Operand value = evaluate(*statement.value, target);
    if (!known && !value.is_tuple) {
      scope_->variables.emplace(first.text, Operand::single(target));
      mark_variable(target);
    }
    if (value.is_tuple || value.value != target) assign(first, value);
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
  lower_body(statement.body);
  if (statement.orelse.empty()) {
    patch(skip);
  } else {
    const std::size_t done = emit(Opcode::jump, 0, kNoRegister, {}, statement.header);
    patch(skip);
    lower_body(statement.orelse);
    patch(done);
  }
  instruction(skip).meeting = here();
}

void Lowering::lower_for(const Statement& statement) {
  const Expression& call = *statement.value;
  const std::string name = call.kind == ExpressionKind::call ? call.children[0]->dotted_name() : "";
  const std::string function = name == "range" && !is_local(name) ? "range" : language_name(name);
  if (function != "range" && function != "static_range")
    fail(call.range, "a loop over something that is not a range", "loop over range, tl.range or tl.static_range");
  std::vector<Register> bounds;
  for (std::size_t i = 1; i < call.children.size(); ++i) {
    Register bound = evaluate_value(*call.children[i]);
    // Python evaluates the bounds once; the body may assign to a variable among them.
    if (variables_.contains(bound)) bound = compute(Opcode::copy, 0, {bound}, call.range);
    bounds.push_back(bound);
  }
  if (bounds.empty() || bounds.size() > 3) fail(call.range, "a range takes one, two or three numbers");
  if (bounds.size() == 1) bounds.insert(bounds.begin(), constant(std::int64_t{0}));
  if (bounds.size() == 2) bounds.push_back(constant(std::int64_t{1}));

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

// ---- Helpers ----

const std::set<std::string, std::less<>>& Lowering::assigned_names(const Function& function) {
  const auto [entry, inserted] = assigned_.try_emplace(&function);
  if (inserted) collect_assigned(function.body, entry->second);
  return entry->second;
}

Operand Lowering::inline_call(const Function& function, const Expression& call) {
  if (!function.jit) fail(call.range, fmt::format("'{}' is not a @triton.jit function", function.name), "decorate it");
  if (std::find(call_stack_.begin(), call_stack_.end(), &function) != call_stack_.end())
    fail(call.range, fmt::format("'{}' calls itself", function.name), "recursion is not supported in kernels");

  const auto& assigned = assigned_names(function);
  std::vector<const Expression*> values(function.parameters.size(), nullptr);
  if (call.children.size() - 1 > values.size())
    fail(call.range, fmt::format("'{}' takes {}, {} given", function.name, count_of(values.size(), "argument"),
                                 call.children.size() == 2 ? "1 is" : fmt::format("{} are", call.children.size() - 1)));
  for (std::size_t i = 1; i < call.children.size(); ++i) values[i - 1] = call.children[i].get();
  for (const Keyword& keyword : call.keywords) {
    const auto parameter = std::find_if(function.parameters.begin(), function.parameters.end(),
                                        [&](const Parameter& entry) { return entry.name == keyword.name; });
    if (parameter == function.parameters.end())
      fail(keyword.value->range, fmt::format("'{}' has no parameter '{}'", function.name, keyword.name));
    const Expression*& value = values[static_cast<std::size_t>(parameter - function.parameters.begin())];
    if (value) fail(keyword.value->range, fmt::format("'{}' is given twice", keyword.name));
    value = keyword.value.get();
  }

  Scope callee;
  callee.function = &function;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Parameter& parameter = function.parameters[i];
    Operand value;
    if (values[i]) {
      value = evaluate(*values[i]);
    } else {
      if (!parameter.default_value)
        fail(call.range, fmt::format("'{}' is called without its parameter '{}'", function.name, parameter.name));
      Scope global;
      Scope* const saved = std::exchange(scope_, &global);
      value = evaluate(*parameter.default_value);
      scope_ = saved;
    }
    // A parameter that the helper never assigns is just another name of the caller's register.
    if (assigned.contains(parameter.name)) {
      const Operand copy = new_like(value, true);
      copy_into(copy, value, parameter.name, call.range);
      value = copy;
    }
    callee.variables.emplace(parameter.name, std::move(value));
  }

  Scope* const caller = std::exchange(scope_, &callee);
  std::vector<Loop> outer_loops;
  outer_loops.swap(loops_);
  call_stack_.push_back(&function);
  lower_body(function.body);
  call_stack_.pop_back();
  loops_.swap(outer_loops);
  scope_ = caller;
  for (const std::size_t jump : callee.return_jumps) patch(jump);
  if (callee.result) return *callee.result;
  return Operand::single(constant(std::monostate{}));
}

}  // namespace syncopate::lowering
