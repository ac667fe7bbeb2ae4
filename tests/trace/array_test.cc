#include "lockstep/trace/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/runtime/transfer.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

using testing::AllOf;
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

Array device_array(std::initializer_list<float> v) {
  return Array(runtime::make_concrete(make_aval(Shape{v.size()}, DType::float32), {.data = std::data(v)}));
}

TEST(Array, NumbersAreTypedAsJaxTypesThem) {
  EXPECT_EQ(Array(true).aval(), make_aval({}, DType::bool_));
  EXPECT_EQ(Array(3).aval(), make_aval({}, DType::int32, true));
  EXPECT_EQ(Array(2.5).aval(), make_aval({}, DType::float32, true));
  EXPECT_EQ(Array(std::complex<float>(1, 2)).aval(), make_aval({}, DType::complex64, true));
  EXPECT_EQ(error_of([] { Array(std::int64_t{1} << 40); }).code(), ErrorCode::dtype);
  auto x64 = enable_x64();
  EXPECT_EQ(Array(std::int64_t{1} << 40).item<std::int64_t>(), std::int64_t{1} << 40);
  EXPECT_EQ(Array(2.5).aval(), make_aval({}, DType::float64, true));
  EXPECT_EQ(error_of([] { Array(~std::uint64_t{0}); }).code(), ErrorCode::dtype);
}

TEST(Array, AnEmptyOneSaysSo) {
  Array a;
  EXPECT_FALSE(a.has_value());
  for (auto f : {+[](const Array& a) { a.shape(); }, +[](const Array& a) { a.item<int>(); },
                 +[](const Array& a) { a.block_until_ready(); }, +[](const Array& a) { (void)static_cast<bool>(a); }})
    EXPECT_THAT(error_of([&] { f(a); }).what(), HasSubstr("nothing was assigned"));
}

TEST(Array, ShapeOfAnAxis) {
  Array a = device_array({1, 2, 3});
  EXPECT_EQ(a.shape(0), 3);
  EXPECT_EQ(a.shape(-1), 3);
  EXPECT_EQ(error_of([&] { a.shape(1); }).code(), ErrorCode::axis);
  auto [n] = a.shape<1>();
  EXPECT_EQ(n, 3);
  Error e = error_of([&] { a.shape<2>(); });
  EXPECT_EQ(e.code(), ErrorCode::shape);
  EXPECT_THAT(e.what(), AllOf(HasSubstr("(3,)"), HasSubstr("array_test.cc")));
}

TEST(Array, ItemConverts) {
  Array a = device_array({2.75});
  EXPECT_EQ(a.item<float>(), 2.75f);
  EXPECT_EQ(a.item<int>(), 2);
  EXPECT_TRUE(a.item<bool>());
  EXPECT_TRUE(static_cast<bool>(a));
  EXPECT_EQ(a.item<std::complex<double>>(), std::complex<double>(2.75));
  EXPECT_EQ(error_of([] { device_array({1, 2}).item<float>(); }).code(), ErrorCode::shape);
  EXPECT_EQ(&a.block_until_ready(), &a);
}

TEST(Array, ATracedOneHasNoValue) {
  JaxprTrace trace("jit(step)", JaxprTrace::Mode::staging);
  Array x = trace.new_input(make_aval({}, DType::float32), "argument 0, field rate");
  Array y = trace.new_input(make_aval({}, DType::float32));
  const int line = __LINE__ + 1;
  Error e = error_of([&] { x.item<float>(); });
  EXPECT_EQ(e.code(), ErrorCode::concretization);
  EXPECT_EQ(static_cast<int>(e.where().line()), line);
  EXPECT_THAT(e.what(), AllOf(HasSubstr("jit(step)"), HasSubstr("It depends on argument 0, field rate.")));
  EXPECT_THAT(error_of([&] { (void)static_cast<bool>(y); }).what(), HasSubstr("argument 1"));
  EXPECT_EQ(error_of([&] { x.block_until_ready(); }).code(), ErrorCode::concretization);
}

TEST(Array, ADualOfAKnownValueHasOne) {
  JvpTrace trace("jvp(f)", nullptr);
  Array x = trace.dual(device_array({4}), device_array({1}));
  EXPECT_TRUE(x.is_tracer());
  EXPECT_EQ(x.item<float>(), 4);
  EXPECT_TRUE(static_cast<bool>(x));
}

TEST(Array, AnEscapedTracerSaysSo) {
  Array x;
  {
    JvpTrace trace("jvp(f)", nullptr);
    x = trace.dual(device_array({4}), device_array({1}));
  }
  EXPECT_EQ(error_of([&] { x.item<float>(); }).code(), ErrorCode::escaped_tracer);
}

}  // namespace
}  // namespace lockstep
