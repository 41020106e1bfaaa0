// Pass 2, depend: which transfers a tile needs, which transfers a transfer needs, and what the completion of one
// implies. Analysis only; waits and signals are made from it by realise.h. Runs after bind.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "syncopate/plan/bind.h"
#include "syncopate/plan/bit_set.h"

namespace syncopate {

/// One P2P operator of a schedule as it will be carried out.
struct TransferNode {
  int schedule = 0;  ///< index into BoundOperator::communicated
  Dependency op;     ///< in that schedule
  int owner = 0;     ///< the rank whose queue issues it
  int source = 0;    ///< ranks
  int destination = 0;
  int buffer = 0;
  Region source_region;
  Region destination_region;
  int queue = 0;                  ///< index into queues[owner]
  int previous = -1;              ///< node before it in its queue, or -1
  std::vector<int> dependencies;  ///< nodes
  /// Estimated completion, in bytes over a link of unit bandwidth with every port serving one transfer at a time. Only
  /// the order matters: it is the order in which tiles expect chunks.
  std::int64_t arrival = 0;
};

struct DependenceGraph {
  /// In topological order: a node comes after its dependencies and after its queue predecessor.
  std::vector<TransferNode> transfers;
  /// queues[rank][queue]: nodes in the order of issue. Queues of one rank are independent.
  std::vector<std::vector<std::vector<int>>> queues;
  /// closure[n]: the nodes that have completed when n has completed, n itself included.
  std::vector<BitSet> closure;
  /// needs[rank][tile]: the nodes that deliver something that the tile reads on that rank, ascending.
  std::vector<std::vector<std::vector<int>>> needs;
};

/// Throws UserError if there are more transfers than reachability is kept for.
DependenceGraph depend(const BoundOperator& bound);

/// The members of `nodes` that no other member implies, ascending; without those in `known`.
std::vector<int> not_implied(const DependenceGraph& graph, std::span<const int> nodes, const BitSet& known);

}  // namespace syncopate
