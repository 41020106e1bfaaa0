#include "syncopate/kernel/value_promotion.h"

namespace syncopate::concrete {
namespace {

int width(Dtype dtype) { return dtype == Dtype::boolean ? 0 : size_in_bytes(dtype); }

Promoted promote_floating(Dtype a, Dtype b) {
  if (a == b) return {a, false};
  if (a == Dtype::fp64 || b == Dtype::fp64) return {Dtype::fp64, false};
  if (a == Dtype::fp32 || b == Dtype::fp32) return {Dtype::fp32, false};
  if (is_half(a) && is_half(b)) return {Dtype::fp32, false};  // bf16 with fp16
  if (is_half(a)) return {a, false};
  if (is_half(b)) return {b, false};
  return {Dtype::fp16, false};  // two fp8 formats
}

Promoted promote_integers(Dtype a, Dtype b) {
  if (is_signed_integer(a) == is_signed_integer(b) || width(a) == 0 || width(b) == 0)
    return {width(a) >= width(b) ? a : b, false};
  const Dtype unsigned_one = is_signed_integer(a) ? b : a;
  const Dtype signed_one = is_signed_integer(a) ? a : b;
  return {width(unsigned_one) >= width(signed_one) ? unsigned_one : signed_one, false};
}

}  // namespace

bool is_half(Dtype dtype) { return dtype == Dtype::fp16 || dtype == Dtype::bf16; }

Promoted promote(const Value& left, const Value& right) {
  if (left.weak && right.weak) {
    if (left.kind == Kind::integer && right.kind == Kind::integer) return {Dtype::int64, true};
    return {Dtype::fp64, true};
  }
  if (left.weak || right.weak) {
    const Value& typed = left.weak ? right : left;
    const Value& number = left.weak ? left : right;
    if (typed.kind == Kind::floating) return {typed.dtype, false};
    if (number.kind == Kind::floating) return {Dtype::fp32, false};
    if (typed.dtype != Dtype::boolean) {
      // A literal that does not fit its partner's type widens it, as in Triton.
      if (wrap(number.integer, typed.dtype) != number.integer && width(typed.dtype) <= 4) return {Dtype::int64, false};
      return {typed.dtype, false};
    }
    return {wrap(number.integer, Dtype::int32) == number.integer ? Dtype::int32 : Dtype::int64, false};
  }
  if (left.kind == Kind::floating && right.kind == Kind::floating) return promote_floating(left.dtype, right.dtype);
  if (left.kind == Kind::floating) return {left.dtype, false};
  if (right.kind == Kind::floating) return {right.dtype, false};
  return promote_integers(left.dtype, right.dtype);
}

}  // namespace syncopate::concrete
