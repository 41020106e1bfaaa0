// Operations on the shape of blocks, and reductions.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "syncopate/kernel/triton_limits.h"
#include "syncopate/kernel/value_operations.h"
#include "syncopate/kernel/value_storage.h"

namespace syncopate::concrete {
namespace {

void expect_block(const Value& operand, std::string_view what) {
  if (!operand.is_block()) throw OperationError{fmt::format("{} of {}", what, describe(operand)), "it takes a block"};
}

/// A block like `operand` in everything but its extents, with elements of its own.
Value block_like(const Value& operand, const Extents& extents) {
  Value result = new_block(operand.kind, operand.dtype, extents);
  result.buffer = operand.buffer;
  return result;
}

/// result[i] = operand[sum of index[d] * strides[d]] over the result's row-major index.
template <typename T>
void gather(const T* from, const std::array<std::int64_t, kMaxRank>& strides, const Extents& extents, T* to) {
  const int last = extents.rank - 1;
  const std::int64_t step = strides[static_cast<std::size_t>(last)];
  const std::int64_t row = extents[last];
  std::array<std::int64_t, kMaxRank> index{};
  const std::int64_t total = extents.count();
  for (std::int64_t done = 0; done < total; done += row, to += row) {
    if (step == 1) {
      std::copy_n(from, row, to);
    } else if (step == 0) {
      std::fill_n(to, row, *from);
    } else {
      for (std::int64_t i = 0; i < row; ++i) to[i] = from[i * step];
    }
    for (int d = last - 1; d >= 0; --d) {
      const auto at = static_cast<std::size_t>(d);
      from += strides[at];
      if (++index[at] < extents[d]) break;
      from -= strides[at] * extents[d];
      index[at] = 0;
    }
  }
}

Value gathered(const Value& operand, const std::array<std::int64_t, kMaxRank>& strides, const Extents& extents) {
  Value result = block_like(operand, extents);
  with_storage(storage_of(operand), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    gather(operand.elements<T>(), strides, extents, result.mutable_elements<T>());
  });
  return result;
}

std::array<std::int64_t, kMaxRank> row_major_strides(const Extents& extents) {
  std::array<std::int64_t, kMaxRank> strides{};
  std::int64_t stride = 1;
  for (int d = extents.rank - 1; d >= 0; --d) {
    strides[static_cast<std::size_t>(d)] = stride;
    stride *= extents[d];
  }
  return strides;
}

template <typename T, typename F>
void fold(const T* from, std::int64_t outer, std::int64_t count, std::int64_t inner, T* to, F f) {
  for (std::int64_t o = 0; o < outer; ++o, from += count * inner, to += inner) {
    std::copy_n(from, inner, to);
    for (std::int64_t k = 1; k < count; ++k)
      for (std::int64_t i = 0; i < inner; ++i) to[i] = f(to[i], from[k * inner + i]);
  }
}

template <typename T>
void fold(ReduceOperation operation, const T* from, std::int64_t outer, std::int64_t count, std::int64_t inner, T* to) {
  switch (operation) {
    case ReduceOperation::sum:
      if constexpr (std::is_same_v<T, std::int64_t>)  // integers wrap
        return fold(from, outer, count, inner, to, [](T a, T b) {
          return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
        });
      return fold(from, outer, count, inner, to, [](T a, T b) { return static_cast<T>(a + b); });
    case ReduceOperation::minimum:
      return fold(from, outer, count, inner, to, [](T a, T b) { return b != b || a < b ? a : b; });
    case ReduceOperation::maximum:
      return fold(from, outer, count, inner, to, [](T a, T b) { return b != b || a > b ? a : b; });
    case ReduceOperation::bit_xor:
    case ReduceOperation::bit_or:
      if constexpr (std::is_integral_v<T>) {
        if (operation == ReduceOperation::bit_xor)
          return fold(from, outer, count, inner, to, [](T a, T b) { return static_cast<T>(a ^ b); });
        return fold(from, outer, count, inner, to, [](T a, T b) { return static_cast<T>(a | b); });
      }
      throw OperationError{"a bitwise reduction of floating numbers", "use integers"};
  }
}

/// The scalar in a block of one element.
Value scalar_of(const Value& block) {
  Value result;
  result.kind = block.kind;
  result.dtype = block.dtype;
  result.buffer = block.buffer;
  with_storage(storage_of(block), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T element = *block.elements<T>();
    if constexpr (std::is_floating_point_v<T>)
      result.number = static_cast<double>(element);
    else
      result.integer = static_cast<std::int64_t>(element);
  });
  return result;
}

}  // namespace

Extents common_extents(const Extents& left, const Extents& right) {
  Extents result;
  result.rank = std::max(left.rank, right.rank);
  for (int d = 0; d < result.rank; ++d) {
    const int l = d - (result.rank - left.rank);
    const int r = d - (result.rank - right.rank);
    const std::int64_t a = l < 0 ? 1 : left[l];
    const std::int64_t b = r < 0 ? 1 : right[r];
    if (a != b && a != 1 && b != 1)
      throw OperationError{fmt::format("blocks {} and {} do not broadcast", left.to_string(), right.to_string()),
                           "extents must be equal or 1"};
    result[d] = a == 1 ? b : a;
  }
  return result;
}

Value arange(std::int64_t begin, std::int64_t end) {
  if (end <= begin)
    throw OperationError{fmt::format("tl.arange({}, {}) is empty", begin, end), "the end must be greater"};
  if (begin < INT32_MIN || end > INT32_MAX || end - begin > kMostBlockElements)
    throw OperationError{fmt::format("tl.arange({}, {})", begin, end),
                         fmt::format("numbers of 32 bits, {} at most", kMostBlockElements)};
  Extents extents;
  extents.rank = 1;
  extents[0] = end - begin;
  Value result = new_block(Kind::integer, Dtype::int32, extents);
  auto* const elements = result.mutable_elements<std::int64_t>();
  for (std::int64_t i = begin; i < end; ++i) elements[i - begin] = i;
  return result;
}

Value full(const Value& scalar, Dtype dtype, const Extents& extents) {
  const Value value = cast(scalar, dtype);
  if (value.is_block()) throw OperationError{"a block filled with a block", "give a scalar"};
  if (extents.rank == 0) return value;
  Value result = new_block(value.kind, dtype, extents);
  with_storage(storage_of(result), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T element = value.kind == Kind::floating ? static_cast<T>(value.number) : static_cast<T>(value.integer);
    std::fill_n(result.mutable_elements<T>(), extents.count(), element);
  });
  return result;
}

Value reshape(const Value& operand, const Extents& extents) {
  expect_block(operand, "reshape");
  if (operand.extents.count() != extents.count())
    throw OperationError{fmt::format("reshape of {} to {}", operand.extents.to_string(), extents.to_string()),
                         "both must have the same number of elements"};
  Value result = operand;
  result.extents = extents;
  return result;
}

Value broadcast_to(const Value& operand, const Extents& extents) {
  if (!operand.is_block()) {
    if (operand.kind != Kind::pointer)
      return full(operand, operand.weak ? (operand.kind == Kind::integer ? Dtype::int32 : Dtype::fp32) : operand.dtype,
                  extents);
    Value result = block_like(operand, extents);
    std::fill_n(result.mutable_elements<std::int64_t>(), extents.count(), operand.integer);
    return result;
  }
  if (operand.extents == extents) return operand;
  if (!(common_extents(operand.extents, extents) == extents))
    throw OperationError{
        fmt::format("a block {} does not broadcast to {}", operand.extents.to_string(), extents.to_string()), ""};
  const auto own = row_major_strides(operand.extents);
  std::array<std::int64_t, kMaxRank> strides{};
  for (int d = 0; d < operand.extents.rank; ++d)
    strides[static_cast<std::size_t>(d + extents.rank - operand.extents.rank)] =
        operand.extents[d] == 1 ? 0 : own[static_cast<std::size_t>(d)];
  return gathered(operand, strides, extents);
}

Value permute(const Value& operand, std::span<const std::int64_t> order) {
  expect_block(operand, "permute");
  const int rank = operand.extents.rank;
  const auto own = row_major_strides(operand.extents);
  std::array<std::int64_t, kMaxRank> strides{};
  std::array<bool, kMaxRank> used{};
  Extents extents;
  extents.rank = rank;
  bool right = std::cmp_equal(order.size(), rank);
  for (std::size_t d = 0; right && d < order.size(); ++d) {
    right = order[d] >= 0 && order[d] < rank && !used[static_cast<std::size_t>(order[d])];
    if (!right) break;
    used[static_cast<std::size_t>(order[d])] = true;
    extents[static_cast<int>(d)] = operand.extents[static_cast<int>(order[d])];
    strides[d] = own[static_cast<std::size_t>(order[d])];
  }
  if (!right)
    throw OperationError{
        fmt::format("({}) does not order the dimensions of {}", fmt::join(order, ", "), operand.extents.to_string()),
        "name each dimension once"};
  return gathered(operand, strides, extents);
}

Value expand_dims(const Value& operand, std::int64_t axis) {
  expect_block(operand, "expand_dims");
  const int rank = operand.extents.rank;
  if (axis < 0) axis += rank + 1;
  if (axis < 0 || axis > rank)
    throw OperationError{fmt::format("dimension {} of a block {}", axis, operand.extents.to_string()), ""};
  if (rank == kMaxRank) throw OperationError{fmt::format("more than {} dimensions", kMaxRank), ""};
  Value result = operand;
  result.extents.rank = rank + 1;
  for (int d = rank; d > axis; --d) result.extents[d] = operand.extents[d - 1];
  result.extents[static_cast<int>(axis)] = 1;
  return result;
}

Value join(const Value& left, const Value& right) {
  const Extents common = common_extents(left.extents, right.extents);
  if (left.kind != right.kind || left.dtype != right.dtype || common.rank == 0 || common.rank == kMaxRank)
    throw OperationError{fmt::format("join of {} and {}", describe(left), describe(right)),
                         "join blocks of one shape and dtype"};
  const Value a = broadcast_to(left, common);
  const Value b = broadcast_to(right, common);
  Extents extents = common;
  extents[extents.rank++] = 2;
  Value result = block_like(left, extents);
  with_storage(storage_of(left), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* to = result.mutable_elements<T>();
    const std::int64_t count = common.count();
    for (std::int64_t i = 0; i < count; ++i) {
      *to++ = a.elements<T>()[i];
      *to++ = b.elements<T>()[i];
    }
  });
  return result;
}

std::pair<Value, Value> split(const Value& operand) {
  expect_block(operand, "split");
  Extents extents = operand.extents;
  if (extents[extents.rank - 1] != 2)
    throw OperationError{fmt::format("split of a block {}", extents.to_string()), "its last extent must be 2"};
  --extents.rank;
  if (extents.rank == 0) extents.rank = 1, extents[0] = 1;  // the halves of [2]: scalars, see below
  Value left = block_like(operand, extents);
  Value right = block_like(operand, extents);
  with_storage(storage_of(operand), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* from = operand.elements<T>();
    const std::int64_t count = extents.count();
    for (std::int64_t i = 0; i < count; ++i) {
      left.mutable_elements<T>()[i] = *from++;
      right.mutable_elements<T>()[i] = *from++;
    }
  });
  if (operand.extents.rank == 1) return {scalar_of(left), scalar_of(right)};
  return {std::move(left), std::move(right)};
}

Value reduce(ReduceOperation operation, const Value& operand, int axis) {
  expect_block(operand, "a reduction");
  if (!operand.is_number()) throw OperationError{fmt::format("a reduction of {}", describe(operand)), ""};
  Value input = operand;
  if (operand.dtype == Dtype::bf16)
    input = cast(operand, Dtype::fp32);
  else if (!is_floating(operand.dtype) && size_in_bytes(operand.dtype) < 4)
    input = cast(operand, Dtype::int32);
  Extents extents;
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (int d = 0; d < input.extents.rank; ++d) {
    if (d == axis) continue;
    (d < axis ? outer : inner) *= input.extents[d];
    extents[extents.rank++] = input.extents[d];
  }
  const bool scalar = extents.rank == 0;
  if (scalar) extents.rank = 1, extents[0] = 1;
  Value result = block_like(input, extents);
  with_storage(storage_of(input), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    fold(operation, input.elements<T>(), outer, input.extents[axis], inner, result.mutable_elements<T>());
  });
  const auto count = static_cast<std::size_t>(extents.count());
  if (storage_of(result) == Storage::float32) round_elements({result.mutable_elements<float>(), count}, result.dtype);
  if (storage_of(result) == Storage::int64)
    wrap_elements({result.mutable_elements<std::int64_t>(), count}, result.dtype);
  return scalar ? scalar_of(result) : result;
}

}  // namespace syncopate::concrete
