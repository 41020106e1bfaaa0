#include "syncopate/schedule/draw.h"

#include <gtest/gtest.h>

#include "syncopate/schedule/templates.h"

namespace syncopate {
namespace {

const LogicalTensor kGathered{"a", {4, 2}, Dtype::bf16, Placement::shard(0), Placement::replicate()};

TEST(Draw, ARing) {
  EXPECT_EQ(draw(all_gather(kGathered, 4, {Algorithm::ring, Initiator::push, 1}, {})),
            "chunks\n"
            "  #0  a[0:1, 0:2]\n"
            "  #1  a[1:2, 0:2]\n"
            "  #2  a[2:3, 0:2]\n"
            "  #3  a[3:4, 0:2]\n"
            "step  rank 0  rank 1  rank 2  rank 3\n"
            "   0  #0 > 1  #1 > 2  #2 > 3  #3 > 0\n"
            "   1  #3 > 1  #0 > 2  #1 > 3  #2 > 0\n"
            "   2  #2 > 1  #3 > 2  #0 > 3  #1 > 0\n");
}

TEST(Draw, PortsHaveLinesOfTheirOwn) {
  EXPECT_EQ(draw(all_gather(kGathered, 4, {Algorithm::bidirectional_ring, Initiator::pull, 1}, {})),
            "chunks\n"
            "  #0  a[0:1, 0:2]\n"
            "  #1  a[1:2, 0:2]\n"
            "  #2  a[2:3, 0:2]\n"
            "  #3  a[3:4, 0:2]\n"
            "step          rank 0  rank 1  rank 2  rank 3\n"
            "   0  port 0  #3 < 3  #0 < 0  #1 < 1  #2 < 2\n"
            "      port 1  #1 < 1  #2 < 2  #3 < 3  #0 < 0\n"
            "   1  port 0  #2 < 3          #0 < 1\n"
            "      port 1          #3 < 2          #1 < 0\n");
}

TEST(Draw, SumsHaveAPlus) {
  const LogicalTensor tensor{"c", {3}, Dtype::bf16, Placement::partial_sum(), Placement::shard(0)};
  EXPECT_EQ(draw(reduce_scatter(tensor, 3, {Algorithm::ring, Initiator::push, 1}, {})),
            "chunks\n"
            "  #0  c[0:1]\n"
            "  #1  c[1:2]\n"
            "  #2  c[2:3]\n"
            "step  rank 0   rank 1   rank 2\n"
            "   0  #2 +> 1  #0 +> 2  #1 +> 0\n"
            "   1  #1 +> 1  #2 +> 2  #0 +> 0\n");
}

TEST(Draw, NothingAndCollectives) {
  EXPECT_EQ(draw(all_gather(kGathered, 1, {}, {})), "nothing moves\n");
  ScheduleBuilder builder(2);
  const int a = builder.tensor({"a", {2}, Dtype::bf16, Placement::shard(0), Placement::replicate()});
  const int all = builder.chunk(a, {{0, 2}});
  builder.collective(
      {CollectiveType::all_gather, {1, 0}, {builder.chunk(a, {{1, 2}}), builder.chunk(a, {{0, 1}})}, {all, all}});
  EXPECT_EQ(draw(std::move(builder).build()),
            "chunks\n"
            "  #0  a[0:2]\n"
            "  #1  a[1:2]\n"
            "  #2  a[0:1]\n"
            "step  rank 0      rank 1\n"
            "   0              all_gather\n");
}

TEST(Draw, LoadCountsStepsBytesAndTheBusiestRank) {
  const LogicalTensor tensor{"a", {8, 16}, Dtype::bf16, Placement::only(1), Placement::replicate()};
  EXPECT_EQ(describe_load(broadcast(tensor, 4, {Algorithm::ring, Initiator::push, 4}, {})),
            "  moves         12 transfers in 6 steps\n"
            "  port 0        768 B\n"
            "  busiest rank  256 B sent, 256 B received\n")
      << "four chunks over three hops overlap";
  EXPECT_EQ(describe_load(broadcast(tensor, 1 + 1, {}, {})),
            "  moves         1 transfer in 1 step\n"
            "  port 0        256 B\n"
            "  busiest rank  256 B sent, 256 B received\n");
}

TEST(TimeSteps, FollowDependenciesAndPorts) {
  ScheduleBuilder builder(3);
  const int a = builder.tensor({"a", {3}, Dtype::bf16, Placement::shard(0), Placement::replicate()});
  const int zero = builder.chunk(a, {{0, 1}});
  const int one = builder.chunk(a, {{1, 2}});
  const Dependency first = builder.push(0, 1, zero, zero);
  builder.push(0, 2, zero, zero);            // behind it on the port
  builder.push(1, 0, one, one, {first}, 1);  // after it
  builder.push(1, 2, one, one, {}, 0);       // on a port of its own
  EXPECT_EQ(time_steps(std::move(builder).build()), (std::vector<std::vector<int>>{{0, 1}, {1, 0}, {}}));
}

}  // namespace
}  // namespace syncopate
