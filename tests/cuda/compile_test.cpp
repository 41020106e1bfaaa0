// Compilation in a child process. The children here are scripts that play a Python; triton_compile_test.cpp has the
// real one.
#include "syncopate/cuda/compile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>
#include <vector>

#include "repository.h"
#include "syncopate/core/error.h"
#include "syncopate/core/files.h"
#include "syncopate/driver/driver.h"
#include "tests/support/temporary_folder.h"

namespace syncopate::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CompileInChild : public ::testing::Test {
 protected:
  CompileInChild() : plan_(compile_operator(testing::operator_file("ag_gemm.toml"))) {
    options_.cache = folder_.path("cache");
  }

  /// A Python whose Triton has version 9.9 and does `compiling`.
  void play(const std::string& compiling) {
    options_.python =
        folder_.write("python", "#!/bin/sh\n[ \"$1\" = -c ] && { echo 9.9; exit 0; }\n" + compiling + "\n");
    fs::permissions(options_.python, fs::perms::owner_all);
  }

  std::size_t entries() const {
    if (!fs::exists(options_.cache)) return 0;
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(options_.cache), fs::directory_iterator{}));
  }

  UserError expect_error() {
    try {
      compile_kernel(plan_, KernelText::fused, options_);
    } catch (const UserError& error) {
      EXPECT_EQ(entries(), 0U) << "failures are not cached";
      return error;
    }
    ADD_FAILURE() << "it compiled";
    return UserError({}, "");
  }

  testing::TemporaryFolder folder_;
  Plan plan_;
  CompileOptions options_;
};

constexpr const char* kResult =
    R"(echo '{"name": "k", "warps": 4, "shared_bytes": 7, "scratch_bytes": 384, "parameters": ["a"], "descriptors": [{"pointer": "a", "shape": ["M", "K"], "strides": ["K", "1"], "box": [128, 64], "swizzle": 3, "element_bytes": 2}], "hoist_refused": 0, "image": "00ff1a"}' > result.json)";

TEST_F(CompileInChild, ResultsComeBackAndAreCachedByContent) {
  play(std::string("echo x >> ") + folder_.path("count") + "; " + kResult);
  const CompiledKernel first = compile_kernel(plan_, KernelText::fused, options_);
  EXPECT_EQ(first.image, std::string("\x00\xff\x1a", 3));
  EXPECT_EQ(first.name, "k");
  EXPECT_EQ(first.shared_bytes, 7);
  EXPECT_EQ(first.scratch_bytes, 384);
  EXPECT_EQ(first.parameters, std::vector<std::string>{"a"});
  ASSERT_EQ(first.descriptors.size(), 1U);
  EXPECT_EQ(first.descriptors[0].pointer, "a");
  EXPECT_EQ(first.descriptors[0].shape, (std::vector<std::string>{"M", "K"}));
  EXPECT_EQ(first.descriptors[0].strides, (std::vector<std::string>{"K", "1"}));
  EXPECT_EQ(first.descriptors[0].box, (std::vector<std::int64_t>{128, 64}));
  EXPECT_EQ(first.descriptors[0].swizzle, 3);
  EXPECT_EQ(first.descriptors[0].element_bytes, 2);
  EXPECT_FALSE(first.hoist_refused);
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(compile_kernel(plan_, KernelText::fused, options_).from_cache);
  EXPECT_EQ(entries(), 1U);
  EXPECT_EQ(fs::file_size(folder_.path("count")), 2U) << "compiled once";

  CompileOptions other = options_;
  other.capability = 100;
  EXPECT_FALSE(compile_kernel(plan_, KernelText::fused, other).from_cache);
  EXPECT_FALSE(compile_kernel(plan_, KernelText::local, options_).from_cache);
  Plan changed = plan_;
  changed.kernel.stages = 4;
  EXPECT_FALSE(compile_kernel(changed, KernelText::fused, options_).from_cache);
  changed = plan_;
  changed.kernel.fused_source += "# changed\n";
  EXPECT_FALSE(compile_kernel(changed, KernelText::fused, options_).from_cache);
  changed = plan_;
  changed.kernel.arguments["BLOCK_M"] = std::int64_t{64};
  EXPECT_FALSE(compile_kernel(changed, KernelText::fused, options_).from_cache);
  EXPECT_EQ(entries(), 6U);
  changed = plan_;
  changed.kernel.arguments["M"] = std::int64_t{2048};
  EXPECT_TRUE(compile_kernel(changed, KernelText::fused, options_).from_cache) << "sizes are not compiled in";
  changed.kernel.arguments["M"] = std::int64_t{2047};
  EXPECT_FALSE(compile_kernel(changed, KernelText::fused, options_).from_cache) << "but their divisibility is";
}

TEST_F(CompileInChild, ARejectedKernelIsAnErrorWithWhatTritonSaid) {
  play("echo 'line 7: no such type' >&2; exit 1");
  const UserError error = expect_error();
  EXPECT_THAT(error.where().file, HasSubstr("fused.py (gemm_fused)"));
  EXPECT_THAT(error.problem(), HasSubstr("Triton could not compile it:\nline 7: no such type"));
}

TEST_F(CompileInChild, AnAbortIsAnErrorToo) {
  play("echo 'Assertion failed' >&2; kill -ABRT $$");
  const UserError error = expect_error();
  EXPECT_THAT(error.problem(), HasSubstr("Triton's compiler died of Aborted:\nAssertion failed"));
  EXPECT_THAT(error.remedy(), HasSubstr("number of warps"));
  EXPECT_THAT(error.remedy(), HasSubstr("this is Triton 9.9, and Syncopate was tested with 3.6.0"));
}

/// It is asked to once more, with descriptors left where they are.
TEST_F(CompileInChild, AKernelThatCannotTakeDescriptorsIsCompiledWithout) {
  const std::string refused =
      std::regex_replace(std::string(kResult), std::regex(R"("descriptors": \[.*\], "hoist_refused": 0)"),
                         R"("descriptors": [], "hoist_refused": 1)");
  for (const char* failure : {"echo 'no descriptors' >&2; exit 1", "kill -ABRT $$"}) {
    options_.cache = folder_.path(failure[0] == 'e' ? "first" : "second");
    play(fmt::format("grep -q '\"hoist\": true' request.json && {{ {}; }}; {}", failure, refused));
    const CompiledKernel kernel = compile_kernel(plan_, KernelText::fused, options_);
    EXPECT_TRUE(kernel.hoist_refused);
    EXPECT_TRUE(kernel.descriptors.empty());
    EXPECT_TRUE(compile_kernel(plan_, KernelText::fused, options_).from_cache);
  }
}

TEST_F(CompileInChild, WhatIsAskedForAgainIsWhatIsSaid) {
  play("echo x >> " + folder_.path("count") + "; grep -o '\"hoist\": [a-z]*' request.json >&2; exit 1");
  EXPECT_THAT(expect_error().problem(), HasSubstr("could not compile it:\n\"hoist\": false"));
  EXPECT_EQ(fs::file_size(folder_.path("count")), 4U) << "asked twice";
  fs::remove(folder_.path("count"));
  plan_ = compile_operator(testing::operator_file("ag_gemm_pointers.toml"));
  EXPECT_THAT(expect_error().problem(), HasSubstr("could not compile it:\n\"hoist\": true"));
  EXPECT_EQ(fs::file_size(folder_.path("count")), 2U) << "it has nothing to leave";
}

TEST_F(CompileInChild, SoIsATimeLimitPassed) {
  play("sleep 30");
  options_.limit = std::chrono::milliseconds(300);
  EXPECT_THAT(expect_error().problem(), HasSubstr("Triton took longer than 0.3 s"));
}

TEST_F(CompileInChild, APythonWithoutTritonIsAnErrorThatSaysWhatToInstall) {
  options_.python = "false";
  const UserError error = expect_error();
  EXPECT_EQ(error.where().file, "false");
  EXPECT_THAT(error.problem(), HasSubstr("has no Triton"));
  EXPECT_THAT(error.remedy(), HasSubstr("--python"));
}

TEST_F(CompileInChild, AMissingPythonIsAnErrorThatNamesIt) {
  options_.python = "/nonexistent/python";
  EXPECT_THAT(expect_error().where().file, HasSubstr("/nonexistent/python"));
}

TEST_F(CompileInChild, ADamagedCacheEntryIsCompiledAgain) {
  play(kResult);
  compile_kernel(plan_, KernelText::fused, options_);
  const fs::path entry = fs::directory_iterator(options_.cache)->path();
  for (const unsigned left : {20U, 0U}) {
    fs::resize_file(entry, left);
    const CompiledKernel again = compile_kernel(plan_, KernelText::fused, options_);
    EXPECT_FALSE(again.from_cache) << "half an entry was believed";
    EXPECT_EQ(again.image, std::string("\x00\xff\x1a", 3));
    EXPECT_TRUE(compile_kernel(plan_, KernelText::fused, options_).from_cache) << "the entry was not mended";
    EXPECT_EQ(entries(), 1U);
  }
}

/// The text still is JSON.
TEST_F(CompileInChild, SoIsOneWhoseImageIsNoHexadecimalNumber) {
  play(kResult);
  compile_kernel(plan_, KernelText::fused, options_);
  const fs::path entry = fs::directory_iterator(options_.cache)->path();
  const std::string good = read_file(entry.string());
  for (const char* image : {"00ff1", "00ff1g", "00FF1A", ""}) {
    std::string bad = good;
    bad.replace(bad.find("00ff1a"), 6, image);
    std::ofstream(entry) << bad;
    EXPECT_FALSE(compile_kernel(plan_, KernelText::fused, options_).from_cache) << image;
  }
}

TEST_F(CompileInChild, ThreadsShareACache) {
  play(kResult);
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([this] {
      for (int round = 0; round < 5; ++round)
        EXPECT_EQ(compile_kernel(plan_, KernelText::fused, options_).image, std::string("\x00\xff\x1a", 3));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(entries(), 1U);
}

}  // namespace
}  // namespace syncopate::cuda
