// The value domain of running kernels: what each instruction does to concrete values and to memory.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "syncopate/kernel/concrete.h"
#include "syncopate/kernel/machine.h"
#include "syncopate/kernel/streamed_loops.h"
#include "syncopate/kernel/value.h"

namespace syncopate::concrete {

/// Domain of Machine; see machine.h for what the functions promise.
class ConcreteDomain {
 public:
  using Value = concrete::Value;

  ConcreteDomain(std::shared_ptr<const Program> program, std::vector<std::int64_t> program_ids,
                 std::vector<std::int64_t> program_counts, Environment& environment);

  Value constant(const Constant& constant) const;
  bool truth(const Value& value, const Instruction& instruction) const;
  bool decides(const Value& value, bool truth) const;
  Value range_begin(const Value& start, const Value& end, const Value& step, const Instruction& instruction,
                    Value* registers);
  bool range_continues(const Value& counter, const Value& end, const Value& step, const Instruction& instruction) const;
  Value range_next(const Value& counter, const Value& step, const Instruction& instruction);
  void probe(const Instruction& instruction, const Value* registers);
  bool wait(const Instruction& instruction, Value* registers);
  void execute(const Instruction& instruction, Value* registers);

  const std::optional<WaitRequest>& blocked_on() const { return blocked_on_; }

  /// From now on these streamed loops are walked in the order that `order` says.
  struct Reordering {
    const std::vector<LoweredLoop>* loops = nullptr;
    const IterationOrder* order = nullptr;
  };
  void reorder(const Reordering& reordering) { reordering_ = reordering; }

 private:
  /// The streamed loop whose begin, test or next this is, or -1.
  int streamed_loop(const Instruction& instruction) const;
  void begin_walk(int loop, const Value& start, const Value& end, const Value& step, const Instruction& instruction);
  [[noreturn]] void fail(const Instruction& instruction, const OperationError& error) const;
  void execute_unchecked(const Instruction& instruction, Value* registers);
  Value dot_of(const Instruction& instruction, Value* registers) const;
  Value index_of_extreme(const Instruction& instruction, const Value* registers) const;
  Value reduce_of(const Instruction& instruction, const Value* registers) const;
  Value permute_of(const Instruction& instruction, const Value* registers) const;
  Value extent_of(const Instruction& instruction, const Value* registers) const;
  Value elements_of(const Value& pointers, const Value& base) const;
  Value elsewhere_of(const Value& pointers, const Value& base, const Value& other) const;
  void raise(const Instruction& instruction, const Value* registers);
  void check(const Instruction& instruction, const Value* registers) const;
  Value descriptor_of(const Instruction& instruction, const Value* registers) const;
  Value block_pointer_of(const Instruction& instruction, const Value* registers) const;
  Value advanced(const Instruction& instruction, const Value* registers) const;
  void check_static(const Instruction& instruction, const Value* registers) const;
  std::string_view text_of(const Value& value, std::string_view what) const;
  int axis_of(const Value& axis, const Value& block, std::string_view what) const;
  std::int64_t grid(const Instruction& instruction, const Value* registers, const std::vector<std::int64_t>& values,
                    std::int64_t missing) const;

  // Memory (concrete_memory.cpp).
  Value load(const Instruction& instruction, const Value& pointer, const Value* mask, const Value* other);
  void store(const Instruction& instruction, const Value& pointer, const Value& value, const Value* mask);
  Value atomic(const Instruction& instruction, const Value& pointer, const Value& value, const Value* mask);
  /// Where the lanes of a block pointer's block are, and which of them are inside the bounds that the access checks.
  struct BlockLanes {
    Value pointers;
    Value inside;
  };
  BlockLanes block_lanes(const Instruction& instruction, std::size_t first_dimension, const Value* registers) const;
  Value load_block(const Instruction& instruction, const Value* registers);
  void store_block(const Instruction& instruction, const Value* registers);
  Value descriptor_load(const Instruction& instruction, const Value* registers);
  /// Or adds.
  void descriptor_store(const Instruction& instruction, const Value* registers);
  std::span<std::byte> access(const Instruction& instruction, int buffer, Dtype dtype, AccessKind kind);
  void collect_runs(const Value& pointer, const Value* mask);

  std::shared_ptr<const Program> program_;
  std::vector<std::int64_t> program_ids_;
  std::vector<std::int64_t> program_counts_;
  Environment* environment_;
  std::optional<WaitRequest> blocked_on_;

  Reordering reordering_;
  std::vector<std::int64_t> tile_;  ///< where loops are reordered: the index variables
  std::vector<Range> walk_;       ///< of the streamed loop being walked: iterations still to come, the last range first
  std::int64_t first_value_ = 0;  ///< of its variable

  /// Consecutive lanes of a block whose elements are consecutive in memory.
  struct LaneRun {
    std::int64_t lane = 0;
    Run run;
  };
  std::vector<LaneRun> lane_runs_;  ///< of the access in progress, in lane order
  std::vector<Run> runs_;           ///< the same, ascending and joined
};

}  // namespace syncopate::concrete
