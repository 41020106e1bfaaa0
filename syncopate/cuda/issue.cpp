#include "syncopate/cuda/issue.h"

#include "syncopate/core/error.h"

namespace syncopate::cuda {
namespace {

/// Where a queue or a worker is.
struct QueueCursor {
  int rank = 0;
  int queue = 0;
  std::size_t next = 0;
};
struct WorkerCursor {
  int rank = 0;
  std::size_t slot = 0;
};

class Issuer {
 public:
  explicit Issuer(const Plan& plan) : plan_(plan), stride_(slot_stride(plan)), raised_(plan.signals.size(), 0) {
    for (int rank = 0; rank < plan.ranks; ++rank) {
      for (std::size_t queue = 0; queue < program(rank).queues.size(); ++queue)
        queues_.push_back({rank, static_cast<int>(queue)});
      for (std::size_t worker = 0; worker < stride_; ++worker) workers_.push_back({rank, worker});
    }
  }

  std::vector<Step> run() {
    for (int rank = 0; rank < plan_.ranks; ++rank) add({Step::Kind::begin, rank}, program(rank).start_signals);
    while (issue_transfers()) {
    }
    for (int rank = 0; rank < plan_.ranks; ++rank) add({Step::Kind::kernel, rank}, {});
    for (bool moved = true; moved;) {
      moved = run_tiles();
      moved = issue_transfers() || moved;
    }
    for (const QueueCursor& queue : queues_)
      if (queue.next < transfers(queue).size()) blocked("a transfer");
    for (const WorkerCursor& worker : workers_)
      if (worker.slot < program(worker.rank).slots.size()) blocked("a tile");
    for (const RankProgram& each : plan_.programs)
      for (const Addition& addition : each.additions)
        if (!ready(addition.waits)) blocked("a sum");
    issue_completions();
    return std::move(steps_);
  }

 private:
  const RankProgram& program(int rank) const { return plan_.programs[static_cast<std::size_t>(rank)]; }
  const std::vector<Transfer>& transfers(const QueueCursor& at) const {
    return program(at.rank).queues[static_cast<std::size_t>(at.queue)].transfers;
  }

  void raise(const std::vector<int>& signals) {
    for (const int signal : signals) ++raised_[static_cast<std::size_t>(signal)];
  }

  void add(const Step& step, const std::vector<int>& signals) {
    steps_.push_back(step);
    raise(signals);
  }

  bool ready(const std::vector<Wait>& waits) const {
    for (const Wait& wait : waits)
      if (raised_[static_cast<std::size_t>(wait.signal)] < wait.threshold) return false;
    return true;
  }

  [[noreturn]] void blocked(const std::string& what) const {
    throw UserError({}, "the plan blocks: " + what + " waits for something that never happens",
                    "`syncopate verify` says why");
  }

  /// One round, one transfer of each queue, so that early transfers of all ranks come before late ones of any.
  bool issue_transfers() {
    bool moved = false;
    for (QueueCursor& at : queues_) {
      if (at.next == transfers(at).size()) continue;
      const Transfer& transfer = transfers(at)[at.next];
      if (!ready(transfer.waits)) continue;
      add({Step::Kind::transfer, at.rank, at.queue, static_cast<int>(at.next)}, transfer.signals);
      ++at.next;
      moved = true;
    }
    return moved;
  }

  /// Every worker as far as it gets with what has been raised.
  bool run_tiles() {
    bool moved = false;
    for (WorkerCursor& at : workers_) {
      const std::vector<Slot>& slots = program(at.rank).slots;
      while (at.slot < slots.size()) {
        const Slot& slot = slots[at.slot];
        bool passes = true;  // what is ready stays ready
        for_each_waits_of(slot, [&](const std::vector<Wait>& waits) { passes = passes && ready(waits); });
        if (!passes) break;
        raise(slot.signals);
        at.slot += stride_;
        moved = true;
      }
    }
    return moved;
  }

  void issue_completions() {
    std::vector<bool> done(static_cast<std::size_t>(plan_.ranks), false);
    for (int count = 0; count < plan_.ranks;) {
      const int before = count;
      for (int rank = 0; rank < plan_.ranks; ++rank) {
        if (done[static_cast<std::size_t>(rank)] || !ready(program(rank).completion_waits)) continue;
        done[static_cast<std::size_t>(rank)] = true;
        add({Step::Kind::complete, rank}, program(rank).completion_signals);
        ++count;
      }
      if (count == before) blocked("the completion of a rank");
    }
  }

  const Plan& plan_;
  const std::size_t stride_;
  std::vector<std::int64_t> raised_;  ///< per signal, in this launch
  std::vector<QueueCursor> queues_;
  std::vector<WorkerCursor> workers_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> issue_order(const Plan& plan) { return Issuer(plan).run(); }

}  // namespace syncopate::cuda
