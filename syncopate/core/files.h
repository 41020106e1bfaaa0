// Files in and out. Outputs appear whole or not at all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace syncopate {

/// The bytes of a file. Throws UserError (location: the file) if it is missing, a directory, a device, unreadable or
/// larger than 4 GiB.
std::string read_file(const std::string& path);

/// A set of files written together: each goes to a temporary name beside its target; commit() renames all of them
/// into place. Any number of threads and processes may write the same file so: each name keeps the text of one of them.
/// Destroyed without commit() (an exception, Ctrl-C turned into one), it removes what it wrote.
class FileTransaction {
 public:
  FileTransaction() = default;
  FileTransaction(const FileTransaction&) = delete;
  FileTransaction& operator=(const FileTransaction&) = delete;
  ~FileTransaction();

  /// Writes `text` for `path`, creating missing parent folders. Throws UserError if that is not possible.
  void write(const std::string& path, std::string_view text);
  /// Makes every file written so far visible under its name.
  void commit();

 private:
  struct Pending {
    std::string temporary;
    std::string target;
  };
  std::vector<Pending> pending_;
};

}  // namespace syncopate
