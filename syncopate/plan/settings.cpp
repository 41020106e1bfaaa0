#include "syncopate/plan/settings.h"

#include <fmt/format.h>

#include <algorithm>
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "syncopate/core/source.h"
#include "syncopate/core/text.h"

namespace syncopate {

Setting* Setting::find(std::string_view key) {
  for (auto& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

namespace {

/// Where things are: in the file, or, for an override, the override itself.
class Places {
 public:
  explicit Places(std::string file, bool positions) : file_(std::move(file)), positions_(positions) {}
  SourceLocation at(const toml::source_region& region) const {
    if (!positions_) return {file_};
    return {file_, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
  }

 private:
  std::string file_;
  bool positions_;
};

bool before(const SourceLocation& a, const SourceLocation& b) {
  return std::pair(a.line, a.column) < std::pair(b.line, b.column);
}

Setting convert(const toml::node& node, const Places& places) {
  Setting setting;
  setting.where = places.at(node.source());
  if (const auto* integer = node.as_integer()) {
    setting.kind = Setting::Kind::integer;
    setting.integer = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    setting.kind = Setting::Kind::number;
    setting.number = number->get();
  } else if (const auto* boolean = node.as_boolean()) {
    setting.kind = Setting::Kind::boolean;
    setting.boolean = boolean->get();
  } else if (const auto* text = node.as_string()) {
    setting.kind = Setting::Kind::string;
    setting.string = text->get();
  } else if (const auto* array = node.as_array()) {
    setting.kind = Setting::Kind::array;
    for (const toml::node& item : *array) setting.items.push_back(convert(item, places));
  } else if (const auto* table = node.as_table()) {
    for (const auto& [key, value] : *table) {
      Setting member = convert(value, places);
      member.key_where = places.at(key.source());
      setting.members.emplace_back(std::string(key.str()), std::move(member));
    }
    // The TOML library sorts keys by name; people order them on purpose.
    std::stable_sort(setting.members.begin(), setting.members.end(),
                     [](const auto& a, const auto& b) { return before(a.second.key_where, b.second.key_where); });
  } else {
    throw UserError(setting.where, "dates and times mean nothing here", "a number, a string, a list or a table");
  }
  return setting;
}

toml::table parse_toml(const std::string& text, const std::string& name, bool positions) {
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    throw UserError(Places(name, positions).at(error.source()), fmt::format("not valid TOML: {}", error.description()));
  }
}

bool is_digits(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos && !text.starts_with('0');
}

/// The value of `--set key=value`: TOML, or a bare word taken as a string.
Setting override_value(const Override& override, const std::string& name) {
  const Places places(name, false);
  try {
    return convert(*toml::parse("value = " + override.value, name).get("value"), places);
  } catch (const toml::parse_error&) {
    if (is_digits(override.value)) throw UserError({name}, "this does not fit in 64 bits", "a number below 2^63");
    Setting setting;
    setting.kind = Setting::Kind::string;
    setting.where = {name};
    setting.string = override.value;
    return setting;
  }
}

void apply(Setting& root, const Override& override) {
  const std::string name = fmt::format("--set {}={}", override.key, override.value);
  Setting* table = &root;
  std::string_view rest = override.key;
  for (;;) {
    const std::size_t dot = rest.find('.');
    const std::string key(rest.substr(0, dot));
    if (key.empty()) throw UserError({name}, "the key has an empty part", "write --set table.key=value");
    if (table->kind != Setting::Kind::table)
      throw UserError({name}, fmt::format("'{}' is below a value, not below a table", key),
                      "name a key that the operator file could hold");
    Setting* member = table->find(key);
    if (member == nullptr) {
      Setting added;
      added.where = {name};
      added.key_where = {name};
      table->members.emplace_back(key, std::move(added));
      member = &table->members.back().second;
    }
    if (dot == std::string_view::npos) {
      *member = override_value(override, name);
      member->key_where = {name};
      return;
    }
    table = member;
    rest = rest.substr(dot + 1);
  }
}

std::string_view kind_name(Setting::Kind kind) {
  switch (kind) {
    case Setting::Kind::integer:
      return "an integer";
    case Setting::Kind::number:
      return "a number with a fraction";
    case Setting::Kind::boolean:
      return "a boolean";
    case Setting::Kind::string:
      return "a string";
    case Setting::Kind::array:
      return "a list";
    case Setting::Kind::table:
      return "a table";
  }
  return "";
}

void expect_kind(const Setting& setting, Setting::Kind kind, std::string_view what) {
  if (setting.kind != kind)
    throw UserError(setting.where, fmt::format("{} is {}", what, kind_name(setting.kind)),
                    fmt::format("it must be {}", kind_name(kind)));
}

}  // namespace

Setting read_settings(const std::string& path, const std::vector<Override>& overrides) {
  const auto file = SourceFile::read(path);
  Setting root = convert(parse_toml(file->text(), path, true), Places(path, true));
  root.where = {path, 1, 1};
  for (const Override& override : overrides) apply(root, override);
  return root;
}

SettingsReader::SettingsReader(const Setting& table, std::string what) : table_(table), what_(std::move(what)) {
  expect_kind(table, Setting::Kind::table, what_);
}

const Setting* SettingsReader::optional(std::string_view key) {
  asked_.emplace_back(key);
  return table_.find(key);
}

const Setting& SettingsReader::required(std::string_view key, std::string_view example) {
  const Setting* setting = optional(key);
  if (setting == nullptr)
    throw UserError(table_.where, fmt::format("{} has no '{}'", what_, key), fmt::format("add {}", example));
  return *setting;
}

std::string SettingsReader::string(std::string_view key, std::string_view example) {
  return string_of(required(key, example), fmt::format("'{}' of {}", key, what_));
}

void SettingsReader::finish() const {
  for (const auto& [key, value] : table_.members) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    throw UserError(value.key_where, fmt::format("unknown key '{}' in {}", key, what_), suggest(key, asked_));
  }
}

std::int64_t integer_of(const Setting& setting, std::string_view what) {
  expect_kind(setting, Setting::Kind::integer, what);
  return setting.integer;
}

std::string string_of(const Setting& setting, std::string_view what) {
  expect_kind(setting, Setting::Kind::string, what);
  return setting.string;
}

}  // namespace syncopate
