// Special functions, elementwise, of floating operands.
#pragma once

#include "lockstep/core/primitive.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive erf_p, erfc_p, erf_inv_p, lgamma_p, digamma_p, polygamma_p, zeta_p, bessel_i0e_p, bessel_i1e_p;

namespace lax {

Array erf(const Operand& x);
Array erfc(const Operand& x);                         // 1 - erf(x), exact where that is small
Array erf_inv(const Operand& x);                      // x in (-1, 1)
Array lgamma(const Operand& x);                       // log |gamma(x)|
Array digamma(const Operand& x);                      // its derivative
Array polygamma(const Operand& m, const Operand& x);  // derivative m of digamma; m holds whole numbers
Array zeta(const Operand& x, const Operand& q);       // Hurwitz: sum over n >= 0 of (q + n)^-x
Array bessel_i0e(const Operand& x);                   // exp(-|x|) I0(x)
Array bessel_i1e(const Operand& x);                   // exp(-|x|) I1(x)

}  // namespace lax
}  // namespace lockstep
