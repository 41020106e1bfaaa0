// A plan of good form, turned around for proofs: transfers numbered, who raises a signal, what arrives where, and the
// events between which order is asked for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "syncopate/plan/plan.h"

namespace syncopate {

/// An event of a launch whose effects others may wait for. Each stands for a beginning and an end: what is before the
/// event is before its beginning, what is after it is after its end.
struct Event {
  enum class Kind : std::uint8_t { start, transfer, slot, completion };
  Kind kind = Kind::start;
  int rank = 0;    ///< who carries it out
  int number = 0;  ///< of the transfer, or of the slot on its rank

  friend bool operator==(const Event&, const Event&) = default;
};

/// One raise of a signal in a launch.
struct Raise {
  Event event;
  int agent = 0;
  int position = 0;  ///< of the event among those of its agent in a launch
};

/// Refers to the plan it was made from. The plan must satisfy the theorem of form.
class PlanIndex {
 public:
  explicit PlanIndex(const Plan& plan);

  const Plan& plan() const { return *plan_; }
  int ranks() const { return plan_->ranks; }
  const RankProgram& program(int rank) const { return plan_->programs[static_cast<std::size_t>(rank)]; }
  const Signal& signal(int index) const { return plan_->signals[static_cast<std::size_t>(index)]; }
  const Slot& slot(int rank, int number) const { return program(rank).slots[static_cast<std::size_t>(number)]; }
  const Tile& tile(int index) const { return plan_->tiles[static_cast<std::size_t>(index)]; }

  struct Place {
    int rank = 0;
    int queue = 0;
    int position = 0;
  };
  int transfers() const { return static_cast<int>(places_.size()); }
  const Place& place(int transfer) const { return places_[static_cast<std::size_t>(transfer)]; }
  const Queue& queue_of(int transfer) const;
  const Transfer& transfer(int transfer) const;
  int transfer_at(const Place& place) const;
  /// Transfers whose destination / source is on this rank, ascending.
  const std::vector<int>& into(int rank) const { return into_[static_cast<std::size_t>(rank)]; }
  const std::vector<int>& from(int rank) const { return from_[static_cast<std::size_t>(rank)]; }

  /// Whether outputs leave tile by tile, or tiles make room in a folded buffer. Only then do slots raise signals, and
  /// are workers agents: else what follows a slot, other than later slots of its worker, follows the completion of its
  /// rank.
  bool slots_raise() const { return slots_raise_; }
  /// Whether the plan reduces an output.
  bool has_sums() const { return reduced_ >= 0; }
  int reduced() const { return reduced_; }
  int staging() const { return staging_; }
  /// Where summands land: the staging buffer, or the reduced one.
  int landing() const { return in_place() ? reduced_ : staging_; }
  /// Of a plan with a one-shot sum: the stack of other ranks' summands, the kernel's buffer, and the result; else -1.
  int stack() const { return stack_; }
  int summed() const { return stack_ < 0 ? -1 : plan_->buffer(stack_).partner; }
  int added_up() const { return added_up_; }
  const std::vector<Addition>& additions(int rank) const { return program(rank).additions; }
  bool in_place() const { return has_sums() && plan_->buffer(reduced_).sums_in_place; }

  /// Agents do one thing after the other: the caller of each rank (start, completion), then every queue, then, if the
  /// slots raise signals, every worker. Of a dynamic order, in which nothing is known of who takes which slot and when,
  /// each slot counts as a worker of its own.
  int agents() const { return agents_; }
  int agent_of(const Event& event) const;
  int position_of(const Event& event) const;
  /// How many events an agent has in a launch.
  int length_of(int agent) const { return lengths_[static_cast<std::size_t>(agent)]; }
  int queue_agent(int rank, int queue) const;
  int worker_agent(int rank, int worker) const;
  /// Workers of a rank that have a slot.
  int workers_of(int rank) const;
  /// Slots s, s + this, ... are one worker's.
  int stride() const { return stride_; }
  bool is_dynamic() const { return plan_->lookahead > 0; }

  /// All raises in a launch, ordered by agent and then by the order in which the agent makes them.
  const std::vector<Raise>& raises(int signal) const { return raises_[static_cast<std::size_t>(signal)]; }
  /// Whether anything waits for the signal.
  bool waited_for(int signal) const { return waited_for_[static_cast<std::size_t>(signal)]; }
  /// Calls `visit(wait)` for every wait of the plan.
  template <typename Visitor>
  void for_each_wait(Visitor&& visit) const;

  /// The different regions that tiles read, and which of them a tile reads outside of its pieces, and in each piece.
  const std::vector<TileAccess>& reads() const { return reads_; }
  const std::vector<int>& reads_of(int tile) const { return reads_of_[static_cast<std::size_t>(tile)].front(); }
  const std::vector<int>& reads_of_piece(int tile, int piece) const {
    return reads_of_[static_cast<std::size_t>(tile)][static_cast<std::size_t>(piece) + 1];
  }
  /// Those of them that tiles of a rank read, ascending.
  const std::vector<int>& reads_on(int rank) const { return reads_on_[static_cast<std::size_t>(rank)]; }
  /// The tiles of a rank, ascending.
  const std::vector<int>& tiles_on(int rank) const { return tiles_on_[static_cast<std::size_t>(rank)]; }
  /// Whether the tile reads it at all.
  bool is_read_by(int read, int tile) const;

 private:
  void number_transfers();
  void number_workers();
  void collect_raises();
  void collect_waits();
  void collect_reads();
  void collect_tiles_of_ranks();

  const Plan* plan_;
  int reduced_;
  int staging_;
  int stack_;
  int added_up_;
  bool slots_raise_;
  int stride_;
  std::vector<Place> places_;
  std::vector<std::vector<int>> first_transfer_;  // [rank][queue]
  std::vector<std::vector<int>> into_;
  std::vector<std::vector<int>> from_;
  int agents_ = 0;
  std::vector<int> lengths_;
  std::vector<int> first_queue_agent_;   // [rank]
  std::vector<int> first_worker_agent_;  // [rank]; empty if slots raise nothing
  std::vector<std::vector<Raise>> raises_;
  std::vector<bool> waited_for_;
  std::vector<TileAccess> reads_;
  std::vector<std::vector<std::vector<int>>> reads_of_;  // [tile][0: outside of pieces, then pieces]
  std::vector<std::vector<int>> tiles_on_;               // [rank]
  std::vector<std::vector<int>> reads_on_;               // [rank]
};

template <typename Visitor>
void PlanIndex::for_each_wait(Visitor&& visit) const {
  for (const RankProgram& program : plan_->programs) {
    for (const Queue& queue : program.queues)
      for (const Transfer& moved : queue.transfers) std::for_each(moved.waits.begin(), moved.waits.end(), visit);
    for (const Slot& slot : program.slots)
      for_each_waits_of(slot,
                        [&](const std::vector<Wait>& waits) { std::for_each(waits.begin(), waits.end(), visit); });
    for (const Addition& addition : program.additions)
      std::for_each(addition.waits.begin(), addition.waits.end(), visit);
    std::for_each(program.completion_waits.begin(), program.completion_waits.end(), visit);
  }
}

/// What has to fill a region of a buffer on a rank.
struct Source {
  int transfer = -1;  ///< -1: the caller
  Region region;      ///< the part that it fills
};
/// The sources of `region` on a rank: the caller, then transfers. Empty parts are left out.
std::vector<Source> sources_of(const PlanIndex& index, int rank, int buffer, const Region& region);

}  // namespace syncopate
