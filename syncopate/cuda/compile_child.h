// The script that the child process of compile.h runs, and a module of it (the files of these names, embedded at build
// time).
#pragma once

#include <string_view>

namespace syncopate::cuda {

std::string_view compile_child_py();
std::string_view hoist_py();

}  // namespace syncopate::cuda
