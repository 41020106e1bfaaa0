// An independent oracle for footprints: the concrete machine, watched while it runs the same tile.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "syncopate/kernel/concrete.h"
#include "syncopate/kernel/footprint.h"

namespace syncopate {

/// Which elements of each tensor are touched.
struct Touched {
  std::vector<std::vector<bool>> reads;
  std::vector<std::vector<bool>> writes;
};

class Watcher : public Environment {
 public:
  explicit Watcher(const std::vector<std::pair<std::int64_t, Dtype>>& tensors) {
    for (const auto& [elements, dtype] : tensors) {
      memories_.emplace_back(static_cast<std::size_t>(elements * size_in_bytes(dtype)));
      touched.reads.emplace_back(static_cast<std::size_t>(elements));
      touched.writes.emplace_back(static_cast<std::size_t>(elements));
    }
  }

  std::span<std::byte> access(int buffer, AccessKind kind, std::span<const Run> runs,
                              const SourceLocation& where) override {
    const auto b = static_cast<std::size_t>(buffer);
    for (const Run& run : runs) {
      if (run.offset < 0 || run.offset + run.count > static_cast<std::int64_t>(touched.reads[b].size()))
        throw UserError(where, "outside");
      for (std::int64_t i = run.offset; i < run.offset + run.count; ++i) {
        if (kind != AccessKind::write) touched.reads[b][static_cast<std::size_t>(i)] = true;
        if (kind != AccessKind::read) touched.writes[b][static_cast<std::size_t>(i)] = true;
      }
    }
    return memories_[b];
  }
  bool wait(const WaitRequest&) override { return true; }

  Touched touched;

 private:
  std::vector<std::vector<std::byte>> memories_;
};

/// Runs one program instance; tensors are numbered by parameter name.
inline Touched touched_by(const TileKernel& kernel, const ScalarArguments& scalars, const TensorBindings& tensors,
                          const std::vector<std::int64_t>& position, const std::vector<std::int64_t>& counts) {
  Arguments arguments;
  for (const auto& [name, value] : scalars)
    std::visit([&, &parameter = name](const auto& scalar) { arguments[parameter] = scalar; }, value);
  std::vector<std::pair<std::int64_t, Dtype>> memories;
  for (const auto& [name, tensor] : tensors) {
    arguments[name] = BufferArgument{static_cast<int>(memories.size()), tensor.dtype};
    memories.emplace_back(volume(tensor.shape), tensor.dtype);
  }
  Watcher watcher(memories);
  run_to_end(lower(kernel.shared_module(), kernel.function()), arguments, position, counts, watcher);
  return watcher.touched;
}

inline std::vector<bool> elements_of(const std::vector<Region>& regions, const Shape& shape) {
  std::vector<bool> elements(static_cast<std::size_t>(volume(shape)));
  for (const Region& region : regions) {
    if (!Region::whole(shape).contains(region)) {
      ADD_FAILURE() << region.to_string() << " is not in " << to_string(shape);
      continue;
    }
    for_each_run(region, shape, [&](std::int64_t offset, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) elements[static_cast<std::size_t>(offset + i)] = true;
    });
  }
  return elements;
}

/// Compares a footprint with what was touched, element by element.
inline void expect_same(const TileFootprint& tile, const Touched& touched, const TensorBindings& tensors,
                        const std::string& what) {
  std::size_t t = 0;
  for (const auto& [name, tensor] : tensors) {
    std::vector<Region> reads, writes;
    for (const ParameterAccess& access : tile.accesses) {
      if (access.parameter != name) continue;
      EXPECT_FALSE(access.reads.empty() && access.writes.empty());
      reads = access.reads;
      writes = access.writes;
    }
    EXPECT_EQ(elements_of(reads, tensor.shape), touched.reads[t]) << what << " reads of " << name;
    EXPECT_EQ(elements_of(writes, tensor.shape), touched.writes[t]) << what << " writes of " << name;
    ++t;
  }
}

/// Every tile against the program that computes it: for persistent kernels program i of as many as there are tiles.
inline void expect_exact(const TileKernel& kernel, ScalarArguments scalars, const TensorBindings& tensors,
                         const std::vector<std::int64_t>& grid = {}) {
  const TileSpace space = analyse_tiles(kernel, scalars, tensors);
  const auto tiles = static_cast<std::int64_t>(space.tiles.size());
  if (scalars.contains("NUM_SMS")) scalars["NUM_SMS"] = tiles;
  const std::vector<std::int64_t> counts = grid.empty() ? std::vector{tiles} : grid;
  std::int64_t programs = 1;
  for (const std::int64_t count : counts) programs *= count;
  ASSERT_EQ(tiles, programs);
  const bool persistent = kernel.scheduler().kind != SchedulerKind::program_per_tile;
  EXPECT_EQ(space.grid, persistent ? std::vector<std::int64_t>{1} : counts);
  for (std::int64_t i = 0; i < tiles; ++i) {
    std::vector<std::int64_t> position;
    for (std::int64_t rest = i; const std::int64_t count : counts) {
      position.push_back(rest % count);
      rest /= count;
    }
    const Touched touched = touched_by(kernel, scalars, tensors, position, counts);
    expect_same(space.tiles[static_cast<std::size_t>(i)], touched, tensors, fmt::format("program {}", i));
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace syncopate
