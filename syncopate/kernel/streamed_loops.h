// Streamed loops: loops inside a tile whose iterations may run in another order than the one the kernel is written in,
// because they only accumulate (annotation streamed_loop, docs/annotations.md).
#pragma once

#include <memory>
#include <vector>

#include "syncopate/kernel/program_internal.h"
#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

/// Throws UserError at the first of the kernel's annotated loops that cannot be walked in another order by giving it
/// other bounds: one that is no `for` over range or tl.range, that stands in another loop of the tile, that can be left
/// early, whose variable is used outside of it, or whose start or step its body changes.
void check_streamed_loops(const TileKernel& kernel);

/// A streamed loop in a lowered kernel.
struct LoweredLoop {
  const Instruction* begin = nullptr;  ///< range_begin; the range_test follows it
  const Instruction* test = nullptr;
  const Instruction* next = nullptr;  ///< range_next; between the two is the body
  /// What is set before the loop and decides which elements its iterations touch.
  std::vector<Register> inputs;
  /// What an iteration finds as the one before it left it. None of it decides which elements are touched.
  std::vector<Register> carried;

  bool holds(const Instruction& instruction) const { return &instruction > test && &instruction < next; }
};

/// The loops in their order. Throws UserError at what decides which elements are touched although it is left by an
/// earlier iteration, as an advancing pointer is: another order would touch others.
std::vector<LoweredLoop> find_streamed_loops(const Program& program, const std::vector<StreamedLoop>& loops);

}  // namespace syncopate
