// The domain in which the register machine (machine.h) finds footprints: it executes a kernel on values that stand
// for whole blocks (footprint_value.h) and records which boxes of which tensors each tile reads and writes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "syncopate/kernel/footprint.h"
#include "syncopate/kernel/footprint_access.h"
#include "syncopate/kernel/footprint_loops.h"
#include "syncopate/kernel/footprint_value.h"
#include "syncopate/kernel/program_internal.h"
#include "syncopate/kernel/triton_limits.h"

namespace syncopate {

inline constexpr int kGridAxes = 3;
using GridPosition = std::array<std::int64_t, kGridAxes>;

/// What is recorded of one tile; one entry per tensor parameter.
struct RecordedAccesses {
  std::vector<std::vector<Region>> reads;
  std::vector<std::vector<Region>> writes;
};

/// The most tiles of a launch: more would make plans that take gigabytes.
inline constexpr std::size_t kMostTiles = std::size_t{1} << 18;

class FootprintDomain {
 public:
  using Value = FootprintValue;

  /// `tensors` are the tensor parameters, in the function's order; the parameter of a pointer value is an index into
  /// them. `persistent`: the kernel walks its tiles in a loop. `zeros` are the arguments whose value is 0, for messages
  /// about divisions. `loops`: those whose reads are kept apart.
  FootprintDomain(std::shared_ptr<const Program> program, std::vector<TensorLayout> tensors, bool persistent,
                  std::vector<std::string> zeros, std::vector<LoweredLoop> loops = {});

  /// Starts a program instance. A count of 0 is unknown: asking for it is the user's error.
  void begin_program(const GridPosition& position, const GridPosition& counts);
  /// Ends it; its last tile is complete. Returns how many tiles the program had.
  std::size_t end_program();

  const std::vector<TensorLayout>& tensors() const { return tensors_; }
  /// Recorded so far; parameters of accesses are not merged with shared reads yet.
  const std::vector<std::vector<std::int64_t>>& tile_indices() const { return indices_; }
  std::vector<RecordedAccesses>& tiles() { return tiles_; }
  const RecordedAccesses& recorded(std::size_t tile) const { return tiles_[tile]; }
  /// Per tile, its streamed loops.
  std::vector<std::vector<LoopFootprint>>& tile_loops() { return tile_loops_; }
  /// What the kernel reads outside its loop, and every tile therefore depends on.
  const RecordedAccesses& shared_reads() const { return shared_; }
  /// The first read of a tensor by a persistent kernel that belongs to no tile in particular, or nullptr.
  const Instruction* unguarded_read(std::size_t tensor) const { return unguarded_read_[tensor]; }
  const Instruction* stored_again(std::size_t tensor) const { return stored_again_[tensor]; }
  /// The first read of a tensor at an address into which no index of the tile enters, or nullptr.
  const Instruction* read_past_indices(std::size_t tensor) const { return read_past_indices_[tensor]; }
  const Instruction* read_by_data(std::size_t tensor) const { return read_by_data_[tensor]; }
  /// The largest grid axis whose program id has been asked for.
  int last_axis() const { return last_axis_; }
  std::string tile_name(std::size_t tile) const;
  /// Whether a tensor has been written or read, and where first.
  const Instruction* first_write(std::size_t tensor) const { return first_write_[tensor]; }
  const Instruction* first_read(std::size_t tensor) const { return first_read_[tensor]; }
  const Instruction* first_atomic(std::size_t tensor) const { return first_atomic_[tensor]; }

  // What Machine asks for.
  Value constant(const Constant& constant) const;
  bool truth(const Value& value, const Instruction& instruction) const;
  bool decides(const Value& value, bool wanted) const { return known_truth(value) == wanted; }
  Value range_begin(const Value& start, const Value& end, const Value& step, const Instruction& instruction,
                    Value* registers);
  bool range_continues(const Value& counter, const Value& end, const Value& step, const Instruction& instruction);
  Value range_next(const Value& counter, const Value& step, const Instruction& instruction) const;
  void probe(const Instruction& instruction, const Value* registers);
  bool wait(const Instruction& instruction, Value* registers) const;
  void execute(const Instruction& instruction, Value* registers);

  // And for branches that data decide (footprint_branches.cpp).
  bool undecided(const Value& condition, const Instruction& branch) const;
  void enter(const Instruction& branch) { branches_.push_back(&branch); }
  void leave() { branches_.pop_back(); }
  void meet(Value& value, const Value& other, const Instruction& branch) const;
  [[noreturn]] void escape(const Instruction& jump) const;

 private:
  enum class Direction : std::uint8_t { read, write };
  struct Descriptor {
    std::int16_t parameter = -1;
    bool whole = false;  ///< it describes the tensor itself, so that its indices are the tensor's
    int rank = 0;
    std::int64_t base = 0;
    std::array<std::int64_t, kMaxDimensions> shape{};
    std::array<std::int64_t, kMaxDimensions> stride{};
    std::array<std::int64_t, kMaxDimensions> block{};
  };
  using Operands = std::span<const Register>;

  // Instructions (footprint_domain.cpp).
  Value evaluate(const Instruction& instruction, const Value* registers);
  Value grid_value(const Instruction& instruction, Operands operands, const Value* registers);
  Value full(const Value& value, Dtype dtype, const LaneShape& shape, const Instruction& instruction) const;
  Value reshaped(const Value& value, const LaneShape& shape, const Instruction& instruction) const;
  Value rearranged(const Value& value, std::span<const int> source) const;
  Value permuted(const Instruction& instruction, Operands operands, const Value* registers) const;
  Value with_new_dimension(const Value& value, const Value& axis, const Instruction& instruction) const;
  Value broadcast_value(const Value& value, const LaneShape& shape, const Instruction& instruction) const;
  Value dot(const Instruction& instruction, Operands operands, const Value* registers) const;
  Value reduce(const Instruction& instruction, Operands operands, const Value* registers) const;
  Value index_of(const Instruction& instruction, Operands operands, const Value* registers) const;
  /// The shape of the first operand without the axis of the second, or of a scalar without a second one.
  LaneShape reduced_shape(const Instruction& instruction, Operands operands, const Value* registers) const;
  /// An opaque block for what is computed from `source`.
  Value computed(const Value& source, const LaneShape& shape, Dtype dtype, const Instruction& instruction) const;
  void check(const Instruction& instruction, Operands operands, const Value* registers) const;
  Value extent(const Instruction& instruction, Operands operands, const Value* registers) const;
  std::int64_t known_integer(const Value& value, const char* what, const Instruction& instruction) const;
  LaneShape shape_operand(Operands operands, const Value* registers, const Instruction& instruction) const;
  Dtype dtype_operand(const Value& value, const Instruction& instruction) const;

  // Accesses (footprint_record.cpp).
  static LaneShape block_shape(const Descriptor& descriptor);
  Value load(const Instruction& instruction, Operands operands, const Value* registers);
  Value atomic(const Instruction& instruction, Operands operands, const Value* registers);
  void store(const Instruction& instruction, Operands operands, const Value* registers);
  Value make_block_pointer(const Instruction& instruction, Operands operands, const Value* registers);
  Value advance(const Instruction& instruction, Operands operands, const Value* registers) const;
  /// What of the block is in the bounds that `checked` names.
  const Descriptor& access_block(Direction direction, const Value& value, Operands checked, const Value* registers,
                                 const Instruction& instruction);
  /// The pointer into a tensor argument from which `what` is made.
  const Value& base_pointer(const Value& pointer, const char* what, const Instruction& instruction) const;
  Value make_descriptor(const Instruction& instruction, Operands operands, const Value* registers);
  void check_view(Descriptor& descriptor, const Instruction& instruction);
  const Descriptor& access_descriptor(Direction direction, const Value& value, Operands offsets, const Value* registers,
                                      const Instruction& instruction);
  void access_pointers(Direction direction, const Value& pointers, const Value* mask, const Instruction& instruction);
  /// Whether the elements in all lanes that data may leave are boxes of the tensor; then they are in scratch_.
  bool place_possible(const Value& pointers, const Value& mask);
  LaneMask known_mask(const Value& mask, const Value& pointers, const char* verb, const Instruction& instruction) const;
  RecordedAccesses& destination(Direction direction, std::int16_t parameter, const Instruction& instruction);
  void note_stored_again(std::int16_t parameter, std::span<const Region> boxes, const Instruction& instruction);
  void record(Direction direction, std::int16_t parameter, std::span<const Region> boxes,
              const Instruction& instruction);
  void check_block_size(std::int64_t size, const char* maker, const Instruction& instruction) const;
  void finish_tile();

  // Messages.
  /// The user's error if data decide whether the instruction is executed. `action`: "writes c".
  void check_decided(const char* action, const Instruction& instruction) const;
  int line_of(const Instruction& instruction) const;
  [[noreturn]] void fail(const Instruction& instruction, std::string problem, std::string remedy) const;
  [[noreturn]] void fail_placement(Placement placement, Direction direction, std::int16_t parameter,
                                   const Region& reached, const Instruction& instruction,
                                   const char* remedy = "mask the access") const;
  std::string because(const Value& value) const;
  std::string current_tile() const;

  std::shared_ptr<const Program> program_;
  std::vector<std::string> zeros_;
  std::vector<TensorLayout> tensors_;
  GridPosition position_{};
  GridPosition counts_{};
  int last_axis_ = 0;

  // An instruction belongs to no tile, to the next tile or to the current one by its place in the program.
  const Instruction* probe_ = nullptr;
  const Instruction* loop_begin_ = nullptr;  ///< nullptr: not persistent, or not found
  const Instruction* loop_end_ = nullptr;

  void enter_loop(int loop, Value& counter, const Value& end, const Value& step, const Instruction& instruction,
                  Value* registers);

  std::vector<bool> guarded_;  ///< per instruction: guarded_reads.h
  LoopRecorder loops_;
  std::vector<const Instruction*> branches_;  ///< that data decide, around the current instruction, outermost first
  std::vector<Descriptor> descriptors_;
  std::vector<Region> scratch_;
  std::vector<const Instruction*> first_write_;
  std::vector<const Instruction*> first_read_;
  std::vector<const Instruction*> first_atomic_;
  std::vector<const Instruction*> stored_again_;  ///< the first store through a descriptor to what its tile has written
  std::vector<const Instruction*> unguarded_read_;
  std::vector<const Instruction*> read_past_indices_;
  std::vector<const Instruction*> read_by_data_;  ///< the first load of each tensor whose address depends on data

  std::vector<std::int64_t> index_;  ///< of the current tile
  bool in_tile_ = false;
  std::size_t tiles_before_ = 0;  ///< tiles of earlier programs
  RecordedAccesses shared_, next_, current_;
  std::vector<std::vector<std::int64_t>> indices_;
  std::vector<RecordedAccesses> tiles_;
  std::vector<std::vector<LoopFootprint>> tile_loops_;
};

}  // namespace syncopate
