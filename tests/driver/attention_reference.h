// Attention in fp64, from what went into a run on CPU ranks, against what came out of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "syncopate/host/host.h"
#include "syncopate/plan/plan.h"

namespace syncopate::testing {

/// All rows and heads of q and o, all keys of k and v, side by side as kernels/attention.py has them.
struct AttentionSizes {
  std::int64_t heads = 1;
  std::int64_t group = 1;  ///< query heads that share a key head
  std::int64_t head_dim = 64;
  double scale = 1;
  bool causal = false;  ///< row i attends to the keys up to first_row + i
  std::int64_t first_row = 0;
};

/// A matrix, row-major.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;

  double at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
};

/// Buffer `name` of a rank as it went in, or came out if it is an output: the box that the rank has of it.
Matrix matrix_of(const Plan& plan, const LaunchData& data, int rank, const std::string& name);
/// One below the other.
Matrix stacked(const std::vector<Matrix>& parts);

/// Whether each element of o, and each of lse ([heads, rows]) if it has any, is as near to exact attention as its
/// roundings allow; "" if so, else where it is furthest off. Weights are rounded to the type of v, each by at most
/// `unit` of itself, and so is the result; the rest is fp32, of which scores of this size keep 2e-5 of a weight.
std::string compare_attention(const AttentionSizes& sizes, const Matrix& q, const Matrix& k, const Matrix& v,
                              const Matrix& o, const Matrix& lse, Dtype dtype);

}  // namespace syncopate::testing
