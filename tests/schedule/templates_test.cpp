// Every template is proven to be an all-gather, or a reduce-scatter, for many rank counts, splits and uneven axes, and
// to load links as it promises.
#include "syncopate/schedule/templates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

#include "syncopate/schedule/meaning.h"

namespace syncopate {
namespace {

LogicalTensor gathered(Shape shape, int dimension) {
  return {"a", std::move(shape), Dtype::bf16, Placement::shard(dimension), Placement::replicate()};
}

const P2P& p2p_of(const Operator& op) { return std::get<P2P>(op.action); }

struct Parameters {
  Algorithm algorithm;
  Initiator initiator;
  int ranks;
  std::int64_t split;
};

std::string name_of_case(const ::testing::TestParamInfo<Parameters>& info) {
  const Parameters& p = info.param;
  return std::string(name_of(p.algorithm)) + (p.initiator == Initiator::push ? "_push_" : "_pull_") +
         std::to_string(p.ranks) + "ranks_split" + std::to_string(p.split);
}

std::vector<Parameters> all_parameters() {
  std::vector<Parameters> all;
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::bidirectional_ring})
    for (const Initiator initiator : {Initiator::push, Initiator::pull})
      for (const int ranks : {1, 2, 3, 4, 8, 16})
        for (const std::int64_t split : {1, 2, 3, 5}) all.push_back({algorithm, initiator, ranks, split});
  return all;
}

class Template : public ::testing::TestWithParam<Parameters> {
 protected:
  Schedule make(const Shape& shape, int dimension) const {
    const Parameters& p = GetParam();
    return all_gather(gathered(shape, dimension), p.ranks, {p.algorithm, p.initiator, p.split}, {});
  }
};

TEST_P(Template, IsAnAllGather) {
  // Even, uneven, last shard short, last ranks empty; both dimensions.
  for (const auto& [shape, dimension] : std::vector<std::pair<Shape, int>>{
           {{240, 8}, 0}, {{8, 240}, 1}, {{83, 3}, 0}, {{3, 97}, 1}, {{81, 2}, 0}, {{5, 7, 91}, 2}}) {
    const Schedule schedule = make(shape, dimension);
    EXPECT_NO_THROW(validate(schedule));
    EXPECT_NO_THROW(check_meaning(schedule));
    const Meaning m = meaning(schedule);
    for (const auto& holdings : m.holdings[0]) {
      ASSERT_EQ(holdings.size(), 1U) << "one box: everything is held";
      EXPECT_TRUE(holdings[0].held);
      EXPECT_EQ(holdings[0].region, Region::whole(shape));
    }
  }
}

TEST_P(Template, GathersZigzag) {
  // Even, uneven, and with stretches that are empty.
  for (const auto& [shape, dimension] : std::vector<std::pair<Shape, int>>{{{240, 8}, 0}, {{3, 97}, 1}, {{163}, 0}}) {
    LogicalTensor tensor = gathered(shape, dimension);
    tensor.before = Placement::zigzag(dimension);
    const Parameters& p = GetParam();
    const std::int64_t stretch = (shape[static_cast<std::size_t>(dimension)] + 2 * p.ranks - 1) / (2 * p.ranks);
    if (p.split > stretch) continue;
    const Schedule schedule = all_gather(tensor, p.ranks, {p.algorithm, p.initiator, p.split}, {});
    EXPECT_NO_THROW(validate(schedule));
    EXPECT_NO_THROW(check_meaning(schedule));
    std::int64_t moved = 0;
    for (const auto& list : schedule.operators)
      for (const Operator& op : list)
        moved += schedule.chunks[static_cast<std::size_t>(p2p_of(op).source_chunk)].region.volume();
    EXPECT_EQ(moved, volume(shape) * (p.ranks - 1)) << "every element once to every other rank";
    const Meaning m = meaning(schedule);
    for (const auto& holdings : m.holdings[0]) {
      ASSERT_EQ(holdings.size(), 1U) << "one box: everything is held";
      EXPECT_TRUE(holdings[0].held);
    }
  }
}

TEST_P(Template, MovesEveryChunkOnceToEveryOtherRank) {
  const Schedule schedule = make({240, 8}, 0);
  std::map<std::pair<int, int>, int> arrivals;  // (rank, chunk)
  std::size_t count = 0;
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const Operator& op : schedule.operators[static_cast<std::size_t>(rank)]) {
      EXPECT_EQ(rank, GetParam().initiator == Initiator::push ? p2p_of(op).source_rank : p2p_of(op).destination_rank);
      ++arrivals[{p2p_of(op).destination_rank, p2p_of(op).destination_chunk}];
      ++count;
    }
  for (const auto& [place, times] : arrivals) EXPECT_EQ(times, 1);
  EXPECT_EQ(count, schedule.chunks.size() * static_cast<std::size_t>(schedule.ranks() - 1));
  const auto ranks = static_cast<std::size_t>(GetParam().ranks);
  EXPECT_EQ(schedule.chunks.size(), ranks == 1 ? 0 : ranks * static_cast<std::size_t>(GetParam().split));
}

TEST_P(Template, LoadsLinksAsItPromises) {
  const Schedule schedule = make({480, 8}, 0);
  const int ranks = schedule.ranks();
  std::map<std::tuple<int, int>, std::int64_t> bytes;  // link -> elements
  for (const auto& list : schedule.operators)
    for (const Operator& op : list) {
      const P2P& p = p2p_of(op);
      bytes[{p.source_rank, p.destination_rank}] +=
          schedule.chunks[static_cast<std::size_t>(p.source_chunk)].region.volume();
    }
  for (const auto& [link, amount] : bytes) {
    const int hop = (std::get<1>(link) - std::get<0>(link) + ranks) % ranks;
    if (GetParam().algorithm == Algorithm::ring) {
      EXPECT_EQ(hop, 1);
    }
    if (GetParam().algorithm == Algorithm::bidirectional_ring) {
      EXPECT_TRUE(hop == 1 || hop == ranks - 1);
    }
  }
  if (GetParam().algorithm == Algorithm::direct) {
    // Round s of all ranks together: nobody sends twice, nobody receives twice.
    for (int round = 0; round + 1 < ranks; ++round) {
      std::set<int> sources;
      std::set<int> destinations;
      for (const auto& list : schedule.operators) {
        const P2P& p = p2p_of(list[static_cast<std::size_t>(round * GetParam().split)]);
        EXPECT_TRUE(sources.insert(p.source_rank).second);
        EXPECT_TRUE(destinations.insert(p.destination_rank).second);
      }
    }
  }
}

TEST_P(Template, BothDirectionsOfARingCarryTheSame) {
  if (GetParam().algorithm != Algorithm::bidirectional_ring || GetParam().ranks == 1) return;
  const Schedule schedule = make({480, 8}, 0);
  const int ranks = schedule.ranks();
  // Elements by link and by direction; port 0 goes up, port 1 down. Between two ranks both ports end at one peer.
  std::map<std::pair<int, int>, std::int64_t> by_link;  // (source rank, port)
  std::map<int, std::int64_t> by_port;
  for (const auto& list : schedule.operators)
    for (const Operator& op : list) {
      const P2P& p = p2p_of(op);
      const int hop = (p.destination_rank - p.source_rank + ranks) % ranks;
      EXPECT_EQ(hop, op.port == 0 ? 1 : ranks - 1);
      const std::int64_t amount = schedule.chunks[static_cast<std::size_t>(p.source_chunk)].region.volume();
      by_link[{p.source_rank, op.port}] += amount;
      by_port[op.port] += amount;
    }
  const std::int64_t chunk = (480 / ranks + GetParam().split - 1) / GetParam().split * 8;  // the largest
  std::int64_t least = INT64_MAX;
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (const int port : {0, 1}) {
      least = std::min(least, by_link[{rank, port}]);
      most = std::max(most, by_link[{rank, port}]);
    }
  EXPECT_LE(most - least, chunk) << "a link differs by at most the chunk that cannot be halved";
  if (480 / ranks % GetParam().split == 0) {
    EXPECT_EQ(by_port[0], by_port[1]);
    if (ranks % 2 == 1 || GetParam().split % 2 == 0) {
      EXPECT_EQ(most, least);
    }
  }
}

TEST_P(Template, IssuesInTheOrderThatKeepsLinksBusy) {
  const Schedule schedule = make({240, 8}, 0);
  const int ranks = schedule.ranks();
  const bool push = GetParam().initiator == Initiator::push;
  if (GetParam().algorithm == Algorithm::bidirectional_ring) return;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& list = schedule.operators[static_cast<std::size_t>(rank)];
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const int step = i / static_cast<int>(GetParam().split);  // counts from 0
      const int part = i % static_cast<int>(GetParam().split);
      const P2P& p = p2p_of(list[static_cast<std::size_t>(i)]);
      int owner = rank;
      if (GetParam().algorithm == Algorithm::ring) {
        owner = ((push ? rank : rank - 1) - step + 2 * ranks) % ranks;
        // The hop before is at the same place of the left neighbour's list.
        const std::vector<Dependency> before = {{(rank + ranks - 1) % ranks, i - static_cast<int>(GetParam().split)}};
        EXPECT_EQ(list[static_cast<std::size_t>(i)].dependencies, step == 0 ? std::vector<Dependency>{} : before);
      } else {
        if (!push) owner = (rank - step - 1 + ranks) % ranks;
        EXPECT_EQ(p.destination_rank, push ? (rank + step + 1) % ranks : rank);
      }
      Region expected = held_region(Placement::shard(0), {240, 8}, ranks, owner);
      expected[0] = chunk_of(expected[0], GetParam().split, part);
      EXPECT_EQ(schedule.chunks[static_cast<std::size_t>(p.source_chunk)].region, expected);
    }
  }
}

/// The schedule without one operator; what depended on it no longer does.
Schedule without(Schedule schedule, Dependency gone) {
  for (auto& list : schedule.operators)
    for (Operator& op : list) {
      std::erase(op.dependencies, gone);
      for (Dependency& d : op.dependencies)
        if (d.rank == gone.rank && d.index > gone.index) --d.index;
    }
  auto& list = schedule.operators[static_cast<std::size_t>(gone.rank)];
  list.erase(list.begin() + gone.index);
  return schedule;
}

/// The same operators in the opposite order of issue.
Schedule reversed(Schedule schedule) {
  for (auto& list : schedule.operators) {
    std::reverse(list.begin(), list.end());
    for (Operator& op : list)
      for (Dependency& d : op.dependencies)
        d.index = static_cast<int>(schedule.operators[static_cast<std::size_t>(d.rank)].size()) - 1 - d.index;
  }
  return schedule;
}

TEST_P(Template, MeansTheSameInAnyOrderOfIssue) {
  const Schedule schedule = reversed(make({83, 3}, 0));
  EXPECT_NO_THROW(validate(schedule));
  EXPECT_NO_THROW(check_meaning(schedule));
  std::set<std::pair<int, int>> done;
  for (const Dependency& which : topological_order(schedule)) {
    for (const Dependency& d : schedule.at(which).dependencies) {
      EXPECT_TRUE(done.contains({d.rank, d.index})) << which.rank << " " << which.index;
    }
    EXPECT_TRUE(done.insert({which.rank, which.index}).second);
  }
  std::size_t count = 0;
  for (const auto& list : schedule.operators) count += list.size();
  EXPECT_EQ(done.size(), count);
}

TEST_P(Template, ForgettingAnythingIsNoticed) {
  const Schedule schedule = make({83, 2}, 0);
  if (schedule.ranks() > 4) return;  // quadratic; the small ones show it
  for (std::size_t rank = 0; rank < schedule.operators.size(); ++rank)
    for (std::size_t i = 0; i < schedule.operators[rank].size(); ++i) {
      if (!schedule.operators[rank][i].dependencies.empty()) {
        Schedule mutant = schedule;
        mutant.operators[rank][i].dependencies.clear();
        EXPECT_THROW(check_meaning(mutant), UserError)
            << "rank " << rank << " operator " << i << " without its dependency";
      }
      const Schedule less = without(schedule, {static_cast<int>(rank), static_cast<int>(i)});
      EXPECT_NO_THROW(validate(less));
      EXPECT_THROW(check_meaning(less), UserError) << "without rank " << rank << " operator " << i;
      Schedule twice = schedule;
      twice.operators[rank].push_back(schedule.operators[rank][i]);
      EXPECT_THROW(check_meaning(twice), UserError) << "rank " << rank << " operator " << i << " twice";
      Schedule other = schedule;
      auto& p = std::get<P2P>(other.operators[rank][i].action);
      p.source_chunk = (p.source_chunk + 1) % static_cast<int>(other.chunks.size());
      p.destination_chunk = p.source_chunk;
      EXPECT_THROW(check_meaning(other), UserError) << "rank " << rank << " operator " << i << " with the next chunk";
    }
}

INSTANTIATE_TEST_SUITE_P(All, Template, ::testing::ValuesIn(all_parameters()), name_of_case);

class ReduceTemplate : public ::testing::TestWithParam<Parameters> {
 protected:
  static Schedule make(const Shape& shape, int dimension, bool chunk_major = false) {
    const Parameters& p = GetParam();
    const LogicalTensor tensor{"c", shape, Dtype::bf16, Placement::partial_sum(), Placement::shard(dimension)};
    return reduce_scatter(tensor, p.ranks, {p.algorithm, p.initiator, p.split, chunk_major}, {});
  }
};

TEST_P(ReduceTemplate, LeavesEachRankTheSumOfItsShard) {
  for (const auto& [shape, dimension] : std::vector<std::pair<Shape, int>>{
           {{240, 8}, 0}, {{8, 240}, 1}, {{83, 3}, 0}, {{3, 97}, 1}, {{81, 2}, 0}, {{5, 7, 91}, 2}})
    for (const bool chunk_major : {false, true}) {
      const Schedule schedule = make(shape, dimension, chunk_major);
      EXPECT_NO_THROW(check_meaning(schedule));
      const Meaning m = meaning(schedule);
      for (int rank = 0; rank < schedule.ranks(); ++rank) {
        const Region shard = held_region(Placement::shard(dimension), shape, schedule.ranks(), rank);
        for (const Holding& holding : m.holdings[0][static_cast<std::size_t>(rank)])
          if (holding.region.overlaps(shard)) {
            EXPECT_EQ(holding.contributors.size(), static_cast<std::size_t>(schedule.ranks()));
          }
      }
    }
}

TEST_P(ReduceTemplate, EveryRankButTheOwnerSendsEveryChunkOnce) {
  const Schedule schedule = make({240, 8}, 0);
  const int ranks = schedule.ranks();
  std::map<std::pair<int, int>, int> departures;  // (rank, chunk)
  for (int rank = 0; rank < ranks; ++rank)
    for (const Operator& op : schedule.operators[static_cast<std::size_t>(rank)]) {
      const P2P& p = p2p_of(op);
      EXPECT_EQ(p.reduction, Reduction::sum);
      EXPECT_EQ(rank, GetParam().initiator == Initiator::push ? p.source_rank : p.destination_rank);
      ++departures[{p.source_rank, p.source_chunk}];
      const Region& region = schedule.chunks[static_cast<std::size_t>(p.source_chunk)].region;
      EXPECT_FALSE(held_region(Placement::shard(0), {240, 8}, ranks, p.source_rank).overlaps(region));
      const int hop = (p.destination_rank - p.source_rank + ranks) % ranks;
      if (GetParam().algorithm == Algorithm::direct)
        EXPECT_TRUE(held_region(Placement::shard(0), {240, 8}, ranks, p.destination_rank).contains(region));
      else
        EXPECT_EQ(hop, op.port == 0 ? 1 : ranks - 1);
      EXPECT_TRUE(op.port == 0 || GetParam().algorithm == Algorithm::bidirectional_ring);
    }
  for (const auto& [place, times] : departures) EXPECT_EQ(times, 1);
  EXPECT_EQ(departures.size(), schedule.chunks.size() * static_cast<std::size_t>(ranks - 1));
}

TEST_P(ReduceTemplate, TheListIsTheOrderOfDeparture) {
  const int ranks = GetParam().ranks;
  const auto split = static_cast<int>(GetParam().split);
  for (const bool chunk_major : {false, true}) {
    if (GetParam().algorithm == Algorithm::bidirectional_ring) return;
    const bool direct = GetParam().algorithm == Algorithm::direct;
    const Schedule schedule = make({240, 8}, 0, chunk_major);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& list = schedule.operators[static_cast<std::size_t>(rank)];
      ASSERT_EQ(list.size(), static_cast<std::size_t>((ranks - 1) * split));
      for (int i = 0; i < static_cast<int>(list.size()); ++i) {
        const bool by_chunk = direct && chunk_major;
        const int step = by_chunk ? i % (ranks - 1) : i / split;
        const int part = by_chunk ? i / (ranks - 1) : i % split;
        const P2P& p = p2p_of(list[static_cast<std::size_t>(i)]);
        // Direct: in round s from r to r + s. Ring: what starts at the rank above its owner is sent first.
        const int owner = direct ? p.destination_rank : (p.source_rank + ranks - step - 1) % ranks;
        if (direct) {
          EXPECT_EQ((p.destination_rank - p.source_rank + ranks) % ranks, step + 1);
        }
        Region expected = held_region(Placement::shard(0), {240, 8}, ranks, owner);
        expected[0] = chunk_of(expected[0], split, part);
        EXPECT_EQ(schedule.chunks[static_cast<std::size_t>(p.source_chunk)].region, expected);
        EXPECT_EQ(list[static_cast<std::size_t>(i)].dependencies.size(), direct || step == 0 ? 0U : 1U);
      }
    }
  }
}

TEST_P(ReduceTemplate, BothDirectionsOfARingCarryTheSame) {
  if (GetParam().algorithm != Algorithm::bidirectional_ring || GetParam().ranks == 1) return;
  const Schedule schedule = make({480, 8}, 0);
  std::map<std::pair<int, int>, std::int64_t> by_link;  // (source rank, port)
  for (const auto& list : schedule.operators)
    for (const Operator& op : list)
      by_link[{p2p_of(op).source_rank, op.port}] +=
          schedule.chunks[static_cast<std::size_t>(p2p_of(op).source_chunk)].region.volume();
  std::int64_t least = INT64_MAX;
  std::int64_t most = 0;
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const int port : {0, 1}) {
      least = std::min(least, by_link[{rank, port}]);
      most = std::max(most, by_link[{rank, port}]);
    }
  EXPECT_LE(most - least, (480 / GetParam().ranks + GetParam().split - 1) / GetParam().split * 8)
      << "a link differs by at most the chunk that cannot be halved";
}

TEST_P(ReduceTemplate, MeansTheSameInAnyOrderOfIssue) {
  const Schedule schedule = reversed(make({83, 3}, 0));
  EXPECT_NO_THROW(validate(schedule));
  EXPECT_NO_THROW(check_meaning(schedule));
}

TEST_P(ReduceTemplate, ForgettingAnythingIsNoticed) {
  const Schedule schedule = make({83, 2}, 0);
  if (schedule.ranks() > 4) return;  // quadratic; the small ones show it
  for (std::size_t rank = 0; rank < schedule.operators.size(); ++rank)
    for (std::size_t i = 0; i < schedule.operators[rank].size(); ++i) {
      if (!schedule.operators[rank][i].dependencies.empty()) {
        Schedule mutant = schedule;
        mutant.operators[rank][i].dependencies.clear();
        EXPECT_THROW(check_meaning(mutant), UserError) << "rank " << rank << " operator " << i;
      }
      const Schedule less = without(schedule, {static_cast<int>(rank), static_cast<int>(i)});
      EXPECT_THROW(check_meaning(less), UserError) << "without rank " << rank << " operator " << i;
      Schedule twice = schedule;
      twice.operators[rank].push_back(schedule.operators[rank][i]);
      EXPECT_THROW(check_meaning(twice), UserError) << "rank " << rank << " operator " << i << " twice";
    }
}

INSTANTIATE_TEST_SUITE_P(All, ReduceTemplate, ::testing::ValuesIn(all_parameters()), name_of_case);

TEST(Templates, AReduceScatterBoundsItsSplitToo) {
  const LogicalTensor tensor{"c", {10, 4}, Dtype::bf16, Placement::partial_sum(), Placement::shard(0)};
  try {
    reduce_scatter(tensor, 4, {Algorithm::ring, Initiator::push, 4}, {"op.toml", 9, 1});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "op.toml:9:1: split is 4, but the largest shard of 'c' has 3 indices along dimension 0; at most 3");
  }
}

TEST(Templates, DirectPushStartsWithAnotherPeerOnEveryRank) {
  const Schedule schedule = all_gather(gathered({8, 1}, 0), 4, {}, {});
  for (int rank = 0; rank < 4; ++rank)
    for (int round = 0; round < 3; ++round)
      EXPECT_EQ(
          p2p_of(schedule.operators[static_cast<std::size_t>(rank)][static_cast<std::size_t>(round)]).destination_rank,
          (rank + round + 1) % 4);
}

TEST(Templates, SplitIsBoundedByTheLargestShard) {
  const LogicalTensor tensor = gathered({10, 4}, 0);  // shards of 3, 3, 3, 1
  const SourceLocation where{"op.toml", 9, 1};
  EXPECT_NO_THROW(check_meaning(all_gather(tensor, 4, {Algorithm::direct, Initiator::push, 3}, where)));
  try {
    all_gather(tensor, 4, {Algorithm::direct, Initiator::push, 4}, where);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "op.toml:9:1: split is 4, but the largest shard of 'a' has 3 indices along dimension 0; at most 3");
  }
}

TEST(Templates, SplitIsAtLeastOne) {
  try {
    all_gather(gathered({10, 4}, 0), 4, {Algorithm::ring, Initiator::push, 0}, {"op.toml", 9, 1});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "op.toml:9:1: split is 0; at least 1");
  }
}

TEST(Templates, EmptyShardsAndPiecesSendNothing) {
  // 5 rows over 4 ranks: 2, 2, 1, 0; cut in two: two chunks, two, one, none.
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::bidirectional_ring}) {
    const Schedule schedule = all_gather(gathered({5, 3}, 0), 4, {algorithm, Initiator::push, 2}, {});
    EXPECT_EQ(schedule.chunks.size(), 5U);
    std::size_t count = 0;
    for (const auto& list : schedule.operators) count += list.size();
    EXPECT_EQ(count, 15U);
    EXPECT_NO_THROW(check_meaning(schedule));
  }
}

TEST(Templates, NamesRoundTrip) {
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::bidirectional_ring})
    EXPECT_EQ(algorithm_from_name(name_of(algorithm)), algorithm);
  EXPECT_FALSE(algorithm_from_name("tree").has_value());
}

TEST(Templates, ThousandRanks) {
  const Schedule schedule = all_gather(gathered({1024, 1}, 0), 1024, {Algorithm::ring, Initiator::push, 1}, {});
  EXPECT_NO_THROW(check_meaning(schedule));
  EXPECT_EQ(schedule.operators[17].size(), 1023U);
}

}  // namespace
}  // namespace syncopate
