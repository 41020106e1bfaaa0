// Emitted kernels with a reduced output, run in the concrete machine against the meaning of their tables: what they
// leave in the output, bit for bit, and when they wait and raise.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "syncopate/emit/emit.h"
#include "syncopate/kernel/runtime_names.h"
#include "tests/kernel/concrete_fixture.h"

namespace syncopate {
namespace {

/// What a kernel did that others may notice.
struct Event {
  enum class Kind : std::uint8_t { index, store, add, wait, raise } kind;
  std::int64_t what = 0;  ///< the slot whose index is read, or that waits; the flag that is raised
};

enum Buffers : int { kA, kB, kC, kTiles, kWaits, kFlags, kEpoch, kRecord, kStaging, kAddends, kSignals, kPeers };

class Trace : public FakeMemory {
 public:
  explicit Trace(std::int64_t columns) : columns_(columns) {}

  std::span<std::byte> access(int buffer, AccessKind kind, std::span<const Run> runs,
                              const SourceLocation& where) override {
    if (buffer == kTiles && runs.front().offset % columns_ == 0)
      events.push_back({Event::Kind::index, runs.front().offset / columns_});
    // In place, adding and storing are one.
    if (buffer == kC && kind != AccessKind::write) events.push_back({Event::Kind::add});
    if (buffer == kC) events.push_back({Event::Kind::store});
    if (buffer == kStaging) events.push_back({Event::Kind::add});
    EXPECT_TRUE(kind == AccessKind::read || buffer == kC) << "the kernel writes buffer " << buffer;
    return FakeMemory::access(buffer, kind, runs, where);
  }
  bool wait(const WaitRequest& request) override {
    events.push_back({Event::Kind::wait, request.tile});
    return FakeMemory::wait(request);
  }
  void raise(int peers_buffer, std::int64_t home, std::int64_t slot, const SourceLocation&) override {
    EXPECT_EQ(peers_buffer, kPeers);
    EXPECT_EQ(home, slot % 3);
    events.push_back({Event::Kind::raise, slot});
  }

  std::vector<Event> events;

 private:
  std::int64_t columns_;
};

/// Rows of the output, and from which row of the staging buffer on their summands are.
struct RowAddend {
  std::int64_t begin = 0, end = 0, staging = 0;
};

struct TestSlot {
  std::int64_t tile_row = 0, tile_column = 0;
  std::int64_t begin = 0, end = 0;  ///< rows that it keeps
  bool waits = false, sum_waits = false;
  std::vector<RowAddend> addends;
  std::int64_t own_place = 0;
  std::int64_t signals = 0;
};

struct TestKernel {
  std::string name;
  std::string output;
  bool descriptors = true;
};

void PrintTo(const TestKernel& kernel, std::ostream* out) { *out << kernel.name; }

constexpr std::int64_t kAxes = 2;
constexpr std::int64_t kColumns = kAxes + 14;
constexpr std::int64_t kEpochNow = 5;
const std::string kRoot = SYNCOPATE_SOURCE_DIR;

class Producer : public testing::TestWithParam<TestKernel> {
 protected:
  struct Case {
    GemmShape shape;
    GemmShape tile;
    Dtype dtype = Dtype::bf16;
    std::int64_t staging_rows = 0;
    std::vector<TestSlot> slots;
    bool cut = false;
    bool in_place = false;  ///< what is added stands in the output: the staging buffer is its image before the kernel
  };

  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }

  Case make_case(bool cut, bool in_place) {
    Case made;
    const std::int64_t unit = GetParam().descriptors ? 8 : 1;  // what descriptors demand of rows of bf16
    made.shape = {pick(1, 70), unit * pick(1, 70 / unit), unit * pick(1, 40 / unit)};
    made.tile = {16 << pick(0, 3), 32 << pick(0, 2), 16};  // a quarter of a row of bf16 must have 16 bytes, too
    made.dtype = pick(0, 1) == 0 ? Dtype::bf16 : Dtype::fp16;
    made.staging_rows = pick(2, 80);
    made.cut = cut;
    made.in_place = in_place;
    if (in_place) made.staging_rows = made.shape.m;
    for (std::int64_t row = 0; row * made.tile.m < made.shape.m; ++row)
      for (std::int64_t column = 0; column * made.tile.n < made.shape.n; ++column) add_tile(made, row, column);
    std::shuffle(made.slots.begin(), made.slots.end(), random_);
    return made;
  }

  void add_tile(Case& made, std::int64_t row, std::int64_t column) {
    const std::int64_t first = row * made.tile.m;
    const std::int64_t last = std::min(first + made.tile.m, made.shape.m);
    TestSlot slot;
    slot.tile_row = row;
    slot.tile_column = column;
    const std::int64_t border = made.cut ? pick(first, last) : last;
    for (const auto& [begin, end] : {std::pair{first, border}, std::pair{border, last}}) {
      if (begin == end) continue;
      // What a slot that is not cut keeps is all of the output, of which the tile stores its part.
      slot.begin = made.cut ? begin : 0;
      slot.end = made.cut ? end : made.shape.m;
      add_work(made, slot, begin, end);
      made.slots.push_back(slot);
    }
  }

  /// Waits, signals, and some addends, which are for any rows.
  void add_work(const Case& made, TestSlot& slot, std::int64_t first, std::int64_t last) {
    slot.waits = pick(0, 3) == 0;
    slot.signals = pick(0, 2);
    slot.addends.clear();
    if (made.in_place) {
      if (pick(0, 2) > 0) slot.addends = {{first, last, first}};
      slot.sum_waits = !slot.addends.empty();
      slot.own_place = pick(0, static_cast<std::int64_t>(slot.addends.size()));
      return;
    }
    for (std::int64_t count = pick(0, 3); count > 0; --count) {
      const std::int64_t rows = std::min(last - first, made.staging_rows);
      const std::int64_t length = pick(0, 1) == 0 ? rows : pick(1, rows);
      const std::int64_t begin = pick(first, last - length);
      slot.addends.push_back({begin, begin + length, pick(0, made.staging_rows - length)});
    }
    slot.sum_waits = !slot.addends.empty() || pick(0, 5) == 0;
    slot.own_place = pick(0, static_cast<std::int64_t>(slot.addends.size()));
  }

  Arguments arguments(const FakeMemory& memory, const Case& made, const Function& function) const {
    Arguments result;
    std::size_t position = 0;
    const auto next = [&](Argument argument) { result.emplace(function.parameters[position++].name, argument); };
    for (const int buffer : {kA, kB, kC}) next(memory.argument(buffer));
    const std::int64_t sizes[] = {made.shape.m, made.shape.n, made.shape.k, made.tile.m, made.tile.n, made.tile.k, 2};
    for (const std::int64_t size : sizes) next(size);
    return result;
  }

  void add_runtime(Arguments& result, const FakeMemory& memory, const Case& made) const {
    namespace parameter = runtime_parameter;
    result.emplace(parameter::kRank, std::int64_t{0});
    result.emplace(parameter::kWorldSize, std::int64_t{3});
    result.emplace(parameter::kTileCount, static_cast<std::int64_t>(made.slots.size()));
    result.emplace(parameter::kTimeLimit, std::int64_t{0});
    if (!made.in_place) {
      result.emplace(parameter::kCut, made.cut);
      result.emplace(parameter::kStaging, memory.argument(kStaging));
      result.emplace(parameter::kAddends, memory.argument(kAddends));
    }
    const std::pair<const char*, int> pointers[] = {{parameter::kTiles, kTiles},   {parameter::kWaits, kWaits},
                                                    {parameter::kFlags, kFlags},   {parameter::kEpoch, kEpoch},
                                                    {parameter::kRecord, kRecord}, {parameter::kSignals, kSignals},
                                                    {parameter::kPeers, kPeers}};
    for (const auto& [name, buffer] : pointers) result.emplace(name, memory.argument(buffer));
  }

  /// The signals of all slots in order; returns where each slot's begin, and the end.
  static std::vector<std::int64_t> add_signals(std::vector<double>& signals, const Case& made) {
    std::vector<std::int64_t> first = {0};
    for (std::size_t s = 0; s < made.slots.size(); ++s) {
      for (std::int64_t i = 0; i < made.slots[s].signals; ++i) {
        const double flag = static_cast<double>(s) * 4 + static_cast<double>(i);
        signals.insert(signals.end(), {std::fmod(flag, 3), flag});
      }
      first.push_back(first.back() + made.slots[s].signals);
    }
    return first;
  }

  /// The slot whose signals are raised after slot s, or -1.
  static std::int64_t early(const Case& made, std::size_t s, std::int64_t workers) {
    const std::size_t next = s + static_cast<std::size_t>(workers);
    const bool at_once = next >= made.slots.size() || made.slots[next].waits || made.slots[next].sum_waits;
    return at_once ? static_cast<std::int64_t>(s) : -1;
  }

  /// The slot whose signals are raised before slot s stores, or -1.
  static std::int64_t late(const Case& made, std::size_t s, std::int64_t workers) {
    const std::int64_t before = static_cast<std::int64_t>(s) - workers;
    return before >= 0 && early(made, static_cast<std::size_t>(before), workers) < 0 ? before : -1;
  }

  /// What its only addend adds to the number that says what a slot does, if it is for all rows of the tile.
  static double for_all(const Case& made, const TestSlot& slot) {
    const RowAddend& addend = slot.addends.front();
    const std::int64_t first = slot.tile_row * made.tile.m;
    const std::int64_t last = std::min(first + made.tile.m, made.shape.m);
    if (addend.begin > first || addend.end < last) return 0;
    return 32 + 64 * static_cast<double>((addend.staging - addend.begin) * made.shape.n);
  }

  /// The tables of kernel/runtime_names.h, whose form plan/plan.h states. Slot s raises flags 4 s, 4 s + 1, ...
  void add_tables(FakeMemory& memory, const Case& made, std::int64_t workers) {
    std::vector<double> tiles, waits, addends, signals;
    const auto rows = [](const std::vector<double>& table, std::size_t columns) {
      return static_cast<double>(table.size() / columns);
    };
    const auto add_wait = [&](bool wanted) {
      tiles.push_back(rows(waits, 3));
      if (wanted) waits.insert(waits.end(), {1, 2, 2});
      tiles.push_back(rows(waits, 3));
    };
    const std::vector<std::int64_t> first_signals = add_signals(signals, made);
    for (std::size_t s = 0; s < made.slots.size(); ++s) {
      const TestSlot& slot = made.slots[s];
      const auto n = static_cast<double>(made.shape.n);
      tiles.push_back(static_cast<double>(slot.tile_row));
      tiles.push_back(static_cast<double>(slot.tile_column));
      add_wait(slot.waits);
      add_wait(slot.sum_waits);
      const bool listed = !made.in_place;
      tiles.push_back(rows(addends, 3));
      tiles.push_back(rows(addends, 3) + (listed ? static_cast<double>(slot.own_place) : 0));
      for (const RowAddend& addend : slot.addends)
        if (listed)
          addends.insert(addends.end(), {static_cast<double>(addend.staging - addend.begin) * n,
                                         static_cast<double>(addend.begin) * n, static_cast<double>(addend.end) * n});
      tiles.push_back(rows(addends, 3));
      double work = slot.sum_waits || !slot.addends.empty() ? 1 : 0;
      if (slot.sum_waits) work += 16;
      if (listed && slot.addends.size() == 1) work += 8 + for_all(made, slot);
      double bit = 2;
      for (const std::int64_t raised : {late(made, s, workers), early(made, s, workers)}) {
        const auto from = static_cast<std::size_t>(std::max<std::int64_t>(raised, 0));
        const std::size_t to = raised < 0 ? from : from + 1;
        tiles.push_back(static_cast<double>(first_signals[from]));
        tiles.push_back(static_cast<double>(first_signals[to]));
        if (first_signals[from] < first_signals[to]) work += bit;
        bit *= 2;
      }
      tiles.push_back(static_cast<double>(slot.begin) * n);
      tiles.push_back(static_cast<double>(slot.end) * n);
      tiles.push_back(work);
    }
    for (std::vector<double>* table : {&waits, &addends, &signals}) table->push_back(-1);  // none is empty
    ASSERT_EQ(memory.add(Dtype::int64, tiles), kTiles);
    memory.add(Dtype::int64, waits);
    memory.add(Dtype::int64, std::vector<double>{0, 2 * kEpochNow});
    memory.add(Dtype::int64, std::vector<double>{kEpochNow});
    memory.add(Dtype::int64, std::vector<double>(8, 0));
    const int staging = memory.add(made.dtype, made.staging_rows * made.shape.n);
    // Large ones that cancel, so that every order of addition has its own result.
    const double large = made.dtype == Dtype::bf16 ? 1 << 27 : 1 << 15;
    for (std::int64_t i = 0; i < made.staging_rows * made.shape.n; ++i) {
      const std::int64_t kind = pick(0, 3);
      memory.set(staging, i, kind == 0 ? large : kind == 1 ? -large : fractions(2, i));
    }
    for (const TestSlot& slot : made.slots)
      if (made.in_place && !slot.addends.empty()) land(memory, made, slot);
    memory.add(Dtype::int64, addends);
    memory.add(Dtype::int64, signals);
    ASSERT_EQ(memory.add(Dtype::int64, std::vector<double>(3, 0)), kPeers);
  }

  /// What other ranks have sent to the place where the slot's tile stores.
  static void land(FakeMemory& memory, const Case& made, const TestSlot& slot) {
    const std::int64_t last = std::min((slot.tile_column + 1) * made.tile.n, made.shape.n);
    for (std::int64_t row = slot.addends.front().begin; row < slot.addends.front().end; ++row)
      for (std::int64_t column = slot.tile_column * made.tile.n; column < last; ++column)
        memory.set(kC, row * made.shape.n + column, memory.get(kStaging, row * made.shape.n + column));
  }

  /// What the local kernel stores.
  std::vector<double> local_result(const Case& made) const {
    FakeMemory memory = gemm_memory(made.shape, made.dtype, fractions);
    const auto module = parse_module(SourceFile::read(kRoot + "/kernels/" + GetParam().name + ".py"));
    const Function& function = *module->find(GetParam().name);
    const auto program = lower(module, function);
    const std::int64_t tiles =
        ((made.shape.m + made.tile.m - 1) / made.tile.m) * ((made.shape.n + made.tile.n - 1) / made.tile.n);
    for (std::int64_t id = 0; id < tiles; ++id)
      run_to_end(program, arguments(memory, made, function), {id}, {tiles}, memory);
    return memory.values(kC);
  }

  static float rounded(float value, Dtype dtype) {
    std::byte bytes[8];
    store_element(bytes, dtype, value);
    return load_element(bytes, dtype);
  }

  double sum(const Case& made, const TestSlot& slot, const FakeMemory& memory, std::int64_t row, std::int64_t column,
             double own) const {
    if (slot.addends.empty()) return own;
    float total = 0;
    for (std::size_t i = 0; i <= slot.addends.size(); ++i) {
      if (static_cast<std::int64_t>(i) == slot.own_place) total += static_cast<float>(own);
      if (i == slot.addends.size()) break;
      const RowAddend& addend = slot.addends[i];
      if (row < addend.begin || row >= addend.end) continue;
      total += static_cast<float>(memory.get(kStaging, (row - addend.begin + addend.staging) * made.shape.n + column));
    }
    return static_cast<double>(rounded(total, made.dtype));
  }

  void check_result(const Case& made, const FakeMemory& memory) const {
    const std::vector<double> own = local_result(made);
    std::vector<double> expected(own.size(), std::nan(""));
    for (const TestSlot& slot : made.slots) {
      const std::int64_t first = std::max(slot.begin, slot.tile_row * made.tile.m);
      const std::int64_t last = std::min({slot.end, (slot.tile_row + 1) * made.tile.m, made.shape.m});
      for (std::int64_t row = first; row < last; ++row)
        for (std::int64_t column = slot.tile_column * made.tile.n;
             column < std::min((slot.tile_column + 1) * made.tile.n, made.shape.n); ++column) {
          const auto index = static_cast<std::size_t>(row * made.shape.n + column);
          expected[index] = sum(made, slot, memory, row, column, own[index]);
        }
    }
    const std::vector<double> found = memory.values(kC);
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(found[i], expected[i]) << "element " << i;
  }

  /// A slot's signals are raised once each, after its stores, and before the worker waits or ends.
  static void check_events(const Case& made, const std::vector<Event>& events, std::int64_t worker,
                           std::int64_t workers) {
    std::int64_t slot = -1;
    bool arrived = false;
    std::map<std::int64_t, std::int64_t> due;  // flag -> its slot
    for (const Event& event : events) {
      switch (event.kind) {
        case Event::Kind::index:
          slot = slot < 0 ? worker : slot + workers;
          ASSERT_EQ(event.what, slot);
          arrived = false;
          break;
        case Event::Kind::store:
          for (std::int64_t i = 0; i < made.slots[static_cast<std::size_t>(slot)].signals; ++i)
            due[slot * 4 + i] = slot;
          break;
        case Event::Kind::add:
          ASSERT_TRUE(arrived) << "slot " << slot << " adds before it has waited";
          break;
        case Event::Kind::wait:
          ASSERT_TRUE(due.empty()) << "slot " << event.what << " waits before flag " << due.begin()->first
                                   << " is raised";
          arrived = event.what == slot;
          break;
        case Event::Kind::raise:
          ASSERT_EQ(due.erase(event.what), 1U) << "flag " << event.what << " is raised twice or too early";
          break;
      }
    }
    ASSERT_TRUE(due.empty()) << "flag " << due.begin()->first << " is never raised";
  }

  void run(bool cut, bool in_place) {
    const Case made = make_case(cut, in_place);
    SCOPED_TRACE(fmt::format("{} x {} x {}, tiles of {} x {}, {} slots", made.shape.m, made.shape.n, made.shape.k,
                             made.tile.m, made.tile.n, made.slots.size()));
    const TileKernel kernel = TileKernel::read(kRoot + "/kernels/" + GetParam().name + ".py", GetParam().name);
    const FusedSource fused = emit_fused(kernel, GetParam().output, {false, false, {}, in_place});
    const auto module = parse_module(std::make_shared<const SourceFile>("fused.py", fused.text));
    const Function& function = *module->find(fused.function);
    const auto program = lower(module, function);
    Trace memory(kColumns);
    static_cast<FakeMemory&>(memory) = gemm_memory(made.shape, made.dtype, fractions);
    const std::int64_t workers = pick(1, 4);
    add_tables(memory, made, workers);
    Arguments given = arguments(memory, made, function);
    add_runtime(given, memory, made);
    for (std::int64_t worker = 0; worker < workers; ++worker) {
      memory.events.clear();
      run_to_end(program, given, {worker}, {workers}, memory);
      check_events(made, memory.events, worker, workers);
    }
    check_result(made, memory);
  }

  std::mt19937_64 random_{7};
};

TEST_P(Producer, AddsInTheOrderOfTheAddends) {
  for (int i = 0; i < 40 && !HasFailure(); ++i) run(false, false);
}

TEST_P(Producer, KeepsWhatTheSlotKeeps) {
  for (int i = 0; i < 40 && !HasFailure(); ++i) run(true, false);
}

TEST_P(Producer, AddsInPlace) {
  for (int i = 0; i < 40 && GetParam().descriptors && !HasFailure(); ++i) run(false, true);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Producer,
                         testing::Values(TestKernel{"gemm", "c_ptr"}, TestKernel{"gemm_pointers", "c_ptr", false},
                                         TestKernel{"gemm_split_helper", "y"}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace syncopate
