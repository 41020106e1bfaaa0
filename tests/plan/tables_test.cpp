// The tables that the fused kernel reads, from slots made by hand.
#include <gtest/gtest.h>

#include "syncopate/plan/plan.h"

namespace syncopate {
namespace {

using Table = std::vector<std::int64_t>;

/// Rank 1 of 3; c is 8 x 4 and reduced, its staging buffer 6 x 4; one tile of four rows for each half of c.
Plan hand_made() {
  Plan plan;
  plan.ranks = 3;
  plan.kernel.axes = {"i"};
  const Region nothing({{0, 0}, {0, 0}});
  Buffer c;
  c.name = "c";
  c.shape = {8, 4};
  c.before = c.inside = Placement::partial_sum();
  c.after = Placement::shard(0);
  c.held.assign(3, {nothing});
  Buffer staging = c;
  staging.name = "c_staging";
  staging.shape = {6, 4};
  staging.inside = Placement::replicate();
  staging.symmetric = true;
  staging.role = BufferRole::staging;
  staging.partner = 0;
  plan.buffers = {c, staging};
  plan.signals = {{"arrival", 1, 0, 1, ""}, {"count at 2", 2, 5, 4, ""}, {"count at 0", 0, 7, 2, ""}};
  plan.tiles = {{{10}, {}, {{0, {{0, 4}, {0, 4}}}}}, {{11}, {}, {{0, {{4, 8}, {0, 4}}}}}};
  plan.programs.resize(3);
  return plan;
}

Region rows(std::int64_t begin, std::int64_t end) { return {{begin, end}, {0, 4}}; }

TEST(KernelTables, ASlotWithEverything) {
  Plan plan = hand_made();
  Slot slot;
  slot.tile = 1;
  slot.waits = {{0, 0}};
  slot.kept = rows(5, 8);
  slot.sum_waits = {{0, 1}};
  slot.addends = {{rows(5, 6), rows(0, 1)}, {rows(6, 8), rows(4, 6)}};
  slot.own_place = 1;
  slot.signals = {1, 2};
  plan.programs[1].slots = {slot};
  const KernelTables tables = kernel_tables(plan, 1);
  // index; waits 0..1; sum waits 1..2; addends 0, own before 1, 2; no signals before, 0..2 after; elements 20..32;
  // adds, raises after, and waits to add.
  EXPECT_EQ(tables.tiles, (Table{11, 0, 1, 1, 2, 0, 1, 2, 0, 0, 0, 2, 20, 32, 1 + 4 + 16}));
  EXPECT_EQ(tables.waits, (Table{0, 1, 0, 0, 1, 1}));
  EXPECT_EQ(tables.addends, (Table{-20, 20, 24, -8, 24, 32}));
  EXPECT_EQ(tables.signals, (Table{2, 5, 0, 7}));
}

TEST(KernelTables, ASlotThatKeepsAll) {
  Plan plan = hand_made();
  plan.programs[1].slots = {{0, {}, {}, {}, {}, 0, {}}, {1, {}, {}, {}, {}, 0, {1}}};
  const KernelTables tables = kernel_tables(plan, 1);
  EXPECT_EQ(tables.tiles, (Table{10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0,  //
                                 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 32, 4}));
  EXPECT_TRUE(tables.addends.empty());
  EXPECT_EQ(kernel_tables(plan, 0).tiles, Table());
}

TEST(KernelTables, NeighbouringAddendsAreOne) {
  Plan plan = hand_made();
  Slot slot;
  slot.addends = {{rows(0, 1), rows(2, 3)}, {rows(1, 3), rows(3, 5)}, {rows(3, 4), rows(5, 6)}};
  plan.programs[1].slots = {slot};
  EXPECT_EQ(kernel_tables(plan, 1).addends, (Table{8, 0, 16}));
}

TEST(KernelTables, WhatWouldChangeTheSumIsNotMerged) {
  Plan plan = hand_made();
  Slot slot;
  // Another distance to the source; not the next row; the own value between the two; the first of another slot.
  slot.addends = {{rows(0, 1), rows(2, 3)}, {rows(1, 2), rows(4, 5)}};
  plan.programs[1].slots = {slot};
  EXPECT_EQ(kernel_tables(plan, 1).addends, (Table{8, 0, 4, 12, 4, 8}));
  slot.addends = {{rows(0, 1), rows(2, 3)}, {rows(2, 3), rows(4, 5)}};
  plan.programs[1].slots = {slot};
  EXPECT_EQ(kernel_tables(plan, 1).addends, (Table{8, 0, 4, 8, 8, 12}));
  slot.addends = {{rows(0, 1), rows(2, 3)}, {rows(1, 2), rows(3, 4)}};
  slot.own_place = 1;
  plan.programs[1].slots = {slot};
  EXPECT_EQ(kernel_tables(plan, 1).addends, (Table{8, 0, 4, 8, 4, 8}));
  Slot next;
  next.tile = 1;
  slot.addends.pop_back();
  next.addends = {{rows(1, 2), rows(3, 4)}};
  plan.programs[1].slots = {slot, next};
  const KernelTables tables = kernel_tables(plan, 1);
  EXPECT_EQ(tables.addends, (Table{8, 0, 4, 8, 4, 8}));
  EXPECT_EQ(Table(tables.tiles.begin() + 5, tables.tiles.begin() + 8), (Table{0, 1, 1})) << "own value behind";
  EXPECT_EQ(Table(tables.tiles.begin() + 20, tables.tiles.begin() + 23), (Table{1, 1, 2})) << "own value before";
}

TEST(KernelTables, InPlaceHaveNoAddends) {
  Plan plan = hand_made();
  plan.buffers.pop_back();
  plan.buffers[0].sums_in_place = true;
  Slot adds;
  adds.sum_waits = {{0, 1}};
  adds.addends = {{rows(0, 2), rows(0, 2)}, {rows(2, 4), rows(2, 4)}};
  adds.own_place = 2;
  Slot is_done;  // another wait of its worker implies that its summand is there
  is_done.tile = 1;
  is_done.addends = {{rows(4, 8), rows(4, 8)}};
  Slot stores;
  plan.programs[1].slots = {adds, is_done, stores};
  const KernelTables tables = kernel_tables(plan, 1);
  EXPECT_EQ(tables.tiles, (Table{10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 32, 1 + 16,  //
                                 11, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 32, 1,       //
                                 10, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0}));
  EXPECT_TRUE(tables.addends.empty());
  EXPECT_EQ(landing_buffer(plan), 0);
}

TEST(KernelTables, OfAPlanThatSendsAndReducesNothingHaveRaisesOnly) {
  Plan plan = hand_made();
  plan.buffers[0].inside = plan.buffers[0].after = Placement::replicate();
  plan.buffers[1].role = BufferRole::result;
  plan.programs[1].slots = {{0, {}, {}, {}, {}, 0, {1}}, {1, {{0, 1}}, {}, {}, {}, 0, {1, 2}}};
  const KernelTables tables = kernel_tables(plan, 1);
  EXPECT_EQ(tile_columns(plan), 7);
  EXPECT_EQ(tables.tiles, (Table{10, 0, 0, 0, 0, 0, 1, slot_work::kRaisesEarly,  //
                                 11, 0, 1, 1, 1, 1, 3, slot_work::kRaisesEarly}));
  EXPECT_EQ(tables.signals, (Table{2, 5, 2, 5, 0, 7}));
  plan.workers = 1;
  plan.programs[1].slots[1].waits.clear();
  EXPECT_EQ(kernel_tables(plan, 1).tiles,
            (Table{10, 0, 0, 0, 0, 0, 0, 0,  //
                   11, 0, 0, 0, 1, 1, 3, slot_work::kRaisesLate + slot_work::kRaisesEarly}));
}

/// Per slot: the rows of signals to raise before it stores, and those to raise after.
std::vector<Table> raises(const KernelTables& tables) {
  std::vector<Table> result;
  for (std::size_t row = 0; row < tables.tiles.size(); row += 15) {
    result.emplace_back(tables.tiles.begin() + static_cast<std::ptrdiff_t>(row) + 8,
                        tables.tiles.begin() + static_cast<std::ptrdiff_t>(row) + 12);
    const Table& rows = result.back();
    EXPECT_EQ((tables.tiles[row + 14] & slot_work::kRaisesLate) != 0, rows[0] < rows[1]);
    EXPECT_EQ((tables.tiles[row + 14] & slot_work::kRaisesEarly) != 0, rows[2] < rows[3]);
  }
  return result;
}

/// What a slot does, as a sum of slot_work.
std::int64_t work_of(Plan plan, const Slot& slot) {
  plan.programs[1].slots = {slot};
  return kernel_tables(plan, 1).tiles.back();
}

TEST(KernelTables, ASlotAddsIfItHasAddendsOrWaitsForSome) {
  const Plan plan = hand_made();
  Slot slot;
  EXPECT_EQ(work_of(plan, slot), 0);
  slot.waits = {{0, 1}};
  EXPECT_EQ(work_of(plan, slot), 0);
  slot.sum_waits = {{0, 1}};
  EXPECT_EQ(work_of(plan, slot), slot_work::kAdds + slot_work::kWaitsToAdd);
  slot.sum_waits.clear();
  slot.addends = {{rows(0, 1), rows(2, 3)}};
  EXPECT_EQ(work_of(plan, slot), slot_work::kAdds + slot_work::kAddsOne);
  slot.addends.push_back({rows(1, 2), rows(3, 4)});
  EXPECT_EQ(work_of(plan, slot), slot_work::kAdds + slot_work::kAddsOne) << "both are one row";
  slot.own_place = 1;
  EXPECT_EQ(work_of(plan, slot), slot_work::kAdds);
}

TEST(KernelTables, AnAddendForAllOfATileIsPartOfWhatTheSlotDoes) {
  const Plan plan = hand_made();  // the tiles are rows 0 to 3 and 4 to 7
  constexpr std::int64_t one = slot_work::kAdds + slot_work::kAddsOne;
  Slot slot;
  slot.addends = {{rows(0, 4), rows(2, 6)}};
  EXPECT_EQ(work_of(plan, slot), one + slot_work::kAddsToAll + slot_work::kShift * 8);
  slot.tile = 1;
  EXPECT_EQ(work_of(plan, slot), one) << "another tile";
  slot.addends = {{rows(4, 8), rows(0, 4)}};
  EXPECT_EQ(work_of(plan, slot), one + slot_work::kAddsToAll - slot_work::kShift * 16);
  slot.addends = {{rows(3, 8), rows(0, 5)}};
  EXPECT_EQ(work_of(plan, slot), one + slot_work::kAddsToAll - slot_work::kShift * 12);
  slot.addends = {{rows(5, 8), rows(1, 4)}};
  EXPECT_EQ(work_of(plan, slot), one) << "the first row is missing";
  slot.addends = {{rows(4, 7), rows(0, 3)}};
  EXPECT_EQ(work_of(plan, slot), one) << "the last row is missing";
}

TEST(KernelTables, SignalsArePutOffUntilTheWorkersNextSlotUnlessThatWaits) {
  Plan plan = hand_made();
  const Slot plain{0, {}, {}, {}, {}, 0, {1}};
  Slot waits = plain;
  waits.waits = {{0, 0}};
  Slot adds = plain;
  adds.sum_waits = {{0, 1}};
  adds.signals = {1, 2};
  plan.programs[1].slots = {plain, plain, plain};
  EXPECT_EQ(raises(kernel_tables(plan, 1)), (std::vector<Table>{{0, 0, 0, 0}, {0, 1, 1, 1}, {1, 2, 2, 3}}));
  plan.programs[1].slots = {plain, waits, adds, plain};
  EXPECT_EQ(raises(kernel_tables(plan, 1)),
            (std::vector<Table>{{0, 0, 0, 1}, {1, 1, 1, 2}, {2, 2, 2, 2}, {2, 4, 4, 5}}));
  plan.workers = 2;
  EXPECT_EQ(raises(kernel_tables(plan, 1)),
            (std::vector<Table>{{0, 0, 0, 1}, {1, 1, 1, 1}, {2, 2, 2, 4}, {1, 2, 4, 5}}));
  plan.workers = 9;
  EXPECT_EQ(raises(kernel_tables(plan, 1)),
            (std::vector<Table>{{0, 0, 0, 1}, {1, 1, 1, 2}, {2, 2, 2, 4}, {4, 4, 4, 5}}));
}

TEST(KernelTables, OfADynamicOrderSignalsAreNotPutOff) {
  Plan plan = hand_made();
  const Slot plain{0, {}, {}, {}, {}, 0, {1}};
  plan.programs[1].slots = {plain, plain, plain};
  EXPECT_EQ(claim_words(plan, 1), 0U);
  const std::int64_t without = extra_memory(plan).signals;
  plan.lookahead = 32;
  EXPECT_EQ(raises(kernel_tables(plan, 1)), (std::vector<Table>{{0, 0, 0, 1}, {1, 1, 1, 2}, {2, 2, 2, 3}}));
  EXPECT_EQ(claim_words(plan, 1), 4U) << "a word for each slot, and one for all";
  EXPECT_EQ(extra_memory(plan).signals, without + 4 * 8);
}

TEST(KernelTables, WithoutAReducedBufferSlotsAreShort) {
  Plan plan = hand_made();
  plan.buffers.resize(1);
  plan.buffers[0].inside = plan.buffers[0].after = Placement::replicate();
  plan.programs[1].slots = {{1, {{0, 1}}, {}, {}, {}, 0, {}}};
  EXPECT_EQ(kernel_tables(plan, 1).tiles, (Table{11, 0, 1}));
}

TEST(Plan, OutputsOfARank) {
  const Plan plan = hand_made();
  EXPECT_EQ(output_region(plan, 0, 0), rows(0, 3));
  EXPECT_EQ(output_region(plan, 0, 2), rows(6, 8));
  EXPECT_TRUE(output_region(plan, 1, 0).empty());
  EXPECT_FALSE(cuts_tiles(plan));
}

}  // namespace
}  // namespace syncopate
