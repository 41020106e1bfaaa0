// The dtype that two operands meet in.
#pragma once

#include "syncopate/kernel/value.h"

namespace syncopate::concrete {

struct Promoted {
  Dtype dtype = Dtype::int32;
  bool weak = false;
};

/// Triton's rules for + - * and comparisons; see value_operations.h.
Promoted promote(const Value& left, const Value& right);
bool is_half(Dtype dtype);

}  // namespace syncopate::concrete
