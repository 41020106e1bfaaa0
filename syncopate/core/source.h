// A text file a user wrote, kept whole so that any byte of it can be named in an error message.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "syncopate/core/error.h"

namespace syncopate {

/// Half-open range of byte offsets into a SourceFile's text.
struct ByteRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool contains(const ByteRange& inner) const { return begin <= inner.begin && inner.end <= end; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// Immutable text with a name. Thread-safe to read.
class SourceFile {
 public:
  /// Text that is already in memory; `name` is what error messages call it.
  SourceFile(std::string name, std::string text);

  /// Reads the file at `path`. Throws UserError if it is missing, not a regular file or unreadable.
  static std::shared_ptr<const SourceFile> read(const std::string& path);

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  std::string_view slice(ByteRange range) const;
  /// Line and column of a byte offset (offsets past the end give the end).
  SourceLocation locate(std::size_t offset) const;
  /// The whole line that holds `offset`, without its newline.
  std::string_view line_at(std::size_t offset) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<std::size_t> line_starts_;
};

}  // namespace syncopate
