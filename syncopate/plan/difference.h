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

}  // namespace syncopate
