// Follows one pointer parameter through a lowered kernel: a forward data flow over its instructions, whose states say
// for each register whether it points into the parameter's tensor.
#include "syncopate/kernel/stores.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "syncopate/core/error.h"
#include "syncopate/kernel/program_internal.h"

namespace syncopate {
namespace {

/// What a register has to do with the tensor.
enum class Origin : std::uint8_t {
  unset,   ///< nothing has been assigned on any way here
  other,   ///< no pointer into it
  base,    ///< the parameter itself, or a descriptor of it
  inside,  ///< a pointer somewhere into it, or a descriptor of such a place
  block,   ///< a block pointer into it
  either,  ///< that depends on the way here
};

Origin join(Origin a, Origin b) {
  if (a == b || b == Origin::unset) return a;
  if (a == Origin::unset) return b;
  const auto mixes = [](Origin origin) { return origin == Origin::base || origin == Origin::inside; };
  return mixes(a) && mixes(b) ? Origin::inside : Origin::either;
}

bool touches(Origin origin) { return origin > Origin::other; }

using Origins = std::vector<Origin>;

class Flow {
 public:
  Flow(const Program& program, const ProgramParameter& parameter) : program_(program) {
    before_.resize(program.instructions.size());
    Origins start(static_cast<std::size_t>(program.register_count), Origin::unset);
    for (const ConstantRegister& constant : program.constants) start[index(constant.value)] = Origin::other;
    for (const ProgramParameter& each : program.parameters) start[index(each.value)] = Origin::other;
    start[index(parameter.value)] = Origin::base;
    reach(0, start);
    while (!work_.empty()) {
      const std::size_t at = work_.front();
      work_.pop_front();
      follow(at);
    }
  }

  /// What an operand of an instruction is; unset where the instruction is never reached.
  Origin operand(std::size_t instruction, std::size_t number) const {
    const Origins& origins = before_[instruction];
    return origins.empty() ? Origin::unset : origin(origins, program_.instructions[instruction], number);
  }

 private:
  static std::size_t index(Register value) { return static_cast<std::size_t>(value); }

  Origin origin(const Origins& origins, const Instruction& instruction, std::size_t number) const {
    const std::span<const Register> operands = program_.operands_of(instruction);
    if (number >= operands.size() || operands[number] == kNoRegister) return Origin::other;
    return origins[index(operands[number])];
  }

  void reach(std::size_t instruction, const Origins& origins) {
    Origins& known = before_[instruction];
    if (known.empty()) {
      known = origins;
      work_.push_back(instruction);
      return;
    }
    bool changed = false;
    for (std::size_t i = 0; i < known.size(); ++i) {
      const Origin joined = join(known[i], origins[i]);
      changed = changed || joined != known[i];
      known[i] = joined;
    }
    if (changed) work_.push_back(instruction);
  }

  void follow(std::size_t at) {
    const Instruction& instruction = program_.instructions[at];
    Origins after = before_[at];
    if (instruction.result != kNoRegister) after[index(instruction.result)] = result(before_[at], instruction);
    if (instruction.second_result != kNoRegister) after[index(instruction.second_result)] = Origin::other;
    const bool jumps = instruction.opcode == Opcode::jump || instruction.opcode == Opcode::branch_false ||
                       instruction.opcode == Opcode::branch_decided || instruction.opcode == Opcode::range_test;
    if (jumps) reach(static_cast<std::size_t>(instruction.target), after);
    if (instruction.opcode != Opcode::jump && instruction.opcode != Opcode::end) reach(at + 1, after);
  }

  Origin result(const Origins& origins, const Instruction& instruction) const {
    const auto operand = [&](std::size_t number) { return origin(origins, instruction, number); };
    switch (instruction.opcode) {
      case Opcode::copy:
      case Opcode::make_descriptor:
      case Opcode::advance:
        return operand(0);
      case Opcode::make_block_pointer:
        return touches(operand(0)) && operand(0) != Origin::either ? Origin::block : operand(0);
      case Opcode::where:
        return join(operand(1), operand(2));
      case Opcode::binary:
        return moved(std::max(operand(0), operand(1)));
      case Opcode::cast:
      case Opcode::reshape:
      case Opcode::broadcast_to:
      case Opcode::permute:
      case Opcode::expand_dims:
      case Opcode::full:
      case Opcode::full_like:
        return moved(operand(0));
      case Opcode::join:
        return moved(join(operand(0), operand(1)));
      default:
        return Origin::other;
    }
  }

  static Origin moved(Origin origin) { return origin == Origin::base ? Origin::inside : origin; }

  const Program& program_;
  std::vector<Origins> before_;  ///< per instruction; empty: not reached
  std::deque<std::size_t> work_;
};

std::string_view atomic_name(const Instruction& instruction) {
  switch (static_cast<AtomicOperation>(instruction.operation)) {
    case AtomicOperation::add:
      return "tl.atomic_add";
    case AtomicOperation::minimum:
      return "tl.atomic_min";
    case AtomicOperation::maximum:
      return "tl.atomic_max";
    case AtomicOperation::bit_and:
      return "tl.atomic_and";
    case AtomicOperation::bit_or:
      return "tl.atomic_or";
    case AtomicOperation::bit_xor:
      return "tl.atomic_xor";
  }
  return "an atomic operation";
}

class Finder {
 public:
  Finder(const Program& program, const ProgramParameter& parameter)
      : program_(program), name_(parameter.name), flow_(program, parameter) {}

  std::vector<Store> stores() {
    for (std::size_t at = 0; at < program_.instructions.size(); ++at)
      if (touches(flow_.operand(at, 0))) look_for_store(at);
    std::stable_sort(stores_.begin(), stores_.end(),
                     [](const Store& a, const Store& b) { return a.range.begin < b.range.begin; });
    return std::move(stores_);
  }

  std::vector<Load> loads() {
    for (std::size_t at = 0; at < program_.instructions.size(); ++at)
      if (touches(flow_.operand(at, 0))) look_for_load(at);
    std::stable_sort(loads_.begin(), loads_.end(),
                     [](const Load& a, const Load& b) { return a.range.begin < b.range.begin; });
    loads_.erase(std::unique(loads_.begin(), loads_.end()), loads_.end());
    return std::move(loads_);
  }

 private:
  void refuse_atomic(const Instruction& instruction) const {
    if (instruction.opcode == Opcode::atomic)
      fail(instruction, fmt::format("'{}' is changed by {}", name_, atomic_name(instruction)),
           "store the tile's value once");
  }

  /// `access`: "loads from".
  void refuse_either(const Instruction& instruction, Origin origin, std::string_view access) const {
    if (origin != Origin::either) return;
    const std::string_view preposition = access.substr(access.find(' ') + 1);
    fail(instruction,
         fmt::format("this {} '{}' or {} something else, depending on the way here", access, name_, preposition),
         fmt::format("give what points to '{}' a name of its own", name_));
  }

  void look_for_load(std::size_t at) {
    const Instruction& instruction = program_.instructions[at];
    refuse_atomic(instruction);
    const bool descriptor = instruction.opcode == Opcode::descriptor_load;
    if (!descriptor && instruction.opcode != Opcode::load) return;
    refuse_either(instruction, flow_.operand(at, 0), "loads from");
    const bool block_pointer = flow_.operand(at, 0) == Origin::block;
    loads_.push_back({instruction.range, descriptor, block_pointer});
  }

  void look_for_store(std::size_t at) {
    const Instruction& instruction = program_.instructions[at];
    const Origin origin = flow_.operand(at, 0);
    refuse_atomic(instruction);
    const bool descriptor = instruction.opcode == Opcode::descriptor_store;
    if (!descriptor && instruction.opcode != Opcode::store) return;
    refuse_either(instruction, origin, "stores to");
    if (descriptor && origin != Origin::base)
      fail(instruction, fmt::format("this descriptor does not begin where '{}' points", name_),
           "make a descriptor of the whole tensor, and put the rest into the offsets of the store");
    const int dimensions = descriptor ? static_cast<int>(instruction.operand_count) - 2 : 0;
    stores_.push_back({instruction.range, descriptor, origin == Origin::block, dimensions});
  }

  [[noreturn]] void fail(const Instruction& instruction, std::string problem, std::string remedy) const {
    throw UserError(program_.locate(instruction), std::move(problem), std::move(remedy));
  }

  const Program& program_;
  std::string name_;
  Flow flow_;
  std::vector<Store> stores_;
  std::vector<Load> loads_;
};

template <typename Find>
auto find(std::shared_ptr<const Module> module, const Function& kernel, const std::string& parameter, Find&& what) {
  const std::shared_ptr<const Program> program = lower(std::move(module), kernel);
  const ProgramParameter* const found = program->find_parameter(parameter);
  check_internal(found != nullptr, "a kernel is searched for a parameter that it does not have");
  Finder finder(*program, *found);
  return what(finder);
}

}  // namespace

std::vector<Store> find_stores(std::shared_ptr<const Module> module, const Function& kernel,
                               const std::string& parameter) {
  return find(std::move(module), kernel, parameter, [](Finder& finder) { return finder.stores(); });
}

std::vector<Load> find_loads(std::shared_ptr<const Module> module, const Function& kernel,
                             const std::string& parameter) {
  return find(std::move(module), kernel, parameter, [](Finder& finder) { return finder.loads(); });
}

}  // namespace syncopate
