#include "syncopate/core/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "syncopate/core/error.h"

namespace syncopate {

namespace fs = std::filesystem;

std::string read_file(const std::string& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (status.type() == fs::file_type::not_found) throw UserError({path}, "no such file", "check the path");
  if (fs::is_directory(status)) throw UserError({path}, "is a folder", "name a file in it");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError({path}, fmt::format("cannot be read ({})", std::strerror(errno)), "check its permissions");
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) throw UserError({path}, fmt::format("reading it failed ({})", std::strerror(errno)));
  return std::move(text).str();
}

namespace {

/// Beside its target, and nobody else's: threads may write the same file at once, and so may processes that have the
/// same number, each in a container of its own.
std::string temporary_name(const std::string& path) {
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  return fmt::format("{}.{}.{:016x}.partial", path, ::getpid(), number);
}

}  // namespace

FileTransaction::~FileTransaction() {
  for (const Pending& file : pending_) {
    std::error_code ignored;
    fs::remove(file.temporary, ignored);
  }
}

void FileTransaction::write(const std::string& path, std::string_view text) {
  const fs::path target(path);
  std::error_code code;
  if (fs::is_directory(target, code)) throw UserError({path}, "is a folder", "a file must be written there");
  code.clear();  // a target that is not there yet is no failure
  if (target.has_parent_path()) fs::create_directories(target.parent_path(), code);
  if (code)
    throw UserError({path}, fmt::format("its folder cannot be made ({})", code.message()), "choose another --out");
  const std::string temporary = temporary_name(path);
  pending_.push_back({temporary, path});
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out)
    throw UserError({path}, fmt::format("cannot be written ({})", std::strerror(errno)), "choose another folder");
}

void FileTransaction::commit() {
  for (const Pending& file : pending_) {
    std::error_code code;
    fs::rename(file.temporary, file.target, code);
    if (code) throw UserError({file.target}, fmt::format("cannot be written ({})", code.message()));
  }
  pending_.clear();
}

}  // namespace syncopate
