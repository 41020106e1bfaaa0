#include "tests/driver/attention_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/driver/right_run.h"

namespace syncopate::testing {

namespace {

/// Half a unit in the last place of 1.
double unit_of(Dtype dtype) { return std::ldexp(1.0, dtype == Dtype::bf16 ? -8 : -11); }

/// One row of one head.
struct Exact {
  std::vector<double> o;
  std::vector<double> magnitude;  ///< the mean of |v|
  double lse = -std::numeric_limits<double>::infinity();
};

Exact attend(const AttentionSizes& sizes, const Matrix& q, const Matrix& k, const Matrix& v, std::int64_t row,
             std::int64_t head) {
  const std::int64_t column = head * sizes.head_dim;
  const std::int64_t key_column = head / sizes.group * sizes.head_dim;
  const std::int64_t keys = sizes.causal ? std::min(k.rows, sizes.first_row + row + 1) : k.rows;
  Exact exact{std::vector<double>(static_cast<std::size_t>(sizes.head_dim)),
              std::vector<double>(static_cast<std::size_t>(sizes.head_dim))};
  double total = 0;
  for (std::int64_t key = 0; key < keys; ++key) {
    double score = 0;
    for (std::int64_t d = 0; d < sizes.head_dim; ++d) score += q.at(row, column + d) * k.at(key, key_column + d);
    const double weight = std::exp(score * sizes.scale);
    total += weight;
    for (std::int64_t d = 0; d < sizes.head_dim; ++d) {
      exact.o[static_cast<std::size_t>(d)] += weight * v.at(key, key_column + d);
      exact.magnitude[static_cast<std::size_t>(d)] += weight * std::fabs(v.at(key, key_column + d));
    }
  }
  if (total == 0) return exact;
  exact.lse = std::log(total);
  for (std::size_t d = 0; d < exact.o.size(); ++d) {
    exact.o[d] /= total;
    exact.magnitude[d] /= total;
  }
  return exact;
}

}  // namespace

Matrix matrix_of(const Plan& plan, const LaunchData& data, int rank, const std::string& name) {
  const int buffer = buffer_named(plan, name);
  const Buffer& of = plan.buffer(buffer);
  const auto r = static_cast<std::size_t>(rank);
  const auto b = static_cast<std::size_t>(buffer);
  const bool is_output = of.role == BufferRole::result || !data.outputs[r][b].empty();
  const Bytes& bytes = is_output ? data.outputs[r][b] : data.inputs[r][b];
  Matrix matrix{of.shape[0], of.shape[1], {}};
  if (is_output) {
    const Region region = output_region(plan, buffer, rank);
    matrix = {region[0].size(), region[1].size(), {}};
  }
  const auto size = static_cast<std::size_t>(size_in_bytes(of.dtype));
  for (std::size_t at = 0; at < bytes.size(); at += size)
    matrix.values.push_back(load_element(bytes.data() + at, of.dtype));
  // A source is as large as the largest rank's part.
  if (of.role == BufferRole::source) {
    matrix.rows = shown_region(of, rank)[0].size();
    matrix.values.resize(static_cast<std::size_t>(matrix.rows * matrix.columns));
  }
  if (static_cast<std::int64_t>(matrix.values.size()) != matrix.rows * matrix.columns)
    throw std::runtime_error(fmt::format("{} of rank {} has {} elements", name, rank, matrix.values.size()));
  return matrix;
}

Matrix stacked(const std::vector<Matrix>& parts) {
  Matrix whole;
  for (const Matrix& part : parts) {
    if (part.rows == 0) continue;
    whole.rows += part.rows;
    whole.columns = part.columns;
    whole.values.insert(whole.values.end(), part.values.begin(), part.values.end());
  }
  return whole;
}

std::string compare_attention(const AttentionSizes& sizes, const Matrix& q, const Matrix& k, const Matrix& v,
                              const Matrix& o, const Matrix& lse, Dtype dtype) {
  if (o.rows != q.rows || o.columns != sizes.heads * sizes.head_dim || q.columns != o.columns) return "wrong shapes";
  const double unit = unit_of(dtype);
  double worst = 0;
  std::string where;
  const auto add = [&](double error, double bound, const std::string& place) {
    if (error <= bound * worst) return;
    worst = error / bound;
    where = place;
  };
  for (std::int64_t head = 0; head < sizes.heads; ++head)
    for (std::int64_t row = 0; row < q.rows; ++row) {
      const Exact exact = attend(sizes, q, k, v, row, head);
      for (std::int64_t d = 0; d < sizes.head_dim; ++d) {
        const double want = exact.o[static_cast<std::size_t>(d)];
        const double magnitude = exact.magnitude[static_cast<std::size_t>(d)];
        const double got = o.at(row, head * sizes.head_dim + d);
        if (!std::isfinite(got)) return fmt::format("row {} head {}: {}", row, head, got);
        const double bound = 1.01 * unit * (magnitude + std::fabs(want)) + 2e-5 * magnitude + std::ldexp(1.0, -24);
        add(std::fabs(got - want), bound, fmt::format("row {} head {} place {}: {}, not {}", row, head, d, got, want));
      }
      if (lse.rows == 0) continue;
      const double got = lse.at(head, row);
      if (std::isinf(got) || std::isinf(exact.lse)) {
        if (got != exact.lse) return fmt::format("lse of row {} head {}: {}, not {}", row, head, got, exact.lse);
      } else {
        add(std::fabs(got - exact.lse), 1e-5 * (1 + std::fabs(exact.lse)),
            fmt::format("lse of row {} head {}: {}, not {}", row, head, got, exact.lse));
      }
    }
  return worst <= 1 ? "" : fmt::format("{} bounds off at {}", worst, where);
}

}  // namespace syncopate::testing
