#include "syncopate/host/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "small_plans.h"
#include "syncopate/host/history.h"

namespace syncopate::host {
namespace {

class SchedulerTest : public testing::Test {
 protected:
  Plan plan = test::small_plan({.ranks = 2, .workers = 3});
  AgentLayout layout{plan};

  std::vector<int> picks(std::uint64_t seed, bool adversary, int count) {
    Scheduler scheduler(layout, seed, adversary);
    for (int agent = 0; agent < layout.count(); ++agent) scheduler.add(agent);
    std::vector<int> picked;
    for (int i = 0; i < count; ++i) picked.push_back(scheduler.pick());
    return picked;
  }
};

TEST_F(SchedulerTest, LayoutNumbersEveryAgentOnce) {
  EXPECT_EQ(layout.count(), 2 * (1 + 1 + 3));
  std::set<int> seen;
  for (int rank = 0; rank < 2; ++rank) {
    seen.insert({layout.caller(rank), layout.queue(rank, 0)});
    for (int worker = 0; worker < 3; ++worker) {
      const int agent = layout.worker(rank, worker);
      EXPECT_TRUE(seen.insert(agent).second);
      EXPECT_EQ(layout.at(agent).rank, rank);
      EXPECT_EQ(layout.at(agent).kind, AgentKind::worker);
      EXPECT_EQ(layout.at(agent).index, worker);
    }
  }
  EXPECT_EQ(static_cast<int>(seen.size()), layout.count());
}

TEST(AgentLayoutTest, SlotsOfADynamicOrderAreActorsBehindTheAgents) {
  Plan plan = test::small_plan({.ranks = 2, .workers = 3});
  EXPECT_EQ(AgentLayout(plan).actors(), AgentLayout(plan).count());
  EXPECT_EQ(AgentLayout(plan).actor_of_slot(1, 2), AgentLayout(plan).worker(1, 2));
  plan.lookahead = 32;
  const AgentLayout layout(plan);
  const auto slots = plan.programs[0].slots.size();
  EXPECT_EQ(layout.count(), 2 * (1 + 1 + 3));
  EXPECT_EQ(layout.actors(), layout.count() + static_cast<int>(2 * slots));
  const int actor = layout.actor_of_slot(1, 2);
  EXPECT_EQ(actor, layout.count() + static_cast<int>(slots) + 2);
  EXPECT_EQ(layout.at(actor).kind, AgentKind::slot);
  EXPECT_EQ(layout.at(actor).rank, 1);
  EXPECT_EQ(layout.at(actor).index, 2);
}

TEST(HistoryTest, WhoBeginsAnewKnowsWhatItIsToldAndItsOwnEventsOnly) {
  History history(2, 3);
  const EventId early = history.begin(0, 1, EventKind::inputs);
  const Clock known = history.release(0);
  history.begin_anew(2, known);
  EXPECT_TRUE(history.knows(2, early));
  const EventId own = history.begin(2, 1, EventKind::tile);
  const EventId other = history.begin(1, 1, EventKind::tile);
  history.join(2, history.release(1));
  EXPECT_TRUE(history.knows(2, other));
  history.join(0, history.end(2));
  EXPECT_TRUE(history.knows(0, own));
  history.begin_anew(2, known);
  EXPECT_FALSE(history.knows(2, other)) << "that was learnt before";
  history.begin_anew(2, history.release(0));
  const EventId later = history.begin(2, 2, EventKind::tile);
  EXPECT_FALSE(history.knows(0, later));
}

TEST_F(SchedulerTest, SeedDecidesAndEverybodyGetsATurn) {
  EXPECT_EQ(picks(7, false, 500), picks(7, false, 500));
  EXPECT_NE(picks(7, false, 500), picks(8, false, 500));
  const std::vector<int> picked = picks(7, false, 2000);
  EXPECT_EQ(std::set<int>(picked.begin(), picked.end()).size(), static_cast<std::size_t>(layout.count()));
}

TEST_F(SchedulerTest, AdversaryLetsTheMostHelpfulGoLast) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Scheduler scheduler(layout, seed, true);
    const int caller = layout.caller(0);
    const int raising = layout.caller(1);
    const int old_transfer = layout.queue(0, 0);
    const int new_transfer = layout.queue(1, 0);
    const int worker = layout.worker(1, 2);
    for (const int agent : {raising, old_transfer, worker, new_transfer, caller}) scheduler.add(agent);
    scheduler.set_next(raising, Helpfulness::raise_signal);
    scheduler.set_next(old_transfer, Helpfulness::move_bytes, 3);
    scheduler.set_next(new_transfer, Helpfulness::move_bytes, 4);
    scheduler.set_next(caller, Helpfulness::work);
    for (const int expected : {worker, caller, old_transfer, new_transfer, raising}) {
      EXPECT_EQ(scheduler.pick(), expected);
      scheduler.remove(expected);
    }
    EXPECT_TRUE(scheduler.idle());
  }
}

}  // namespace
}  // namespace syncopate::host
