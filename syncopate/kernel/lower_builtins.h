// The functions of triton.language and what each is lowered to.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "syncopate/kernel/lower_internal.h"

namespace syncopate::lowering {

/// One call with its arguments sorted out. A parameter that is not given is kNoRegister.
struct Call {
  Lowering& lowering;
  const Expression& expression;
  Register into;
  std::vector<Operand> arguments;  ///< by parameter
  std::vector<bool> given;
  std::vector<Operand> rest;  ///< positional arguments after the last parameter, for functions that take a shape

  ByteRange range() const { return expression.range; }
  [[noreturn]] void fail(std::string problem, std::string remedy = {}) const {
    lowering.fail(range(), std::move(problem), std::move(remedy));
  }
  Register value(std::size_t parameter) const;
  /// A given argument that is None counts as left out.
  Register optional(std::size_t parameter) const;
  /// A given argument that must be written as True or False.
  bool truth(std::size_t parameter, std::string_view name, bool otherwise) const;
  /// The same for True, False or an expression of constexpr arguments: a register.
  Register flag(std::size_t parameter) const;
  Register compute(Opcode opcode, std::uint8_t operation, std::span<const Register> operands) const {
    return lowering.compute(opcode, operation, operands, range(), into);
  }
  Register compute(Opcode opcode, std::uint8_t operation, std::initializer_list<Register> operands) const {
    return lowering.compute(opcode, operation, operands, range(), into);
  }
  /// On the way to the result: into a register of its own.
  Register part(Opcode opcode, std::uint8_t operation, std::initializer_list<Register> operands) const {
    return lowering.compute(opcode, operation, operands, range());
  }
  Register binary(BinaryOperation operation, Register left, Register right) const {
    return part(Opcode::binary, static_cast<std::uint8_t>(operation), {left, right});
  }
  Register unary(UnaryOperation operation, Register operand) const {
    return part(Opcode::unary, static_cast<std::uint8_t>(operation), {operand});
  }
  void emit(Opcode opcode, std::span<const Register> operands) const {
    lowering.emit(opcode, 0, kNoRegister, operands, range());
  }
  Register none() const { return lowering.constant(std::monostate{}); }
};

void append(std::vector<Register>& registers, const Operand& operand);
/// `first`, then what the parameter `shape` and the rest of the arguments hold.
std::vector<Register> with_shape(const Call& call, std::initializer_list<Register> first, std::size_t shape);

using Handler = Operand (*)(const Call&);

struct Builtin {
  std::string_view name;
  std::vector<std::string_view> parameters;
  std::size_t required;
  std::vector<std::string_view> ignored;  ///< keywords that change speed, not meaning (or only how a GPU rounds)
  Handler handler;
  bool takes_rest = false;
};

/// Of triton.language; names of its math module begin with "math.", those of libdevice with "libdevice.". Or nullptr.
const Builtin* find_builtin(std::string_view name);
/// Functions of Python itself.
const Builtin* find_python_function(std::string_view name);
/// Methods of blocks, pointers and descriptors.
const Builtin* find_method(std::string_view name);
/// What is no function of triton.language here, and what to do instead; "" where nothing more is known.
std::string_view remedy_for(std::string_view name);

// Handlers (lower_block_builtins.cpp).
Operand lower_load(const Call& call);
Operand lower_store(const Call& call);
Operand lower_make_descriptor(const Call& call);
Operand lower_descriptor_load(const Call& call);
Operand lower_descriptor_store(const Call& call);
Operand lower_make_block_pointer(const Call& call);
Operand lower_advance(const Call& call);
Operand lower_sum(const Call& call);
Operand lower_minimum(const Call& call);
Operand lower_maximum(const Call& call);
Operand lower_argmin(const Call& call);
Operand lower_argmax(const Call& call);
Operand lower_xor_sum(const Call& call);
Operand lower_reduce_or(const Call& call);
Operand lower_cumsum(const Call& call);
Operand lower_cumprod(const Call& call);
Operand lower_sort(const Call& call);
Operand lower_softmax(const Call& call);
Operand lower_reduce(const Call& call);
Operand lower_associative_scan(const Call& call);

}  // namespace syncopate::lowering
