// Grouped products of mixtures of experts: run on CPU ranks and held against a loop over tokens, exactly, for counts of
// all sorts; rows that are not in use may hold anything.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/right_run.h"
#include "tests/support/mutate_sums.h"

namespace syncopate {
namespace {

using testing::buffer_named;
using ::testing::HasSubstr;
using testing::numbers;
using testing::run_of;

constexpr const char* kDispatch = SYNCOPATE_SOURCE_DIR "/operators/ag_grouped_gemm.toml";
constexpr const char* kCombine = SYNCOPATE_SOURCE_DIR "/operators/grouped_gemm_rs.toml";

struct Sizes {
  std::int64_t experts = 8;
  std::int64_t sources = 2;  ///< of EXPERTS groups each
  std::int64_t capacity = 24;
  std::int64_t n = 40;
  std::int64_t k = 24;
  bool weights = false;
  std::int64_t groups() const { return experts * sources; }
};

std::vector<Override> overrides_of(const Sizes& sizes, int ranks) {
  std::vector<Override> all = {{"ranks", std::to_string(ranks)},
                               {"kernel.args.HAS_WEIGHTS", sizes.weights ? "true" : "false"},
                               {"tensors.weights.shape", sizes.weights ? "[\"GROUPS * CAPACITY\"]" : "[1]"},
                               {"launch.workers", "3"}};
  const std::pair<const char*, std::int64_t> arguments[] = {{"GROUPS", sizes.groups()},
                                                            {"CAPACITY", sizes.capacity},
                                                            {"EXPERTS", sizes.experts},
                                                            {"N", sizes.n},
                                                            {"K", sizes.k},
                                                            {"BLOCK_M", 16},
                                                            {"BLOCK_N", 32},
                                                            {"BLOCK_K", 16}};
  for (const auto& [name, value] : arguments)
    all.push_back({fmt::format("kernel.args.{}", name), std::to_string(value)});
  return all;
}

void override_counts(std::vector<Override>& overrides, std::int64_t least, std::int64_t most) {
  overrides.push_back({"tensors.counts.values", fmt::format("[{}, {}]", least, most + 1)});
}

double at(const std::vector<double>& list, std::int64_t i) { return list[static_cast<std::size_t>(i)]; }

/// What one rank's kernel is to compute: token by token.
std::vector<double> tokens_times_experts(const Plan& plan, const std::vector<Bytes>& inputs, const Sizes& sizes) {
  const std::vector<double> x = numbers(plan, inputs, "x"), w = numbers(plan, inputs, "w");
  const std::vector<double> counts = numbers(plan, inputs, "counts"), weights = numbers(plan, inputs, "weights");
  std::vector<double> y(static_cast<std::size_t>(sizes.groups() * sizes.capacity * sizes.n), 0);
  for (std::int64_t source = 0; source < sizes.sources; ++source)
    for (std::int64_t expert = 0; expert < sizes.experts; ++expert)
      for (std::int64_t token = 0; token < std::llround(at(counts, source * sizes.experts + expert)); ++token) {
        const std::int64_t row = (source * sizes.experts + expert) * sizes.capacity + token;
        for (std::int64_t j = 0; j < sizes.n; ++j) {
          double sum = 0;
          for (std::int64_t s = 0; s < sizes.k; ++s)
            sum += at(x, row * sizes.k + s) * at(w, (expert * sizes.k + s) * sizes.n + j);
          y[static_cast<std::size_t>(row * sizes.n + j)] = sizes.weights ? sum * at(weights, row) : sum;
        }
      }
  return y;
}

void expect_equal(const std::vector<double>& got, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], expected[i]) << what << ", element " << i;
}

void check_dispatch(const Sizes& sizes, std::vector<Override> overrides, std::uint64_t seed) {
  const Plan plan = compile_operator(kDispatch, overrides);
  const LaunchData data = run_of(plan, InputKind::small_integers, seed);
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    expect_equal(numbers(plan, data.outputs[r], "y"), tokens_times_experts(plan, data.inputs[r], sizes),
                 fmt::format("rank {} of {}, seed {}", rank, plan.ranks, seed));
  }
}

void check_combine(const Sizes& sizes, std::vector<Override> overrides, std::uint64_t seed) {
  const Plan plan = compile_operator(kCombine, overrides);
  const LaunchData data = run_of(plan, InputKind::small_integers, seed);
  std::vector<double> sum(static_cast<std::size_t>(sizes.groups() * sizes.capacity * sizes.n), 0);
  for (const std::vector<Bytes>& inputs : data.inputs) {
    const std::vector<double> summand = tokens_times_experts(plan, inputs, sizes);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += summand[i];
  }
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const Region region = output_region(plan, buffer_named(plan, "y"), rank);
    const auto begin = sum.begin() + region[0].begin * sizes.n, end = sum.begin() + region[0].end * sizes.n;
    expect_equal(numbers(plan, data.outputs[static_cast<std::size_t>(rank)], "y"), {begin, end},
                 fmt::format("rank {} of {}, seed {}", rank, plan.ranks, seed));
  }
}

/// Ranks, expert, whether shards and chunks end with groups.
const std::vector<std::pair<int, Sizes>>& worlds() {
  static const std::vector<std::pair<int, Sizes>> all = {
      {2, {8, 2, 24, 40, 24}},  {4, {8, 4, 16, 32, 16}}, {8, {8, 8, 5, 8, 8}},
      {2, {64, 2, 8, 16, 16}},  {3, {8, 2, 20, 40, 40}}, {1, {8, 1, 33, 24, 56}},
      {4, {16, 4, 16, 32, 16}}, {4, {1, 4, 48, 32, 32}},  // one expert has all tokens
  };
  return all;
}

TEST(Dispatch, EveryTokenMeetsItsExpert) {
  std::uint64_t seed = 0;
  for (const auto& [ranks, sizes] : worlds())
    for (const char* algorithm : {"direct", "ring"}) {
      std::vector<Override> overrides = overrides_of(sizes, ranks);
      overrides.push_back({"communicate.x.algorithm", algorithm});
      overrides.push_back({"communicate.x.initiator", seed % 4 < 2 ? "push" : "pull"});
      check_dispatch(sizes, overrides, seed++);
    }
}

TEST(Dispatch, WeightsAndCountsThatAreAllTheSame) {
  Sizes sizes{4, 2, 20, 24, 24, true};
  std::uint64_t seed = 7;
  for (const std::int64_t count : {0, 1, 16, 17, 20}) {
    std::vector<Override> overrides = overrides_of(sizes, 2);
    override_counts(overrides, count, count);
    check_dispatch(sizes, overrides, seed++);
  }
}

TEST(Combine, EveryRankHasItsTokensBack) {
  std::uint64_t seed = 0;
  for (auto [ranks, sizes] : worlds())
    for (const char* algorithm : {"direct", "ring"}) {
      sizes.weights = seed % 4 != 1;
      std::vector<Override> overrides = overrides_of(sizes, ranks);
      overrides.push_back({"communicate.y.algorithm", algorithm});
      overrides.push_back({"communicate.y.initiator", seed % 4 < 2 ? "push" : "pull"});
      check_combine(sizes, overrides, seed++);
    }
}

TEST(Combine, CountsThatAreAllTheSame) {
  Sizes sizes{4, 2, 20, 24, 24, true};
  std::uint64_t seed = 7;
  for (const std::int64_t count : {0, 1, 16, 17, 20}) {
    std::vector<Override> overrides = overrides_of(sizes, 2);
    override_counts(overrides, count, count);
    check_combine(sizes, overrides, seed++);
  }
}

template <typename T>
void put(Bytes& bytes, std::int64_t i, T value) {
  std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
}

TEST(Kernel, RowsPastTheCountMayHoldAnything) {
  Sizes sizes{4, 2, 20, 24, 24, true};
  const Plan plan = compile_operator(kCombine, overrides_of(sizes, 2));
  const std::vector<std::vector<std::int32_t>> all_counts = {{0, 0, 0, 0, 0, 0, 0, 0},
                                                             {0, 20, 0, 0, 0, 20, 0, 0},  // all tokens go to expert 1
                                                             {1, 0, 20, 16, 17, 15, 0, 1},
                                                             {20, 20, 20, 20, 20, 20, 20, 19}};
  for (std::size_t turn = 0; turn < all_counts.size(); ++turn) {
    std::vector<Bytes> inputs = launch_inputs(plan, turn, InputKind::small_integers, 0)[1];
    Bytes& x = inputs[static_cast<std::size_t>(buffer_named(plan, "x"))];
    Bytes& weights = inputs[static_cast<std::size_t>(buffer_named(plan, "weights"))];
    for (std::int64_t group = 0; group < sizes.groups(); ++group) {
      const std::int32_t count = all_counts[turn][static_cast<std::size_t>(group)];
      put(inputs[static_cast<std::size_t>(buffer_named(plan, "counts"))], group, count);
      for (std::int64_t row = group * sizes.capacity + count; row < (group + 1) * sizes.capacity; ++row) {
        put(weights, row, std::nanf(""));
        for (std::int64_t s = 0; s < sizes.k; ++s)
          store_element(x.data() + 2 * (row * sizes.k + s), Dtype::bf16, s % 2 == 0 ? std::nanf("") : INFINITY);
      }
    }
    const std::vector<Bytes> outputs = run_unfused(plan, 1, inputs);
    expect_equal(numbers(plan, outputs, "y"), tokens_times_experts(plan, inputs, sizes), fmt::format("turn {}", turn));
  }
}

TEST(Kernel, ARowBlockWithoutTokensReadsNothing) {
  // The footprint is that of full groups, so that plans do not depend on counts.
  const Sizes sizes{4, 2, 32, 32, 16};
  const Plan plan = compile_operator(kDispatch, overrides_of(sizes, 2));
  ASSERT_EQ(plan.tiles.size(), 16U);
  for (const Tile& tile : plan.tiles) {
    const std::int64_t row = tile.index[0] * 32 + tile.index[2] * 16;
    bool found = false;
    for (const TileAccess& access : tile.reads)
      if (plan.buffer(access.buffer).name == "x") {
        EXPECT_EQ(access.region, (Region{{row, row + 16}, {0, 16}}));
        found = true;
      }
    EXPECT_TRUE(found);
  }
}

TEST(Counts, AboveTheCapacityAreReportedWithRankGroupCountAndBound) {
  const Sizes sizes{4, 2, 20, 24, 24};
  std::vector<Override> overrides = overrides_of(sizes, 2);
  for (const std::int64_t count : {21, -1}) {
    override_counts(overrides, count, count);
    const Plan plan = compile_operator(kDispatch, overrides);
    try {
      run_on_cpu_ranks(plan, {});
      FAIL() << "ran";
    } catch (const UserError& error) {
      EXPECT_THAT(error.problem(), HasSubstr("rank ")) << error.what();
      EXPECT_THAT(error.problem(), HasSubstr(" of (group, pid_n, pid_m): a group cannot have this many rows in use"));
      EXPECT_THAT(error.problem(), HasSubstr(fmt::format("count is {}, CAPACITY is 20", count)));
      EXPECT_EQ(error.where().file, "fused.py");
      EXPECT_GT(error.where().line, 0);
      EXPECT_NE(error.remedy(), "");
    }
  }
}

void expect_refused(const char* file, const std::vector<Override>& overrides, const std::string& words) {
  try {
    compile_operator(file, overrides);
    ADD_FAILURE() << "compiled; expected: " << words;
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
    EXPECT_NE(error.where().file, "") << error.what();
    EXPECT_NE(error.remedy(), "") << error.what();
  }
}

TEST(BadInput, HasClearErrors) {
  const std::vector<Override> good = overrides_of({4, 2, 20, 24, 24, true}, 2);
  const auto with = [&](const Override& wrong) {
    std::vector<Override> overrides = good;
    overrides.push_back(wrong);
    return overrides;
  };
  for (const char* file : {kDispatch, kCombine}) {
    expect_refused(file, with({"tensors.x.shape", "[\"GROUPS * CAPACITY - 1\", \"K\"]"}), "this descriptor of x");
    expect_refused(file, with({"tensors.w.shape", "[\"K\", \"N\"]"}), "this descriptor of w");
    expect_refused(file, with({"tensors.counts.shape", "[\"GROUPS - 1\"]"}), "reads counts at [7:8]");
    expect_refused(file, with({"tensors.weights.shape", "[1]"}), "reads weights outside its shape 1");
    expect_refused(file, with({"kernel.args.K", "20"}), "16 bytes");
    expect_refused(file, with({"kernel.args.BLOCK_M", "24"}), "powers of two");
  }
  expect_refused(kDispatch, with({"tensors.counts.inside", "\"shard(0)\""}), "counts");
}

/// Whether verify rejects the mutant; CPU ranks must agree, unless a wrong order of additions goes unnoticed.
bool rejected(const testing::Mutant& mutant, bool may_go_unnoticed = false) {
  const bool right = verify(mutant.plan).holds();
  EXPECT_TRUE(mutant.may_be_valid || !right) << "accepted: " << mutant.description;
  bool caught = false;
  for (std::uint64_t seed = 0; seed < 8 && !caught; ++seed) {
    RunOptions options;
    options.seed = seed;
    options.adversary = seed % 2 == 1;
    options.repeat = 3;
    caught = run_on_cpu_ranks(mutant.plan, options).outcome != Outcome::right;
  }
  if (right || !may_go_unnoticed) {
    EXPECT_EQ(caught, !right) << mutant.description;
  }
  return !right;
}

Plan small_plan(const char* file, bool weights) {
  std::vector<Override> overrides = overrides_of({2, 2, 16, 16, 16, weights}, 2);
  override_counts(overrides, 16, 16);  // so that every row is read and none is zero
  return compile_operator(file, overrides);
}

TEST(Mutations, OfDispatchAreRejectedOrRight) {
  const Plan plan = small_plan(kDispatch, false);
  ASSERT_TRUE(verify(plan).holds());
  int found = 0;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) found += rejected(mutant) ? 1 : 0;
  EXPECT_GT(found, 20);
}

TEST(Mutations, OfCombineAreRejectedOrRight) {
  const Plan plan = small_plan(kCombine, true);
  ASSERT_TRUE(verify(plan).holds());
  int found = 0;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) found += rejected(mutant) ? 1 : 0;
  for (const testing::SumMutant& mutant : testing::sum_mutants(plan))
    found += rejected(mutant, mutant.only_order) ? 1 : 0;
  EXPECT_GT(found, 20);
}

}  // namespace
}  // namespace syncopate
