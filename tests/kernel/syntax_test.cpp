#include "syncopate/kernel/syntax.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace syncopate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<const Module> parse(const std::string& text) {
  return parse_module(std::make_shared<const SourceFile>("k.py", text));
}

/// A kernel with this body, indented by four spaces; its first line is line 3.
std::string kernel_text(const std::string& body) {
  std::string text = "@triton.jit\ndef kernel(a, b, N: tl.constexpr):\n";
  std::size_t begin = 0;
  while (begin <= body.size()) {
    const std::size_t end = std::min(body.find('\n', begin), body.size());
    text += "    " + body.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return text;
}

std::string show(const Expression& e);
std::string show_all(const std::vector<std::unique_ptr<Expression>>& expressions) {
  std::string text;
  for (const auto& each : expressions) text += " " + show(*each);
  return text;
}

/// An expression as nested lists: every operator before its operands.
std::string show(const Expression& e) {
  switch (e.kind) {
    case ExpressionKind::name:
      return e.text;
    case ExpressionKind::integer:
      return std::to_string(e.integer);
    case ExpressionKind::floating:
      return fmt::format("{}f", e.number);
    case ExpressionKind::string:
      return "'" + e.text + "'";
    case ExpressionKind::boolean:
      return e.integer != 0 ? "True" : "False";
    case ExpressionKind::none:
      return "None";
    case ExpressionKind::tuple:
      return "(tuple" + show_all(e.children) + ")";
    case ExpressionKind::attribute:
      return show(*e.children[0]) + "." + e.text;
    case ExpressionKind::call: {
      std::string text = "(call" + show_all(e.children);
      for (const Keyword& keyword : e.keywords) text += fmt::format(" {}={}", keyword.name, show(*keyword.value));
      return text + ")";
    }
    case ExpressionKind::subscript:
      return "(at" + show_all(e.children) + ")";
    case ExpressionKind::slice:
      return "(slice" + show_all(e.children) + ")";
    case ExpressionKind::conditional:
      return "(if" + show_all(e.children) + ")";
    default:
      return "(" + e.text + show_all(e.children) + ")";
  }
}

std::string expression(const std::string& text) {
  const auto module = parse(kernel_text("x = " + text));
  return show(*module->functions.at(0)->body.at(0)->value);
}

std::vector<std::string> show(const Module& module, const std::vector<std::unique_ptr<Statement>>& body) {
  std::vector<std::string> lines;
  for (const auto& statement : body) lines.emplace_back(module.source->slice(statement->range));
  return lines;
}

/// The error of parsing a kernel with this body.
UserError failure(const std::string& body) {
  try {
    parse(kernel_text(body));
  } catch (const UserError& error) {
    return error;
  }
  ADD_FAILURE() << "no error for: " << body;
  return {{}, ""};
}

void expect_failure(const std::string& body, int line, int column, const std::string& problem,
                    const std::string& remedy) {
  SCOPED_TRACE(body);
  const UserError error = failure(body);
  EXPECT_EQ(error.where(), (SourceLocation{"k.py", line, column}));
  EXPECT_THAT(error.problem(), HasSubstr(problem));
  EXPECT_THAT(error.remedy(), HasSubstr(remedy));
}

TEST(SyntaxExpression, numbers) {
  EXPECT_EQ(expression("1_000"), "1000");
  EXPECT_EQ(expression("0xFF"), "255");
  EXPECT_EQ(expression("0X7fff_ffff_ffff_ffff"), "9223372036854775807");
  EXPECT_EQ(expression("0b101"), "5");
  EXPECT_EQ(expression("0o17"), "15");
  EXPECT_EQ(expression("0"), "0");
  EXPECT_EQ(expression("1.5e-3"), "0.0015f");
  EXPECT_EQ(expression("1e3"), "1000f");
  EXPECT_EQ(expression("2."), "2f");
  EXPECT_EQ(expression(".5"), "0.5f");
  EXPECT_EQ(expression("1_0.2_5"), "10.25f");
  EXPECT_EQ(expression("1e999"), "inff");
  EXPECT_EQ(expression("-3"), "(- 3)");
}

TEST(SyntaxExpression, strings) {
  EXPECT_EQ(expression("\"ieee\""), "'ieee'");
  EXPECT_EQ(expression("'a' \"b\" 'c'"), "'abc'");
  EXPECT_EQ(expression("'tab\\tquote\\'end'"), "'tab\tquote'end'");
  EXPECT_EQ(expression("r'raw\\t'"), "'raw\\t'");
  EXPECT_EQ(expression("'\\x41\\u00e9\\101\\q'"),
            "'A\xC3\xA9"
            "A\\q'");
  EXPECT_EQ(expression("''"), "''");
  EXPECT_EQ(expression("\"\"\"two\nlines\"\"\""), "'two\n    lines'");
}

TEST(SyntaxExpression, operators_bind_as_in_python) {
  EXPECT_EQ(expression("a + b * 2 ** 3"), "(+ a (* b (** 2 3)))");
  EXPECT_EQ(expression("(a + b) * 2"), "(* (+ a b) 2)");
  EXPECT_EQ(expression("a // b % 2"), "(% (// a b) 2)");
  EXPECT_EQ(expression("-a << 1 | b & 3 ^ ~a"), "(| (<< (- a) 1) (^ (& b 3) (~ a)))");
  EXPECT_EQ(expression("a ^ b & 3 & N ^ 1"), "(^ (^ a (& (& b 3) N)) 1)");
  EXPECT_EQ(expression("(a ^ b) & 3"), "(& (^ a b) 3)");
  EXPECT_EQ(expression("a @ b"), "(@ a b)");
  EXPECT_EQ(expression("not a or b and a"), "(or (not a) (and b a))");
  EXPECT_EQ(expression("a if b > 0 else N"), "(if a (> b 0) N)");
}

TEST(SyntaxExpression, comparisons_and_chains) {
  EXPECT_EQ(expression("a < b"), "(< a b)");
  EXPECT_EQ(expression("0 <= a < b"), "(and (<= 0 a) (< a b))");
  EXPECT_EQ(expression("0 <= a < b != N"), "(and (and (<= 0 a) (< a b)) (!= b N))");
  EXPECT_EQ(expression("a is None"), "(is a None)");
  EXPECT_EQ(expression("a is not None"), "(is not a None)");
  EXPECT_EQ(expression("a in (1, 2)"), "(in a (tuple 1 2))");
  EXPECT_EQ(expression("a not in (1, 2)"), "(not (in a (tuple 1 2)))");
}

TEST(SyntaxExpression, calls_subscripts_and_tuples) {
  EXPECT_EQ(expression("tl.load(a + b, mask=b < N, other=0.0)"), "(call tl.load (+ a b) mask=(< b N) other=0f)");
  EXPECT_EQ(expression("a.to(tl.float32).sum()"), "(call (call a.to tl.float32).sum)");
  EXPECT_EQ(expression("a[:, None]"), "(at a (slice None None None) None)");
  EXPECT_EQ(expression("a[None, :, 1:N:2]"), "(at a None (slice None None None) (slice 1 N 2))");
  EXPECT_EQ(expression("a[::2]"), "(at a (slice None None 2))");
  EXPECT_EQ(expression("a[b[0]]"), "(at a (at b 0))");
  EXPECT_EQ(expression("[a, N]"), "(tuple a N)");
  EXPECT_EQ(expression("(a,)"), "(tuple a)");
  EXPECT_EQ(expression("a, b"), "(tuple a b)");
  EXPECT_EQ(expression("()"), "(tuple)");
  EXPECT_EQ(expression("True and not False"), "(and True (not False))");
}

TEST(SyntaxExpression, dotted_names) {
  const auto module = parse(kernel_text("x = triton.language.load(a)\ny = a[0].b"));
  const auto& body = module->functions[0]->body;
  EXPECT_EQ(body[0]->value->children[0]->dotted_name(), "triton.language.load");
  EXPECT_EQ(body[1]->value->dotted_name(), "");
}

TEST(SyntaxExpression, ranges_hold_the_bytes_of_the_source) {
  const auto module = parse(kernel_text("x = (a +\n     b)  # sum\ny = a.to(  tl.int64 )"));
  const auto& body = module->functions[0]->body;
  EXPECT_EQ(module->source->slice(body[0]->value->range), "(a +\n         b)");
  EXPECT_EQ(module->source->slice(body[0]->range), "x = (a +\n         b)");
  EXPECT_EQ(module->source->slice(body[1]->value->children[0]->range), "a.to");
}

TEST(SyntaxExpression, comments_and_continued_lines_may_stand_anywhere) {
  EXPECT_EQ(expression("a + \\\n  b"), "(+ a b)");
  EXPECT_EQ(expression("(a  # first\n  + b)"), "(+ a b)");
  EXPECT_EQ(expression("f(a,  # first\n  # second\n  b=1)"), "(call f a b=1)");
  EXPECT_EQ(expression("a[0,  # row\n  1]"), "(at a 0 1)");
  EXPECT_EQ(expression("(a  # low\n  < b  # high\n  < N)"), "(and (< a b) (< b N))");
}

TEST(SyntaxStatement, assignments) {
  const auto module = parse(kernel_text("x = y = a\nu, v = a, b\nn: tl.constexpr = 3\nx += 1\nx //= 2\nx <<= 1"));
  const auto& body = module->functions[0]->body;
  ASSERT_EQ(body.size(), 6u);
  EXPECT_EQ(show_all(body[0]->targets) + " =" + show(*body[0]->value), " x y =a");
  EXPECT_EQ(show_all(body[1]->targets), " (tuple u v)");
  EXPECT_EQ(body[2]->kind, StatementKind::assign);
  EXPECT_EQ(show_all(body[2]->targets) + show(*body[2]->value), " n3");
  EXPECT_EQ(body[3]->kind, StatementKind::augmented_assign);
  EXPECT_EQ(body[3]->text, "+");
  EXPECT_EQ(body[4]->text, "//");
  EXPECT_EQ(body[5]->text, "<<");
}

TEST(SyntaxStatement, if_elif_else) {
  const auto module =
      parse(kernel_text("if a > 0:  # up\n    x = 1\nelif a < 0:\n    x = 2\nelse:\n    x = 3\n    y = 4"));
  const Statement& outer = *module->functions[0]->body.at(0);
  EXPECT_EQ(module->source->slice(outer.header), "if a > 0:");
  EXPECT_THAT(show(*module, outer.body), ElementsAre("x = 1"));
  ASSERT_EQ(outer.orelse.size(), 1u);
  const Statement& inner = *outer.orelse[0];
  EXPECT_EQ(inner.kind, StatementKind::if_);
  EXPECT_EQ(module->source->slice(inner.header), "elif a < 0:");
  EXPECT_EQ(inner.range.end, outer.range.end);
  EXPECT_THAT(show(*module, inner.body), ElementsAre("x = 2"));
  EXPECT_THAT(show(*module, inner.orelse), ElementsAre("x = 3", "y = 4"));
}

TEST(SyntaxStatement, comments_between_branches) {
  const auto module = parse(kernel_text(
      "if a:  # first\n    x = 1\n# second\nelif b:  # third\n    x = 2\n# fourth\nelse:  # fifth\n    x = 3"));
  const Statement& outer = *module->functions[0]->body.at(0);
  const Statement& inner = *outer.orelse.at(0);
  EXPECT_THAT(show(*module, outer.body), ElementsAre("x = 1"));
  EXPECT_THAT(show(*module, inner.body), ElementsAre("x = 2"));
  EXPECT_THAT(show(*module, inner.orelse), ElementsAre("x = 3"));
}

TEST(SyntaxStatement, loops) {
  const auto module = parse(kernel_text(
      "for k in tl.range(0, N, num_stages=3):\n    pass\nwhile a < b: a += 1\nfor i in range(2):\n    break"));
  const auto& body = module->functions[0]->body;
  ASSERT_EQ(body.size(), 3u);
  EXPECT_EQ(body[0]->kind, StatementKind::for_);
  EXPECT_EQ(module->source->slice(body[0]->header), "for k in tl.range(0, N, num_stages=3):");
  EXPECT_EQ(show(*body[0]->value), "(call tl.range 0 N num_stages=3)");
  EXPECT_EQ(body[0]->body.at(0)->kind, StatementKind::pass);
  EXPECT_EQ(body[1]->kind, StatementKind::while_);
  EXPECT_THAT(show(*module, body[1]->body), ElementsAre("a += 1"));
  EXPECT_EQ(body[2]->body.at(0)->kind, StatementKind::break_);
}

TEST(SyntaxStatement, others) {
  const auto module = parse(kernel_text(
      "\"\"\"What it does.\"\"\"\nassert N > 1, \"N\"\ntl.store(a, b); x = 1\nif N:\n    return\nreturn a, b"));
  const auto& body = module->functions[0]->body;
  ASSERT_EQ(body.size(), 6u);
  EXPECT_EQ(show(*body[0]->value), "'What it does.'");
  EXPECT_EQ(body[1]->kind, StatementKind::expression);
  EXPECT_EQ(show(*body[1]->value), "(call assert (> N 1) 'N')");
  EXPECT_EQ(module->source->slice(body[2]->range), "tl.store(a, b)");
  EXPECT_EQ(module->source->slice(body[3]->range), "x = 1");
  EXPECT_EQ(body[4]->body.at(0)->value, nullptr);
  EXPECT_EQ(show(*body[5]->value), "(tuple a b)");
}

TEST(SyntaxModule, host_code_is_not_read) {
  const auto module = parse(R"(import torch
from triton import jit
SIZE = tl.constexpr(4)
LIMIT: tl.constexpr = 1 << 4
settings = {"a": 1}
square = lambda x: x * x
if torch.cuda.is_available():
    EXTRA = 1

@triton.autotune(configs=[triton.Config({'B': b}) for b in (1, 2)], key=['N'])
@triton.heuristics({"E": lambda args: args["N"] % 2})
@triton.jit(do_not_specialize=["N"])
def first(a, N: "int", B: tl.constexpr = 16, E: constexpr = None):
    pass

@jit
def second(x: triton.language.constexpr, y: int = 3): return x

@torch.compile
def launch(grid, *args):
    with open("x") as f:
        first[grid](*args)

class Host:
    @triton.jit
    def method(self): yield 1
)");
  EXPECT_THAT(module->imports, ElementsAre("import torch", "from triton import jit"));
  EXPECT_THAT(show(*module, module->constants), ElementsAre("SIZE = tl.constexpr(4)", "LIMIT: tl.constexpr = 1 << 4"));
  ASSERT_EQ(module->functions.size(), 3u);

  const Function& first = *module->find("first");
  EXPECT_TRUE(first.jit);
  EXPECT_THAT(module->source->slice(first.range), testing::StartsWith("@triton.autotune"));
  EXPECT_EQ(module->source->slice(first.name_range), "first");
  EXPECT_EQ(module->source->slice(first.parameters_range),
            "(a, N: \"int\", B: tl.constexpr = 16, E: constexpr = None)");
  ASSERT_EQ(first.parameters.size(), 4u);
  EXPECT_EQ(first.parameters[1].name, "N");
  EXPECT_FALSE(first.parameters[1].constexpr_);
  EXPECT_TRUE(first.parameters[2].constexpr_);
  EXPECT_EQ(show(*first.parameters[2].default_value), "16");
  EXPECT_TRUE(first.parameters[3].constexpr_);
  EXPECT_EQ(module->source->slice(first.parameters[2].range), "B: tl.constexpr = 16");

  EXPECT_TRUE(module->find("second")->jit);
  EXPECT_TRUE(module->find("second")->parameters[0].constexpr_);
  EXPECT_FALSE(module->find("second")->parameters[1].constexpr_);
  EXPECT_EQ(show(*module->find("second")->parameters[1].default_value), "3");
  EXPECT_FALSE(module->find("launch")->jit);
  EXPECT_TRUE(module->find("launch")->body.empty());
  EXPECT_EQ(module->find("method"), nullptr);
}

TEST(SyntaxModule, the_last_of_two_definitions_counts) {
  const auto module = parse("@triton.jit\ndef f(a): pass\n@triton.jit\ndef f(b): pass\n");
  EXPECT_EQ(module->find("f")->parameters.at(0).name, "b");
}

TEST(SyntaxModule, comments_know_their_lines) {
  const auto module = parse("# one\nx = 1  # two\n@triton.jit\ndef f(a,  # three\n      b):\n    pass\n    # four\n");
  std::vector<std::string> texts;
  std::vector<int> lines;
  for (const Comment& comment : module->comments) {
    texts.emplace_back(module->source->slice(comment.range));
    lines.push_back(comment.line);
  }
  EXPECT_THAT(texts, ElementsAre("# one", "# two", "# three", "# four"));
  EXPECT_THAT(lines, ElementsAre(1, 2, 4, 7));
}

TEST(SyntaxModule, an_empty_file_is_a_module) { EXPECT_TRUE(parse("")->functions.empty()); }

TEST(SyntaxModule, windows_line_ends) {
  const auto module = parse("@triton.jit\r\ndef f(a):\r\n    x = a\r\n    y = x  # last\r\n");
  EXPECT_THAT(show(*module, module->find("f")->body), ElementsAre("x = a", "y = x"));
}

TEST(SyntaxModule, shipped_kernels_parse) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SYNCOPATE_SOURCE_DIR "/kernels")) {
    if (entry.path().extension() != ".py") continue;
    const auto module = parse_module(SourceFile::read(entry.path().string()));
    const Function* kernel = module->find(entry.path().stem().string());
    ASSERT_NE(kernel, nullptr) << entry.path();
    EXPECT_TRUE(kernel->jit);
    ++files;
  }
  EXPECT_GE(files, 3);
}

TEST(SyntaxError, python_that_is_not_python) {
  expect_failure("x = a +", 3, 5, "syntax error at 'x = a +'", "valid Python 3");
  expect_failure("x = a b", 3, 9, "syntax error", "valid Python 3");
  expect_failure("if a\n    x = 1", 3, 5, "syntax error", "valid Python 3");
}

TEST(SyntaxError, unsupported_expressions) {
  expect_failure("x = lambda y: y", 3, 9, "a lambda is not supported", "@triton.jit function");
  expect_failure("x = [i for i in range(3)]", 3, 9, "a comprehension is not supported", "for loop");
  expect_failure("x = f(i for i in a)", 3, 10, "a generator is not supported", "for loop");
  expect_failure("x = {1: 2}", 3, 9, "a dictionary is not supported", "a tuple");
  expect_failure("x = {1, 2}", 3, 9, "a set is not supported", "a tuple");
  expect_failure("x = f(*a)", 3, 11, "a starred value is not supported", "one by one");
  expect_failure("x = f(**a)", 3, 11, "'**' in a call is not supported", "one by one");
  expect_failure("if (n := a) > 0:\n    pass", 3, 9, "':=' is not supported", "statement of its own");
  expect_failure("x = f'{a}'", 3, 9, "an f-string is not supported", "plain string");
  expect_failure("x = 'a' f'{a}'", 3, 13, "an f-string is not supported", "plain string");
  expect_failure("x = b'a'", 3, 9, "a bytes string is not supported", "plain string");
  expect_failure("x = a[...]", 3, 11, "'...' is not supported", "':'");
  expect_failure("x = yield a", 3, 9, "'yield' is not supported", "return the values");
  expect_failure("x = await a", 3, 9, "'await' is not supported", "remove it");
}

TEST(SyntaxError, literals) {
  expect_failure("x = 9223372036854775808", 3, 9, "9223372036854775808 does not fit in 64 bits", "below 2**63");
  expect_failure("x = 3j", 3, 9, "'3j' is not an integer", "decimal");
  expect_failure("x = 1.5j", 3, 9, "'1.5j' is not a number", "decimal");
  expect_failure("x = '\\x4'", 3, 9, "escape sequence '\\x4'", "2 hexadecimal digits");
}

TEST(SyntaxError, calls) {
  expect_failure("f(a=1, a=2)", 3, 12, "the keyword argument 'a' is repeated", "once");
  expect_failure("f(a=1, b)", 3, 12, "a positional argument follows a keyword argument", "first");
}

TEST(SyntaxError, unsupported_statements) {
  expect_failure("with a:\n    pass", 3, 5, "'with' is not supported", "without it");
  expect_failure("try:\n    pass\nexcept E:\n    pass", 3, 5, "'try' is not supported", "cannot raise");
  expect_failure("raise E", 3, 5, "'raise' is not supported", "tl.device_assert");
  expect_failure("class C:\n    pass", 3, 5, "a class is not supported", "tuples");
  expect_failure("def g():\n    pass", 3, 5, "a function inside a function is not supported", "top of the file");
  expect_failure("@triton.jit\ndef g():\n    pass", 3, 5, "a function inside a function", "top of the file");
  expect_failure("global a", 3, 5, "'global' is not supported", "tl.constexpr parameter");
  expect_failure("nonlocal a", 3, 5, "'nonlocal' is not supported", "parameter");
  expect_failure("del a", 3, 5, "'del' is not supported", "remove it");
  expect_failure("import math", 3, 5, "an import inside a function", "top of the file");
  expect_failure("from math import pi", 3, 5, "an import inside a function", "top of the file");
  expect_failure("for i in range(3):\n    pass\nelse:\n    pass", 5, 5, "'else' of a loop", "after the loop");
  expect_failure("while a:\n    pass\nelse:\n    pass", 5, 5, "'else' of a loop", "after the loop");
  expect_failure("a[0] = 1", 3, 5, "cannot assign to 'a[0]'", "tl.store");
  expect_failure("a.b = 1", 3, 5, "cannot assign to 'a.b'", "tl.store");
  expect_failure("x, *y = a", 3, 8, "a starred target is not supported", "a name of its own");
  expect_failure("x: tl.constexpr", 3, 5, "'x' is declared without a value", "assign it");
  expect_failure("if a:\n    x = 1\nelif b:\n    del x", 6, 9, "'del' is not supported", "remove it");
}

TEST(SyntaxError, functions) {
  const auto fails = [](const std::string& text, int line, int column, const std::string& problem) {
    SCOPED_TRACE(text);
    try {
      parse(text);
      ADD_FAILURE() << "no error";
    } catch (const UserError& error) {
      EXPECT_EQ(error.where(), (SourceLocation{"k.py", line, column}));
      EXPECT_THAT(error.problem(), HasSubstr(problem));
      EXPECT_FALSE(error.remedy().empty());
    }
  };
  fails("@cache\n@triton.jit\ndef f(a): pass\n", 1, 1, "the decorator '@cache' on a kernel is not supported");
  fails("@triton.jit\nasync def f(a): pass\n", 2, 1, "'async' is not supported");
  fails("@triton.jit\ndef f(a, *b): pass\n", 2, 10, "the parameter '*b' is not supported");
  fails("@triton.jit\ndef f(a, **b): pass\n", 2, 10, "the parameter '**b' is not supported");
  fails("@triton.jit\ndef f(a, *, b): pass\n", 2, 10, "the parameter '*' is not supported");
  fails("@triton.jit\ndef f(a, /, b): pass\n", 2, 10, "the parameter '/' is not supported");
  fails("@triton.jit\ndef f(a, a): pass\n", 2, 10, "the parameter 'a' is repeated");
}

TEST(SyntaxError, endless_nesting_is_an_error_and_not_a_crash) {
  const std::string deep = std::string(3000, '(') + "a" + std::string(3000, ')');
  const UserError error = failure("x = " + deep);
  EXPECT_THAT(error.problem(), HasSubstr("nested more than 500 deep"));
  std::string chain = "a";
  for (int i = 0; i < 30000; ++i) chain += " & a";
  EXPECT_THAT(failure("x = " + chain).problem(), HasSubstr("nested more than 500 deep"));
  std::string branches = "if a: pass\n";
  for (int i = 0; i < 1000; ++i) branches += "elif a: pass\n";
  EXPECT_THAT(failure(branches).problem(), HasSubstr("nested more than 500 deep"));
}

}  // namespace
}  // namespace syncopate
