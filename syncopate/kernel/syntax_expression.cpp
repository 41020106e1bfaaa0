#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "syncopate/kernel/syntax_nodes.h"

namespace syncopate {
namespace {

/// Deeper than any person writes; the limit keeps recursion from running out of stack.
constexpr int kMaxDepth = 500;

struct Unsupported {
  std::string_view type;
  std::string_view what;
  std::string_view remedy;
};

constexpr auto kUnsupportedExpressions = std::to_array<Unsupported>({
    {"lambda", "a lambda", "write a @triton.jit function"},
    {"list_comprehension", "a comprehension", "write a for loop, or write the elements out"},
    {"set_comprehension", "a comprehension", "write a for loop, or write the elements out"},
    {"dictionary_comprehension", "a comprehension", "write a for loop, or write the elements out"},
    {"generator_expression", "a generator", "write a for loop, or write the elements out"},
    {"named_expression", "':='", "assign in a statement of its own"},
    {"list_splat", "a starred value", "write the values out one by one"},
    {"list_splat_pattern", "a starred target", "give every value a name of its own"},
    {"dictionary_splat", "'**' in a call", "write the keywords out one by one"},
    {"dictionary_splat_pattern", "a '**' parameter", "give every parameter a name of its own"},
    {"await", "'await'", "kernels run from start to end; remove it"},
    {"yield", "'yield'", "return the values, as a tuple if there are several"},
    {"dictionary", "a dictionary", "use names or a tuple"},
    {"set", "a set", "use names or a tuple"},
    {"ellipsis", "'...'", "write ':' for every dimension, or 'pass' for an empty body"},
});

std::string without_underscores(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  return digits;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto byte = [&out](std::uint32_t value) { out.push_back(static_cast<char>(value)); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

/// The letter of a one-letter escape sequence, or nothing.
std::optional<char> simple_escape(char letter) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const std::size_t at = kLetters.find(letter);
  if (at == std::string_view::npos) return std::nullopt;
  return kMeanings[at];
}

/// How many digits follow \x, \u or \U.
std::size_t hexadecimal_digits(char letter) {
  switch (letter) {
    case 'x':
      return 2;
    case 'u':
      return 4;
    case 'U':
      return 8;
    default:
      return 0;
  }
}

bool is_masking(SyntaxNode node) {
  if (!node.is("binary_operator")) return false;
  const SyntaxNode op = *node.field("operator");
  return op.is("&") || op.is("^");
}

/// The operands and operators of a chain of "&" and "^", from left to right; stops at chains that are too long.
void flatten_masking(SyntaxNode node, int depth, std::vector<SyntaxNode>& operands,
                     std::vector<std::string_view>& operators) {
  if (!is_masking(node) || depth == kMaxDepth) {
    operands.push_back(node);
    return;
  }
  flatten_masking(*node.field("left"), depth + 1, operands, operators);
  operators.push_back(node.field("operator")->type());
  flatten_masking(*node.field("right"), depth + 1, operands, operators);
}

}  // namespace

std::string Expression::dotted_name() const {
  if (kind == ExpressionKind::name) return text;
  if (kind != ExpressionKind::attribute) return {};
  const std::string owner = children[0]->dotted_name();
  return owner.empty() ? std::string() : owner + "." + text;
}

UserError SyntaxConverter::error(SyntaxNode node, std::string problem, std::string remedy) const {
  return {source_.locate(node.range().begin), std::move(problem), std::move(remedy)};
}

UserError SyntaxConverter::unsupported_expression(SyntaxNode node) const {
  for (const Unsupported& entry : kUnsupportedExpressions)
    if (node.is(entry.type))
      return error(node, fmt::format("{} is not supported in a kernel", entry.what), std::string(entry.remedy));
  return error(node, fmt::format("this syntax ({}) is not supported in a kernel", node.type()),
               "supported are names, numbers, strings, tuples, arithmetic, comparisons, calls and subscripts");
}

UserError SyntaxConverter::too_deep(SyntaxNode node) const {
  return error(node, fmt::format("the kernel is nested more than {} deep here", kMaxDepth),
               "give parts of it names of their own");
}

void SyntaxConverter::enter(SyntaxNode node) {
  if (++depth_ > kMaxDepth) throw too_deep(node);
}

std::unique_ptr<Expression> SyntaxConverter::node_of(ExpressionKind kind, SyntaxNode node) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->range = node.range();
  return made;
}

std::unique_ptr<Expression> SyntaxConverter::expression(SyntaxNode node) {
  enter(node);
  auto made = convert(node);
  --depth_;
  return made;
}

std::unique_ptr<Expression> SyntaxConverter::convert(SyntaxNode node) {
  const std::string_view type = node.type();
  if (type == "identifier") {
    auto made = node_of(ExpressionKind::name, node);
    made->text = text(node);
    return made;
  }
  if (type == "integer") return integer(node);
  if (type == "float") return floating(node);
  if (type == "true" || type == "false") {
    auto made = node_of(ExpressionKind::boolean, node);
    made->integer = type == "true" ? 1 : 0;
    return made;
  }
  if (type == "none") return node_of(ExpressionKind::none, node);
  if (type == "string" || type == "concatenated_string") {
    auto made = node_of(ExpressionKind::string, node);
    made->text = string_value(node);
    return made;
  }
  if (type == "parenthesized_expression") {
    // The parentheses belong to the range, so that an edit of the range replaces them too.
    auto made = expression(node.children().at(0));
    made->range = node.range();
    return made;
  }
  if (type == "tuple" || type == "list" || type == "expression_list") {
    auto made = node_of(ExpressionKind::tuple, node);
    for (const SyntaxNode child : node.children()) made->children.push_back(expression(child));
    return made;
  }
  if (type == "attribute") {
    auto made = node_of(ExpressionKind::attribute, node);
    made->children.push_back(expression(*node.field("object")));
    made->text = text(*node.field("attribute"));
    return made;
  }
  if (type == "call") return call(node);
  if (type == "subscript") return subscript(node);
  if (type == "unary_operator" || type == "not_operator") {
    auto made = node_of(ExpressionKind::unary, node);
    made->text = type == "not_operator" ? "not" : text(*node.field("operator"));
    made->children.push_back(expression(*node.field("argument")));
    return made;
  }
  if (type == "binary_operator") return is_masking(node) ? masking(node) : binary(node, ExpressionKind::binary);
  if (type == "boolean_operator") return binary(node, ExpressionKind::logical);
  if (type == "comparison_operator") return comparison(node);
  if (type == "conditional_expression") {
    auto made = node_of(ExpressionKind::conditional, node);
    for (const SyntaxNode child : node.children()) made->children.push_back(expression(child));
    return made;
  }
  throw unsupported_expression(node);
}

std::unique_ptr<Expression> SyntaxConverter::integer(SyntaxNode node) const {
  const std::string digits = without_underscores(text(node));
  int base = 10;
  std::size_t start = 0;
  if (digits.size() > 2 && digits[0] == '0') {
    const char prefix = static_cast<char>(digits[1] | 0x20);
    base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    start = base == 10 ? 0 : 2;
  }
  auto made = node_of(ExpressionKind::integer, node);
  const char* end = digits.data() + digits.size();
  const auto [stop, failure] = std::from_chars(digits.data() + start, end, made->integer, base);
  if (failure == std::errc::result_out_of_range)
    throw error(node, fmt::format("{} does not fit in 64 bits", digits), "use a number below 2**63");
  if (failure != std::errc() || stop != end)
    throw error(node, fmt::format("'{}' is not an integer that a kernel can use", digits),
                "supported are decimal, 0x, 0o and 0b integers");
  return made;
}

std::unique_ptr<Expression> SyntaxConverter::floating(SyntaxNode node) const {
  const std::string digits = without_underscores(text(node));
  auto made = node_of(ExpressionKind::floating, node);
  const auto [stop, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), made->number);
  if (failure == std::errc::result_out_of_range) {
    // As Python: too large is infinity, too small is zero.
    made->number = std::strtod(digits.c_str(), nullptr);
    return made;
  }
  if (failure != std::errc() || stop != digits.data() + digits.size())
    throw error(node, fmt::format("'{}' is not a number that a kernel can use", digits),
                "supported are decimal numbers with an optional exponent");
  return made;
}

std::string SyntaxConverter::string_value(SyntaxNode node) const {
  if (node.is("concatenated_string")) {
    std::string joined;
    for (const SyntaxNode part : node.children()) joined += string_value(part);
    return joined;
  }
  const std::string_view opening = text(*node.token("string_start"));
  const std::string_view prefix = opening.substr(0, opening.find_first_of("'\""));
  if (prefix.find_first_of("fF") != std::string_view::npos)
    throw error(node, "an f-string is not supported in a kernel", "write a plain string");
  if (prefix.find_first_of("bB") != std::string_view::npos)
    throw error(node, "a bytes string is not supported in a kernel", "write a plain string");
  const ByteRange content{node.token("string_start")->range().end, node.token("string_end")->range().begin};
  const std::string_view characters = source_.slice(content);
  if (prefix.find_first_of("rR") != std::string_view::npos) return std::string(characters);
  return unescaped(node, characters);
}

std::string SyntaxConverter::unescaped(SyntaxNode string, std::string_view content) const {
  std::string out;
  for (std::size_t i = 0; i < content.size(); ++i) {
    if (content[i] != '\\' || i + 1 == content.size()) {
      out.push_back(content[i]);
      continue;
    }
    const char letter = content[++i];
    const std::size_t hexadecimal = hexadecimal_digits(letter);
    if (const auto meaning = simple_escape(letter)) {
      out.push_back(*meaning);
    } else if (hexadecimal > 0) {
      std::uint32_t code = 0;
      const std::string_view digits = content.substr(i + 1, hexadecimal);
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
      if (digits.size() != hexadecimal || parsed.ptr != digits.data() + digits.size() || code > 0x10FFFF)
        throw error(
            string,
            fmt::format("the escape sequence '\\{}{}' in this string is incomplete or too large", letter, digits),
            fmt::format("\\{} takes {} hexadecimal digits", letter, hexadecimal));
      append_utf8(out, code);
      i += hexadecimal;
    } else if (letter >= '0' && letter <= '7') {
      std::uint32_t code = 0;
      std::size_t length = 0;
      for (; length < 3 && i + length < content.size() && content[i + length] >= '0' && content[i + length] <= '7';
           ++length)
        code = code * 8 + static_cast<std::uint32_t>(content[i + length] - '0');
      append_utf8(out, code);
      i += length - 1;
    } else if (letter != '\n') {  // a backslash at the end of a line joins the lines
      out.push_back('\\');
      out.push_back(letter);
    }
  }
  return out;
}

std::unique_ptr<Expression> SyntaxConverter::binary(SyntaxNode node, ExpressionKind kind) {
  auto made = node_of(kind, node);
  made->text = text(*node.field("operator"));
  made->children.push_back(expression(*node.field("left")));
  made->children.push_back(expression(*node.field("right")));
  return made;
}

/// In Python "&" binds tighter than "^"; the grammar has it the other way round. Here a chain of both is read again.
std::unique_ptr<Expression> SyntaxConverter::masking(SyntaxNode node) {
  std::vector<SyntaxNode> operands;
  std::vector<std::string_view> operators;
  flatten_masking(node, 0, operands, operators);
  if (operators.size() >= kMaxDepth) throw too_deep(node);
  const auto join = [](ExpressionPointer left, std::string_view op, ExpressionPointer right) {
    if (left == nullptr) return right;
    auto made = std::make_unique<Expression>();
    made->kind = ExpressionKind::binary;
    made->range = {left->range.begin, right->range.end};
    made->text = op;
    made->children.push_back(std::move(left));
    made->children.push_back(std::move(right));
    return made;
  };
  ExpressionPointer whole;
  ExpressionPointer masked = expression(operands[0]);
  for (std::size_t i = 0; i < operators.size(); ++i) {
    if (operators[i] == "^") {
      whole = join(std::move(whole), "^", std::move(masked));
      masked = expression(operands[i + 1]);
    } else {
      masked = join(std::move(masked), "&", expression(operands[i + 1]));
    }
  }
  return join(std::move(whole), "^", std::move(masked));
}

std::unique_ptr<Expression> SyntaxConverter::compare(SyntaxNode left, std::string_view op, SyntaxNode right) {
  const ByteRange range{left.range().begin, right.range().end};
  auto made = std::make_unique<Expression>();
  made->kind = ExpressionKind::comparison;
  made->range = range;
  made->text = op == "not in" ? "in" : op;
  made->children.push_back(expression(left));
  made->children.push_back(expression(right));
  if (op != "not in") return made;
  auto negated = std::make_unique<Expression>();
  negated->kind = ExpressionKind::unary;
  negated->range = range;
  negated->text = "not";
  negated->children.push_back(std::move(made));
  return negated;
}

std::unique_ptr<Expression> SyntaxConverter::comparison(SyntaxNode node) {
  const std::vector<SyntaxNode> operands = node.children();
  const std::vector<SyntaxNode> operators = node.tokens();
  for (const SyntaxNode op : operators)
    if (op.is("<>")) throw error(op, "'<>' is not an operator of Python 3", "write '!='");
  check_internal(operands.size() == operators.size() + 1, "a comparison with as many operators as operands");
  std::unique_ptr<Expression> chain;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    auto link = compare(operands[i], operators[i].type(), operands[i + 1]);
    if (chain == nullptr) {
      chain = std::move(link);
      continue;
    }
    auto joined = std::make_unique<Expression>();
    joined->kind = ExpressionKind::logical;
    joined->range = {operands[0].range().begin, operands[i + 1].range().end};
    joined->text = "and";
    joined->children.push_back(std::move(chain));
    joined->children.push_back(std::move(link));
    chain = std::move(joined);
  }
  return chain;
}

std::unique_ptr<Expression> SyntaxConverter::call(SyntaxNode node) {
  auto made = node_of(ExpressionKind::call, node);
  made->children.push_back(expression(*node.field("function")));
  const SyntaxNode arguments = *node.field("arguments");
  if (!arguments.is("argument_list")) throw unsupported_expression(arguments);
  for (const SyntaxNode argument : arguments.children()) {
    if (!argument.is("keyword_argument")) {
      if (!made->keywords.empty() && !argument.is("dictionary_splat") && !argument.is("list_splat"))
        throw error(argument, "a positional argument follows a keyword argument", "put positional arguments first");
      made->children.push_back(expression(argument));
      continue;
    }
    const std::string name(text(*argument.field("name")));
    if (std::any_of(made->keywords.begin(), made->keywords.end(),
                    [&name](const Keyword& keyword) { return keyword.name == name; }))
      throw error(argument, fmt::format("the keyword argument '{}' is repeated", name), "give it once");
    made->keywords.push_back({name, expression(*argument.field("value"))});
  }
  return made;
}

std::unique_ptr<Expression> SyntaxConverter::subscript(SyntaxNode node) {
  auto made = node_of(ExpressionKind::subscript, node);
  made->children.push_back(expression(*node.field("value")));
  const std::vector<SyntaxNode> parts = node.children();
  for (const SyntaxNode index : std::span(parts).subspan(1))
    made->children.push_back(index.is("slice") ? slice(index) : expression(index));
  return made;
}

std::unique_ptr<Expression> SyntaxConverter::slice(SyntaxNode node) {
  auto made = node_of(ExpressionKind::slice, node);
  for (int i = 0; i < 3; ++i) made->children.push_back(node_of(ExpressionKind::none, node));
  std::size_t part = 0;
  for (std::uint32_t i = 0; i < ts_node_child_count(node.raw()); ++i) {
    const SyntaxNode child(ts_node_child(node.raw(), i));
    if (child.is(":")) {
      ++part;
    } else if (!child.ignorable()) {
      made->children[part] = expression(child);
    }
  }
  return made;
}

}  // namespace syncopate
