#include "lockstep/runtime/concrete.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "lockstep/runtime/backend.h"
#include "lockstep/runtime/transfer.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

const bool four_devices = setenv("JAX_NUM_CPU_DEVICES", "4", 1) == 0;

template <class T>
ValueRef put(const std::vector<T>& v) {
  return make_concrete(make_aval(Shape{v.size()}, dtype_of<T>), {.data = v.data()});
}
template <class T>
std::vector<T> get(const ValueRef& v) {
  HostView view = to_host(*as_concrete(v.get()));
  std::vector<T> out(view.bytes().size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), view.data(), view.bytes().size());
  return out;
}

TEST(Backend, HasTheDevicesAskedFor) {
  ASSERT_TRUE(four_devices);
  EXPECT_EQ(planned_local_device_count(), 4);
  EXPECT_EQ(local_device_count(), 4);
  EXPECT_TRUE(is_backend_created());
  EXPECT_EQ(device_count(), 4);
  EXPECT_EQ(process_count(), 1);
  EXPECT_EQ(process_index(), 0);
  EXPECT_EQ(default_backend(), "cpu");
  EXPECT_EQ(devices()[3].id, 3);
  EXPECT_EQ(to_string(devices()[3]), "CpuDevice(id=3)");
  EXPECT_EQ(backend().local_index(2), 2);
  EXPECT_EQ(backend().local_index(2048), -1);
  EXPECT_THROW(backend().device(7), Error);
  EXPECT_EQ(backend().partitioner(6).devices().size(), 6u);
  EXPECT_EQ(&backend().partitioner(6), &backend().partitioner(6));
}

TEST(ConcreteArray, RoundTrip) {
  EXPECT_EQ(get<float>(put<float>({1, 2, 3})), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(get<std::int32_t>(put<std::int32_t>({})), (std::vector<std::int32_t>{}));
  ValueRef one = put<double>({2.5});
  EXPECT_EQ(item(*as_concrete(one.get())).as_double(), 2.5);
}

TEST(ConcreteArray, BorrowsAlignedMemory) {
  alignas(64) static float field[16] = {3, 1, 4};
  std::atomic<int> released = 0;
  {
    ValueRef a =
        make_concrete(make_aval({16}, DType::float32),
                      {.data = field, .semantics = pjrt::HostSemantics::zero_copy, .release = [&] { ++released; }});
    HostView view = to_host(*as_concrete(a.get()));
    EXPECT_EQ(static_cast<const void*>(view.data()), field);
    EXPECT_FALSE(view.is_copy());
    a = ValueRef();
    EXPECT_EQ(released, 0);  // the view keeps it alive
  }
  EXPECT_EQ(released, 1);
}

TEST(ConcreteArray, DonatedIsAnErrorThatNamesTheLine) {
  ValueRef a = put<float>({1});
  ConcreteArray& c = *as_concrete(a.get());
  LocationId line = intern_location(std::source_location::current());
  c.donate(line);
  EXPECT_TRUE(c.is_donated());
  try {
    c.shards("add");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::donated);
    EXPECT_THAT(e.what(), HasSubstr("add"));
    EXPECT_THAT(e.what(), HasSubstr("f32[1]"));
    EXPECT_THAT(e.what(), HasSubstr(to_string(line)));
  }
  EXPECT_THROW(c.donate(line), Error);
  EXPECT_THROW(to_host(c), Error);
}

TEST(ConcreteArray, PendingShardsAreWaitedFor) {
  auto pending = std::make_shared<PendingLaunch>(2);
  std::vector<pjrt::Buffer> slots(2);
  ValueRef a(new ConcreteArray(make_aval({2}, DType::int32), nullptr, slots, pending));
  ConcreteArray& c = *as_concrete(a.get());
  EXPECT_FALSE(c.is_ready());
  std::vector<std::jthread> launchers;
  for (int i : {1, 0})
    launchers.emplace_back([&, i] {
      std::vector<std::int32_t> v = {i, i};
      c.slot(i) = make_buffer({2}, DType::int32, {.data = v.data()}, i);
      pending->arrive();
    });
  EXPECT_EQ(c.shards().size(), 2u);
  EXPECT_EQ(c.shards()[1].device_id(), 1);
  c.await();
  EXPECT_TRUE(c.is_ready());
}

TEST(ConcreteArray, AFailedLaunchFailsEveryUse) {
  auto pending = std::make_shared<PendingLaunch>(1);
  std::vector<pjrt::Buffer> slots(1);
  ValueRef a(new ConcreteArray(make_aval({2}, DType::int32), nullptr, slots, pending));
  Error failure(ErrorCode::peer, "launch", "process 1 died");
  pending->arrive(&failure);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(as_concrete(a.get())->shards(), Error);
}

TEST(ConcreteArray, ScalarsComeFromACache) {
  ValueRef a = scalar_array(Scalar(2.0, DType::float32), true);
  EXPECT_EQ(a.get(), scalar_array(Scalar(2.0, DType::float32), true).get());
  EXPECT_EQ(a->aval(), make_aval({}, DType::float32, true));
  EXPECT_NE(a.get(), scalar_array(Scalar(2.0, DType::float32), false).get());
  EXPECT_NE(a.get(), scalar_array(Scalar(-0.0, DType::float32), true).get());
  EXPECT_EQ(
      item(*as_concrete(scalar_array(Scalar(std::complex<double>(1, 2), DType::complex128), true).get())).as_complex(),
      std::complex<double>(1, 2));
}

TEST(ConcreteArray, MemoryIsReusedAcrossThreads) {
  std::vector<ValueRef> arrays;
  for (int i = 0; i < 400; ++i) arrays.push_back(put<float>({float(i)}));
  std::jthread([moved = std::move(arrays)]() mutable { moved.clear(); }).join();
  EXPECT_EQ(get<float>(put<float>({7})), (std::vector<float>{7}));
}

}  // namespace
}  // namespace lockstep::runtime
