// Where a tensor lives: the words that DTensor users know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "syncopate/core/region.h"

namespace syncopate {

/// shard(d): rank r holds part r of dimension d, cut as torch.chunk cuts (chunk_of). replicate: every rank holds all
/// of it. partial(sum): every rank holds a full-size summand.
struct Placement {
  enum class Kind : std::uint8_t { replicate, shard, partial_sum };
  Kind kind = Kind::replicate;
  int dimension = 0;  ///< of shard

  static Placement replicate() { return {}; }
  static Placement shard(int dimension) { return {Kind::shard, dimension}; }
  static Placement partial_sum() { return {Kind::partial_sum, 0}; }
  /// "shard(0)", "replicate", "partial(sum)".
  std::string to_string() const;
  /// Reads the forms above (spaces allowed). Nothing if it is none of them.
  static std::optional<Placement> parse(std::string_view text);
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// What `rank` of `ranks` holds of a tensor of this shape.
Region held_region(const Placement& placement, const Shape& shape, int ranks, int rank);

}  // namespace syncopate
