#include "syncopate/kernel/footprint_domain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

#include "syncopate/kernel/guarded_reads.h"

namespace syncopate {
namespace {

std::size_t at_index(std::int64_t index) { return static_cast<std::size_t>(index); }

RecordedAccesses empty_accesses(std::size_t tensors) {
  return {std::vector<std::vector<Region>>(tensors), std::vector<std::vector<Region>>(tensors)};
}

Dtype integer_dtype(std::int64_t value) {
  return value >= INT32_MIN && value <= INT32_MAX ? Dtype::int32 : Dtype::int64;
}

}  // namespace

FootprintDomain::FootprintDomain(std::shared_ptr<const Program> program, std::vector<TensorLayout> tensors,
                                 bool persistent, std::vector<std::string> zeros, std::vector<LoweredLoop> loops)
    : program_(std::move(program)),
      zeros_(std::move(zeros)),
      tensors_(std::move(tensors)),
      guarded_(guarded_reads(*program_, loops)),
      loops_(std::move(loops)),
      first_write_(tensors_.size()),
      first_read_(tensors_.size()),
      first_atomic_(tensors_.size()),
      stored_again_(tensors_.size()),
      unguarded_read_(tensors_.size()),
      read_past_indices_(tensors_.size()),
      read_by_data_(tensors_.size()),
      shared_(empty_accesses(tensors_.size())),
      next_(shared_),
      current_(shared_) {
  const std::vector<Instruction>& code = program_->instructions;
  for (const Instruction& instruction : code)
    if (instruction.opcode == Opcode::probe) probe_ = &instruction;
  check_internal(probe_ != nullptr, "the kernel's index variables are not probed");
  if (!persistent) return;
  // The tile loop is the widest loop around the probe: a jump from behind the probe to before it.
  for (const Instruction& instruction : code) {
    const bool jumps = instruction.opcode == Opcode::jump || instruction.opcode == Opcode::branch_false;
    const Instruction* const target = code.data() + instruction.target;
    if (!jumps || &instruction < probe_ || target > probe_) continue;
    if (loop_begin_ == nullptr || target < loop_begin_) loop_begin_ = target;
    loop_end_ = &instruction;
  }
  check_internal(loop_begin_ != nullptr, "the tile loop of a persistent kernel is not found");
}

void FootprintDomain::begin_program(const GridPosition& position, const GridPosition& counts) {
  position_ = position;
  counts_ = counts;
  descriptors_.clear();
  tiles_before_ = tiles_.size();
}

std::string FootprintDomain::tile_name(std::size_t tile) const {
  return fmt::format("tile ({})", fmt::join(indices_[tile], ", "));
}

FootprintValue FootprintDomain::constant(const Constant& constant) const {
  Value value;
  if (const auto* integer = std::get_if<std::int64_t>(&constant))
    return scalar_value(*integer, integer_dtype(*integer), true);
  if (const auto* number = std::get_if<double>(&constant)) return floating_value(*number);
  if (const auto* truth = std::get_if<bool>(&constant)) return boolean_value(*truth);
  if (const auto* dtype = std::get_if<Dtype>(&constant)) {
    value.kind = ValueKind::dtype;
    value.dtype = *dtype;
  }
  if (const auto* string = std::get_if<StringConstant>(&constant)) {
    value.kind = ValueKind::string;
    value.descriptor = string->index;
  }
  return value;
}

bool FootprintDomain::truth(const Value& value, const Instruction& instruction) const {
  if (value.kind == ValueKind::string) return !program_->strings[at_index(value.descriptor)].empty();
  if (const auto known = known_truth(value)) return *known;
  if (value.kind == ValueKind::opaque && value.scalar())
    fail(instruction, "this branch " + because(value),
         "branch on tile indices and arguments, or let data decide an `if` or a conditional expression");
  fail(instruction, "this condition is a block, not a scalar", "use tl.where, or a mask");
}

FootprintValue FootprintDomain::range_begin(const Value& start, const Value& end, const Value& step,
                                            const Instruction& instruction, Value* registers) {
  for (const Value* bound : {&start, &end, &step}) known_integer(*bound, "a loop's bound", instruction);
  if (step.form.base == 0) fail(instruction, "the step of this loop is 0", "give a step that is not 0");
  Value counter = start;
  // A loop counter is a run-time integer, whatever its first value was.
  for (const Value* bound : {&end, &step})
    if (bound->dtype == Dtype::int64) counter.dtype = Dtype::int64;
  counter.python = instruction.operation == 1 && start.python;
  if (const int loop = loops_.loop_at(instruction); loop >= 0)
    enter_loop(loop, counter, end, step, instruction, registers);
  return counter;
}

/// Iterations of a streamed loop run in any order, so nothing is known of what they leave for each other. That also
/// makes it right to begin with a later one.
void FootprintDomain::enter_loop(int number, Value& counter, const Value& end, const Value& step,
                                 const Instruction& instruction, Value* registers) {
  check_decided("streams", instruction);
  if (step.form.base < 0)
    fail(instruction, "this streamed loop counts down", "count up, or remove its annotation 'streamed_loop'");
  const LoweredLoop& loop = loops_.loop(number);
  for (const Register carried : loop.carried) {
    Value& value = registers[carried];
    value = opaque_value(value.shape(), value.dtype, OpaqueReason::arithmetic, instruction);
  }
  LoopRecorder::Key key{counter.form.base, step.form.base, static_cast<std::int64_t>(counter.dtype)};
  for (const Register input : loop.inputs) {
    const Value& value = registers[input];
    append_key(value, key);
    if (value.kind != ValueKind::descriptor && value.kind != ValueKind::block_pointer) continue;
    const Descriptor& about = descriptors_[at_index(value.descriptor)];
    key.insert(key.end(), {about.parameter, about.whole ? 1 : 0, about.rank, about.base});
    for (const auto* list : {&about.shape, &about.stride, &about.block})
      key.insert(key.end(), list->begin(), list->begin() + about.rank);
  }
  const std::int64_t length = std::max<std::int64_t>(end.form.base - counter.form.base, 0);
  const std::int64_t iterations = (length + step.form.base - 1) / step.form.base;
  counter.form.base += step.form.base * loops_.enter(number, iterations, std::move(key));
}

bool FootprintDomain::range_continues(const Value& counter, const Value& end, const Value& step,
                                      const Instruction& instruction) {
  const bool continues = step.form.base > 0 ? counter.form.base < end.form.base : counter.form.base > end.form.base;
  const bool streamed = loops_.loop_at(instruction) >= 0;
  if (streamed && continues) loops_.begin_iteration();
  if (streamed && !continues) loops_.leave();
  return continues;
}

FootprintValue FootprintDomain::range_next(const Value& counter, const Value& step,
                                           const Instruction& /*instruction*/) const {
  // A value beyond int32 ends the loop; the kernel never sees it.
  return scalar_value(counter.form.base + step.form.base, counter.dtype, counter.python);
}

void FootprintDomain::probe(const Instruction& instruction, const Value* registers) {
  check_decided("is a tile", instruction);
  finish_tile();
  if (tiles_.size() >= kMostTiles)
    fail(instruction, fmt::format("the launch has more than {} tiles", kMostTiles),
         "plans hold at most that many: use larger tiles or smaller sizes");
  index_.clear();
  const auto operands = program_->operands_of(instruction);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Value& value = registers[operands[i]];
    if (!value.is_scalar(ValueKind::integer)) {
      const std::string& name = program_->index_variables[i];
      const bool opaque = value.kind == ValueKind::opaque;
      fail(instruction, fmt::format("the tile index {} {}", name, opaque ? because(value) : "is not a scalar integer"),
           "tile indices must follow from the program id and the arguments");
    }
    index_.push_back(value.form.base);
  }
  in_tile_ = true;
  current_ = std::move(next_);
  next_ = empty_accesses(tensors_.size());
}

bool FootprintDomain::wait(const Instruction& instruction, Value* registers) const {
  if (instruction.result != kNoRegister) registers[instruction.result] = scalar_value(0, Dtype::int32);
  return true;
}

void FootprintDomain::execute(const Instruction& instruction, Value* registers) {
  const Operands operands = program_->operands_of(instruction);
  switch (instruction.opcode) {
    case Opcode::store:
      return store(instruction, operands, registers);
    case Opcode::assertion:  // CPU ranks check it, with the values of the data
      return;
    case Opcode::descriptor_store:
      access_descriptor(Direction::write, registers[operands[0]], operands.subspan(2), registers, instruction);
      return;
    case Opcode::check:
      return check(instruction, operands, registers);
    case Opcode::refuse:
      fail(instruction, program_->strings[at_index(registers[operands[0]].descriptor)],
           program_->strings[at_index(registers[operands[1]].descriptor)]);
    case Opcode::split: {
      const Value& whole = registers[operands[0]];
      LaneShape half = whole.shape();
      --half.rank;
      const bool opaque = whole.kind == ValueKind::opaque;
      const Value part = opaque_value(half, whole.dtype, opaque ? whole.reason : OpaqueReason::arithmetic,
                                      opaque ? *whole.origin : instruction);
      registers[instruction.result] = part;
      registers[instruction.second_result] = part;
      return;
    }
    default:
      break;
  }
  if (instruction.result == kNoRegister) {
    evaluate(instruction, registers);
  } else if (std::find(operands.begin(), operands.end(), instruction.result) != operands.end()) {
    const Value result = evaluate(instruction, registers);
    registers[instruction.result] = result;
  } else {
    // Built in its register: copying a value that was just written, in other widths, would stall on every instruction.
    static_assert(std::is_trivially_destructible_v<Value>);
    ::new (static_cast<void*>(registers + instruction.result)) Value(evaluate(instruction, registers));
  }
}

FootprintValue FootprintDomain::evaluate(const Instruction& instruction, const Value* registers) {
  const Operands operands = program_->operands_of(instruction);
  const auto operand = [&](std::size_t i) -> const Value& { return registers[operands[i]]; };
  switch (instruction.opcode) {
    case Opcode::program_id:
    case Opcode::num_programs:
      return grid_value(instruction, operands, registers);
    case Opcode::unary:
      return apply_unary(operand(0), instruction);
    case Opcode::binary:
      return apply_binary(operand(0), operand(1), instruction);
    case Opcode::compare:
      return apply_compare(operand(0), operand(1), instruction);
    case Opcode::where:
      return apply_where(operand(0), operand(1), operand(2), instruction);
    case Opcode::fma: {
      Instruction part = instruction;
      part.operation = static_cast<std::uint8_t>(BinaryOperation::multiply);
      const Value product = apply_binary(operand(0), operand(1), part);
      part.operation = static_cast<std::uint8_t>(BinaryOperation::add);
      Value sum = apply_binary(product, operand(2), part);
      if (sum.kind == ValueKind::opaque && sum.origin == &part) sum.origin = &instruction;
      return sum;
    }
    case Opcode::cast:
      return apply_cast(operand(0), dtype_operand(operand(1), instruction), instruction);
    case Opcode::bitcast: {
      const Dtype dtype = dtype_operand(operand(1), instruction);
      return computed(operand(0), operand(0).shape(), dtype, instruction);
    }
    case Opcode::dtype_of: {
      Value dtype;
      dtype.kind = ValueKind::dtype;
      dtype.dtype = operand(0).dtype;
      return dtype;
    }
    case Opcode::bits_of:
      return scalar_value(8 * size_in_bytes(dtype_operand(registers[operands[0]], instruction)), Dtype::int32, true);
    case Opcode::extent:
      return extent(instruction, operands, registers);
    case Opcode::arange: {
      const std::int64_t begin = known_integer(operand(0), "the start of tl.arange", instruction);
      const std::int64_t end = known_integer(operand(1), "the end of tl.arange", instruction);
      if (end <= begin)
        fail(instruction, fmt::format("tl.arange({}, {}) is empty", begin, end), "the end must be above the start");
      if (begin < INT32_MIN || end > INT32_MAX)
        fail(instruction, fmt::format("tl.arange({}, {}) holds numbers that do not fit in 32 bits", begin, end),
             fmt::format("Triton's blocks have at most {} elements", kMostBlockElements));
      check_block_size(end - begin, "tl.arange", instruction);
      return integer_value(IndexForm::arange(begin, end), Dtype::int32);
    }
    case Opcode::full: {
      const LaneShape shape = shape_operand(operands.subspan(2), registers, instruction);
      return full(operand(0), dtype_operand(operand(1), instruction), shape, instruction);
    }
    case Opcode::full_like:
      return full(operand(0), operand(1).dtype, operand(1).shape(), instruction);
    case Opcode::reshape: {
      LaneShape shape = shape_operand(operands.subspan(1), registers, instruction);
      if (operands.size() == 1) {  // all in one dimension
        shape.rank = 1;
        shape[0] = 1;
        for (int d = 0; d < operand(0).shape().rank; ++d) shape[0] *= operand(0).shape()[d];
      }
      return reshaped(operand(0), shape, instruction);
    }
    case Opcode::broadcast_to:
      return broadcast_value(operand(0), shape_operand(operands.subspan(1), registers, instruction), instruction);
    case Opcode::permute:
      return permuted(instruction, operands, registers);
    case Opcode::expand_dims:
      return with_new_dimension(operand(0), operand(1), instruction);
    case Opcode::join: {
      LaneShape shape = broadcast(operand(0).shape(), operand(1).shape()).value_or(operand(0).shape());
      if (shape.rank == kMaxLaneDimensions) fail(instruction, "a block of more than 5 dimensions", "use fewer");
      shape[shape.rank++] = 2;
      if (instruction.operation != 0) {  // in turn, along the last dimension
        --shape.rank;
        shape[shape.rank - 1] *= 2;
      }
      return computed(operand(0).kind == ValueKind::opaque ? operand(0) : operand(1), shape, operand(0).dtype,
                      instruction);
    }
    case Opcode::dot:
      return dot(instruction, operands, registers);
    case Opcode::reduce:
      return reduce(instruction, operands, registers);
    case Opcode::index_of:
      return index_of(instruction, operands, registers);
    case Opcode::scan:
    case Opcode::sort:
    case Opcode::flip:
    case Opcode::put:
      return computed(operand(0), operand(0).shape(), operand(0).dtype, instruction);
    case Opcode::gather:
      return computed(operand(0), operand(1).shape(), operand(0).dtype, instruction);
    case Opcode::take:
      return computed(operand(0), reduced_shape(instruction, operands, registers), operand(0).dtype, instruction);
    case Opcode::load:
    case Opcode::descriptor_load:
      return load(instruction, operands, registers);
    case Opcode::atomic:
      return atomic(instruction, operands, registers);
    case Opcode::make_block_pointer:
      return make_block_pointer(instruction, operands, registers);
    case Opcode::advance:
      return advance(instruction, operands, registers);
    case Opcode::make_descriptor:
      return make_descriptor(instruction, operands, registers);
    default:
      break;
  }
  throw InternalError("an instruction that the analysis of footprints does not know");
}

FootprintValue FootprintDomain::grid_value(const Instruction& instruction, Operands operands, const Value* registers) {
  const std::int64_t axis = known_integer(registers[operands[0]], "the axis of the grid", instruction);
  if (axis < 0 || axis >= kGridAxes) fail(instruction, fmt::format("grid axis {}", axis), "axes are 0, 1 and 2");
  if (instruction.opcode == Opcode::program_id) {
    last_axis_ = std::max(last_axis_, static_cast<int>(axis));
    return scalar_value(position_[at_index(axis)], Dtype::int32);
  }
  if (counts_[at_index(axis)] == 0)
    fail(instruction, "the number of programs is not known here", "say how many programs the launch has (grid)");
  return scalar_value(counts_[at_index(axis)], Dtype::int32);
}

FootprintValue FootprintDomain::extent(const Instruction& instruction, Operands operands,
                                       const Value* registers) const {
  const Value& value = registers[operands[0]];
  std::int64_t dimension = known_integer(registers[operands[1]], "a dimension", instruction);
  const bool is_descriptor = value.kind == ValueKind::descriptor;
  const int rank = is_descriptor ? descriptors_[at_index(value.descriptor)].rank : value.shape().rank;
  if (dimension < 0) dimension += rank;
  if (dimension < 0 || dimension >= rank) fail(instruction, "there is no such dimension", "");
  const auto kind = static_cast<Extent>(instruction.operation);
  if (!is_descriptor) {
    if (kind == Extent::stride) fail(instruction, "a block has no strides", "descriptors have");
    return scalar_value(value.shape()[static_cast<int>(dimension)], Dtype::int32, true);
  }
  const Descriptor& descriptor = descriptors_[at_index(value.descriptor)];
  if (kind == Extent::block_shape) return scalar_value(descriptor.block[at_index(dimension)], Dtype::int32, true);
  if (kind == Extent::stride) return scalar_value(descriptor.stride[at_index(dimension)], Dtype::int64);
  const std::int64_t size = descriptor.shape[at_index(dimension)];
  return scalar_value(size, integer_dtype(size));
}

std::int64_t FootprintDomain::known_integer(const Value& value, const char* what,
                                            const Instruction& instruction) const {
  if (value.is_scalar(ValueKind::integer)) return value.form.base;
  if (value.is_scalar(ValueKind::boolean)) return value.mask.empty() ? 0 : 1;
  if (value.kind == ValueKind::opaque)
    fail(instruction, fmt::format("{} {}", what, because(value)),
         "which elements a tile touches must follow from its indices and the arguments");
  fail(instruction, fmt::format("{} is not a scalar integer", what), "");
}

LaneShape FootprintDomain::shape_operand(Operands operands, const Value* registers,
                                         const Instruction& instruction) const {
  if (operands.size() > kMaxLaneDimensions) fail(instruction, "a block of more than 5 dimensions", "use fewer");
  LaneShape shape;
  for (const Register operand : operands) {
    const std::int64_t extent = known_integer(registers[operand], "the shape of a block", instruction);
    if (extent < 1 || extent > kMostBlockElements)
      fail(instruction, fmt::format("a block with an extent of {}", extent),
           fmt::format("extents are at least 1, and Triton's blocks have at most {} elements", kMostBlockElements));
    shape[shape.rank++] = static_cast<std::int32_t>(extent);
  }
  return shape;
}

Dtype FootprintDomain::dtype_operand(const Value& value, const Instruction& instruction) const {
  if (value.kind != ValueKind::dtype) fail(instruction, "this is not an element type", "for example tl.float32");
  return value.dtype;
}

}  // namespace syncopate
