// Where a tensor lives: the words that DTensor users know, and two that only schedules need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "syncopate/core/region.h"

namespace syncopate {

/// shard(d): rank r holds part r of dimension d, cut as torch.chunk cuts (chunk_of). zigzag(d): dimension d is cut so
/// into 2 * ranks stretches, of which rank r holds two, r and 2 * ranks - 1 - r; under a causal mask over d all ranks
/// then have the same work. replicate: every rank holds all of it. partial(sum): every rank holds a full-size summand.
/// Of schedules only: shard(d)+k, in which rank r holds part
/// r - k, counted round the ranks: shard(d) after everything has moved up by k; only(r): rank r holds all, the others
/// nothing.
struct Placement {
  enum class Kind : std::uint8_t { replicate, shard, partial_sum, only, zigzag };
  Kind kind = Kind::replicate;
  int dimension = 0;  ///< of shard and zigzag
  int shift = 0;      ///< of shard: the k of shard(d)+k; may be negative
  int rank = 0;       ///< of only

  static Placement replicate() { return {}; }
  static Placement shard(int dimension, int shift = 0) { return {Kind::shard, dimension, shift, 0}; }
  static Placement zigzag(int dimension) { return {Kind::zigzag, dimension, 0, 0}; }
  static Placement partial_sum() { return {Kind::partial_sum, 0, 0, 0}; }
  static Placement only(int rank) { return {Kind::only, 0, 0, rank}; }
  /// Whether it cuts a dimension.
  bool cuts() const { return kind == Kind::shard || kind == Kind::zigzag; }
  /// "shard(0)", "zigzag(0)", "replicate", "partial(sum)", "shard(0)+1", "only(2)".
  std::string to_string() const;
  /// Reads the first four forms above, which operators and plans know (spaces allowed). Nothing if it is none of them.
  static std::optional<Placement> parse(std::string_view text);
  /// Reads all of them.
  static std::optional<Placement> parse_in_schedule(std::string_view text);
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// The boxes that `rank` of `ranks` holds of a tensor of this shape: one, or of zigzag two, in the order of the tensor.
/// Boxes may be empty.
std::vector<Region> held_regions(const Placement& placement, const Shape& shape, int ranks, int rank);
/// The one box of a placement other than zigzag.
Region held_region(const Placement& placement, const Shape& shape, int ranks, int rank);

}  // namespace syncopate
