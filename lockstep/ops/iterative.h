// For lowerings of functions that are computed by iteration: expressions over arrays, and loops in the text.
#pragma once

#include <string>
#include <vector>

#include "lockstep/lower/context.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/special.h"
#include "lockstep/trace/trace.h"

namespace lockstep::iterative {

// An array in an arithmetic expression; numbers take the array's dtype.
struct Expr {
  Array a;
};
using In = const Expr&;
Expr number(In like, double v);  // of rank 0
Expr fill(In like, double v);    // of the same shape
inline Expr operator+(In x, In y) { return {lax::add(x.a, y.a)}; }
inline Expr operator-(In x, In y) { return {lax::sub(x.a, y.a)}; }
inline Expr operator*(In x, In y) { return {lax::mul(x.a, y.a)}; }
inline Expr operator/(In x, In y) { return {lax::div(x.a, y.a)}; }
inline Expr operator-(In x) { return {lax::neg(x.a)}; }
inline Expr operator+(In x, double y) { return x + number(x, y); }
inline Expr operator-(In x, double y) { return x - number(x, y); }
inline Expr operator*(In x, double y) { return x * number(x, y); }
inline Expr operator+(double x, In y) { return number(y, x) + y; }
inline Expr operator-(double x, In y) { return number(y, x) - y; }
inline Expr operator*(double x, In y) { return number(y, x) * y; }
inline Expr operator/(double x, In y) { return number(y, x) / y; }
inline Expr operator==(In x, In y) { return {lax::eq(x.a, y.a)}; }
inline Expr operator!=(In x, In y) { return {lax::ne(x.a, y.a)}; }
inline Expr operator<(In x, In y) { return {lax::lt(x.a, y.a)}; }
inline Expr operator>(In x, In y) { return {lax::gt(x.a, y.a)}; }
inline Expr operator<=(In x, In y) { return {lax::le(x.a, y.a)}; }
inline Expr operator>=(In x, In y) { return {lax::ge(x.a, y.a)}; }
inline Expr operator==(In x, double y) { return x == number(x, y); }
inline Expr operator!=(In x, double y) { return x != number(x, y); }
inline Expr operator<(In x, double y) { return x < number(x, y); }
inline Expr operator>(In x, double y) { return x > number(x, y); }
inline Expr operator<=(In x, double y) { return x <= number(x, y); }
inline Expr operator>=(In x, double y) { return x >= number(x, y); }
inline Expr operator|(In x, In y) { return {lax::bitwise_or(x.a, y.a)}; }
inline Expr operator&(In x, In y) { return {lax::bitwise_and(x.a, y.a)}; }
inline Expr operator!(In x) { return {lax::bitwise_not(x.a)}; }
inline Expr log_of(In x) { return {lax::log(x.a)}; }
inline Expr log1p_of(In x) { return {lax::log1p(x.a)}; }
inline Expr exp_of(In x) { return {lax::exp(x.a)}; }
inline Expr abs_of(In x) { return {lax::abs(x.a)}; }
inline Expr lgamma_of(In x) { return {lax::lgamma(x.a)}; }
inline Expr digamma_of(In x) { return {lax::digamma(x.a)}; }
Expr where(In condition, In yes, In no);
Expr any(In condition);  // of rank 0

// Properties of a float type: the distance from 1 to the next number, the smallest normal and the largest number.
double epsilon(DType t);
double smallest(DType t);
double largest(DType t);

// Values in the function that is being written.
struct Named {
  std::string name;
  AvalP aval;
};
using NamedList = std::vector<Named>;
using Exprs = std::vector<Expr>;
using Function = std::function<Exprs(const Exprs&)>;

// A function applied in place.
NamedList emit(LowerContext& ctx, const Function& f, const NamedList& in);
// While condition(state), which has rank 0: state = body(state).
NamedList emit_while(LowerContext& ctx, const Function& condition, const Function& body, const NamedList& init);

// A lowering rule's work for an elementwise function of floats: operands of one shape, half types computed in float32.
// `f` gives the result.
void lower_float_function(LowerContext& ctx, std::span<const AvalP> in_avals, AvalP out_aval,
                          std::span<const std::string> in, std::vector<std::string>& out,
                          const std::function<Named(LowerContext&, const NamedList&)>& f);

}  // namespace lockstep::iterative
