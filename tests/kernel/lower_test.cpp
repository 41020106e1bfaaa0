// Control flow, names, tuples and helpers, seen through what the lowered kernel computes; and what lowering refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/kernel/program_internal.h"
#include "tests/kernel/concrete_fixture.h"

namespace syncopate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The first `count` int32 that a kernel(out, n) stores.
std::vector<double> run_with(const std::string& text, std::int64_t n, std::int64_t count) {
  FakeMemory memory;
  const int out = memory.add(Dtype::int32, std::vector<double>(static_cast<std::size_t>(count), -1.0));
  run_text(text, {{"out", memory.argument(out)}, {"n", n}}, memory);
  return memory.values(out);
}

/// The single value of a body that assigns `r`.
double result_of(const std::string& body, std::int64_t n = 5) {
  std::string text = "@triton.jit\ndef kernel(out, n):\n";
  std::size_t begin = 0;
  while (begin < body.size()) {
    const std::size_t end = body.find('\n', begin);
    text += "    " + body.substr(begin, end - begin) + "\n";
    begin = end == std::string::npos ? body.size() : end + 1;
  }
  return run_with(text + "    tl.store(out, r)\n", n, 1)[0];
}

TEST(LowerExpression, StridesAndBitWidths) {
  const std::string make = "x = tl.make_tensor_descriptor(out, [n, n + 1], [n + 3, 1], [4, 8])\n";
  EXPECT_EQ(result_of(make + "r = x.strides[0] * 100 + x.strides[-1]\n"), 801);
  EXPECT_EQ(result_of(make + "r = x.shape[1] * 100 + x.block_shape[1]\n"), 608);
  EXPECT_EQ(result_of(make + "r = x.dtype.primitive_bitwidth\n"), 32);
  EXPECT_EQ(
      result_of("r = out.dtype.element_ty.primitive_bitwidth + tl.zeros((1,), tl.bfloat16).dtype.primitive_bitwidth\n"),
      48);
}

TEST(LowerControl, Branches) {
  const std::string body = "if n < 0:\n  r = 1\nelif n == 0:\n  r = 2\nelse:\n  r = 3\n";
  EXPECT_EQ(result_of(body, -4), 1);
  EXPECT_EQ(result_of(body, 0), 2);
  EXPECT_EQ(result_of(body, 4), 3);
  EXPECT_EQ(result_of("r = 7\nif n > 100:\n  r = 8\n"), 7);
}

TEST(LowerControl, Loops) {
  EXPECT_EQ(result_of("r = 0\nfor i in range(n):\n  r += i"), 10);
  EXPECT_EQ(result_of("r = 0\nfor i in range(2, n):\n  r = r * 10 + i"), 234);
  EXPECT_EQ(result_of("r = 0\nfor i in tl.range(n, 0, -2, num_stages=3):\n  r = r * 10 + i"), 531);
  EXPECT_EQ(result_of("r = 0\nfor i in tl.static_range(3):\n  r = r * 10 + i"), 12);
  EXPECT_EQ(result_of("r = 9\nfor i in range(0):\n  r = 1"), 9);
  EXPECT_EQ(result_of("r = 0\nwhile r * r < n * 10:\n  r += 1"), 8);
}

TEST(LowerControl, BreakAndContinue) {
  EXPECT_EQ(result_of("r = 0\nfor i in range(100):\n  if i == n:\n    break\n  if i % 2 == 0:\n    continue\n  r += i"),
            1 + 3);
  EXPECT_EQ(
      result_of("r = 0\nk = 0\nwhile True:\n  k += 1\n  if k > n:\n    break\n  if k == 2:\n    continue\n  r += k"),
      1 + 3 + 4 + 5);
  EXPECT_EQ(result_of("r = 0\nfor i in range(3):\n  for j in range(3):\n    if j > i:\n      break\n    r += 1"), 6);
}

TEST(LowerControl, BoundsAreEvaluatedOnce) {
  EXPECT_EQ(result_of("r = 0\nfor i in range(n):\n  n = 1\n  r += 1"), 5);
  EXPECT_EQ(result_of("r = 0\nfor i in range(3):\n  i = 10\n  r += 1"), 3);
}

TEST(LowerControl, ConditionalsAndLogic) {
  EXPECT_EQ(result_of("r = 1 if n > 3 else 2"), 1);
  EXPECT_EQ(result_of("r = 1 if n > 7 else 2"), 2);
  EXPECT_EQ(result_of("r = 0\nif n > 3 and n < 6:\n  r = 1"), 1);
  EXPECT_EQ(result_of("r = 0\nif n > 7 or not n == 5:\n  r = 1"), 0);
  EXPECT_EQ(result_of("r = 0\nif 3 < n <= 5:\n  r = 1"), 1);
  // The right side is not evaluated when the left decides.
  EXPECT_EQ(result_of("r = 0\nif n == 0 and 1 // (n - 5) > 0:\n  r = 1"), 0);
  EXPECT_EQ(result_of("r = 0\nif n == 5 or 1 // (n - 5) > 0:\n  r = 1"), 1);
  EXPECT_EQ(result_of("x = None\nr = 0\nif x is not None and x > 3:\n  r = 1"), 0);
}

TEST(LowerControl, ReturnLeavesTheKernel) {
  const std::string text = R"(
@triton.jit
def kernel(out, n):
    tl.store(out, 1)
    if n > 3:
        return
    tl.store(out, 2)
)";
  EXPECT_THAT(run_with(text, 5, 1), ElementsAre(1));
  EXPECT_THAT(run_with(text, 1, 1), ElementsAre(2));
}

TEST(LowerNames, Tuples) {
  EXPECT_EQ(result_of("a, b = 3, 4\na, b = b, a\nr = a * 10 + b"), 43);
  EXPECT_EQ(result_of("t = (n, 2)\na, b = t\nr = a * 10 + b + t[-1] * 100"), 252);
  EXPECT_EQ(result_of("a = b = n\na += 1\nr = a * 10 + b"), 65);
  EXPECT_EQ(result_of("(a, b), c = (1, 2), 3\nr = a * 100 + b * 10 + c"), 123);
  EXPECT_EQ(result_of("t = (1, 2)\nt = (t[1], t[0])\nr = t[0] * 10 + t[1]"), 21);
}

TEST(LowerNames, ModuleConstantsAndAliases) {
  EXPECT_THAT(run_with(R"(
WIDTH = tl.constexpr(4)
HALF = WIDTH // 2
@triton.jit
def kernel(out, n):
    tl.store(out, WIDTH * 10 + HALF)
)",
                       0, 1),
              ElementsAre(42));
  const auto module = parse_module(std::make_shared<SourceFile>(
      "k.py",
      "import triton\nfrom triton import language as tlang\n@triton.jit\ndef kernel(out):\n    tlang.store(out, "
      "triton.cdiv(7, 2))\n"));
  FakeMemory memory;
  const int out = memory.add(Dtype::int32, 1);
  run_to_end(lower(module, *module->find("kernel")), {{"out", memory.argument(out)}}, {0}, {1}, memory);
  EXPECT_THAT(memory.values(out), ElementsAre(4));
}

TEST(LowerHelpers, AreInlinedWithTheirOwnNames) {
  EXPECT_THAT(run_with(R"(
@triton.jit
def divide(a, b=3, SCALE: tl.constexpr = 2):
    q = a // b
    a -= q * b
    return q * SCALE, a

@triton.jit
def twice(x):
    return x + x

@triton.jit
def kernel(out, n):
    q = 100
    a = n
    x, y = divide(a)
    z, w = divide(b=2, a=a, SCALE=1)
    a, q = divide(twice(a), 4)
    tl.store(out + 0, x)
    tl.store(out + 1, y)
    tl.store(out + 2, z)
    tl.store(out + 3, w)
    tl.store(out + 4, a)
    tl.store(out + 5, q)
    tl.store(out + 6, n)
)",
                       5, 7),
              ElementsAre(2, 2, 2, 1, 4, 2, 5));
}

TEST(LowerHelpers, ReturnFromBothArmsAndFromALoop) {
  const std::string text = R"(
@triton.jit
def choose(n):
    if n < 3:
        return n + 10, 0
    else:
        for i in range(100):
            if i * i >= n:
                return i, 1
    return -1, 2

@triton.jit
def nothing(out):
    tl.store(out + 2, 9)

@triton.jit
def kernel(out, n):
    a, b = choose(n)
    tl.store(out, a)
    tl.store(out + 1, b)
    nothing(out)
)";
  EXPECT_THAT(run_with(text, 2, 3), ElementsAre(12, 0, 9));
  EXPECT_THAT(run_with(text, 10, 3), ElementsAre(4, 1, 9));
  EXPECT_THAT(run_with(text, 100000, 3), ElementsAre(-1, 2, 9));
}

TEST(LowerHelpers, SwappedArgumentsDoNotOverwriteEachOther) {
  EXPECT_THAT(run_with(R"(
@triton.jit
def swap(a, b):
    return b, a

@triton.jit
def kernel(out, n):
    x = 1
    y = 2
    x, y = swap(x, y)
    tl.store(out, x * 10 + y)
)",
                       0, 1),
              ElementsAre(21));
}

TEST(LowerHints, AreIgnored) {
  EXPECT_EQ(result_of("tl.static_assert(n > 0, 'positive')\ntl.assume(n > 0)\ntl.debug_barrier()\n"
                      "tl.device_print('n', n)\nr = tl.max_contiguous(tl.multiple_of(n, 8), 8)"),
            5);
}

TEST(LowerProbe, ComesAfterTheStatementAndSeesTheIndexVariables) {
  const auto module = parse_module(std::make_shared<SourceFile>(
      "k.py",
      "import triton.language as tl\n@triton.jit\ndef kernel(out, n):\n    a = n\n    b = n\n    tl.store(out, a)\n"));
  const Function& function = *module->find("kernel");
  const auto program = lower(module, function, {"b", "a"}, function.body[1].get());
  EXPECT_EQ(program->index_variables, (std::vector<std::string>{"b", "a"}));
  std::size_t probes = 0;
  for (const Instruction& instruction : program->instructions) {
    if (instruction.opcode != Opcode::probe) continue;
    ++probes;
    EXPECT_EQ(program->operands_of(instruction).size(), 2U);
    EXPECT_NE(program->operands_of(instruction)[0], program->operands_of(instruction)[1]);
    EXPECT_EQ(program->locate(instruction).line, 5);
  }
  EXPECT_EQ(probes, 1U);
  EXPECT_THAT(program->to_string(), HasSubstr("probe %"));
}

// ---- What is refused ----

void expect_refused(const std::string& statement, const std::string& problem, const std::string& remedy = "",
                    int column = 0) {
  try {
    lower_text(
        "@triton.jit\ndef helper(a):\n    return a, a\n@triton.jit\ndef again(a):\n    return again(a)\n"
        "@triton.jit\ndef kernel(p, n):\n    x = tl.arange(0, 4)\n    " +
        statement + "\n");
    FAIL() << statement;
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr(problem)) << statement;
    EXPECT_THAT(error.remedy(), HasSubstr(remedy)) << statement;
    EXPECT_EQ(error.where().file, "kernel.py");
    if (column != 0) {
      EXPECT_EQ(error.where().line, 12) << statement;
      EXPECT_EQ(error.where().column, column) << statement;
    }
  }
}

TEST(LowerRefuses, WithThePlaceAndWhatIsSupported) {
  expect_refused("y = tl.frobnicate(x)", "tl.frobnicate is not supported", "tl.load", 9);
  expect_refused("y = tl.histogram(x, 4)", "tl.histogram is not supported", "compare with tl.arange", 9);
  expect_refused("y = tl.make_block_ptr(p, [4], [1], [0], [4])", "tl.make_block_ptr without 'order'", "", 9);
  expect_refused("y = tl.sort(x, 0)", "tl.sort with a dimension is not supported", "leave it out", 9);
  expect_refused("y = tl.reduce(x, 0, n)", "is not a function of this file", "a @triton.jit function", 9);
  expect_refused("y = tl.reduce(x, 0, helper)", "'helper' takes 1 argument, 2 are given", "", 9);
  expect_refused("y = helper + 1", "the function 'helper' where a value is needed", "call it", 9);
  expect_refused("y = n(1)", "'n' is a value, not a function", "a @triton.jit function", 9);
  expect_refused("y = (n, n)[0:1]", "a slice of a tuple is not supported", "write the items out", 16);
  expect_refused("for i in range(0, n, step=2):\n        pass", "the argument 'step' of range", "tl.range does", 31);
  expect_refused("for i in tl.range(0, n, 1, step=2):\n        pass", "'step' is given twice", "", 37);
  expect_refused("for i in tl.range():\n        pass", "tl.range takes one, two or three numbers", "", 14);
  expect_refused("y = tl.load()", "tl.load without 'pointer'", "", 9);
  expect_refused("y = tl.cdiv(1, 2, 3)", "tl.cdiv is given 3 arguments", "(x, div)", 23);
  expect_refused("y = tl.cdiv(1, x=2)", "'x' is given twice", "", 22);
  expect_refused("y = z + 1", "'z' has no value here", "x", 9);
  expect_refused("y = helpr(n)", "'helpr' is not a function of this file", "helper", 9);
  expect_refused("y = helper(n, n)", "'helper' takes 1 argument, 2 are given", "", 9);
  expect_refused("y = helper()", "without its parameter 'a'", "", 9);
  expect_refused("y = helper(b=n)", "'helper' has no parameter 'b'", "", 18);
  expect_refused("y = helper(n) + 1", "a tuple where a single value is needed", "", 9);
  expect_refused("a, b, c = helper(n)", "3 names for 2 values", "", 5);
  expect_refused("a, b = n", "2 names for one value", "", 5);
  expect_refused("x = (n, n)", "'x' is a tuple of 2 here and a single value before", "", 5);
  expect_refused("y = again(n)", "'again' calls itself", "recursion", 0);
  expect_refused("y = x[0]", "a block takes only ':' and None", "", 11);
  expect_refused("y = x @ x", "the operator '@' is not supported", "", 9);
  expect_refused("y = x.frobnicate(1)", "the method '.frobnicate' is not supported", ".to", 9);
  expect_refused("y = p.atomic_add([0, n], x)", "'.atomic_add' of a tensor descriptor is not supported",
                 "tl.atomic_add takes pointers", 9);
  expect_refused("y = x.imaginary", "the attribute '.imaginary' is not supported", ".dtype", 9);
  expect_refused("y = tl.pi", "tl.pi is not supported as a value", "dtypes", 9);
  expect_refused("for i in x:\n        pass", "not a range", "tl.range", 14);
  expect_refused("y = float('1.0')", "float() of this is not supported", "inf", 9);
  expect_refused("y = (n, n)[2]", "subscript 2 of a tuple of 2", "", 16);
  expect_refused("y = tl.make_tensor_descriptor(p, [4, 4], [1], [4, 4])", "are not lists of one length", "", 9);
  expect_refused("break", "break or continue outside a loop", "", 5);
}

}  // namespace
}  // namespace syncopate
