// The values that plan files are made of, read with checks: each throws UserError at the value's place.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "syncopate/core/dtype.h"
#include "syncopate/core/json.h"
#include "syncopate/core/region.h"
#include "syncopate/schedule/placement.h"

namespace syncopate {

class PlanValues {
 public:
  explicit PlanValues(const SourceFile& file) : file_(file) {}

  const SourceFile& file() const { return file_; }
  UserError error(const Json& at, std::string problem, std::string remedy) const {
    return UserError(file_.locate(at.offset()), std::move(problem), std::move(remedy));
  }

  std::int64_t integer(const Json& value, std::string_view what, std::int64_t least, std::int64_t most) const;
  /// As integer(), of a range that is within that of `int`.
  int small(const Json& value, std::string_view what, std::int64_t least, std::int64_t most) const;
  /// An index into a list of `size` things.
  int index(const Json& value, std::string_view what, std::size_t size) const;
  bool boolean(const Json& value, std::string_view what) const;
  /// An array of `size` items.
  const std::vector<Json>& tuple(const Json& value, std::string_view what, std::size_t size) const;
  std::vector<std::int64_t> integers(const Json& value, std::string_view what, std::int64_t least,
                                     std::int64_t most) const;
  Placement placement(const Json& value, std::string_view what, std::size_t dimensions) const;
  Dtype dtype(const Json& value) const;
  /// 1 to kMaxDimensions sizes of at least 1 each, of a tensor that is not too large.
  Shape shape(const Json& value) const;
  /// A box, maybe empty, inside a tensor of this shape; `tensor` is its name.
  Region region(const Json& value, const Shape& shape, std::string_view tensor) const;
  /// As region(), of one contiguous run of elements at most.
  Region contiguous(const Json& value, const Shape& shape, std::string_view tensor) const;

 private:
  const SourceFile& file_;
};

}  // namespace syncopate
