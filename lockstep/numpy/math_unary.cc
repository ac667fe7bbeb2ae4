// Functions of one array of numpy/math.h.
#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/select.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/call.h"

namespace lockstep::numpy {
namespace {

bool is_whole(const Array& x) { return is_bool(x.dtype()) || is_integer(x.dtype()); }
Array filled(const Array& x, bool value) { return lax::full_like(x, value, DType::bool_); }
[[noreturn]] void refuse(const char* operation, const Array& x) {
  throw_error(ErrorCode::dtype, operation, "does not take {} numbers: {}", name(x.dtype()), x.aval()->text);
}
DType bits_of(DType t) { return itemsize(t) == 2 ? DType::int16 : itemsize(t) == 4 ? DType::int32 : DType::int64; }
int mantissa_bits(DType t) {
  return t == DType::float16 ? 10 : t == DType::bfloat16 ? 7 : t == DType::float32 ? 23 : 52;
}
int exponent_bits(DType t) { return static_cast<int>(8 * itemsize(t)) - 1 - mantissa_bits(t); }
Scalar finite_limit(DType t) {  // the largest finite number
  switch (t) {
    case DType::float16:
      return Scalar(65504.0, t);
    case DType::bfloat16:
      return Scalar(3.3895313892515355e38, t);
    case DType::float32:
      return Scalar(static_cast<double>(std::numeric_limits<float>::max()), t);
    default:
      return Scalar(std::numeric_limits<double>::max(), t);
  }
}
Array one(const Operand& x, const char* name, Array (*fn)(const Operand&)) {
  LocationScope scope(x.where);
  return fn(promote_inexact(name, x.array));
}

}  // namespace

#define INEXACT(Struct, name, function) \
  Array Struct::operator()(const Operand& x) const { return one(x, name, function); }
INEXACT(Exp, "exp", lax::exp)
INEXACT(Exp2, "exp2", lax::exp2)
INEXACT(Expm1, "expm1", lax::expm1)
INEXACT(Log, "log", lax::log)
INEXACT(Log1p, "log1p", lax::log1p)
INEXACT(Sqrt, "sqrt", lax::sqrt)
INEXACT(Cbrt, "cbrt", lax::cbrt)
INEXACT(Sin, "sin", lax::sin)
INEXACT(Cos, "cos", lax::cos)
INEXACT(Tan, "tan", lax::tan)
INEXACT(Arcsin, "arcsin", lax::asin)
INEXACT(Arccos, "arccos", lax::acos)
INEXACT(Arctan, "arctan", lax::atan)
INEXACT(Sinh, "sinh", lax::sinh)
INEXACT(Cosh, "cosh", lax::cosh)
INEXACT(Tanh, "tanh", lax::tanh)
INEXACT(Arcsinh, "arcsinh", lax::asinh)
INEXACT(Arctanh, "arctanh", lax::atanh)
#undef INEXACT

Array Arccosh::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return jitted("arccosh", "", {x.array}, [](auto in) {
    Array out = lax::acosh(promote_inexact("arccosh", in[0]));
    if (!is_complex(out.dtype())) return out;
    return select_where(lax::lt(lax::real(out), scalar(Scalar(0.0, real_type(out.dtype())), real_type(out.dtype()))),
                        lax::neg(out), out);
  });
}
Array Log2::operator()(const Operand& operand) const {
  LocationScope scope(operand.where);
  Array x = promote_inexact("log2", operand.array);
  Array r = lax::log(x);
  if (!is_complex(x.dtype())) return lax::div(r, lax::log(scalar_like(x, 2.0)));
  Array re = lax::real(r), ln2 = lax::log(scalar_like(re, 2.0));
  return lax::complex(lax::div(re, ln2), lax::div(lax::imag(r), ln2));
}
Array Log10::operator()(const Operand& operand) const {
  LocationScope scope(operand.where);
  Array r = lax::log(promote_inexact("log10", operand.array));
  DType part = real_type(r.dtype());
  Array factor = scalar(Scalar(std::numbers::log10e, part), part);
  if (!is_complex(r.dtype())) return lax::mul(r, factor);
  return lax::complex(lax::mul(lax::real(r), factor), lax::mul(lax::imag(r), factor));
}
Array Deg2rad::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  Array a = promote_inexact("deg2rad", x.array);
  return lax::mul(a, scalar_like(a, pi / 180));
}
Array Rad2deg::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  Array a = promote_inexact("rad2deg", x.array);
  return lax::mul(a, scalar_like(a, 180 / pi));
}
Array Reciprocal::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return lax::integer_pow(promote_inexact("reciprocal", x.array), -1);
}
Array Square::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return lax::square(promote_numeric("square", x.array));
}
Array Sinc::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return jitted("sinc", "", {x.array}, [](auto in) {
    Array a = promote_inexact("sinc", in[0]);
    Array at_zero = lax::eq(a, scalar_like(a, 0.0));
    Array pi_x = lax::mul(scalar_like(a, pi), a);
    Array safe = select_where(at_zero, scalar_like(a, 1.0), pi_x);
    // Near 0 sin(z) / z is 1 - z^2 / 6, whose first two derivatives are right there.
    Array near_zero = lax::sub(scalar_like(a, 1.0), lax::div(lax::square(pi_x), scalar_like(a, 6.0)));
    return select_where(at_zero, near_zero, lax::div(lax::sin(safe), safe));
  });
}

Array Negative::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return lax::neg(x.array);
}
Array Positive::operator()(const Operand& x) const { return x.array; }
Array Sign::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return lax::sign(x.array);
}
Array Floor::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return is_whole(x.array) ? x.array : lax::floor(x.array);
}
Array Ceil::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return is_whole(x.array) ? x.array : lax::ceil(x.array);
}
Array Trunc::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return jitted("trunc", "", {x.array}, [](auto in) {
    const Array& a = in[0];
    if (is_whole(a)) return a;
    Array negative_a = lax::lt(a, scalar_like(a, 0.0)), up = lax::ceil(a);
    return select_where(negative_a, up, lax::floor(a));
  });
}
Array Rint::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return jitted("rint", "", {x.array}, [](auto in) {
    const Array& a = in[0];
    auto nearest = [](const Array& v) { return lax::round(v, lax::RoundingMethod::to_nearest_even); };
    if (is_whole(a)) return convert(a, default_float());
    if (is_complex(a.dtype())) return lax::complex(nearest(lax::real(a)), nearest(lax::imag(a)));
    return nearest(a);
  });
}
Array round(const Operand& x, int decimals) {
  LocationScope scope(x.where);
  return jitted("round", std::to_string(decimals), {x.array}, [&](auto in) {
    const Array& a = in[0];
    DType dtype = a.dtype();
    if (is_whole(a)) {
      if (decimals < 0)
        throw_error(ErrorCode::dtype, "round", "of integers to {} decimals is not implemented", decimals);
      return a;
    }
    auto nearest = [](const Array& v) { return lax::round(v, lax::RoundingMethod::to_nearest_even); };
    auto part = [&](Array v) {
      if (decimals == 0) return nearest(v);
      if (dtype == DType::float16) v = convert(v, DType::float32);
      Array factor = scalar_like(v, std::pow(10.0, decimals));
      return convert(lax::div(nearest(lax::mul(v, factor)), factor), real_type(dtype));
    };
    if (decimals > std::log10(finite_limit(real_type(dtype)).as_double())) return a;
    if (is_complex(dtype)) return lax::complex(part(lax::real(a)), part(lax::imag(a)));
    return part(a);
  });
}
Array Absolute::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  DType t = x.array.dtype();
  return is_bool(t) || is_unsigned_integer(t) ? x.array : lax::abs(x.array);
}
Array Fabs::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  if (is_complex(x.array.dtype())) refuse("fabs", x.array);
  return lax::abs(promote_inexact("fabs", x.array));
}
Array Conjugate::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return is_complex(x.array.dtype()) ? lax::conj(x.array) : x.array;
}
Array Real::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return is_complex(x.array.dtype()) ? lax::real(x.array) : x.array;
}
Array Imag::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return is_complex(x.array.dtype()) ? lax::imag(x.array) : lax::full_like(x.array, 0);
}
Array Angle::operator()(const Operand& z) const {
  LocationScope scope(z.where);
  return jitted("angle", "", {z.array}, [](auto in) {
    Array re = real(in[0]), im = imag(in[0]);
    if (!is_inexact(re.dtype())) {
      re = convert(re, default_float());
      im = convert(im, default_float());
    }
    return lax::atan2(im, re);
  });
}

Array Isnan::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return lax::ne(x.array, x.array);
}
Array Isfinite::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  const Array& a = x.array;
  if (is_floating(a.dtype())) return lax::is_finite(a);
  if (!is_complex(a.dtype())) return filled(a, true);
  return lax::bitwise_and(lax::is_finite(lax::real(a)), lax::is_finite(lax::imag(a)));
}
Array Isinf::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return jitted("isinf", "", {x.array}, [](auto in) {
    const Array& a = in[0];
    auto part = [](const Array& v) { return lax::eq(lax::abs(v), scalar_like(v, inf)); };
    if (is_floating(a.dtype())) return part(a);
    if (is_complex(a.dtype())) return lax::bitwise_or(part(lax::real(a)), part(lax::imag(a)));
    return filled(a, false);
  });
}
Array Isposinf::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  if (is_complex(x.array.dtype())) refuse("isposinf", x.array);
  return is_floating(x.array.dtype()) ? lax::eq(x.array, scalar_like(x.array, inf)) : filled(x.array, false);
}
Array Isneginf::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  if (is_complex(x.array.dtype())) refuse("isneginf", x.array);
  return is_floating(x.array.dtype()) ? lax::eq(x.array, scalar_like(x.array, -inf)) : filled(x.array, false);
}
Array Signbit::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return jitted("signbit", "", {x.array}, [](auto in) {
    const Array& a = in[0];
    DType t = a.dtype();
    if (is_integer(t)) return lax::lt(a, scalar_like(a, 0.0));
    if (is_bool(t)) return filled(a, false);
    if (!is_floating(t)) refuse("signbit", a);
    Array bits = lax::bitcast_convert_type(a, bits_of(t));
    int shift = exponent_bits(t) + mantissa_bits(t);
    return convert(lax::shift_right_arithmetic(bits, scalar_like(bits, shift)), DType::bool_);
  });
}
Array LogicalNot::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  const Array& a = x.array;
  return lax::bitwise_not(is_bool(a.dtype()) ? a : lax::ne(a, scalar_like(a, 0.0)));
}
Array BitwiseNot::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return lax::bitwise_not(x.array);
}
Array BitwiseCount::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return jitted("bitwise_count", "", {x.array}, [](auto in) {
    return convert(lax::population_count(absolute(promote_numeric("bitwise_count", in[0]))), DType::uint8);
  });
}
Array NanToNum::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return jitted("nan_to_num", "", {x.array}, [](auto in) {
    const Array& a = in[0];
    if (is_whole(a)) return a;
    auto part = [](const Array& v) {
      Scalar largest = finite_limit(v.dtype()), smallest(-largest.as_double(), v.dtype());
      Array out = select_where(isnan(v), scalar(Scalar(0.0, v.dtype()), v.dtype()), v);
      out = select_where(isposinf(out), scalar(largest, v.dtype()), out);
      return select_where(isneginf(out), scalar(smallest, v.dtype()), out);
    };
    if (is_complex(a.dtype())) return lax::complex(part(lax::real(a)), part(lax::imag(a)));
    return part(a);
  });
}
std::pair<Array, Array> modf(const Operand& x) {
  LocationScope scope(x.where);
  Arrays out = jitted_many("modf", "", {&x.array, 1}, [](auto in) {
    Array a = promote_inexact("modf", in[0]);
    Array whole = select_where(lax::ge(a, scalar_like(a, 0.0)), floor(a), ceil(a));
    return Arrays{lax::sub(a, whole), whole};
  });
  return {out[0], out[1]};
}
namespace {
// Of floating x: mantissa and exponent by the bits.
Arrays split_exponent(const Array& a) {
  DType t = a.dtype(), integer = bits_of(t);
  auto whole = [&](std::int64_t v) { return scalar(Scalar(v, integer), integer); };
  int mantissa = mantissa_bits(t), exponent = exponent_bits(t);
  std::int64_t mask = (std::int64_t{1} << exponent) - 1, bias = (std::int64_t{1} << (exponent - 1)) - 1;
  // Numbers below the smallest normal one are scaled up first.
  Array tiny = scalar_like(a, std::ldexp(1.0, static_cast<int>(1 - bias)));
  Array small = lax::lt(lax::abs(a), tiny);
  Array scaled = select_where(small, lax::mul(a, scalar_like(a, std::ldexp(1.0, mantissa))), a);
  Array bits = lax::bitcast_convert_type(scaled, integer);
  Array e = lax::add(
      select_where(small, whole(-mantissa), whole(0)),
      lax::sub(lax::bitwise_and(lax::shift_right_arithmetic(bits, whole(mantissa)), whole(mask)), whole(bias - 1)));
  bits = lax::bitwise_or(lax::bitwise_and(bits, whole(~(mask << mantissa))), whole((bias - 1) << mantissa));
  Array as_is = lax::bitwise_or(lax::bitwise_not(lax::is_finite(a)), lax::eq(a, scalar_like(a, 0.0)));
  Array m = lax::bitcast_convert_type(bits, t);
  return {select_where(as_is, a, m), convert(select_where(as_is, whole(0), e), DType::int32)};
}
}  // namespace
std::pair<Array, Array> frexp(const Operand& x) {
  LocationScope scope(x.where);
  Arrays out = jitted_many("frexp", "", {&x.array, 1}, [](auto in) {
    Array a = promote_inexact("frexp", in[0]);
    if (is_complex(a.dtype())) refuse("frexp", a);
    static const auto rule = std::make_shared<FlatJvpRule>([](auto primals, auto tangents) {
      Arrays parts = split_exponent(primals[0]);
      Array power = lax::exp2(lax::neg(convert(parts[1], tangents[0].dtype())));
      return JvpOut{parts, {lax::mul(tangents[0], power), Array()}};
    });
    return bind_custom_jvp([](auto own) { return split_exponent(own[0]); }, rule, {&a, 1}, "_frexp");
  });
  return {out[0], out[1]};
}

}  // namespace lockstep::numpy
