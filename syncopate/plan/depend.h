// Pass 2, depend: what each rank has to do, which transfers a tile needs and feeds, and which transfers a transfer
// needs. Analysis only; waits and signals are made from it by realise.h. Runs after bind.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "syncopate/plan/bind.h"

namespace syncopate {

/// One P2P operator of a schedule as it will be carried out.
struct TransferNode {
  int schedule = 0;  ///< index into BoundOperator::communicated
  Dependency op;     ///< in that schedule; its index is -1 where a rank copies for itself between two buffers
  int owner = 0;     ///< the rank whose queue issues it
  int source = 0;    ///< ranks
  int destination = 0;
  int buffer = 0;        ///< the kernel's buffer of the tensor
  Region chunk;          ///< of the tensor
  bool reduces = false;  ///< tiles of the destination add it
  int source_buffer = 0;
  Region source_region;  ///< of that buffer, as destination_region of its own
  int destination_buffer = 0;
  Region destination_region;
  int queue = 0;                  ///< index into queues[owner]
  int previous = -1;              ///< node before it in its queue, or -1
  std::vector<int> dependencies;  ///< nodes
  /// The node whose summands lie where this one's will: they must have been added before. Or -1.
  int reuses = -1;
  /// In a folded buffer: the nodes whose chunks stand, until this one's comes, where it will. Ascending.
  std::vector<int> replaces;
  /// Nodes that have completed before this one starts because of the tiles that it waits for.
  std::vector<int> behind_tiles;
  /// Above that of every dependency, and not below that of `previous`: a transfer never waits, through tiles that
  /// add, for one of its own level or a higher one.
  int level = 1;
  /// Estimated times, in bytes over a link of unit bandwidth with every port serving one transfer at a time. Only the
  /// order matters: it is the order in which tiles expect chunks and chunks expect tiles.
  std::int64_t start = 0;
  std::int64_t arrival = 0;
};

/// One entry of a rank's work: a tile, or the part of a tile's stores that one slot keeps.
struct Work {
  int tile = 0;
  Region kept;                   ///< as Slot::kept
  Range rows;                    ///< the rows of the reduced tensor that it stores to
  std::vector<int> needs;        ///< nodes that deliver something that the tile reads, ascending
  std::vector<int> first_needs;  ///< the same, of what it reads outside of its pieces
  /// The same, of what each of the tile's pieces reads; tiles that need the same share it. Not null.
  std::shared_ptr<const std::vector<std::vector<int>>> piece_needs;
  std::vector<int> sums;   ///< nodes that deliver what it adds, ascending by source and then by row
  std::vector<int> feeds;  ///< nodes that send what it stores, ascending
  std::vector<int> frees;  ///< nodes that bring something to where what it reads or adds lies, ascending
};

struct DependenceGraph {
  /// A node comes after its dependencies and after its queue predecessor.
  std::vector<TransferNode> transfers;
  /// queues[rank][queue]: nodes in the order of issue. Queues of one rank are independent.
  std::vector<std::vector<std::vector<int>>> queues;
  /// work[rank], in the local kernel's order of tiles.
  std::vector<std::vector<Work>> work;
  /// Per node: the work of its source that stores what it sends.
  std::vector<std::vector<int>> stored_by;
  /// Per node: the work of its destination that adds what it brings.
  std::vector<std::vector<int>> added_by;
  /// Per node: the work of its destination that must be done before it lands, since it reads or adds what lies there.
  std::vector<std::vector<int>> freed_by;
  /// All nodes, each after what must have completed before it starts, however the work is ordered.
  std::vector<int> order;
};

/// Throws UserError if a schedule's sum is sent on before it is complete, if a chunk would pass through a rank that has
/// no place for it, if a memory budget makes transfers wait for each other, and where a tile would have to stand in the
/// order twice although it writes other outputs.
DependenceGraph depend(const BoundOperator& bound);

/// Throws UserError, there, if there are more transfers than reachability is kept for.
void check_transfer_count(std::size_t count, const SourceLocation& where);

}  // namespace syncopate
