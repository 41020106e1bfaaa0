// Operators of the C interface on a GPU on which everything happens at once: what they stand on, until the last of them
// goes.
#include "syncopate/capi/operator.h"

#include <gtest/gtest.h>

#include "instant_gpu.h"
#include "syncopate/driver/driver.h"

namespace syncopate::capi {
namespace {

using cuda::Context;
using cuda::DevicePointer;
using cuda::Driver;
using cuda::Result;

const auto kCallers = reinterpret_cast<Context>(0x77);
Context current = nullptr;
int calls_too_late = 0;

/// A driver in the test's hands: a call after its last owner has gone is counted, where else it might crash.
class WatchedDriver {
 public:
  WatchedDriver() : driver_(*machine_.driver()) {
    current = kCallers;
    calls_too_late = 0;
    driver_.context_get_current = [](Context* context) -> Result { return *context = current, cuda::kSuccess; };
    driver_.context_set_current = [](Context context) -> Result { return current = context, cuda::kSuccess; };
  }

  std::shared_ptr<const Driver> share() {
    return {&driver_, [this](const Driver*) {
              gone_ = true;
              driver_.context_get_current = [](Context*) -> Result { return ++calls_too_late, cuda::kSuccess; };
              driver_.context_set_current = [](Context) -> Result { return ++calls_too_late, cuda::kSuccess; };
              driver_.memory_free = [](DevicePointer) -> Result { return ++calls_too_late, cuda::kSuccess; };
              driver_.stream_destroy = [](cuda::Stream) -> Result { return ++calls_too_late, cuda::kSuccess; };
            }};
  }
  bool gone() const { return gone_; }
  int freed() const { return machine_.freed(); }

 private:
  cuda::InstantGpu machine_;
  Driver driver_;
  bool gone_ = false;
};

/// Rank 0 of two; nobody but it owns the driver when it has been made.
syncopate_operator* made_with(WatchedDriver& watched) {
  const auto plan = std::make_shared<const Plan>(
      compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm.toml", {{"ranks", "2"}, {"kernel.args.M", "256"}}));
  cuda::CompiledKernel kernel;
  kernel.name = "stand_in";
  kernel.warps = 4;
  for (const cuda::ParameterType& type : signature_of(*plan, cuda::KernelText::fused))
    if (type.type != "constexpr") kernel.parameters.push_back(type.name);
  cuda::RankOptions options;
  options.ranks_on_this_gpu = 2;
  options.graph = false;
  options.compiled = std::make_shared<const cuda::CompiledKernel>(kernel);
  syncopate_operator_options asked;
  syncopate_operator_options_init(&asked);
  asked.ranks_on_device = 2;
  return new_operator(plan, watched.share(), asked, options);
}

TEST(LastOwnerOfTheDriver, MayBeAnOperator) {
  WatchedDriver watched;
  syncopate_operator* op = made_with(watched);
  EXPECT_FALSE(watched.gone());
  EXPECT_EQ(current, kCallers);
  const int freed = watched.freed();
  syncopate_operator_destroy(op);
  EXPECT_GT(watched.freed(), freed);
  EXPECT_TRUE(watched.gone()) << "somebody still owns it";
  EXPECT_EQ(calls_too_late, 0);
  EXPECT_EQ(current, kCallers) << "the caller's context is kept";
}

TEST(LastOwnerOfTheDriver, MayBeAView) {
  WatchedDriver watched;
  syncopate_operator* op = made_with(watched);
  DLManagedTensor* first = nullptr;
  DLManagedTensor* last = nullptr;
  ASSERT_EQ(syncopate_operator_view(op, "a", SYNCOPATE_SHARD, &first, nullptr), SYNCOPATE_OK);
  ASSERT_EQ(syncopate_operator_view(op, "c", SYNCOPATE_OUTPUT, &last, nullptr), SYNCOPATE_OK);
  const int freed = watched.freed();
  syncopate_operator_destroy(op);
  first->deleter(first);
  EXPECT_EQ(watched.freed(), freed) << "the other view shares all of it";
  EXPECT_FALSE(watched.gone());
  last->deleter(last);
  EXPECT_GT(watched.freed(), freed);
  EXPECT_TRUE(watched.gone()) << "somebody still owns it";
  EXPECT_EQ(calls_too_late, 0);
  EXPECT_EQ(current, kCallers) << "the caller's context is kept";
}

}  // namespace
}  // namespace syncopate::capi
