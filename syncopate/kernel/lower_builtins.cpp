// The functions of triton.language that need few words, and the tables of all.
#include "syncopate/kernel/lower_builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace syncopate::lowering {

Register Call::value(std::size_t parameter) const {
  if (!given[parameter]) return kNoRegister;
  if (arguments[parameter].is_tuple)
    fail(fmt::format("argument {} is a tuple where a single value is needed", parameter + 1));
  if (arguments[parameter].function != nullptr)
    fail(fmt::format("argument {} is a function where a single value is needed", parameter + 1));
  return arguments[parameter].value;
}

Register Call::optional(std::size_t parameter) const {
  const Register result = value(parameter);
  if (result == kNoRegister) return result;
  const std::optional<Constant> known = lowering.constant_in(result);
  return known && std::holds_alternative<std::monostate>(*known) ? kNoRegister : result;
}

bool Call::truth(std::size_t parameter, std::string_view name, bool otherwise) const {
  const Register given_value = value(parameter);
  if (given_value == kNoRegister) return otherwise;
  const std::optional<Constant> known = lowering.constant_in(given_value);
  if (!known || !std::holds_alternative<bool>(*known))
    fail(fmt::format("{} is not a constant", name), "write True or False");
  return std::get<bool>(*known);
}

Register Call::flag(std::size_t parameter) const {
  const Register given_value = value(parameter);
  return given_value == kNoRegister ? lowering.constant(false) : given_value;
}

void append(std::vector<Register>& registers, const Operand& operand) {
  if (!operand.is_tuple) registers.push_back(operand.value);
  for (const Operand& item : operand.items) append(registers, item);
}

std::vector<Register> with_shape(const Call& call, std::initializer_list<Register> first, std::size_t shape) {
  std::vector<Register> registers(first);
  if (call.given[shape]) append(registers, call.arguments[shape]);
  for (const Operand& operand : call.rest) append(registers, operand);
  return registers;
}

namespace {

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

template <AtomicOperation operation>
Operand atomic(const Call& call) {
  return Operand::single(call.compute(Opcode::atomic, static_cast<std::uint8_t>(operation),
                                      {call.value(0), call.value(1), call.optional(2)}));
}

/// tl.minimum, tl.maximum: (x, y, propagate_nan).
template <BinaryOperation operation>
Operand choice(const Call& call) {
  if (call.given[2]) {
    const Register propagate = call.value(2);
    if (propagate != call.lowering.string_constant("PropagateNan.NONE"))
      call.fail("propagate_nan is not tl.PropagateNan.NONE", "test for NaN with x != x and tl.where");
  }
  return binary<operation>(call);
}

/// min(a, b, ...) and max(a, b, ...) of scalars: Python's names.
template <BinaryOperation operation>
Operand scalar_choice(const Call& call) {
  Register result = call.value(0);
  std::vector<Register> others = {call.value(1)};
  for (const Operand& operand : call.rest) append(others, operand);
  for (const Register other : others) result = call.binary(operation, result, other);
  return Operand::single(result);
}

Operand first_argument(const Call& call) { return call.arguments[0]; }
Operand nothing(const Call& call) { return Operand::single(call.none()); }

Operand split(const Call& call) {
  const Register left = call.lowering.new_register();
  const Register right = call.lowering.new_register();
  const std::size_t at =
      call.lowering.emit(Opcode::split, 0, left, std::array<Register, 1>{call.value(0)}, call.range());
  call.lowering.instruction(at).second_result = right;
  return Operand::tuple({Operand::single(left), Operand::single(right)});
}

Operand interleave(const Call& call) {
  return Operand::single(call.compute(Opcode::join, 1, {call.value(0), call.value(1)}));
}
Operand ravel(const Call& call) { return Operand::single(call.compute(Opcode::reshape, 0, {call.value(0)})); }

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

/// (input, dtype, fp_downcast_rounding, bitcast).
Operand cast(const Call& call) {
  if (call.optional(2) != kNoRegister && call.value(2) != call.lowering.string_constant("rtne"))
    call.fail("fp_downcast_rounding is not \"rtne\"", "values are rounded to the nearest, halves to even");
  const bool bits = call.truth(3, "bitcast", false);
  return Operand::single(call.compute(bits ? Opcode::bitcast : Opcode::cast, 0, {call.value(0), call.value(1)}));
}

Operand static_assert_(const Call& call) {
  call.emit(Opcode::check, std::array{call.value(0), call.optional(1)});
  return Operand::single(call.none());
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
  std::vector<Register> operands = {call.value(0), call.optional(1)};
  if (call.given[2]) {
    const Register exempt = call.unary(UnaryOperation::logical_not, call.value(2));
    operands[0] = call.binary(BinaryOperation::logical_or, operands[0], exempt);
  }
  std::vector<const Expression*> names;
  if (call.expression.children.size() > 1) collect_variables(*call.expression.children[1], names);
  for (const Expression* name : names) {
    if (!call.lowering.is_local(name->text)) continue;
    const Operand value = call.lowering.evaluate(*name);
    if (value.is_tuple || value.function != nullptr) continue;
    operands.push_back(call.lowering.string_constant(name->text));
    operands.push_back(value.value);
  }
  call.emit(Opcode::assertion, operands);
  return Operand::single(call.none());
}

/// (x, min, max).
Operand clamp(const Call& call) {
  const Register above = call.binary(BinaryOperation::maximum, call.value(0), call.value(1));
  return Operand::single(
      call.compute(Opcode::binary, static_cast<std::uint8_t>(BinaryOperation::minimum), {above, call.value(2)}));
}

/// (i, j, size_i, size_j, size_g), as Triton writes it out.
Operand swizzle2d(const Call& call) {
  using enum BinaryOperation;
  const Register size_g = call.value(4);
  const Register linear = call.binary(add, call.binary(multiply, call.value(0), call.value(3)), call.value(1));
  const Register in_group = call.binary(multiply, size_g, call.value(3));
  const Register first = call.binary(multiply, call.binary(floor_divide, linear, in_group), size_g);
  const Register rows = call.binary(minimum, call.binary(subtract, call.value(2), first), size_g);
  const Register rest = call.binary(modulo, linear, in_group);
  return Operand::tuple({Operand::single(call.binary(add, first, call.binary(modulo, rest, rows))),
                         Operand::single(call.binary(floor_divide, rest, rows))});
}

/// tl.broadcast of two blocks: both in the shape of their sum.
Operand broadcast(const Call& call) {
  const Register zero = call.lowering.constant(std::int64_t{0});
  const auto widened = [&](std::size_t own, std::size_t other) {
    const Register nothing = call.part(Opcode::full_like, 0, {zero, call.value(other)});
    const Register everywhere =
        call.part(Opcode::compare, static_cast<std::uint8_t>(CompareOperation::equal), {nothing, nothing});
    return Operand::single(call.part(Opcode::where, 0, {everywhere, call.value(own), call.value(own)}));
  };
  return Operand::tuple({widened(0, 1), widened(1, 0)});
}

template <CompareOperation operation>
Operand compared(const Call& call, Register left, Register right) {
  return Operand::single(call.compute(Opcode::compare, static_cast<std::uint8_t>(operation), {left, right}));
}
Operand is_nan(const Call& call) { return compared<CompareOperation::not_equal>(call, call.value(0), call.value(0)); }
Operand is_infinite(const Call& call) {
  return compared<CompareOperation::equal>(call, call.unary(UnaryOperation::absolute, call.value(0)),
                                           call.lowering.constant(std::numeric_limits<double>::infinity()));
}
Operand is_finite(const Call& call) {
  return compared<CompareOperation::less>(call, call.unary(UnaryOperation::absolute, call.value(0)),
                                          call.lowering.constant(std::numeric_limits<double>::infinity()));
}

Operand length(const Call& call) {
  if (!call.arguments[0].is_tuple) call.fail("len() of what is no tuple", "use .shape[i] for an extent of a block");
  return Operand::single(call.lowering.constant(static_cast<std::int64_t>(call.arguments[0].items.size())));
}

using Table = std::vector<Builtin>;

const Table& builtins() {
  using enum UnaryOperation;
  static const std::vector<std::string_view> kCache = {"cache_modifier", "eviction_policy", "volatile"};
  static const std::vector<std::string_view> kOrder = {"sem", "scope"};
  static const std::vector<std::string_view> kPointer = {"pointer", "val", "mask"};
  static const std::vector<std::string_view> kExtreme = {"input", "axis", "return_indices",
                                                         "return_indices_tie_break_left", "keep_dims"};
  static const std::vector<std::string_view> kSearch = {"input", "axis", "tie_break_left", "keep_dims"};
  static const Table table = {
      {"program_id", {"axis"}, 1, {}, plain<Opcode::program_id, 1>},
      {"num_programs", {"axis"}, 1, {}, plain<Opcode::num_programs, 1>},
      {"cdiv", {"x", "div"}, 2, {}, binary<BinaryOperation::cdiv>},
      {"swizzle2d", {"i", "j", "size_i", "size_j", "size_g"}, 5, {}, swizzle2d},
      {"arange", {"start", "end"}, 2, {}, plain<Opcode::arange, 2>},
      {"zeros", {"shape", "dtype"}, 2, {}, zeros},
      {"zeros_like", {"input"}, 1, {}, zeros_like},
      {"full", {"shape", "value", "dtype"}, 3, {}, full},
      {"load", {"pointer", "mask", "other", "boundary_check", "padding_option"}, 1, kCache, lower_load},
      {"store", {"pointer", "value", "mask", "boundary_check"}, 2, kCache, lower_store},
      {"make_block_ptr",
       {"base", "shape", "strides", "offsets", "block_shape", "order"},
       6,
       {},
       lower_make_block_pointer},
      {"advance", {"base", "offsets"}, 2, {}, lower_advance},
      {"atomic_add", kPointer, 2, kOrder, atomic<AtomicOperation::add>},
      {"atomic_min", kPointer, 2, kOrder, atomic<AtomicOperation::minimum>},
      {"atomic_max", kPointer, 2, kOrder, atomic<AtomicOperation::maximum>},
      {"atomic_and", kPointer, 2, kOrder, atomic<AtomicOperation::bit_and>},
      {"atomic_or", kPointer, 2, kOrder, atomic<AtomicOperation::bit_or>},
      {"atomic_xor", kPointer, 2, kOrder, atomic<AtomicOperation::bit_xor>},
      {"make_tensor_descriptor",
       {"base", "shape", "strides", "block_shape", "padding_option"},
       4,
       {},
       lower_make_descriptor},
      {"load_tensor_descriptor", {"desc", "offsets"}, 2, kCache, lower_descriptor_load},
      {"store_tensor_descriptor", {"desc", "offsets", "value"}, 3, {}, lower_descriptor_store},
      {"dot",
       {"input", "other", "acc", "input_precision", "allow_tf32", "max_num_imprecise_acc", "out_dtype"},
       2,
       {},
       dot},
      {"trans", {"input", "dims"}, 1, {}, with_shape_of<Opcode::permute>, true},
      {"permute", {"input", "dims"}, 2, {}, with_shape_of<Opcode::permute>, true},
      {"reshape", {"input", "shape"}, 2, {"can_reorder"}, with_shape_of<Opcode::reshape>, true},
      {"view", {"input", "shape"}, 2, {}, with_shape_of<Opcode::reshape>, true},
      {"ravel", {"x"}, 1, {"can_reorder"}, ravel},
      {"broadcast", {"input", "other"}, 2, {}, broadcast},
      {"broadcast_to", {"input", "shape"}, 2, {}, with_shape_of<Opcode::broadcast_to>, true},
      {"expand_dims", {"input", "axis"}, 2, {}, plain<Opcode::expand_dims, 2>},
      {"join", {"a", "b"}, 2, {}, plain<Opcode::join, 2>},
      {"interleave", {"a", "b"}, 2, {}, interleave},
      {"split", {"a"}, 1, {}, split},
      {"where", {"condition", "x", "y"}, 3, {}, plain<Opcode::where, 3>},
      {"minimum", {"x", "y", "propagate_nan"}, 2, {}, choice<BinaryOperation::minimum>},
      {"maximum", {"x", "y", "propagate_nan"}, 2, {}, choice<BinaryOperation::maximum>},
      {"clamp", {"x", "min", "max"}, 3, {}, clamp},
      {"min", kExtreme, 1, {}, lower_minimum},
      {"max", kExtreme, 1, {}, lower_maximum},
      {"argmin", kSearch, 2, {}, lower_argmin},
      {"argmax", kSearch, 2, {}, lower_argmax},
      {"sum", {"input", "axis", "keep_dims", "dtype"}, 1, {}, lower_sum},
      {"xor_sum", {"input", "axis", "keep_dims"}, 1, {}, lower_xor_sum},
      {"reduce_or", {"input", "axis", "keep_dims"}, 2, {}, lower_reduce_or},
      {"reduce", {"input", "axis", "combine_fn", "keep_dims"}, 3, {}, lower_reduce},
      {"cumsum", {"input", "axis", "reverse", "dtype"}, 1, {}, lower_cumsum},
      {"cumprod", {"input", "axis", "reverse"}, 1, {}, lower_cumprod},
      {"associative_scan", {"input", "axis", "combine_fn", "reverse"}, 3, {}, lower_associative_scan},
      {"softmax", {"x", "dim", "keep_dims"}, 1, {"ieee_rounding"}, lower_softmax},
      {"sort", {"x", "dim", "descending"}, 1, {}, lower_sort},
      {"flip", {"x", "dim"}, 2, {}, plain<Opcode::flip, 2>},
      {"gather", {"src", "index", "axis"}, 3, {}, plain<Opcode::gather, 3>},
      {"exp", {"x"}, 1, {}, unary<exp>},
      {"exp2", {"x"}, 1, {}, unary<exp2>},
      {"log", {"x"}, 1, {}, unary<log>},
      {"log2", {"x"}, 1, {}, unary<log2>},
      {"sqrt", {"x"}, 1, {}, unary<sqrt>},
      {"sqrt_rn", {"x"}, 1, {}, unary<sqrt>},
      {"rsqrt", {"x"}, 1, {}, unary<rsqrt>},
      {"sin", {"x"}, 1, {}, unary<sin>},
      {"cos", {"x"}, 1, {}, unary<cos>},
      {"erf", {"x"}, 1, {}, unary<erf>},
      {"floor", {"x"}, 1, {}, unary<UnaryOperation::floor>},
      {"ceil", {"x"}, 1, {}, unary<UnaryOperation::ceil>},
      {"abs", {"x"}, 1, {}, unary<absolute>},
      {"sigmoid", {"x"}, 1, {}, unary<sigmoid>},
      {"fdiv", {"x", "y"}, 2, {"ieee_rounding"}, binary<BinaryOperation::divide>},
      {"div_rn", {"x", "y"}, 2, {}, binary<BinaryOperation::divide>},
      {"fma", {"x", "y", "z"}, 3, {}, plain<Opcode::fma, 3>},
      {"cast", {"input", "dtype", "fp_downcast_rounding", "bitcast"}, 2, {}, cast},
      {"multiple_of", {"input", "values"}, 2, {}, first_argument},
      {"max_contiguous", {"input", "values"}, 2, {}, first_argument},
      {"max_constancy", {"input", "values"}, 2, {}, first_argument},
      {"constexpr", {"value"}, 1, {}, first_argument},
      {"assume", {"cond"}, 1, {}, nothing},
      {"static_assert", {"cond", "msg"}, 1, {}, static_assert_},
      {"static_print", {}, 0, {}, nothing, true},
      {"device_assert", {"cond", "msg", "mask"}, 1, {}, device_assert},
      {"device_print", {}, 0, {"hex"}, nothing, true},
      {"debug_barrier", {}, 0, {}, nothing},
  };
  return table;
}

/// triton.language.extra.libdevice; the fast_ ones are computed exactly here.
const Table& libdevice() {
  using enum UnaryOperation;
  static const Table table = {
      {"exp", {"arg0"}, 1, {}, unary<exp>},
      {"exp2", {"arg0"}, 1, {}, unary<exp2>},
      {"expm1", {"arg0"}, 1, {}, unary<expm1>},
      {"log", {"arg0"}, 1, {}, unary<log>},
      {"log2", {"arg0"}, 1, {}, unary<log2>},
      {"log1p", {"arg0"}, 1, {}, unary<log1p>},
      {"sqrt", {"arg0"}, 1, {}, unary<sqrt>},
      {"sqrt_rn", {"arg0"}, 1, {}, unary<sqrt>},
      {"rsqrt", {"arg0"}, 1, {}, unary<rsqrt>},
      {"sin", {"arg0"}, 1, {}, unary<sin>},
      {"cos", {"arg0"}, 1, {}, unary<cos>},
      {"tan", {"arg0"}, 1, {}, unary<tan>},
      {"asin", {"arg0"}, 1, {}, unary<asin>},
      {"acos", {"arg0"}, 1, {}, unary<acos>},
      {"atan", {"arg0"}, 1, {}, unary<atan>},
      {"atan2", {"arg0", "arg1"}, 2, {}, binary<BinaryOperation::atan2>},
      {"sinh", {"arg0"}, 1, {}, unary<sinh>},
      {"cosh", {"arg0"}, 1, {}, unary<cosh>},
      {"tanh", {"arg0"}, 1, {}, unary<tanh>},
      {"erf", {"arg0"}, 1, {}, unary<erf>},
      {"abs", {"arg0"}, 1, {}, unary<absolute>},
      {"floor", {"arg0"}, 1, {}, unary<UnaryOperation::floor>},
      {"ceil", {"arg0"}, 1, {}, unary<UnaryOperation::ceil>},
      {"trunc", {"arg0"}, 1, {}, unary<truncate>},
      {"rint", {"arg0"}, 1, {}, unary<round_even>},
      {"nearbyint", {"arg0"}, 1, {}, unary<round_even>},
      {"round", {"arg0"}, 1, {}, unary<round_away>},
      {"pow", {"arg0", "arg1"}, 2, {}, binary<BinaryOperation::power>},
      {"fmod", {"arg0", "arg1"}, 2, {}, binary<BinaryOperation::modulo>},
      {"div_rn", {"arg0", "arg1"}, 2, {}, binary<BinaryOperation::divide>},
      {"fma", {"arg0", "arg1", "arg2"}, 3, {}, plain<Opcode::fma, 3>},
      {"isnan", {"arg0"}, 1, {}, is_nan},
      {"isinf", {"arg0"}, 1, {}, is_infinite},
      {"finitef", {"arg0"}, 1, {}, is_finite},
      {"fast_expf", {"arg0"}, 1, {}, unary<exp>},
      {"fast_logf", {"arg0"}, 1, {}, unary<log>},
      {"fast_log2f", {"arg0"}, 1, {}, unary<log2>},
      {"fast_sinf", {"arg0"}, 1, {}, unary<sin>},
      {"fast_cosf", {"arg0"}, 1, {}, unary<cos>},
      {"fast_tanhf", {"arg0"}, 1, {}, unary<tanh>},
      {"fast_dividef", {"arg0", "arg1"}, 2, {}, binary<BinaryOperation::divide>},
      {"fast_powf", {"arg0", "arg1"}, 2, {}, binary<BinaryOperation::power>},
  };
  return table;
}

/// What tl.math has too, under the same names.
constexpr auto kMath =
    std::to_array<std::string_view>({"exp", "exp2", "log", "log2", "cos", "sin", "sqrt", "sqrt_rn", "rsqrt", "abs",
                                     "fdiv", "div_rn", "erf", "floor", "ceil", "fma"});

const Table& python_functions() {
  static const Table table = {
      {"min", {"a", "b"}, 2, {}, scalar_choice<BinaryOperation::minimum>, true},
      {"max", {"a", "b"}, 2, {}, scalar_choice<BinaryOperation::maximum>, true},
      {"abs", {"x"}, 1, {}, unary<UnaryOperation::absolute>},
      {"len", {"x"}, 1, {}, length},
      {"assert", {"cond", "msg"}, 1, {}, nothing},
      {"print", {}, 0, {}, nothing, true},
  };
  return table;
}

/// Methods whose names mean something else as functions of triton.language, or nothing.
const Table& methods() {
  static const Table table = {
      {"load", {"desc", "offsets"}, 2, {"cache_modifier", "eviction_policy"}, lower_descriptor_load},
      {"store", {"desc", "offsets", "value"}, 3, {}, lower_descriptor_store},
      {"to", {"input", "dtype", "fp_downcast_rounding", "bitcast"}, 2, {}, cast},
  };
  return table;
}

const Builtin* find(const Table& table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [name](const Builtin& entry) { return entry.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

const Builtin* find_builtin(std::string_view name) {
  constexpr std::string_view kLibrary = "libdevice.";
  constexpr std::string_view kModule = "math.";
  if (name.starts_with(kLibrary)) return find(libdevice(), name.substr(kLibrary.size()));
  if (!name.starts_with(kModule)) return find(builtins(), name);
  name.remove_prefix(kModule.size());
  return std::find(kMath.begin(), kMath.end(), name) == kMath.end() ? nullptr : find(builtins(), name);
}

const Builtin* find_python_function(std::string_view name) { return find(python_functions(), name); }

const Builtin* find_method(std::string_view name) {
  if (const Builtin* method = find(methods(), name)) return method;
  const Builtin* function = find(builtins(), name);
  return function != nullptr && !function->parameters.empty() ? function : nullptr;
}

std::string_view remedy_for(std::string_view name) {
  if (name.starts_with("rand") || name.starts_with("philox"))
    return "random numbers are not supported: draw them before the kernel, and load them";
  if (name == "atomic_cas" || name == "atomic_xchg")
    return "these make locks, and a fused kernel runs fewer programs at a time than tiles: one that spins could wait "
           "for "
           "a tile that is never begun; give each tile a place of its own for its result, and combine them afterwards";
  if (name == "dot_scaled") return "scale blocks by hand: convert, multiply by the scale, and use tl.dot";
  if (name == "inline_asm_elementwise") return "CPU ranks cannot run it: write it with functions of triton.language";
  if (name == "pointer_type")
    return "a pointer that is loaded hides which tensor a tile reads: give every tensor a parameter of its own";
  if (name == "cat") return "its order is not defined: use tl.join, tl.interleave and tl.reshape";
  if (name == "histogram") return "compare with tl.arange and use tl.sum";
  if (name == "topk") return "use tl.sort";
  if (name.starts_with("math."))
    return "tl.math has exp, exp2, log, log2, sin, cos, sqrt, rsqrt, erf, abs, floor, ceil, fma; others are in "
           "triton.language.extra.libdevice";
  if (find(libdevice(), name) != nullptr) return "it is in triton.language.extra.libdevice";
  return "";
}

std::string supported_functions() {
  std::vector<std::string> names;
  for (const Builtin& entry : builtins()) names.push_back("tl." + std::string(entry.name));
  names.push_back("tl.range");
  names.push_back("tl.static_range");
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace syncopate::lowering
