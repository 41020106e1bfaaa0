#include "syncopate/plan/plan.h"

#include <algorithm>

namespace syncopate {

std::string_view name_of(Engine engine) {
  switch (engine) {
    case Engine::copy_engine:
      return "copy_engine";
  }
  throw InternalError("engine without a name");
}

int signal_count(const Plan& plan, int rank) {
  return static_cast<int>(
      std::count_if(plan.signals.begin(), plan.signals.end(), [&](const Signal& s) { return s.home == rank; }));
}

KernelTables kernel_tables(const Plan& plan, int rank) {
  KernelTables tables;
  std::int64_t rows = 0;
  for (const Slot& slot : plan.programs[static_cast<std::size_t>(rank)].slots) {
    const Tile& tile = plan.tiles[static_cast<std::size_t>(slot.tile)];
    tables.tiles.insert(tables.tiles.end(), tile.index.begin(), tile.index.end());
    tables.tiles.push_back(rows);
    rows += static_cast<std::int64_t>(slot.waits.size());
    tables.tiles.push_back(rows);
    for (const Wait& wait : slot.waits) {
      const Signal& signal = plan.signals[static_cast<std::size_t>(wait.signal)];
      tables.waits.insert(tables.waits.end(), {signal.slot, signal.per_launch, wait.threshold});
    }
  }
  return tables;
}

ExtraMemory extra_memory(const Plan& plan) {
  // The flags of a rank, the epoch behind them and the 8 words of a missed wait's record.
  constexpr std::int64_t kWord = 8;
  constexpr std::int64_t kEpochAndRecord = 9;
  ExtraMemory most;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    std::int64_t staging = 0;
    for (const Buffer& buffer : plan.buffers)
      if (buffer.symmetric)
        staging +=
            (volume(buffer.shape) - buffer.held[static_cast<std::size_t>(rank)].volume()) * size_in_bytes(buffer.dtype);
    const KernelTables tables = kernel_tables(plan, rank);
    most.staging = std::max(most.staging, staging);
    most.signals = std::max(most.signals, (signal_count(plan, rank) + kEpochAndRecord) * kWord);
    most.tables = std::max(most.tables, static_cast<std::int64_t>(tables.tiles.size() + tables.waits.size()) * kWord);
  }
  return most;
}

}  // namespace syncopate
