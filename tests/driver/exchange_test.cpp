// Whole operators whose tensors are cut otherwise for the caller than for the kernel, on CPU ranks: inputs, outputs and
// both, beside a reduced output; every rank count, initiator, split and ragged size; proven, executed under many
// interleavings, and compared with products of whole tensors computed independently of Syncopate.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/inputs.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/gemm_reference.h"

namespace syncopate {
namespace {

struct Case {
  std::string name;  ///< of the operator: "a2a_gemm", "gemm_a2a", "a2a_gemm_rs", "a2a_gemm_a2a", "gemm_ag"
  std::string kernel = "gemm";
  int ranks = 4;
  std::string algorithm = "direct";
  std::string initiator = "push";
  int split = 2;
  int m = 64;  ///< sizes of the kernel's product
  int n = 48;
  int k = 32;
  int workers = 3;

  bool exchanges_a() const { return name != "gemm_a2a" && name != "gemm_ag"; }
  bool gathers_c() const { return name == "gemm_ag"; }
  bool exchanges_c() const { return name == "gemm_a2a" || name == "a2a_gemm_a2a"; }
  bool reduces_c() const { return name == "a2a_gemm_rs"; }
  std::string to_string() const {
    return name + "_" + kernel + "_" + std::to_string(ranks) + "ranks_" + algorithm + "_" + initiator + "_split" +
           std::to_string(split) + "_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + "_" +
           std::to_string(workers) + "workers";
  }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.to_string(); }

Plan compiled(const Case& c) {
  std::vector<Override> overrides = testing::product_overrides({c.m, c.n, c.k}, c.ranks, c.workers, false);
  if (c.kernel == "gemm") overrides.push_back({"kernel.args.BLOCK_N", "32"});  // it stores quarters of tiles
  if (c.kernel == "gemm_pointers")
    overrides.insert(overrides.end(),
                     {{"kernel.file", "../kernels/gemm_pointers.py"}, {"kernel.function", "gemm_pointers"}});
  for (const char* tensor : {"a", "c"}) {
    if (tensor == std::string("a") ? !c.exchanges_a() : !c.exchanges_c() && !c.gathers_c() && !c.reduces_c()) continue;
    overrides.push_back({std::string("communicate.") + tensor + ".algorithm", c.algorithm});
    overrides.push_back({std::string("communicate.") + tensor + ".initiator", c.initiator});
    overrides.push_back({std::string("communicate.") + tensor + ".split", std::to_string(c.split)});
  }
  if (c.name == "a2a_gemm_a2a")
    overrides.insert(overrides.end(), {{"tensors.c.shape", "[\"M * ranks\", \"N\"]"},
                                       {"tensors.c.inside", "\"shard(0)\""},
                                       {"tensors.c.after", "\"shard(1)\""}});
  if (c.gathers_c()) overrides.push_back({"tensors.c.after", "replicate"});
  const std::string file = c.name == "a2a_gemm_a2a" ? "a2a_gemm" : c.gathers_c() ? "gemm_a2a" : c.name;
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/" + file + ".toml", overrides);
}

// ---- What should come out, from whole tensors --------------------------------------------------------------------

struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c), NAN) {}
  double& at(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * columns + j)]; }
};

/// torch.chunk, worked out again.
Range part_of(std::int64_t extent, int ranks, int rank) {
  const std::int64_t size = (extent + ranks - 1) / ranks;
  return {std::min(extent, size * rank), std::min(extent, size * (rank + 1))};
}

int index_of(const Plan& plan, const std::string& name) {
  for (std::size_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].name == name) return static_cast<int>(b);
  ADD_FAILURE() << "no buffer " << name;
  return 0;
}

double element(const Bytes& bytes, Dtype dtype, std::int64_t index) {
  return static_cast<double>(load_element(bytes.data() + index * size_in_bytes(dtype), dtype));
}

/// Puts rows x columns elements of a rank's buffer, whose rows have `pitch` elements, at (row, column).
void put(Matrix& to, std::int64_t row, std::int64_t column, const Bytes& from, Dtype dtype, std::int64_t rows,
         std::int64_t columns, std::int64_t pitch) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) to.at(row + i, column + j) = element(from, dtype, i * pitch + j);
}

/// All of A, from what the callers supplied: rows of rank r, or, where a is not exchanged, rank r's own A alone.
Matrix whole_a(const Case& c, const Plan& plan, const LaunchData& data) {
  const int a = index_of(plan, "a");
  Matrix whole(c.m, std::int64_t{c.k} * c.ranks);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const Range rows = part_of(c.m, c.ranks, rank);
    put(whole, rows.begin, 0, data.inputs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(a)],
        plan.buffer(a).dtype, rows.size(), whole.columns, plan.buffer(a).shape[1]);
  }
  return whole;
}

/// What a rank's kernel multiplies.
Matrix local_a(const Case& c, const Plan& plan, const LaunchData& data, int rank) {
  Matrix local(c.m, c.k);
  if (!c.exchanges_a()) {
    const int a = index_of(plan, "a");
    put(local, 0, 0, data.inputs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(a)], plan.buffer(a).dtype,
        c.m, c.k, c.k);
    return local;
  }
  Matrix whole = whole_a(c, plan, data);
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t j = 0; j < c.k; ++j) local.at(i, j) = whole.at(i, std::int64_t{c.k} * rank + j);
  return local;
}

Matrix local_product(const Case& c, const Plan& plan, const LaunchData& data, int rank) {
  Matrix a = local_a(c, plan, data, rank);
  const int index = index_of(plan, "b");
  Matrix b(c.k, c.n);
  put(b, 0, 0, data.inputs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(index)], plan.buffer(index).dtype,
      c.k, c.n, c.n);
  Matrix product(c.m, c.n);
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < c.k; ++k) sum += a.at(i, k) * b.at(k, j);
      product.at(i, j) = sum;
    }
  return product;
}

/// What a rank's caller should take.
Matrix expected_c(const Case& c, const Plan& plan, const LaunchData& data, int rank) {
  if (!c.exchanges_c() && !c.gathers_c() && !c.reduces_c()) return local_product(c, plan, data, rank);
  Matrix whole(c.reduces_c() ? c.m : std::int64_t{c.m} * c.ranks, c.n);
  if (c.reduces_c()) std::fill(whole.values.begin(), whole.values.end(), 0.0);
  for (int other = 0; other < c.ranks; ++other) {
    Matrix product = local_product(c, plan, data, other);
    for (std::int64_t i = 0; i < c.m; ++i)
      for (std::int64_t j = 0; j < c.n; ++j) {
        if (c.reduces_c()) whole.at(i, j) += product.at(i, j);
        if (!c.reduces_c()) whole.at(std::int64_t{c.m} * other + i, j) = product.at(i, j);
      }
  }
  const Range rows = c.reduces_c() ? part_of(c.m, c.ranks, rank) : Range{0, whole.rows};
  const Range columns = c.exchanges_c() ? part_of(c.n, c.ranks, rank) : Range{0, c.n};
  Matrix part(rows.size(), columns.size());
  for (std::int64_t i = 0; i < part.rows; ++i)
    for (std::int64_t j = 0; j < part.columns; ++j) part.at(i, j) = whole.at(rows.begin + i, columns.begin + j);
  return part;
}

/// "" if every rank has exactly what it should. Inputs must be small integers.
std::string compare_exactly(const Case& c, const Plan& plan, const LaunchData& data) {
  const int index = index_of(plan, "c");
  double largest = 0;
  for (int rank = 0; rank < c.ranks; ++rank) {
    Matrix expected = expected_c(c, plan, data, rank);
    const Bytes& got = data.outputs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(index)];
    if (got.size() != expected.values.size() * 2) return "rank " + std::to_string(rank) + ": an output of another size";
    for (std::size_t e = 0; e < expected.values.size(); ++e) {
      largest = std::max(largest, std::fabs(expected.values[e]));
      const double value = element(got, plan.buffer(index).dtype, static_cast<std::int64_t>(e));
      if (std::fabs(expected.values[e]) > 256) return "too large to be exact";
      if (!(value == expected.values[e]))
        return "rank " + std::to_string(rank) + " element " + std::to_string(e) + ": expected " +
               std::to_string(expected.values[e]) + ", got " + std::to_string(value);
    }
  }
  return largest > 0 ? "" : "every element is zero: the test shows nothing";
}

// ---- The cases ---------------------------------------------------------------------------------------------------

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* name : {"a2a_gemm", "gemm_a2a", "a2a_gemm_rs", "a2a_gemm_a2a"})
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const char* initiator : {"push", "pull"})
        for (const int split : {1, 3}) {
          Case c;
          c.name = name;
          c.ranks = ranks;
          c.initiator = initiator;
          c.split = split;
          cases.push_back(c);
          // Ragged everywhere: parts that no tile border meets, one program per tile, fewer workers than tiles.
          c.kernel = "gemm_pointers";
          c.m = 43;
          c.n = 37;
          c.k = 29;
          c.workers = 4;
          cases.push_back(c);
        }
  // An output of which every rank is to have all parts.
  for (const char* algorithm : {"direct", "ring", "bidirectional_ring"})
    for (const int ranks : {1, 2, 3, 5})
      for (const char* initiator : {"push", "pull"}) {
        Case c;
        c.name = "gemm_ag";
        c.algorithm = algorithm;
        c.initiator = initiator;
        c.ranks = ranks;
        cases.push_back(c);
        c.kernel = "gemm_pointers";
        c.m = 23;
        c.n = 37;
        cases.push_back(c);
      }
  // Fewer rows, or columns, than ranks: the last ranks supply nothing, or take nothing.
  for (const char* name : {"a2a_gemm", "gemm_a2a", "a2a_gemm_a2a"}) {
    Case c;
    c.name = name;
    c.kernel = "gemm_pointers";
    c.ranks = 8;
    c.split = 1;
    c.m = 5;
    c.n = 6;
    c.k = 16;
    cases.push_back(c);
  }
  return cases;
}

class Exchange : public ::testing::TestWithParam<Case> {};

TEST_P(Exchange, IsProvenAndRight) {
  const Plan plan = compiled(GetParam());
  const Proof proof = verify(plan);
  ASSERT_TRUE(proof.holds()) << proof.to_string();
  for (const std::uint64_t seed : {0U, 1U}) {
    RunOptions options;
    options.seed = seed;
    options.adversary = seed == 1;
    options.repeat = 3;
    const RunReport report = run_on_cpu_ranks(plan, options);
    ASSERT_EQ(report.outcome, Outcome::right) << report.message;
    EXPECT_EQ(compare_exactly(GetParam(), plan, report.last), "");
  }
  RunOptions reals;
  reals.inputs = InputKind::reals;
  const RunReport report = run_on_cpu_ranks(plan, reals);
  EXPECT_EQ(report.outcome, Outcome::right) << report.message;
}

TEST_P(Exchange, SaysWhichBuffersHaveInputs) {
  const Plan plan = compiled(GetParam());
  const std::vector<bool> has = has_launch_inputs(plan);
  for (const auto& of_rank : launch_inputs(plan, 1, InputKind::reals, 1))
    for (std::size_t buffer = 0; buffer < of_rank.size(); ++buffer)
      EXPECT_EQ(has[buffer], !of_rank[buffer].empty()) << plan.buffers[buffer].name;
}

TEST_P(Exchange, CompilesToTheSameBytes) {
  const Plan plan = compiled(GetParam());
  const std::string text = to_json(plan);
  EXPECT_EQ(to_json(compiled(GetParam())), text);
  EXPECT_EQ(to_json(parse_plan(SourceFile("plan.json", text))), text);
}

/// What moves between ranks is what the other side needs and no more.
TEST_P(Exchange, MovesEveryElementOnce) {
  const Case& c = GetParam();
  const Plan plan = compiled(c);
  std::int64_t between = 0;
  std::int64_t within = 0;
  for (const RankProgram& program : plan.programs)
    for (const Queue& queue : program.queues)
      for (const Transfer& transfer : queue.transfers) {
        if (transfer.destination.buffer == landing_buffer(plan)) continue;  // summands
        (transfer.source.rank == transfer.destination.rank ? within : between) += transfer.source.region.volume();
      }
  const std::int64_t a = c.exchanges_a() ? std::int64_t{c.m} * c.k * c.ranks : 0;
  const std::int64_t part = std::int64_t{c.m} * c.n;
  const std::int64_t out = c.exchanges_c() ? part * c.ranks : c.gathers_c() ? part * c.ranks * c.ranks : 0;
  EXPECT_EQ(between + within, a + out);
  std::int64_t own = 0;
  for (int rank = 0; rank < c.ranks; ++rank) {
    if (c.exchanges_a()) own += part_of(c.m, c.ranks, rank).size() * c.k;
    if (c.gathers_c()) own += part;
    if (c.exchanges_c()) own += part_of(c.n, c.ranks, rank).size() * c.m;
  }
  EXPECT_EQ(within, own);
}

INSTANTIATE_TEST_SUITE_P(Cases, Exchange, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.to_string(); });

/// Two hundred interleavings of each operator, half of them hostile.
class ManyExchangeSeeds : public ::testing::TestWithParam<Case> {};

TEST_P(ManyExchangeSeeds, EveryInterleavingIsRight) {
  const Plan plan = compiled(GetParam());
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RunOptions options;
    options.seed = seed;
    options.adversary = seed % 2 == 1;
    options.repeat = 2;
    const RunReport report = run_on_cpu_ranks(plan, options);
    ASSERT_EQ(report.outcome, Outcome::right) << "seed " << seed << ": " << report.message;
  }
}

std::vector<Case> seed_cases() {
  std::vector<Case> cases;
  for (const char* name : {"a2a_gemm", "gemm_a2a", "a2a_gemm_rs", "a2a_gemm_a2a", "gemm_ag"})
    for (const char* initiator : {"push", "pull"}) {
      Case c;
      c.name = name;
      if (c.gathers_c()) c.algorithm = "ring";
      c.kernel = "gemm_pointers";
      c.initiator = initiator;
      c.ranks = 3;
      c.m = 41;
      c.n = 20;
      c.k = 16;
      cases.push_back(c);
    }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, ManyExchangeSeeds, ::testing::ValuesIn(seed_cases()),
                         [](const auto& test) { return test.param.to_string(); });

}  // namespace
}  // namespace syncopate
