// How large the numbers of operators and plans may be. Nothing that anyone runs comes near; below them products of a
// size with an element size, a tile size or a number of ranks stay far from the limits of 64 bits.
#pragma once

#include <cstdint>

namespace syncopate {

inline constexpr std::int64_t kMostRanks = 1024;
inline constexpr std::int64_t kMostWorkers = 65535;                   ///< thread blocks of a launch, per rank
inline constexpr std::int64_t kMostLookahead = 32;                    ///< slots: the threads of a warp look at one each
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 48;  ///< of a tensor
inline constexpr std::int64_t kMostPrograms = std::int64_t{1} << 20;  ///< of a local kernel's launch
inline constexpr std::int64_t kMostIterations = std::int64_t{1} << 32;  ///< of a loop: its variable has 32 bits
inline constexpr std::int64_t kMostAlongAxis = std::int64_t{1} << 30;   ///< tiles along one axis

}  // namespace syncopate
