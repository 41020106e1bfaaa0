// Branches that loaded data decide: FootprintDomain has both arms walked (machine.h), so that a tile's reads are those
// of either, and keeps of a variable what is the same after both.
#include <fmt/format.h>

#include <algorithm>

#include "syncopate/kernel/footprint_domain.h"

namespace syncopate {
namespace {

bool same_form(const IndexForm& a, const IndexForm& b) {
  if (a.base != b.base || a.shape != b.shape) return false;
  for (int d = 0; d < a.shape.rank; ++d) {
    if (a.slope[static_cast<std::size_t>(d)] != b.slope[static_cast<std::size_t>(d)] || a.bent(d) != b.bent(d))
      return false;
    if (!a.bent(d)) continue;
    const Bend &x = a.bend(d), &y = b.bend(d);
    if (x.tail != y.tail || x.jump != y.jump || x.split != y.split || x.period != y.period) return false;
  }
  return true;
}

bool same_mask(const LaneMask& a, const LaneMask& b) {
  if (a.shape != b.shape) return false;
  for (int d = 0; d < a.shape.rank; ++d)
    if (a.begin[static_cast<std::size_t>(d)] != b.begin[static_cast<std::size_t>(d)] ||
        a.end[static_cast<std::size_t>(d)] != b.end[static_cast<std::size_t>(d)])
      return false;
  return true;
}

bool same_value(const FootprintValue& a, const FootprintValue& b) {
  const bool same_type = a.kind == b.kind && a.dtype == b.dtype && a.python == b.python && a.parameter == b.parameter;
  if (!same_type) return false;
  switch (a.kind) {
    case ValueKind::none:
    case ValueKind::dtype:
      return true;
    case ValueKind::opaque:
      return a.shape() == b.shape() && a.reason == b.reason && a.bounded == b.bounded &&
             (!a.bounded || same_mask(a.mask, b.mask));
    case ValueKind::integer:
    case ValueKind::pointer:
      return same_form(a.form, b.form);
    case ValueKind::boolean:
      return same_mask(a.mask, b.mask);
    case ValueKind::floating:
      return a.number == b.number && a.shape() == b.shape();
    case ValueKind::block_pointer:
      return a.descriptor == b.descriptor && a.offsets() == b.offsets();
    case ValueKind::descriptor:
    case ValueKind::string:
      return a.descriptor == b.descriptor;
  }
  return false;
}

/// What cannot be followed for another reason stays so.
const FootprintValue* unknown_otherwise(const FootprintValue& a, const FootprintValue& b) {
  for (const FootprintValue* each : {&a, &b})
    if (each->kind == ValueKind::opaque && each->reason != OpaqueReason::data) return each;
  return nullptr;
}

}  // namespace

bool FootprintDomain::undecided(const Value& condition, const Instruction& branch) const {
  return branch.meeting != 0 && condition.kind == ValueKind::opaque && condition.scalar() &&
         condition.reason == OpaqueReason::data;
}

void FootprintDomain::meet(Value& value, const Value& other, const Instruction& branch) const {
  if (same_value(value, other)) return;
  // A variable that only one arm knows is used in that arm only.
  const Value& typed = value.kind == ValueKind::none || (value.python && !other.python) ? other : value;
  const LaneShape shape = broadcast(value.shape(), other.shape()).value_or(typed.shape());
  const Value* const reason = unknown_otherwise(value, other);
  const bool same_tensor = value.parameter == other.parameter;
  Value result = opaque_value(shape, typed.dtype, reason != nullptr ? reason->reason : OpaqueReason::data,
                              reason != nullptr ? *reason->origin : branch);
  if (same_tensor) result.parameter = value.parameter;
  value = result;
}

void FootprintDomain::escape(const Instruction& jump) const {
  fail(jump, fmt::format("this leaves the branch at line {}, which data decide", line_of(*branches_.back())),
       "let both ways come out behind the branch: assign values in it, and return or break elsewhere");
}

void FootprintDomain::check_decided(const char* action, const Instruction& instruction) const {
  if (branches_.empty()) return;
  fail(instruction, fmt::format("data decide (at line {}) whether this {}", line_of(*branches_.back()), action),
       "do it on either way: let the branch only decide what is read and computed, and keep the rest outside of it");
}

int FootprintDomain::line_of(const Instruction& instruction) const { return program_->locate(instruction).line; }

}  // namespace syncopate
