#include "syncopate/plan/realise.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "syncopate/plan/knowledge.h"
#include "syncopate/plan/one_shot.h"

namespace syncopate {

namespace {

/// Makes waits and signals. Signals are made when the first wait needs them, so none is raised for nobody.
class Realiser {
 public:
  Realiser(BoundOperator& bound, const DependenceGraph& graph, const WorkOrder& order)
      : plan_(bound.plan),
        graph_(graph),
        order_(order),
        stride_(stride_of(plan_, graph)),
        knowledge_(graph, order, static_cast<int>(stride_)),
        ranks_(static_cast<std::size_t>(plan_.ranks)) {
    plan_.programs.assign(ranks_, {});
    started_.assign(graph.transfers.size(), BitSet(ranks_));
    finished_.assign(graph.transfers.size(), BitSet(ranks_));
    transfer_at_.resize(graph.transfers.size());
    slots_at_home_.assign(ranks_, 0);
    for (const std::vector<Work>& work : graph.work) raises_.emplace_back(work.size());
    stores_.resize(ranks_);
    known_when_complete_.assign(ranks_, BitSet(graph.transfers.size()));
    read_by_.resize(graph.transfers.size());
    into_.resize(ranks_);
    from_.resize(ranks_);
    for (std::size_t n = 0; n < graph.transfers.size(); ++n) {
      const TransferNode& t = graph.transfers[n];
      into_[static_cast<std::size_t>(t.destination)].push_back(static_cast<int>(n));
      from_[static_cast<std::size_t>(t.source)].push_back(static_cast<int>(n));
      for (const int rank : {t.owner, t.source, t.destination})
        known_when_complete_[static_cast<std::size_t>(rank)] |= knowledge_.after(static_cast<int>(n));
    }
    for (const std::vector<Work>& work : graph.work)
      for (std::size_t w = 0; w < work.size(); ++w)
        for (const int n : work[w].needs) read_by_[static_cast<std::size_t>(n)].push_back(static_cast<int>(w));
  }

  void run() {
    make_queues();
    for (const int n : order_.transfers) wait_before_transfer(n);
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      BitSet known(graph_.transfers.size());  // complete when the rank's own tiles and queues are
      const std::vector<OneShotPart> parts = one_shot_parts(plan_, graph_, rank);
      wait_for_own_summands(rank, parts);
      std::vector<BitSet> known_to_workers = wait_before_tiles(rank, known);
      wait_for_summands(rank, parts, known_to_workers, known);
      for (const std::vector<int>& queue : graph_.queues[static_cast<std::size_t>(rank)])
        if (!queue.empty()) known |= knowledge_.after(queue.back());
      wait_before_completion(rank, known);
    }
  }

 private:
  /// In a dynamic order each piece of work is for itself.
  static std::size_t stride_of(const Plan& plan, const DependenceGraph& graph) {
    std::size_t most = 1;
    for (const std::vector<Work>& work : graph.work) most = std::max(most, work.size());
    return is_dynamic(plan) ? most : static_cast<std::size_t>(plan.workers);
  }

  RankProgram& program(int rank) { return plan_.programs[static_cast<std::size_t>(rank)]; }
  const TransferNode& node(int n) const { return graph_.transfers[static_cast<std::size_t>(n)]; }
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
          made.source = {node(n).source, node(n).source_buffer, node(n).source_region};
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

  std::string chunk_name(const TransferNode& t) const { return name_of_tensor(t) + t.chunk.to_string(); }
  const std::string& name_of_tensor(const TransferNode& t) const {
    const int caller = caller_side(plan_, t.buffer);
    return plan_.buffer(caller < 0 ? t.buffer : caller).name;
  }
  static std::string seen_by(int home, int expected) {
    return home == expected ? "" : fmt::format(" seen by rank {}", home);
  }

  /// The signal at `home` that says that transfer n has completed.
  int completion_of(int n, int home) {
    const auto [found, is_new] = completions_.try_emplace({n, home}, 0);
    if (is_new) {
      const TransferNode& t = node(n);
      const bool summand = t.reduces || plan_.buffer(t.destination_buffer).role == BufferRole::summands;
      const std::string origin = summand ? fmt::format(" of rank {}", t.source) : "";
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

  /// A signal at `home` that says that these pieces of a rank's work are done. Of each worker only the
  /// last of them raises it: it comes after the others, and its release covers all that its worker has stored and read
  /// before. More raises would bring nothing, since all are waited for, and each of them stalls a worker. Nor does it
  /// close a circle of waits: that last piece was waited for anyway, and everything ahead of it with it.
  int counter_of(int home, int rank, const std::vector<int>& work, std::string name, std::string counts) {
    const std::vector<int> raising = knowledge_.last_of_workers(rank, work);
    const int counter = add_signal(std::move(name), home, std::move(counts));
    plan_.signals[static_cast<std::size_t>(counter)].per_launch = static_cast<std::int64_t>(raising.size());
    for (const int w : raising) raises_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(w)].push_back(counter);
    return counter;
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
    for (const int before : knowledge_.behind_work(t.source, stored_by(n))) inherit(before);
    for (const int before : knowledge_.behind_work(t.destination, freed_by(n))) inherit(before);
    if (!stored_by(n).empty()) has_started(t.source);
    if (!freed_by(n).empty()) has_started(t.destination);
    wait_for_work_and_transfers(n);

    // A pull reads what its source's caller put there, so the source must have started this launch.
    if (!started.contains(t.source) && holds_any_of(plan_.buffer(t.source_buffer), t.source, t.source_region)) {
      transfer(n).waits.push_back({start_of(t.source, t.owner), 1});
      has_started(t.source);
    }
    // What lands in an output overwrites what the caller took after the launch before: it must have begun this one.
    if (lands_in_output(t) && !started.contains(t.destination)) {
      transfer(n).waits.push_back({start_of(t.destination, t.owner), 1});
      has_started(t.destination);
    }
    // A push overwrites what the destination read in the launch before, so that launch must be over there.
    if (!finished.contains(t.destination) && !knows_readers_done(n)) {
      transfer(n).waits.push_back({finish_of(t.destination, t.owner), 0});
      finished.insert(t.destination);
    }
  }

  /// Whether its owner, which has completed the launch before, so knows that whatever read there what n overwrites has
  /// done so: what these tiles made has left, and come to the owner.
  bool knows_readers_done(int n) const {
    if (!slots_raise(plan_)) return false;
    const TransferNode& t = node(n);
    // Additions read it, of which only the completion tells.
    if (plan_.buffer(t.destination_buffer).role == BufferRole::summands) return false;
    const BitSet& known = known_when_complete_[static_cast<std::size_t>(t.owner)];
    const auto destination = static_cast<std::size_t>(t.destination);
    const Buffer& buffer = plan_.buffer(t.destination_buffer);
    for (const int other : from_[destination])
      if (node(other).source_buffer == t.destination_buffer &&
          share_memory(buffer, node(other).source_region, t.destination_region) && !known.contains(other))
        return false;
    for (const int other : into_[destination]) {
      const TransferNode& o = node(other);
      if (o.destination_buffer != t.destination_buffer ||
          !share_memory(buffer, o.destination_region, t.destination_region))
        continue;
      const auto at = static_cast<std::size_t>(other);
      const std::vector<int>& readers = o.reduces ? graph_.added_by[at] : read_by_[at];
      if (!known.contains(other) || !knowledge_.not_done(t.destination, readers, known).empty()) return false;
    }
    return true;
  }

  bool lands_in_output(const TransferNode& t) const {
    const Buffer& buffer = plan_.buffer(t.destination_buffer);
    return buffer.role == BufferRole::result || buffer.is_reduced();
  }

  void wait_for_work_and_transfers(int n) {
    const TransferNode& t = node(n);
    BitSet known(graph_.transfers.size());
    if (t.previous >= 0) known |= knowledge_.after(t.previous);
    const BitSet after_stores = knowledge_.after_work(t.source, stored_by(n));
    const BitSet after_room = knowledge_.after_work(t.destination, freed_by(n));
    // A dependency on a sum that the sent tiles add, or on what tiles have read that make room, is kept by these tiles.
    for (const int dependency :
         knowledge_.not_implied(t.dependencies, joined(joined(known, after_stores), after_room))) {
      transfer(n).waits.push_back({completion_of(dependency, t.owner), 1});
      known |= knowledge_.after(dependency);
    }
    // Each of the two may imply the other; not both are left out for that.
    const std::vector<int> freeing = knowledge_.not_done(t.destination, freed_by(n), joined(known, after_stores));
    if (!freeing.empty()) known |= after_room;
    wait_for_stores(n, knowledge_.not_done(t.source, stored_by(n), known));
    if (t.reuses >= 0)
      wait_for_additions(n, freeing);
    else
      wait_for_room(n, freeing);
  }

  void wait_for_stores(int n, const std::vector<int>& storing) {
    if (storing.empty()) return;
    const TransferNode& t = node(n);
    const int counter = counter_of(
        t.owner, t.source, storing,
        fmt::format("{} of rank {} for rank {}{}", chunk_name(t), t.source, t.destination, seen_by(t.owner, t.source)),
        fmt::format("a worker of rank {} has stored its last part of the chunk", t.source));
    transfer(n).waits.push_back(all_of(counter));
    if (t.owner == t.source) note_stores(t.source, counter, storing);
  }

  void wait_for_additions(int n, const std::vector<int>& adding) {
    if (adding.empty()) return;
    const TransferNode& t = node(n);
    const TransferNode& old = node(t.reuses);
    const int counter =
        counter_of(t.owner, t.destination, adding,
                   fmt::format("{} of rank {} added by rank {}{}", chunk_name(old), old.source, old.destination,
                               seen_by(t.owner, old.destination)),
                   fmt::format("a worker of rank {} has added its last part of the chunk", t.destination));
    transfer(n).waits.push_back(all_of(counter));
  }

  /// Tiles that have read what stands in a folded buffer where n will put its chunk. What is said to one rank of the
  /// same tiles is said once.
  void wait_for_room(int n, const std::vector<int>& reading) {
    if (reading.empty()) return;
    const TransferNode& t = node(n);
    const auto [found, is_new] =
        rooms_.try_emplace({t.destination, t.owner, knowledge_.last_of_workers(t.destination, reading)}, 0);
    if (is_new)
      found->second = counter_of(
          t.owner, t.destination, reading,
          fmt::format("room for {} at rank {}{}", chunk_name(t), t.destination, seen_by(t.owner, t.destination)),
          fmt::format("a worker of rank {} has read its last part of what stands there", t.destination));
    transfer(n).waits.push_back(all_of(found->second));
  }

  // ---- One-shot sums ----

  void note_stores(int rank, int counter, const std::vector<int>& work) {
    const std::set<int> storing(work.begin(), work.end());
    stores_[static_cast<std::size_t>(rank)].push_back({counter, storing, knowledge_.last_positions(rank, work)});
  }

  /// Of a rank's own stores to a part of a one-shot sum.
  struct OwnStores {
    std::vector<std::map<int, int>> needed;  ///< per addition: which places of other workers it waits for, by worker
    std::set<int> told;                      ///< the work that any of them waits for
    std::string name;
  };

  /// `done`: of each worker, how far it knows the others to be.
  OwnStores own_stores(int rank, const OneShotPart& part, std::size_t first,
                       const std::vector<std::map<int, int>>& done) const {
    OwnStores own{{}, {}, plan_.buffer(added_up_buffer(plan_)).name + part.stretch.to_string()};
    for (std::size_t i = 0; i < part.additions.size(); ++i) {
      const std::size_t worker = (first + i) % done.size();
      std::map<int, int>& needed = own.needed.emplace_back(knowledge_.last_positions(rank, part.stored_by[i]));
      needed.erase(static_cast<int>(worker));
      std::erase_if(needed, [&](const auto& other) { return is_done(done[worker], other); });
      for (const int w : part.stored_by[i])
        if (needed.contains(knowledge_.last_positions(rank, std::span(&w, 1)).begin()->first)) own.told.insert(w);
    }
    return own;
  }

  /// Makes the additions of a rank, with the waits for what its other workers store. Where a counter at the rank says
  /// that already, since one of its transfers waits for the same, it is used.
  void wait_for_own_summands(int rank, const std::vector<OneShotPart>& parts) {
    std::vector<Addition>& additions = program(rank).additions;
    std::vector<std::map<int, int>> done(static_cast<std::size_t>(plan_.workers));
    for (const OneShotPart& part : parts) {
      OwnStores own = own_stores(rank, part, additions.size(), done);
      for (std::size_t i = 0; i < part.additions.size(); ++i) {
        std::map<int, int>& known = done[additions.size() % done.size()];
        std::erase_if(own.needed[i], [&](const auto& other) { return is_done(known, other); });
        Addition addition{part.additions[i], {}};
        for (const Stores* stores : stores_for(rank, own, own.needed[i])) {
          addition.waits.push_back(all_of(stores->counter));
          for (const auto& [other, position] : stores->last)
            known[other] = std::max(known.try_emplace(other, -1).first->second, position);
        }
        additions.push_back(std::move(addition));
      }
    }
  }

  /// Whether a worker is known to have come past a place in the order.
  static bool is_done(const std::map<int, int>& known, const std::pair<const int, int>& place) {
    const auto found = known.find(place.first);
    return found != known.end() && found->second >= place.second;
  }

  struct Stores {
    int counter = 0;
    std::set<int> work;       ///< that it counts
    std::map<int, int> last;  ///< by worker: the place of the last of that work
  };

  /// Counters that together tell what is needed of a part, none of them for nothing.
  std::vector<const Stores*> stores_for(int rank, const OwnStores& own, const std::map<int, int>& needed) {
    std::vector<const Stores*> chosen;
    for (std::map<int, int> rest = needed; !rest.empty();) {
      chosen.push_back(&most_telling(rank, own, rest));
      std::erase_if(rest, [&](const auto& other) { return is_done(chosen.back()->last, other); });
    }
    for (std::size_t i = 0; i < chosen.size();) {
      const bool others_tell = std::all_of(needed.begin(), needed.end(), [&](const auto& other) {
        return std::any_of(chosen.begin(), chosen.end(),
                           [&](const Stores* each) { return each != chosen[i] && is_done(each->last, other); });
      });
      if (others_tell)
        chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(i));
      else
        ++i;
    }
    return chosen;
  }

  /// The counter at the rank that tells most of what is needed of a part; a new one if none tells anything.
  const Stores& most_telling(int rank, const OwnStores& own, const std::map<int, int>& needed) {
    const Stores* best = nullptr;
    std::ptrdiff_t most = 0;
    for (const Stores& stores : stores_[static_cast<std::size_t>(rank)]) {
      const bool about = std::any_of(own.told.begin(), own.told.end(), [&](int w) { return stores.work.contains(w); });
      const std::ptrdiff_t tells =
          std::count_if(needed.begin(), needed.end(), [&](const auto& other) { return is_done(stores.last, other); });
      if (!about || tells <= most) continue;
      best = &stores;
      most = tells;
    }
    if (best != nullptr) return *best;
    const std::vector<int> work(own.told.begin(), own.told.end());
    note_stores(rank,
                counter_of(rank, rank, work, fmt::format("{} of rank {} for its own sum", own.name, rank),
                           fmt::format("a worker of rank {} has stored its last part of the sum's summand", rank)),
                work);
    return stores_[static_cast<std::size_t>(rank)].back();
  }

  void wait_for_summands(int rank, const std::vector<OneShotPart>& parts, std::vector<BitSet>& known_to_workers,
                         BitSet& known_to_rank) {
    std::size_t a = 0;
    for (const OneShotPart& part : parts)
      for (std::size_t i = 0; i < part.additions.size(); ++i, ++a) {
        BitSet& known_to_worker = known_to_workers[a % known_to_workers.size()];
        for (const int n : knowledge_.not_implied(part.arriving, known_to_worker)) {
          program(rank).additions[a].waits.push_back({completion_of(n, rank), 1});
          known_to_worker |= knowledge_.after(n);
          known_to_rank |= knowledge_.after(n);
        }
      }
  }

  static BitSet joined(BitSet a, const BitSet& b) { return a |= b; }

  const std::vector<int>& stored_by(int n) const { return graph_.stored_by[static_cast<std::size_t>(n)]; }
  /// The work of the destination that reads or adds what lies where transfer n will put its chunk.
  const std::vector<int>& freed_by(int n) const { return graph_.freed_by[static_cast<std::size_t>(n)]; }
  Wait all_of(int signal) const { return {signal, plan_.signals[static_cast<std::size_t>(signal)].per_launch}; }

  /// Returns, by worker, what has completed when it has taken its slots.
  std::vector<BitSet> wait_before_tiles(int rank, BitSet& known_to_rank) {
    const std::vector<int>& order = order_.work[static_cast<std::size_t>(rank)];
    std::vector<BitSet> known(std::min(stride_, order.size()), BitSet(graph_.transfers.size()));
    std::map<int, std::vector<int>> walks;  // by tile
    for (std::size_t s = 0; s < order.size(); ++s) {
      BitSet& known_to_worker = known[s % stride_];
      const auto w = static_cast<std::size_t>(order[s]);
      const Work& work = graph_.work[static_cast<std::size_t>(rank)][w];
      const auto wait_for = [&](const std::vector<int>& nodes, std::vector<Wait>& waits) {
        for (const int n : knowledge_.not_implied(nodes, known_to_worker)) {
          waits.push_back({completion_of(n, rank), 1});
          known_to_worker |= knowledge_.after(n);
          known_to_rank |= knowledge_.after(n);
        }
      };
      Slot slot;
      slot.tile = work.tile;
      slot.kept = work.kept;
      // A slot of a dynamic order is taken when all is there that may need other slots.
      wait_for(is_dynamic(plan_) ? both(work.first_needs, work.sums) : work.first_needs, slot.waits);
      const auto [walk, is_first] = walks.try_emplace(work.tile);
      if (is_first) walk->second = walk_order(work, known_to_worker);
      slot.steps.reserve(walk->second.size());
      for (const int piece : walk->second) slot.steps.push_back({piece, {}});
      if (!is_known(work.needs, known_to_worker))
        for (LoopStep& step : slot.steps)
          wait_for((*work.piece_needs)[static_cast<std::size_t>(step.piece)], step.waits);
      wait_for(work.sums, slot.sum_waits);
      for (const int n : work.sums) add_summand(work, n, rank, slot);
      slot.signals = raises_[static_cast<std::size_t>(rank)][w];
      program(rank).slots.push_back(std::move(slot));
    }
    return known;
  }

  static std::vector<int> both(std::vector<int> nodes, const std::vector<int>& others) {
    nodes.insert(nodes.end(), others.begin(), others.end());
    return nodes;
  }

  static bool is_known(const std::vector<int>& nodes, const BitSet& known) {
    return std::all_of(nodes.begin(), nodes.end(), [&](int n) { return known.contains(n); });
  }

  /// The pieces of a tile loop by loop, those of a loop by the estimated arrival of the last chunk that each needs. If
  /// nothing that a loop needs is still to come, the worker walks it in the kernel's own order.
  std::vector<int> walk_order(const Work& work, const BitSet& known) const {
    const std::vector<LoopPiece>& pieces = plan_.tiles[static_cast<std::size_t>(work.tile)].pieces;
    std::vector<int> order(pieces.size());
    std::iota(order.begin(), order.end(), 0);
    if (is_known(work.needs, known)) return order;
    std::vector<std::pair<int, std::int64_t>> moments;  // loop, arrival
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      std::int64_t arrival = 0;
      for (const int n : (*work.piece_needs)[p])
        if (!known.contains(n)) arrival = std::max(arrival, node(n).arrival);
      moments.emplace_back(pieces[p].loop, arrival);
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return moments[static_cast<std::size_t>(a)] < moments[static_cast<std::size_t>(b)];
    });
    return order;
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
    const std::vector<int> last = knowledge_.not_implied(touching, known);
    if (last.empty()) return;
    // Several raise one signal where no raise of the next launch can come before all of this one's have.
    std::vector<int> together;
    std::vector<int> alone;
    for (const int n : last) (begins_after(n, last, rank) ? together : alone).push_back(n);
    if (together.size() == 1) alone.push_back(std::exchange(together, {}).front());
    const std::string name = fmt::format("peers done with buffers of rank {}", rank);
    const std::string counts = "a peer's last transfer from or to this rank has completed";
    const auto wait_for = [&](const std::string& full_name, const std::vector<int>& nodes) {
      const int drained = add_signal(full_name, rank, counts);
      for (const int n : nodes) transfer(n).signals.push_back(drained);
      plan_.signals[static_cast<std::size_t>(drained)].per_launch = static_cast<std::int64_t>(nodes.size());
      program(rank).completion_waits.push_back(all_of(drained));
    };
    if (!together.empty()) wait_for(name, together);
    for (const int n : alone)
      wait_for(last.size() == 1 ? name : fmt::format("{}: {} of rank {}", name, chunk_name(node(n)), node(n).owner),
               {n});
  }

  /// Whether transfer n of a launch begins after the transfers `last` of the launch before have completed, which a rank
  /// waits for before it completes a launch: n waits for that, or its owner knows when it has completed that launch.
  bool begins_after(int n, const std::vector<int>& last, int rank) const {
    if (finished_[static_cast<std::size_t>(n)].contains(rank)) return true;
    const BitSet& known = known_when_complete_[static_cast<std::size_t>(node(n).owner)];
    return std::all_of(last.begin(), last.end(), [&](int other) { return known.contains(other); });
  }

  Plan& plan_;
  const DependenceGraph& graph_;
  const WorkOrder& order_;
  std::size_t stride_;  ///< work so far apart in the order is one worker's
  const Knowledge knowledge_;
  std::size_t ranks_;
  std::vector<BitSet> started_;
  std::vector<BitSet> finished_;
  std::vector<BitSet> known_when_complete_;  ///< [rank]: transfers that have completed when it has completed a launch
  std::vector<std::vector<int>> into_;       ///< per rank: nodes whose destination it is
  std::vector<std::vector<int>> from_;       ///< per rank: nodes whose source it is
  std::vector<std::vector<int>> read_by_;    ///< per node: work of its destination that reads what it brings
  std::vector<std::pair<std::size_t, std::size_t>> transfer_at_;
  std::vector<int> slots_at_home_;
  std::map<std::pair<int, int>, int> completions_;
  std::map<std::pair<int, int>, int> starts_;
  std::map<std::pair<int, int>, int> finishes_;
  std::map<std::tuple<int, int, std::vector<int>>, int> rooms_;  ///< by rank, home, and who raises it
  std::vector<std::vector<std::vector<int>>> raises_;            ///< [rank][work]: the signals that it raises
  std::vector<std::deque<Stores>> stores_;  ///< [rank]: what counters at the rank say of its own stores
};

}  // namespace

void realise(BoundOperator& bound, const DependenceGraph& graph, const WorkOrder& order) {
  Realiser(bound, graph, order).run();
}

}  // namespace syncopate
