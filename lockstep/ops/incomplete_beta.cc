// Computed from its continued fraction (https://dlmf.nist.gov/8.17.E22), by the algorithm of Lentz, Thompson and
// Barnett, on the side of the symmetry I_x(a, b) = 1 - I_{1-x}(b, a) where it converges fast.
#include <cmath>

#include "lockstep/ops/builders.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/incomplete.h"
#include "lockstep/ops/iterative.h"
#include "lockstep/ops/special.h"
#include "lockstep/support/error.h"

namespace lockstep {
namespace {

using iterative::any;
using iterative::emit;
using iterative::emit_while;
using iterative::Expr;
using iterative::Exprs;
using iterative::fill;
using iterative::lower_float_function;
using iterative::Named;
using iterative::NamedList;
using iterative::where;

// a, b, x on the side that converges, and which side that is (true: as given).
Exprs sides(const Expr& a, const Expr& b, const Expr& x) {
  Expr as_given = x < (a + 1) / (a + b + 2);
  return {where(as_given, a, b), where(as_given, b, a), where(as_given, x, 1 - x), as_given};
}

// Numerator n = 1, 2, ... of the fraction; `n` and m = (n - 1) / 2 rounded down are floats of rank 0.
Expr numerator(const Expr& n, const Expr& m, const Expr& a, const Expr& b, const Expr& x) {
  Expr two_m = m * 2, even_n = n - two_m == 2;
  Expr first_even = -(a + b) * x / (a + 1);
  Expr even = where(m == 0, first_even, -(a + m) * (a + b + m) * x / ((a + two_m) * (a + two_m + 1)));
  Expr odd = m * (b - m) * x / ((a + two_m - 1) * (a + two_m));
  return where(n == 1, fill(x, 1), where(even_n, even, odd));
}

// Inputs: a, b, x on the converging side.
Named continued_fraction(LowerContext& ctx, const NamedList& in) {
  DType t = in[0].aval->dtype;
  double tiny = iterative::epsilon(t) / 2, tolerance = iterative::epsilon(t) / 2,
         limit = t == DType::float64 ? 600 : 200;
  // State: n, unconverged, c, d, h, a, b, x.
  NamedList init = emit(
      ctx,
      [tiny](const Exprs& v) {
        Expr h = fill(v[0], tiny);  // the denominator before the first is 0
        return Exprs{iterative::number(v[0], 1), {Array(true)}, h, fill(h, 0), h, v[0], v[1], v[2]};
      },
      in);
  auto body = [=](const Exprs& s) {
    const Expr &n = s[0], &c = s[2], &d = s[3], &h = s[4], &a = s[5], &b = s[6], &x = s[7];
    Expr m{lax::floor(((n - 1) * 0.5).a)};
    Expr top = numerator(n, m, a, b, x);
    auto away_from_zero = [&](const Expr& v) { return where(abs_of(v) < tiny, fill(v, tiny), v); };
    Expr new_c = away_from_zero(1 + top / c), new_d = 1 / away_from_zero(1 + top * d);
    Expr factor = new_c * new_d;
    return Exprs{n + 1, any(abs_of(factor - 1) >= tolerance), new_c, new_d, h * factor, a, b, x};
  };
  NamedList end = emit_while(
      ctx, [limit](const Exprs& s) { return Exprs{(s[0] < limit) & s[1]}; }, body, init);
  return end[4];
}

Exprs finish(const Exprs& v) {
  const Expr &a = v[0], &b = v[1], &x = v[2], &fraction = v[3];
  auto side = sides(a, b, x);
  const Expr &p = side[0], &q = side[1], &y = side[2], &as_given = side[3];
  // For tiny p, p gamma(p) = gamma(p + 1) is 1.
  double tiny = 2 * iterative::smallest(a.a.dtype());
  Expr rest = lgamma_of(q) - lgamma_of(p + q);
  Expr front = where(p < tiny, exp_of(log1p_of(-y) * q - rest),
                     exp_of(log_of(y) * p + log1p_of(-y) * q - (lgamma_of(p) + rest)) / p);
  Expr result = fraction * front;
  result = where(as_given, result, 1 - result);

  Expr nan = (a != a) | (b != b) | (x != x);
  Expr a_is_zero = (a == 0) | (b == HUGE_VAL), b_is_zero = (b == 0) | (a == HUGE_VAL);
  Expr x_is_zero = x == 0, x_is_one = x == 1;
  Expr is_zero = (b_is_zero & !x_is_one) | (a_is_zero & x_is_zero);
  Expr is_one = (a_is_zero & !x_is_zero) | (b_is_zero & x_is_one);
  Expr undefined = (a < 0) | (b < 0) | (x < 0) | (x > 1) | (a_is_zero & b_is_zero) | nan;
  result = where(is_one, fill(a, 1), where(is_zero, fill(a, 0), result));
  return {where(undefined, fill(a, NAN), result)};
}

void beta_lower(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                std::span<const std::string> in, std::vector<std::string>& out) {
  lower_float_function(ctx, in_avals, out_avals[0], in, out, [](LowerContext& ctx, const NamedList& operands) {
    NamedList side = emit(
        ctx, [](const Exprs& v) { return sides(v[0], v[1], v[2]); }, operands);
    side.pop_back();
    Named fraction = continued_fraction(ctx, side);
    return emit(ctx, finish, {operands[0], operands[1], operands[2], fraction})[0];
  });
}

Array no_derivative(In, In, In, In, In) {
  throw_error(ErrorCode::missing_rule, "betainc", "has no derivatives with respect to a and b");
}
Array density(In g, In, In a, In b, In x) {
  Array one = scalar_like(x, 1);
  Array of_a = lax::lgamma(a), of_both = lax::add(of_a, lax::lgamma(b));
  Array log_beta = lax::sub(of_both, lax::lgamma(lax::add(a, b)));
  Array b1 = lax::sub(b, one), right = lax::mul(b1, lax::log1p(lax::neg(x)));
  Array a1 = lax::sub(a, one), exponent = lax::add(right, lax::mul(a1, lax::log(x)));
  return lax::mul(lax::exp(lax::sub(exponent, log_beta)), g);
}

}  // namespace

Array lax::betainc(const Operand& a, const Operand& b, const Operand& x) {
  LocationScope scope(a.where);
  Array operands[] = {a.array, b.array, x.array};
  adopt_dtypes(operands);
  return bind_one(regularized_incomplete_beta_p, operands);
}
LOCKSTEP_PRIMITIVE(
    regularized_incomplete_beta_p,
    {.name = "regularized_incomplete_beta",
     .abstract_eval = rules::nary_aval<regularized_incomplete_beta_p, kFloat>,
     .jvp = rules::jvp<regularized_incomplete_beta_p, no_derivative, no_derivative, density>,
     .batch = rules::batch_nary<regularized_incomplete_beta_p>,
     .lower = beta_lower,
     .examples = [] {
       using examples::Range;
       auto all = examples::elementwise(kFloat, 3, {Range{0.4, 3}, Range{0.4, 3, 1}, Range{0.05, 0.95, 2}});
       return examples::not_differentiable(examples::only("f32[2,3], f32[2,3], f32[]", std::move(all)));
     }});

}  // namespace lockstep
