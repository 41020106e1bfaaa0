#include "tests/driver/gemm_reference.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <functional>

namespace syncopate::testing {

namespace {

std::vector<double> values(const Bytes& bytes, Dtype dtype) {
  const auto size = static_cast<std::size_t>(size_in_bytes(dtype));
  std::vector<double> out(bytes.size() / size);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<double>(load_element(bytes.data() + i * size, dtype));
  return out;
}

struct Product {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::vector<double> a;
  std::vector<double> b;
  std::vector<double> c;
};

Product product_of(const Plan& plan, const LaunchData& data, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  Product p;
  p.m = plan.buffers[0].shape[0];
  p.k = plan.buffers[0].shape[1];
  p.n = plan.buffers[1].shape[1];
  p.a = values(data.inputs[r][0], plan.buffers[0].dtype);
  p.b = values(data.inputs[r][1], plan.buffers[1].dtype);
  p.c = values(data.outputs[r][2], plan.buffers[2].dtype);
  return p;
}

/// Calls visit(row, column, sum, sum of magnitudes) for every element; sums in fp64, exact for small integers.
void for_each_element(const Product& p, const std::function<void(std::int64_t, std::int64_t, double, double)>& visit) {
  std::vector<double> sums(static_cast<std::size_t>(p.n));
  std::vector<double> magnitudes(static_cast<std::size_t>(p.n));
  for (std::int64_t i = 0; i < p.m; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0);
    std::fill(magnitudes.begin(), magnitudes.end(), 0.0);
    for (std::int64_t k = 0; k < p.k; ++k) {
      const double a = p.a[static_cast<std::size_t>(i * p.k + k)];
      for (std::int64_t j = 0; j < p.n; ++j) {
        const double term = a * p.b[static_cast<std::size_t>(k * p.n + j)];
        sums[static_cast<std::size_t>(j)] += term;
        magnitudes[static_cast<std::size_t>(j)] += std::fabs(term);
      }
    }
    for (std::int64_t j = 0; j < p.n; ++j)
      visit(i, j, sums[static_cast<std::size_t>(j)], magnitudes[static_cast<std::size_t>(j)]);
  }
}

}  // namespace

std::string compare_exactly(const Plan& plan, const LaunchData& data, int rank) {
  const Product p = product_of(plan, data, rank);
  const Dtype dtype = plan.buffers[2].dtype;
  std::string difference;
  double largest = 0;
  for_each_element(p, [&](std::int64_t i, std::int64_t j, double sum, double magnitude) {
    largest = std::max(largest, std::fabs(sum));
    const double got = p.c[static_cast<std::size_t>(i * p.n + j)];
    const auto expected = static_cast<double>(round_to(static_cast<float>(sum), dtype));
    if (difference.empty() && (magnitude > 16777216 || std::isnan(got) || got != expected))
      difference = fmt::format("rank {} c[{}, {}]: expected {}, got {}", rank, i, j, expected, got);
  });
  if (difference.empty() && largest == 0) difference = "every element is zero: the test shows nothing";
  return difference;
}

std::string compare_with_bound(const Plan& plan, const LaunchData& data, int rank) {
  const Product p = product_of(plan, data, rank);
  const double u32 = std::ldexp(1.0, -24);
  const double u16 = std::ldexp(1.0, -8);
  // Share of the bound used, per element, then the maximum per tile.
  std::vector<double> share(p.c.size());
  for_each_element(p, [&](std::int64_t i, std::int64_t j, double sum, double magnitude) {
    const auto at = static_cast<std::size_t>(i * p.n + j);
    const double accumulation = static_cast<double>(p.k) * u32 * magnitude;
    const double bound = accumulation + u16 * (std::fabs(sum) + accumulation);
    const double error = std::fabs(p.c[at] - sum);
    share[at] = std::isnan(p.c[at]) ? HUGE_VAL : bound > 0 ? error / bound : error > 0 ? HUGE_VAL : 0.0;
  });
  for (const Tile& tile : plan.tiles) {
    double worst = 0;
    for (const TileAccess& write : tile.writes)
      for (std::int64_t i = write.region[0].begin; i < write.region[0].end; ++i)
        for (std::int64_t j = write.region[1].begin; j < write.region[1].end; ++j)
          worst = std::max(worst, share[static_cast<std::size_t>(i * p.n + j)]);
    if (worst > 1)
      return fmt::format("rank {} tile ({}): {} times the bound", rank, fmt::join(tile.index, ", "), worst);
  }
  return "";
}

}  // namespace syncopate::testing
