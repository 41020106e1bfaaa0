#include "syncopate/verify/plan_index.h"

#include <algorithm>
#include <map>
#include <utility>

namespace syncopate {

PlanIndex::PlanIndex(const Plan& plan)
    : plan_(&plan),
      reduced_(reduced_buffer(plan)),
      staging_(staging_buffer(plan)),
      stack_(summands_buffer(plan)),
      added_up_(added_up_buffer(plan)),
      slots_raise_(false),
      stride_(plan.workers) {
  if (is_dynamic()) {
    stride_ = 1;
    for (const RankProgram& program : plan.programs)
      stride_ = std::max(stride_, static_cast<int>(program.slots.size()));
  }
  for (const Buffer& buffer : plan.buffers)
    slots_raise_ = slots_raise_ || buffer.is_reduced() || buffer.role == BufferRole::result || buffer.fold;
  number_transfers();
  if (slots_raise()) number_workers();
  agents_ = static_cast<int>(lengths_.size());
  collect_raises();
  collect_waits();
  collect_reads();
  collect_tiles_of_ranks();
}

const Queue& PlanIndex::queue_of(int transfer) const {
  const Place& at = place(transfer);
  return program(at.rank).queues[static_cast<std::size_t>(at.queue)];
}

const Transfer& PlanIndex::transfer(int transfer) const {
  return queue_of(transfer).transfers[static_cast<std::size_t>(place(transfer).position)];
}

int PlanIndex::transfer_at(const Place& at) const {
  return first_transfer_[static_cast<std::size_t>(at.rank)][static_cast<std::size_t>(at.queue)] + at.position;
}

int PlanIndex::agent_of(const Event& event) const {
  switch (event.kind) {
    case Event::Kind::start:
    case Event::Kind::completion:
      return event.rank;
    case Event::Kind::transfer:
      return queue_agent(place(event.number).rank, place(event.number).queue);
    case Event::Kind::slot:
      return worker_agent(event.rank, event.number % stride_);
  }
  throw InternalError("event without a kind");
}

int PlanIndex::position_of(const Event& event) const {
  switch (event.kind) {
    case Event::Kind::start:
      return 0;
    case Event::Kind::completion:
      return 1;
    case Event::Kind::transfer:
      return place(event.number).position;
    case Event::Kind::slot:
      return event.number / stride_;
  }
  throw InternalError("event without a kind");
}

int PlanIndex::queue_agent(int rank, int queue) const {
  return first_queue_agent_[static_cast<std::size_t>(rank)] + queue;
}

int PlanIndex::worker_agent(int rank, int worker) const {
  return first_worker_agent_[static_cast<std::size_t>(rank)] + worker;
}

int PlanIndex::workers_of(int rank) const {
  return static_cast<int>(std::min(program(rank).slots.size(), static_cast<std::size_t>(stride_)));
}

void PlanIndex::number_transfers() {
  const auto ranks = static_cast<std::size_t>(plan_->ranks);
  first_transfer_.resize(ranks);
  into_.resize(ranks);
  from_.resize(ranks);
  lengths_.assign(ranks, 2);
  for (int rank = 0; rank < plan_->ranks; ++rank) {
    const std::vector<Queue>& queues = program(rank).queues;
    first_queue_agent_.push_back(static_cast<int>(lengths_.size()));
    for (std::size_t q = 0; q < queues.size(); ++q) {
      first_transfer_[static_cast<std::size_t>(rank)].push_back(transfers());
      lengths_.push_back(static_cast<int>(queues[q].transfers.size()));
      for (std::size_t p = 0; p < queues[q].transfers.size(); ++p) {
        const Transfer& moved = queues[q].transfers[p];
        into_[static_cast<std::size_t>(moved.destination.rank)].push_back(transfers());
        from_[static_cast<std::size_t>(moved.source.rank)].push_back(transfers());
        places_.push_back({rank, static_cast<int>(q), static_cast<int>(p)});
      }
    }
  }
}

void PlanIndex::number_workers() {
  for (int rank = 0; rank < plan_->ranks; ++rank) {
    first_worker_agent_.push_back(static_cast<int>(lengths_.size()));
    const auto slots = static_cast<int>(program(rank).slots.size());
    for (int worker = 0; worker < workers_of(rank); ++worker) lengths_.push_back((slots - worker - 1) / stride_ + 1);
  }
}

void PlanIndex::collect_raises() {
  raises_.resize(plan_->signals.size());
  const auto raise_all = [&](const std::vector<int>& signals, const Event& event) {
    for (const int signal : signals)
      raises_[static_cast<std::size_t>(signal)].push_back({event, agent_of(event), position_of(event)});
  };
  for (int rank = 0; rank < plan_->ranks; ++rank) {
    raise_all(program(rank).start_signals, {Event::Kind::start, rank, 0});
    raise_all(program(rank).completion_signals, {Event::Kind::completion, rank, 0});
    const std::vector<Slot>& slots = program(rank).slots;
    for (std::size_t s = 0; s < slots.size(); ++s)
      raise_all(slots[s].signals, {Event::Kind::slot, rank, static_cast<int>(s)});
  }
  for (int t = 0; t < transfers(); ++t) raise_all(transfer(t).signals, {Event::Kind::transfer, place(t).rank, t});
  for (std::vector<Raise>& raises : raises_) {
    std::stable_sort(raises.begin(), raises.end(), [](const Raise& a, const Raise& b) {
      return std::pair(a.agent, a.position) < std::pair(b.agent, b.position);
    });
  }
}

void PlanIndex::collect_waits() {
  waited_for_.assign(plan_->signals.size(), false);
  for_each_wait([&](const Wait& wait) { waited_for_[static_cast<std::size_t>(wait.signal)] = true; });
}

void PlanIndex::collect_reads() {
  std::map<std::pair<int, Region>, int> known;
  const auto numbers_of = [&](const std::vector<TileAccess>& accesses) {
    std::vector<int> ids;
    for (const TileAccess& read : accesses) {
      if (read.region.empty()) continue;
      const auto [found, is_new] = known.try_emplace({read.buffer, read.region}, static_cast<int>(reads_.size()));
      if (is_new) reads_.push_back(read);
      ids.push_back(found->second);
    }
    return ids;
  };
  for (const Tile& each : plan_->tiles) {
    std::vector<std::vector<int>>& ids = reads_of_.emplace_back();
    ids.push_back(numbers_of(each.reads));
    for (const LoopPiece& piece : each.pieces) ids.push_back(numbers_of(piece.reads));
  }
}

void PlanIndex::collect_tiles_of_ranks() {
  const auto numbers_in = [](const std::vector<bool>& marks) {
    std::vector<int> numbers;
    for (std::size_t i = 0; i < marks.size(); ++i)
      if (marks[i]) numbers.push_back(static_cast<int>(i));
    return numbers;
  };
  for (const RankProgram& program : plan_->programs) {
    std::vector<bool> tiles(plan_->tiles.size(), false);
    std::vector<bool> reads(reads_.size(), false);
    for (const Slot& slot : program.slots) {
      const auto tile = static_cast<std::size_t>(slot.tile);
      if (tiles[tile]) continue;
      tiles[tile] = true;
      for (const std::vector<int>& list : reads_of_[tile])
        for (const int read : list) reads[static_cast<std::size_t>(read)] = true;
    }
    tiles_on_.push_back(numbers_in(tiles));
    reads_on_.push_back(numbers_in(reads));
  }
}

bool PlanIndex::is_read_by(int read, int tile) const {
  const auto& lists = reads_of_[static_cast<std::size_t>(tile)];
  return std::any_of(lists.begin(), lists.end(),
                     [&](const std::vector<int>& ids) { return std::find(ids.begin(), ids.end(), read) != ids.end(); });
}

std::vector<Source> sources_of(const PlanIndex& index, int rank, int buffer, const Region& region) {
  std::vector<Source> sources;
  const auto add = [&](int transfer, const Region& filled) {
    const Region part = intersect(filled, region);
    if (!part.empty()) sources.push_back({transfer, part});
  };
  for (const Region& box : index.plan().buffer(buffer).held[static_cast<std::size_t>(rank)]) add(-1, box);
  for (const int t : index.into(rank))
    if (index.transfer(t).destination.buffer == buffer) add(t, index.transfer(t).destination.region);
  return sources;
}

}  // namespace syncopate
