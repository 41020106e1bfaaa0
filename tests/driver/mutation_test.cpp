// Mutated plans. Each one is either rejected by verify or right under every interleaving tried; every dropped wait is
// rejected (waits are minimal); and CPU ranks, which know nothing of verify, catch every rejected mutant themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ostream>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/verify/verify.h"
#include "tests/support/mutate.h"
#include "tests/support/mutate_sums.h"

namespace syncopate {
namespace {

struct Family {
  std::string algorithm;
  std::string initiator;
  int ranks;
  bool gather_b = false;
  std::string name() const {
    return algorithm + "_" + initiator + "_" + std::to_string(ranks) + "ranks" + (gather_b ? "_and_b" : "");
  }
};

Plan compiled(const Family& family) {
  std::vector<Override> overrides = {{"ranks", std::to_string(family.ranks)},
                                     {"kernel.args.M", "44"},
                                     {"kernel.args.N", "24"},
                                     {"kernel.args.K", "20"},
                                     {"kernel.args.BLOCK_M", "16"},
                                     {"kernel.args.BLOCK_N", "16"},
                                     {"kernel.args.BLOCK_K", "16"},
                                     {"launch.workers", "2"},
                                     {"communicate.a.algorithm", family.algorithm},
                                     {"communicate.a.initiator", family.initiator},
                                     {"communicate.a.split", "2"}};
  if (family.gather_b)
    overrides.insert(overrides.end(), {{"tensors.b.before", "\"shard(1)\""}, {"tensors.b.inside", "replicate"}});
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm_pointers.toml", overrides);
}

/// The first seed, plain or hostile, under which CPU ranks find something wrong; "" if none does.
std::string caught_by_cpu_ranks(const Plan& plan, int seeds) {
  for (int seed = 0; seed < seeds; ++seed)
    for (const bool adversary : {false, true}) {
      RunOptions options;
      options.seed = static_cast<std::uint64_t>(seed);
      options.adversary = adversary;
      options.repeat = 3;
      const RunReport report = run_on_cpu_ranks(plan, options);
      if (report.outcome != Outcome::right) return std::string(name_of(report.outcome)) + ": " + report.message;
    }
  return "";
}

/// Counts what verify rejects, by kind of mutation.
class Tally {
 public:
  void add(const std::string& kind, bool rejected) {
    auto& [count, all] = counts_[kind];
    ++all;
    count += rejected ? 1 : 0;
  }
  ~Tally() {
    for (const auto& [kind, count] : counts_)
      std::printf("  %-40s %d of %d rejected\n", kind.c_str(), count.first, count.second);
  }

 private:
  std::map<std::string, std::pair<int, int>> counts_;  // kind -> rejected, all
};

/// Whether verify rejects the mutant; and CPU ranks must agree, unless a wrong order of additions goes unnoticed. Plans
/// that the compiler makes raise nothing that whoever waits knows without: so no raise may come early.
bool rejected(const testing::Mutant& mutant, bool may_go_unnoticed = false) {
  const Proof proof = verify(mutant.plan);
  if (!mutant.may_be_valid || mutant.kind == "raise early") {
    EXPECT_FALSE(proof.holds()) << "accepted: " << mutant.description;
  }
  const std::string caught = caught_by_cpu_ranks(mutant.plan, 4);
  if (proof.holds()) {
    EXPECT_EQ(caught, "") << "verify accepts, CPU ranks do not: " << mutant.description;
  } else if (!may_go_unnoticed) {
    EXPECT_NE(caught, "") << "CPU ranks do not notice: " << mutant.description << '\n' << proof.to_string();
  }
  return !proof.holds();
}

void PrintTo(const Family& family, std::ostream* out) { *out << family.name(); }

class Mutations : public ::testing::TestWithParam<Family> {};

TEST_P(Mutations, VerifyAndCpuRanksAgree) {
  const Plan plan = compiled(GetParam());
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(caught_by_cpu_ranks(plan, 5), "");
  Tally tally;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) tally.add(mutant.kind, rejected(mutant));
}

std::vector<Family> families() {
  std::vector<Family> all;
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const char* initiator : {"push", "pull"})
      for (const int ranks : {2, 3}) all.push_back({algorithm, initiator, ranks, false});
  all.push_back({"ring", "push", 2, true});
  all.push_back({"direct", "pull", 2, true});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Families, Mutations, ::testing::ValuesIn(families()),
                         [](const auto& test) { return test.param.name(); });

/// Kernels of other styles: block pointers, grids of several axes.
struct Idiom {
  std::string file;
  std::vector<Override> sizes;
  std::string tensors;  ///< what is gathered
  std::string initiator;
  std::string name() const { return file + "_" + initiator; }
};
void PrintTo(const Idiom& idiom, std::ostream* out) { *out << idiom.name(); }

class IdiomMutations : public ::testing::TestWithParam<Idiom> {};

/// Chunks that end inside tiles.
TEST_P(IdiomMutations, VerifyAndCpuRanksAgree) {
  std::vector<Override> overrides = GetParam().sizes;
  overrides.insert(overrides.end(), {{"ranks", "2"}, {"launch.workers", "2"}});
  for (const char tensor : GetParam().tensors) {
    const std::string table = std::string("communicate.") + tensor;
    overrides.insert(overrides.end(), {{table + ".initiator", GetParam().initiator}, {table + ".split", "2"}});
  }
  const Plan plan =
      compile_operator(SYNCOPATE_SOURCE_DIR "/tests/kernel/idioms/" + GetParam().file + ".toml", overrides);
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(caught_by_cpu_ranks(plan, 5), "");
  Tally tally;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) tally.add(mutant.kind, rejected(mutant));
}

std::vector<Idiom> idioms() {
  const std::vector<Override> product = {{"kernel.args.M", "44"},       {"kernel.args.N", "24"},
                                         {"kernel.args.K", "20"},       {"kernel.args.BLOCK_M", "16"},
                                         {"kernel.args.BLOCK_N", "16"}, {"kernel.args.BLOCK_K", "16"}};
  const std::vector<Override> attention = {{"kernel.args.queries", "20"}, {"kernel.args.keys", "24"},
                                           {"kernel.args.stride", "16"},  {"kernel.args.D", "16"},
                                           {"kernel.args.BLOCK_M", "16"}, {"kernel.args.BLOCK_N", "16"}};
  const std::vector<Override> gated = {{"kernel.args.rows", "13"}, {"kernel.args.width", "32"}};
  const std::vector<Override> norm = {
      {"kernel.args.rows", "11"}, {"kernel.args.width", "12"}, {"kernel.args.WIDTH", "16"}};
  return {{"gemm_block_pointers", product, "a", "push"},
          {"gemm_block_pointers", product, "a", "pull"},
          {"attention_block_pointers", attention, "kv", "push"},
          {"attention_block_pointers", attention, "kv", "pull"},
          {"gated_grid", gated, "x", "push"},
          {"norm_rotary", norm, "x", "pull"}};
}
INSTANTIATE_TEST_SUITE_P(Families, IdiomMutations, ::testing::ValuesIn(idioms()),
                         [](const auto& test) { return test.param.name(); });

/// A product gathered along its inner dimension: tiles wait between the pieces of their loop.
struct Stream {
  std::string algorithm;
  std::string initiator;
  int ranks;
  int k = 40;        ///< shards end inside blocks of 16
  bool sum = false;  ///< c is reduced besides
  std::string name() const {
    return algorithm + "_" + initiator + "_" + std::to_string(ranks) + "ranks" + (sum ? "_sum" : "");
  }
};
void PrintTo(const Stream& stream, std::ostream* out) { *out << stream.name(); }

Plan compiled(const Stream& stream) {
  std::vector<Override> overrides = {{"ranks", std::to_string(stream.ranks)},
                                     {"kernel.args.M", "28"},
                                     {"kernel.args.N", "16"},
                                     {"kernel.args.K", std::to_string(stream.k)},
                                     {"kernel.args.BLOCK_M", "16"},
                                     {"kernel.args.BLOCK_N", "16"},
                                     {"kernel.args.BLOCK_K", "16"},
                                     {"launch.workers", "2"}};
  for (const char* tensor : {"communicate.a.", "communicate.b."})
    overrides.insert(overrides.end(), {{std::string(tensor) + "algorithm", stream.algorithm},
                                       {std::string(tensor) + "initiator", stream.initiator},
                                       {std::string(tensor) + "split", "1"}});
  if (stream.sum)
    overrides.insert(overrides.end(), {{"tensors.c.inside", "\"partial(sum)\""}, {"tensors.c.after", "\"shard(0)\""}});
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm_k.toml", overrides);
}

class StreamMutations : public ::testing::TestWithParam<Stream> {};

TEST_P(StreamMutations, VerifyAndCpuRanksAgree) {
  const Plan plan = compiled(GetParam());
  ASSERT_EQ(plan.kernel.streamed_loops.size(), 1u);
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(caught_by_cpu_ranks(plan, 5), "");
  Tally tally;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) tally.add(mutant.kind, rejected(mutant));
  if (!GetParam().sum) return;
  for (const testing::SumMutant& mutant : testing::sum_mutants(plan))
    tally.add(mutant.kind, rejected(mutant, mutant.only_order));
}

INSTANTIATE_TEST_SUITE_P(Families, StreamMutations,
                         ::testing::Values(Stream{"direct", "push", 2}, Stream{"direct", "push", 3, 96},
                                           Stream{"direct", "pull", 3}, Stream{"ring", "push", 3},
                                           Stream{"ring", "pull", 2}, Stream{"bidirectional_ring", "push", 3},
                                           Stream{"direct", "push", 2, 32, true}),
                         [](const auto& test) { return test.param.name(); });

/// Causal attention over a sequence that the ranks share: tiles that differ by rank, chunks that are not sent. All of
/// what is sent is read: stretches are whole blocks.
struct Sequence {
  std::string placement;  ///< "causal": successive stretches; "zigzag"
  std::string algorithm;
  std::string initiator;
  int ranks;
  std::string name() const {
    return placement + "_" + algorithm + "_" + initiator + "_" + std::to_string(ranks) + "ranks";
  }
};
void PrintTo(const Sequence& sequence, std::ostream* out) { *out << sequence.name(); }

class SequenceMutations : public ::testing::TestWithParam<Sequence> {};

TEST_P(SequenceMutations, VerifyAndCpuRanksAgree) {
  const Sequence& c = GetParam();
  std::vector<Override> overrides = {{"ranks", std::to_string(c.ranks)},
                                     {"kernel.args.KV_LENGTH", std::to_string(32 * c.ranks)},
                                     {"kernel.args.HEADS", "2"},
                                     {"launch.workers", "2"}};
  for (const char* tensor : {"communicate.k.", "communicate.v."})
    overrides.insert(overrides.end(), {{std::string(tensor) + "algorithm", c.algorithm},
                                       {std::string(tensor) + "initiator", c.initiator},
                                       {std::string(tensor) + "split", "1"}});
  const Plan plan =
      compile_operator(SYNCOPATE_SOURCE_DIR "/operators/attention_sp_" + c.placement + ".toml", overrides);
  ASSERT_EQ(plan.kernel.rank_arguments.size(), static_cast<std::size_t>(c.ranks));
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(caught_by_cpu_ranks(plan, 5), "");
  Tally tally;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) tally.add(mutant.kind, rejected(mutant));
}

INSTANTIATE_TEST_SUITE_P(Families, SequenceMutations,
                         ::testing::Values(Sequence{"causal", "direct", "push", 3},
                                           Sequence{"causal", "ring", "pull", 3},
                                           Sequence{"zigzag", "direct", "push", 2},
                                           Sequence{"zigzag", "direct", "pull", 3},
                                           Sequence{"zigzag", "ring", "push", 3}),
                         [](const auto& test) { return test.param.name(); });

struct Producer {
  std::string algorithm;
  std::string initiator;
  int ranks;
  bool reuse = false;       ///< staging memory for one chunk of each peer
  bool gather_a = false;    ///< a gathered input beside the reduced output
  bool all_reduce = false;  ///< every rank is to have the whole sum
  std::string name() const {
    return algorithm + "_" + initiator + "_" + std::to_string(ranks) + "ranks" + (reuse ? "_reuse" : "") +
           (gather_a ? "_gather_a" : "") + (all_reduce ? "_all_reduce" : "");
  }
};
void PrintTo(const Producer& producer, std::ostream* out) { *out << producer.name(); }

Plan compiled(const Producer& producer) {
  // With reuse chunks of whole tiles; else shards and chunks that end inside tiles.
  const int split = producer.reuse ? 3 : 2;
  const bool one_shot = producer.algorithm == "one_shot";  // of a size that workers share
  std::vector<Override> overrides = {
      {"ranks", std::to_string(producer.ranks)},
      {"kernel.args.M", std::to_string(producer.reuse ? 16 * split * producer.ranks : 44)},
      {"kernel.args.N", one_shot         ? "200"
                        : producer.reuse ? "16"
                                         : "24"},
      {"kernel.args.K", "12"},
      {"kernel.args.BLOCK_M", "16"},
      {"kernel.args.BLOCK_N", one_shot ? "128" : "16"},
      {"kernel.args.BLOCK_K", "16"},
      {"launch.workers", "2"},
      {"communicate.c.algorithm", producer.algorithm},
      {"communicate.c.initiator", producer.initiator},
      {"communicate.c.split", std::to_string(split)}};
  if (producer.reuse)
    overrides.push_back({"communicate.c.memory_budget", std::to_string((producer.ranks - 1) * 16 * 16 * 2)});
  if (producer.gather_a)
    overrides.insert(overrides.end(), {{"tensors.a.before", "\"shard(0)\""}, {"tensors.a.inside", "replicate"}});
  if (producer.all_reduce) overrides.push_back({"tensors.c.after", "replicate"});
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_rs_pointers.toml", overrides);
}

class ProducerMutations : public ::testing::TestWithParam<Producer> {};

TEST_P(ProducerMutations, VerifyAndCpuRanksAgree) {
  const Plan plan = compiled(GetParam());
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(caught_by_cpu_ranks(plan, 5), "");
  Tally tally;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) tally.add(mutant.kind, rejected(mutant));
  for (const testing::SumMutant& mutant : testing::sum_mutants(plan))
    tally.add(mutant.kind, rejected(mutant, mutant.only_order));
}

INSTANTIATE_TEST_SUITE_P(
    Families, ProducerMutations,
    ::testing::Values(
        Producer{"direct", "push", 2}, Producer{"direct", "push", 3}, Producer{"direct", "pull", 3},
        Producer{"ring", "push", 3}, Producer{"ring", "pull", 2}, Producer{"bidirectional_ring", "push", 3},
        Producer{"direct", "push", 2, true}, Producer{"direct", "pull", 3, true},
        Producer{"direct", "push", 2, false, true}, Producer{"direct", "push", 3, false, true},
        Producer{"direct", "push", 3, false, false, true}, Producer{"direct", "pull", 2, false, false, true},
        Producer{"ring", "push", 3, false, false, true}, Producer{"ring", "pull", 3, false, false, true},
        Producer{"bidirectional_ring", "push", 3, false, false, true}, Producer{"direct", "push", 2, true, false, true},
        Producer{"one_shot", "push", 2, false, false, true}, Producer{"one_shot", "push", 3, false, false, true},
        Producer{"one_shot", "pull", 2, false, false, true}, Producer{"one_shot", "push", 2, false, true, true}),
    [](const auto& test) { return test.param.name(); });

/// Tiles that add in place: of one rank's summand, of sums so far, and where the whole sum is handed out.
struct InPlace {
  std::string algorithm;
  std::string initiator;
  int ranks;
  int split = 1;
  int m = 0;  ///< rows; 0: shards of whole tiles
  bool all_reduce = false;
  std::string name() const {
    return algorithm + "_" + initiator + "_" + std::to_string(ranks) + "ranks_split" + std::to_string(split) +
           (m > 0 ? "_ragged" : "") + (all_reduce ? "_all_reduce" : "");
  }
};
void PrintTo(const InPlace& c, std::ostream* out) { *out << c.name(); }

Plan compiled(const InPlace& c) {
  std::vector<Override> overrides = {{"ranks", std::to_string(c.ranks)},
                                     {"kernel.args.M", std::to_string(c.m > 0 ? c.m : 16 * c.split * c.ranks)},
                                     {"kernel.args.N", "40"},
                                     {"kernel.args.K", "16"},
                                     {"kernel.args.BLOCK_M", "16"},
                                     {"kernel.args.BLOCK_N", "32"},
                                     {"kernel.args.BLOCK_K", "16"},
                                     {"launch.workers", "2"},
                                     {"communicate.c.algorithm", c.algorithm},
                                     {"communicate.c.initiator", c.initiator},
                                     {"communicate.c.split", std::to_string(c.split)},
                                     {"communicate.c.sum", "in_place"}};
  if (c.all_reduce) overrides.push_back({"tensors.c.after", "replicate"});
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_rs.toml", overrides);
}

class InPlaceMutations : public ::testing::TestWithParam<InPlace> {};

TEST_P(InPlaceMutations, VerifyAndCpuRanksAgree) {
  const Plan plan = compiled(GetParam());
  ASSERT_TRUE(sums_in_place(plan));
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(caught_by_cpu_ranks(plan, 5), "");
  Tally tally;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) tally.add(mutant.kind, rejected(mutant));
  std::map<std::string, int> kinds;
  for (const testing::SumMutant& mutant : testing::sum_mutants(plan)) {
    ++kinds[mutant.kind];
    tally.add(mutant.kind, rejected(mutant, mutant.only_order));
  }
  EXPECT_GT(kinds["store instead"], 0);
  EXPECT_GT(kinds["add instead"], 0);
}

class InPlacePushes : public ::testing::TestWithParam<InPlace> {};

/// A push lands in what the destination's caller may still be taking: nothing but that rank's start allows it.
TEST_P(InPlacePushes, WaitForTheStartOfTheLaunch) {
  const Plan plan = compiled(GetParam());
  for (std::size_t rank = 0; rank < plan.programs.size(); ++rank) {
    int dropped = 0;
    for (std::size_t q = 0; q < plan.programs[rank].queues.size(); ++q)
      for (std::size_t t = 0; t < plan.programs[rank].queues[q].transfers.size(); ++t) {
        Plan broken = plan;
        Transfer& transfer = broken.programs[rank].queues[q].transfers[t];
        const std::vector<int>& starts =
            plan.programs[static_cast<std::size_t>(transfer.destination.rank)].start_signals;
        const auto removed = std::erase_if(transfer.waits, [&](const Wait& wait) {
          return std::find(starts.begin(), starts.end(), wait.signal) != starts.end();
        });
        if (removed == 0) continue;
        ++dropped;
        const Proof proof = verify(broken);
        EXPECT_FALSE(proof.holds());
        // What a rank sends on is overwritten under the transfer that does, elsewhere under the caller.
        const View& into = transfer.destination;
        const bool is_output = output_region(plan, into.buffer, into.rank).overlaps(into.region);
        const std::string reader = is_output ? "while the caller of rank " : "while transfer ";
        EXPECT_NE(proof.to_string().find(reader), std::string::npos) << proof.to_string();
        EXPECT_EQ(proof.to_string().find("still takes it") != std::string::npos, is_output);
        EXPECT_EQ(caught_by_cpu_ranks(broken, 20).substr(0, 5), "race:");
      }
    EXPECT_GT(dropped, 0) << "rank " << rank;
  }
}

const std::vector<InPlace> kPushes = {
    {"direct", "push", 2, 2}, {"direct", "push", 2, 1, 31},      {"ring", "push", 3},
    {"ring", "push", 2, 2},   {"direct", "push", 2, 1, 0, true}, {"ring", "push", 3, 1, 0, true}};
const std::vector<InPlace> kPulls = {{"direct", "pull", 2}, {"ring", "pull", 3}, {"ring", "pull", 3, 1, 46, true}};
const auto kName = [](const auto& test) { return test.param.name(); };
INSTANTIATE_TEST_SUITE_P(Pushes, InPlaceMutations, ::testing::ValuesIn(kPushes), kName);
INSTANTIATE_TEST_SUITE_P(Pulls, InPlaceMutations, ::testing::ValuesIn(kPulls), kName);
INSTANTIATE_TEST_SUITE_P(Pushes, InPlacePushes, ::testing::ValuesIn(kPushes), kName);

struct Exchanged {
  std::string file;
  std::string tensor;  ///< the one whose communication is set
  std::string initiator;
  int ranks;
  std::string name() const { return file + "_" + initiator + "_" + std::to_string(ranks) + "ranks"; }
  bool streamed() const { return file == "attention_heads_streamed"; }
};
void PrintTo(const Exchanged& exchanged, std::ostream* out) { *out << exchanged.name(); }

/// Four exchanged tensors, parts that end inside tiles.
Plan compiled_attention(const Exchanged& exchanged) {
  std::vector<Override> overrides = {{"ranks", std::to_string(exchanged.ranks)},
                                     {"kernel.args.Q_LENGTH", "20"},
                                     {"kernel.args.KV_LENGTH", "24"},
                                     {"kernel.args.HEAD_DIM", "16"},
                                     {"kernel.args.BLOCK_M", "16"},
                                     {"kernel.args.BLOCK_N", "16"},
                                     {"launch.workers", "2"}};
  if (exchanged.streamed())
    overrides.insert(overrides.end(), {{"kernel.file", "../kernels/attention_streamed.py"},
                                       {"kernel.function", "attention_streamed"},
                                       {"kernel.args.CAUSAL", "false"}});
  for (const char tensor : exchanged.tensor)
    overrides.push_back({std::string("communicate.") + tensor + ".initiator", exchanged.initiator});
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/attention_heads.toml", overrides);
}

/// Parts and chunks that end inside tiles.
Plan compiled(const Exchanged& exchanged) {
  if (exchanged.file.starts_with("attention_heads")) return compiled_attention(exchanged);
  const bool out = exchanged.file == "gemm_a2a";
  std::vector<Override> overrides = {{"ranks", std::to_string(exchanged.ranks)},
                                     {"kernel.file", "../kernels/gemm_pointers.py"},
                                     {"kernel.function", "gemm_pointers"},
                                     {"kernel.args.M", out ? "20" : "44"},
                                     {"kernel.args.N", out ? "44" : "24"},
                                     {"kernel.args.K", "12"},
                                     {"kernel.args.BLOCK_M", "16"},
                                     {"kernel.args.BLOCK_N", "16"},
                                     {"kernel.args.BLOCK_K", "16"},
                                     {"launch.workers", "2"}};
  for (const char tensor : exchanged.tensor) {
    const std::string table = std::string("communicate.") + tensor;
    overrides.push_back({table + ".initiator", exchanged.initiator});
    overrides.push_back({table + ".split", "2"});
  }
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/" + exchanged.file + ".toml", overrides);
}

class ExchangeMutations : public ::testing::TestWithParam<Exchanged> {};

TEST_P(ExchangeMutations, VerifyAndCpuRanksAgree) {
  const Plan plan = compiled(GetParam());
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(caught_by_cpu_ranks(plan, 5), "");
  Tally tally;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) tally.add(mutant.kind, rejected(mutant));
  for (const testing::SumMutant& mutant : testing::sum_mutants(plan))
    tally.add(mutant.kind, rejected(mutant, mutant.only_order));
}

INSTANTIATE_TEST_SUITE_P(Families, ExchangeMutations,
                         ::testing::Values(Exchanged{"a2a_gemm", "a", "push", 2}, Exchanged{"a2a_gemm", "a", "push", 3},
                                           Exchanged{"a2a_gemm", "a", "pull", 3}, Exchanged{"gemm_a2a", "c", "push", 3},
                                           Exchanged{"gemm_a2a", "c", "pull", 2}, Exchanged{"gemm_a2a", "c", "pull", 3},
                                           Exchanged{"a2a_gemm_rs", "ac", "push", 2},
                                           Exchanged{"attention_heads", "qkvo", "push", 2},
                                           Exchanged{"attention_heads", "qkvo", "pull", 2},
                                           Exchanged{"attention_heads_streamed", "qkvo", "push", 2}),
                         [](const auto& test) { return test.param.name(); });

struct Summed {
  std::string form;  ///< "rs": the rank's rows of the sum; "ar": all rows
  std::string algorithm;
  std::string initiator;
  int ranks;
  std::string name() const { return form + "_" + algorithm + "_" + initiator + "_" + std::to_string(ranks) + "ranks"; }
};
void PrintTo(const Summed& summed, std::ostream* out) { *out << summed.name(); }

class SummedMutations : public ::testing::TestWithParam<Summed> {};

/// Chunks that end inside tiles of an input that is a sum over ranks.
TEST_P(SummedMutations, VerifyAndCpuRanksAgree) {
  const Plan plan = compile_operator(SYNCOPATE_SOURCE_DIR "/operators/rms_norm_" + GetParam().form + ".toml",
                                     {{"ranks", std::to_string(GetParam().ranks)},
                                      {"kernel.args.M", "14"},
                                      {"kernel.args.N", "12"},
                                      {"kernel.args.BLOCK_M", "4"},
                                      {"kernel.args.BLOCK_N", "16"},
                                      {"launch.workers", "2"},
                                      {"communicate.x.algorithm", GetParam().algorithm},
                                      {"communicate.x.initiator", GetParam().initiator},
                                      {"communicate.x.split", "2"}});
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(caught_by_cpu_ranks(plan, 5), "");
  Tally tally;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) tally.add(mutant.kind, rejected(mutant));
}

INSTANTIATE_TEST_SUITE_P(Families, SummedMutations,
                         ::testing::Values(Summed{"rs", "direct", "push", 2}, Summed{"rs", "direct", "pull", 3},
                                           Summed{"ar", "direct", "push", 3}, Summed{"ar", "ring", "pull", 2}),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace syncopate
