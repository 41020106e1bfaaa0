// The state of lowering one kernel, shared by lower.cpp (statements, helpers), lower_expression.cpp and lower_calls.cpp
// (Triton's functions).
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "syncopate/kernel/program_internal.h"

namespace syncopate::lowering {

/// What an expression came to: one register, a tuple, or a function of the file.
struct Operand {
  Register value = kNoRegister;
  bool is_tuple = false;
  std::vector<Operand> items;
  const Function* function = nullptr;

  static Operand single(Register value) { return {value, false, {}, nullptr}; }
  static Operand tuple(std::vector<Operand> items) { return {kNoRegister, true, std::move(items), nullptr}; }
  static Operand callable(const Function& function) { return {kNoRegister, false, {}, &function}; }
};

/// The names of one function that is being inlined, and its returns.
struct Scope {
  const Function* function = nullptr;  ///< null in the scope of module constants
  std::map<std::string, Operand, std::less<>> variables;
  std::optional<Operand> result;
  std::vector<std::size_t> return_jumps;
};

/// Jumps of a loop whose targets are not known yet.
struct Loop {
  std::vector<std::size_t> breaks;
  std::vector<std::size_t> continues;
};

class Lowering {
 public:
  Lowering(std::shared_ptr<const Module> module, const Statement* probe_after);

  std::shared_ptr<const Program> lower(const Function& function, const std::vector<std::string>& index_variables);

  [[noreturn]] void fail(ByteRange where, std::string problem, std::string remedy = {}) const;

  // Expressions (lower_expression.cpp). `into`, if given, is the register that the last instruction should write.
  Operand evaluate(const Expression& expression, Register into = kNoRegister);
  Register evaluate_value(const Expression& expression, Register into = kNoRegister);
  Operand inline_call(const Function& function, const Expression& call);
  /// The same with values that are there already, for the first parameters.
  Operand inline_call(const Function& function, const std::vector<Operand>& values, ByteRange call);

  // Triton's functions (lower_calls.cpp).
  Operand lower_call(const Expression& call, Register into);
  /// The name inside triton.language of a dotted name ("load" of "tl.load", "libdevice.tanh" of whatever the file calls
  /// that), or "" if it is something else.
  std::string language_name(std::string_view dotted) const;

  // Building blocks.
  /// A loop of the lowering itself: body(counter) for the counters from `begin` to before `end`.
  void repeat(Register begin, Register end, ByteRange range, const std::function<void(Register)>& body);
  /// The user's mistake, if it comes to that.
  void emit_refusal(const std::string& problem, const std::string& remedy, ByteRange range);
  std::size_t emit(Opcode opcode, std::uint8_t operation, Register result, std::span<const Register> operands,
                   ByteRange range);
  Register compute(Opcode opcode, std::uint8_t operation, std::span<const Register> operands, ByteRange range,
                   Register into = kNoRegister);
  Register compute(Opcode opcode, std::uint8_t operation, std::initializer_list<Register> operands, ByteRange range,
                   Register into = kNoRegister) {
    return compute(opcode, operation, std::span(operands.begin(), operands.size()), range, into);
  }
  Register new_register() { return program_->register_count++; }
  Register constant(Constant value);
  Register string_constant(const std::string& text);
  /// The value of a constant's register, or nothing.
  std::optional<Constant> constant_in(Register value) const;
  /// The integer of a constant's register; UserError at `where` if it is not one.
  std::int64_t constant_integer(Register value, ByteRange where, std::string_view what) const;
  void copy_into(const Operand& target, const Operand& value, const std::string& name, ByteRange where);
  Operand new_like(const Operand& value, bool variable);
  bool is_local(std::string_view name) const { return scope_->variables.contains(name); }
  Instruction& instruction(std::size_t index) { return program_->instructions[index]; }

 private:
  void lower_body(const std::vector<std::unique_ptr<Statement>>& body);
  void lower_branch(const std::vector<std::unique_ptr<Statement>>& body);
  void lower_statement(const Statement& statement);
  void lower_assignment(const Statement& statement);
  void lower_augmented(const Statement& statement);
  void lower_if(const Statement& statement);
  void lower_for(const Statement& statement);
  bool holds_probe(const std::vector<std::unique_ptr<Statement>>& body) const;
  std::vector<Register> range_bounds(const Expression& call, std::string_view shown);
  void lower_while(const Statement& statement);
  void lower_return(const Statement& statement);
  void emit_probe(ByteRange range);
  void assign(const Expression& target, const Operand& value);
  void assign_name(const std::string& name, const Operand& value, ByteRange where);
  Operand detach(const Operand& value, ByteRange where);
  Operand inline_body(const Function& function, const std::vector<std::optional<Operand>>& values, ByteRange call);
  void mark_variable(Register value) { variables_.insert(value); }

  Operand evaluate_name(const Expression& expression);
  Operand evaluate_attribute(const Expression& expression, Register into);
  Operand evaluate_subscript(const Expression& expression, Register into);
  Operand item_of(const Operand& tuple, const Expression& subscript);
  Operand evaluate_conditional(const Expression& expression);
  Operand evaluate_logical(const Expression& expression);
  Register evaluate_unary(const Expression& expression, Register into);
  const std::set<std::string, std::less<>>& assigned_names(const Function& function);

  void patch(std::size_t jump) { program_->instructions[jump].target = here(); }
  std::int32_t here() const { return static_cast<std::int32_t>(program_->instructions.size()); }

  std::shared_ptr<Program> program_;
  const Module& module_;
  const Statement* probe_after_;
  std::vector<Register> probed_;
  Scope* scope_ = nullptr;
  Scope* outermost_ = nullptr;
  std::vector<Loop> loops_;
  std::vector<const Function*> call_stack_;
  std::set<Register> variables_;  ///< registers that a later statement may write
  std::map<const Function*, std::set<std::string, std::less<>>> assigned_;
  std::map<std::string, std::string, std::less<>> imported_;  ///< what names of the file stand for
  int constant_depth_ = 0;
  mutable ByteRange refused_;  ///< where fail() was last called for
};

/// The operation of a Python operator such as "//", or nothing.
std::optional<BinaryOperation> binary_operation(std::string_view text);

/// "load, store, ...": every name of triton.language that is supported.
std::string supported_functions();

}  // namespace syncopate::lowering
