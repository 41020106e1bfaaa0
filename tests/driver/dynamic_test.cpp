// Operators whose workers choose among their tiles, on CPU ranks: proven for every choice, executed under many, and
// compared with products computed independently of Syncopate; what the order is for; and plans that only a fixed order
// makes right.
#include "syncopate/plan/dynamic.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/bind.h"
#include "syncopate/plan/depend.h"
#include "syncopate/plan/operator.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/plan/print.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/gemm_reference.h"
#include "tests/driver/right_run.h"
#include "tests/support/mutate.h"
#include "tests/support/mutate_sums.h"

namespace syncopate {
namespace {

using ::testing::HasSubstr;
using testing::operator_file;
using testing::run_of;

/// A product, in tiles of 16 x 16.
struct Case {
  std::string file;
  std::string tensor;  ///< that moves
  std::string algorithm;
  std::string initiator;
  int ranks = 2;
  int m = 44;
  std::vector<Override> more = {};

  bool sums() const { return tensor == "c" || tensor == "y"; }
  std::string name() const {
    std::string text = fmt::format("{}_{}_{}_{}ranks_{}", file, algorithm, initiator, ranks, m);
    for (const Override& each : more) text += "_" + each.value;
    std::erase_if(text, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '_'; });
    return text;
  }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name(); }

Plan compiled(const Case& c, int lookahead = 0) {
  const bool helper = c.file.find("split_helper") != std::string::npos;
  std::vector<Override> overrides = testing::product_overrides({c.m, 40, 24}, c.ranks, 3, helper);
  if (!helper) overrides.push_back({"kernel.args.BLOCK_N", c.file.ends_with("_pointers") ? "16" : "32"});
  overrides.push_back({"launch.order", "dynamic"});
  if (lookahead > 0) overrides.push_back({"launch.lookahead", std::to_string(lookahead)});
  overrides.push_back({fmt::format("communicate.{}.algorithm", c.tensor), c.algorithm});
  overrides.push_back({fmt::format("communicate.{}.initiator", c.tensor), c.initiator});
  overrides.push_back({fmt::format("communicate.{}.split", c.tensor), "2"});
  overrides.insert(overrides.end(), c.more.begin(), c.more.end());
  return compile_operator(operator_file(c.file), overrides);
}

class DynamicOrder : public ::testing::TestWithParam<Case> {};

TEST_P(DynamicOrder, IsRightWhateverWorkersChoose) {
  const Plan plan = compiled(GetParam());
  EXPECT_EQ(plan.lookahead, 32);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const LaunchData data = run_of(plan, InputKind::small_integers, seed);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    if (GetParam().sums()) {
      EXPECT_EQ(testing::compare_sum_exactly(plan, data), "");
    } else {
      for (int rank = 0; rank < plan.ranks; ++rank) EXPECT_EQ(testing::compare_exactly(plan, data, rank), "");
    }
  }
}

TEST_P(DynamicOrder, IsRightHoweverFarWorkersLook) {
  for (const int lookahead : {1, 2, 5}) {
    const Plan plan = compiled(GetParam(), lookahead);
    EXPECT_EQ(plan.lookahead, lookahead);
    for (const std::uint64_t seed : {10U, 11U}) run_of(plan, InputKind::reals, seed);
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int ranks : {1, 2, 3, 8}) {
    for (const char* algorithm : {"direct", "ring"})
      for (const char* initiator : {"push", "pull"}) {
        if (ranks == 1 && (algorithm != std::string("direct") || initiator != std::string("push"))) continue;
        all.push_back({"ag_gemm_pointers", "a", algorithm, initiator, ranks, 20 * ranks + 4});
        all.push_back({"gemm_rs_pointers", "c", algorithm, initiator, ranks, 20 * ranks + 4});
      }
    all.push_back({"ag_gemm", "a", "direct", "push", ranks, 32 * ranks});
    all.push_back({"gemm_rs", "c", "direct", "push", ranks, 32 * ranks});
  }
  const Override in_place{"communicate.c.sum", "in_place"};
  all.push_back({"gemm_rs", "c", "direct", "push", 2, 64, {in_place}});
  all.push_back({"gemm_rs", "c", "ring", "pull", 3, 96, {in_place}});
  all.push_back({"ag_gemm_split_helper", "x", "direct", "push", 2, 64});
  all.push_back({"gemm_ar", "c", "direct", "push", 3, 60});
  all.push_back({"gemm_ar", "c", "ring", "push", 4, 64});
  // A gathered input beside a sum: tiles that leave wait for chunks.
  all.push_back({"gemm_rs_pointers",
                 "c",
                 "direct",
                 "push",
                 3,
                 60,
                 {{"tensors.a.before", "\"shard(0)\""}, {"tensors.a.inside", "replicate"}}});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Products, DynamicOrder, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name(); });

/// Those whose results the run itself holds against the unfused operator.
TEST(DynamicOperators, AreRight) {
  struct Other {
    std::string file;
    std::vector<Override> overrides;
  };
  const std::vector<Override> small = {{"kernel.args.M", "44"},       {"kernel.args.N", "24"},
                                       {"kernel.args.K", "24"},       {"kernel.args.BLOCK_M", "16"},
                                       {"kernel.args.BLOCK_N", "32"}, {"kernel.args.BLOCK_K", "16"}};
  std::vector<Override> sent = small;
  sent[1].value = "64";
  const std::vector<Override> groups = {{"kernel.args.GROUPS", "12"},  {"kernel.args.CAPACITY", "20"},
                                        {"kernel.args.EXPERTS", "4"},  {"kernel.args.N", "24"},
                                        {"kernel.args.K", "24"},       {"kernel.args.BLOCK_M", "16"},
                                        {"kernel.args.BLOCK_N", "32"}, {"kernel.args.BLOCK_K", "16"}};
  const std::vector<Override> rows = {
      {"kernel.args.M", "14"}, {"kernel.args.N", "12"}, {"kernel.args.BLOCK_M", "4"}, {"kernel.args.BLOCK_N", "16"}};
  const Other all[] = {{"a2a_gemm", small},         {"gemm_a2a", sent},    {"a2a_gemm_rs", small},
                       {"ag_grouped_gemm", groups}, {"rms_norm_rs", rows}, {"rms_norm_ar", rows},
                       {"grouped_gemm_rs", groups}};
  for (const auto& [file, overrides] : all)
    for (const int ranks : {2, 3}) {
      std::vector<Override> settings = overrides;
      settings.insert(settings.end(),
                      {{"ranks", std::to_string(ranks)}, {"launch.workers", "3"}, {"launch.order", "dynamic"}});
      if (file == "grouped_gemm_rs") settings[0].value = std::to_string(4 * ranks);
      SCOPED_TRACE(fmt::format("{} on {} ranks", file, ranks));
      const Plan plan = compile_operator(operator_file(file), settings);
      for (std::uint64_t seed = 0; seed < 6; ++seed) run_of(plan, InputKind::small_integers, seed);
    }
}

// --- what it is for --------------------------------------------------------------------------------------------------

/// Rank 0 has, beside its own, rows of ranks 1 and 2. Those that come first in its order are held up: their push waits
/// for a signal that rank 0 raises when it has computed the other's tile.
Plan with_a_late_transfer(const std::string& order, int lookahead = 0) {
  std::vector<Override> overrides = {{"ranks", "3"},
                                     {"kernel.args.M", "48"},
                                     {"kernel.args.N", "16"},
                                     {"kernel.args.K", "16"},
                                     {"kernel.args.BLOCK_M", "16"},
                                     {"kernel.args.BLOCK_N", "16"},
                                     {"kernel.args.BLOCK_K", "16"},
                                     {"launch.workers", "1"},
                                     {"launch.order", order},
                                     {"tensors.a.before", "\"shard(0)\""},
                                     {"tensors.a.inside", "replicate"},
                                     {"communicate.c.split", "1"},
                                     {"communicate.a.split", "1"}};
  if (lookahead > 0) overrides.push_back({"launch.lookahead", std::to_string(lookahead)});
  Plan plan = compile_operator(operator_file("gemm_rs_pointers"), overrides);
  std::vector<Slot>& slots = plan.programs[0].slots;
  const auto rows_of = [&](const Slot& slot) { return plan.tiles[static_cast<std::size_t>(slot.tile)].index[0]; };
  std::vector<Slot*> others;
  for (Slot& slot : slots)
    if (rows_of(slot) != 0) others.push_back(&slot);
  EXPECT_EQ(others.size(), 2U);
  const auto late = static_cast<int>(rows_of(*others[0]));
  Signal signal;
  signal.name = "the other tile is done";
  signal.home = late;
  signal.slot = signal_count(plan, late);
  signal.counts = "rank 0 has computed it";
  plan.signals.push_back(signal);
  const int number = static_cast<int>(plan.signals.size()) - 1;
  others[1]->signals.push_back(number);
  int held_up = 0;
  for (Queue& queue : plan.programs[static_cast<std::size_t>(late)].queues)
    for (Transfer& transfer : queue.transfers)
      if (transfer.destination.rank == 0 && transfer.destination.buffer == 0) {
        transfer.waits.push_back({number, 1});
        ++held_up;
      }
  EXPECT_EQ(held_up, 1);
  return plan;
}

TEST(DynamicOrderIsFor, TilesThatAreReadyBehindOnesThatAreNot) {
  const Plan dealt = with_a_late_transfer("static");
  EXPECT_FALSE(verify(dealt).holds()) << "the worker waits for the chunk, and the chunk for a later slot of its";
  EXPECT_EQ(run_on_cpu_ranks(dealt, {}).outcome, Outcome::deadlock);

  const Plan chosen = with_a_late_transfer("dynamic");
  EXPECT_TRUE(verify(chosen).holds()) << verify(chosen).to_string();
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const bool adversary : {false, true}) {
      const RunReport report = run_on_cpu_ranks(chosen, {.seed = seed, .adversary = adversary, .repeat = 3});
      ASSERT_EQ(report.outcome, Outcome::right) << report.message;
    }
}

TEST(DynamicOrderIsFor, WhatIsTooFarBehindIsNotLookedAt) {
  const Plan near = with_a_late_transfer("dynamic", 1);
  const Proof proof = verify(near);
  EXPECT_FALSE(proof.holds());
  EXPECT_THAT(proof.to_string(), HasSubstr("is more than 0 slots behind slot"));
  const RunReport report = run_on_cpu_ranks(near, {});
  EXPECT_EQ(report.outcome, Outcome::deadlock);
  EXPECT_THAT(report.message, HasSubstr("rank 0's worker 0, which looks for a slot in launch 1, may take none: the "
                                        "first, rank 0's slot "));
  EXPECT_THAT(report.message, HasSubstr("they wait in a circle"));
}

// --- what is wrong ---------------------------------------------------------------------------------------------------

/// The first seed, plain or hostile, under which CPU ranks find something wrong; "" if none does.
std::string caught_by_cpu_ranks(const Plan& plan, int seeds) {
  for (int seed = 0; seed < seeds; ++seed)
    for (const bool adversary : {false, true}) {
      const RunReport report =
          run_on_cpu_ranks(plan, {.seed = static_cast<std::uint64_t>(seed), .adversary = adversary, .repeat = 3});
      if (report.outcome != Outcome::right) return std::string(name_of(report.outcome)) + ": " + report.message;
    }
  return "";
}

TEST(WrongDynamicPlans, AFixedOrderIsNotOneToChooseFrom) {
  for (const char* file : {"ag_gemm_pointers", "gemm_rs_pointers"}) {
    std::vector<Override> overrides = testing::product_overrides({64, 48, 24}, 2, 2, false);
    const Plan dealt = compile_operator(operator_file(file), overrides);
    ASSERT_TRUE(verify(dealt).holds());
    overrides.push_back({"launch.order", "dynamic"});
    Plan marked = compile_operator(operator_file(file), overrides);
    ASSERT_TRUE(verify(marked).holds());
    EXPECT_EQ(marked.programs[0].slots.size(), dealt.programs[0].slots.size());
    const std::string source = marked.kernel.fused_source;
    marked = dealt;
    marked.lookahead = 32;
    marked.kernel.fused_source = source;
    EXPECT_FALSE(verify(marked).holds()) << file;
    EXPECT_NE(caught_by_cpu_ranks(marked, 4), "") << file;
  }
}

class DynamicMutations : public ::testing::TestWithParam<Case> {};

TEST_P(DynamicMutations, VerifyAndCpuRanksAgree) {
  const Plan plan = compiled(GetParam());
  ASSERT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  ASSERT_EQ(caught_by_cpu_ranks(plan, 5), "");
  std::vector<testing::SumMutant> mutants;
  for (testing::Mutant& mutant : testing::all_mutants(plan)) mutants.push_back({std::move(mutant), false});
  if (GetParam().sums())
    for (testing::SumMutant& mutant : testing::sum_mutants(plan)) mutants.push_back(std::move(mutant));
  int refuted = 0;
  for (const testing::SumMutant& mutant : mutants) {
    const Proof proof = verify(mutant.plan);
    EXPECT_TRUE(mutant.may_be_valid || !proof.holds()) << "accepted: " << mutant.description;
    const std::string caught = caught_by_cpu_ranks(mutant.plan, 4);
    if (proof.holds()) {
      EXPECT_EQ(caught, "") << "verify accepts, CPU ranks do not: " << mutant.description;
    } else if (!mutant.only_order) {
      EXPECT_NE(caught, "") << "CPU ranks do not notice: " << mutant.description << '\n' << proof.to_string();
    }
    refuted += proof.holds() ? 0 : 1;
  }
  EXPECT_GT(refuted, 20);
  std::printf("  %d of %zu refuted\n", refuted, mutants.size());
}

INSTANTIATE_TEST_SUITE_P(
    Families, DynamicMutations,
    ::testing::Values(Case{"ag_gemm_pointers", "a", "direct", "push", 2},
                      Case{"ag_gemm_pointers", "a", "ring", "pull", 3},
                      Case{"gemm_rs_pointers", "c", "direct", "push", 2},
                      Case{"gemm_rs_pointers", "c", "ring", "pull", 3, 44, {{"communicate.c.split", "1"}}},
                      Case{"gemm_rs_pointers", "c", "direct", "push", 2, 44, {{"tensors.c.after", "replicate"}}}),
    [](const auto& test) { return test.param.name(); });

/// All workers may have taken slots that wait for summands, and none is left for slots that make them.
TEST(WrongDynamicPlans, WaitsBehindTheTaking) {
  Plan plan = compiled({"gemm_rs_pointers", "c", "direct", "push", 2});
  for (RankProgram& program : plan.programs)
    for (Slot& slot : program.slots)
      if (!slot.addends.empty()) std::swap(slot.waits, slot.sum_waits);
  EXPECT_THAT(verify(plan).to_string(), HasSubstr("when a worker has taken it, waits in launch 2 for"));
  EXPECT_THAT(caught_by_cpu_ranks(plan, 5), HasSubstr("deadlock: nothing can move"));
}

TEST(WrongDynamicPlans, AsFilesAndWords) {
  const Plan plan = compiled({"ag_gemm_pointers", "a", "direct", "push", 2}, 7);
  const std::string json = to_json(plan);
  EXPECT_THAT(json, HasSubstr("\"lookahead\": 7"));
  EXPECT_EQ(parse_plan(SourceFile("plan.json", json)).lookahead, 7);
  EXPECT_THAT(summary(plan), HasSubstr("on 3 workers, which choose among 7 slots"));
  EXPECT_THAT(show(plan), ::testing::Not(HasSubstr("worker 0")));
  std::string wrong = json;
  wrong.replace(wrong.find("\"lookahead\": 7"), 14, "\"lookahead\": 33");
  EXPECT_THROW(parse_plan(SourceFile("plan.json", wrong)), UserError);
  Plan far = plan;
  far.lookahead = 33;
  EXPECT_THAT(verify(far).to_string(), HasSubstr("workers look 33 slots ahead, and can look at 32"));
}

// --- tiles that stream -----------------------------------------------------------------------------------------------

/// A product gathered along its inner dimension.
Plan streaming(int ranks, bool sum) {
  std::vector<Override> overrides = {
      {"ranks", std::to_string(ranks)}, {"kernel.args.M", "28"},       {"kernel.args.N", "16"},
      {"kernel.args.K", "48"},          {"kernel.args.BLOCK_M", "16"}, {"kernel.args.BLOCK_N", "16"},
      {"kernel.args.BLOCK_K", "16"},    {"launch.workers", "2"},       {"launch.order", "dynamic"}};
  if (sum)
    overrides.insert(overrides.end(), {{"tensors.c.inside", "\"partial(sum)\""}, {"tensors.c.after", "\"shard(0)\""}});
  return compile_operator(operator_file("ag_gemm_k"), overrides);
}

/// Once taken they wait for chunks, which come whatever tiles do.
TEST(DynamicStreams, WaitInTheirLoops) {
  for (const bool sum : {false, true})
    for (const int ranks : {2, 3}) {
      const Plan plan = streaming(ranks, sum);
      const std::vector<Slot>& slots = plan.programs[0].slots;
      EXPECT_TRUE(std::all_of(slots.begin(), slots.end(), [](const Slot& slot) {
        return std::any_of(slot.steps.begin(), slot.steps.end(),
                           [](const LoopStep& step) { return !step.waits.empty(); });
      })) << "every slot waits for itself";
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const LaunchData data = run_of(plan, InputKind::small_integers, seed);
        if (sum) {
          EXPECT_EQ(testing::compare_sum_exactly(plan, data), "");
        } else {
          for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(testing::compare_exactly(plan, data, rank), "");
        }
      }
    }
}

TEST(DynamicStreams, OfAttentionAreRight) {
  const Plan plan = compile_operator(operator_file("attention_sp"), {{"ranks", "2"}, {"launch.order", "dynamic"}});
  ASSERT_FALSE(plan.kernel.streamed_loops.empty());
  run_of(plan, InputKind::small_integers, 1);
}

TEST(DynamicStreams, DropsOfWaitsAreFound) {
  const Plan plan = streaming(3, false);
  int dropped = 0;
  for (const testing::Mutant& mutant : testing::all_mutants(plan)) {
    if (mutant.kind != "drop wait" && mutant.kind != "lower threshold" && mutant.kind != "drop raise") continue;
    ++dropped;
    EXPECT_FALSE(verify(mutant.plan).holds()) << mutant.description;
    EXPECT_NE(caught_by_cpu_ranks(mutant.plan, 3), "") << mutant.description;
  }
  EXPECT_GT(dropped, 20);
}

/// As if a chunk took the place of one that tiles must have read before.
TEST(DynamicStreams, OfWhatComesBehindTilesAreRefused) {
  const OperatorStatement statement = read_operator(operator_file("ag_gemm_k"), {{"launch.order", "dynamic"}});
  const BoundOperator bound = bind(statement, TileKernel::read(statement.kernel_file, statement.kernel_function));
  DependenceGraph graph = depend(bound);
  EXPECT_NO_THROW(check_dynamic(bound, graph, statement.order_where));
  const auto followed = std::find_if(graph.transfers.begin(), graph.transfers.end(),
                                     [](const TransferNode& node) { return node.previous >= 0; });
  ASSERT_NE(followed, graph.transfers.end());
  graph.transfers[static_cast<std::size_t>(followed->previous)].reuses = 0;  // and so all behind it in its queue
  try {
    check_dynamic(bound, graph, statement.order_where);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.where().file, "--set launch.order=dynamic");
    EXPECT_THAT(error.problem(),
                HasSubstr("the order of tiles is dynamic, but in their loop over 'k' tiles wait for "));
    EXPECT_THAT(error.problem(), HasSubstr("sends only when other tiles have been computed"));
    EXPECT_THAT(error.remedy(), HasSubstr("streamed_loop"));
  }
}

/// Tiles make room for what comes next in bounded memory.
TEST(DynamicStreams, InBoundedMemoryAreRefused) {
  try {
    compile_operator(SYNCOPATE_SOURCE_DIR "/operators/attention_ring.toml", {{"launch.order", "dynamic"}});
    FAIL() << "compiled";
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("in their loop over 'keys' tiles wait for k_inside"));
    EXPECT_THAT(error.problem(), HasSubstr("sends only when other tiles have been computed"));
    EXPECT_EQ(error.remedy(), "remove the order, or the memory budgets");
  }
}

}  // namespace
}  // namespace syncopate
