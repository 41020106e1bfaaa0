#include "syncopate/capi/options.h"

#include <gtest/gtest.h>

#include "syncopate/capi/syncopate.h"

namespace syncopate::capi {
namespace {

TEST(Options, NoneAreTheDefaults) {
  const auto options = complete<syncopate_run_options>(nullptr, syncopate_run_options_init);
  EXPECT_EQ(options.repeat, 1);
  EXPECT_EQ(options.seed, 0U);
}

TEST(Options, OfAnOlderCallerKeepTheDefaultsOfWhatItDoesNotKnow) {
  syncopate_operator_options given;
  syncopate_operator_options_init(&given);
  given.rank = 3;
  given.withheld_queue = 5;
  given.size = offsetof(syncopate_operator_options, withheld_queue);
  const auto options = complete(&given, syncopate_operator_options_init);
  EXPECT_EQ(options.rank, 3);
  EXPECT_EQ(options.withheld_queue, -1);
  EXPECT_EQ(options.size, sizeof options);
}

TEST(Options, OfANewerCallerOrWithoutASizeAreRefused) {
  syncopate_operator_options given;
  syncopate_operator_options_init(&given);
  given.size += 8;
  EXPECT_THROW(complete(&given, syncopate_operator_options_init), UserError);
  given.size = 0;
  EXPECT_THROW(complete(&given, syncopate_operator_options_init), UserError);
}

}  // namespace
}  // namespace syncopate::capi
