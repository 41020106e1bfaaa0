#include "syncopate/host/signals.h"

#include <gtest/gtest.h>

#include "small_plans.h"

namespace syncopate::host {
namespace {

/// Three ranks without kernels or queues: the callers raise signals by themselves.
class SignalsTest : public testing::Test {
 protected:
  SignalsTest() {
    plan.ranks = 3;
    plan.workers = 1;
    plan.programs.resize(3);
  }

  /// Adds a signal that callers raise at the start of each launch, and that rank 0 waits for.
  int add(std::vector<int> raisers) {
    const int signal = static_cast<int>(plan.signals.size());
    plan.signals.push_back({"s", 0, signal, static_cast<std::int64_t>(raisers.size()), ""});
    for (const int rank : raisers) plan.programs[static_cast<std::size_t>(rank)].start_signals.push_back(signal);
    plan.programs[0].completion_waits.push_back({signal, 0});
    return signal;
  }
  int caller(int rank) const { return AgentLayout(plan).caller(rank); }

  Plan plan;
};

TEST_F(SignalsTest, FullThresholdProvesEveryRaise) {
  const int signal = add({1, 2});
  const AgentLayout layout(plan);
  Signals signals(plan, layout);
  History history(layout.count());
  const EventId first = history.begin(caller(1), 1, EventKind::tile);
  const EventId second = history.begin(caller(2), 1, EventKind::tile);
  EXPECT_EQ(signals.raise(signal, 1, caller(2), history.release(caller(2))), -1);
  EXPECT_EQ(signals.raise(signal, 1, caller(1), history.release(caller(1))), -1);
  EXPECT_EQ(signals.value(signal), 2);
  const std::int64_t expected = signals.expected({signal, 2}, 1);
  EXPECT_EQ(expected, 2);
  signals.join(signal, expected, caller(0), history);
  EXPECT_TRUE(history.knows(caller(0), first));
  EXPECT_TRUE(history.knows(caller(0), second));
}

TEST_F(SignalsTest, LowerThresholdProvesNothingEvenIfAllWereRaised) {
  const int signal = add({1, 2});
  const AgentLayout layout(plan);
  Signals signals(plan, layout);
  History history(layout.count());
  const EventId first = history.begin(caller(1), 1, EventKind::tile);
  const EventId second = history.begin(caller(2), 1, EventKind::tile);
  signals.raise(signal, 1, caller(1), history.release(caller(1)));
  signals.raise(signal, 1, caller(2), history.release(caller(2)));
  signals.join(signal, 1, caller(0), history);
  EXPECT_FALSE(history.knows(caller(0), first));
  EXPECT_FALSE(history.knows(caller(0), second));
}

TEST_F(SignalsTest, RaisesOfOneAgentComeInOrder) {
  const int signal = add({1, 1, 1});
  const AgentLayout layout(plan);
  Signals signals(plan, layout);
  History history(layout.count());
  std::vector<EventId> events;
  for (int i = 0; i < 3; ++i) {
    events.push_back(history.begin(caller(1), 1, EventKind::tile));
    signals.raise(signal, 1, caller(1), history.release(caller(1)));
  }
  signals.join(signal, 2, caller(0), history);
  EXPECT_TRUE(history.knows(caller(0), events[0]));
  EXPECT_TRUE(history.knows(caller(0), events[1]));
  EXPECT_FALSE(history.knows(caller(0), events[2])) << "it had been raised, but two raises do not prove it";
}

TEST_F(SignalsTest, ThresholdZeroProvesTheLaunchBefore) {
  const int signal = add({1, 1});
  const AgentLayout layout(plan);
  Signals signals(plan, layout);
  History history(layout.count());
  const EventId before = history.begin(caller(1), 1, EventKind::tile);
  signals.raise(signal, 1, caller(1), history.release(caller(1)));
  signals.raise(signal, 1, caller(1), history.release(caller(1)));
  const EventId later = history.begin(caller(1), 2, EventKind::tile);
  signals.raise(signal, 2, caller(1), history.release(caller(1)));
  EXPECT_EQ(signals.expected({signal, 0}, 2), 2);
  signals.join(signal, 0, caller(2), history);
  EXPECT_FALSE(history.knows(caller(2), before)) << "nothing comes before the first launch";
  signals.join(signal, 2, caller(0), history);
  EXPECT_TRUE(history.knows(caller(0), before));
  EXPECT_FALSE(history.knows(caller(0), later));
}

TEST_F(SignalsTest, ARaiseThatOvertakesTheLaunchBeforeIsReported) {
  const int signal = add({1, 2});
  const AgentLayout layout(plan);
  Signals signals(plan, layout);
  History history(layout.count());
  EXPECT_EQ(signals.raise(signal, 1, caller(1), history.release(caller(1))), -1);
  EXPECT_EQ(signals.raise(signal, 2, caller(1), history.release(caller(1))), caller(2))
      << "rank 2 has not raised it in launch 1";
}

TEST_F(SignalsTest, ARaiseNotOrderedAfterTheLaunchBeforeIsReported) {
  const int signal = add({1, 2});
  const AgentLayout layout(plan);
  for (const bool ordered : {false, true}) {
    Signals signals(plan, layout);
    History history(layout.count());
    EXPECT_EQ(signals.raise(signal, 1, caller(1), history.release(caller(1))), -1);
    EXPECT_EQ(signals.raise(signal, 1, caller(2), history.release(caller(2))), -1);
    if (ordered) history.join(caller(1), history.release(caller(2)));
    EXPECT_EQ(signals.raise(signal, 2, caller(1), history.release(caller(1))), ordered ? -1 : caller(2));
  }
}

TEST_F(SignalsTest, ForgettingLosesNothing) {
  const int signal = add({1});
  const AgentLayout layout(plan);
  Signals signals(plan, layout);
  History history(layout.count());
  const EventId event = history.begin(caller(1), 1, EventKind::tile);
  signals.raise(signal, 1, caller(1), history.release(caller(1)));
  signals.forget(history.clock(0));
  signals.join(signal, 1, caller(0), history);
  EXPECT_TRUE(history.knows(caller(0), event)) << "rank 0 did not know it yet, so it had to be kept";
}

}  // namespace
}  // namespace syncopate::host
