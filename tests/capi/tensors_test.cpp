#include "syncopate/capi/tensors.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "syncopate/core/error.h"
#include "tests/support/plan_builder.h"
#include "tests/support/reduce_builder.h"

namespace syncopate::capi {
namespace {

using syncopate::testing::hand_made;

void expect_user_error(const std::function<void()>& act, const std::string& part) {
  try {
    act();
    ADD_FAILURE() << "no error; expected one with: " << part;
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

/// A tensor that fits a 3 x 4 bf16 buffer on cuda:1, to be spoiled.
struct Given {
  std::array<std::int64_t, 2> shape = {3, 4};
  std::array<std::int64_t, 2> strides = {4, 1};
  DLTensor tensor{};
  Given() {
    tensor.data = reinterpret_cast<void*>(0x1000);
    tensor.device = {kDLCUDA, 1};
    tensor.ndim = 2;
    tensor.dtype = {kDLBfloat, 16, 1};
    tensor.shape = shape.data();
    tensor.strides = strides.data();
  }
};

Buffer buffer_of(Shape shape = {3, 4}, Dtype dtype = Dtype::bf16) {
  Buffer buffer;
  buffer.name = "b";
  buffer.shape = std::move(shape);
  buffer.dtype = dtype;
  return buffer;
}

TEST(CheckTensor, TakesWhatFits) {
  Given given;
  EXPECT_NO_THROW(check_tensor(buffer_of(), given.tensor, 1));
  given.tensor.strides = nullptr;  // compact
  EXPECT_NO_THROW(check_tensor(buffer_of(), given.tensor, 1));
  given.tensor.byte_offset = 32;
  EXPECT_NO_THROW(check_tensor(buffer_of(), given.tensor, 1));
  EXPECT_EQ(address_of(given.tensor), 0x1020U);
}

TEST(CheckTensor, TakesAnyStrideOfAnExtentOfOne) {
  Given given;
  given.shape = {1, 4};
  given.strides = {99, 1};
  EXPECT_NO_THROW(check_tensor(buffer_of({1, 4}), given.tensor, 1));
}

TEST(CheckTensor, NamesTheTensorWhatWasExpectedAndWhatCame) {
  const auto refused = [](const std::function<void(Given&)>& spoil, const std::string& part) {
    Given given;
    spoil(given);
    expect_user_error([&] { check_tensor(buffer_of(), given.tensor, 1); }, part);
  };
  refused([](Given& g) { g.tensor.dtype = {kDLFloat, 32, 1}; }, "tensor b: dtype bf16 expected, got fp32");
  refused([](Given& g) { g.tensor.dtype = {kDLFloat, 16, 1}; }, "tensor b: dtype bf16 expected, got fp16");
  refused([](Given& g) { g.tensor.dtype = {kDLComplex, 64, 1}; }, "got DLPack type 5 of 64 bits");
  refused([](Given& g) { g.tensor.dtype.lanes = 2; }, "tensor b: dtype bf16 expected");
  refused([](Given& g) { g.shape = {4, 3}; }, "tensor b: shape 3 x 4 expected, got 4 x 3");
  refused([](Given& g) { g.tensor.ndim = 1; }, "tensor b: shape 3 x 4 expected, got 3");
  refused([](Given& g) { g.tensor.ndim = -1; }, "tensor b: shape 3 x 4 expected, got a negative number of dimensions");
  refused([](Given& g) { g.tensor.shape = nullptr; }, "tensor b: shape 3 x 4 expected, got NULL");
  refused([](Given& g) { g.strides = {1, 3}; }, "tensor b: strides (4, 1) expected, got (1, 3)");
  refused([](Given& g) { g.strides = {8, 1}; }, "tensor b: strides (4, 1) expected, got (8, 1)");
  refused([](Given& g) { g.tensor.device = {kDLCUDA, 0}; }, "tensor b: device cuda:1 expected, got cuda:0");
  refused([](Given& g) { g.tensor.device = {kDLCPU, 1}; }, "tensor b: device cuda:1 expected, got the CPU");
  refused([](Given& g) { g.tensor.device = {kDLROCM, 1}; }, "got a device of DLPack type 10");
  refused([](Given& g) { g.tensor.data = reinterpret_cast<void*>(0x1008); },
          "tensor b: address divisible by 16 expected, got 0x1008");
  refused([](Given& g) { g.tensor.data = nullptr; }, "tensor b: address of memory expected, got null");
  refused([](Given& g) { g.tensor.data = nullptr, g.tensor.byte_offset = 32; }, "address of memory expected, got null");
  refused([](Given& g) { g.tensor.byte_offset = 2; }, "tensor b: address divisible by 16 expected, got 0x1002");
}

TEST(DlpackType, IsDistinctForEveryDtypeAndNamed) {
  const std::array all = {Dtype::boolean, Dtype::int8,   Dtype::int16,  Dtype::int32,  Dtype::int64,
                          Dtype::uint8,   Dtype::uint16, Dtype::uint32, Dtype::uint64, Dtype::fp8e4m3,
                          Dtype::fp8e5m2, Dtype::fp16,   Dtype::bf16,   Dtype::fp32,   Dtype::fp64};
  for (const Dtype dtype : all) {
    EXPECT_EQ(name_of(dlpack_type(dtype)), name_of(dtype));
    EXPECT_EQ(dlpack_type(dtype).bits, 8 * size_in_bytes(dtype));
    for (const Dtype other : all) {
      if (other == dtype) continue;
      EXPECT_NE(name_of(dlpack_type(dtype)), name_of(dlpack_type(other)));
    }
  }
}

TEST(FindBuffer, NamesTheNearest) {
  Plan plan = hand_made({});
  EXPECT_EQ(find_buffer(plan, "a"), 0);
  EXPECT_EQ(find_buffer(plan, "c"), 2);
  plan.buffers[1].name = "weight";
  expect_user_error([&] { find_buffer(plan, "weihgt"); }, "did you mean 'weight'?");
}

TEST(RegionOf, IsThePartOfTheRank) {
  const Plan plan = hand_made({.ranks = 2, .rows = 16, .inner = 4});
  EXPECT_EQ(region_of(plan, 0, SYNCOPATE_WHOLE, 1), Region({{0, 16}, {0, 4}}));
  EXPECT_EQ(region_of(plan, 0, SYNCOPATE_SHARD, 1), Region({{8, 16}, {0, 4}}));
  EXPECT_EQ(region_of(plan, 2, SYNCOPATE_OUTPUT, 1), Region({{0, 16}, {0, 8}}));
  expect_user_error([&] { region_of(plan, 2, SYNCOPATE_SHARD, 0); }, "tensor c is no input");
  expect_user_error([&] { region_of(plan, 0, SYNCOPATE_OUTPUT, 0); }, "tensor a is no output");
  expect_user_error([&] { region_of(plan, 0, 7, 0); }, "there is no part 7");
}

TEST(RegionOf, ZigzagHasTwoStretches) {
  Plan plan = hand_made({.ranks = 2, .rows = 16, .inner = 4});
  expect_user_error([&] { region_of(plan, 0, SYNCOPATE_SECOND_STRETCH, 0); },
                    "tensor a is shard(0), and has no second stretch");
  plan.buffers[0].before = Placement::zigzag(0);
  plan.buffers[0].held[1] = {Region{{4, 8}, {0, 4}}, Region{{8, 12}, {0, 4}}};
  EXPECT_EQ(region_of(plan, 0, SYNCOPATE_SHARD, 1), Region({{4, 8}, {0, 4}}));
  EXPECT_EQ(region_of(plan, 0, SYNCOPATE_SECOND_STRETCH, 1), Region({{8, 12}, {0, 4}}));
}

TEST(RegionOf, AReducedOutputIsTheRanksShard) {
  const Plan plan = testing::hand_made_reduce({.ranks = 2, .rows = 16});
  EXPECT_EQ(region_of(plan, 2, SYNCOPATE_OUTPUT, 1), Region({{8, 16}, {0, 8}}));
  // The staging buffer is nobody's but the operator's.
  expect_user_error([&] { find_buffer(plan, plan.buffers.back().name); }, "has no tensor");
}

TEST(NewView, DescribesAPartAndKeepsItsOwner) {
  const auto owner = std::make_shared<int>(0);
  const Buffer buffer = buffer_of({6, 4}, Dtype::fp32);
  DLManagedTensor* view = new_view(buffer, Region({{2, 5}, {0, 4}}), SYNCOPATE_WHOLE, 0x1000, 3, owner);
  EXPECT_EQ(owner.use_count(), 2);
  const DLTensor& tensor = view->dl_tensor;
  EXPECT_EQ(address_of(tensor), 0x1000U + 2 * 4 * sizeof(float));
  EXPECT_EQ(tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(tensor.device.device_id, 3);
  ASSERT_EQ(tensor.ndim, 2);
  EXPECT_EQ(tensor.shape[0], 3);
  EXPECT_EQ(tensor.shape[1], 4);
  EXPECT_EQ(tensor.strides[0], 4);
  EXPECT_EQ(tensor.strides[1], 1);
  EXPECT_EQ(name_of(tensor.dtype), "fp32");
  view->deleter(view);
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(NewView, OfColumnsIsStrided) {
  DLManagedTensor* view = new_view(buffer_of({6, 4}), Region({{0, 6}, {2, 4}}), SYNCOPATE_WHOLE, 0x1000, 0, nullptr);
  EXPECT_EQ(address_of(view->dl_tensor), 0x1004U);
  EXPECT_EQ(view->dl_tensor.shape[1], 2);
  EXPECT_EQ(view->dl_tensor.strides[0], 4);
  view->deleter(view);
}

TEST(NewView, OfNothingIsEmpty) {
  DLManagedTensor* view = new_view(buffer_of({6, 4}), Region({{0, 0}, {0, 0}}), SYNCOPATE_WHOLE, 0x1000, 0, nullptr);
  EXPECT_EQ(view->dl_tensor.shape[0], 0);
  view->deleter(view);
}

}  // namespace
}  // namespace syncopate::capi
