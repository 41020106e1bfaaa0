// Triton's operations on concrete values. All throw OperationError for operands that Triton would refuse.
#pragma once

#include <span>
#include <utility>

#include "syncopate/kernel/program_internal.h"
#include "syncopate/kernel/value.h"

namespace syncopate::concrete {

// Element by element (value_elements.cpp). Operands are broadcast to a common shape and brought to a common dtype by
// Triton's rules: Python numbers adapt to the other operand; floating wins over integer; the wider type wins; bf16 with
// fp16 gives fp32; "/" and "%" of 16-bit floats give fp32. Integers wrap at the width of their dtype.
Value unary(UnaryOperation operation, const Value& operand);
Value binary(BinaryOperation operation, const Value& left, const Value& right);
Value compare(CompareOperation operation, const Value& left, const Value& right);
Value where(const Value& condition, const Value& left, const Value& right);
Value fma(const Value& left, const Value& right, const Value& addend);
/// Rounds to nearest even; floating to integer truncates.
Value cast(const Value& operand, Dtype dtype);
/// The same bits as another dtype of as many.
Value bitcast(const Value& operand, Dtype dtype);
/// Whether two values of any kind are equal as Python's "==" has it for dtypes, strings and None.
bool same_thing(const Value& left, const Value& right);

// Shapes (value_blocks.cpp).
Value arange(std::int64_t begin, std::int64_t end);
Value full(const Value& scalar, Dtype dtype, const Extents& extents);
Value reshape(const Value& operand, const Extents& extents);
Value broadcast_to(const Value& operand, const Extents& extents);
/// Dimension d of the result is dimension order[d] of the operand.
Value permute(const Value& operand, std::span<const std::int64_t> order);
Value expand_dims(const Value& operand, std::int64_t axis);
Value join(const Value& left, const Value& right);
std::pair<Value, Value> split(const Value& operand);
/// Sums in ascending index order; bf16 is summed, and compared, as fp32.
Value reduce(ReduceOperation operation, const Value& operand, int axis);
/// Where along `axis` the least or greatest element is, the first of equals: int32.
Value index_of(ReduceOperation operation, const Value& operand, int axis);
/// Running sums or products along `axis`, from its end if `reverse`; bf16 is computed as fp32, small integers as int32.
Value scan(ScanOperation operation, const Value& operand, int axis, bool reverse);
/// Along the last dimension.
Value sort(const Value& operand, bool descending);
Value flip(const Value& operand, int axis);
/// result[.., i, ..] = operand[.., index[.., i, ..], ..] along `axis`.
Value gather_along(const Value& operand, const Value& index, int axis);
/// The block, or the scalar, at `index` along `axis`.
Value take(const Value& operand, int axis, std::int64_t index);
/// The block with `slice` there instead.
Value put(Value operand, int axis, std::int64_t index, const Value& slice);
/// The shape that both broadcast to.
Extents common_extents(const Extents& left, const Extents& right);

/// left [.., M, K] @ right [.., K, N] + accumulator (value_dot.cpp): products and sums in fp32 (fp64 for fp64 operands,
/// int32 for integers), ascending k per element, no fused multiply-add: the same bits on every machine. Takes the
/// accumulator's elements over if nobody shares them.
Value dot(const Value& left, const Value& right, Value accumulator, Dtype out);

}  // namespace syncopate::concrete
