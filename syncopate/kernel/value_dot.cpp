// Matrix products of blocks; the inner loops are in value_dot_kernel.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "syncopate/kernel/value_dot_kernel.h"
#include "syncopate/kernel/value_operations.h"

namespace syncopate::concrete {
namespace {

void multiply_floats(const Product& product) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return multiply_avx512(product);
  if (__builtin_cpu_supports("avx2")) return multiply_avx2(product);
#endif
  multiply<4, 2, 4>(product);
}

template <typename T>
void multiply_plainly(const T* a, const T* b, T* out, std::int64_t m, std::int64_t n, std::int64_t k) {
  for (std::int64_t row = 0; row < m; ++row)
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t column = 0; column < n; ++column) out[row * n + column] += a[row * k + i] * b[i * n + column];
}

}  // namespace

Value dot(const Value& left, const Value& right, Value accumulator, Dtype out) {
  const int rank = left.extents.rank;
  if (rank != right.extents.rank || (rank != 2 && rank != 3) || left.extents[rank - 1] != right.extents[rank - 2] ||
      (rank == 3 && left.extents[0] != right.extents[0]))
    throw OperationError{fmt::format("tl.dot of {} and {}", describe(left), describe(right)),
                         "the blocks must be [M, K] and [K, N]"};
  const bool both_fp8 = is_floating(left.dtype) && is_floating(right.dtype) && size_in_bytes(left.dtype) == 1 &&
                        size_in_bytes(right.dtype) == 1;
  if (left.kind != right.kind || (left.dtype != right.dtype && !both_fp8) || !left.is_number())
    throw OperationError{fmt::format("tl.dot of {} and {}", describe(left), describe(right)),
                         "both operands must have one dtype"};
  const std::int64_t batches = rank == 3 ? left.extents[0] : 1;
  const std::int64_t m = left.extents[rank - 2];
  const std::int64_t k = left.extents[rank - 1];
  const std::int64_t n = right.extents[rank - 1];
  Extents extents = left.extents;
  extents[rank - 1] = n;

  const Dtype sums = left.kind == Kind::integer ? Dtype::int32 : left.dtype == Dtype::fp64 ? Dtype::fp64 : Dtype::fp32;
  Value result;
  if (accumulator.kind == Kind::undefined || accumulator.kind == Kind::none) {
    result = full(weak_integer(0), sums, extents);
  } else {
    if (!accumulator.is_block()) accumulator = full(accumulator, sums, extents);
    if (!(accumulator.extents == extents))
      throw OperationError{fmt::format("tl.dot adds {} to {}", extents.to_string(), describe(accumulator)),
                           "the accumulator must have the shape of the product"};
    if (is_floating(accumulator.dtype) && accumulator.dtype != sums) out = accumulator.dtype;
    result = accumulator.dtype == sums ? std::move(accumulator) : cast(accumulator, sums);
    make_unique(result);
  }
  for (std::int64_t i = 0; i < batches; ++i) {
    if (sums == Dtype::fp32)
      multiply_floats({left.elements<float>() + i * m * k, right.elements<float>() + i * k * n,
                       result.mutable_elements<float>() + i * m * n, static_cast<std::size_t>(m),
                       static_cast<std::size_t>(n), static_cast<std::size_t>(k)});
    else if (sums == Dtype::fp64)
      multiply_plainly(left.elements<double>() + i * m * k, right.elements<double>() + i * k * n,
                       result.mutable_elements<double>() + i * m * n, m, n, k);
    else
      multiply_plainly(left.elements<std::int64_t>() + i * m * k, right.elements<std::int64_t>() + i * k * n,
                       result.mutable_elements<std::int64_t>() + i * m * n, m, n, k);
  }
  if (sums == Dtype::int32) {
    wrap_elements({result.mutable_elements<std::int64_t>(), static_cast<std::size_t>(extents.count())}, sums);
    return result;
  }
  return sums == Dtype::fp32 && out != Dtype::fp32 && is_floating(out) && out != Dtype::fp64 ? cast(result, out)
                                                                                             : result;
}

}  // namespace syncopate::concrete
