// What a machine with no GPU says. The library's name is one that no machine has, so these hold everywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "syncopate/core/error.h"
#include "syncopate/cuda/doctor.h"
#include "syncopate/cuda/driver.h"

namespace syncopate::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Driver, WhereThereIsNoneTheErrorSaysWhatStillWorks) {
  try {
    Driver::load("libno-such-driver.so.1");
    FAIL() << "a driver was found";
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("there is no CUDA driver on this machine"));
    EXPECT_THAT(error.remedy(), HasSubstr("CPU ranks"));
  }
}

TEST(Driver, ALibraryThatIsNoDriverIsAnError) {
  try {
    Driver::load("libc.so.6");
    FAIL() << "libc passed for a driver";
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("has no cuInit"));
    EXPECT_THAT(error.remedy(), HasSubstr("CUDA 12.0"));
  }
}

TEST(Doctor, SaysWhatIsMissingAndWhatWorks) {
  const std::string report = doctor({.python = "/nonexistent/python", .library = "libno-such-driver.so.1"});
  EXPECT_THAT(report, HasSubstr("GPUs          none: there is no CUDA driver"));
  EXPECT_THAT(report, HasSubstr("Python        no: /nonexistent/python: cannot be started"));
  EXPECT_THAT(report, HasSubstr("works here    compile, verify, show, schedule, run on CPU ranks\n"));
  EXPECT_THAT(report,
              HasSubstr("does not      run --on gpu, profile, Operator in Python: needs a GPU of compute capability "
                        "9.0 or higher, and Triton (pip install"));
}

TEST(Doctor, APythonWithoutTritonIsNoFailure) {
  const std::string report = doctor({.python = "false", .library = "libno-such-driver.so.1"});
  EXPECT_THAT(report, HasSubstr("not installed for false"));
  EXPECT_THAT(report, Not(HasSubstr("--share")));
}

}  // namespace
}  // namespace syncopate::cuda
