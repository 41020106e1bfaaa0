// A local kernel as Syncopate understands it: which statements schedule tiles, and which variables name a tile.
// The knowledge comes from the kernel's own text (common idioms) or from annotations (docs/annotations.md).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/kernel/syntax.h"

namespace syncopate {

/// How a kernel walks its tiles.
enum class SchedulerKind : std::uint8_t {
  program_per_tile,  ///< the program id is the tile; the launch grid has one program per tile
  persistent_for,    ///< for tile in range(program_id, tiles, num_programs)
  persistent_while,  ///< tile = program_id; while tile < tiles: ...; tile += num_programs
};

/// The tile scheduler: the statements that turn a program id or a loop counter into tile indices, as the analysis or
/// the annotations found them. Pointers point into the module's tree.
struct TileScheduler {
  SchedulerKind kind = SchedulerKind::program_per_tile;
  /// The variables that together name a tile, outermost first as the local kernel assigns them; everything the kernel
  /// reads or writes depends on the program id only through them.
  std::vector<std::string> index_variables;
  /// Those among them that are computed in 64 bits (tl.program_id(0).to(tl.int64)), whatever their values are.
  std::vector<std::string> wide_index_variables;
  /// Statements that exist only to compute the index variables; the emitter removes them. In source order, each with
  /// all that is inside it. Nothing that stays uses what they assign, index variables aside.
  std::vector<const Statement*> statements;
  /// The persistent loop, or nullptr for program_per_tile.
  const Statement* loop = nullptr;
  /// For persistent_while: the statement that advances the tile counter (one of `statements`).
  const Statement* advance = nullptr;
  /// The last of the statements that assign an index variable; a tile's work starts after it. It is the loop where the
  /// loop's own counter is the only index variable.
  const Statement* last_assignment = nullptr;
};

/// A loop inside a tile that walks a communicated axis (annotation (d)).
struct StreamedLoop {
  const Statement* loop = nullptr;
  std::string axis;
};

/// Immutable. Holds the module alive.
class TileKernel {
 public:
  /// Finds `function` in the module and its tile scheduler. Throws UserError if there is no such @triton.jit
  /// function, or if no scheduler can be found (the message says which annotation to add and where), or if an
  /// annotation is malformed.
  TileKernel(std::shared_ptr<const Module> module, const std::string& function);
  /// Reads, parses and analyses a kernel file.
  static TileKernel read(const std::string& path, const std::string& function);

  const Module& module() const { return *module_; }
  std::shared_ptr<const Module> shared_module() const { return module_; }
  const Function& function() const { return *function_; }
  const TileScheduler& scheduler() const { return scheduler_; }
  const std::vector<StreamedLoop>& streamed_loops() const { return streamed_loops_; }
  /// Tile sizes named by annotation: pairs of index variable and the parameter that is its size. May be empty.
  const std::vector<std::pair<std::string, std::string>>& tile_sizes() const { return tile_sizes_; }

 private:
  std::shared_ptr<const Module> module_;
  const Function* function_ = nullptr;
  TileScheduler scheduler_;
  std::vector<StreamedLoop> streamed_loops_;
  std::vector<std::pair<std::string, std::string>> tile_sizes_;
};

}  // namespace syncopate
