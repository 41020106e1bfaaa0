#include "syncopate/core/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "syncopate/core/text.h"

namespace syncopate {

namespace {

/// Recursive descent over  sum = product {(+|-) product};  product = factor {(*|//|/|%) factor}.
class Parser {
 public:
  Parser(std::string_view text, const Names& names, const SourceLocation& where,
         const std::map<std::string, std::string>& not_integers, const SourceLocation& values_where)
      : text_(text), names_(names), where_(where), not_integers_(not_integers), values_where_(values_where) {}

  std::int64_t whole() {
    const std::int64_t value = sum();
    skip_space();
    if (at_ < text_.size()) fail(fmt::format("'{}' does not belong here", text_[at_]), "an operator or the end");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const {
    SourceLocation place = where_;
    if (place.line > 0) place.column += static_cast<int>(at_);
    throw UserError(place, fmt::format("in the expression '{}': {}", text_, problem), remedy);
  }

  [[noreturn]] void fail_of_values(const std::string& problem, const std::string& remedy) const {
    if (values_where_.file.empty()) fail(problem, remedy);
    throw UserError(values_where_, fmt::format("in the expression '{}': {}", text_, problem), remedy);
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  bool take(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  /// By reference: the caller computes `overflow` and `value` in one call, in an order C++ does not fix.
  std::int64_t checked(bool overflow, const std::int64_t& value) const {
    if (overflow) fail_of_values("the result does not fit in 64 bits", "use smaller sizes");
    return value;
  }

  std::int64_t sum() {
    std::int64_t value = product();
    for (;;) {
      std::int64_t result = 0;
      if (take("+")) {
        value = checked(__builtin_add_overflow(value, product(), &result), result);
      } else if (take("-")) {
        value = checked(__builtin_sub_overflow(value, product(), &result), result);
      } else {
        return value;
      }
    }
  }

  std::int64_t divide(std::int64_t a, std::int64_t b, bool exact) const {
    if (b == 0) fail_of_values("division by zero", "a divisor that is not zero");
    if (b == -1) return negated(a);
    if (exact && a % b != 0)
      fail_of_values(fmt::format("{} / {} leaves a remainder", a, b), "sizes that divide, or // to round down");
    return floor_quotient(a, b);
  }

  std::int64_t negated(std::int64_t a) const {
    std::int64_t result = 0;
    return checked(__builtin_sub_overflow(std::int64_t{0}, a, &result), result);
  }

  static std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
    const std::int64_t quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
  }

  std::int64_t product() {
    std::int64_t value = factor();
    for (;;) {
      std::int64_t result = 0;
      if (take("*")) {
        value = checked(__builtin_mul_overflow(value, factor(), &result), result);
      } else if (take("//")) {
        value = divide(value, factor(), false);
      } else if (take("/")) {
        value = divide(value, factor(), true);
      } else if (take("%")) {
        const std::int64_t divisor = factor();
        value = divisor == -1 ? 0 : value - divide(value, divisor, false) * divisor;
      } else {
        return value;
      }
    }
  }

  /// Calls itself for what is nested, by the file's choice: not too deep.
  std::int64_t factor() {
    constexpr int kMostNested = 100;
    if (depth_ == kMostNested) fail(fmt::format("nested more than {} deep", kMostNested), "a simpler expression");
    ++depth_;
    const std::int64_t value = unnested_factor();
    --depth_;
    return value;
  }

  std::int64_t unnested_factor() {
    skip_space();
    if (take("(")) {
      const std::int64_t value = sum();
      if (!take(")")) fail("a parenthesis is not closed", "')'");
      return value;
    }
    if (take("-")) return negated(factor());
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return number();
    return name();
  }

  std::int64_t number() {
    std::int64_t value = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0; ++at_) {
      std::int64_t scaled = 0;
      const bool overflow = __builtin_mul_overflow(value, std::int64_t{10}, &scaled);
      value = checked(overflow || __builtin_add_overflow(scaled, text_[at_] - '0', &scaled), scaled);
    }
    return value;
  }

  std::int64_t name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    if (begin == at_) fail("a number or a name is missing", "for example 'M // ranks'");
    const std::string word(text_.substr(begin, at_ - begin));
    if (word == "cdiv" || word == "min" || word == "max") return call(word);
    const auto known = names_.find(word);
    if (known != names_.end()) return known->second;
    at_ = begin;
    if (const auto other = not_integers_.find(word); other != not_integers_.end())
      fail(fmt::format("'{}' is {}, not an integer", word, other->second), "sizes are integers");
    std::vector<std::string> candidates;
    for (const auto& [key, value] : names_) candidates.push_back(key);
    fail(fmt::format("unknown name '{}'", word), suggest(word, candidates));
  }

  std::int64_t call(const std::string& function) {
    if (!take("(")) fail(fmt::format("'{}' is a function", function), fmt::format("{}(a, b)", function));
    const std::int64_t a = sum();
    if (!take(",")) fail(fmt::format("'{}' takes two arguments", function), fmt::format("{}(a, b)", function));
    const std::int64_t b = sum();
    if (!take(")")) fail("a parenthesis is not closed", "')'");
    if (function == "min") return std::min(a, b);
    if (function == "max") return std::max(a, b);
    return negated(divide(negated(a), b, false));
  }

  std::string_view text_;
  const Names& names_;
  const SourceLocation& where_;
  const std::map<std::string, std::string>& not_integers_;
  const SourceLocation& values_where_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

std::int64_t evaluate(std::string_view text, const Names& names, const SourceLocation& where,
                      const std::map<std::string, std::string>& not_integers, const SourceLocation& values_where) {
  return Parser(text, names, where, not_integers, values_where).whole();
}

std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    while (at < text.size() && is_of_name(text[at])) ++at;
    if (at > begin && std::isdigit(static_cast<unsigned char>(text[begin])) == 0)
      names.emplace_back(text.substr(begin, at - begin));
    if (at == begin) ++at;
  }
  return names;
}

}  // namespace syncopate
