// The incomplete gamma and beta functions, elementwise, of floating operands.
#pragma once

#include "lockstep/core/primitive.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive igamma_p, igammac_p, igamma_grad_a_p, random_gamma_grad_p, regularized_incomplete_beta_p;

namespace lax {

// The lower and upper incomplete gamma functions over gamma(a): their sum is 1.
Array igamma(const Operand& a, const Operand& x);
Array igammac(const Operand& a, const Operand& x);
Array igamma_grad_a(const Operand& a, const Operand& x);      // the derivative of igamma by a
Array random_gamma_grad(const Operand& a, const Operand& x);  // of a sample x of Gamma(a, 1) by a
// The incomplete beta function over beta(a, b). It has no derivatives by a and b.
Array betainc(const Operand& a, const Operand& b, const Operand& x);

}  // namespace lax
}  // namespace lockstep
