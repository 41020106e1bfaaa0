// The concrete syntax tree as tree-sitter gives it, behind a small value type. Only the syntax*.cpp files see it.
#pragma once

#include <tree_sitter/api.h>

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "syncopate/kernel/syntax.h"

namespace syncopate {

/// A node of the concrete tree. Valid as long as its SyntaxTree lives.
class SyntaxNode {
 public:
  explicit SyntaxNode(TSNode node) : node_(node) {}

  /// The grammar's name of the node, or the token itself for punctuation and keywords.
  std::string_view type() const { return ts_node_type(node_); }
  bool is(std::string_view wanted) const { return type() == wanted; }
  ByteRange range() const { return {ts_node_start_byte(node_), ts_node_end_byte(node_)}; }
  bool missing() const { return ts_node_is_missing(node_); }
  /// A comment or a line continuation, which the grammar allows anywhere.
  bool ignorable() const { return is("comment") || is("line_continuation"); }
  TSNode raw() const { return node_; }

  std::optional<SyntaxNode> field(std::string_view name) const;
  /// The children that are punctuation, operators or keywords.
  std::vector<SyntaxNode> tokens() const;
  /// Named children that are not ignorable.
  std::vector<SyntaxNode> children() const;
  /// The first child that is this token.
  std::optional<SyntaxNode> token(std::string_view text) const;

 private:
  TSNode node_;
};

/// A parsed file.
class SyntaxTree {
 public:
  explicit SyntaxTree(std::string_view text);
  SyntaxNode root() const { return SyntaxNode(ts_tree_root_node(tree_.get())); }

  /// Visits every node in the order of the file.
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(tree_.get()));
    const std::unique_ptr<TSTreeCursor, void (*)(TSTreeCursor*)> guard(&cursor, ts_tree_cursor_delete);
    for (;;) {
      visit(SyntaxNode(ts_tree_cursor_current_node(&cursor)));
      if (ts_tree_cursor_goto_first_child(&cursor)) continue;
      while (!ts_tree_cursor_goto_next_sibling(&cursor))
        if (!ts_tree_cursor_goto_parent(&cursor)) return;
    }
  }

 private:
  std::unique_ptr<TSTree, void (*)(TSTree*)> tree_;
};

/// Turns nodes into the tree of syntax.h. Throws UserError at what that tree has no word for.
class SyntaxConverter {
 public:
  explicit SyntaxConverter(const SourceFile& source) : source_(source) {}

  std::unique_ptr<Expression> expression(SyntaxNode node);
  /// Appends the statement.
  void statement(SyntaxNode node, std::vector<std::unique_ptr<Statement>>& out);
  std::vector<std::unique_ptr<Statement>> block(SyntaxNode node);
  std::vector<Parameter> parameters(SyntaxNode node);

  UserError error(SyntaxNode node, std::string problem, std::string remedy = {}) const;
  std::string_view text(SyntaxNode node) const { return source_.slice(node.range()); }

 private:
  using ExpressionPointer = std::unique_ptr<Expression>;
  using StatementPointer = std::unique_ptr<Statement>;

  ExpressionPointer convert(SyntaxNode node);
  ExpressionPointer node_of(ExpressionKind kind, SyntaxNode node) const;
  ExpressionPointer integer(SyntaxNode node) const;
  ExpressionPointer floating(SyntaxNode node) const;
  std::string string_value(SyntaxNode node) const;
  std::string unescaped(SyntaxNode string, std::string_view content) const;
  ExpressionPointer binary(SyntaxNode node, ExpressionKind kind);
  ExpressionPointer masking(SyntaxNode node);
  ExpressionPointer comparison(SyntaxNode node);
  ExpressionPointer compare(SyntaxNode left, std::string_view op, SyntaxNode right);
  ExpressionPointer call(SyntaxNode node);
  ExpressionPointer subscript(SyntaxNode node);
  ExpressionPointer slice(SyntaxNode node);
  UserError too_deep(SyntaxNode node) const;
  /// Counts a level of nesting, which the caller takes back.
  void enter(SyntaxNode node);
  UserError unsupported_expression(SyntaxNode node) const;

  ExpressionPointer target(SyntaxNode node);
  StatementPointer expression_statement(SyntaxNode node);
  StatementPointer assignment(SyntaxNode node);
  StatementPointer augmented_assignment(SyntaxNode node);
  StatementPointer if_statement(SyntaxNode node, std::span<const SyntaxNode> alternatives, std::uint32_t end);
  StatementPointer loop(SyntaxNode node, StatementKind kind);
  StatementPointer assertion(SyntaxNode node);
  Parameter parameter(SyntaxNode node);
  UserError unsupported_statement(SyntaxNode node) const;

  const SourceFile& source_;
  int depth_ = 0;
};

}  // namespace syncopate
