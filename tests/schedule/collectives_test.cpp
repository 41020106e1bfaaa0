// Every collective by every algorithm that has a template for it, over many rank counts, meshes, splits and uneven
// sizes: proven to be that collective, to move no more than its formula says, over the links and ports that it
// promises, and to have no operator and no dependency that could be left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <ostream>
#include <set>

#include "syncopate/schedule/meaning.h"
#include "syncopate/schedule/schedule_json.h"
#include "syncopate/schedule/templates.h"

namespace syncopate {
namespace {

constexpr std::array kCollectives = {CollectiveType::all_gather, CollectiveType::reduce_scatter,
                                     CollectiveType::all_reduce, CollectiveType::all_to_all, CollectiveType::broadcast};

struct Parameters {
  CollectiveType type;
  Algorithm algorithm;
  Initiator initiator;
  std::string name() const {
    return std::string(collective_name(type)) + "_" + std::string(name_of(algorithm)) +
           (initiator == Initiator::push ? "_push" : "_pull");
  }
};
void PrintTo(const Parameters& p, std::ostream* out) { *out << p.name(); }

std::vector<Parameters> all_parameters() {
  std::vector<Parameters> all;
  for (const CollectiveType type : kCollectives)
    for (const Algorithm algorithm : algorithms_for(type))
      for (const Initiator initiator : {Initiator::push, Initiator::pull}) all.push_back({type, algorithm, initiator});
  return all;
}

/// One schedule of the many.
struct Instance {
  LogicalTensor tensor;
  int ranks;
  TemplateOptions options;
  Schedule schedule;
  std::string text() const {
    return tensor.before.to_string() + " -> " + tensor.after.to_string() + " of " + to_string(tensor.shape) + " on " +
           std::to_string(ranks) + " ranks, split " + std::to_string(options.split) + ", " +
           std::to_string(options.ranks_per_node) + " per node";
  }
};

bool has_nodes(Algorithm algorithm) {
  return algorithm == Algorithm::hierarchical || algorithm == Algorithm::double_ring;
}

/// The placements that the collective is tried between, for a tensor of `dimensions` dimensions; d is one of them.
std::vector<std::pair<Placement, Placement>> placements(CollectiveType type, int d, int dimensions, int ranks) {
  const Placement shard = Placement::shard(d);
  switch (type) {
    case CollectiveType::all_gather:
      return {{shard, Placement::replicate()},
              {Placement::shard(d, 1), Placement::replicate()},
              {Placement::zigzag(d), Placement::replicate()}};
    case CollectiveType::reduce_scatter:
      return {{Placement::partial_sum(), shard}};
    case CollectiveType::all_reduce:
      return {{Placement::partial_sum(), Placement::replicate()}};
    case CollectiveType::all_to_all: {
      const Placement other = Placement::shard((d + 1) % dimensions);
      return {{shard, other}, {Placement::shard(d, 1), other}, {shard, Placement::shard(d, 2)}};
    }
    case CollectiveType::broadcast:
      return {{Placement::only(0), Placement::replicate()}, {Placement::only(ranks - 1), Placement::replicate()}};
  }
  return {};
}

std::optional<Schedule> made(const Instance& i) {
  try {
    return make_collective(i.tensor, i.ranks, i.options, {});
  } catch (const UserError& error) {
    // The only reason for which instances below cannot be made.
    EXPECT_TRUE(error.problem().starts_with("split is")) << i.text() << ": " << error.what();
    return std::nullopt;
  }
}

/// Calls `check` with every instance over the given rank counts.
template <typename Check>
int for_all(const Parameters& p, const std::vector<int>& rank_counts, const std::vector<Shape>& shapes, Check&& check) {
  int count = 0;
  for (const int ranks : rank_counts)
    for (const Shape& shape : shapes)
      for (int d = 0; d < static_cast<int>(shape.size()); ++d)
        for (const auto& [before, after] : placements(p.type, d, static_cast<int>(shape.size()), ranks))
          for (const std::int64_t split : {1, 2, 3})
            for (int per_node = 1; per_node <= (has_nodes(p.algorithm) ? ranks : 1); ++per_node) {
              if (ranks % per_node != 0) continue;
              Instance i{{"t", shape, Dtype::fp32, before, after}, ranks, {p.algorithm, p.initiator, split}, {}};
              if (has_nodes(p.algorithm)) i.options.ranks_per_node = per_node;
              if (p.algorithm == Algorithm::interleaved) i.options.shares = {2, 1};
              if (p.type == CollectiveType::all_reduce) i.options.dimension = d;
              std::optional<Schedule> schedule = made(i);
              if (!schedule) continue;
              i.schedule = std::move(*schedule);
              SCOPED_TRACE(i.text());
              check(i);
              ++count;
              if (::testing::Test::HasFatalFailure()) return count;
            }
  return count;
}

const std::vector<int> kAllRanks = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16};
/// Even for many counts; uneven; smaller than the ranks; several dimensions.
const std::vector<Shape> kShapes = {{48, 24}, {37, 5}, {7, 3}, {2, 19, 13}};

const P2P& p2p_of(const Operator& op) { return std::get<P2P>(op.action); }

template <typename Visit>
void for_each_transfer(const Schedule& schedule, Visit&& visit) {
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const Operator& op : schedule.operators[static_cast<std::size_t>(rank)])
      visit(rank, op, schedule.chunks[static_cast<std::size_t>(p2p_of(op).source_chunk)].region);
}

std::int64_t moved(const Schedule& schedule, std::optional<int> port = std::nullopt) {
  std::int64_t elements = 0;
  for_each_transfer(schedule, [&](int, const Operator& op, const Region& chunk) {
    if (!port || op.port == *port) elements += chunk.volume();
  });
  return elements;
}

class Collectives : public ::testing::TestWithParam<Parameters> {};

TEST_P(Collectives, LeaveWhatTheyShould) {
  const int count = for_all(GetParam(), kAllRanks, kShapes, [&](const Instance& i) {
    ASSERT_NO_THROW(validate(i.schedule));
    ASSERT_NO_THROW(check_meaning(i.schedule));
    EXPECT_EQ(i.schedule.tensors[0].before, i.tensor.before);
    EXPECT_EQ(i.schedule.tensors[0].after, i.tensor.after);
    // Once more, from what each rank holds, element by element of the boxes.
    const Meaning m = meaning(i.schedule);
    const bool sums = i.tensor.before == Placement::partial_sum();
    for (int rank = 0; rank < i.ranks; ++rank) {
      const Region due = held_region(i.tensor.after, i.tensor.shape, i.ranks, rank);
      std::int64_t held = 0;
      for (const Holding& holding : m.holdings[0][static_cast<std::size_t>(rank)]) {
        const Region part = due.empty() ? due : intersect(holding.region, due);
        if (part.empty() || !holding.held) continue;
        held += part.volume();
        ASSERT_EQ(holding.contributors.size(), sums ? static_cast<std::size_t>(i.ranks) : 0U);
      }
      EXPECT_EQ(held, due.volume()) << "rank " << rank;
    }
  });
  EXPECT_GE(count, 100);
}

TEST_P(Collectives, AreListedWhereTheyBegin) {
  for_all(GetParam(), {1, 4, 6}, {{48, 24}, {7, 3}}, [&](const Instance& i) {
    for_each_transfer(i.schedule, [&](int rank, const Operator& op, const Region& chunk) {
      const P2P& p = p2p_of(op);
      EXPECT_NE(p.source_rank, p.destination_rank);
      EXPECT_EQ(p.source_chunk, p.destination_chunk);
      EXPECT_EQ(rank, GetParam().initiator == Initiator::push ? p.source_rank : p.destination_rank);
      EXPECT_FALSE(chunk.empty());
    });
  });
}

/// Hops between ranks that a box of an exchange makes, by port.
std::array<std::int64_t, 2> hops(const Instance& i, int source, int destination) {
  const int up = (destination - source + i.ranks) % i.ranks;
  const int per_node = i.options.ranks_per_node;
  switch (i.options.algorithm) {
    case Algorithm::ring:
      return {up, 0};
    case Algorithm::hierarchical:
      return {source % per_node != destination % per_node ? 1 : 0, source / per_node != destination / per_node ? 1 : 0};
    default:
      return {1, 0};
  }
}

TEST_P(Collectives, MoveWhatTheirFormulaSays) {
  for_all(GetParam(), kAllRanks, kShapes, [&](const Instance& i) {
    const std::int64_t whole = volume(i.tensor.shape);
    const int nodes = has_nodes(i.options.algorithm) ? i.ranks / i.options.ranks_per_node : 1;
    if (GetParam().type == CollectiveType::all_to_all) {
      std::array<std::int64_t, 2> expected = {0, 0};
      std::int64_t shortest = 0;
      for (int s = 0; s < i.ranks; ++s)
        for (int d = 0; d < i.ranks; ++d) {
          if (s == d) continue;
          const std::int64_t box = intersect(held_region(i.tensor.before, i.tensor.shape, i.ranks, s),
                                             held_region(i.tensor.after, i.tensor.shape, i.ranks, d))
                                       .volume();
          const int up = (d - s + i.ranks) % i.ranks;
          shortest += box * std::min(up, i.ranks - up);
          for (const std::size_t port : {0U, 1U}) expected[port] += box * hops(i, s, d)[port];
        }
      if (i.options.algorithm == Algorithm::bidirectional_ring) {
        EXPECT_EQ(moved(i.schedule), shortest);
      } else if (i.options.algorithm == Algorithm::interleaved) {
        EXPECT_EQ(moved(i.schedule), expected[0]);
      } else {
        EXPECT_EQ(moved(i.schedule, 0), expected[0]);
        EXPECT_EQ(moved(i.schedule, 1), expected[1]);
      }
      return;
    }
    // Every element arrives once at every other rank, or leaves it once; both in a partitioned all-reduce (2 (n - 1) /
    // n of the tensor for each rank: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009).
    const bool one_shot = i.options.algorithm == Algorithm::one_shot;
    const std::int64_t phases = GetParam().type != CollectiveType::all_reduce ? 1 : one_shot ? i.ranks : 2;
    EXPECT_EQ(moved(i.schedule), phases * whole * (i.ranks - 1));
    if (has_nodes(i.options.algorithm)) {
      EXPECT_EQ(moved(i.schedule, 1), phases * whole * (nodes - 1)) << "over the network once for every other node";
    }
  });
}

TEST_P(Collectives, UseTheLinksAndPortsTheyPromise) {
  for_all(GetParam(), {2, 4, 5, 6, 8}, {{48, 24}, {37, 5}}, [&](const Instance& i) {
    std::map<int, std::array<std::int64_t, 2>> issued;
    for_each_transfer(i.schedule, [&](int rank, const Operator& op, const Region&) {
      const P2P& p = p2p_of(op);
      const int hop = (p.destination_rank - p.source_rank + i.ranks) % i.ranks;
      const int per_node = i.options.ranks_per_node;
      switch (i.options.algorithm) {
        case Algorithm::direct:
        case Algorithm::one_shot:
        case Algorithm::recursive:
          EXPECT_EQ(op.port, 0);
          break;
        case Algorithm::ring:
          EXPECT_EQ(op.port, 0);
          EXPECT_EQ(hop, 1);
          break;
        case Algorithm::bidirectional_ring:
          EXPECT_EQ(hop, op.port == 0 ? 1 : i.ranks - 1);
          break;
        case Algorithm::double_ring:
        case Algorithm::hierarchical: {
          const bool leaves = p.source_rank / per_node != p.destination_rank / per_node;
          EXPECT_EQ(op.port, leaves ? 1 : 0);
          if (leaves) {
            EXPECT_EQ(p.source_rank % per_node, p.destination_rank % per_node);
          }
          if (i.options.algorithm == Algorithm::hierarchical) break;
          const int nodes = i.ranks / per_node;
          if (leaves)
            EXPECT_EQ((p.destination_rank / per_node - p.source_rank / per_node + nodes) % nodes, 1);
          else
            EXPECT_EQ((p.destination_rank - p.source_rank + per_node) % per_node, 1 % per_node);
          break;
        }
        case Algorithm::interleaved:
          ++issued[rank].at(static_cast<std::size_t>(op.port));
          break;
      }
    });
    const std::int64_t phases = GetParam().type == CollectiveType::all_reduce ? 2 : 1;
    for (const auto& [rank, counts] : issued) {
      // Of n messages n / 3 by the second port, for each phase by itself, rounded down.
      const std::int64_t n = counts[0] + counts[1];
      EXPECT_LE(counts[1], n / 3);
      EXPECT_GE(counts[1], n / 3 - (phases - 1));
    }
  });
}

TEST_P(Collectives, MeanTheSameInAnyOrderOfIssue) {
  for_all(GetParam(), {3, 4, 6}, {{37, 5}}, [&](const Instance& i) {
    Schedule reversed = i.schedule;
    for (auto& list : reversed.operators) {
      std::reverse(list.begin(), list.end());
      for (Operator& op : list)
        for (Dependency& d : op.dependencies)
          d.index = static_cast<int>(reversed.operators[static_cast<std::size_t>(d.rank)].size()) - 1 - d.index;
    }
    EXPECT_NO_THROW(validate(reversed));
    EXPECT_NO_THROW(check_meaning(reversed));
  });
}

TEST_P(Collectives, NoDependencyCanBeLeftOut) {
  for_all(GetParam(), {2, 3, 4, 6}, {{13, 7}}, [&](const Instance& i) {
    for (std::size_t rank = 0; rank < i.schedule.operators.size(); ++rank)
      for (std::size_t o = 0; o < i.schedule.operators[rank].size(); ++o)
        for (std::size_t d = 0; d < i.schedule.operators[rank][o].dependencies.size(); ++d) {
          Schedule mutant = i.schedule;
          auto& list = mutant.operators[rank][o].dependencies;
          list.erase(list.begin() + static_cast<std::ptrdiff_t>(d));
          ASSERT_THROW(check_meaning(mutant), UserError)
              << "rank " << rank << " operator " << o << " without its dependency " << d;
        }
  });
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

TEST_P(Collectives, NoOperatorCanBeLeftOutOrRepeated) {
  for_all(GetParam(), {2, 3, 4}, {{13, 7}}, [&](const Instance& i) {
    for (int rank = 0; rank < i.ranks; ++rank)
      for (int o = 0; o < static_cast<int>(i.schedule.operators[static_cast<std::size_t>(rank)].size()); ++o) {
        ASSERT_THROW(check_meaning(without(i.schedule, {rank, o})), UserError) << "rank " << rank << " operator " << o;
        const Operator& op = i.schedule.at({rank, o});
        // A copy of a sum may be made twice: it brings the same.
        if (p2p_of(op).reduction == Reduction::none && i.tensor.before == Placement::partial_sum()) continue;
        Schedule twice = i.schedule;
        twice.operators[static_cast<std::size_t>(rank)].push_back(op);
        ASSERT_THROW(check_meaning(twice), UserError) << "rank " << rank << " operator " << o << " twice";
      }
  });
}

TEST_P(Collectives, SurviveTheirTextForm) {
  for_all(GetParam(), {3, 4}, {{13, 7}}, [&](const Instance& i) {
    const std::string text = to_json(i.schedule);
    const Schedule back = parse_schedule(SourceFile("s.json", text));
    EXPECT_EQ(to_json(back), text);
    EXPECT_NO_THROW(check_meaning(back));
  });
}

INSTANTIATE_TEST_SUITE_P(All, Collectives, ::testing::ValuesIn(all_parameters()),
                         [](const auto& test) { return test.param.name(); });

TEST(Recursive, SendsOneMessageAStepAndSplit) {
  // n log2(n) messages for powers of two, n ceil(log2(n)) where the blocks of other counts do not go round the end.
  for (const int ranks : {2, 4, 8, 16, 32})
    for (const std::int64_t split : {1, 2, 4}) {
      const LogicalTensor tensor{"a", {ranks * 8, 4}, Dtype::bf16, Placement::shard(0), Placement::replicate()};
      const Schedule schedule = all_gather(tensor, ranks, {Algorithm::recursive, Initiator::push, split}, {});
      const auto steps = static_cast<int>(std::bit_width(static_cast<unsigned>(ranks)) - 1);
      EXPECT_EQ(operator_count(schedule), static_cast<std::size_t>(ranks * steps * split));
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& list = schedule.operators[static_cast<std::size_t>(rank)];
        for (int o = 0; o < static_cast<int>(list.size()); ++o) {
          const int step = o / static_cast<int>(split);
          EXPECT_EQ(p2p_of(list[static_cast<std::size_t>(o)]).destination_rank, rank ^ (1 << step));
        }
      }
    }
  const LogicalTensor tensor{"a", {42, 4}, Dtype::bf16, Placement::shard(0), Placement::replicate()};
  const Schedule six = all_gather(tensor, 6, {Algorithm::recursive, Initiator::push, 1}, {});
  EXPECT_EQ(six.operators[0].size(), 3U) << "shards 0; 0 and 1; 0 and 1";
  EXPECT_EQ(six.operators[5].size(), 5U) << "shards 5; 5 and 0, which are apart; 5 and 0";
}

TEST(Hierarchical, AnExchangeSendsOneMessageFromEveryNodeToEveryRank) {
  const LogicalTensor tensor{"a", {32, 32}, Dtype::bf16, Placement::shard(0), Placement::shard(1)};
  TemplateOptions options{Algorithm::hierarchical, Initiator::push, 1};
  options.ranks_per_node = 4;
  const Schedule schedule = all_to_all(tensor, 8, options, {});
  int network = 0;
  int link = 0;
  for_each_transfer(schedule, [&](int, const Operator& op, const Region& chunk) {
    (op.port == 1 ? network : link) += 1;
    EXPECT_EQ(chunk.volume(), op.port == 1 ? 4 * 4 * 4 : 4 * 4);
  });
  EXPECT_EQ(network, 8) << "to every rank from the one other node, instead of from each of its four ranks";
  EXPECT_EQ(link, 8 * 3 * 2) << "from every rank to three others, for their own node and for the other";
}

TEST(DoubleRing, TheNetworkDoesNotWaitForTheInnerRing) {
  const LogicalTensor tensor{"a", {32, 4}, Dtype::bf16, Placement::shard(0), Placement::replicate()};
  TemplateOptions options{Algorithm::double_ring, Initiator::push, 1};
  options.ranks_per_node = 4;
  const Schedule schedule = all_gather(tensor, 8, options, {});
  for_each_transfer(schedule, [&](int, const Operator& op, const Region&) {
    if (op.port == 1) {
      EXPECT_TRUE(op.dependencies.empty());
    }
  });
  ASSERT_EQ(schedule.operators[0].size(), 7U);
  EXPECT_EQ(schedule.operators[0][3].port, 1) << "behind the three hops of the first inner round";
}

TEST(Shift, MovesEveryShardByItsSteps) {
  for (const Algorithm algorithm : algorithms_for(CollectiveType::all_to_all))
    for (const int ranks : {1, 2, 3, 4, 7})
      for (const int steps : {-5, -1, 0, 1, 2, 3, 8}) {
        TemplateOptions options{algorithm, Initiator::push, 1};
        if (algorithm == Algorithm::hierarchical) options.ranks_per_node = ranks == 4 ? 2 : 1;
        const LogicalTensor tensor{"k", {11, 3}, Dtype::bf16, Placement::shard(0), {}};
        const Schedule schedule = shift(tensor, steps, ranks, options, {});
        EXPECT_NO_THROW(check_meaning(schedule));
        const Meaning m = meaning(schedule);
        for (int rank = 0; rank < ranks; ++rank) {
          const int from = ((rank - steps) % ranks + ranks) % ranks;
          const Region part = held_region(Placement::shard(0), tensor.shape, ranks, from);
          for (const Holding& holding : m.holdings[0][static_cast<std::size_t>(rank)])
            if (!part.empty() && holding.region.overlaps(part)) {
              EXPECT_TRUE(holding.held) << ranks << " ranks by " << steps;
            }
        }
        const int up = (steps % ranks + ranks) % ranks;
        const std::int64_t rows = 11;
        if (algorithm == Algorithm::direct) {
          EXPECT_EQ(moved(schedule), up == 0 ? 0 : rows * 3);
        }
        if (algorithm == Algorithm::ring) {
          EXPECT_EQ(moved(schedule), rows * 3 * up);
        }
      }
}

TEST(OneShot, EverySummandGoesStraightToEveryRank) {
  const LogicalTensor tensor{"c", {6, 4}, Dtype::bf16, Placement::partial_sum(), Placement::replicate()};
  const Schedule schedule = all_reduce(tensor, 3, {Algorithm::one_shot, Initiator::push, 2}, {});
  EXPECT_EQ(operator_count(schedule), 3U * 2U * 2U);
  for_each_transfer(schedule, [&](int, const Operator& op, const Region&) {
    EXPECT_TRUE(p2p_of(op).own);
    EXPECT_TRUE(op.dependencies.empty());
  });
  // The rank's own summand, or it would have to wait for what arrives, which waits for it.
  Schedule mutant = schedule;
  std::get<P2P>(mutant.operators[0][0].action).own = false;
  EXPECT_THROW(check_meaning(mutant), UserError);
}

class TemplateErrors : public ::testing::Test {
 protected:
  static std::string error_of(const LogicalTensor& tensor, int ranks, const TemplateOptions& options) {
    try {
      make_collective(tensor, ranks, options, {"op.toml", 3, 7});
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }
  const LogicalTensor gathered_{"a", {24, 4}, Dtype::bf16, Placement::shard(0), Placement::replicate()};
  const LogicalTensor exchanged_{"a", {24, 4}, Dtype::bf16, Placement::shard(0), Placement::shard(1)};
  const LogicalTensor reduced_{"c", {24, 4}, Dtype::bf16, Placement::partial_sum(), Placement::replicate()};
};

TEST_F(TemplateErrors, Algorithms) {
  EXPECT_EQ(error_of(exchanged_, 4, {Algorithm::recursive}),
            "op.toml:3:7: there is no all_to_all by recursive; one of direct, ring, bidirectional_ring, hierarchical, "
            "interleaved");
  EXPECT_EQ(error_of(gathered_, 4, {Algorithm::one_shot}),
            "op.toml:3:7: there is no all_gather by one_shot; one of direct, ring, bidirectional_ring, double_ring, "
            "recursive, hierarchical, interleaved");
}

TEST_F(TemplateErrors, Nodes) {
  TemplateOptions options{Algorithm::hierarchical};
  EXPECT_EQ(error_of(gathered_, 6, options),
            "op.toml:3:7: hierarchical needs to know how many ranks a node has; give ranks_per_node, a divisor of the "
            "number of ranks: 1, 2, 3, 6");
  options.ranks_per_node = 4;
  EXPECT_EQ(error_of(gathered_, 6, options),
            "op.toml:3:7: 6 ranks do not make nodes of 4; a divisor of the number of ranks: 1, 2, 3, 6");
  options.ranks_per_node = -2;
  EXPECT_EQ(error_of(gathered_, 6, options),
            "op.toml:3:7: 6 ranks do not make nodes of -2; a divisor of the number of ranks: 1, 2, 3, 6");
  options = {Algorithm::ring};
  options.ranks_per_node = 2;
  EXPECT_EQ(
      error_of(gathered_, 6, options),
      "op.toml:3:7: ranks_per_node is 2, but ring has no nodes; leave it out, or use hierarchical or double_ring");
}

TEST_F(TemplateErrors, Shares) {
  TemplateOptions options{Algorithm::direct};
  options.shares = {3, 1};
  EXPECT_EQ(error_of(gathered_, 4, options),
            "op.toml:3:7: shares are given, but direct does not divide chunks over ports; leave them out, or use "
            "interleaved");
  options.algorithm = Algorithm::interleaved;
  options.shares = {3, -1};
  EXPECT_EQ(error_of(gathered_, 4, options), "op.toml:3:7: shares are 3:-1; numbers of chunks, not both zero");
}

TEST_F(TemplateErrors, Splits) {
  EXPECT_EQ(error_of(exchanged_, 4, {Algorithm::direct, Initiator::push, 7}),
            "op.toml:3:7: split is 7, but the largest box of 'a' that one rank has for another is [0:6, 0:1]: no "
            "dimension has so many indices; at most 6");
  EXPECT_EQ(error_of(reduced_, 4, {Algorithm::one_shot, Initiator::push, 25}),
            "op.toml:3:7: split is 25, but 'c' is 24 x 4: no dimension has so many indices; at most 24");
  EXPECT_EQ(error_of(reduced_, 4, {Algorithm::ring, Initiator::push, 0}), "op.toml:3:7: split is 0; at least 1");
  TemplateOptions options;
  options.dimension = 2;
  EXPECT_EQ(error_of(reduced_, 4, options),
            "op.toml:3:7: the reduction of 'c' of 2 dimensions is shared along dimension 2; dimensions count from 0 to "
            "1");
}

TEST(Shares, AreReadAsTwoNumbers) {
  EXPECT_EQ(parse_shares("3:1"), (std::array<int, 2>{3, 1}));
  EXPECT_EQ(parse_shares("0:5"), (std::array<int, 2>{0, 5}));
  for (const char* wrong :
       {"", ":", "3", "3:", ":1", "0:0", "-1:2", "1:2:3", "a:b", "1.5:1", "1000001:1", "99999999999:1"})
    EXPECT_FALSE(parse_shares(wrong).has_value()) << wrong;
}

}  // namespace
}  // namespace syncopate
