// What the import statements of a kernel's file give names to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace syncopate {

/// `name` stands for `path`: "tl" for "triton.language", "tanh" for "triton.language.extra.libdevice.tanh".
struct ImportBinding {
  std::string name;
  std::string path;
};

/// The names that one import statement binds, in its order. `import a.b` binds "a" to "a"; `from a import *` nothing.
std::vector<ImportBinding> import_bindings(std::string_view statement);

}  // namespace syncopate
