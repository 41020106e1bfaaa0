// The text form: stable bytes, and the examples in the documentation are real.
#include <gtest/gtest.h>

#include <filesystem>

#include "syncopate/schedule/meaning.h"
#include "syncopate/schedule/schedule_json.h"
#include "syncopate/schedule/templates.h"

namespace syncopate {
namespace {

TEST(ScheduleJson, RoundTripIsStable) {
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::bidirectional_ring})
    for (const Initiator initiator : {Initiator::push, Initiator::pull}) {
      const LogicalTensor tensor{"a", {37, 5}, Dtype::fp16, Placement::shard(0), Placement::replicate()};
      const std::string text = to_json(all_gather(tensor, 4, {algorithm, initiator, 2}, {}));
      const Schedule again = parse_schedule(SourceFile("s.json", text));
      EXPECT_EQ(to_json(again), text);
      EXPECT_NO_THROW(check_meaning(again));
    }
}

TEST(ScheduleJson, EverythingSurvives) {
  ScheduleBuilder builder(2);
  const int c = builder.tensor({"c", {4, 2}, Dtype::fp32, Placement::partial_sum(), Placement::replicate()});
  const int all = builder.chunk(c, Region::whole({4, 2}));
  const Dependency first = builder.pull(0, 1, all, all, {}, 2, Reduction::sum);
  builder.collective({CollectiveType::broadcast, {1, 0}, {all, all}, {all, all}}, {first});
  const std::string text = to_json(std::move(builder).build());
  EXPECT_EQ(to_json(parse_schedule(SourceFile("s.json", text))), text);
  EXPECT_NE(text.find("\"reduce\": \"sum\""), std::string::npos);
  EXPECT_NE(text.find("\"port\": 2"), std::string::npos);
  EXPECT_NE(text.find("\"broadcast\""), std::string::npos);
}

TEST(ScheduleJson, TheDocumentedExampleIsAnAllGather) {
  const auto page = SourceFile::read(SYNCOPATE_SOURCE_DIR "/docs/schedules.md");
  const std::string fence = "```json\n";
  const std::size_t begin = page->text().find(fence);
  ASSERT_NE(begin, std::string::npos);
  const std::size_t end = page->text().find("```", begin + fence.size());
  const SourceFile file("example", page->text().substr(begin + fence.size(), end - begin - fence.size()));
  EXPECT_NO_THROW(check_meaning(parse_schedule(file), &file));
}

TEST(ScheduleJson, ShippedExamplesAreAllGathers) {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SYNCOPATE_SOURCE_DIR "/examples/schedules")) {
    const auto file = SourceFile::read(entry.path().string());
    EXPECT_NO_THROW(check_meaning(parse_schedule(*file), file.get())) << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 2);
}

}  // namespace
}  // namespace syncopate
