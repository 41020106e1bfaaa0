// The two kinds of failure. A UserError is something the user can mend (a bad file, a kernel we do not
// support, a schedule that does not gather); it says what is wrong, where, and what would be right. An
// InternalError is a defect of Syncopate itself. Tests tell them apart by type.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace syncopate {

/// A place in a file a user wrote. Lines and columns count from 1; columns count bytes. line 0 means that only
/// the file is known; an empty file means that the place is not in a file at all (e.g. a command-line option).
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;

  /// "file:line:column", "file" or "" depending on what is known.
  std::string to_string() const;
  friend bool operator==(const SourceLocation&, const SourceLocation&) = default;
};

/// A mistake in something the user supplied. what() is "file:line:column: what is wrong; what would be right".
class UserError : public std::runtime_error {
 public:
  /// `problem` says what is wrong; `remedy` what would be right (may be empty when the problem says it).
  UserError(SourceLocation where, std::string problem, std::string remedy = {});

  const SourceLocation& where() const { return where_; }
  const std::string& problem() const { return problem_; }
  const std::string& remedy() const { return remedy_; }

 private:
  SourceLocation where_;
  std::string problem_;
  std::string remedy_;
};

/// A broken promise inside Syncopate; never the user's fault.
class InternalError : public std::logic_error {
 public:
  explicit InternalError(std::string_view message, std::source_location where = std::source_location::current());
};

/// Throws InternalError with `message` unless `condition` holds.
inline void check_internal(bool condition, std::string_view message,
                           std::source_location where = std::source_location::current()) {
  if (!condition) throw InternalError(message, where);
}

}  // namespace syncopate
