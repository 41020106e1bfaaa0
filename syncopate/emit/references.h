// Which names a piece of a kernel uses, and which parts of its file the kernel therefore needs.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "syncopate/kernel/syntax.h"

namespace syncopate {

using ExpressionVisitor = std::function<void(const Expression&)>;

/// Visits an expression and all inside it, in source order of their beginnings.
void visit(const Expression& expression, const ExpressionVisitor& visitor);
/// Visits every expression of a statement: targets, values, those of statements inside it.
void visit(const Statement& statement, const ExpressionVisitor& visitor);
/// Visits a statement and all inside it.
void visit_statements(const Statement& statement, const std::function<void(const Statement&)>& visitor);

/// The variables that a statement assigns, loop variables included, not those of statements inside it.
std::vector<const Expression*> assigned_variables(const Statement& statement);

/// Adds the identifiers of a parameter's annotation and default.
void add_parameter_names(const Module& module, const Function& function, std::set<std::string>& names);

/// One name that an import statement brings into the file.
struct ImportedName {
  std::string statement;  ///< the statement that imports just this name
  std::string module;     ///< "triton.language"; begins with "." if relative
  std::string name;       ///< as the file calls it ("tl"; "triton" for `import triton.language`); "*" for all
  std::string text;       ///< the user's whole statement
};
std::vector<ImportedName> imported_names(const Module& module);

/// What a fused kernel needs from its file, each in source order.
struct Needed {
  std::vector<std::string> imports;
  std::vector<const Statement*> constants;
  std::vector<const Function*> helpers;
};
/// Follows `names` through the file's helpers and constants. Throws UserError if a name comes from a module that
/// is neither Triton nor one of the few of Python's own that kernels use: the emitted file needs only Triton.
Needed find_needed(const Module& module, const Function& kernel, std::set<std::string> names);

}  // namespace syncopate
