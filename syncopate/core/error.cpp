#include "syncopate/core/error.h"

#include <fmt/format.h>

#include <filesystem>

namespace syncopate {

std::string SourceLocation::to_string() const {
  if (line == 0) return file;
  return fmt::format("{}:{}:{}", file, line, column);
}

namespace {
std::string compose(const SourceLocation& where, const std::string& problem, const std::string& remedy) {
  std::string text = where.to_string();
  if (!text.empty()) text += ": ";
  text += problem;
  if (!remedy.empty()) text += "; " + remedy;
  return text;
}
}  // namespace

UserError::UserError(SourceLocation where, std::string problem, std::string remedy)
    : std::runtime_error(compose(where, problem, remedy)),
      where_(std::move(where)),
      problem_(std::move(problem)),
      remedy_(std::move(remedy)) {}

InternalError::InternalError(std::string_view message, std::source_location where)
    : std::logic_error(fmt::format("internal error: {} ({}:{})", message,
                                   std::filesystem::path(where.file_name()).filename().string(), where.line())) {}

}  // namespace syncopate
