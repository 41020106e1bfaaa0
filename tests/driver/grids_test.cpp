// Kernels with one program per tile on grids of two and three axes, gathered and reduced, on CPU ranks.
#include <gtest/gtest.h>

#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/verify/verify.h"
#include "tests/driver/gemm_reference.h"
#include "tests/support/temporary_folder.h"

namespace syncopate {
namespace {

constexpr const char* kTwoAxes = R"(import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        rk = i * BK + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc.to(tl.bfloat16), mask=mask)
)";

/// c[batch] = 2 a[batch]; the batch is the grid's last axis.
constexpr const char* kThreeAxes = R"(import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, c_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    pid_n = tl.program_id(0)
    pid_m = tl.program_id(1)
    batch = tl.program_id(2)
    rows = pid_m * BM + tl.arange(0, BM)
    columns = pid_n * BN + tl.arange(0, BN)
    offsets = (batch * M + rows[:, None]) * N + columns[None, :]
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + offsets, tl.load(a_ptr + offsets, mask=mask) * 2.0, mask=mask)
)";

constexpr const char* kProduct = R"(operator = "product"
ranks = 3
[kernel]
file = "kernel.py"
function = "kernel"
args = { M = 100, N = 40, K = 24, BM = 16, BN = 16, BK = 16 }
[launch]
workers = 4
[tensors.a]
parameter = "a_ptr"
shape = ["M", "K"]
dtype = "bf16"
[tensors.b]
parameter = "b_ptr"
shape = ["K", "N"]
dtype = "bf16"
[tensors.c]
parameter = "c_ptr"
shape = ["M", "N"]
dtype = "bf16"
)";

constexpr const char* kDoubled = R"(operator = "doubled"
ranks = 3
[kernel]
file = "kernel.py"
function = "kernel"
args = { M = 20, N = 40, BM = 16, BN = 16 }
[launch]
workers = 4
[tensors.a]
parameter = "a_ptr"
shape = [5, "M", "N"]
dtype = "bf16"
[tensors.c]
parameter = "c_ptr"
shape = [5, "M", "N"]
dtype = "bf16"
)";

Plan compiled(const char* kernel, const char* statement, const std::vector<Override>& overrides) {
  const testing::TemporaryFolder folder;
  folder.write("kernel.py", kernel);
  return compile_operator(folder.write("operator.toml", statement), overrides);
}

std::vector<Override> gathered(const std::string& ranks) {
  return {{"ranks", ranks}, {"tensors.a.before", "\"shard(0)\""}, {"tensors.a.inside", "replicate"}};
}
std::vector<Override> reduced(const std::string& ranks) {
  return {{"ranks", ranks}, {"tensors.c.inside", "\"partial(sum)\""}, {"tensors.c.after", "\"shard(0)\""}};
}

/// The last launch, which was right and which the plan's file would repeat.
LaunchData run_of(const Plan& plan) {
  EXPECT_TRUE(verify(plan).holds()) << verify(plan).to_string();
  const Plan read = parse_plan(SourceFile("plan.json", to_json(plan)));
  EXPECT_EQ(read.kernel.grid, plan.kernel.grid);
  RunOptions options;
  options.adversary = true;
  options.repeat = 2;
  const RunReport report = run_on_cpu_ranks(read, options);
  EXPECT_EQ(report.outcome, Outcome::right) << report.message;
  return report.last;
}

class Grids : public ::testing::TestWithParam<const char*> {};

TEST_P(Grids, TwoAxesGathered) {
  const Plan plan = compiled(kTwoAxes, kProduct, gathered(GetParam()));
  EXPECT_EQ(plan.kernel.grid, (std::vector<std::int64_t>{7, 3}));
  const LaunchData last = run_of(plan);
  for (int rank = 0; rank < plan.ranks; ++rank) EXPECT_EQ(testing::compare_exactly(plan, last, rank), "");
}

TEST_P(Grids, TwoAxesReduced) {
  const Plan plan = compiled(kTwoAxes, kProduct, reduced(GetParam()));
  EXPECT_EQ(plan.kernel.grid, (std::vector<std::int64_t>{7, 3}));
  EXPECT_EQ(testing::compare_sum_exactly(plan, run_of(plan)), "");
}

TEST_P(Grids, ThreeAxes) {
  for (const auto& overrides : {gathered(GetParam()), reduced(GetParam())}) {
    const Plan plan = compiled(kThreeAxes, kDoubled, overrides);
    EXPECT_EQ(plan.kernel.grid, (std::vector<std::int64_t>{3, 2, 5}));
    run_of(plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Grids, ::testing::Values("1", "2", "3"));

}  // namespace
}  // namespace syncopate
