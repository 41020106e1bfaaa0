// The helpers at the head of every fused kernel file, as Triton source (prelude.py and
// producer.py and dynamic.py, embedded at build time).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace syncopate {

/// The text of prelude.py from its first @triton.jit on. Needs `triton` and `tl` in scope.
std::string_view prelude();

/// Those functions of the other files that `text` uses, and that these use, in their order; each ends in a newline.
std::vector<std::string> helpers_in(std::string_view text);

}  // namespace syncopate
