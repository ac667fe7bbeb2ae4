// Both functions are computed from a power series where x <= 1 or x <= a, else from a continued fraction, as in Cephes;
// with them goes the derivative by a, term by term. An element that has converged stays as it is.
#include <cmath>

#include "lockstep/ops/builders.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/incomplete.h"
#include "lockstep/ops/iterative.h"
#include "lockstep/ops/special.h"

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

enum class Mode { value, derivative, sample_derivative };

Expr is_nan(const Expr& x) { return x != x; }

// The old state where `enabled` (state[0]) is not set. The loop's own counter, if any, is not in the states.
Exprs keep_converged(const Expr& enabled, Exprs now, const Exprs& before) {
  for (std::size_t i = 0; i < now.size(); ++i) now[i] = where(enabled, now[i], before[i]);
  return now;
}

// ax = x^a exp(-x) / gamma(a). Inputs: ax, x, a, enabled.
Named series(LowerContext& ctx, Mode mode, const NamedList& in) {
  // State: enabled, r, c, sum, x, dc/da, dsum/da.
  auto init = emit(
      ctx,
      [](const Exprs& v) {
        const Expr &x = v[1], &a = v[2];
        return Exprs{v[3], a, fill(a, 1), fill(a, 1), x, fill(a, 0), fill(a, 0)};
      },
      in);
  auto body = [mode](const Exprs& s) {
    const Expr &enabled = s[0], &x = s[4];
    Expr r = s[1] + 1;
    Expr slope = s[5] * (x / r) - s[2] * x / (r * r), slope_sum = s[6] + slope;
    Expr c = s[2] * (x / r), sum = s[3] + c;
    Expr change = mode == Mode::value ? c / sum : abs_of(slope / slope_sum);
    Exprs now = keep_converged(enabled, {r, c, sum, x, slope, slope_sum}, Exprs(s.begin() + 1, s.end()));
    now.insert(now.begin(), enabled & (change > iterative::epsilon(x.a.dtype())));
    return now;
  };
  NamedList end = emit_while(
      ctx, [](const Exprs& s) { return Exprs{any(s[0])}; }, body, init);
  return emit(ctx,
              [mode](const Exprs& v) {
                const Expr &ax = v[0], &x = v[1], &a = v[2], &sum = v[3], &slope = v[4];
                if (mode == Mode::value) return Exprs{sum * ax / a};
                Expr rate = log_of(x) - digamma_of(a + 1);
                if (mode == Mode::derivative) return Exprs{ax * (sum * rate + slope) / a};
                return Exprs{-(slope + sum * rate) * x / a};
              },
              {in[0], in[1], in[2], end[3], end[6]})[0];
}

// Inputs: ax, x, a, enabled.
Named fraction(LowerContext& ctx, Mode mode, const NamedList& in) {
  // State: enabled, c, then what stays once converged: ans, y, z, pk1, qk1, pk2, qk2, and the derivatives by a of pk2,
  // qk2, pk1, qk1, ans.
  auto init = emit(
      ctx,
      [](const Exprs& v) {
        const Expr &x = v[1], &a = v[2];
        Expr y = 1 - a, z = x + y + 1, pk2 = fill(x, 1), qk2 = x, pk1 = x + 1, qk1 = z * x, zero = fill(x, 0);
        Expr ans = pk1 / qk1, slope = (zero - ans * -x) / qk1;
        return Exprs{v[3], iterative::number(x, 0), ans, y, z, pk1, qk1, pk2, qk2, zero, zero, zero, -x, slope};
      },
      in);
  auto body = [mode](const Exprs& s) {
    double epsilon = iterative::epsilon(s[2].a.dtype());
    const Expr &enabled = s[0], &ans = s[2], &pk1 = s[5], &qk1 = s[6], &pk2 = s[7], &qk2 = s[8], &dpk2 = s[9],
               &dqk2 = s[10], &dpk1 = s[11], &dqk1 = s[12], &slope = s[13];
    Expr c = s[1] + 1, y = s[3] + 1, z = s[4] + 2, yc = y * c;
    Expr pk = pk1 * z - pk2 * yc, qk = qk1 * z - qk2 * yc;
    Expr nonzero = qk != 0, ratio = pk / qk;
    Expr change = where(nonzero, abs_of((ans - ratio) / ratio), fill(ans, 1));
    Expr new_ans = where(nonzero, ratio, ans);
    Expr dpk = dpk1 * z - pk1 - dpk2 * yc + pk2 * c, dqk = dqk1 * z - qk1 - dqk2 * yc + qk2 * c;
    Expr new_slope = where(nonzero, (dpk - new_ans * dqk) / qk, slope);
    if (mode != Mode::value) change = where(nonzero, abs_of(new_slope - slope), fill(slope, 1));
    Expr rescale = abs_of(pk) > 1 / epsilon;
    auto scaled = [&](const Expr& v) { return where(rescale, v * epsilon, v); };
    Exprs now = keep_converged(enabled,
                               {new_ans, y, z, scaled(pk), scaled(qk), scaled(pk1), scaled(qk1), scaled(dpk1),
                                scaled(dqk1), scaled(dpk), scaled(dqk), new_slope},
                               Exprs(s.begin() + 2, s.end()));
    now.insert(now.begin(), {enabled & (change > epsilon), c});
    return now;
  };
  NamedList end = emit_while(
      ctx, [](const Exprs& s) { return Exprs{(s[1] < 2000) & any(s[0])}; }, body, init);
  return emit(ctx,
              [mode](const Exprs& v) {
                const Expr &ax = v[0], &x = v[1], &a = v[2], &ans = v[3], &slope = v[4];
                if (mode == Mode::value) return Exprs{ans * ax};
                Expr rate = log_of(x) - digamma_of(a);
                if (mode == Mode::derivative) return Exprs{ax * (ans * rate + slope)};
                return Exprs{-((slope + ans * rate) * x)};
              },
              {in[0], in[1], in[2], end[2], end[13]})[0];
}

// What is true of each element of (a, x).
struct Cases {
  Expr domain_error, x_is_zero, x_is_infinite, a_is_zero, use_fraction, enabled;
};
Cases cases_of(const Expr& a, const Expr& x, const Expr& log_ax, bool upper, Mode mode) {
  Cases c;
  Expr nan = is_nan(a) | is_nan(x);
  c.x_is_zero = x == 0;
  c.a_is_zero = a == 0;
  c.x_is_infinite = x == HUGE_VAL;
  Expr underflow = log_ax < -std::log(iterative::largest(x.a.dtype()));
  if (mode != Mode::value) {
    c.domain_error = (x < 0) | (a <= 0) | nan;
    c.use_fraction = (x > 1) & (x > a);
    c.enabled = !(c.x_is_zero | c.domain_error | underflow);
  } else {
    c.domain_error = (x < 0) | (a < 0) | (c.a_is_zero & c.x_is_zero) | nan;
    c.use_fraction = upper ? !((x < 1) | (x < a)) : (x >= 1) & (x > a);
    c.enabled = !((upper ? c.a_is_zero : c.x_is_zero) | c.domain_error | underflow | c.x_is_infinite);
  }
  return c;
}

template <bool kUpper, Mode kMode>
void lower_gamma(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                 std::span<const std::string> in, std::vector<std::string>& out) {
  lower_float_function(ctx, in_avals, out_avals[0], in, out, [](LowerContext& ctx, const NamedList& operands) {
    auto log_ax = [](const Expr& a, const Expr& x) { return a * log_of(x) - x - lgamma_of(a); };
    NamedList start = emit(
        ctx,
        [&](const Exprs& v) {
          const Expr &a = v[0], &x = v[1];
          Expr exponent = log_ax(a, x);
          Cases c = cases_of(a, x, exponent, kUpper, kMode);
          return Exprs{exp_of(exponent), c.enabled & !c.use_fraction, c.enabled & c.use_fraction};
        },
        operands);
    Named from_series = series(ctx, kMode, {start[0], operands[1], operands[0], start[1]});
    Named from_fraction = fraction(ctx, kMode, {start[0], operands[1], operands[0], start[2]});
    return emit(ctx,
                [&](const Exprs& v) {
                  const Expr &a = v[0], &x = v[1], &lower = v[2], &upper = v[3];
                  Cases c = cases_of(a, x, log_ax(a, x), kUpper, kMode);
                  Expr result;
                  if (kMode != Mode::value)
                    result = where(c.x_is_zero, fill(a, 0), where(c.use_fraction, -upper, lower));
                  else if (kUpper)
                    result = where(c.x_is_infinite | c.a_is_zero, fill(a, 0), where(c.use_fraction, upper, 1 - lower));
                  else
                    result = where(c.x_is_infinite, fill(a, 1),
                                   where(c.x_is_zero, fill(a, 0), where(c.use_fraction, 1 - upper, lower)));
                  return Exprs{where(c.domain_error, fill(a, NAN), result)};
                },
                {operands[0], operands[1], from_series, from_fraction})[0];
  });
}

Array density(In g, In a, In x) {
  Array down = lax::neg(x), less = lax::sub(a, full(a.aval(), Scalar(std::int64_t{1}, DType::int32)));
  Array exponent = lax::add(down, lax::mul(less, lax::log(x)));
  return lax::mul(g, lax::exp(lax::sub(exponent, lax::lgamma(a))));
}
std::vector<Example> gamma_examples() {  // few: the loops are slow to compile
  auto all = examples::elementwise(kFloat, 2, {examples::Range{0.4, 4}, examples::Range{0.2, 6, 1}});
  return examples::only("f32[2,3], f32[]", std::move(all));
}
std::vector<Example> gamma_examples_without_derivatives() { return examples::not_differentiable(gamma_examples()); }

}  // namespace

Array lax::igamma(const Operand& a, const Operand& x) { return apply(igamma_p, a, x); }
LOCKSTEP_PRIMITIVE(
    igamma_p, {.name = "igamma",
               .abstract_eval = rules::nary_aval<igamma_p, kFloat>,
               .jvp = rules::jvp<igamma_p, [](In g, In, In a, In x) { return lax::mul(g, lax::igamma_grad_a(a, x)); },
                                 [](In g, In, In a, In x) { return density(g, a, x); }>,
               .batch = rules::batch_nary<igamma_p>,
               .lower = lower_gamma<false, Mode::value>,
               .examples = gamma_examples});

Array lax::igammac(const Operand& a, const Operand& x) { return apply(igammac_p, a, x); }
LOCKSTEP_PRIMITIVE(
    igammac_p,
    {.name = "igammac",
     .abstract_eval = rules::nary_aval<igammac_p, kFloat>,
     .jvp = rules::jvp<igammac_p, [](In g, In, In a, In x) { return lax::neg(lax::mul(g, lax::igamma_grad_a(a, x))); },
                       [](In g, In, In a, In x) { return lax::neg(density(g, a, x)); }>,
     .batch = rules::batch_nary<igammac_p>,
     .lower = lower_gamma<true, Mode::value>,
     .examples = gamma_examples});

Array lax::igamma_grad_a(const Operand& a, const Operand& x) { return apply(igamma_grad_a_p, a, x); }
LOCKSTEP_PRIMITIVE(igamma_grad_a_p, {.name = "igamma_grad_a",
                                     .abstract_eval = rules::nary_aval<igamma_grad_a_p, kFloat>,
                                     .batch = rules::batch_nary<igamma_grad_a_p>,
                                     .lower = lower_gamma<false, Mode::derivative>,
                                     .examples = gamma_examples_without_derivatives});

Array lax::random_gamma_grad(const Operand& a, const Operand& x) { return apply(random_gamma_grad_p, a, x); }
LOCKSTEP_PRIMITIVE(random_gamma_grad_p, {.name = "random_gamma_grad",
                                         .abstract_eval = rules::nary_aval<random_gamma_grad_p, kFloat>,
                                         .batch = rules::batch_nary<random_gamma_grad_p>,
                                         .lower = lower_gamma<false, Mode::sample_derivative>,
                                         .examples = gamma_examples_without_derivatives});

}  // namespace lockstep
