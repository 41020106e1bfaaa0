#include "tests/support/reduce_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace syncopate::testing {

namespace {

constexpr int kC = 2;
constexpr int kStaging = 3;

/// A chunk's summand, or sum so far, on its way to the next rank.
struct Move {
  int source = 0;
  int destination = 0;
  int shard = 0;   ///< whose result it becomes part of
  int number = 0;  ///< of the chunk in its shard
  Range rows;
  std::int64_t staging_row = 0;
  int mover = 0;          ///< the rank whose queue it is in
  std::int64_t turn = 0;  ///< its place in that queue
};

/// Rows of a tile that are stored together.
struct Piece {
  int tile = 0;
  Range rows;
  std::int64_t turn = 0;  ///< pieces of a rank go in ascending order of it
  std::vector<std::size_t> sums;
  std::vector<std::size_t> feeds;
};

Range common(const Range& a, const Range& b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

class ReduceMaker {
 public:
  explicit ReduceMaker(const ReduceOptions& options) : options_(options), ranks_(options.ranks) {}

  Plan make() {
    plan_.operator_name = "hand made";
    plan_.ranks = ranks_;
    plan_.workers = options_.workers;
    plan_.programs.resize(static_cast<std::size_t>(ranks_));
    make_moves();
    make_buffers();
    make_product_tiles(plan_, options_.tile_rows, options_.tile_columns);
    for (int rank = 0; rank < ranks_; ++rank) make_pieces(rank);
    make_transfers();
    make_slots();
    connect();
    guard_launches();
    drop_implied_waits();
    drop_unused_signals(plan_);
    make_sums();
    return std::move(plan_);
  }

 private:
  bool is_ring() const { return options_.route == Route::ring_push || options_.route == Route::ring_pull; }
  bool is_push() const { return options_.route == Route::direct_push || options_.route == Route::ring_push; }
  RankProgram& program(int rank) { return plan_.programs[static_cast<std::size_t>(rank)]; }
  int shift(int rank, int distance) const { return ((rank + distance) % ranks_ + ranks_) % ranks_; }
  Range shard(int rank) const { return chunk_of({0, options_.rows}, ranks_, rank); }
  Region whole_rows(const Range& rows) const { return {rows, {0, options_.columns}}; }
  std::int64_t largest_chunk() const { return chunk_of(shard(0), options_.split, 0).size(); }

  std::vector<Range> chunks(int rank) const {
    std::vector<Range> all;
    for (int i = 0; i < options_.split; ++i)
      if (const Range rows = chunk_of(shard(rank), options_.split, i); !rows.empty()) all.push_back(rows);
    return all;
  }

  // ---- what moves ----

  void add_move(int source, int destination, int shard_of, int number) {
    Move move;
    move.source = source;
    move.destination = destination;
    move.shard = shard_of;
    move.number = number;
    move.rows = chunks(shard_of)[static_cast<std::size_t>(number)];
    move.mover = is_push() ? source : destination;
    move.turn = turns_[move.mover]++;
    move.staging_row = staging_row(move);
    moves_.push_back(move);
  }

  /// A ring brings every row once. Else every source has room of its own.
  std::int64_t staging_row(const Move& move) const {
    if (is_ring()) return move.rows.begin;
    const std::int64_t place = move.source - (move.source > move.destination ? 1 : 0);
    if (options_.staging_slots == 0) return place * shard(0).size() + move.rows.begin - shard(move.shard).begin;
    return (place * options_.staging_slots + move.number % options_.staging_slots) * largest_chunk();
  }

  std::int64_t staging_rows() const {
    if (is_ring()) return options_.rows;
    const std::int64_t per_source =
        options_.staging_slots == 0 ? shard(0).size() : options_.staging_slots * largest_chunk();
    return (ranks_ - 1) * per_source;
  }

  void make_moves() {
    // A rank that waits for room in a peer's staging buffer must not keep back what other peers need before they can
    // make room: chunk by chunk for all peers then.
    const bool by_chunk = options_.staging_slots > 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int outer = 0; outer < (by_chunk ? options_.split : ranks_ - 1); ++outer) {
        for (int inner = 0; inner < (by_chunk ? ranks_ - 1 : options_.split); ++inner) {
          const int distance = (by_chunk ? inner : outer) + 1;
          const int number = by_chunk ? outer : inner;
          const int source = is_ring()   ? (is_push() ? rank : shift(rank, -1))
                             : is_push() ? rank
                                         : shift(rank, distance);
          const int destination = is_ring() ? shift(source, 1) : is_push() ? shift(rank, distance) : rank;
          const int shard_of = is_ring() ? shift(source, -distance) : destination;
          if (number < static_cast<int>(chunks(shard_of).size())) add_move(source, destination, shard_of, number);
        }
      }
    }
  }

  // ---- the plan's parts ----

  void make_buffers() {
    const auto buffer = [&](std::string name, Shape shape, std::string purpose) -> Buffer& {
      Buffer made;
      made.parameter = name + "_ptr";
      made.name = std::move(name);
      made.shape = std::move(shape);
      made.purpose = std::move(purpose);
      made.held.assign(static_cast<std::size_t>(ranks_), {Region::whole(made.shape)});
      plan_.buffers.push_back(std::move(made));
      return plan_.buffers.back();
    };
    const std::vector<std::vector<Region>> nothing(static_cast<std::size_t>(ranks_), {Region{{0, 0}, {0, 0}}});
    buffer("a", {options_.rows, options_.inner}, "input of the rank");
    buffer("b", {options_.inner, options_.columns}, "input of the rank");
    Buffer& c = buffer("c", {options_.rows, options_.columns}, "summands, and the rank's part of the sum");
    c.held = nothing;
    c.symmetric = !is_push();
    c.before = c.inside = Placement::partial_sum();
    c.after = Placement::shard(0);
    if (moves_.empty()) return;
    Buffer& staging = buffer("c_staging", {staging_rows(), options_.columns}, "summands of peers");
    staging.parameter.clear();
    staging.held = nothing;
    staging.symmetric = is_push();
    staging.role = BufferRole::staging;
    staging.partner = kC;
  }

  void make_transfers() {
    for (int rank = 0; rank < ranks_; ++rank)
      program(rank).queues.push_back({fmt::format("rank {} queue", rank), {}, {}});
    for (const Move& move : moves_) {
      Transfer transfer;
      transfer.operator_rank = move.mover;
      transfer.operator_index = static_cast<int>(move.turn);
      transfer.source = {move.source, kC, whole_rows(move.rows)};
      transfer.destination = {move.destination, kStaging, staged(move)};
      program(move.mover).queues[0].transfers.push_back(std::move(transfer));
    }
  }

  Region staged(const Move& move) const { return whole_rows({move.staging_row, move.staging_row + move.rows.size()}); }

  /// The rows of a tile, cut where what is added to them starts to come, or comes from another chunk.
  std::vector<Range> cut(int rank, const Range& rows) const {
    std::vector<Range> parts;
    if (is_ring()) {
      for (int owner = 0; owner < ranks_; ++owner) parts.push_back(common(rows, shard(owner)));
    } else {
      const Range own = shard(rank);
      parts.push_back(common(rows, {0, own.begin}));
      if (options_.staging_slots == 0) {
        parts.push_back(common(rows, own));
      } else {
        for (const Range& chunk : chunks(rank)) parts.push_back(common(rows, chunk));
      }
      parts.push_back(common(rows, {own.empty() ? own.begin : own.end, options_.rows}));
    }
    std::erase_if(parts, [](const Range& part) { return part.empty(); });
    return parts;
  }

  void make_pieces(int rank) {
    std::vector<Piece>& pieces = pieces_.emplace_back();
    for (std::size_t tile = 0; tile < plan_.tiles.size(); ++tile) {
      for (const Range& rows : cut(rank, plan_.tiles[tile].writes[0].region[0])) {
        Piece piece{static_cast<int>(tile), rows, 0, {}, {}};
        for (std::size_t m = 0; m < moves_.size(); ++m) {
          if (common(moves_[m].rows, rows).empty()) continue;
          if (moves_[m].source == rank) piece.feeds.push_back(m);
          if (moves_[m].destination == rank) piece.sums.push_back(m);
        }
        // In the order of addition: by source, and by chunk within a source.
        std::sort(piece.sums.begin(), piece.sums.end(), [&](std::size_t x, std::size_t y) {
          return std::pair(moves_[x].source, moves_[x].number) < std::pair(moves_[y].source, moves_[y].number);
        });
        piece.turn = turn_of(piece);
        pieces.push_back(std::move(piece));
      }
    }
    std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.turn < b.turn; });
  }

  /// What leaves first is computed first, and what stays by the arrival of the last summand. Where room is reused,
  /// chunk k must be added up before chunk k + staging_slots is computed: the latter's senders wait for that.
  std::int64_t turn_of(const Piece& piece) const {
    std::int64_t turn = 0;
    if (options_.staging_slots > 0) {
      for (const std::size_t m : piece.sums) turn = 2 * (moves_[m].number + options_.staging_slots) - 1;
      if (piece.sums.empty() && !piece.feeds.empty()) turn = 2 * moves_[first_of(piece.feeds)].number;
      return turn;
    }
    if (!piece.feeds.empty()) return moves_[first_of(piece.feeds)].turn;
    for (const std::size_t m : piece.sums) turn = std::max(turn, moves_[m].turn);
    return turn + static_cast<std::int64_t>(moves_.size());
  }

  std::size_t first_of(const std::vector<std::size_t>& moves) const {
    return *std::min_element(moves.begin(), moves.end(),
                             [&](std::size_t x, std::size_t y) { return moves_[x].turn < moves_[y].turn; });
  }

  void make_slots() {
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const Piece& piece : pieces_[static_cast<std::size_t>(rank)]) {
        Slot slot;
        slot.tile = piece.tile;
        const Range all = plan_.tiles[static_cast<std::size_t>(piece.tile)].writes[0].region[0];
        if (piece.rows != all) slot.kept = whole_rows(piece.rows);
        for (const std::size_t m : piece.sums) {
          slot.addends.push_back({whole_rows(moves_[m].rows), staged(moves_[m])});
          // A ring adds its own summand to what came; else the ranks' summands are added in ascending order.
          if (is_ring() || moves_[m].source < rank) ++slot.own_place;
        }
        program(rank).slots.push_back(std::move(slot));
      }
    }
  }

  // ---- order ----

  /// A wait, and the transfers and slots that it waits for.
  struct Edge {
    Wait wait;
    std::set<std::size_t> targets;
  };
  /// A transfer (its index in moves_) or a slot.
  struct Node {
    std::vector<Wait>* waits = nullptr;
    int before = -1;  ///< the node that the queue or worker does before
    std::vector<Edge> edges;
    std::set<std::size_t> known;
    bool visited = false;
  };

  std::size_t slot_node(int rank, std::size_t slot) const {
    std::size_t node = moves_.size() + slot;
    for (int r = 0; r < rank; ++r) node += pieces_[static_cast<std::size_t>(r)].size();
    return node;
  }

  std::string words(const Move& move) const {
    return fmt::format("chunk {}.{} from {} to {}", move.shard, move.number, move.source, move.destination);
  }

  /// Raises `signal` in every slot of `rank` whose pieces `which` lists move `m`, and counts them.
  Edge raised_by_slots(int signal, int rank, std::vector<std::size_t> Piece::* which, std::size_t m) {
    Edge edge{{signal, 0}, {}};
    const std::vector<Piece>& pieces = pieces_[static_cast<std::size_t>(rank)];
    for (std::size_t s = 0; s < pieces.size(); ++s) {
      const std::vector<std::size_t>& moves = pieces[s].*which;
      if (std::find(moves.begin(), moves.end(), m) == moves.end()) continue;
      program(rank).slots[s].signals.push_back(signal);
      edge.targets.insert(slot_node(rank, s));
      ++edge.wait.threshold;
    }
    plan_.signals[static_cast<std::size_t>(signal)].per_launch = edge.wait.threshold;
    return edge;
  }

  void connect() {
    nodes_.resize(slot_node(ranks_, 0));
    for (int rank = 0; rank < ranks_; ++rank) {
      for (std::size_t s = 0; s < program(rank).slots.size(); ++s) {
        Node& node = nodes_[slot_node(rank, s)];
        node.waits = &program(rank).slots[s].sum_waits;
        const auto workers = static_cast<std::size_t>(options_.workers);
        if (s >= workers) node.before = static_cast<int>(slot_node(rank, s - workers));
      }
    }
    for (std::size_t m = 0; m < moves_.size(); ++m) {
      const Move& move = moves_[m];
      std::vector<Transfer>& transfers = program(move.mover).queues[0].transfers;
      Transfer& transfer = transfers[static_cast<std::size_t>(move.turn)];
      nodes_[m].waits = &transfer.waits;
      for (std::size_t other = 0; other < moves_.size(); ++other)
        if (moves_[other].mover == move.mover && moves_[other].turn == move.turn - 1)
          nodes_[m].before = static_cast<int>(other);
      const int stored = add_signal(plan_, words(move) + " stored", move.mover);
      nodes_[m].edges.push_back(raised_by_slots(stored, move.source, &Piece::feeds, m));
      for (std::size_t earlier = 0; earlier < m && options_.staging_slots > 0; ++earlier) {
        const Move& other = moves_[earlier];
        if (other.source != move.source || other.destination != move.destination) continue;
        if (other.number != move.number - options_.staging_slots) continue;
        const int added = add_signal(plan_, words(other) + " added", move.mover);
        nodes_[m].edges.push_back(raised_by_slots(added, move.destination, &Piece::sums, earlier));
      }
      const int arrived = add_signal(plan_, words(move) + " arrived", move.destination);
      transfer.signals.push_back(arrived);
      for (std::size_t s = 0; s < pieces_[static_cast<std::size_t>(move.destination)].size(); ++s) {
        const std::vector<std::size_t>& sums = pieces_[static_cast<std::size_t>(move.destination)][s].sums;
        if (std::find(sums.begin(), sums.end(), m) != sums.end())
          nodes_[slot_node(move.destination, s)].edges.push_back({{arrived, 1}, {m}});
      }
    }
  }

  /// Staging memory that peers fill is free once its rank has completed the launch before; summands that peers take
  /// are taken before their rank completes.
  void guard_launches() {
    std::set<std::pair<int, int>> seen;
    for (const Move& move : moves_) {
      if (!is_push() || !seen.insert({move.source, move.destination}).second) continue;
      const int free =
          add_signal(plan_, fmt::format("rank {} free for rank {}", move.destination, move.source), move.mover);
      program(move.destination).completion_signals.push_back(free);
      std::vector<Wait>& waits = program(move.mover).queues[0].transfers[static_cast<std::size_t>(move.turn)].waits;
      waits.push_back({free, 0});
    }
    std::map<int, int> drained;
    for (auto move = moves_.rbegin(); move != moves_.rend(); ++move) {
      if (is_push() || !seen.insert({move->source, move->destination}).second) continue;
      const auto [entry, fresh] = drained.try_emplace(move->source, -1);
      if (fresh) entry->second = add_signal(plan_, fmt::format("rank {} drained", move->source), move->source, 0);
      ++plan_.signals[static_cast<std::size_t>(entry->second)].per_launch;
      program(move->mover).queues[0].transfers[static_cast<std::size_t>(move->turn)].signals.push_back(entry->second);
    }
    for (const auto& [rank, signal] : drained)
      program(rank).completion_waits.push_back({signal, plan_.signals[static_cast<std::size_t>(signal)].per_launch});
  }

  const std::set<std::size_t>& known(std::size_t index) {
    Node& node = nodes_[index];
    if (std::exchange(node.visited, true)) return node.known;
    std::set<std::size_t> all{index};
    const auto learn = [&](std::size_t other) { all.insert(known(other).begin(), known(other).end()); };
    if (node.before >= 0) learn(static_cast<std::size_t>(node.before));
    for (const Edge& edge : node.edges)
      for (const std::size_t target : edge.targets) learn(target);
    node.known = std::move(all);
    return node.known;
  }

  /// A wait is needed unless what its queue or worker did before and its other waits imply it.
  void drop_implied_waits() {
    for (Node& node : nodes_) {
      for (std::size_t e = 0; e < node.edges.size();) {
        std::set<std::size_t> others;
        const auto learn = [&](std::size_t other) { others.insert(known(other).begin(), known(other).end()); };
        if (node.before >= 0) learn(static_cast<std::size_t>(node.before));
        for (std::size_t other = 0; other < node.edges.size(); ++other)
          if (other != e) std::for_each(node.edges[other].targets.begin(), node.edges[other].targets.end(), learn);
        const std::set<std::size_t>& targets = node.edges[e].targets;
        if (std::includes(others.begin(), others.end(), targets.begin(), targets.end())) {
          node.edges.erase(node.edges.begin() + static_cast<std::ptrdiff_t>(e));
        } else {
          ++e;
        }
      }
      for (const Edge& edge : node.edges) node.waits->push_back(edge.wait);
    }
  }

  // ---- meaning ----

  void make_sums() {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (shard(rank).empty()) continue;
      SumOrder order{is_ring() ? shift(rank, 1) : 0, {}};
      if (!is_ring() && ranks_ > 1) order.terms.push_back({0, {}});
      for (int i = 1; i < ranks_; ++i) {
        if (is_ring()) {
          order = {0, {order, {shift(rank, 1 + i), {}}}};
        } else {
          order.terms.push_back({i, {}});
        }
      }
      plan_.sums.push_back({rank, kC, whole_rows(shard(rank)), std::move(order)});
    }
  }

  ReduceOptions options_;
  int ranks_;
  Plan plan_;
  std::map<int, std::int64_t> turns_;
  std::vector<Move> moves_;                 // in the order of their queues, rank by rank
  std::vector<std::vector<Piece>> pieces_;  // [rank], in the order of its slots
  std::vector<Node> nodes_;
};

}  // namespace

Plan hand_made_reduce(const ReduceOptions& options) { return ReduceMaker(options).make(); }

}  // namespace syncopate::testing
