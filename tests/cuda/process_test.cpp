#include "syncopate/cuda/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "syncopate/core/error.h"

namespace syncopate::cuda {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(Process, OutputOfBothKindsAndTheExitCodeComeBack) {
  const ProcessResult result = run_process({"sh", "-c", "pwd; echo wrong >&2; exit 3"}, "/", seconds(20));
  EXPECT_EQ(result.output, "/\nwrong\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.signal, 0);
  EXPECT_FALSE(result.timed_out);
}

TEST(Process, MuchOutputDoesNotBlock) {
  const ProcessResult result = run_process({"sh", "-c", "head -c 1000000 /dev/zero"}, "/", seconds(20));
  EXPECT_EQ(result.output.size(), 1000000U);
  EXPECT_EQ(result.exit_code, 0);
}

TEST(Process, AnAbortIsSeen) {
  const ProcessResult result = run_process({"sh", "-c", "kill -ABRT $$"}, "/", seconds(20));
  EXPECT_EQ(result.signal, SIGABRT);
  EXPECT_EQ(result.exit_code, -1);
}

TEST(Process, AtTheLimitChildrenOfTheChildEndToo) {
  const auto begin = std::chrono::steady_clock::now();
  const ProcessResult result = run_process({"sh", "-c", "echo begun; sleep 30; echo done"}, "/", milliseconds(300));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.output, "begun\n");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(10));
}

TEST(Process, AProgramThatIsNotThereIsAnError) {
  try {
    run_process({"/nonexistent/python"}, "/", seconds(1));
    FAIL() << "it started";
  } catch (const UserError& error) {
    EXPECT_EQ(error.where().file, "/nonexistent/python");
    EXPECT_THAT(error.problem(), HasSubstr("cannot be started (No such file"));
  }
}

}  // namespace
}  // namespace syncopate::cuda
