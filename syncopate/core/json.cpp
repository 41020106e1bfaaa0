#include "syncopate/core/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "syncopate/core/text.h"

namespace syncopate {

Json Json::array(std::vector<Json> items) {
  Json value;
  value.kind_ = Kind::array;
  value.items_ = std::move(items);
  return value;
}

Json Json::object(std::vector<Member> members) {
  Json value;
  value.kind_ = Kind::object;
  value.members_ = std::move(members);
  return value;
}

bool Json::boolean() const {
  check_internal(kind_ == Kind::boolean, "JSON value is not a boolean");
  return integer_ != 0;
}
std::int64_t Json::integer() const {
  check_internal(kind_ == Kind::integer, "JSON value is not an integer");
  return integer_;
}
double Json::number() const {
  check_internal(kind_ == Kind::number || kind_ == Kind::integer, "JSON value is not a number");
  return kind_ == Kind::integer ? static_cast<double>(integer_) : number_;
}
const std::string& Json::string() const {
  check_internal(kind_ == Kind::string, "JSON value is not a string");
  return string_;
}
const std::vector<Json>& Json::items() const {
  check_internal(kind_ == Kind::array, "JSON value is not an array");
  return items_;
}
const std::vector<Json::Member>& Json::members() const {
  check_internal(kind_ == Kind::object, "JSON value is not an object");
  return members_;
}
const Json* Json::find(std::string_view key) const {
  for (const Member& member : members())
    if (member.first == key) return &member.second;
  return nullptr;
}
void Json::push_back(Json item) {
  check_internal(kind_ == Kind::array, "JSON value is not an array");
  items_.push_back(std::move(item));
}
void Json::set(std::string key, Json value) {
  check_internal(kind_ == Kind::object, "JSON value is not an object");
  members_.emplace_back(std::move(key), std::move(value));
}

// ---------------------------------------------------------------------------------------------------- writing

namespace {

/// Text of a scalar, or of an array or object on one line.
void write_flat(const Json& value, std::string& out) {
  switch (value.kind()) {
    case Json::Kind::null:
      out += "null";
      return;
    case Json::Kind::boolean:
      out += value.boolean() ? "true" : "false";
      return;
    case Json::Kind::integer:
      out += fmt::format_int(value.integer()).c_str();
      return;
    case Json::Kind::number:
      out += nlohmann::json(value.number()).dump();
      return;
    case Json::Kind::string:
      out += nlohmann::json(value.string()).dump();
      return;
    case Json::Kind::array: {
      out += '[';
      const char* separator = "";
      for (const Json& item : value.items()) {
        out += separator;
        write_flat(item, out);
        separator = ", ";
      }
      out += ']';
      return;
    }
    case Json::Kind::object: {
      out += '{';
      const char* separator = "";
      for (const auto& [key, item] : value.members()) {
        out += separator;
        out += nlohmann::json(key).dump() + ": ";
        write_flat(item, out);
        separator = ", ";
      }
      out += '}';
      return;
    }
  }
}

/// Columns that write_flat() would take, or anything above `limit` once it is exceeded.
std::size_t flat_width(const Json& value, std::size_t limit) {
  std::size_t width = 2;
  if (value.kind() == Json::Kind::array) {
    for (const Json& item : value.items()) {
      width += flat_width(item, limit) + 2;
      if (width > limit) return width;
    }
  } else if (value.kind() == Json::Kind::object) {
    for (const auto& [key, item] : value.members()) {
      width += key.size() + 6 + flat_width(item, limit);
      if (width > limit) return width;
    }
  } else if (value.kind() == Json::Kind::string) {
    width += value.string().size();
  } else {
    width = 8;
  }
  return width;
}

void write_pretty(const Json& value, std::size_t indent, std::size_t width, std::string& out) {
  const bool nested = value.kind() == Json::Kind::array || value.kind() == Json::Kind::object;
  const std::size_t room = width > indent ? width - indent : 0;
  if (!nested || flat_width(value, room) <= room) return write_flat(value, out);
  const std::string pad(indent + 2, ' ');
  const bool object = value.kind() == Json::Kind::object;
  out += object ? "{\n" : "[\n";
  const char* separator = "";
  const auto start_line = [&] {
    out += separator;
    out += pad;
    separator = ",\n";
  };
  if (object) {
    for (const auto& [key, item] : value.members()) {
      start_line();
      out += nlohmann::json(key).dump() + ": ";
      write_pretty(item, indent + 2, width, out);
    }
  } else {
    for (const Json& item : value.items()) {
      start_line();
      write_pretty(item, indent + 2, width, out);
    }
  }
  out += "\n" + std::string(indent, ' ') + (object ? "}" : "]");
}

}  // namespace

std::string Json::dump(int width) const {
  std::string out;
  write_pretty(*this, 0, static_cast<std::size_t>(width), out);
  out += '\n';
  return out;
}

// ---------------------------------------------------------------------------------------------------- reading

namespace {

/// Values are copied, written and freed by recursion, whose depth must not be the file's choice.
constexpr std::size_t kMostNested = 256;

/// An input iterator that lets the handler below know how far the lexer has read.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char* begin, std::size_t* consumed)
      : at_(at), begin_(begin), consumed_(consumed) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    *consumed_ = static_cast<std::size_t>(at_ - begin_);
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return a.at_ != b.at_; }

 private:
  const char* at_;
  const char* begin_;
  std::size_t* consumed_;
};

}  // namespace

/// Handler of the JSON library's events. It knows where the previous token ended, so the start of this one is the
/// next byte that is not space or punctuation between values.
class JsonBuilder {
 public:
  JsonBuilder(const SourceFile& file, const std::size_t* consumed) : file_(file), consumed_(consumed) {}

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(std::int64_t value) { return add(Json(value)); }
  bool number_unsigned(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return add(Json(static_cast<double>(value)));
    return add(Json(static_cast<std::int64_t>(value)));
  }
  bool number_float(double value, const std::string&) { return add(Json(value)); }
  bool string(std::string& value) { return add(Json(std::move(value))); }
  bool binary(std::vector<std::uint8_t>&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() {
    seen_.pop_back();
    return close();
  }
  bool end_array() {
    seen_.pop_back();
    return close();
  }
  bool key(std::string& name) {
    const std::size_t at = token_start();
    if (!seen_.back().insert(name).second)
      throw UserError(file_.locate(at), fmt::format("key '{}' stands here a second time", name), "keep one of them");
    keys_.push_back(std::move(name));
    last_end_ = *consumed_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& failure) {
    // The library's text has the form "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error
    // while parsing value - unexpected end of input; expected ...": keep what follows the last colon of its place.
    std::string text = failure.what();
    if (const std::size_t colon = text.find(": "); colon != std::string::npos) text = text.substr(colon + 2);
    // It also repeats the token that it read last, all of it: a plan's tokens are whole kernels.
    constexpr std::size_t kMostRepeated = 40;
    const std::size_t last = text.find("; last read: '");
    if (last != std::string::npos && text.size() - last > kMostRepeated) text.resize(last);
    throw UserError(file_.locate(position == 0 ? 0 : position - 1), fmt::format("not valid JSON: {}", text),
                    "if the file was cut short, write it again");
  }

  Json take() { return std::move(root_); }

 private:
  std::size_t token_start() const {
    const std::string& text = file_.text();
    const std::size_t at = text.find_first_not_of(" \t\r\n,:", last_end_);
    return at == std::string::npos ? text.size() : at;
  }
  Json& attach(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return root_;
    }
    Json& parent = *open_.back();
    if (parent.kind_ == Json::Kind::object) {
      parent.members_.emplace_back(std::move(keys_.back()), std::move(value));
      keys_.pop_back();
      return parent.members_.back().second;
    }
    parent.items_.push_back(std::move(value));
    return parent.items_.back();
  }
  bool add(Json value) {
    const std::size_t start = token_start();
    value.set_offset(static_cast<std::uint32_t>(start));
    // A number's end is only known when the byte behind it has been read: do not count that byte.
    last_end_ = start;
    if (value.kind() == Json::Kind::string)
      last_end_ = *consumed_;
    else
      while (last_end_ < file_.text().size() &&
             std::string_view(" \t\r\n,]}").find(file_.text()[last_end_]) == std::string_view::npos)
        ++last_end_;
    attach(std::move(value));
    return true;
  }
  bool open(Json value) {
    const std::size_t start = token_start();
    if (open_.size() == kMostNested)
      throw UserError(file_.locate(start), fmt::format("arrays and objects nested more than {} deep", kMostNested),
                      "no file of Syncopate's is");
    value.set_offset(static_cast<std::uint32_t>(start));
    last_end_ = start + 1;
    open_.push_back(&attach(std::move(value)));
    seen_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    last_end_ = file_.text().find_first_of("]}", last_end_);
    last_end_ = last_end_ == std::string::npos ? file_.text().size() : last_end_ + 1;
    return true;
  }

  const SourceFile& file_;
  const std::size_t* consumed_;
  Json root_;
  // Pointers stay valid: a container only grows again after its last child has been closed.
  std::vector<Json*> open_;
  std::vector<std::string> keys_;
  std::vector<std::set<std::string>> seen_;
  std::size_t last_end_ = 0;
};

Json parse_json(const SourceFile& file) {
  check_internal(file.text().size() < UINT32_MAX, "JSON file over 4 GiB");
  std::size_t consumed = 0;
  JsonBuilder builder(file, &consumed);
  const char* begin = file.text().data();
  const char* end = begin + file.text().size();
  const bool whole = nlohmann::json::sax_parse(CountingIterator(begin, begin, &consumed),
                                               CountingIterator(end, begin, &consumed), &builder);
  check_internal(whole, "JSON parser stopped without an error");
  return builder.take();
}

// ---------------------------------------------------------------------------------------------------- JsonReader

namespace {
std::string_view kind_name(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::null:
      return "null";
    case Json::Kind::boolean:
      return "a boolean";
    case Json::Kind::integer:
      return "an integer";
    case Json::Kind::number:
      return "a number";
    case Json::Kind::string:
      return "a string";
    case Json::Kind::array:
      return "an array";
    case Json::Kind::object:
      return "an object";
  }
  return "";
}

void expect_kind(const SourceFile& file, const Json& value, Json::Kind kind, std::string_view what) {
  if (value.kind() != kind)
    throw UserError(file.locate(value.offset()), fmt::format("{} is {}", what, kind_name(value.kind())),
                    fmt::format("it must be {}", kind_name(kind)));
}
}  // namespace

std::int64_t expect_integer(const SourceFile& file, const Json& value, std::string_view what) {
  expect_kind(file, value, Json::Kind::integer, what);
  return value.integer();
}

const std::string& expect_string(const SourceFile& file, const Json& value, std::string_view what) {
  expect_kind(file, value, Json::Kind::string, what);
  return value.string();
}

const std::vector<Json>& expect_array(const SourceFile& file, const Json& value, std::string_view what) {
  expect_kind(file, value, Json::Kind::array, what);
  return value.items();
}

JsonReader::JsonReader(const SourceFile& file, const Json& value, std::string what)
    : file_(file), object_(value), what_(std::move(what)) {
  expect_kind(file, value, Json::Kind::object, what_);
}

const Json* JsonReader::optional(std::string_view key) {
  asked_.emplace_back(key);
  return object_.find(key);
}

const Json& JsonReader::required(std::string_view key) {
  const Json* value = optional(key);
  if (value == nullptr)
    throw UserError(file_.locate(object_.offset()), fmt::format("{} has no '{}'", what_, key), "add it");
  return *value;
}

std::int64_t JsonReader::integer(std::string_view key) {
  return expect_integer(file_, required(key), fmt::format("'{}' of {}", key, what_));
}

std::string JsonReader::string(std::string_view key) {
  return expect_string(file_, required(key), fmt::format("'{}' of {}", key, what_));
}

const std::vector<Json>& JsonReader::array(std::string_view key) {
  return expect_array(file_, required(key), fmt::format("'{}' of {}", key, what_));
}

void JsonReader::finish() const {
  for (const auto& [key, value] : object_.members()) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    throw UserError(file_.locate(value.offset()), fmt::format("unknown key '{}' in {}", key, what_),
                    suggest(key, asked_));
  }
}

UserError JsonReader::error(const Json& at, std::string problem, std::string remedy) const {
  return UserError(where(at), std::move(problem), std::move(remedy));
}

}  // namespace syncopate
