#include "syncopate/core/json.h"

#include <gtest/gtest.h>

namespace syncopate {
namespace {

SourceFile file(const std::string& text) { return SourceFile("f.json", text); }

std::string error_of(const std::string& text) {
  const SourceFile source = file(text);
  try {
    parse_json(source);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Json, ValuesKnowTheirPlace) {
  const SourceFile source = file("{\n  \"a\": [1, -22, \"x\"],\n  \"b\" : {\"c\": 2.5}, \"d\": true\n}\n");
  const Json root = parse_json(source);
  const auto place = [&](const Json& value) { return source.locate(value.offset()).to_string(); };
  EXPECT_EQ(place(root), "f.json:1:1");
  const Json& a = *root.find("a");
  EXPECT_EQ(place(a), "f.json:2:8");
  EXPECT_EQ(place(a.items()[1]), "f.json:2:12");
  EXPECT_EQ(place(a.items()[2]), "f.json:2:17");
  EXPECT_EQ(place(*root.find("b")), "f.json:3:9");
  EXPECT_EQ(place(*root.find("b")->find("c")), "f.json:3:15");
  EXPECT_EQ(place(*root.find("d")), "f.json:3:26");
  EXPECT_EQ(a.items()[1].integer(), -22);
  EXPECT_EQ(root.find("b")->find("c")->number(), 2.5);
  EXPECT_TRUE(root.find("d")->boolean());
}

TEST(Json, StringsWithEscapesAndBracketsKeepPlaces) {
  const SourceFile source = file("[\"a\\\"],[\", {\"k]\": \"}\"}, 7]");
  const Json root = parse_json(source);
  EXPECT_EQ(root.items()[0].string(), "a\"],[");
  EXPECT_EQ(root.items()[1].offset(), 11U);
  EXPECT_EQ(root.items()[2].offset(), 24U);
}

TEST(Json, SyntaxErrorsNameThePlace) {
  EXPECT_EQ(error_of("{\"a\": }").rfind("f.json:1:7: not valid JSON", 0), 0U) << error_of("{\"a\": }");
  EXPECT_NE(error_of("{\"a\": [1, 2").find("unexpected end of input"), std::string::npos);
  EXPECT_NE(error_of("").find("not valid JSON"), std::string::npos);
  // A text that was cut short is not repeated.
  const std::string cut = error_of("{\"a\": \"" + std::string(5000, 'x'));
  EXPECT_NE(cut.find("missing closing quote"), std::string::npos) << cut;
  EXPECT_LT(cut.size(), 200U) << cut;
  EXPECT_EQ(error_of("{\"a\": 1,\n \"a\": 2}"), "f.json:2:2: key 'a' stands here a second time; keep one of them");
}

TEST(Json, NestingHasALimit) {
  const auto nested = [](std::size_t depth, const std::string& open, const std::string& close) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) text += open;
    text += "1";
    for (std::size_t i = 0; i < depth; ++i) text += close;
    return text;
  };
  const SourceFile deepest = file(nested(256, "[", "]"));
  const Json root = parse_json(deepest);
  EXPECT_EQ(root.items().size(), 1U);
  EXPECT_EQ(error_of(nested(257, "[", "]")),
            "f.json:1:257: arrays and objects nested more than 256 deep; no file of Syncopate's is");
  EXPECT_EQ(error_of(nested(1000000, "[", "]")), error_of(nested(257, "[", "]")));
  EXPECT_EQ(error_of(nested(1000000, "{\"a\":", "}")),
            "f.json:1:1281: arrays and objects nested more than 256 deep; no file of Syncopate's is");
  EXPECT_EQ(error_of(std::string(1000000, '[')), error_of(nested(257, "[", "]"))) << "never closed";
}

TEST(Json, DumpIsReadBackTheSame) {
  Json root = Json::object();
  root.set("text", "line\n\"quoted\" \xC3\xA9");
  root.set("numbers", Json::array({1, -2, 0.1, 1e300}));
  Json big = Json::array();
  for (int i = 0; i < 200; ++i) big.push_back(Json::array({i, i + 1}));
  root.set("big", big);
  root.set("none", Json());
  root.set("empty", Json::object());
  const std::string text = root.dump();
  const SourceFile source = file(text);
  EXPECT_EQ(parse_json(source).dump(), text);
  EXPECT_EQ(parse_json(source).find("numbers")->items()[2].number(), 0.1);
  EXPECT_NE(text.find("\"numbers\": [1, -2, 0.1, 1e+300]"), std::string::npos) << text.substr(0, 200);
}

TEST(JsonReader, ComplainsAboutMissingUnknownAndWrong) {
  const SourceFile source = file("{\"rank\": 1, \"name\": 3,\n \"extra\": 0}");
  const Json root = parse_json(source);
  JsonReader reader(source, root, "transfer");
  EXPECT_EQ(reader.integer("rank"), 1);
  const auto message = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { reader.string("name"); }),
            "f.json:1:21: 'name' of transfer is an integer; it must be a string");
  EXPECT_EQ(message([&] { reader.integer("size"); }), "f.json:1:1: transfer has no 'size'; add it");
  EXPECT_EQ(message([&] { reader.finish(); }), "f.json:2:11: unknown key 'extra' in transfer; known: rank, name, size");
  EXPECT_EQ(message([&] { JsonReader(source, *root.find("rank"), "rank"); }),
            "f.json:1:10: rank is an integer; it must be an object");
}

}  // namespace
}  // namespace syncopate
