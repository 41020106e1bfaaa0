// The script that the child process of compile.h runs (compile_child.py, embedded at build time).
#pragma once

#include <string_view>

namespace syncopate::cuda {

std::string_view compile_child();

}  // namespace syncopate::cuda
