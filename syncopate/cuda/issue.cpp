#include "syncopate/cuda/issue.h"

#include "syncopate/core/error.h"

namespace syncopate::cuda {
namespace {

class Issuer {
 public:
  explicit Issuer(const Plan& plan) : plan_(plan), raised_(plan.signals.size(), 0) {}

  std::vector<Step> run() {
    for (int rank = 0; rank < plan_.ranks; ++rank) add({Step::Kind::begin, rank}, program(rank).start_signals);
    issue_transfers();
    for (int rank = 0; rank < plan_.ranks; ++rank) issue_kernel(rank);
    issue_completions();
    return std::move(steps_);
  }

 private:
  const RankProgram& program(int rank) const { return plan_.programs[static_cast<std::size_t>(rank)]; }

  void add(const Step& step, const std::vector<int>& signals) {
    steps_.push_back(step);
    for (const int signal : signals) ++raised_[static_cast<std::size_t>(signal)];
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

  /// Round by round, one transfer of each queue, so that early transfers of all ranks come before late ones of any.
  void issue_transfers() {
    struct Cursor {
      int rank;
      int queue;
      std::size_t next = 0;
    };
    std::vector<Cursor> cursors;
    for (int rank = 0; rank < plan_.ranks; ++rank)
      for (std::size_t queue = 0; queue < program(rank).queues.size(); ++queue)
        cursors.push_back({rank, static_cast<int>(queue)});
    bool moved = true;
    bool left = true;
    while (moved) {
      moved = left = false;
      for (Cursor& cursor : cursors) {
        const Queue& queue = program(cursor.rank).queues[static_cast<std::size_t>(cursor.queue)];
        if (cursor.next == queue.transfers.size()) continue;
        left = true;
        const Transfer& transfer = queue.transfers[cursor.next];
        if (!ready(transfer.waits)) continue;
        add({Step::Kind::transfer, cursor.rank, cursor.queue, static_cast<int>(cursor.next)}, transfer.signals);
        ++cursor.next;
        moved = true;
      }
    }
    if (left) blocked("a transfer");
  }

  void issue_kernel(int rank) {
    for (const Slot& slot : program(rank).slots)
      if (!ready(slot.waits)) blocked("a tile");
    add({Step::Kind::kernel, rank}, {});
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
  std::vector<std::int64_t> raised_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> issue_order(const Plan& plan) { return Issuer(plan).run(); }

}  // namespace syncopate::cuda
