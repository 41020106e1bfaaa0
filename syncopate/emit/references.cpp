#include "syncopate/emit/references.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace syncopate {
namespace {

bool is_identifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

/// Words (dots included) and "*" of an import statement.
std::vector<std::string> import_words(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (text[i] == '*' || text[i] == ',') {
      words.emplace_back(1, text[i++]);
    } else if (is_identifier(text[i])) {
      const std::size_t begin = i;
      while (i < text.size() && is_identifier(text[i])) ++i;
      words.emplace_back(text.substr(begin, i - begin));
    } else {
      ++i;
    }
  }
  return words;
}

/// The comma-separated items of an import statement from word `begin` on: name, and what it is called here.
std::vector<std::pair<std::string, std::string>> import_items(const std::vector<std::string>& words,
                                                              std::size_t begin) {
  std::vector<std::pair<std::string, std::string>> items;
  for (std::size_t i = begin; i < words.size(); ++i) {
    if (words[i] == ",") continue;
    const std::string& name = words[i];
    const bool renamed = i + 2 < words.size() && words[i + 1] == "as";
    items.emplace_back(name, renamed ? words[i + 2] : "");
    if (renamed) i += 2;
  }
  return items;
}

bool is_triton(const std::string& module) { return module == "triton" || module.starts_with("triton."); }

bool may_import(const std::string& module) {
  static const std::array<std::string, 4> fine = {"__future__", "math", "typing", "enum"};
  return is_triton(module) || std::find(fine.begin(), fine.end(), module) != fine.end();
}

[[noreturn]] void reject_import(const Module& module, const ImportedName& import) {
  const std::size_t offset = module.source->text().find(import.text);
  throw UserError(module.source->locate(offset),
                  fmt::format("the kernel uses '{}' of module '{}', but a fused kernel's file can need only Triton",
                              import.name, import.module),
                  "define it in the kernel's own file");
}

void add_names(const Statement& statement, std::set<std::string>& names) {
  visit(statement, [&](const Expression& expression) {
    if (expression.kind == ExpressionKind::name) names.insert(expression.text);
  });
}

bool assigns_any(const Statement& statement, const std::set<std::string>& names) {
  const auto variables = assigned_variables(statement);
  return std::any_of(variables.begin(), variables.end(),
                     [&](const Expression* variable) { return names.contains(variable->text); });
}

/// Adds what the needed helpers and constants need in turn, until nothing new is found.
void close_over(const Module& module, const Function& kernel, std::set<std::string>& names) {
  for (std::size_t before = 0; before != names.size();) {
    before = names.size();
    for (const auto& function : module.functions) {
      if (!function->jit || function.get() == &kernel || !names.contains(function->name)) continue;
      for (const auto& statement : function->body) add_names(*statement, names);
      add_parameter_names(module, *function, names);
    }
    for (const auto& constant : module.constants) {
      if (assigns_any(*constant, names)) add_names(*constant, names);
    }
  }
}

}  // namespace

void visit(const Expression& expression, const ExpressionVisitor& visitor) {
  visitor(expression);
  for (const auto& child : expression.children) {
    if (child) visit(*child, visitor);
  }
  for (const Keyword& keyword : expression.keywords) visit(*keyword.value, visitor);
}

void visit_statements(const Statement& statement, const std::function<void(const Statement&)>& visitor) {
  visitor(statement);
  for (const auto& inner : statement.body) visit_statements(*inner, visitor);
  for (const auto& inner : statement.orelse) visit_statements(*inner, visitor);
}

void visit(const Statement& statement, const ExpressionVisitor& visitor) {
  visit_statements(statement, [&](const Statement& each) {
    for (const auto& target : each.targets) visit(*target, visitor);
    if (each.value) visit(*each.value, visitor);
  });
}

std::vector<const Expression*> assigned_variables(const Statement& statement) {
  std::vector<const Expression*> variables;
  std::vector<const Expression*> pending;
  for (const auto& target : statement.targets) pending.push_back(target.get());
  for (std::size_t i = 0; i < pending.size(); ++i) {
    if (pending[i]->kind == ExpressionKind::name) variables.push_back(pending[i]);
    if (pending[i]->kind != ExpressionKind::tuple) continue;
    for (const auto& child : pending[i]->children) pending.push_back(child.get());
  }
  return variables;
}

void add_parameter_names(const Module& module, const Function& function, std::set<std::string>& names) {
  for (const Parameter& parameter : function.parameters) {
    for (const std::string& word : import_words(module.source->slice(parameter.range))) {
      if (word != parameter.name) names.insert(word.substr(0, word.find('.')));
    }
  }
}

std::vector<ImportedName> imported_names(const Module& module) {
  std::vector<ImportedName> names;
  for (const std::string& text : module.imports) {
    const std::vector<std::string> words = import_words(text);
    if (words.size() < 2) continue;
    const bool from = words.front() == "from";
    for (const auto& [name, alias] : import_items(words, from ? 3 : 1)) {
      const std::string renamed = alias.empty() ? name : fmt::format("{} as {}", name, alias);
      ImportedName imported;
      imported.statement = from ? fmt::format("from {} import {}", words[1], renamed) : "import " + renamed;
      imported.module = from ? words[1] : name;
      imported.name = !alias.empty() ? alias : from ? name : name.substr(0, name.find('.'));
      imported.text = text;
      names.push_back(imported);
    }
  }
  return names;
}

Needed find_needed(const Module& module, const Function& kernel, std::set<std::string> names) {
  close_over(module, kernel, names);
  Needed needed;
  for (const ImportedName& import : imported_names(module)) {
    const bool everywhere = import.module == "__future__" || (import.name == "*" && is_triton(import.module));
    if (!everywhere && !names.contains(import.name)) continue;
    if (!may_import(import.module)) reject_import(module, import);
    needed.imports.push_back(import.statement);
  }
  for (const auto& constant : module.constants) {
    if (assigns_any(*constant, names)) needed.constants.push_back(constant.get());
  }
  for (const auto& function : module.functions) {
    if (function->jit && function.get() != &kernel && names.contains(function->name)) {
      needed.helpers.push_back(function.get());
    }
  }
  return needed;
}

}  // namespace syncopate
