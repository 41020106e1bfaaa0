// What a lowered kernel is made of. For the two value domains (concrete.h, footprint.h) and the lowering only.
//
// A program is a list of instructions over numbered registers. A register holds one Value of the domain: a scalar, a
// block, a pointer (or a block of pointers), a tensor descriptor, a block pointer, a dtype, a string or None. Tuples
// exist only while lowering: a tuple of n items is n registers. Shapes and axes are operands like everything else
// (usually registers that hold constants), because constexpr arguments are not known when a kernel is lowered.
//
// A result register may also be an operand of the same instruction (`x = x + 1` writes x in place), so a domain
// reads its operands before it writes its result. No instruction writes a register of a constant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "syncopate/core/dtype.h"
#include "syncopate/core/source.h"
#include "syncopate/kernel/program.h"

namespace syncopate {

/// Index of a register; kNoRegister stands for an operand that was left out, or for no result.
using Register = std::int32_t;
inline constexpr Register kNoRegister = -1;

enum class Opcode : std::uint8_t {
  // Control: executed by Machine (machine.h), with the domain's help where it says "asks".
  copy,            ///< result = [0]
  jump,            ///< to target
  branch_false,    ///< asks truth([0]); if false, to target
  branch_decided,  ///< `and`/`or`: to target if [0] is a known scalar whose truth is (operation != 0)
  range_begin,     ///< result = first counter of a loop over range([0] start, [1] end, [2] step); operation 1:
                   ///< static_range
  range_test,      ///< [0] counter, [1] end, [2] step; to target when the loop is over
  range_next,      ///< result = [0] counter + [1] step
  probe,           ///< operands are the registers of the index variables
  wait,            ///< result = int32 0 once flags [0] pointer, [1] slot, is >= [2] expected; [3] is the tile
  end,             ///< the kernel is over

  // Scalars and elements: executed by the domain.
  program_id,    ///< result = program id of axis [0]
  num_programs,  ///< result = number of programs of axis [0]
  unary,         ///< operation is a UnaryOperation; [0]
  binary,        ///< operation is a BinaryOperation; [0], [1] (either may be a pointer for add and subtract)
  compare,       ///< operation is a CompareOperation; [0], [1]
  where,         ///< [0] condition ? [1] : [2]
  fma,           ///< [0] * [1] + [2]
  cast,          ///< [0] to dtype [1]
  bitcast,       ///< the bits of [0] as dtype [1], which has as many
  check,         ///< [0] condition of a static assertion, [1] a string or absent: the user's mistake if it is false
  refuse,        ///< the user's mistake if it is reached: [0] problem and [1] remedy, strings
  dtype_of,      ///< dtype of the elements of [0]: a scalar or block; what a pointer or a descriptor points to
  bits_of,       ///< how many bits an element of dtype [0] has
  extent,        ///< of dimension [1] of [0]; operation is an Extent
  elements,      ///< int64: by how many elements the pointer(s) [0] are past [1]
  elsewhere,     ///< pointer(s) as far past [2] as [0] are past [1]

  // Blocks.
  arange,        ///< int32 [0] .. [1]-1
  full,          ///< [0] value, [1] dtype, [2..] shape
  full_like,     ///< [0] value, in dtype and shape of [1]
  reshape,       ///< [0], [1..] shape (none: one dimension)
  broadcast_to,  ///< [0], [1..] shape
  permute,       ///< [0], [1..] order; without an order the last two dimensions are exchanged
  expand_dims,   ///< [0], [1] axis: a new dimension of extent 1
  join,      ///< [0], [1] along a new last dimension; operation 1: that dimension is then joined with the one before
  split,     ///< result, second_result = the two halves of the last dimension of [0], whose extent is 2
  dot,       ///< [0] @ [1] + [2] (may be absent), [3] out dtype (may be absent: fp32)
  reduce,    ///< operation is a ReduceOperation; [0], [1] axis (absent: all dimensions, result is a scalar)
  index_of,  ///< operation is a ReduceOperation: int32 where along axis [1] (absent: in row-major order of all) the
             ///< least or greatest of [0] is, the first of equals
  scan,      ///< operation is a ScanOperation; [0] along axis [1]; [2] a truth: from the end
  sort,      ///< [0] along its last dimension; [1] a truth: descending
  flip,      ///< [0] with the order along axis [1] turned round
  gather,    ///< elements of [0] along axis [2] at [1]
  take,      ///< [0] at [2] along axis [1]: a block without that axis, or a scalar
  put,       ///< [0] with [3] in place of what take gives

  // Memory.
  load,                ///< [0] pointer(s), [1] mask or absent, [2] other or absent; through a block pointer [3] padding
                       ///< (a string or absent) and [4..] the dimensions whose bounds are checked
  store,               ///< [0] pointer(s), [1] value, [2] mask or absent; through a block pointer [3..] as of a load
  atomic,              ///< operation is an AtomicOperation; result = old values; [0] pointer(s), [1] value, [2] mask
  make_block_pointer,  ///< [0] pointer; the other 4 n operands are n of shape, n strides, n offsets, n of block shape
  advance,             ///< the block pointer [0] with [1..] added to its offsets
  make_descriptor,     ///< [0] pointer; the other 3 n operands are n of shape, n strides, n of block shape
  descriptor_load,     ///< [0] descriptor, [1..] offsets
  descriptor_store,    ///< [0] descriptor, [1] value, [2..] offsets
  descriptor_add,      ///< the same; adds to what is there
  raise,               ///< adds 1 to flag [2] of rank [1], whose address is in [0] pointer
  assertion,  ///< [0] condition, [1] string or absent; then pairs: a string, the value of the variable it names
};

/// Whether others may notice the instruction: a worker stops after it.
constexpr bool is_access(Opcode opcode) {
  return opcode == Opcode::load || opcode == Opcode::store || opcode == Opcode::atomic ||
         opcode == Opcode::descriptor_load || opcode == Opcode::descriptor_store || opcode == Opcode::descriptor_add ||
         opcode == Opcode::raise;
}

enum class UnaryOperation : std::uint8_t {
  negate,
  invert,       ///< ~x
  logical_not,  ///< not x
  absolute,
  exp,
  exp2,
  log,
  log2,
  sqrt,
  rsqrt,
  sigmoid,
  sin,
  cos,
  floor,
  ceil,
  truncate,
  round_even,  ///< to the nearest integer, halves to the even one
  round_away,  ///< halves away from zero
  erf,
  tanh,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  expm1,
  log1p,
};

/// Integer floor_divide, modulo and cdiv: both operands Python integers (literals, constexpr arguments): Python's
/// rounding toward minus infinity; otherwise as Triton computes at run time, toward zero.
enum class BinaryOperation : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,        ///< "/": always floating
  floor_divide,  ///< "//"
  modulo,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  minimum,
  maximum,
  cdiv,         ///< ([0] + [1] - 1) // [1]
  logical_and,  ///< bool; "and" of scalars that were not short-cut, or element by element
  logical_or,
  power,  ///< of floating numbers, as atan2
  atan2,
};

enum class CompareOperation : std::uint8_t {
  less,
  less_equal,
  greater,
  greater_equal,
  equal,  ///< also of dtypes, strings and None; things of different kinds are unequal
  not_equal,
};

enum class ReduceOperation : std::uint8_t { sum, minimum, maximum, bit_xor, bit_or };
enum class ScanOperation : std::uint8_t { sum, product };
enum class AtomicOperation : std::uint8_t { add, minimum, maximum, bit_and, bit_or, bit_xor };

/// What of a block or a descriptor: .shape, .block_shape, .strides; a block has only a shape.
enum class Extent : std::uint8_t { shape, block_shape, stride };

/// A value known when lowering. monostate is None; a string is an index into Program::strings.
struct StringConstant {
  std::int32_t index = 0;
  friend bool operator==(const StringConstant&, const StringConstant&) = default;
};
using Constant = std::variant<std::monostate, std::int64_t, double, bool, Dtype, StringConstant>;

struct Instruction {
  Opcode opcode = Opcode::end;
  std::uint8_t operation = 0;  ///< which UnaryOperation etc.; see Opcode
  Register result = kNoRegister;
  Register second_result = kNoRegister;
  std::int32_t target = 0;          ///< index of an instruction
  std::int32_t meeting = 0;         ///< of a branch_false that chooses between two arms: where both come out; else 0
  std::uint32_t first_operand = 0;  ///< into Program::operands
  std::uint32_t operand_count = 0;
  ByteRange range;  ///< what in the source this is; inside a helper it is the helper's text
};

struct ProgramParameter {
  std::string name;
  bool constexpr_ = false;
  Register value = kNoRegister;          ///< set before the first instruction
  Register default_value = kNoRegister;  ///< a constant's register, or kNoRegister: the argument is required
};

struct ConstantRegister {
  Register value = kNoRegister;
  Constant constant;
};

/// Immutable once lowered.
class Program {
 public:
  std::shared_ptr<const Module> module;   ///< keeps the source alive
  std::string name;                       ///< of the kernel
  std::vector<Instruction> instructions;  ///< starts at 0; the last is Opcode::end
  std::vector<Register> operands;
  std::vector<ConstantRegister> constants;  ///< set before the first instruction
  std::vector<std::string> strings;
  std::vector<ProgramParameter> parameters;  ///< in the function's order
  std::vector<std::string> index_variables;  ///< in the order of a probe's operands
  std::int32_t register_count = 0;

  std::span<const Register> operands_of(const Instruction& instruction) const {
    return {operands.data() + instruction.first_operand, instruction.operand_count};
  }
  SourceLocation locate(const Instruction& instruction) const { return module->locate(instruction.range); }
  /// The parameter of that name, or nullptr.
  const ProgramParameter* find_parameter(std::string_view parameter) const;
  /// One instruction a line, for tests and debugging: "12: %5 = binary add %3, %4".
  std::string to_string() const;
};

}  // namespace syncopate
