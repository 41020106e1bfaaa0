#include <gtest/gtest.h>

#include "syncopate/schedule/meaning.h"
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

TEST(Expand, RefusesWhatItCannotOpen) {
  EXPECT_THROW(expand_collectives(with_collective(2, CollectiveType::all_to_all), {}), UserError);
  Schedule odd = with_collective(2, CollectiveType::all_gather);
  std::swap(std::get<Collective>(odd.operators[0][0].action).source_chunks[0],
            std::get<Collective>(odd.operators[0][0].action).source_chunks[1]);
  EXPECT_THROW(expand_collectives(odd, {}), UserError);
}

}  // namespace
}  // namespace syncopate
