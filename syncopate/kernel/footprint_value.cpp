#include "syncopate/kernel/footprint_value.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace syncopate {
namespace {

/// The type of a result of two operands: a Python integer takes the other's type, floating beats integer, wide beats
/// narrow.
Dtype common_dtype(const FootprintValue& a, const FootprintValue& b) {
  // ... unless it is too large for it.
  if (a.python && !b.python && a.dtype != Dtype::int64) return b.dtype;
  if (b.python && !a.python && b.dtype != Dtype::int64) return a.dtype;
  if (is_floating(a.dtype) != is_floating(b.dtype)) return is_floating(a.dtype) ? a.dtype : b.dtype;
  if (a.is_scalar(ValueKind::floating) && is_floating(b.dtype)) return b.dtype;
  if (b.is_scalar(ValueKind::floating) && is_floating(a.dtype)) return a.dtype;
  return size_in_bytes(b.dtype) > size_in_bytes(a.dtype) ? b.dtype : a.dtype;
}

/// The tensor into which a value points, known or not; -1 for what is no pointer.
std::int16_t tensor_of(const FootprintValue& value) {
  return value.kind == ValueKind::pointer || value.kind == ValueKind::opaque ? value.parameter : std::int16_t{-1};
}

/// An opaque result of opaque operands keeps the reason of the first of them, and the tensor that one of them points
/// into.
FootprintValue opaque_result(const FootprintValue& a, const FootprintValue& b, Dtype dtype,
                             const Instruction& instruction) {
  const LaneShape shape = broadcast(a.shape(), b.shape()).value_or(a.shape());
  FootprintValue result = opaque_value(shape, dtype, OpaqueReason::arithmetic, instruction);
  for (const FootprintValue* operand : {&b, &a})
    if (operand->kind == ValueKind::opaque) result = opaque_value(shape, dtype, operand->reason, *operand->origin);
  const std::int16_t one = tensor_of(a);
  const std::int16_t other = tensor_of(b);
  if (one < 0 || other < 0 || one == other) result.parameter = std::max(one, other);
  return result;
}

std::optional<IndexForm> form_of(const FootprintValue& value) {
  if (value.kind == ValueKind::integer) return value.form;
  if (value.kind != ValueKind::boolean) return std::nullopt;
  return select(value.mask, IndexForm(1), IndexForm(0));
}

/// A value as a condition: booleans, and numbers that are true where they are not 0.
std::optional<LaneMask> mask_of(const FootprintValue& value) {
  if (value.kind == ValueKind::boolean) return value.mask;
  if (value.kind == ValueKind::integer) return compare(value.form, CompareOperation::not_equal, 0);
  if (const auto known = known_truth(value)) return boolean_value(*known).mask;
  return std::nullopt;
}

std::optional<double> number_of(const FootprintValue& value) {
  if (value.is_scalar(ValueKind::floating)) return value.number;
  if (value.is_scalar(ValueKind::integer)) return static_cast<double>(value.form.base);
  if (value.is_scalar(ValueKind::boolean)) return value.mask.empty() ? 0.0 : 1.0;
  return std::nullopt;
}

std::optional<double> floating_result(BinaryOperation operation, double a, double b) {
  switch (operation) {
    case BinaryOperation::add:
      return a + b;
    case BinaryOperation::subtract:
      return a - b;
    case BinaryOperation::multiply:
      return a * b;
    case BinaryOperation::divide:
      return a / b;
    case BinaryOperation::minimum:
      return std::fmin(a, b);
    case BinaryOperation::maximum:
      return std::fmax(a, b);
    default:
      return std::nullopt;
  }
}

bool divides(BinaryOperation operation) {
  return operation == BinaryOperation::floor_divide || operation == BinaryOperation::modulo ||
         operation == BinaryOperation::cdiv;
}

/// Nothing where the result does not fit in 64 bits.
std::optional<std::int64_t> sum_of(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::nullopt : std::optional(sum);
}
std::optional<std::int64_t> difference_of(std::int64_t a, std::int64_t b) {
  std::int64_t difference = 0;
  return __builtin_sub_overflow(a, b, &difference) ? std::nullopt : std::optional(difference);
}
std::optional<std::int64_t> product_of(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional(product);
}

/// Integer division of scalars: toward minus infinity for Python integers, toward zero on the device.
std::optional<std::int64_t> quotient_of(std::int64_t a, std::int64_t b, bool python) {
  if (b == -1) return difference_of(0, a);
  const std::int64_t quotient = a / b;
  return quotient - (python && a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

bool is_power_of_two(std::int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

std::optional<std::int64_t> scalar_result(BinaryOperation operation, std::int64_t a, std::int64_t b, bool python) {
  const bool shifts = operation == BinaryOperation::shift_left || operation == BinaryOperation::shift_right;
  if (shifts && (b < 0 || b > 62)) return std::nullopt;
  if (divides(operation) && b == 0) return std::nullopt;
  switch (operation) {
    case BinaryOperation::add:
      return sum_of(a, b);
    case BinaryOperation::subtract:
      return difference_of(a, b);
    case BinaryOperation::multiply:
      return product_of(a, b);
    case BinaryOperation::floor_divide:
      return quotient_of(a, b, python);
    case BinaryOperation::modulo:
      return b == -1 ? 0 : a - b * *quotient_of(a, b, python);
    case BinaryOperation::cdiv: {
      const auto numerator = sum_of(a, b - 1);
      return numerator ? quotient_of(*numerator, b, python) : std::nullopt;
    }
    case BinaryOperation::minimum:
      return std::min(a, b);
    case BinaryOperation::maximum:
      return std::max(a, b);
    case BinaryOperation::bit_and:
      return a & b;
    case BinaryOperation::bit_or:
      return a | b;
    case BinaryOperation::bit_xor:
      return a ^ b;
    case BinaryOperation::shift_left:
      return product_of(a, std::int64_t{1} << b);
    case BinaryOperation::shift_right:
      return a >> b;
    case BinaryOperation::divide:
    case BinaryOperation::logical_and:
    case BinaryOperation::logical_or:
    case BinaryOperation::power:
    case BinaryOperation::atan2:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<IndexForm> smaller(const IndexForm& a, const IndexForm& b) {
  const auto difference = add(a, scale(b, -1));
  const auto mask = difference ? compare(*difference, CompareOperation::less_equal, 0) : std::nullopt;
  return mask ? select(*mask, a, b) : std::nullopt;
}

std::optional<IndexForm> block_result(BinaryOperation operation, const IndexForm& a, const IndexForm& b) {
  switch (operation) {
    case BinaryOperation::add:
      return add(a, b);
    case BinaryOperation::subtract:
      return add(a, scale(b, -1));
    case BinaryOperation::minimum:
      return smaller(a, b);
    case BinaryOperation::maximum: {
      const auto negated = smaller(scale(a, -1), scale(b, -1));
      return negated ? std::optional(scale(*negated, -1)) : std::nullopt;
    }
    default:
      break;
  }
  const auto shape = broadcast(a.shape, b.shape);
  if (!shape) return std::nullopt;
  if (operation == BinaryOperation::multiply && a.constant()) return broadcast_to(scale(b, a.base), *shape);
  if (!b.constant()) return std::nullopt;
  const IndexForm left = broadcast_to(a, *shape);
  const std::int64_t right = b.base;
  switch (operation) {
    case BinaryOperation::multiply:
      return scale(left, right);
    case BinaryOperation::floor_divide:
      return divide(left, right);
    case BinaryOperation::modulo:
      return remainder(left, right);
    case BinaryOperation::cdiv:
      return right > 0 ? divide(*add(left, IndexForm(right - 1)), right) : std::nullopt;
    case BinaryOperation::shift_left:
      return right >= 0 && right < 62 ? std::optional(scale(left, std::int64_t{1} << right)) : std::nullopt;
    case BinaryOperation::shift_right:
      return right >= 0 && right < 62 ? divide(left, std::int64_t{1} << right) : std::nullopt;
    case BinaryOperation::bit_and:
      return is_power_of_two(right + 1) ? remainder(left, right + 1) : std::nullopt;
    default:
      return std::nullopt;
  }
}

/// Whether all values of a form fit in an integer type of at most 32 bits.
bool fits(const IndexForm& form, Dtype dtype) {
  const int bits = 8 * size_in_bytes(dtype);
  const std::int64_t smallest = is_signed_integer(dtype) ? -(std::int64_t{1} << (bits - 1)) : 0;
  const std::int64_t largest = (std::int64_t{1} << (is_signed_integer(dtype) ? bits - 1 : bits)) - 1;
  const Bounds range = bounds(form);
  return range.smallest >= smallest && range.largest <= largest;
}

/// The commonest operation on blocks, built in place.
FootprintValue block_sum(const FootprintValue& a, const FootprintValue& b, Dtype dtype,
                         const Instruction& instruction) {
  FootprintValue sum;
  sum.kind = ValueKind::integer;
  sum.dtype = dtype;
  if (!add(a.form, b.form, sum.form))
    sum = opaque_result(a, b, dtype, instruction);
  else if (size_in_bytes(dtype) < 8 && !fits(sum.form, dtype))
    sum = opaque_value(sum.form.shape, dtype, OpaqueReason::overflow, instruction);
  return sum;
}

FootprintValue integer_binary(BinaryOperation operation, const FootprintValue& a, const FootprintValue& b,
                              const Instruction& instruction) {
  const Dtype dtype = common_dtype(a, b);
  const bool python = a.python && b.python;
  if (operation == BinaryOperation::divide) {
    if (a.scalar() && b.scalar())
      return floating_value(static_cast<double>(a.form.base) / static_cast<double>(b.form.base));
    return opaque_result(a, b, Dtype::fp32, instruction);
  }
  if (operation == BinaryOperation::add && !python && !(a.scalar() && b.scalar()))
    return block_sum(a, b, dtype, instruction);
  if (a.scalar() && b.scalar()) {
    const auto result = scalar_result(operation, a.form.base, b.form.base, python);
    const bool narrow = result && *result >= INT32_MIN && *result <= INT32_MAX;
    if (narrow && dtype == Dtype::int32) return scalar_value(*result, dtype, python);
    if (result) return fitted(IndexForm(*result), dtype, python, instruction);
    if (divides(operation) && b.form.base == 0) return opaque_value({}, dtype, OpaqueReason::division, instruction);
  } else if (const auto form = block_result(operation, a.form, b.form)) {
    return fitted(*form, dtype, python, instruction);
  }
  return opaque_result(a, b, dtype, instruction);
}

FootprintValue pointer_binary(BinaryOperation operation, const FootprintValue& a, const FootprintValue& b,
                              const Instruction& instruction) {
  const FootprintValue& pointer = a.kind == ValueKind::pointer ? a : b;
  const FootprintValue& offset = a.kind == ValueKind::pointer ? b : a;
  const bool adds = operation == BinaryOperation::add;
  if (offset.kind != ValueKind::integer || (!adds && operation != BinaryOperation::subtract) ||
      (!adds && &pointer == &b))
    return opaque_result(a, b, pointer.dtype, instruction);
  FootprintValue sum;
  sum.take_type(pointer);
  if (!(adds ? add(pointer.form, offset.form, sum.form) : add(pointer.form, scale(offset.form, -1), sum.form)))
    sum = opaque_result(a, b, pointer.dtype, instruction);
  return sum;
}

bool is_condition(const FootprintValue& value) { return value.kind == ValueKind::boolean; }

bool may_be_condition(const FootprintValue& value) {
  return is_condition(value) || (value.kind == ValueKind::opaque && value.dtype == Dtype::boolean);
}

/// Conditions joined by "and", not both of which are known.
FootprintValue opaque_conjunction(const FootprintValue& a, const FootprintValue& b, const Instruction& instruction) {
  FootprintValue result = opaque_result(a, b, Dtype::boolean, instruction);
  if (const auto lanes = both(possible_lanes(a), possible_lanes(b)); lanes && lanes->shape == result.shape()) {
    result.bounded = true;
    result.mask = *lanes;
  }
  return result;
}

bool holds(CompareOperation operation, double a, double b) {
  switch (operation) {
    case CompareOperation::less:
      return a < b;
    case CompareOperation::less_equal:
      return a <= b;
    case CompareOperation::greater:
      return a > b;
    case CompareOperation::greater_equal:
      return a >= b;
    case CompareOperation::equal:
      return a == b;
    case CompareOperation::not_equal:
      return a != b;
  }
  return false;
}

bool is_number(const FootprintValue& value) {
  return value.kind == ValueKind::integer || value.kind == ValueKind::boolean || value.kind == ValueKind::floating;
}

/// Equality of things that are no numbers; nothing if it cannot be told.
std::optional<bool> equal_things(const FootprintValue& a, const FootprintValue& b) {
  if (a.kind != b.kind) {
    const bool tellable = a.kind != ValueKind::opaque && b.kind != ValueKind::opaque;
    const bool against_none = a.kind == ValueKind::none || b.kind == ValueKind::none;
    return tellable || against_none ? std::optional(false) : std::nullopt;
  }
  switch (a.kind) {
    case ValueKind::none:
      return true;
    case ValueKind::dtype:
      return a.dtype == b.dtype;
    case ValueKind::string:
      return a.descriptor == b.descriptor;
    default:
      return std::nullopt;
  }
}

}  // namespace

FootprintValue integer_value(const IndexForm& form, Dtype dtype, bool python) {
  FootprintValue value;
  value.kind = ValueKind::integer;
  value.dtype = dtype;
  value.python = python;
  value.form = form;
  return value;
}

FootprintValue scalar_value(std::int64_t value, Dtype dtype, bool python) {
  return integer_value(IndexForm(value), dtype, python);
}

FootprintValue boolean_value(const LaneMask& mask) {
  FootprintValue value;
  value.kind = ValueKind::boolean;
  value.dtype = Dtype::boolean;
  value.mask = mask;
  return value;
}

FootprintValue boolean_value(bool value) { return boolean_value(value ? LaneMask::all({}) : LaneMask::none({})); }

FootprintValue floating_value(double value, Dtype dtype) {
  FootprintValue result;
  result.kind = ValueKind::floating;
  result.dtype = dtype;
  result.number = value;
  return result;
}

FootprintValue opaque_value(const LaneShape& shape, Dtype dtype, OpaqueReason reason, const Instruction& origin) {
  FootprintValue value;
  value.kind = ValueKind::opaque;
  value.dtype = dtype;
  value.reason = reason;
  value.origin = &origin;
  value.form.shape = shape;
  return value;
}

LaneMask possible_lanes(const FootprintValue& condition) {
  if (condition.bounded) return condition.mask;
  return mask_of(condition).value_or(LaneMask::all(condition.shape()));
}

std::optional<bool> known_truth(const FootprintValue& value) {
  switch (value.kind) {
    case ValueKind::none:
      return false;
    case ValueKind::opaque:
    case ValueKind::string:
      return std::nullopt;
    case ValueKind::integer:
      return value.scalar() ? std::optional(value.form.base != 0) : std::nullopt;
    case ValueKind::boolean:
      return value.scalar() ? std::optional(!value.mask.empty()) : std::nullopt;
    case ValueKind::floating:
      return value.number != 0;
    case ValueKind::pointer:
    case ValueKind::descriptor:
    case ValueKind::block_pointer:
    case ValueKind::dtype:
      return true;
  }
  return std::nullopt;
}

FootprintValue fitted(const IndexForm& form, Dtype dtype, bool python, const Instruction& instruction) {
  if (python) {
    const bool narrow = fits(form, Dtype::int32);
    return integer_value(form, narrow ? Dtype::int32 : Dtype::int64, true);
  }
  if (size_in_bytes(dtype) == 8 || fits(form, dtype)) return integer_value(form, dtype);
  return opaque_value(form.shape, dtype, OpaqueReason::overflow, instruction);
}

FootprintValue apply_unary(const FootprintValue& a, const Instruction& instruction) {
  const auto operation = static_cast<UnaryOperation>(instruction.operation);
  switch (operation) {
    case UnaryOperation::negate:
      if (a.kind == ValueKind::integer) return fitted(scale(a.form, -1), a.dtype, a.python, instruction);
      if (a.kind == ValueKind::floating) return floating_value(-a.number, a.dtype);
      break;
    case UnaryOperation::logical_not:
    case UnaryOperation::invert: {
      if (operation == UnaryOperation::invert && a.kind == ValueKind::integer)
        return fitted(*add(scale(a.form, -1), IndexForm(-1)), a.dtype, a.python, instruction);
      const auto mask = mask_of(a);
      const auto negated = mask ? negation(*mask) : std::nullopt;
      if (negated) return boolean_value(*negated);
      break;
    }
    case UnaryOperation::absolute:
      if (a.kind == ValueKind::floating) return floating_value(std::fabs(a.number), a.dtype);
      if (a.kind == ValueKind::integer) {
        const Bounds range = bounds(a.form);
        if (range.smallest >= 0) return a;
        if (range.largest <= 0) return fitted(scale(a.form, -1), a.dtype, a.python, instruction);
      }
      break;
    default:
      break;
  }
  const bool floating = is_floating(a.dtype) || operation > UnaryOperation::absolute;
  const Dtype dtype = floating && !is_floating(a.dtype) ? Dtype::fp32 : a.dtype;
  return opaque_result(a, a, dtype, instruction);
}

FootprintValue apply_binary(const FootprintValue& a, const FootprintValue& b, const Instruction& instruction) {
  const auto operation = static_cast<BinaryOperation>(instruction.operation);
  if (a.kind == ValueKind::integer && b.kind == ValueKind::integer && operation != BinaryOperation::logical_and &&
      operation != BinaryOperation::logical_or)
    return integer_binary(operation, a, b, instruction);
  if (a.kind == ValueKind::pointer || b.kind == ValueKind::pointer) return pointer_binary(operation, a, b, instruction);
  const bool logical = operation == BinaryOperation::logical_and || operation == BinaryOperation::logical_or;
  const bool conjunction = operation == BinaryOperation::logical_and || operation == BinaryOperation::bit_and;
  const bool disjunction = operation == BinaryOperation::logical_or || operation == BinaryOperation::bit_or;
  if ((conjunction || disjunction) && (logical || (is_condition(a) && is_condition(b)))) {
    const auto x = mask_of(a), y = mask_of(b);
    const auto result = x && y ? (conjunction ? both(*x, *y) : either(*x, *y)) : std::nullopt;
    if (result) return boolean_value(*result);
    return conjunction ? opaque_conjunction(a, b, instruction) : opaque_result(a, b, Dtype::boolean, instruction);
  }
  if (operation == BinaryOperation::bit_and && may_be_condition(a) && may_be_condition(b))
    return opaque_conjunction(a, b, instruction);
  if (a.kind == ValueKind::floating || b.kind == ValueKind::floating) {
    const auto x = number_of(a), y = number_of(b);
    const auto result = x && y ? floating_result(operation, *x, *y) : std::nullopt;
    return result ? floating_value(*result, common_dtype(a, b)) : opaque_result(a, b, common_dtype(a, b), instruction);
  }
  if (is_number(a) && is_number(b)) {
    // Booleans that are added or multiplied count as int32.
    const auto x = form_of(a), y = form_of(b);
    if (x && y) {
      const FootprintValue left = integer_value(*x, is_condition(a) ? Dtype::int32 : a.dtype, a.python);
      const FootprintValue right = integer_value(*y, is_condition(b) ? Dtype::int32 : b.dtype, b.python);
      return integer_binary(operation, left, right, instruction);
    }
  }
  return opaque_result(a, b, logical ? Dtype::boolean : common_dtype(a, b), instruction);
}

FootprintValue apply_compare(const FootprintValue& a, const FootprintValue& b, const Instruction& instruction) {
  const auto operation = static_cast<CompareOperation>(instruction.operation);
  if (is_number(a) && is_number(b)) {
    if (a.kind == ValueKind::floating || b.kind == ValueKind::floating) {
      const auto x = number_of(a), y = number_of(b);
      if (x && y) return boolean_value(holds(operation, *x, *y));
      return opaque_result(a, b, Dtype::boolean, instruction);
    }
    std::optional<LaneMask> mask;
    if (a.kind == ValueKind::integer && b.is_scalar(ValueKind::integer)) {
      mask = compare(a.form, operation, b.form.base);
    } else {
      const auto x = form_of(a), y = form_of(b);
      const auto difference = x && y ? add(*x, scale(*y, -1)) : std::nullopt;
      if (difference) mask = compare(*difference, operation, 0);
    }
    return mask ? boolean_value(*mask) : opaque_result(a, b, Dtype::boolean, instruction);
  }
  if (operation == CompareOperation::equal || operation == CompareOperation::not_equal)
    if (const auto equal = equal_things(a, b)) return boolean_value(*equal == (operation == CompareOperation::equal));
  return opaque_result(a, b, Dtype::boolean, instruction);
}

FootprintValue apply_where(const FootprintValue& condition, const FootprintValue& a, const FootprintValue& b,
                           const Instruction& instruction) {
  const Dtype dtype = common_dtype(a, b);
  const auto shape = broadcast(a.shape(), b.shape());
  const LaneShape wide = shape ? broadcast(*shape, condition.shape()).value_or(*shape) : a.shape();
  if (condition.kind == ValueKind::opaque) return opaque_value(wide, dtype, condition.reason, *condition.origin);
  const auto mask = mask_of(condition);
  if (mask && wide.rank == 0) return mask->empty() ? b : a;
  if (mask && a.kind == ValueKind::integer && b.kind == ValueKind::integer)
    if (const auto form = select(*mask, a.form, b.form)) return fitted(*form, dtype, a.python && b.python, instruction);
  const bool same_pointer = a.kind == ValueKind::pointer && b.kind == ValueKind::pointer && a.parameter == b.parameter;
  if (mask && same_pointer)
    if (const auto form = select(*mask, a.form, b.form)) {
      FootprintValue result = a;
      result.form = *form;
      return result;
    }
  FootprintValue result = opaque_result(a, b, dtype, instruction);
  result.form.shape = wide;
  return result;
}

FootprintValue apply_cast(const FootprintValue& a, Dtype dtype, const Instruction& instruction) {
  if (is_floating(dtype)) {
    if (const auto number = number_of(a)) return floating_value(*number, dtype);
    return opaque_result(a, a, dtype, instruction);
  }
  if (dtype == Dtype::boolean) {
    const auto mask = mask_of(a);
    return mask ? boolean_value(*mask) : opaque_result(a, a, dtype, instruction);
  }
  if (a.kind == ValueKind::floating && std::fabs(a.number) < 9e18)
    return fitted(IndexForm(static_cast<std::int64_t>(a.number)), dtype, false, instruction);
  if (const auto form = form_of(a)) return fitted(*form, dtype, false, instruction);
  return opaque_result(a, a, dtype, instruction);
}

}  // namespace syncopate
