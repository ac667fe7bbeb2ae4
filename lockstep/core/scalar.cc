#include "lockstep/core/scalar.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "lockstep/support/error.h"

namespace lockstep {
namespace {

std::int64_t wrap(std::uint64_t v, DType t) {
  switch (t) {
    case DType::int8:
      return static_cast<std::int8_t>(v);
    case DType::int16:
      return static_cast<std::int16_t>(v);
    case DType::int32:
      return static_cast<std::int32_t>(v);
    case DType::uint8:
      return static_cast<std::uint8_t>(v);
    case DType::uint16:
      return static_cast<std::uint16_t>(v);
    case DType::uint32:
      return static_cast<std::uint32_t>(v);
    default:
      return static_cast<std::int64_t>(v);
  }
}
double round_to(double v, DType t) {
  switch (real_type(t)) {
    case DType::float16:
      return to_float(to_half(static_cast<float>(v)));
    case DType::bfloat16:
      return to_float(to_bfloat16(static_cast<float>(v)));
    case DType::float32:
      return static_cast<float>(v);
    default:
      return v;
  }
}
// The shortest text that reads back as the same number of the type, with ".0" for whole ones.
std::string float_text(double v, DType t) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string text = real_type(t) == DType::float64 ? fmt::format("{}", v) : fmt::format("{}", static_cast<double>(v));
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

Scalar::Scalar(std::int64_t v, DType t) : dtype_(t) {
  if (is_bool(t))
    i_ = v != 0;
  else if (is_integer(t) || t == DType::key)
    i_ = wrap(static_cast<std::uint64_t>(v), t);
  else
    re_ = round_to(static_cast<double>(v), t);
}
Scalar::Scalar(std::uint64_t v, DType t) : dtype_(t) {
  if (is_bool(t))
    i_ = v != 0;
  else if (is_integer(t) || t == DType::key)
    i_ = wrap(v, t);
  else
    re_ = round_to(static_cast<double>(v), t);
}
Scalar::Scalar(double v, DType t) : dtype_(t) {
  if (is_bool(t)) {
    i_ = v != 0;
  } else if (is_integer(t)) {
    if (v >= 9223372036854775808.0)
      i_ = wrap(v >= 18446744073709551616.0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(v), t);
    else
      i_ = std::isnan(v)
               ? 0
               : wrap(static_cast<std::uint64_t>(static_cast<std::int64_t>(std::max(v, -9223372036854775808.0))), t);
  } else {
    re_ = round_to(v, t);
  }
}
Scalar::Scalar(std::complex<double> v, DType t) : Scalar(v.real(), t) {
  if (is_complex(t)) im_ = round_to(v.imag(), t);
  if (is_bool(t)) i_ = v != std::complex<double>();
}

Scalar Scalar::cast(DType t) const {
  if (t == dtype_) return *this;
  if (is_complex(dtype_)) return Scalar(as_complex(), t);
  if (is_floating(dtype_)) return Scalar(re_, t);
  if (dtype_ == DType::uint64) return Scalar(static_cast<std::uint64_t>(i_), t);
  return Scalar(i_, t);
}
bool Scalar::truth() const { return is_inexact(dtype_) ? re_ != 0 || im_ != 0 : i_ != 0; }
std::int64_t Scalar::as_int() const { return is_inexact(dtype_) ? Scalar(re_, DType::int64).i_ : i_; }
std::uint64_t Scalar::as_uint() const { return static_cast<std::uint64_t>(as_int()); }
double Scalar::as_double() const {
  if (is_inexact(dtype_)) return re_;
  return dtype_ == DType::uint64 ? static_cast<double>(static_cast<std::uint64_t>(i_)) : static_cast<double>(i_);
}
std::complex<double> Scalar::as_complex() const { return {as_double(), im_}; }

void Scalar::write(void* to) const {
  auto put = [to](auto v) { std::memcpy(to, &v, sizeof v); };
  switch (dtype_) {
    case DType::bool_:
      return put(static_cast<std::uint8_t>(i_ != 0));
    case DType::int8:
    case DType::uint8:
      return put(static_cast<std::int8_t>(i_));
    case DType::int16:
    case DType::uint16:
      return put(static_cast<std::int16_t>(i_));
    case DType::int32:
    case DType::uint32:
      return put(static_cast<std::int32_t>(i_));
    case DType::int64:
    case DType::uint64:
    case DType::key:
      return put(i_);
    case DType::float16:
      return put(to_half(static_cast<float>(re_)).bits);
    case DType::bfloat16:
      return put(to_bfloat16(static_cast<float>(re_)).bits);
    case DType::float32:
      return put(static_cast<float>(re_));
    case DType::float64:
      return put(re_);
    case DType::complex64:
      return put(std::complex<float>(static_cast<float>(re_), static_cast<float>(im_)));
    case DType::complex128:
      return put(std::complex<double>(re_, im_));
    case DType::float0:
      return;
  }
}
Scalar Scalar::read(const void* from, DType t) {
  auto get = [from](auto v) {
    std::memcpy(&v, from, sizeof v);
    return v;
  };
  switch (t) {
    case DType::bool_:
      return Scalar(get(std::uint8_t{}) != 0);
    case DType::int8:
      return Scalar(std::int64_t{get(std::int8_t{})}, t);
    case DType::int16:
      return Scalar(std::int64_t{get(std::int16_t{})}, t);
    case DType::int32:
      return Scalar(std::int64_t{get(std::int32_t{})}, t);
    case DType::int64:
      return Scalar(get(std::int64_t{}), t);
    case DType::uint8:
      return Scalar(std::int64_t{get(std::uint8_t{})}, t);
    case DType::uint16:
      return Scalar(std::int64_t{get(std::uint16_t{})}, t);
    case DType::uint32:
      return Scalar(std::int64_t{get(std::uint32_t{})}, t);
    case DType::uint64:
    case DType::key:
      return Scalar(get(std::uint64_t{}), t);
    case DType::float16:
      return Scalar(double{to_float(get(Half{}))}, t);
    case DType::bfloat16:
      return Scalar(double{to_float(get(Bfloat16{}))}, t);
    case DType::float32:
      return Scalar(double{get(float{})}, t);
    case DType::float64:
      return Scalar(get(double{}), t);
    case DType::complex64:
      return Scalar(std::complex<double>(get(std::complex<float>{})), t);
    case DType::complex128:
      return Scalar(get(std::complex<double>{}), t);
    case DType::float0:
      return Scalar(false);
  }
  LS_CHECK(false);
  return {};
}
bool Scalar::same_bits(const Scalar& o) const {
  auto bits = [](double v) { return std::bit_cast<std::uint64_t>(v); };
  return dtype_ == o.dtype_ && i_ == o.i_ && bits(re_) == bits(o.re_) && bits(im_) == bits(o.im_);
}
std::size_t Scalar::hash() const {
  return static_cast<std::size_t>(dtype_) ^ std::hash<std::int64_t>()(i_) ^
         std::hash<std::uint64_t>()(std::bit_cast<std::uint64_t>(re_)) * 31 ^
         std::hash<std::uint64_t>()(std::bit_cast<std::uint64_t>(im_)) * 131;
}

std::string to_string(const Scalar& s) {
  DType t = s.dtype();
  if (is_bool(t)) return s.truth() ? "True" : "False";
  if (t == DType::uint64 || t == DType::key) return fmt::format("{}", s.as_uint());
  if (is_integer(t)) return fmt::format("{}", s.as_int());
  if (is_floating(t)) return float_text(s.as_double(), t);
  auto c = s.as_complex();
  std::string im = float_text(c.imag(), t), re = float_text(c.real(), t);
  auto strip = [](std::string v) { return v.ends_with(".0") ? v.substr(0, v.size() - 2) : v; };
  if (c.real() == 0 && !std::signbit(c.real())) return strip(im) + "j";
  return "(" + strip(re) + (im[0] == '-' || im[0] == 'n' ? "" : "+") + strip(im) + "j)";
}

std::string to_mlir_string(const Scalar& s) {
  DType t = s.dtype();
  if (is_bool(t)) return s.truth() ? "true" : "false";
  if (t == DType::uint64 || t == DType::key) return fmt::format("{}", s.as_uint());
  if (is_integer(t)) return fmt::format("{}", s.as_int());
  auto real = [](double v, DType t) -> std::string {
    if (!std::isfinite(v)) {
      std::uint8_t bytes[8];
      Scalar(v, t).write(bytes);
      std::string hex = "0x";
      for (int i = static_cast<int>(itemsize(t)) - 1; i >= 0; --i) hex += fmt::format("{:02X}", bytes[i]);
      return hex;
    }
    return fmt::format("{:.{}e}", v, t == DType::float64 ? 17 : 9);
  };
  if (is_floating(t)) return real(s.as_double(), t);
  auto c = s.as_complex();
  return "(" + real(c.real(), real_type(t)) + "," + real(c.imag(), real_type(t)) + ")";
}

Scalar min_value(DType t) {
  if (is_bool(t)) return Scalar(false);
  if (is_unsigned_integer(t)) return Scalar(std::uint64_t{0}, t);
  if (is_integer(t)) return Scalar(-(std::int64_t{1} << (8 * itemsize(t) - 2)) * 2, t);
  return Scalar(-std::numeric_limits<double>::infinity(), t);
}
Scalar max_value(DType t) {
  if (is_bool(t)) return Scalar(true);
  if (is_unsigned_integer(t)) return Scalar(~std::uint64_t{0}, t);
  if (is_integer(t)) return Scalar(static_cast<std::int64_t>(~std::uint64_t{0} >> 1 >> (64 - 8 * itemsize(t))), t);
  return Scalar(std::numeric_limits<double>::infinity(), t);
}

}  // namespace lockstep
