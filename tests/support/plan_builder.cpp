#include "tests/support/plan_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace syncopate::testing {

namespace {

constexpr int kA = 0;
constexpr int kB = 1;
constexpr int kC = 2;

struct Chunk {
  int owner = 0;
  int number = 0;
  Region region;
};

/// A transfer that was placed, and what its completion implies.
struct Placed {
  int destination = 0;
  Region region;
  Wait arrival;                 ///< what a tile of the destination waits for
  std::set<std::size_t> known;  ///< transfers that have ended when it has, itself included
};

class Maker {
 public:
  explicit Maker(const HandMadeOptions& options) : options_(options), ranks_(options.ranks) {}

  Plan make() {
    make_buffers();
    make_product_tiles(plan_, options_.tile_rows, options_.tile_columns);
    make_chunks();
    plan_.programs.resize(static_cast<std::size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank) {
      const bool direct = options_.route == Route::direct_push || options_.route == Route::direct_pull;
      program(rank).queues.resize(direct ? static_cast<std::size_t>(options_.queues) : 1);
      for (std::size_t q = 0; q < program(rank).queues.size(); ++q)
        program(rank).queues[q].name = fmt::format("rank {} queue {}", rank, q);
    }
    switch (options_.route) {
      case Route::direct_push:
        push_directly();
        break;
      case Route::direct_pull:
        pull_directly();
        break;
      case Route::ring_push:
      case Route::ring_pull:
        go_round();
        break;
    }
    if (options_.streamed) make_pieces();
    for (int rank = 0; rank < ranks_; ++rank) {
      if (options_.streamed)
        make_walks(rank);
      else
        make_slots(rank);
    }
    drop_unused_signals(plan_);  // a chunk whose arrival another's implies for everybody needs no signal of its own
    return std::move(plan_);
  }

 private:
  RankProgram& program(int rank) { return plan_.programs[static_cast<std::size_t>(rank)]; }
  int shift(int rank, int distance) const { return ((rank + distance) % ranks_ + ranks_) % ranks_; }

  void make_buffers() {
    plan_.operator_name = "hand made";
    plan_.ranks = ranks_;
    plan_.workers = options_.workers;
    const auto buffer = [&](std::string name, Shape shape, bool symmetric, Placement before, std::string purpose) {
      Buffer made;
      made.parameter = name + "_ptr";
      made.name = std::move(name);
      made.shape = std::move(shape);
      made.symmetric = symmetric;
      made.shared = symmetric;
      made.before = before;
      made.purpose = std::move(purpose);
      plan_.buffers.push_back(std::move(made));
    };
    buffer("a", {options_.rows, options_.inner}, true, Placement::shard(0), "gathered input");
    buffer("b", {options_.inner, options_.columns}, false, Placement::replicate(), "input of the rank");
    buffer("c", {options_.rows, options_.columns}, false, Placement::replicate(), "output of the rank");
    for (int rank = 0; rank < ranks_; ++rank) {
      plan_.buffers[kA].held.push_back({Region{chunk_of({0, options_.rows}, ranks_, rank), {0, options_.inner}}});
      plan_.buffers[kB].held.push_back({Region::whole(plan_.buffers[kB].shape)});
      plan_.buffers[kC].held.push_back({Region{{0, 0}, {0, 0}}});
    }
  }

  void make_chunks() {
    for (int owner = 0; owner < ranks_; ++owner) {
      const Range shard = chunk_of({0, options_.rows}, ranks_, owner);
      std::vector<Chunk>& chunks = chunks_.emplace_back();
      for (int i = 0; i < options_.split; ++i) {
        const Range rows = chunk_of(shard, options_.split, i);
        if (!rows.empty()) chunks.push_back({owner, i, {rows, {0, options_.inner}}});
      }
    }
  }

  int add_arrival(const Chunk& chunk, int rank) {
    return add_signal(plan_, fmt::format("chunk {}.{} at rank {}", chunk.owner, chunk.number, rank), rank);
  }

  /// Appends a transfer whose arrival the destination's tiles see by `arrival`. `after`: transfers that it waits for.
  std::size_t place(int rank, int queue, const Chunk& chunk, int source, int destination, const Wait& arrival,
                    std::vector<Wait> waits, const std::vector<std::size_t>& after = {}) {
    Queue& into = program(rank).queues[static_cast<std::size_t>(queue)];
    Transfer transfer;
    transfer.operator_rank = rank;
    transfer.operator_index = operator_count_[rank]++;
    transfer.source = {source, kA, chunk.region};
    transfer.destination = {destination, kA, chunk.region};
    transfer.waits = std::move(waits);
    transfer.signals = {arrival.signal};
    into.transfers.push_back(std::move(transfer));
    Placed placed{destination, chunk.region, arrival, {placed_.size()}};
    const auto imply = [&](std::size_t other) {
      placed.known.insert(placed_[other].known.begin(), placed_[other].known.end());
    };
    if (const auto last = last_in_queue_.find({rank, queue}); last != last_in_queue_.end()) imply(last->second);
    for (const std::size_t other : after) imply(other);
    last_in_queue_[{rank, queue}] = placed_.size();
    placed_.push_back(std::move(placed));
    return placed_.size() - 1;
  }

  void push_directly() {
    for (int source = 0; source < ranks_; ++source) {
      for (int distance = 1; distance < ranks_; ++distance) {
        const int destination = shift(source, distance);
        const std::vector<Chunk>& chunks = chunks_[static_cast<std::size_t>(source)];
        if (chunks.empty()) continue;
        const int free = add_signal(plan_, fmt::format("rank {} free for rank {}", destination, source), source);
        program(destination).completion_signals.push_back(free);
        const int counter = options_.counted
                                ? add_signal(plan_, fmt::format("chunks of rank {} at rank {}", source, destination),
                                             destination, static_cast<std::int64_t>(chunks.size()))
                                : -1;
        for (std::size_t i = 0; i < chunks.size(); ++i) {
          const Wait arrival = options_.counted ? Wait{counter, static_cast<std::int64_t>(i) + 1}
                                                : Wait{add_arrival(chunks[i], destination), 1};
          place(source, (distance - 1) % options_.queues, chunks[i], source, destination, arrival,
                i == 0 ? std::vector<Wait>{{free, 0}} : std::vector<Wait>{});
        }
      }
    }
  }

  void pull_directly() {
    std::vector<int> drained(static_cast<std::size_t>(ranks_), -1);
    for (int owner = 0; owner < ranks_ && ranks_ > 1; ++owner) {
      if (chunks_[static_cast<std::size_t>(owner)].empty()) continue;
      const int signal = add_signal(plan_, fmt::format("rank {} drained", owner), owner, ranks_ - 1);
      drained[static_cast<std::size_t>(owner)] = signal;
      program(owner).completion_waits.push_back({signal, ranks_ - 1});
    }
    for (int puller = 0; puller < ranks_; ++puller) {
      for (int distance = 1; distance < ranks_; ++distance) {
        const int owner = shift(puller, distance);
        const std::vector<Chunk>& chunks = chunks_[static_cast<std::size_t>(owner)];
        if (chunks.empty()) continue;
        const int ready = add_signal(plan_, fmt::format("rank {} ready for rank {}", owner, puller), puller);
        program(owner).start_signals.push_back(ready);
        const int queue = (distance - 1) % options_.queues;
        for (std::size_t i = 0; i < chunks.size(); ++i)
          place(puller, queue, chunks[i], owner, puller, {add_arrival(chunks[i], puller), 1},
                i == 0 ? std::vector<Wait>{{ready, 1}} : std::vector<Wait>{});
        program(puller).queues[static_cast<std::size_t>(queue)].transfers.back().signals.push_back(
            drained[static_cast<std::size_t>(owner)]);
      }
    }
  }

  /// Each rank hands on to (push), or takes from (pull), its neighbour what the neighbour before it handed on.
  void go_round() {
    const bool push = options_.route == Route::ring_push;
    std::map<std::pair<int, int>, std::vector<std::size_t>> arrived;  // (rank, owner) -> transfers that brought it
    std::map<int, bool> greeted;
    for (int step = 0; step + 1 < ranks_; ++step) {
      for (int source = 0; source < ranks_; ++source) {
        const int destination = shift(source, 1);
        const int rank = push ? source : destination;
        const int owner = shift(source, -step);
        const std::vector<Chunk>& chunks = chunks_[static_cast<std::size_t>(owner)];
        for (std::size_t i = 0; i < chunks.size(); ++i) {
          std::vector<Wait> waits;
          std::vector<std::size_t> after;
          if (push && !std::exchange(greeted[rank], true)) {
            const int free = add_signal(plan_, fmt::format("rank {} free for rank {}", destination, source), source);
            program(destination).completion_signals.push_back(free);
            waits.push_back({free, 0});
          }
          if (!push && step == 0 && i == 0) {
            const int ready =
                add_signal(plan_, fmt::format("rank {} ready for rank {}", source, destination), destination);
            program(source).start_signals.push_back(ready);
            waits.push_back({ready, 1});
          }
          if (step > 0) {
            const std::size_t before = arrived[{source, owner}][i];
            after.push_back(before);
            waits.push_back(push ? placed_[before].arrival : seen_by(before, chunks[i], source, destination));
          }
          const Wait arrival{add_arrival(chunks[i], destination), 1};
          arrived[{destination, owner}].push_back(
              place(rank, 0, chunks[i], source, destination, arrival, std::move(waits), after));
        }
      }
    }
    for (int rank = 0; rank < ranks_ && !push; ++rank) {
      std::vector<Transfer>& transfers = program(rank).queues[0].transfers;
      if (transfers.empty()) continue;
      const int source = shift(rank, -1);
      const int drained = add_signal(plan_, fmt::format("rank {} drained", source), source);
      transfers.back().signals.push_back(drained);
      program(source).completion_waits.push_back({drained, 1});
    }
  }

  /// Lets the pull number `placed`, made by `rank`, tell its neighbour that the chunk can be taken on.
  Wait seen_by(std::size_t placed, const Chunk& chunk, int rank, int neighbour) {
    const int signal =
        add_signal(plan_, fmt::format("chunk {}.{} at rank {} for rank {}", chunk.owner, chunk.number, rank, neighbour),
                   neighbour);
    for (Transfer& transfer : program(rank).queues[0].transfers)
      if (transfer.signals.front() == placed_[placed].arrival.signal) transfer.signals.push_back(signal);
    return {signal, 1};
  }

  /// Tiles of the own shard first, then by the order in which their last transfer was placed.
  void make_slots(int rank) {
    std::vector<std::vector<std::size_t>> needs;
    for (const Tile& tile : plan_.tiles) {
      std::vector<std::size_t>& list = needs.emplace_back();
      for (std::size_t p = 0; p < placed_.size(); ++p)
        if (placed_[p].destination == rank && placed_[p].region.overlaps(tile.reads.front().region)) list.push_back(p);
    }
    std::vector<int> order;
    for (std::size_t t = 0; t < plan_.tiles.size(); ++t) order.push_back(static_cast<int>(t));
    const auto last = [&](int tile) {
      const auto& list = needs[static_cast<std::size_t>(tile)];
      return list.empty() ? -1 : static_cast<std::ptrdiff_t>(list.back());
    };
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return last(x) < last(y); });
    std::vector<std::set<std::size_t>> known(static_cast<std::size_t>(options_.workers));
    for (std::size_t s = 0; s < order.size(); ++s) {
      std::set<std::size_t>& worker = known[s % known.size()];
      Slot slot;
      slot.tile = order[s];
      const std::vector<std::size_t>& needed = needs[static_cast<std::size_t>(slot.tile)];
      for (const std::size_t p : needed) {
        const bool implied = worker.contains(p) || std::any_of(needed.begin(), needed.end(), [&](std::size_t other) {
                               return other != p && placed_[other].known.contains(p);
                             });
        if (!implied) slot.waits.push_back(placed_[p].arrival);
      }
      for (const std::size_t p : needed) worker.insert(placed_[p].known.begin(), placed_[p].known.end());
      program(rank).slots.push_back(std::move(slot));
    }
  }

  /// A piece for each chunk, in the order of rows.
  void make_pieces() {
    plan_.kernel.streamed_loops = {"rows"};
    for (Tile& tile : plan_.tiles) {
      tile.reads.erase(tile.reads.begin());  // of a
      for (const std::vector<Chunk>& chunks : chunks_)
        for (const Chunk& chunk : chunks) {
          const auto number = static_cast<std::int64_t>(tile.pieces.size());
          tile.pieces.push_back({0, number, number + 1, {{kA, chunk.region}}});
        }
    }
  }

  /// Own chunks first, then the others in the order in which their transfers were placed.
  void make_walks(int rank) {
    std::vector<std::pair<std::ptrdiff_t, int>> order;  // transfer, piece
    const std::vector<LoopPiece>& pieces = plan_.tiles.front().pieces;
    for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
      std::ptrdiff_t brings = -1;
      for (std::size_t p = 0; p < placed_.size(); ++p)
        if (placed_[p].destination == rank && placed_[p].region == pieces[piece].reads.front().region)
          brings = static_cast<std::ptrdiff_t>(p);
      order.emplace_back(brings, static_cast<int>(piece));
    }
    std::sort(order.begin(), order.end());
    std::vector<std::set<std::size_t>> known(static_cast<std::size_t>(options_.workers));
    for (std::size_t t = 0; t < plan_.tiles.size(); ++t) {
      std::set<std::size_t>& worker = known[t % known.size()];
      Slot slot;
      slot.tile = static_cast<int>(t);
      for (const auto& [brings, piece] : order) {
        slot.steps.push_back({piece, {}});
        if (brings < 0) continue;
        const Placed& placed = placed_[static_cast<std::size_t>(brings)];
        if (!worker.contains(static_cast<std::size_t>(brings))) slot.steps.back().waits.push_back(placed.arrival);
        worker.insert(placed.known.begin(), placed.known.end());
      }
      program(rank).slots.push_back(std::move(slot));
    }
  }

  HandMadeOptions options_;
  int ranks_;
  Plan plan_;
  std::vector<std::vector<Chunk>> chunks_;  // [owner]
  std::vector<Placed> placed_;
  std::map<int, int> operator_count_;
  std::map<std::pair<int, int>, std::size_t> last_in_queue_;
};

template <typename WaitsVisitor, typename SignalsVisitor>
void for_each_list(Plan& plan, WaitsVisitor&& visit_waits, SignalsVisitor&& visit_signals) {
  for (RankProgram& program : plan.programs) {
    visit_signals(program.start_signals);
    for (Queue& queue : program.queues) {
      for (Transfer& transfer : queue.transfers) {
        visit_waits(transfer.waits);
        visit_signals(transfer.signals);
      }
    }
    for (Slot& slot : program.slots) {
      visit_waits(slot.waits);
      for (LoopStep& step : slot.steps) visit_waits(step.waits);
      visit_waits(slot.sum_waits);
      visit_signals(slot.signals);
    }
    visit_waits(program.completion_waits);
    visit_signals(program.completion_signals);
  }
}

}  // namespace

Plan hand_made(const HandMadeOptions& options) { return Maker(options).make(); }

void make_product_tiles(Plan& plan, std::int64_t tile_rows, std::int64_t tile_columns) {
  const Shape& c = plan.buffer(kC).shape;
  const Range inner{0, plan.buffer(kA).shape[1]};
  const std::int64_t down = (c[0] + tile_rows - 1) / tile_rows;
  const std::int64_t across = (c[1] + tile_columns - 1) / tile_columns;
  plan.kernel.axes = {"m", "n"};
  plan.kernel.extents = {down, across};
  plan.kernel.grid = {down * across};
  for (std::int64_t m = 0; m < down; ++m) {
    for (std::int64_t n = 0; n < across; ++n) {
      const Range rows{m * tile_rows, std::min((m + 1) * tile_rows, c[0])};
      const Range columns{n * tile_columns, std::min((n + 1) * tile_columns, c[1])};
      plan.tiles.push_back({{m, n}, {{kA, {rows, inner}}, {kB, {inner, columns}}}, {{kC, {rows, columns}}}});
    }
  }
}

void drop_unused_signals(Plan& plan) {
  std::set<int> used;
  for_each_list(
      plan,
      [&](const std::vector<Wait>& waits) {
        for (const Wait& wait : waits) used.insert(wait.signal);
      },
      [](const std::vector<int>&) {});
  std::map<int, int> renumbered;
  std::map<int, int> slots;
  std::vector<Signal> kept;
  for (const int signal : used) {
    renumbered[signal] = static_cast<int>(kept.size());
    kept.push_back(std::move(plan.signals[static_cast<std::size_t>(signal)]));
    kept.back().slot = slots[kept.back().home]++;
  }
  plan.signals = std::move(kept);
  for_each_list(
      plan,
      [&](std::vector<Wait>& waits) {
        for (Wait& wait : waits) wait.signal = renumbered.at(wait.signal);
      },
      [&](std::vector<int>& raised) {
        std::erase_if(raised, [&](int signal) { return !renumbered.contains(signal); });
        for (int& signal : raised) signal = renumbered.at(signal);
      });
}

int add_signal(Plan& plan, std::string name, int home, std::int64_t per_launch) {
  plan.signals.push_back({std::move(name), home, signal_count(plan, home), per_launch, "made by hand"});
  return static_cast<int>(plan.signals.size()) - 1;
}

int signal_called(const Plan& plan, const std::string& name) {
  const auto found =
      std::find_if(plan.signals.begin(), plan.signals.end(), [&](const Signal& signal) { return signal.name == name; });
  check_internal(found != plan.signals.end(), "no signal is called " + name);
  return static_cast<int>(found - plan.signals.begin());
}

}  // namespace syncopate::testing
