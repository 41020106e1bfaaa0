// Right plans run right: every route of the data, every seed, the adversary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "small_plans.h"
#include "syncopate/host/host.h"

namespace syncopate {
namespace {

using test::kColumns;
using test::Route;
using test::small_plan;
using test::SmallPlanOptions;

std::vector<float> floats(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// c = 2 a + b, computed here.
void expect_scaled(const LaunchData& data, int ranks) {
  ASSERT_EQ(data.outputs.size(), static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < data.outputs.size(); ++rank) {
    EXPECT_TRUE(data.outputs[rank][0].empty());
    EXPECT_TRUE(data.outputs[rank][1].empty());
    EXPECT_TRUE(data.inputs[rank][2].empty());
    const std::vector<float> a = floats(data.inputs[rank][0]);
    const std::vector<float> b = floats(data.inputs[rank][1]);
    const std::vector<float> c = floats(data.outputs[rank][2]);
    ASSERT_EQ(c.size(), a.size());
    for (std::size_t i = 0; i < c.size(); ++i) ASSERT_EQ(c[i], 2 * a[i] + b[i % kColumns]) << "rank " << rank;
  }
}

struct Case {
  const char* name;
  SmallPlanOptions plan;
};

class RightPlans : public testing::TestWithParam<Case> {};

TEST_P(RightPlans, AreRightUnderEverySeedAndTheAdversary) {
  const SmallPlanOptions& about = GetParam().plan;
  const Plan plan = small_plan(about);
  const int chunks = about.ranks * about.split;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (const bool adversary : {false, true}) {
      const RunReport report = run_on_cpu_ranks(plan, {.seed = seed, .adversary = adversary, .repeat = 3});
      ASSERT_EQ(report.outcome, Outcome::right) << "seed " << seed << ": " << report.message;
      ASSERT_EQ(report.message, "");
      ASSERT_EQ(report.tiles, 3 * about.ranks * chunks);
      ASSERT_EQ(report.transfers, 3 * (about.ranks - 1) * chunks);
      ASSERT_EQ(report.bytes_moved, report.transfers * test::kTileRows * kColumns * 4);
      expect_scaled(report.last, about.ranks);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Small, RightPlans,
                         testing::Values(Case{"alone", {.ranks = 1}}, Case{"push2", {.ranks = 2}},
                                         Case{"push3", {.ranks = 3, .workers = 3}},
                                         Case{"push4", {.ranks = 4, .split = 1}},
                                         Case{"push_counted", {.ranks = 3, .split = 3, .counted = true}},
                                         Case{"pull2", {.ranks = 2, .route = Route::pull}},
                                         Case{"pull3", {.ranks = 3, .route = Route::pull, .counted = true}},
                                         Case{"pull4", {.ranks = 4, .route = Route::pull, .split = 1, .workers = 5}},
                                         Case{"ring2", {.ranks = 2, .route = Route::ring}},
                                         Case{"ring3", {.ranks = 3, .route = Route::ring, .workers = 1}},
                                         Case{"ring4_counted", {.ranks = 4, .route = Route::ring, .counted = true}}),
                         [](const auto& example) { return std::string(example.param.name); });

TEST(CpuRanks, TilesMayUpdateWhatTheirCallerPutThere) {
  Plan plan = small_plan({.ranks = 2});
  for (std::string* source : {&plan.kernel.local_source, &plan.kernel.fused_source}) {
    const std::string store = "a * 2.0 + b[None, :]";
    source->replace(source->find(store), store.size(), store + " + tl.load(c_ptr + offsets)");
  }
  for (std::vector<Region>& held : plan.buffers[2].held) held = {Region::whole(plan.buffers[2].shape)};
  const RunReport report = run_on_cpu_ranks(plan, {.repeat = 3});
  ASSERT_EQ(report.outcome, Outcome::right) << report.message;
  EXPECT_NE(floats(report.last.inputs[0][2]), floats(report.last.outputs[0][2]));
}

TEST(CpuRanks, SameSeedSameRun) {
  const Plan plan = small_plan({.ranks = 3, .route = Route::ring});
  for (const bool adversary : {false, true}) {
    const RunOptions options{.seed = 11, .adversary = adversary, .repeat = 2, .inputs = InputKind::reals};
    const RunReport first = run_on_cpu_ranks(plan, options);
    const RunReport second = run_on_cpu_ranks(plan, options);
    ASSERT_EQ(first.outcome, Outcome::right) << first.message;
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_EQ(first.last.inputs, second.last.inputs);
    EXPECT_EQ(first.last.outputs, second.last.outputs);
  }
  std::vector<std::int64_t> steps;
  for (std::uint64_t seed = 0; seed < 5; ++seed) steps.push_back(run_on_cpu_ranks(plan, {.seed = seed}).steps);
  EXPECT_THAT(steps, testing::Contains(testing::Ne(steps.front()))) << "the seed changes the interleaving";
}

TEST(CpuRanks, RunsManyLaunches) {
  const RunReport report = run_on_cpu_ranks(small_plan({.ranks = 2}), {.repeat = 100});
  EXPECT_EQ(report.outcome, Outcome::right) << report.message;
  EXPECT_EQ(report.tiles, 100 * 2 * 4);
}

TEST(CpuRanks, ReportsProgressToTheEnd) {
  std::vector<std::int64_t> done;
  RunOptions options{.repeat = 2};
  options.progress = [&](std::int64_t tiles, std::int64_t all) {
    EXPECT_EQ(all, 2 * 2 * 4);
    done.push_back(tiles);
  };
  ASSERT_EQ(run_on_cpu_ranks(small_plan({.ranks = 2}), options).outcome, Outcome::right);
  ASSERT_FALSE(done.empty());
  EXPECT_EQ(done.back(), 16);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
}

TEST(CpuRanks, ProgressMayStopTheRun) {
  RunOptions options;
  options.progress = [](std::int64_t, std::int64_t) { throw std::runtime_error("enough"); };
  EXPECT_THROW(run_on_cpu_ranks(small_plan({.ranks = 2}), options), std::runtime_error);
}

TEST(CpuRanks, KernelThatCannotRunIsTheUsersMistake) {
  Plan plan = small_plan({.ranks = 2});
  plan.kernel.fused_source += "\n@triton.jit\ndef broken(:\n";
  try {
    run_on_cpu_ranks(plan, {});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.where().file, "fused.py");
    EXPECT_EQ(error.where().line, 39);
  }
  plan = small_plan({.ranks = 2});
  plan.kernel.fused_function = "scale_fast";
  try {
    run_on_cpu_ranks(plan, {});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("no function 'scale_fast'"));
  }
}

TEST(CpuRanks, UnfusedKernelRunsPersistentlyOrPerTile) {
  Plan plan = small_plan({.ranks = 2});
  const RunReport report = run_on_cpu_ranks(plan, {});
  ASSERT_EQ(report.outcome, Outcome::right) << report.message;
  const std::vector<Bytes> outputs = run_unfused(plan, 1, report.last.inputs[1]);
  EXPECT_EQ(outputs, report.last.outputs[1]);

  plan.kernel.persistent = true;
  plan.kernel.grid = {1};
  const std::string local = "block = tl.program_id(0)";
  std::string& source = plan.kernel.local_source;
  source.replace(source.find(local), local.size(), "for block in range(tl.program_id(0), 4, tl.num_programs(0)):");
  for (std::size_t at = source.find("    columns = "); at < source.size(); at = source.find('\n', at) + 1)
    source.insert(at, "    ");
  EXPECT_EQ(run_unfused(plan, 1, report.last.inputs[1]), outputs);
}

}  // namespace
}  // namespace syncopate
