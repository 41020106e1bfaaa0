#include "syncopate/plan/realise.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

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
    for (const std::vector<Work>& work : graph.work) raises_.emplace_back(work.size());
    reused_by_.resize(graph.transfers.size());
    for (std::size_t n = 0; n < graph.transfers.size(); ++n)
      if (node(static_cast<int>(n)).reuses >= 0)
        reused_by_[static_cast<std::size_t>(node(static_cast<int>(n)).reuses)].push_back(static_cast<int>(n));
  }

  void run(const std::vector<std::vector<int>>& orders) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      positions_.emplace_back(orders[rank].size());
      for (std::size_t s = 0; s < orders[rank].size(); ++s)
        positions_[rank][static_cast<std::size_t>(orders[rank][s])] = static_cast<int>(s);
    }
    make_queues();
    for (const int n : graph_.order) wait_before_transfer(n);
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
          made.source = {node(n).source, node(n).buffer, node(n).chunk};
          made.destination = {node(n).destination, node(n).destination_buffer, node(n).destination_region};
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

  std::string chunk_name(const TransferNode& t) const { return plan_.buffer(t.buffer).name + t.chunk.to_string(); }
  static std::string seen_by(int home, int expected) {
    return home == expected ? "" : fmt::format(" seen by rank {}", home);
  }

  /// The signal at `home` that says that transfer n has completed.
  int completion_of(int n, int home) {
    const auto [found, is_new] = completions_.try_emplace({n, home}, 0);
    if (is_new) {
      const TransferNode& t = node(n);
      const std::string origin = t.reduces ? fmt::format(" of rank {}", t.source) : "";
      found->second = add_signal(
          fmt::format("{}{} at rank {}{}", chunk_name(t), origin, t.destination, seen_by(home, t.destination)), home,
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

  /// A signal at the owner of transfer n that each of these pieces of a rank's work raises.
  int counter_of(int n, int rank, const std::vector<int>& work, std::string name, std::string counts) {
    const int counter = add_signal(std::move(name), node(n).owner, std::move(counts));
    plan_.signals[static_cast<std::size_t>(counter)].per_launch = static_cast<std::int64_t>(work.size());
    for (const int w : work) raises_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(w)].push_back(counter);
    return counter;
  }

  /// How far the workers of a rank have come, as far as a queue knows: the last slot of each that is done.
  std::vector<int>& progress(const TransferNode& t, int rank) {
    return progress_.try_emplace({t.owner, t.queue, rank}, static_cast<std::size_t>(plan_.workers), -1).first->second;
  }

  /// Those of a rank's pieces of work that a transfer has to wait for because nothing else tells its queue that they
  /// are done: not a transfer in `known` that waited for them, and not a later slot of the same worker.
  std::vector<int> not_known_done(const TransferNode& t, int rank, const std::vector<int>& work, const BitSet& known) {
    std::vector<int>& done = progress(t, rank);
    std::vector<int> rest;
    for (const int w : work) {
      const Work& piece = graph_.work[static_cast<std::size_t>(rank)][static_cast<std::size_t>(w)];
      const int position = positions_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(w)];
      bool is_known = position <= done[static_cast<std::size_t>(position % plan_.workers)] ||
                      std::any_of(piece.feeds.begin(), piece.feeds.end(), [&](int n) { return known.contains(n); });
      for (const int sum : piece.sums)
        for (const int n : reused_by_[static_cast<std::size_t>(sum)]) is_known = is_known || known.contains(n);
      if (!is_known) rest.push_back(w);
    }
    for (const int w : work) {
      const int position = positions_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(w)];
      int& last = done[static_cast<std::size_t>(position % plan_.workers)];
      last = std::max(last, position);
    }
    return rest;
  }

  /// What has completed, besides the pieces of work themselves, when they are done.
  BitSet implied_by(int rank, const std::vector<int>& work) const {
    std::vector<int> nodes;
    for (const int w : work) {
      const Work& piece = graph_.work[static_cast<std::size_t>(rank)][static_cast<std::size_t>(w)];
      nodes.insert(nodes.end(), piece.needs.begin(), piece.needs.end());
      nodes.insert(nodes.end(), piece.sums.begin(), piece.sums.end());
    }
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    BitSet implied(graph_.transfers.size());
    for (const int n : nodes) implied |= closure(n);
    return implied;
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
    const auto has_started = [&](int rank) {
      started.insert(rank);
      finished.insert(rank);
    };
    has_started(t.owner);
    if (t.previous >= 0) inherit(t.previous);
    for (const int dependency : t.dependencies) inherit(dependency);
    for (const int before : t.behind_tiles) inherit(before);
    if (!stored_by(n).empty()) has_started(t.source);
    if (t.reuses >= 0) has_started(t.destination);
    wait_for_work_and_transfers(n);

    // A pull reads what its source's caller put there, so the source must have started this launch.
    const Region& held = plan_.buffer(t.buffer).held[static_cast<std::size_t>(t.source)];
    if (!started.contains(t.source) && t.chunk.overlaps(held)) {
      transfer(n).waits.push_back({start_of(t.source, t.owner), 1});
      has_started(t.source);
    }
    // A push overwrites what the destination read in the launch before, so that launch must be over there.
    if (!finished.contains(t.destination)) {
      transfer(n).waits.push_back({finish_of(t.destination, t.owner), 0});
      finished.insert(t.destination);
    }
  }

  void wait_for_work_and_transfers(int n) {
    const TransferNode& t = node(n);
    BitSet known(graph_.transfers.size());
    if (t.previous >= 0) known |= closure(t.previous);
    const BitSet behind_stores = implied_by(t.source, stored_by(n));
    // A dependency on a sum that the sent tiles add is kept by these tiles.
    BitSet known_later = known;
    known_later |= behind_stores;
    for (const int dependency : not_implied(graph_, t.dependencies, known_later)) {
      transfer(n).waits.push_back({completion_of(dependency, t.owner), 1});
      known |= closure(dependency);
    }
    const std::vector<int> storing = not_known_done(t, t.source, stored_by(n), known);
    if (!storing.empty())
      transfer(n).waits.push_back(
          all_of(counter_of(n, t.source, storing,
                            fmt::format("{} of rank {} for rank {}{}", chunk_name(t), t.source, t.destination,
                                        seen_by(t.owner, t.source)),
                            fmt::format("a tile of rank {} has stored its part of the chunk", t.source))));
    if (t.reuses < 0) return;
    known |= behind_stores;
    const TransferNode& old = node(t.reuses);
    const std::vector<int> adding =
        not_known_done(t, t.destination, graph_.added_by[static_cast<std::size_t>(t.reuses)], known);
    if (!adding.empty())
      transfer(n).waits.push_back(
          all_of(counter_of(n, t.destination, adding,
                            fmt::format("{} of rank {} added by rank {}{}", chunk_name(old), old.source,
                                        old.destination, seen_by(t.owner, old.destination)),
                            fmt::format("a tile of rank {} has added its part of the chunk", t.destination))));
  }

  const std::vector<int>& stored_by(int n) const { return graph_.stored_by[static_cast<std::size_t>(n)]; }
  Wait all_of(int signal) const { return {signal, plan_.signals[static_cast<std::size_t>(signal)].per_launch}; }

  void wait_before_tiles(int rank, const std::vector<int>& order, BitSet& known_to_rank) {
    std::vector<BitSet> known(static_cast<std::size_t>(plan_.workers), BitSet(graph_.transfers.size()));
    for (std::size_t s = 0; s < order.size(); ++s) {
      BitSet& known_to_worker = known[s % static_cast<std::size_t>(plan_.workers)];
      const auto w = static_cast<std::size_t>(order[s]);
      const Work& work = graph_.work[static_cast<std::size_t>(rank)][w];
      const auto wait_for = [&](const std::vector<int>& nodes, std::vector<Wait>& waits) {
        for (const int n : not_implied(graph_, nodes, known_to_worker)) {
          waits.push_back({completion_of(n, rank), 1});
          known_to_worker |= closure(n);
          known_to_rank |= closure(n);
        }
      };
      Slot slot;
      slot.tile = work.tile;
      slot.kept = work.kept;
      wait_for(work.needs, slot.waits);
      wait_for(work.sums, slot.sum_waits);
      for (const int n : work.sums) add_summand(work, n, rank, slot);
      slot.signals = raises_[static_cast<std::size_t>(rank)][w];
      program(rank).slots.push_back(std::move(slot));
    }
  }

  void add_summand(const Work& work, int n, int rank, Slot& slot) const {
    const TransferNode& t = node(n);
    Addend addend{t.chunk, t.destination_region};
    addend.target[0] = {std::max(t.chunk[0].begin, work.rows.begin), std::min(t.chunk[0].end, work.rows.end)};
    addend.source[0].begin += addend.target[0].begin - t.chunk[0].begin;
    addend.source[0].end = addend.source[0].begin + addend.target[0].size();
    slot.addends.push_back(addend);
    if (t.source < rank) ++slot.own_place;
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
  std::vector<std::vector<std::vector<int>>> raises_;               ///< [rank][work]: the signals that it raises
  std::vector<std::vector<int>> positions_;                         ///< [rank][work]: its place in the order
  std::map<std::tuple<int, int, int>, std::vector<int>> progress_;  ///< by owner, queue and rank
  std::vector<std::vector<int>> reused_by_;  ///< per node: nodes whose summands lie where its lay
};

}  // namespace

void realise(BoundOperator& bound, const DependenceGraph& graph, const std::vector<std::vector<int>>& orders) {
  Realiser(bound, graph).run(orders);
}

}  // namespace syncopate
