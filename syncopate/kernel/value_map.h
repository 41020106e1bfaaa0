// Walking the elements of one or two broadcast operands. For the value_*.cpp files only.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "syncopate/kernel/value.h"

namespace syncopate::concrete {

/// The elements of an operand in the type that computes them, with a stride per dimension of the result.
template <typename T>
struct View {
  const T* elements = nullptr;
  std::array<std::int64_t, kMaxRank> strides{};
};

template <typename T>
constexpr Storage storage_for() {
  if constexpr (std::is_same_v<T, float>) return Storage::float32;
  if constexpr (std::is_same_v<T, double>) return Storage::float64;
  if constexpr (std::is_same_v<T, std::int64_t>) return Storage::int64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return Storage::byte;
}

template <typename T>
T scalar_as(const Value& value) {
  return value.kind == Kind::floating ? static_cast<T>(value.number) : static_cast<T>(value.integer);
}

template <typename From, typename To>
void convert(const From* from, std::int64_t count, To* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

/// Elements of one operand while an operation runs: its own, or a converted copy.
template <typename T>
class Elements {
 public:
  Elements(const Value& value, const Extents& result) {
    if (!value.is_block()) {
      scalar_ = scalar_as<T>(value);
      view_.elements = &scalar_;
      return;
    }
    if (storage_of(value) == storage_for<T>()) {
      view_.elements = value.elements<T>();
    } else {
      const std::int64_t count = value.extents.count();
      converted_.resize(static_cast<std::size_t>(count));
      switch (storage_of(value)) {
        case Storage::float32:
          convert(value.elements<float>(), count, converted_.data());
          break;
        case Storage::float64:
          convert(value.elements<double>(), count, converted_.data());
          break;
        case Storage::int64:
          convert(value.elements<std::int64_t>(), count, converted_.data());
          break;
        case Storage::byte:
          convert(value.elements<std::uint8_t>(), count, converted_.data());
          break;
      }
      view_.elements = converted_.data();
    }
    // Missing leading dimensions and extents of 1 repeat: stride 0.
    std::int64_t stride = 1;
    for (int d = value.extents.rank - 1; d >= 0; --d) {
      const int target = d + result.rank - value.extents.rank;
      view_.strides[static_cast<std::size_t>(target)] = value.extents[d] == 1 ? 0 : stride;
      stride *= value.extents[d];
    }
  }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  const View<T>& view() const { return view_; }

 private:
  T scalar_{};
  std::vector<T> converted_;
  View<T> view_;
};

/// out[i] = f(a[i], b[i]) over the result's elements in row-major order.
template <typename T, typename R, typename F>
void for_each_pair(const View<T>& a, const View<T>& b, const Extents& extents, R* out, F f) {
  // Join the trailing dimensions that are contiguous in, or repeated by, both operands into one inner loop.
  int inner = extents.rank - 1;
  std::int64_t count = extents[inner];
  const auto at = [](int d) { return static_cast<std::size_t>(d); };
  const std::int64_t step_a = a.strides[at(inner)];
  const std::int64_t step_b = b.strides[at(inner)];
  while (inner > 0 && a.strides[at(inner - 1)] == step_a * count && b.strides[at(inner - 1)] == step_b * count) {
    --inner;
    count *= extents[inner];
  }
  std::array<std::int64_t, kMaxRank> index{};
  const T* row_a = a.elements;
  const T* row_b = b.elements;
  const std::int64_t total = extents.count();
  for (std::int64_t done = 0; done < total; done += count, out += count) {
    if (step_a != 0 && step_b != 0) {
      for (std::int64_t i = 0; i < count; ++i) out[i] = f(row_a[i], row_b[i]);
    } else if (step_a != 0) {
      const T right = *row_b;
      for (std::int64_t i = 0; i < count; ++i) out[i] = f(row_a[i], right);
    } else if (step_b != 0) {
      const T left = *row_a;
      for (std::int64_t i = 0; i < count; ++i) out[i] = f(left, row_b[i]);
    } else {
      std::fill_n(out, count, static_cast<R>(f(*row_a, *row_b)));
    }
    for (int d = inner - 1; d >= 0; --d) {
      row_a += a.strides[at(d)];
      row_b += b.strides[at(d)];
      if (++index[at(d)] < extents[d]) break;
      row_a -= a.strides[at(d)] * extents[d];
      row_b -= b.strides[at(d)] * extents[d];
      index[at(d)] = 0;
    }
  }
}

}  // namespace syncopate::concrete
