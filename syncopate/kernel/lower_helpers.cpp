// Calls of the file's own functions, which are inlined.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "syncopate/core/text.h"
#include "syncopate/kernel/lower_internal.h"

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

}  // namespace

const std::set<std::string, std::less<>>& Lowering::assigned_names(const Function& function) {
  const auto [entry, inserted] = assigned_.try_emplace(&function);
  if (inserted) collect_assigned(function.body, entry->second);
  return entry->second;
}

Operand Lowering::inline_call(const Function& function, const Expression& call) {
  if (!function.jit) fail(call.range, fmt::format("'{}' is not a @triton.jit function", function.name), "decorate it");
  if (std::find(call_stack_.begin(), call_stack_.end(), &function) != call_stack_.end())
    fail(call.range, fmt::format("'{}' calls itself", function.name), "recursion is not supported in kernels");

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

  std::vector<std::optional<Operand>> operands;
  for (const Expression* value : values)
    operands.push_back(value != nullptr ? std::optional(evaluate(*value)) : std::nullopt);
  return inline_body(function, operands, call.range);
}

Operand Lowering::inline_call(const Function& function, const std::vector<Operand>& values, ByteRange call) {
  if (!function.jit) fail(call, fmt::format("'{}' is not a @triton.jit function", function.name), "decorate it");
  if (std::find(call_stack_.begin(), call_stack_.end(), &function) != call_stack_.end())
    fail(call, fmt::format("'{}' calls itself", function.name), "recursion is not supported in kernels");
  std::vector<std::optional<Operand>> operands(values.begin(), values.end());
  if (operands.size() > function.parameters.size())
    fail(call, fmt::format("'{}' takes {}, {} are given", function.name,
                           count_of(function.parameters.size(), "argument"), operands.size()));
  operands.resize(function.parameters.size());
  return inline_body(function, operands, call);
}

Operand Lowering::inline_body(const Function& function, const std::vector<std::optional<Operand>>& values,
                              ByteRange call) {
  const auto& assigned = assigned_names(function);
  Scope callee;
  callee.function = &function;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Parameter& parameter = function.parameters[i];
    Operand value;
    if (values[i]) {
      value = *values[i];
    } else {
      if (!parameter.default_value)
        fail(call, fmt::format("'{}' is called without its parameter '{}'", function.name, parameter.name));
      Scope global;
      Scope* const saved = std::exchange(scope_, &global);
      value = evaluate(*parameter.default_value);
      scope_ = saved;
    }
    // A parameter that the helper never assigns is just another name of the caller's register.
    if (assigned.contains(parameter.name)) {
      const Operand copy = new_like(value, true);
      copy_into(copy, value, parameter.name, call);
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
