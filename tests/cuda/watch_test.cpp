// How long all ranks of a process are waited for, on a simulated GPU whose kernels take real time.
#include "syncopate/cuda/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "small_plans.h"
#include "stand_in.h"
#include "syncopate/core/error.h"
#include "syncopate/kernel/runtime_names.h"

namespace syncopate::cuda {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

/// One rank whose kernel only takes time: launch i that of `takes[i]`, or, past the end, until it is let go.
class Watching : public ::testing::Test {
 protected:
  Watching() : plan_(small_gather("direct", "push", 1)) {
    name_stand_in(plan_);
    define_small_kernels(gpu_);
    compiled_ = define_stand_in(gpu_, {&plan_, &random_, [](const std::string&) {}});
    options_.share = true;
    options_.time_limit = 0.1;  // and half a second of patience
  }

  std::optional<std::string> await(std::vector<std::chrono::milliseconds> takes, int launches) {
    std::size_t record = 0;
    while (compiled_->parameters[record] != runtime_parameter::kRecord) ++record;
    gpu_.define("stand_in", compiled_->parameters.size() + 2,
                [record, takes = std::move(takes),
                 next = std::size_t{0}](const std::vector<std::uint64_t>& arguments) mutable -> Work {
                  const auto* gone = reinterpret_cast<const std::int64_t*>(arguments[record]);
                  const bool ends = next < takes.size();
                  const Clock::time_point end = Clock::now() + (ends ? takes[next] : std::chrono::milliseconds(0));
                  ++next;
                  return [=] { return *gone != 0 || (ends && Clock::now() >= end) ? Progress::done : Progress::none; };
                });
    std::vector<std::unique_ptr<Gpu>> gpus;
    gpus.push_back(std::make_unique<Gpu>(gpu_.driver(), 0));
    Ranks ranks(plan_, options_, std::move(gpus), compiled_);
    Watch watch(ranks);
    for (int launch = 0; launch < launches; ++launch) ranks.rank(0).call(ranks.stream(0));
    ranks.record_completed(launches);
    const Clock::time_point begin = Clock::now();
    std::optional<std::string> missed = watch.await(launches);
    took_ = Clock::now() - begin;
    return missed;
  }

  Plan plan_;
  SimulatedGpu gpu_{1};
  Random random_{1};
  std::shared_ptr<const CompiledKernel> compiled_;
  GpuRunOptions options_;
  std::chrono::duration<double> took_{};
};

TEST_F(Watching, ManyLaunchesMayTakeLongerThanOne) {
  const std::vector each(6, std::chrono::milliseconds(200));
  EXPECT_EQ(await(each, 6), std::nullopt);
  EXPECT_GT(took_.count(), 1.15) << "twice the limit, so the test says nothing";
}

TEST_F(Watching, ALaunchThatDoesNotEndIsToldWhateverEndedBeforeIt) {
  const std::vector each(3, std::chrono::milliseconds(200));
  const std::optional<std::string> missed = await(each, 5);
  ASSERT_TRUE(missed.has_value());
  EXPECT_THAT(*missed, HasSubstr("launch 5 did not end within 0.6 s"));
  EXPECT_GT(took_.count(), 1.15) << "it counts from the last that ended";
}

TEST(Watch, WhatCouldNotBeGivenWholeIsLetGoBeforeTheFailureGoesOn) {
  Plan plan = small_gather("direct", "push", 2);
  name_stand_in(plan);
  SimulatedGpu machine(3);
  Random random(3);
  define_small_kernels(machine);
  const auto compiled = define_stand_in(machine, {&plan, &random, [](const std::string&) {}});
  GpuRunOptions options;
  options.share = true;
  options.issue = GpuIssue::steps;
  for (int operations = 0; operations < 7; ++operations) {
    SCOPED_TRACE(operations);
    std::vector<std::unique_ptr<Gpu>> gpus;
    gpus.push_back(std::make_unique<Gpu>(machine.driver(), 0));
    Ranks ranks(plan, options, std::move(gpus), compiled);
    Watch watch(ranks);
    const auto give = [&] {
      ranks.rank(0).call_without_graph(ranks.stream(0));
      machine.operations_until_failure = operations;
      ranks.rank(1).call_without_graph(ranks.stream(1));
    };
    EXPECT_THROW(watch.giving(give), UserError);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(machine.driver()->stream_query(ranks.stream(rank)), kSuccess);
      EXPECT_TRUE(ranks.rank(rank).queues_ended());
    }
    // What let the launch go may not all have been looked at: it must be before its memory goes, as on a real GPU.
    EXPECT_TRUE(machine.run());
  }
}

}  // namespace
}  // namespace syncopate::cuda
