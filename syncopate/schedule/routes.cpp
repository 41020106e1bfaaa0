#include "syncopate/schedule/routes.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <unordered_map>

namespace syncopate {

namespace {

int around(int rank, int ranks) { return (rank % ranks + ranks) % ranks; }

/// Adds a message for every atom of a part.
void send(std::vector<Message>& step, Part part, int source, int destination, int port) {
  for (int atom = part.begin; atom < part.end; ++atom) step.push_back({atom, atom + 1, source, destination, port});
}

/// Sends atoms, given by ascending runs, in at most `split` messages, or one for every box that they make.
void send_merged(std::vector<Message>& step, const Ownership& owned, const std::vector<int>& atoms, std::int64_t split,
                 int source, int destination) {
  const Range all{0, static_cast<std::int64_t>(atoms.size())};
  for (std::int64_t piece = 0; piece < split; ++piece) {
    const Range range = chunk_of(all, split, piece);
    std::optional<Message> open;
    std::vector<Region> box;
    for (auto i = static_cast<std::size_t>(range.begin); i < static_cast<std::size_t>(range.end); ++i) {
      const int atom = atoms[i];
      append_merged(box, owned.atoms()[static_cast<std::size_t>(atom)]);
      if (open && open->end == atom && box.size() == 1) {
        open->end = atom + 1;
        continue;
      }
      if (open) step.push_back(*open);
      open = Message{atom, atom + 1, source, destination, 0};
      box = {owned.atoms()[static_cast<std::size_t>(atom)]};
    }
    if (open) step.push_back(*open);
  }
}

/// The operators that have brought an atom to a rank, for all atoms and ranks: a hash table, for most pairs of an atom
/// and a rank never meet in an exchange, and there are a million that do in a gather over a thousand ranks.
class Arrivals {
 public:
  /// `most`: arrivals that will be added.
  Arrivals(int ranks, std::size_t most) : ranks_(ranks), cells_(std::bit_ceil(2 * most + 1)) {
    arrivals_.reserve(most);
  }

  void add(int atom, int rank, Dependency by) {
    Cell& cell = cells_[place_of(key(atom, rank))];
    cell.key = key(atom, rank);
    arrivals_.push_back({by, cell.last});
    cell.last = static_cast<int>(arrivals_.size()) - 1;
  }
  /// Appends them, the last one first.
  void append(int atom, int rank, std::vector<Dependency>& list) const {
    for (int i = cells_[place_of(key(atom, rank))].last; i != kNone; i = arrivals_[static_cast<std::size_t>(i)].before)
      list.push_back(arrivals_[static_cast<std::size_t>(i)].by);
  }

 private:
  static constexpr int kNone = -1;
  struct Arrival {
    Dependency by;
    int before;  ///< the one before it of the same atom at the same rank
  };
  struct Cell {
    std::uint64_t key = 0;
    int last = kNone;
  };

  std::uint64_t key(int atom, int rank) const {
    return static_cast<std::uint64_t>(atom) * static_cast<std::uint64_t>(ranks_) + static_cast<std::uint64_t>(rank);
  }
  /// Where the key is or may be put: the table is never more than half full.
  std::size_t place_of(std::uint64_t key) const {
    constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;
    std::size_t place = (key * kGoldenRatio >> 32) & (cells_.size() - 1);
    while (cells_[place].last != kNone && cells_[place].key != key) place = (place + 1) & (cells_.size() - 1);
    return place;
  }

  int ranks_;
  std::vector<Cell> cells_;
  std::vector<Arrival> arrivals_;
};

std::size_t deliveries(const Steps& steps) {
  std::size_t count = 0;
  for (const std::vector<Message>& step : steps)
    for (const Message& message : step) count += static_cast<std::size_t>(message.end - message.begin);
  return count;
}

/// The chunks of messages, numbered in the order of their atoms, which is easier to read than that of their first use.
class MessageChunks {
 public:
  MessageChunks(ScheduleBuilder& builder, int tensor, const std::vector<Region>& atoms, const Steps& steps)
      : alone_(atoms.size(), kNone) {
    for (const std::vector<Message>& step : steps)
      for (const Message& message : step) {
        if (message.end == message.begin + 1)
          alone_[static_cast<std::size_t>(message.begin)] = 0;
        else
          merged_.try_emplace({message.begin, message.end}, kNone);
      }
    for (std::size_t atom = 0; atom < atoms.size(); ++atom)
      if (alone_[atom] != kNone) alone_[atom] = builder.chunk(tensor, atoms[atom]);
    for (auto& [part, chunk] : merged_)
      chunk = builder.chunk(
          tensor, hull(atoms[static_cast<std::size_t>(part.first)], atoms[static_cast<std::size_t>(part.second) - 1]));
  }
  int of(const Message& message) const {
    return message.end == message.begin + 1 ? alone_[static_cast<std::size_t>(message.begin)]
                                            : merged_.at({message.begin, message.end});
  }

 private:
  static constexpr int kNone = -1;
  std::vector<int> alone_;
  std::map<std::pair<int, int>, int> merged_;
};

void make_unique(std::vector<Dependency>& list) {
  std::sort(list.begin(), list.end(),
            [](Dependency a, Dependency b) { return std::pair(a.rank, a.index) < std::pair(b.rank, b.index); });
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

void Ownership::add_owner(const std::vector<Region>& atoms) {
  const auto begin = static_cast<int>(atoms_.size());
  atoms_.insert(atoms_.end(), atoms.begin(), atoms.end());
  parts_.push_back({begin, static_cast<int>(atoms_.size())});
}

std::array<Part, 2> Ownership::halves(int owner) const {
  const Part all = of(owner);
  const int middle = all.begin + (all.end - all.begin + (owner % 2 == 0 ? 1 : 0)) / 2;
  return {Part{all.begin, middle}, Part{middle, all.end}};
}

Steps direct_gather(const Ownership& owned) {
  Steps steps;
  for (int round = 1; round < owned.ranks(); ++round) {
    std::vector<Message>& step = steps.emplace_back();
    for (int rank = 0; rank < owned.ranks(); ++rank)
      send(step, owned.of(rank), rank, around(rank + round, owned.ranks()), 0);
  }
  return steps;
}

Steps chunk_by_chunk(const Steps& steps) {
  std::map<std::size_t, Steps> passes;
  for (const std::vector<Message>& step : steps) {
    std::map<std::pair<int, int>, std::size_t> sent;
    std::map<std::size_t, std::vector<Message>> parts;
    for (const Message& message : step) parts[sent[{message.source, message.destination}]++].push_back(message);
    for (auto& [pass, part] : parts) passes[pass].push_back(std::move(part));
  }
  Steps ordered;
  for (auto& [pass, list] : passes)
    for (std::vector<Message>& step : list) ordered.push_back(std::move(step));
  return ordered;
}

Steps direct_broadcast(const Ownership& owned, int root) {
  Steps steps;
  const Part all = owned.of(root);
  for (int atom = all.begin; atom < all.end; ++atom)
    for (int round = 1; round < owned.ranks(); ++round)
      send(steps.emplace_back(), {atom, atom + 1}, root, around(root + round, owned.ranks()), 0);
  return steps;
}

Steps direct_scatter(const Ownership& owned, bool chunk_major) {
  int most = 0;
  for (int rank = 0; rank < owned.ranks(); ++rank) most = std::max(most, owned.of(rank).end - owned.of(rank).begin);
  const int width = chunk_major ? 1 : std::max(1, most);
  Steps steps;
  for (int pass = 0; pass < most; pass += width)
    for (int round = 1; round < owned.ranks(); ++round) {
      std::vector<Message>& step = steps.emplace_back();
      for (int rank = 0; rank < owned.ranks(); ++rank) {
        const int owner = around(rank + round, owned.ranks());
        const Part all = owned.of(owner);
        send(step, {all.begin + pass, std::min(all.end, all.begin + pass + width)}, rank, owner, 0);
      }
    }
  return steps;
}

Steps ring_gather(const Ownership& owned, int direction) {
  Steps steps;
  for (int hop = 1; hop < owned.ranks(); ++hop) {
    std::vector<Message>& step = steps.emplace_back();
    for (int owner = 0; owner < owned.ranks(); ++owner)
      send(step, owned.of(owner), around(owner + (hop - 1) * direction, owned.ranks()),
           around(owner + hop * direction, owned.ranks()), 0);
  }
  return steps;
}

Steps bidirectional_gather(const Ownership& owned, int direction) {
  const int ranks = owned.ranks();
  Steps steps;
  for (int hop = 1; 2 * hop <= ranks; ++hop) {
    std::vector<Message>& step = steps.emplace_back();
    for (int owner = 0; owner < ranks; ++owner)
      for (const int port : {0, 1}) {
        const int way = port == 0 ? direction : -direction;
        const Part part = 2 * hop == ranks ? owned.halves(owner)[static_cast<std::size_t>(port)] : owned.of(owner);
        send(step, part, around(owner + (hop - 1) * way, ranks), around(owner + hop * way, ranks), port);
      }
  }
  return steps;
}

Steps double_ring_gather(const Ownership& owned, int ranks_per_node, int direction) {
  const int nodes = owned.ranks() / ranks_per_node;
  const auto rank_at = [&](int owner, int node_hops, int link_hops) {
    const int node = around(owner / ranks_per_node + node_hops * direction, nodes);
    return node * ranks_per_node + around(owner + link_hops * direction, ranks_per_node);
  };
  Steps steps;
  for (int far = 0; far < nodes; ++far)
    for (int near = far == 0 ? 1 : 0; near < ranks_per_node; ++near) {
      std::vector<Message>& step = steps.emplace_back();
      for (int owner = 0; owner < owned.ranks(); ++owner) {
        const int source = near == 0 ? rank_at(owner, far - 1, 0) : rank_at(owner, far, near - 1);
        send(step, owned.of(owner), source, rank_at(owner, far, near), near == 0 ? kNetworkPort : kLinkPort);
      }
    }
  return steps;
}

Steps hierarchical_gather(const Ownership& owned, int ranks_per_node) {
  const int nodes = owned.ranks() / ranks_per_node;
  Steps steps;
  for (int far = 0; far < nodes; ++far)
    for (int near = far == 0 ? 1 : 0; near < ranks_per_node; ++near) {
      std::vector<Message>& step = steps.emplace_back();
      for (int owner = 0; owner < owned.ranks(); ++owner) {
        const int place = owner % ranks_per_node;
        const int node = around(owner / ranks_per_node + far, nodes);
        const int counterpart = node * ranks_per_node + place;
        if (near == 0)
          send(step, owned.of(owner), owner, counterpart, kNetworkPort);
        else
          send(step, owned.of(owner), counterpart, node * ranks_per_node + around(place + near, ranks_per_node),
               kLinkPort);
      }
    }
  return steps;
}

Steps recursive_gather(const Ownership& owned, std::int64_t split) {
  const int ranks = owned.ranks();
  const bool exchange = std::has_single_bit(static_cast<unsigned>(ranks));
  Steps steps;
  for (int distance = 1; distance < ranks; distance *= 2) {
    std::vector<Message>& step = steps.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) {
      // What the rank has by now: the shards of the aligned block it is in, or its own and those above it.
      const int first = exchange ? rank / distance * distance : rank;
      const int count = exchange ? distance : std::min(distance, ranks - distance);
      std::vector<int> atoms;
      for (int i = 0; i < count; ++i) {
        const Part part = owned.of((first + i) % ranks);
        for (int atom = part.begin; atom < part.end; ++atom) atoms.push_back(atom);
      }
      send_merged(step, owned, atoms, split, rank, exchange ? rank ^ distance : around(rank - distance, ranks));
    }
  }
  return steps;
}

Steps backwards(Steps steps) {
  std::reverse(steps.begin(), steps.end());
  for (std::vector<Message>& step : steps)
    for (Message& message : step) std::swap(message.source, message.destination);
  return steps;
}

void share_ports(Steps& steps, Initiator initiator, const std::array<int, 2>& shares) {
  const std::int64_t all = std::int64_t{shares[0]} + shares[1];
  std::unordered_map<int, std::int64_t> issued;
  for (std::vector<Message>& step : steps)
    for (Message& message : step) {
      const std::int64_t n = issued[initiator == Initiator::push ? message.source : message.destination]++;
      // Of the first n messages n * share / all go to the second port, rounded down.
      message.port = (n + 1) * shares[1] / all > n * shares[1] / all ? kNetworkPort : kLinkPort;
    }
}

void add_operators(ScheduleBuilder& builder, int tensor, const std::vector<Region>& atoms, const Steps& steps,
                   const Carriage& carriage) {
  const MessageChunks chunks(builder, tensor, atoms, steps);
  Arrivals arrivals(builder.ranks(), deliveries(steps));
  for (const std::vector<Message>& step : steps)
    for (const Message& message : step) {
      const int chunk = chunks.of(message);
      std::vector<Dependency> dependencies;
      if (!carriage.own)
        for (int atom = message.begin; atom < message.end; ++atom) arrivals.append(atom, message.source, dependencies);
      make_unique(dependencies);
      const int owner = carriage.initiator == Initiator::push ? message.source : message.destination;
      const Dependency made =
          builder.transfer(owner, {message.source, message.destination, chunk, chunk, carriage.reduction, carriage.own},
                           std::move(dependencies), message.port);
      for (int atom = message.begin; atom < message.end; ++atom) arrivals.add(atom, message.destination, made);
    }
}

int dimension_to_split(const Region& box, std::int64_t split) {
  int longest = 0;
  for (int d = 0; d < box.dimensions(); ++d) {
    if (box[d].size() >= split) return d;
    if (box[d].size() > box[longest].size()) longest = d;
  }
  return longest;
}

std::vector<Region> cut(const Region& box, int dimension, std::int64_t split) {
  std::vector<Region> chunks;
  for (std::int64_t part = 0; part < split; ++part) {
    Region chunk = box;
    chunk[dimension] = chunk_of(box[dimension], split, part);
    if (!chunk.empty()) chunks.push_back(chunk);
  }
  return chunks;
}

}  // namespace syncopate
