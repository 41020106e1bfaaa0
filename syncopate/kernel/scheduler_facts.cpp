#include "syncopate/kernel/scheduler_facts.h"

#include <algorithm>
#include <array>
#include <span>

namespace syncopate {
namespace {

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Functions of Triton that pick a part of a range of numbers.
bool divides_by_name(const Expression& call) {
  constexpr std::array<std::string_view, 4> kFunctions = {"cdiv", "minimum", "maximum", "swizzle2d"};
  const std::string name = call.children[0]->dotted_name();
  return name == "min" || name == "max" || contains(kFunctions, called(call));
}

/// x.to(dtype), whatever Triton's module is called.
bool converts_to(const Expression& expression, std::string_view dtype) {
  if (called(expression) != "to") return false;
  const Expression* target = expression.children.size() > 1 ? expression.children[1].get() : nullptr;
  for (const Keyword& keyword : expression.keywords)
    if (keyword.name == "dtype") target = keyword.value.get();
  return target != nullptr && (target->text == dtype);
}

bool is_program_question(const Expression& expression) {
  const std::string_view name = called(expression);
  return name == "program_id" || name == "num_programs";
}

/// tl.program_id(0).to(tl.int64): still the id.
bool is_converted_question(const Expression& expression) {
  if (called(expression) != "to" || expression.children.size() + expression.keywords.size() != 2) return false;
  const Expression& callee = *expression.children[0];
  return callee.kind == ExpressionKind::attribute && is_program_question(*callee.children[0]) &&
         (converts_to_int64(expression) || converts_to(expression, "int32"));
}

bool divides_by_operator(const Expression& expression) {
  constexpr std::array<std::string_view, 4> kOperators = {"//", "%", ">>", "&"};
  return expression.kind == ExpressionKind::binary && contains(kOperators, expression.text);
}

void append_targets(const Expression& target, std::vector<std::string>& names) {
  if (target.kind == ExpressionKind::name && std::find(names.begin(), names.end(), target.text) == names.end())
    names.push_back(target.text);
  for (const auto& child : target.children) append_targets(*child, names);
}

void append_names(const Expression& expression, std::vector<NameRead>& names) {
  for_each_expression(expression, [&names](const Expression& each) {
    if (each.kind == ExpressionKind::name) names.push_back({each.text, each.range});
  });
}

}  // namespace

void for_each_expression(const Expression& expression, const std::function<void(const Expression&)>& visit) {
  visit(expression);
  for (const auto& child : expression.children) for_each_expression(*child, visit);
  for (const Keyword& keyword : expression.keywords) for_each_expression(*keyword.value, visit);
}

void for_each_statement(const Statement& statement, const std::function<void(const Statement&)>& visit) {
  visit(statement);
  for (const auto& child : statement.body) for_each_statement(*child, visit);
  for (const auto& child : statement.orelse) for_each_statement(*child, visit);
}

bool is_check(const Statement& statement) {
  constexpr std::array<std::string_view, 4> kChecks = {"assume", "static_assert", "device_assert", "assert"};
  return statement.kind == StatementKind::expression &&
         (statement.value->kind == ExpressionKind::string || contains(kChecks, called(*statement.value)));
}

std::vector<NameRead> names_read(const Expression& expression) {
  std::vector<NameRead> names;
  append_names(expression, names);
  return names;
}

std::vector<NameRead> own_names_read(const Statement& statement) {
  std::vector<NameRead> names;
  if (statement.kind == StatementKind::augmented_assign) append_names(*statement.targets[0], names);
  if (statement.value != nullptr) append_names(*statement.value, names);
  return names;
}

std::vector<NameRead> names_read(const Statement& statement) {
  std::vector<NameRead> names;
  for_each_statement(statement, [&names](const Statement& each) {
    const std::vector<NameRead> own = own_names_read(each);
    names.insert(names.end(), own.begin(), own.end());
  });
  return names;
}

std::vector<std::string> own_names_written(const Statement& statement) {
  std::vector<std::string> names;
  for (const auto& target : statement.targets) append_targets(*target, names);
  return names;
}

std::vector<std::string> names_written(const Statement& statement) {
  std::vector<std::string> names;
  for_each_statement(statement, [&names](const Statement& each) {
    for (const auto& target : each.targets) append_targets(*target, names);
  });
  return names;
}

std::string_view called(const Expression& expression) {
  if (expression.kind != ExpressionKind::call) return {};
  const Expression& callee = *expression.children[0];
  if (callee.kind == ExpressionKind::name || callee.kind == ExpressionKind::attribute) return callee.text;
  return {};
}

bool converts_to_int64(const Expression& expression) { return converts_to(expression, "int64"); }

bool reads_memory(const Expression& expression) {
  const std::string_view name = called(expression);
  return name == "load" || name == "gather" || name.starts_with("atomic_");
}

const HelperFacts::Facts* HelperFacts::of_call(const Expression& expression) {
  if (expression.kind != ExpressionKind::call || expression.children[0]->kind != ExpressionKind::name) return nullptr;
  const Function* function = module_.find(expression.children[0]->text);
  return function != nullptr && function->jit ? &of(*function) : nullptr;
}

const HelperFacts::Facts& HelperFacts::of(const Function& function) {
  if (const auto known = facts_.find(&function); known != facts_.end()) return known->second;
  facts_[&function] = {};  // a recursive call finds the facts of something unknown
  Facts facts;
  facts.scalar = body_is_scalar(function.body, facts);
  for (const auto& statement : function.body) facts.asks_program = facts.asks_program || asks_program(*statement);
  return facts_[&function] = facts;
}

bool HelperFacts::body_is_scalar(const std::vector<std::unique_ptr<Statement>>& body, Facts& facts) {
  const NameTest any = [](const std::string&) { return true; };
  for (const auto& statement : body) {
    const bool branches = statement->kind == StatementKind::if_;
    const bool computes = statement->kind == StatementKind::assign ||
                          statement->kind == StatementKind::augmented_assign ||
                          statement->kind == StatementKind::return_;
    if (!branches && !computes && statement->kind != StatementKind::pass && !is_check(*statement)) return false;
    if (is_check(*statement)) continue;
    if (statement->value != nullptr) {
      if (!is_scalar(*statement->value, any)) return false;
      facts.divides =
          facts.divides || divides(*statement->value, any) ||
          (statement->kind == StatementKind::augmented_assign && (statement->text == "//" || statement->text == "%"));
      const bool returns = statement->kind == StatementKind::return_;
      if (returns && (statement->value->kind == ExpressionKind::tuple || called(*statement->value) == "swizzle2d"))
        facts.returns_tuple = true;
      if (statement->kind == StatementKind::return_)
        if (const Facts* inner = of_call(*statement->value); inner != nullptr && inner->returns_tuple)
          facts.returns_tuple = true;
    }
    if (!body_is_scalar(statement->body, facts) || !body_is_scalar(statement->orelse, facts)) return false;
  }
  return true;
}

bool HelperFacts::is_scalar(const Expression& expression, const NameTest& name_is_scalar,
                            const CallTest& call_is_scalar) {
  switch (expression.kind) {
    case ExpressionKind::name:
      return name_is_scalar(expression.text);
    case ExpressionKind::integer:
    case ExpressionKind::boolean:
      return true;
    case ExpressionKind::binary:
      if (expression.text == "/" || expression.text == "@") return false;
      break;
    case ExpressionKind::tuple:
    case ExpressionKind::unary:
    case ExpressionKind::comparison:
    case ExpressionKind::logical:
    case ExpressionKind::conditional:
      break;
    case ExpressionKind::call: {
      if (is_converted_question(expression)) return true;
      const Facts* helper = of_call(expression);
      if (helper != nullptr ? helper->scalar : divides_by_name(expression) || is_program_question(expression)) break;
      return call_is_scalar && call_is_scalar(expression);
    }
    default:
      return false;
  }
  const auto first = expression.children.begin() + (expression.kind == ExpressionKind::call ? 1 : 0);
  return std::all_of(first, expression.children.end(),
                     [&](const auto& child) { return is_scalar(*child, name_is_scalar, call_is_scalar); }) &&
         std::all_of(expression.keywords.begin(), expression.keywords.end(),
                     [&](const Keyword& keyword) { return is_scalar(*keyword.value, name_is_scalar, call_is_scalar); });
}

bool HelperFacts::divides(const Expression& expression, const NameTest& is_tainted) {
  bool found = false;
  for_each_expression(expression, [&](const Expression& each) {
    if (found) return;
    const Facts* helper = of_call(each);
    const bool division = divides_by_operator(each) || (helper != nullptr && helper->divides) ||
                          (helper == nullptr && each.kind == ExpressionKind::call && divides_by_name(each));
    if (!division) return;
    found = asks_program(each);
    for (const NameRead& read : names_read(each)) found = found || is_tainted(read.name);
  });
  return found;
}

bool HelperFacts::asks_program(const Expression& expression) {
  bool found = false;
  for_each_expression(expression, [&](const Expression& each) {
    if (found) return;
    const Facts* helper = of_call(each);
    found = is_program_question(each) || (helper != nullptr && helper->asks_program);
  });
  return found;
}

bool HelperFacts::asks_program(const Statement& statement) {
  bool found = false;
  for_each_statement(
      statement, [&](const Statement& each) { found = found || (each.value != nullptr && asks_program(*each.value)); });
  return found;
}

}  // namespace syncopate
