// A quick answer to "must this operator have completed before that one starts?" for the most frequent yes: operators
// that follow each other hop by hop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace syncopate {

/// Operators, known by number, divided into chains in which each depends on the one before it.
class Chains {
 public:
  explicit Chains(std::size_t operators) : chain_(operators), place_(operators) {}

  /// Adds an operator, after all that it depends on: to the chain of the first of these that ends one, or to a new one.
  void add(std::size_t op, const std::vector<std::size_t>& dependencies) {
    for (const std::size_t d : dependencies)
      if (ends_[chain_[d]] == d) return put(op, chain_[d], place_[d] + 1);
    ends_.push_back(op);
    put(op, static_cast<std::uint32_t>(ends_.size()) - 1, 0);
  }

  /// Whether both are of one chain and `earlier` stands before `later` in it. False says nothing.
  bool in_order(std::size_t earlier, std::size_t later) const {
    return chain_[earlier] == chain_[later] && place_[earlier] < place_[later];
  }

  std::uint32_t chain(std::size_t op) const { return chain_[op]; }

 private:
  void put(std::size_t op, std::uint32_t chain, std::uint32_t place) {
    chain_[op] = chain;
    place_[op] = place;
    ends_[chain] = op;
  }

  std::vector<std::uint32_t> chain_;  ///< of each operator
  std::vector<std::uint32_t> place_;  ///< of each operator in its chain
  std::vector<std::size_t> ends_;     ///< of each chain its last operator
};

}  // namespace syncopate
