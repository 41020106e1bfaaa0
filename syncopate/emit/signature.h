// The parameter list of a fused kernel.
#pragma once

#include <cstddef>

#include "syncopate/emit/line_editor.h"
#include "syncopate/kernel/syntax.h"

namespace syncopate {

/// Which parameters a fused kernel has besides those of all.
struct RuntimeNeeds {
  bool takes = false;      ///< those of kernels of a dynamic order
  bool streams = false;    ///< that of kernels with streamed loops
  bool raises = false;     ///< those of kernels that raise signals
  bool addends = false;    ///< those of kernels that add what lies elsewhere, which raise signals, too
  bool additions = false;  ///< those of kernels with a one-shot sum, which raise signals, too
};

/// Appends the parameters of kernel/runtime_names.h to the function's own, laid out as the user laid out theirs.
/// `shift` is by how many columns a longer name moves what stands behind it. Throws UserError if the function has no
/// parameters.
void append_runtime_parameters(LineEditor& editor, const Module& module, const Function& function, std::size_t shift,
                               const RuntimeNeeds& needs);

}  // namespace syncopate
