// What a launch passes, tensor maps above all.
#include "syncopate/cuda/kernel_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include "repository.h"
#include "syncopate/core/error.h"
#include "syncopate/driver/driver.h"

namespace syncopate::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What the driver was asked to encode.
struct Encoded {
  int type = 0;
  DevicePointer address = 0;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> strides;
  std::vector<std::uint32_t> box;
  int swizzle = 0;
};
std::vector<Encoded>* asked = nullptr;
Result answer = kSuccess;

Result encode(TensorMap* map, int type, unsigned rank, DevicePointer address, const std::uint64_t* sizes,
              const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* element_strides,
              int interleave, int swizzle, int /*promotion*/, int fill) {
  for (unsigned d = 0; d < rank; ++d) EXPECT_EQ(element_strides[d], 1U);
  EXPECT_EQ(interleave, 0);
  EXPECT_EQ(fill, 0);
  asked->push_back({type, address, {sizes, sizes + rank}, {strides, strides + rank - 1}, {box, box + rank}, swizzle});
  map->words.fill(address + asked->size());
  return answer;
}

class Arguments : public ::testing::Test {
 protected:
  Arguments() : plan_(compile_operator(testing::operator_file("gemm.toml"))) {
    asked = &asked_;
    answer = kSuccess;
    driver_.tensor_map_encode_tiled = encode;
    driver_.get_error_name = [](Result, const char** text) -> Result { return *text = "NAME", kSuccess; };
    driver_.get_error_string = [](Result, const char** text) -> Result { return *text = "words", kSuccess; };
    kernel_.parameters = {"a_ptr", "b_ptr", "c_ptr", "M", "N", "K"};
    kernel_.descriptors = {{"a_ptr", {"M", "K"}, {"K", "1"}, {128, 64}, 3, 2},
                           {"b_ptr", {"cdiv(K, 3)", "4", "(N * 2)"}, {"(8 * K)", "16", "1"}, {1, 2, 32}, 2, 2}};
  }
  ~Arguments() override { asked = nullptr; }

  KernelArguments make(int rank = 0) {
    return {driver_, plan_, signature_of(plan_, KernelText::local), kernel_, RuntimeValues{.rank = rank}, 0x5000};
  }
  int buffer(const std::string& name) const {
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
      if (plan_.buffers[i].name == name) return static_cast<int>(i);
    throw std::runtime_error("no buffer " + name);
  }
  void size(const char* name, std::int64_t value) { plan_.kernel.arguments[name] = value; }

  void expect_error(const std::function<void()>& call, const std::string& problem) {
    try {
      call();
      FAIL() << "no error";
    } catch (const UserError& error) {
      EXPECT_EQ(error.where().file, plan_.kernel.file);
      EXPECT_THAT(error.problem(), HasSubstr("a tensor descriptor of 'a' ["));
      EXPECT_THAT(error.problem(), HasSubstr(problem));
      EXPECT_FALSE(error.remedy().empty());
    }
  }

  Plan plan_;
  Driver driver_{};
  CompiledKernel kernel_;
  std::vector<Encoded> asked_;
};

template <typename T>
T at(KernelArguments& arguments, std::size_t position) {
  T value;
  std::memcpy(&value, arguments.pointers()[position], sizeof value);
  return value;
}

TEST_F(Arguments, DescriptorsComeAfterTheParametersWithSizesAndStrides) {
  size("M", 1024);
  size("N", 512);
  size("K", 256);
  KernelArguments arguments = make();
  arguments.set_buffer(buffer("a"), 0x1000);
  arguments.set_buffer(buffer("b"), 0x2000);
  arguments.set_buffer(buffer("c"), 0x3000);
  EXPECT_EQ(at<std::uint64_t>(arguments, 0), 0x1000U);
  EXPECT_EQ(at<std::uint64_t>(arguments, 1), 0x2000U);
  EXPECT_EQ(at<std::uint64_t>(arguments, 2), 0x3000U);
  EXPECT_EQ(at<std::int32_t>(arguments, 3), 1024);
  EXPECT_EQ(at<std::int32_t>(arguments, 4), 512);
  EXPECT_EQ(at<std::int32_t>(arguments, 5), 256);
  // a: the map, its two sizes in 32 bits, its two strides in 64
  EXPECT_EQ(at<TensorMap>(arguments, 6).words.back(), 0x1001U);
  EXPECT_EQ(at<std::int32_t>(arguments, 7), 1024);
  EXPECT_EQ(at<std::int32_t>(arguments, 8), 256);
  EXPECT_EQ(at<std::int64_t>(arguments, 9), 256);
  EXPECT_EQ(at<std::int64_t>(arguments, 10), 1);
  // b, of three dimensions
  EXPECT_EQ(at<TensorMap>(arguments, 11).words.front(), 0x2002U);
  EXPECT_EQ(at<std::int32_t>(arguments, 12), 86);
  EXPECT_EQ(at<std::int32_t>(arguments, 13), 4);
  EXPECT_EQ(at<std::int32_t>(arguments, 14), 1024);
  EXPECT_EQ(at<std::int64_t>(arguments, 15), 2048);
  EXPECT_EQ(at<std::int64_t>(arguments, 16), 16);
  EXPECT_EQ(at<std::int64_t>(arguments, 17), 1);
  EXPECT_EQ(at<std::uint64_t>(arguments, 18), 0x5000U) << "scratch memory";
  EXPECT_EQ(at<std::uint64_t>(arguments, 19), 0U) << "profiles";
  for (const std::size_t map : {6U, 11U})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arguments.pointers()[map]) % 64, 0U);
}

TEST_F(Arguments, OfARankAreItsOwn) {
  size("N", 512);
  plan_.kernel.arguments.erase("M");
  plan_.kernel.arguments.erase("K");
  plan_.kernel.rank_arguments = {{{"M", std::int64_t{1024}}, {"K", std::int64_t{256}}},
                                 {{"M", std::int64_t{2048}}, {"K", std::int64_t{264}}}};
  KernelArguments first = make(0);
  KernelArguments second = make(1);
  EXPECT_EQ(at<std::int32_t>(first, 3), 1024);
  EXPECT_EQ(at<std::int32_t>(second, 3), 2048);
  EXPECT_EQ(at<std::int32_t>(first, 5), 256);
  EXPECT_EQ(at<std::int32_t>(second, 5), 264);
  EXPECT_EQ(at<std::int64_t>(first, 9), 256) << "a descriptor's stride";
  EXPECT_EQ(at<std::int64_t>(second, 9), 264);
}

TEST_F(Arguments, TheDriverIsToldTheTensorInnermostDimensionFirst) {
  size("M", 1000);
  size("N", 512);
  size("K", 256);
  KernelArguments arguments = make();
  EXPECT_TRUE(asked_.empty()) << "there is no address yet";
  arguments.set_buffer(buffer("a"), 0x1000);
  arguments.set_buffer(buffer("b"), 0x2000);
  ASSERT_EQ(asked_.size(), 2U);
  EXPECT_EQ(asked_[0].type, 9) << "bf16";
  EXPECT_EQ(asked_[0].address, 0x1000U);
  EXPECT_THAT(asked_[0].sizes, ElementsAre(256, 1000));
  EXPECT_THAT(asked_[0].strides, ElementsAre(512)) << "bytes";
  EXPECT_THAT(asked_[0].box, ElementsAre(64, 128));
  EXPECT_EQ(asked_[0].swizzle, 3);
  EXPECT_THAT(asked_[1].sizes, ElementsAre(1024, 4, 86));
  EXPECT_THAT(asked_[1].strides, ElementsAre(32, 4096));
  EXPECT_THAT(asked_[1].box, ElementsAre(32, 2, 1));
  EXPECT_EQ(asked_[1].swizzle, 2);
}

TEST_F(Arguments, AnotherAddressMakesAnotherMapInTheSamePlace) {
  KernelArguments arguments = make();
  void** const pointers = arguments.pointers();
  void* const map = pointers[6];
  arguments.set_buffer(buffer("a"), 0x1000);
  arguments.set_buffer(buffer("a"), 0x1000);
  arguments.set_buffer(buffer("c"), 0x9000);
  EXPECT_EQ(asked_.size(), 1U) << "the map stays while the address does; c has none";
  arguments.set_buffer(buffer("a"), 0x7000);
  ASSERT_EQ(asked_.size(), 2U);
  EXPECT_EQ(asked_[1].address, 0x7000U);
  EXPECT_EQ(asked_[1].sizes, asked_[0].sizes);
  EXPECT_EQ(at<TensorMap>(arguments, 6).words[7], 0x7002U);
  EXPECT_EQ(arguments.pointers(), pointers);
  EXPECT_EQ(pointers[6], map);
}

TEST_F(Arguments, SeveralDescriptorsOfOneTensorFollowIt) {
  kernel_.descriptors[1] = {"a_ptr", {"M", "K"}, {"K", "1"}, {16, 32}, 2, 2};
  KernelArguments arguments = make();
  arguments.set_buffer(buffer("a"), 0x1000);
  ASSERT_EQ(asked_.size(), 2U);
  EXPECT_THAT(asked_[1].box, ElementsAre(32, 16));
  EXPECT_EQ(at<TensorMap>(arguments, 6).words[0], 0x1001U);
  EXPECT_EQ(at<TensorMap>(arguments, 11).words[0], 0x1002U);
}

TEST_F(Arguments, EveryTypeHasItsNumber) {
  const auto number_of = [&](Dtype dtype) {
    asked_.clear();
    plan_.buffers[static_cast<std::size_t>(buffer("a"))].dtype = dtype;
    kernel_.descriptors.resize(1);
    kernel_.descriptors[0].element_bytes = static_cast<int>(size_in_bytes(dtype));
    KernelArguments arguments = make();
    arguments.set_buffer(buffer("a"), 0x1000);
    return asked_.at(0).type;
  };
  EXPECT_EQ(number_of(Dtype::uint8), 0);
  EXPECT_EQ(number_of(Dtype::fp8e4m3), 0);
  EXPECT_EQ(number_of(Dtype::int16), 1);
  EXPECT_EQ(number_of(Dtype::uint32), 2);
  EXPECT_EQ(number_of(Dtype::int32), 3);
  EXPECT_EQ(number_of(Dtype::uint64), 4);
  EXPECT_EQ(number_of(Dtype::int64), 5);
  EXPECT_EQ(number_of(Dtype::fp16), 6);
  EXPECT_EQ(number_of(Dtype::fp32), 7);
  EXPECT_EQ(number_of(Dtype::fp64), 8);
  EXPECT_EQ(number_of(Dtype::bf16), 9);
}

TEST_F(Arguments, ATensorOfWhichThereCanBeNoDescriptorIsAnErrorThatSaysWhy) {
  size("K", 260);
  expect_error([&] { make(); }, "with strides [260, 1] would have a stride of 520 bytes, which is no multiple of 16");
  size("K", 256);
  size("M", std::int64_t{1} << 31);
  expect_error([&] { make(); }, "would have a dimension of 2147483648");
  size("M", 0);
  expect_error([&] { make(); }, "would have a dimension of 0");
  size("M", 64);
  KernelArguments arguments = make();
  expect_error([&] { arguments.set_buffer(buffer("a"), 0x1008); }, "cannot begin at the address 0x1008");
  answer = 1;
  expect_error([&] { arguments.set_buffer(buffer("a"), 0x1000); },
               "for boxes of [128, 64] cannot be made: NAME (words)");
}

TEST_F(Arguments, DescriptorsThatDoNotFitThePlanAreOurMistake) {
  kernel_.descriptors[0].element_bytes = 4;
  EXPECT_THROW(make(), InternalError);
  kernel_.descriptors[0].element_bytes = 2;
  kernel_.descriptors[0].pointer = "M";
  EXPECT_THROW(make(), InternalError);
  kernel_.descriptors[0].pointer = "a_ptr";
  kernel_.descriptors[0].box = {64};
  EXPECT_THROW(make(), InternalError);
}

}  // namespace
}  // namespace syncopate::cuda
