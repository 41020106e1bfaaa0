// The part of Python that Triton kernels are written in, as a tree that remembers its bytes. parse_module() reads
// it with the tree-sitter Python grammar; everything later (the analysis, the evaluator, the emitter) works on this
// tree and never sees the grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "syncopate/core/source.h"

namespace syncopate {

enum class ExpressionKind : std::uint8_t {
  name,      ///< text
  integer,   ///< integer
  floating,  ///< number
  string,    ///< text, without quotes
  boolean,   ///< integer 0 or 1
  none,
  tuple,        ///< children; also lists, which mean the same to Triton
  attribute,    ///< children[0] . text
  call,         ///< children[0] ( children[1..], keywords )
  subscript,    ///< children[0] [ children[1..] ]
  slice,        ///< the ":" of a subscript; children are lower, upper, step (absent ones have kind none)
  unary,        ///< text is "-", "+", "~" or "not"; children[0]
  binary,       ///< text is the operator, "+" ... "@"; children[0], children[1]
  comparison,   ///< text is "<", "<=", ">", ">=", "==", "!=", "is", "is not", "in"; chains are opened into "and", and
                ///< `not in` into a "not" of "in"
  logical,      ///< text is "and" or "or"; children[0], children[1]
  conditional,  ///< children[0] if children[1] else children[2]
};

struct Expression;
struct Keyword {
  std::string name;
  std::unique_ptr<Expression> value;
};

struct Expression {
  ExpressionKind kind = ExpressionKind::none;
  ByteRange range;  ///< parentheses around it included
  std::string text;
  std::int64_t integer = 0;
  double number = 0;
  std::vector<std::unique_ptr<Expression>> children;
  std::vector<Keyword> keywords;

  /// The dotted name of a name or a chain of attributes ("tl.load"), or "" for anything else.
  std::string dotted_name() const;
};

enum class StatementKind : std::uint8_t {
  assign,            ///< targets = value; `a = b = v` has two targets; a tuple target unpacks
  augmented_assign,  ///< targets[0] text= value; text is the operator without "="
  expression,        ///< value (a call, or a docstring); `assert x, y` is a call of the name "assert"
  if_,               ///< value is the condition; body; orelse (an elif is an if_ in orelse)
  for_,              ///< targets[0] in value; body (a loop's else is not supported)
  while_,            ///< value is the condition; body
  return_,           ///< value may be absent
  pass,
  break_,
  continue_,
};

struct Statement {
  StatementKind kind = StatementKind::pass;
  ByteRange range;   ///< from the first to the last byte of the statement, its body included
  ByteRange header;  ///< for if_/for_/while_: from the keyword to the colon, included
  std::string text;
  std::vector<std::unique_ptr<Expression>> targets;
  std::unique_ptr<Expression> value;
  std::vector<std::unique_ptr<Statement>> body;
  std::vector<std::unique_ptr<Statement>> orelse;
};

struct Parameter {
  std::string name;
  bool constexpr_ = false;  ///< annotated tl.constexpr
  std::unique_ptr<Expression> default_value;
  ByteRange range;
};

/// A `def` at the top of a file. Without @triton.jit it is host code: only its name and ranges are known. Of two
/// functions of one name the last counts, as in Python.
struct Function {
  std::string name;
  ByteRange range;  ///< decorators included
  ByteRange name_range;
  ByteRange parameters_range;  ///< from "(" to ")", included
  bool jit = false;
  std::vector<Parameter> parameters;
  std::vector<std::unique_ptr<Statement>> body;
};

/// A comment, "#" included, up to the end of its line.
struct Comment {
  ByteRange range;
  int line = 0;
};

/// A parsed file.
struct Module {
  std::shared_ptr<const SourceFile> source;
  /// The text of every import statement, in order; also those under a `try` or `if`, the first that binds a name.
  std::vector<std::string> imports;
  std::vector<std::unique_ptr<Statement>> constants;  ///< top-level assignments such as `N = tl.constexpr(4)`
  std::vector<std::unique_ptr<Function>> functions;
  std::vector<Comment> comments;

  const Function* find(std::string_view name) const;
  SourceLocation locate(ByteRange range) const { return source->locate(range.begin); }
};

/// Parses a Python file that holds Triton kernels. Throws UserError at the place of a syntax error, or of syntax
/// inside a @triton.jit function that is not supported (naming what is supported instead). Top-level code other than
/// imports, constants and functions is skipped: it is the user's host code.
std::shared_ptr<const Module> parse_module(std::shared_ptr<const SourceFile> source);

}  // namespace syncopate
