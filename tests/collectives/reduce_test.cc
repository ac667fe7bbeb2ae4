#include "lockstep/collectives/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::collectives {
namespace {

template <class T>
std::vector<T> combined(Reduction reduction, std::vector<T> a, const std::vector<T>& b) {
  combine_function(dtype_of<T>, reduction)(a.data(), a.data(), b.data(), a.size());
  return a;
}

// All pairs of a step through the 16-bit patterns against the scalar conversions.
template <class T>
void expect_like_float(Reduction reduction, float (*op)(float, float), T (*round)(float)) {
  std::vector<T> a, b;
  for (int i = 0; i < 65536; i += 37) {
    for (int j = 0; j < 65536; j += 1013) {
      a.push_back({static_cast<std::uint16_t>(i)});
      b.push_back({static_cast<std::uint16_t>(j)});
    }
  }
  auto c = combined(reduction, a, b);
  int wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    float want = op(to_float(a[i]), to_float(b[i]));
    bool same = std::isnan(want) ? std::isnan(to_float(c[i])) : c[i].bits == round(want).bits;
    if (!same && ++wrong < 5)
      ADD_FAILURE() << a[i].bits << " op " << b[i].bits << " = " << c[i].bits << ", not " << want;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(ReduceTest, HalfTypesAreComputedInFloatAndRounded) {
  auto add = [](float x, float y) { return x + y; };
  auto multiply = [](float x, float y) { return x * y; };
  expect_like_float<Half>(Reduction::add, add, to_half);
  expect_like_float<Half>(Reduction::multiply, multiply, to_half);
  expect_like_float<Bfloat16>(Reduction::add, add, to_bfloat16);
  expect_like_float<Bfloat16>(Reduction::multiply, multiply, to_bfloat16);
}

TEST(ReduceTest, MaximumAndMinimumGiveNaNIfEitherIs) {
  float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (Reduction r : {Reduction::maximum, Reduction::minimum}) {
    auto c = combined<float>(r, {nan, 1, nan, inf, nan}, {1, nan, nan, nan, -inf});
    for (float v : c) EXPECT_TRUE(std::isnan(v));
    auto d = combined<double>(r, {std::nan(""), 1}, {1, std::nan("")});
    for (double v : d) EXPECT_TRUE(std::isnan(v));
    auto h = combined<Bfloat16>(r, {to_bfloat16(nan), to_bfloat16(1)}, {to_bfloat16(2), to_bfloat16(nan)});
    for (Bfloat16 v : h) EXPECT_TRUE(std::isnan(to_float(v)));
  }
  EXPECT_EQ(combined<float>(Reduction::maximum, {1, -inf, 3}, {2, 0, -1}), (std::vector<float>{2, 0, 3}));
}

TEST(ReduceTest, IntegersWrap) {
  EXPECT_EQ(combined<std::int8_t>(Reduction::add, {127}, {1}), (std::vector<std::int8_t>{-128}));
  EXPECT_EQ(combined<std::uint16_t>(Reduction::multiply, {65535}, {65535}), (std::vector<std::uint16_t>{1}));
  EXPECT_EQ(combined<std::int32_t>(Reduction::add, {std::numeric_limits<std::int32_t>::max()}, {1}),
            (std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::min()}));
  EXPECT_EQ(combined<std::int64_t>(Reduction::multiply, {std::int64_t{1} << 62}, {4}), (std::vector<std::int64_t>{0}));
}

TEST(ReduceTest, WhatHasNoMeaningIsNull) {
  EXPECT_EQ(combine_function(DType::complex64, Reduction::maximum), nullptr);
  EXPECT_EQ(combine_function(DType::float16, Reduction::and_), nullptr);
  EXPECT_EQ(combine_function(DType::float32, Reduction::none), nullptr);
  EXPECT_EQ(combine_function(DType::key, Reduction::add), nullptr);
}

}  // namespace
}  // namespace lockstep::collectives
