#include "lockstep/numpy/float_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace lockstep::numpy {
namespace {

// d.ddd x 10^exponent.
struct Decimal {
  std::string digits;
  int exponent;
};

Decimal parse(const std::string& text) {  // "1.25e-03"
  std::size_t e = text.find('e');
  Decimal d;
  for (char c : text.substr(0, e))
    if (c != '.') d.digits += c;
  d.exponent = std::atoi(text.c_str() + e + 1);
  while (d.digits.size() > 1 && d.digits.back() == '0') d.digits.pop_back();
  return d;
}

Decimal exact(double x, int fraction) { return parse(fmt::format("{:.{}e}", x, fraction)); }

// The shorter neighbours of a half in decimal, below and above; where both stand for it, the nearer one.
Decimal shortest_half(double x) {
  auto stands_for_x = [x](const std::string& text) {
    return to_float(to_half(std::strtof(text.c_str(), nullptr))) == x;
  };
  for (int fraction = 0;; ++fraction) {
    std::string near = fmt::format("{:.{}e}", x, fraction);
    if (stands_for_x(near)) return parse(near);
    double step = std::pow(10.0, std::atoi(near.c_str() + near.find('e') + 1) - fraction);
    double other = std::strtod(near.c_str(), nullptr) + (std::strtod(near.c_str(), nullptr) < x ? step : -step);
    std::string far = fmt::format("{:.{}e}", other, fraction);
    if (stands_for_x(far)) return parse(far);
  }
}

Decimal shortest(double x, DType type) {
  if (type == DType::float16) return shortest_half(x);
  char buffer[64];
  std::to_chars_result end =
      type == DType::float32
          ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(x), std::chars_format::scientific)
          : std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific);
  return parse(std::string(buffer, end.ptr));
}

std::string sign_of(double x) { return std::signbit(x) ? "-" : ""; }

std::string pad_left(std::string text, int to) {
  int missing = to - static_cast<int>(text.size());
  return missing > 0 ? std::string(static_cast<std::size_t>(missing), ' ') + text : text;
}

}  // namespace

std::string positional(double x, DType type, int precision) {
  Decimal d = shortest(std::fabs(x), type);
  int size = static_cast<int>(d.digits.size());
  std::string text;
  if (size - 1 - d.exponent > precision) {
    text = fmt::format("{:.{}f}", std::fabs(x), precision);
    while (text.back() == '0') text.pop_back();
  } else if (d.exponent < 0) {
    text = "0." + (d.digits == "0" ? "" : std::string(static_cast<std::size_t>(-d.exponent - 1), '0') + d.digits);
  } else {
    if (size <= d.exponent) d.digits.append(static_cast<std::size_t>(d.exponent + 1 - size), '0');
    text = d.digits.substr(0, static_cast<std::size_t>(d.exponent) + 1) + "." +
           d.digits.substr(static_cast<std::size_t>(d.exponent) + 1);
    if (d.digits == "0") text = "0.";
  }
  return sign_of(x) + text;
}

std::string scientific(double x, DType type, int precision, int exactly) {
  double a = std::fabs(x);
  Decimal d = shortest(a, type);
  int fraction = static_cast<int>(d.digits.size()) - 1;
  if (fraction > precision) d = exact(a, precision);
  std::string digits = d.digits;
  if (exactly >= 0 && fraction != exactly) {
    d = exact(a, exactly);
    digits = d.digits;
    digits.append(static_cast<std::size_t>(std::max(0, exactly + 1 - static_cast<int>(digits.size()))), '0');
  }
  return fmt::format("{}{}.{}e{:+03}", sign_of(x), digits[0], digits.substr(1), d.exponent);
}

std::string scalar_text(double x, DType type) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return sign_of(x) + "inf";
  double a = std::fabs(x), most = type == DType::float16 ? 1e3 : type == DType::float32 ? 1e6 : 1e16;
  if (a == 0 || (a >= 1e-4 && a < most)) {
    std::string text = positional(x, type, 400);
    return text.back() == '.' ? text + "0" : text;
  }
  std::string text = scientific(x, type, 400);
  std::size_t point = text.find(".e");
  if (point != std::string::npos) text.erase(point, 1);
  return text;
}

std::string bfloat16_text(float x) { return std::isnan(x) ? "nan" : fmt::format("{:.6g}", x); }

FloatFormat::FloatFormat(const std::vector<double>& values, DType type, bool plus) : type_(type), plus_(plus) {
  std::vector<double> finite;
  for (double v : values)
    if (std::isfinite(v)) finite.push_back(v);
  if (!finite.empty()) measure(finite);
  if (finite.size() != values.size()) {
    bool signed_infinity =
        plus_ || std::any_of(values.begin(), values.end(), [](double v) { return v < 0 && std::isinf(v); });
    left_ = std::max(left_, 3 + signed_infinity - (right_ + 1));
  }
}

void FloatFormat::measure(const std::vector<double>& finite) {
  double most = 0, least = INFINITY;
  for (double v : finite) {
    if (v == 0) continue;
    most = std::max(most, std::fabs(v));
    least = std::min(least, std::fabs(v));
  }
  if (most > 0) {
    // Compared in the array's own type, as NumPy does.
    double cutoff = 1e8, small = 0.0001, ratio = most / least;
    if (type_ == DType::float32) {
      cutoff = 1e6, small = 0.0001f, ratio = static_cast<float>(most) / static_cast<float>(least);
    } else if (type_ == DType::float16) {
      cutoff = 1e3, small = to_float(to_half(0.0001f));
      ratio = to_float(to_half(static_cast<float>(most) / static_cast<float>(least)));
    }
    exponent_ = most >= cutoff || least < small || ratio > 1000;
  }
  for (double v : finite) {
    std::string text = signed_text(exponent_ ? scientific(v, type_, kPrecision) : positional(v, type_, kPrecision));
    int e = static_cast<int>(exponent_ ? text.find('e') : text.size()), point = static_cast<int>(text.find('.'));
    left_ = std::max(left_, point);
    fraction_ = std::max(fraction_, e - point - 1);
    if (exponent_) exponent_digits_ = std::max(exponent_digits_, static_cast<int>(text.size()) - e - 2);
  }
  right_ = exponent_ ? exponent_digits_ + 2 + fraction_ : fraction_;
}

std::string FloatFormat::operator()(double x) const {
  if (!std::isfinite(x)) {
    std::string text = std::isnan(x) ? (plus_ ? "+nan" : "nan") : signed_text(sign_of(x) + "inf");
    return pad_left(text, left_ + right_ + 1);
  }
  if (exponent_) {
    std::string text = signed_text(scientific(x, type_, kPrecision, fraction_));
    std::size_t digits_at = text.find('e') + 2;
    int missing = exponent_digits_ - static_cast<int>(text.size() - digits_at);
    if (missing > 0) text.insert(digits_at, static_cast<std::size_t>(missing), '0');
    return pad_left(text, left_ + static_cast<int>(text.size() - text.find('.')));
  }
  std::string text = signed_text(positional(x, type_, kPrecision));
  std::size_t point = text.find('.');
  std::size_t right = text.size() - point - 1;
  text.append(static_cast<std::size_t>(right_) - right, ' ');
  return pad_left(text, left_ + static_cast<int>(text.size() - point));
}

}  // namespace lockstep::numpy
