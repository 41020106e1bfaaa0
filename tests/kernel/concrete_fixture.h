// Memory and helpers for tests that run kernels in the concrete machine.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "syncopate/core/dtype.h"
#include "syncopate/core/error.h"
#include "syncopate/kernel/concrete.h"
#include "syncopate/kernel/syntax.h"

namespace syncopate {

/// Buffers in plain memory. Remembers every access; waits are satisfied by the flags in a buffer of int64.
class FakeMemory : public Environment {
 public:
  struct Access {
    int buffer = 0;
    AccessKind kind = AccessKind::read;
    std::vector<Run> runs;
    SourceLocation where;
  };

  int add(Dtype dtype, std::int64_t elements) {
    buffers_.push_back({dtype, std::vector<std::byte>(static_cast<std::size_t>(elements * size_in_bytes(dtype)))});
    return static_cast<int>(buffers_.size()) - 1;
  }
  /// A buffer with these values.
  int add(Dtype dtype, const std::vector<double>& values) {
    const int buffer = add(dtype, static_cast<std::int64_t>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) set(buffer, static_cast<std::int64_t>(i), values[i]);
    return buffer;
  }
  BufferArgument argument(int buffer) const { return {buffer, at(buffer).dtype}; }

  void set(int buffer, std::int64_t index, double value) {
    Buffer& target = buffers_[static_cast<std::size_t>(buffer)];
    std::byte* const address = target.bytes.data() + index * size_in_bytes(target.dtype);
    const auto integer = static_cast<std::int64_t>(value);
    if (target.dtype == Dtype::fp64)
      std::memcpy(address, &value, 8);
    else if (is_floating(target.dtype))
      store_element(address, target.dtype, static_cast<float>(value));
    else
      std::memcpy(address, &integer, static_cast<std::size_t>(size_in_bytes(target.dtype)));  // little endian
  }
  double get(int buffer, std::int64_t index) const {
    const Buffer& source = at(buffer);
    const int size = size_in_bytes(source.dtype);
    const std::byte* const address = source.bytes.data() + index * size;
    if (source.dtype == Dtype::fp64) {
      double value = 0;
      std::memcpy(&value, address, 8);
      return value;
    }
    if (is_floating(source.dtype)) return static_cast<double>(load_element(address, source.dtype));
    std::int64_t value = 0;
    std::memcpy(&value, address, static_cast<std::size_t>(size));
    const int unused_bits = 64 - 8 * size;
    if (is_signed_integer(source.dtype))
      value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << unused_bits) >> unused_bits;
    return static_cast<double>(value);
  }
  std::vector<double> values(int buffer) const {
    std::vector<double> result;
    const Buffer& source = at(buffer);
    const auto count = static_cast<std::int64_t>(source.bytes.size()) / size_in_bytes(source.dtype);
    for (std::int64_t i = 0; i < count; ++i) result.push_back(get(buffer, i));
    return result;
  }

  std::span<std::byte> access(int buffer, AccessKind kind, std::span<const Run> runs,
                              const SourceLocation& where) override {
    accesses.push_back({buffer, kind, {runs.begin(), runs.end()}, where});
    Buffer& target = buffers_[static_cast<std::size_t>(buffer)];
    const auto count = static_cast<std::int64_t>(target.bytes.size()) / size_in_bytes(target.dtype);
    for (const Run& run : runs)
      if (run.offset < 0 || run.offset + run.count > count)
        throw UserError(where, "an access outside the buffer: " + std::to_string(run.offset));
    return target.bytes;
  }
  bool wait(const WaitRequest& request) override {
    waits.push_back(request);
    return get(request.flags_buffer, request.slot) >= static_cast<double>(request.expected);
  }

  std::vector<Access> accesses;
  std::vector<WaitRequest> waits;

 private:
  struct Buffer {
    Dtype dtype;
    std::vector<std::byte> bytes;
  };
  const Buffer& at(int buffer) const { return buffers_[static_cast<std::size_t>(buffer)]; }
  std::vector<Buffer> buffers_;
};

inline std::shared_ptr<const Program> lower_text(const std::string& text, const std::string& function = "kernel") {
  const std::string imports = "import triton\nimport triton.language as tl\n";
  const auto module = parse_module(std::make_shared<SourceFile>("kernel.py", imports + text));
  const Function* const found = module->find(function);
  if (!found) throw std::runtime_error("no function " + function);
  return lower(module, *found);
}

inline std::shared_ptr<const Program> lower_kernel_file(const std::string& file, const std::string& function) {
  const auto module = parse_module(SourceFile::read(std::string(SYNCOPATE_SOURCE_DIR) + "/kernels/" + file));
  return lower(module, *module->find(function));
}

/// Runs one program of `kernel` to its end.
inline void run_text(const std::string& text, const Arguments& arguments, FakeMemory& memory) {
  run_to_end(lower_text(text), arguments, {0}, {1}, memory);
}

struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

/// -2 .. 2, different in every element and matrix.
inline double small_integers(int matrix, std::int64_t index) {
  return static_cast<double>((index * 7 + index / 11 + matrix * 3) % 5 - 2);
}
/// In (-1, 1), without a short binary form.
inline double fractions(int matrix, std::int64_t index) {
  return std::sin(static_cast<double>(index) * 12.9898 + matrix * 78.233);
}

/// Buffers 0: a [M, K], 1: b [K, N], 2: c [M, N], full of NaN.
inline FakeMemory gemm_memory(const GemmShape& shape, Dtype dtype, double (*value)(int, std::int64_t)) {
  FakeMemory memory;
  const int a = memory.add(dtype, shape.m * shape.k);
  const int b = memory.add(dtype, shape.k * shape.n);
  const int c = memory.add(dtype, shape.m * shape.n);
  for (std::int64_t i = 0; i < shape.m * shape.k; ++i) memory.set(a, i, value(0, i));
  for (std::int64_t i = 0; i < shape.k * shape.n; ++i) memory.set(b, i, value(1, i));
  for (std::int64_t i = 0; i < shape.m * shape.n; ++i) memory.set(c, i, std::nan(""));
  return memory;
}

inline Arguments gemm_arguments(const GemmShape& shape, const GemmShape& tile, Dtype dtype) {
  return {{"a_ptr", BufferArgument{0, dtype}},
          {"b_ptr", BufferArgument{1, dtype}},
          {"c_ptr", BufferArgument{2, dtype}},
          {"M", shape.m},
          {"N", shape.n},
          {"K", shape.k},
          {"BLOCK_M", tile.m},
          {"BLOCK_N", tile.n},
          {"BLOCK_K", tile.k},
          {"GROUP_M", std::int64_t{2}}};
}

/// Calls check(index in c, exact sum, sum of magnitudes) for every element of the product, computed in double.
inline void for_each_product(const FakeMemory& memory, const GemmShape& shape,
                             const std::function<void(std::int64_t, double, double)>& check) {
  const std::vector<double> a = memory.values(0);
  const std::vector<double> b = memory.values(1);
  for (std::int64_t m = 0; m < shape.m; ++m) {
    for (std::int64_t n = 0; n < shape.n; ++n) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t k = 0; k < shape.k; ++k) {
        const double product =
            a[static_cast<std::size_t>(m * shape.k + k)] * b[static_cast<std::size_t>(k * shape.n + n)];
        sum += product;
        magnitude += std::abs(product);
      }
      check(m * shape.n + n, sum, magnitude);
    }
  }
}

inline void expect_exact_product(const FakeMemory& memory, const GemmShape& shape) {
  for_each_product(memory, shape, [&](std::int64_t index, double sum, double) {
    ASSERT_EQ(memory.get(2, index), sum) << "row " << index / shape.n << ", column " << index % shape.n;
  });
}

}  // namespace syncopate
