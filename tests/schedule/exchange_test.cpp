// All-reduces and all-to-alls: their meaning for every rank count, placement and ragged size, and how boxes are cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/schedule/meaning.h"
#include "syncopate/schedule/templates.h"

namespace syncopate {
namespace {

using ::testing::HasSubstr;

std::int64_t moved(const Schedule& schedule, Reduction reduction) {
  std::int64_t elements = 0;
  for (const auto& list : schedule.operators)
    for (const Operator& op : list) {
      const auto& p2p = std::get<P2P>(op.action);
      EXPECT_NE(p2p.source_rank, p2p.destination_rank);
      if (p2p.reduction == reduction)
        elements += schedule.chunks[static_cast<std::size_t>(p2p.source_chunk)].region.volume();
    }
  return elements;
}

TEST(AllReduce, EveryRankHasEverySummandOnce) {
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::bidirectional_ring})
    for (const Initiator initiator : {Initiator::push, Initiator::pull})
      for (const int ranks : {1, 2, 3, 4, 5, 8})
        for (const std::int64_t split : {1, 2, 3})
          for (const std::int64_t rows : {24, 29}) {
            const LogicalTensor tensor{"c", {rows, 5}, Dtype::bf16, Placement::partial_sum(), Placement::replicate()};
            const TemplateOptions options{algorithm, initiator, split, false};
            const Schedule schedule = all_reduce(tensor, ranks, options, {});
            EXPECT_NO_THROW(check_meaning(schedule))
                << name_of(algorithm) << ", " << ranks << " ranks, split " << split;
            EXPECT_EQ(moved(schedule, Reduction::sum), (ranks - 1) * rows * 5);
            EXPECT_EQ(moved(schedule, Reduction::none), (ranks - 1) * rows * 5);
          }
}

TEST(AllReduce, ThePhasesHavePortsOfTheirOwn) {
  const LogicalTensor tensor{"c", {12, 5}, Dtype::bf16, Placement::partial_sum(), Placement::replicate()};
  const Schedule schedule = all_reduce(tensor, 3, {Algorithm::bidirectional_ring, Initiator::push, 2, false}, {});
  for (const auto& list : schedule.operators)
    for (const Operator& op : list) EXPECT_EQ(op.port >= 2, std::get<P2P>(op.action).reduction == Reduction::none);
}

TEST(AllToAll, EveryRankHasItsPart) {
  for (const Initiator initiator : {Initiator::push, Initiator::pull})
    for (const int ranks : {1, 2, 3, 4, 5, 8})
      for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 0), std::pair(0, 2), std::pair(2, 1)})
        for (const std::int64_t split : {1, 2}) {
          const Shape shape = {13, 9, 17};
          const LogicalTensor tensor{"x", shape, Dtype::bf16, Placement::shard(from), Placement::shard(to)};
          const Schedule schedule = all_to_all(tensor, ranks, {Algorithm::direct, initiator, split, false}, {});
          EXPECT_NO_THROW(check_meaning(schedule)) << ranks << " ranks, " << from << " to " << to;
          std::int64_t stays = 0;
          for (int rank = 0; rank < ranks; ++rank)
            stays +=
                intersect(held_region(tensor.before, shape, ranks, rank), held_region(tensor.after, shape, ranks, rank))
                    .volume();
          EXPECT_EQ(moved(schedule, Reduction::none), volume(shape) - stays);
        }
}

TEST(AllToAll, Mistakes) {
  const LogicalTensor tensor{"x", {8, 8}, Dtype::bf16, Placement::shard(0), Placement::shard(1)};
  const auto error = [&](const TemplateOptions& options) -> std::string {
    try {
      all_to_all(tensor, 4, options, {"here", 3, 1});
    } catch (const UserError& caught) {
      return caught.what();
    }
    return "no error";
  };
  EXPECT_THAT(error({Algorithm::ring, Initiator::push, 1, false}),
              HasSubstr("here:3:1: there is no all-to-all by ring"));
  EXPECT_THAT(error({Algorithm::direct, Initiator::push, 0, false}), HasSubstr("split is 0; at least 1"));
  EXPECT_THAT(error({Algorithm::direct, Initiator::push, 3, false}),
              HasSubstr("the largest box that moves of 'x' is [0:2, 0:2]; at most 2"));
}

TEST(SplitBox, CutsTheOutermostDimensionThatIsLongEnough) {
  const Region box{{2, 4}, {10, 15}, {0, 9}};
  EXPECT_EQ(split_box(box, 1), (std::vector<Region>{box}));
  EXPECT_EQ(split_box(box, 2), (std::vector<Region>{{{2, 3}, {10, 15}, {0, 9}}, {{3, 4}, {10, 15}, {0, 9}}}));
  EXPECT_EQ(split_box(box, 3),
            (std::vector<Region>{{{2, 4}, {10, 12}, {0, 9}}, {{2, 4}, {12, 14}, {0, 9}}, {{2, 4}, {14, 15}, {0, 9}}}));
  EXPECT_EQ(split_box({{0, 3}, {5, 5}}, 2), std::vector<Region>{});
}

}  // namespace
}  // namespace syncopate
