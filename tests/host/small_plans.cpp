#include "small_plans.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>

namespace syncopate::test {
namespace {

constexpr const char* kLocalSource = R"(import triton
import triton.language as tl


@triton.jit
def scale(a_ptr, b_ptr, c_ptr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    columns = tl.arange(0, COLUMNS)
    offsets = (block * BLOCK + tl.arange(0, BLOCK))[:, None] * COLUMNS + columns[None, :]
    a = tl.load(a_ptr + offsets)
    b = tl.load(b_ptr + columns)
    tl.store(c_ptr + offsets, a * 2.0 + b[None, :])
)";

constexpr const char* kFusedSource = R"(import triton
import triton.language as tl


@triton.jit
def syncopate_wait(flags, slot, expected, tile, record, time_limit):
    return 0


@triton.jit
def syncopate_wait_for_tile(row, waits, flags, epoch, tile, record, time_limit):
    first = tl.load(row)
    last = tl.load(row + 1)
    ready = 0
    for i in range(first, last):
        w = waits + i * 3
        expected = tl.load(w + 1) * (epoch - 1) + tl.load(w + 2)
        ready += syncopate_wait(flags, tl.load(w), expected, tile, record, time_limit)
    return ready


@triton.jit
def scale_fused(a_ptr, b_ptr, c_ptr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, syncopate_rank, syncopate_world_size,
                syncopate_tiles, syncopate_tile_count, syncopate_waits, syncopate_flags, syncopate_epoch,
                syncopate_record, syncopate_time_limit):
    epoch = tl.load(syncopate_epoch)
    for syncopate_slot in tl.range(tl.program_id(0), syncopate_tile_count, tl.num_programs(0)):
        row = syncopate_tiles + syncopate_slot.to(tl.int64) * 3
        ready = syncopate_wait_for_tile(row + 1, syncopate_waits, syncopate_flags, epoch, syncopate_slot,
                                        syncopate_record, syncopate_time_limit)
        block = tl.load(row).to(tl.int32) + ready
        columns = tl.arange(0, COLUMNS)
        offsets = (block * BLOCK + tl.arange(0, BLOCK))[:, None] * COLUMNS + columns[None, :]
        a = tl.load(a_ptr + offsets)
        b = tl.load(b_ptr + columns)
        tl.store(c_ptr + offsets, a * 2.0 + b[None, :])
)";

class Builder {
 public:
  explicit Builder(const SmallPlanOptions& options) : options_(options) {}

  Plan build() {
    plan_.operator_name = "small";
    plan_.ranks = options_.ranks;
    plan_.workers = options_.workers;
    plan_.programs.resize(static_cast<std::size_t>(options_.ranks));
    kernel();
    buffers();
    for (int rank = 0; rank < options_.ranks; ++rank) {
      if (options_.route == Route::push) push_from(rank);
      if (options_.route == Route::pull) pull_to(rank);
      if (options_.route == Route::ring) ring_from(rank);
    }
    tiles();
    return std::move(plan_);
  }

 private:
  RankProgram& program(int rank) { return plan_.programs[static_cast<std::size_t>(rank)]; }
  int tile_count() const { return options_.ranks * options_.split; }
  int owner(int chunk) const { return chunk / options_.split; }
  Region rows(int chunk) const { return {{chunk * kTileRows, (chunk + 1) * kTileRows}, {0, kColumns}}; }

  void kernel() {
    KernelPart& kernel = plan_.kernel;
    kernel.file = "scale.py";
    kernel.function = "scale";
    kernel.local_source = kLocalSource;
    kernel.fused_function = "scale_fused";
    kernel.fused_source = kFusedSource;
    kernel.arguments = {{"COLUMNS", std::int64_t{kColumns}}, {"BLOCK", std::int64_t{kTileRows}}};
    kernel.axes = {"block"};
    kernel.extents = {tile_count()};
    kernel.grid = {tile_count()};
  }

  void buffers() {
    const Shape shape = {tile_count() * kTileRows, kColumns};
    const Placement all = Placement::replicate();
    Buffer a{"a", "a_ptr", shape, Dtype::fp32, true, "gathered", Placement::shard(0), all, all, {}};
    Buffer b{"b", "b_ptr", {kColumns}, Dtype::fp32, false, "added", all, all, all, {}};
    Buffer c{"c", "c_ptr", shape, Dtype::fp32, false, "result", all, all, all, {}};
    a.shared = true;
    const std::int64_t shard = options_.split * kTileRows;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      a.held.push_back({Region{{rank * shard, (rank + 1) * shard}, {0, kColumns}}});
      b.held.push_back({Region{{0, kColumns}}});
      c.held.push_back({Region{{0, 0}, {0, 0}}});
    }
    plan_.buffers = {a, b, c};
  }

  int signal(const std::string& name, int home, std::int64_t per_launch) {
    const auto [entry, fresh] = signals_.try_emplace(name, static_cast<int>(plan_.signals.size()));
    if (fresh) plan_.signals.push_back({name, home, signal_count(plan_, home), per_launch, "test"});
    return entry->second;
  }

  /// The signal that tells `rank` that a chunk is there, and how often it must have been raised.
  Wait arrived(int rank, int chunk) {
    if (options_.counted)
      return {signal(fmt::format("shard {} arrived at {}", owner(chunk), rank), rank, options_.split),
              chunk % options_.split + 1};
    return {signal(fmt::format("chunk {} arrived at {}", chunk, rank), rank, 1), 1};
  }

  /// Tells `home` that `peer` has completed a launch and will not read what it received in it any more.
  int completed(int peer, int home) {
    const auto before = plan_.signals.size();
    const int index = signal(fmt::format("{} completed, for {}", peer, home), home, 1);
    if (plan_.signals.size() > before) program(peer).completion_signals.push_back(index);
    return index;
  }

  void copy(Queue& queue, int from, int to, int chunk, std::vector<Wait> waits, std::vector<int> signals) {
    const View source{from, 0, rows(chunk)};
    const View destination{to, 0, rows(chunk)};
    queue.transfers.push_back({from, 0, source, destination, std::move(waits), std::move(signals)});
  }

  void push_from(int rank) {
    Queue queue{"copies", Engine::copy_engine, {}};
    for (int round = 1; round < options_.ranks; ++round) {
      const int peer = (rank + round) % options_.ranks;
      for (int chunk = rank * options_.split; chunk < (rank + 1) * options_.split; ++chunk)
        copy(queue, rank, peer, chunk, {{completed(peer, rank), 0}}, {arrived(peer, chunk).signal});
    }
    program(rank).queues.push_back(queue);
  }

  void pull_to(int rank) {
    Queue queue{"copies", Engine::copy_engine, {}};
    for (int round = 1; round < options_.ranks; ++round) {
      const int peer = (rank + round) % options_.ranks;
      const int started = signal(fmt::format("{} started, for {}", peer, rank), rank, 1);
      program(peer).start_signals.push_back(started);
      const int taken = signal(fmt::format("taken from {} by {}", peer, rank), peer, options_.split);
      program(peer).completion_waits.push_back({taken, options_.split});
      for (int chunk = peer * options_.split; chunk < (peer + 1) * options_.split; ++chunk)
        copy(queue, peer, rank, chunk, {{started, 1}}, {arrived(rank, chunk).signal, taken});
    }
    program(rank).queues.push_back(queue);
  }

  void ring_from(int rank) {
    Queue queue{"copies", Engine::copy_engine, {}};
    const int next = (rank + 1) % options_.ranks;
    for (int hop = 0; hop + 1 < options_.ranks; ++hop) {
      const int from = (rank - hop + options_.ranks) % options_.ranks;
      for (int chunk = from * options_.split; chunk < (from + 1) * options_.split; ++chunk) {
        std::vector<Wait> waits = {{completed(next, rank), 0}};
        if (hop > 0) waits.push_back(arrived(rank, chunk));
        copy(queue, rank, next, chunk, waits, {arrived(next, chunk).signal});
      }
    }
    program(rank).queues.push_back(queue);
  }

  void tiles() {
    for (int tile = 0; tile < tile_count(); ++tile)
      plan_.tiles.push_back({{tile}, {{0, rows(tile)}, {1, {{0, kColumns}}}}, {{2, rows(tile)}}});
    for (int rank = 0; rank < options_.ranks; ++rank) {
      for (int i = 0; i < tile_count(); ++i) {
        const int tile = (rank * options_.split + i) % tile_count();
        Slot slot;
        slot.tile = tile;
        if (owner(tile) != rank) slot.waits.push_back(arrived(rank, tile));
        program(rank).slots.push_back(slot);
      }
    }
  }

  SmallPlanOptions options_;
  Plan plan_;
  std::map<std::string, int> signals_;
};

}  // namespace

Plan small_plan(const SmallPlanOptions& options) { return Builder(options).build(); }

int find_signal(const Plan& plan, const std::string& name) {
  for (std::size_t i = 0; i < plan.signals.size(); ++i)
    if (plan.signals[i].name == name) return static_cast<int>(i);
  throw std::runtime_error("no signal " + name);
}

}  // namespace syncopate::test
