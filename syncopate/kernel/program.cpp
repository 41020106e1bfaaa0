#include <fmt/format.h>

#include <array>

#include "syncopate/core/error.h"
#include "syncopate/kernel/program_internal.h"

namespace syncopate {
namespace {

constexpr std::array kOpcodeNames = {"copy",
                                     "jump",
                                     "branch_false",
                                     "branch_decided",
                                     "range_begin",
                                     "range_test",
                                     "range_next",
                                     "probe",
                                     "wait",
                                     "end",
                                     "program_id",
                                     "num_programs",
                                     "unary",
                                     "binary",
                                     "compare",
                                     "where",
                                     "fma",
                                     "cast",
                                     "bitcast",
                                     "check",
                                     "refuse",
                                     "dtype_of",
                                     "bits_of",
                                     "extent",
                                     "elements",
                                     "elsewhere",
                                     "arange",
                                     "full",
                                     "full_like",
                                     "reshape",
                                     "broadcast_to",
                                     "permute",
                                     "expand_dims",
                                     "join",
                                     "split",
                                     "dot",
                                     "reduce",
                                     "index_of",
                                     "scan",
                                     "sort",
                                     "flip",
                                     "gather",
                                     "take",
                                     "put",
                                     "load",
                                     "store",
                                     "atomic",
                                     "make_block_pointer",
                                     "advance",
                                     "make_descriptor",
                                     "descriptor_load",
                                     "descriptor_store",
                                     "descriptor_add",
                                     "raise",
                                     "assertion"};
static_assert(kOpcodeNames.size() == static_cast<std::size_t>(Opcode::assertion) + 1);

bool jumps(Opcode opcode) {
  return opcode == Opcode::jump || opcode == Opcode::branch_false || opcode == Opcode::branch_decided ||
         opcode == Opcode::range_test;
}

std::string constant_text(const Constant& constant, const std::vector<std::string>& strings) {
  if (const auto* integer = std::get_if<std::int64_t>(&constant)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&constant)) return fmt::format("{}", *number);
  if (const auto* boolean = std::get_if<bool>(&constant)) return *boolean ? "True" : "False";
  if (const auto* dtype = std::get_if<Dtype>(&constant)) return std::string(name_of(*dtype));
  if (const auto* text = std::get_if<StringConstant>(&constant))
    return fmt::format("\"{}\"", strings[static_cast<std::size_t>(text->index)]);
  return "None";
}

}  // namespace

const ProgramParameter* Program::find_parameter(std::string_view parameter) const {
  for (const ProgramParameter& entry : parameters)
    if (entry.name == parameter) return &entry;
  return nullptr;
}

std::string Program::to_string() const {
  std::string text = fmt::format("kernel {}\n", name);
  for (const ProgramParameter& parameter : parameters)
    text += fmt::format("  %{} = parameter {}\n", parameter.value, parameter.name);
  for (const ConstantRegister& constant : constants)
    text += fmt::format("  %{} = {}\n", constant.value, constant_text(constant.constant, strings));
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    text += fmt::format("{:4}: ", i);
    if (instruction.result != kNoRegister) text += fmt::format("%{}", instruction.result);
    if (instruction.second_result != kNoRegister) text += fmt::format(", %{}", instruction.second_result);
    if (instruction.result != kNoRegister) text += " = ";
    text += kOpcodeNames[static_cast<std::size_t>(instruction.opcode)];
    if (instruction.operation != 0) text += fmt::format(".{}", instruction.operation);
    for (const Register operand : operands_of(instruction))
      text += operand == kNoRegister ? std::string(" -") : fmt::format(" %{}", operand);
    if (jumps(instruction.opcode)) text += fmt::format(" -> {}", instruction.target);
    text += "\n";
  }
  return text;
}

}  // namespace syncopate
