// Concrete values: what a register holds while a kernel runs on the CPU. Scalars live in the value itself; the elements
// of a block are shared between copies and copied when one of them is written (copy on write).
//
// Elements are held in the type that computes them: fp8 to fp32 as float (always a value that the dtype can represent),
// fp64 as double, integers as int64, bool as one byte, pointers as int64 offsets in elements of one buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "syncopate/core/dtype.h"

namespace syncopate::concrete {

inline constexpr int kMaxRank = 5;

enum class Kind : std::uint8_t {
  undefined,
  none,
  string,
  dtype,
  integer,
  floating,
  pointer,
  descriptor,
  block_pointer
};

/// A tensor descriptor (tl.make_tensor_descriptor) or a block pointer (tl.make_block_ptr); offsets and strides count
/// elements.
struct Descriptor {
  int buffer = 0;
  Dtype dtype = Dtype::fp32;
  int rank = 0;
  std::int64_t base = 0;
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> strides{};
  std::array<std::int64_t, kMaxRank> block{};
  std::array<std::int64_t, kMaxRank> offsets{};  ///< of a block pointer: where its block begins
};

/// Extents of a block. Rank 0 is a scalar.
struct Extents {
  int rank = 0;
  std::array<std::int64_t, kMaxRank> size{};

  std::int64_t operator[](int dimension) const { return size[static_cast<std::size_t>(dimension)]; }
  std::int64_t& operator[](int dimension) { return size[static_cast<std::size_t>(dimension)]; }
  std::int64_t count() const;
  /// "[128, 64]".
  std::string to_string() const;
  friend bool operator==(const Extents& a, const Extents& b);
};

struct Value {
  Kind kind = Kind::undefined;
  Dtype dtype = Dtype::int32;  ///< of the elements; of what a pointer points to; the dtype itself (Kind::dtype)
  /// A Python number (a literal or a constexpr argument): it takes the other operand's dtype, and integers among
  /// themselves follow Python's rules.
  bool weak = false;
  int buffer = 0;  ///< of a pointer; index of a string
  Extents extents;
  std::int64_t integer = 0;  ///< scalar integer or bool, or a scalar pointer's offset
  double number = 0;         ///< scalar floating value
  std::shared_ptr<std::byte[]> data;
  std::shared_ptr<const Descriptor> descriptor;  ///< also of a block pointer

  bool is_block() const { return extents.rank > 0; }
  bool is_boolean() const { return kind == Kind::integer && dtype == Dtype::boolean; }
  bool is_number() const { return kind == Kind::integer || kind == Kind::floating; }

  template <typename T>
  const T* elements() const {
    return reinterpret_cast<const T*>(data.get());
  }
  template <typename T>
  T* mutable_elements() {
    return reinterpret_cast<T*>(data.get());
  }
};

/// A mistake in the kernel, found in an operation that does not know its place; the machine adds the place.
struct OperationError {
  std::string problem;
  std::string remedy;
};

/// How the elements of a block of this kind and dtype are held.
enum class Storage : std::uint8_t { float32, float64, int64, byte };
Storage storage_of(Kind kind, Dtype dtype);
inline Storage storage_of(const Value& value) { return storage_of(value.kind, value.dtype); }
std::size_t bytes_of(Storage storage);

Value integer_value(std::int64_t value, Dtype dtype);
Value boolean_value(bool value);
/// Rounds to the dtype.
Value floating_value(double value, Dtype dtype);
Value weak_integer(std::int64_t value);
Value weak_number(double value);
Value none_value();
Value dtype_value(Dtype dtype);

/// A block whose elements are not set yet.
Value new_block(Kind kind, Dtype dtype, const Extents& extents);
/// Gives the block its own elements if it shares them.
void make_unique(Value& block);
/// "an int32", "a block of bf16 [128, 64]", "None": for messages.
std::string describe(const Value& value);

/// The integer in a scalar, or OperationError naming it `what`.
std::int64_t expect_integer(const Value& value, std::string_view what);
Dtype expect_dtype(const Value& value, std::string_view what);

/// `value` wrapped to a signed or unsigned integer type of fewer bits.
std::int64_t wrap(std::int64_t value, Dtype dtype);
void wrap_elements(std::span<std::int64_t> elements, Dtype dtype);
/// Rounds held floats to bf16, fp16 or fp8; nothing for fp32.
void round_elements(std::span<float> elements, Dtype dtype);

/// Memory to held elements and back. `elements` is an array of storage_of(dtype); encoding rounds.
void decode(const std::byte* memory, std::int64_t count, Dtype dtype, void* elements);
void encode(const void* elements, std::int64_t count, Dtype dtype, std::byte* memory);

}  // namespace syncopate::concrete
