// Where a tensor lives: the words that DTensor users know, and two that only schedules need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "syncopate/core/region.h"

namespace syncopate {

/// shard(d): rank r holds part r of dimension d, cut as torch.chunk cuts (chunk_of). replicate: every rank holds all
/// of it. partial(sum): every rank holds a full-size summand. Of schedules only: shard(d)+k, in which rank r holds part
/// r - k, counted round the ranks: shard(d) after everything has moved up by k; only(r): rank r holds all, the others
/// nothing.
struct Placement {
  enum class Kind : std::uint8_t { replicate, shard, partial_sum, only };
  Kind kind = Kind::replicate;
  int dimension = 0;  ///< of shard
  int shift = 0;      ///< of shard: the k of shard(d)+k; may be negative
  int rank = 0;       ///< of only

  static Placement replicate() { return {}; }
  static Placement shard(int dimension, int shift = 0) { return {Kind::shard, dimension, shift, 0}; }
  static Placement partial_sum() { return {Kind::partial_sum, 0, 0, 0}; }
  static Placement only(int rank) { return {Kind::only, 0, 0, rank}; }
  /// "shard(0)", "replicate", "partial(sum)", "shard(0)+1", "only(2)".
  std::string to_string() const;
  /// Reads the first three forms above, which operators and plans know (spaces allowed). Nothing if it is none of them.
  static std::optional<Placement> parse(std::string_view text);
  /// Reads all of them.
  static std::optional<Placement> parse_in_schedule(std::string_view text);
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// What `rank` of `ranks` holds of a tensor of this shape.
Region held_region(const Placement& placement, const Shape& shape, int ranks, int rank);

}  // namespace syncopate
