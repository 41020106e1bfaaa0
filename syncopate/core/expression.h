// Small integer expressions in operator files: "M", "K // ranks", "2 * cdiv(M, BLOCK_M)".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "syncopate/core/error.h"

namespace syncopate {

/// Values of names.
using Names = std::map<std::string, std::int64_t>;

/// Evaluates + - * // % (floor), / (must divide without remainder), parentheses, unary minus, cdiv, min, max over
/// 64-bit integers. Throws UserError at `where` moved right by the place in the text: syntax, unknown name (with the
/// nearest known one), division by zero or with a remainder, overflow; or a name that stands for
/// something else: `not_integers` has those, with their values as text. What the values are to blame for, not the text
/// (divisions and overflow), is reported at `values_where` instead, if that is a place.
std::int64_t evaluate(std::string_view text, const Names& names, const SourceLocation& where,
                      const std::map<std::string, std::string>& not_integers = {},
                      const SourceLocation& values_where = {});

/// The names in an expression, in their order.
std::vector<std::string> names_in(std::string_view text);

}  // namespace syncopate
