// Operations element by element.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "syncopate/kernel/value_map.h"
#include "syncopate/kernel/value_operations.h"
#include "syncopate/kernel/value_promotion.h"

namespace syncopate::concrete {
namespace {

template <typename T>
struct Floored {
  static T divide(T a, T b) { return std::floor(a / b); }
  static T modulo(T a, T b) { return a - b * std::floor(a / b); }
};
template <>
struct Floored<std::int64_t> {
  static std::int64_t divide(std::int64_t a, std::int64_t b) {
    if (b == -1) return static_cast<std::int64_t>(-static_cast<std::uint64_t>(a));  // the least of all wraps
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
  }
  static std::int64_t modulo(std::int64_t a, std::int64_t b) { return a - b * divide(a, b); }
};

std::int64_t wrapping(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

void refuse_zero(const Value& divisor) {
  const OperationError error{"division by zero", "make sure that the divisor is not 0"};
  if (!divisor.is_block()) {
    if (divisor.integer == 0) throw error;
    return;
  }
  const std::int64_t count = divisor.extents.count();
  for (std::int64_t i = 0; i < count; ++i)
    if (divisor.elements<std::int64_t>()[i] == 0) throw error;
}

Kind kind_of(Dtype dtype) { return is_floating(dtype) ? Kind::floating : Kind::integer; }

/// A scalar result computed in T.
template <typename T>
Value scalar_result(T value, Promoted type) {
  if (type.weak) {
    if constexpr (std::is_floating_point_v<T>) return weak_number(static_cast<double>(value));
    return weak_integer(static_cast<std::int64_t>(value));
  }
  if constexpr (std::is_floating_point_v<T>) return floating_value(static_cast<double>(value), type.dtype);
  return integer_value(static_cast<std::int64_t>(value), type.dtype);
}

/// Rounds or wraps what was computed in the wide type.
template <typename T>
void finish(Value& block) {
  const auto count = static_cast<std::size_t>(block.extents.count());
  if constexpr (std::is_same_v<T, float>) round_elements({block.mutable_elements<float>(), count}, block.dtype);
  if constexpr (std::is_same_v<T, std::int64_t>)
    wrap_elements({block.mutable_elements<std::int64_t>(), count}, block.dtype);
}

/// result = f(left, right) with elements of T; the result has the kind and dtype given.
template <typename T, typename F>
Value map_pair(const Value& left, const Value& right, Promoted type, F f) {
  if (!left.is_block() && !right.is_block()) return scalar_result<T>(f(scalar_as<T>(left), scalar_as<T>(right)), type);
  const Extents extents = common_extents(left.extents, right.extents);
  const Elements<T> a(left, extents);
  const Elements<T> b(right, extents);
  Value result = new_block(kind_of(type.dtype), type.dtype, extents);
  for_each_pair(a.view(), b.view(), extents, result.mutable_elements<T>(), f);
  finish<T>(result);
  return result;
}

/// A bool result.
template <typename T, typename F>
Value map_predicate(const Value& left, const Value& right, F f) {
  if (!left.is_block() && !right.is_block()) return boolean_value(f(scalar_as<T>(left), scalar_as<T>(right)));
  const Extents extents = common_extents(left.extents, right.extents);
  const Elements<T> a(left, extents);
  const Elements<T> b(right, extents);
  Value result = new_block(Kind::integer, Dtype::boolean, extents);
  for_each_pair(a.view(), b.view(), extents, result.mutable_elements<std::uint8_t>(),
                [f](T x, T y) { return static_cast<std::uint8_t>(f(x, y)); });
  return result;
}

[[noreturn]] void unsupported(std::string_view what, const Value& left, const Value& right) {
  throw OperationError{fmt::format("{} of {} and {}", what, describe(left), describe(right)), ""};
}

template <typename T>
Value floating_binary(BinaryOperation operation, const Value& left, const Value& right, Promoted type) {
  switch (operation) {
    case BinaryOperation::add:
      return map_pair<T>(left, right, type, [](T a, T b) { return a + b; });
    case BinaryOperation::subtract:
      return map_pair<T>(left, right, type, [](T a, T b) { return a - b; });
    case BinaryOperation::multiply:
      return map_pair<T>(left, right, type, [](T a, T b) { return a * b; });
    case BinaryOperation::divide:
      return map_pair<T>(left, right, type, [](T a, T b) { return a / b; });
    case BinaryOperation::minimum:  // the number if one is NaN, as the hardware's min
      return map_pair<T>(left, right, type, [](T a, T b) { return b != b || a < b ? a : b; });
    case BinaryOperation::maximum:
      return map_pair<T>(left, right, type, [](T a, T b) { return b != b || a > b ? a : b; });
    case BinaryOperation::floor_divide:
      if (!type.weak) unsupported("'//'", left, right);
      return map_pair<T>(left, right, type, Floored<T>::divide);
    case BinaryOperation::modulo:
      if (type.weak) return map_pair<T>(left, right, type, Floored<T>::modulo);
      return map_pair<T>(left, right, type, [](T a, T b) { return std::fmod(a, b); });
    case BinaryOperation::power:
      return map_pair<T>(left, right, type, [](T a, T b) { return std::pow(a, b); });
    case BinaryOperation::atan2:
      return map_pair<T>(left, right, type, [](T a, T b) { return std::atan2(a, b); });
    default:
      unsupported("a bitwise or integer operation", left, right);
  }
}

Value integer_binary(BinaryOperation operation, const Value& left, const Value& right, Promoted type) {
  using T = std::int64_t;
  const bool unsigned_64 = type.dtype == Dtype::uint64;
  switch (operation) {
    case BinaryOperation::add:
      return map_pair<T>(left, right, type, [](T a, T b) { return wrapping(bits(a) + bits(b)); });
    case BinaryOperation::subtract:
      return map_pair<T>(left, right, type, [](T a, T b) { return wrapping(bits(a) - bits(b)); });
    case BinaryOperation::multiply:
      return map_pair<T>(left, right, type, [](T a, T b) { return wrapping(bits(a) * bits(b)); });
    case BinaryOperation::floor_divide:
      if (type.weak) return map_pair<T>(left, right, type, Floored<T>::divide);
      if (unsigned_64) return map_pair<T>(left, right, type, [](T a, T b) { return wrapping(bits(a) / bits(b)); });
      return map_pair<T>(left, right, type, [](T a, T b) { return b == -1 ? wrapping(-bits(a)) : a / b; });
    case BinaryOperation::modulo:
      if (type.weak) return map_pair<T>(left, right, type, Floored<T>::modulo);
      if (unsigned_64) return map_pair<T>(left, right, type, [](T a, T b) { return wrapping(bits(a) % bits(b)); });
      return map_pair<T>(left, right, type, [](T a, T b) { return b == -1 ? 0 : a % b; });
    case BinaryOperation::cdiv:
      if (type.weak) return map_pair<T>(left, right, type, [](T a, T b) { return Floored<T>::divide(a + b - 1, b); });
      return map_pair<T>(left, right, type, [](T a, T b) { return b == -1 ? wrapping(2 - bits(a)) : (a + b - 1) / b; });
    case BinaryOperation::bit_and:
      return map_pair<T>(left, right, type, [](T a, T b) { return a & b; });
    case BinaryOperation::bit_or:
      return map_pair<T>(left, right, type, [](T a, T b) { return a | b; });
    case BinaryOperation::bit_xor:
      return map_pair<T>(left, right, type, [](T a, T b) { return a ^ b; });
    case BinaryOperation::shift_left:
      return map_pair<T>(left, right, type, [](T a, T b) { return b > 63 || b < 0 ? 0 : wrapping(bits(a) << b); });
    case BinaryOperation::shift_right:
      if (unsigned_64)
        return map_pair<T>(left, right, type, [](T a, T b) { return b > 63 || b < 0 ? 0 : wrapping(bits(a) >> b); });
      return map_pair<T>(left, right, type, [](T a, T b) { return a >> (b > 63 || b < 0 ? 63 : b); });
    case BinaryOperation::minimum:
      if (unsigned_64) return map_pair<T>(left, right, type, [](T a, T b) { return bits(a) < bits(b) ? a : b; });
      return map_pair<T>(left, right, type, [](T a, T b) { return a < b ? a : b; });
    case BinaryOperation::maximum:
      if (unsigned_64) return map_pair<T>(left, right, type, [](T a, T b) { return bits(a) > bits(b) ? a : b; });
      return map_pair<T>(left, right, type, [](T a, T b) { return a > b ? a : b; });
    default:
      unsupported("this operation", left, right);
  }
}

/// & | ^ of masks.
Value boolean_binary(BinaryOperation operation, const Value& left, const Value& right) {
  using T = std::uint8_t;
  switch (operation) {
    case BinaryOperation::bit_and:
      return map_predicate<T>(left, right, [](T a, T b) { return (a & b) != 0; });
    case BinaryOperation::bit_or:
      return map_predicate<T>(left, right, [](T a, T b) { return (a | b) != 0; });
    default:
      return map_predicate<T>(left, right, [](T a, T b) { return a != b; });
  }
}

/// Whether each element is not zero.
Value truth(const Value& value) {
  if (value.is_boolean()) return value;
  if (value.kind == Kind::none) return boolean_value(false);
  if (!value.is_number()) throw OperationError{fmt::format("the truth of {}", describe(value)), "compare it"};
  return compare(CompareOperation::not_equal, value, weak_integer(0));
}

bool is_bitwise(BinaryOperation operation) {
  return operation == BinaryOperation::bit_and || operation == BinaryOperation::bit_or ||
         operation == BinaryOperation::bit_xor;
}

Value offset_pointer(BinaryOperation operation, const Value& left, const Value& right) {
  const bool swapped = left.kind != Kind::pointer;
  const Value& pointer = swapped ? right : left;
  const Value& offset = swapped ? left : right;
  if (offset.kind != Kind::integer || (operation != BinaryOperation::add && swapped) ||
      (operation != BinaryOperation::add && operation != BinaryOperation::subtract))
    unsupported("an operation that pointers do not have", left, right);
  const Promoted type{Dtype::int64, false};
  Value result = integer_binary(operation, pointer, offset, type);
  result.kind = Kind::pointer;
  result.dtype = pointer.dtype;
  result.buffer = pointer.buffer;
  return result;
}

template <typename T, typename F>
Value map_one(const Value& operand, F f) {
  if (!operand.is_block()) return scalar_result<T>(f(scalar_as<T>(operand)), {operand.dtype, operand.weak});
  Value result = new_block(operand.kind, operand.dtype, operand.extents);
  const T* const from = operand.elements<T>();
  T* const to = result.mutable_elements<T>();
  const std::int64_t count = operand.extents.count();
  for (std::int64_t i = 0; i < count; ++i) to[i] = f(from[i]);
  finish<T>(result);
  return result;
}

template <typename T>
Value floating_unary(UnaryOperation operation, const Value& operand) {
  switch (operation) {
    case UnaryOperation::negate:
      return map_one<T>(operand, [](T x) { return -x; });
    case UnaryOperation::absolute:
      return map_one<T>(operand, [](T x) { return std::abs(x); });
    case UnaryOperation::exp:
      return map_one<T>(operand, [](T x) { return std::exp(x); });
    case UnaryOperation::exp2:
      return map_one<T>(operand, [](T x) { return std::exp2(x); });
    case UnaryOperation::log:
      return map_one<T>(operand, [](T x) { return std::log(x); });
    case UnaryOperation::log2:
      return map_one<T>(operand, [](T x) { return std::log2(x); });
    case UnaryOperation::sqrt:
      return map_one<T>(operand, [](T x) { return std::sqrt(x); });
    case UnaryOperation::rsqrt:
      return map_one<T>(operand, [](T x) { return T{1} / std::sqrt(x); });
    case UnaryOperation::sigmoid:
      return map_one<T>(operand, [](T x) { return T{1} / (T{1} + std::exp(-x)); });
    case UnaryOperation::sin:
      return map_one<T>(operand, [](T x) { return std::sin(x); });
    case UnaryOperation::cos:
      return map_one<T>(operand, [](T x) { return std::cos(x); });
    case UnaryOperation::floor:
      return map_one<T>(operand, [](T x) { return std::floor(x); });
    case UnaryOperation::ceil:
      return map_one<T>(operand, [](T x) { return std::ceil(x); });
    case UnaryOperation::truncate:
      return map_one<T>(operand, [](T x) { return std::trunc(x); });
    case UnaryOperation::round_even:
      return map_one<T>(operand, [](T x) { return std::nearbyint(x); });
    case UnaryOperation::round_away:
      return map_one<T>(operand, [](T x) { return std::round(x); });
    case UnaryOperation::erf:
      return map_one<T>(operand, [](T x) { return std::erf(x); });
    case UnaryOperation::tanh:
      return map_one<T>(operand, [](T x) { return std::tanh(x); });
    case UnaryOperation::tan:
      return map_one<T>(operand, [](T x) { return std::tan(x); });
    case UnaryOperation::asin:
      return map_one<T>(operand, [](T x) { return std::asin(x); });
    case UnaryOperation::acos:
      return map_one<T>(operand, [](T x) { return std::acos(x); });
    case UnaryOperation::atan:
      return map_one<T>(operand, [](T x) { return std::atan(x); });
    case UnaryOperation::sinh:
      return map_one<T>(operand, [](T x) { return std::sinh(x); });
    case UnaryOperation::cosh:
      return map_one<T>(operand, [](T x) { return std::cosh(x); });
    case UnaryOperation::expm1:
      return map_one<T>(operand, [](T x) { return std::expm1(x); });
    case UnaryOperation::log1p:
      return map_one<T>(operand, [](T x) { return std::log1p(x); });
    default:
      throw OperationError{fmt::format("'~' of {}", describe(operand)), "it takes integers and bools"};
  }
}

Value integer_unary(UnaryOperation operation, const Value& operand) {
  using T = std::int64_t;
  switch (operation) {
    case UnaryOperation::negate:
      return map_one<T>(operand, [](T x) { return wrapping(-bits(x)); });
    case UnaryOperation::absolute:
      return map_one<T>(operand, [](T x) { return x < 0 ? wrapping(-bits(x)) : x; });
    case UnaryOperation::invert:
      return map_one<T>(operand, [](T x) { return ~x; });
    default:
      throw OperationError{fmt::format("a floating function of {}", describe(operand)), "convert it: .to(tl.float32)"};
  }
}

template <typename T>
Value compare_as(CompareOperation operation, const Value& left, const Value& right) {
  switch (operation) {
    case CompareOperation::less:
      return map_predicate<T>(left, right, [](T a, T b) { return a < b; });
    case CompareOperation::less_equal:
      return map_predicate<T>(left, right, [](T a, T b) { return a <= b; });
    case CompareOperation::greater:
      return map_predicate<T>(left, right, [](T a, T b) { return a > b; });
    case CompareOperation::greater_equal:
      return map_predicate<T>(left, right, [](T a, T b) { return a >= b; });
    case CompareOperation::equal:
      return map_predicate<T>(left, right, [](T a, T b) { return a == b; });
    case CompareOperation::not_equal:
      return map_predicate<T>(left, right, [](T a, T b) { return a != b; });
  }
  throw OperationError{"this comparison", ""};
}

/// Toward zero; what does not fit goes to the nearest end of int64, NaN to 0.
std::int64_t truncate(double value) {
  if (value != value) return 0;
  if (value >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  if (value < -0x1p63) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

template <typename T>
void copy_elements(const Value& from, Value& to) {
  const Elements<T> elements(from, from.extents);
  std::copy_n(elements.view().elements, from.extents.count(), to.mutable_elements<T>());
  finish<T>(to);
}

Value promoted_to(const Value& operand, Promoted type) {
  if (type.weak || (operand.dtype == type.dtype && !operand.weak)) return operand;
  // Widening within one way of holding elements changes nothing.
  const bool floats =
      storage_of(operand) == Storage::float32 && storage_of(Kind::floating, type.dtype) == Storage::float32;
  if (operand.is_block() && (floats || (is_signed_integer(operand.dtype) && is_signed_integer(type.dtype))))
    return operand;
  return cast(operand, type.dtype);
}

Promoted number_promotion(std::string_view what, const Value& left, const Value& right) {
  if (!left.is_number() || !right.is_number()) unsupported(what, left, right);
  return promote(left, right);
}

template <typename T>
void select(const Value& condition, const Value& left, const Value& right, Value& result) {
  const auto* const chosen = condition.elements<std::uint8_t>();
  const T* const a = left.elements<T>();
  const T* const b = right.elements<T>();
  T* const out = result.mutable_elements<T>();
  const std::int64_t count = result.extents.count();
  for (std::int64_t i = 0; i < count; ++i) out[i] = chosen[i] != 0 ? a[i] : b[i];
}

}  // namespace

Value unary(UnaryOperation operation, const Value& operand) {
  if (operation == UnaryOperation::logical_not) {
    const Value value = truth(operand);
    if (!value.is_block()) return boolean_value(value.integer == 0);
    return map_predicate<std::uint8_t>(value, boolean_value(true), [](auto a, auto b) { return a != b; });
  }
  if (!operand.is_number()) throw OperationError{fmt::format("arithmetic of {}", describe(operand)), ""};
  if (operand.is_boolean()) {
    if (operation == UnaryOperation::invert) return unary(UnaryOperation::logical_not, operand);
    return integer_unary(operation, cast(operand, Dtype::int32));
  }
  if (operand.kind == Kind::integer) return integer_unary(operation, operand);
  // Triton has these for wide floats only (_check_dtype, and libdevice's symbols).
  const bool needs_width = operation > UnaryOperation::absolute && operation != UnaryOperation::sigmoid;
  if (needs_width && !operand.weak && size_in_bytes(operand.dtype) < 4)
    throw OperationError{fmt::format("this function of {}", describe(operand)),
                         "Triton has it for fp32 and fp64: convert, as in .to(tl.float32)"};
  return operand.dtype == Dtype::fp64 ? floating_unary<double>(operation, operand)
                                      : floating_unary<float>(operation, operand);
}

Value binary(BinaryOperation operation, const Value& left, const Value& right) {
  if (operation == BinaryOperation::logical_and) return binary(BinaryOperation::bit_and, truth(left), truth(right));
  if (operation == BinaryOperation::logical_or) return binary(BinaryOperation::bit_or, truth(left), truth(right));
  if (left.kind == Kind::pointer || right.kind == Kind::pointer) return offset_pointer(operation, left, right);
  Promoted type = number_promotion("arithmetic", left, right);
  if (left.is_boolean() && right.is_boolean()) {
    if (is_bitwise(operation)) return boolean_binary(operation, left, right);
    type.dtype = Dtype::int32;
  }
  if (!is_floating(type.dtype) && operation == BinaryOperation::divide)
    type = type.weak ? Promoted{Dtype::fp64, true} : Promoted{Dtype::fp32, false};
  if (!is_floating(type.dtype)) {
    const bool divides = operation == BinaryOperation::floor_divide || operation == BinaryOperation::modulo ||
                         operation == BinaryOperation::cdiv;
    if (divides) refuse_zero(promoted_to(right, type));
    return integer_binary(operation, promoted_to(left, type), promoted_to(right, type), type);
  }
  const bool widens = operation == BinaryOperation::divide || operation == BinaryOperation::modulo;
  if (widens && is_half(type.dtype)) type.dtype = Dtype::fp32;
  if (type.dtype == Dtype::fp64)
    return floating_binary<double>(operation, promoted_to(left, type), promoted_to(right, type), type);
  return floating_binary<float>(operation, promoted_to(left, type), promoted_to(right, type), type);
}

bool same_thing(const Value& left, const Value& right) {
  if (left.kind != right.kind) return false;
  switch (left.kind) {
    case Kind::none:
      return true;
    case Kind::string:
      return left.buffer == right.buffer;
    case Kind::dtype:
      return left.dtype == right.dtype;
    default:
      return false;
  }
}

Value compare(CompareOperation operation, const Value& left, const Value& right) {
  if (!left.is_number() || !right.is_number()) {
    if (operation == CompareOperation::equal) return boolean_value(same_thing(left, right));
    if (operation == CompareOperation::not_equal) return boolean_value(!same_thing(left, right));
  }
  const Promoted type = number_promotion("comparison", left, right);
  const Value a = promoted_to(left, type);
  const Value b = promoted_to(right, type);
  if (type.dtype == Dtype::fp64) return compare_as<double>(operation, a, b);
  if (is_floating(type.dtype)) return compare_as<float>(operation, a, b);
  if (type.dtype == Dtype::uint64) {
    // Held as int64: turning the highest bit makes the signed order the unsigned one.
    const Value highest = integer_value(std::numeric_limits<std::int64_t>::min(), Dtype::uint64);
    return compare_as<std::int64_t>(operation, binary(BinaryOperation::bit_xor, a, highest),
                                    binary(BinaryOperation::bit_xor, b, highest));
  }
  return compare_as<std::int64_t>(operation, a, b);
}

Value where(const Value& condition, const Value& left, const Value& right) {
  const Value chosen = truth(condition);
  const Promoted type = number_promotion("a choice", left, right);
  const Value a = promoted_to(left, type);
  const Value b = promoted_to(right, type);
  if (!chosen.is_block() && !a.is_block() && !b.is_block()) return chosen.integer != 0 ? a : b;
  const Dtype dtype = type.weak && !is_floating(type.dtype) ? Dtype::int32 : type.weak ? Dtype::fp32 : type.dtype;
  const Extents extents = common_extents(chosen.extents, common_extents(a.extents, b.extents));
  const Value mask = broadcast_to(chosen, extents);
  const Value whole_a = broadcast_to(cast(a, dtype), extents);
  const Value whole_b = broadcast_to(cast(b, dtype), extents);
  Value result = new_block(kind_of(dtype), dtype, extents);
  switch (storage_of(result)) {
    case Storage::float32:
      select<float>(mask, whole_a, whole_b, result);
      break;
    case Storage::float64:
      select<double>(mask, whole_a, whole_b, result);
      break;
    case Storage::int64:
      select<std::int64_t>(mask, whole_a, whole_b, result);
      break;
    case Storage::byte:
      select<std::uint8_t>(mask, whole_a, whole_b, result);
      break;
  }
  return result;
}

Value fma(const Value& left, const Value& right, const Value& addend) {
  const Promoted pair = number_promotion("fma", left, right);
  const Promoted type = number_promotion("fma", addend, pair.weak ? left : cast(weak_integer(0), pair.dtype));
  if (!is_floating(type.dtype) || type.dtype == Dtype::fp64)
    return binary(BinaryOperation::add, binary(BinaryOperation::multiply, left, right), addend);
  const Extents extents = common_extents(left.extents, common_extents(right.extents, addend.extents));
  const Value a = promoted_to(left, type);
  const Value b = promoted_to(right, type);
  const Value c = promoted_to(addend, type);
  if (extents.rank == 0)
    return floating_value(std::fma(scalar_as<float>(a), scalar_as<float>(b), scalar_as<float>(c)), type.dtype);
  const Value whole_a = broadcast_to(a, extents);
  const Value whole_b = broadcast_to(b, extents);
  const Value whole_c = broadcast_to(c, extents);
  Value result = new_block(Kind::floating, type.dtype, extents);
  float* const out = result.mutable_elements<float>();
  const std::int64_t count = extents.count();
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = std::fma(whole_a.elements<float>()[i], whole_b.elements<float>()[i], whole_c.elements<float>()[i]);
  finish<float>(result);
  return result;
}

Value cast(const Value& operand, Dtype dtype) {
  if (!operand.is_number()) throw OperationError{fmt::format("conversion of {}", describe(operand)), ""};
  const Kind kind = kind_of(dtype);
  if (!operand.is_block()) {
    if (kind == Kind::floating) return floating_value(scalar_as<double>(operand), dtype);
    if (dtype == Dtype::boolean)
      return boolean_value(operand.kind == Kind::floating ? operand.number != 0 : operand.integer != 0);
    return integer_value(operand.kind == Kind::floating ? truncate(operand.number) : operand.integer, dtype);
  }
  if (operand.dtype == dtype) return operand;
  if (dtype == Dtype::boolean) return truth(operand);
  Value result = new_block(kind, dtype, operand.extents);
  const std::int64_t count = operand.extents.count();
  const bool truncates = operand.kind == Kind::floating && kind == Kind::integer;
  if (truncates) {
    const Elements<double> from(operand, operand.extents);
    auto* const to = result.mutable_elements<std::int64_t>();
    for (std::int64_t i = 0; i < count; ++i) to[i] = truncate(from.view().elements[i]);
    finish<std::int64_t>(result);
    return result;
  }
  switch (storage_of(result)) {
    case Storage::float32:
      copy_elements<float>(operand, result);
      break;
    case Storage::float64:
      copy_elements<double>(operand, result);
      break;
    case Storage::int64:
    case Storage::byte:
      copy_elements<std::int64_t>(operand, result);
      break;
  }
  return result;
}

}  // namespace syncopate::concrete
