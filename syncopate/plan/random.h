// The only source of chance in runs of a plan: a small generator whose numbers are the same on every platform.
#pragma once

#include <cstdint>

namespace syncopate {

/// Steele, Lea, Flood: "Fast splittable pseudorandom number generators" (2014), the 64-bit finaliser.
constexpr std::uint64_t mix_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31);
}

class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) : state_(seed) {}
  constexpr std::uint64_t next() { return mix_bits(state_ += 0x9e3779b97f4a7c15U); }
  /// Uniform in [0, bound) but for a bias below bound / 2^64; bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

}  // namespace syncopate
