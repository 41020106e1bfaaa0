#include "syncopate/kernel/concrete_domain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "syncopate/core/error.h"
#include "syncopate/kernel/triton_limits.h"
#include "syncopate/kernel/value_operations.h"

namespace syncopate::concrete {
namespace {

/// The elements of a block with another dimension.
std::int64_t counted(std::int64_t elements, std::int64_t extent) {
  if (extent <= 0) throw OperationError{fmt::format("a block with an extent of {}", extent), "extents are positive"};
  if (extent > kMostBlockElements / elements)
    throw OperationError{fmt::format("a block of {} x {} elements", elements, extent),
                         fmt::format("Triton's blocks have at most {}", kMostBlockElements)};
  return elements * extent;
}

/// Extents given by the operands from `first` on.
Extents extents_of(std::span<const Register> operands, std::size_t first, const Value* registers) {
  Extents extents;
  std::int64_t elements = 1;
  if (operands.size() - first > kMaxRank)
    throw OperationError{fmt::format("a block of {} dimensions", operands.size() - first),
                         fmt::format("at most {} are supported", kMaxRank)};
  for (std::size_t i = first; i < operands.size(); ++i) {
    const std::int64_t extent = expect_integer(registers[operands[i]], "an extent of a block");
    elements = counted(elements, extent);
    extents[extents.rank++] = extent;
  }
  return extents;
}

bool scalar_truth(const Value& value) { return value.kind == Kind::floating ? value.number != 0 : value.integer != 0; }

/// All elements of a block in one dimension.
Extents flat(const Value& block) {
  Extents extents;
  extents.rank = 1;
  extents[0] = block.extents.count();
  return extents;
}

/// The elements of two blocks in turn, along the last dimension.
Value interleave(const Value& left, const Value& right) {
  const Value pairs = join(left, right);
  Extents extents = pairs.extents;
  --extents.rank;
  extents[extents.rank - 1] *= 2;
  return reshape(pairs, extents);
}

/// What an access may say only through a block pointer: padding and the dimensions to check.
void refuse_bounds(std::span<const Register> operands, std::string_view what) {
  if (std::all_of(operands.begin(), operands.end(), [](Register each) { return each == kNoRegister; })) return;
  throw OperationError{fmt::format("{} with boundary_check or padding_option, but without a block pointer", what),
                       "give a mask"};
}

/// "min" of `range`: the loop counter's dtype is that of its bounds, int32 for Python numbers.
Value typed_counter(const Value& start, const Value& end, const Value& step) {
  Dtype dtype = Dtype::int32;
  for (const Value* bound : {&start, &end, &step}) {
    const bool wide = bound->weak ? wrap(bound->integer, Dtype::int32) != bound->integer
                                  : bound->dtype == Dtype::int64 || bound->dtype == Dtype::uint64;
    if (wide) dtype = Dtype::int64;
  }
  return integer_value(start.integer, dtype);
}

}  // namespace

ConcreteDomain::ConcreteDomain(std::shared_ptr<const Program> program, std::vector<std::int64_t> program_ids,
                               std::vector<std::int64_t> program_counts, Environment& environment)
    : program_(std::move(program)),
      program_ids_(std::move(program_ids)),
      program_counts_(std::move(program_counts)),
      environment_(&environment) {}

void ConcreteDomain::fail(const Instruction& instruction, const OperationError& error) const {
  throw UserError(program_->locate(instruction), error.problem, error.remedy);
}

Value ConcreteDomain::constant(const Constant& constant) const {
  if (const auto* integer = std::get_if<std::int64_t>(&constant)) return weak_integer(*integer);
  if (const auto* number = std::get_if<double>(&constant)) return weak_number(*number);
  if (const auto* boolean = std::get_if<bool>(&constant)) return boolean_value(*boolean);
  if (const auto* dtype = std::get_if<Dtype>(&constant)) return dtype_value(*dtype);
  if (const auto* text = std::get_if<StringConstant>(&constant)) {
    Value result;
    result.kind = Kind::string;
    result.buffer = text->index;
    return result;
  }
  return none_value();
}

bool ConcreteDomain::truth(const Value& value, const Instruction& instruction) const {
  if (value.kind == Kind::none) return false;
  if (value.kind == Kind::string) return !program_->strings[static_cast<std::size_t>(value.buffer)].empty();
  if (!value.is_number() || value.is_block())
    fail(instruction, {fmt::format("a branch on {}", describe(value)), "branch on a scalar"});
  return scalar_truth(value);
}

bool ConcreteDomain::decides(const Value& value, bool truth) const {
  if (value.kind == Kind::none) return !truth;
  return value.is_number() && !value.is_block() && scalar_truth(value) == truth;
}

Value ConcreteDomain::range_begin(const Value& start, const Value& end, const Value& step,
                                  const Instruction& instruction, Value* /*registers*/) {
  try {
    expect_integer(start, "the start of a range");
    expect_integer(end, "the end of a range");
    if (expect_integer(step, "the step of a range") == 0) throw OperationError{"a range with a step of 0", ""};
  } catch (const OperationError& error) {
    fail(instruction, error);
  }
  if (instruction.operation != 0 && start.weak) return start;  // a static_range counts in Python integers
  Value counter = typed_counter(start, end, step);
  if (const int loop = streamed_loop(instruction); loop >= 0) {
    begin_walk(loop, start, end, step, instruction);
    if (!walk_.empty()) counter.integer += walk_.back().begin * step.integer;
  }
  return counter;
}

int ConcreteDomain::streamed_loop(const Instruction& instruction) const {
  if (reordering_.loops == nullptr) return -1;
  const std::vector<LoweredLoop>& loops = *reordering_.loops;
  for (std::size_t i = 0; i < loops.size(); ++i)
    if (&instruction == loops[i].begin || &instruction == loops[i].test || &instruction == loops[i].next)
      return static_cast<int>(i);
  return -1;
}

void ConcreteDomain::begin_walk(int loop, const Value& start, const Value& end, const Value& step,
                                const Instruction& instruction) {
  first_value_ = start.integer;
  walk_ = (*reordering_.order)(tile_, loop);
  std::erase_if(walk_, [](const Range& range) { return range.empty(); });
  std::vector<Range> sorted = walk_;
  std::sort(sorted.begin(), sorted.end());
  std::int64_t at = 0;
  for (const Range& range : sorted) at = range.begin == at ? range.end : -1;
  const std::int64_t length = std::max<std::int64_t>(end.integer - start.integer, 0);
  if (step.integer < 0 || at != (length + step.integer - 1) / step.integer)
    fail(instruction, {"a plan's pieces are not the iterations of this streamed loop", "compile the operator again"});
  std::reverse(walk_.begin(), walk_.end());
}

void ConcreteDomain::probe(const Instruction& instruction, const Value* registers) {
  if (reordering_.loops == nullptr) return;
  tile_.clear();
  for (const Register index : program_->operands_of(instruction)) tile_.push_back(registers[index].integer);
}

bool ConcreteDomain::range_continues(const Value& counter, const Value& end, const Value& step,
                                     const Instruction& instruction) const {
  if (streamed_loop(instruction) >= 0) return !walk_.empty();
  return step.integer > 0 ? counter.integer < end.integer : counter.integer > end.integer;
}

Value ConcreteDomain::range_next(const Value& counter, const Value& step, const Instruction& instruction) {
  // Not wrapped: a range that ends near the greatest int32 must still end.
  Value next = counter;
  if (streamed_loop(instruction) >= 0) {
    if (++walk_.back().begin == walk_.back().end) walk_.pop_back();
    if (!walk_.empty()) next.integer = first_value_ + walk_.back().begin * step.integer;
    return next;
  }
  next.integer += step.integer;
  return next;
}

bool ConcreteDomain::wait(const Instruction& instruction, Value* registers) {
  const auto operands = program_->operands_of(instruction);
  try {
    const Value& flags = registers[operands[0]];
    if (flags.kind != Kind::pointer || flags.is_block())
      throw OperationError{fmt::format("a wait on {}", describe(flags)), "give a pointer"};
    WaitRequest request;
    request.flags_buffer = flags.buffer;
    request.slot = flags.integer + expect_integer(registers[operands[1]], "the slot of a wait");
    request.expected = expect_integer(registers[operands[2]], "the expected value of a wait");
    request.tile = expect_integer(registers[operands[3]], "the tile of a wait");
    request.where = program_->locate(instruction);
    if (!environment_->wait(request)) {
      blocked_on_ = std::move(request);
      return false;
    }
  } catch (const OperationError& error) {
    fail(instruction, error);
  }
  blocked_on_.reset();
  registers[instruction.result] = integer_value(0, Dtype::int32);
  return true;
}

void ConcreteDomain::execute(const Instruction& instruction, Value* registers) {
  try {
    execute_unchecked(instruction, registers);
  } catch (const OperationError& error) {
    fail(instruction, error);
  }
}

void ConcreteDomain::execute_unchecked(const Instruction& instruction, Value* registers) {
  const auto operands = program_->operands_of(instruction);
  const auto operand = [&](std::size_t index) -> const Value& { return registers[operands[index]]; };
  const auto optional = [&](std::size_t index) -> const Value* {
    return index < operands.size() && operands[index] != kNoRegister ? &registers[operands[index]] : nullptr;
  };
  const auto set = [&](Value value) { registers[instruction.result] = std::move(value); };
  switch (instruction.opcode) {
    case Opcode::program_id:
      return set(integer_value(grid(instruction, registers, program_ids_, 0), Dtype::int32));
    case Opcode::num_programs:
      return set(integer_value(grid(instruction, registers, program_counts_, 1), Dtype::int32));
    case Opcode::unary:
      return set(unary(static_cast<UnaryOperation>(instruction.operation), operand(0)));
    case Opcode::binary:
      return set(binary(static_cast<BinaryOperation>(instruction.operation), operand(0), operand(1)));
    case Opcode::compare:
      return set(compare(static_cast<CompareOperation>(instruction.operation), operand(0), operand(1)));
    case Opcode::where:
      return set(where(operand(0), operand(1), operand(2)));
    case Opcode::fma:
      return set(fma(operand(0), operand(1), operand(2)));
    case Opcode::cast:
      return set(cast(operand(0), expect_dtype(operand(1), "the target of a conversion")));
    case Opcode::bitcast:
      return set(bitcast(operand(0), expect_dtype(operand(1), "the target of a conversion")));
    case Opcode::check:
      return check_static(instruction, registers);
    case Opcode::refuse:
      throw OperationError{std::string(text_of(operand(0), "a problem")), std::string(text_of(operand(1), "a remedy"))};
    case Opcode::dtype_of:
      if (operand(0).kind == Kind::block_pointer) return set(dtype_value(operand(0).dtype));
      if (operand(0).kind == Kind::descriptor) return set(dtype_value(operand(0).descriptor->dtype));
      if (!operand(0).is_number() && operand(0).kind != Kind::pointer)
        throw OperationError{fmt::format("the dtype of {}", describe(operand(0))), ""};
      return set(dtype_value(operand(0).dtype));
    case Opcode::bits_of:
      return set(weak_integer(8 * size_in_bytes(expect_dtype(operand(0), "what has a bit width"))));
    case Opcode::extent:
      return set(extent_of(instruction, registers));
    case Opcode::elements:
      return set(elements_of(operand(0), operand(1)));
    case Opcode::elsewhere:
      return set(elsewhere_of(operand(0), operand(1), operand(2)));
    case Opcode::arange:
      return set(arange(expect_integer(operand(0), "the start of tl.arange"),
                        expect_integer(operand(1), "the end of tl.arange")));
    case Opcode::full:
      return set(
          full(operand(0), expect_dtype(operand(1), "the dtype of a new block"), extents_of(operands, 2, registers)));
    case Opcode::full_like:
      return set(full(operand(0), operand(1).dtype, operand(1).extents));
    case Opcode::reshape:
      return set(reshape(operand(0), operands.size() == 1 ? flat(operand(0)) : extents_of(operands, 1, registers)));
    case Opcode::broadcast_to:
      return set(broadcast_to(operand(0), extents_of(operands, 1, registers)));
    case Opcode::permute:
      return set(permute_of(instruction, registers));
    case Opcode::expand_dims:
      return set(expand_dims(operand(0), expect_integer(operand(1), "a dimension")));
    case Opcode::join:
      return set(instruction.operation == 0 ? join(operand(0), operand(1)) : interleave(operand(0), operand(1)));
    case Opcode::split: {
      auto [left, right] = split(operand(0));
      registers[instruction.result] = std::move(left);
      registers[instruction.second_result] = std::move(right);
      return;
    }
    case Opcode::dot:
      return set(dot_of(instruction, registers));
    case Opcode::reduce:
      return set(reduce_of(instruction, registers));
    case Opcode::index_of:
      return set(index_of_extreme(instruction, registers));
    case Opcode::scan:
      return set(scan(static_cast<ScanOperation>(instruction.operation), operand(0),
                      axis_of(operand(1), operand(0), "a scan"), scalar_truth(operand(2))));
    case Opcode::sort:
      return set(sort(operand(0), scalar_truth(operand(1))));
    case Opcode::flip:
      return set(flip(operand(0), axis_of(operand(1), operand(0), "tl.flip")));
    case Opcode::gather:
      return set(gather_along(operand(0), operand(1), axis_of(operand(2), operand(0), "tl.gather")));
    case Opcode::take:
      return set(take(operand(0), axis_of(operand(1), operand(0), "a reduction"), operand(2).integer));
    case Opcode::put: {
      const int axis = axis_of(operand(1), operand(0), "a scan");
      // `x = put(x, ...)` writes in place: the register gives the elements up, it is written next anyway.
      const bool in_place = operands[0] == instruction.result;
      Value whole = in_place ? std::move(registers[operands[0]]) : operand(0);
      return set(put(std::move(whole), axis, operand(2).integer, operand(3)));
    }
    case Opcode::load:
      if (operand(0).kind == Kind::block_pointer) return set(load_block(instruction, registers));
      refuse_bounds(operands.subspan(3), "tl.load");
      return set(load(instruction, operand(0), optional(1), optional(2)));
    case Opcode::store:
      if (operand(0).kind == Kind::block_pointer) return store_block(instruction, registers);
      refuse_bounds(operands.subspan(3), "tl.store");
      return store(instruction, operand(0), operand(1), optional(2));
    case Opcode::atomic:
      return set(atomic(instruction, operand(0), operand(1), optional(2)));
    case Opcode::make_block_pointer:
      return set(block_pointer_of(instruction, registers));
    case Opcode::advance:
      return set(advanced(instruction, registers));
    case Opcode::make_descriptor:
      return set(descriptor_of(instruction, registers));
    case Opcode::descriptor_load:
      return set(descriptor_load(instruction, registers));
    case Opcode::descriptor_store:
    case Opcode::descriptor_add:
      return descriptor_store(instruction, registers);
    case Opcode::raise:
      return raise(instruction, registers);
    case Opcode::assertion:
      return check(instruction, registers);
    case Opcode::copy:
    case Opcode::jump:
    case Opcode::branch_false:
    case Opcode::branch_decided:
    case Opcode::range_begin:
    case Opcode::range_test:
    case Opcode::range_next:
    case Opcode::probe:
    case Opcode::wait:
    case Opcode::end:
      break;
  }
  throw InternalError("a control instruction reached the value domain");
}

std::int64_t ConcreteDomain::grid(const Instruction& instruction, const Value* registers,
                                  const std::vector<std::int64_t>& values, std::int64_t missing) const {
  const std::int64_t axis = expect_integer(registers[program_->operands_of(instruction)[0]], "the axis of the grid");
  if (axis < 0 || axis > 2) throw OperationError{fmt::format("axis {} of the grid", axis), "axes are 0, 1 and 2"};
  return std::cmp_less(axis, values.size()) ? values[static_cast<std::size_t>(axis)] : missing;
}

Value ConcreteDomain::dot_of(const Instruction& instruction, Value* registers) const {
  const auto operands = program_->operands_of(instruction);
  Dtype out = Dtype::fp32;
  if (operands[3] != kNoRegister) out = expect_dtype(registers[operands[3]], "out_dtype");
  Value accumulator;
  if (operands[2] != kNoRegister) {
    // `acc = tl.dot(a, b, acc)` adds in place: its register gives the elements up, it is written next anyway.
    const bool in_place =
        operands[2] == instruction.result && operands[0] != instruction.result && operands[1] != instruction.result;
    accumulator = in_place ? std::move(registers[operands[2]]) : registers[operands[2]];
  }
  return dot(registers[operands[0]], registers[operands[1]], std::move(accumulator), out);
}

Value ConcreteDomain::reduce_of(const Instruction& instruction, const Value* registers) const {
  const auto operands = program_->operands_of(instruction);
  const Value& value = registers[operands[0]];
  const auto operation = static_cast<ReduceOperation>(instruction.operation);
  if (operands[1] == kNoRegister) return reduce(operation, reshape(value, flat(value)), 0);
  return reduce(operation, value, axis_of(registers[operands[1]], value, "a reduction"));
}

Value ConcreteDomain::index_of_extreme(const Instruction& instruction, const Value* registers) const {
  const auto operands = program_->operands_of(instruction);
  const Value& value = registers[operands[0]];
  const auto operation = static_cast<ReduceOperation>(instruction.operation);
  if (operands[1] != kNoRegister) return index_of(operation, value, axis_of(registers[operands[1]], value, "a search"));
  return index_of(operation, reshape(value, flat(value)), 0);
}

int ConcreteDomain::axis_of(const Value& axis, const Value& block, std::string_view what) const {
  const std::int64_t number = expect_integer(axis, fmt::format("the axis of {}", what));
  const int rank = block.extents.rank;
  if (number < -rank || number >= rank)
    throw OperationError{fmt::format("{} of {} along dimension {}", what, describe(block), number), ""};
  return static_cast<int>(number < 0 ? number + rank : number);
}

void ConcreteDomain::check_static(const Instruction& instruction, const Value* registers) const {
  const auto operands = program_->operands_of(instruction);
  if (truth(registers[operands[0]], instruction)) return;
  throw OperationError{"this static assertion fails",
                       operands[1] == kNoRegister ? "" : std::string(text_of(registers[operands[1]], "its message"))};
}

std::string_view ConcreteDomain::text_of(const Value& value, std::string_view what) const {
  if (value.kind != Kind::string) throw OperationError{fmt::format("{} is {}", what, describe(value)), "give a string"};
  return program_->strings[static_cast<std::size_t>(value.buffer)];
}

Value ConcreteDomain::permute_of(const Instruction& instruction, const Value* registers) const {
  const auto operands = program_->operands_of(instruction);
  const Value& value = registers[operands[0]];
  std::vector<std::int64_t> order;
  for (std::size_t i = 1; i < operands.size(); ++i)
    order.push_back(expect_integer(registers[operands[i]], "a dimension"));
  if (order.empty()) {
    const int rank = value.extents.rank;
    if (rank < 2) throw OperationError{fmt::format("the transpose of {}", describe(value)), "it takes a matrix"};
    for (int d = 0; d < rank; ++d) order.push_back(d);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
  }
  return permute(value, order);
}

Value ConcreteDomain::extent_of(const Instruction& instruction, const Value* registers) const {
  const auto operands = program_->operands_of(instruction);
  const Value& value = registers[operands[0]];
  std::int64_t index = expect_integer(registers[operands[1]], "the subscript of a shape");
  const bool of_descriptor = value.kind == Kind::descriptor;
  const int rank = of_descriptor ? value.descriptor->rank : value.extents.rank;
  if (index < -rank || index >= rank)
    throw OperationError{fmt::format("dimension {} of {}", index, describe(value)),
                         fmt::format("it has {} dimensions", rank)};
  if (index < 0) index += rank;
  const auto kind = static_cast<Extent>(instruction.operation);
  if (!of_descriptor) {
    if (kind == Extent::stride) throw OperationError{fmt::format("the strides of {}", describe(value)), ""};
    return weak_integer(value.extents[static_cast<int>(index)]);
  }
  const auto dimension = static_cast<std::size_t>(index);
  if (kind == Extent::block_shape) return weak_integer(value.descriptor->block[dimension]);
  if (kind == Extent::stride) return integer_value(value.descriptor->strides[dimension], Dtype::int64);
  return integer_value(value.descriptor->shape[dimension], Dtype::int32);
}

Value ConcreteDomain::elements_of(const Value& pointers, const Value& base) const {
  if (pointers.kind != Kind::pointer || base.kind != Kind::pointer || base.is_block())
    throw OperationError{fmt::format("the distance of {} from {}", describe(pointers), describe(base)),
                         "give a pointer or a block of pointers, and a pointer"};
  if (pointers.buffer != base.buffer || pointers.dtype != base.dtype)
    throw OperationError{"the distance between pointers into different tensors", "both must point into one tensor"};
  Value elements = pointers;  // a block of pointers holds their offsets, in the form of a block of int64
  elements.kind = Kind::integer;
  elements.dtype = Dtype::int64;
  elements.buffer = 0;
  return binary(BinaryOperation::subtract, elements, integer_value(base.integer, Dtype::int64));
}

Value ConcreteDomain::elsewhere_of(const Value& pointers, const Value& base, const Value& other) const {
  const Value elements = elements_of(pointers, base);
  if (other.kind != Kind::pointer || other.is_block() || other.dtype != base.dtype)
    throw OperationError{fmt::format("{} in place of {}", describe(other), describe(base)),
                         "give pointers to tensors of one type"};
  return binary(BinaryOperation::add, other, elements);
}

void ConcreteDomain::raise(const Instruction& instruction, const Value* registers) {
  const auto operands = program_->operands_of(instruction);
  const Value& peers = registers[operands[0]];
  if (peers.kind != Kind::pointer || peers.is_block())
    throw OperationError{fmt::format("a raise through {}", describe(peers)), "give a pointer"};
  const std::int64_t home = peers.integer + expect_integer(registers[operands[1]], "the home of a raised flag");
  const std::int64_t slot = expect_integer(registers[operands[2]], "the slot of a raised flag");
  environment_->raise(peers.buffer, home, slot, program_->locate(instruction));
}

void ConcreteDomain::check(const Instruction& instruction, const Value* registers) const {
  const auto operands = program_->operands_of(instruction);
  Value condition = registers[operands[0]];
  if (condition.is_block()) {
    const Value numbers = cast(condition, Dtype::int32);
    condition = reduce(ReduceOperation::minimum, reshape(numbers, flat(numbers)), 0);
  }
  if (truth(condition, instruction)) return;
  const auto string = [&](Register value) -> const std::string& {
    return program_->strings[static_cast<std::size_t>(registers[value].buffer)];
  };
  std::string values;
  for (std::size_t i = 2; i + 1 < operands.size(); i += 2) {
    const Value& value = registers[operands[i + 1]];
    if (!value.is_number() || value.is_block()) continue;
    values += values.empty() ? ": " : ", ";
    values += value.kind == Kind::integer ? fmt::format("{} is {}", string(operands[i]), value.integer)
                                          : fmt::format("{} is {}", string(operands[i]), value.number);
  }
  const bool told = operands[1] != kNoRegister && registers[operands[1]].kind == Kind::string;
  environment_->deny((told ? string(operands[1]) : std::string("an assertion does not hold")) + values,
                     program_->locate(instruction));
}

Value ConcreteDomain::descriptor_of(const Instruction& instruction, const Value* registers) const {
  const auto operands = program_->operands_of(instruction);
  const Value& pointer = registers[operands[0]];
  if (pointer.kind != Kind::pointer || pointer.is_block())
    throw OperationError{fmt::format("a tensor descriptor of {}", describe(pointer)), "give a pointer"};
  Descriptor descriptor;
  descriptor.buffer = pointer.buffer;
  descriptor.dtype = pointer.dtype;
  descriptor.base = pointer.integer;
  const std::size_t rank = (operands.size() - 1) / 3;
  if (rank > kMaxRank)
    throw OperationError{fmt::format("a tensor descriptor of {} dimensions", rank),
                         fmt::format("at most {} are supported", kMaxRank)};
  descriptor.rank = static_cast<int>(rank);
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    descriptor.shape[d] = expect_integer(registers[operands[1 + d]], "the shape of a descriptor");
    descriptor.strides[d] = expect_integer(registers[operands[1 + rank + d]], "a stride of a descriptor");
    descriptor.block[d] = expect_integer(registers[operands[1 + 2 * rank + d]], "the block_shape of a descriptor");
    elements = counted(elements, descriptor.block[d]);
  }
  if (const auto refusal = refused_descriptor(descriptor.dtype, descriptor.base, {descriptor.strides.data(), rank},
                                              {descriptor.block.data(), rank}))
    throw OperationError{refusal->problem, refusal->remedy};
  Value result;
  result.kind = Kind::descriptor;
  result.dtype = pointer.dtype;
  result.descriptor = std::make_shared<const Descriptor>(descriptor);
  return result;
}

}  // namespace syncopate::concrete
