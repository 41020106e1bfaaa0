// Plans through the C interface, where C++ is needed to make wrong ones; program.c has the rest.
#include <gtest/gtest.h>

#include "syncopate/capi/syncopate.h"
#include "syncopate/core/json.h"
#include "syncopate/driver/driver.h"
#include "syncopate/plan/plan_json.h"

namespace syncopate::capi {
namespace {

Json report_of(syncopate_code (*make)(const syncopate_plan*, char**, syncopate_error**), const syncopate_plan* plan) {
  char* text = nullptr;
  EXPECT_EQ(make(plan, &text, nullptr), SYNCOPATE_OK);
  const Json json = parse_json(SourceFile("report", text));
  syncopate_text_free(text);
  return json;
}

syncopate_plan* handle_of(const Plan& plan) {
  const std::string text = to_json(plan);
  syncopate_plan* handle = nullptr;
  syncopate_error* error = nullptr;
  EXPECT_EQ(syncopate_plan_parse("plan.json", text.data(), text.size(), &handle, &error), SYNCOPATE_OK)
      << syncopate_error_message(error);
  return handle;
}

Plan small_plan() {
  return compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm.toml", {{"ranks", "2"}, {"kernel.args.M", "256"}});
}

TEST(WrongPlans, AreResultsAndNotErrors) {
  Plan plan = small_plan();
  for (RankProgram& program : plan.programs)
    for (Slot& slot : program.slots) slot.waits.clear();
  syncopate_plan* handle = handle_of(plan);

  const Json proof = report_of(syncopate_plan_verify, handle);
  EXPECT_FALSE(proof.find("holds")->boolean());
  int refuted = 0;
  for (const Json& theorem : proof.find("theorems")->items()) {
    EXPECT_NE(theorem.find("holds")->boolean(), theorem.find("evidence")->string().empty());
    EXPECT_EQ(theorem.find("holds")->boolean(), theorem.find("counterexample")->string().empty());
    refuted += theorem.find("holds")->boolean() ? 0 : 1;
  }
  EXPECT_GT(refuted, 0);

  const auto run = [](const syncopate_plan* of, char** text, syncopate_error** error) {
    return syncopate_plan_run(of, nullptr, text, error);
  };
  const Json report = report_of(run, handle);
  EXPECT_FALSE(report.find("right")->boolean());
  EXPECT_EQ(report.find("outcome")->string(), "race");
  EXPECT_NE(report.find("message")->string().find("rank"), std::string::npos);
  syncopate_plan_free(handle);
}

TEST(Describe, AgreesWithThePlan) {
  const Plan plan = small_plan();
  syncopate_plan* handle = handle_of(plan);
  const Json about = report_of(syncopate_plan_describe, handle);
  EXPECT_EQ(about.find("hash")->string(), plan_hash(plan));
  EXPECT_EQ(about.find("ranks")->integer(), plan.ranks);
  EXPECT_EQ(about.find("workers")->integer(), plan.workers);
  EXPECT_EQ(about.find("tiles")->integer(), static_cast<std::int64_t>(plan.tiles.size()));
  EXPECT_EQ(about.find("extra_bytes")->find("staging")->integer(), extra_memory(plan).staging);
  ASSERT_EQ(about.find("buffers")->items().size(), plan.buffers.size());
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const Json& buffer = about.find("buffers")->items()[i];
    EXPECT_EQ(buffer.find("name")->string(), plan.buffers[i].name);
    EXPECT_EQ(buffer.find("symmetric")->boolean(), plan.buffers[i].symmetric);
    EXPECT_EQ(buffer.find("bindable")->boolean(), !plan.buffers[i].symmetric);
    EXPECT_EQ(buffer.find("held")->items().size(), static_cast<std::size_t>(plan.ranks));
  }
  syncopate_plan_free(handle);
}

TEST(Describe, WhatTransfersMoveIsNotTheCallersMemory) {
  const Plan plan = compile_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_rs.toml", {{"ranks", "2"}});
  syncopate_plan* handle = handle_of(plan);
  const Json about = report_of(syncopate_plan_describe, handle);
  for (const Json& buffer : about.find("buffers")->items()) {
    const std::string& name = buffer.find("name")->string();
    EXPECT_EQ(buffer.find("bindable")->boolean(), name == "a" || name == "b") << name;
    EXPECT_EQ(buffer.find("output")->boolean(), name == "c") << name;
  }
  syncopate_plan_free(handle);
}

}  // namespace
}  // namespace syncopate::capi
