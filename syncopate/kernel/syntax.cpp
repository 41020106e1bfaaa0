#include "syncopate/kernel/syntax.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "syncopate/kernel/imports.h"
#include "syncopate/kernel/syntax_nodes.h"

namespace syncopate {
namespace {

/// Throws at the first place where the grammar had to guess.
void check_grammar(const SyntaxTree& tree, const SyntaxConverter& converter) {
  tree.for_each([&converter](SyntaxNode node) {
    if (node.missing())
      throw converter.error(node, fmt::format("syntax error: '{}' is missing here", node.type()),
                            "the file must be valid Python 3");
    if (!node.is("ERROR")) return;
    const std::string_view text = converter.text(node);
    throw converter.error(node, fmt::format("syntax error at '{}'", text.substr(0, text.find('\n')).substr(0, 60)),
                          "the file must be valid Python 3");
  });
}

enum class Decorator : std::uint8_t { jit, launch, other };

/// What a decorator makes of a function. Autotuners and heuristics choose the arguments of a launch and leave the
/// kernel as it is.
Decorator classify(std::string_view decorator) {
  decorator.remove_prefix(1);  // the "@"
  const std::string_view name = decorator.substr(0, decorator.find_first_of(" (#\n"));
  if (name == "jit" || name == "triton.jit") return Decorator::jit;
  if (name == "autotune" || name == "triton.autotune" || name == "heuristics" || name == "triton.heuristics")
    return Decorator::launch;
  return Decorator::other;
}

std::unique_ptr<Function> convert_function(SyntaxConverter& converter, SyntaxNode outer, SyntaxNode definition) {
  auto function = std::make_unique<Function>();
  const SyntaxNode parameters = *definition.field("parameters");
  function->name = converter.text(*definition.field("name"));
  function->range = outer.range();
  function->name_range = definition.field("name")->range();
  function->parameters_range = parameters.range();
  const std::vector<SyntaxNode> around = outer.children();
  std::vector<SyntaxNode> decorators;
  std::copy_if(around.begin(), around.end(), std::back_inserter(decorators),
               [](SyntaxNode node) { return node.is("decorator"); });
  const auto kind = [&converter](SyntaxNode node) { return classify(converter.text(node)); };
  function->jit = std::any_of(decorators.begin(), decorators.end(),
                              [&kind](SyntaxNode node) { return kind(node) == Decorator::jit; });
  if (!function->jit) return function;
  for (const SyntaxNode decorator : decorators)
    if (kind(decorator) == Decorator::other)
      throw converter.error(decorator,
                            fmt::format("the decorator '{}' on a kernel is not supported", converter.text(decorator)),
                            "supported are @triton.jit, @triton.autotune and @triton.heuristics");
  if (const auto async = definition.token("async"))
    throw converter.error(*async, "'async' is not supported in a kernel", "write a plain function");
  function->parameters = converter.parameters(parameters);
  function->body = converter.block(*definition.field("body"));
  if (function->body.empty())
    throw converter.error(definition, fmt::format("the function '{}' has no statements", function->name),
                          "write 'pass' for an empty body");
  return function;
}

/// The imports under a `try` or `if` at the top of a file, which are there for several versions of Triton. Of those
/// that bind a name, the first counts: files prefer what is newest.
void collect_guarded_imports(SyntaxNode node, const SyntaxConverter& converter, Module& module) {
  if (node.is("import_statement") || node.is("import_from_statement")) {
    const std::string text(converter.text(node));
    const auto known = [&module](const ImportBinding& binding) {
      return std::any_of(module.imports.begin(), module.imports.end(), [&binding](const std::string& earlier) {
        const std::vector<ImportBinding> bound = import_bindings(earlier);
        return std::any_of(bound.begin(), bound.end(),
                           [&binding](const ImportBinding& each) { return each.name == binding.name; });
      });
    };
    const std::vector<ImportBinding> bindings = import_bindings(text);
    if (!std::all_of(bindings.begin(), bindings.end(), known)) module.imports.push_back(text);
    return;
  }
  constexpr std::array<std::string_view, 7> kGuards = {"if_statement",  "elif_clause", "else_clause",   "try_statement",
                                                       "except_clause", "block",       "finally_clause"};
  if (std::find(kGuards.begin(), kGuards.end(), node.type()) == kGuards.end()) return;
  for (const SyntaxNode child : node.children()) collect_guarded_imports(child, converter, module);
}

/// Top-level assignments that a kernel can use. What has no meaning in a kernel (a call of host code with a lambda, a
/// dictionary of settings) is host code and skipped.
void convert_constant(SyntaxConverter converter, SyntaxNode node, Module& module) {
  const std::vector<SyntaxNode> parts = node.children();
  if (parts.size() != 1 || !parts[0].is("assignment")) return;
  try {
    converter.statement(node, module.constants);
  } catch (const UserError&) {
    return;
  }
}

}  // namespace

const Function* Module::find(std::string_view name) const {
  // As in Python, the last definition counts.
  const auto found = std::find_if(functions.rbegin(), functions.rend(),
                                  [name](const auto& function) { return function->name == name; });
  return found == functions.rend() ? nullptr : found->get();
}

std::shared_ptr<const Module> parse_module(std::shared_ptr<const SourceFile> source) {
  const SyntaxTree tree(source->text());
  SyntaxConverter converter(*source);
  check_grammar(tree, converter);

  auto module = std::make_shared<Module>();
  for (const SyntaxNode node : tree.root().children()) {
    if (node.is("import_statement") || node.is("import_from_statement") || node.is("future_import_statement"))
      module->imports.emplace_back(converter.text(node));
    else if (node.is("function_definition"))
      module->functions.push_back(convert_function(converter, node, node));
    else if (node.is("decorated_definition") && node.field("definition")->is("function_definition"))
      module->functions.push_back(convert_function(converter, node, *node.field("definition")));
    else if (node.is("expression_statement"))
      convert_constant(converter, node, *module);
    else
      collect_guarded_imports(node, converter, *module);
  }
  tree.for_each([&](SyntaxNode node) {
    if (node.is("comment")) module->comments.push_back({node.range(), source->locate(node.range().begin).line});
  });
  module->source = std::move(source);
  return module;
}

}  // namespace syncopate
