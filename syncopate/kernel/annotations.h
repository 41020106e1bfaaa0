// Annotations: comments that begin with `# syncopate:` and tell what the analysis of a kernel cannot see. They are
// described in docs/annotations.md.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "syncopate/kernel/syntax.h"

namespace syncopate {

/// The names of an annotation, with the place of the comment for messages.
struct AnnotatedNames {
  ByteRange range;
  std::vector<std::string> names;
};

/// What the comments inside one function say. Names are not checked against the kernel here, only their spelling.
struct Annotations {
  /// From the start of a `tile_scheduler begin` comment to that of its `tile_scheduler end`.
  std::vector<ByteRange> scheduler_blocks;
  /// `tile_index pid_m, pid_n`: at most one.
  std::vector<AnnotatedNames> tile_index;
  /// `tile_size pid_m=BLOCK_M`, each with the place of its comment.
  struct Size {
    ByteRange range;
    std::string index_variable;
    std::string parameter;
  };
  std::vector<Size> tile_sizes;
  struct Stream {
    const Statement* loop = nullptr;
    ByteRange range;
    std::string axis;
  };
  std::vector<Stream> streamed_loops;
};

/// Reads the annotations of a function. Throws UserError at a comment that is malformed, stands where it says nothing
/// (outside a function, a streamed_loop with no loop), or contradicts an earlier one.
Annotations read_annotations(const Module& module, const Function& function);

}  // namespace syncopate
