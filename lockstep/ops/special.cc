#include "lockstep/ops/special.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/ops/builders.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/select.h"
#include "lockstep/support/error.h"

namespace lockstep {

using examples::elementwise_of;
using examples::Range;

// ---- error functions ----

namespace {

// d erf = 2 / sqrt(pi) exp(-x^2) dx
Array gaussian(double factor, In g, In x) {
  return lax::mul(scalar_like(x, factor), lax::mul(g, lax::exp(lax::neg(lax::square(x)))));
}

}  // namespace

Array lax::erf(const Operand& x) { return apply(erf_p, x); }
LOCKSTEP_PRIMITIVE(
    erf_p, {.name = "erf",
            .abstract_eval = rules::nary_aval<erf_p, kFloat>,
            .jvp = rules::jvp<erf_p, [](In g, In, In x) { return gaussian(2 * std::numbers::inv_sqrtpi, g, x); }>,
            .batch = rules::batch_nary<erf_p>,
            .lower = rules::lower_nary<"chlo.erf">,
            .examples = elementwise_of<kFloat, 1>});

Array lax::erfc(const Operand& x) { return apply(erfc_p, x); }
LOCKSTEP_PRIMITIVE(
    erfc_p, {.name = "erfc",
             .abstract_eval = rules::nary_aval<erfc_p, kFloat>,
             .jvp = rules::jvp<erfc_p, [](In g, In, In x) { return gaussian(-2 * std::numbers::inv_sqrtpi, g, x); }>,
             .batch = rules::batch_nary<erfc_p>,
             .lower = rules::lower_nary<"chlo.erfc">,
             .examples = elementwise_of<kFloat, 1>});

Array lax::erf_inv(const Operand& x) { return apply(erf_inv_p, x); }
LOCKSTEP_PRIMITIVE(erf_inv_p, {.name = "erf_inv",
                               .abstract_eval = rules::nary_aval<erf_inv_p, kFloat>,
                               .jvp = rules::jvp<erf_inv_p,
                                                 [](In g, In ans, In x) {
                                                   Array factor = scalar_like(x, 0.5 / std::numbers::inv_sqrtpi);
                                                   return lax::mul(factor, lax::mul(g, lax::exp(lax::square(ans))));
                                                 }>,
                               .batch = rules::batch_nary<erf_inv_p>,
                               .lower = rules::lower_nary<"chlo.erf_inv">,
                               .examples = elementwise_of<kFloat, 1, Range{-0.9, 0.9}>});

// ---- the gamma function and its derivatives ----

Array lax::lgamma(const Operand& x) { return apply(lgamma_p, x); }
LOCKSTEP_PRIMITIVE(lgamma_p, {.name = "lgamma",
                              .abstract_eval = rules::nary_aval<lgamma_p, kFloat>,
                              .jvp = rules::jvp<lgamma_p, [](In g, In, In x) { return lax::mul(g, lax::digamma(x)); }>,
                              .batch = rules::batch_nary<lgamma_p>,
                              .lower = rules::lower_nary<"chlo.lgamma">,
                              .examples = elementwise_of<kFloat, 1, Range{0.3, 4}>});

Array lax::digamma(const Operand& x) { return apply(digamma_p, x); }
LOCKSTEP_PRIMITIVE(
    digamma_p,
    {.name = "digamma",
     .abstract_eval = rules::nary_aval<digamma_p, kFloat>,
     .jvp = rules::jvp<digamma_p, [](In g, In, In x) { return lax::mul(g, lax::polygamma(scalar_like(x, 1), x)); }>,
     .batch = rules::batch_nary<digamma_p>,
     .lower = rules::lower_nary<"chlo.digamma">,
     .examples = elementwise_of<kFloat, 1, Range{0.3, 4}>});

namespace {

std::vector<Example> polygamma_examples() {
  auto example = [](Shape orders, Shape shape, DType t) {
    Example e{.label = std::string(short_name(t)) + to_string(orders) + to_string(shape),
              .in = {examples::array(orders, t, {.low = 1, .high = 4}), examples::array(shape, t, {0.5, 4, 1})}};
    for (Scalar& s : e.in[0].data) s = Scalar(std::floor(s.as_double()), t);
    e.differentiable = false;
    return e;
  };
  return {example({}, {}, DType::float32), example({2, 3}, {2, 3}, DType::float32), example({}, {3}, DType::float32),
          example({0}, {0}, DType::float32)};
}

}  // namespace
Array lax::polygamma(const Operand& m, const Operand& x) { return apply(polygamma_p, m, x); }
LOCKSTEP_PRIMITIVE(polygamma_p, {.name = "polygamma",
                                 .abstract_eval = rules::nary_aval<polygamma_p, kFloat>,
                                 .jvp = rules::jvp<polygamma_p,
                                                   [](In, In, In, In) -> Array {
                                                     throw_error(ErrorCode::missing_rule, "polygamma",
                                                                 "has no derivative with respect to its order");
                                                   },
                                                   [](In g, In, In m, In x) {
                                                     return lax::mul(g,
                                                                     lax::polygamma(lax::add(m, scalar_like(m, 1)), x));
                                                   }>,
                                 .batch = rules::batch_nary<polygamma_p>,
                                 .lower = rules::lower_nary<"chlo.polygamma">,
                                 .examples = polygamma_examples});

Array lax::zeta(const Operand& x, const Operand& q) { return apply(zeta_p, x, q); }
LOCKSTEP_PRIMITIVE(
    zeta_p, {.name = "zeta",
             .abstract_eval = rules::nary_aval<zeta_p, kFloat>,
             .batch = rules::batch_nary<zeta_p>,
             .lower = rules::lower_nary<"chlo.zeta">,
             .examples = [] {
               return examples::not_differentiable(examples::elementwise(kFloat, 2, {Range{1.5, 4}, Range{0.5, 3, 1}}));
             }});

// ---- Bessel functions ----

namespace {

// Clenshaw's sum of a Chebyshev series, highest coefficient first.
Array chebyshev(In x, std::span<const double> coefficients) {
  Array b0 = zeros(x.aval()), b1 = b0, b2 = b0;
  for (double c : coefficients) {
    b2 = b1;
    b1 = b0;
    b0 = lax::add(lax::sub(lax::mul(x, b1), b2), scalar_like(x, c));
  }
  return lax::mul(scalar_like(x, 0.5), lax::sub(b0, b2));
}
// The coefficients are those of Cephes' i0e and i0ef: one series for |x| <= 8, one in 32 / |x| beyond.
constexpr double kNear[] = {
    -4.41534164647933937950E-18, 3.33079451882223809783E-17, -2.43127984654795469359E-16, 1.71539128555513303061E-15,
    -1.16853328779934516808E-14, 7.67618549860493561688E-14, -4.85644678311192946090E-13, 2.95505266312963983461E-12,
    -1.72682629144155570723E-11, 9.67580903537323691224E-11, -5.18979560163526290666E-10, 2.65982372468238665035E-9,
    -1.30002500998624804212E-8,  6.04699502254191894932E-8,  -2.67079385394061173391E-7,  1.11738753912010371815E-6,
    -4.41673835845875056359E-6,  1.64484480707288970893E-5,  -5.75419501008210370398E-5,  1.88502885095841655729E-4,
    -5.76375574538582365885E-4,  1.63947561694133579842E-3,  -4.32430999505057594430E-3,  1.05464603945949983183E-2,
    -2.37374148058994688156E-2,  4.93052842396707084878E-2,  -9.49010970480476444210E-2,  1.71620901522208775349E-1,
    -3.04682672343198398683E-1,  6.76795274409476084995E-1};
constexpr double kFar[] = {
    -7.23318048787475395456E-18, -4.83050448594418207126E-18, 4.46562142029675999901E-17,  3.46122286769746109310E-17,
    -2.82762398051658348494E-16, -3.42548561967721913462E-16, 1.77256013305652638360E-15,  3.81168066935262242075E-15,
    -9.55484669882830764870E-15, -4.15056934728722208663E-14, 1.54008621752140982691E-14,  3.85277838274214270114E-13,
    7.18012445138366623367E-13,  -1.79417853150680611778E-12, -1.32158118404477131188E-11, -3.14991652796324136454E-11,
    1.18891471078464383424E-11,  4.94060238822496958910E-10,  3.39623202570838634515E-9,   2.26666899049817806459E-8,
    2.04891858946906374183E-7,   2.89137052083475648297E-6,   6.88975834691682398426E-5,   3.36911647825569408990E-3,
    8.04490411014108831608E-1};

Array i0e_in_own_precision(In signed_x) {
  bool wide = signed_x.dtype() == DType::float64;
  std::span<const double> near(kNear), far(kFar);
  if (!wide) near = near.last(18), far = far.last(7);
  Array x = lax::abs(signed_x), two = scalar_like(x, 2);
  Array inside = chebyshev(lax::sub(lax::mul(scalar_like(x, 0.5), x), two), near);
  Array outside = lax::div(chebyshev(lax::sub(lax::div(scalar_like(x, 32), x), two), far), lax::sqrt(x));
  return lax::select(lax::le(x, scalar_like(x, 8)), inside, outside);
}
Array i0e(In x) {
  if (itemsize(x.dtype()) >= 4) return i0e_in_own_precision(x);
  return convert(i0e_in_own_precision(convert(x, DType::float32)), x.dtype());
}
Array i1e_tangent(In g, In ans, In x) {
  double epsilon = std::numeric_limits<double>::epsilon();
  if (x.dtype() != DType::float64)
    epsilon = x.dtype() == DType::float32 ? 0x1p-23 : x.dtype() == DType::float16 ? 0x1p-10 : 0x1p-7;
  Array large = lax::gt(lax::abs(x), scalar_like(x, epsilon));
  Array safe = lax::select(large, x, full(x.aval(), Scalar(epsilon, DType::float64)));
  Array i0e = lax::bessel_i0e(safe), sign = lax::sign(safe);
  Array slope = lax::sub(i0e, lax::mul(ans, lax::add(sign, lax::reciprocal(safe))));
  return lax::mul(g, lax::select(large, slope, full(x.aval(), Scalar(0.5, DType::float64))));
}

}  // namespace
Array lax::bessel_i0e(const Operand& x) { return apply(bessel_i0e_p, x); }
LOCKSTEP_PRIMITIVE(bessel_i0e_p, {.name = "bessel_i0e",
                                  .abstract_eval = rules::nary_aval<bessel_i0e_p, kFloat>,
                                  .jvp = rules::jvp<bessel_i0e_p,
                                                    [](In g, In ans, In x) {
                                                      Array i1e = lax::bessel_i1e(x);
                                                      return lax::mul(g, lax::sub(i1e, lax::mul(lax::sign(x), ans)));
                                                    }>,
                                  .batch = rules::batch_nary<bessel_i0e_p>,
                                  .lower = rules::lower_as<1, i0e>,
                                  .examples = elementwise_of<kFloat, 1, Range{-12, 12}>});

Array lax::bessel_i1e(const Operand& x) { return apply(bessel_i1e_p, x); }
LOCKSTEP_PRIMITIVE(bessel_i1e_p, {.name = "bessel_i1e",
                                  .abstract_eval = rules::nary_aval<bessel_i1e_p, kFloat>,
                                  .jvp = rules::jvp<bessel_i1e_p, i1e_tangent>,
                                  .batch = rules::batch_nary<bessel_i1e_p>,
                                  .lower = rules::lower_nary<"chlo.bessel_i1e">,
                                  .examples = elementwise_of<kFloat, 1, Range{-12, 12}>});

}  // namespace lockstep
