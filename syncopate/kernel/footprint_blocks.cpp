// The instructions of FootprintDomain that change the shape of blocks, or reduce them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "syncopate/kernel/footprint_domain.h"

namespace syncopate {
namespace {

std::size_t at_index(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

FootprintValue FootprintDomain::full(const Value& value, Dtype dtype, const LaneShape& shape,
                                     const Instruction& instruction) const {
  const bool foreseeable = value.kind == ValueKind::integer || value.kind == ValueKind::boolean;
  if (foreseeable && !is_floating(dtype)) {
    const Value typed = apply_cast(value, dtype, instruction);
    return broadcast_value(typed, shape, instruction);
  }
  if (value.kind == ValueKind::opaque) return opaque_value(shape, dtype, value.reason, *value.origin);
  return opaque_value(shape, dtype, OpaqueReason::arithmetic, instruction);
}

FootprintValue FootprintDomain::broadcast_value(const Value& value, const LaneShape& shape,
                                                const Instruction& instruction) const {
  if (broadcast(value.shape(), shape) != shape)
    fail(instruction, "this block cannot be broadcast to that shape", "extents must be equal or 1");
  Value result = value;
  if (value.kind == ValueKind::boolean)
    result.mask = broadcast_to(value.mask, shape);
  else if (value.kind == ValueKind::opaque)
    result.form.shape = shape;
  else if (value.kind == ValueKind::floating)
    return opaque_value(shape, value.dtype, OpaqueReason::arithmetic, instruction);
  else
    result.form = broadcast_to(value.form, shape);
  if (value.bounded) result.mask = broadcast_to(value.mask, shape);
  return result;
}

FootprintValue FootprintDomain::reshaped(const Value& value, const LaneShape& shape,
                                         const Instruction& instruction) const {
  std::int64_t old_volume = 1, new_volume = 1;
  for (int d = 0; d < value.shape().rank; ++d) old_volume *= value.shape()[d];
  for (int d = 0; d < shape.rank; ++d) new_volume *= shape[d];
  if (old_volume != new_volume)
    fail(instruction, fmt::format("a block of {} elements cannot take a shape of {}", old_volume, new_volume),
         "a reshape keeps the number of elements");
  if (value.kind == ValueKind::opaque) {
    Value result = value;
    result.form.shape = shape;
    result.bounded = false;
    return result;
  }
  if (value.kind == ValueKind::integer || value.kind == ValueKind::pointer)
    if (const auto form = reshape(value.form, shape)) {
      Value result = value;
      result.form = *form;
      return result;
    }
  if (value.kind == ValueKind::boolean && (value.mask.full() || value.mask.empty()))
    return boolean_value(value.mask.full() ? LaneMask::all(shape) : LaneMask::none(shape));
  return opaque_value(shape, value.dtype, OpaqueReason::arithmetic, instruction);
}

FootprintValue FootprintDomain::rearranged(const Value& value, std::span<const int> source) const {
  Value result;
  result.take_type(value);
  if (value.kind == ValueKind::boolean)
    result.mask = rearrange(value.mask, source);
  else
    rearrange(value.form, source, result.form);
  return result;
}

FootprintValue FootprintDomain::permuted(const Instruction& instruction, Operands operands,
                                         const Value* registers) const {
  const Value& value = registers[operands[0]];
  const int rank = value.shape().rank;
  std::array<int, kMaxLaneDimensions> source{};
  for (int d = 0; d < rank; ++d) source[at_index(d)] = d;
  if (operands.size() == 1) {
    if (rank < 2) fail(instruction, "only a block of two or more dimensions can be transposed", "");
    std::swap(source[at_index(rank - 1)], source[at_index(rank - 2)]);
  } else {
    std::array<bool, kMaxLaneDimensions> used{};
    if (static_cast<int>(operands.size()) != rank + 1) fail(instruction, "the order must name every dimension", "");
    for (int d = 0; d < rank; ++d) {
      const Value& axis = registers[operands[at_index(d + 1)]];
      const std::int64_t old = known_integer(axis, "a dimension", instruction);
      if (old < 0 || old >= rank || used[at_index(old)])
        fail(instruction, "the order must name every dimension once", "dimensions count from 0");
      used[at_index(old)] = true;
      source[at_index(d)] = static_cast<int>(old);
    }
  }
  return rearranged(value, std::span(source.data(), at_index(rank)));
}

FootprintValue FootprintDomain::with_new_dimension(const Value& value, const Value& axis,
                                                   const Instruction& instruction) const {
  const int rank = value.shape().rank;
  if (rank == kMaxLaneDimensions) fail(instruction, "a block of more than 5 dimensions", "use fewer");
  std::int64_t position = known_integer(axis, "a dimension", instruction);
  if (position < 0) position += rank + 1;
  if (position < 0 || position > rank) fail(instruction, "there is no such dimension", "");
  const int dimension = static_cast<int>(position);
  Value result;
  result.take_type(value);
  result.bounded = value.bounded;
  if (value.kind == ValueKind::boolean || value.bounded) {
    std::array<int, kMaxLaneDimensions> source{};
    for (int d = 0; d <= rank; ++d) source[at_index(d)] = d < dimension ? d : d == dimension ? -1 : d - 1;
    result.mask = rearrange(value.mask, std::span(source.data(), at_index(rank + 1)));
  }
  if (value.kind != ValueKind::boolean) insert_dimension(value.form, dimension, result.form);
  return result;
}

FootprintValue FootprintDomain::dot(const Instruction& instruction, Operands operands, const Value* registers) const {
  const Value& a = registers[operands[0]];
  const Value& b = registers[operands[1]];
  LaneShape shape = a.shape();
  if (shape.rank < 2 || b.shape().rank != shape.rank || shape[shape.rank - 1] != b.shape()[shape.rank - 2])
    fail(instruction, "tl.dot of blocks whose shapes do not fit", "the inner extents must be equal");
  const auto is_fp8 = [](Dtype dtype) { return is_floating(dtype) && size_in_bytes(dtype) == 1; };
  if (a.kind == ValueKind::opaque && b.kind == ValueKind::opaque && a.dtype != b.dtype &&
      !(is_fp8(a.dtype) && is_fp8(b.dtype)))
    fail(instruction, fmt::format("tl.dot of a block of {} and a block of {}", name_of(a.dtype), name_of(b.dtype)),
         "both operands must have one dtype");
  shape[shape.rank - 1] = b.shape()[shape.rank - 1];
  const bool typed = operands.size() > 3 && operands[3] != kNoRegister;
  const Dtype dtype = typed ? dtype_operand(registers[operands[3]], instruction) : Dtype::fp32;
  const Value& source = a.kind == ValueKind::opaque ? a : b;
  if (source.kind == ValueKind::opaque) return opaque_value(shape, dtype, source.reason, *source.origin);
  return opaque_value(shape, dtype, OpaqueReason::arithmetic, instruction);
}

void FootprintDomain::check(const Instruction& instruction, Operands operands, const Value* registers) const {
  if (known_truth(registers[operands[0]]) != false) return;
  const bool says = operands[1] != kNoRegister && registers[operands[1]].kind == ValueKind::string;
  fail(instruction, "this static assertion fails",
       says ? program_->strings[at_index(registers[operands[1]].descriptor)] : "");
}

FootprintValue FootprintDomain::computed(const Value& source, const LaneShape& shape, Dtype dtype,
                                         const Instruction& instruction) const {
  if (source.kind == ValueKind::opaque) return opaque_value(shape, dtype, source.reason, *source.origin);
  return opaque_value(shape, dtype, OpaqueReason::arithmetic, instruction);
}

FootprintValue FootprintDomain::index_of(const Instruction& instruction, Operands operands,
                                         const Value* registers) const {
  return computed(registers[operands[0]], reduced_shape(instruction, operands, registers), Dtype::int32, instruction);
}

LaneShape FootprintDomain::reduced_shape(const Instruction& instruction, Operands operands,
                                         const Value* registers) const {
  const Value& value = registers[operands[0]];
  LaneShape shape;
  if (operands.size() > 1 && operands[1] != kNoRegister && registers[operands[1]].kind != ValueKind::none) {
    const int rank = value.shape().rank;
    std::int64_t axis = known_integer(registers[operands[1]], "the axis of a reduction", instruction);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) fail(instruction, "there is no such axis", "");
    for (int d = 0; d < rank; ++d)
      if (d != axis) shape[shape.rank++] = value.shape()[d];
  }
  return shape;
}

FootprintValue FootprintDomain::reduce(const Instruction& instruction, Operands operands,
                                       const Value* registers) const {
  const Value& value = registers[operands[0]];
  const LaneShape shape = reduced_shape(instruction, operands, registers);
  const auto operation = static_cast<ReduceOperation>(instruction.operation);
  const bool extreme = operation == ReduceOperation::minimum || operation == ReduceOperation::maximum;
  if (value.kind == ValueKind::integer && shape.rank == 0 && extreme) {
    const Bounds range = bounds(value.form);
    return scalar_value(operation == ReduceOperation::minimum ? range.smallest : range.largest, value.dtype);
  }
  return computed(value, shape, value.dtype, instruction);
}

}  // namespace syncopate
