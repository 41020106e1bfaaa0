#include "syncopate/plan/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/driver/driver.h"

namespace syncopate {
namespace {

using ::testing::HasSubstr;

Plan demo(const std::vector<Override>& overrides = {}) {
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm.toml", overrides);
}

TEST(Print, SummaryHoldsTheFigures) {
  const std::string text = summary(demo());
  EXPECT_THAT(text, HasSubstr("ag_gemm on 4 ranks: gemm of gemm.py"));
  EXPECT_THAT(text, HasSubstr("a: shard(0) -> replicate, all-gather, direct, push, split 2"));
  // 8 chunks of 128 x 512 bf16 = 128 KiB, each to 3 peers: 24 transfers, 3 MiB.
  EXPECT_THAT(text, HasSubstr("8 of 128.00 KiB, 24 transfers by copy engines, 3.00 MiB in all"));
  EXPECT_THAT(text, HasSubstr("32 per rank (8 pid_m x 4 pid_n), on 8 workers"));
  EXPECT_THAT(text, HasSubstr("at least 8 tiles that wait for nothing"));
  EXPECT_THAT(text, HasSubstr("96 before 128 tiles"));
  // Staging: three quarters of 1 MiB.
  EXPECT_THAT(text, HasSubstr("768.00 KiB staging"));
}

TEST(Print, PictureMarksChunks) {
  const std::string text = tile_picture(demo(), 1);
  // Rank 1 starts with its own rows 2 and 3 (positions 0 to 7), then hears from rank 0.
  EXPECT_THAT(text, HasSubstr("  0:.  2:.  4:.  6:."));
  EXPECT_THAT(text, HasSubstr("1 a[0:128, 0:512] at rank 1"));
}

TEST(Print, ShowNamesEveryTransferAndWait) {
  const std::string text = show(demo({{"ranks", "2"}, {"communicate.a.initiator", "pull"}}));
  EXPECT_THAT(text, HasSubstr("pull a[512:768, 0:512] from rank 1, after \"inputs of rank 1 seen by rank 0\""));
  EXPECT_THAT(text, HasSubstr("completes after \"peers done with buffers of rank 0\""));
  EXPECT_THAT(text, HasSubstr("a   1024 x 512 bf16, symmetric: gathered input"));
}

TEST(Print, LargeGridsAreThinned) {
  const std::string text = tile_picture(demo({{"kernel.args.M", "16384"}}), 0);
  EXPECT_THAT(text, HasSubstr("(every 4 row, every 1 column)"));
}

TEST(Print, ReducedOutputs) {
  const Plan plan = compile_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_rs_pointers.toml",
                                     {{"communicate.c.memory_budget", "400 KiB"}, {"communicate.c.split", "4"}});
  const std::string text = show(plan);
  EXPECT_THAT(text,
              HasSubstr("c: partial(sum) -> shard(0), reduce-scatter, direct, push, split 4, memory budget 400.00 "
                        "KiB"));
  EXPECT_THAT(text, HasSubstr("chunks that leave first, in that order, then own ones in order of arrival"));
  EXPECT_THAT(text, HasSubstr("more for tiles that are stored in parts"));
  EXPECT_THAT(text, HasSubstr(" before they add, "));
  EXPECT_THAT(text, HasSubstr("c_staging"));
  EXPECT_THAT(text, HasSubstr("sums, rounded where a bracket closes\n  c[0:334, 0:360] at rank 0: (0 + 1 + 2)\n"));
  EXPECT_THAT(text,
              HasSubstr("push c[334:418, 0:360] to rank 1, into c_staging[0:84, 0:360], after \"c[334:418, 0:360] "
                        "of rank 0 for rank 1\" (8 of 8), \"buffers of rank 1 free for rank 0\" of the previous "
                        "launch"));
  EXPECT_THAT(text, HasSubstr("keeps c[334:384, 0:360]; signals \"c[334:418, 0:360] of rank 0 for rank 1\""));
  EXPECT_THAT(text,
              HasSubstr("adds 0 summands before its own and 2 behind, after \"c[0:84, 0:360] of rank 1 at rank 0\""));
  EXPECT_THAT(text, HasSubstr("added by rank 1 seen by rank 0\""));
}

TEST(Print, OneShotSums) {
  const std::string text =
      show(compile_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_ar.toml", {{"communicate.c.algorithm", "one_shot"}}));
  EXPECT_THAT(text, HasSubstr("256 before sums, "));
  EXPECT_THAT(text, HasSubstr("  c[0:1024, 0:512] at rank 2: (0 + 1 + 2 + 3)\n"));
  EXPECT_THAT(text, HasSubstr("push c_inside[0:512, 0:512] to rank 1, into c_summands[0:512, 0:512]"));
  EXPECT_THAT(text,
              HasSubstr("  sums, after the tiles\n        0 c[0:64, 0:512], worker 0: after \"c[0:512, 0:512] of "));
}

TEST(Print, RingsShowWhereTheyRound) {
  const std::string text =
      show(compile_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_rs.toml", {{"communicate.c.algorithm", "ring"}}));
  EXPECT_THAT(text, HasSubstr("c[256:512, 0:512] at rank 1: ((0 + (2 + 3)) + 1)"));
}

}  // namespace
}  // namespace syncopate
