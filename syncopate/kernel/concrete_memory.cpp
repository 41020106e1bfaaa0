// Loads and stores: lanes of a block become runs of consecutive elements, announced to the environment once, then
// moved.
#include <fmt/format.h>

#include <algorithm>

#include "syncopate/core/error.h"
#include "syncopate/kernel/concrete_domain.h"
#include "syncopate/kernel/value_operations.h"

namespace syncopate::concrete {
namespace {

void* element_address(Value& block, std::int64_t index) {
  return block.mutable_elements<std::byte>() + index * static_cast<std::int64_t>(bytes_of(storage_of(block)));
}
const void* element_address(const Value& block, std::int64_t index) {
  return block.elements<std::byte>() + index * static_cast<std::int64_t>(bytes_of(storage_of(block)));
}

Kind kind_of(Dtype dtype) { return is_floating(dtype) ? Kind::floating : Kind::integer; }

void expect_pointer(const Value& pointer, std::string_view what) {
  if (pointer.kind != Kind::pointer)
    throw OperationError{fmt::format("{} {}", what, describe(pointer)), "give a pointer or a block of pointers"};
}

/// The mask of an access as bools in the shape of its pointers, or an empty value.
Value shaped_mask(const Value* mask, const Value& pointer) {
  if (!mask || mask->kind == Kind::none) return {};
  const Value bools = cast(*mask, Dtype::boolean);
  return pointer.is_block() ? broadcast_to(bools, pointer.extents) : bools;
}

/// A scalar or a block as one row of elements: a scalar is a block of one.
Value as_block(const Value& value) {
  if (value.is_block()) return value;
  Extents one;
  one.rank = 1;
  one[0] = 1;
  return broadcast_to(value, one);
}

Value scalar_of(const Value& block) {
  if (block.dtype == Dtype::boolean) return boolean_value(block.elements<std::uint8_t>()[0] != 0);
  if (block.kind == Kind::integer) return integer_value(block.elements<std::int64_t>()[0], block.dtype);
  if (block.dtype == Dtype::fp64) return floating_value(block.elements<double>()[0], block.dtype);
  return floating_value(static_cast<double>(block.elements<float>()[0]), block.dtype);
}

/// The part of a descriptor's block that lies inside its tensor, row by row.
struct DescriptorRows {
  std::int64_t begin = 0;  ///< first column of the block that is inside
  std::int64_t count = 0;  ///< columns inside
  struct Row {
    std::int64_t lane = 0;    ///< of the block: its first column inside
    std::int64_t offset = 0;  ///< in the buffer
  };
  std::vector<Row> rows;
};

DescriptorRows rows_inside(const Descriptor& descriptor, std::span<const std::int64_t> offsets) {
  DescriptorRows result;
  const auto last = static_cast<std::size_t>(descriptor.rank - 1);
  result.begin = std::clamp<std::int64_t>(-offsets[last], 0, descriptor.block[last]);
  const std::int64_t end = std::clamp<std::int64_t>(descriptor.shape[last] - offsets[last], 0, descriptor.block[last]);
  result.count = std::max<std::int64_t>(0, end - result.begin);
  if (result.count == 0) return result;
  std::array<std::int64_t, kMaxRank> index{};
  std::int64_t row_count = 1;
  for (std::size_t d = 0; d < last; ++d) row_count *= descriptor.block[d];
  result.rows.reserve(static_cast<std::size_t>(row_count));
  for (std::int64_t row = 0; row < row_count; ++row) {
    bool inside = true;
    std::int64_t offset = descriptor.base + offsets[last] + result.begin;
    for (std::size_t d = 0; d < last; ++d) {
      const std::int64_t at = offsets[d] + index[d];
      inside = inside && at >= 0 && at < descriptor.shape[d];
      offset += at * descriptor.strides[d];
    }
    if (inside) result.rows.push_back({row * descriptor.block[last] + result.begin, offset});
    for (std::size_t d = last; d-- > 0;) {
      if (++index[d] < descriptor.block[d]) break;
      index[d] = 0;
    }
  }
  return result;
}

void append_run(std::vector<Run>& runs, Run run) {
  if (!runs.empty() && runs.back().offset + runs.back().count == run.offset)
    runs.back().count += run.count;
  else
    runs.push_back(run);
}

void sort_and_join(std::vector<Run>& runs) {
  const auto before = [](const Run& a, const Run& b) { return a.offset < b.offset; };
  bool apart = true;
  for (std::size_t i = 1; apart && i < runs.size(); ++i)
    apart = runs[i - 1].offset + runs[i - 1].count < runs[i].offset;
  if (apart) return;
  std::sort(runs.begin(), runs.end(), before);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    Run& last = runs[kept];
    if (runs[i].offset <= last.offset + last.count)
      last.count = std::max(last.count, runs[i].offset + runs[i].count - last.offset);
    else
      runs[++kept] = runs[i];
  }
  if (!runs.empty()) runs.resize(kept + 1);
}

template <typename T>
T combined(AtomicOperation operation, T a, T b) {
  switch (operation) {
    case AtomicOperation::minimum:
      return std::min(a, b);
    case AtomicOperation::maximum:
      return std::max(a, b);
    default:
      break;
  }
  if constexpr (std::is_same_v<T, std::int64_t>) {
    switch (operation) {
      case AtomicOperation::bit_and:
        return a & b;
      case AtomicOperation::bit_or:
        return a | b;
      case AtomicOperation::bit_xor:
        return a ^ b;
      default:
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    }
  } else {
    if (operation != AtomicOperation::add)
      throw OperationError{"a bitwise atomic operation on floating numbers", "use an integer dtype"};
    return a + b;
  }
}

/// Combines one element of memory with `value`; gives the old element.
template <typename T>
T combine_in_memory(AtomicOperation operation, std::byte* memory, Dtype dtype, T value) {
  T old{};
  decode(memory, 1, dtype, &old);
  const T result = combined(operation, old, value);
  encode(&result, 1, dtype, memory);
  return old;
}

/// What Triton refuses (atom_red_typechecking_impl).
void check_atomic(AtomicOperation operation, Dtype dtype) {
  const bool halves = dtype == Dtype::fp16 || dtype == Dtype::bf16;
  if (size_in_bytes(dtype) < 4 && !(halves && operation == AtomicOperation::add))
    throw OperationError{fmt::format("an atomic operation on {}", name_of(dtype)),
                         halves ? "of 16-bit floats Triton has tl.atomic_add only" : "use 32 or 64 bits"};
  const bool orders = operation == AtomicOperation::minimum || operation == AtomicOperation::maximum;
  if (orders && dtype == Dtype::uint64)
    throw OperationError{"an atomic minimum or maximum of uint64 is not supported", "use int64"};
}

}  // namespace

/// Fills lane_runs_ and runs_ for a block of pointers (as_block) under a mask.
void ConcreteDomain::collect_runs(const Value& pointer, const Value* mask) {
  lane_runs_.clear();
  runs_.clear();
  const auto* const offsets = pointer.elements<std::int64_t>();
  const auto* const lanes = mask ? mask->elements<std::uint8_t>() : nullptr;
  const std::int64_t count = pointer.extents.count();
  std::int64_t lane = 0;
  while (lane < count) {
    if (lanes && lanes[lane] == 0) {
      ++lane;
      continue;
    }
    const std::int64_t first = lane++;
    while (lane < count && offsets[lane] == offsets[lane - 1] + 1 && (!lanes || lanes[lane] != 0)) ++lane;
    lane_runs_.push_back({first, {offsets[first], lane - first}});
    append_run(runs_, lane_runs_.back().run);
  }
  sort_and_join(runs_);
}

/// Announces runs_ and gives the bytes of the buffer.
std::span<std::byte> ConcreteDomain::access(const Instruction& instruction, int buffer, Dtype dtype, AccessKind kind) {
  const std::span<std::byte> bytes = environment_->access(buffer, kind, runs_, program_->locate(instruction));
  const auto elements = static_cast<std::int64_t>(bytes.size()) / size_in_bytes(dtype);
  check_internal(runs_.front().offset >= 0 && runs_.back().offset + runs_.back().count <= elements,
                 "the environment let an access outside a buffer pass");
  return bytes;
}

Value ConcreteDomain::load(const Instruction& instruction, const Value& pointer, const Value* mask,
                           const Value* other) {
  expect_pointer(pointer, "tl.load of");
  const Value bools = shaped_mask(mask, pointer);
  const bool masked = bools.kind != Kind::undefined;
  const Value block = as_block(pointer);
  const Value lanes = masked ? as_block(bools) : Value{};
  collect_runs(block, masked ? &lanes : nullptr);

  Value result;
  if (masked) {
    // Triton leaves masked-off lanes without `other` undefined; here they are zero.
    Value fill =
        other && other->kind != Kind::none ? cast(*other, pointer.dtype) : cast(weak_integer(0), pointer.dtype);
    result = broadcast_to(fill, block.extents);
    make_unique(result);
  } else {
    result = new_block(kind_of(pointer.dtype), pointer.dtype, block.extents);
  }
  if (!runs_.empty()) {
    const std::span<std::byte> bytes = access(instruction, pointer.buffer, pointer.dtype, AccessKind::read);
    const int size = size_in_bytes(pointer.dtype);
    for (const LaneRun& part : lane_runs_)
      decode(bytes.data() + part.run.offset * size, part.run.count, pointer.dtype, element_address(result, part.lane));
  }
  return pointer.is_block() ? result : scalar_of(result);
}

void ConcreteDomain::store(const Instruction& instruction, const Value& pointer, const Value& value,
                           const Value* mask) {
  expect_pointer(pointer, "tl.store to");
  const Value bools = shaped_mask(mask, pointer);
  const bool masked = bools.kind != Kind::undefined;
  const Value block = as_block(pointer);
  const Value lanes = masked ? as_block(bools) : Value{};
  collect_runs(block, masked ? &lanes : nullptr);
  const Value elements = broadcast_to(as_block(cast(value, pointer.dtype)), block.extents);
  if (runs_.empty()) return;
  const std::span<std::byte> bytes = access(instruction, pointer.buffer, pointer.dtype, AccessKind::write);
  const int size = size_in_bytes(pointer.dtype);
  for (const LaneRun& part : lane_runs_)
    encode(element_address(elements, part.lane), part.run.count, pointer.dtype, bytes.data() + part.run.offset * size);
}

Value ConcreteDomain::atomic(const Instruction& instruction, const Value& pointer, const Value& value,
                             const Value* mask) {
  const auto operation = static_cast<AtomicOperation>(instruction.operation);
  expect_pointer(pointer, "an atomic operation on");
  check_atomic(operation, pointer.dtype);
  const Value bools = shaped_mask(mask, pointer);
  const bool masked = bools.kind != Kind::undefined;
  const Value block = as_block(pointer);
  const Value lanes = masked ? as_block(bools) : Value{};
  collect_runs(block, masked ? &lanes : nullptr);
  const Value addends = broadcast_to(as_block(cast(value, pointer.dtype)), block.extents);
  Value old = full(weak_integer(0), pointer.dtype, block.extents);
  if (!runs_.empty()) {
    const std::span<std::byte> bytes = access(instruction, pointer.buffer, pointer.dtype, AccessKind::atomic);
    const int size = size_in_bytes(pointer.dtype);
    for (const LaneRun& part : lane_runs_) {
      for (std::int64_t i = 0; i < part.run.count; ++i) {
        std::byte* const memory = bytes.data() + (part.run.offset + i) * size;
        const auto lane = part.lane + i;
        const auto combine = [&](auto* type) {
          using T = std::remove_pointer_t<decltype(type)>;
          old.mutable_elements<T>()[lane] =
              combine_in_memory(operation, memory, pointer.dtype, addends.elements<T>()[lane]);
        };
        if (storage_of(addends) == Storage::float32)
          combine(static_cast<float*>(nullptr));
        else if (storage_of(addends) == Storage::float64)
          combine(static_cast<double*>(nullptr));
        else
          combine(static_cast<std::int64_t*>(nullptr));
      }
    }
  }
  return pointer.is_block() ? old : scalar_of(old);
}

Value ConcreteDomain::descriptor_load(const Instruction& instruction, const Value* registers) {
  const auto operands = program_->operands_of(instruction);
  const Value& operand = registers[operands[0]];
  if (operand.kind != Kind::descriptor)
    throw OperationError{fmt::format(".load of {}", describe(operand)), "it is a method of tensor descriptors"};
  const Descriptor& descriptor = *operand.descriptor;
  std::array<std::int64_t, kMaxRank> offsets{};
  if (!std::cmp_equal(operands.size(), descriptor.rank + 1))
    throw OperationError{
        fmt::format("{} offsets for a descriptor of {} dimensions", operands.size() - 1, descriptor.rank), ""};
  for (std::size_t d = 0; d + 1 < operands.size(); ++d)
    offsets[d] = expect_integer(registers[operands[d + 1]], "an offset of a descriptor");
  const DescriptorRows inside = rows_inside(descriptor, offsets);

  Extents extents;
  extents.rank = descriptor.rank;
  extents.size = descriptor.block;
  const auto row_count = static_cast<std::int64_t>(inside.rows.size());
  Value result;
  if (row_count * inside.count == extents.count())
    result = new_block(kind_of(descriptor.dtype), descriptor.dtype, extents);
  else
    result = full(weak_integer(0), descriptor.dtype, extents);
  if (row_count == 0) return result;
  runs_.clear();
  for (const DescriptorRows::Row& row : inside.rows) append_run(runs_, {row.offset, inside.count});
  sort_and_join(runs_);
  const std::span<std::byte> bytes = access(instruction, descriptor.buffer, descriptor.dtype, AccessKind::read);
  const int size = size_in_bytes(descriptor.dtype);
  for (const DescriptorRows::Row& row : inside.rows)
    decode(bytes.data() + row.offset * size, inside.count, descriptor.dtype, element_address(result, row.lane));
  return result;
}

void ConcreteDomain::descriptor_store(const Instruction& instruction, const Value* registers) {
  const auto operands = program_->operands_of(instruction);
  const Value& operand = registers[operands[0]];
  if (operand.kind != Kind::descriptor)
    throw OperationError{fmt::format(".store of {}", describe(operand)), "it is a method of tensor descriptors"};
  const Descriptor& descriptor = *operand.descriptor;
  if (!std::cmp_equal(operands.size(), descriptor.rank + 2))
    throw OperationError{
        fmt::format("{} offsets for a descriptor of {} dimensions", operands.size() - 2, descriptor.rank), ""};
  std::array<std::int64_t, kMaxRank> offsets{};
  for (std::size_t d = 0; d + 2 < operands.size(); ++d)
    offsets[d] = expect_integer(registers[operands[d + 2]], "an offset of a descriptor");
  Extents extents;
  extents.rank = descriptor.rank;
  extents.size = descriptor.block;
  const Value& stored = registers[operands[1]];
  if (!(stored.extents == extents))
    throw OperationError{
        fmt::format("{} stored through a descriptor of blocks {}", describe(stored), extents.to_string()),
        "the block must have the descriptor's block shape"};
  const Value elements = cast(stored, descriptor.dtype);
  const DescriptorRows inside = rows_inside(descriptor, offsets);
  if (inside.rows.empty()) return;
  runs_.clear();
  for (const DescriptorRows::Row& row : inside.rows) append_run(runs_, {row.offset, inside.count});
  sort_and_join(runs_);
  const bool adds = instruction.opcode == Opcode::descriptor_add;
  const std::span<std::byte> bytes =
      access(instruction, descriptor.buffer, descriptor.dtype, adds ? AccessKind::atomic : AccessKind::write);
  const int size = size_in_bytes(descriptor.dtype);
  for (const DescriptorRows::Row& row : inside.rows) {
    std::byte* const memory = bytes.data() + row.offset * size;
    if (!adds) {
      encode(element_address(elements, row.lane), inside.count, descriptor.dtype, memory);
      continue;
    }
    if (storage_of(elements) != Storage::float32)
      throw OperationError{fmt::format("an addition to {} in memory", name_of(descriptor.dtype)), ""};
    for (std::int64_t i = 0; i < inside.count; ++i)
      combine_in_memory(AtomicOperation::add, memory + i * size, descriptor.dtype,
                        elements.elements<float>()[row.lane + i]);
  }
}

}  // namespace syncopate::concrete
