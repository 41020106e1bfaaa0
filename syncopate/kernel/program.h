// A kernel lowered to a flat program for a register machine, so that running it is a small loop whose whole state
// is a program counter and registers: a worker can be stopped at any memory access or wait and resumed later.
// Calls of @triton.jit helpers are inlined. The same program runs over two value domains: concrete values
// (concrete.h, CPU ranks) and index ranges (footprint.h, the exact regions that a tile touches).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "syncopate/kernel/syntax.h"

namespace syncopate {

/// The value of a scalar or constexpr argument.
using Scalar = std::variant<std::int64_t, double, bool>;
/// Arguments by parameter name; tensor parameters are not among them.
using ScalarArguments = std::map<std::string, Scalar>;

/// Opaque outside kernel/. A call of kWaitHelper (runtime_names.h) becomes a wait of the machine instead of being
/// inlined.
class Program;

/// Lowers a @triton.jit function. `index_variables`, if not empty, are probed: the machine reports their values
/// each time `probe_after`, the last statement that assigns one of them, is done (for a loop: at the start of its body,
/// where its own variable has been assigned). Throws UserError for a construct or a Triton
/// function that is not supported, with its place and what is supported instead.
std::shared_ptr<const Program> lower(std::shared_ptr<const Module> module, const Function& function,
                                     const std::vector<std::string>& index_variables = {},
                                     const Statement* probe_after = nullptr);

}  // namespace syncopate
