#include "lockstep/numpy/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "lockstep/numpy/dtypes.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

namespace np = numpy;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::invalid_argument, "", "");
}

TEST(Host, ListsBecomeArrays) {
  EXPECT_EQ(np::array({1, 2, 3}).aval(), make_aval({3}, DType::int32));
  EXPECT_EQ(np::array({1.0, 2.0}).aval(), make_aval({2}, DType::float32));
  EXPECT_EQ(np::array({1.0f}).aval(), make_aval({1}, DType::float32));
  EXPECT_EQ(np::array({true, false}).aval(), make_aval({2}, DType::bool_));
  EXPECT_EQ(np::array({{1, 2, 3}, {4, 5, 6}}).aval(), make_aval({2, 3}, DType::int32));
  EXPECT_THAT(to_vector<int>(np::array({{1, 2, 3}, {4, 5, 6}})), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(np::array({{{1.0, 2.0}}, {{3.0, 4.0}}, {{5.0, 6.0}}}).shape(), Shape(3, 1, 2));
  EXPECT_EQ(np::array({1, 2}, np::bfloat16).aval(), make_aval({2}, DType::bfloat16));
  EXPECT_EQ(np::array({std::complex<double>(1, 2)}).aval(), make_aval({1}, DType::complex64));
  EXPECT_EQ(np::array(2.5).aval(), make_aval({}, DType::float32, true));
  EXPECT_EQ(np::array(2.5, np::float32).aval(), make_aval({}, DType::float32));
}

TEST(Host, RaggedListsAreRefused) {
  Error e = error_of([] { np::array({{1, 2}, {3}}); });
  EXPECT_EQ(e.code(), ErrorCode::shape);
  EXPECT_THAT(e.what(), AllOf(HasSubstr("2 and 1"), HasSubstr("host_test.cc")));
  EXPECT_THROW(np::array({{{1, 2}}, {{3}}}), Error);
}

TEST(Host, VectorsWithShapes) {
  std::vector<float> v = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(np::array(v).shape(), Shape(6));
  EXPECT_EQ(np::array(v, {2, -1}).shape(), Shape(2, 3));
  EXPECT_EQ(np::asarray(v, {-1, 2}).shape(), Shape(3, 2));
  EXPECT_EQ(np::array(std::vector<bool>{true, false}).dtype(), DType::bool_);
  EXPECT_EQ(np::array(std::vector<std::vector<double>>{{1, 2}, {3, 4}}).shape(), Shape(2, 2));
  EXPECT_EQ(np::array(std::vector<int>{}).shape(), Shape(0));
  for (Shape s : {Shape(4, -1), Shape(-1, -1), Shape(5), Shape(0, -1), Shape(-2, 3)})
    EXPECT_EQ(error_of([&] { np::array(v, s); }).code(), ErrorCode::shape) << to_tuple_string(s);
}

TEST(Host, SixtyFourBitsNeedX64) {
  std::int64_t big = std::int64_t{1} << 40;
  EXPECT_EQ(np::array({std::int64_t{7}}).dtype(), DType::int32);
  EXPECT_THAT(error_of([&] { np::array({big}); }).what(), HasSubstr("1099511627776 (element 0) does not fit int32"));
  EXPECT_THROW(np::array({std::uint64_t{1} << 33}), Error);
  auto x64 = enable_x64();
  EXPECT_THAT(to_vector<std::int64_t>(np::array({big})), ElementsAre(big));
  EXPECT_EQ(np::array({1.0}).dtype(), DType::float64);
}

TEST(Host, AdoptedAndBorrowedMemory) {
  std::vector<float> v(1000, 2);
  Array a = np::asarray(std::move(v), {10, 100});
  EXPECT_EQ(to_vector<float>(a), std::vector<float>(1000, 2));

  alignas(64) static float field[32] = {1, 2};
  std::atomic<int> released = 0;
  {
    Array b = np::asarray(std::span(field), {4, 8}, {.release = [&] { ++released; }});
    HostArray<float> view = device_get<float>(b);
    EXPECT_EQ(view.data(), field);
    b = Array();
    EXPECT_EQ(released, 0);
    EXPECT_EQ(view(0, 1), 2);
  }
  EXPECT_EQ(released, 1);
  // What has to be converted is read at once.
  std::vector<double> d = {1, 2};
  Array c = np::asarray(std::span<const double>(d), {2}, {.release = [&] { ++released; }});
  EXPECT_EQ(released, 2);
  EXPECT_EQ(c.dtype(), DType::float32);
  // Without release the memory is copied.
  Array e = np::asarray(std::span(field), {32});
  field[0] = 9;
  EXPECT_EQ(to_vector<float>(e)[0], 1);
}

TEST(Host, ViewsAndCopies) {
  Array a = np::array({{1.5, 2.5}, {-3.5, 0.0}});
  HostArray<float> view = device_get<float>(a);
  EXPECT_EQ(view.shape(), Shape(2, 2));
  EXPECT_EQ(view.size(), 4u);
  EXPECT_EQ(view(1, 0), -3.5);
  EXPECT_EQ(std::span<const float>(view)[1], 2.5);
  EXPECT_THAT(to_vector<double>(a), ElementsAre(1.5, 2.5, -3.5, 0));
  EXPECT_THAT(to_vector<int>(a), ElementsAre(1, 2, -3, 0));
  EXPECT_THAT(to_vector<bool>(a), ElementsAre(true, true, true, false));
  EXPECT_THAT(to_vector<float>(np::array({1.5, 256.0}, np::bfloat16)), ElementsAre(1.5f, 256));
  EXPECT_THAT(to_vector<float>(Array(3)), ElementsAre(3));
  Error e = error_of([&] { device_get<double>(a); });
  EXPECT_EQ(e.code(), ErrorCode::dtype);
  EXPECT_THAT(e.what(), AllOf(HasSubstr("f32[2,2]"), HasSubstr("float64"), HasSubstr("host_test.cc")));
  JaxprTrace trace("jit(f)", JaxprTrace::Mode::staging);
  EXPECT_EQ(error_of([&] { device_get<float>(trace.new_input(a.aval())); }).code(), ErrorCode::concretization);
}

}  // namespace
}  // namespace lockstep
