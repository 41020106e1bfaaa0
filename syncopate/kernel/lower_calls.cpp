// The functions of triton.language, and methods of blocks and descriptors, as instructions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "syncopate/core/text.h"
#include "syncopate/kernel/lower_internal.h"
#include "syncopate/kernel/runtime_names.h"

namespace syncopate::lowering {
namespace {

/// One call with its arguments sorted out. A parameter that is not given is kNoRegister.
struct Call {
  Lowering& lowering;
  const Expression& expression;
  Register into;
  std::vector<Operand> arguments;  ///< by parameter
  std::vector<bool> given;
  std::vector<Operand> rest;  ///< positional arguments after the last parameter, for functions that take a shape

  ByteRange range() const { return expression.range; }
  Register value(std::size_t parameter) const {
    if (!given[parameter]) return kNoRegister;
    if (arguments[parameter].is_tuple)
      lowering.fail(range(), fmt::format("argument {} is a tuple where a single value is needed", parameter + 1));
    return arguments[parameter].value;
  }
  /// A given argument that is None counts as left out.
  Register optional(std::size_t parameter) const {
    const Register result = value(parameter);
    if (result == kNoRegister) return result;
    const std::optional<Constant> known = lowering.constant_in(result);
    return known && std::holds_alternative<std::monostate>(*known) ? kNoRegister : result;
  }
  Register compute(Opcode opcode, std::uint8_t operation, std::span<const Register> operands) const {
    return lowering.compute(opcode, operation, operands, range(), into);
  }
  Register compute(Opcode opcode, std::uint8_t operation, std::initializer_list<Register> operands) const {
    return lowering.compute(opcode, operation, operands, range(), into);
  }
  void emit(Opcode opcode, std::initializer_list<Register> operands) const {
    lowering.emit(opcode, 0, kNoRegister, std::span(operands.begin(), operands.size()), range());
  }
  Register none() const { return lowering.constant(std::monostate{}); }
};

void append(std::vector<Register>& registers, const Operand& operand) {
  if (!operand.is_tuple) registers.push_back(operand.value);
  for (const Operand& item : operand.items) append(registers, item);
}

/// `first`, then what the parameter `shape` and the rest of the arguments hold.
std::vector<Register> with_shape(const Call& call, std::initializer_list<Register> first, std::size_t shape) {
  std::vector<Register> registers(first);
  if (call.given[shape]) append(registers, call.arguments[shape]);
  for (const Operand& operand : call.rest) append(registers, operand);
  return registers;
}

using Handler = Operand (*)(const Call&);

struct Builtin {
  std::string_view name;
  std::vector<std::string_view> parameters;
  std::size_t required;
  std::vector<std::string_view> ignored;  ///< keywords that change speed, not meaning (or only how a GPU rounds)
  Handler handler;
  bool takes_rest = false;
};

/// An instruction whose operands are the first `count` arguments.
template <Opcode opcode, std::size_t count>
Operand plain(const Call& call) {
  std::array<Register, count> operands;
  for (std::size_t i = 0; i < count; ++i) operands[i] = call.value(i);
  return Operand::single(call.compute(opcode, 0, operands));
}

/// An instruction on a value and a shape (or an order of dimensions): f(x, [2, 4]) or f(x, 2, 4).
template <Opcode opcode>
Operand with_shape_of(const Call& call) {
  return Operand::single(call.compute(opcode, 0, with_shape(call, {call.value(0)}, 1)));
}

template <UnaryOperation operation>
Operand unary(const Call& call) {
  return Operand::single(call.compute(Opcode::unary, static_cast<std::uint8_t>(operation), {call.value(0)}));
}

template <BinaryOperation operation>
Operand binary(const Call& call) {
  return Operand::single(
      call.compute(Opcode::binary, static_cast<std::uint8_t>(operation), {call.value(0), call.value(1)}));
}

template <ReduceOperation operation>
Operand reduce(const Call& call) {
  const Register axis = call.optional(1);
  const Register keep = call.value(2);
  bool keep_dimension = false;
  if (keep != kNoRegister) {
    const std::optional<Constant> known = call.lowering.constant_in(keep);
    if (!known || !std::holds_alternative<bool>(*known))
      call.lowering.fail(call.range(), "keep_dims is not a constant", "write True or False");
    keep_dimension = std::get<bool>(*known);
  }
  if (keep_dimension && axis == kNoRegister)
    call.lowering.fail(call.range(), "keep_dims without an axis is not supported", "reduce one axis after the other");
  const auto code = static_cast<std::uint8_t>(operation);
  if (!keep_dimension) return Operand::single(call.compute(Opcode::reduce, code, {call.value(0), axis}));
  const Register reduced = call.lowering.compute(Opcode::reduce, code, {call.value(0), axis}, call.range());
  return Operand::single(call.compute(Opcode::expand_dims, 0, {reduced, axis}));
}

/// min(a, b, ...) and max(a, b, ...) of scalars: Python's names.
template <BinaryOperation operation>
Operand scalar_choice(const Call& call) {
  Register result = call.value(0);
  std::vector<Register> others = {call.value(1)};
  for (const Operand& operand : call.rest) append(others, operand);
  for (const Register other : others)
    result = call.lowering.compute(Opcode::binary, static_cast<std::uint8_t>(operation), {result, other}, call.range());
  return Operand::single(result);
}

Operand first_argument(const Call& call) { return call.arguments[0]; }
Operand nothing(const Call& call) { return Operand::single(call.none()); }

Operand make_descriptor(const Call& call) {
  std::vector<Register> operands = {call.value(0)};
  const std::size_t rank = call.arguments[1].items.size();
  for (std::size_t i = 1; i <= 3; ++i) {
    if (!call.arguments[i].is_tuple || call.arguments[i].items.size() != rank || rank == 0)
      call.lowering.fail(call.range(), "shape, strides and block_shape of a descriptor are not lists of one length",
                         "give one number per dimension in each");
    append(operands, call.arguments[i]);
  }
  if (call.given[4]) {
    const std::optional<Constant> padding = call.lowering.constant_in(call.value(4));
    if (padding != std::optional<Constant>(call.lowering.constant_in(call.lowering.string_constant("zero"))))
      call.lowering.fail(call.range(), "padding_option is not \"zero\"", "only padding with zeros is supported");
  }
  return Operand::single(call.compute(Opcode::make_descriptor, 0, operands));
}

Operand descriptor_load(const Call& call) {
  return Operand::single(call.compute(Opcode::descriptor_load, 0, with_shape(call, {call.value(0)}, 1)));
}

Operand descriptor_store(const Call& call) {
  std::vector<Register> operands = {call.value(0), call.value(2)};
  append(operands, call.arguments[1]);
  call.lowering.emit(Opcode::descriptor_store, 0, kNoRegister, operands, call.range());
  return Operand::single(call.none());
}

Operand split(const Call& call) {
  const Register left = call.lowering.new_register();
  const Register right = call.lowering.new_register();
  const std::size_t at =
      call.lowering.emit(Opcode::split, 0, left, std::array<Register, 1>{call.value(0)}, call.range());
  call.lowering.instruction(at).second_result = right;
  return Operand::tuple({Operand::single(left), Operand::single(right)});
}

Operand load(const Call& call) {
  return Operand::single(call.compute(Opcode::load, 0, {call.value(0), call.optional(1), call.optional(2)}));
}
Operand store(const Call& call) {
  call.emit(Opcode::store, {call.value(0), call.value(1), call.optional(2)});
  return Operand::single(call.none());
}
Operand atomic_add(const Call& call) {
  return Operand::single(call.compute(Opcode::atomic_add, 0, {call.value(0), call.value(1), call.optional(2)}));
}
Operand zeros(const Call& call) {
  const Register zero = call.lowering.constant(std::int64_t{0});
  return Operand::single(call.compute(Opcode::full, 0, with_shape(call, {zero, call.value(1)}, 0)));
}
Operand full(const Call& call) {
  return Operand::single(call.compute(Opcode::full, 0, with_shape(call, {call.value(1), call.value(2)}, 0)));
}
Operand zeros_like(const Call& call) {
  return Operand::single(call.compute(Opcode::full_like, 0, {call.lowering.constant(std::int64_t{0}), call.value(0)}));
}
Operand dot(const Call& call) {
  return Operand::single(
      call.compute(Opcode::dot, 0, {call.value(0), call.value(1), call.optional(2), call.optional(6)}));
}

void collect_variables(const Expression& expression, std::vector<const Expression*>& names) {
  const auto same = [&](const Expression* name) { return name->text == expression.text; };
  if (expression.kind == ExpressionKind::name && std::none_of(names.begin(), names.end(), same))
    names.push_back(&expression);
  // A call's or an attribute's first child is what it is called.
  const std::size_t first = expression.kind == ExpressionKind::call ? 1 : 0;
  if (expression.kind == ExpressionKind::attribute) return;
  for (std::size_t i = first; i < expression.children.size(); ++i) collect_variables(*expression.children[i], names);
}

/// With the values of the variables in the condition, for the message of one that does not hold.
Operand device_assert(const Call& call) {
  const Register message = call.optional(1);
  std::vector<Register> operands = {call.value(0), message};
  if (call.given[2]) {
    const auto invert = static_cast<std::uint8_t>(UnaryOperation::logical_not);
    const auto either = static_cast<std::uint8_t>(BinaryOperation::logical_or);
    const Register exempt = call.lowering.compute(Opcode::unary, invert, {call.value(2)}, call.range());
    operands[0] = call.lowering.compute(Opcode::binary, either, {operands[0], exempt}, call.range());
  }
  std::vector<const Expression*> names;
  if (call.expression.children.size() > 1) collect_variables(*call.expression.children[1], names);
  for (const Expression* name : names) {
    if (!call.lowering.is_local(name->text)) continue;
    const Operand value = call.lowering.evaluate(*name);
    if (value.is_tuple) continue;
    operands.push_back(call.lowering.string_constant(name->text));
    operands.push_back(value.value);
  }
  call.lowering.emit(Opcode::assertion, 0, kNoRegister, operands, call.range());
  return Operand::single(call.none());
}

const std::vector<Builtin>& builtins() {
  using enum UnaryOperation;
  static const std::vector<std::string_view> kCache = {"cache_modifier", "eviction_policy", "volatile"};
  static const std::vector<Builtin> table = {
      {"program_id", {"axis"}, 1, {}, plain<Opcode::program_id, 1>},
      {"num_programs", {"axis"}, 1, {}, plain<Opcode::num_programs, 1>},
      {"cdiv", {"x", "div"}, 2, {}, binary<BinaryOperation::cdiv>},
      {"arange", {"start", "end"}, 2, {}, plain<Opcode::arange, 2>},
      {"zeros", {"shape", "dtype"}, 2, {}, zeros},
      {"zeros_like", {"input"}, 1, {}, zeros_like},
      {"full", {"shape", "value", "dtype"}, 3, {}, full},
      {"load", {"pointer", "mask", "other"}, 1, kCache, load},
      {"store", {"pointer", "value", "mask"}, 2, kCache, store},
      {"atomic_add", {"pointer", "val", "mask"}, 2, {"sem", "scope"}, atomic_add},
      {"make_tensor_descriptor", {"base", "shape", "strides", "block_shape", "padding_option"}, 4, {}, make_descriptor},
      {"load_tensor_descriptor", {"desc", "offsets"}, 2, {}, descriptor_load},
      {"store_tensor_descriptor", {"desc", "offsets", "value"}, 3, {}, descriptor_store},
      {"dot",
       {"input", "other", "acc", "input_precision", "allow_tf32", "max_num_imprecise_acc", "out_dtype"},
       2,
       {},
       dot},
      {"trans", {"input", "dims"}, 1, {}, with_shape_of<Opcode::permute>, true},
      {"permute", {"input", "dims"}, 2, {}, with_shape_of<Opcode::permute>, true},
      {"reshape", {"input", "shape"}, 2, {"can_reorder"}, with_shape_of<Opcode::reshape>, true},
      {"broadcast_to", {"input", "shape"}, 2, {}, with_shape_of<Opcode::broadcast_to>, true},
      {"expand_dims", {"input", "axis"}, 2, {}, plain<Opcode::expand_dims, 2>},
      {"join", {"a", "b"}, 2, {}, plain<Opcode::join, 2>},
      {"split", {"a"}, 1, {}, split},
      {"where", {"condition", "x", "y"}, 3, {}, plain<Opcode::where, 3>},
      {"minimum", {"x", "y"}, 2, {"propagate_nan"}, binary<BinaryOperation::minimum>},
      {"maximum", {"x", "y"}, 2, {"propagate_nan"}, binary<BinaryOperation::maximum>},
      {"min", {"input", "axis", "keep_dims"}, 1, {}, reduce<ReduceOperation::minimum>},
      {"max", {"input", "axis", "keep_dims"}, 1, {}, reduce<ReduceOperation::maximum>},
      {"sum", {"input", "axis", "keep_dims"}, 1, {}, reduce<ReduceOperation::sum>},
      {"exp", {"x"}, 1, {}, unary<exp>},
      {"exp2", {"x"}, 1, {}, unary<exp2>},
      {"log", {"x"}, 1, {}, unary<log>},
      {"log2", {"x"}, 1, {}, unary<log2>},
      {"sqrt", {"x"}, 1, {}, unary<sqrt>},
      {"rsqrt", {"x"}, 1, {}, unary<rsqrt>},
      {"sin", {"x"}, 1, {}, unary<sin>},
      {"cos", {"x"}, 1, {}, unary<cos>},
      {"floor", {"x"}, 1, {}, unary<UnaryOperation::floor>},
      {"ceil", {"x"}, 1, {}, unary<UnaryOperation::ceil>},
      {"abs", {"x"}, 1, {}, unary<absolute>},
      {"sigmoid", {"x"}, 1, {}, unary<sigmoid>},
      {"fma", {"x", "y", "z"}, 3, {}, plain<Opcode::fma, 3>},
      {"cast", {"input", "dtype"}, 2, {}, plain<Opcode::cast, 2>},
      {"multiple_of", {"input", "values"}, 2, {}, first_argument},
      {"max_contiguous", {"input", "values"}, 2, {}, first_argument},
      {"max_constancy", {"input", "values"}, 2, {}, first_argument},
      {"constexpr", {"value"}, 1, {}, first_argument},
      {"assume", {"cond"}, 1, {}, nothing},
      {"static_assert", {"cond", "msg"}, 1, {}, nothing},
      {"static_print", {}, 0, {}, nothing, true},
      {"device_assert", {"cond", "msg", "mask"}, 1, {}, device_assert},
      {"device_print", {}, 0, {"hex"}, nothing, true},
      {"debug_barrier", {}, 0, {}, nothing},
  };
  return table;
}

/// Functions of Python itself, and methods whose names mean something else as functions of triton.language.
const std::vector<Builtin>& python_functions() {
  static const std::vector<Builtin> table = {
      {"min", {"a", "b"}, 2, {}, scalar_choice<BinaryOperation::minimum>, true},
      {"max", {"a", "b"}, 2, {}, scalar_choice<BinaryOperation::maximum>, true},
      {"abs", {"x"}, 1, {}, unary<UnaryOperation::absolute>},
      {"assert", {"cond", "msg"}, 1, {}, nothing},
      {"print", {}, 0, {}, nothing, true},
  };
  return table;
}
const std::vector<Builtin>& methods() {
  static const std::vector<Builtin> table = {
      {"load", {"desc", "offsets"}, 2, {}, descriptor_load},
      {"store", {"desc", "offsets", "value"}, 3, {}, descriptor_store},
      {"to", {"input", "dtype"}, 2, {}, plain<Opcode::cast, 2>},
      {"view", {"input", "shape"}, 2, {}, with_shape_of<Opcode::reshape>, true},
  };
  return table;
}

const Builtin* find(const std::vector<Builtin>& table, std::string_view name) {
  for (const Builtin& entry : table)
    if (entry.name == name) return &entry;
  return nullptr;
}

/// float("inf") and float("-inf").
Operand lower_float(Lowering& lowering, const Expression& call) {
  if (call.children.size() == 2) {
    const Expression& text = *call.children[1];
    if (text.kind == ExpressionKind::string && (text.text == "inf" || text.text == "+inf"))
      return Operand::single(lowering.constant(std::numeric_limits<double>::infinity()));
    if (text.kind == ExpressionKind::string && text.text == "-inf")
      return Operand::single(lowering.constant(-std::numeric_limits<double>::infinity()));
  }
  lowering.fail(call.range, "float() of this is not supported", "supported are float(\"inf\") and float(\"-inf\")");
}

/// The arguments of a call of one of our helpers, whose parameters have these names.
template <std::size_t count>
std::array<Register, count> helper_arguments(Lowering& lowering, const Expression& call, const char* helper,
                                             const std::array<std::string_view, count>& names) {
  std::array<Register, count> values;
  values.fill(kNoRegister);
  for (std::size_t i = 1; i < call.children.size() && i <= count; ++i)
    values[i - 1] = lowering.evaluate_value(*call.children[i]);
  for (const Keyword& keyword : call.keywords)
    for (std::size_t i = 0; i < count; ++i)
      if (names[i] == keyword.name) values[i] = lowering.evaluate_value(*keyword.value);
  for (std::size_t i = 0; i < count; ++i)
    if (values[i] == kNoRegister) lowering.fail(call.range, fmt::format("{} without '{}'", helper, names[i]));
  return values;
}

/// The helpers of runtime_names.h, which are not inlined.
bool is_named_helper(std::string_view name) {
  return name == kWaitHelper || name == kElementsHelper || name == kElsewhereHelper || name == kPublishHelper ||
         name == kRaiseHelper || name == kMissingHelper || name == kTellTmaHelper || name == kAddBlockHelper ||
         name == kTakeHelper;
}

Operand lower_named_helper(Lowering& lowering, const Expression& call, std::string_view name, Register into) {
  using Names = std::string_view;
  if (name == kWaitHelper) {
    static constexpr std::array<Names, 6> kNames = {"flags", "slot", "expected", "tile", "record", "time_limit"};
    const auto values = helper_arguments(lowering, call, kWaitHelper, kNames);
    return Operand::single(
        lowering.compute(Opcode::wait, 0, {values[0], values[1], values[2], values[3]}, call.range, into));
  }
  if (name == kTakeHelper) {
    static constexpr std::array<Names, 10> kNames = {"claims", "lookahead", "rows",  "columns", "count",
                                                     "waits",  "flags",     "epoch", "record",  "time_limit"};
    const auto values = helper_arguments(lowering, call, kTakeHelper, kNames);
    return Operand::single(lowering.compute(Opcode::take, 0, {values[0], values[1], values[4]}, call.range, into));
  }
  if (name == kElementsHelper) {
    static constexpr std::array<Names, 2> kNames = {"pointers", "base"};
    const auto values = helper_arguments(lowering, call, kElementsHelper, kNames);
    return Operand::single(lowering.compute(Opcode::elements, 0, values, call.range, into));
  }
  if (name == kElsewhereHelper) {
    static constexpr std::array<Names, 3> kNames = {"pointers", "base", "other"};
    const auto values = helper_arguments(lowering, call, kElsewhereHelper, kNames);
    return Operand::single(lowering.compute(Opcode::elsewhere, 0, values, call.range, into));
  }
  if (name == kRaiseHelper) {
    static constexpr std::array<Names, 3> kNames = {"peers", "home", "slot"};
    lowering.emit(Opcode::raise, 0, kNoRegister, helper_arguments(lowering, call, kRaiseHelper, kNames), call.range);
  }
  if (name == kAddBlockHelper) {
    static constexpr std::array<Names, 4> kNames = {"descriptor", "row", "column", "value"};
    const auto values = helper_arguments(lowering, call, kAddBlockHelper, kNames);
    lowering.emit(Opcode::descriptor_add, 0, kNoRegister,
                  std::array<Register, 4>{values[0], values[3], values[1], values[2]}, call.range);
    return Operand::single(lowering.constant(std::monostate{}));
  }
  // What syncopate_raise, syncopate_publish, syncopate_tell_tma and syncopate_is_missing return.
  return Operand::single(lowering.constant(std::int64_t{name == kMissingHelper ? 1 : 0}));
}

Operand lower_builtin(Lowering& lowering, const Builtin& builtin, std::string_view shown, const Expression& call,
                      const Expression* self, Register into) {
  const std::size_t count = builtin.parameters.size();
  Call bound{lowering, call, into, std::vector<Operand>(count), std::vector<bool>(count, false), {}};
  std::vector<const Expression*> positional;
  if (self) positional.push_back(self);
  for (std::size_t i = 1; i < call.children.size(); ++i) positional.push_back(call.children[i].get());
  for (std::size_t i = 0; i < positional.size(); ++i) {
    if (i < count) {
      bound.arguments[i] = lowering.evaluate(*positional[i]);
      bound.given[i] = true;
    } else if (builtin.takes_rest) {
      bound.rest.push_back(lowering.evaluate(*positional[i]));
    } else {
      lowering.fail(positional[i]->range, fmt::format("{} is given {}", shown, count_of(positional.size(), "argument")),
                    fmt::format("supported are ({})", fmt::join(builtin.parameters, ", ")));
    }
  }
  for (const Keyword& keyword : call.keywords) {
    const auto name = std::find(builtin.parameters.begin(), builtin.parameters.end(), keyword.name);
    if (name != builtin.parameters.end()) {
      const auto index = static_cast<std::size_t>(name - builtin.parameters.begin());
      if (bound.given[index]) lowering.fail(keyword.value->range, fmt::format("'{}' is given twice", keyword.name));
      bound.arguments[index] = lowering.evaluate(*keyword.value);
      bound.given[index] = true;
      continue;
    }
    if (std::find(builtin.ignored.begin(), builtin.ignored.end(), keyword.name) == builtin.ignored.end())
      lowering.fail(keyword.value->range, fmt::format("the argument '{}' of {} is not supported", keyword.name, shown),
                    fmt::format("supported are {}", fmt::join(builtin.parameters, ", ")));
  }
  for (std::size_t i = 0; i < builtin.required; ++i)
    if (!bound.given[i]) lowering.fail(call.range, fmt::format("{} without '{}'", shown, builtin.parameters[i]));
  return builtin.handler(bound);
}

}  // namespace

std::string supported_functions() {
  std::vector<std::string> names;
  for (const Builtin& entry : builtins()) names.push_back("tl." + std::string(entry.name));
  names.push_back("tl.range");
  names.push_back("tl.static_range");
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string Lowering::language_name(std::string_view dotted) const {
  const std::size_t first = dotted.find('.');
  if (first == std::string_view::npos || is_local(dotted.substr(0, first))) return "";
  if (dotted == "triton.cdiv") return "cdiv";
  for (const std::string& alias : language_aliases_) {
    if (!dotted.starts_with(alias) || dotted.size() <= alias.size() || dotted[alias.size()] != '.') continue;
    std::string_view name = dotted.substr(alias.size() + 1);
    if (name.starts_with("math.")) name.remove_prefix(5);
    return std::string(name);
  }
  return "";
}

Operand Lowering::lower_call(const Expression& call, Register into) {
  const Expression& callee = *call.children[0];
  const std::string dotted = callee.dotted_name();
  if (const std::string name = language_name(dotted); !name.empty()) {
    if (const Builtin* builtin = find(builtins(), name))
      return lower_builtin(*this, *builtin, "tl." + name, call, nullptr, into);
    const std::string problem = fmt::format("tl.{} is not supported", name);
    if (name == "make_block_ptr" || name == "advance")
      fail(call.range, problem, "use tl.make_tensor_descriptor, or pointers with masks");
    fail(call.range, problem, fmt::format("supported are {}", supported_functions()));
  }
  if (callee.kind == ExpressionKind::attribute) {
    const Builtin* builtin = find(methods(), callee.text);
    if (!builtin && callee.text != "load" && callee.text != "store") builtin = find(builtins(), callee.text);
    // A pointer's method of this name takes no list of offsets.
    if (callee.text.starts_with("atomic_") && call.children.size() > 1 &&
        call.children[1]->kind == ExpressionKind::tuple)
      fail(call.range, fmt::format("'.{}' of a tensor descriptor is not supported", callee.text),
           "store every element of an output once, with .store; tl.atomic_add takes pointers");
    if (!builtin || builtin->parameters.empty())
      fail(call.range, fmt::format("the method '.{}' is not supported", callee.text),
           "supported are .load and .store of descriptors, and .to, .reshape, .permute, .trans, .sum, .min, .max, "
           ".expand_dims, .broadcast_to, .split of blocks");
    return lower_builtin(*this, *builtin, "." + callee.text, call, callee.children[0].get(), into);
  }
  if (callee.kind != ExpressionKind::name) fail(call.range, "a call of something that is not a function");
  if (is_named_helper(dotted)) return lower_named_helper(*this, call, dotted, into);
  if (const Function* function = module_.find(dotted)) return inline_call(*function, call);
  if (dotted == "float") return lower_float(*this, call);
  if (const Builtin* builtin = find(python_functions(), dotted))
    return lower_builtin(*this, *builtin, dotted, call, nullptr, into);
  std::vector<std::string> known;
  for (const auto& function : module_.functions) known.push_back(function->name);
  fail(call.range, fmt::format("'{}' is not a function of this file", dotted), suggest(dotted, known));
}

}  // namespace syncopate::lowering
