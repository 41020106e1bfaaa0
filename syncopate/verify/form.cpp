#include "syncopate/verify/form.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "syncopate/verify/claim.h"
#include "syncopate/verify/placed.h"

namespace syncopate {

namespace {

/// Keeps sums of raises over two launches far from the limits of 64 bits.
constexpr std::int64_t kMostRaises = std::int64_t{1} << 40;

template <typename T>
bool in_range(int index, const std::vector<T>& list) {
  return index >= 0 && static_cast<std::size_t>(index) < list.size();
}

/// Contiguous runs of a region that lies in its tensor, without visiting them: a broken plan may have very many.
std::int64_t runs_of(const Region& region, const Shape& shape) {
  if (region.empty()) return 0;
  int d = region.dimensions() - 1;
  while (d > 0 && region[d].size() == shape[static_cast<std::size_t>(d)]) --d;
  std::int64_t runs = 1;
  for (--d; d >= 0; --d) runs *= region[d].size();
  return runs;
}

std::string describe(const Tile& tile) { return fmt::format("tile ({})", fmt::join(tile.index, ", ")); }

class FormCheck {
 public:
  explicit FormCheck(const Plan& plan) : plan_(plan) {}

  Theorem run() {
    // Later checks index with what earlier ones have found to be in range.
    if (sizes() && buffers() && signals() && tiles())
      for (int rank = 0; rank < plan_.ranks; ++rank) check_program(rank);
    return claim_.conclude(
        fmt::format("{} ranks, {} buffers, {} signals, {} tiles, {} transfers, {} waits; a transfer "
                    "is at most {} contiguous run{}",
                    plan_.ranks, plan_.buffers.size(), plan_.signals.size(), plan_.tiles.size(), transfers_, waits_,
                    most_runs_, most_runs_ == 1 ? "" : "s"));
  }

 private:
  template <typename... Arguments>
  bool require(bool holds, fmt::format_string<const Arguments&...> text, const Arguments&... arguments) {
    return claim_.check(holds, [&] { return fmt::format(text, arguments...); });
  }

  bool sizes() {
    return require(plan_.ranks >= 1, "the plan is for {} ranks", plan_.ranks) &&
           require(plan_.workers >= 1, "the plan has {} workers", plan_.workers) &&
           require(plan_.programs.size() == static_cast<std::size_t>(plan_.ranks),
                   "the plan is for {} ranks and has programs for {}", plan_.ranks, plan_.programs.size()) &&
           require(plan_.kernel.axes.size() == plan_.kernel.extents.size(), "the kernel has {} axes and {} extents",
                   plan_.kernel.axes.size(), plan_.kernel.extents.size());
  }

  bool buffers() {
    for (const Buffer& buffer : plan_.buffers)
      if (!shape_is_good(buffer) || !held_is_good(buffer)) return false;
    return true;
  }

  bool shape_is_good(const Buffer& buffer) {
    if (!require(buffer.shape.size() <= kMaxDimensions, "buffer {} has {} dimensions; at most {} are supported",
                 buffer.name, buffer.shape.size(), kMaxDimensions))
      return false;
    std::int64_t elements = 1;
    for (const std::int64_t extent : buffer.shape) {
      const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 16 / elements;
      if (!require(extent >= 0 && extent <= most, "buffer {} has an impossible extent {}", buffer.name, extent))
        return false;
      elements *= std::max<std::int64_t>(extent, 1);
    }
    const auto dimension_exists = [&](const Placement& placement) {
      return placement.kind != Placement::Kind::shard ||
             (placement.dimension >= 0 && static_cast<std::size_t>(placement.dimension) < buffer.shape.size());
    };
    return require(dimension_exists(buffer.before) && dimension_exists(buffer.inside),
                   "buffer {} is sharded along a dimension that it does not have", buffer.name) &&
           require(buffer.before == buffer.inside || (buffer.before.kind != Placement::Kind::partial_sum &&
                                                      buffer.inside.kind != Placement::Kind::partial_sum),
                   "buffer {} holds partial sums, which only reductions change, and transfers do not reduce",
                   buffer.name);
  }

  bool held_is_good(const Buffer& buffer) {
    if (!require(buffer.held.size() == static_cast<std::size_t>(plan_.ranks),
                 "buffer {} says what {} ranks hold; the plan is for {}", buffer.name, buffer.held.size(), plan_.ranks))
      return false;
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      const Region& held = buffer.held[static_cast<std::size_t>(rank)];
      if (!region_is_good(buffer, held, [&] { return fmt::format("what rank {} holds", rank); })) return false;
      const Region placed = placed_region(buffer.before, buffer.shape, plan_.ranks, rank);
      if (!require(held.empty() || held == placed, "rank {} holds {}{} before the operator, but its placement says {}",
                   rank, buffer.name, held.to_string(), placed.to_string()))
        return false;
    }
    return true;
  }

  template <typename Owner>
  bool region_is_good(const Buffer& buffer, const Region& region, Owner&& owner) {
    const auto fits = [&] {
      if (static_cast<std::size_t>(region.dimensions()) != buffer.shape.size()) return false;
      for (int d = 0; d < region.dimensions(); ++d)
        if (region[d].begin < 0 || region[d].end < region[d].begin ||
            region[d].end > buffer.shape[static_cast<std::size_t>(d)])
          return false;
      return true;
    };
    return claim_.check(fits(), [&] {
      return fmt::format("{}: {}{} is not inside the buffer, whose shape is {}", owner(), buffer.name,
                         region.to_string(), to_string(buffer.shape));
    });
  }

  bool signals() {
    std::map<int, int> count;  // per home
    for (const Signal& signal : plan_.signals) ++count[signal.home];
    std::set<std::string> names;
    std::map<std::pair<int, int>, std::string> places;
    for (const Signal& signal : plan_.signals) {
      if (!require(in_range(signal.home, plan_.programs), "signal '{}' lives on rank {}; ranks are 0 to {}",
                   signal.name, signal.home, plan_.ranks - 1) ||
          !require(signal.slot >= 0 && signal.slot < count[signal.home],
                   "signal '{}' has slot {} of rank {}, which has {} signals", signal.name, signal.slot, signal.home,
                   count[signal.home]) ||
          !require(signal.per_launch >= 1 && signal.per_launch <= kMostRaises,
                   "signal '{}' is said to be raised {} times in a launch", signal.name, signal.per_launch))
        return false;
      require(names.insert(signal.name).second, "two signals are called '{}'", signal.name);
      const auto [other, is_new] = places.try_emplace({signal.home, signal.slot}, signal.name);
      require(is_new, "signals '{}' and '{}' share slot {} of rank {}", other->second, signal.name, signal.slot,
              signal.home);
    }
    return true;
  }

  bool tiles() {
    std::set<std::vector<std::int64_t>> indices;
    for (const Tile& tile : plan_.tiles) {
      if (!require(tile.index.size() == plan_.kernel.axes.size(), "a tile has {} index values; the kernel has {} axes",
                   tile.index.size(), plan_.kernel.axes.size()))
        return false;
      for (std::size_t a = 0; a < tile.index.size(); ++a)
        require(tile.index[a] >= 0 && tile.index[a] < plan_.kernel.extents[a],
                "{}: axis {} has indices from 0 up to, not including, {}", describe(tile), plan_.kernel.axes[a],
                plan_.kernel.extents[a]);
      require(indices.insert(tile.index).second, "{} is there twice", describe(tile));
      if (!accesses_are_good(tile, tile.reads) || !accesses_are_good(tile, tile.writes)) return false;
    }
    return true;
  }

  bool accesses_are_good(const Tile& tile, const std::vector<TileAccess>& accesses) {
    return std::all_of(accesses.begin(), accesses.end(), [&](const TileAccess& access) {
      return require(in_range(access.buffer, plan_.buffers), "{} uses buffer number {} of {}", describe(tile),
                     access.buffer, plan_.buffers.size()) &&
             region_is_good(plan_.buffer(access.buffer), access.region, [&] { return describe(tile); });
    });
  }

  void check_program(int rank) {
    const RankProgram& program = plan_.programs[static_cast<std::size_t>(rank)];
    check_raises(program.start_signals, [&] { return fmt::format("the start of rank {}", rank); });
    for (const Queue& queue : program.queues) {
      require(queue.engine == Engine::copy_engine, "queue '{}' is for an engine that does not exist", queue.name);
      for (std::size_t p = 0; p < queue.transfers.size(); ++p) check_transfer(rank, queue, p);
    }
    check_slots(rank, program.slots);
    check_waits(rank, program.completion_waits, [&] { return fmt::format("the completion of rank {}", rank); });
    check_raises(program.completion_signals, [&] { return fmt::format("the completion of rank {}", rank); });
  }

  void check_transfer(int rank, const Queue& queue, std::size_t position) {
    const Transfer& transfer = queue.transfers[position];
    const auto name = [&] {
      return fmt::format("transfer {}.{} (place {} of queue '{}')", transfer.operator_rank, transfer.operator_index,
                         position, queue.name);
    };
    ++transfers_;
    check_waits(rank, transfer.waits, name);
    check_raises(transfer.signals, name);
    if (!view_is_good(transfer.source, name) || !view_is_good(transfer.destination, name)) return;
    const Buffer& buffer = plan_.buffer(transfer.source.buffer);
    require(transfer.source.rank == rank || transfer.destination.rank == rank,
            "{} goes from rank {} to rank {}, but its queue belongs to rank {}", name(), transfer.source.rank,
            transfer.destination.rank, rank);
    if (!require(transfer.source.buffer == transfer.destination.buffer, "{} goes from buffer {} to buffer {}", name(),
                 buffer.name, plan_.buffer(transfer.destination.buffer).name))
      return;
    require(buffer.symmetric, "{} moves {}, which is local: peers cannot reach it", name(), buffer.name);
    require(transfer.source.region == transfer.destination.region,
            "{} moves {}{} to {}: the elements of a tensor keep their places", name(), buffer.name,
            transfer.source.region.to_string(), transfer.destination.region.to_string());
    most_runs_ = std::max(most_runs_, runs_of(transfer.destination.region, buffer.shape));
  }

  template <typename Owner>
  bool view_is_good(const View& view, Owner&& owner) {
    return require(in_range(view.rank, plan_.programs), "{} is about rank {}; ranks are 0 to {}", owner(), view.rank,
                   plan_.ranks - 1) &&
           require(in_range(view.buffer, plan_.buffers), "{} is about buffer number {} of {}", owner(), view.buffer,
                   plan_.buffers.size()) &&
           region_is_good(plan_.buffer(view.buffer), view.region, owner);
  }

  void check_slots(int rank, const std::vector<Slot>& slots) {
    std::vector<int> times(plan_.tiles.size(), 0);
    for (std::size_t s = 0; s < slots.size(); ++s) {
      check_waits(rank, slots[s].waits, [&] { return fmt::format("slot {} of rank {}", s, rank); });
      if (require(in_range(slots[s].tile, plan_.tiles), "slot {} of rank {} is for tile number {} of {}", s, rank,
                  slots[s].tile, plan_.tiles.size()))
        ++times[static_cast<std::size_t>(slots[s].tile)];
    }
    for (std::size_t t = 0; t < times.size(); ++t)
      require(times[t] == 1, "rank {} computes {} {} times", rank, describe(plan_.tiles[t]), times[t]);
  }

  template <typename Owner>
  void check_waits(int rank, const std::vector<Wait>& waits, Owner&& owner) {
    for (const Wait& wait : waits) {
      ++waits_;
      const bool exists = claim_.check(in_range(wait.signal, plan_.signals), [&] {
        return fmt::format("{} waits for signal number {} of {}", owner(), wait.signal, plan_.signals.size());
      });
      if (!exists) continue;
      const Signal& signal = plan_.signals[static_cast<std::size_t>(wait.signal)];
      claim_.check(signal.home == rank, [&] {
        return fmt::format("{} waits on rank {} for '{}', which lives on rank {}", owner(), rank, signal.name,
                           signal.home);
      });
      claim_.check(wait.threshold >= 0 && wait.threshold <= signal.per_launch, [&] {
        return fmt::format("{} waits for '{}' with threshold {}; a launch raises it {} times", owner(), signal.name,
                           wait.threshold, signal.per_launch);
      });
    }
  }

  template <typename Owner>
  void check_raises(const std::vector<int>& raised, Owner&& owner) {
    for (const int signal : raised)
      claim_.check(in_range(signal, plan_.signals), [&] {
        return fmt::format("{} raises signal number {} of {}", owner(), signal, plan_.signals.size());
      });
  }

  const Plan& plan_;
  Claim claim_{"form",
               "every index is in range, every region inside its buffer, transfers move equal regions of one symmetric "
               "buffer from or to the rank of their queue, every rank has every tile once, every signal has a place of "
               "its own and every wait is on a signal of the waiter's rank."};
  std::int64_t transfers_ = 0;
  std::int64_t waits_ = 0;
  std::int64_t most_runs_ = 0;
};

}  // namespace

Theorem prove_form(const Plan& plan) { return FormCheck(plan).run(); }

}  // namespace syncopate
