// The memory instructions of FootprintDomain: from values to boxes, and which tile they belong to.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "syncopate/kernel/footprint_domain.h"

namespace syncopate {
namespace {

std::size_t at_index(std::int64_t index) { return static_cast<std::size_t>(index); }

std::string listed(std::span<const std::int64_t> numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

const FootprintValue* optional_operand(std::span<const Register> operands, std::size_t i,
                                       const FootprintValue* registers) {
  if (i >= operands.size() || operands[i] == kNoRegister) return nullptr;
  const FootprintValue& value = registers[operands[i]];
  return value.kind == ValueKind::none ? nullptr : &value;
}

/// Whether loaded data decide which elements of a known tensor an access touches.
bool is_found_by_data(const FootprintValue& pointers, const FootprintValue* mask) {
  const auto by_data = [](const FootprintValue& value) {
    return value.kind == ValueKind::opaque && value.reason == OpaqueReason::data;
  };
  const bool known_tensor =
      pointers.kind == ValueKind::pointer || (pointers.kind == ValueKind::opaque && pointers.parameter >= 0);
  const bool masked_by_data = pointers.kind == ValueKind::pointer && mask != nullptr && by_data(*mask);
  return known_tensor && (by_data(pointers) || masked_by_data);
}

}  // namespace

LaneShape FootprintDomain::block_shape(const Descriptor& descriptor) {
  LaneShape shape;
  shape.rank = descriptor.rank;
  for (int d = 0; d < shape.rank; ++d) shape[d] = static_cast<std::int32_t>(descriptor.block[at_index(d)]);
  return shape;
}

FootprintValue FootprintDomain::load(const Instruction& instruction, Operands operands, const Value* registers) {
  const Value& source = registers[operands[0]];
  if (instruction.opcode == Opcode::descriptor_load) {
    const Descriptor& descriptor =
        access_descriptor(Direction::read, source, operands.subspan(1), registers, instruction);
    return opaque_value(block_shape(descriptor), source.dtype, OpaqueReason::data, instruction);
  }
  if (source.kind == ValueKind::block_pointer) {
    const Operands checked = operands.size() > 4 ? operands.subspan(4) : Operands{};
    return opaque_value(block_shape(access_block(Direction::read, source, checked, registers, instruction)),
                        source.dtype, OpaqueReason::data, instruction);
  }
  const Value* const mask = optional_operand(operands, 1, registers);
  access_pointers(Direction::read, source, mask, instruction);
  LaneShape shape = source.shape();
  if (mask != nullptr) shape = broadcast(shape, mask->shape()).value_or(shape);
  return opaque_value(shape, source.dtype, OpaqueReason::data, instruction);
}

FootprintValue FootprintDomain::atomic(const Instruction& instruction, Operands operands, const Value* registers) {
  const Value& source = registers[operands[0]];
  const Value* const mask = optional_operand(operands, 2, registers);
  access_pointers(Direction::read, source, mask, instruction);
  access_pointers(Direction::write, source, mask, instruction);
  const Instruction*& first = first_atomic_[at_index(source.parameter)];
  if (first == nullptr) first = &instruction;
  LaneShape shape = source.shape();
  if (mask != nullptr) shape = broadcast(shape, mask->shape()).value_or(shape);
  return opaque_value(shape, source.dtype, OpaqueReason::data, instruction);
}

void FootprintDomain::store(const Instruction& instruction, Operands operands, const Value* registers) {
  if (const Value& target = registers[operands[0]]; target.kind == ValueKind::block_pointer) {
    const Operands checked = operands.size() > 3 ? operands.subspan(3) : Operands{};
    access_block(Direction::write, target, checked, registers, instruction);
    return;
  }
  access_pointers(Direction::write, registers[operands[0]], optional_operand(operands, 2, registers), instruction);
}

void FootprintDomain::access_pointers(Direction direction, const Value& pointers, const Value* mask,
                                      const Instruction& instruction) {
  const char* const verb = direction == Direction::read ? "load" : "store";
  if (direction == Direction::read && is_found_by_data(pointers, mask)) {
    if (pointers.kind == ValueKind::pointer && place_possible(pointers, *mask))
      return record(direction, pointers.parameter, scratch_, instruction);
    const Region& whole = tensors_[at_index(pointers.parameter)].whole;
    const Instruction*& first = read_by_data_[at_index(pointers.parameter)];
    if (first == nullptr) first = &instruction;
    return record(direction, pointers.parameter, std::span(&whole, 1), instruction);
  }
  if (pointers.kind == ValueKind::opaque)
    fail(instruction, fmt::format("the address of this {} {}", verb, because(pointers)),
         "which elements a tile touches must follow from its indices and the arguments");
  if (pointers.kind != ValueKind::pointer)
    fail(instruction, fmt::format("the address of this {} is not a pointer into a tensor argument", verb),
         "start from a pointer parameter");
  const TensorLayout& tensor = tensors_[at_index(pointers.parameter)];
  scratch_.clear();
  Region reached;
  Placement placement;
  if (mask == nullptr) {
    placement = place(tensor, pointers.form, LaneMask::all(pointers.shape()), scratch_, reached);
  } else {
    const LaneMask lanes = known_mask(*mask, pointers, verb, instruction);
    placement = lanes.shape == pointers.form.shape
                    ? place(tensor, pointers.form, lanes, scratch_, reached)
                    : place(tensor, broadcast_to(pointers.form, lanes.shape), lanes, scratch_, reached);
  }
  if (placement != Placement::placed) fail_placement(placement, direction, pointers.parameter, reached, instruction);
  record(direction, pointers.parameter, scratch_, instruction);
}

bool FootprintDomain::place_possible(const Value& pointers, const Value& mask) {
  const auto lanes = both(LaneMask::all(pointers.shape()), possible_lanes(mask));
  if (!lanes) return false;
  scratch_.clear();
  Region reached;
  return place(tensors_[at_index(pointers.parameter)], broadcast_to(pointers.form, lanes->shape), *lanes, scratch_,
               reached) == Placement::placed;
}

LaneMask FootprintDomain::known_mask(const Value& mask, const Value& pointers, const char* verb,
                                     const Instruction& instruction) const {
  if (mask.kind == ValueKind::boolean && mask.mask.shape == pointers.shape()) return mask.mask;
  if (mask.kind == ValueKind::opaque)
    fail(instruction, fmt::format("the mask of this {} {}", verb, because(mask)),
         "masks must compare indices with bounds, one axis per comparison, joined by &");
  std::optional<LaneMask> condition;
  if (mask.kind == ValueKind::boolean) condition = mask.mask;
  if (mask.kind == ValueKind::integer) condition = compare(mask.form, CompareOperation::not_equal, 0);
  const auto lanes = condition ? both(LaneMask::all(pointers.shape()), *condition) : std::nullopt;
  if (!lanes) fail(instruction, fmt::format("the mask of this {} does not fit its address", verb), "");
  return *lanes;
}

const FootprintValue& FootprintDomain::base_pointer(const Value& pointer, const char* what,
                                                    const Instruction& instruction) const {
  if (pointer.kind == ValueKind::opaque)
    fail(instruction, fmt::format("the address of this {} {}", what, because(pointer)),
         "which elements a tile touches must follow from its indices and the arguments");
  if (!pointer.is_scalar(ValueKind::pointer))
    fail(instruction, fmt::format("a {} needs a pointer into a tensor argument", what),
         "start from a pointer parameter");
  return pointer;
}

FootprintValue FootprintDomain::make_block_pointer(const Instruction& instruction, Operands operands,
                                                   const Value* registers) {
  const Value& pointer = base_pointer(registers[operands[0]], "block pointer", instruction);
  Descriptor descriptor;
  descriptor.parameter = pointer.parameter;
  descriptor.base = pointer.form.base;
  descriptor.rank = static_cast<int>((operands.size() - 1) / 4);
  if (descriptor.rank > kMaxDimensions) fail(instruction, "a block pointer of more than 5 dimensions", "use fewer");
  Value value;
  std::int64_t elements = 1;
  for (int d = 0; d < descriptor.rank; ++d) {
    const auto integer = [&](int group, const char* what) {
      return known_integer(registers[operands[at_index(1 + group * descriptor.rank + d)]], what, instruction);
    };
    descriptor.shape[at_index(d)] = integer(0, "the shape of a block pointer");
    descriptor.stride[at_index(d)] = integer(1, "a stride of a block pointer");
    value.offsets()[at_index(d)] = integer(2, "an offset of a block pointer");
    descriptor.block[at_index(d)] = integer(3, "the block_shape of a block pointer");
    check_block_size(descriptor.block[at_index(d)], "tl.make_block_ptr", instruction);
    elements *= descriptor.block[at_index(d)];
    check_block_size(elements, "tl.make_block_ptr", instruction);
  }
  descriptors_.push_back(descriptor);
  value.kind = ValueKind::block_pointer;
  value.dtype = pointer.dtype;
  value.parameter = pointer.parameter;
  value.descriptor = static_cast<std::int32_t>(descriptors_.size() - 1);
  return value;
}

FootprintValue FootprintDomain::advance(const Instruction& instruction, Operands operands,
                                        const Value* registers) const {
  Value value = registers[operands[0]];
  if (value.kind == ValueKind::opaque) fail(instruction, "this block pointer " + because(value), "");
  if (value.kind != ValueKind::block_pointer)
    fail(instruction, "tl.advance of what is no block pointer", "give what tl.make_block_ptr makes");
  const Operands offsets = operands.subspan(1);
  if (static_cast<int>(offsets.size()) != descriptors_[at_index(value.descriptor)].rank)
    fail(instruction,
         fmt::format("{} offsets in tl.advance of a block pointer of {} dimensions", offsets.size(),
                     descriptors_[at_index(value.descriptor)].rank),
         "one offset per dimension");
  for (std::size_t d = 0; d < offsets.size(); ++d)
    value.offsets()[d] += known_integer(registers[offsets[d]], "an offset of tl.advance", instruction);
  return value;
}

const FootprintDomain::Descriptor& FootprintDomain::access_block(Direction direction, const Value& value,
                                                                 Operands checked, const Value* registers,
                                                                 const Instruction& instruction) {
  const Descriptor& descriptor = descriptors_[at_index(value.descriptor)];
  const auto rank = at_index(descriptor.rank);
  std::array<Range, kMaxDimensions> ranges{};
  for (std::size_t d = 0; d < rank; ++d) ranges[d] = {value.offsets()[d], value.offsets()[d] + descriptor.block[d]};
  for (const Register operand : checked) {
    const std::int64_t d = known_integer(registers[operand], "a dimension in boundary_check", instruction);
    if (d < 0 || d >= descriptor.rank)
      fail(instruction, fmt::format("boundary_check names dimension {} of a block pointer of {}", d, descriptor.rank),
           "dimensions count from 0");
    Range& range = ranges[at_index(d)];
    range = {std::max<std::int64_t>(range.begin, 0), std::min(range.end, descriptor.shape[at_index(d)])};
  }
  std::array<AddressRun, kMaxDimensions> runs{};
  std::int64_t base = descriptor.base;
  for (std::size_t d = 0; d < rank; ++d) {
    if (ranges[d].empty()) return descriptor;
    base += descriptor.stride[d] * ranges[d].begin;
    runs[d] = {descriptor.stride[d], ranges[d].size()};
  }
  scratch_.clear();
  Region reached;
  const Placement placement =
      place(tensors_[at_index(descriptor.parameter)], base, std::span(runs.data(), rank), scratch_, reached);
  if (placement != Placement::placed)
    fail_placement(placement, direction, descriptor.parameter, reached, instruction,
                   "name the dimension in boundary_check");
  record(direction, descriptor.parameter, scratch_, instruction);
  return descriptor;
}

FootprintValue FootprintDomain::make_descriptor(const Instruction& instruction, Operands operands,
                                                const Value* registers) {
  const Value& pointer = base_pointer(registers[operands[0]], "descriptor", instruction);
  Descriptor descriptor;
  descriptor.parameter = pointer.parameter;
  descriptor.base = pointer.form.base;
  descriptor.rank = static_cast<int>((operands.size() - 1) / 3);
  if (descriptor.rank > kMaxDimensions) fail(instruction, "a descriptor of more than 5 dimensions", "");
  for (int d = 0; d < descriptor.rank; ++d) {
    const auto integer = [&](int group, const char* what) {
      return known_integer(registers[operands[at_index(1 + group * descriptor.rank + d)]], what, instruction);
    };
    descriptor.shape[at_index(d)] = integer(0, "the shape of a descriptor");
    descriptor.stride[at_index(d)] = integer(1, "a stride of a descriptor");
    descriptor.block[at_index(d)] = integer(2, "the block shape of a descriptor");
    check_block_size(descriptor.block[at_index(d)], "tl.make_tensor_descriptor", instruction);
  }
  const std::span<const std::int64_t> strides(descriptor.stride.data(), at_index(descriptor.rank));
  const std::span<const std::int64_t> block(descriptor.block.data(), at_index(descriptor.rank));
  if (const auto refusal = refused_descriptor(pointer.dtype, descriptor.base, strides, block))
    fail(instruction, refusal->problem, refusal->remedy);
  check_view(descriptor, instruction);
  descriptors_.push_back(descriptor);
  Value value;
  value.kind = ValueKind::descriptor;
  value.dtype = pointer.dtype;
  value.parameter = pointer.parameter;
  value.descriptor = static_cast<std::int32_t>(descriptors_.size() - 1);
  return value;
}

void FootprintDomain::check_view(Descriptor& descriptor, const Instruction& instruction) {
  const TensorLayout& tensor = tensors_[at_index(descriptor.parameter)];
  const auto rank = at_index(descriptor.rank);
  const Shape shape(descriptor.shape.begin(), descriptor.shape.begin() + descriptor.rank);
  const std::span<const std::int64_t> strides(descriptor.stride.data(), rank);
  const auto complain = [&] {
    fail(instruction,
         fmt::format("this descriptor of {} has shape {} and strides {}, but the tensor is {}", tensor.name,
                     to_string(shape), listed(strides), to_string(tensor.shape)),
         fmt::format("declare {} with the kernel's shape, or change the sizes that the kernel is given", tensor.name));
  };
  if (rank == tensor.shape.size() && descriptor.base == 0) {
    // The tensor itself, row by row. The stride of a dimension of one element does not matter.
    std::int64_t stride = tensor.volume;
    for (std::size_t d = 0; d < rank; ++d) {
      if (shape[d] != tensor.shape[d]) complain();
      stride = shape[d] == 0 ? 0 : stride / shape[d];
      if (shape[d] > 1 && tensor.volume > 0 && strides[d] != stride) complain();
    }
    descriptor.whole = true;
    return;
  }
  // A part of it, or the same elements under a shape of other dimensions.
  std::array<AddressRun, kMaxDimensions> runs{};
  for (std::size_t d = 0; d < rank; ++d) runs[d] = {strides[d], shape[d]};
  scratch_.clear();
  Region reached;
  if (place(tensor, descriptor.base, std::span(runs.data(), rank), scratch_, reached) != Placement::placed) complain();
}

const FootprintDomain::Descriptor& FootprintDomain::access_descriptor(Direction direction, const Value& value,
                                                                      Operands offsets, const Value* registers,
                                                                      const Instruction& instruction) {
  if (value.kind != ValueKind::descriptor) fail(instruction, "this is not a tensor descriptor", "");
  const Descriptor& descriptor = descriptors_[at_index(value.descriptor)];
  if (static_cast<int>(offsets.size()) != descriptor.rank)
    fail(instruction, fmt::format("{} offsets for a descriptor of {} dimensions", offsets.size(), descriptor.rank),
         "one offset per dimension");
  // What lies outside the descriptor's shape is neither read nor written.
  std::array<Range, kMaxDimensions> ranges{};
  bool empty = false;
  for (std::size_t d = 0; d < offsets.size(); ++d) {
    const std::int64_t offset = known_integer(registers[offsets[d]], "an offset of this access", instruction);
    ranges[d] = {std::max<std::int64_t>(offset, 0), std::min(offset + descriptor.block[d], descriptor.shape[d])};
    empty = empty || ranges[d].empty();
  }
  if (empty) return descriptor;
  const std::span<const Range> box(ranges.data(), offsets.size());
  if (descriptor.whole) {
    const Region region(box);
    if (direction == Direction::write) note_stored_again(descriptor.parameter, std::span(&region, 1), instruction);
    record(direction, descriptor.parameter, std::span(&region, 1), instruction);
    return descriptor;
  }
  std::array<AddressRun, kMaxDimensions> runs{};
  std::int64_t base = descriptor.base;
  for (std::size_t d = 0; d < box.size(); ++d) {
    base += descriptor.stride[d] * box[d].begin;
    runs[d] = {descriptor.stride[d], box[d].size()};
  }
  scratch_.clear();
  Region reached;
  const Placement placement =
      place(tensors_[at_index(descriptor.parameter)], base, std::span(runs.data(), box.size()), scratch_, reached);
  if (placement != Placement::placed) fail_placement(placement, direction, descriptor.parameter, reached, instruction);
  if (direction == Direction::write) note_stored_again(descriptor.parameter, scratch_, instruction);
  record(direction, descriptor.parameter, scratch_, instruction);
  return descriptor;
}

void FootprintDomain::note_stored_again(std::int16_t parameter, std::span<const Region> boxes,
                                        const Instruction& instruction) {
  const Instruction*& first = stored_again_[at_index(parameter)];
  if (first != nullptr) return;
  for (const Region& box : boxes)
    for (const Region& written : destination(Direction::write, parameter, instruction).writes[at_index(parameter)])
      if (box.overlaps(written)) first = &instruction;
}

RecordedAccesses& FootprintDomain::destination(Direction direction, std::int16_t parameter,
                                               const Instruction& instruction) {
  const bool outside = loop_begin_ != nullptr && (&instruction < loop_begin_ || &instruction > loop_end_);
  if (direction == Direction::read && loop_begin_ != nullptr && (outside || &instruction < probe_)) {
    const Instruction*& first = unguarded_read_[at_index(parameter)];
    if (first == nullptr) first = &instruction;
  }
  if (!outside) return &instruction < probe_ ? next_ : current_;
  if (direction == Direction::write)
    fail(instruction, fmt::format("this writes {} outside the loop over tiles", tensors_[at_index(parameter)].name),
         "every element must be written by the tile that it belongs to");
  return shared_;
}

void FootprintDomain::record(Direction direction, std::int16_t parameter, std::span<const Region> boxes,
                             const Instruction& instruction) {
  if (direction == Direction::write) check_decided("stores", instruction);
  if (direction == Direction::read && !guarded_[at_index(&instruction - program_->instructions.data())]) {
    const Instruction*& first = read_past_indices_[at_index(parameter)];
    if (first == nullptr) first = &instruction;
  }
  if (direction == Direction::read && loops_.take_read(instruction, parameter, boxes)) return;
  RecordedAccesses& accesses = destination(direction, parameter, instruction);
  const std::size_t tensor = at_index(parameter);
  std::vector<Region>& regions = (direction == Direction::read ? accesses.reads : accesses.writes)[tensor];
  for (const Region& box : boxes) add_region(regions, box);
  const Instruction*& first = (direction == Direction::write ? first_write_ : first_read_)[tensor];
  if (first == nullptr) first = &instruction;
}

void FootprintDomain::finish_tile() {
  if (!in_tile_) return;
  for (std::vector<std::vector<Region>>* lists : {&current_.reads, &current_.writes})
    for (std::vector<Region>& regions : *lists) {
      merge_regions(regions);
      regions.shrink_to_fit();
    }
  indices_.push_back(index_);
  tiles_.push_back(std::move(current_));
  tile_loops_.push_back(loops_.finish_tile());
  in_tile_ = false;
}

std::size_t FootprintDomain::end_program() {
  finish_tile();
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    if (!next_.writes[t].empty())
      fail(*probe_, fmt::format("a program writes {} but ends before its tile indices are known", tensors_[t].name),
           "compute the tile indices first");
    next_.reads[t].clear();
  }
  return tiles_.size() - tiles_before_;
}

/// Triton compiles no other sizes; CPU ranks could run them, but a plan is for both.
void FootprintDomain::check_block_size(std::int64_t size, const char* maker, const Instruction& instruction) const {
  if (size < 1 || !std::has_single_bit(static_cast<std::uint64_t>(size)))
    fail(instruction, fmt::format("{} makes a block of size {}", maker, size),
         "Triton's blocks have sizes that are powers of two");
  if (size > kMostBlockElements)
    fail(instruction, fmt::format("{} makes a block of size {}", maker, size),
         fmt::format("Triton's blocks have at most {} elements", kMostBlockElements));
}

void FootprintDomain::fail(const Instruction& instruction, std::string problem, std::string remedy) const {
  throw UserError(program_->locate(instruction), std::move(problem), std::move(remedy));
}

void FootprintDomain::fail_placement(Placement placement, Direction direction, std::int16_t parameter,
                                     const Region& reached, const Instruction& instruction, const char* remedy) const {
  const TensorLayout& tensor = tensors_[at_index(parameter)];
  const char* const verb = direction == Direction::read ? "reads" : "writes";
  if (placement == Placement::not_a_box)
    fail(instruction,
         fmt::format("{} {} elements of {} that are not a box of its shape {}", current_tile(), verb, tensor.name,
                     to_string(tensor.shape)),
         "each dimension of the block must step along one dimension of a row-major tensor; check the strides");
  const std::string where = reached.dimensions() == 0 ? "" : fmt::format(" at {},", reached.to_string());
  fail(
      instruction,
      fmt::format("{} {} {}{} outside its shape {}", current_tile(), verb, tensor.name, where, to_string(tensor.shape)),
      fmt::format("{}, or choose tile sizes that divide the tensor", remedy));
}

std::string FootprintDomain::because(const Value& value) const {
  const int line = program_->locate(*value.origin).line;
  switch (value.reason) {
    case OpaqueReason::data:
      return fmt::format("depends on data (loaded at line {})", line);
    case OpaqueReason::arithmetic:
      return fmt::format("is computed (at line {}) in a way that the analysis of footprints cannot follow", line);
    case OpaqueReason::overflow:
      return fmt::format("overflows its integer type (at line {}; convert to tl.int64 before)", line);
    case OpaqueReason::division:
      return fmt::format("is divided by zero (at line {}{})", line,
                         zeros_.empty() ? "" : fmt::format("; {} = 0", fmt::join(zeros_, " = 0, ")));
  }
  return {};
}

std::string FootprintDomain::current_tile() const {
  if (in_tile_) return fmt::format("tile ({})", listed(index_));
  return fmt::format("the program at grid position ({})", listed(position_));
}

}  // namespace syncopate
