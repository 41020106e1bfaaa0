#include "syncopate/cuda/arena.h"

#include <gtest/gtest.h>

#include "repository.h"
#include "syncopate/driver/driver.h"

namespace syncopate::cuda {
namespace {

TEST(ArenaLayout, HasSymmetricBuffersFlagsAndMailboxesApartFromEachOther) {
  const Plan plan = compile_operator(testing::operator_file("ag_gemm.toml"), {{"ranks", "3"}});
  const Mailboxes mailboxes = assign_mailboxes(plan);
  const ArenaLayout layout = arena_layout(plan, mailboxes);
  ASSERT_EQ(layout.buffers.size(), plan.buffers.size());
  EXPECT_GE(layout.record, layout.mailboxes + mailboxes.most() * 8);
  std::size_t end = layout.record + kRecordWords * 8;
  EXPECT_GE(layout.mailboxes, layout.flags + static_cast<std::size_t>(signal_count(plan, 0)) * 8);
  for (std::size_t buffer = 0; buffer < plan.buffers.size(); ++buffer) {
    const Buffer& about = plan.buffers[buffer];
    ASSERT_EQ(layout.buffers[buffer].has_value(), about.symmetric) << about.name;
    if (!about.symmetric) continue;
    EXPECT_GE(*layout.buffers[buffer], end);
    EXPECT_EQ(*layout.buffers[buffer] % 256, 0U);
    end = *layout.buffers[buffer] + static_cast<std::size_t>(volume(about.shape) * size_in_bytes(about.dtype));
  }
  EXPECT_GE(layout.bytes, end);
  EXPECT_EQ(layout.bytes % (2 << 20), 0U) << "no page is shared with other memory";
}

TEST(ArenaLayout, TheResultOfAOneShotSumMayBeTheCallers) {
  const Plan plan = compile_operator(testing::operator_file("gemm_ar.toml"), {{"communicate.c.algorithm", "one_shot"}});
  const ArenaLayout layout = arena_layout(plan, assign_mailboxes(plan));
  EXPECT_TRUE(can_bind(plan, added_up_buffer(plan)));
  EXPECT_FALSE(can_bind(plan, summands_buffer(plan)));
  EXPECT_FALSE(can_bind(plan, plan.buffer(added_up_buffer(plan)).partner)) << "transfers read it";
  EXPECT_TRUE(layout.buffers[static_cast<std::size_t>(summands_buffer(plan))].has_value());
  EXPECT_FALSE(layout.buffers[static_cast<std::size_t>(added_up_buffer(plan))].has_value());
}

TEST(ArenaLayout, OfAPlanThatCommunicatesNothingIsNotEmpty) {
  const Plan plan = compile_operator(testing::operator_file("ag_gemm.toml"), {{"ranks", "1"}});
  EXPECT_GT(arena_layout(plan, assign_mailboxes(plan)).bytes, 0U);
}

}  // namespace
}  // namespace syncopate::cuda
