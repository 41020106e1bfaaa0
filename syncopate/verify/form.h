// The theorem of form: the plan can be read as a program at all. Every other theorem builds on it.
#pragma once

#include "syncopate/verify/verify.h"

namespace syncopate {

/// Indices are in range; regions lie in their buffers; transfers move equal regions of one symmetric buffer and belong
/// to a queue of their source or destination; slots hold every tile once; signals have places of their own; waits are
/// on signals of the waiter's rank with thresholds from 0 to what a launch raises. Reads nothing that it has not
/// found to be in range, so any plan may be given.
Theorem prove_form(const Plan& plan);

}  // namespace syncopate
