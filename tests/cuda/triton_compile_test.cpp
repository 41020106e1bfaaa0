// The real Triton, without a GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "repository.h"
#include "syncopate/core/error.h"
#include "syncopate/cuda/compile.h"
#include "syncopate/cuda/device_code.h"
#include "syncopate/cuda/process.h"
#include "syncopate/driver/driver.h"
#include "tests/support/temporary_folder.h"

namespace syncopate::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Triton counts from the first line of the function.
std::ptrdiff_t line_of_function(const std::string& source) {
  const auto at = static_cast<std::ptrdiff_t>(source.find("def gemm("));
  return 1 + std::count(source.begin(), source.begin() + at, '\n');
}

class WithTriton : public ::testing::Test {
 protected:
  WithTriton() {
    options_.python = SYNCOPATE_SOURCE_DIR "/.deps/venv/bin/python";
    options_.cache = folder_.path("cache");
  }
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(options_.python) && !triton_version(options_.python).empty())
        << "Triton is not installed in .deps/venv; run scripts/bootstrap.sh --triton";
  }

  testing::TemporaryFolder folder_;
  CompileOptions options_;
};

TEST_F(WithTriton, TheLocalAndTheFusedKernelOfEveryOperatorBecomeMachineCode) {
  struct Shipped {
    const char* name;
    const char* ranks = "4";
  };
  // With two ranks the reduce-scatter adds in place.
  for (const auto& [name, ranks] :
       {Shipped{"ag_gemm.toml"}, Shipped{"ag_gemm_pointers.toml"}, Shipped{"ag_gemm_split_helper.toml"},
        Shipped{"gemm_rs.toml"}, Shipped{"gemm_rs_pointers.toml"}, Shipped{"gemm_rs.toml", "2"}}) {
    SCOPED_TRACE(name);
    const Plan plan = compile_operator(testing::operator_file(name), {{"ranks", ranks}});
    for (const KernelText text : {KernelText::local, KernelText::fused}) {
      const CompiledKernel kernel = compile_kernel(plan, text, options_);
      EXPECT_THAT(kernel.image, StartsWith("\x7f"
                                           "ELF"));
      EXPECT_EQ(kernel.name, text == KernelText::fused ? plan.kernel.fused_function : plan.kernel.function);
      EXPECT_EQ(kernel.warps, 4);
      EXPECT_GT(kernel.shared_bytes, 0);
      std::vector<std::string> expected;
      for (const ParameterType& type : signature_of(plan, text))
        if (type.type != "constexpr") expected.push_back(type.name);
      EXPECT_EQ(kernel.parameters, expected);
      const bool descriptors = plan.kernel.local_source.find("make_tensor_descriptor") != std::string::npos;
      EXPECT_EQ(kernel.scratch_bytes, 0) << "a kernel that makes descriptors needs some";
      EXPECT_EQ(kernel.descriptors.size(), descriptors ? 3U : 0U);
      EXPECT_FALSE(kernel.hoist_refused);
      const CompiledKernel again = compile_kernel(plan, text, options_);
      EXPECT_TRUE(again.from_cache);
      EXPECT_EQ(again.image, kernel.image);
    }
  }
}

/// Of a dynamic order, too, with descriptors made by the host.
TEST_F(WithTriton, KernelsWhoseWorkersChooseBecomeMachineCode) {
  for (const char* name :
       {"ag_gemm.toml", "a2a_gemm.toml", "ag_grouped_gemm.toml", "gemm_rs.toml", "attention_sp.toml"}) {
    SCOPED_TRACE(name);
    const Plan plan = compile_operator(testing::operator_file(name), {{"ranks", "2"}, {"launch.order", "dynamic"}});
    const CompiledKernel kernel = compile_kernel(plan, KernelText::fused, options_);
    EXPECT_THAT(kernel.image, StartsWith("\x7f"
                                         "ELF"));
    EXPECT_FALSE(kernel.hoist_refused);
    EXPECT_EQ(kernel.scratch_bytes, 0);
    EXPECT_THAT(kernel.parameters, ::testing::IsSupersetOf({"syncopate_claims", "syncopate_lookahead"}));
  }
}

TEST_F(WithTriton, SizesDoNotEnterTheKernelOfAOneShotSum) {
  const auto image = [&](const char* rows) {
    const Plan plan = compile_operator(testing::operator_file("gemm_ar.toml"),
                                       {{"communicate.c.algorithm", "one_shot"}, {"kernel.args.M", rows}});
    const CompiledKernel kernel = compile_kernel(plan, KernelText::fused, options_);
    EXPECT_EQ(kernel.descriptors.size(), 3U);
    return kernel.image;
  };
  EXPECT_EQ(image("128"), image("512"));
}

TEST_F(WithTriton, DescriptorsOfWholeTensorsAreHoistedAndOthersStay) {
  Plan plan = compile_operator(testing::operator_file("ag_gemm.toml"));
  const CompiledKernel kernel = compile_kernel(plan, KernelText::local, options_);
  ASSERT_EQ(kernel.descriptors.size(), 3U);
  const DescriptorParameter& b = kernel.descriptors[1];
  EXPECT_EQ(b.pointer, "b_ptr");
  EXPECT_EQ(b.shape, (std::vector<std::string>{"K", "N"}));
  EXPECT_EQ(b.strides, (std::vector<std::string>{"N", "1"}));
  EXPECT_EQ(b.box, (std::vector<std::int64_t>{64, 64})) << "128 bytes wide, as Triton lays it out";
  EXPECT_EQ(b.swizzle, 3);
  EXPECT_EQ(b.element_bytes, 2);

  const auto change = [&](const std::string& old, const std::string& replacement) {
    const std::size_t at = plan.kernel.local_source.find(old);
    ASSERT_NE(at, std::string::npos) << old;
    plan.kernel.local_source.replace(at, old.size(), replacement);
  };
  change("tl.make_tensor_descriptor(b_ptr,", "tl.make_tensor_descriptor(b_ptr + 0,");
  const CompiledKernel partly = compile_kernel(plan, KernelText::local, options_);
  ASSERT_EQ(partly.descriptors.size(), 2U);
  EXPECT_EQ(partly.descriptors[1].pointer, "c_ptr");
  EXPECT_GT(partly.scratch_bytes, 0);
  EXPECT_EQ(partly.shared_bytes, kernel.shared_bytes);
}

/// The message is about the text that the user has: its line, and its words.
TEST_F(WithTriton, AnErrorBelowADescriptorNamesTheUsersLine) {
  Plan plan = compile_operator(testing::operator_file("ag_gemm.toml"));
  std::string& source = plan.kernel.local_source;
  const std::size_t at = source.find("tiles_m = ");
  ASSERT_NE(at, std::string::npos);
  source.insert(at, "wrong = a.load([0])\n    ");
  const auto line = 1 + std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  try {
    compile_kernel(plan, KernelText::local, options_);
    FAIL() << "one offset for a descriptor of two dimensions compiled";
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr(fmt::format("at {}:", line - line_of_function(source) + 1)));
    EXPECT_THAT(error.problem(), HasSubstr("a = tl.make_tensor_descriptor(a_ptr,"));
  }
}

TEST_F(WithTriton, AKernelThatTritonRejectsIsAnErrorWithItsWords) {
  Plan plan = compile_operator(testing::operator_file("ag_gemm.toml"));
  plan.kernel.arguments["BLOCK_K"] = std::int64_t{48};
  try {
    compile_kernel(plan, KernelText::local, options_);
    FAIL() << "a tile of 48 compiled";
  } catch (const UserError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("power of 2"));
  }
}

/// Triton brings the assembler of NVIDIA's toolkit.
TEST_F(WithTriton, TheSmallKernelsOfTheRuntimeAreAssembled) {
  const ProcessResult where =
      run_process({options_.python, "-c",
                   "import triton, pathlib; print(pathlib.Path(triton.__file__).parent / 'backends/nvidia/bin/ptxas')"},
                  ".", std::chrono::minutes(1));
  ASSERT_EQ(where.exit_code, 0) << where.output;
  const std::string ptxas = where.output.substr(0, where.output.find('\n'));
  const std::string text = folder_.write("kernels.ptx", kDeviceCode);
  for (const char* architecture : {"sm_90", "sm_100"}) {
    const ProcessResult child = run_process(
        {ptxas, "-v", "-arch", architecture, text, "-o", folder_.path("kernels.cubin")}, ".", std::chrono::minutes(1));
    EXPECT_EQ(child.exit_code, 0) << child.output;
    for (const char* kernel : {kStepKernel, kDelayKernel})
      EXPECT_THAT(child.output, ::testing::HasSubstr(std::string("Compiling entry function '") + kernel + "' for"));
    EXPECT_THAT(child.output, ::testing::HasSubstr("0 bytes spill stores"));
  }
  folder_.write("broken.ptx", std::string(kDeviceCode) + "nonsense");
  EXPECT_NE(run_process({ptxas, "-arch", "sm_90", folder_.path("broken.ptx"), "-o", folder_.path("broken.cubin")}, ".",
                        std::chrono::minutes(1))
                .exit_code,
            0);
}

}  // namespace
}  // namespace syncopate::cuda
