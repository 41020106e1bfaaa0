// Which statements of a kernel store to one of its tensors, and which load from one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "syncopate/kernel/syntax.h"

namespace syncopate {

/// One call that stores to a tensor, wherever it stands.
struct Store {
  ByteRange range;             ///< of the call; inside a helper, of the helper's text
  bool descriptor = false;     ///< through a tensor descriptor of the parameter itself; else through pointers
  bool block_pointer = false;  ///< through a block pointer into it
  int dimensions = 0;          ///< of the descriptor
};

/// The stores to what `parameter` points to, by source order; from the kernel's text alone, for any arguments. Throws
/// UserError at a store that may go there or elsewhere, and at other ways to write there.
std::vector<Store> find_stores(std::shared_ptr<const Module> module, const Function& kernel,
                               const std::string& parameter);

/// One call that loads from a tensor, wherever it stands.
struct Load {
  ByteRange range;             ///< of the call; inside a helper, of the helper's text
  bool descriptor = false;     ///< through a tensor descriptor; else through pointers
  bool block_pointer = false;  ///< through a block pointer into it
  friend bool operator==(const Load&, const Load&) = default;
};

/// The loads from what `parameter` points to, as find_stores() finds stores, each once. Throws UserError at a load that
/// may be from there or from elsewhere, and at atomics.
std::vector<Load> find_loads(std::shared_ptr<const Module> module, const Function& kernel,
                             const std::string& parameter);

}  // namespace syncopate
