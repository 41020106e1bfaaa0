// Runs of proven plans on CPU ranks, and what went in and came out as numbers, to hold against mathematics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "syncopate/host/host.h"
#include "syncopate/plan/plan.h"

namespace syncopate::testing {

/// The path of operators/NAME.toml of the tree.
std::string operator_file(const std::string& name);

/// Throws std::runtime_error if the plan has no such buffer.
int buffer_named(const Plan& plan, const std::string& name);

/// All of a buffer, from a rank's buffers. Integers are int32.
std::vector<double> numbers(const Plan& plan, const std::vector<Bytes>& of_rank, const std::string& name);
/// The same, from the buffers of all ranks.
std::vector<double> numbers(const Plan& plan, const std::vector<std::vector<Bytes>>& of, int rank,
                            const std::string& name);

/// The data of the last of two launches of the plan as its file holds it. Expects the plan to be proven and the run to
/// be right. Odd seeds run with the adversary.
LaunchData run_of(const Plan& plan, InputKind inputs, std::uint64_t seed);

}  // namespace syncopate::testing
