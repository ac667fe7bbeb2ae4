// Elementwise arithmetic, with jax.lax's names and rules.
//
// Operands of one function have one dtype (nothing is promoted; host numbers adopt the other operand's dtype) and equal
// shapes, or rank 0, or the same rank with dimensions of size 1. Errors: Error(dtype), Error(shape).
#pragma once

#include <cstdint>

#include "lockstep/core/params.h"
#include "lockstep/core/primitive.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive neg_p, sign_p, floor_p, ceil_p, round_p, is_finite_p, exp_p, exp2_p, log_p, expm1_p, log1p_p,
    tanh_p, logistic_p, sin_p, cos_p, tan_p, asin_p, acos_p, atan_p, sinh_p, cosh_p, asinh_p, acosh_p, atanh_p, real_p,
    imag_p, conj_p, abs_p, sqrt_p, rsqrt_p, cbrt_p, square_p, integer_pow_p, not_p, population_count_p, clz_p;
extern const Primitive add_p, add_any_p, sub_p, mul_p, mulhi_p, div_p, rem_p, max_p, min_p, pow_p, atan2_p, nextafter_p,
    complex_p, and_p, or_p, xor_p, shift_left_p, shift_right_arithmetic_p, shift_right_logical_p;
extern const Primitive eq_p, ne_p, ge_p, gt_p, le_p, lt_p;

struct IntegerPowParams {
  std::int64_t y;
};
struct ConjParams {
  DType input_dtype;
};

namespace lax {

Array neg(const Operand& x);
Array sign(const Operand& x);  // of complex numbers x / |x|, and 0 for 0
Array floor(const Operand& x);
Array ceil(const Operand& x);
enum class RoundingMethod { away_from_zero = 0, to_nearest_even = 1 };  // of numbers halfway between two integers
Array round(const Operand& x, RoundingMethod rounding_method = RoundingMethod::away_from_zero);
Array is_finite(const Operand& x);
Array exp(const Operand& x);
Array exp2(const Operand& x);
Array log(const Operand& x);
Array expm1(const Operand& x);  // exp(x) - 1, exact near 0
Array log1p(const Operand& x);  // log(1 + x), exact near 0
Array tanh(const Operand& x);
Array logistic(const Operand& x);  // 1 / (1 + exp(-x))
Array sin(const Operand& x);
Array cos(const Operand& x);
Array tan(const Operand& x);
Array asin(const Operand& x);
Array acos(const Operand& x);
Array atan(const Operand& x);
Array sinh(const Operand& x);
Array cosh(const Operand& x);
Array asinh(const Operand& x);
Array acosh(const Operand& x);
Array atanh(const Operand& x);
Array real(const Operand& x);
Array imag(const Operand& x);
Array conj(const Operand& x);  // of a real number: the complex number
Array abs(const Operand& x);   // of complex numbers: real
Array sqrt(const Operand& x);
Array rsqrt(const Operand& x);  // 1 / sqrt(x)
Array cbrt(const Operand& x);
Array square(const Operand& x);
Array reciprocal(const Operand& x);
Array integer_pow(const Operand& x, std::int64_t y);  // y >= 0 for integers
Array bitwise_not(const Operand& x);
Array population_count(const Operand& x);
Array clz(const Operand& x);  // leading zero bits

Array add(const Operand& x, const Operand& y);
Array sub(const Operand& x, const Operand& y);
Array mul(const Operand& x, const Operand& y);
Array mulhi(const Operand& x, const Operand& y);  // the upper half of the integers' full product
Array div(const Operand& x, const Operand& y);    // of integers: towards zero
Array rem(const Operand& x, const Operand& y);    // with the sign of x
Array max(const Operand& x, const Operand& y);    // NaN if an operand is; complex numbers by real, then imaginary part
Array min(const Operand& x, const Operand& y);
Array pow(const Operand& x, const Operand& y);  // x inexact; y of its dtype, or of an integer dtype
Array atan2(const Operand& x, const Operand& y);
Array nextafter(const Operand& x, const Operand& y);  // the next number after x in the direction of y
Array complex(const Operand& x, const Operand& y);
Array bitwise_and(const Operand& x, const Operand& y);
Array bitwise_or(const Operand& x, const Operand& y);
Array bitwise_xor(const Operand& x, const Operand& y);
// Shifts by y bits; 0 (or the sign, arithmetically) once y is the width or more.
Array shift_left(const Operand& x, const Operand& y);
Array shift_right_arithmetic(const Operand& x, const Operand& y);
Array shift_right_logical(const Operand& x, const Operand& y);

// Bool results.
Array eq(const Operand& x, const Operand& y);
Array ne(const Operand& x, const Operand& y);
Array ge(const Operand& x, const Operand& y);
Array gt(const Operand& x, const Operand& y);
Array le(const Operand& x, const Operand& y);
Array lt(const Operand& x, const Operand& y);

}  // namespace lax
}  // namespace lockstep
