// Plans on a real GPU, all ranks sharing it, and on two where there are two. Skipped where there is none.
#include "syncopate/cuda/gpu.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "repository.h"
#include "syncopate/core/error.h"
#include "syncopate/core/files.h"
#include "syncopate/cuda/doctor.h"
#include "syncopate/cuda/driver.h"
#include "syncopate/cuda/peer_group.h"
#include "syncopate/cuda/profile.h"
#include "syncopate/cuda/run.h"
#include "syncopate/cuda/watch.h"
#include "syncopate/driver/driver.h"
#include "tests/support/in_place_kernels.h"
#include "tests/support/temporary_folder.h"

namespace syncopate::cuda {
namespace {

using ::testing::HasSubstr;

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      // It keeps the GPU's context alive: making a new one for each run takes most of the time.
      static const Gpu keeper(Driver::load(), 0);
    } catch (const UserError& error) {
      GTEST_SKIP() << error.what();
    }
    options_.share = true;
    // One folder for all tests of the process: kernels are compiled once.
    options_.compile.cache = ::testing::TempDir() + "syncopate-gpu-test-cache";
  }

  static Plan plan(const std::vector<Override>& overrides, const std::string& file = "ag_gemm.toml") {
    return compile_operator(testing::operator_file(file), overrides);
  }

  GpuRunOptions options_;
};

struct Shape {
  const char* file;
  const char* tensor;
};
constexpr Shape kOperators[] = {{"ag_gemm.toml", "a"},
                                {"ag_gemm_pointers.toml", "a"},
                                {"ag_gemm_split_helper.toml", "x"},
                                {"gemm_rs.toml", "c"},
                                {"gemm_rs_pointers.toml", "c"}};

TEST_F(OnGpu, EveryOperatorByEveryAlgorithmIsBitwiseEqualToTheUnfusedOne) {
  for (const Shape& shape : kOperators) {
    for (const char* algorithm : {"direct", "ring", "bidirectional_ring"}) {
      for (const char* initiator : {"push", "pull"}) {
        for (const char* ranks : {"2", "3", "4", "8"}) {
          SCOPED_TRACE(fmt::format("{} {} {} {} ranks", shape.file, algorithm, initiator, ranks));
          const std::string communicate = fmt::format("communicate.{}.", shape.tensor);
          const Plan made =
              plan({{"ranks", ranks}, {communicate + "algorithm", algorithm}, {communicate + "initiator", initiator}},
                   shape.file);
          options_.repeat = 3;
          const GpuRunReport report = run_on_gpu(made, options_);
          EXPECT_EQ(report.outcome, GpuOutcome::right) << report.message;
          EXPECT_EQ(report.launches, 3);
        }
      }
    }
  }
}

TEST_F(OnGpu, LaunchesRunBackToBackWithChangingInputsHeldUpByChance) {
  struct Case {
    Shape shape;
    const char* ranks;
    const char* algorithm;
    const char* initiator;
    int launches;
    bool in_place = false;
  };
  constexpr Shape kGather{"ag_gemm.toml", "a"};
  constexpr Shape kScatter{"gemm_rs.toml", "c"};
  constexpr Shape kReduce{"gemm_ar.toml", "c"};
  constexpr Case kCases[] = {
      {kGather, "4", "direct", "push", 500},         {kGather, "4", "direct", "pull", 500},
      {kScatter, "4", "direct", "push", 500},        {kScatter, "4", "direct", "pull", 500},
      {kScatter, "2", "direct", "push", 1000, true}, {kScatter, "2", "direct", "pull", 250, true},
      {kScatter, "4", "ring", "push", 250, true},    {kScatter, "4", "ring", "pull", 250, true},
      {kReduce, "4", "ring", "push", 250, true},     {kReduce, "4", "one_shot", "push", 500},
      {kReduce, "4", "one_shot", "pull", 250},       {kReduce, "2", "one_shot", "push", 250}};
  for (const Case& each : kCases) {
    SCOPED_TRACE(fmt::format("{} {} ranks {} {}", each.shape.file, each.ranks, each.algorithm, each.initiator));
    const std::string communicate = fmt::format("communicate.{}.", each.shape.tensor);
    const Plan made = plan({{"ranks", each.ranks},
                            {communicate + "algorithm", each.algorithm},
                            {communicate + "initiator", each.initiator}},
                           each.shape.file);
    ASSERT_EQ(sums_in_place(made), each.in_place);
    options_.repeat = each.launches;
    options_.inputs = InputKind::reals;
    options_.longest_delay = 200e-6;
    const GpuRunReport report = run_on_gpu(made, options_);
    EXPECT_EQ(report.outcome, GpuOutcome::right) << report.message;
    EXPECT_EQ(report.launches, each.launches);
    EXPECT_GE(report.launches_at_a_stretch, 100);
  }
}

/// Workers choose among tiles, whatever comes late; each tile is computed once.
TEST_F(OnGpu, ADynamicOrderIsRightHoweverTransfersAreHeldUp) {
  struct Case {
    const char* file;
    std::vector<Override> more;
  };
  const Case cases[] = {{"ag_gemm.toml", {}},
                        {"ag_gemm.toml", {{"communicate.a.algorithm", "ring"}}},
                        {"ag_gemm.toml", {{"launch.lookahead", "3"}}},
                        {"ag_gemm_pointers.toml", {{"communicate.a.initiator", "pull"}}},
                        {"ag_gemm_split_helper.toml", {}},
                        {"a2a_gemm.toml", {}},
                        {"gemm_a2a.toml", {}},
                        {"ag_grouped_gemm.toml", {}},
                        {"gemm_rs.toml", {}},
                        {"gemm_rs.toml", {{"communicate.c.algorithm", "ring"}}},
                        {"gemm_ar.toml", {}},
                        // Many more tiles than workers look at together.
                        {"ag_gemm.toml", {{"kernel.args.M", "8192"}, {"kernel.args.N", "2048"}}}};
  options_.longest_delay = 200e-6;
  options_.repeat = 100;
  options_.inputs = InputKind::reals;
  bool more_ranks = false;
  for (const Case& each : cases) {
    more_ranks = !more_ranks;
    std::vector<Override> overrides = {{"ranks", more_ranks ? "4" : "2"}, {"launch.order", "dynamic"}};
    overrides.insert(overrides.end(), each.more.begin(), each.more.end());
    const Plan made = plan(overrides, each.file);
    SCOPED_TRACE(fmt::format("{} {} ranks, {}", each.file, made.ranks, made.communication));
    const GpuRunReport report = run_on_gpu(made, options_);
    EXPECT_EQ(report.outcome, GpuOutcome::right) << report.message;
    EXPECT_EQ(report.launches, options_.repeat);
  }
}

/// Memory adds what the unfused operator adds in fp32: subnormal numbers count, and no sum is -0. A control, whose
/// fused kernel adds something else, must be found wrong: else the inputs did not show it.
TEST_F(OnGpu, SumsInPlaceHaveSubnormalNumbersAndNoNegativeZeros) {
  struct Case {
    const char* dtype;
    const char* factors;
    const char* control;
  };
  constexpr Case kCases[] = {{"bf16", testing::kIntoSubnormalBf16, testing::kNothing},
                             {"fp16", testing::kIntoSubnormalFp16, testing::kNothing},
                             {"bf16", testing::kIntoZeros, testing::kAsItIs},
                             {"fp16", testing::kIntoZeros, testing::kAsItIs}};
  const std::string kernel = read_file(testing::operator_file("../kernels/gemm.py"));
  const testing::TemporaryFolder folder;
  options_.repeat = 20;
  options_.inputs = InputKind::reals;
  for (const Case& each : kCases) {
    SCOPED_TRACE(fmt::format("{} {}", each.dtype, each.factors));
    const std::string file = folder.write("gemm.py", testing::scaled_gemm(kernel, each.factors));
    Plan made = plan({{"ranks", "2"}, {"kernel.file", file}, {"tensors.c.dtype", each.dtype}}, "gemm_rs.toml");
    ASSERT_TRUE(sums_in_place(made));
    const GpuRunReport report = run_on_gpu(made, options_);
    EXPECT_EQ(report.outcome, GpuOutcome::right) << report.message;
    testing::add_instead(made, each.control);
    EXPECT_EQ(run_on_gpu(made, options_).outcome, GpuOutcome::wrong_result);
  }
}

TEST_F(OnGpu, StagingMemoryThatIsReusedInsideALaunchIsFree) {
  for (const char* ranks : {"3", "4"}) {
    options_.repeat = 200;
    options_.longest_delay = 100e-6;
    const GpuRunReport report = run_on_gpu(plan({{"ranks", ranks},
                                                 {"communicate.c.split", "4"},
                                                 {"communicate.c.memory_budget", "\"288 KiB\""},
                                                 {"kernel.args.M", "1536"}},
                                                "gemm_rs.toml"),
                                           options_);
    EXPECT_EQ(report.outcome, GpuOutcome::right) << report.message;
  }
}

TEST_F(OnGpu, GraphsOfOursAndOfTheCallersReplayEveryLaunch) {
  for (const GpuIssue issue : {GpuIssue::graph, GpuIssue::captured}) {
    for (const Shape& shape : {Shape{"ag_gemm.toml", "a"}, Shape{"gemm_rs.toml", "c"}}) {
      for (const char* initiator : {"push", "pull"}) {
        SCOPED_TRACE(fmt::format("issue {} {} {}", static_cast<int>(issue), shape.file, initiator));
        options_.issue = issue;
        options_.repeat = 100;
        options_.inputs = InputKind::reals;
        options_.longest_delay = 200e-6;
        const GpuRunReport report = run_on_gpu(
            plan({{"ranks", "2"}, {fmt::format("communicate.{}.initiator", shape.tensor), initiator}}, shape.file),
            options_);
        EXPECT_EQ(report.outcome, GpuOutcome::right) << report.message;
        EXPECT_EQ(report.launches, 100);
      }
    }
  }
}

TEST_F(OnGpu, AProfileHasItsTimes) {
  for (const Shape& shape : {Shape{"ag_gemm.toml", "a"}, Shape{"gemm_rs.toml", "c"}}) {
    SCOPED_TRACE(shape.file);
    GpuProfileOptions asked;
    asked.share = true;
    asked.compile = options_.compile;
    asked.samples = 3;
    const GpuProfile profile = profile_on_gpu(plan({{"ranks", "2"},
                                                    {"kernel.args.M", "4096"},
                                                    {"kernel.args.N", "2048"},
                                                    {"kernel.args.K", "2048"},
                                                    {"launch.workers", "64"}},
                                                   shape.file),
                                              asked);
    ASSERT_EQ(profile.failure, "");
    ASSERT_EQ(profile.ranks.size(), 2U);
    for (const LaunchTimes& times : profile.ranks) {
      // Wide bounds: what is wrong by a unit, or not measured, is out of them.
      EXPECT_GT(times.local, 20);
      EXPECT_LT(times.local, 2000);
      EXPECT_GT(times.compute, 0.8 * times.local);
      EXPECT_LT(times.compute, 2 * times.local);
      EXPECT_GT(times.fused, 0.8 * times.compute);
      EXPECT_GT(times.transfers, 1);
      EXPECT_GT(times.call, 0.5);
      EXPECT_LT(times.call, 1000);
      EXPECT_GT(times.call_without_graph, 1);
    }
  }
}

TEST_F(OnGpu, AWithheldTransferIsDiagnosedInTime) {
  struct Case {
    Shape shape;
    const char* algorithm;
    GpuIssue issue;
    const char* ranks = "4";
  };
  constexpr Case kCases[] = {
      {{"ag_gemm.toml", "a"}, "direct", GpuIssue::steps}, {{"ag_gemm.toml", "a"}, "ring", GpuIssue::steps},
      {{"ag_gemm.toml", "a"}, "direct", GpuIssue::graph}, {{"gemm_rs.toml", "c"}, "direct", GpuIssue::steps},
      {{"gemm_rs.toml", "c"}, "ring", GpuIssue::steps},   {{"gemm_rs.toml", "c"}, "direct", GpuIssue::steps, "2"}};
  for (const Case& each : kCases) {
    SCOPED_TRACE(fmt::format("{} {} ranks {} issue {}", each.shape.file, each.ranks, each.algorithm,
                             static_cast<int>(each.issue)));
    const Plan made =
        plan({{"ranks", each.ranks}, {fmt::format("communicate.{}.algorithm", each.shape.tensor), each.algorithm}},
             each.shape.file);
    options_.issue = each.issue;
    options_.repeat = 1;
    ASSERT_EQ(run_on_gpu(made, options_).outcome, GpuOutcome::right);  // kernels are in the cache now
    options_.repeat = 4;
    options_.time_limit = 0.2;
    options_.withheld = WithheldTransfer{.rank = 1, .queue = 0, .transfer = 1, .launch = 3};
    std::chrono::steady_clock::time_point given;
    options_.progress = [&](std::int64_t, std::int64_t) { given = std::chrono::steady_clock::now(); };
    const GpuRunReport report = run_on_gpu(made, options_);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - given;
    EXPECT_EQ(report.outcome, GpuOutcome::missed_wait);
    EXPECT_THAT(report.message, HasSubstr("tile ("));
    EXPECT_THAT(report.message, HasSubstr(fmt::format("in launch 3 waited 0.2 s for '{}", each.shape.tensor)));
    EXPECT_THAT(report.message, HasSubstr("the transfer from rank 1 to rank"));
    EXPECT_THAT(report.message, HasSubstr("expected 3, seen 2"));
    EXPECT_LT(took.count(), 1.2) << "a second after the limit";
    options_.withheld.reset();
    options_.progress = {};
    options_.time_limit = 10;
    EXPECT_EQ(run_on_gpu(made, options_).outcome, GpuOutcome::right) << "the GPU is usable afterwards";
  }
}

/// Two ranks that pull one chunk each. Rank 0's completion waits until rank 1 has pulled from it; no tile does.
Plan pulling() {
  return compile_operator(testing::operator_file("ag_gemm.toml"),
                          {{"ranks", "2"}, {"communicate.a.initiator", "pull"}, {"communicate.a.split", "1"}});
}

TEST_F(OnGpu, AStreamThatWaitsForWhatNeverComesIsDiagnosed) {
  Plan made = pulling();
  for (Slot& slot : made.programs[1].slots) slot.waits.clear();
  options_.repeat = 2;
  options_.time_limit = 0.2;
  options_.withheld = WithheldTransfer{.rank = 1, .queue = 0, .transfer = 0, .launch = 2};
  const GpuRunReport report = run_on_gpu(made, options_);
  EXPECT_EQ(report.outcome, GpuOutcome::missed_wait);
  EXPECT_THAT(report.message, HasSubstr("rank 0: the completion in launch 2 waited 0.2 s for 'peers done"));
  EXPECT_THAT(report.message, HasSubstr("expected 2, seen 1"));
}

TEST_F(OnGpu, APlanThatBlocksIsAnErrorBeforeAnythingRuns) {
  Plan made = pulling();
  std::erase(made.programs[1].queues[0].transfers[0].signals, made.programs[0].completion_waits.at(0).signal);
  EXPECT_THROW(run_on_gpu(made, options_), UserError);
}

TEST_F(OnGpu, MoreWorkersThanFitIsAnErrorThatSaysHowMany) {
  // As many workers as tiles, 32, on each of 8 ranks.
  const Plan made = plan({{"ranks", "8"}, {"launch.workers", "32"}});
  try {
    run_on_gpu(made, options_);
    FAIL() << "256 workers fitted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("32 workers a rank, but the GPU's 132 SMs have room for 16 of each"));
    EXPECT_THAT(error.remedy(), HasSubstr("--set launch.workers="));
  }
}

TEST_F(OnGpu, OneGpuEachNeedsAsManyGpus) {
  const auto driver = Driver::load();
  options_.share = false;
  const Plan made = plan({{"ranks", "16"}, {"kernel.args.M", "2048"}});
  if (driver->count() >= 16) GTEST_SKIP() << "this machine has 16 GPUs";
  try {
    run_on_gpu(made, options_);
    FAIL() << "16 ranks ran";
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("16 ranks"));
    EXPECT_THAT(error.remedy(), HasSubstr("--share"));
  }
}

TEST_F(OnGpu, RanksOnGpusOfTheirOwn) {
  const auto driver = Driver::load();
  if (driver->count() < 2) GTEST_SKIP() << "needs two GPUs";
  options_.share = false;
  options_.repeat = 50;
  options_.longest_delay = 100e-6;
  for (const GpuIssue issue : {GpuIssue::steps, GpuIssue::graph, GpuIssue::captured}) {
    for (const Shape& shape : kOperators) {
      for (const char* initiator : {"push", "pull"}) {
        SCOPED_TRACE(fmt::format("issue {} {} {}", static_cast<int>(issue), shape.file, initiator));
        options_.issue = issue;
        const GpuRunReport report = run_on_gpu(
            plan({{"ranks", "2"}, {fmt::format("communicate.{}.initiator", shape.tensor), initiator}}, shape.file),
            options_);
        EXPECT_EQ(report.outcome, GpuOutcome::right) << report.message;
      }
    }
  }
}

TEST_F(OnGpu, LaunchesRunBackToBackOnGpusOfTheirOwnHeldUpByChance) {
  const auto driver = Driver::load();
  if (driver->count() < 2) GTEST_SKIP() << "needs two GPUs";
  options_.share = false;
  options_.repeat = 1000;
  options_.inputs = InputKind::reals;
  options_.longest_delay = 200e-6;
  for (const Shape& shape : {Shape{"ag_gemm.toml", "a"}, Shape{"gemm_rs.toml", "c"}}) {
    for (const char* initiator : {"push", "pull"}) {
      SCOPED_TRACE(fmt::format("{} {}", shape.file, initiator));
      const Plan made =
          plan({{"ranks", "2"}, {fmt::format("communicate.{}.initiator", shape.tensor), initiator}}, shape.file);
      const GpuRunReport report = run_on_gpu(made, options_);
      EXPECT_EQ(report.outcome, GpuOutcome::right) << report.message;
      EXPECT_EQ(report.launches, 1000);
    }
  }
}

TEST_F(OnGpu, DoctorSaysWhatRunsHere) {
  const auto driver = Driver::load();
  const std::string report = doctor({});
  EXPECT_THAT(report, HasSubstr("run --on gpu --share, profile --share: all ranks on GPU 0"));
  EXPECT_THAT(report, HasSubstr(" copy engines, 64-bit stream memory operations: yes"));
  if (driver->count() < 2) return;
  EXPECT_THAT(report,
              HasSubstr(driver->attribute(PeerAttribute::native_atomics, 0, 1) != 0 ? "peer access, with native atomics"
                                                                                    : "without native atomics"));
}

std::atomic<int> copies_until_failure = -1;
Result (*real_copy)(DevicePointer, DevicePointer, std::size_t, Stream) = nullptr;

/// The driver of this machine, which fails once, at the copy before which it makes `copies_until_failure`.
std::shared_ptr<const Driver> failing_driver() {
  auto driver = std::make_shared<Driver>(*Driver::load());
  real_copy = driver->copy_async;
  driver->copy_async = [](DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream) -> Result {
    if (copies_until_failure >= 0 && copies_until_failure-- == 0) return 999;
    return real_copy(to, from, bytes, stream);
  };
  return driver;
}

TEST_F(OnGpu, ALaunchThatCouldOnlyBeGivenInPartIsLetGo) {
  for (const Shape& shape : {Shape{"ag_gemm.toml", "a"}, Shape{"gemm_rs.toml", "c"}}) {
    for (int copies = 0; copies < 4; ++copies) {
      SCOPED_TRACE(fmt::format("{}, {} copies", shape.file, copies));
      const Plan made = plan({{"ranks", "2"}}, shape.file);
      {
        std::vector<std::unique_ptr<Gpu>> gpus;
        gpus.push_back(std::make_unique<Gpu>(failing_driver(), 0));
        Ranks ranks(made, options_, std::move(gpus), nullptr);
        Watch watch(ranks);
        const auto begin = std::chrono::steady_clock::now();
        const auto give = [&] {
          ranks.rank(0).call_without_graph(ranks.stream(0));
          copies_until_failure = copies;
          ranks.rank(1).call_without_graph(ranks.stream(1));
        };
        EXPECT_THROW(watch.giving(give), UserError);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        EXPECT_LT(took.count(), 2) << "the time limit is 10 s";
      }
      options_.repeat = 3;
      EXPECT_EQ(run_on_gpu(made, options_).outcome, GpuOutcome::right) << "the GPU is usable afterwards";
    }
  }
}

TEST_F(OnGpu, RanksOfOneProcessPartOneAfterTheOther) {
  for (const Shape& shape : {Shape{"ag_gemm.toml", "a"}, Shape{"gemm_rs.toml", "c"}}) {
    SCOPED_TRACE(shape.file);
    const Plan made = plan({{"ranks", "2"}}, shape.file);
    Gpu gpu(Driver::load(), 0);
    RankOptions each;
    each.ranks_on_this_gpu = each.watching_streams = 2;
    each.compile = options_.compile;
    std::vector<std::unique_ptr<RankOnGpu>> ranks;
    std::vector<std::unique_ptr<PeerGroup>> groups;
    std::vector<std::string> handles;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.push_back(std::make_unique<RankOnGpu>(made, rank, gpu, each));
      ranks.back()->allocate_unbound();
      groups.push_back(std::make_unique<PeerGroup>(*ranks.back(), 2));
      handles.push_back(groups.back()->handle());
    }
    for (const auto& group : groups) group->connect(handles);
    const Stream streams[] = {gpu.make_stream(false), gpu.make_stream(false)};
    for (int call = 0; call < 200; ++call) {
      if (call == 100) ranks[1]->delay(streams[1], 500'000'000);  // rank 1 is far behind when rank 0 is called last
      for (std::size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(groups[rank]->call(streams[rank]), std::nullopt);
    }
    groups[0]->leave();
    EXPECT_EQ(groups[1]->synchronize(), std::nullopt);
    EXPECT_EQ(groups[1]->call(streams[1]), "rank 0 has closed its operator before call 201, which rank 1 makes");
    groups[1]->leave();
  }
}

}  // namespace
}  // namespace syncopate::cuda
