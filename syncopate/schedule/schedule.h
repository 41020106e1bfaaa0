// The communication schedule: what is moved between ranks, chunk by chunk, and what must happen first. It knows
// ranks, tensors and chunks; it knows nothing of kernels, engines or signals.
//
// Semantics. Every rank has a list of operators. An operator may start as soon as all of its dependencies have
// completed; its place in the list is a priority among those that may start (the compiler issues the operators of a
// rank and port in topological_order()), not a dependency, and nothing may rely on it for correctness. A P2P copies its
// source chunk, as the source rank holds it, into its destination chunk on the destination rank. With a reduction it
// adds instead; what is added to one place before it is read makes one sum, in ascending order of the ranks that it
// comes from, whatever the order of arrival. What arrives to be added is kept apart from the summand that stands in the
// place, so an operator may also send that summand by itself (`own`), however much has been added. A P2P listed at its
// source is a push, listed at its destination a pull.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "syncopate/core/dtype.h"
#include "syncopate/core/region.h"
#include "syncopate/core/source.h"
#include "syncopate/schedule/placement.h"

namespace syncopate {

/// A global tensor, and what each rank holds of it before the schedule runs and must hold after it.
struct LogicalTensor {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::bf16;
  Placement before;
  Placement after;
};

/// A box of a global tensor: the unit of communication. Chunks are row-major views of their tensor ("layout" of the
/// published description); other layouts would be a field here.
struct Chunk {
  int tensor = 0;  ///< index into Schedule::tensors
  Region region;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

/// This operator starts after operator `index` in the list of rank `rank` has completed.
struct Dependency {
  int rank = 0;
  int index = 0;
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

enum class Reduction : std::uint8_t { none, sum };

struct P2P {
  int source_rank = 0;
  int destination_rank = 0;
  int source_chunk = 0;  ///< indices into Schedule::chunks
  int destination_chunk = 0;
  Reduction reduction = Reduction::none;
  /// Of sums: sends the summand that stands in the place alone. It waits for no addition to its source, and no
  /// addition waits for it.
  bool own = false;
};

enum class CollectiveType : std::uint8_t { all_gather, reduce_scatter, all_reduce, all_to_all, broadcast };

/// A collective over `ranks`: source_chunks[i] is what ranks[i] contributes, destination_chunks[i] what it holds after.
/// All chunks are of one tensor. all_gather and all_to_all: the source chunks are disjoint, each rank gets from their
/// owners the parts that make up its destination chunk. reduce_scatter and all_reduce: each element of a destination
/// chunk becomes the sum over all source chunks that have it. broadcast: the source is the first rank's chunk.
struct Collective {
  CollectiveType type = CollectiveType::all_gather;
  std::vector<int> ranks;
  std::vector<int> source_chunks;
  std::vector<int> destination_chunks;
};

struct Operator {
  std::variant<P2P, Collective> action;
  std::vector<Dependency> dependencies;
  int port = 0;              ///< operators of one rank on different ports may be in flight together
  std::uint32_t offset = 0;  ///< where a file defines it (byte offset), for messages; 0 otherwise
};

struct Schedule {
  std::vector<LogicalTensor> tensors;
  std::vector<Chunk> chunks;
  std::vector<std::vector<Operator>> operators;  ///< per rank

  int ranks() const { return static_cast<int>(operators.size()); }
  const Operator& at(Dependency which) const {
    return operators[static_cast<std::size_t>(which.rank)][static_cast<std::size_t>(which.index)];
  }
};

/// "all_gather", as schedule files and the command line write it.
std::string_view collective_name(CollectiveType type);

/// Checks form: tensors with placements that fit, ranks and chunk indices in range, chunks inside their tensors, source
/// and destination chunks of equal size, dependencies on operators that exist, no cycle (the message prints it).
/// Throws UserError; `file`, if given, supplies places for the operators' offsets.
void validate(const Schedule& schedule, const SourceFile* file = nullptr);

/// Number of operators of all ranks.
std::size_t operator_count(const Schedule& schedule);

/// All operators in an order in which every one comes after its dependencies; ties by (index, rank), so the order is
/// one in which the ranks advance together. Requires a validated schedule.
std::vector<Dependency> topological_order(const Schedule& schedule);

/// Builds a schedule operator by operator; chunks are shared. The C++ API for user-written schedules; its mistakes are
/// UserErrors without a place.
class ScheduleBuilder {
 public:
  explicit ScheduleBuilder(int ranks);
  int ranks() const { return schedule_.ranks(); }
  /// Returns the tensor's index.
  int tensor(LogicalTensor tensor);
  /// Returns the chunk's index; equal chunks get one index.
  int chunk(int tensor, const Region& region);
  /// Adds a push to the source's list; returns its name for dependencies.
  Dependency push(int source, int destination, int source_chunk, int destination_chunk,
                  std::vector<Dependency> dependencies = {}, int port = 0, Reduction reduction = Reduction::none);
  /// The same, listed at the destination.
  Dependency pull(int source, int destination, int source_chunk, int destination_chunk,
                  std::vector<Dependency> dependencies = {}, int port = 0, Reduction reduction = Reduction::none);
  /// Adds a copy or a sum between any two chunks to the list of `rank`, its source or its destination.
  Dependency transfer(int rank, const P2P& p2p, std::vector<Dependency> dependencies = {}, int port = 0);
  /// Adds a collective to the list of its first rank.
  Dependency collective(Collective collective, std::vector<Dependency> dependencies = {});
  /// Validates and hands the schedule over.
  Schedule build() &&;

 private:
  Dependency add(int rank, Operator op);
  Schedule schedule_;
  std::map<std::pair<int, Region>, int> chunk_index_;
};

}  // namespace syncopate
