// A theorem in the making: what has been checked and the first thing found wrong.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "syncopate/verify/verify.h"

namespace syncopate {

class Claim {
 public:
  Claim(std::string name, std::string statement) : name_(std::move(name)), statement_(std::move(statement)) {}

  /// Notes one check. `describe` makes the counter-example; it is called for the first failure only.
  template <typename Describe>
  bool check(bool holds, Describe&& describe) {
    if (holds) return true;
    if (failures_++ == 0) counterexample_ = std::forward<Describe>(describe)();
    return false;
  }

  bool holds() const { return failures_ == 0; }

  /// The theorem, with `evidence` if it holds.
  Theorem conclude(std::string evidence) const {
    Theorem theorem{name_, statement_, holds(), {}, {}};
    if (holds()) {
      theorem.evidence = std::move(evidence);
    } else {
      theorem.counterexample = counterexample_;
      if (failures_ > 1) theorem.counterexample += " (and " + std::to_string(failures_ - 1) + " more)";
    }
    return theorem;
  }

 private:
  std::string name_;
  std::string statement_;
  std::int64_t failures_ = 0;
  std::string counterexample_;
};

}  // namespace syncopate
