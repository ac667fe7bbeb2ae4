// Elementwise functions with NumPy's names, promotion and broadcasting; Array's operators are made of them.
//
// Functions of one array are objects, so that they can be passed on: vmap(np::sin). Those that need floating-point
// numbers take integers too: float32 comes out (float64 for 64-bit integers). Errors name the function: Error(dtype)
// for types it does not take, Error(shape) for shapes that do not broadcast.
#pragma once

#include <utility>

#include "lockstep/core/none.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep::numpy {

inline constexpr double pi = 3.14159265358979323846, e = 2.71828182845904523536;
inline constexpr double inf = __builtin_huge_val(), nan = __builtin_nan("");

// An argument that may be absent (none): a limit of clip, say.
class MaybeArray {
 public:
  MaybeArray(none_t) {}
  MaybeArray(const Array& a) : array(a) {}
  template <Number T>
  MaybeArray(T number) : array(number) {}
  bool given() const { return array.has_value(); }

  Array array;
};

// ---- of one array ----

inline constexpr struct Negative { Array operator()(const Operand& x) const; } negative{};  // -x
inline constexpr struct Positive { Array operator()(const Operand& x) const; } positive{};  // x itself
inline constexpr struct Sign { Array operator()(const Operand& x) const; } sign{};
inline constexpr struct Floor { Array operator()(const Operand& x) const; } floor{};
inline constexpr struct Ceil { Array operator()(const Operand& x) const; } ceil{};
inline constexpr struct Trunc { Array operator()(const Operand& x) const; } trunc{};  // towards zero
inline constexpr struct Rint {
  Array operator()(const Operand& x) const;
} rint{};  // to the nearest integer, halves to even
inline constexpr struct Absolute { Array operator()(const Operand& x) const; } absolute{};  // of complex numbers: real
inline constexpr struct Fabs { Array operator()(const Operand& x) const; } fabs{};          // the same, floating
inline constexpr struct Square { Array operator()(const Operand& x) const; } square{};
inline constexpr struct Sqrt { Array operator()(const Operand& x) const; } sqrt{};
inline constexpr struct Cbrt { Array operator()(const Operand& x) const; } cbrt{};
inline constexpr struct Reciprocal { Array operator()(const Operand& x) const; } reciprocal{};
inline constexpr struct Exp { Array operator()(const Operand& x) const; } exp{};
inline constexpr struct Exp2 { Array operator()(const Operand& x) const; } exp2{};
inline constexpr struct Expm1 { Array operator()(const Operand& x) const; } expm1{};  // exp(x) - 1, exact near 0
inline constexpr struct Log { Array operator()(const Operand& x) const; } log{};
inline constexpr struct Log2 { Array operator()(const Operand& x) const; } log2{};
inline constexpr struct Log10 { Array operator()(const Operand& x) const; } log10{};
inline constexpr struct Log1p { Array operator()(const Operand& x) const; } log1p{};  // log(1 + x), exact near 0
inline constexpr struct Sin { Array operator()(const Operand& x) const; } sin{};
inline constexpr struct Cos { Array operator()(const Operand& x) const; } cos{};
inline constexpr struct Tan { Array operator()(const Operand& x) const; } tan{};
inline constexpr struct Arcsin { Array operator()(const Operand& x) const; } arcsin{};
inline constexpr struct Arccos { Array operator()(const Operand& x) const; } arccos{};
inline constexpr struct Arctan { Array operator()(const Operand& x) const; } arctan{};
inline constexpr struct Sinh { Array operator()(const Operand& x) const; } sinh{};
inline constexpr struct Cosh { Array operator()(const Operand& x) const; } cosh{};
inline constexpr struct Tanh { Array operator()(const Operand& x) const; } tanh{};
inline constexpr struct Arcsinh { Array operator()(const Operand& x) const; } arcsinh{};
inline constexpr struct Arccosh { Array operator()(const Operand& x) const; } arccosh{};
inline constexpr struct Arctanh { Array operator()(const Operand& x) const; } arctanh{};
inline constexpr struct Deg2rad { Array operator()(const Operand& x) const; } deg2rad{};
inline constexpr struct Rad2deg { Array operator()(const Operand& x) const; } rad2deg{};
inline constexpr struct Sinc { Array operator()(const Operand& x) const; } sinc{};  // sin(pi x) / (pi x)
inline constexpr struct Conjugate { Array operator()(const Operand& x) const; } conjugate{};
inline constexpr struct Real { Array operator()(const Operand& x) const; } real{};
inline constexpr struct Imag { Array operator()(const Operand& x) const; } imag{};
inline constexpr struct Angle { Array operator()(const Operand& x) const; } angle{};  // of complex numbers, in radians
inline constexpr struct Isnan { Array operator()(const Operand& x) const; } isnan{};
inline constexpr struct Isinf { Array operator()(const Operand& x) const; } isinf{};
inline constexpr struct Isfinite { Array operator()(const Operand& x) const; } isfinite{};
inline constexpr struct Isposinf { Array operator()(const Operand& x) const; } isposinf{};
inline constexpr struct Isneginf { Array operator()(const Operand& x) const; } isneginf{};
inline constexpr struct Signbit {
  Array operator()(const Operand& x) const;
} signbit{};  // the sign bit is set (-0 and negative NaN too)
inline constexpr struct LogicalNot { Array operator()(const Operand& x) const; } logical_not{};
inline constexpr struct BitwiseNot { Array operator()(const Operand& x) const; } bitwise_not{};
inline constexpr struct BitwiseCount {
  Array operator()(const Operand& x) const;
} bitwise_count{};  // bits set in |x|, uint8
inline constexpr struct NanToNum {
  Array operator()(const Operand& x) const;
} nan_to_num{};  // NaN becomes 0, infinities the largest finite numbers
// Other names for them.
inline constexpr Absolute abs{};
inline constexpr BitwiseNot invert{};
inline constexpr BitwiseNot bitwise_invert{};
inline constexpr Conjugate conj{};
inline constexpr Arcsin asin{};
inline constexpr Arccos acos{};
inline constexpr Arctan atan{};
inline constexpr Arcsinh asinh{};
inline constexpr Arccosh acosh{};
inline constexpr Arctanh atanh{};
inline constexpr Rad2deg degrees{};
inline constexpr Deg2rad radians{};
inline constexpr Trunc fix{};

// To this many decimals (negative: tens, hundreds), halves to even. Integers stay as they are.
Array round(const Operand& x, int decimals = 0);
// The fraction and the whole part, both with x's sign.
std::pair<Array, Array> modf(const Operand& x);
// x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1.
std::pair<Array, Array> frexp(const Operand& x);

// ---- of two arrays ----

Array add(const Operand& x, const Operand& y);  // of bools: or
Array subtract(const Operand& x, const Operand& y);
Array multiply(const Operand& x, const Operand& y);      // of bools: and
Array true_divide(const Operand& x, const Operand& y);   // floating
Array floor_divide(const Operand& x, const Operand& y);  // rounded down
Array remainder(const Operand& x, const Operand& y);     // with the sign of y
Array fmod(const Operand& x, const Operand& y);          // with the sign of x
Array power(const Operand& x,
            const Operand& y);  // an exponent that is a C++ integer multiplies; integers to a traced power wrap
Array float_power(const Operand& x, const Operand& y);
Array maximum(const Operand& x, const Operand& y);  // NaN if one is
Array minimum(const Operand& x, const Operand& y);
Array fmax(const Operand& x, const Operand& y);  // the other if one is NaN
Array fmin(const Operand& x, const Operand& y);
Array arctan2(const Operand& x, const Operand& y);
Array hypot(const Operand& x, const Operand& y);      // sqrt(x^2 + y^2)
Array logaddexp(const Operand& x, const Operand& y);  // log(exp(x) + exp(y))
Array logaddexp2(const Operand& x, const Operand& y);
Array copysign(const Operand& x, const Operand& y);  // |x| with the sign of y
Array nextafter(const Operand& x, const Operand& y);
Array heaviside(const Operand& x, const Operand& y);  // 0, y or 1 as x is negative, 0 or positive
Array ldexp(const Operand& x, const Operand& y);      // x * 2^y
inline Array divide(const Operand& x, const Operand& y) { return true_divide(x, y); }
inline Array mod(const Operand& x, const Operand& y) { return remainder(x, y); }
inline Array pow(const Operand& x, const Operand& y) { return power(x, y); }
inline Array atan2(const Operand& x, const Operand& y) { return arctan2(x, y); }
// floor_divide and remainder.
std::pair<Array, Array> divmod(const Operand& x, const Operand& y);
// min(max(x, low), high); either may be none.
Array clip(const Operand& x, const MaybeArray& low = none, const MaybeArray& high = none);

Array bitwise_and(const Operand& x, const Operand& y);
Array bitwise_or(const Operand& x, const Operand& y);
Array bitwise_xor(const Operand& x, const Operand& y);
Array left_shift(const Operand& x, const Operand& y);
Array right_shift(const Operand& x, const Operand& y);  // arithmetic for signed integers
Array logical_and(const Operand& x, const Operand& y);
Array logical_or(const Operand& x, const Operand& y);
Array logical_xor(const Operand& x, const Operand& y);

// Complex numbers are ordered by real, then imaginary part.
Array equal(const Operand& x, const Operand& y);
Array not_equal(const Operand& x, const Operand& y);
Array less(const Operand& x, const Operand& y);
Array less_equal(const Operand& x, const Operand& y);
Array greater(const Operand& x, const Operand& y);
Array greater_equal(const Operand& x, const Operand& y);

struct CloseOptions {
  OptionsTag tag{};
  Array rtol = 1e-5, atol = 1e-8;
  bool equal_nan = false;
};
// |a - b| <= atol + rtol |b|, or equal; allclose: everywhere.
Array isclose(const Operand& a, const Operand& b, const CloseOptions& options = {});
Array allclose(const Operand& a, const Operand& b, const CloseOptions& options = {});
// Of one shape, and equal everywhere.
Array array_equal(const Operand& a, const Operand& b, bool equal_nan = false);
Array array_equiv(const Operand& a, const Operand& b);  // after broadcasting

}  // namespace lockstep::numpy
