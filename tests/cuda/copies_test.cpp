#include "syncopate/cuda/copies.h"

#include <gtest/gtest.h>

#include <numeric>

#include "syncopate/plan/random.h"

namespace syncopate::cuda {
namespace {

TEST(Copies, WholeRowsAreOneCopy) {
  const Region rows{{2, 5}, {0, 8}};
  EXPECT_EQ(copies_between(rows, {10, 8}, rows, {10, 8}), (std::vector<Copy>{{16, 16, 24}}));
}

TEST(Copies, PartsOfRowsAreOneStridedCopy) {
  const Region box{{2, 5}, {1, 4}};
  EXPECT_EQ(copies_between(box, {10, 8}, box, {10, 8}), (std::vector<Copy>{{17, 17, 3, 3, 8, 8}}));
}

TEST(Copies, ABoxMayBeWholeRowsOnOneSideOnly) {
  EXPECT_EQ(copies_between({{0, 3}, {0, 4}}, {3, 4}, {{1, 4}, {2, 6}}, {5, 9}),
            (std::vector<Copy>{{0, 11, 4, 3, 4, 9}}));
}

TEST(Copies, AnEmptyBoxIsNoCopy) {
  EXPECT_TRUE(copies_between({{2, 2}, {0, 8}}, {10, 8}, {{2, 2}, {0, 8}}, {10, 8}).empty());
}

/// The elements in the order in which the copies move them, as pairs (from, to).
std::vector<std::pair<std::int64_t, std::int64_t>> moved(const std::vector<Copy>& copies) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const Copy& copy : copies)
    for (std::int64_t row = 0; row < copy.rows; ++row)
      for (std::int64_t i = 0; i < copy.width; ++i)
        pairs.emplace_back(copy.source + row * copy.source_pitch + i,
                           copy.destination + row * copy.destination_pitch + i);
  return pairs;
}

TEST(Copies, MoveEveryElementOfRandomBoxesToItsPlace) {
  Random random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const int dimensions = 1 + static_cast<int>(random.below(4));
    Shape from_shape;
    Shape to_shape;
    std::vector<Range> from;
    std::vector<Range> to;
    for (int d = 0; d < dimensions; ++d) {
      const auto extent = static_cast<std::int64_t>(1 + random.below(4));
      const auto from_begin = static_cast<std::int64_t>(random.below(3));
      const auto to_begin = static_cast<std::int64_t>(random.below(3));
      from.push_back({from_begin, from_begin + extent});
      to.push_back({to_begin, to_begin + extent});
      from_shape.push_back(from_begin + extent + static_cast<std::int64_t>(random.below(2)));
      to_shape.push_back(to_begin + extent + static_cast<std::int64_t>(random.below(2)));
    }
    const Region source{std::span<const Range>(from)};
    const Region destination{std::span<const Range>(to)};
    std::vector<std::int64_t> sources;
    std::vector<std::int64_t> destinations;
    for_each_run(source, from_shape, [&](std::int64_t offset, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) sources.push_back(offset + i);
    });
    for_each_run(destination, to_shape, [&](std::int64_t offset, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) destinations.push_back(offset + i);
    });
    const auto pairs = moved(copies_between(source, from_shape, destination, to_shape));
    ASSERT_EQ(pairs.size(), sources.size());
    for (std::size_t i = 0; i < pairs.size(); ++i) ASSERT_EQ(pairs[i], std::pair(sources[i], destinations[i]));
  }
}

TEST(Copies, OffsetsAndPitchesDoNotFitIn32Bits) {
  // The last columns of two rows of a tensor of 2^33 elements, to the first columns of another.
  const std::int64_t columns = std::int64_t{1} << 29;
  const Shape shape = {16, columns};
  const auto copies =
      copies_between(Region{{14, 16}, {columns - 512, columns}}, shape, Region{{12, 14}, {0, 512}}, shape);
  const std::vector<Copy> expected = {{15 * columns - 512, 12 * columns, 512, 2, columns, columns}};
  ASSERT_EQ(copies, expected);
  const DevicePointer source = DevicePointer{1} << 40;
  const DevicePointer destination = DevicePointer{1} << 41;
  const auto operations = copy_operations(copies[0], source, destination, 2);
  ASSERT_EQ(operations.size(), 1U);
  EXPECT_EQ(operations[0].source - source, 2 * (15 * (std::uint64_t{1} << 29) - 512));
  EXPECT_EQ(operations[0].destination - destination, 2 * 12 * (std::uint64_t{1} << 29));
  EXPECT_EQ(operations[0].source_pitch, std::size_t{1} << 30);
  EXPECT_EQ(operations[0].destination_pitch, std::size_t{1} << 30);
  EXPECT_EQ(operations[0].width, 1024U);
  EXPECT_EQ(operations[0].height, 2U);
}

TEST(Copies, RowsFartherApartThanTheDriverTakesAreCopiedOneByOne) {
  const Copy copy{
      .source = 7, .destination = 9, .width = 5, .rows = 3, .source_pitch = 100, .destination_pitch = 1 << 30};
  const auto one = copy_operations(copy, 1000, 2000, 1);
  ASSERT_EQ(one.size(), 1U) << "a GiB";
  EXPECT_EQ(one[0].height, 3U);
  const auto rows = copy_operations(copy, 1000, 2000, 2);  // 2^31 bytes, one more than the largest
  ASSERT_EQ(rows.size(), 3U);
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(rows[row].source, 1000 + 2 * (7 + 100 * row));
    EXPECT_EQ(rows[row].destination, 2000 + 2 * 9 + row * (std::size_t{1} << 31));
    EXPECT_EQ(rows[row].width, 10U);
    EXPECT_EQ(rows[row].height, 1U);
  }
  const Copy run{.source = 0, .destination = 0, .width = std::int64_t{1} << 33};
  const auto whole = copy_operations(run, 1000, 2000, 2);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].width, std::size_t{1} << 34);
}

}  // namespace
}  // namespace syncopate::cuda
