// Lowering of what accesses memory, and of reductions and scans.
#include <fmt/format.h>

#include <array>

#include "syncopate/kernel/lower_builtins.h"

namespace syncopate::lowering {
namespace {

constexpr std::uint8_t code(ReduceOperation operation) { return static_cast<std::uint8_t>(operation); }

/// The dimensions that boundary_check names: a tuple of numbers, or one.
std::vector<Register> checked_dimensions(const Call& call, std::size_t parameter) {
  std::vector<Register> dimensions;
  if (call.given[parameter]) append(dimensions, call.arguments[parameter]);
  return dimensions;
}

/// Lists of one length, each of at least one number.
std::size_t check_lists(const Call& call, std::size_t first, std::size_t last, const char* what) {
  const std::size_t rank = call.arguments[first].items.size();
  for (std::size_t i = first; i <= last; ++i)
    if (!call.arguments[i].is_tuple || call.arguments[i].items.size() != rank || rank == 0)
      call.fail(fmt::format("{} are not lists of one length", what), "give one number per dimension in each");
  return rank;
}

void check_axis(const Call& call, Register axis) {
  if (axis == kNoRegister) call.fail("keep_dims without an axis is not supported", "reduce one axis after the other");
}

/// The result, with the reduced axis as a dimension of extent 1 if it is kept.
Operand kept(const Call& call, Register reduced, Register axis, bool keep) {
  if (!keep) return Operand::single(reduced);
  check_axis(call, axis);
  return Operand::single(call.part(Opcode::expand_dims, 0, {reduced, axis}));
}

Operand reduce(const Call& call, Opcode opcode, ReduceOperation operation, Register input, Register axis, bool keep) {
  if (!keep) return Operand::single(call.compute(opcode, code(operation), {input, axis}));
  check_axis(call, axis);
  return kept(call, call.part(opcode, code(operation), {input, axis}), axis, keep);
}

/// tl.min, tl.max: (input, axis, return_indices, return_indices_tie_break_left, keep_dims).
Operand extreme(const Call& call, ReduceOperation operation) {
  const Register axis = call.optional(1);
  const bool keep = call.truth(4, "keep_dims", false);
  if (!call.truth(2, "return_indices", false))
    return reduce(call, Opcode::reduce, operation, call.value(0), axis, keep);
  call.truth(3, "return_indices_tie_break_left", true);
  if (axis == kNoRegister) call.fail("return_indices without an axis", "name the axis");
  const Register best = call.part(Opcode::reduce, code(operation), {call.value(0), axis});
  const Register index = call.part(Opcode::index_of, code(operation), {call.value(0), axis});
  return Operand::tuple({kept(call, best, axis, keep), kept(call, index, axis, keep)});
}

/// tl.argmin, tl.argmax: (input, axis, tie_break_left, keep_dims).
Operand search(const Call& call, ReduceOperation operation) {
  return reduce(call, Opcode::index_of, operation, call.value(0), call.optional(1), call.truth(3, "keep_dims", false));
}

Operand scan(const Call& call, ScanOperation operation, Register input) {
  const Register axis = call.given[1] ? call.value(1) : call.lowering.constant(std::int64_t{0});
  return Operand::single(call.compute(Opcode::scan, static_cast<std::uint8_t>(operation), {input, axis, call.flag(2)}));
}

/// The function that combines two values, of tl.reduce and tl.associative_scan.
const Function& combiner(const Call& call) {
  const Function* function = call.arguments[2].function;
  if (function == nullptr)
    call.fail("what combines two values is not a function of this file", "give a @triton.jit function of this file");
  return *function;
}

std::vector<Operand> items_of(const Operand& operand) {
  return operand.is_tuple ? operand.items : std::vector<Operand>{operand};
}

std::vector<Register> values_of(const Call& call, const Operand& operand) {
  std::vector<Register> values;
  for (const Operand& item : items_of(operand)) {
    if (item.is_tuple || item.value == kNoRegister) call.fail("this takes a block or a tuple of blocks");
    values.push_back(item.value);
  }
  return values;
}

/// A block that goes through `function` slice by slice.
class Slices {
 public:
  Slices(const Call& call, std::vector<Register> blocks, Register axis)
      : call_(call), blocks_(std::move(blocks)), axis_(axis) {
    const auto shape = static_cast<std::uint8_t>(Extent::shape);
    count_ = call.part(Opcode::extent, shape, {blocks_.front(), axis_});
  }

  Register count() const { return count_; }
  std::vector<Operand> at(Register index) const {
    std::vector<Operand> slices;
    for (const Register block : blocks_)
      slices.push_back(Operand::single(call_.part(Opcode::take, 0, {block, axis_, index})));
    return slices;
  }
  /// running = function(running..., slices at `index`...)
  void combine(std::vector<Operand>& running, const Function& function, Register index) const {
    std::vector<Operand> values = running;
    for (Operand& slice : at(index)) values.push_back(std::move(slice));
    const std::vector<Operand> combined = items_of(call_.lowering.inline_call(function, values, call_.range()));
    if (combined.size() != running.size())
      call_.fail(fmt::format("'{}' combines {} values to {}", function.name, running.size(), combined.size()),
                 "let it return as many as it combines");
    for (std::size_t i = 0; i < running.size(); ++i)
      call_.lowering.copy_into(running[i], combined[i], "a combined value", call_.range());
  }

 private:
  const Call& call_;
  std::vector<Register> blocks_;
  Register axis_;
  Register count_ = kNoRegister;
};

/// The slices at `index`, in registers that may be written.
std::vector<Operand> first_of(const Call& call, const Slices& slices, Register index) {
  std::vector<Operand> running;
  for (const Operand& slice : slices.at(index)) {
    running.push_back(call.lowering.new_like(slice, false));
    call.lowering.copy_into(running.back(), slice, "a combined value", call.range());
  }
  return running;
}

Operand as_given(const Operand& given, std::vector<Operand> results) {
  return given.is_tuple ? Operand::tuple(std::move(results)) : results.front();
}

}  // namespace

Operand lower_load(const Call& call) {
  std::vector<Register> operands = {call.value(0), call.optional(1), call.optional(2), call.optional(4)};
  const std::vector<Register> checked = checked_dimensions(call, 3);
  operands.insert(operands.end(), checked.begin(), checked.end());
  return Operand::single(call.compute(Opcode::load, 0, operands));
}

Operand lower_store(const Call& call) {
  std::vector<Register> operands = {call.value(0), call.value(1), call.optional(2)};
  const std::vector<Register> checked = checked_dimensions(call, 3);
  operands.insert(operands.end(), checked.begin(), checked.end());
  call.emit(Opcode::store, operands);
  return Operand::single(call.none());
}

Operand lower_make_descriptor(const Call& call) {
  check_lists(call, 1, 3, "shape, strides and block_shape of a descriptor");
  std::vector<Register> operands = {call.value(0)};
  for (std::size_t i = 1; i <= 3; ++i) append(operands, call.arguments[i]);
  if (call.given[4]) {
    const std::optional<Constant> padding = call.lowering.constant_in(call.value(4));
    if (padding != std::optional<Constant>(call.lowering.constant_in(call.lowering.string_constant("zero"))))
      call.fail("padding_option is not \"zero\"", "only padding with zeros is supported");
  }
  return Operand::single(call.compute(Opcode::make_descriptor, 0, operands));
}

Operand lower_descriptor_load(const Call& call) {
  return Operand::single(call.compute(Opcode::descriptor_load, 0, with_shape(call, {call.value(0)}, 1)));
}

Operand lower_descriptor_store(const Call& call) {
  std::vector<Register> operands = {call.value(0), call.value(2)};
  append(operands, call.arguments[1]);
  call.emit(Opcode::descriptor_store, operands);
  return Operand::single(call.none());
}

/// (base, shape, strides, offsets, block_shape, order).
Operand lower_make_block_pointer(const Call& call) {
  const std::size_t rank = check_lists(call, 1, 5, "shape, strides, offsets, block_shape and order of a block pointer");
  // The order says how a GPU lays the block out; all that it can get wrong is not to be one.
  std::vector<bool> used(rank, false);
  for (const Operand& item : call.arguments[5].items) {
    const std::optional<Constant> known = call.lowering.constant_in(item.value);
    if (!known) continue;
    const auto* number = std::get_if<std::int64_t>(&*known);
    const bool right = number != nullptr && *number >= 0 && *number < static_cast<std::int64_t>(rank) &&
                       !used[static_cast<std::size_t>(*number)];
    if (!right)
      call.fail("the order of a block pointer does not name each dimension once",
                "for row-major blocks it is (1, 0), the fastest dimension first");
    used[static_cast<std::size_t>(*number)] = true;
  }
  std::vector<Register> operands = {call.value(0)};
  for (std::size_t i = 1; i <= 4; ++i) append(operands, call.arguments[i]);
  return Operand::single(call.compute(Opcode::make_block_pointer, 0, operands));
}

Operand lower_advance(const Call& call) {
  return Operand::single(call.compute(Opcode::advance, 0, with_shape(call, {call.value(0)}, 1)));
}

/// (input, axis, keep_dims, dtype).
Operand lower_sum(const Call& call) {
  Register input = call.value(0);
  if (const Register dtype = call.optional(3); dtype != kNoRegister) input = call.part(Opcode::cast, 0, {input, dtype});
  const bool keep = call.truth(2, "keep_dims", false);
  return reduce(call, Opcode::reduce, ReduceOperation::sum, input, call.optional(1), keep);
}

Operand lower_minimum(const Call& call) { return extreme(call, ReduceOperation::minimum); }
Operand lower_maximum(const Call& call) { return extreme(call, ReduceOperation::maximum); }
Operand lower_argmin(const Call& call) { return search(call, ReduceOperation::minimum); }
Operand lower_argmax(const Call& call) { return search(call, ReduceOperation::maximum); }

Operand lower_xor_sum(const Call& call) {
  const bool keep = call.truth(2, "keep_dims", false);
  return reduce(call, Opcode::reduce, ReduceOperation::bit_xor, call.value(0), call.optional(1), keep);
}
Operand lower_reduce_or(const Call& call) {
  const bool keep = call.truth(2, "keep_dims", false);
  return reduce(call, Opcode::reduce, ReduceOperation::bit_or, call.value(0), call.optional(1), keep);
}

/// (input, axis, reverse, dtype).
Operand lower_cumsum(const Call& call) {
  Register input = call.value(0);
  if (const Register dtype = call.optional(3); dtype != kNoRegister) input = call.part(Opcode::cast, 0, {input, dtype});
  return scan(call, ScanOperation::sum, input);
}
Operand lower_cumprod(const Call& call) { return scan(call, ScanOperation::product, call.value(0)); }

/// (x, dim, descending); Triton sorts along the last dimension only.
Operand lower_sort(const Call& call) {
  if (call.optional(1) != kNoRegister)
    call.fail("tl.sort with a dimension is not supported", "leave it out: the last one is sorted");
  return Operand::single(call.compute(Opcode::sort, 0, {call.value(0), call.flag(2)}));
}

/// (x, dim, keep_dims, ieee_rounding), as Triton writes it out.
Operand lower_softmax(const Call& call) {
  const Register axis = call.optional(1) == kNoRegister ? call.lowering.constant(std::int64_t{0}) : call.optional(1);
  const bool keep = call.truth(2, "keep_dims", false);
  const auto reduced = [&](ReduceOperation operation, Register input) {
    return kept(call, call.part(Opcode::reduce, code(operation), {input, axis}), axis, keep).value;
  };
  const Register shifted =
      call.binary(BinaryOperation::subtract, call.value(0), reduced(ReduceOperation::maximum, call.value(0)));
  const Register powers = call.unary(UnaryOperation::exp, shifted);
  return Operand::single(call.binary(BinaryOperation::divide, powers, reduced(ReduceOperation::sum, powers)));
}

/// (input, axis, combine_fn, keep_dims): one slice after the other.
Operand lower_reduce(const Call& call) {
  const Function& function = combiner(call);
  std::vector<Register> blocks = values_of(call, call.arguments[0]);
  const bool keep = call.truth(3, "keep_dims", false);
  Register axis = call.optional(1);
  if (axis == kNoRegister) {
    if (keep) check_axis(call, axis);
    for (Register& block : blocks) block = call.part(Opcode::reshape, 0, {block});
    axis = call.lowering.constant(std::int64_t{0});
  }
  const Slices slices(call, std::move(blocks), axis);
  std::vector<Operand> running = first_of(call, slices, call.lowering.constant(std::int64_t{0}));
  call.lowering.repeat(call.lowering.constant(std::int64_t{1}), slices.count(), call.range(),
                       [&](Register index) { slices.combine(running, function, index); });
  for (Operand& result : running) result = kept(call, result.value, axis, keep);
  return as_given(call.arguments[0], std::move(running));
}

/// (input, axis, combine_fn, reverse).
Operand lower_associative_scan(const Call& call) {
  const Function& function = combiner(call);
  std::vector<Register> blocks = values_of(call, call.arguments[0]);
  const Register axis = call.value(1);
  const bool reverse = call.truth(3, "reverse", false);
  std::vector<Operand> results;
  for (Register& block : blocks) {
    if (reverse) block = call.part(Opcode::flip, 0, {block, axis});
    results.push_back(Operand::single(call.part(Opcode::copy, 0, {block})));
  }
  const Slices slices(call, std::move(blocks), axis);
  std::vector<Operand> running = first_of(call, slices, call.lowering.constant(std::int64_t{0}));
  call.lowering.repeat(call.lowering.constant(std::int64_t{1}), slices.count(), call.range(), [&](Register index) {
    slices.combine(running, function, index);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Register whole = results[i].value;
      call.lowering.compute(Opcode::put, 0, {whole, axis, index, running[i].value}, call.range(), whole);
    }
  });
  if (reverse)
    for (Operand& result : results) result = Operand::single(call.part(Opcode::flip, 0, {result.value, axis}));
  return as_given(call.arguments[0], std::move(results));
}

}  // namespace syncopate::lowering
