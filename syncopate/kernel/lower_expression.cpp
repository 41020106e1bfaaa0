// Lowering of expressions that are not calls.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "syncopate/core/error.h"
#include "syncopate/core/text.h"
#include "syncopate/kernel/lower_internal.h"

namespace syncopate::lowering {
namespace {

constexpr std::array<std::pair<std::string_view, BinaryOperation>, 11> kBinaryOperators = {{
    {"+", BinaryOperation::add},
    {"-", BinaryOperation::subtract},
    {"*", BinaryOperation::multiply},
    {"/", BinaryOperation::divide},
    {"//", BinaryOperation::floor_divide},
    {"%", BinaryOperation::modulo},
    {"&", BinaryOperation::bit_and},
    {"|", BinaryOperation::bit_or},
    {"^", BinaryOperation::bit_xor},
    {"<<", BinaryOperation::shift_left},
    {">>", BinaryOperation::shift_right},
}};

std::optional<CompareOperation> compare_operation(std::string_view text) {
  if (text == "<") return CompareOperation::less;
  if (text == "<=") return CompareOperation::less_equal;
  if (text == ">") return CompareOperation::greater;
  if (text == ">=") return CompareOperation::greater_equal;
  if (text == "==" || text == "is") return CompareOperation::equal;
  if (text == "!=" || text == "is not") return CompareOperation::not_equal;
  return std::nullopt;
}

std::optional<Extent> extent_kind(std::string_view attribute) {
  if (attribute == "shape") return Extent::shape;
  if (attribute == "block_shape") return Extent::block_shape;
  if (attribute == "strides") return Extent::stride;
  return std::nullopt;
}

}  // namespace

std::optional<BinaryOperation> binary_operation(std::string_view text) {
  for (const auto& [name, operation] : kBinaryOperators)
    if (name == text) return operation;
  return std::nullopt;
}

Register Lowering::evaluate_value(const Expression& expression, Register into) {
  const Operand result = evaluate(expression, into);
  if (result.is_tuple) fail(expression.range, "a tuple where a single value is needed");
  if (result.function != nullptr)
    fail(expression.range, fmt::format("the function '{}' where a value is needed", result.function->name), "call it");
  return result.value;
}

Operand Lowering::evaluate(const Expression& expression, Register into) {
  switch (expression.kind) {
    case ExpressionKind::name:
      return evaluate_name(expression);
    case ExpressionKind::integer:
      return Operand::single(constant(expression.integer));
    case ExpressionKind::floating:
      return Operand::single(constant(expression.number));
    case ExpressionKind::string:
      return Operand::single(string_constant(expression.text));
    case ExpressionKind::boolean:
      return Operand::single(constant(expression.integer != 0));
    case ExpressionKind::none:
      return Operand::single(constant(std::monostate{}));
    case ExpressionKind::tuple: {
      Operand result = Operand::tuple({});
      for (const auto& child : expression.children) result.items.push_back(evaluate(*child));
      return result;
    }
    case ExpressionKind::attribute:
      return evaluate_attribute(expression, into);
    case ExpressionKind::call:
      return lower_call(expression, into);
    case ExpressionKind::subscript:
      return evaluate_subscript(expression, into);
    case ExpressionKind::unary:
      return Operand::single(evaluate_unary(expression, into));
    case ExpressionKind::binary: {
      const Register left = evaluate_value(*expression.children[0]);
      const Register right = evaluate_value(*expression.children[1]);
      const std::optional<BinaryOperation> operation = binary_operation(expression.text);
      if (!operation)
        fail(expression.range, fmt::format("the operator '{}' is not supported", expression.text),
             "supported are + - * / // % & | ^ << >>");
      return Operand::single(
          compute(Opcode::binary, static_cast<std::uint8_t>(*operation), {left, right}, expression.range, into));
    }
    case ExpressionKind::comparison: {
      const Register left = evaluate_value(*expression.children[0]);
      const Register right = evaluate_value(*expression.children[1]);
      const std::optional<CompareOperation> operation = compare_operation(expression.text);
      if (!operation)
        fail(expression.range, fmt::format("the comparison '{}' is not supported", expression.text),
             "supported are < <= > >= == != is, is not");
      return Operand::single(
          compute(Opcode::compare, static_cast<std::uint8_t>(*operation), {left, right}, expression.range, into));
    }
    case ExpressionKind::logical:
      return evaluate_logical(expression);
    case ExpressionKind::conditional:
      return evaluate_conditional(expression);
    case ExpressionKind::slice:
      fail(expression.range, "a slice outside a subscript");
  }
  fail(expression.range, "this expression is not supported");
}

Register Lowering::evaluate_unary(const Expression& expression, Register into) {
  const Register operand = evaluate_value(*expression.children[0]);
  if (expression.text == "+") return operand;
  if (expression.text == "-") {
    if (const std::optional<Constant> known = constant_in(operand)) {
      if (const auto* integer = std::get_if<std::int64_t>(&*known)) return constant(-*integer);
      if (const auto* number = std::get_if<double>(&*known)) return constant(-*number);
    }
  }
  const UnaryOperation operation = expression.text == "-"   ? UnaryOperation::negate
                                   : expression.text == "~" ? UnaryOperation::invert
                                                            : UnaryOperation::logical_not;
  return compute(Opcode::unary, static_cast<std::uint8_t>(operation), {operand}, expression.range, into);
}

Operand Lowering::evaluate_logical(const Expression& expression) {
  // result = left; unless that decides: result = left and/or right. The result is a bool, not the operand that decided.
  const bool is_or = expression.text == "or";
  const Register left = evaluate_value(*expression.children[0]);
  const Register result = compute(Opcode::copy, 0, {left}, expression.range);
  const std::size_t decided = emit(Opcode::branch_decided, is_or, kNoRegister, std::array{left}, expression.range);
  const Register right = evaluate_value(*expression.children[1]);
  const BinaryOperation operation = is_or ? BinaryOperation::logical_or : BinaryOperation::logical_and;
  compute(Opcode::binary, static_cast<std::uint8_t>(operation), {left, right}, expression.range, result);
  patch(decided);
  return Operand::single(result);
}

Operand Lowering::evaluate_conditional(const Expression& expression) {
  const Register condition = evaluate_value(*expression.children[1]);
  const std::size_t otherwise = emit(Opcode::branch_false, 0, kNoRegister, std::array{condition}, expression.range);
  const Operand first = evaluate(*expression.children[0]);
  const Operand result = new_like(first, false);
  copy_into(result, first, "this conditional expression", expression.range);
  const std::size_t done = emit(Opcode::jump, 0, kNoRegister, {}, expression.range);
  patch(otherwise);
  copy_into(result, evaluate(*expression.children[2]), "this conditional expression", expression.range);
  patch(done);
  instruction(otherwise).meeting = here();
  return result;
}

Operand Lowering::evaluate_name(const Expression& expression) {
  const auto found = scope_->variables.find(expression.text);
  if (found != scope_->variables.end()) return found->second;
  for (const auto& statement : module_.constants) {
    for (const auto& target : statement->targets) {
      if (target->kind != ExpressionKind::name || target->text != expression.text || !statement->value) continue;
      if (++constant_depth_ > 32) fail(statement->range, fmt::format("the constant '{}' needs itself", target->text));
      Scope global;
      Scope* const saved = std::exchange(scope_, &global);
      Operand value = evaluate(*statement->value);
      scope_ = saved;
      --constant_depth_;
      return value;
    }
  }
  if (const Function* function = module_.find(expression.text); function != nullptr && function->jit)
    return Operand::callable(*function);
  if (const std::optional<Dtype> dtype = dtype_from_name(language_name(expression.text)))
    return Operand::single(constant(*dtype));
  std::vector<std::string> known;
  for (const auto& [name, value] : scope_->variables) known.push_back(name);
  fail(expression.range, fmt::format("'{}' has no value here", expression.text), suggest(expression.text, known));
}

Operand Lowering::evaluate_attribute(const Expression& expression, Register into) {
  if (const std::string name = language_name(expression.dotted_name()); !name.empty()) {
    if (const std::optional<Dtype> dtype = dtype_from_name(name)) return Operand::single(constant(*dtype));
    if (name == "PropagateNan.NONE" || name == "PropagateNan.ALL") return Operand::single(string_constant(name));
    fail(expression.range, fmt::format("tl.{} is not supported as a value", name),
         fmt::format("supported are dtypes and calls of {}", supported_functions()));
  }
  const Expression& base = *expression.children[0];
  if (expression.text == "T")
    return Operand::single(compute(Opcode::permute, 0, {evaluate_value(base)}, expression.range, into));
  if (expression.text == "dtype" || expression.text == "type")
    return Operand::single(compute(Opcode::dtype_of, 0, {evaluate_value(base)}, expression.range, into));
  // A dtype stands for the type of the elements already, also for pointers.
  if (expression.text == "element_ty" || expression.text == "scalar" || expression.text == "value")
    return evaluate(base, into);
  if (expression.text == "primitive_bitwidth")
    return Operand::single(compute(Opcode::bits_of, 0, {evaluate_value(base)}, expression.range, into));
  if (extent_kind(expression.text))
    fail(expression.range, fmt::format("'.{}' is only supported with a subscript", expression.text),
         fmt::format("write .{}[0], .{}[1] ...", expression.text, expression.text));
  fail(expression.range, fmt::format("the attribute '.{}' is not supported", expression.text),
       "supported are .T, .dtype, .type, .element_ty, .primitive_bitwidth, .shape[i], .block_shape[i], .strides[i]");
}

/// A subscript that is known only when the kernel runs (the counter of a static_range, a constexpr argument) is looked
/// for among the items one by one.
Operand Lowering::item_of(const Operand& tuple, const Expression& subscript) {
  const auto size = static_cast<std::int64_t>(tuple.items.size());
  if (subscript.kind == ExpressionKind::slice)
    fail(subscript.range, "a slice of a tuple is not supported", "write the items out");
  const Register given = evaluate_value(subscript);
  if (const std::optional<Constant> known = constant_in(given)) {
    std::int64_t index = constant_integer(given, subscript.range, "the subscript of a tuple");
    if (index < -size || index >= size)
      fail(subscript.range, fmt::format("subscript {} of a tuple of {}", index, size));
    if (index < 0) index += size;
    return tuple.items[static_cast<std::size_t>(index)];
  }
  if (size == 0) fail(subscript.range, "a subscript of an empty tuple");
  const Operand result = new_like(tuple.items.front(), false);
  std::vector<std::size_t> found;
  for (std::int64_t index = 0; index < size; ++index) {
    for (const std::int64_t each : {index, index - size}) {
      const Register equal = compute(Opcode::compare, static_cast<std::uint8_t>(CompareOperation::equal),
                                     {given, constant(each)}, subscript.range);
      const std::size_t skip = emit(Opcode::branch_false, 0, kNoRegister, std::array{equal}, subscript.range);
      copy_into(result, tuple.items[static_cast<std::size_t>(index)], "this item of a tuple", subscript.range);
      found.push_back(emit(Opcode::jump, 0, kNoRegister, {}, subscript.range));
      patch(skip);
    }
  }
  emit_refusal(fmt::format("this subscript of a tuple of {} is out of range", size), "", subscript.range);
  for (const std::size_t jump : found) patch(jump);
  return result;
}

Operand Lowering::evaluate_subscript(const Expression& expression, Register into) {
  const Expression& base = *expression.children[0];
  const std::size_t subscripts = expression.children.size() - 1;
  const std::optional<Extent> extent =
      base.kind == ExpressionKind::attribute ? extent_kind(base.text) : std::optional<Extent>();
  if (extent) {
    if (subscripts != 1) fail(expression.range, "a shape takes one subscript");
    const Register value = evaluate_value(*base.children[0]);
    const Register index = evaluate_value(*expression.children[1]);
    return Operand::single(
        compute(Opcode::extent, static_cast<std::uint8_t>(*extent), {value, index}, expression.range, into));
  }
  const Operand value = evaluate(base);
  if (value.is_tuple) {
    if (subscripts != 1) fail(expression.range, "a tuple takes one subscript");
    return item_of(value, *expression.children[1]);
  }
  Register result = value.value;
  for (std::size_t i = 0; i < subscripts; ++i) {
    const Expression& subscript = *expression.children[i + 1];
    if (subscript.kind == ExpressionKind::none) {
      const Register axis = constant(static_cast<std::int64_t>(i));
      result = compute(Opcode::expand_dims, 0, {result, axis}, expression.range);
      continue;
    }
    const bool full = subscript.kind == ExpressionKind::slice &&
                      std::all_of(subscript.children.begin(), subscript.children.end(),
                                  [](const auto& part) { return part->kind == ExpressionKind::none; });
    if (!full)
      fail(subscript.range, "a block takes only ':' and None as subscripts",
           "select elements with tl.load and pointers, or with masks");
  }
  return Operand::single(result);
}

}  // namespace syncopate::lowering
