#include "tests/driver/gemm_reference.h"

#include <fmt/format.h>

#include <algorithm>
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

namespace {

const double kU32 = std::ldexp(1.0, -24);
const double kU16 = std::ldexp(1.0, -8);

/// A value computed in fp64, and how far from it a computed one may be.
struct Bounded {
  double value = 0;
  double bound = 0;
};

Bounded rounded(double value, double bound) { return {value, bound + kU16 * (std::fabs(value) + bound)}; }

/// [rank][element]: what each rank's local kernel makes.
std::vector<std::vector<Bounded>> summands(const Plan& plan, const LaunchData& data) {
  std::vector<std::vector<Bounded>> all;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const Product p = product_of(plan, data, rank);
    std::vector<Bounded>& mine = all.emplace_back();
    for_each_element(p, [&](std::int64_t, std::int64_t, double sum, double magnitude) {
      mine.push_back(rounded(sum, static_cast<double>(p.k) * kU32 * magnitude));
    });
  }
  return all;
}

/// The sum of one element, and by `leaves` how often each rank's summand is in it.
Bounded added(const SumOrder& order, const std::vector<std::vector<Bounded>>& summands, std::size_t element,
              std::vector<int>& leaves) {
  if (order.terms.empty()) {
    ++leaves[static_cast<std::size_t>(order.rank)];
    return summands[static_cast<std::size_t>(order.rank)][element];
  }
  Bounded sum;
  double total = 0;
  for (const SumOrder& each : order.terms) {
    const Bounded term = added(each, summands, element, leaves);
    sum.value += term.value;
    sum.bound += term.bound;
    total += std::fabs(term.value) + term.bound;
  }
  return rounded(sum.value, sum.bound + static_cast<double>(order.terms.size()) * kU32 * total);
}

/// Calls visit(rank, row, column, what it got, the stated sum, the sum over all ranks) for every element of every
/// output.
void for_each_output(const Plan& plan, const LaunchData& data,
                     const std::function<void(int, std::int64_t, std::int64_t, double, Bounded, double)>& visit) {
  const std::vector<std::vector<Bounded>> all = summands(plan, data);
  const std::int64_t columns = plan.buffers[2].shape[1];
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const std::vector<double> got = values(data.outputs[static_cast<std::size_t>(rank)][2], plan.buffers[2].dtype);
    const Region part = output_region(plan, 2, rank);
    std::size_t next = 0;
    for (std::int64_t i = part[0].begin; i < part[0].end; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto element = static_cast<std::size_t>(i * columns + j);
        double sum = 0;
        for (const std::vector<Bounded>& summand : all) sum += summand[element].value;
        std::vector<int> leaves(static_cast<std::size_t>(plan.ranks), 0);
        Bounded expected{NAN, 0};
        for (const Sum& stated : plan.sums)
          if (stated.rank == rank && stated.region.contains({{i, i + 1}, {j, j + 1}}))
            expected = added(stated.order, all, element, leaves);
        if (std::any_of(leaves.begin(), leaves.end(), [](int count) { return count != 1; })) expected.value = NAN;
        visit(rank, i, j, next < got.size() ? got[next] : NAN, expected, sum);
        ++next;
      }
    }
  }
}

}  // namespace

std::vector<Override> product_overrides(const ProductSize& size, int ranks, int workers, bool split_helper) {
  const auto argument = [&](const char* usual, const char* other) {
    return std::string("kernel.args.") + (split_helper ? other : usual);
  };
  return {{"ranks", std::to_string(ranks)},
          {argument("M", "rows"), std::to_string(size.m)},
          {argument("N", "cols"), std::to_string(size.n)},
          {argument("K", "depth"), std::to_string(size.k)},
          {argument("BLOCK_M", "TILE_R"), "16"},
          {argument("BLOCK_N", "TILE_C"), "16"},
          {argument("BLOCK_K", "TILE_D"), "16"},
          {argument("GROUP_M", "BAND"), "2"},
          {"launch.workers", std::to_string(workers)}};
}

std::string compare_sum_exactly(const Plan& plan, const LaunchData& data) {
  const bool everywhere = plan.buffers[2].after == Placement::replicate();
  const std::int64_t expected_elements = volume(plan.buffers[2].shape) * (everywhere ? plan.ranks : 1);
  std::string difference;
  std::int64_t elements = 0;
  double largest = 0;
  for_each_output(plan, data, [&](int rank, std::int64_t i, std::int64_t j, double got, Bounded, double sum) {
    ++elements;
    largest = std::max(largest, std::fabs(sum));
    const auto expected = static_cast<double>(round_to(static_cast<float>(sum), plan.buffers[2].dtype));
    if (difference.empty() && (std::isnan(got) || got != expected || expected != sum))
      difference = fmt::format("rank {} c[{}, {}]: expected {}, got {}", rank, i, j, sum, got);
  });
  if (difference.empty() && largest == 0) difference = "every element is zero: the test shows nothing";
  if (difference.empty() && elements != expected_elements) difference = "the outputs do not cover c";
  return difference;
}

std::string compare_sum_with_bound(const Plan& plan, const LaunchData& data) {
  std::string difference;
  for_each_output(plan, data, [&](int rank, std::int64_t i, std::int64_t j, double got, Bounded expected, double sum) {
    const bool right = std::fabs(got - sum) <= expected.bound && std::fabs(expected.value - sum) <= 1e-9;
    if (difference.empty() && !right)
      difference = fmt::format("rank {} c[{}, {}]: expected {} within {}, got {}; the stated order gives {}", rank, i,
                               j, sum, expected.bound, got, expected.value);
  });
  return difference;
}

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
  // Share of the bound used, per element, then the maximum per tile.
  std::vector<double> share(p.c.size());
  for_each_element(p, [&](std::int64_t i, std::int64_t j, double sum, double magnitude) {
    const auto at = static_cast<std::size_t>(i * p.n + j);
    const double accumulation = static_cast<double>(p.k) * kU32 * magnitude;
    const double bound = accumulation + kU16 * (std::fabs(sum) + accumulation);
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
