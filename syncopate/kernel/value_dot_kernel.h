// The inner loops of a matrix product, compiled once per vector width: value_dot.cpp includes this for the portable
// kernel, value_dot_avx2.cpp and value_dot_avx512.cpp with wider vectors enabled. Every output element is one chain of
// rounded products and sums in ascending k in each of them, and the files are compiled without contraction to fused
// multiply-add, so all give the same bits. Everything is local to the including file, and nothing of the standard
// library's is instantiated here: a function compiled for wide vectors must never be shared with another file.
#pragma once

#include <cstddef>

namespace syncopate::concrete {

/// out [m, n] += a [m, k] @ b [k, n], all row-major and contiguous.
struct Product {
  const float* a;
  const float* b;
  float* out;
  std::size_t m;
  std::size_t n;
  std::size_t k;
};

#if defined(__x86_64__)
void multiply_avx2(const Product& product);
void multiply_avx512(const Product& product);
#endif

namespace {

template <std::size_t width>
struct Vector {
  typedef float Type __attribute__((vector_size(sizeof(float) * width), aligned(alignof(float)), may_alias));
};

/// `rows` x (`vectors` of `width`) elements of the output stay in registers while k runs.
template <std::size_t rows, std::size_t vectors, std::size_t width>
inline void multiply_block(const Product& p, std::size_t row, std::size_t column) {
  using Type = typename Vector<width>::Type;
  Type sum[rows][vectors];
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t v = 0; v < vectors; ++v)
      sum[r][v] = *reinterpret_cast<const Type*>(p.out + (row + r) * p.n + column + v * width);
  const float* const a = p.a + row * p.k;
  const float* b = p.b + column;
  for (std::size_t k = 0; k < p.k; ++k, b += p.n) {
    Type line[vectors];
    for (std::size_t v = 0; v < vectors; ++v) line[v] = *reinterpret_cast<const Type*>(b + v * width);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t v = 0; v < vectors; ++v) sum[r][v] += a[r * p.k + k] * line[v];
  }
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t v = 0; v < vectors; ++v)
      *reinterpret_cast<Type*>(p.out + (row + r) * p.n + column + v * width) = sum[r][v];
}

template <std::size_t rows, std::size_t vectors, std::size_t width>
inline void multiply(const Product& p) {
  constexpr std::size_t columns = vectors * width;
  const std::size_t whole_rows = p.m - p.m % rows;
  const std::size_t whole_columns = p.n - p.n % columns;
  // Columns outside: a strip of b, k x columns, stays in the first cache while the rows pass.
  for (std::size_t column = 0; column < whole_columns; column += columns)
    for (std::size_t row = 0; row < whole_rows; row += rows) multiply_block<rows, vectors, width>(p, row, column);
  for (std::size_t row = 0; row < p.m; ++row)
    for (std::size_t column = row < whole_rows ? whole_columns : 0; column < p.n; ++column)
      multiply_block<1, 1, 1>(p, row, column);
}

}  // namespace
}  // namespace syncopate::concrete
