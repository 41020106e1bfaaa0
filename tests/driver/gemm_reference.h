// Products computed without any of Syncopate's evaluator, to hold its results against.
#pragma once

#include <string>
#include <vector>

#include "syncopate/host/host.h"
#include "syncopate/plan/operator.h"

namespace syncopate::testing {

struct ProductSize {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};
/// What every operator of the end-to-end tests is given: the size, in tiles of 16x16x16, ranks and workers.
/// `split_helper`: the kernel is gemm_split_helper, whose parameters have names of their own.
std::vector<Override> product_overrides(const ProductSize& size, int ranks, int workers, bool split_helper);

/// Recomputes C = A B of one rank from what the run says went in, in 64-bit integers, and compares every element of
/// what came out exactly. Inputs must be small integers. "" if all agree, else the first difference. The buffers are a
/// [M, K], b [K, N], c [M, N] in that order.
std::string compare_exactly(const Plan& plan, const LaunchData& data, int rank);

/// Recomputes in fp64 and compares within a bound derived per element:
///   |c - ref| <= K u32 S + u16 (|ref| + K u32 S),   S = sum over k of |a| |b|,  u32 = 2^-24, u16 = 2^-8 (bf16),
/// the first term for K additions in fp32 in any order, the second for the final rounding (Higham, Accuracy and
/// Stability of Numerical Algorithms, section 3.1). Products of bf16 values are exact in fp32. Reports the tile with
/// the largest share of its bound; "" if all are within.
std::string compare_with_bound(const Plan& plan, const LaunchData& data, int rank);

/// The same for C = sum over all ranks of their A B, each rank left with its part of it (output_region()).
std::string compare_sum_exactly(const Plan& plan, const LaunchData& data);

/// Recomputes the sum in fp64 and compares within a bound derived per element. A rank's summand has the bound e of
/// compare_with_bound(). A sum of n terms with values v and bounds e, added in fp32 from 0 and rounded, has
///   E + n u32 T + u16 (|V| + E + n u32 T),   V = sum of v, E = sum of e, T = sum of |v| + e,
/// to be applied to the sums inside of the stated order (Plan::sums) first; so a ring has one rounding per hop.
std::string compare_sum_with_bound(const Plan& plan, const LaunchData& data);

}  // namespace syncopate::testing
