// Trigonometric and hyperbolic functions, and their inverses.
#include "lockstep/ops/builders.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/select.h"

namespace lockstep {

using examples::elementwise_of;
using examples::Range;

namespace {

Array one(In like) { return scalar_like(like, 1); }
Array one_minus_square(In x) { return lax::sub(one(x), lax::square(x)); }
Array squared_length(In x, In y) {
  Array first = lax::square(x);
  return lax::add(first, lax::square(y));
}

// sin and cos of a + bi from those of a and expm1 of b, which keeps small b exact; a part that is exactly zero stays so
// even where the other overflows.
struct ComplexParts {
  Array a, sin_a, cos_a, sinh_b, cosh_b;
};
ComplexParts parts_of(In x) {
  Array a = lax::real(x), b = lax::imag(x), two = scalar_like(a, 2);
  Array up = lax::expm1(b), down = lax::expm1(lax::neg(b));
  return {a, lax::sin(a), lax::cos(a), lax::div(lax::sub(up, down), two),
          lax::div(lax::add(lax::add(up, down), two), two)};
}
Array sin_of_complex(In x) {
  ComplexParts p = parts_of(x);
  Array re = lax::mul(p.sin_a, p.cosh_b), im = lax::mul(p.cos_a, p.sinh_b), zero = scalar_like(p.a, 0);
  return lax::select(lax::eq(p.a, zero), lax::complex(zero, im), lax::complex(re, im));
}
Array cos_of_complex(In x) {
  ComplexParts p = parts_of(x);
  Array re = lax::mul(p.cos_a, p.cosh_b), im = lax::mul(lax::neg(p.sin_a), p.sinh_b), zero = scalar_like(p.a, 0);
  return lax::select(lax::eq(p.a, zero), lax::complex(re, zero), lax::complex(re, im));
}
template <Text kOp, auto kOfComplex>
void lower_sine(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  if (is_complex(in_avals[0]->dtype))
    rules::lower_as<1, kOfComplex>(ctx, params, in_avals, out_avals, in, out);
  else
    rules::lower_nary<kOp>(ctx, params, in_avals, out_avals, in, out);
}

}  // namespace

Array lax::sin(const Operand& x) { return apply(sin_p, x); }
LOCKSTEP_PRIMITIVE(sin_p, {.name = "sin",
                           .abstract_eval = rules::nary_aval<sin_p, kInexact>,
                           .jvp = rules::jvp<sin_p, [](In g, In, In x) { return lax::mul(g, lax::cos(x)); }>,
                           .batch = rules::batch_nary<sin_p>,
                           .lower = lower_sine<"stablehlo.sine", sin_of_complex>,
                           .examples = elementwise_of<kInexact, 1>});

Array lax::cos(const Operand& x) { return apply(cos_p, x); }
LOCKSTEP_PRIMITIVE(cos_p, {.name = "cos",
                           .abstract_eval = rules::nary_aval<cos_p, kInexact>,
                           .jvp = rules::jvp<cos_p, [](In g, In, In x) { return lax::neg(lax::mul(g, lax::sin(x))); }>,
                           .batch = rules::batch_nary<cos_p>,
                           .lower = lower_sine<"stablehlo.cosine", cos_of_complex>,
                           .examples = elementwise_of<kInexact, 1>});

Array lax::tan(const Operand& x) { return apply(tan_p, x); }
LOCKSTEP_PRIMITIVE(
    tan_p,
    {.name = "tan",
     .abstract_eval = rules::nary_aval<tan_p, kInexact>,
     .jvp = rules::jvp<tan_p, [](In g, In ans, In) { return lax::mul(g, lax::add(one(ans), lax::square(ans))); }>,
     .batch = rules::batch_nary<tan_p>,
     .lower = rules::lower_nary<"stablehlo.tan">,
     .examples = elementwise_of<kInexact, 1, Range{-1.2, 1.2}>});

Array lax::asin(const Operand& x) { return apply(asin_p, x); }
LOCKSTEP_PRIMITIVE(
    asin_p, {.name = "asin",
             .abstract_eval = rules::nary_aval<asin_p, kInexact>,
             .jvp = rules::jvp<asin_p, [](In g, In, In x) { return lax::mul(g, lax::rsqrt(one_minus_square(x))); }>,
             .batch = rules::batch_nary<asin_p>,
             .lower = rules::lower_nary<"chlo.asin">,
             .examples = elementwise_of<kInexact, 1, Range{-0.8, 0.8}>});

Array lax::acos(const Operand& x) { return apply(acos_p, x); }
LOCKSTEP_PRIMITIVE(
    acos_p,
    {.name = "acos",
     .abstract_eval = rules::nary_aval<acos_p, kInexact>,
     .jvp = rules::jvp<acos_p, [](In g, In, In x) { return lax::mul(g, lax::neg(lax::rsqrt(one_minus_square(x)))); }>,
     .batch = rules::batch_nary<acos_p>,
     .lower = rules::lower_nary<"chlo.acos">,
     .examples = elementwise_of<kInexact, 1, Range{-0.8, 0.8}>});

Array lax::atan(const Operand& x) { return apply(atan_p, x); }
LOCKSTEP_PRIMITIVE(
    atan_p, {.name = "atan",
             .abstract_eval = rules::nary_aval<atan_p, kInexact>,
             .jvp = rules::jvp<atan_p, [](In g, In, In x) { return lax::div(g, lax::add(one(x), lax::square(x))); }>,
             .batch = rules::batch_nary<atan_p>,
             .lower = rules::lower_nary<"chlo.atan">,
             .examples = elementwise_of<kInexact, 1, Range{-0.9, 0.9}>});

Array lax::sinh(const Operand& x) { return apply(sinh_p, x); }
LOCKSTEP_PRIMITIVE(sinh_p, {.name = "sinh",
                            .abstract_eval = rules::nary_aval<sinh_p, kInexact>,
                            .jvp = rules::jvp<sinh_p, [](In g, In, In x) { return lax::mul(g, lax::cosh(x)); }>,
                            .batch = rules::batch_nary<sinh_p>,
                            .lower = rules::lower_nary<"chlo.sinh">,
                            .examples = elementwise_of<kInexact, 1>});

Array lax::cosh(const Operand& x) { return apply(cosh_p, x); }
LOCKSTEP_PRIMITIVE(cosh_p, {.name = "cosh",
                            .abstract_eval = rules::nary_aval<cosh_p, kInexact>,
                            .jvp = rules::jvp<cosh_p, [](In g, In, In x) { return lax::mul(g, lax::sinh(x)); }>,
                            .batch = rules::batch_nary<cosh_p>,
                            .lower = rules::lower_nary<"chlo.cosh">,
                            .examples = elementwise_of<kInexact, 1>});

Array lax::tanh(const Operand& x) { return apply(tanh_p, x); }
LOCKSTEP_PRIMITIVE(tanh_p, {.name = "tanh",
                            .abstract_eval = rules::nary_aval<tanh_p, kInexact>,
                            .jvp = rules::jvp<tanh_p,
                                              [](In g, In ans, In) {
                                                Array sum = lax::add(g, lax::mul(g, ans));
                                                return lax::mul(sum, lax::sub(one(ans), ans));
                                              }>,
                            .batch = rules::batch_nary<tanh_p>,
                            .lower = rules::lower_nary<"stablehlo.tanh">,
                            .examples = elementwise_of<kInexact, 1, Range{-1.2, 1.2}>});

Array lax::asinh(const Operand& x) { return apply(asinh_p, x); }
LOCKSTEP_PRIMITIVE(
    asinh_p,
    {.name = "asinh",
     .abstract_eval = rules::nary_aval<asinh_p, kInexact>,
     .jvp =
         rules::jvp<asinh_p, [](In g, In, In x) { return lax::mul(g, lax::rsqrt(lax::add(lax::square(x), one(x)))); }>,
     .batch = rules::batch_nary<asinh_p>,
     .lower = rules::lower_nary<"chlo.asinh">,
     .examples = elementwise_of<kInexact, 1, Range{-0.9, 0.9}>});

Array lax::acosh(const Operand& x) { return apply(acosh_p, x); }
LOCKSTEP_PRIMITIVE(
    acosh_p,
    {.name = "acosh",
     .abstract_eval = rules::nary_aval<acosh_p, kInexact>,
     .jvp =
         rules::jvp<acosh_p, [](In g, In, In x) { return lax::mul(g, lax::rsqrt(lax::sub(lax::square(x), one(x)))); }>,
     .batch = rules::batch_nary<acosh_p>,
     .lower = rules::lower_nary<"chlo.acosh">,
     .examples = elementwise_of<kInexact, 1, Range{1.2, 3}>});

Array lax::atanh(const Operand& x) { return apply(atanh_p, x); }
LOCKSTEP_PRIMITIVE(atanh_p, {.name = "atanh",
                             .abstract_eval = rules::nary_aval<atanh_p, kInexact>,
                             .jvp = rules::jvp<atanh_p,
                                               [](In g, In, In x) {
                                                 Array left = lax::reciprocal(lax::add(one(x), x));
                                                 return lax::mul(left, lax::div(g, lax::sub(one(x), x)));
                                               }>,
                             .batch = rules::batch_nary<atanh_p>,
                             .lower = rules::lower_nary<"chlo.atanh">,
                             .examples = elementwise_of<kInexact, 1, Range{-0.8, 0.8}>});

Array lax::atan2(const Operand& x, const Operand& y) { return apply(atan2_p, x, y); }
LOCKSTEP_PRIMITIVE(
    atan2_p,
    {.name = "atan2",
     .abstract_eval = rules::nary_aval<atan2_p, kInexact>,
     .jvp = rules::jvp<atan2_p, [](In g, In, In x, In y) { return lax::mul(g, lax::div(y, squared_length(x, y))); },
                       [](In g, In, In x, In y) {
                         Array left = lax::neg(x);
                         return lax::mul(g, lax::div(left, squared_length(x, y)));
                       }>,
     .batch = rules::batch_nary<atan2_p>,
     .lower = rules::lower_nary<"stablehlo.atan2">,
     .examples = elementwise_of<kFloat, 2, Range{0.2, 1}, Range{0.3, 1, 1}>});

}  // namespace lockstep
