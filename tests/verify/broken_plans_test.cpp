// Whatever a plan says, verify answers: with numbers that make no sense it says so, and never reads out of bounds (the
// sanitizers watch).
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "syncopate/verify/verify.h"
#include "tests/support/mutate_sums.h"
#include "tests/support/plan_builder.h"
#include "tests/support/reduce_builder.h"

namespace syncopate {
namespace {

using testing::HandMadeOptions;
using testing::ReduceOptions;
using testing::Route;

/// Hands every number of a plan to `visit`, as a setter.
template <typename Visitor>
void for_each_number(Plan& plan, Visitor&& visit) {
  const auto number = [&](auto& value) {
    visit([&value](std::int64_t to) { value = static_cast<std::remove_reference_t<decltype(value)>>(to); });
  };
  const auto region = [&](Region& box) {
    for (int d = 0; d < box.dimensions(); ++d) {
      number(box[d].begin);
      number(box[d].end);
    }
  };
  const auto waits = [&](std::vector<Wait>& list) {
    for (Wait& wait : list) {
      number(wait.signal);
      number(wait.threshold);
    }
  };
  const auto signals = [&](std::vector<int>& list) {
    for (int& signal : list) number(signal);
  };
  number(plan.ranks);
  number(plan.workers);
  for (std::int64_t& extent : plan.kernel.extents) number(extent);
  for (Buffer& buffer : plan.buffers) {
    for (std::int64_t& extent : buffer.shape) number(extent);
    number(buffer.before.dimension);
    number(buffer.inside.dimension);
    number(buffer.after.dimension);
    number(buffer.partner);
    for (Region& window : buffer.window) region(window);
    for (std::vector<Region>& boxes : buffer.held)
      for (Region& held : boxes) region(held);
  }
  for (Signal& signal : plan.signals) {
    number(signal.home);
    number(signal.slot);
    number(signal.per_launch);
  }
  for (Tile& tile : plan.tiles) {
    for (std::int64_t& index : tile.index) number(index);
    for (std::vector<TileAccess>* list : {&tile.reads, &tile.writes})
      for (TileAccess& access : *list) {
        number(access.buffer);
        region(access.region);
      }
  }
  for (Sum& sum : plan.sums) {
    number(sum.rank);
    number(sum.buffer);
    region(sum.region);
    number(sum.order.rank);
    for (SumOrder& term : sum.order.terms) number(term.rank);
  }
  for (RankProgram& program : plan.programs) {
    signals(program.start_signals);
    for (Queue& queue : program.queues) {
      for (Transfer& transfer : queue.transfers) {
        for (View* view : {&transfer.source, &transfer.destination}) {
          number(view->rank);
          number(view->buffer);
          region(view->region);
        }
        waits(transfer.waits);
        signals(transfer.signals);
      }
    }
    for (Slot& slot : program.slots) {
      number(slot.tile);
      waits(slot.waits);
      region(slot.kept);
      waits(slot.sum_waits);
      for (Addend& addend : slot.addends) {
        region(addend.target);
        region(addend.source);
      }
      number(slot.own_place);
      signals(slot.signals);
    }
    waits(program.completion_waits);
    signals(program.completion_signals);
  }
}

Plan small(Route route) {
  HandMadeOptions options;
  options.ranks = 3;
  options.route = route;
  options.rows = 19;
  options.tile_rows = 3;
  return testing::hand_made(options);
}

Plan small_sum(Route route) {
  ReduceOptions options;
  options.route = route;
  options.rows = 11;
  options.tile_rows = 3;
  options.columns = 2;
  options.tile_columns = 2;
  options.staging_slots = route == Route::direct_push || route == Route::direct_pull ? 1 : 0;
  return testing::hand_made_reduce(options);
}

void expect_sense(const Proof& proof) {
  ASSERT_FALSE(proof.theorems.empty());
  for (const Theorem& theorem : proof.theorems) {
    EXPECT_NE(theorem.holds, theorem.evidence.empty()) << theorem.name;
    EXPECT_EQ(theorem.holds, theorem.counterexample.empty()) << theorem.name;
  }
}

TEST(BrokenPlans, EveryNumberReplacedByNonsense) {
  for (const Plan& plan : {small(Route::direct_push), small(Route::ring_pull), small_sum(Route::direct_push),
                           small_sum(Route::direct_pull), small_sum(Route::ring_push)}) {
    std::int64_t numbers = 0;
    Plan counted = plan;
    for_each_number(counted, [&](const auto&) { ++numbers; });
    for (const std::int64_t value :
         {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{1000},
          std::int64_t{std::numeric_limits<int>::max()}, std::int64_t{std::numeric_limits<int>::min()},
          std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
      for (std::int64_t n = 0; n < numbers; ++n) {
        Plan broken = plan;
        std::int64_t at = 0;
        for_each_number(broken, [&](const auto& set) {
          if (at++ == n) set(value);
        });
        expect_sense(verify(broken));
      }
    }
  }
}

TEST(BrokenPlans, SeveralMutationsAtOnce) {
  std::mt19937 random(7);
  for (const Route route : {Route::direct_push, Route::direct_pull, Route::ring_push, Route::ring_pull}) {
    for (int round = 0; round < 60; ++round) {
      Plan plan = round < 20 ? small(route) : small_sum(route);
      for (int change = 0; change < 3; ++change) {
        // A mutation of a plan that is already without form may reach where there is nothing.
        if (!verify(plan).theorems.front().holds) break;
        std::vector<testing::Mutant> mutants = testing::all_mutants(plan);
        for (testing::SumMutant& mutant : testing::sum_mutants(plan)) mutants.push_back(std::move(mutant));
        plan = std::move(mutants[random() % mutants.size()].plan);
        expect_sense(verify(plan));
      }
    }
  }
}

TEST(BrokenPlans, EmptyOnes) {
  EXPECT_FALSE(verify(Plan{}).holds()) << "a plan for one rank without a program for it";
  Plan plan;
  plan.programs.resize(1);
  EXPECT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  plan.programs[0].queues.resize(1);
  EXPECT_TRUE(verify(plan).holds()) << verify(plan).to_string();
}

TEST(BrokenPlans, ScalarsAndTooManyDimensions) {
  Plan plan;
  plan.programs.resize(1);
  Buffer scalar;
  scalar.name = "alpha";
  scalar.held = {{Region()}};
  plan.buffers = {scalar};
  EXPECT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  plan.buffers[0].shape = {1, 1, 1, 1, 1, 1};
  EXPECT_EQ(verify(plan).theorems[0].counterexample, "buffer alpha has 6 dimensions; at most 5 are supported");
}

}  // namespace
}  // namespace syncopate
