#include "syncopate/kernel/syntax_nodes.h"

extern "C" const TSLanguage* tree_sitter_python(void);

namespace syncopate {

std::optional<SyntaxNode> SyntaxNode::field(std::string_view name) const {
  const TSNode child = ts_node_child_by_field_name(node_, name.data(), static_cast<std::uint32_t>(name.size()));
  if (ts_node_is_null(child)) return std::nullopt;
  return SyntaxNode(child);
}

std::vector<SyntaxNode> SyntaxNode::tokens() const {
  std::vector<SyntaxNode> found;
  for (std::uint32_t i = 0; i < ts_node_child_count(node_); ++i)
    if (const TSNode child = ts_node_child(node_, i); !ts_node_is_named(child)) found.emplace_back(child);
  return found;
}

std::vector<SyntaxNode> SyntaxNode::children() const {
  std::vector<SyntaxNode> found;
  for (std::uint32_t i = 0; i < ts_node_named_child_count(node_); ++i) {
    const SyntaxNode child(ts_node_named_child(node_, i));
    if (!child.ignorable()) found.push_back(child);
  }
  return found;
}

std::optional<SyntaxNode> SyntaxNode::token(std::string_view text) const {
  for (std::uint32_t i = 0; i < ts_node_child_count(node_); ++i) {
    const SyntaxNode child(ts_node_child(node_, i));
    if (child.is(text)) return child;
  }
  return std::nullopt;
}

SyntaxTree::SyntaxTree(std::string_view text) : tree_(nullptr, ts_tree_delete) {
  const std::unique_ptr<TSParser, void (*)(TSParser*)> parser(ts_parser_new(), ts_parser_delete);
  check_internal(ts_parser_set_language(parser.get(), tree_sitter_python()), "the grammar does not fit tree-sitter");
  tree_.reset(ts_parser_parse_string(parser.get(), nullptr, text.data(), static_cast<std::uint32_t>(text.size())));
  check_internal(tree_ != nullptr, "tree-sitter gave no tree");
}

}  // namespace syncopate
