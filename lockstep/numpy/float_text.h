// Decimal texts of floating-point numbers as NumPy writes them: the fewest digits that tell a number of its type from
// its neighbours, up to a given precision; beyond what is needed, exact digits.
#pragma once

#include <string>
#include <vector>

#include "lockstep/core/dtype.h"

namespace lockstep::numpy {

// All numbers are given as doubles; `type` is float16, float32 or float64 and says what their neighbours are.

// "1.5", "-0.25", "100.": at most `precision` digits after the point, no trailing zeros. Finite numbers only.
std::string positional(double x, DType type, int precision);
// "1.5e+00", "1.e-08": at most `precision` digits after the point, and `exactly` that many if not negative.
std::string scientific(double x, DType type, int precision, int exactly = -1);
// A number by itself, as str() of a NumPy scalar: "0.1", "1e+20", "nan".
std::string scalar_text(double x, DType type);
std::string bfloat16_text(float x);

// The common format of an array's elements.
class FloatFormat {
 public:
  // `plus`: positive numbers get a sign (imaginary parts).
  FloatFormat(const std::vector<double>& values, DType type, bool plus);
  std::string operator()(double x) const;

 private:
  void measure(const std::vector<double>& finite);
  std::string signed_text(std::string text) const { return plus_ && text[0] != '-' ? "+" + text : text; }

  static constexpr int kPrecision = 8;
  DType type_;
  bool plus_;
  bool exponent_ = false;
  int left_ = 0, right_ = 0, fraction_ = 0, exponent_digits_ = 0;
};

}  // namespace lockstep::numpy
