// Small text helpers for messages and reports.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace syncopate {

/// The candidate with the smallest edit distance to `word`, if it is near enough to be what was meant
/// (distance <= max(2, length/3)); else "".
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "did you mean 'ranks'? known: name, ranks" - the remedy half of an unknown-name error.
std::string suggest(std::string_view word, std::span<const std::string> candidates);

/// "1 tile", "2 tiles".
std::string count_of(std::int64_t count, std::string_view noun);
template <typename T>
  requires std::is_integral_v<T>
std::string count_of(T count, std::string_view noun) {
  return count_of(static_cast<std::int64_t>(count), noun);
}

/// "1.50 MiB", "512 B".
std::string format_bytes(std::int64_t bytes);

/// 128-bit content hash (XXH3) as 32 hexadecimal digits. Detects accidental change; not for adversaries.
std::string content_hash(std::string_view text);

}  // namespace syncopate
