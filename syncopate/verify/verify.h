// Proof that a plan is right, from the plan alone: without running it and without the code that made it.
#pragma once

#include <string>
#include <vector>

#include "syncopate/plan/plan.h"

namespace syncopate {

/// One claim about a plan, proven or refuted.
struct Theorem {
  std::string name;       ///< "coverage", "no read before its data", ...
  std::string statement;  ///< what is claimed, in one sentence
  bool holds = false;
  std::string evidence;        ///< if it holds: how much was checked, e.g. "2048 tile reads, 24 transfers"
  std::string counterexample;  ///< if not: rank, tile, chunk, signal, and the order of events that breaks it
};

struct Proof {
  std::vector<Theorem> theorems;
  bool holds() const;
  /// A paragraph per theorem, for people.
  std::string to_string() const;
};

/// Checks: form (indices, bounds), coverage, happens-before of every read after its data within a launch
/// and across two consecutive launches, no overwrite of live data, signal counts, no deadlock under any interleaving
/// (cycles through queues, workers and waits, with all workers resident), redundant waits are reported in evidence.
Proof verify(const Plan& plan);

}  // namespace syncopate
