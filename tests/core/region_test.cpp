#include "syncopate/core/region.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace syncopate {
namespace {

TEST(Region, VolumeContainsAndText) {
  const Region region{{2, 5}, {0, 4}};
  EXPECT_EQ(region.volume(), 12);
  EXPECT_EQ(region.to_string(), "[2:5, 0:4]");
  EXPECT_TRUE(region.contains(Region({{3, 4}, {0, 4}})));
  EXPECT_FALSE(region.contains(Region({{1, 4}, {0, 4}})));
  EXPECT_TRUE(region.contains(Region({{9, 9}, {0, 4}}))) << "an empty box is in every box";
  EXPECT_EQ(Region{}.volume(), 1) << "a scalar has one element";
}

TEST(Region, ChunkOfCutsAsTorchChunk) {
  // torch.chunk of 10 in 4: 3, 3, 3, 1; of 5 in 4: 2, 2, 1 and nothing.
  EXPECT_EQ(chunk_of({0, 10}, 4, 3), (Range{9, 10}));
  EXPECT_EQ(chunk_of({0, 5}, 4, 2), (Range{4, 5}));
  EXPECT_TRUE(chunk_of({0, 5}, 4, 3).empty());
  EXPECT_EQ(chunk_of({7, 17}, 2, 1), (Range{12, 17}));
}

TEST(Region, AppendMergedMergesOnlyBoxes) {
  std::vector<Region> list;
  append_merged(list, {{0, 4}, {0, 8}});
  append_merged(list, {{0, 4}, {8, 16}});
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0], Region({{0, 4}, {0, 16}}));
  append_merged(list, {{0, 4}, {4, 6}});
  EXPECT_EQ(list.size(), 1U) << "contained already";
  append_merged(list, {{4, 5}, {0, 8}});
  EXPECT_EQ(list.size(), 2U) << "the union is not a box";
  append_merged(list, {{6, 7}, {0, 8}});
  EXPECT_EQ(list.size(), 3U) << "a gap stays a gap";
}

TEST(Region, RunsFollowRowMajorOrder) {
  const Shape shape = {4, 3, 5};
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for_each_run(Region({{1, 3}, {0, 3}, {0, 5}}), shape,
               [&](std::int64_t o, std::int64_t n) { runs.emplace_back(o, n); });
  EXPECT_EQ(runs, (decltype(runs){{15, 30}}));
  EXPECT_EQ(contiguous_runs(Region({{1, 3}, {1, 3}, {0, 5}}), shape), 2);
  EXPECT_EQ(contiguous_runs(Region({{1, 3}, {1, 3}, {0, 4}}), shape), 4);
  EXPECT_EQ(contiguous_runs(Region({{1, 1}, {1, 3}, {0, 4}}), shape), 0);
  EXPECT_EQ(linear_offset(Region({{1, 3}, {1, 3}, {2, 4}}), shape), 15 + 5 + 2);
}

/// Set algebra against sets of elements, on random boxes of three dimensions.
class RegionAlgebra : public ::testing::TestWithParam<unsigned> {};

std::set<std::array<std::int64_t, 3>> elements(const Region& region) {
  std::set<std::array<std::int64_t, 3>> out;
  for (auto i = region[0].begin; i < region[0].end; ++i)
    for (auto j = region[1].begin; j < region[1].end; ++j)
      for (auto k = region[2].begin; k < region[2].end; ++k) out.insert({i, j, k});
  return out;
}

TEST_P(RegionAlgebra, AgreesWithElementSets) {
  std::mt19937 random(GetParam());
  const auto draw = [&] {
    Region region = Region::whole({1, 1, 1});
    for (int d = 0; d < 3; ++d) {
      const auto begin = static_cast<std::int64_t>(random() % 6);
      region[d] = {begin, begin + static_cast<std::int64_t>(random() % 5)};
    }
    return region;
  };
  for (int round = 0; round < 200; ++round) {
    const Region a = draw();
    const Region b = draw();
    const auto set_a = elements(a);
    const auto set_b = elements(b);
    std::set<std::array<std::int64_t, 3>> common;
    std::set<std::array<std::int64_t, 3>> rest;
    for (const auto& e : set_a) (set_b.contains(e) ? common : rest).insert(e);
    EXPECT_EQ(elements(intersect(a, b)), common);
    std::set<std::array<std::int64_t, 3>> pieces;
    std::int64_t volume_of_pieces = 0;
    for (const Region& piece : subtract(a, b)) {
      pieces.merge(elements(piece));
      volume_of_pieces += piece.volume();
    }
    EXPECT_EQ(pieces, rest);
    EXPECT_EQ(volume_of_pieces, static_cast<std::int64_t>(rest.size())) << "pieces are disjoint";
    std::int64_t hole_volume = 0;
    const std::vector<Region> parts = {b, draw()};
    for (const Region& hole : uncovered(a, parts)) hole_volume += hole.volume();
    std::int64_t expected = 0;
    for (const auto& e : set_a) expected += !set_b.contains(e) && !elements(parts[1]).contains(e) ? 1 : 0;
    EXPECT_EQ(hole_volume, expected);
    EXPECT_EQ(a.overlaps(b), !common.empty());
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RegionAlgebra, ::testing::Range(0U, 5U));

}  // namespace
}  // namespace syncopate
