// Where the result of a run differs from what it should be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/plan/inputs.h"
#include "syncopate/plan/plan.h"

namespace syncopate {

/// The box of one element.
Region element_region(std::int64_t element, const Shape& shape);

/// Says where the outputs of a rank first differ from the expected ones, bit by bit; nothing if they are equal. Both
/// are, per buffer, the elements of the rank's output_region(), row-major, or nothing.
std::optional<std::string> first_difference(const Plan& plan, int rank, std::int64_t launch,
                                            const std::vector<Bytes>& outputs, const std::vector<Bytes>& expected);

/// Where two orders of the iterations of streamed loops make results differ most, measured by what is allowed.
struct OrderDifference {
  double difference = 0;  ///< of two elements
  double allowed = 0;
  std::string
      where;  ///< "rank 1: o[3, 17] of tile (0, 1) is 0.5 in the plan's order and 0.25 in the kernel's own"; or ""

  bool is_rounding() const { return difference <= allowed; }
};

/// Compares what run_unfused() leaves on a rank (or launches do, per buffer the elements of its output_region()) in the
/// plan's order of iterations with what the local kernel leaves in its own order.
///
/// Allowed are 16 u M for each element: u is the unit roundoff of the coarsest floating-point type among the tensors, M
/// the largest magnitude that the element's tile has in that output, or, of a result, which comes from several ranks,
/// that all of it has; nothing for integers. A loop that accumulates terms which it rounds to a tensor's type (as
/// attention rounds its weights) changes with the order by at most 2 u S, and the two roundings of the result by
/// 2 u |r|, where S is the sum of the terms' magnitudes and r the result. S is not known here. Errors of many terms are
/// as random as the terms, so that they grow as r does, not as S; M in place of |r| covers elements that cancel, the
/// factor the rest. So this tells a loop that does more than accumulate, whose results differ by as much as they are
/// large, from one that does; it says nothing about precision, which the comparison bit by bit takes care of.
OrderDifference order_difference(const Plan& plan, int rank, const std::vector<Bytes>& reordered,
                                 const std::vector<Bytes>& as_written);

}  // namespace syncopate
