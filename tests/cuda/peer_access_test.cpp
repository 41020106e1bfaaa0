// What is said where the link between two GPUs will not do.
#include "syncopate/cuda/peer_access.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "syncopate/core/error.h"
#include "syncopate/cuda/gpu.h"

namespace syncopate::cuda {
namespace {

using ::testing::HasSubstr;

/// Two GPUs: GPU 0 reaches GPU 1 by atomics, GPU 1 reaches GPU 0 by copies only, and GPU 2 is reached by none.
Driver three_gpus() {
  Driver driver{};
  driver.device_get = [](Device* device, int ordinal) -> Result { return *device = 10 + ordinal, kSuccess; };
  driver.device_can_access_peer = [](int* can, Device, Device to) -> Result { return *can = to != 12, kSuccess; };
  driver.device_get_p2p_attribute = [](int* value, int attribute, Device from, Device to) -> Result {
    EXPECT_EQ(attribute, 3);
    return *value = from == 10 && to == 11, kSuccess;
  };
  return driver;
}

void expect_refused(int from, int to, const std::string& problem) {
  try {
    check_peer_access(three_gpus(), from, to);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr(problem));
    EXPECT_THAT(error.remedy(), HasSubstr("GPUs joined by NVLink"));
    EXPECT_THAT(error.remedy(), HasSubstr("--share"));
  }
}

TEST(PeerAccess, SaysWhatALinkLacks) {
  EXPECT_NO_THROW(check_peer_access(three_gpus(), 0, 1));
  expect_refused(1, 0, "GPU 1 reaches the memory of GPU 0 without native atomics: signals");
  expect_refused(0, 2, "GPU 0 cannot reach the memory of GPU 2");
}

TEST(PeerAccess, IsAskedForBeforeItIsEnabled) {
  auto driver = std::make_shared<Driver>(three_gpus());
  driver->device_get_attribute = [](int* value, int, Device) -> Result { return *value = 9, kSuccess; };
  driver->primary_context_retain = [](Context* context, Device) -> Result { return *context = nullptr, kSuccess; };
  driver->primary_context_release = [](Device) -> Result { return kSuccess; };
  driver->context_set_current = [](Context) -> Result { return kSuccess; };
  driver->context_get_stream_priority_range = [](int* least, int* most) -> Result {
    return *least = *most = 0, kSuccess;
  };
  static int enabled = 0;
  enabled = 0;
  driver->context_enable_peer_access = [](Context, unsigned) -> Result { return ++enabled, kSuccess; };
  Gpu first(driver, 0);
  const Gpu second(driver, 1);
  Gpu other(driver, 1);
  first.enable_peer_access(second);
  EXPECT_EQ(enabled, 1);
  EXPECT_THROW(other.enable_peer_access(first), UserError);
  EXPECT_EQ(enabled, 1);
}

}  // namespace
}  // namespace syncopate::cuda
