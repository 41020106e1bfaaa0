// Whole kernels, memory accesses, waits and workers of the concrete machine.
#include "syncopate/kernel/concrete.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <utility>

#include "tests/kernel/concrete_fixture.h"

namespace syncopate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

MATCHER_P2(RunIs, offset, count, "") { return arg.offset == offset && arg.count == count; }

// ---- Products ----

TEST(ConcreteGemm, DescriptorsGiveExactSmallIntegers) {
  const GemmShape shape{100, 72, 40};  // ragged in every dimension
  FakeMemory memory = gemm_memory(shape, Dtype::bf16, small_integers);
  run_to_end(lower_kernel_file("gemm.py", "gemm"), gemm_arguments(shape, {32, 32, 16}, Dtype::bf16), {0}, {1}, memory);
  expect_exact_product(memory, shape);
}

TEST(ConcreteGemm, PersistentProgramsShareTheTiles) {
  const GemmShape shape{70, 72, 24};
  FakeMemory memory = gemm_memory(shape, Dtype::fp16, small_integers);
  const auto program = lower_kernel_file("gemm.py", "gemm");
  for (std::int64_t id = 0; id < 3; ++id)
    run_to_end(program, gemm_arguments(shape, {16, 32, 16}, Dtype::fp16), {id}, {3}, memory);
  expect_exact_product(memory, shape);
}

TEST(ConcreteGemm, PointersWithMasksGiveExactSmallIntegers) {
  const GemmShape shape{45, 37, 29};
  FakeMemory memory = gemm_memory(shape, Dtype::fp32, small_integers);
  const auto program = lower_kernel_file("gemm_pointers.py", "gemm_pointers");
  for (std::int64_t id = 0; id < 3 * 3; ++id)
    run_to_end(program, gemm_arguments(shape, {16, 16, 8}, Dtype::fp32), {id}, {9}, memory);
  expect_exact_product(memory, shape);
}

TEST(ConcreteGemm, TileIndicesOfAHelper) {
  const GemmShape shape{40, 56, 24};
  FakeMemory memory = gemm_memory(shape, Dtype::bf16, small_integers);
  const Arguments arguments = {{"x", BufferArgument{0, Dtype::bf16}},
                               {"w", BufferArgument{1, Dtype::bf16}},
                               {"y", BufferArgument{2, Dtype::bf16}},
                               {"rows", shape.m},
                               {"cols", shape.n},
                               {"depth", shape.k},
                               {"TILE_R", std::int64_t{16}},
                               {"TILE_C", std::int64_t{16}},
                               {"TILE_D", std::int64_t{8}},
                               {"BAND", std::int64_t{2}}};
  run_to_end(lower_kernel_file("gemm_split_helper.py", "gemm_split_helper"), arguments, {0}, {1}, memory);
  expect_exact_product(memory, shape);
}

TEST(ConcreteGemm, FloatsStayInsideTheErrorBound) {
  const GemmShape shape{33, 47, 300};
  FakeMemory memory = gemm_memory(shape, Dtype::fp32, fractions);
  const auto program = lower_kernel_file("gemm_pointers.py", "gemm_pointers");
  for (std::int64_t id = 0; id < 2 * 2; ++id)
    run_to_end(program, gemm_arguments(shape, {32, 32, 32}, Dtype::fp32), {id}, {4}, memory);
  // K products and K sums, each rounded once: |error| <= 2 K u sum |a b| to first order, u = 2^-24.
  for_each_product(memory, shape, [&](std::int64_t index, double sum, double magnitude) {
    ASSERT_NEAR(memory.get(2, index), sum, 2.0 * static_cast<double>(shape.k) * 0x1p-24 * magnitude);
  });
}

TEST(ConcreteGemm, SumsInAscendingKWithoutFusing) {
  const GemmShape shape{19, 67, 45};  // whole and ragged vectors of every width
  FakeMemory memory = gemm_memory(shape, Dtype::fp32, fractions);
  const auto program = lower_kernel_file("gemm_pointers.py", "gemm_pointers");
  run_to_end(program, gemm_arguments(shape, {19, 67, 16}, Dtype::fp32), {0}, {1}, memory);
  const std::vector<double> a = memory.values(0);
  const std::vector<double> b = memory.values(1);
  for (std::int64_t m = 0; m < shape.m; ++m) {
    for (std::int64_t n = 0; n < shape.n; ++n) {
      volatile float sum = 0;  // volatile: every product and every sum is rounded
      for (std::int64_t k = 0; k < shape.k; ++k) {
        const volatile float product = static_cast<float>(a[static_cast<std::size_t>(m * shape.k + k)]) *
                                       static_cast<float>(b[static_cast<std::size_t>(k * shape.n + n)]);
        sum = sum + product;
      }
      ASSERT_EQ(memory.get(2, m * shape.n + n), static_cast<double>(sum)) << m << ", " << n;
    }
  }
}

TEST(ConcreteGemm, RoundsTheOutputToNearestEven) {
  FakeMemory memory;
  const int a = memory.add(Dtype::bf16, std::vector<double>{1, 1, 1, 3});
  const int b = memory.add(Dtype::bf16, std::vector<double>{256, 512, 1, 1});
  const int c = memory.add(Dtype::bf16, 4);
  const GemmShape shape{2, 2, 2};
  run_to_end(lower_kernel_file("gemm_pointers.py", "gemm_pointers"), gemm_arguments(shape, {2, 2, 2}, Dtype::bf16), {0},
             {1}, memory);
  ASSERT_EQ((std::vector<int>{a, b, c}), (std::vector<int>{0, 1, 2}));
  // 257 lies halfway between 256 and 258, and 256 is even; 513 rounds down; 259 lies halfway between 258 and 260; 515
  // rounds to 516.
  EXPECT_THAT(memory.values(c), ElementsAre(256, 512, 260, 516));
}

// ---- Memory ----

TEST(ConcreteMemory, LoadAnnouncesMaximalRunsInAscendingOrder) {
  FakeMemory memory;
  const int x = memory.add(Dtype::fp32, 64);
  const int out = memory.add(Dtype::fp32, 16);
  // Rows of 4 from a matrix of 8 columns, visited transposed: the runs are still the rows.
  run_text(R"(
@triton.jit
def kernel(x, out):
    rows = tl.arange(0, 4)[None, :]
    columns = tl.arange(0, 4)[:, None]
    block = tl.load(x + rows * 8 + columns)
    tl.store(out + columns * 4 + rows, block)
)",
           {{"x", memory.argument(x)}, {"out", memory.argument(out)}}, memory);
  ASSERT_EQ(memory.accesses.size(), 2U);
  EXPECT_EQ(memory.accesses[0].kind, AccessKind::read);
  EXPECT_EQ(memory.accesses[0].buffer, x);
  EXPECT_EQ(memory.accesses[0].where.line, 8);
  EXPECT_THAT(memory.accesses[0].runs, ElementsAre(RunIs(0, 4), RunIs(8, 4), RunIs(16, 4), RunIs(24, 4)));
  EXPECT_EQ(memory.accesses[1].kind, AccessKind::write);
  EXPECT_THAT(memory.accesses[1].runs, ElementsAre(RunIs(0, 16)));
}

TEST(ConcreteMemory, TransposedLoadMovesTheRightElements) {
  FakeMemory memory;
  const int x = memory.add(Dtype::int32, std::vector<double>{0, 1, 2, 3, 4, 5});
  const int out = memory.add(Dtype::int32, 6);
  run_text(R"(
@triton.jit
def kernel(x, out):
    block = tl.load(x + tl.arange(0, 2)[None, :] * 3 + tl.arange(0, 3)[:, None])
    tl.store(out + tl.arange(0, 3)[:, None] * 2 + tl.arange(0, 2)[None, :], block)
)",
           {{"x", memory.argument(x)}, {"out", memory.argument(out)}}, memory);
  EXPECT_THAT(memory.values(out), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(ConcreteMemory, MaskedLanesAreNeitherReadNorWritten) {
  FakeMemory memory;
  const int x = memory.add(Dtype::fp32, std::vector<double>{1, 2, 3, 4, 5});
  const int out = memory.add(Dtype::fp32, std::vector<double>(8, -1.0));
  run_text(R"(
@triton.jit
def kernel(x, out, n):
    i = tl.arange(0, 8)
    v = tl.load(x + i, mask=i < n, other=7.0)
    tl.store(out + i, v, mask=i != 2)
)",
           {{"x", memory.argument(x)}, {"out", memory.argument(out)}, {"n", std::int64_t{5}}}, memory);
  EXPECT_THAT(memory.values(out), ElementsAre(1, 2, -1, 4, 5, 7, 7, 7));
  EXPECT_THAT(memory.accesses[0].runs, ElementsAre(RunIs(0, 5)));
  EXPECT_THAT(memory.accesses[1].runs, ElementsAre(RunIs(0, 2), RunIs(3, 5)));
}

TEST(ConcreteMemory, AFullyMaskedAccessIsNone) {
  FakeMemory memory;
  const int x = memory.add(Dtype::fp32, 1);
  const int out = memory.add(Dtype::fp32, std::vector<double>(4, -1.0));
  run_text(R"(
@triton.jit
def kernel(x, out, n):
    i = tl.arange(0, 4)
    v = tl.load(x + i + 100, mask=i < n)
    tl.store(out + i, v)
)",
           {{"x", memory.argument(x)}, {"out", memory.argument(out)}, {"n", std::int64_t{0}}}, memory);
  EXPECT_THAT(memory.values(out), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(memory.accesses.size(), 1U);
}

TEST(ConcreteMemory, ADescriptorReadsZerosOutsideAndDropsStoresThere) {
  FakeMemory memory;
  const int x = memory.add(Dtype::fp32, std::vector<double>{1, 2, 3, 9, 4, 5, 6, 9});  // 2 x 3, rows 4 apart
  const int out = memory.add(Dtype::fp32, std::vector<double>(16, -1.0));
  const int copy = memory.add(Dtype::fp32, std::vector<double>(8, -1.0));
  run_text(R"(
@triton.jit
def kernel(x, out, copy, rows, columns):
    d = tl.make_tensor_descriptor(x, [rows, columns], [4, 1], [4, 4])
    c = tl.make_tensor_descriptor(copy, [rows, columns], [4, 1], [4, 4])
    block = d.load([-1, 1])
    tl.store(out + tl.arange(0, 4)[:, None] * 4 + tl.arange(0, 4)[None, :], block)
    c.store([-1, 1], block + 10)
)",
           {{"x", memory.argument(x)},
            {"out", memory.argument(out)},
            {"copy", memory.argument(copy)},
            {"rows", std::int64_t{2}},
            {"columns", std::int64_t{3}}},
           memory);
  EXPECT_THAT(memory.values(out), ElementsAre(0, 0, 0, 0, 2, 3, 0, 0, 5, 6, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(memory.values(copy), ElementsAre(-1, 12, 13, -1, -1, 15, 16, -1));
  EXPECT_THAT(memory.accesses[0].runs, ElementsAre(RunIs(1, 2), RunIs(5, 2)));
}

TEST(ConcreteMemory, WholeRowsOfADescriptorAreOneRun) {
  FakeMemory memory;
  const int x = memory.add(Dtype::bf16, 64);
  run_text(R"(
@triton.jit
def kernel(x):
    d = tl.make_tensor_descriptor(x, [8, 8], [8, 1], [4, 8])
    d.store([4, 0], d.load([0, 0]))
)",
           {{"x", memory.argument(x)}}, memory);
  EXPECT_THAT(memory.accesses[0].runs, ElementsAre(RunIs(0, 32)));
  EXPECT_THAT(memory.accesses[1].runs, ElementsAre(RunIs(32, 32)));
}

TEST(ConcreteMemory, ADescriptorInTheMiddleOfABuffer) {
  FakeMemory memory;
  const int x = memory.add(Dtype::int32, std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13});
  const int out = memory.add(Dtype::int32, 8);
  run_text(R"(
@triton.jit
def kernel(x, out):
    d = tl.make_tensor_descriptor(x + 4, shape=[2, 4], strides=[4, 1], block_shape=[2, 4])
    o = tl.make_tensor_descriptor(out, [2, 4], [4, 1], [2, 4])
    o.store([0, 0], d.load([0, 0]))
)",
           {{"x", memory.argument(x)}, {"out", memory.argument(out)}}, memory);
  EXPECT_THAT(memory.values(out), ElementsAre(4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(ConcreteMemory, AtomicAddReturnsTheOldValuesAndAddsEveryLane) {
  FakeMemory memory;
  const int x = memory.add(Dtype::fp32, std::vector<double>{10, 20});
  const int old = memory.add(Dtype::fp32, 4);
  const int n = memory.add(Dtype::int32, std::vector<double>{5});
  run_text(R"(
@triton.jit
def kernel(x, old, n):
    i = tl.arange(0, 4)
    tl.store(old + i, tl.atomic_add(x + i % 2, 1.0, mask=i < 3))
    tl.atomic_add(n, 2, sem="relaxed")
)",
           {{"x", memory.argument(x)}, {"old", memory.argument(old)}, {"n", memory.argument(n)}}, memory);
  EXPECT_THAT(memory.values(x), ElementsAre(12, 21));
  EXPECT_THAT(memory.values(old), ElementsAre(10, 20, 11, 0));
  EXPECT_THAT(memory.values(n), ElementsAre(7));
  EXPECT_EQ(memory.accesses[0].kind, AccessKind::atomic);
}

TEST(ConcreteMemory, EveryDtypeRoundTrips) {
  for (const Dtype dtype :
       {Dtype::int8, Dtype::int16, Dtype::int32, Dtype::int64, Dtype::uint8, Dtype::uint16, Dtype::uint32,
        Dtype::uint64, Dtype::fp8e4m3, Dtype::fp8e5m2, Dtype::fp16, Dtype::bf16, Dtype::fp32, Dtype::fp64}) {
    const bool negative = is_floating(dtype) || is_signed_integer(dtype);
    const std::vector<double> values = {0, 1, negative ? -3.0 : 3.0, 7};
    FakeMemory memory;
    const int x = memory.add(dtype, values);
    const int out = memory.add(dtype, 4);
    run_text(R"(
@triton.jit
def kernel(x, out):
    i = tl.arange(0, 4)
    tl.store(out + i, tl.load(x + i) + 1)
)",
             {{"x", memory.argument(x)}, {"out", memory.argument(out)}}, memory);
    EXPECT_THAT(memory.values(out), ElementsAre(1, 2, values[2] + 1, 8)) << name_of(dtype);
  }
}

TEST(ConcreteMemory, HalfPrecisionLoadsEveryBitPattern) {
  FakeMemory memory;
  const int x = memory.add(Dtype::fp16, 65536);
  const int out = memory.add(Dtype::fp32, 65536);
  const std::span<std::byte> bytes = memory.access(x, AccessKind::write, {}, {});
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    std::memcpy(bytes.data() + 2 * bits, &pattern, 2);
  }
  run_text(R"(
@triton.jit
def kernel(x, out):
    i = tl.arange(0, 65536)
    tl.store(out + i, tl.load(x + i).to(tl.float32))
)",
           {{"x", memory.argument(x)}, {"out", memory.argument(out)}}, memory);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto expected = static_cast<double>(decode_fp16(static_cast<std::uint16_t>(bits)));
    const double loaded = memory.get(out, bits);
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(loaded) : loaded == expected) << bits;
  }
}

// ---- Workers ----

constexpr const char* kWaiting = R"(
@triton.jit
def syncopate_wait(flags, slot, expected, tile, record, time_limit):
    return tl.inline_asm_elementwise("...", "=r,l", [flags], dtype=tl.int32, is_pure=False, pack=1)

@triton.jit
def kernel(flags, x, out, record):
    tl.store(out, 1)
    ready = syncopate_wait(flags, 2, 3, 7, record, 1000)
    tl.store(out, tl.load(x + ready) + 10)
)";

TEST(ConcreteWorker, StopsAfterEveryAccessAndAtAWait) {
  FakeMemory memory;
  const int flags = memory.add(Dtype::int64, 4);
  const int x = memory.add(Dtype::int32, std::vector<double>{5});
  const int out = memory.add(Dtype::int32, 1);
  Worker worker(lower_text(kWaiting),
                {{"flags", memory.argument(flags)},
                 {"x", memory.argument(x)},
                 {"out", memory.argument(out)},
                 {"record", memory.argument(flags)}},
                {0}, {1}, memory);
  EXPECT_EQ(worker.step(), Worker::State::running);
  EXPECT_EQ(memory.get(out, 0), 1);
  EXPECT_EQ(worker.step(), Worker::State::blocked);
  EXPECT_EQ(worker.state(), Worker::State::blocked);
  EXPECT_EQ(worker.blocked_on().flags_buffer, flags);
  EXPECT_EQ(worker.blocked_on().slot, 2);
  EXPECT_EQ(worker.blocked_on().expected, 3);
  EXPECT_EQ(worker.blocked_on().tile, 7);
  EXPECT_EQ(worker.blocked_on().where.line, 11);
  memory.set(flags, 2, 2);
  EXPECT_EQ(worker.step(), Worker::State::blocked);
  memory.set(flags, 2, 3);
  EXPECT_EQ(worker.step(), Worker::State::running);  // the load
  EXPECT_EQ(memory.get(out, 0), 1);
  Worker moved = std::move(worker);
  EXPECT_EQ(moved.step(), Worker::State::running);  // the store
  EXPECT_EQ(memory.get(out, 0), 15);
  EXPECT_EQ(moved.step(), Worker::State::finished);
  EXPECT_EQ(moved.step(), Worker::State::finished);
  EXPECT_EQ(memory.waits.size(), 3U);
}

TEST(ConcreteWorker, ABlockedKernelCannotBeRunToItsEnd) {
  FakeMemory memory;
  const int flags = memory.add(Dtype::int64, 4);
  const int x = memory.add(Dtype::int32, 1);
  const Arguments arguments = {{"flags", memory.argument(flags)},
                               {"x", memory.argument(x)},
                               {"out", memory.argument(x)},
                               {"record", memory.argument(flags)}};
  EXPECT_THROW(run_to_end(lower_text(kWaiting), arguments, {0}, {1}, memory), InternalError);
}

TEST(ConcreteWorker, TakesSlotsAndIsBlockedWhileThereIsNone) {
  const std::string text = R"(
@triton.jit
def syncopate_take(claims, lookahead, rows, columns: tl.constexpr, count, waits, flags, epoch, record, time_limit):
    return tl.inline_asm_elementwise("...", "=r,l", [claims], dtype=tl.int32, is_pure=False, pack=1)

@triton.jit
def kernel(claims, tables, out, count):
    slot = syncopate_take(claims, 6, tables + 1, 3, count, tables, tables, 1, tables, time_limit=1000)
    while slot < count:
        tl.store(out + slot, 1)
        slot = syncopate_take(claims, 6, tables + 1, 3, count, tables, tables, 1, tables, time_limit=1000)
)";
  struct Takes : FakeMemory {
    std::optional<std::int64_t> take(const TakeRequest& request) override {
      seen = request;
      return std::exchange(next, std::nullopt);
    }
    TakeRequest seen;
    std::optional<std::int64_t> next;
  } memory;
  const int claims = memory.add(Dtype::int64, 5);
  const int tables = memory.add(Dtype::int64, 1);
  const int out = memory.add(Dtype::int32, 4);
  const Arguments arguments = {{"claims", memory.argument(claims)},
                               {"tables", memory.argument(tables)},
                               {"out", memory.argument(out)},
                               {"count", std::int64_t{4}}};
  Worker worker(lower_text(text), arguments, {0}, {1}, memory);
  EXPECT_EQ(worker.step(), Worker::State::blocked);
  EXPECT_THROW(worker.blocked_on(), InternalError) << "it waits for no flag";
  EXPECT_EQ(memory.seen.claims_buffer, claims);
  EXPECT_EQ(memory.seen.lookahead, 6);
  EXPECT_EQ(memory.seen.count, 4);
  EXPECT_EQ(memory.seen.where.line, 10);
  EXPECT_EQ(worker.step(), Worker::State::blocked);
  memory.next = 2;
  EXPECT_EQ(worker.step(), Worker::State::running);  // the store
  EXPECT_EQ(memory.get(out, 2), 1);
  EXPECT_EQ(worker.step(), Worker::State::blocked);
  memory.next = 4;
  EXPECT_EQ(worker.step(), Worker::State::finished);

  FakeMemory none;
  none.add(Dtype::int64, 5);
  none.add(Dtype::int64, 1);
  none.add(Dtype::int32, 4);
  EXPECT_THROW(run_to_end(lower_text(text), arguments, {0}, {1}, none), InternalError);
}

TEST(ConcreteWorker, ARaiseIsAStepOfItsOwn) {
  struct Raises : FakeMemory {
    void raise(int buffer, std::int64_t home, std::int64_t slot, const SourceLocation& where) override {
      seen.push_back({buffer, home, slot, where.line});
    }
    std::vector<std::array<std::int64_t, 4>> seen;
  } memory;
  const int out = memory.add(Dtype::int32, 4);
  const int peers = memory.add(Dtype::int64, 8);
  const auto program = lower_text(
      "@triton.jit\n"
      "def kernel(out, peers, n):\n"
      "    tl.store(out, 1)\n"
      "    syncopate_raise(peers + 1, n, 3 + syncopate_publish())\n"
      "    syncopate_raise(peers, slot=n * 2, home=2)\n");
  Worker worker(program, {{"out", memory.argument(out)}, {"peers", memory.argument(peers)}, {"n", std::int64_t{4}}},
                {0}, {1}, memory);
  EXPECT_EQ(worker.step(), Worker::State::running);
  EXPECT_EQ(memory.accesses.size(), 1U);
  EXPECT_TRUE(memory.seen.empty());
  EXPECT_EQ(worker.step(), Worker::State::running);
  EXPECT_EQ(memory.seen, (std::vector<std::array<std::int64_t, 4>>{{peers, 5, 3, 6}}));
  EXPECT_EQ(worker.step(), Worker::State::running);
  EXPECT_EQ(memory.seen.back(), (std::array<std::int64_t, 4>{peers, 2, 8, 7}));
  EXPECT_EQ(worker.step(), Worker::State::finished);
  EXPECT_EQ(memory.accesses.size(), 1U) << "the table of peers is not read";
}

TEST(ConcreteWorker, AnEnvironmentWithoutRaises) {
  FakeMemory memory;
  const int peers = memory.add(Dtype::int64, 8);
  EXPECT_THROW(run_text("@triton.jit\ndef kernel(peers):\n    syncopate_raise(peers, 0, 0)\n",
                        {{"peers", memory.argument(peers)}}, memory),
               InternalError);
}

TEST(ConcreteMemory, DistancesBetweenPointers) {
  FakeMemory memory;
  const int from = memory.add(Dtype::bf16, std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const int to = memory.add(Dtype::bf16, 10);
  const int out = memory.add(Dtype::int64, std::vector<double>(5, -1));
  run_text(
      "@triton.jit\n"
      "def kernel(a, b, out):\n"
      "    at = a + 3 + tl.arange(0, 4)\n"
      "    tl.store(out + tl.arange(0, 4), syncopate_elements(at, a + 1))\n"
      "    tl.store(out + 4, syncopate_elements(a, a + 2))\n"
      "    tl.store(syncopate_elsewhere(at, a, b) + 2, tl.load(at))\n",
      {{"a", memory.argument(from)}, {"b", memory.argument(to)}, {"out", memory.argument(out)}}, memory);
  EXPECT_EQ(memory.values(out), (std::vector<double>{2, 3, 4, 5, -2}));
  EXPECT_EQ(memory.values(to), (std::vector<double>{0, 0, 0, 0, 0, 3, 4, 5, 6, 0}));
}

TEST(ConcreteMemory, DistancesThatMeanNothing) {
  const auto error = [](const std::string& expression) {
    FakeMemory memory;
    const int a = memory.add(Dtype::bf16, 4);
    const int b = memory.add(Dtype::bf16, 4);
    const int wide = memory.add(Dtype::fp32, 4);
    try {
      run_text("@triton.jit\ndef kernel(a, b, wide):\n    x = " + expression + "\n",
               {{"a", memory.argument(a)}, {"b", memory.argument(b)}, {"wide", memory.argument(wide)}}, memory);
    } catch (const UserError& caught) {
      EXPECT_EQ(caught.where().line, 5);
      return caught.problem();
    }
    return std::string("no error");
  };
  EXPECT_EQ(error("syncopate_elements(a, b)"), "the distance between pointers into different tensors");
  EXPECT_EQ(error("syncopate_elements(3, b)"), "the distance of a Python integer from a scalar of pointers to bf16");
  EXPECT_EQ(error("syncopate_elsewhere(a, a, wide)"),
            "a scalar of pointers to fp32 in place of a scalar of pointers to bf16");
}

TEST(ConcreteWorker, TheGridHasThreeAxes) {
  FakeMemory memory;
  const int out = memory.add(Dtype::int32, 6);
  const auto program = lower_text(R"(
@triton.jit
def kernel(out):
    for axis in tl.static_range(3):
        tl.store(out + axis, tl.program_id(axis))
        tl.store(out + 3 + axis, tl.num_programs(axis))
)");
  run_to_end(program, {{"out", memory.argument(out)}}, {4, 5}, {8, 9}, memory);
  EXPECT_THAT(memory.values(out), ElementsAre(4, 5, 0, 8, 9, 1));
}

TEST(ConcreteWorker, DefaultsAndArguments) {
  FakeMemory memory;
  const int out = memory.add(Dtype::fp32, 3);
  const auto program = lower_text(R"(
@triton.jit
def kernel(out, scale, SIZE: tl.constexpr = 4, MODE: tl.constexpr = "plain", BIAS: tl.constexpr = -1.5):
    tl.store(out, SIZE * scale)
    if MODE == "plain":
        tl.store(out + 1, BIAS)
    if MODE is None:
        tl.store(out + 2, 1.0)
)");
  run_to_end(program, {{"out", memory.argument(out)}, {"scale", 0.25}}, {0}, {1}, memory);
  EXPECT_THAT(memory.values(out), ElementsAre(1, -1.5, 0));

  try {
    run_to_end(program, {{"out", memory.argument(out)}}, {0}, {1}, memory);
    FAIL() << "a missing argument was accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.where().line, 5);
    EXPECT_EQ(error.problem(), "no argument for the parameter 'scale' of 'kernel'");
  }
  try {
    run_to_end(program, {{"out", memory.argument(out)}, {"scale", 1.0}, {"SIZ", std::int64_t{1}}}, {0}, {1}, memory);
    FAIL() << "an unknown argument was accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.problem(), "'kernel' has no parameter 'SIZ'");
    EXPECT_THAT(error.remedy(), HasSubstr("'SIZE'"));
  }
}

}  // namespace
}  // namespace syncopate
