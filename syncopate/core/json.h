// JSON with places: every value knows where in the file it stands, so that an error about its meaning can point
// at it. The reader and the writer are the only users of the JSON library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "syncopate/core/source.h"

namespace syncopate {

/// A JSON value. Objects keep the order of their members. Numbers are 64-bit integers or doubles.
class Json {
 public:
  enum class Kind : std::uint8_t { null, boolean, integer, number, string, array, object };
  using Member = std::pair<std::string, Json>;

  Json() = default;
  Json(bool value) : kind_(Kind::boolean), integer_(value) {}                  // NOLINT: values convert
  Json(int value) : kind_(Kind::integer), integer_(value) {}                   // NOLINT
  Json(std::int64_t value) : kind_(Kind::integer), integer_(value) {}          // NOLINT
  Json(double value) : kind_(Kind::number), number_(value) {}                  // NOLINT
  Json(std::string value) : kind_(Kind::string), string_(std::move(value)) {}  // NOLINT
  Json(const char* value) : kind_(Kind::string), string_(value) {}             // NOLINT
  static Json array(std::vector<Json> items = {});
  static Json object(std::vector<Member> members = {});

  Kind kind() const { return kind_; }
  /// Byte offset in the file this value was read from; 0 for values made in memory.
  std::uint32_t offset() const { return offset_; }
  void set_offset(std::uint32_t offset) { offset_ = offset; }

  bool boolean() const;
  std::int64_t integer() const;
  double number() const;  ///< integers convert
  const std::string& string() const;
  const std::vector<Json>& items() const;
  const std::vector<Member>& members() const;
  /// The member of that name, or nullptr.
  const Json* find(std::string_view key) const;

  void push_back(Json item);
  void set(std::string key, Json value);  ///< appends; the caller does not repeat keys

  /// Deterministic text. Arrays and objects that fit on a line of `width` columns stay on one.
  std::string dump(int width = 120) const;

 private:
  friend class JsonBuilder;
  Kind kind_ = Kind::null;
  std::uint32_t offset_ = 0;
  std::int64_t integer_ = 0;
  double number_ = 0;
  std::string string_;
  std::vector<Json> items_;
  std::vector<Member> members_;
};

/// Parses a whole file. Throws UserError at the exact place of a syntax error or a repeated key.
Json parse_json(const SourceFile& file);

/// Typed access with errors that name the place: reads the members of one object and complains about the ones
/// nobody asked for. Usage: JsonReader r(file, json, "transfer"); r.integer("rank"); ...; r.finish();
class JsonReader {
 public:
  /// `what` names the object in messages. Throws UserError if `value` is not an object.
  JsonReader(const SourceFile& file, const Json& value, std::string what);

  const Json& required(std::string_view key);  ///< throws UserError at the object if it is missing
  const Json* optional(std::string_view key);
  std::int64_t integer(std::string_view key);
  std::string string(std::string_view key);
  const std::vector<Json>& array(std::string_view key);
  /// Throws UserError for the first unknown member, naming the nearest known one.
  void finish() const;
  /// An error at a value of this file.
  UserError error(const Json& at, std::string problem, std::string remedy = {}) const;
  SourceLocation where(const Json& at) const { return file_.locate(at.offset()); }

 private:
  const SourceFile& file_;
  const Json& object_;
  std::string what_;
  std::vector<std::string> asked_;
};

/// The integer / string / array in `value`, or a UserError at its place that calls it `what`.
std::int64_t expect_integer(const SourceFile& file, const Json& value, std::string_view what);
const std::string& expect_string(const SourceFile& file, const Json& value, std::string_view what);
const std::vector<Json>& expect_array(const SourceFile& file, const Json& value, std::string_view what);

}  // namespace syncopate
