// The values of a kernel that runs over index ranges: scalars are concrete, blocks of integers are forms of their
// lane numbers, blocks of booleans are boxes of lanes, and everything that came from memory is opaque; of a condition
// that joins such a one to one that is known, the lanes in which it can hold are known.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "syncopate/core/dtype.h"
#include "syncopate/kernel/index_form.h"
#include "syncopate/kernel/program_internal.h"

namespace syncopate {

enum class ValueKind : std::uint8_t {
  none,
  opaque,         ///< `shape()` is known and nothing else
  integer,        ///< `form`
  boolean,        ///< `mask`: the lanes that are true
  floating,       ///< a scalar `number`
  pointer,        ///< `form` elements beyond the tensor of `parameter`
  descriptor,     ///< `descriptor` of the domain's table
  block_pointer,  ///< the same, and `offsets()` of its block
  dtype,          ///< `dtype` itself
  string,         ///< `descriptor` is its number
};

/// Why a value is opaque.
enum class OpaqueReason : std::uint8_t {
  data,        ///< it was loaded
  arithmetic,  ///< it is no form of its lane numbers
  overflow,    ///< it does not fit in its type
  division,    ///< it is divided by zero
};

struct FootprintValue {
  ValueKind kind = ValueKind::none;
  /// Of the elements; what a pointer points to.
  Dtype dtype = Dtype::int32;
  /// A Python integer: a literal or a constexpr argument. It takes the type of what it meets.
  bool python = false;
  /// Of an opaque condition: it holds in no other lanes than those of `mask`.
  bool bounded = false;
  OpaqueReason reason = OpaqueReason::data;
  std::int16_t parameter = -1;
  std::int32_t descriptor = -1;
  const Instruction* origin = nullptr;  ///< where an opaque value became so
  double number = 0;
  IndexForm form;
  LaneMask mask;

  FootprintValue() = default;
  FootprintValue(const FootprintValue& other) { *this = other; }
  FootprintValue& operator=(const FootprintValue& other) {  // copies what the kind needs
    take_type(other);
    bounded = other.bounded;
    if (kind == ValueKind::boolean || bounded) mask = other.mask;
    if (kind != ValueKind::boolean) form = other.form;
    return *this;
  }

  /// Becomes like `other` in everything but its form, its mask and whether that bounds it.
  void take_type(const FootprintValue& other) {
    kind = other.kind;
    dtype = other.dtype;
    python = other.python;
    reason = other.reason;
    parameter = other.parameter;
    descriptor = other.descriptor;
    origin = other.origin;
    number = other.number;
  }
  /// Of a block pointer: where its block begins, in the slopes of the form, which stand for nothing else there.
  std::array<std::int64_t, kMaxLaneDimensions>& offsets() { return form.slope; }
  const std::array<std::int64_t, kMaxLaneDimensions>& offsets() const { return form.slope; }
  const LaneShape& shape() const { return kind == ValueKind::boolean ? mask.shape : form.shape; }
  bool scalar() const { return shape().rank == 0; }
  bool is_scalar(ValueKind wanted) const { return kind == wanted && scalar(); }
};

FootprintValue integer_value(const IndexForm& form, Dtype dtype, bool python = false);
FootprintValue scalar_value(std::int64_t value, Dtype dtype, bool python = false);
FootprintValue boolean_value(const LaneMask& mask);
FootprintValue boolean_value(bool value);
FootprintValue floating_value(double value, Dtype dtype = Dtype::fp32);
FootprintValue opaque_value(const LaneShape& shape, Dtype dtype, OpaqueReason reason, const Instruction& origin);

/// The lanes in which a condition can hold: all of them if nothing is known.
LaneMask possible_lanes(const FootprintValue& condition);

/// The truth of a known scalar; nothing for blocks and opaque values.
std::optional<bool> known_truth(const FootprintValue& value);

/// An integer form in its type, or an opaque value if it overflows it: on a GPU it would wrap.
FootprintValue fitted(const IndexForm& form, Dtype dtype, bool python, const Instruction& instruction);

// The arithmetic of the instructions of the same names. What cannot be expressed becomes opaque; shapes that do not
// fit each other are left to the lowering and to Triton.
FootprintValue apply_unary(const FootprintValue& a, const Instruction& instruction);
FootprintValue apply_binary(const FootprintValue& a, const FootprintValue& b, const Instruction& instruction);
FootprintValue apply_compare(const FootprintValue& a, const FootprintValue& b, const Instruction& instruction);
FootprintValue apply_where(const FootprintValue& condition, const FootprintValue& a, const FootprintValue& b,
                           const Instruction& instruction);
FootprintValue apply_cast(const FootprintValue& a, Dtype dtype, const Instruction& instruction);

}  // namespace syncopate
