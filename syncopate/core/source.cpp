#include "syncopate/core/source.h"

#include <algorithm>

#include "syncopate/core/files.h"

namespace syncopate {

SourceFile::SourceFile(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  line_starts_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i)
    if (text_[i] == '\n') line_starts_.push_back(i + 1);
}

std::shared_ptr<const SourceFile> SourceFile::read(const std::string& path) {
  return std::make_shared<const SourceFile>(path, read_file(path));
}

std::string_view SourceFile::slice(ByteRange range) const {
  check_internal(range.begin <= range.end && range.end <= text_.size(), "byte range outside the file");
  return std::string_view(text_).substr(range.begin, range.end - range.begin);
}

SourceLocation SourceFile::locate(std::size_t offset) const {
  offset = std::min(offset, text_.size());
  const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  const auto line = static_cast<std::size_t>(next - line_starts_.begin());
  return {name_, static_cast<int>(line), static_cast<int>(offset - line_starts_[line - 1]) + 1};
}

std::string_view SourceFile::line_at(std::size_t offset) const {
  const std::size_t begin = line_starts_[static_cast<std::size_t>(locate(offset).line) - 1];
  const std::size_t end = std::min(text_.find('\n', begin), text_.size());
  return std::string_view(text_).substr(begin, end - begin);
}

}  // namespace syncopate
