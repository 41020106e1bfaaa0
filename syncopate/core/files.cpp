#include "syncopate/core/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "syncopate/core/error.h"

namespace syncopate {

namespace fs = std::filesystem;

namespace {

/// Places in files are kept in 32 bits.
constexpr std::size_t kMostBytes = UINT32_MAX - 1;

/// The system would take such a name for the part before the zero byte.
void check_name(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    throw UserError({path.substr(0, path.find('\0'))}, "a zero byte follows in the name of this file", "remove it");
}

}  // namespace

std::string read_file(const std::string& path) {
  check_name(path);
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (status.type() == fs::file_type::not_found) throw UserError({path}, "no such file", "check the path");
  if (fs::is_directory(status)) throw UserError({path}, "is a folder", "name a file in it");
  // Through a pipe the shell hands over what a command prints; devices have no end.
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_fifo(status))
    throw UserError({path}, "is no file but a device or a socket", "name a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError({path}, fmt::format("cannot be read ({})", std::strerror(errno)), "check its permissions");
  std::string text;
  constexpr std::size_t kStep = std::size_t{1} << 20;
  for (std::size_t size = 0; in; text.resize(size)) {
    text.resize(size + kStep);
    in.read(text.data() + size, kStep);
    size += static_cast<std::size_t>(in.gcount());
    if (size > kMostBytes) throw UserError({path}, "is larger than 4 GiB", "name a text file");
  }
  if (in.bad()) throw UserError({path}, fmt::format("reading it failed ({})", std::strerror(errno)));
  return text;
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
  check_name(path);
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
