// Blocks of integers and of booleans as functions of their lane numbers. A block that a kernel computes from
// tl.arange is base + sum over dimensions of slope * lane; `% n` and `// n` bend such a line at known lanes. These
// forms stand for all elements of a block at once, so that a footprint costs the same for any tile size.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "syncopate/kernel/program_internal.h"

namespace syncopate {

/// The most dimensions of a block.
inline constexpr int kMaxLaneDimensions = 5;

/// The shape of a block. A scalar has rank 0.
struct LaneShape {
  std::int32_t rank = 0;
  std::array<std::int32_t, kMaxLaneDimensions> extent{};

  std::int32_t operator[](int dimension) const { return extent[static_cast<std::size_t>(dimension)]; }
  std::int32_t& operator[](int dimension) { return extent[static_cast<std::size_t>(dimension)]; }
  friend bool operator==(const LaneShape& a, const LaneShape& b) {
    if (a.rank != b.rank) return false;
    for (int d = 0; d < a.rank; ++d)
      if (a[d] != b[d]) return false;
    return true;
  }
};

/// The common shape of two blocks, as NumPy broadcasts; nothing if they do not fit.
std::optional<LaneShape> broadcast_unequal(const LaneShape& a, const LaneShape& b);
inline std::optional<LaneShape> broadcast(const LaneShape& a, const LaneShape& b) {
  if (a == b || b.rank == 0) return a;
  return broadcast_unequal(a, b);
}

/// How a line bends: up to lane `split` the value follows slope * lane; from there it follows `tail` per lane and
/// steps by `jump` at split, split + period, split + 2 period, ...
struct Bend {
  std::int64_t tail = 0;
  std::int64_t jump = 0;
  std::int64_t split = 0;
  std::int64_t period = 1;
};

/// base + sum over dimensions of slope[d] * lane[d], some dimensions bent. Small, without heap memory; copying one
/// copies the bends only where there are any.
class IndexForm {
 public:
  IndexForm() = default;
  explicit IndexForm(std::int64_t scalar) : base(scalar) {}
  IndexForm(const IndexForm& other) { *this = other; }
  IndexForm& operator=(const IndexForm& other) {
    base = other.base;
    shape = other.shape;
    slope = other.slope;
    bent_ = other.bent_;
    if (bent_ != 0) bends_ = other.bends_;
    return *this;
  }
  /// tl.arange(begin, end).
  static IndexForm arange(std::int64_t begin, std::int64_t end);

  std::int64_t base = 0;
  LaneShape shape;
  std::array<std::int64_t, kMaxLaneDimensions> slope{};

  bool bent() const { return bent_ != 0; }
  bool bent(int dimension) const { return (bent_ >> dimension & 1U) != 0; }
  const Bend& bend(int dimension) const { return bends_[static_cast<std::size_t>(dimension)]; }
  /// Bends a dimension, or straightens it if the bend changes nothing.
  void set_bend(int dimension, const Bend& bend);
  void straighten(int dimension) { bent_ &= static_cast<std::uint8_t>(~(1U << dimension)); }

  /// Whether the value is the same in every lane of this dimension.
  bool constant_along(int dimension) const {
    return shape[dimension] <= 1 || (!bent(dimension) && slope[static_cast<std::size_t>(dimension)] == 0);
  }
  bool constant() const;
  /// What dimension d adds at a lane.
  std::int64_t at(int dimension, std::int64_t lane) const;

 private:
  std::uint8_t bent_ = 0;
  std::array<Bend, kMaxLaneDimensions> bends_;  // meaningful where bent_ has a bit
};

/// Smallest and largest value of a form.
struct Bounds {
  std::int64_t smallest = 0;
  std::int64_t largest = 0;
};
Bounds bounds(const IndexForm& form);

/// A piece of a bent dimension on which it is straight: lanes [begin, end), where it adds offset + slope * (lane -
/// begin).
struct Piece {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t offset = 0;
  std::int64_t slope = 0;
};
/// The straight piece that starts at lane `begin` (and ends before lane `end` at the latest).
Piece piece_at(const IndexForm& form, int dimension, std::int64_t begin, std::int64_t end);

// Arithmetic. Nothing is returned where the result is no IndexForm (or the shapes do not fit).
std::optional<IndexForm> add(const IndexForm& a, const IndexForm& b);
/// The same into `result`, which is neither a nor b and fresh; false where add() returns nothing.
bool add(const IndexForm& a, const IndexForm& b, IndexForm& result);
IndexForm scale(const IndexForm& form, std::int64_t factor);
/// Division and remainder by a positive number; the values must not be negative (there Python and C disagree).
std::optional<IndexForm> divide(const IndexForm& form, std::int64_t divisor);
std::optional<IndexForm> remainder(const IndexForm& form, std::int64_t divisor);

/// The lanes of a block for which a condition holds: a box of lanes.
struct LaneMask {
  LaneShape shape;
  std::array<std::int32_t, kMaxLaneDimensions> begin{};
  std::array<std::int32_t, kMaxLaneDimensions> end{};

  static LaneMask all(const LaneShape& shape);
  static LaneMask none(const LaneShape& shape);
  bool empty() const;
  bool full() const;
};

/// The lanes where `form <comparison> limit`; nothing if they are not a box.
std::optional<LaneMask> compare(const IndexForm& form, CompareOperation comparison, std::int64_t limit);
std::optional<LaneMask> both(const LaneMask& a, const LaneMask& b);
std::optional<LaneMask> either(const LaneMask& a, const LaneMask& b);
std::optional<LaneMask> negation(const LaneMask& mask);
/// form where the mask holds, else other; nothing if that is no IndexForm.
std::optional<IndexForm> select(const LaneMask& mask, const IndexForm& form, const IndexForm& other);

// Changes of shape.
IndexForm broadcast_to(const IndexForm& form, const LaneShape& shape);
LaneMask broadcast_to(const LaneMask& mask, const LaneShape& shape);
/// Dimension d of the result is dimension source[d], or a new one of extent 1 where source[d] is -1. This is
/// expand_dims, permute and trans. Dimensions that are left out must have extent 1.
void rearrange(const IndexForm& form, std::span<const int> source, IndexForm& fresh_result);
LaneMask rearrange(const LaneMask& mask, std::span<const int> source);
LaneShape rearrange(const LaneShape& shape, std::span<const int> source);
/// rearrange() for the commonest case: a new dimension of extent 1 before dimension `position`.
void insert_dimension(const IndexForm& form, int position, IndexForm& fresh_result);
/// Nothing if the result is no IndexForm.
std::optional<IndexForm> reshape(const IndexForm& form, const LaneShape& shape);

}  // namespace syncopate
