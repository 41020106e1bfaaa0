#include "syncopate/plan/realise.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace syncopate {

namespace {

/// Makes waits and signals. Signals are made when the first wait needs them, so none is raised for nobody.
class Realiser {
 public:
  Realiser(BoundOperator& bound, const DependenceGraph& graph)
      : plan_(bound.plan), graph_(graph), ranks_(static_cast<std::size_t>(plan_.ranks)) {
    plan_.programs.assign(ranks_, {});
    started_.assign(graph.transfers.size(), BitSet(ranks_));
    finished_.assign(graph.transfers.size(), BitSet(ranks_));
    transfer_at_.resize(graph.transfers.size());
    slots_at_home_.assign(ranks_, 0);
  }

  void run(const std::vector<std::vector<int>>& orders) {
    make_queues();
    for (std::size_t n = 0; n < graph_.transfers.size(); ++n) wait_before_transfer(static_cast<int>(n));
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      BitSet known(graph_.transfers.size());  // complete when the rank's own tiles and queues are
      wait_before_tiles(rank, orders[static_cast<std::size_t>(rank)], known);
      for (const std::vector<int>& queue : graph_.queues[static_cast<std::size_t>(rank)])
        if (!queue.empty()) known |= closure(queue.back());
      wait_before_completion(rank, known);
    }
  }

 private:
  RankProgram& program(int rank) { return plan_.programs[static_cast<std::size_t>(rank)]; }
  const TransferNode& node(int n) const { return graph_.transfers[static_cast<std::size_t>(n)]; }
  const BitSet& closure(int n) const { return graph_.closure[static_cast<std::size_t>(n)]; }
  Transfer& transfer(int n) {
    const auto [queue, position] = transfer_at_[static_cast<std::size_t>(n)];
    return program(node(n).owner).queues[queue].transfers[position];
  }

  void make_queues() {
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      const auto& queues = graph_.queues[static_cast<std::size_t>(rank)];
      for (std::size_t q = 0; q < queues.size(); ++q) {
        Queue queue;
        queue.name = fmt::format("rank {} copy engine {}", rank, q);
        for (const int n : queues[q]) {
          transfer_at_[static_cast<std::size_t>(n)] = {q, queue.transfers.size()};
          Transfer made;
          made.operator_rank = node(n).op.rank;
          made.operator_index = node(n).op.index;
          made.source = {node(n).source, node(n).buffer, node(n).source_region};
          made.destination = {node(n).destination, node(n).buffer, node(n).destination_region};
          queue.transfers.push_back(std::move(made));
        }
        program(rank).queues.push_back(std::move(queue));
      }
    }
  }

  int add_signal(std::string name, int home, std::string counts) {
    Signal signal;
    signal.name = std::move(name);
    signal.home = home;
    signal.slot = slots_at_home_[static_cast<std::size_t>(home)]++;
    signal.counts = std::move(counts);
    plan_.signals.push_back(std::move(signal));
    return static_cast<int>(plan_.signals.size()) - 1;
  }

  /// The signal at `home` that says that transfer n has completed.
  int completion_of(int n, int home) {
    const auto [found, is_new] = completions_.try_emplace({n, home}, 0);
    if (is_new) {
      const TransferNode& t = node(n);
      const std::string chunk = fmt::format("{}{}", plan_.buffer(t.buffer).name, t.destination_region.to_string());
      const std::string observer = home == t.destination ? "" : fmt::format(" seen by rank {}", home);
      found->second =
          add_signal(fmt::format("{} at rank {}{}", chunk, t.destination, observer), home,
                     fmt::format("the transfer from rank {} to rank {} has completed", t.source, t.destination));
      transfer(n).signals.push_back(found->second);
    }
    return found->second;
  }

  /// The signal at `home` that `rank` raises at the start of each launch: its inputs are in place.
  int start_of(int rank, int home) {
    const auto [found, is_new] = starts_.try_emplace({rank, home}, 0);
    if (is_new) {
      found->second = add_signal(fmt::format("inputs of rank {} seen by rank {}", rank, home), home,
                                 fmt::format("rank {} has put its inputs of this launch in place", rank));
      program(rank).start_signals.push_back(found->second);
    }
    return found->second;
  }

  /// The signal at `home` that `rank` raises when it has completed a launch: its buffers may be overwritten.
  int finish_of(int rank, int home) {
    const auto [found, is_new] = finishes_.try_emplace({rank, home}, 0);
    if (is_new) {
      found->second = add_signal(fmt::format("buffers of rank {} free for rank {}", rank, home), home,
                                 fmt::format("rank {} has completed a launch and reads its buffers no more", rank));
      program(rank).completion_signals.push_back(found->second);
    }
    return found->second;
  }

  /// started_[n] / finished_[n]: the ranks known, when n begins, to have started this launch / to have completed the
  /// launch before it. The first is part of the second: a rank starts after it has completed.
  void wait_before_transfer(int n) {
    const TransferNode& t = node(n);
    BitSet& started = started_[static_cast<std::size_t>(n)];
    BitSet& finished = finished_[static_cast<std::size_t>(n)];
    const auto inherit = [&](int other) {
      started |= started_[static_cast<std::size_t>(other)];
      finished |= finished_[static_cast<std::size_t>(other)];
    };
    started.insert(t.owner);
    finished.insert(t.owner);
    BitSet known(graph_.transfers.size());
    if (t.previous >= 0) {
      inherit(t.previous);
      known |= closure(t.previous);
    }
    for (const int dependency : t.dependencies) inherit(dependency);
    for (const int dependency : not_implied(graph_, t.dependencies, known))
      transfer(n).waits.push_back({completion_of(dependency, t.owner), 1});

    // A pull reads what its source's caller put there, so the source must have started this launch.
    const Region& held = plan_.buffer(t.buffer).held[static_cast<std::size_t>(t.source)];
    if (!started.contains(t.source) && t.source_region.overlaps(held)) {
      transfer(n).waits.push_back({start_of(t.source, t.owner), 1});
      started.insert(t.source);
      finished.insert(t.source);
    }
    // A push overwrites what the destination read in the launch before, so that launch must be over there.
    if (!finished.contains(t.destination)) {
      transfer(n).waits.push_back({finish_of(t.destination, t.owner), 0});
      finished.insert(t.destination);
    }
  }

  void wait_before_tiles(int rank, const std::vector<int>& order, BitSet& known_to_rank) {
    std::vector<BitSet> known(static_cast<std::size_t>(plan_.workers), BitSet(graph_.transfers.size()));
    for (std::size_t s = 0; s < order.size(); ++s) {
      BitSet& known_to_worker = known[s % static_cast<std::size_t>(plan_.workers)];
      Slot slot;
      slot.tile = order[s];
      const std::vector<int>& needs = graph_.needs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(slot.tile)];
      for (const int n : not_implied(graph_, needs, known_to_worker)) {
        slot.waits.push_back({completion_of(n, rank), 1});
        known_to_worker |= closure(n);
        known_to_rank |= closure(n);
      }
      program(rank).slots.push_back(std::move(slot));
    }
  }

  /// The rank's next launch overwrites its inputs and gives its buffers to peers: nothing may still read from or write
  /// to them that the rank's own work does not already imply.
  void wait_before_completion(int rank, const BitSet& known) {
    std::vector<int> touching;
    for (std::size_t n = 0; n < graph_.transfers.size(); ++n) {
      const TransferNode& t = graph_.transfers[n];
      if (t.owner != rank && (t.source == rank || t.destination == rank)) touching.push_back(static_cast<int>(n));
    }
    const std::vector<int> last = not_implied(graph_, touching, known);
    if (last.empty()) return;
    const int drained = add_signal(fmt::format("peers done with buffers of rank {}", rank), rank,
                                   "a peer's last transfer from or to this rank has completed");
    for (const int n : last) transfer(n).signals.push_back(drained);
    plan_.signals[static_cast<std::size_t>(drained)].per_launch = static_cast<std::int64_t>(last.size());
    program(rank).completion_waits.push_back({drained, static_cast<std::int64_t>(last.size())});
  }

  Plan& plan_;
  const DependenceGraph& graph_;
  std::size_t ranks_;
  std::vector<BitSet> started_;
  std::vector<BitSet> finished_;
  std::vector<std::pair<std::size_t, std::size_t>> transfer_at_;
  std::vector<int> slots_at_home_;
  std::map<std::pair<int, int>, int> completions_;
  std::map<std::pair<int, int>, int> starts_;
  std::map<std::pair<int, int>, int> finishes_;
};

}  // namespace

void realise(BoundOperator& bound, const DependenceGraph& graph, const std::vector<std::vector<int>>& orders) {
  Realiser(bound, graph).run(orders);
}

}  // namespace syncopate
