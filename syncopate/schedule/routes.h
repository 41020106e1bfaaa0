// The ways that the parts of a tensor take between ranks, before they become operators. A gather, a reduce-scatter and
// a broadcast over one algorithm are one set of routes: a broadcast is a gather in which one rank owns everything, and
// a reduce-scatter is a gather backwards. Only a schedule's operators have dependencies; they follow from the routes: a
// message leaves after everything that brought its parts to where it leaves from.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "syncopate/core/region.h"
#include "syncopate/schedule/schedule.h"
#include "syncopate/schedule/templates.h"

namespace syncopate {

/// The ports of templates that use two kinds of link.
inline constexpr int kLinkPort = 0;
inline constexpr int kNetworkPort = 1;

/// Atoms [begin, end) on one hop. An atom is the smallest box that a template moves; those of a message make one box.
struct Message {
  int begin = 0;
  int end = 0;
  int source = 0;
  int destination = 0;
  int port = 0;
};

/// Messages, step by step; those of one step do not depend on each other. Their order is that of the ranks' lists.
using Steps = std::vector<std::vector<Message>>;

/// Atoms [begin, end).
struct Part {
  int begin = 0;
  int end = 0;
};

/// Which atoms each rank has in the beginning (of a gather), or in the end (of a reduce-scatter).
class Ownership {
 public:
  explicit Ownership(int ranks) : ranks_(ranks) {}
  /// Gives the next owner, counting from rank 0, its atoms.
  void add_owner(const std::vector<Region>& atoms);

  int ranks() const { return ranks_; }
  const std::vector<Region>& atoms() const { return atoms_; }
  Part of(int owner) const { return parts_[static_cast<std::size_t>(owner)]; }
  /// An owner's atoms in two halves. Of an odd number the one left over is in the first half of even owners and in the
  /// second half of odd ones.
  std::array<Part, 2> halves(int owner) const;

 private:
  int ranks_;
  std::vector<Region> atoms_;
  std::vector<Part> parts_;
};

/// In round s = 1..ranks-1 every rank sends its own atoms to rank + s.
Steps direct_gather(const Ownership& owned);
/// Direct routes otherwise ordered: the first message of every pair of ranks in all steps, then the second.
Steps chunk_by_chunk(const Steps& steps);
/// The root sends an atom to all others, beginning with rank root + 1, then the next atom.
Steps direct_broadcast(const Ownership& owned, int root);
/// In round s = 1..ranks-1 every rank sends what rank + s owns there; chunk_major: the first atom of every owner in all
/// rounds, then the second.
Steps direct_scatter(const Ownership& owned, bool chunk_major);
/// Every atom goes all the way round, `direction` (1 or -1) ranks at a time.
Steps ring_gather(const Ownership& owned, int direction);
/// Each atom goes the shorter way round, on port 0 in `direction`, on port 1 against it. With an even number of ranks
/// the opposite rank is equally far both ways: half of the atoms go each way, so that both links carry the same.
Steps bidirectional_gather(const Ownership& owned, int direction);
/// Ranks node * ranks_per_node + i. Atoms go from node to node along the ring of the ranks with the same i (the network
/// port), and from each of these along the ring of its node (the link port); both rings in `direction`.
Steps double_ring_gather(const Ownership& owned, int ranks_per_node, int direction);
/// Every rank sends its atoms to the ranks of other nodes with the same place in their node (the network port), and
/// everyone hands on what is there to its own node (the link port).
Steps hierarchical_gather(const Ownership& owned, int ranks_per_node);
/// In step k every rank sends all that it has, at most 2^k shards, in at most `split` messages (more where a message
/// would not be a box): to rank xor 2^k if the number of ranks is a power of two, else to rank - 2^k (Bruck et al.,
/// "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997, section 3).
Steps recursive_gather(const Ownership& owned, std::int64_t split);

/// The last step first, every message from its destination to its source.
Steps backwards(Steps steps);
/// Divides the messages that each rank issues over the two ports in the ratio given, evenly mixed.
void share_ports(Steps& steps, Initiator initiator, const std::array<int, 2>& shares);

/// How messages become operators.
struct Carriage {
  Initiator initiator = Initiator::push;
  Reduction reduction = Reduction::none;
  bool own = false;  ///< see P2P
};
/// Adds an operator for every message, in order, behind the earlier ones that brought any of its atoms to its source.
void add_operators(ScheduleBuilder& builder, int tensor, const std::vector<Region>& atoms, const Steps& steps,
                   const Carriage& carriage);

/// The dimension along which a box is best cut into `split` chunks: the outermost that has as many indices, so that
/// chunks are contiguous in memory if the box is; the longest if none has.
int dimension_to_split(const Region& box, std::int64_t split);
/// The chunks of a box cut along a dimension as torch.chunk cuts; empty ones are left out.
std::vector<Region> cut(const Region& box, int dimension, std::int64_t split);

}  // namespace syncopate
