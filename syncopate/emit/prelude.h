// The helpers at the head of every fused kernel file, as Triton source (prelude.py, embedded at build time).
#pragma once

#include <string_view>

namespace syncopate {

/// The text of prelude.py from its first @triton.jit on. Needs `triton` and `tl` in scope.
std::string_view prelude();

}  // namespace syncopate
