// Each operation of the concrete machine, its dtypes and roundings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernel/concrete_fixture.h"

namespace syncopate {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The elements of `expression` stored as `dtype`. The kernel around it has: i = 0..3, x = 1.5, -2, 0.25, 8 (fp32),
/// h = x in bf16, n = 7, -7, 12, 0 (int32), m = i < 2, one = a scalar int32 of 1, F: constexpr 2.
std::vector<double> compute(const std::string& expression, Dtype dtype, std::int64_t count = 4) {
  FakeMemory memory;
  const int x = memory.add(Dtype::fp32, std::vector<double>{1.5, -2, 0.25, 8});
  const int h = memory.add(Dtype::bf16, std::vector<double>{1.5, -2, 0.25, 8});
  const int n = memory.add(Dtype::int32, std::vector<double>{7, -7, 12, 0});
  const int out = memory.add(dtype, count);
  const std::string text = R"(
@triton.jit
def kernel(x_ptr, h_ptr, n_ptr, out, one, F: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, 4)
    x = tl.load(x_ptr + i)
    h = tl.load(h_ptr + i)
    n = tl.load(n_ptr + i)
    m = i < 2
    result = )" + expression +
                           R"(
    tl.store(out + tl.arange(0, COUNT), tl.reshape(tl.broadcast_to(result, [COUNT]), [COUNT]))
)";
  run_text(text,
           {{"x_ptr", memory.argument(x)},
            {"h_ptr", memory.argument(h)},
            {"n_ptr", memory.argument(n)},
            {"out", memory.argument(out)},
            {"one", std::int64_t{1}},
            {"F", std::int64_t{2}},
            {"COUNT", count}},
           memory);
  return memory.values(out);
}
std::vector<double> floats(const std::string& expression) { return compute(expression, Dtype::fp32); }
std::vector<double> integers(const std::string& expression) { return compute(expression, Dtype::int64); }
/// A scalar, computed in the dtype it has.
double scalar(const std::string& expression) { return compute(expression, Dtype::fp64, 1)[0]; }

TEST(ConcreteElements, FloatingArithmetic) {
  EXPECT_THAT(floats("x + 1"), ElementsAre(2.5, -1, 1.25, 9));
  EXPECT_THAT(floats("1 - x"), ElementsAre(-0.5, 3, 0.75, -7));
  EXPECT_THAT(floats("x * x"), ElementsAre(2.25, 4, 0.0625, 64));
  EXPECT_THAT(floats("x / 2"), ElementsAre(0.75, -1, 0.125, 4));
  EXPECT_THAT(floats("-x"), ElementsAre(-1.5, 2, -0.25, -8));
  EXPECT_THAT(floats("tl.abs(x)"), ElementsAre(1.5, 2, 0.25, 8));
  EXPECT_THAT(floats("abs(x)"), ElementsAre(1.5, 2, 0.25, 8));
  EXPECT_THAT(floats("x % 1.0"), ElementsAre(0.5, 0, 0.25, 0));
  EXPECT_THAT(floats("tl.minimum(x, 1.0)"), ElementsAre(1, -2, 0.25, 1));
  EXPECT_THAT(floats("tl.maximum(x, 1.0)"), ElementsAre(1.5, 1, 1, 8));
  EXPECT_THAT(floats("tl.fma(x, x, 1.0)"), ElementsAre(3.25, 5, 1.0625, 65));
  EXPECT_THAT(floats("tl.floor(x)"), ElementsAre(1, -2, 0, 8));
  EXPECT_THAT(floats("tl.ceil(x)"), ElementsAre(2, -2, 1, 8));
}

TEST(ConcreteElements, MathFunctions) {
  const std::vector<double> x = {1.5, -2, 0.25, 8};
  const auto expect_near = [&](const std::string& expression, double (*function)(double)) {
    const std::vector<double> found = floats(expression);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(found[i], function(std::abs(x[i])), 1e-6 * std::abs(function(std::abs(x[i])))) << expression;
  };
  expect_near("tl.exp(tl.abs(x))", [](double v) { return std::exp(v); });
  expect_near("tl.exp2(tl.abs(x))", [](double v) { return std::exp2(v); });
  expect_near("tl.math.log(tl.abs(x))", [](double v) { return std::log(v); });
  expect_near("tl.log2(tl.abs(x))", [](double v) { return std::log2(v); });
  expect_near("tl.sqrt(tl.abs(x))", [](double v) { return std::sqrt(v); });
  expect_near("tl.rsqrt(tl.abs(x))", [](double v) { return 1 / std::sqrt(v); });
  expect_near("tl.sigmoid(tl.abs(x))", [](double v) { return 1 / (1 + std::exp(-v)); });
  expect_near("tl.sin(tl.abs(x))", [](double v) { return std::sin(v); });
  expect_near("tl.cos(tl.abs(x))", [](double v) { return std::cos(v); });
}

TEST(ConcreteElements, IntegerArithmeticOfRunTimeValuesTruncates) {
  EXPECT_THAT(integers("n // 2"), ElementsAre(3, -3, 6, 0));
  EXPECT_THAT(integers("n % 4"), ElementsAre(3, -3, 0, 0));
  EXPECT_THAT(integers("tl.cdiv(n + 8, 4)"), ElementsAre(4, 1, 5, 2));
  EXPECT_THAT(integers("n & 5"), ElementsAre(5, 1, 4, 0));
  EXPECT_THAT(integers("n | 1"), ElementsAre(7, -7, 13, 1));
  EXPECT_THAT(integers("n ^ n"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(integers("n << 2"), ElementsAre(28, -28, 48, 0));
  EXPECT_THAT(integers("n >> 1"), ElementsAre(3, -4, 6, 0));
  EXPECT_THAT(integers("~n"), ElementsAre(-8, 6, -13, -1));
  EXPECT_THAT(integers("tl.minimum(n, i)"), ElementsAre(0, -7, 2, 0));
  EXPECT_EQ(scalar("(one - 8) // 2"), -3);
}

TEST(ConcreteElements, PythonIntegersDivideAsPythonDoes) {
  EXPECT_EQ(scalar("(F - 9) // 2"), -4);
  EXPECT_EQ(scalar("(F - 9) % 4"), 1);
  EXPECT_EQ(scalar("tl.cdiv(F - 9, 2)"), -3);
  EXPECT_EQ(scalar("F / 4"), 0.5);
  EXPECT_EQ(scalar("7.0 // F"), 3);
  EXPECT_EQ(scalar("min(F, 1, 5) + max(F, 3)"), 4);
}

TEST(ConcreteElements, IntegersWrapAtTheirWidth) {
  EXPECT_EQ(scalar("one * 65536 * 65536"), 0);
  EXPECT_EQ(scalar("one + 2147483647"), -2147483648.0);
  EXPECT_EQ(scalar("one.to(tl.int64) + 2147483647"), 2147483648.0);
  EXPECT_THAT(integers("(i + 126).to(tl.int8) + 1"), ElementsAre(127, -128, -127, -126));
  EXPECT_THAT(integers("i.to(tl.uint8) - 1"), ElementsAre(255, 0, 1, 2));
  EXPECT_THAT(integers("(i + 2147483646) + 1"), ElementsAre(2147483647, -2147483648.0, -2147483647, -2147483646));
}

TEST(ConcreteElements, UnsignedComparisonsAndDivision) {
  EXPECT_THAT(integers("((i.to(tl.uint64) - 1) > 5).to(tl.int32)"), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(integers("((i - 1).to(tl.uint32) > 5).to(tl.int32)"), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(integers("(i.to(tl.uint64) - 1) // 9223372036854775807"), ElementsAre(2, 0, 0, 0));
}

TEST(ConcreteElements, ComparisonsAndMasks) {
  EXPECT_THAT(integers("(x < 1.0).to(tl.int32)"), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(integers("(i <= 2).to(tl.int32)"), ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(integers("(2 < i).to(tl.int32)"), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(integers("(n >= 7).to(tl.int32)"), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(integers("(n == -7).to(tl.int32)"), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(integers("(n != -7).to(tl.int32)"), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(integers("(m & (i > 0)).to(tl.int32)"), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(integers("(m | (i > 2)).to(tl.int32)"), ElementsAre(1, 1, 0, 1));
  EXPECT_THAT(integers("(m ^ (i > 0)).to(tl.int32)"), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(integers("(~m).to(tl.int32)"), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(integers("(not m).to(tl.int32)"), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(integers("(m and i > 0).to(tl.int32)"), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(integers("(0 < i < 3).to(tl.int32)"), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(integers("m + m"), ElementsAre(2, 2, 0, 0));
}

TEST(ConcreteElements, Where) {
  EXPECT_THAT(floats("tl.where(m, x, 0.5)"), ElementsAre(1.5, -2, 0.5, 0.5));
  EXPECT_THAT(floats("tl.where(m, x, float('-inf'))"), ElementsAre(1.5, -2, -kInfinity, -kInfinity));
  EXPECT_THAT(integers("tl.where(i == 1, n, i)"), ElementsAre(0, -7, 2, 3));
  EXPECT_EQ(scalar("tl.where(one == 1, 3, 4)"), 3);
}

TEST(ConcreteElements, NaNIsLeftOutOfMinimumAndMaximum) {
  const std::string nan = "tl.where(m, x, float('inf') - float('inf'))";
  EXPECT_THAT(floats("tl.minimum(" + nan + ", 1.0)"), ElementsAre(1, -2, 1, 1));
  EXPECT_THAT(floats("tl.maximum(1.0, " + nan + ")"), ElementsAre(1.5, 1, 1, 1));
}

TEST(ConcreteElements, BrainFloatsRoundEveryResult) {
  // 257 needs nine bits: halfway between 256 and 258, to even.
  EXPECT_THAT(floats("h * 0 + 256 + 1"), ElementsAre(256, 256, 256, 256));
  EXPECT_THAT(floats("(h * 0 + 256) + (h * 0 + 3)"), ElementsAre(260, 260, 260, 260));
  // With fp32 the sum is fp32; "/" of bf16 is fp32.
  EXPECT_THAT(floats("(h * 0 + 256) + (x * 0 + 1)"), ElementsAre(257, 257, 257, 257));
  EXPECT_EQ(floats("h / 3")[0], 0.5);
  EXPECT_EQ(floats("(h * 0 + 1) / 3")[0], static_cast<double>(1.0F / 3.0F));
}

TEST(ConcreteElements, Conversions) {
  EXPECT_THAT(integers("(x * 1.5).to(tl.int32)"), ElementsAre(2, -3, 0, 12));
  EXPECT_THAT(integers("tl.cast(n, tl.int1).to(tl.int32)"), ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(floats("(i + 2049).to(tl.float16)"), ElementsAre(2048, 2050, 2052, 2052));
  EXPECT_THAT(floats("(x * 1000).to(tl.float8e4nv)"), ElementsAre(448, -448, 256, 448));
  EXPECT_THAT(floats("(x * 0.3).to(x_ptr.dtype.element_ty)"),
              ElementsAreArray({1.5F * 0.3F, -2 * 0.3F, 0.25F * 0.3F, 8 * 0.3F}));
  EXPECT_THAT(floats("(i + 257).to(h.dtype)"), ElementsAre(256, 258, 260, 260));
  EXPECT_EQ(scalar("x_ptr.dtype.element_ty == tl.float32"), 1);
  EXPECT_EQ(scalar("h_ptr.type.element_ty == tl.float32"), 0);
}

TEST(ConcreteElements, DividingIntegersByZeroIsAnError) {
  for (const char* expression : {"one // (one - 1)", "n % n", "F // (F - 2)"}) {
    try {
      scalar(expression);
      FAIL() << expression;
    } catch (const UserError& error) {
      EXPECT_EQ(error.problem(), "division by zero");
      EXPECT_EQ(error.where().line, 11);
      EXPECT_EQ(error.where().column, 14);
    }
  }
}

// ---- Blocks ----

TEST(ConcreteBlocks, NewBlocks) {
  EXPECT_THAT(floats("tl.zeros([4], dtype=tl.float32)"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(floats("tl.zeros((2, 2), tl.float32).reshape(4)"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(floats("tl.full((4,), 2.5, tl.float32)"), ElementsAre(2.5, 2.5, 2.5, 2.5));
  EXPECT_THAT(floats("tl.zeros_like(x) + 1"), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(integers("tl.arange(2, 6)"), ElementsAre(2, 3, 4, 5));
}

TEST(ConcreteBlocks, Broadcasting) {
  EXPECT_THAT(compute("tl.reshape(i[:, None] * 10 + i[None, :], [16])", Dtype::int32, 16),
              ElementsAre(0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33));
  EXPECT_THAT(compute("tl.broadcast_to(i[:, None], [4, 2]).reshape([8])", Dtype::int32, 8),
              ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(compute("(tl.expand_dims(i, 0) + tl.zeros([2, 4], tl.int32)).reshape(8)", Dtype::int32, 8),
              ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  // Three dimensions, each operand repeated along a different one.
  EXPECT_THAT(compute("(tl.arange(0, 2)[:, None, None] * 100 + tl.arange(0, 2)[None, :, None] * 10 + "
                      "tl.arange(0, 2)[None, None, :]).reshape(8)",
                      Dtype::int32, 8),
              ElementsAre(0, 1, 10, 11, 100, 101, 110, 111));
}

TEST(ConcreteBlocks, Transposing) {
  const std::string matrix = "tl.arange(0, 6).reshape(2, 3)";
  const std::vector<double> transposed = {0, 3, 1, 4, 2, 5};
  for (const std::string& form : {"tl.trans(" + matrix + ")", matrix + ".T", "tl.trans(" + matrix + ", 1, 0)",
                                  matrix + ".permute((1, 0))", "tl.permute(" + matrix + ", 1, 0)"})
    EXPECT_THAT(compute(form + ".reshape([6])", Dtype::int32, 6), ElementsAreArray(transposed)) << form;
  EXPECT_THAT(compute("tl.permute(tl.arange(0, 8).reshape(2, 2, 2), (2, 0, 1)).reshape(8)", Dtype::int32, 8),
              ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
}

TEST(ConcreteBlocks, JoinAndSplit) {
  EXPECT_THAT(compute("tl.join(i, i + 10).reshape(8)", Dtype::int32, 8), ElementsAre(0, 10, 1, 11, 2, 12, 3, 13));
  EXPECT_THAT(compute("tl.split(tl.arange(0, 8).reshape(4, 2))[1]", Dtype::int32), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(compute("tl.arange(0, 8).reshape(4, 2).split()[0]", Dtype::int32), ElementsAre(0, 2, 4, 6));
}

TEST(ConcreteBlocks, Reductions) {
  const std::string matrix = "tl.arange(0, 6).reshape(2, 3)";
  EXPECT_THAT(compute("tl.sum(" + matrix + ", axis=0)", Dtype::int32, 3), ElementsAre(3, 5, 7));
  EXPECT_THAT(compute("tl.sum(" + matrix + ", 1)", Dtype::int32, 2), ElementsAre(3, 12));
  EXPECT_THAT(compute("tl.max(" + matrix + ", axis=-1)", Dtype::int32, 2), ElementsAre(2, 5));
  EXPECT_THAT(compute(matrix + ".min(0)", Dtype::int32, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(compute("(" + matrix + " - tl.sum(" + matrix + ", 1, keep_dims=True)).reshape(6)", Dtype::int32, 6),
              ElementsAre(-3, -2, -1, -9, -8, -7));
  EXPECT_EQ(scalar("tl.sum(" + matrix + ")"), 15);
  EXPECT_EQ(scalar("tl.max(x, 0)"), 8);
  EXPECT_EQ(scalar("tl.min(x, axis=0)"), -2);
  // bf16 is summed in fp32: 256 + 1 + 1 would stay 256 in bf16.
  EXPECT_EQ(scalar("tl.sum(tl.where(i == 0, h * 0 + 256, h * 0 + 1), 0)"), 259);
  EXPECT_EQ(scalar("tl.sum(m.to(tl.int8) * 100, 0)"), 200);
}

TEST(ConcreteBlocks, SumsAreInAscendingOrder) {
  // 2^24 + 1 + 1 + 1 in fp32: each 1 is lost, so the order shows.
  EXPECT_EQ(scalar("tl.sum(tl.where(i == 0, x * 0 + 16777216, x * 0 + 1), 0)"), 16777216);
  EXPECT_EQ(scalar("tl.sum(tl.where(i == 3, x * 0 + 16777216, x * 0 + 1), 0)"), 16777220);
}

TEST(ConcreteBlocks, Extents) {
  EXPECT_EQ(scalar("tl.zeros([2, 8], tl.float32).shape[1]"), 8);
  EXPECT_EQ(scalar("tl.make_tensor_descriptor(x_ptr, [3, one], [4, 1], [2, 8]).shape[-2]"), 3);
  EXPECT_EQ(scalar("tl.make_tensor_descriptor(x_ptr, [3, one], [4, 1], [2, 8]).block_shape[1]"), 8);
}

TEST(ConcreteBlocks, Dot) {
  const std::string a = "tl.arange(0, 6).reshape(2, 3).to(tl.float32)";
  const std::string b = "tl.arange(0, 6).reshape(3, 2).to(tl.float32)";
  EXPECT_THAT(compute("tl.dot(" + a + ", " + b + ").reshape(4)", Dtype::fp32), ElementsAre(10, 13, 28, 40));
  EXPECT_THAT(compute("tl.dot(" + a + ", " + b + ", acc=x.reshape(2, 2), allow_tf32=False).reshape(4)", Dtype::fp32),
              ElementsAre(11.5, 11, 28.25, 48));
  EXPECT_THAT(compute("tl.dot(" + a + ", " + b + ", out_dtype=tl.float16).reshape(4)", Dtype::fp32),
              ElementsAre(10, 13, 28, 40));
  EXPECT_THAT(compute("tl.dot(" + a + ".to(tl.float64), " + b + ".to(tl.float64)).reshape(4)", Dtype::fp64),
              ElementsAre(10, 13, 28, 40));
  EXPECT_THAT(compute("tl.dot(" + a + ".to(tl.int8), " + b + ".to(tl.int8)).reshape(4)", Dtype::int32),
              ElementsAre(10, 13, 28, 40));
  EXPECT_THAT(compute("tl.dot(tl.arange(0, 4).reshape(2, 1, 2).to(tl.float32), tl.arange(0, 4).reshape(2, 2, 1)"
                      ".to(tl.float32)).reshape(2)",
                      Dtype::fp32, 2),
              ElementsAre(1, 13));
}

TEST(ConcreteBlocks, AnAccumulatorThatIsStillUsedIsNotOverwritten) {
  FakeMemory memory;
  const int out = memory.add(Dtype::fp32, 12);
  run_text(R"(
@triton.jit
def kernel(out):
    i = tl.arange(0, 4)
    ones = tl.full([2, 2], 1.0, tl.float32)
    first = tl.zeros([2, 2], tl.float32)
    kept = first
    first = tl.dot(ones, ones, first)
    second = tl.dot(ones, ones, first)
    tl.store(out + i, kept.reshape(4))
    tl.store(out + 4 + i, first.reshape(4))
    tl.store(out + 8 + i, second.reshape(4))
)",
           {{"out", memory.argument(out)}}, memory);
  EXPECT_THAT(memory.values(out), ElementsAre(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4));
}

// ---- Misuse ----

void expect_misuse(const std::string& expression, const std::string& problem) {
  try {
    floats(expression);
    FAIL() << expression;
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr(problem)) << expression;
    EXPECT_EQ(error.where().line, 11) << expression;
    EXPECT_EQ(error.where().file, "kernel.py");
  }
}

TEST(ConcreteMisuse, SaysWhatWasGivenAndWhere) {
  expect_misuse("x + tl.arange(0, 3)", "blocks [4] and [3] do not broadcast");
  expect_misuse("x & x", "bitwise");
  expect_misuse("tl.exp(n)", "a floating function of a block of int32 [4]");
  expect_misuse("tl.load(x)", "tl.load of a block of fp32 [4]");
  expect_misuse("x_ptr * 2", "an operation that pointers do not have");
  expect_misuse("tl.reshape(x, [3])", "reshape of [4] to [3]");
  expect_misuse("tl.permute(x, [1])", "(1) does not order the dimensions of [4]");
  expect_misuse("tl.sum(x, 1)", "along dimension 1");
  expect_misuse("tl.dot(x, x)", "tl.dot of a block of fp32 [4] and a block of fp32 [4]");
  expect_misuse("tl.dot(x.reshape(2, 2), h.reshape(2, 2))", "tl.dot of a block of fp32 [2, 2] and a block of bf16");
  expect_misuse("tl.dot(x.reshape(2, 2), x.reshape(2, 2), x)", "tl.dot adds [2, 2] to a block of fp32 [4]");
  expect_misuse("tl.zeros([one - 1], tl.float32)", "an extent of 0");
  expect_misuse("tl.zeros([one * 1048576, 2], tl.float32)", "a block of 1048576 x 2 elements");
  expect_misuse("tl.arange(4, 4)", "is empty");
  expect_misuse("tl.arange(0, 1048577)", "tl.arange(0, 1048577)");
  expect_misuse("tl.program_id(3)", "axis 3 of the grid");
  expect_misuse("x if m else x", "a branch on a block of bool [4]");
  expect_misuse("tl.make_tensor_descriptor(x_ptr, [2, 2], [1, 2], [2, 16]).load([0, 0])", "last stride is 2");
  expect_misuse("tl.make_tensor_descriptor(x_ptr, [4], [1], [2]).load([0])",
                "a descriptor's block of 2 fp32 elements in the last dimension");
  expect_misuse("tl.make_tensor_descriptor(x_ptr, [2, 2], [2, 1], [1, 4]).load([0, 0])",
                "a descriptor with a stride of 2 fp32 elements");
  expect_misuse("tl.make_tensor_descriptor(x_ptr + 1, [3], [1], [4]).load([0])",
                "a descriptor that begins 1 fp32 elements into its tensor");
  expect_misuse("tl.make_tensor_descriptor(x_ptr, [4], [1], [4]).load([0, 0])", "2 offsets for a descriptor of 1");
  expect_misuse("x.load([0])", ".load of a block of fp32 [4]");
  expect_misuse("x.to(one)", "the target of a conversion is a scalar of int32");
  expect_misuse("tl.split(x)[0]", "split of a block [4]");
}

}  // namespace
}  // namespace syncopate
