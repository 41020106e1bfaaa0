// How the parts of the machine report that the plan is wrong. It never leaves the floor: run_on_cpu_ranks() turns it
// into the report's outcome.
#pragma once

#include <stdexcept>
#include <string>

#include "syncopate/host/host.h"

namespace syncopate::host {

class Failure : public std::runtime_error {
 public:
  Failure(Outcome outcome, const std::string& message) : std::runtime_error(message), outcome_(outcome) {}
  Outcome outcome() const { return outcome_; }

 private:
  Outcome outcome_;
};

}  // namespace syncopate::host
