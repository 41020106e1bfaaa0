// Pass 1, bind: an operator's names become buffers, its kernel's accesses become tiles, and its changes of placement
// become schedules. Runs first; everything after it works on numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/kernel/tile_kernel.h"
#include "syncopate/plan/operator.h"
#include "syncopate/plan/pages.h"
#include "syncopate/plan/plan.h"
#include "syncopate/schedule/schedule.h"

namespace syncopate {

/// Where what a reducing P2P operator moves lies on its destination.
struct Landing {
  Region region;  ///< in the staging buffer
  /// The operator whose summands lay there before, in the same launch: they must have been added.
  std::optional<Dependency> reuses;
};

/// A tensor that changes its placement on the way into the kernel or out of it, and the schedule that does it: P2P
/// operators only.
struct CommunicatedTensor {
  int buffer = 0;  ///< index into Plan::buffers
  Schedule schedule;
  SourceLocation where;                  ///< of the tensor's placement
  std::string in_words;                  ///< what is communicated, and how; without the memory budget
  CommunicationStatement communication;  ///< as stated, or by default
  std::optional<std::int64_t> memory_budget;
  SourceLocation budget_where;
  /// Of a tensor with a source or a result: that buffer, and per rank the boxes of the tensor, if any, that the rank
  /// itself has on the other side too.
  int caller_buffer = -1;
  std::vector<std::vector<Region>> own_parts;
  /// Of a tensor whose buffer is folded: its chunks are parts of pages, and leave page by page.
  std::optional<Pages> pages;
  /// [rank][index]: the operators of the schedule that are left out, since nobody reads what they would bring. Empty if
  /// there are none.
  std::vector<std::vector<bool>> left_out;
  /// Of a reduced tensor: what is asked for, and whether peers reach for it wherever sums are taken.
  SumPlace sum = SumPlace::automatic;
  SourceLocation sum_where;
  bool symmetric = false;
  /// Of a reduced tensor with a staging buffer: for each operator of the schedule that adds, [rank][index].
  std::vector<std::vector<Landing>> landings;
  /// Of a reduced tensor: how many chunks of one source may lie on a rank at a time.
  std::int64_t places = 0;
};

struct BoundOperator {
  Plan plan;  ///< everything but signals, programs, sums and `communication`
  std::vector<CommunicatedTensor> communicated;
  /// Per rank: its tiles, in the local kernel's own order, by index into Plan::tiles.
  std::vector<std::vector<int>> tiles;
};

/// Throws UserError for what the user can mend: parameters without a value, shapes that disagree with the kernel,
/// changes of placement that no collective realises, schedules that do not have the meaning of the collective.
BoundOperator bind(const OperatorStatement& statement, const TileKernel& kernel);

/// Plan::communication. A memory budget is in it where there is a staging buffer to be bounded.
std::string communication_in_words(const BoundOperator& bound);

}  // namespace syncopate
