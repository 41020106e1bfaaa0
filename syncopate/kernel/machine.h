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
//   bool wait(const Instruction&, Value* registers)      a wait, or taking a slot; false: not yet, ask again; true: has
//                                                        set the result
//   void execute(const Instruction&, Value* registers)   every other opcode; registers[result] = ...
// Operands of an instruction are program.operands_of(instruction), indices into `registers`.
//
// A domain that cannot tell the way of every branch may have both arms walked, one after the other, if it also supplies
//   bool undecided(const Value&, const Instruction&)     walk both arms of this branch
//   void enter(const Instruction&), void leave()         around the arms of an undecided branch
//   void meet(Value&, const Value&, const Instruction&)  what a register holds behind the branch: after the first arm
//                                                        the one, after the second the other
//   void escape(const Instruction&)                      throws: a jump leads out of an undecided branch
#pragma once

#include <algorithm>
#include <map>
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
      if constexpr (kWalksBothArms) finish_arms(domain);
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
          if constexpr (kWalksBothArms) check_jump(domain, instruction);
          counter_ = static_cast<std::size_t>(instruction.target);
          break;
        case Opcode::branch_false:
          if constexpr (kWalksBothArms) {
            if (domain.undecided(value(0), instruction)) {
              enter_arms(domain, instruction);
              break;
            }
          }
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
        case Opcode::take_slot:
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
  static constexpr bool kWalksBothArms =
      requires(Domain& domain, const Value& value, const Instruction& branch) { domain.undecided(value, branch); };

  /// An undecided branch that is being walked.
  struct Fork {
    const Instruction* branch = nullptr;
    bool second_arm = false;
    std::vector<Value> registers;  ///< those that the arms write: before the branch, then behind its first arm
  };

  void enter_arms(Domain& domain, const Instruction& branch) {
    domain.enter(branch);
    Fork& fork = forks_.emplace_back(Fork{&branch, false, {}});
    for (const Register each : written_in_arms(branch)) fork.registers.push_back((*this)[each]);
  }

  /// At the end of an arm: on to the second one, or behind the branch. Several branches may end together.
  void finish_arms(Domain& domain) {
    while (!forks_.empty()) {
      Fork& fork = forks_.back();
      const Instruction& branch = *fork.branch;
      const auto meeting = static_cast<std::size_t>(branch.meeting);
      // Where there is no second arm, the instruction of the meeting is also the target.
      if (counter_ != meeting) return;
      const std::vector<Register>& written = written_in_arms(branch);
      if (!fork.second_arm) {
        for (std::size_t i = 0; i < written.size(); ++i) std::swap(fork.registers[i], (*this)[written[i]]);
        fork.second_arm = true;
        counter_ = static_cast<std::size_t>(branch.target);
        continue;
      }
      for (std::size_t i = 0; i < written.size(); ++i) {
        Value& now = (*this)[written[i]];
        domain.meet(fork.registers[i], now, branch);
        now = fork.registers[i];
      }
      forks_.pop_back();
      domain.leave();
    }
  }

  void check_jump(Domain& domain, const Instruction& jump) const {
    if (forks_.empty()) return;
    const Instruction& branch = *forks_.back().branch;
    const Instruction* const target = program_->instructions.data() + jump.target;
    if (target <= &branch || jump.target > branch.meeting) domain.escape(jump);
  }

  const std::vector<Register>& written_in_arms(const Instruction& branch) {
    const auto [found, inserted] = written_.try_emplace(&branch);
    if (!inserted) return found->second;
    const Instruction* const end = program_->instructions.data() + branch.meeting;
    for (const Instruction* each = &branch + 1; each < end; ++each)
      for (const Register result : {each->result, each->second_result})
        if (result != kNoRegister &&
            std::find(found->second.begin(), found->second.end(), result) == found->second.end())
          found->second.push_back(result);
    return found->second;
  }

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
  std::vector<Fork> forks_;                                      ///< outermost first
  std::map<const Instruction*, std::vector<Register>> written_;  ///< by the arms of a branch
};

}  // namespace syncopate
