#include "syncopate/host/agents.h"

namespace syncopate::host {

AgentLayout::AgentLayout(const Plan& plan) : workers_(plan.workers) {
  for (int rank = 0; rank < plan.ranks; ++rank) {
    first_.push_back(actors());
    agents_.push_back({rank, AgentKind::caller, 0});
    const int queues = static_cast<int>(plan.programs[static_cast<std::size_t>(rank)].queues.size());
    for (int queue = 0; queue < queues; ++queue) agents_.push_back({rank, AgentKind::queue, queue});
    first_worker_.push_back(actors());
    for (int worker = 0; worker < plan.workers; ++worker) agents_.push_back({rank, AgentKind::worker, worker});
  }
  first_.push_back(actors());
  for (int rank = 0; rank < plan.ranks && is_dynamic(plan); ++rank) {
    first_slot_.push_back(actors());
    const int slots = static_cast<int>(plan.programs[static_cast<std::size_t>(rank)].slots.size());
    for (int slot = 0; slot < slots; ++slot) agents_.push_back({rank, AgentKind::slot, slot});
  }
}

}  // namespace syncopate::host
