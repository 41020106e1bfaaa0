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
         const std::map<std::string, std::string>& not_integers)
      : text_(text), names_(names), where_(where), not_integers_(not_integers) {}

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
    if (overflow) fail("the result does not fit in 64 bits", "use smaller sizes");
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
    if (b == 0) fail("division by zero", "a divisor that is not zero");
    if (exact && a % b != 0)
      fail(fmt::format("{} / {} leaves a remainder", a, b), "sizes that divide, or // to round down");
    return floor_quotient(a, b);
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
        value -= divide(value, divisor, false) * divisor;
      } else {
        return value;
      }
    }
  }

  std::int64_t factor() {
    skip_space();
    if (take("(")) {
      const std::int64_t value = sum();
      if (!take(")")) fail("a parenthesis is not closed", "')'");
      return value;
    }
    if (take("-")) return -factor();
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
    return -divide(-a, b, false);
  }

  std::string_view text_;
  const Names& names_;
  const SourceLocation& where_;
  const std::map<std::string, std::string>& not_integers_;
  std::size_t at_ = 0;
};

}  // namespace

std::int64_t evaluate(std::string_view text, const Names& names, const SourceLocation& where,
                      const std::map<std::string, std::string>& not_integers) {
  return Parser(text, names, where, not_integers).whole();
}

}  // namespace syncopate
