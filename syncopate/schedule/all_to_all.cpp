// Exchanges: every pair of ranks has a box of its own.
#include <fmt/format.h>

#include <algorithm>

#include "syncopate/schedule/check_options.h"
#include "syncopate/schedule/routes.h"
#include "syncopate/schedule/templates.h"

namespace syncopate {

namespace {

/// The boxes of all pairs of ranks, cut into chunks. The chunks of one pair are atoms in a row.
class Boxes {
 public:
  Boxes(const LogicalTensor& tensor, int ranks) : tensor_(tensor), ranks_(ranks) {
    parts_.resize(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks));
  }

  Region box(int source, int destination) const {
    return intersect(held_region(tensor_.before, tensor_.shape, ranks_, source),
                     held_region(tensor_.after, tensor_.shape, ranks_, destination));
  }
  void add(int source, int destination, const std::vector<Region>& chunks) {
    Part& part = parts_[index(source, destination)];
    part.begin = static_cast<int>(atoms_.size());
    atoms_.insert(atoms_.end(), chunks.begin(), chunks.end());
    part.end = static_cast<int>(atoms_.size());
  }
  Part of(int source, int destination) const { return parts_[index(source, destination)]; }
  int ranks() const { return ranks_; }
  const std::vector<Region>& atoms() const { return atoms_; }

 private:
  std::size_t index(int source, int destination) const {
    return static_cast<std::size_t>(source) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(destination);
  }

  const LogicalTensor& tensor_;
  int ranks_;
  std::vector<Region> atoms_;
  std::vector<Part> parts_;
};

void send(std::vector<Message>& step, Part part, int source, int destination, int port) {
  for (int atom = part.begin; atom < part.end; ++atom) step.push_back({atom, atom + 1, source, destination, port});
}

Boxes boxes_of(const LogicalTensor& tensor, int ranks, std::int64_t split) {
  Boxes boxes(tensor, ranks);
  for (int source = 0; source < ranks; ++source)
    for (int destination = 0; destination < ranks; ++destination) {
      const Region box = boxes.box(source, destination);
      if (source != destination && !box.empty())
        boxes.add(source, destination, cut(box, dimension_to_split(box, split), split));
    }
  return boxes;
}

Steps direct_steps(const Boxes& boxes) {
  Steps steps;
  for (int round = 1; round < boxes.ranks(); ++round) {
    std::vector<Message>& step = steps.emplace_back();
    for (int rank = 0; rank < boxes.ranks(); ++rank) {
      const int peer = (rank + round) % boxes.ranks();
      send(step, boxes.of(rank, peer), rank, peer, 0);
    }
  }
  return steps;
}

/// Hop by hop. In step h the boxes that have come h - 1 ranks go on; those with the farthest to go leave first.
Steps ring_steps(const Boxes& boxes, bool both_ways) {
  const int ranks = boxes.ranks();
  const int farthest = both_ways ? ranks / 2 : ranks - 1;
  Steps steps;
  for (int hop = 1; hop <= farthest; ++hop) {
    std::vector<Message>& step = steps.emplace_back();
    for (int distance = farthest; distance >= hop; --distance)
      for (int rank = 0; rank < ranks; ++rank)
        for (const int way : {1, -1}) {
          if (way < 0 && !both_ways) continue;
          const auto at = [&](int hops) { return (rank + hops * way + ranks) % ranks; };
          Part part = boxes.of(rank, at(distance));
          if (both_ways && 2 * distance == ranks) {
            // Equally far both ways: half of the chunks go each way.
            const int middle = part.begin + (part.end - part.begin + (rank % 2 == 0 ? 1 : 0)) / 2;
            part = way > 0 ? Part{part.begin, middle} : Part{middle, part.end};
          }
          send(step, part, at(hop - 1), at(hop), way > 0 ? 0 : 1);
        }
  }
  return steps;
}

/// Two hops: inside its node to the rank with the destination's place, then over the network, where all that a node has
/// for one rank is one box.
class Hierarchy {
 public:
  Hierarchy(const LogicalTensor& tensor, int ranks, const TemplateOptions& options)
      : per_node_(options.ranks_per_node), nodes_(ranks / options.ranks_per_node), boxes_(tensor, ranks) {
    for (int node = 0; node < nodes_; ++node)
      for (int destination = 0; destination < ranks; ++destination) add_boxes(node, destination, options.split);
  }

  Schedule run(const LogicalTensor& tensor, Initiator initiator) const {
    ScheduleBuilder builder(nodes_ * per_node_);
    const int id = builder.tensor(tensor);
    Steps steps;
    for (int far = 0; far < nodes_; ++far) {
      for (int near = 1; near < per_node_; ++near) add_link_step(far, near, steps);
      if (far > 0) add_network_step(far, steps);
    }
    add_operators(builder, id, atoms_, steps, {initiator, Reduction::none, false});
    return std::move(builder).build();
  }

 private:
  struct Piece {
    Part all;
    std::vector<Part> of_place;  ///< the atom of each rank of the node, if it has one
  };

  /// Cuts what a node has for a rank into chunks, and each chunk into what is whose.
  void add_boxes(int node, int destination, std::int64_t split) {
    std::vector<Region> blocks;  // one, but for shards that go round from the last rank to the first inside the node
    for (int place = 0; place < per_node_; ++place) {
      const Region box = boxes_.box(node * per_node_ + place, destination);
      if (!box.empty()) append_merged(blocks, box);
    }
    std::vector<Piece>& pieces = pieces_.emplace_back();
    for (const Region& block : blocks)
      for (const Region& chunk : cut(block, dimension_to_split(block, split), split))
        pieces.push_back(piece_of(node, destination, chunk));
  }

  Piece piece_of(int node, int destination, const Region& chunk) {
    const auto next = [&] { return static_cast<int>(atoms_.size()); };
    Piece piece;
    piece.all.begin = next();
    for (int place = 0; place < per_node_; ++place) {
      const Region mine = intersect(chunk, boxes_.box(node * per_node_ + place, destination));
      piece.of_place.push_back({next(), next() + (mine.empty() ? 0 : 1)});
      if (!mine.empty()) atoms_.push_back(mine);
    }
    piece.all.end = next();
    return piece;
  }

  /// Every rank gives its neighbour `near` places on what is for that place of the node `far` nodes on.
  void add_link_step(int far, int near, Steps& steps) const {
    std::vector<Message>& step = steps.emplace_back();
    for (int node = 0; node < nodes_; ++node)
      for (int place = 0; place < per_node_; ++place) {
        const int other = (place + near) % per_node_;
        for (const Piece& piece : pieces(node, (node + far) % nodes_ * per_node_ + other))
          send(step, piece.of_place[static_cast<std::size_t>(place)], node * per_node_ + place,
               node * per_node_ + other, kLinkPort);
      }
  }

  void add_network_step(int far, Steps& steps) const {
    std::vector<Message>& step = steps.emplace_back();
    for (int node = 0; node < nodes_; ++node)
      for (int place = 0; place < per_node_; ++place) {
        const int destination = (node + far) % nodes_ * per_node_ + place;
        for (const Piece& piece : pieces(node, destination))
          step.push_back({piece.all.begin, piece.all.end, node * per_node_ + place, destination, kNetworkPort});
      }
  }

  const std::vector<Piece>& pieces(int node, int destination) const {
    return pieces_[static_cast<std::size_t>(node) * static_cast<std::size_t>(nodes_ * per_node_) +
                   static_cast<std::size_t>(destination)];
  }

  int per_node_;
  int nodes_;
  Boxes boxes_;
  std::vector<Region> atoms_;
  std::vector<std::vector<Piece>> pieces_;  ///< [node][destination]
};

void check_box_split(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                     const SourceLocation& where) {
  std::int64_t longest = 1;
  Region largest = Region::whole(tensor.shape);
  for (const Placement& placement : {tensor.before, tensor.after})
    largest[placement.dimension] = chunk_of(Region::whole(tensor.shape)[placement.dimension], ranks, 0);
  for (int d = 0; d < largest.dimensions(); ++d) longest = std::max(longest, largest[d].size());
  check_split(options, longest,
              fmt::format("the largest box of '{}' that one rank has for another is {}: no dimension has so many "
                          "indices",
                          tensor.name, largest.to_string()),
              where);
}

}  // namespace

Schedule all_to_all(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                    const SourceLocation& where) {
  check_internal(tensor.before.kind == Placement::Kind::shard && tensor.after.kind == Placement::Kind::shard,
                 "an all-to-all turns shard into shard");
  check_options(CollectiveType::all_to_all, ranks, options, where);
  check_box_split(tensor, ranks, options, where);
  if (options.algorithm == Algorithm::hierarchical)
    return Hierarchy(tensor, ranks, options).run(tensor, options.initiator);
  const Boxes boxes = boxes_of(tensor, ranks, options.split);
  const bool ring = options.algorithm == Algorithm::ring || options.algorithm == Algorithm::bidirectional_ring;
  Steps steps = ring ? ring_steps(boxes, options.algorithm == Algorithm::bidirectional_ring) : direct_steps(boxes);
  if (!ring && options.chunk_major) steps = chunk_by_chunk(steps);
  if (options.algorithm == Algorithm::interleaved) share_ports(steps, options.initiator, shares_of(options));
  ScheduleBuilder builder(ranks);
  const int id = builder.tensor(tensor);
  add_operators(builder, id, boxes.atoms(), steps, {options.initiator, Reduction::none, false});
  return std::move(builder).build();
}

}  // namespace syncopate
