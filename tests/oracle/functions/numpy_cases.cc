// Functions of numpy/.
#include "lockstep/numpy/creation.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/reductions.h"
#include "tests/oracle/functions/cases.h"

namespace lockstep::oracle {
namespace {

namespace np = numpy;

#define UNARY(name)                                               \
  {                                                               \
#name, [](const Arrays& a) { return Arrays{np::name(a[0])}; } \
  }
#define BINARY(name)                                                    \
  {                                                                     \
#name, [](const Arrays& a) { return Arrays{np::name(a[0], a[1])}; } \
  }
#define REDUCTION(name)                                                                                            \
  {#name, [](const Arrays& a) { return Arrays{np::name(a[0])}; }},                                                 \
      {#name "_0", [](const Arrays& a) { return Arrays{np::name(a[0], 0)}; }}, {                                   \
#name "_last_keepdims", [](const Arrays& a) { return Arrays{np::name(a[0], {.axis = -1, .keepdims = true})}; } \
  }

const RegisterCases unary("numpy", {
                                       UNARY(negative),
                                       UNARY(positive),
                                       UNARY(sign),
                                       UNARY(floor),
                                       UNARY(ceil),
                                       UNARY(trunc),
                                       UNARY(rint),
                                       UNARY(absolute),
                                       UNARY(fabs),
                                       UNARY(square),
                                       UNARY(sqrt),
                                       UNARY(cbrt),
                                       UNARY(reciprocal),
                                       UNARY(exp),
                                       UNARY(exp2),
                                       UNARY(expm1),
                                       UNARY(log),
                                       UNARY(log2),
                                       UNARY(log10),
                                       UNARY(log1p),
                                       UNARY(sin),
                                       UNARY(cos),
                                       UNARY(tan),
                                       UNARY(arcsin),
                                       UNARY(arccos),
                                       UNARY(arctan),
                                       UNARY(sinh),
                                       UNARY(cosh),
                                       UNARY(tanh),
                                       UNARY(arcsinh),
                                       UNARY(arccosh),
                                       UNARY(arctanh),
                                       UNARY(deg2rad),
                                       UNARY(rad2deg),
                                       UNARY(sinc),
                                       UNARY(conjugate),
                                       UNARY(real),
                                       UNARY(imag),
                                       UNARY(angle),
                                       UNARY(isnan),
                                       UNARY(isinf),
                                       UNARY(isfinite),
                                       UNARY(isposinf),
                                       UNARY(isneginf),
                                       UNARY(signbit),
                                       UNARY(logical_not),
                                       UNARY(bitwise_not),
                                       UNARY(bitwise_count),
                                       UNARY(nan_to_num),
                                       UNARY(round),
                                       CASE("round_2", np::round(a[0], 2)),
                                       CASE("round_-1", np::round(a[0], -1)),
                                       CASE("modf", np::modf(a[0]).first, np::modf(a[0]).second),
                                       CASE("frexp", np::frexp(a[0]).first, np::frexp(a[0]).second),
                                       CASE("operator-", -a[0]),
                                       CASE("operator~", ~a[0]),
                                       CASE("operator!", !a[0]),
                                   });
const RegisterCases binary(
    "numpy", {
                 BINARY(add),
                 BINARY(subtract),
                 BINARY(multiply),
                 BINARY(true_divide),
                 BINARY(floor_divide),
                 BINARY(remainder),
                 BINARY(fmod),
                 BINARY(power),
                 BINARY(float_power),
                 BINARY(maximum),
                 BINARY(minimum),
                 BINARY(fmax),
                 BINARY(fmin),
                 BINARY(arctan2),
                 BINARY(hypot),
                 BINARY(logaddexp),
                 BINARY(logaddexp2),
                 BINARY(copysign),
                 BINARY(nextafter),
                 BINARY(heaviside),
                 BINARY(ldexp),
                 BINARY(bitwise_and),
                 BINARY(bitwise_or),
                 BINARY(bitwise_xor),
                 BINARY(left_shift),
                 BINARY(right_shift),
                 BINARY(logical_and),
                 BINARY(logical_or),
                 BINARY(logical_xor),
                 BINARY(equal),
                 BINARY(not_equal),
                 BINARY(less),
                 BINARY(less_equal),
                 BINARY(greater),
                 BINARY(greater_equal),
                 BINARY(isclose),
                 BINARY(allclose),
                 BINARY(array_equal),
                 BINARY(array_equiv),
                 CASE("divmod", np::divmod(a[0], a[1]).first, np::divmod(a[0], a[1]).second),
                 CASE("clip", np::clip(a[0], -0.5, 1)),
                 CASE("clip_low", np::clip(a[0], 0.0)),
                 CASE("clip_high", np::clip(a[0], none, a[1])),
                 CASE("isclose_nan", np::isclose(a[0], a[1], {.rtol = 0.1, .equal_nan = true})),
                 CASE("array_equal_nan", np::array_equal(a[0], a[1], true)),
                 CASE("operators", a[0] + a[1], a[0] - a[1], a[0] * a[1], a[0] / a[1], a[0] % a[1]),
                 CASE("comparisons", a[0]<a[1], a[0] <= a[1], a[0]> a[1], a[0] >= a[1], a[0] == a[1], a[0] != a[1]),
                 CASE("bit_operators", a[0] & a[1], a[0] | a[1], a[0] ^ a[1]),
                 CASE("shifts", a[0] << 2, a[0] >> 1),
                 CASE("numbers", a[0] + 1, 2.5 * a[0], 1 / a[0], a[0] - true, 3 - a[0], a[0] % 2, a[0] / 2),
                 CASE("power_2", np::power(a[0], 2)),
                 CASE("power_-1", np::power(a[0], -1)),
                 CASE("power_2.0", np::power(a[0], 2.0)),
                 CASE("power_of_2", np::power(2, a[0])),
                 CASE("assign",
                      [&] {
                        Array x = a[0];
                        x += a[1];
                        x -= 1;
                        x *= a[1];
                        x /= 2;
                        return x;
                      }()),
             });
const RegisterCases reductions(
    "numpy",
    {
        REDUCTION(sum),
        REDUCTION(prod),
        REDUCTION(max),
        REDUCTION(min),
        REDUCTION(any),
        REDUCTION(all),
        REDUCTION(mean),
        REDUCTION(var),
        REDUCTION(std),
        REDUCTION(ptp),
        REDUCTION(count_nonzero),
        REDUCTION(argmax),
        REDUCTION(argmin),
        REDUCTION(nansum),
        REDUCTION(nanprod),
        REDUCTION(nanmax),
        REDUCTION(nanmin),
        REDUCTION(nanmean),
        REDUCTION(nanvar),
        REDUCTION(nanstd),
        REDUCTION(nanargmax),
        REDUCTION(nanargmin),
        REDUCTION(median),
        REDUCTION(average),
        CASE("sum_axes", np::sum(a[0], {0, -1})),
        CASE("sum_none", np::sum(a[0], none, {.keepdims = true})),
        CASE("sum_f64_where_initial", np::sum(a[0], 1, {.dtype = DType::int32, .initial = 3, .where = a[0] > 0})),
        CASE("max_where", np::max(a[0], {.axis = 0, .initial = -1.0, .where = a[0] < 0})),
        CASE("mean_where", np::mean(a[0], {.axis = 0, .where = a[0] < 1})),
        CASE("var_ddof", np::var(a[0], -1, {.ddof = 1})),
        CASE("std_where", np::std(a[0], {.where = a[0] < 1})),
        CASE("average_weights", np::average(a[0], 1, {.weights = a[1]})),
        CASE("cumsum", np::cumsum(a[0])),
        CASE("cumsum_0", np::cumsum(a[0], 0)),
        CASE("cumprod_-1", np::cumprod(a[0], -1)),
        CASE("cumsum_bool", np::cumsum(a[0], {.axis = 0, .dtype = DType::bool_})),
        CASE("nancumsum", np::nancumsum(a[0])),
        CASE("nancumprod_0", np::nancumprod(a[0], 0)),
        CASE("quantile", np::quantile(a[0], a[1])),
        CASE("quantile_axes", np::quantile(a[0], 0.3, {.axis = {0, 1}, .keepdims = true})),
        CASE("quantile_0_lower", np::quantile(a[0], a[1], {.axis = 0, .method = np::QuantileMethod::lower})),
        CASE("quantile_1_nearest", np::quantile(a[0], 0.4, {.axis = 1, .method = np::QuantileMethod::nearest})),
        CASE("percentile", np::percentile(a[0], 20, {.axis = 0})),
    });
const RegisterCases creation("numpy", {
                                          CASE("zeros", np::zeros({2, 3})),
                                          CASE("ones_int", np::ones({2}, DType::int32)),
                                          CASE("full", np::full({2, 2}, 3)),
                                          CASE("full_vector", np::full({2, 3}, a[0])),
                                          CASE("zeros_like", np::zeros_like(a[0])),
                                          CASE("ones_like_int", np::ones_like(a[0], DType::int32, Shape{4})),
                                          CASE("full_like", np::full_like(a[0], 2.5)),
                                          CASE("arange_5", np::arange(5)),
                                          CASE("arange_1_5f", np::arange(1, 5.0)),
                                          CASE("arange_0_10_3", np::arange(0, 10, 3)),
                                          CASE("arange_down", np::arange(5, -2, -2)),
                                          CASE("arange_f", np::arange(0.5, 3, 0.25)),
                                          CASE("arange_i8", np::arange(7, DType::int8)),
                                          CASE("linspace", np::linspace(0.0, 1.0, 5)),
                                          CASE("linspace_open", np::linspace(2, 3, 4, {.endpoint = false})),
                                          CASE("linspace_1", np::linspace(2, 3, 1)),
                                          CASE("linspace_0", np::linspace(2, 3, 0)),
                                          CASE("linspace_int", np::linspace(0, 10, 4, {.dtype = DType::int32})),
                                          CASE("linspace_arrays", np::linspace(a[0], 3, 4, {.axis = 1})),
                                          CASE("logspace", np::logspace(0, 2, 5)),
                                          CASE("logspace_base", np::logspace(0, 2, 3, {.base = 2})),
                                          CASE("geomspace", np::geomspace(1, 1000, 4)),
                                          CASE("geomspace_negative", np::geomspace(-1.0, -8.0, 4)),
                                          CASE("eye", np::eye(3)),
                                          CASE("eye_k", np::eye(3, 4, 1, DType::int32)),
                                          CASE("identity", np::identity(2)),
                                      });

}  // namespace
}  // namespace lockstep::oracle
