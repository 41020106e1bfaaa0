#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>

#include "syncopate/kernel/syntax_nodes.h"

namespace syncopate {
namespace {

struct Unsupported {
  std::string_view type;
  std::string_view what;
  std::string_view remedy;
};

constexpr auto kUnsupportedStatements = std::to_array<Unsupported>({
    {"with_statement", "'with'", "write the statements without it"},
    {"try_statement", "'try'", "a kernel cannot raise; remove it"},
    {"raise_statement", "'raise'", "use tl.device_assert or tl.static_assert"},
    {"class_definition", "a class", "use names, tuples and @triton.jit functions"},
    {"function_definition", "a function inside a function", "write it at the top of the file with @triton.jit"},
    {"decorated_definition", "a function inside a function", "write it at the top of the file with @triton.jit"},
    {"global_statement", "'global'", "pass the value as a tl.constexpr parameter"},
    {"nonlocal_statement", "'nonlocal'", "pass the value as a parameter"},
    {"delete_statement", "'del'", "remove it; values end with their last use"},
    {"import_statement", "an import inside a function", "write it at the top of the file"},
    {"import_from_statement", "an import inside a function", "write it at the top of the file"},
    {"future_import_statement", "an import inside a function", "write it at the top of the file"},
    {"match_statement", "'match'", "use if and elif"},
    {"print_statement", "'print' without parentheses", "use tl.device_print(...)"},
    {"exec_statement", "'exec'", "write the statements out"},
    {"type_alias_statement", "a type alias", "remove it"},
});

bool names_constexpr(std::string_view annotation) {
  return annotation == "constexpr" || annotation.ends_with(".constexpr");
}

}  // namespace

UserError SyntaxConverter::unsupported_statement(SyntaxNode node) const {
  for (const Unsupported& entry : kUnsupportedStatements)
    if (node.is(entry.type))
      return error(node, fmt::format("{} is not supported in a kernel", entry.what), std::string(entry.remedy));
  return error(node, fmt::format("this statement ({}) is not supported in a kernel", node.type()),
               "supported are assignments, calls, if, for, while, return, pass, break, continue and assert");
}

std::vector<std::unique_ptr<Statement>> SyntaxConverter::block(SyntaxNode node) {
  std::vector<StatementPointer> statements;
  for (const SyntaxNode child : node.children()) statement(child, statements);
  return statements;
}

void SyntaxConverter::statement(SyntaxNode node, std::vector<StatementPointer>& out) {
  const std::string_view type = node.type();
  StatementPointer made;
  if (type == "expression_statement") {
    made = expression_statement(node);
  } else if (type == "if_statement") {
    std::vector<SyntaxNode> alternatives = node.children();
    std::erase_if(alternatives, [](SyntaxNode child) { return !child.is("elif_clause") && !child.is("else_clause"); });
    made = if_statement(node, alternatives, node.range().end);
  } else if (type == "for_statement") {
    made = loop(node, StatementKind::for_);
  } else if (type == "while_statement") {
    made = loop(node, StatementKind::while_);
  } else if (type == "assert_statement") {
    made = assertion(node);
  } else {
    made = std::make_unique<Statement>();
    if (type == "return_statement") {
      made->kind = StatementKind::return_;
      if (const auto values = node.children(); !values.empty()) made->value = expression(values[0]);
    } else if (type == "break_statement") {
      made->kind = StatementKind::break_;
    } else if (type == "continue_statement") {
      made->kind = StatementKind::continue_;
    } else if (type != "pass_statement") {
      throw unsupported_statement(node);
    }
  }
  made->range = node.range();
  out.push_back(std::move(made));
}

std::unique_ptr<Statement> SyntaxConverter::expression_statement(SyntaxNode node) {
  const std::vector<SyntaxNode> parts = node.children();
  if (parts.size() == 1 && parts[0].is("assignment")) return assignment(parts[0]);
  if (parts.size() == 1 && parts[0].is("augmented_assignment")) return augmented_assignment(parts[0]);
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::expression;
  if (parts.size() == 1 && !node.token(",")) {
    made->value = expression(parts[0]);
    return made;
  }
  made->value = node_of(ExpressionKind::tuple, node);
  for (const SyntaxNode part : parts) made->value->children.push_back(expression(part));
  return made;
}

std::unique_ptr<Expression> SyntaxConverter::target(SyntaxNode node) {
  if (node.is("identifier")) return expression(node);
  if (node.is("pattern_list") || node.is("tuple_pattern") || node.is("list_pattern")) {
    auto made = node_of(ExpressionKind::tuple, node);
    for (const SyntaxNode child : node.children()) made->children.push_back(target(child));
    return made;
  }
  if (node.is("list_splat_pattern")) throw unsupported_expression(node);
  throw error(node, fmt::format("cannot assign to '{}' in a kernel", text(node)),
              "assign to a name; memory is written with tl.store or a descriptor's store");
}

std::unique_ptr<Statement> SyntaxConverter::assignment(SyntaxNode node) {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::assign;
  for (SyntaxNode link = node;;) {
    made->targets.push_back(target(*link.field("left")));
    const auto right = link.field("right");
    if (!right)
      throw error(node, fmt::format("'{}' is declared without a value", text(*link.field("left"))),
                  "assign it a value, or remove the line");
    if (!right->is("assignment")) {
      made->value = expression(*right);
      return made;
    }
    link = *right;
  }
}

std::unique_ptr<Statement> SyntaxConverter::augmented_assignment(SyntaxNode node) {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::augmented_assign;
  made->targets.push_back(target(*node.field("left")));
  const std::string_view op = text(*node.field("operator"));
  made->text = op.substr(0, op.size() - 1);
  made->value = expression(*node.field("right"));
  return made;
}

std::unique_ptr<Statement> SyntaxConverter::if_statement(SyntaxNode node, std::span<const SyntaxNode> alternatives,
                                                         std::uint32_t end) {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::if_;
  made->range = {node.range().begin, end};
  made->header = {node.range().begin, node.token(":")->range().end};
  made->value = expression(*node.field("condition"));
  made->body = block(*node.field("consequence"));
  if (alternatives.empty()) return made;
  enter(node);  // every elif is a level deeper
  if (alternatives[0].is("elif_clause"))
    made->orelse.push_back(if_statement(alternatives[0], alternatives.subspan(1), end));
  else
    made->orelse = block(*alternatives[0].field("body"));
  --depth_;
  return made;
}

std::unique_ptr<Statement> SyntaxConverter::loop(SyntaxNode node, StatementKind kind) {
  if (const auto otherwise = node.field("alternative"))
    throw error(*otherwise, "'else' of a loop is not supported in a kernel", "write the statements after the loop");
  if (const auto async = node.token("async"))
    throw error(*async, "'async' is not supported in a kernel", "write a plain loop");
  auto made = std::make_unique<Statement>();
  made->kind = kind;
  made->header = {node.range().begin, node.token(":")->range().end};
  if (kind == StatementKind::for_) {
    made->targets.push_back(target(*node.field("left")));
    made->value = expression(*node.field("right"));
  } else {
    made->value = expression(*node.field("condition"));
  }
  made->body = block(*node.field("body"));
  return made;
}

std::unique_ptr<Statement> SyntaxConverter::assertion(SyntaxNode node) {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::expression;
  made->value = node_of(ExpressionKind::call, node);
  auto callee = node_of(ExpressionKind::name, *node.token("assert"));
  callee->text = "assert";
  made->value->children.push_back(std::move(callee));
  for (const SyntaxNode part : node.children()) made->value->children.push_back(expression(part));
  return made;
}

Parameter SyntaxConverter::parameter(SyntaxNode node) {
  Parameter made;
  made.range = node.range();
  if (node.is("identifier")) {
    made.name = text(node);
    return made;
  }
  const bool known = node.is("typed_parameter") || node.is("default_parameter") || node.is("typed_default_parameter");
  const auto name = node.is("typed_parameter") ? std::optional(node.children().at(0)) : node.field("name");
  if (!known || !name || !name->is("identifier"))
    throw error(node, fmt::format("the parameter '{}' is not supported in a kernel", text(node)),
                "give every parameter a name of its own, without '*', '**' or '/'");
  made.name = text(*name);
  if (const auto annotation = node.field("type")) made.constexpr_ = names_constexpr(text(*annotation));
  if (const auto value = node.field("value")) made.default_value = expression(*value);
  return made;
}

std::vector<Parameter> SyntaxConverter::parameters(SyntaxNode node) {
  std::vector<Parameter> made;
  for (const SyntaxNode child : node.children()) {
    Parameter next = parameter(child);
    if (std::any_of(made.begin(), made.end(), [&next](const Parameter& other) { return other.name == next.name; }))
      throw error(child, fmt::format("the parameter '{}' is repeated", next.name), "give it a name of its own");
    made.push_back(std::move(next));
  }
  return made;
}

}  // namespace syncopate
