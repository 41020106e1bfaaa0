// Mistakes in schedules, in files and in code; each error at its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/schedule/meaning.h"
#include "syncopate/schedule/schedule_json.h"

namespace syncopate {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A hand-written all-gather of two ranks.
const std::string kTwoRanks = R"json({
  "syncopate_schedule": 1,
  "ranks": 2,
  "tensors": [{"name": "a", "shape": [8, 4], "dtype": "bf16", "before": "shard(0)", "after": "replicate"}],
  "operators": [
    [{"push": "a[0:4, :]", "to": 1}],
    [{"push": "a[4:8, :]", "to": 0, "after": [[0, 0]]}]
  ]
})json";

std::string error_of(const std::string& text) {
  const SourceFile file("s.json", text);
  try {
    check_meaning(parse_schedule(file), &file);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kTwoRanks;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ScheduleErrors, TheGoodOneIsGood) { EXPECT_EQ(error_of(kTwoRanks), "no error"); }

TEST(ScheduleErrors, Syntax) {
  EXPECT_THAT(error_of(replaced("\"ranks\": 2,", "\"ranks\" 2,")), StartsWith("s.json:3:11: not valid JSON"));
  EXPECT_THAT(error_of(kTwoRanks.substr(0, 100)), HasSubstr("not valid JSON"));
}

TEST(ScheduleErrors, KeysAndVersions) {
  EXPECT_EQ(error_of(replaced("\"to\": 1}", "\"to\": 1, \"prt\": 0}")),
            "s.json:6:44: unknown key 'prt' in operator; did you mean 'port'? known: push, pull, collective, to, into, "
            "reduce, own, after, port");
  EXPECT_THAT(error_of(replaced("\"to\": 1}", "\"from\": 1}")), StartsWith("s.json:6:6: operator has no 'to'"));
  EXPECT_THAT(error_of(replaced("\"syncopate_schedule\": 1", "\"syncopate_schedule\": 3")),
              StartsWith("s.json:2:25: this schedule is of version 3"));
  EXPECT_THAT(error_of(replaced("{\"push\": \"a[0:4, :]\", \"to\": 1}", "{\"to\": 1}")),
              HasSubstr("one of push, pull and collective"));
}

TEST(ScheduleErrors, OwnSummands) {
  EXPECT_EQ(error_of(replaced("\"to\": 1}", "\"to\": 1, \"own\": 1}")), "s.json:6:44: 'own' is not true or false");
  EXPECT_EQ(error_of(replaced("\"to\": 1}", "\"to\": 1, \"own\": true}")),
            "s.json:6:6: rank 0 operator 0: it sends a rank's own summand without adding it; only sums have summands: "
            "add it, or send what is there");
}

TEST(ScheduleErrors, RanksAndDependencies) {
  EXPECT_EQ(error_of(replaced("\"to\": 1", "\"to\": 2")),
            "s.json:6:6: rank 0 operator 0: the destination rank is 2; ranks count from 0 to 1");
  EXPECT_THAT(error_of(replaced("\"to\": 1", "\"to\": 0")), HasSubstr("source and destination are both rank 0"));
  EXPECT_EQ(error_of(replaced("[[0, 0]]", "[[0, 3]]")),
            "s.json:7:6: rank 1 operator 0: it depends on rank 0 operator 3, which does not exist; rank 0 has "
            "operators 0 to 0");
  EXPECT_THAT(error_of(replaced("[[0, 0]]", "[[5, 0]]")), HasSubstr("the rank of a dependency is 5"));
  EXPECT_THAT(error_of(replaced("[[0, 0]]", "[[1, 0]]")), HasSubstr("it depends on itself"));
  EXPECT_THAT(error_of(replaced("[[0, 0]]", "[0, 0]")),
              HasSubstr("s.json:7:47: a dependency is an integer; it must be an array"));
  EXPECT_THAT(error_of(replaced("\"ranks\": 2", "\"ranks\": 3")),
              HasSubstr("lists of operators for 2 ranks; one list for each of 3 ranks"));
}

TEST(ScheduleErrors, CyclesArePrinted) {
  EXPECT_EQ(error_of(replaced("\"to\": 1}", "\"to\": 1, \"after\": [[1, 0]]}")),
            "s.json:6:6: the dependencies form a cycle: rank 0 operator 0 -> rank 1 operator 0 -> rank 0 operator 0; "
            "remove one of these "
            "dependencies");
}

TEST(ScheduleErrors, Chunks) {
  EXPECT_EQ(error_of(replaced("a[0:4, :]", "b[0:4, :]")),
            "s.json:6:15: chunk 'b[0:4, :]' names no tensor 'b'; did you mean 'a'? known: a");
  EXPECT_THAT(error_of(replaced("a[0:4, :]", "a[0:9, :]")), HasSubstr("has the range 0:9; a part of 0:8"));
  EXPECT_THAT(error_of(replaced("a[0:4, :]", "a[0:4]")), HasSubstr("does not have 2 ranges; 'a' is 8 x 4"));
  EXPECT_THAT(error_of(replaced("a[0:4, :]", "a[0:4, :, :]")), HasSubstr("does not have 2 ranges"));
  EXPECT_THAT(error_of(replaced("a[0:4, :]", "a[0-4, :]")), HasSubstr("a range is begin:end"));
  EXPECT_THAT(error_of(replaced("a[0:4, :]", "a[x:4, :]")), HasSubstr("has the bound 'x'"));
  EXPECT_THAT(error_of(replaced("a[0:4, :]", "a")), HasSubstr("has no ranges"));
  EXPECT_THAT(error_of(replaced("\"to\": 1}", "\"to\": 1, \"into\": \"a[0:3, :]\"}")), HasSubstr("differ in size"));
  EXPECT_THAT(error_of(replaced("\"to\": 1}", "\"to\": 1, \"into\": \"a[4:8, :]\"}")),
              HasSubstr("it moves a[0:4, 0:4] to another place, a[4:8, 0:4]"));
}

TEST(ScheduleErrors, HolesAndOverlaps) {
  EXPECT_EQ(error_of(replaced("a[0:4, :]", "a[0:3, :]")),
            "s.json: rank 1 never receives a[3:4, 0:4]; after the schedule 'a' must be replicate");
  EXPECT_THAT(error_of(replaced("a[0:4, :]", "a[0:5, :]")),
              HasSubstr("s.json:6:6: rank 0 operator 0: it reads a[4:5, 0:4], which rank 0 does not hold by then"));
  EXPECT_THAT(error_of(replaced("[{\"push\": \"a[0:4, :]\", \"to\": 1}]",
                                "[{\"push\": \"a[0:4, :]\", \"to\": 1}, {\"push\": \"a[2:3, :]\", \"to\": 1}]")),
              HasSubstr("where rank 0 operator 0 puts it too; send every element once"));
}

TEST(ScheduleErrors, NumbersAreNotCutOff) {
  EXPECT_EQ(error_of(replaced("\"to\": 1}", "\"to\": 4294967297}")),
            "s.json:6:34: the peer is 4294967297; that is far too large");
  EXPECT_EQ(error_of(replaced("\"to\": 1}", "\"to\": -1}")), "s.json:6:34: the peer is -1; it counts from 0");
  EXPECT_THAT(error_of(replaced("[[0, 0]]", "[[0, 4294967296]]")),
              StartsWith("s.json:7:51: the index of a dependency"));
  EXPECT_THAT(error_of(replaced("\"ranks\": 2", "\"ranks\": 0")), StartsWith("s.json:3:12: 0 ranks"));
}

TEST(ScheduleErrors, Operators) {
  EXPECT_THAT(error_of(replaced("\"to\": 1}", "\"to\": 1, \"reduce\": \"max\"}")),
              HasSubstr("unknown reduction 'max'; known: sum"));
  EXPECT_THAT(error_of(replaced("\"to\": 1}", "\"to\": 1, \"reduce\": \"sum\"}")),
              HasSubstr("s.json:6:6: rank 0 operator 0: it reduces a tensor that is not partial"));
  EXPECT_THAT(error_of(replaced("a[0:4, :]", "a[4:4, :]")),
              HasSubstr("s.json:6:6: rank 0 operator 0: its chunk is empty; leave it out"));
  EXPECT_THAT(error_of(replaced("{\"push\": \"a[0:4, :]\", \"to\": 1}", "{\"collective\": \"all_gater\"}")),
              HasSubstr("s.json:6:21: unknown collective 'all_gater'; did you mean 'all_gather'?"));
  EXPECT_THAT(error_of(replaced("\"push\": \"a[0:4, :]\", \"to\": 1",
                                R"("collective": "all_gather", "ranks": [1, 1], "sources": ["a[0:4, :]", "a[4:8, :]"],
                                "destinations": ["a[:, :]", "a[:, :]"])")),
              HasSubstr("rank 1 takes part in the collective twice; list every rank once"));
  EXPECT_THAT(error_of(replaced("\"push\": \"a[0:4, :]\", \"to\": 1",
                                R"("collective": "all_gather", "ranks": [1], "sources": ["a[0:4, :]"],
                                "destinations": ["a[:, :]"])")),
              HasSubstr("rank 0 does not take part in the collective; list it at one of its ranks"));
  EXPECT_THAT(error_of(replaced("\"push\": \"a[0:4, :]\", \"to\": 1",
                                R"("collective": "all_gather", "ranks": [0, 1], "sources": ["a[0:4, :]"],
                                "destinations": ["a[:, :]"])")),
              HasSubstr("a source and a destination chunk for each of its ranks; give 2 of each"));
}

TEST(ScheduleErrors, Tensors) {
  EXPECT_THAT(error_of(replaced("\"name\": \"a\"", "\"name\": \"a[\"")),
              StartsWith("s.json:4:24: a tensor named 'a['; a name that is not empty"));
  EXPECT_THAT(error_of(replaced("\"bf16\"", "\"bf\"")), HasSubstr("unknown dtype 'bf'"));
  EXPECT_THAT(error_of(replaced("shard(0)", "shard(2)")), HasSubstr("shard(2) of a tensor of 2 dimensions"));
  EXPECT_THAT(error_of(replaced("shard(0)", "split")), HasSubstr("'split' is not a placement"));
  EXPECT_THAT(error_of(replaced("[8, 4]", "[8, 0]")), HasSubstr("a size of 0"));
}

}  // namespace
}  // namespace syncopate
