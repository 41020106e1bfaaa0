// Operators that are more than products, from the files we ship: embedding lookup, epilogues, 8-bit floats; run on CPU
// ranks and held against references of our own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/right_run.h"

namespace syncopate {
namespace {

using testing::buffer_named;
using testing::numbers;
using testing::operator_file;
using testing::run_of;

std::vector<std::vector<Override>> variants(const std::string& tensor) {
  std::vector<std::vector<Override>> all;
  for (const char* ranks : {"1", "2", "3", "4"})
    for (const char* algorithm : {"direct", "ring"})
      for (const char* initiator : {"push", "pull"})
        all.push_back({{"ranks", ranks},
                       {fmt::format("communicate.{}.algorithm", tensor), algorithm},
                       {fmt::format("communicate.{}.initiator", tensor), initiator}});
  return all;
}

TEST(Embedding, EveryRankHasTheRowsOfItsTokens) {
  std::uint64_t seed = 0;
  for (std::vector<Override> overrides : variants("out")) {
    overrides.push_back({"kernel.args.TOKENS", "100"});  // ragged shards and blocks
    overrides.push_back({"kernel.args.ROWS", "30"});
    overrides.push_back({"kernel.args.WIDTH", "72"});
    overrides.push_back({"kernel.args.BLOCK_W", "64"});
    const Plan plan = compile_operator(operator_file("embedding_rs"), overrides);
    const LaunchData data = run_of(plan, InputKind::reals, seed++);
    const std::int64_t width = 72;
    const std::int64_t rows = 30;
    const std::vector<double> ids = numbers(plan, data.inputs, 0, "ids");
    std::vector<std::vector<double>> tables;
    for (int rank = 0; rank < plan.ranks; ++rank) {
      EXPECT_EQ(numbers(plan, data.inputs, rank, "ids"), ids) << "all ranks have the same tokens";
      tables.push_back(numbers(plan, data.inputs, rank, "table"));
    }
    for (int rank = 0; rank < plan.ranks; ++rank) {
      const std::vector<double> out = numbers(plan, data.outputs, rank, "out");
      const Region region = output_region(plan, buffer_named(plan, "out"), rank);
      ASSERT_EQ(out.size(), static_cast<std::size_t>(region.volume()));
      for (std::size_t i = 0; i < out.size(); ++i) {
        const std::int64_t token = region[0].begin + static_cast<std::int64_t>(i) / width;
        const auto id = static_cast<std::int64_t>(ids[static_cast<std::size_t>(token)]);
        ASSERT_LT(id, rows * plan.ranks);
        const std::vector<double>& table = tables[static_cast<std::size_t>(id / rows)];
        ASSERT_EQ(out[i], table[static_cast<std::size_t>(id % rows * width + static_cast<std::int64_t>(i) % width)])
            << "rank " << rank << " token " << token << " id " << id;
      }
    }
  }
}

TEST(Embedding, ATableThatIsGatheredIsRefused) {
  try {
    compile_operator(operator_file("embedding_rs"),
                     {{"tensors.table.before", "\"shard(0)\""}, {"tensors.table.inside", "\"replicate\""}});
    FAIL() << "compiled";
  } catch (const UserError& error) {
    EXPECT_NE(error.problem().find("data decide what this reads of it"), std::string::npos) << error.what();
    EXPECT_EQ(error.where().line, 19) << "the load of the table";
  }
}

double activated(double x, int activation) {
  if (activation == 1) return x / (1 + std::exp(-x));
  if (activation == 2) return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  return x;
}

struct Layer {
  int activation = 0;
  bool gated = false;
  bool bias = false;
  bool residual = false;
};

TEST(Epilogue, AgreesWithFp64) {
  constexpr std::int64_t m = 100, n = 40, k = 48;
  const double u32 = std::ldexp(1.0, -24), u16 = std::ldexp(1.0, -8);
  std::uint64_t seed = 0;
  for (const Layer& layer : {Layer{}, Layer{1, false, true, true}, Layer{2, false, true, false},
                             Layer{1, true, true, true}, Layer{2, true, false, false}}) {
    std::vector<Override> overrides = {{"ranks", "3"},
                                       {"kernel.args.M", "100"},
                                       {"kernel.args.N", "40"},
                                       {"kernel.args.K", "48"},
                                       {"kernel.args.BLOCK_M", "16"},
                                       {"kernel.args.BLOCK_N", "32"},
                                       {"kernel.args.BLOCK_K", "16"},
                                       {"kernel.args.ACTIVATION", std::to_string(layer.activation)},
                                       {"kernel.args.GATED", layer.gated ? "true" : "false"},
                                       {"kernel.args.HAS_BIAS", layer.bias ? "true" : "false"},
                                       {"kernel.args.HAS_RESIDUAL", layer.residual ? "true" : "false"}};
    if (!layer.gated)
      overrides.insert(overrides.end(), {{"tensors.b.shape", "[\"K\", \"N\"]"}, {"tensors.bias.shape", "[\"N\"]"}});
    if (layer.residual) overrides.push_back({"tensors.residual.shape", "[\"M\", \"N\"]"});
    const Plan plan = compile_operator(operator_file("ag_gemm_epilogue"), overrides);
    const LaunchData data = run_of(plan, InputKind::reals, seed++);
    const std::int64_t width = layer.gated ? 2 * n : n;
    for (int rank = 0; rank < plan.ranks; ++rank) {
      const auto a = numbers(plan, data.inputs, rank, "a"), b = numbers(plan, data.inputs, rank, "b");
      const auto bias = numbers(plan, data.inputs, rank, "bias"), c = numbers(plan, data.outputs, rank, "c");
      const auto residual = numbers(plan, data.inputs, rank, "residual");
      const auto at = [](const std::vector<double>& list, std::int64_t i) { return list[static_cast<std::size_t>(i)]; };
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double sums[2] = {0, 0}, magnitudes[2] = {0, 0};
          for (int side = 0; side < (layer.gated ? 2 : 1); ++side) {
            for (std::int64_t s = 0; s < k; ++s) {
              const double term = at(a, i * k + s) * at(b, s * width + side * n + j);
              sums[side] += term;
              magnitudes[side] += std::fabs(term);
            }
            if (layer.bias) {
              sums[side] += at(bias, side * n + j);
              magnitudes[side] += std::fabs(at(bias, side * n + j));
            }
          }
          // An activation's slope is at most 1.13, and its own arithmetic in fp32 loses a few units.
          const double left = activated(sums[0], layer.activation);
          const double left_bound = 1.2 * (k + 1) * u32 * magnitudes[0] + 32 * u32 * (std::fabs(sums[0]) + 1);
          double expected = left, bound = left_bound;
          if (layer.gated) {
            const double right_bound = (k + 1) * u32 * magnitudes[1];
            expected = left * sums[1];
            bound = left_bound * (std::fabs(sums[1]) + right_bound) + std::fabs(left) * right_bound +
                    u32 * std::fabs(expected);
          }
          if (layer.residual) expected += at(residual, i * n + j);
          bound += u32 * std::fabs(expected);
          bound += u16 * (std::fabs(expected) + bound);
          ASSERT_LE(std::fabs(at(c, i * n + j) - expected), bound)
              << "rank " << rank << " element " << i << ", " << j << " of layer " << seed - 1;
        }
    }
  }
}

TEST(Fp8, SmallIntegersAreExact) {
  constexpr std::int64_t m = 96, n = 48, k = 64;
  for (const bool row_scales : {true, false}) {
    for (const char* ranks : {"1", "2", "3"}) {
      std::vector<Override> overrides = {{"ranks", ranks},
                                         {"kernel.args.M", "96"},
                                         {"kernel.args.N", "48"},
                                         {"kernel.args.K", "64"},
                                         {"kernel.args.BLOCK_M", "32"},
                                         {"kernel.args.BLOCK_N", "16"},
                                         {"kernel.args.BLOCK_K", "32"},
                                         {"kernel.args.ROW_SCALES", row_scales ? "true" : "false"}};
      if (!row_scales)
        overrides.insert(overrides.end(), {{"tensors.a_scale.shape", "[1]"},
                                           {"tensors.a_scale.before", "\"replicate\""},
                                           {"tensors.b_scale.shape", "[1]"}});
      const Plan plan = compile_operator(operator_file("ag_gemm_fp8"), overrides);
      const LaunchData data = run_of(plan, InputKind::small_integers, 5);
      for (int rank = 0; rank < plan.ranks; ++rank) {
        const auto a = numbers(plan, data.inputs, rank, "a"), b = numbers(plan, data.inputs, rank, "b");
        const auto a_scale = numbers(plan, data.inputs, rank, "a_scale");
        const auto b_scale = numbers(plan, data.inputs, rank, "b_scale");
        const auto c = numbers(plan, data.outputs, rank, "c");
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (std::int64_t s = 0; s < k; ++s)
              sum += a[static_cast<std::size_t>(i * k + s)] * b[static_cast<std::size_t>(j * k + s)];
            sum *= a_scale[static_cast<std::size_t>(row_scales ? i : 0)] *
                   b_scale[static_cast<std::size_t>(row_scales ? j : 0)];
            ASSERT_EQ(c[static_cast<std::size_t>(i * n + j)], sum) << "rank " << rank << ": " << i << ", " << j;
          }
      }
    }
  }
}

}  // namespace
}  // namespace syncopate
