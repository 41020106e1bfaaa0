// Profiles in words and as JSON.
#include <fmt/format.h>

#include "syncopate/core/json.h"
#include "syncopate/cuda/profile.h"
#include "syncopate/plan/plan_json.h"

namespace syncopate {
namespace {

std::string row(const std::string& name, const LaunchTimes& times) {
  return fmt::format("  {:>4} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>7.1f}% {:>8.3f} {:>8.1f} {:>9.1f}\n",
                     name, times.fused, times.compute, times.transfers, times.local, times.exposed(),
                     100 * times.exposed_share(), times.cost_of_waiting(), times.call, times.call_without_graph);
}

constexpr const char* kColumns = R"(
  fused      the operator, launched back to back        local    the local kernel over whole tensors, on {} thread blocks{}
  compute    its kernel alone, all waits satisfied      exposed  fused - compute, and as a share of fused
  transfers  its transfers alone                        waiting  compute / local: what waits and tables cost
  call       the host's time for a call; by ops: without its graph, operation by operation
  all        of the slowest rank of each sample
)";

/// To a thousandth of a microsecond: more would be noise.
Json number(double value) { return {static_cast<double>(static_cast<std::int64_t>(value * 1e3 + 0.5)) / 1e3}; }

Json json_of(const LaunchTimes& times) {
  return Json::object({{"fused", number(times.fused)},
                       {"compute", number(times.compute)},
                       {"transfers", number(times.transfers)},
                       {"local", number(times.local)},
                       {"exposed", number(times.exposed())},
                       {"call", number(times.call)},
                       {"call_without_graph", number(times.call_without_graph)}});
}

}  // namespace

std::string to_text(const Plan& plan, const GpuProfile& profile) {
  std::string text = fmt::format(
      "{} on {} rank{}: microseconds a launch, medians of {} samples of {} launches, {}{}\n\n", plan.operator_name,
      plan.ranks, plan.ranks == 1 ? "" : "s", profile.samples, profile.launches, profile.device,
      profile.shared ? fmt::format(" shared by {} ranks", plan.ranks) : fmt::format(" x {}", plan.ranks));
  text += fmt::format("  {:>4} {:>9} {:>9} {:>9} {:>9} {:>18} {:>8} {:>8} {:>9}\n", "rank", "fused", "compute",
                      "transfers", "local", "exposed", "waiting", "call", "by ops");
  for (std::size_t rank = 0; rank < profile.ranks.size(); ++rank)
    text += row(std::to_string(rank), profile.ranks[rank]);
  text += row("all", profile.all);
  const bool persistent = plan.kernel.persistent;
  text += fmt::format(kColumns, persistent ? plan.workers : static_cast<int>(tiles_of(plan, 0).size()),
                      persistent ? "" : " (one for each tile)");
  return text;
}

std::string to_json(const Plan& plan, const GpuProfile& profile) {
  Json ranks = Json::array();
  for (const LaunchTimes& times : profile.ranks) ranks.push_back(json_of(times));
  return Json::object({{"operator", plan.operator_name},
                       {"plan_hash", plan_hash(plan)},
                       {"communication", plan.communication},
                       {"workers", plan.workers},
                       {"device", profile.device},
                       {"shared", profile.shared},
                       {"samples", profile.samples},
                       {"launches", profile.launches},
                       {"unit", "us"},
                       {"ranks", std::move(ranks)},
                       {"all", json_of(profile.all)}})
             .dump() +
         "\n";
}

}  // namespace syncopate
