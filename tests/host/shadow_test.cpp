#include "syncopate/host/shadow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "syncopate/plan/random.h"

namespace syncopate::host {
namespace {

// Inside a test class the name Run is GoogleTest's.
using Elements = Run;

constexpr int kAgents = 3;

class ShadowTest : public testing::Test {
 protected:
  EventId event(int agent, std::int64_t launch, EventKind kind = EventKind::tile, std::int64_t index = 0) {
    return history.begin(agent, launch, kind, index);
  }
  std::optional<Conflict> read(EventId id, Elements run) { return shadow.read(history, id, std::span(&run, 1)); }
  std::optional<Conflict> write(EventId id, Elements run) { return shadow.write(history, id, std::span(&run, 1)); }
  void order(int first, int then) { history.join(then, history.release(first)); }

  History history{kAgents};
  Shadow shadow{100};
};

TEST_F(ShadowTest, OrderedAccessesAreFine) {
  const EventId writer = event(0, 1);
  EXPECT_FALSE(write(writer, {0, 100}));
  EXPECT_FALSE(read(writer, {10, 20}));
  order(0, 1);
  EXPECT_FALSE(read(event(1, 1), {0, 100}));
}

TEST_F(ShadowTest, ReadOfAnUnorderedWriteIsFoundThoughItCameFirst) {
  const EventId writer = event(0, 1);
  ASSERT_FALSE(write(writer, {40, 20}));
  ASSERT_FALSE(write(event(1, 1), {0, 40}));
  const auto conflict = read(event(1, 1), {30, 15});
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->kind, ConflictKind::unordered_write);
  EXPECT_EQ(conflict->partner, writer);
  EXPECT_EQ(conflict->run.offset, 40);
  EXPECT_EQ(conflict->run.count, 5);
}

TEST_F(ShadowTest, WhatIsDoneAfterAReleaseIsNotPartOfIt) {
  order(0, 1);
  ASSERT_FALSE(write(event(0, 1), {0, 1}));
  EXPECT_EQ(read(event(1, 1), {0, 1})->kind, ConflictKind::unordered_write);
}

TEST_F(ShadowTest, OnlyAWriteOfTheSameLaunchFills) {
  EXPECT_EQ(read(event(1, 1), {5, 1})->kind, ConflictKind::not_filled);
  EXPECT_EQ(read(event(1, 1), {5, 1})->partner, 0U);
  const EventId old = event(0, 1);
  ASSERT_FALSE(write(old, {5, 1}));
  order(0, 1);
  EXPECT_EQ(read(event(1, 2), {5, 1})->kind, ConflictKind::not_filled);
  EXPECT_EQ(read(event(1, 2), {5, 1})->partner, old);
  ASSERT_FALSE(write(event(0, 2), {5, 1}));
  EXPECT_EQ(read(event(1, 1), {5, 1})->kind, ConflictKind::overwritten);
}

TEST_F(ShadowTest, WriteMustFollowTheReadsOfWhatItOverwrites) {
  ASSERT_FALSE(write(event(0, 1), {0, 100}));
  order(0, 1);
  order(0, 2);
  const EventId reader = event(1, 1);
  ASSERT_FALSE(read(reader, {10, 10}));
  ASSERT_FALSE(read(reader, {30, 10}));
  EXPECT_FALSE(write(event(2, 2), {20, 10})) << "between the two reads";
  const auto conflict = write(event(2, 3), {25, 50});
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->kind, ConflictKind::unordered_read);
  EXPECT_EQ(conflict->partner, reader);
  EXPECT_EQ(conflict->run.offset, 30);
  EXPECT_EQ(conflict->run.count, 10);
  order(1, 2);
  EXPECT_FALSE(write(event(2, 3), {0, 100})) << "what failed is not remembered";
}

TEST_F(ShadowTest, ElementIsWrittenOncePerLaunchButByOneTile) {
  const EventId tile = event(0, 1);
  ASSERT_FALSE(write(tile, {0, 10}));
  EXPECT_FALSE(write(tile, {0, 10}));
  const auto conflict = write(event(0, 1, EventKind::tile, 1), {9, 1});
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->kind, ConflictKind::second_write);
  EXPECT_FALSE(write(event(0, 2), {9, 1}));
}

TEST_F(ShadowTest, ATileThatReleasesInItsMiddleStaysOneTile) {
  ASSERT_FALSE(write(event(0, 1), {0, 10}));
  history.release(0);
  EXPECT_FALSE(write(event(0, 1), {0, 10}));
  EXPECT_EQ(write(event(1, 1), {0, 10})->kind, ConflictKind::second_write) << "another agent's";
}

TEST_F(ShadowTest, ReusedMemoryIsFilledAgainOnceItsReadersAreDone) {
  Shadow staging(100, Rewrite::transfers);
  const auto fill = [&](int agent, std::int64_t index, Elements run) {
    return staging.write(history, event(agent, 1, EventKind::transfer, index), std::span(&run, 1));
  };
  const auto add = [&](Elements run) { return staging.read(history, event(1, 1), std::span(&run, 1)); };
  ASSERT_FALSE(fill(0, 0, {10, 20}));
  order(0, 1);
  ASSERT_FALSE(add({10, 15}));
  const auto early = fill(0, 1, {20, 10});
  ASSERT_TRUE(early);
  EXPECT_EQ(early->kind, ConflictKind::unordered_read);
  EXPECT_EQ(early->run.offset, 20);
  EXPECT_EQ(early->run.count, 5);
  EXPECT_EQ(fill(2, 0, {10, 1})->kind, ConflictKind::unordered_write) << "another queue, which knows nothing";
  order(1, 0);
  ASSERT_FALSE(fill(0, 1, {10, 20}));
  EXPECT_EQ(add({10, 1})->kind, ConflictKind::unordered_write) << "what is known is the first filling";
  order(0, 1);
  EXPECT_FALSE(add({10, 1}));
}

TEST_F(ShadowTest, ReusedMemoryIsForTransfersOnly) {
  Shadow staging(100, Rewrite::transfers);
  const Elements run{0, 10};
  ASSERT_FALSE(staging.write(history, event(0, 1, EventKind::transfer), std::span(&run, 1)));
  ASSERT_FALSE(staging.read(history, event(0, 1), std::span(&run, 1)));
  EXPECT_EQ(staging.write(history, event(0, 1), std::span(&run, 1))->kind, ConflictKind::second_write);
  ASSERT_FALSE(write(event(0, 1, EventKind::transfer, 0), run));
  ASSERT_FALSE(read(event(0, 1), run));
  EXPECT_EQ(write(event(0, 1, EventKind::transfer, 1), run)->kind, ConflictKind::second_write) << "other memory";
}

TEST_F(ShadowTest, ASumTakesThePlaceOfASummandOnceItHasBeenSent) {
  Shadow reduced(100, Rewrite::over_tiles);
  const Elements run{0, 10};
  const auto write = [&](int agent, EventKind kind, std::int64_t index) {
    return reduced.write(history, event(agent, 1, kind, index), std::span(&run, 1));
  };
  ASSERT_FALSE(write(0, EventKind::tile, 0));
  EXPECT_EQ(write(0, EventKind::tile, 1)->kind, ConflictKind::second_write) << "another tile's";
  EXPECT_EQ(write(1, EventKind::transfer, 0)->kind, ConflictKind::unordered_write);
  order(0, 2);
  ASSERT_FALSE(reduced.read(history, event(2, 1, EventKind::transfer), std::span(&run, 1)));
  order(0, 1);
  EXPECT_EQ(write(1, EventKind::transfer, 0)->kind, ConflictKind::unordered_read) << "it is still being sent";
  order(2, 1);
  EXPECT_FALSE(write(1, EventKind::transfer, 0));
  EXPECT_EQ(write(1, EventKind::transfer, 1)->kind, ConflictKind::second_write) << "one sum for each place";
}

TEST_F(ShadowTest, ATileAddsOnceToWhatATransferHasBrought) {
  Shadow reduced(100, Rewrite::adding);
  const auto bring = [&](std::int64_t launch, Elements run) {
    return reduced.write(history, event(0, launch, EventKind::transfer, run.offset), std::span(&run, 1));
  };
  const auto add = [&](EventId event, Elements run) {
    if (const auto conflict = reduced.read(history, event, std::span(&run, 1))) return conflict;
    return reduced.write(history, event, std::span(&run, 1));
  };
  const EventId tile = event(1, 1);
  EXPECT_EQ(add(tile, {0, 10})->kind, ConflictKind::not_filled) << "nothing has come";
  ASSERT_FALSE(bring(1, {0, 20}));
  EXPECT_EQ(add(tile, {0, 10})->kind, ConflictKind::unordered_write) << "it may yet be coming";
  order(0, 1);
  const Elements tail{10, 10};
  EXPECT_EQ(reduced.write(history, tile, std::span(&tail, 1))->kind, ConflictKind::second_write)
      << "what is not read is not added to";
  ASSERT_FALSE(add(tile, {0, 5}));
  ASSERT_FALSE(add(tile, {5, 5})) << "in several stores";
  EXPECT_EQ(add(tile, {4, 2})->kind, ConflictKind::second_write) << "and each of them once";
  EXPECT_EQ(bring(1, {8, 1})->kind, ConflictKind::second_write) << "a sum is not to be overwritten";
}

TEST_F(ShadowTest, ASumThatIsHandedOutMayTakeThePlaceOfOneSoFar) {
  Shadow reduced(100, Rewrite::adding | Rewrite::over_tiles);
  const Elements run{0, 10};
  const auto transfer = [&](int agent, std::int64_t index) {
    return reduced.write(history, event(agent, 1, EventKind::transfer, index), std::span(&run, 1));
  };
  ASSERT_FALSE(transfer(0, 0));
  order(0, 1);
  const EventId tile = event(1, 1);
  ASSERT_FALSE(reduced.read(history, tile, std::span(&run, 1)));
  ASSERT_FALSE(reduced.write(history, tile, std::span(&run, 1)));
  EXPECT_EQ(transfer(2, 0)->kind, ConflictKind::unordered_write);
  order(1, 2);
  EXPECT_FALSE(transfer(2, 0));
  EXPECT_EQ(transfer(2, 1)->kind, ConflictKind::second_write);
}

TEST_F(ShadowTest, ATileMayUpdateAnInputButATransferMayNot) {
  ASSERT_FALSE(write(event(0, 1, EventKind::inputs), {0, 10}));
  order(0, 1);
  EXPECT_EQ(write(event(1, 1, EventKind::transfer), {0, 10})->kind, ConflictKind::second_write);
  EXPECT_FALSE(write(event(1, 1, EventKind::tile), {0, 10}));
}

TEST_F(ShadowTest, BoundsAreChecked) {
  const EventId id = event(0, 1);
  for (const Elements run :
       {Elements{-1, 1}, Elements{100, 1}, Elements{0, 101}, Elements{99, 2}, Elements{1, INT64_MAX}}) {
    EXPECT_EQ(read(id, run)->kind, ConflictKind::outside) << run.offset;
    EXPECT_EQ(write(id, run)->kind, ConflictKind::outside) << run.offset;
  }
  EXPECT_FALSE(write(id, {99, 1}));
}

TEST_F(ShadowTest, CompletionNeedsToKnowEveryAccessOfItsLaunch) {
  const EventId writer = event(0, 1);
  ASSERT_FALSE(write(writer, {10, 10}));
  ASSERT_FALSE(write(event(0, 2), {50, 10})) << "of a later launch";
  auto conflict = shadow.complete(history, 2, 1);
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->kind, ConflictKind::unordered_write);
  EXPECT_EQ(conflict->partner, writer);
  EXPECT_EQ(conflict->run.offset, 10);
  EXPECT_EQ(conflict->run.count, 10);
  history.join(2, history.clock(0));
  EXPECT_FALSE(shadow.complete(history, 2, 1));
  order(0, 1);
  const EventId reader = event(1, 1);
  ASSERT_FALSE(read(reader, {12, 2}));
  conflict = shadow.complete(history, 2, 1);
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->kind, ConflictKind::unordered_read);
  EXPECT_EQ(conflict->partner, reader);
  EXPECT_EQ(conflict->run.offset, 12);
  order(1, 2);
  EXPECT_FALSE(shadow.complete(history, 2, 1));
}

TEST_F(ShadowTest, ForgetsOnlyReadsThatAllKnow) {
  ASSERT_FALSE(write(event(0, 1), {0, 100}));
  order(0, 1);
  ASSERT_FALSE(read(event(1, 1), {0, 100}));
  shadow.forget(history, history.clock(0));
  EXPECT_EQ(write(event(0, 2), {0, 1})->kind, ConflictKind::unordered_read);
  shadow.forget(history, history.clock(1));
  EXPECT_FALSE(write(event(0, 2), {0, 1}));
}

TEST(RunSet, AgreesWithASetOfElements) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    RunSet set;
    std::set<std::int64_t> elements;
    for (int i = 0; i < 2000; ++i) {
      const Elements run{static_cast<std::int64_t>(random.below(20000)),
                         static_cast<std::int64_t>(1 + random.below(5))};
      set.add(run);
      for (std::int64_t e = run.offset; e < run.offset + run.count; ++e) elements.insert(e);
      const Elements probe{static_cast<std::int64_t>(random.below(20000)), static_cast<std::int64_t>(random.below(9))};
      if (i % 50 != 0) continue;
      const auto common = set.overlap(probe);
      const auto first = elements.lower_bound(probe.offset);
      ASSERT_EQ(common.has_value(), first != elements.end() && *first < probe.offset + probe.count);
      if (!common) continue;
      ASSERT_EQ(common->offset, *first);
      for (std::int64_t e = common->offset; e < common->offset + common->count; ++e) ASSERT_TRUE(elements.contains(e));
    }
    std::int64_t total = 0;
    std::int64_t end = -1;
    for (const Elements& run : set.runs()) {
      ASSERT_GT(run.offset, end) << "runs touch or are out of order";
      end = run.offset + run.count;
      total += run.count;
    }
    EXPECT_EQ(total, static_cast<std::int64_t>(elements.size()));
  }
}

}  // namespace
}  // namespace syncopate::host
