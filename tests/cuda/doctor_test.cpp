// What doctor finds out of drivers that answer as the test says, and what it says of machines.
#include "syncopate/cuda/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "syncopate/core/error.h"

namespace syncopate::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

DeviceUuid uuid(char letter) {
  DeviceUuid made;
  made.bytes.fill(letter);
  return made;
}

TEST(Nvml, IsNoFailureWhereItIsMissing) {
  EXPECT_FALSE(Nvml::load("libno-such-library.so.1").has_value());
  EXPECT_FALSE(Nvml::load("libc.so.6").has_value()) << "another library";
}

TEST(Nvml, TellsOfLinks) {
  const auto nvml = Nvml::load(SYNCOPATE_FAKE_NVML);
  ASSERT_TRUE(nvml.has_value());
  EXPECT_EQ(nvml->driver_version(), "580.1.2");
  EXPECT_EQ(nvml->active_nvlinks(uuid('a')), 3);
  EXPECT_EQ(nvml->active_nvlinks(uuid('b')), 0);
  EXPECT_EQ(nvml->active_nvlinks(uuid('c')), 0) << "it does not know it";
  EXPECT_EQ(nvml->joined_by_nvlink(uuid('a'), uuid('b')), true);
  EXPECT_EQ(nvml->joined_by_nvlink(uuid('b'), uuid('a')), false);
  EXPECT_EQ(nvml->joined_by_nvlink(uuid('a'), uuid('c')), std::nullopt);
}

/// Two GPUs, the first of which reaches the other without atomics; the other does not reach the first.
Driver two_gpus() {
  Driver driver{};
  driver.get_error_name = [](Result, const char** text) -> Result { return *text = "CUDA_ERROR_OF_A_TEST", kSuccess; };
  driver.get_error_string = driver.get_error_name;
  driver.driver_get_version = [](int* version) -> Result { return *version = 13010, kSuccess; };
  driver.device_get_count = [](int* count) -> Result { return *count = 2, kSuccess; };
  driver.device_get = [](Device* device, int ordinal) -> Result { return *device = ordinal, kSuccess; };
  driver.device_get_name = [](char* name, int, Device) -> Result { return std::strcpy(name, "a card"), kSuccess; };
  driver.device_total_memory = [](std::size_t* bytes, Device device) -> Result {
    return *bytes = static_cast<std::size_t>(device + 1) << 30, kSuccess;
  };
  driver.device_get_uuid = [](DeviceUuid* of, Device device) -> Result {
    return *of = uuid(device == 0 ? 'a' : 'b'), kSuccess;
  };
  driver.device_get_attribute = [](int* value, int attribute, Device) -> Result {
    const auto which = static_cast<DeviceAttribute>(attribute);
    *value = which == DeviceAttribute::multiprocessors    ? 132
             : which == DeviceAttribute::capability_major ? 9
             : which == DeviceAttribute::capability_minor ? 0
             : which == DeviceAttribute::copy_engines     ? 3
                                                          : 1;
    return kSuccess;
  };
  driver.device_can_access_peer = [](int* can, Device from, Device) -> Result { return *can = from == 0, kSuccess; };
  driver.device_get_p2p_attribute = [](int* value, int attribute, Device from, Device) -> Result {
    return *value = attribute == 1 ? 5 + from : 0, kSuccess;
  };
  return driver;
}

TEST(Doctor, AsksTheDriverAndTheManagementLibrary) {
  Machine machine;
  examine_gpus(two_gpus(), Nvml::load(SYNCOPATE_FAKE_NVML), machine);
  EXPECT_EQ(machine.driver_version, "580.1.2");
  EXPECT_EQ(machine.cuda_version, 13010);
  ASSERT_EQ(machine.gpus.size(), 2U);
  EXPECT_EQ(machine.gpus[0].nvlinks, 3);
  EXPECT_EQ(machine.gpus[1].bytes, std::int64_t{2} << 30);
  EXPECT_EQ(machine.gpus[1].capability, 90);
  EXPECT_EQ(machine.gpus[1].copy_engines, 3);
  EXPECT_TRUE(machine.gpus[1].stream_operations);
  const Machine::LinkFacts there = {.access = true, .atomics = false, .nvlink = true, .rank = 5};
  const Machine::LinkFacts back = {.access = false, .atomics = false, .nvlink = false, .rank = 6};
  EXPECT_EQ(machine.links[0][1], there);
  EXPECT_EQ(machine.links[1][0], back);
  const std::string text = describe(machine);
  EXPECT_THAT(text, HasSubstr("driver        580.1.2, for CUDA 13.1\n"));
  EXPECT_THAT(text, HasSubstr("GPU 0         a card, 1.00 GiB, 132 SMs, compute capability 9.0, 3 copy engines, 64-bit "
                              "stream memory operations: yes, 3 NVLinks\n"));
  EXPECT_THAT(text,
              HasSubstr("links         GPUs 0->1: NVLink, peer access, without native atomics, performance rank 5\n"
                        "                GPUs 1->0: no NVLink, no peer access\n"));
}

TEST(Doctor, WithoutTheManagementLibraryLinksAreWhatTheDriverSays) {
  Machine machine;
  examine_gpus(two_gpus(), std::nullopt, machine);
  EXPECT_EQ(machine.links[0][1].nvlink, std::nullopt);
  const std::string text = describe(machine);
  EXPECT_THAT(text, HasSubstr("driver        for CUDA 13.1\n"));
  EXPECT_THAT(text, HasSubstr("GPUs 0->1: peer access, without native atomics, performance rank 5\n"));
}

/// A machine on which everything works.
Machine whole(std::size_t gpus) {
  Machine machine;
  machine.cuda_version = 13000;
  machine.gpus.assign(gpus, {.name = "NVIDIA H200", .capability = 90, .copy_engines = 3, .stream_operations = true});
  machine.links.assign(gpus, std::vector<Machine::LinkFacts>(gpus, {.access = true, .atomics = true, .nvlink = true}));
  machine.python = "python3";
  machine.triton = "3.6.0";
  machine.torch = "2.11.0+cu130";
  return machine;
}

TEST(Doctor, SaysThatAllWorks) {
  const std::string text = describe(whole(4));
  EXPECT_THAT(text,
              HasSubstr("links         all GPUs: NVLink, peer access, with native atomics, performance rank 0\n"));
  EXPECT_THAT(text, HasSubstr("Triton        3.6.0 (of python3)\n  torch         2.11.0+cu130 (of python3)\n"));
  EXPECT_THAT(text, HasSubstr("works here    compile, verify, show, schedule, run on CPU ranks\n"
                              "                run --on gpu --share, profile --share: all ranks on GPU 0\n"
                              "                run --on gpu, profile: up to 4 ranks, a GPU each (there are 4 GPUs)\n"
                              "                Operator in Python, a process for each rank: up to 4 ranks, a GPU each, "
                              "or more that share one (share=True)\n"));
  EXPECT_THAT(text, Not(HasSubstr("does not")));
}

TEST(Doctor, OneGpuIsForRanksThatShareIt) {
  const std::string text = describe(whole(1));
  EXPECT_THAT(text, Not(HasSubstr("links")));
  EXPECT_THAT(text, HasSubstr("run --on gpu --share, profile --share: all ranks on GPU 0\n"));
  EXPECT_THAT(text, HasSubstr("a process for each rank: ranks that share a GPU (share=True)\n"));
  EXPECT_THAT(text, HasSubstr("does not      run --on gpu, profile: needs two GPUs or more; there is 1 GPU\n"));
}

TEST(Doctor, RanksOnGpusOfTheirOwnEndAtTheFirstLinkThatWillNotDo) {
  Machine machine = whole(4);
  machine.links[3][1].atomics = false;
  std::string text = describe(machine);
  EXPECT_THAT(text,
              HasSubstr("run --on gpu, profile: up to 3 ranks, a GPU each (no native atomics between GPUs 1 and 3; "));
  EXPECT_THAT(text, HasSubstr("links         GPUs 0-1, 0-2, 0-3, 1-2, 1->3, 2-3: NVLink, peer access, with native"));
  machine.links[2][0].access = false;
  text = describe(machine);
  EXPECT_THAT(text, HasSubstr("up to 2 ranks, a GPU each (GPUs 0 and 2 do not reach each other's memory; "));
  machine.gpus[1].capability = 100;
  text = describe(machine);
  EXPECT_THAT(text,
              HasSubstr("does not      run --on gpu, profile: needs two GPUs or more; GPUs 0 and 1 are of different "));
  machine.gpus[1].capability = 80;
  text = describe(machine);
  EXPECT_THAT(text, HasSubstr("needs two GPUs or more; Syncopate does not run on GPU 1\n"));
  EXPECT_THAT(text, HasSubstr("run --on gpu --share")) << "GPU 0 will do";
}

TEST(Doctor, SaysWhatIsMissingForEachAndWhatToDo) {
  Machine machine = whole(2);
  machine.torch = "2.11.0+cpu";
  std::string text = describe(machine);
  EXPECT_THAT(text, HasSubstr("run --on gpu, profile: up to 2 ranks"));
  EXPECT_THAT(text, HasSubstr("does not      Operator in Python, a process for each rank: needs a torch with CUDA; "
                              "2.11.0+cpu has none\n"));
  machine.torch.clear();
  EXPECT_THAT(describe(machine), HasSubstr("needs torch (pip install torch, "));
  machine = whole(2);
  machine.no_shared_memory = "/dev/shm is full";
  EXPECT_THAT(describe(machine), HasSubstr("needs host memory that processes share: /dev/shm is full\n"));
  machine = whole(2);
  machine.triton = "3.5.0";
  EXPECT_THAT(describe(machine), HasSubstr("Triton        3.5.0 (of python3); tested with 3.6.0\n"));
  machine.triton.clear();
  text = describe(machine);
  EXPECT_THAT(text, HasSubstr("Triton        not installed for python3; another Python is named with --python\n"));
  EXPECT_THAT(text, HasSubstr("does not      run --on gpu, profile, Operator in Python: needs Triton (pip install "
                              "triton==3.6.0, or name a Python that has it with --python)\n"));
  EXPECT_THAT(text, HasSubstr("works here    compile, verify, show, schedule, run on CPU ranks\n  does not"));
  machine = whole(1);
  machine.gpus[0].stream_operations = false;
  EXPECT_THAT(describe(machine),
              HasSubstr("needs GPU 0 to be of compute capability 9.0 or higher, with 64-bit stream"));
}

TEST(Doctor, ADriverThatFailsLeavesNoHalfOfAMachine) {
  Driver driver = two_gpus();
  driver.device_can_access_peer = [](int*, Device, Device) -> Result { return 999; };
  Machine machine;
  EXPECT_THROW(examine_gpus(driver, std::nullopt, machine), UserError);
  EXPECT_TRUE(machine.gpus.empty());
}

}  // namespace
}  // namespace syncopate::cuda
