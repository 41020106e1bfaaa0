// Operations on blocks in which the order of the elements matters: scans, searches, sorting, gathering.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "syncopate/kernel/value_operations.h"
#include "syncopate/kernel/value_storage.h"

namespace syncopate::concrete {
namespace {

/// A block as rows along one axis: element k of row (o, i) is at (o * count + k) * inner + i.
struct Rows {
  std::int64_t outer = 1;
  std::int64_t count = 1;
  std::int64_t inner = 1;

  Rows(const Extents& extents, int axis) : count(extents[axis]) {
    for (int d = 0; d < extents.rank; ++d)
      if (d != axis) (d < axis ? outer : inner) *= extents[d];
  }
  std::int64_t at(std::int64_t o, std::int64_t k, std::int64_t i) const { return (o * count + k) * inner + i; }
};

template <typename F>
void for_each_row(const Rows& rows, F f) {
  for (std::int64_t o = 0; o < rows.outer; ++o)
    for (std::int64_t i = 0; i < rows.inner; ++i) f(o, i);
}

void expect_numbers(const Value& operand, std::string_view what) {
  if (!operand.is_block() || !operand.is_number())
    throw OperationError{fmt::format("{} of {}", what, describe(operand)), "it takes a block of numbers"};
}

Extents without(const Extents& extents, int axis) {
  Extents result;
  for (int d = 0; d < extents.rank; ++d)
    if (d != axis) result[result.rank++] = extents[d];
  return result;
}

template <typename T>
T combine(ScanOperation operation, T a, T b) {
  if constexpr (std::is_same_v<T, std::int64_t>) {  // integers wrap
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    return static_cast<T>(operation == ScanOperation::sum ? x + y : x * y);
  } else {
    return static_cast<T>(operation == ScanOperation::sum ? a + b : a * b);
  }
}

/// The scalar in a block of one element.
Value only_element(const Value& block) {
  Value result;
  with_storage(storage_of(block), [&](auto* type) {
    const auto element = *block.elements<std::remove_pointer_t<decltype(type)>>();
    if constexpr (std::is_floating_point_v<decltype(element)>)
      result = floating_value(static_cast<double>(element), block.dtype);
    else
      result = integer_value(static_cast<std::int64_t>(element), block.dtype);
  });
  return result;
}

/// What Triton widens before it reduces or scans.
Value widened(const Value& operand) {
  if (operand.dtype == Dtype::bf16) return cast(operand, Dtype::fp32);
  if (!is_floating(operand.dtype) && size_in_bytes(operand.dtype) < 4) return cast(operand, Dtype::int32);
  return operand;
}

}  // namespace

Value index_of(ReduceOperation operation, const Value& operand, int axis) {
  expect_numbers(operand, "a search");
  const Value input = widened(operand);
  const Rows rows(input.extents, axis);
  Extents extents = without(input.extents, axis);
  const bool scalar = extents.rank == 0;
  if (scalar) extents.rank = 1, extents[0] = 1;
  Value result = new_block(Kind::integer, Dtype::int32, extents);
  auto* const found = result.mutable_elements<std::int64_t>();
  with_storage(storage_of(input), [&](auto* type) {
    const auto* const elements = input.elements<std::remove_pointer_t<decltype(type)>>();
    for_each_row(rows, [&](std::int64_t o, std::int64_t i) {
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < rows.count; ++k) {
        const auto challenger = elements[rows.at(o, k, i)];
        const auto champion = elements[rows.at(o, best, i)];
        if (operation == ReduceOperation::minimum ? challenger < champion : challenger > champion) best = k;
      }
      found[o * rows.inner + i] = best;
    });
  });
  return scalar ? integer_value(found[0], Dtype::int32) : result;
}

Value scan(ScanOperation operation, const Value& operand, int axis, bool reverse) {
  expect_numbers(operand, "a scan");
  const Value input = widened(operand);
  const Rows rows(input.extents, axis);
  Value result = new_block(input.kind, input.dtype, input.extents);
  with_storage(storage_of(input), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const from = input.elements<T>();
    T* const to = result.mutable_elements<T>();
    for_each_row(rows, [&](std::int64_t o, std::int64_t i) {
      T running{};
      for (std::int64_t k = 0; k < rows.count; ++k) {
        const std::int64_t at = rows.at(o, reverse ? rows.count - 1 - k : k, i);
        running = k == 0 ? from[at] : combine(operation, running, from[at]);
        to[at] = running;
      }
    });
  });
  const auto count = static_cast<std::size_t>(result.extents.count());
  if (storage_of(result) == Storage::float32) round_elements({result.mutable_elements<float>(), count}, result.dtype);
  if (storage_of(result) == Storage::int64)
    wrap_elements({result.mutable_elements<std::int64_t>(), count}, result.dtype);
  return result;
}

Value sort(const Value& operand, bool descending) {
  expect_numbers(operand, "tl.sort");
  Value result = operand;
  make_unique(result);
  const Rows rows(operand.extents, operand.extents.rank - 1);
  with_storage(storage_of(result), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const elements = result.mutable_elements<T>();
    for (std::int64_t o = 0; o < rows.outer; ++o) {
      T* const row = elements + o * rows.count;
      if (descending)
        std::sort(row, row + rows.count, [](T a, T b) { return a > b; });
      else
        std::sort(row, row + rows.count);
    }
  });
  return result;
}

Value flip(const Value& operand, int axis) {
  if (!operand.is_block()) throw OperationError{fmt::format("tl.flip of {}", describe(operand)), "it takes a block"};
  const Rows rows(operand.extents, axis);
  Value result = operand;
  make_unique(result);
  with_storage(storage_of(operand), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const elements = result.mutable_elements<T>();
    for_each_row(rows, [&](std::int64_t o, std::int64_t i) {
      for (std::int64_t k = 0; k < rows.count / 2; ++k)
        std::swap(elements[rows.at(o, k, i)], elements[rows.at(o, rows.count - 1 - k, i)]);
    });
  });
  return result;
}

Value gather_along(const Value& operand, const Value& index, int axis) {
  expect_numbers(operand, "tl.gather");
  const bool fits = index.kind == Kind::integer && !index.is_boolean() && index.is_block() &&
                    index.extents.rank == operand.extents.rank &&
                    without(index.extents, axis) == without(operand.extents, axis);
  if (!fits)
    throw OperationError{fmt::format("tl.gather from {} at {}", describe(operand), describe(index)),
                         "the indices are integers, in the operand's shape but along the axis"};
  const Rows from(operand.extents, axis);
  const Rows to(index.extents, axis);
  Value result = new_block(operand.kind, operand.dtype, index.extents);
  const auto* const indices = index.elements<std::int64_t>();
  with_storage(storage_of(operand), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for_each_row(to, [&](std::int64_t o, std::int64_t i) {
      for (std::int64_t k = 0; k < to.count; ++k) {
        const std::int64_t at = indices[to.at(o, k, i)];
        if (at < 0 || at >= from.count)
          throw OperationError{fmt::format("tl.gather at {} of {}", at, from.count), "indices count from 0"};
        result.mutable_elements<T>()[to.at(o, k, i)] = operand.elements<T>()[from.at(o, at, i)];
      }
    });
  });
  return result;
}

Value take(const Value& operand, int axis, std::int64_t index) {
  const Rows rows(operand.extents, axis);
  Extents extents = without(operand.extents, axis);
  const bool scalar = extents.rank == 0;
  if (scalar) extents.rank = 1, extents[0] = 1;
  Value result = new_block(operand.kind, operand.dtype, extents);
  with_storage(storage_of(operand), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for_each_row(rows, [&](std::int64_t o, std::int64_t i) {
      result.mutable_elements<T>()[o * rows.inner + i] = operand.elements<T>()[rows.at(o, index, i)];
    });
  });
  return scalar ? only_element(result) : result;
}

Value put(Value operand, int axis, std::int64_t index, const Value& slice) {
  const Rows rows(operand.extents, axis);
  Extents extents = without(operand.extents, axis);
  if (extents.rank == 0) extents.rank = 1, extents[0] = 1;
  const Value whole = broadcast_to(cast(slice, operand.dtype), extents);
  make_unique(operand);
  with_storage(storage_of(operand), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for_each_row(rows, [&](std::int64_t o, std::int64_t i) {
      operand.mutable_elements<T>()[rows.at(o, index, i)] = whole.elements<T>()[o * rows.inner + i];
    });
  });
  return operand;
}

Value bitcast(const Value& operand, Dtype dtype) {
  if (!operand.is_number()) throw OperationError{fmt::format("conversion of {}", describe(operand)), ""};
  if (operand.weak || size_in_bytes(operand.dtype) != size_in_bytes(dtype) || operand.is_boolean() ||
      dtype == Dtype::boolean)
    throw OperationError{fmt::format("the bits of {} as {}", describe(operand), name_of(dtype)),
                         "both types must have as many bits"};
  Extents one;
  one.rank = 1;
  one[0] = 1;
  const Value block = operand.is_block() ? operand : broadcast_to(operand, one);
  const Kind kind = is_floating(dtype) ? Kind::floating : Kind::integer;
  Value result = new_block(kind, dtype, block.extents);
  const std::int64_t count = block.extents.count();
  std::vector<std::byte> memory(static_cast<std::size_t>(count * size_in_bytes(dtype)));
  encode(block.data.get(), count, operand.dtype, memory.data());
  decode(memory.data(), count, dtype, result.data.get());
  return operand.is_block() ? result : only_element(result);
}

}  // namespace syncopate::concrete
