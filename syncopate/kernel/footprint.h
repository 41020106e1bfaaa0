// Which regions of which tensors each tile of a kernel reads and writes: exact, found by running the kernel over
// index ranges instead of elements. Scalars are concrete; a block of indices is an affine form of its lane numbers
// with the box of lanes that masks leave; data is unknown.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "syncopate/core/dtype.h"
#include "syncopate/core/region.h"
#include "syncopate/kernel/program.h"
#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

/// The tensor behind a pointer parameter: row-major, contiguous.
struct TensorBinding {
  std::string name;  ///< for messages
  Shape shape;
  Dtype dtype = Dtype::fp32;
};
/// By parameter name.
using TensorBindings = std::map<std::string, TensorBinding>;

/// Disjointness is not promised; each region is a box inside the tensor's shape.
struct ParameterAccess {
  std::string parameter;
  std::vector<Region> reads;
  std::vector<Region> writes;
};

/// A box that one instruction of a streamed loop reads in one iteration.
struct LoopRead {
  int instruction = 0;  ///< tells it from the loop's other instructions
  int parameter = 0;    ///< index into TileSpace::parameters
  Region region;
  friend bool operator==(const LoopRead&, const LoopRead&) = default;
};

/// What iterations 0, 1, 2, ... of a streamed loop read.
struct LoopReads {
  std::vector<std::vector<LoopRead>> iterations;
};

/// One tile's walk of a streamed loop. Tiles share records; a record may go on behind a tile's own iterations.
struct LoopFootprint {
  std::shared_ptr<const LoopReads> reads;  ///< nullptr if the tile does not come to the loop
  std::int64_t iterations = 0;
};

struct TileFootprint {
  std::vector<std::int64_t> index;        ///< values of the scheduler's index variables
  std::vector<ParameterAccess> accesses;  ///< by parameter, in the order of the function's parameters; no empty ones
  std::vector<LoopFootprint> loops;       ///< of the streamed loops; empty if they are not kept apart
};

/// All tiles of a launch.
struct TileSpace {
  std::vector<std::string> axes;        ///< the index variables
  std::vector<std::int64_t> extents;    ///< per axis: largest index + 1
  std::vector<std::string> parameters;  ///< tensor parameters
  std::vector<std::int64_t> grid;       ///< programs of the launch, per axis of its grid; {1} of a persistent kernel
  std::vector<TileFootprint> tiles;     ///< in the local kernel's own order: ascending program id / loop counter
  /// Parameters that a persistent kernel reads outside its tile loop, or in it before the tile's indices are known, and
  /// where. Such a read comes before any wait of a tile, so the tensor must be there when the kernel starts.
  std::map<std::string, SourceLocation> unguarded_reads;
  /// Parameters that are read at an address into which no index of the tile enters, and where first.
  std::map<std::string, SourceLocation> reads_past_indices;
  /// Parameters of which loaded data decide which elements a tile reads, and where: such a load counts as one of the
  /// whole tensor. Not those where data only decide whether elements that can be told are read: by a branch, or by a
  /// mask; these count as read.
  std::map<std::string, SourceLocation> reads_by_data;
  /// Parameters of which a tile writes elements more than once, the later time through a descriptor, and where.
  std::map<std::string, SourceLocation> stored_again;
  /// Where a parameter is first read, if it is.
  std::map<std::string, SourceLocation> first_reads;
  /// The parameter that only says by how many tiles a persistent program advances (NUM_SMS), or "". One program that
  /// advances by 1 walks all tiles, so the analysis takes it as 1.
  std::string step_parameter;
};

/// Analyses every tile of a launch with these arguments. For persistent kernels the tiles are those of the loop, walked
/// by one program that advances tile by tile (an argument such as NUM_SMS that says how far a program advances need
/// not be given and is ignored); what such a kernel reads before its loop counts as read by every tile. For
/// one-program-per-tile kernels the grid is the `grid` given (programs in all), or, when it is 0: programs 0, 1, 2, ...
/// until every element of every tensor written so far is written. A grid of several axes is found axis by axis from
/// program (0, 0, 0): an axis ends where a program writes nothing, what its predecessor wrote, or outside a tensor.
/// Throws UserError, at the kernel's line, if: an argument is missing or unknown; a tensor's declared shape disagrees
/// with a descriptor (one of equally many dimensions must be the tensor itself; others may be views of it); an access
/// falls outside its tensor; the address or mask of a store, whether there is one, a tile index, the end of a loop
/// or a jump out of a branch depends on data, or one of these, or the address or mask of a load, cannot be followed (an
/// index that overflows 32 bits among them); an access is not a box; two tiles write the same element; or the kernel
/// leaves part of an output unwritten. With `streams`, what streamed loops read is kept apart, iteration by iteration
/// (TileFootprint::loops), and is not among the accesses. Then UserError too if a streamed loop cannot be walked in
/// another order (streamed_loops.h).
TileSpace analyse_tiles(const TileKernel& kernel, const ScalarArguments& arguments, const TensorBindings& tensors,
                        std::int64_t grid = 0, bool streams = false);

}  // namespace syncopate
