// One-shot all-reduces on CPU ranks: every rank count, initiator, split, ragged size, kernel and type; proven, executed
// under many interleavings, and compared with sums of products computed independently of Syncopate; and what makes them
// wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <ostream>
#include <set>

#include "syncopate/core/files.h"
#include "syncopate/driver/driver.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/gemm_reference.h"
#include "tests/driver/right_run.h"
#include "tests/support/temporary_folder.h"

namespace syncopate {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Case {
  std::string kernel = "gemm";
  std::string initiator = "push";
  int ranks = 2;
  int split = 1;
  int m = 64;
  int n = 96;
  int k = 24;
  int workers = 3;
  std::string dtype = "bf16";
  bool gather_a = false;
  bool gather_b = false;  ///< in bounded memory: of a column of tiles

  std::string name() const {
    return kernel + "_" + initiator + "_" + std::to_string(ranks) + "ranks_split" + std::to_string(split) + "_" +
           std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + "_" + std::to_string(workers) +
           "workers_" + dtype + (gather_a ? "_gather_a" : "");
  }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name(); }

Plan compiled(const Case& c, const std::vector<Override>& more = {}) {
  std::vector<Override> overrides = testing::product_overrides({c.m, c.n, c.k}, c.ranks, c.workers, false);
  if (c.kernel == "gemm") overrides.push_back({"kernel.args.BLOCK_N", "32"});  // it stores quarters of tiles
  if (c.kernel != "gemm")
    overrides.insert(overrides.end(), {{"kernel.file", SYNCOPATE_SOURCE_DIR "/kernels/" + c.kernel + ".py"},
                                       {"kernel.function", c.kernel}});
  overrides.insert(overrides.end(), {{"communicate.c.algorithm", "one_shot"},
                                     {"communicate.c.initiator", c.initiator},
                                     {"communicate.c.split", std::to_string(c.split)},
                                     {"tensors.c.dtype", c.dtype}});
  if (c.gather_a)
    overrides.insert(overrides.end(), {{"tensors.a.before", "\"shard(0)\""}, {"tensors.a.inside", "replicate"}});
  if (c.gather_b)
    overrides.insert(overrides.end(), {{"tensors.b.before", "\"shard(0)\""},
                                       {"tensors.b.inside", "replicate"},
                                       {"communicate.b.initiator", c.initiator},
                                       {"communicate.b.memory_budget", std::to_string(c.k * 32 * 2)}});
  overrides.insert(overrides.end(), more.begin(), more.end());
  return compile_operator(testing::operator_file("gemm_ar"), overrides);
}

// ---- What should come out -----------------------------------------------------------------------------------------

struct Sum {
  std::vector<double> values;  ///< in fp64
  std::vector<double> bounds;  ///< of what an element may differ by
};

/// What the kernel of a rank reads.
std::vector<double> b_of(const Case& c, const Plan& plan, const LaunchData& data, int rank) {
  if (!c.gather_b) return testing::numbers(plan, data.inputs, rank, "b");
  std::vector<double> rows;
  for (int each = 0; each < c.ranks; ++each) {
    const std::vector<double> part = testing::numbers(plan, data.inputs, each, "b");
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

/// The sum over ranks of their products, and the bound of compare_sum_with_bound (gemm_reference.h) for n summands that
/// are rounded to the output's type, of unit roundoff u, and then added in fp32 and rounded once more.
Sum expected_sum(const Case& c, const Plan& plan, const LaunchData& data, double u) {
  constexpr double kSingle = 0x1p-24;
  const auto elements = static_cast<std::size_t>(c.m) * static_cast<std::size_t>(c.n);
  Sum sum{std::vector<double>(elements, 0.0), std::vector<double>(elements, 0.0)};
  std::vector<double> errors(elements, 0.0);
  std::vector<double> magnitudes(elements, 0.0);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const std::vector<double> a = testing::numbers(plan, data.inputs, rank, "a");
    const std::vector<double> b = b_of(c, plan, data, rank);
    for (int i = 0; i < c.m; ++i)
      for (int j = 0; j < c.n; ++j) {
        double value = 0;
        double terms = 0;
        for (int k = 0; k < c.k; ++k) {
          const double term = a[static_cast<std::size_t>(i * c.k + k)] * b[static_cast<std::size_t>(k * c.n + j)];
          value += term;
          terms += std::fabs(term);
        }
        const auto at = static_cast<std::size_t>(i * c.n + j);
        const double error = c.k * kSingle * terms + u * (std::fabs(value) + c.k * kSingle * terms);
        sum.values[at] += value;
        errors[at] += error;
        magnitudes[at] += std::fabs(value) + error;
      }
  }
  for (std::size_t at = 0; at < elements; ++at) {
    const double added = errors[at] + c.ranks * kSingle * magnitudes[at];
    sum.bounds[at] = added + u * (std::fabs(sum.values[at]) + added);
  }
  return sum;
}

/// Every rank has the whole sum, all of them the same bits; `exact` where every number is a small integer.
void expect_sums(const Case& c, const Plan& plan, const LaunchData& data, bool exact) {
  const double u = c.dtype == "fp32" ? 0x1p-24 : c.dtype == "fp16" ? 0x1p-11 : 0x1p-8;
  const Sum sum = expected_sum(c, plan, data, u);
  const auto result = static_cast<std::size_t>(testing::buffer_named(plan, "c"));
  double largest = 0;
  for (int rank = 0; rank < c.ranks; ++rank) {
    EXPECT_EQ(data.outputs[static_cast<std::size_t>(rank)][result], data.outputs[0][result]) << "rank " << rank;
    const std::vector<double> got = testing::numbers(plan, data.outputs, rank, "c");
    ASSERT_EQ(got.size(), sum.values.size());
    for (std::size_t at = 0; at < got.size(); ++at) {
      largest = std::max(largest, std::fabs(sum.values[at]));
      const double bound = exact ? 0.0 : sum.bounds[at];
      ASSERT_LE(std::fabs(got[at] - sum.values[at]), bound)
          << "rank " << rank << ", row " << at / static_cast<std::size_t>(c.n) << ", tile row "
          << at / static_cast<std::size_t>(c.n) / 16 << ", column " << at % static_cast<std::size_t>(c.n);
    }
  }
  EXPECT_GT(largest, 0.0) << "the test shows nothing";
  EXPECT_TRUE(!exact || c.dtype == "fp32" || largest <= 256) << "too large to be exact";
}

class OneShot : public ::testing::TestWithParam<Case> {};

TEST_P(OneShot, IsProvenAndRight) {
  const Case& c = GetParam();
  const Plan plan = compiled(c);
  ASSERT_GE(added_up_buffer(plan), 0);
  EXPECT_EQ(reduced_buffer(plan), -1);
  EXPECT_EQ(parse_plan(SourceFile("plan.json", to_json(plan))).programs[0].additions, plan.programs[0].additions);
  const Proof proof = verify(plan);
  ASSERT_TRUE(proof.holds()) << proof.to_string();
  EXPECT_THAT(proof.to_string(), HasSubstr(", 0 of them redundant"));
  for (std::uint64_t seed = 0; seed < 8; ++seed)
    expect_sums(c, plan, testing::run_of(plan, InputKind::small_integers, seed), true);
  for (std::uint64_t seed = 0; seed < 2; ++seed)
    expect_sums(c, plan, testing::run_of(plan, InputKind::reals, seed), false);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const int ranks : {2, 3, 4, 8})
    for (const char* initiator : {"push", "pull"})
      for (const int split : {1, 3}) {
        cases.push_back({"gemm", initiator, ranks, split});
        // Ragged everywhere, one program per tile; rows of which several are cut, and chunks that end inside tiles.
        cases.push_back({"gemm_pointers", initiator, ranks, split, 43, 61, 13, 5});
      }
  for (const int ranks : {5, 6, 7}) cases.push_back({"gemm_pointers", "push", ranks, 2, 21, 35, 16, 2});
  // A row for several workers, more workers than chunks, one tile row, one worker.
  cases.push_back({"gemm", "push", 3, 2, 2, 4096, 8, 16});
  cases.push_back({"gemm", "push", 4, 1, 1, 8200, 8, 7});
  cases.push_back({"gemm_pointers", "pull", 3, 5, 5, 4099, 8, 9});
  cases.push_back({"gemm", "push", 2, 4, 64, 96, 24, 1});
  for (const char* dtype : {"fp16", "fp32"}) {
    cases.push_back({"gemm", "push", 3, 2, 40, 32, 24, 4, dtype});
    cases.push_back({"gemm_pointers", "pull", 2, 2, 43, 61, 13, 4, dtype});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, OneShot, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name(); });

/// An input that arrives while the kernel runs, of an operator whose output leaves as a one-shot sum.
TEST(OneShotSums, AfterAGather) {
  for (const char* initiator : {"push", "pull"}) {
    const Case c{"gemm", initiator, 3, 2, 48, 32, 24, 2, "bf16", true};
    const Plan plan = compiled(c);
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      LaunchData data = testing::run_of(plan, InputKind::small_integers, seed);
      // Callers have their rows of a; the kernel of every rank reads all of it.
      const auto a = static_cast<std::size_t>(testing::buffer_named(plan, "a"));
      for (int rank = 1; rank < c.ranks; ++rank)
        ASSERT_EQ(data.inputs[static_cast<std::size_t>(rank)][a], data.inputs[0][a]) << "a shared tensor";
      expect_sums(c, plan, data, true);
    }
  }
}

/// Its tiles also make room in the memory of an input: what they raise for that, for peers and for the sum is one list.
TEST(OneShotSums, AfterAGatherInBoundedMemory) {
  for (const char* initiator : {"push", "pull"}) {
    const Case c{"gemm", initiator, 3, 2, 48, 96, 24, 2, "bf16", false, true};
    const Plan plan = compiled(c);
    const Buffer& folded = plan.buffer(testing::buffer_named(plan, "b_inside"));
    ASSERT_TRUE(folded.fold.has_value());
    EXPECT_EQ(*folded.fold, (Fold{1, 32})) << "a column of tiles";
    EXPECT_FALSE(plan.programs[0].additions.empty());
    for (std::uint64_t seed = 0; seed < 6; ++seed)
      expect_sums(c, plan, testing::run_of(plan, InputKind::small_integers, seed), true);
  }
}

/// More tiles of a chunk than workers: a worker that waited for peers before its next tile would wait for ever, since
/// they would, too.
TEST(OneShotSums, WorkersTakeAllTheirTilesBeforeTheyAdd) {
  const Case c{"gemm", "push", 4, 1, 64, 96, 24, 2};
  const Plan plan = compiled(c);
  for (const RankProgram& program : plan.programs) {
    ASSERT_GT(program.slots.size(), static_cast<std::size_t>(2 * plan.workers));
    EXPECT_FALSE(program.additions.empty());
    for (const Slot& slot : program.slots) EXPECT_FALSE(waits_for_anything(slot));
  }
}

// ---- Plans ---------------------------------------------------------------------------------------------------------

Plan small_plan(const std::string& initiator = "push") {
  return compiled({"gemm_pointers", initiator, 3, 2, 32, 96, 16, 2});
}

TEST(OneShotPlans, SayWhereSummandsAndSumsAre) {
  const Plan plan = small_plan();
  ASSERT_EQ(plan.buffers.size(), 5U);
  const Buffer& summed = plan.buffers[2];
  const Buffer& result = plan.buffers[3];
  const Buffer& stack = plan.buffers[4];
  EXPECT_EQ(summed.name, "c_inside");
  EXPECT_EQ(summed.parameter, "c_ptr");
  EXPECT_TRUE(summed.summed_apart);
  EXPECT_FALSE(summed.is_reduced());
  EXPECT_FALSE(summed.symmetric) << "only its own rank reads it";
  EXPECT_EQ(result.name, "c");
  EXPECT_EQ(result.role, BufferRole::result);
  EXPECT_FALSE(result.symmetric) << "no peer reaches for it";
  EXPECT_EQ(stack.name, "c_summands");
  EXPECT_EQ(stack.role, BufferRole::summands);
  EXPECT_EQ(stack.shape, (Shape{64, 96}));
  EXPECT_TRUE(stack.symmetric);
  EXPECT_EQ(added_up_buffer(plan), 3);
  EXPECT_EQ(summands_buffer(plan), 4);
  EXPECT_EQ(output_region(plan, 3, 1), (Region{{0, 32}, {0, 96}}));
  EXPECT_TRUE(output_region(plan, 2, 1).empty());
  EXPECT_TRUE(is_the_operators_own(plan, 2) && is_the_operators_own(plan, 4) && !is_the_operators_own(plan, 3));
  EXPECT_EQ(extra_memory(plan).staging, 3 * 32 * 96 * 2) << "two summands of others, and the rank's own";
  // Of rank 1, which is the second of rank 0's two others, and the first of rank 2's.
  EXPECT_EQ(in_stack({{16, 32}, {0, 96}}, 32, 0, 1), (Region{{16, 32}, {0, 96}}));
  EXPECT_EQ(in_stack({{16, 32}, {0, 96}}, 32, 0, 2), (Region{{48, 64}, {0, 96}}));
  EXPECT_EQ(in_stack({{16, 32}, {0, 96}}, 32, 2, 1), (Region{{48, 64}, {0, 96}}));
  ASSERT_EQ(plan.sums.size(), 3U);
  for (const syncopate::Sum& sum : plan.sums) {
    EXPECT_EQ(sum.buffer, 3);
    EXPECT_EQ(sum.order, (SumOrder{0, {{0, {}}, {1, {}}, {2, {}}}}));
  }
  EXPECT_THAT(plan.communication, HasSubstr("c: partial(sum) -> replicate, all-reduce, one_shot, push, split 2"));
}

TEST(OneShotPlans, PullsReachForWhatTilesHaveStored) {
  const Plan plan = small_plan("pull");
  EXPECT_TRUE(plan.buffers[2].symmetric);
  EXPECT_FALSE(plan.buffers[4].symmetric);
}

TEST(OneShotPlans, AdditionsAreSharedByAllWorkers) {
  const Plan plan = compiled({"gemm", "push", 4, 2, 64, 512, 16, 8});
  for (const RankProgram& program : plan.programs) {
    ASSERT_EQ(program.additions.size(), 16U) << "two chunks, eight workers";
    std::int64_t elements = 0;
    for (const Addition& addition : program.additions) {
      EXPECT_EQ(addition.region.volume(), 64 * 512 / 16);
      EXPECT_EQ(contiguous_runs(addition.region, {64, 512}), 1);
      elements += addition.region.volume();
      // Its own rank's tiles, and one of each peer, unless what it waits for implies them.
      EXPECT_GE(addition.waits.size(), 3U);
    }
    EXPECT_EQ(elements, 64 * 512);
  }
  // Less than a block of threads takes at once is not shared.
  for (const RankProgram& program : compiled({"gemm", "push", 2, 1, 16, 64, 16, 2}).programs)
    EXPECT_EQ(program.additions.size(), 1U);
}

TEST(OneShotPlans, TablesHaveARowForEachAddition) {
  const Plan plan = small_plan();
  const KernelTables tables = kernel_tables(plan, 1);
  const std::vector<Addition>& additions = plan.programs[1].additions;
  ASSERT_EQ(tables.additions.size(), 5 * additions.size());
  for (std::size_t a = 0; a < additions.size(); ++a) {
    const std::int64_t* row = &tables.additions[5 * a];
    EXPECT_EQ(row[1] - row[0], static_cast<std::int64_t>(additions[a].waits.size()));
    for (std::size_t w = 0; w < additions[a].waits.size(); ++w) {
      const Signal& signal = plan.signals[static_cast<std::size_t>(additions[a].waits[w].signal)];
      const std::int64_t* wait = &tables.waits[3 * (static_cast<std::size_t>(row[0]) + w)];
      EXPECT_EQ(wait[0], signal.slot);
      EXPECT_EQ(wait[1], signal.per_launch);
      EXPECT_EQ(wait[2], additions[a].waits[w].threshold);
    }
    EXPECT_EQ(row[2], linear_offset(additions[a].region, {32, 96}));
    EXPECT_EQ(row[3] - row[2], additions[a].region.volume());
    EXPECT_EQ(row[4], 32 * 96);
  }
}

TEST(OneShotPlans, WorkersOfARankTellTheQueueAndTheSumsByOneCounter) {
  // What a push waits for, additions of the rank wait for, too: no tile raises more signals for their sake.
  const Plan plan = compiled({"gemm", "push", 4, 2, 64, 512, 16, 8});
  for (int rank = 0; rank < plan.ranks; ++rank) {
    std::set<int> raised;
    for (const Slot& slot : plan.programs[static_cast<std::size_t>(rank)].slots)
      raised.insert(slot.signals.begin(), slot.signals.end());
    EXPECT_EQ(raised.size(), 2U) << "one for each chunk";
  }
}

TEST(OneShotPlans, OnOneRankNothingIsSummed) {
  Case c;
  c.ranks = 1;
  EXPECT_EQ(added_up_buffer(compiled(c)), -1);
}

/// gemm_ar on two ranks with a schedule of c. `operators` are those of rank 0, who sends to 1, and of rank 1.
Plan by_schedule(const testing::TemporaryFolder& folder, const std::array<std::string, 2>& operators) {
  const std::string schedule = folder.write(
      "schedule.json", R"_({"syncopate_schedule": 1, "ranks": 2, "tensors": [{"name": "c", "shape": [64, 96], )_"
                       R"_("dtype": "bf16", "before": "partial(sum)", "after": "replicate"}], "operators": [[)_" +
                           operators[0] + "], [" + operators[1] + "]]}");
  std::string text = read_file(testing::operator_file("gemm_ar"));
  text.replace(text.find("algorithm ="), std::string::npos, "schedule = \"" + schedule + "\"\n");
  text.replace(text.find("../kernels"), 10, SYNCOPATE_SOURCE_DIR "/kernels");
  std::vector<Override> overrides = testing::product_overrides({64, 96, 24}, 2, 3, false);
  overrides.push_back({"kernel.args.BLOCK_N", "32"});
  return compile_operator(folder.write("op.toml", text), overrides);
}

std::string push(const std::string& chunk, int to, const std::string& how) {
  return R"({"push": "c[)" + chunk + R"(]", "to": )" + std::to_string(to) + how + "}";
}

constexpr const char* kOwn = R"(, "reduce": "sum", "own": true)";

TEST(OneShotPlans, FromAScheduleFile) {
  const testing::TemporaryFolder folder;
  std::array<std::string, 2> operators;
  for (int rank = 0; rank < 2; ++rank)  // chunks need not be whole rows
    operators[static_cast<std::size_t>(rank)] = push("0:64, 0:32", 1 - rank, kOwn) + ", " +
                                                push("0:20, 32:96", 1 - rank, kOwn) + ", " +
                                                push("20:64, 32:96", 1 - rank, kOwn);
  const Case c{"gemm", "push", 2, 1, 64, 96, 24, 3};
  const Plan plan = by_schedule(folder, operators);
  ASSERT_GE(added_up_buffer(plan), 0);
  for (std::uint64_t seed = 0; seed < 6; ++seed)
    expect_sums(c, plan, testing::run_of(plan, InputKind::small_integers, seed), true);
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(OneShotPlans, SchedulesAreOneOrTheOther) {
  const testing::TemporaryFolder folder;
  // Rank 0 adds up some rows for both; of the others both have the summands.
  EXPECT_THAT(error_of([&] {
                by_schedule(folder,
                            {push("0:32, 0:96", 1, R"(, "after": [[1, 0]])") + ", " + push("32:64, 0:96", 1, kOwn),
                             push("0:32, 0:96", 0, R"(, "reduce": "sum")") + ", " + push("32:64, 0:96", 0, kOwn)});
              }),
              AllOf(HasSubstr("the schedule sends summands of 'c' of which their rank keeps the sum, and other things "
                              "too, which is not fused yet"),
                    HasSubstr("let one rank add up each element, as by \"direct\", or all of them, as by "
                              "\"one_shot\"")));
}

TEST(OneShotPlans, HaveNoUseForABudgetOrAPlaceOfSums) {
  EXPECT_THAT(error_of([] { compiled({}, {{"communicate.c.memory_budget", "100000"}}); }),
              AllOf(HasSubstr("memory_budget"),
                    HasSubstr("a one-shot all-reduce keeps all summands until they are added, after the tiles"),
                    HasSubstr("remove the memory budget, or choose an algorithm that shares the reduction")));
  EXPECT_THAT(error_of([] { compiled({}, {{"communicate.c.sum", "in_place"}}); }),
              AllOf(HasSubstr("keeps all summands until they are added"), HasSubstr("sum = \"staging\"")));
  EXPECT_EQ(error_of([] { compiled({}, {{"communicate.c.sum", "staging"}}); }), "no error");
  EXPECT_THAT(error_of([] { compiled({}, {{"tensors.c.after", "shard(0)"}}); }),
              HasSubstr("there is no reduce_scatter by one_shot"));
  EXPECT_THAT(error_of([] { compiled({}, {{"communicate.c.split", "97"}}); }), HasSubstr("97"));
}

TEST(OneShotPlans, HaveNoDynamicOrder) {
  EXPECT_THAT(
      error_of([] { compiled({}, {{"launch.order", "dynamic"}}); }),
      AllOf(HasSubstr("--set launch.order=dynamic: the order of tiles is dynamic, but the sum of 'c' over ranks "
                      "is one-shot"),
            HasSubstr("remove the order, or choose another algorithm for 'c', such as \"direct\"")));
}

TEST(OneShotPlans, KernelsKeepTheParameterThatTheyStoreTo) {
  const testing::TemporaryFolder folder;
  std::string kernel = read_file(SYNCOPATE_SOURCE_DIR "/kernels/gemm.py");
  const std::string line = "    tiles_m = tl.cdiv(M, BLOCK_M)\n";
  ASSERT_NE(kernel.find(line), std::string::npos);
  kernel.replace(kernel.find(line), 0, "    c_ptr += 0\n");
  const std::string file = folder.write("kernel.py", kernel);
  EXPECT_THAT(error_of([&] { compiled({}, {{"kernel.file", file}}); }),
              AllOf(HasSubstr("parameter 'c_ptr' is changed"), HasSubstr("`tile_c_ptr = c_ptr + ...`")));
}

// ---- Theorems ------------------------------------------------------------------------------------------------------

/// The counter-example to a theorem, or "" if it holds.
std::string refutation(const Plan& plan, const std::string& theorem) {
  for (const Theorem& each : verify(plan).theorems)
    if (each.name == theorem) return each.holds ? "" : each.counterexample;
  return "no such theorem";
}

std::string found_by_cpu_ranks(const Plan& plan) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    RunOptions options;
    options.seed = seed;
    options.adversary = seed % 2 == 1;
    options.repeat = 3;
    const RunReport report = run_on_cpu_ranks(plan, options);
    if (report.outcome != Outcome::right) return report.message;
  }
  return "";
}

/// Drops the wait of an addition whose signal's name holds `text`, wherever it stands.
void stop_adding_after(Plan& plan, std::size_t rank, const std::string& text) {
  std::size_t dropped = 0;
  for (Addition& addition : plan.programs[rank].additions)
    dropped += std::erase_if(addition.waits, [&](const Wait& wait) {
      return plan.signals[static_cast<std::size_t>(wait.signal)].name.find(text) != std::string::npos;
    });
  ASSERT_GT(dropped, 0U) << "no addition waits for " << text;
}

TEST(OneShotTheorems, SummandsOfOthersAreWaitedFor) {
  Plan plan = small_plan();
  stop_adding_after(plan, 0, "of rank 2 at rank 0");
  EXPECT_THAT(refutation(plan, "no read before its data"),
              AllOf(HasSubstr("the sum of c["), HasSubstr("on rank 0"), HasSubstr("may read c_summands["),
                    HasSubstr("only then comes transfer 2.")));
  EXPECT_THAT(found_by_cpu_ranks(plan), AllOf(HasSubstr("the sum of c["), HasSubstr("reads rank 0's c_summands[")));
}

TEST(OneShotTheorems, WhatOtherWorkersStoreIsWaitedFor) {
  Plan plan = small_plan();
  stop_adding_after(plan, 1, "of rank 1 for rank");
  EXPECT_THAT(refutation(plan, "no read before its data"),
              AllOf(HasSubstr("may read c_inside["), HasSubstr("only then comes tile (")));
  EXPECT_THAT(found_by_cpu_ranks(plan), AllOf(HasSubstr("the sum of c["), HasSubstr("reads rank 1's c_inside[")));
}

TEST(OneShotTheorems, TilesRaiseBeforeTheirWorkersAdd) {
  // A worker that did not tell of what it has stored would wait for peers who wait for it.
  Plan plan = small_plan();
  for (Slot& slot : plan.programs[0].slots) slot.signals.clear();
  EXPECT_FALSE(verify(plan).holds());
  EXPECT_NE(found_by_cpu_ranks(plan), "");
  // Tiles may not wait for what comes after the tiles of others: here for a summand of a peer, who waits for ours.
  plan = small_plan();
  for (RankProgram& program : plan.programs) {
    Slot& first = program.slots.front();
    first.waits.insert(first.waits.end(), program.additions.front().waits.begin(),
                       program.additions.front().waits.end());
  }
  EXPECT_THAT(refutation(plan, "no deadlock"), HasSubstr("a cycle of waits"));
  EXPECT_THAT(found_by_cpu_ranks(plan), HasSubstr("nothing can move"));
}

TEST(OneShotTheorems, SumsThatWaitForEverAreNamed) {
  Plan plan = small_plan();
  plan.signals.push_back({"never", 1, signal_count(plan, 1), 1, "nothing"});
  plan.programs[1].additions.back().waits.push_back({static_cast<int>(plan.signals.size()) - 1, 1});
  EXPECT_THAT(refutation(plan, "no deadlock"),
              AllOf(HasSubstr("the sum of c["), HasSubstr("nobody is left to raise it")));
  EXPECT_THAT(found_by_cpu_ranks(plan), AllOf(HasSubstr("the sum of c["), HasSubstr("nothing in the plan raises it")));
}

/// A push of launch e + 1 lands where an addition of launch e may still read.
TEST(OneShotTheorems, TheStackIsOverwrittenOnlyWhenTheLaunchIsOver) {
  Plan plan = small_plan();
  std::size_t dropped = 0;
  for (Queue& queue : plan.programs[0].queues)
    for (Transfer& transfer : queue.transfers)
      dropped += std::erase_if(transfer.waits, [&](const Wait& wait) {
        return plan.signals[static_cast<std::size_t>(wait.signal)].name == "buffers of rank 1 free for rank 0";
      });
  ASSERT_GT(dropped, 0U);
  EXPECT_THAT(refutation(plan, "no overwrite of live data"),
              AllOf(HasSubstr("may overwrite c_summands["), HasSubstr("while rank 1 still adds it")));
  EXPECT_THAT(found_by_cpu_ranks(plan), HasSubstr("c_summands["));
}

TEST(OneShotTheorems, EveryElementIsAddedUpOnce) {
  Plan plan = small_plan();
  plan.programs[2].additions.pop_back();
  EXPECT_THAT(refutation(plan, "coverage"),
              HasSubstr("the caller needs c to be [0:32, 0:96] on rank 2, but nobody fills"));
  EXPECT_NE(found_by_cpu_ranks(plan), "");
  plan = small_plan();
  plan.programs[2].additions.push_back(plan.programs[2].additions.front());
  EXPECT_THAT(refutation(plan, "coverage"), AllOf(HasSubstr("on rank 2 is filled twice in a launch: by the sum of c["),
                                                  HasSubstr("(addition 0, worker 0)")));
  EXPECT_NE(found_by_cpu_ranks(plan), "");
  plan = small_plan();
  Transfer& sent = plan.programs[0].queues[0].transfers[0];
  sent.source.region[1].end = sent.destination.region[1].end = 95;
  EXPECT_THAT(refutation(plan, "coverage"),
              HasSubstr("the sum needs c_summands to be [0:64, 0:96] on rank 1, but nobody"));
  EXPECT_NE(found_by_cpu_ranks(plan), "");
}

/// What form says of a plan that is changed.
std::string form_of(const std::function<void(Plan&)>& change) {
  Plan plan = small_plan();
  change(plan);
  return refutation(plan, "form");
}

TEST(OneShotTheorems, Form) {
  const auto transfer = [](Plan& plan) -> Transfer& { return plan.programs[0].queues[0].transfers[0]; };
  EXPECT_THAT(form_of([&](Plan& plan) { transfer(plan).destination.region[0] = {32, 48}; }),
              HasSubstr("to c_summands[32:48, 0:96] of rank 1, which is not the place of that summand"));
  EXPECT_THAT(form_of([&](Plan& plan) { transfer(plan).destination = {1, 3, {{0, 16}, {0, 96}}}; }),
              HasSubstr("goes from buffer c_inside to buffer c"));
  EXPECT_THAT(form_of([&](Plan& plan) { transfer(plan).source = {0, 4, {{0, 16}, {0, 96}}}; }),
              HasSubstr("which is not the place of that summand"));
  EXPECT_THAT(form_of([](Plan& plan) { plan.buffers[4].symmetric = false; }),
              HasSubstr("reaches for c_summands of rank 1, which is local"));
  EXPECT_EQ(form_of([](Plan& plan) { plan.buffers[4].shape[0] = 32; }),
            "buffer c_summands is a stack of other ranks' summands of c_inside, but has shape 32 x 96");
  EXPECT_EQ(form_of([](Plan& plan) { plan.buffers[2].summed_apart = false; }),
            "buffer c_inside is to show a part of a tensor and takes part in sums");
  EXPECT_THAT(form_of([](Plan& plan) { plan.buffers[3].after = Placement::shard(0); }), HasSubstr("c"));
  EXPECT_THAT(form_of([](Plan& plan) { plan.buffers.pop_back(); }), HasSubstr("do not fit together"));
  EXPECT_THAT(form_of([](Plan& plan) { plan.buffers.push_back(plan.buffers[4]); }),
              HasSubstr("are both summands buffers"));
  EXPECT_THAT(form_of([](Plan& plan) { plan.tiles[0].writes[0].buffer = 4; }),
              HasSubstr("uses c_summands, which is none of the kernel's"));
  EXPECT_THAT(form_of([](Plan& plan) { plan.programs[1].additions[0].region[0] = {0, 40}; }),
              HasSubstr("addition 0 of rank 1: c[0:40, 0:96] is not inside the buffer"));
  EXPECT_THAT(form_of([](Plan& plan) { plan.programs[1].additions[0].region = {{0, 2}, {0, 8}}; }),
              HasSubstr("addition 0 of rank 1: c[0:2, 0:8] is not contiguous in memory"));
  EXPECT_THAT(form_of([](Plan& plan) { plan.programs[1].additions[0].waits.push_back({-1, 1}); }),
              HasSubstr("addition 0 of rank 1 waits for signal number -1"));
  EXPECT_THAT(form_of([](Plan& plan) { std::swap(plan.sums[0].order.terms[0], plan.sums[0].order.terms[1]); }),
              HasSubstr("is said to be in another order than that of the ranks"));
  EXPECT_THAT(form_of([](Plan& plan) { plan.sums.pop_back(); }), HasSubstr("nothing says what the sum in c"));
  EXPECT_THAT(form_of([](Plan& plan) { plan.sums[0].buffer = 2; }), HasSubstr("a sum is said of buffer number 2"));
  EXPECT_EQ(form_of([](Plan& plan) { plan.lookahead = 4; }), "a one-shot sum where workers choose among slots");
}

TEST(OneShotTheorems, OfOtherPlansNothingIsAddedUp) {
  Plan plan = compile_operator(testing::operator_file("gemm_ar"), {});
  plan.programs[0].additions.push_back({{{0, 1}, {0, 512}}, {}});
  EXPECT_THAT(refutation(plan, "form"), HasSubstr("rank 0 adds up parts of no one-shot sum"));
  EXPECT_THAT(found_by_cpu_ranks(plan), HasSubstr("adds up a part of no one-shot sum"));
}

// ---- Files ---------------------------------------------------------------------------------------------------------

/// What reading a plan says whose text is changed.
std::string read_with(const std::string& from, const std::string& to) {
  std::string text = to_json(small_plan());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return error_of([&] { parse_plan(SourceFile("plan.json", text), false); });
}

TEST(OneShotFiles, SayWhatIsWrong) {
  EXPECT_EQ(read_with("\"summands\"", "\"summands\""), "no error");
  EXPECT_THAT(read_with("\"role\": \"summands\"", "\"role\": \"sums\""),
              HasSubstr("kernel, staging, source, result or summands"));
  EXPECT_THAT(read_with("\"role\": \"summands\"", "\"role\": \"staging\""), HasSubstr("cannot be the staging buffer"));
  EXPECT_THAT(read_with(",\n      \"summed_apart\": true", ""), HasSubstr("buffer"));
  EXPECT_THAT(read_with("\"summed_apart\": true", "\"summed_apart\": 1"), HasSubstr("'summed_apart'"));
  EXPECT_THAT(read_with("\"workers\": ", "\"lookahead\": 4,\n  \"workers\": "),
              AllOf(HasSubstr("an addition, which knows what its worker's slots have stored, in a dynamic order"),
                    HasSubstr("remove 'lookahead'")));
}

}  // namespace
}  // namespace syncopate
