#include "syncopate/kernel/guarded_reads.h"

#include <algorithm>

namespace syncopate {

namespace {

/// The operands from which the result is computed; of a block pointer those from which its addresses are, which its
/// bounds, the first group behind the pointer, and its block's shape, the last, do not move.
std::vector<Register> sources(const Program& program, const Instruction& instruction) {
  const auto operands = program.operands_of(instruction);
  if (instruction.opcode == Opcode::make_block_pointer) {
    const std::size_t rank = (operands.size() - 1) / 4;
    std::vector<Register> moving(operands.begin() + static_cast<std::ptrdiff_t>(1 + rank),
                                 operands.end() - static_cast<std::ptrdiff_t>(rank));
    moving.push_back(operands[0]);
    return moving;
  }
  const bool counts = instruction.opcode == Opcode::range_begin;
  return {operands.begin(), counts ? operands.begin() + 1 : operands.end()};
}

/// The operands that say where a read begins; none of what does not read.
std::span<const Register> address(const Program& program, const Instruction& instruction) {
  const auto operands = program.operands_of(instruction);
  switch (instruction.opcode) {
    case Opcode::load:
      return operands.first(1);
    case Opcode::descriptor_load:
      return operands;
    default:
      return {};
  }
}

}  // namespace

std::vector<bool> guarded_reads(const Program& program, std::span<const LoweredLoop> loops) {
  std::vector<bool> follows(static_cast<std::size_t>(program.register_count), false);
  const auto mark = [&](Register value) {
    if (value == kNoRegister || follows[static_cast<std::size_t>(value)]) return false;
    follows[static_cast<std::size_t>(value)] = true;
    return true;
  };
  const auto any_follows = [&](std::span<const Register> operands) {
    return std::any_of(operands.begin(), operands.end(), [&](Register operand) {
      return operand != kNoRegister && follows[static_cast<std::size_t>(operand)];
    });
  };
  for (const Instruction& each : program.instructions)
    if (each.opcode == Opcode::probe)
      for (const Register index : program.operands_of(each)) mark(index);
  for (const LoweredLoop& loop : loops) mark(loop.begin->result);
  for (bool grows = true; grows;) {
    grows = false;
    for (const Instruction& each : program.instructions) {
      if (!any_follows(sources(program, each))) continue;
      grows = mark(each.result) || grows;
      grows = mark(each.second_result) || grows;
    }
  }
  std::vector<bool> guarded;
  guarded.reserve(program.instructions.size());
  for (const Instruction& each : program.instructions) guarded.push_back(any_follows(address(program, each)));
  return guarded;
}

}  // namespace syncopate
