// Causal attention of one sequence that is cut over the ranks, in successive stretches or in zigzag: arguments that
// differ by rank, chunks that nobody needs and nobody sends, and the balance of the work; proven, executed on CPU ranks
// under several interleavings, and held against attention in fp64 over the whole sequence.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <set>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/plan/print.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/attention_reference.h"
#include "tests/driver/right_run.h"

namespace syncopate {
namespace {

using ::testing::HasSubstr;
using testing::Matrix;
using testing::matrix_of;
using testing::operator_file;
using testing::run_of;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

constexpr int kHeads = 4;
constexpr int kGroup = 2;
constexpr int kHeadDim = 16;
constexpr int kBlock = 16;

struct Causal {
  bool zigzag = false;
  int ranks = 4;
  std::string algorithm = "direct";
  std::string initiator = "push";
  int split = 1;
  int length = 128;
  int workers = 3;
  bool causal = true;

  std::string name() const {
    return fmt::format("{}_{}ranks_{}_{}_split{}_{}_{}workers{}", zigzag ? "zigzag" : "successive", ranks, algorithm,
                       initiator, split, length, workers, causal ? "" : "_full");
  }
  /// Rows of a stretch, the last of which may be shorter, or empty.
  int stretch() const { return zigzag ? (length + 2 * ranks - 1) / (2 * ranks) : (length + ranks - 1) / ranks; }
  int rows() const { return zigzag ? 2 * stretch() : stretch(); }
  /// The place in the sequence of a row of a rank's queries.
  int place(int rank, int row) const {
    if (!zigzag) return rank * stretch() + row;
    return row < stretch() ? rank * stretch() + row : (2 * ranks - 1 - rank) * stretch() + row - stretch();
  }
};
void PrintTo(const Causal& c, std::ostream* out) { *out << c.name(); }

std::vector<Override> overrides_of(const Causal& c) {
  std::vector<Override> overrides = {{"ranks", std::to_string(c.ranks)},
                                     {"launch.workers", std::to_string(c.workers)},
                                     {"kernel.args.KV_LENGTH", std::to_string(c.length)},
                                     {"kernel.args.CAUSAL", c.causal ? "true" : "false"}};
  for (const std::string tensor : {"k", "v"}) {
    const std::string table = "communicate." + tensor + ".";
    overrides.insert(overrides.end(), {{table + "algorithm", c.algorithm},
                                       {table + "initiator", c.initiator},
                                       {table + "split", std::to_string(c.split)}});
    if (c.algorithm == "double_ring" || c.algorithm == "hierarchical")
      overrides.push_back({table + "ranks_per_node", "2"});
  }
  return overrides;
}

std::string file_of(const Causal& c) { return operator_file(c.zigzag ? "attention_sp_zigzag" : "attention_sp_causal"); }

Plan compiled(const Causal& c) { return compile_operator(file_of(c), overrides_of(c)); }

/// Rows of all ranks, each at its place in the sequence. Those past its end are left out.
Matrix whole_sequence(const Causal& c, const std::vector<Matrix>& of_ranks) {
  Matrix whole{c.length, of_ranks.front().columns, {}};
  whole.values.assign(at(whole.rows * whole.columns), std::nan(""));
  for (int rank = 0; rank < c.ranks; ++rank)
    for (int row = 0; row < c.rows(); ++row) {
      const int place = c.place(rank, row);
      if (place >= c.length) continue;
      for (std::int64_t column = 0; column < whole.columns; ++column)
        whole.values[at(place * whole.columns + column)] = of_ranks[at(rank)].at(row, column);
    }
  return whole;
}

Matrix transposed(const Matrix& matrix) {
  Matrix other{matrix.columns, matrix.rows, {}};
  for (std::int64_t row = 0; row < other.rows; ++row)
    for (std::int64_t column = 0; column < other.columns; ++column) other.values.push_back(matrix.at(column, row));
  return other;
}

/// Attention over the whole sequence, in fp64, against what the ranks have made of it. "" if it is as near as its
/// roundings allow.
std::string compare(const Plan& plan, const Causal& c, const LaunchData& data) {
  std::vector<Matrix> q;
  std::vector<Matrix> o;
  std::vector<Matrix> lse;
  for (int rank = 0; rank < c.ranks; ++rank) {
    q.push_back(matrix_of(plan, data, rank, "q"));
    o.push_back(matrix_of(plan, data, rank, "o"));
    lse.push_back(transposed(matrix_of(plan, data, rank, "lse")));
  }
  return testing::compare_attention({kHeads, kGroup, kHeadDim, 0.25, c.causal}, whole_sequence(c, q),
                                    matrix_of(plan, data, 0, "k"), matrix_of(plan, data, 0, "v"), whole_sequence(c, o),
                                    transposed(whole_sequence(c, lse)), Dtype::bf16);
}

class CausalAttention : public ::testing::TestWithParam<Causal> {};

TEST_P(CausalAttention, IsProvenAndRight) {
  const Plan plan = compiled(GetParam());
  ASSERT_EQ(plan.kernel.rank_arguments.empty(), GetParam().ranks == 1);
  for (std::uint64_t seed = 0; seed < 2; ++seed)
    EXPECT_EQ(compare(plan, GetParam(), run_of(plan, InputKind::reals, seed)), "") << "seed " << seed;
}

TEST_P(CausalAttention, SendsOnlyWhatIsSeen) {
  const Causal& c = GetParam();
  const Plan plan = compiled(c);
  for (const RankProgram& program : plan.programs)
    for (const Queue& queue : program.queues)
      for (const Transfer& transfer : queue.transfers) {
        const int to = transfer.destination.rank;
        // The last place that any query has of those that this can reach: the destination's own, or, where it passes
        // the chunk on, another rank's.
        const bool passed_on = std::any_of(plan.programs.begin(), plan.programs.end(), [&](const RankProgram& other) {
          return std::any_of(other.queues.begin(), other.queues.end(), [&](const Queue& of) {
            return std::any_of(of.transfers.begin(), of.transfers.end(), [&](const Transfer& later) {
              return later.source.rank == to && later.source.buffer == transfer.destination.buffer &&
                     later.source.region.overlaps(transfer.destination.region);
            });
          });
        });
        const int last = std::min(c.place(to, c.rows() - 1), c.length - 1);
        const int read = (last / kBlock + 1) * kBlock;  // keys are read in blocks
        EXPECT_TRUE(passed_on || !c.causal || transfer.destination.region[0].begin < read)
            << "rank " << to << " gets " << transfer.destination.region.to_string();
      }
}

TEST_P(CausalAttention, CompilesToTheSameBytes) {
  const Plan plan = compiled(GetParam());
  const std::string text = to_json(plan);
  EXPECT_EQ(to_json(compiled(GetParam())), text);
  EXPECT_EQ(to_json(parse_plan(SourceFile("plan.json", text))), text);
}

std::vector<Causal> cases() {
  std::vector<Causal> list;
  for (const bool zigzag : {false, true}) {
    for (const char* algorithm : {"direct", "ring", "bidirectional_ring", "double_ring", "recursive", "hierarchical"})
      for (const char* initiator : {"push", "pull"})
        for (const int ranks : {2, 3, 4, 8}) {
          const bool nodes =
              std::string_view(algorithm) == "double_ring" || std::string_view(algorithm) == "hierarchical";
          if ((nodes && ranks % 2 != 0) || (ranks == 8 && std::string_view(initiator) == "pull")) continue;
          Causal c;
          c.zigzag = zigzag;
          c.algorithm = algorithm;
          c.initiator = initiator;
          c.ranks = ranks;
          c.length = 16 * ranks;  // stretches of zigzag end inside blocks
          c.split = 1 + ranks % 2;
          list.push_back(c);
          if (ranks == 8) continue;
          c.length = 13 * ranks - 4;  // ragged everywhere, and the last stretch shorter
          c.split = 2;
          c.workers = 2;
          list.push_back(c);
        }
    Causal c;
    c.zigzag = zigzag;
    for (const int ranks : {1, 5, 6, 7}) {
      c.ranks = ranks;
      c.length = 7 * ranks + 1;
      list.push_back(c);
    }
    // Fewer places than stretches: some have one, and some none.
    c.ranks = 4;
    for (const int length : {1, 3, 5, 7}) {
      c.length = length;
      for (const char* algorithm : {"direct", "ring", "bidirectional_ring"}) {
        c.algorithm = algorithm;
        list.push_back(c);
      }
    }
    c.algorithm = "direct";
    c.length = 64;
    c.causal = false;  // the arguments differ, and no tile does
    list.push_back(c);
  }
  return list;
}
INSTANTIATE_TEST_SUITE_P(Cases, CausalAttention, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name(); });

/// Iterations of the loops over keys that the tiles of a rank walk.
std::int64_t walked(const Plan& plan, int rank) {
  std::int64_t iterations = 0;
  for (const Slot& slot : plan.programs[at(rank)].slots)
    for (const LoopPiece& piece : plan.tiles[at(slot.tile)].pieces) iterations += piece.end - piece.begin;
  return iterations;
}

std::int64_t transfers(const Plan& plan) {
  std::int64_t count = 0;
  for (const RankProgram& program : plan.programs)
    for (const Queue& queue : program.queues) count += static_cast<std::int64_t>(queue.transfers.size());
  return count;
}

TEST(CausalBalance, ZigzagGivesAllRanksAsMuchToDo) {
  for (const int ranks : {2, 3, 4, 8})
    for (const int length : {32 * ranks, 64 * ranks, 32 * ranks + 5, 29 * ranks - 7}) {
      Causal c;
      c.zigzag = true;
      c.ranks = ranks;
      c.length = length;
      const Plan plan = compiled(c);
      std::vector<std::int64_t> work;
      for (int rank = 0; rank < ranks; ++rank) work.push_back(walked(plan, rank));
      const auto [least, most] = std::minmax_element(work.begin(), work.end());
      // A row of blocks, for each head.
      const std::int64_t row = (length + kBlock - 1) / kBlock;
      EXPECT_LE(*most - *least, length % (32 * ranks) == 0 ? 0 : kHeads * row) << c.name();
    }
}

TEST(CausalBalance, SuccessiveStretchesDoNot) {
  Causal c;
  c.length = 64 * c.ranks;
  const Plan plan = compiled(c);
  for (int rank = 0; rank < c.ranks; ++rank)  // block i of the sequence walks i + 1 blocks of keys
    EXPECT_EQ(walked(plan, rank), kHeads * (10 + 16 * rank)) << rank;
}

/// A chunk goes to those who see it: of successive stretches to the ranks behind; of zigzag one in the first half to
/// all others, one in the second half to the ranks whose second stretch comes later.
TEST(CausalTransfers, AreThoseThatSomebodyNeeds) {
  for (const char* algorithm : {"direct", "ring"})
    for (const int ranks : {2, 3, 4, 8}) {
      Causal c;
      c.ranks = ranks;
      c.length = 32 * ranks;
      c.algorithm = algorithm;
      const std::int64_t pairs = std::int64_t{ranks} * (ranks - 1) / 2;
      EXPECT_EQ(transfers(compiled(c)), 2 * pairs) << c.name();
      c.zigzag = true;
      if (std::string_view(algorithm) == "direct") {
        EXPECT_EQ(transfers(compiled(c)), 2 * 3 * pairs) << c.name();
      }
      c.causal = false;
      EXPECT_EQ(transfers(compiled(c)), 2 * 4 * pairs) << c.name();
    }
}

/// A ring ends where nobody further on needs the chunk: of zigzag, stretch ranks + i of rank ranks - 1 - i is for the
/// ranks before that one only, and a ring comes to them past the others.
TEST(CausalTransfers, RingsOfZigzagGoAsFarAsNeeded) {
  Causal c;
  c.zigzag = true;
  c.algorithm = "ring";
  c.length = 32 * c.ranks;
  // Rank 3's second stretch goes on to ranks 0, 1 and 2; rank 2's past rank 3 to 0 and 1, rank 1's past 2 and 3 to 0;
  // rank 0's nowhere. Each rank's first goes round.
  EXPECT_EQ(transfers(compiled(c)), 2 * (3 + 3 + 3 + 0 + 4 * 3));
}

/// Not the ranks decide what is useless, but what tiles read.
TEST(CausalTransfers, AMaskMayHideAChunkFromAllRanks) {
  const Plan plan = compile_operator(operator_file("attention_sp"), {{"kernel.args.CAUSAL", "true"}});
  ASSERT_TRUE(plan.kernel.rank_arguments.empty());
  EXPECT_EQ(transfers(plan), 2 * 2 * 3) << "two chunks of each tensor, from rank 0";
  ASSERT_EQ(run_of(plan, InputKind::reals, 1).outputs.size(), 4u);
}

TEST(RankArguments, AreInThePlanOnlyIfTheyDiffer) {
  Causal c;
  const Plan plan = compiled(c);
  ASSERT_EQ(plan.kernel.rank_arguments.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(plan.kernel.rank_arguments[at(rank)], (ScalarArguments{{"q_start", std::int64_t{32} * rank}}));
    EXPECT_EQ(arguments_of(plan.kernel, rank).at("q_start"), Scalar(std::int64_t{32} * rank));
  }
  EXPECT_FALSE(plan.kernel.arguments.contains("q_start"));
  EXPECT_THAT(to_json(plan), HasSubstr("\"rank_arguments\""));
  EXPECT_THAT(summary(plan), HasSubstr("q_start by rank: 0, 32, 64, 96"));
  const Plan same = compile_operator(operator_file("attention_sp"), {{"kernel.args.q_start", "\"rank * 0 + 3\""}});
  EXPECT_TRUE(same.kernel.rank_arguments.empty());
  EXPECT_EQ(to_json(same), to_json(compile_operator(operator_file("attention_sp"), {{"kernel.args.q_start", "3"}})));
}

TEST(RankArguments, EqualTilesStandOnce) {
  Causal c;
  c.causal = false;
  const Plan full = compiled(c);
  EXPECT_EQ(full.tiles.size(), at(kHeads * 2));
  c.causal = true;
  const Plan plan = compiled(c);
  EXPECT_EQ(plan.tiles.size(), at(kHeads * 2 * c.ranks));
  for (int rank = 0; rank < c.ranks; ++rank) {
    EXPECT_EQ(tiles_of(plan, rank).size(), at(kHeads * 2));
    std::set<std::vector<std::int64_t>> indices;
    for (const int tile : tiles_of(plan, rank)) indices.insert(plan.tiles[at(tile)].index);
    EXPECT_EQ(indices.size(), at(kHeads * 2));
  }
}

/// The counter-example of a theorem that does not hold.
std::string refuted(const Plan& plan, const std::string& theorem) {
  for (const Theorem& each : verify(plan).theorems)
    if (each.name == theorem) return each.counterexample;
  return "no such theorem";
}

TEST(RankArguments, AreOfGoodForm) {
  const Plan right = compiled(Causal{});
  Plan plan = right;
  plan.kernel.rank_arguments.pop_back();
  EXPECT_EQ(refuted(plan, "form"), "3 ranks of 4 have arguments of their own");
  plan = right;
  plan.kernel.rank_arguments[2] = {{"scale", 0.5}};
  EXPECT_EQ(refuted(plan, "form"), "ranks have other arguments of their own than rank 0");
  plan = right;
  plan.kernel.arguments["q_start"] = std::int64_t{0};
  EXPECT_EQ(refuted(plan, "form"), "argument q_start is one of all ranks and one of each");
  plan = right;
  plan.kernel.rank_arguments.clear();
  EXPECT_THAT(refuted(plan, "form"), HasSubstr("is there twice"));
  // Rank 1 walks a tile of its own and, in place of another, one of rank 0 with the same index.
  plan = right;
  std::vector<Slot>& slots = plan.programs[1].slots;
  const std::vector<std::int64_t> index = plan.tiles[at(slots[0].tile)].index;
  for (const int tile : tiles_of(right, 0))
    if (plan.tiles[at(tile)].index == index) slots[1].tile = tile;
  slots[1].steps.clear();
  for (std::size_t p = 0; p < plan.tiles[at(slots[1].tile)].pieces.size(); ++p)
    slots[1].steps.push_back({static_cast<int>(p), {}});
  EXPECT_THAT(refuted(plan, "form"),
              HasSubstr("slot 1 of rank 1 is for another tile than an earlier slot with its index"));
}

/// CPU ranks look at a plan before they run it.
TEST(RankArguments, EachRankRunsOneTileOfEachIndex) {
  Plan plan = compiled(Causal{});
  plan.programs[2].slots.pop_back();
  const RunReport report = run_on_cpu_ranks(plan, {});
  EXPECT_EQ(report.outcome, Outcome::bad_access);
  EXPECT_THAT(report.message, HasSubstr("rank 2 runs no tile ("));
}

/// Plans list the tiles that the arguments make; with others the kernel's loops are not those of the plan.
TEST(RankArguments, AreThoseOfTheTiles) {
  Plan plan = compiled(Causal{});
  plan.kernel.rank_arguments[0]["q_start"] = std::int64_t{32};
  try {
    run_on_cpu_ranks(plan, {});
    FAIL() << "rank 0 ran with the arguments of rank 1";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a plan's pieces are not the iterations of this streamed loop"));
  }
}

std::string refusal(const std::string& name, const std::vector<Override>& overrides) {
  try {
    compile_operator(operator_file(name), overrides);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CausalMistakes, OfArgumentsThatDifferByRank) {
  const std::string name = "attention_sp_causal";
  EXPECT_THAT(refusal(name, {{"kernel.args.Q_LENGTH", "\"64 + rank\""}}),
              HasSubstr("'shape' of [tensors.q] is \"Q_LENGTH\", and 'Q_LENGTH' differs by rank; an expression that is "
                        "the same on all ranks"));
  EXPECT_THAT(refusal(name, {{"tensors.q.shape", R"(["Q_LENGTH + rank", 64])"}}),
              HasSubstr("and 'rank' differs by rank"));
  EXPECT_THAT(refusal(name, {{"kernel.args.BLOCK_N", "\"16 + 16 * (rank % 2)\""}}),
              HasSubstr("argument 'BLOCK_N' differs by rank, and it is compiled in (tl.constexpr); all ranks run one "
                        "kernel"));
  EXPECT_THAT(refusal(name, {{"kernel.args.q_start", "\"rank * q_start\""}}),
              HasSubstr("argument 'q_start' depends on itself"));
  EXPECT_THAT(refusal(name, {{"kernel.args.q_start", "\"rank * Q_LENGHT\""}}),
              HasSubstr("unknown name 'Q_LENGHT'; did you mean 'Q_LENGTH'?"));
  EXPECT_THAT(refusal(name, {{"kernel.args.q_start", "\"rank * scale\""}}),
              HasSubstr("'scale' is 0.25, not an integer"));
  EXPECT_THAT(refusal(name, {{"ranks", "\"rank\""}}), HasSubstr("'ranks'"));
}

TEST(CausalMistakes, OfKeysAndValuesThatDoNotMatch) {
  const std::string name = "attention_sp_zigzag";
  EXPECT_THAT(
      refusal(name, {{"tensors.v.before", "\"shard(0)\""}}),
      HasSubstr("the loop over keys reads 'k', which is zigzag(0) before, and 'v', which is shard(0); place them "
                "alike"));
  EXPECT_THAT(refusal(name, {{"communicate.k.algorithm", "ring"}}),
              HasSubstr("reads 'k', which is communicated by ring, split 1, and 'v', by direct, split 1; give both the "
                        "same algorithm and split"));
  EXPECT_THAT(refusal(name, {{"communicate.v.split", "2"}}), HasSubstr("and 'v', by direct, split 2"));
  EXPECT_EQ(refusal(name, {{"communicate.v.initiator", "pull"}}), "accepted");
  EXPECT_THAT(refusal(name, {{"tensors.v.shape", R"(["KV_LENGTH + 16", "HEADS / GROUP * HEAD_DIM"])"}}),
              HasSubstr("attention_streamed.py"));
}

TEST(CausalMistakes, OfZigzag) {
  const std::string name = "attention_sp_zigzag";
  EXPECT_THAT(refusal(name, {{"tensors.k.inside", "\"shard(0)\""}}),
              HasSubstr("no collective turns zigzag(0) into shard(0); zigzag(d) is how ranks hold what is gathered"));
  EXPECT_THAT(refusal(name, {{"tensors.k.before", "\"zigzag(2)\""}}), HasSubstr("shards dimension 2 of a tensor of 2"));
  EXPECT_THAT(refusal(name, {{"tensors.o.after", "\"zigzag(0)\""}, {"tensors.o.inside", "\"replicate\""}}),
              HasSubstr("is zigzag(0)"));
  EXPECT_THAT(refusal(name, {{"tensors.q.before", "\"zigzag(0)\""}}),
              HasSubstr("is zigzag(0) inside the kernel; zigzag is how ranks hold what is gathered: before = "
                        "\"zigzag(0)\", inside = \"replicate\""));
  EXPECT_THAT(refusal(name, {{"tensors.o.inside", "\"zigzag(0)\""}, {"tensors.o.after", "replicate"}}),
              HasSubstr("is zigzag(0) inside the kernel"));
  EXPECT_THAT(refusal(name, {{"tensors.k.before", "\"zigzag\""}}),
              HasSubstr("a placement is \"shard(dimension)\", \"zigzag"));
  EXPECT_THAT(refusal(name, {{"communicate.k.split", "33"}}),
              HasSubstr("split is 33, but the largest stretch of 'k' has 32 indices along dimension 0"));
}

}  // namespace
}  // namespace syncopate
