#include <gtest/gtest.h>

#include "syncopate/schedule/meaning.h"
#include "syncopate/schedule/schedule_json.h"
#include "syncopate/schedule/templates.h"

namespace syncopate {
namespace {

Schedule with_collective(int ranks, CollectiveType type) {
  ScheduleBuilder builder(ranks);
  const LogicalTensor tensor{"a", {13, 2}, Dtype::bf16, Placement::shard(0), Placement::replicate()};
  const int a = builder.tensor(tensor);
  Collective collective;
  collective.type = type;
  for (int rank = 0; rank < ranks; ++rank) {
    collective.ranks.push_back(rank);
    collective.source_chunks.push_back(builder.chunk(a, held_region(tensor.before, tensor.shape, ranks, rank)));
    collective.destination_chunks.push_back(builder.chunk(a, Region::whole(tensor.shape)));
  }
  builder.collective(std::move(collective));
  return std::move(builder).build();
}

TEST(Expand, KeepsTheMeaning) {
  for (const int ranks : {2, 3, 4})
    for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::bidirectional_ring}) {
      const Schedule collective = with_collective(ranks, CollectiveType::all_gather);
      EXPECT_NO_THROW(check_meaning(collective));
      const Schedule opened = expand_collectives(collective, {algorithm, Initiator::push, 2});
      EXPECT_NO_THROW(check_meaning(opened));
      for (const auto& list : opened.operators)
        for (const Operator& op : list) EXPECT_TRUE(std::holds_alternative<P2P>(op.action));
      const Schedule direct = all_gather(collective.tensors[0], ranks, {algorithm, Initiator::push, 2}, {});
      for (std::size_t rank = 0; rank < direct.operators.size(); ++rank)
        EXPECT_EQ(opened.operators[rank].size(), direct.operators[rank].size());
    }
}

TEST(Expand, KeepsWhatComesBeforeAndAfter) {
  // `b` goes from rank 0 to rank 1 before the gather of `a`, and on to rank 2 after it.
  ScheduleBuilder builder(3);
  const int a = builder.tensor({"a", {6}, Dtype::bf16, Placement::shard(0), Placement::replicate()});
  const int b = builder.tensor({"b", {3}, Dtype::bf16, Placement::shard(0), Placement::shard(0)});
  const int zero = builder.chunk(b, {{0, 1}});
  const Dependency first = builder.push(0, 1, zero, zero, {}, 1);
  Collective gather;
  for (int rank = 0; rank < 3; ++rank) {
    gather.ranks.push_back(rank);
    gather.source_chunks.push_back(builder.chunk(a, held_region(Placement::shard(0), {6}, 3, rank)));
    gather.destination_chunks.push_back(builder.chunk(a, {{0, 6}}));
  }
  const Dependency middle = builder.collective(gather, {first});
  builder.pull(1, 2, zero, zero, {middle}, 2);  // right only because the gather came after `first`
  const Schedule schedule = std::move(builder).build();
  EXPECT_NO_THROW(check_meaning(schedule));

  const Schedule opened = expand_collectives(schedule, {Algorithm::ring, Initiator::push, 2});
  EXPECT_NO_THROW(check_meaning(opened));
  const Meaning before = meaning(schedule);
  const Meaning after = meaning(opened);
  for (std::size_t tensor = 0; tensor < 2; ++tensor)
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const auto& was = before.holdings[tensor][rank];
      const auto& is = after.holdings[tensor][rank];
      ASSERT_EQ(was.size(), is.size());
      for (std::size_t i = 0; i < is.size(); ++i) {
        EXPECT_EQ(was[i].region, is[i].region);
        EXPECT_EQ(was[i].held, is[i].held);
      }
    }
  EXPECT_EQ(opened.operators[0][0].port, 1);
  const Operator& last = opened.operators[2].back();
  EXPECT_EQ(last.port, 2);
  EXPECT_EQ(last.dependencies.size(), 3U * 2U * 2U) << "behind every transfer of the gather";
  for (std::size_t rank = 0; rank < 3; ++rank)
    for (const Operator& op : opened.operators[rank])
      if (opened.chunks[static_cast<std::size_t>(std::get<P2P>(op.action).source_chunk)].tensor == 0) {
        ASSERT_FALSE(op.dependencies.empty());
        EXPECT_EQ(op.dependencies[0], (Dependency{0, 0}));
      }
}

TEST(Expand, ErrorsHaveAPlace) {
  const SourceFile file("s.json", to_json(with_collective(2, CollectiveType::all_to_all)));
  const Schedule schedule = parse_schedule(file);
  try {
    expand_collectives(schedule, {}, &file);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.where(), file.locate(file.text().rfind('{', file.text().find("\"collective\""))));
    EXPECT_EQ(error.problem(), "the all_to_all of 'a' does not turn shard(0) into replicate");
  }
}

TEST(Expand, RanksWithoutAShardTakePart) {
  ScheduleBuilder builder(4);
  const int a = builder.tensor({"a", {5, 2}, Dtype::bf16, Placement::shard(0), Placement::replicate()});
  Collective gather;
  for (int rank = 0; rank < 4; ++rank) {
    gather.ranks.push_back(rank);
    gather.source_chunks.push_back(builder.chunk(a, held_region(Placement::shard(0), {5, 2}, 4, rank)));
    gather.destination_chunks.push_back(builder.chunk(a, Region::whole({5, 2})));
  }
  builder.collective(gather);
  const Schedule schedule = std::move(builder).build();
  EXPECT_NO_THROW(check_meaning(schedule));
  const Schedule read = parse_schedule(SourceFile("s.json", to_json(schedule)));
  const Schedule opened = expand_collectives(read, {});
  EXPECT_NO_THROW(check_meaning(opened));
  EXPECT_TRUE(opened.operators[3].empty());
}

/// A reduce-scatter of 5 rows over 4 ranks, one of which gets none, with the given source chunk.
Schedule reduce_scatter_of(const Region& source) {
  ScheduleBuilder builder(4);
  const int c = builder.tensor({"c", {5, 2}, Dtype::fp32, Placement::partial_sum(), Placement::shard(0)});
  Collective reduce;
  reduce.type = CollectiveType::reduce_scatter;
  for (int rank = 0; rank < 4; ++rank) {
    reduce.ranks.push_back(rank);
    reduce.source_chunks.push_back(builder.chunk(c, source));
    reduce.destination_chunks.push_back(builder.chunk(c, held_region(Placement::shard(0), {5, 2}, 4, rank)));
  }
  builder.collective(reduce);
  return std::move(builder).build();
}

TEST(Expand, AReduceScatterBecomesItsTemplate) {
  const Schedule schedule = reduce_scatter_of(Region::whole({5, 2}));
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::bidirectional_ring}) {
    const TemplateOptions options{algorithm, Initiator::pull, 2};
    const Schedule opened = expand_collectives(schedule, options);
    EXPECT_NO_THROW(check_meaning(opened));
    EXPECT_EQ(operator_count(opened), 5U * 3U) << "five chunks, to each the summands of three ranks";
    EXPECT_EQ(to_json(opened), to_json(reduce_scatter(schedule.tensors[0], 4, options, {})));
  }
}

/// One collective over all ranks between what the placements say.
Schedule whole_collective(CollectiveType type, const LogicalTensor& tensor, std::vector<int> order) {
  const auto ranks = static_cast<int>(order.size());
  ScheduleBuilder builder(ranks);
  const int t = builder.tensor(tensor);
  Collective collective;
  collective.type = type;
  for (const int rank : order) {
    collective.ranks.push_back(rank);
    collective.source_chunks.push_back(builder.chunk(t, held_region(tensor.before, tensor.shape, ranks, rank)));
    collective.destination_chunks.push_back(builder.chunk(t, held_region(tensor.after, tensor.shape, ranks, rank)));
  }
  builder.collective(std::move(collective));
  return std::move(builder).build();
}

TEST(Expand, EveryCollectiveBecomesItsTemplate) {
  const auto tensor = [](Placement before, Placement after) {
    return LogicalTensor{"t", {7, 6}, Dtype::fp32, before, after};
  };
  const std::vector<std::tuple<CollectiveType, LogicalTensor, std::vector<int>>> all = {
      {CollectiveType::all_to_all, tensor(Placement::shard(0), Placement::shard(1)), {0, 1, 2}},
      {CollectiveType::all_reduce, tensor(Placement::partial_sum(), Placement::replicate()), {0, 1, 2}},
      {CollectiveType::broadcast, tensor(Placement::only(2), Placement::replicate()), {2, 1, 0}}};
  for (const auto& [type, t, order] : all) {
    const Schedule schedule = whole_collective(type, t, order);
    EXPECT_NO_THROW(check_meaning(schedule)) << collective_name(type);
    const Schedule opened = expand_collectives(schedule, {Algorithm::direct, Initiator::push, 2});
    EXPECT_NO_THROW(check_meaning(opened)) << collective_name(type);
    EXPECT_EQ(to_json(opened), to_json(make_collective(t, 3, {Algorithm::direct, Initiator::push, 2}, {})))
        << collective_name(type);
  }
  // The own summands of a one-shot sum stay own.
  const Schedule sum = whole_collective(CollectiveType::all_reduce, std::get<1>(all[1]), {0, 1, 2});
  EXPECT_NO_THROW(check_meaning(expand_collectives(sum, {Algorithm::one_shot, Initiator::push, 1})));
  // A broadcast from another rank than the one that holds the tensor, and a collective in another order.
  EXPECT_THROW(expand_collectives(whole_collective(CollectiveType::broadcast, std::get<1>(all[2]), {0, 1, 2}), {}),
               UserError);
  EXPECT_THROW(expand_collectives(whole_collective(CollectiveType::all_to_all, std::get<1>(all[0]), {1, 0, 2}), {}),
               UserError);
}

TEST(Expand, AReduceScatterOfPartsIsNotOpened) {
  try {
    expand_collectives(reduce_scatter_of({{0, 5}, {0, 1}}), {});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.problem(), "the reduce_scatter of 'c' does not turn partial(sum) into shard(0)");
  }
}

TEST(Expand, RefusesWhatItCannotOpen) {
  EXPECT_THROW(expand_collectives(with_collective(2, CollectiveType::all_to_all), {}), UserError);
  Schedule odd = with_collective(2, CollectiveType::all_gather);
  std::swap(std::get<Collective>(odd.operators[0][0].action).source_chunks[0],
            std::get<Collective>(odd.operators[0][0].action).source_chunks[1]);
  EXPECT_THROW(expand_collectives(odd, {}), UserError);
}

}  // namespace
}  // namespace syncopate
