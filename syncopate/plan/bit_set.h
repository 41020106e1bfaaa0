// Sets of small integers, one per row, for reachability.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace syncopate {

/// A fixed-size set of integers 0..size-1.
class BitSet {
 public:
  explicit BitSet(std::size_t size = 0) : words_((size + 63) / 64) {}
  bool contains(int item) const { return ((words_[word(item)] >> bit(item)) & 1U) != 0; }
  void insert(int item) { words_[word(item)] |= std::uint64_t{1} << bit(item); }
  BitSet& operator|=(const BitSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }

 private:
  static std::size_t word(int item) { return static_cast<std::size_t>(item) / 64; }
  static unsigned bit(int item) { return static_cast<unsigned>(item) % 64; }
  std::vector<std::uint64_t> words_;
};

}  // namespace syncopate
