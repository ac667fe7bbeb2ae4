// Functions of two arrays of numpy/math.h.
#include <cmath>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/numpy/reductions.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/select.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"
#include "lockstep/transforms/call.h"

namespace lockstep::numpy {
namespace {

using Pair = std::pair<Array, Array>;
Array zero_like(const Array& a) { return scalar_like(a, 0.0); }
Array one_like(const Array& a) { return scalar_like(a, 1.0); }
Array to_bool(const Array& a) { return is_bool(a.dtype()) ? a : lax::ne(a, zero_like(a)); }
void refuse_complex(const char* operation, const Array& x) {
  if (is_complex(x.dtype()))
    throw_error(ErrorCode::dtype, operation, "does not take complex numbers: {}", x.aval()->text);
}

}  // namespace

Array add(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  auto [a, b] = promote_args("add", x.array, y.array);
  return is_bool(a.dtype()) ? lax::bitwise_or(a, b) : lax::add(a, b);
}
Array subtract(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  auto [a, b] = promote_args("subtract", x.array, y.array);
  return lax::sub(a, b);
}
Array multiply(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  auto [a, b] = promote_args("multiply", x.array, y.array);
  return is_bool(a.dtype()) ? lax::bitwise_and(a, b) : lax::mul(a, b);
}
Array true_divide(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  auto [a, b] = promote_args_inexact("true_divide", x.array, y.array);
  return lax::div(a, b);
}

namespace {

Pair float_divmod(const Array& a, const Array& b) {
  Array mod = lax::rem(a, b), by_zero = lax::eq(b, zero_like(b));
  Array corrected = select_where(by_zero, a, lax::sub(a, mod));
  Array quotient = lax::div(corrected, b);
  Array nonzero = lax::ne(mod, zero_like(mod)), sign = lax::sign(b);
  Array fix = lax::bitwise_and(nonzero, lax::ne(sign, lax::sign(mod)));
  mod = lax::select(fix, lax::add(mod, b), mod);
  quotient = lax::select(fix, lax::sub(quotient, one_like(quotient)), quotient);
  return {lax::round(quotient), mod};
}

// With ones instead, so that integers can be divided by it.
Array without_zeros(const Array& a) {
  Array zero = lax::eq(a, zero_like(a));
  return select_where(zero, lax::full_like(a, 1), a);
}

}  // namespace

Array floor_divide(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  return jitted("floor_divide", "", {x.array, y.array}, [](auto in) {
    auto [a, b] = promote_args_numeric("floor_divide", in[0], in[1]);
    refuse_complex("floor_divide", a);
    if (is_unsigned_integer(a.dtype())) return lax::div(a, b);
    if (!is_integer(a.dtype())) return float_divmod(a, b).first;
    Array quotient = lax::div(a, b);
    Array sign = lax::sign(a);
    Array other_signs = lax::ne(sign, lax::sign(b));
    Array inexact = lax::ne(lax::rem(a, b), zero_like(a));
    Array fix = lax::bitwise_and(other_signs, inexact);
    return select_where(fix, lax::sub(quotient, one_like(quotient)), quotient);
  });
}
Array remainder(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  return jitted("remainder", "", {x.array, y.array}, [](auto in) {
    auto [a, b] = promote_args_numeric("remainder", in[0], in[1]);
    Array zero = zero_like(a);
    if (is_integer(b.dtype())) b = without_zeros(b);
    Array mod = lax::rem(a, b);
    Array nonzero = lax::ne(mod, zero);
    Array negative_mod = lax::lt(mod, zero);
    Array fix = lax::bitwise_and(lax::ne(negative_mod, lax::lt(b, zero)), nonzero);
    return lax::select(fix, lax::add(mod, b), mod);
  });
}
Pair divmod(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  Arrays operands{x.array, y.array};
  Arrays out = jitted_many("divmod", "", operands, [](auto in) {
    auto [a, b] = promote_args_numeric("divmod", in[0], in[1]);
    refuse_complex("divmod", a);
    if (is_integer(a.dtype())) return Arrays{floor_divide(a, b), remainder(a, b)};
    auto [quotient, mod] = float_divmod(a, b);
    return Arrays{quotient, mod};
  });
  return {out[0], out[1]};
}
Array fmod(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  return jitted("fmod", "", {x.array, y.array}, [](auto in) {
    auto [a, b] = promote_args_numeric("fmod", in[0], in[1]);
    if (is_integer(b.dtype())) b = without_zeros(b);
    return lax::rem(a, b);
  });
}

namespace {

// By squaring; exponents of 64 and more would overflow any base but 0, 1 and -1.
Array integer_power(Array base, Array exponent) {
  auto number = [&](std::int64_t v) { return scalar(Scalar(v, exponent.dtype()), exponent.dtype()); };
  Array zero = number(0), one = number(1);
  Array zero_base = lax::eq(base, zero);
  Array out = select_where(lax::bitwise_and(zero_base, lax::ne(exponent, zero)), zero, one);
  for (int bit = 0; bit < 6; ++bit) {
    Array odd = lax::bitwise_and(exponent, one);
    out = select_where(odd, lax::mul(out, base), out);
    base = lax::mul(base, base);
    exponent = lax::shift_right_logical(exponent, one);
  }
  return out;
}

}  // namespace

Array power(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  if (y.array.value()->kind() == Value::Kind::scalar && !is_inexact(y.array.dtype()))
    return lax::integer_pow(promote_numeric("power", x.array), y.array.item_scalar().as_int());
  auto [a, b] = promote_shapes("power", x.array, y.array);
  auto [c, d] = promote_args_numeric("power", a, b);
  if (is_integer(c.dtype())) return integer_power(c, d);
  if (is_inexact(a.dtype()) && is_integer(b.dtype())) return lax::pow(a, b);
  return lax::pow(c, d);
}
Array float_power(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  auto [a, b] = promote_args_inexact("float_power", x.array, y.array);
  return lax::pow(a, b);
}

#define BINARY(name, promote, function)             \
  Array name(const Operand& x, const Operand& y) {  \
    LocationScope scope(x.where);                   \
    auto [a, b] = promote(#name, x.array, y.array); \
    return function(a, b);                          \
  }
BINARY(maximum, promote_args, lax::max)
BINARY(minimum, promote_args, lax::min)
BINARY(arctan2, promote_args_inexact, lax::atan2)
BINARY(nextafter, promote_args_inexact, lax::nextafter)
BINARY(bitwise_and, promote_args, lax::bitwise_and)
BINARY(bitwise_or, promote_args, lax::bitwise_or)
BINARY(bitwise_xor, promote_args, lax::bitwise_xor)
BINARY(left_shift, promote_args_numeric, lax::shift_left)
BINARY(equal, promote_args, lax::eq)
BINARY(not_equal, promote_args, lax::ne)
#undef BINARY

Array right_shift(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  auto [a, b] = promote_args_numeric("right_shift", x.array, y.array);
  return is_unsigned_integer(a.dtype()) ? lax::shift_right_logical(a, b) : lax::shift_right_arithmetic(a, b);
}
Array logical_and(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  auto [a, b] = promote_args("logical_and", x.array, y.array);
  Array p = to_bool(a), q = to_bool(b);
  return lax::bitwise_and(p, q);
}
Array logical_or(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  auto [a, b] = promote_args("logical_or", x.array, y.array);
  Array p = to_bool(a), q = to_bool(b);
  return lax::bitwise_or(p, q);
}
Array logical_xor(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  auto [a, b] = promote_args("logical_xor", x.array, y.array);
  Array p = to_bool(a), q = to_bool(b);
  return lax::bitwise_xor(p, q);
}

namespace {

Array compare(const char* name, Array (*fn)(const Operand&, const Operand&), const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  auto [a, b] = promote_args(name, x.array, y.array);
  if (!is_complex(a.dtype())) return fn(a, b);
  Array ar = lax::real(a), br = lax::real(b), same = lax::eq(ar, br);
  Array by_imag = fn(lax::imag(a), lax::imag(b));
  return lax::select(same, by_imag, fn(ar, br));
}

}  // namespace

Array less(const Operand& x, const Operand& y) { return compare("less", lax::lt, x, y); }
Array less_equal(const Operand& x, const Operand& y) { return compare("less_equal", lax::le, x, y); }
Array greater(const Operand& x, const Operand& y) { return compare("greater", lax::gt, x, y); }
Array greater_equal(const Operand& x, const Operand& y) { return compare("greater_equal", lax::ge, x, y); }

Array fmax(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  return jitted("fmax", "", {x.array, y.array}, [](auto in) {
    Array pick = greater(in[0], in[1]);
    return select_where(bitwise_or(pick, isnan(in[1])), in[0], in[1]);
  });
}
Array fmin(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  return jitted("fmin", "", {x.array, y.array}, [](auto in) {
    Array pick = less(in[0], in[1]);
    return select_where(bitwise_or(pick, isnan(in[1])), in[0], in[1]);
  });
}
Array hypot(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  return jitted("hypot", "", {x.array, y.array}, [](auto in) {
    auto [p, q] = promote_args_inexact("hypot", in[0], in[1]);
    refuse_complex("hypot", p);
    Array a = lax::abs(p), b = lax::abs(q);
    Array infinite_a = isposinf(a), infinite = lax::bitwise_or(infinite_a, isposinf(b));
    Array large = lax::max(a, b), small = lax::min(a, b);
    Array at_zero = lax::eq(large, zero_like(large));
    Array ratio = lax::div(small, select_where(at_zero, lax::full_like(large, 1), large));
    Array length = lax::mul(large, lax::sqrt(lax::add(one_like(ratio), lax::square(ratio))));
    Array out = select_where(at_zero, large, length);
    return select_where(infinite, scalar_like(out, inf), out);
  });
}
Array copysign(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  return jitted("copysign", "", {x.array, y.array}, [](auto in) {
    auto [a, b] = promote_args_inexact("copysign", in[0], in[1]);
    refuse_complex("copysign", a);
    Array negative_b = signbit(b), minus = lax::neg(lax::abs(a));
    return select_where(negative_b, minus, lax::abs(a));
  });
}
Array heaviside(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  return jitted("heaviside", "", {x.array, y.array}, [](auto in) {
    auto [a, b] = promote_dtypes_inexact("heaviside", in[0], in[1]);
    Array zero = zero_like(a);
    Array below = lax::lt(a, zero), above = lax::gt(a, zero);
    Array otherwise = select_where(lax::ne(a, a), a, b);
    return select_where(below, zero, select_where(above, one_like(a), otherwise));
  });
}
Array ldexp(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  return jitted("ldexp", "", {x.array, y.array}, [](auto in) {
    refuse_complex("ldexp", in[0]);
    if (is_inexact(in[1].dtype()))
      throw_error(ErrorCode::dtype, "ldexp", "wants integer exponents, not {}", in[1].aval()->text);
    Array a = promote_inexact("ldexp", in[0]);
    // Splitting off the exponent avoids overflow for small x and large y, and the other way round.
    auto [m, e] = frexp(a);
    Array total = add(convert(e, a.dtype()), convert(in[1], a.dtype()));
    Array positive = lax::gt(total, zero_like(total));
    m = select_where(positive, multiply(m, 2), m);
    total = select_where(positive, subtract(total, 1), total);
    Array out = multiply(m, lax::exp2(total));
    return select_where(lax::bitwise_or(isinf(a), lax::eq(a, zero_like(a))), a, out);
  });
}

namespace {

// Angles brought to [-half, half).
Array wrap_between(const Array& x, double half) {
  Array low = scalar_like(x, half), whole = scalar_like(x, 2 * half), zero = scalar_like(x, 0.0);
  Array rest = lax::rem(lax::add(x, low), whole);
  rest = select_where(lax::lt(rest, zero), lax::add(rest, whole), rest);
  return lax::sub(rest, low);
}
// log(exp(a) + exp(b)) in a base, of which these are exp and, by its natural logarithm, log1p.
struct LogAddExp {
  const char* name;
  Array (*exp)(const Operand&);
  double ln_base;
  Array log1p(const Array& x) const {
    Array natural = lax::log1p(x);
    return ln_base == 1 ? natural : lax::mul(scalar_like(x, 1 / ln_base), natural);
  }
  Array operator()(const Array& a, const Array& b) const {
    Array largest = lax::max(a, b);
    if (is_complex(a.dtype())) {
      Array delta = lax::sub(lax::add(a, b), lax::mul(largest, scalar_like(largest, 2.0)));
      Array out = lax::add(largest, log1p(exp(delta)));
      return lax::complex(lax::real(out), wrap_between(lax::imag(out), pi / ln_base));
    }
    Array delta = lax::sub(a, b), is_nan = lax::ne(delta, delta), sum = lax::add(a, b);
    Array out = lax::add(largest, log1p(exp(lax::neg(lax::abs(delta)))));
    return lax::select(is_nan, sum, out);
  }
  // d out = share of a * da + share of b * db, without NaN from infinities.
  JvpOut jvp(std::span<const Array> primals, std::span<const Array> tangents) const {
    Array out = (*this)(primals[0], primals[1]);
    auto finite = [](const Array& v) {
      Array part = is_complex(v.dtype()) ? lax::real(v) : v;
      return select_where(lax::eq(part, scalar_like(part, inf)), zero_like(v), v);
    };
    auto share = [&](std::size_t i) { return lax::mul(tangents[i], exp(lax::sub(finite(primals[i]), finite(out)))); };
    Array first = share(0);
    return {{out}, {lax::add(first, share(1))}};
  }
};

Array log_add(const LogAddExp& fn, const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  auto [a, b] = promote_args_inexact(fn.name, x.array, y.array);
  if (!is_staging() && !a.is_tracer() && !b.is_tracer())
    return jitted(fn.name, "", {a, b}, [&](auto in) { return fn(in[0], in[1]); });
  auto rule = std::make_shared<FlatJvpRule>([fn](auto primals, auto tangents) { return fn.jvp(primals, tangents); });
  Arrays operands{a, b};
  return bind_custom_jvp([fn](auto in) { return Arrays{fn(in[0], in[1])}; }, rule, operands, fn.name)[0];
}

}  // namespace

Array logaddexp(const Operand& x, const Operand& y) { return log_add({"logaddexp", lax::exp, 1.0}, x, y); }
Array logaddexp2(const Operand& x, const Operand& y) { return log_add({"logaddexp2", lax::exp2, std::log(2.0)}, x, y); }

Array clip(const Operand& x, const MaybeArray& low, const MaybeArray& high) {
  LocationScope scope(x.where);
  Arrays operands{x.array};
  for (auto* limit : {&low, &high})
    if (limit->given()) operands.push_back(limit->array);
  bool has_low = low.given(), has_high = high.given();
  return jitted_many("clip", fmt::format("{}{}", has_low, has_high), operands, [&](auto in) {
    for (const Array& a : in) refuse_complex("clip", a);
    Array out = in[0];
    if (has_low) out = maximum(in[1], out);
    if (has_high) out = minimum(in[in.size() - 1], out);
    return Arrays{out};
  })[0];
}

Array isclose(const Operand& x, const Operand& y, const CloseOptions& o) {
  LocationScope scope(x.where);
  return jitted("isclose", o.equal_nan ? "nan" : "", {x.array, y.array, o.rtol, o.atol}, [&](auto in) {
    auto [a, b] = promote_args_inexact("isclose", in[0], in[1]);
    DType real = real_type(a.dtype());
    Array rtol = convert(in[2], real), atol = convert(in[3], real);
    Array a_nan = isnan(a), both_nan = lax::bitwise_and(a_nan, isnan(b)), finite = isfinite(b);
    Array distance = lax::abs(lax::sub(a, b)), limit = lax::add(atol, lax::mul(rtol, lax::abs(b)));
    Array close = lax::le(distance, limit), same = lax::eq(a, b);
    Array out = lax::bitwise_or(same, lax::bitwise_and(finite, close));
    return o.equal_nan ? lax::bitwise_or(out, both_nan) : out;
  });
}
Array allclose(const Operand& x, const Operand& y, const CloseOptions& o) {
  LocationScope scope(x.where);
  return jitted("allclose", o.equal_nan ? "nan" : "", {x.array, y.array, o.rtol, o.atol}, [&](auto in) {
    return all(isclose(in[0], in[1], {.rtol = in[2], .atol = in[3], .equal_nan = o.equal_nan}));
  });
}
Array array_equal(const Operand& x, const Operand& y, bool equal_nan) {
  LocationScope scope(x.where);
  const Array &a = x.array, &b = y.array;
  if (a.shape() != b.shape()) return scalar(Scalar(false), DType::bool_);
  Array same = equal(a, b);
  if (equal_nan) same = logical_or(same, logical_and(isnan(a), isnan(b)));
  return all(same);
}
Array array_equiv(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  try {
    broadcast_shapes("array_equiv", {x.array.shape(), y.array.shape()});
  } catch (const Error&) {
    return scalar(Scalar(false), DType::bool_);
  }
  return all(equal(x, y));
}

}  // namespace lockstep::numpy

namespace lockstep {

namespace np = numpy;
Array operator+(const Operand& a, const Operand& b) { return np::add(a, b); }
Array operator-(const Operand& a, const Operand& b) { return np::subtract(a, b); }
Array operator*(const Operand& a, const Operand& b) { return np::multiply(a, b); }
Array operator/(const Operand& a, const Operand& b) { return np::true_divide(a, b); }
Array operator%(const Operand& a, const Operand& b) { return np::remainder(a, b); }
Array operator-(const Operand& a) { return np::negative(a); }
Array operator+(const Operand& a) { return np::positive(a); }
Array operator~(const Operand& a) { return np::bitwise_not(a); }
Array operator&(const Operand& a, const Operand& b) { return np::bitwise_and(a, b); }
Array operator|(const Operand& a, const Operand& b) { return np::bitwise_or(a, b); }
Array operator^(const Operand& a, const Operand& b) { return np::bitwise_xor(a, b); }
Array operator<<(const Operand& a, const Operand& b) { return np::left_shift(a, b); }
Array operator>>(const Operand& a, const Operand& b) { return np::right_shift(a, b); }
Array operator==(const Operand& a, const Operand& b) { return np::equal(a, b); }
Array operator!=(const Operand& a, const Operand& b) { return np::not_equal(a, b); }
Array operator<(const Operand& a, const Operand& b) { return np::less(a, b); }
Array operator<=(const Operand& a, const Operand& b) { return np::less_equal(a, b); }
Array operator>(const Operand& a, const Operand& b) { return np::greater(a, b); }
Array operator>=(const Operand& a, const Operand& b) { return np::greater_equal(a, b); }
Array operator!(const Array& a) { return np::logical_not(a); }
Array& Array::operator+=(const Operand& o) { return *this = np::add({*this, o.where}, o); }
Array& Array::operator-=(const Operand& o) { return *this = np::subtract({*this, o.where}, o); }
Array& Array::operator*=(const Operand& o) { return *this = np::multiply({*this, o.where}, o); }
Array& Array::operator/=(const Operand& o) { return *this = np::true_divide({*this, o.where}, o); }

}  // namespace lockstep
