// Readable Triton source of a fused kernel: the user's file, edited in place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

struct FusedSource {
  std::string text;      ///< a whole Python file that needs only Triton
  std::string function;  ///< the fused kernel's name
};

/// An input that is summed where it is loaded (Plan, "Summed inputs").
struct SummedInput {
  std::string parameter;
  std::int64_t summands = 1;
  std::int64_t distance = 0;  ///< elements from one summand to the next
};

/// An input that stands in the memory of a part of it (Plan, "Folded buffers").
struct FoldedInput {
  std::string parameter;
  int dimension = 0;
  std::int64_t extent = 1;            ///< of memory along that dimension
  std::vector<std::int64_t> strides;  ///< of memory, in elements
};

/// A one-shot sum (Plan, "One-shot sums"), which programs add up when they have taken their tiles.
struct AddedOutput {
  std::string parameter;  ///< where tiles store the rank's own summand
  int ranks = 2;
  /// Of elements: the distance from one summand to the next, and where additions begin and end, are multiples of it. No
  /// more than 16 bytes.
  std::int64_t multiple = 1;
};

struct WalkOptions {
  /// Whether slots wait, before their tile has read everything, for their own launch. With outputs that leave, too, a
  /// tile may wait for what other ranks make of an earlier tile of the same worker; so the tile loop loses those of the
  /// user's options with which Triton begins a tile before the one before it is stored.
  bool tiles_wait = false;
  /// Whether tiles walk the streamed loops of the kernel piece by piece.
  bool streams = false;
  /// Parameters of outputs that are sent to other ranks as they are. Once a tile has stored them the slot's signals are
  /// raised.
  std::vector<std::string> sent = {};
  /// Whether sums are in place (Buffer::sums_in_place): the text then has no addends, nor does it cut tiles.
  bool sums_in_place = false;
  std::vector<SummedInput> summed = {};
  std::vector<FoldedInput> folded = {};
  /// With folded inputs: parameters of outputs that no other rank has to do with. Once a tile has stored them, too, the
  /// slot's signals are raised, which say that it has read.
  std::vector<std::string> kept = {};
  /// Whether workers choose among the slots (Plan, "Dynamic order") instead of walking the tile order. The tile loop
  /// then becomes a `while`, and loses the user's options.
  bool dynamic = false;
  std::optional<AddedOutput> added = {};  ///< its parameter is one of `sent`
};

/// Replaces the kernel's tile scheduler by a walk over the rank's tile order with a wait for every chunk a tile needs.
/// The text does not depend on rank, schedule or sizes: those are tables that it reads; but for how many summands of an
/// input there are and how far apart, which loads need as constants to be as wide as the user's, for the memory of
/// folded inputs, and for how many ranks a one-shot sum has, and how wide its loads may be. Its parameters are the
/// local kernel's, then those of kernel/runtime_names.h. Deterministic. Throws UserError where the kernel cannot be
/// edited so.
///
/// If `reduced_parameter` is not "", what the kernel stores to that tensor is summed over ranks (Plan, "Sums"): stores
/// add what other ranks have sent, keep a part of the tile if the slot does so, and raise the slot's signals. Chunks of
/// a tensor that is stored through a descriptor must be whole rows.
FusedSource emit_fused(const TileKernel& kernel, const std::string& reduced_parameter = "",
                       const WalkOptions& options = {});

}  // namespace syncopate
