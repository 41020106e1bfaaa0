// An operator file as a tree of settings that know where they stand; TOML stays behind this header. Overrides are laid
// over the tree before anything is interpreted, so --set can change, or add, any value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "syncopate/core/error.h"
#include "syncopate/plan/operator.h"

namespace syncopate {

struct Setting {
  enum class Kind : std::uint8_t { integer, number, boolean, string, array, table };
  Kind kind = Kind::table;
  SourceLocation where;      ///< of the value
  SourceLocation key_where;  ///< of its key; unset for array items
  std::int64_t integer = 0;
  double number = 0;
  bool boolean = false;
  std::string string;
  std::vector<Setting> items;
  std::vector<std::pair<std::string, Setting>> members;  ///< in the order of the file

  Setting* find(std::string_view key);
  const Setting* find(std::string_view key) const { return const_cast<Setting*>(this)->find(key); }
};

/// Parses the TOML file at `path` and lays the overrides over it. Throws UserError for syntax.
Setting read_settings(const std::string& path, const std::vector<Override>& overrides);

/// Reads the members of one table and complains about those nobody asked for.
class SettingsReader {
 public:
  /// `what` names the table in messages, e.g. "[kernel]". Throws UserError if `table` is not a table.
  SettingsReader(const Setting& table, std::string what);

  const Setting* optional(std::string_view key);
  /// Throws UserError if it is missing; `example` shows what to write.
  const Setting& required(std::string_view key, std::string_view example);
  std::string string(std::string_view key, std::string_view example);
  /// Throws UserError for the first unknown key, naming the nearest known one.
  void finish() const;
  const SourceLocation& where() const { return table_.where; }

 private:
  const Setting& table_;
  std::string what_;
  std::vector<std::string> asked_;
};

/// The value of a setting of that type, or a UserError at its place that calls it `what`.
std::int64_t integer_of(const Setting& setting, std::string_view what);
std::string string_of(const Setting& setting, std::string_view what);

}  // namespace syncopate
