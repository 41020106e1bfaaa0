// Profiles taken on a simulated GPU, whose steps take a microsecond each, and what is written of them.
#include "syncopate/cuda/profile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_plans.h"
#include "stand_in.h"
#include "syncopate/core/json.h"
#include "syncopate/cuda/device_code.h"
#include "syncopate/cuda/signature.h"
#include "syncopate/kernel/runtime_names.h"

namespace syncopate::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kLocalSteps = 50;

/// A machine with all that a profile launches.
struct Machine {
  explicit Machine(Plan the_plan, std::uint64_t seed) : plan(std::move(the_plan)), gpu(seed), random(seed) {
    name_stand_in(plan);
    define_small_kernels(gpu);
    parts.open_gpus = [this] {
      std::vector<std::unique_ptr<Gpu>> gpus;
      gpus.push_back(std::make_unique<Gpu>(gpu.driver(), 0));
      return gpus;
    };
    // Inputs are numbers here, not the names of launches that the stand-in expects.
    parts.fused = define_stand_in(gpu, {&plan, &random, [](const std::string&) {}});
    auto local = std::make_shared<CompiledKernel>();
    local->name = "local";
    local->warps = 4;
    for (const ParameterType& type : signature_of(plan, KernelText::local))
      if (type.type != "constexpr") local->parameters.push_back(type.name);
    gpu.define("local", local->parameters.size() + 2, [](const std::vector<std::uint64_t>&) {
      return [left = kLocalSteps]() mutable { return --left > 0 ? Progress::some : Progress::done; };
    });
    parts.local = local;
    options.share = true;
    options.samples = 3;
    options.launches = 4;
  }

  Plan plan;
  SimulatedGpu gpu;
  Random random;
  ProfileParts parts;
  GpuProfileOptions options;
};

TEST(Profile, EveryTimeIsTakenAsOftenAsAsked) {
  for (const bool reduced : {false, true}) {
    for (const char* initiator : {"push", "pull"}) {
      for (const int ranks : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{} {} {} ranks", reduced ? "reduce" : "gather", initiator, ranks));
        Machine machine(reduced ? small_reduce("ring", initiator, ranks) : small_gather("ring", initiator, ranks), 1);
        std::vector<std::int64_t> seen;
        machine.options.progress = [&](std::int64_t done, std::int64_t all) {
          EXPECT_EQ(all, 3);
          seen.push_back(done);
        };
        const GpuProfile profile = cuda::profile(machine.plan, machine.options, machine.parts);
        EXPECT_EQ(profile.failure, "");
        EXPECT_THAT(seen, ::testing::ElementsAre(1, 2, 3));
        EXPECT_EQ(profile.device, "simulated");
        // One sample of each is not counted. Two launches of each sample on the GPU are not measured, and 8 calls make
        // a sample on the host.
        const int timed = 4 * (2 + 4) * ranks;
        const int called = 4 * 8 * ranks;
        EXPECT_EQ(machine.gpu.graphs_launched, 2 * timed + called) << "fused, transfers, calls";
        EXPECT_EQ(machine.gpu.kernels_started["stand_in"], 2 * timed + 2 * called) << "fused, compute, both calls";
        EXPECT_EQ(machine.gpu.kernels_started["local"], timed);
        EXPECT_EQ(machine.gpu.kernels_started[kDelayKernel], 4 * 4 * ranks);
      }
    }
  }
}

TEST(Profile, TimesAreOfWhatTheySay) {
  Machine machine(small_reduce("direct", "push", 2), 7);
  const GpuProfile profile = cuda::profile(machine.plan, machine.options, machine.parts);
  ASSERT_EQ(profile.ranks.size(), 2U);
  for (const LaunchTimes& times : profile.ranks) {
    // All ranks share one clock: a step of any rank is a microsecond for all. The first and the last launch of a rank
    // may stand alone.
    EXPECT_GT(times.local, kLocalSteps);
    EXPECT_LT(times.local, 2.5 * kLocalSteps);
    EXPECT_GT(times.fused, times.compute);
    EXPECT_GT(times.fused, times.transfers);
    EXPECT_GT(times.compute, 2 * 5 * 4) << "five steps for each tile";
    EXPECT_GT(times.transfers, 0);
    EXPECT_GT(times.call, 0);
    EXPECT_GT(times.call_without_graph, times.call);
    EXPECT_LE(times.fused, profile.all.fused);
    EXPECT_LE(times.call, profile.all.call);
  }
}

TEST(Profile, AWaitThatIsMissedIsTold) {
  Machine machine(small_gather("direct", "push", 2), 7);
  std::size_t record = 0;
  while (machine.parts.fused->parameters[record] != runtime_parameter::kRecord) ++record;
  // A kernel that waits until it is let go.
  machine.gpu.define("stand_in", machine.parts.fused->parameters.size() + 2,
                     [record](const std::vector<std::uint64_t>& arguments) {
                       const auto* gone = reinterpret_cast<const std::int64_t*>(arguments[record]);
                       return [gone] { return *gone != 0 ? Progress::done : Progress::none; };
                     });
  machine.options.time_limit = 0.01;
  const GpuProfile profile = cuda::profile(machine.plan, machine.options, machine.parts);
  EXPECT_THAT(profile.failure, HasSubstr("did not end within 0.51 s"));
  EXPECT_THAT(profile.ranks, IsEmpty());
}

GpuProfile example() {
  GpuProfile profile;
  profile.device = "NVIDIA H200";
  profile.shared = true;
  profile.samples = 11;
  profile.launches = 20;
  profile.ranks = {
      {.fused = 200, .compute = 150, .transfers = 80, .local = 120, .call = 9.5, .call_without_graph = 30.25},
      {.fused = 210, .compute = 160, .transfers = 70, .local = 125, .call = 9, .call_without_graph = 31}};
  profile.all = {.fused = 210, .compute = 160, .transfers = 80, .local = 125, .call = 9.5, .call_without_graph = 31};
  return profile;
}

TEST(ProfileReport, IsATable) {
  const std::string text = to_text(small_gather("direct", "push", 2), example());
  EXPECT_THAT(text,
              HasSubstr("ag_gemm_pointers on 2 ranks: microseconds a launch, medians of 11 samples of 20 launches, "
                        "NVIDIA H200 shared by 2 ranks\n"));
  EXPECT_THAT(
      text,
      HasSubstr("  rank     fused   compute transfers     local            exposed  waiting     call    by ops\n"
                "     0     200.0     150.0      80.0     120.0      50.0    25.0%    1.250      9.5      30.2\n"));
  EXPECT_THAT(
      text,
      HasSubstr("\n   all     210.0     160.0      80.0     125.0      50.0    23.8%    1.280      9.5      31.0\n"));
  EXPECT_THAT(text, HasSubstr("on 8 thread blocks (one for each tile)\n"));
}

TEST(ProfileReport, IsJson) {
  const Plan plan = small_gather("direct", "push", 2);
  const SourceFile file("profile.json", to_json(plan, example()));
  const Json json = parse_json(file);
  EXPECT_EQ(json.find("operator")->string(), "ag_gemm_pointers");
  EXPECT_EQ(json.find("device")->string(), "NVIDIA H200");
  EXPECT_TRUE(json.find("shared")->boolean());
  EXPECT_EQ(json.find("workers")->integer(), 3);
  ASSERT_EQ(json.find("ranks")->items().size(), 2U);
  const Json& first = json.find("ranks")->items()[0];
  EXPECT_EQ(first.find("fused")->number(), 200);
  EXPECT_EQ(first.find("exposed")->number(), 50);
  EXPECT_EQ(first.find("call_without_graph")->number(), 30.25);
  EXPECT_EQ(json.find("all")->find("fused")->number(), 210);
}

}  // namespace
}  // namespace syncopate::cuda
