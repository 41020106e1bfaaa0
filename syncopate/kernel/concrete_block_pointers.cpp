// Block pointers (tl.make_block_ptr): an access through one is an access through a block of pointers, under a mask of
// the bounds that it checks.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "syncopate/kernel/concrete_domain.h"
#include "syncopate/kernel/triton_limits.h"
#include "syncopate/kernel/value_operations.h"

namespace syncopate::concrete {
namespace {

const Descriptor& expect_block_pointer(const Value& value, std::string_view what) {
  if (value.kind != Kind::block_pointer)
    throw OperationError{fmt::format("{} {}", what, describe(value)), "give what tl.make_block_ptr makes"};
  return *value.descriptor;
}

Value block_pointer(const Descriptor& descriptor) {
  Value result;
  result.kind = Kind::block_pointer;
  result.dtype = descriptor.dtype;
  result.descriptor = std::make_shared<const Descriptor>(descriptor);
  return result;
}

Extents block_extents(const Descriptor& descriptor) {
  Extents extents;
  extents.rank = descriptor.rank;
  extents.size = descriptor.block;
  return extents;
}

}  // namespace

Value ConcreteDomain::block_pointer_of(const Instruction& instruction, const Value* registers) const {
  const auto operands = program_->operands_of(instruction);
  const Value& pointer = registers[operands[0]];
  if (pointer.kind != Kind::pointer || pointer.is_block())
    throw OperationError{fmt::format("a block pointer into {}", describe(pointer)), "give a pointer"};
  const std::size_t rank = (operands.size() - 1) / 4;
  if (rank > kMaxRank)
    throw OperationError{fmt::format("a block pointer of {} dimensions", rank),
                         fmt::format("at most {} are supported", kMaxRank)};
  Descriptor descriptor;
  descriptor.buffer = pointer.buffer;
  descriptor.dtype = pointer.dtype;
  descriptor.base = pointer.integer;
  descriptor.rank = static_cast<int>(rank);
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    const auto integer = [&](std::size_t group, std::string_view what) {
      return expect_integer(registers[operands[1 + group * rank + d]], what);
    };
    descriptor.shape[d] = integer(0, "the shape of a block pointer");
    descriptor.strides[d] = integer(1, "a stride of a block pointer");
    descriptor.offsets[d] = integer(2, "an offset of a block pointer");
    descriptor.block[d] = integer(3, "the block_shape of a block pointer");
    if (descriptor.block[d] < 1 || descriptor.block[d] > kMostBlockElements / elements)
      throw OperationError{fmt::format("a block pointer to blocks with an extent of {}", descriptor.block[d]),
                           fmt::format("blocks have 1 to {} elements", kMostBlockElements)};
    elements *= descriptor.block[d];
  }
  return block_pointer(descriptor);
}

Value ConcreteDomain::advanced(const Instruction& instruction, const Value* registers) const {
  const auto operands = program_->operands_of(instruction);
  Descriptor descriptor = expect_block_pointer(registers[operands[0]], "tl.advance of");
  if (!std::cmp_equal(operands.size(), descriptor.rank + 1))
    throw OperationError{
        fmt::format("{} offsets for a block pointer of {} dimensions", operands.size() - 1, descriptor.rank),
        "one offset per dimension"};
  for (std::size_t d = 0; d + 1 < operands.size(); ++d)
    descriptor.offsets[d] += expect_integer(registers[operands[d + 1]], "an offset of tl.advance");
  return block_pointer(descriptor);
}

ConcreteDomain::BlockLanes ConcreteDomain::block_lanes(const Instruction& instruction, std::size_t first_dimension,
                                                       const Value* registers) const {
  const auto operands = program_->operands_of(instruction);
  const Descriptor& descriptor = *registers[operands[0]].descriptor;
  std::array<bool, kMaxRank> checked{};
  for (std::size_t i = first_dimension; i < operands.size(); ++i) {
    const std::int64_t dimension = expect_integer(registers[operands[i]], "a dimension in boundary_check");
    if (dimension < 0 || dimension >= descriptor.rank)
      throw OperationError{
          fmt::format("boundary_check names dimension {} of a block pointer of {}", dimension, descriptor.rank),
          "dimensions count from 0"};
    checked[static_cast<std::size_t>(dimension)] = true;
  }
  const Extents extents = block_extents(descriptor);
  BlockLanes lanes{new_block(Kind::pointer, descriptor.dtype, extents),
                   new_block(Kind::integer, Dtype::boolean, extents)};
  lanes.pointers.buffer = descriptor.buffer;
  auto* const offsets = lanes.pointers.mutable_elements<std::int64_t>();
  auto* const inside = lanes.inside.mutable_elements<std::uint8_t>();
  std::array<std::int64_t, kMaxRank> index{};
  const std::int64_t count = extents.count();
  for (std::int64_t lane = 0; lane < count; ++lane) {
    std::int64_t offset = descriptor.base;
    bool within = true;
    for (std::size_t d = 0; std::cmp_less(d, descriptor.rank); ++d) {
      const std::int64_t at = descriptor.offsets[d] + index[d];
      within = within && (!checked[d] || (at >= 0 && at < descriptor.shape[d]));
      offset += at * descriptor.strides[d];
    }
    offsets[lane] = offset;
    inside[lane] = static_cast<std::uint8_t>(within);
    for (auto d = static_cast<std::size_t>(descriptor.rank); d-- > 0;) {
      if (++index[d] < descriptor.block[d]) break;
      index[d] = 0;
    }
  }
  return lanes;
}

Value ConcreteDomain::load_block(const Instruction& instruction, const Value* registers) {
  const auto operands = program_->operands_of(instruction);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    if (operands[i] != kNoRegister && registers[operands[i]].kind != Kind::none)
      throw OperationError{"tl.load through a block pointer with a mask or 'other'",
                           "give boundary_check, and padding_option for what is outside"};
  const Value& pointer = registers[operands[0]];
  const BlockLanes lanes = block_lanes(instruction, 4, registers);
  Value padding = none_value();
  if (operands.size() > 3 && operands[3] != kNoRegister) {
    const std::string_view option = text_of(registers[operands[3]], "padding_option");
    if (option != "" && option != "zero" && option != "nan")
      throw OperationError{fmt::format("padding_option=\"{}\"", option), "give \"zero\" or \"nan\""};
    if (option == "nan") {
      if (!is_floating(pointer.dtype))
        throw OperationError{fmt::format("padding with NaN of {}", name_of(pointer.dtype)), "give \"zero\""};
      padding = weak_number(std::numeric_limits<double>::quiet_NaN());
    }
  }
  return load(instruction, lanes.pointers, &lanes.inside, &padding);
}

void ConcreteDomain::store_block(const Instruction& instruction, const Value* registers) {
  const auto operands = program_->operands_of(instruction);
  if (operands[2] != kNoRegister && registers[operands[2]].kind != Kind::none)
    throw OperationError{"tl.store through a block pointer with a mask", "give boundary_check"};
  const Value& pointer = registers[operands[0]];
  const Value& stored = registers[operands[1]];
  const Extents extents = block_extents(*pointer.descriptor);
  if (stored.is_block() && !(stored.extents == extents))
    throw OperationError{fmt::format("{} stored through a pointer to blocks {}", describe(stored), extents.to_string()),
                         "the block must have the block pointer's block shape"};
  if (!stored.weak && stored.dtype != pointer.dtype)
    throw OperationError{
        fmt::format("{} stored through a block pointer into {}", describe(stored), name_of(pointer.dtype)),
        "Triton converts nothing there: convert the value with .to"};
  const BlockLanes lanes = block_lanes(instruction, 3, registers);
  store(instruction, lanes.pointers, stored, &lanes.inside);
}

}  // namespace syncopate::concrete
