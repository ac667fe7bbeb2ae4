#include "lockstep/ops/elementwise.h"

#include <cmath>

#include "lockstep/ops/builders.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/select.h"
#include "lockstep/support/error.h"

namespace lockstep {

using examples::elementwise_of;
using examples::Range;

namespace {

Array one(In like) { return scalar_like(like, 1); }

void complex_part_aval(const Primitive& primitive, std::span<const AvalP> in, AvalList& out) {
  check_dtype(primitive.name, in[0], kComplex);
  out.push_back(with_dtype(in[0], real_type(in[0]->dtype), in[0]->weak_type));
}
template <const Primitive& P>
void complex_part_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  complex_part_aval(P, in, out);
}

}  // namespace

// ---- signs and rounding ----

Array lax::neg(const Operand& x) { return apply(neg_p, x); }
LOCKSTEP_PRIMITIVE(neg_p, {.name = "neg",
                           .abstract_eval = rules::nary_aval<neg_p, kNumber>,
                           .jvp = rules::jvp_linear<neg_p>,
                           .transpose = rules::transpose_self<neg_p>,
                           .batch = rules::batch_nary<neg_p>,
                           .lower = rules::lower_nary<"stablehlo.negate">,
                           .examples = elementwise_of<kNumber, 1>});

Array lax::sign(const Operand& x) { return apply(sign_p, x); }
static void sign_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                       std::span<const AvalP> out_avals, std::span<const std::string> in,
                       std::vector<std::string>& out) {
  if (is_unsigned_integer(in_avals[0]->dtype))
    rules::lower_as<1, [](In x) { return convert(lax::ne(x, scalar_like(x, 0)), x.dtype()); }>(ctx, params, in_avals,
                                                                                               out_avals, in, out);
  else
    rules::lower_nary<"stablehlo.sign">(ctx, params, in_avals, out_avals, in, out);
}
LOCKSTEP_PRIMITIVE(sign_p, {.name = "sign",
                            .abstract_eval = rules::nary_aval<sign_p, kNumber>,
                            .jvp = rules::jvp_zero<sign_p>,
                            .batch = rules::batch_nary<sign_p>,
                            .lower = sign_lower,
                            .examples = elementwise_of<kInt | kFloat, 1>});

Array lax::floor(const Operand& x) { return apply(floor_p, x); }
LOCKSTEP_PRIMITIVE(floor_p, {.name = "floor",
                             .abstract_eval = rules::nary_aval<floor_p, kFloat>,
                             .jvp = rules::jvp_zero<floor_p>,
                             .batch = rules::batch_nary<floor_p>,
                             .lower = rules::lower_nary<"stablehlo.floor">,
                             .examples = elementwise_of<kFloat, 1>});

Array lax::ceil(const Operand& x) { return apply(ceil_p, x); }
LOCKSTEP_PRIMITIVE(ceil_p, {.name = "ceil",
                            .abstract_eval = rules::nary_aval<ceil_p, kFloat>,
                            .jvp = rules::jvp_zero<ceil_p>,
                            .batch = rules::batch_nary<ceil_p>,
                            .lower = rules::lower_nary<"stablehlo.ceil">,
                            .examples = elementwise_of<kFloat, 1>});

namespace {

struct RoundParams {
  std::int64_t rounding_method;
};
void round_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                 std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  bool even =
      params->get<RoundParams>().rounding_method == static_cast<std::int64_t>(lax::RoundingMethod::to_nearest_even);
  out.push_back(rules::emit_elementwise(ctx, even ? "stablehlo.round_nearest_even" : "stablehlo.round_nearest_afz",
                                        in_avals, out_avals[0], in));
}
std::vector<Example> round_examples() {
  std::vector<Example> all;
  for (std::int64_t method : {0, 1})
    for (Example& e : examples::elementwise(kFloat, 1, {Range{}}, make_params(RoundParams{method})))
      all.push_back(std::move(e));
  all.push_back({.label = "ties",
                 .in = {examples::values({4}, DType::float32, {-1.5, -0.5, 0.5, 2.5})},
                 .params = make_params(RoundParams{1}),
                 .differentiable = false});
  return all;
}

}  // namespace
Array lax::round(const Operand& x, RoundingMethod rounding_method) {
  return apply(round_p, x, make_params(RoundParams{static_cast<std::int64_t>(rounding_method)}));
}
LOCKSTEP_PRIMITIVE(round_p, {.name = "round",
                             .abstract_eval = rules::nary_aval<round_p, kFloat>,
                             .jvp = rules::jvp_zero<round_p>,
                             .batch = rules::batch_nary<round_p>,
                             .lower = round_lower,
                             .examples = round_examples});

Array lax::is_finite(const Operand& x) { return apply(is_finite_p, x); }
LOCKSTEP_PRIMITIVE(is_finite_p, {.name = "is_finite",
                                 .abstract_eval = rules::predicate_aval<is_finite_p, kFloat>,
                                 .jvp = rules::jvp_zero<is_finite_p>,
                                 .batch = rules::batch_nary<is_finite_p>,
                                 .lower = rules::lower_nary<"stablehlo.is_finite">,
                                 .examples = elementwise_of<kFloat, 1>});

// ---- exponentials and logarithms ----

Array lax::exp(const Operand& x) { return apply(exp_p, x); }
LOCKSTEP_PRIMITIVE(exp_p, {.name = "exp",
                           .abstract_eval = rules::nary_aval<exp_p, kInexact>,
                           .jvp = rules::jvp<exp_p, [](In g, In ans, In) { return lax::mul(g, ans); }>,
                           .batch = rules::batch_nary<exp_p>,
                           .lower = rules::lower_nary<"stablehlo.exponential">,
                           .examples = elementwise_of<kInexact, 1>});

Array lax::exp2(const Operand& x) { return apply(exp2_p, x); }
LOCKSTEP_PRIMITIVE(
    exp2_p,
    {.name = "exp2",
     .abstract_eval = rules::nary_aval<exp2_p, kInexact>,
     .jvp = rules::jvp<exp2_p,
                       [](In g, In ans, In x) {
                         Array log2 = lax::log(scalar_like(x, 2));
                         return lax::mul(log2, lax::mul(g, ans));
                       }>,
     .batch = rules::batch_nary<exp2_p>,
     .lower = rules::lower_as<1, [](In x) { return lax::exp(lax::mul(scalar_like(x, 0.69314718055994530942), x)); }>,
     .examples = elementwise_of<kInexact, 1>});

Array lax::log(const Operand& x) { return apply(log_p, x); }
LOCKSTEP_PRIMITIVE(log_p, {.name = "log",
                           .abstract_eval = rules::nary_aval<log_p, kInexact>,
                           .jvp = rules::jvp<log_p, [](In g, In, In x) { return lax::div(g, x); }>,
                           .batch = rules::batch_nary<log_p>,
                           .lower = rules::lower_nary<"stablehlo.log">,
                           .examples = elementwise_of<kInexact, 1, Range{0.2, 3}>});

Array lax::expm1(const Operand& x) { return apply(expm1_p, x); }
LOCKSTEP_PRIMITIVE(expm1_p,
                   {.name = "expm1",
                    .abstract_eval = rules::nary_aval<expm1_p, kInexact>,
                    .jvp = rules::jvp<expm1_p, [](In g, In ans, In) { return lax::mul(g, lax::add(ans, one(ans))); }>,
                    .batch = rules::batch_nary<expm1_p>,
                    .lower = rules::lower_nary<"stablehlo.exponential_minus_one">,
                    .examples = elementwise_of<kInexact, 1>});

Array lax::log1p(const Operand& x) { return apply(log1p_p, x); }
LOCKSTEP_PRIMITIVE(log1p_p,
                   {.name = "log1p",
                    .abstract_eval = rules::nary_aval<log1p_p, kInexact>,
                    .jvp = rules::jvp<log1p_p, [](In g, In, In x) { return lax::div(g, lax::add(x, one(x))); }>,
                    .batch = rules::batch_nary<log1p_p>,
                    .lower = rules::lower_nary<"stablehlo.log_plus_one">,
                    .examples = elementwise_of<kInexact, 1, Range{-0.7, 2}>});

Array lax::logistic(const Operand& x) { return apply(logistic_p, x); }
LOCKSTEP_PRIMITIVE(
    logistic_p,
    {.name = "logistic",
     .abstract_eval = rules::nary_aval<logistic_p, kInexact>,
     .jvp =
         rules::jvp<logistic_p, [](In g, In ans, In) { return lax::mul(g, lax::mul(ans, lax::sub(one(ans), ans))); }>,
     .batch = rules::batch_nary<logistic_p>,
     .lower = rules::lower_as<1, [](In x) { return lax::div(one(x), lax::add(one(x), lax::exp(lax::neg(x)))); }>,
     .examples = elementwise_of<kInexact, 1>});

// ---- roots and powers ----

Array lax::sqrt(const Operand& x) { return apply(sqrt_p, x); }
LOCKSTEP_PRIMITIVE(
    sqrt_p,
    {.name = "sqrt",
     .abstract_eval = rules::nary_aval<sqrt_p, kInexact>,
     .jvp = rules::jvp<sqrt_p, [](In g, In ans, In x) { return lax::mul(g, lax::div(scalar_like(x, 0.5), ans)); }>,
     .batch = rules::batch_nary<sqrt_p>,
     .lower = rules::lower_nary<"stablehlo.sqrt">,
     .examples = elementwise_of<kInexact, 1, Range{0.2, 3}>});

Array lax::rsqrt(const Operand& x) { return apply(rsqrt_p, x); }
LOCKSTEP_PRIMITIVE(
    rsqrt_p,
    {.name = "rsqrt",
     .abstract_eval = rules::nary_aval<rsqrt_p, kInexact>,
     .jvp = rules::jvp<rsqrt_p, [](In g, In ans,
                                   In x) { return lax::mul(g, lax::mul(scalar_like(x, -0.5), lax::div(ans, x))); }>,
     .batch = rules::batch_nary<rsqrt_p>,
     .lower = rules::lower_nary<"stablehlo.rsqrt">,
     .examples = elementwise_of<kInexact, 1, Range{0.3, 3}>});

Array lax::cbrt(const Operand& x) { return apply(cbrt_p, x); }
LOCKSTEP_PRIMITIVE(cbrt_p, {.name = "cbrt",
                            .abstract_eval = rules::nary_aval<cbrt_p, kFloat>,
                            .jvp = rules::jvp<cbrt_p,
                                              [](In g, In ans, In x) {
                                                return lax::mul(
                                                    g, lax::mul(scalar_like(x, 1.0 / 3), lax::integer_pow(ans, -2)));
                                              }>,
                            .batch = rules::batch_nary<cbrt_p>,
                            .lower = rules::lower_nary<"stablehlo.cbrt">,
                            .examples = elementwise_of<kFloat, 1, Range{0.3, 3}>});

Array lax::square(const Operand& x) { return apply(square_p, x); }
static void square_lower(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals,
                         std::span<const AvalP> out_avals, std::span<const std::string> in,
                         std::vector<std::string>& out) {
  if (is_integer(in_avals[0]->dtype))
    out.push_back(ctx.emit("stablehlo.multiply {}, {} : {}", in[0], in[0], out_avals[0]->mlir));
  else
    out.push_back(rules::emit_elementwise(ctx, "chlo.square", in_avals, out_avals[0], in));
}
LOCKSTEP_PRIMITIVE(
    square_p, {.name = "square",
               .abstract_eval = rules::nary_aval<square_p, kNumber>,
               .jvp = rules::jvp<square_p, [](In g, In, In x) { return lax::mul(g, lax::mul(scalar_like(x, 2), x)); }>,
               .batch = rules::batch_nary<square_p>,
               .lower = square_lower,
               .examples = elementwise_of<kNumber, 1>});

Array lax::reciprocal(const Operand& x) {
  LocationScope scope(x.where);
  return lax::integer_pow(x, -1);
}

namespace {

void integer_pow_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  check_dtype("integer_pow", in[0], kNumber);
  if (std::int64_t y = params->get<IntegerPowParams>().y; y < 0 && is_integer(in[0]->dtype))
    throw_error(ErrorCode::dtype, "integer_pow", "integers ({}) have no powers with negative exponents, here {}",
                in[0]->text, y);
  out.push_back(in[0]);
}
JvpOut integer_pow_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  const Array &x = primals[0], &g = tangents[0];
  std::int64_t y = params->get<IntegerPowParams>().y;
  Array ans = bind_one(integer_pow_p, {x}, ParamsRef(params));
  if (!g.has_value() || y == 0) return {{ans}, {Array()}};
  if (y == 1) return {{ans}, {g}};
  Array slope = y == 2 ? x : lax::integer_pow(x, y - 1);
  return {{ans}, {lax::mul(g, lax::mul(scalar_like(x, static_cast<double>(y)), slope))}};
}
Array power_by_squaring(Array x, std::int64_t y) {
  if (y == 0) return full(x.aval(), Scalar(std::int64_t{1}, DType::int32));
  auto n = static_cast<std::uint64_t>(y < 0 ? -y : y);
  Array result;
  for (;; x = lax::mul(x, x)) {
    if (n & 1) result = result.has_value() ? lax::mul(result, x) : x;
    n >>= 1;
    if (n == 0) break;
  }
  return y < 0 ? lax::div(one(result), result) : result;
}
void integer_pow_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals, std::span<const AvalP>,
                       std::span<const std::string> in, std::vector<std::string>& out) {
  auto f = [y = params->get<IntegerPowParams>().y](std::span<const Array> x) {
    return Arrays{power_by_squaring(x[0], y)};
  };
  out = ctx.inline_jaxpr(trace_to_jaxpr(f, in_avals, "integer_pow"), in);
}
std::vector<Example> integer_pow_examples() {
  std::vector<Example> all;
  for (std::int64_t y : {0, 1, 2, 3, 5}) {
    auto params = make_params(IntegerPowParams{y});
    for (Example& e : examples::elementwise(y == 3 ? kNumber : DTypes{kFloat}, 1, {Range{}}, params))
      all.push_back(std::move(e));
  }
  for (std::int64_t y : {-1, -3})
    for (Example& e : examples::elementwise(kInexact, 1, {Range{0.5, 2}}, make_params(IntegerPowParams{y})))
      all.push_back(std::move(e));
  return all;
}

}  // namespace
Array lax::integer_pow(const Operand& x, std::int64_t y) {
  return apply(integer_pow_p, x, make_params(IntegerPowParams{y}));
}
LOCKSTEP_PRIMITIVE(integer_pow_p, {.name = "integer_pow",
                                   .abstract_eval = integer_pow_aval,
                                   .jvp = integer_pow_jvp,
                                   .batch = rules::batch_nary<integer_pow_p>,
                                   .lower = integer_pow_lower,
                                   .examples = integer_pow_examples});

// ---- complex numbers ----

Array lax::real(const Operand& x) { return apply(real_p, x); }
LOCKSTEP_PRIMITIVE(
    real_p, {.name = "real",
             .abstract_eval = complex_part_aval<real_p>,
             .jvp = rules::jvp_linear<real_p>,
             .transpose = rules::transpose_unary<[](In ct, AvalP) { return lax::complex(ct, scalar_like(ct, 0)); }>,
             .batch = rules::batch_nary<real_p>,
             .lower = rules::lower_nary<"stablehlo.real">,
             .examples = elementwise_of<kComplex, 1>});

Array lax::imag(const Operand& x) { return apply(imag_p, x); }
LOCKSTEP_PRIMITIVE(
    imag_p,
    {.name = "imag",
     .abstract_eval = complex_part_aval<imag_p>,
     .jvp = rules::jvp_linear<imag_p>,
     .transpose = rules::transpose_unary<[](In ct, AvalP) { return lax::complex(scalar_like(ct, 0), lax::neg(ct)); }>,
     .batch = rules::batch_nary<imag_p>,
     .lower = rules::lower_nary<"stablehlo.imag">,
     .examples = elementwise_of<kComplex, 1>});

namespace {

void conj_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  if (in[0]->dtype != DType::float32 && in[0]->dtype != DType::float64) check_dtype("conj", in[0], kComplex);
  out.push_back(with_dtype(in[0], complex_type(in[0]->dtype), in[0]->weak_type));
}
std::vector<Array> conj_transpose(const Params* params, std::span<const Array> cotangents,
                                  std::span<const TransposeIn>) {
  if (!cotangents[0].has_value()) return {Array()};
  return {is_complex(params->get<ConjParams>().input_dtype) ? lax::conj(cotangents[0]) : lax::real(cotangents[0])};
}
Array conj_parts(In x) {
  return is_complex(x.dtype()) ? lax::complex(lax::real(x), lax::neg(lax::imag(x)))
                               : lax::complex(x, scalar_like(x, 0));
}
std::vector<Example> conj_examples() {
  auto all = examples::elementwise(kComplex, 1, {Range{}}, make_params(ConjParams{DType::complex64}));
  all.push_back({.label = "f32[3]",
                 .in = {examples::array({3}, DType::float32)},
                 .params = make_params(ConjParams{DType::float32})});
  return all;
}

}  // namespace
Array lax::conj(const Operand& x) { return apply(conj_p, x, make_params(ConjParams{x.array.dtype()})); }
LOCKSTEP_PRIMITIVE(conj_p, {.name = "conj",
                            .abstract_eval = conj_aval,
                            .jvp = rules::jvp_linear<conj_p>,
                            .transpose = conj_transpose,
                            .batch = rules::batch_nary<conj_p>,
                            .lower = rules::lower_as<1, conj_parts>,
                            .examples = conj_examples});

namespace {

void abs_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  check_dtype("abs", in[0], kSigned | kInexact);
  out.push_back(with_dtype(in[0], real_type(in[0]->dtype), in[0]->weak_type));
}
Array abs_tangent(In g, In ans, In x) {
  if (!is_complex(x.dtype())) {
    Array positive = lax::ge(x, scalar_like(x, 0));
    return lax::select(positive, g, lax::neg(g));
  }
  Array conjugate = lax::conj(x), length = convert(ans, x.dtype());
  Array is_zero = lax::eq(length, scalar_like(length, 0));
  Array nonzero = lax::select(is_zero, full(length.aval(), Scalar(std::int64_t{1}, DType::int32)), length);
  return lax::real(lax::mul(g, lax::div(conjugate, nonzero)));
}

}  // namespace
Array lax::abs(const Operand& x) { return apply(abs_p, x); }
LOCKSTEP_PRIMITIVE(abs_p, {.name = "abs",
                           .abstract_eval = abs_aval,
                           .jvp = rules::jvp<abs_p, abs_tangent>,
                           .batch = rules::batch_nary<abs_p>,
                           .lower = rules::lower_nary<"stablehlo.abs">,
                           .examples = elementwise_of<kSigned | kInexact, 1>});

// ---- bits ----

Array lax::bitwise_not(const Operand& x) { return apply(not_p, x); }
LOCKSTEP_PRIMITIVE(not_p, {.name = "not",
                           .abstract_eval = rules::nary_aval<not_p, kBits>,
                           .jvp = rules::jvp_zero<not_p>,
                           .batch = rules::batch_nary<not_p>,
                           .lower = rules::lower_nary<"stablehlo.not">,
                           .examples = elementwise_of<kBits, 1>});

Array lax::population_count(const Operand& x) { return apply(population_count_p, x); }
LOCKSTEP_PRIMITIVE(population_count_p, {.name = "population_count",
                                        .abstract_eval = rules::nary_aval<population_count_p, kInt>,
                                        .jvp = rules::jvp_zero<population_count_p>,
                                        .batch = rules::batch_nary<population_count_p>,
                                        .lower = rules::lower_nary<"stablehlo.popcnt">,
                                        .examples = elementwise_of<kInt, 1>});

Array lax::clz(const Operand& x) { return apply(clz_p, x); }
LOCKSTEP_PRIMITIVE(clz_p, {.name = "clz",
                           .abstract_eval = rules::nary_aval<clz_p, kInt>,
                           .jvp = rules::jvp_zero<clz_p>,
                           .batch = rules::batch_nary<clz_p>,
                           .lower = rules::lower_nary<"stablehlo.count_leading_zeros">,
                           .examples = elementwise_of<kInt, 1>});

}  // namespace lockstep
