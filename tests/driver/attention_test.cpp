// Attention over ranks, from the operator files we ship, on CPU ranks: proven, executed under several interleavings,
// equal bit for bit to the unfused operator, and as near to attention in fp64 as its roundings allow.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/attention_reference.h"
#include "tests/driver/right_run.h"

namespace syncopate {
namespace {

using testing::AttentionSizes;
using ::testing::HasSubstr;
using testing::Matrix;
using testing::matrix_of;
using testing::run_of;
using testing::stacked;

const std::string kHeads = SYNCOPATE_SOURCE_DIR "/operators/attention_heads.toml";

struct HeadParallel {
  int ranks = 4;
  int heads = 2;  ///< of a rank
  int group = 2;
  int q_length = 128;
  int kv_length = 128;
  int head_dim = 64;
  bool causal = true;
  Dtype dtype = Dtype::bf16;
  std::string initiator = "push";
  int split = 1;
  int workers = 3;
  bool streamed = false;  ///< by the kernel whose blocks of keys may come in any order

  std::string name() const {
    return fmt::format("{}ranks_{}of{}heads_{}x{}x{}_{}_{}_{}_split{}_{}workers{}", ranks, heads, group, q_length,
                       kv_length, head_dim, causal ? "causal" : "full", name_of(dtype), initiator, split, workers,
                       streamed ? "_streamed" : "");
  }
};
void PrintTo(const HeadParallel& c, std::ostream* out) { *out << c.name(); }

Plan compiled(const HeadParallel& c) {
  std::vector<Override> overrides = {{"ranks", std::to_string(c.ranks)},
                                     {"launch.workers", std::to_string(c.workers)},
                                     {"kernel.args.HEADS", std::to_string(c.heads)},
                                     {"kernel.args.GROUP", std::to_string(c.group)},
                                     {"kernel.args.Q_LENGTH", std::to_string(c.q_length)},
                                     {"kernel.args.KV_LENGTH", std::to_string(c.kv_length)},
                                     {"kernel.args.HEAD_DIM", std::to_string(c.head_dim)},
                                     {"kernel.args.BLOCK_M", "32"},
                                     {"kernel.args.CAUSAL", c.causal ? "true" : "false"}};
  if (c.streamed)
    overrides.insert(overrides.end(), {{"kernel.file", "../kernels/attention_streamed.py"},
                                       {"kernel.function", "attention_streamed"},
                                       {"kernel.args.BLOCK_N", "32"}});
  for (const std::string tensor : {"q", "k", "v", "o"})
    overrides.insert(overrides.end(), {{"tensors." + tensor + ".dtype", std::string(name_of(c.dtype))},
                                       {"communicate." + tensor + ".initiator", c.initiator},
                                       {"communicate." + tensor + ".split", std::to_string(c.split)}});
  return compile_operator(kHeads, overrides);
}

/// What the callers of all ranks have of a tensor, one below the other.
Matrix rows_of_all(const Plan& plan, const LaunchData& data, const std::string& name) {
  std::vector<Matrix> parts;
  for (int rank = 0; rank < plan.ranks; ++rank) parts.push_back(matrix_of(plan, data, rank, name));
  return stacked(parts);
}

class AttentionOverHeads : public ::testing::TestWithParam<HeadParallel> {};

TEST_P(AttentionOverHeads, IsProvenAndRight) {
  const HeadParallel& c = GetParam();
  const Plan plan = compiled(c);
  const AttentionSizes sizes{std::int64_t{c.heads} * c.ranks, c.group, c.head_dim, 0.125, c.causal};
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const LaunchData data = run_of(plan, InputKind::reals, seed);
    EXPECT_EQ(compare_attention(sizes, rows_of_all(plan, data, "q"), rows_of_all(plan, data, "k"),
                                rows_of_all(plan, data, "v"), rows_of_all(plan, data, "o"),
                                rows_of_all(plan, data, "lse"), c.dtype),
              "");
  }
}

std::vector<HeadParallel> head_parallel() {
  std::vector<HeadParallel> cases;
  for (const int ranks : {2, 4, 8})
    for (const bool causal : {false, true})
      for (const char* initiator : {"push", "pull"}) {
        HeadParallel c;
        c.ranks = ranks;
        c.causal = causal;
        c.initiator = initiator;
        cases.push_back(c);
        // 4 query heads and one of keys on each rank, shards that end inside blocks, the last of them short.
        c.heads = c.group = 4;
        c.q_length = 117;
        c.kv_length = 91;
        c.head_dim = 128;
        c.dtype = Dtype::fp16;
        c.split = 3;
        c.workers = 5;
        cases.push_back(c);
      }
  HeadParallel c;
  c.ranks = 3;
  c.heads = 8;
  c.group = 4;
  c.q_length = 50;
  c.kv_length = 77;
  cases.push_back(c);
  c.ranks = 4;
  c.q_length = 3;  // the last rank has no rows of queries
  cases.push_back(c);
  // The first half with a streamed loop too; there is nothing to stream where rows are fewer than a block.
  for (std::size_t i = 0, count = cases.size() - 1; i < count; i += 2) {
    cases.push_back(cases[i]);
    cases.back().streamed = true;
    cases.push_back(cases.back());
    cases.back().kv_length = 150;
    cases.back().split = 2;
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, AttentionOverHeads, ::testing::ValuesIn(head_parallel()),
                         [](const auto& test) { return test.param.name(); });

/// Which ranks sent the parts of a tensor that these waits are for, ascending.
std::vector<int> senders_waited_for(const Plan& plan, const std::vector<Wait>& waits, const std::string& tensor) {
  std::vector<int> senders;
  for (const RankProgram& program : plan.programs)
    for (const Queue& queue : program.queues)
      for (const Transfer& transfer : queue.transfers)
        for (const int signal : transfer.signals)
          if (plan.buffer(transfer.destination.buffer).name == tensor &&
              std::any_of(waits.begin(), waits.end(), [&](const Wait& wait) { return wait.signal == signal; }))
            senders.push_back(transfer.source.rank);
  std::sort(senders.begin(), senders.end());
  return senders;
}

TEST(AttentionOverHeads, CausalTilesWaitOnlyForTheChunksThatTheySee) {
  HeadParallel c;
  c.q_length = c.kv_length = 256;  // a rank's 64 rows are two tiles of queries and one block of keys
  c.workers = 64;                  // each has a worker of its own, so that all its waits are seen
  const Plan plan = compiled(c);
  for (int rank = 0; rank < c.ranks; ++rank)
    for (const Slot& slot : plan.programs[static_cast<std::size_t>(rank)].slots) {
      const int part = static_cast<int>(plan.tiles[static_cast<std::size_t>(slot.tile)].index[1] / 2);
      std::vector<int> seen;
      for (int sender = 0; sender <= part; ++sender) seen.push_back(sender);
      EXPECT_EQ(senders_waited_for(plan, slot.waits, "v_inside"), seen);
      // What a rank copies for itself stands in one queue, v last.
      const auto without_own = [&](std::vector<int> senders) {
        senders.erase(std::remove(senders.begin(), senders.end(), rank), senders.end());
        return senders;
      };
      EXPECT_EQ(senders_waited_for(plan, slot.waits, "q_inside"), without_own({part}));
      EXPECT_EQ(senders_waited_for(plan, slot.waits, "k_inside"), without_own(seen));
    }
}

/// A tile that sees all keys begins when its queries are there, and goes through the keys as they come: what the rank
/// has itself, then from the rank before it, and so on.
TEST(AttentionOverHeads, AStreamedLoopFollowsTheArrivals) {
  HeadParallel c;
  c.q_length = c.kv_length = 256;
  c.causal = false;
  c.streamed = true;
  c.workers = 64;
  const Plan plan = compiled(c);
  ASSERT_EQ(plan.kernel.streamed_loops, std::vector<std::string>{"keys"});
  for (int rank = 0; rank < c.ranks; ++rank)
    for (const Slot& slot : plan.programs[static_cast<std::size_t>(rank)].slots) {
      const int part = static_cast<int>(plan.tiles[static_cast<std::size_t>(slot.tile)].index[1] / 2);
      EXPECT_EQ(senders_waited_for(plan, slot.waits, "q_inside"), std::vector<int>{part});
      EXPECT_EQ(senders_waited_for(plan, slot.waits, "k_inside"), std::vector<int>{});
      ASSERT_EQ(slot.steps.size(), 4U);
      for (int step = 0; step < c.ranks; ++step) {
        const std::vector<int> sender = {(rank - step + c.ranks) % c.ranks};
        EXPECT_EQ(slot.steps[static_cast<std::size_t>(step)].piece, sender[0]) << "rank " << rank;
        EXPECT_EQ(senders_waited_for(plan, slot.steps[static_cast<std::size_t>(step)].waits, "v_inside"), sender);
      }
    }
}

/// Rank r hears from r-1 first, then from r-2, and so on; a tile runs when the last that it needs has come.
/// What runs at the same time may stand in any order.
TEST(AttentionOverHeads, TilesRunInTheOrderInWhichTheyBecomePossible) {
  HeadParallel c;
  c.q_length = c.kv_length = 256;
  const Plan plan = compiled(c);
  for (int rank = 0; rank < c.ranks; ++rank) {
    int before = 0;  // of the rounds before
    int latest = 0;
    const std::vector<Slot>& slots = plan.programs[static_cast<std::size_t>(rank)].slots;
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (s % static_cast<std::size_t>(c.workers) == 0) before = latest;
      const std::int64_t part = plan.tiles[static_cast<std::size_t>(slots[s].tile)].index[1] / 2;  // 64 rows a rank
      int last = 0;
      for (int source = 0; source <= part; ++source) last = std::max(last, (rank - source + c.ranks) % c.ranks);
      EXPECT_GE(last, before) << "rank " << rank;
      latest = std::max(latest, last);
    }
  }
}

/// Under a causal mask tiles differ. With as many workers as a head has blocks each would get the same block of every
/// head: the last ones would have all the long tiles.
TEST(AttentionOverHeads, WorkersHaveTheSameWork) {
  HeadParallel c;
  c.ranks = 2;
  c.heads = 8;
  c.q_length = c.kv_length = 512;
  c.workers = 16;  // blocks of 32 rows
  for (const bool streamed : {false, true}) {
    c.streamed = streamed;
    const Plan plan = compiled(c);
    for (const RankProgram& program : plan.programs) {
      ASSERT_EQ(program.slots.size(), 128U);
      std::vector<std::int64_t> loads(16, 0);
      for (std::size_t slot = 0; slot < program.slots.size(); ++slot)
        loads[slot % 16] += plan.tiles[static_cast<std::size_t>(program.slots[slot].tile)].index[1] + 1;
      const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
      EXPECT_LE(*most - *least, 16) << "of " << 8 * 17 / 2 * 2 << " on average";
    }
  }
}

/// What leaves goes chunk by chunk: the chunk for a peer waits for the tiles of that peer's rows, and no others.
TEST(AttentionOverHeads, ResultsLeaveAsSoonAsTheyAreWhole) {
  HeadParallel c;
  c.causal = false;
  c.workers = 64;
  const Plan plan = compiled(c);
  int count = 0;
  for (const RankProgram& program : plan.programs)
    for (const Queue& queue : program.queues)
      for (const Transfer& transfer : queue.transfers) {
        if (plan.buffer(transfer.destination.buffer).name != "o") continue;
        ++count;
        for (const Wait& wait : transfer.waits)
          for (const Slot& slot : program.slots)
            if (std::count(slot.signals.begin(), slot.signals.end(), wait.signal) > 0) {
              EXPECT_EQ(plan.tiles[static_cast<std::size_t>(slot.tile)].index[1], transfer.destination.rank);
            }
      }
  EXPECT_EQ(count, 16);
}

TEST(AttentionOverHeads, EveryInterleavingIsRight) {
  HeadParallel c;
  c.ranks = 3;
  c.q_length = 40;
  c.kv_length = 70;
  const Plan plan = compiled(c);
  for (std::uint64_t seed = 0; seed < 40; ++seed) run_of(plan, InputKind::small_integers, seed);
}

std::string error_of(const std::vector<Override>& overrides) {
  try {
    compile_operator(kHeads, overrides);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(AttentionOverHeads, KeyHeadsAreWhole) {
  EXPECT_EQ(error_of({{"kernel.args.HEADS", "3"}}),
            "--set kernel.args.HEADS=3: in the expression 'HEADS / GROUP * HEAD_DIM * ranks': 3 / 2 leaves a "
            "remainder; sizes that divide, or // to round down");
  EXPECT_THAT(error_of({{"kernel.args.GROUP", "4"}}), HasSubstr("2 / 4 leaves a remainder"));
}

TEST(AttentionOverHeads, HeadsAreNotCut) {
  // 20 heads of 64 on 8 ranks divide as columns, and not as heads.
  EXPECT_THAT(error_of({{"ranks", "8"}, {"tensors.q.shape", "[\"Q_LENGTH\", 1280]"}}),
              HasSubstr("kernels/attention.py:53:9: this descriptor of shard(1) of q has shape 256 x 128 and strides "
                        "128, 1, but the tensor is 256 x 160"));
  // 20 heads on 3 ranks do not even divide as columns.
  EXPECT_THAT(error_of({{"ranks", "3"}, {"tensors.q.shape", "[\"Q_LENGTH\", 1280]"}}),
              HasSubstr("dimension 1 of tensor 'q' is 1280, which 3 ranks cannot share evenly"));
}

TEST(AttentionOverHeads, KeysAndValuesMatch) {
  EXPECT_THAT(error_of({{"tensors.v.shape", "[200, \"HEADS / GROUP * HEAD_DIM * ranks\"]"}}),
              HasSubstr("kernels/attention.py:56:9: this descriptor of shard(1) of v has shape 256 x 64 and strides "
                        "64, 1, but the tensor is 200 x 64"));
  EXPECT_THAT(error_of({{"tensors.k.dtype", "fp16"}}),
              HasSubstr("tl.dot of a block of bf16 and a block of fp16; both operands must have one dtype"));
}

TEST(AttentionOverHeads, UnsupportedHeadDimensionsAreRefused) {
  EXPECT_THAT(
      error_of({{"kernel.args.HEAD_DIM", "96"}}),
      HasSubstr("kernels/attention.py:48:5: this static assertion fails; HEAD_DIM is a power of two, at most 256"));
  EXPECT_THAT(
      error_of({{"kernel.args.HEAD_DIM", "256"}}),
      HasSubstr("kernels/attention.py:50:5: this static assertion fails; BLOCK_N is at least half of HEAD_DIM"));
}

}  // namespace
}  // namespace syncopate
