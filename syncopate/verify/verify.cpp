#include "syncopate/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "syncopate/verify/claim.h"
#include "syncopate/verify/coverage.h"
#include "syncopate/verify/execution.h"
#include "syncopate/verify/form.h"
#include "syncopate/verify/hazards.h"
#include "syncopate/verify/order.h"
#include "syncopate/verify/plan_index.h"
#include "syncopate/verify/signal_counts.h"
#include "syncopate/verify/summands.h"

namespace syncopate {

bool Proof::holds() const {
  return std::all_of(theorems.begin(), theorems.end(), [](const Theorem& theorem) { return theorem.holds; });
}

std::string Proof::to_string() const {
  std::string text;
  for (const Theorem& theorem : theorems) {
    text += fmt::format("{}: {}\n  {}\n", theorem.name, theorem.holds ? "proven" : "FALSE", theorem.statement);
    text += fmt::format("  {}: {}\n", theorem.holds ? "evidence" : "counter-example",
                        theorem.holds ? theorem.evidence : theorem.counterexample);
  }
  return text;
}

namespace {

std::optional<Summands> summands_of(const PlanIndex& index, const Order* order) {
  return index.has_sums() ? std::optional<Summands>(std::in_place, index, order) : std::nullopt;
}

}  // namespace

Proof verify(const Plan& plan) {
  Proof proof;
  proof.theorems.push_back(prove_form(plan));
  if (!proof.theorems.back().holds) return proof;
  const PlanIndex index(plan);
  Execution execution = carry_out(index);
  if (!execution.theorem.holds) {
    proof.theorems.push_back(prove_signal_counts(index, nullptr));
    const auto summands = summands_of(index, nullptr);
    proof.theorems.push_back(prove_coverage(index, summands ? &*summands : nullptr, {}));
    proof.theorems.push_back(std::move(execution.theorem));
    return proof;
  }
  const Order order(index, execution.steps);
  const auto found = summands_of(index, &order);
  const Summands* summands = found ? &*found : nullptr;
  proof.theorems.push_back(prove_signal_counts(index, &order));
  proof.theorems.push_back(prove_coverage(index, summands, execution.steps));
  proof.theorems.push_back(prove_no_early_read(index, order, summands));
  proof.theorems.push_back(prove_no_overwrite(index, order, summands));
  proof.theorems.push_back(std::move(execution.theorem));
  return proof;
}

}  // namespace syncopate
