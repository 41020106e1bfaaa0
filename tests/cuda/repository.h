// Operator files of the tree, also where the test binary was carried to another machine and runs in a copy of it.
#pragma once

#include <filesystem>
#include <string>

namespace syncopate::testing {

inline std::string operator_file(const std::string& name) {
  const std::filesystem::path here = std::filesystem::current_path();
  const std::filesystem::path root = std::filesystem::exists(here / "operators") ? here : SYNCOPATE_SOURCE_DIR;
  return (root / "operators" / name).string();
}

}  // namespace syncopate::testing
