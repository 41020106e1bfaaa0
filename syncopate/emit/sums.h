// The stores of a kernel whose output is a sum over ranks. Each gets the summands of other ranks added and stores what
// the slot of the tile order keeps, or adds to what stands there; around a tile's stores stand the waits for those
// summands and the raises of signals.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "syncopate/emit/line_editor.h"
#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

/// The columns of the tile order's rows after the index variables (KernelTables in plan/plan.h).
inline constexpr std::size_t kWaitColumns = 2;
inline constexpr std::size_t kSumColumns = 12;  ///< after those, in kernels with a reduced output

class SumEditor {
 public:
  /// Finds the stores to `parameter`. `sent`: parameters of outputs that leave as they are, after whose stores, too,
  /// the slot's signals are raised. `in_place`: summands stand where the tile stores, and memory adds; all stores are
  /// through descriptors. `extra` is by how much the tile's statements will move right. Throws UserError at a store
  /// that cannot be edited.
  SumEditor(LineEditor& editor, const TileKernel& kernel, const std::string& parameter,
            const std::vector<std::string>& sent, bool in_place, std::string extra);
  ~SumEditor();

  /// What must stand at the beginning of the tile loop's body besides what every kernel has, as lines.
  std::string loop_start(const std::string& indentation) const;
  /// Whether it will copy this piece of the kernel as it was written, for slots that add nothing.
  bool copies(ByteRange range) const;
  /// Edits the tile's stores and what computes their values, and inserts after them; before others insert there.
  void edit_stores();
  /// Inserts before those; after others have inserted there.
  void insert_waits();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace syncopate
