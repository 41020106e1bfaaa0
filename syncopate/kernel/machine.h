// The control flow of the register machine, over any domain of values. All state of a running program is in a Machine,
// so it can be stopped after any memory access or at an unsatisfied wait, and be resumed.
//
// A Domain supplies
//   using Value                                          default constructible, movable, cheap to copy
//   Value constant(const Constant&)
//   bool truth(const Value&, const Instruction&)         a branch; throws if it cannot be told
//   bool decides(const Value&, bool)                     the value is a known scalar of that truth (never throws)
//   Value range_begin(const Value& start, const Value& end, const Value& step, const Instruction&, Value* registers)
//   bool range_continues(const Value& counter, const Value& end, const Value& step, const Instruction&)
//   Value range_next(const Value& counter, const Value& step, const Instruction&)
//   void probe(const Instruction&, const Value* registers)
//   bool wait(const Instruction&, Value* registers)      false: not satisfied, ask again; true: has set the result
//   void execute(const Instruction&, Value* registers)   every other opcode; registers[result] = ...
// Operands of an instruction are program.operands_of(instruction), indices into `registers`.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "syncopate/kernel/program_internal.h"

namespace syncopate {

enum class MachineState : std::uint8_t { running, blocked, finished };

template <typename Domain>
class Machine {
 public:
  using Value = typename Domain::Value;

  /// Constants are set; the caller sets the parameters' registers before the first run.
  Machine(std::shared_ptr<const Program> program, Domain& domain)
      : program_(std::move(program)), registers_(static_cast<std::size_t>(program_->register_count)) {
    for (const ConstantRegister& constant : program_->constants)
      registers_[static_cast<std::size_t>(constant.value)] = domain.constant(constant.constant);
  }

  const Program& program() const { return *program_; }
  Value& operator[](Register index) { return registers_[static_cast<std::size_t>(index)]; }
  MachineState state() const { return state_; }

  /// Runs to the end, to an unsatisfied wait, or, if asked, until after the next access or raise.
  template <bool stop_after_access>
  MachineState run(Domain& domain) {
    const Instruction* const code = program_->instructions.data();
    const Register* const operands = program_->operands.data();
    Value* const registers = registers_.data();
    state_ = MachineState::running;
    for (;;) {
      const Instruction& instruction = code[counter_];
      const Register* const operand = operands + instruction.first_operand;
      const auto value = [&](int index) -> const Value& { return registers[operand[index]]; };
      ++counter_;
      switch (instruction.opcode) {
        case Opcode::copy:
          registers[instruction.result] = value(0);
          break;
        case Opcode::jump:
          if (static_cast<std::size_t>(instruction.target) < counter_) count_turn(instruction);
          counter_ = static_cast<std::size_t>(instruction.target);
          break;
        case Opcode::branch_false:
          if (!domain.truth(value(0), instruction)) counter_ = static_cast<std::size_t>(instruction.target);
          break;
        case Opcode::branch_decided:
          if (domain.decides(value(0), instruction.operation != 0))
            counter_ = static_cast<std::size_t>(instruction.target);
          break;
        case Opcode::range_begin:
          registers[instruction.result] = domain.range_begin(value(0), value(1), value(2), instruction, registers);
          break;
        case Opcode::range_test:
          if (!domain.range_continues(value(0), value(1), value(2), instruction))
            counter_ = static_cast<std::size_t>(instruction.target);
          break;
        case Opcode::range_next:
          registers[instruction.result] = domain.range_next(value(0), value(1), instruction);
          break;
        case Opcode::probe:
          domain.probe(instruction, registers);
          turns_ = 0;
          break;
        case Opcode::wait:
          if (!domain.wait(instruction, registers)) {
            --counter_;
            return state_ = MachineState::blocked;
          }
          break;
        case Opcode::end:
          --counter_;
          return state_ = MachineState::finished;
        default:
          domain.execute(instruction, registers);
          if constexpr (stop_after_access) {
            if (is_access(instruction.opcode)) {
              turns_ = 0;
              return state_;
            }
          }
          break;
      }
    }
  }

  /// Turns of loops after which a tile (or, when run from access to access, the way to the next access) is taken to
  /// have no end: far more than a tile of any use has, and still only seconds.
  static constexpr std::int64_t kMostTurns = 10'000'000;

 private:
  void count_turn(const Instruction& instruction) {
    if (++turns_ > kMostTurns)
      throw UserError(program_->locate(instruction), "this loop does not seem to end",
                      "a tile may take 10 million turns of its loops; see that the condition becomes false");
  }

  std::shared_ptr<const Program> program_;
  std::vector<Value> registers_;
  std::size_t counter_ = 0;  ///< the next instruction
  std::int64_t turns_ = 0;   ///< of loops, since the last probe, or the last access that stopped
  MachineState state_ = MachineState::running;
};

}  // namespace syncopate
