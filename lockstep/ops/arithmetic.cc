// Elementwise primitives of two operands.
#include "lockstep/ops/builders.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"

namespace lockstep {

using examples::elementwise_of;
using examples::Range;

// ---- sums ----

namespace {

// d(x + y) or d(x - y), with the one tangent that is there brought to the result's shape.
template <const Primitive& P>
JvpOut sum_jvp(const Params*, std::span<const Array> primals, std::span<const Array> tangents) {
  Array out = bind_one(P, primals), tangent;
  if (tangents[0].has_value() && tangents[1].has_value())
    tangent = bind_one(P, tangents);
  else if (tangents[0].has_value())
    tangent = broadcast_operand(tangents[0], out.shape());
  else if (tangents[1].has_value())
    tangent = broadcast_operand(&P == &sub_p ? lax::neg(tangents[1]) : tangents[1], out.shape());
  return {{std::move(out)}, {std::move(tangent)}};
}
template <const Primitive& P>
std::vector<Array> sum_transpose(const Params*, std::span<const Array> cotangents, std::span<const TransposeIn> in) {
  if (!cotangents[0].has_value()) return {Array(), Array()};
  std::vector<Array> out(2);
  if (in[0].linear()) out[0] = unbroadcast(cotangents[0], in[0].aval);
  if (in[1].linear()) {
    out[1] = unbroadcast(&P == &sub_p ? lax::neg(cotangents[0]) : cotangents[0], in[1].aval);
  }
  return out;
}
BatchOut add_any_batch(const Params*, const BatchIn& in) {
  int axis = in.dims[0] == kNotMapped ? in.dims[1] : in.dims[0];
  Array x = batch_axis_at(in.args[0], in.dims[0], in.size, axis);
  Array y = batch_axis_at(in.args[1], in.dims[1], in.size, axis);
  return {{add_any(x, y)}, {axis}};
}

}  // namespace

Array lax::add(const Operand& x, const Operand& y) { return apply(add_p, x, y); }
LOCKSTEP_PRIMITIVE(add_p, {.name = "add",
                           .abstract_eval = rules::nary_aval<add_p, kNumber>,
                           .jvp = sum_jvp<add_p>,
                           .transpose = sum_transpose<add_p>,
                           .batch = rules::batch_nary<add_p>,
                           .lower = rules::lower_nary<"stablehlo.add">,
                           .examples = elementwise_of<kNumber, 2>});

LOCKSTEP_PRIMITIVE(add_any_p, {.name = "add_any",
                               .abstract_eval = rules::nary_aval<add_any_p, kNumber>,
                               .jvp = rules::jvp_linear<add_any_p>,
                               .transpose = sum_transpose<add_any_p>,
                               .batch = add_any_batch,
                               .lower = rules::lower_nary<"stablehlo.add">,
                               .examples = examples::equal_shapes_of<kNumber, 2>});

Array lax::sub(const Operand& x, const Operand& y) { return apply(sub_p, x, y); }
LOCKSTEP_PRIMITIVE(sub_p, {.name = "sub",
                           .abstract_eval = rules::nary_aval<sub_p, kNumber>,
                           .jvp = sum_jvp<sub_p>,
                           .transpose = sum_transpose<sub_p>,
                           .batch = rules::batch_nary<sub_p>,
                           .lower = rules::lower_nary<"stablehlo.subtract">,
                           .examples = elementwise_of<kNumber, 2>});

// ---- products and quotients ----

namespace {

std::vector<Array> mul_transpose(const Params*, std::span<const Array> cotangents, std::span<const TransposeIn> in) {
  const Array& ct = cotangents[0];
  LS_CHECK(in[0].linear() != in[1].linear(), "mul is linear in one operand at a time");
  if (!ct.has_value()) return {Array(), Array()};
  if (in[0].linear()) return {unbroadcast(lax::mul(ct, in[1].value), in[0].aval), Array()};
  return {Array(), unbroadcast(lax::mul(in[0].value, ct), in[1].aval)};
}
std::vector<Array> div_transpose(const Params*, std::span<const Array> cotangents, std::span<const TransposeIn> in) {
  LS_CHECK(in[0].linear() && !in[1].linear(), "div is linear in its first operand");
  if (!cotangents[0].has_value()) return {Array(), Array()};
  return {unbroadcast(lax::div(cotangents[0], in[1].value), in[0].aval), Array()};
}

}  // namespace

Array lax::mul(const Operand& x, const Operand& y) { return apply(mul_p, x, y); }
LOCKSTEP_PRIMITIVE(mul_p, {.name = "mul",
                           .abstract_eval = rules::nary_aval<mul_p, kNumber>,
                           .jvp = rules::jvp<mul_p, [](In g, In, In, In y) { return lax::mul(g, y); },
                                             [](In g, In, In x, In) { return lax::mul(x, g); }>,
                           .transpose = mul_transpose,
                           .batch = rules::batch_nary<mul_p>,
                           .lower = rules::lower_nary<"stablehlo.multiply">,
                           .examples = elementwise_of<kNumber, 2>});

Array lax::mulhi(const Operand& x, const Operand& y) { return apply(mulhi_p, x, y); }
LOCKSTEP_PRIMITIVE(mulhi_p, {.name = "mulhi",
                             .abstract_eval = rules::nary_aval<mulhi_p, kInt>,
                             .jvp = rules::jvp_zero<mulhi_p>,
                             .batch = rules::batch_nary<mulhi_p>,
                             .lower = rules::lower_nary<"chlo.mulhi">,
                             .examples = elementwise_of<kInt, 2>});

Array lax::div(const Operand& x, const Operand& y) { return apply(div_p, x, y); }
LOCKSTEP_PRIMITIVE(div_p, {.name = "div",
                           .abstract_eval = rules::nary_aval<div_p, kNumber>,
                           .jvp = rules::jvp<div_p, [](In g, In, In, In y) { return lax::div(g, y); },
                                             [](In g, In, In x, In y) {
                                               Array scaled = lax::mul(lax::neg(g), x);
                                               return lax::mul(scaled, lax::integer_pow(y, -2));
                                             }>,
                           .transpose = div_transpose,
                           .batch = rules::batch_nary<div_p>,
                           .lower = rules::lower_nary<"stablehlo.divide">,
                           .examples = elementwise_of<kNumber, 2, Range{-2, 2}, Range{0.5, 2, 1}>});

Array lax::rem(const Operand& x, const Operand& y) { return apply(rem_p, x, y); }
LOCKSTEP_PRIMITIVE(rem_p,
                   {.name = "rem",
                    .abstract_eval = rules::nary_aval<rem_p, kInt | kFloat>,
                    .jvp = rules::jvp<rem_p, [](In g, In ans, In, In) { return broadcast_operand(g, ans.shape()); },
                                      [](In g, In, In x, In y) {
                                        Array down = lax::neg(g), sign = lax::sign(lax::div(x, y));
                                        return lax::mul(down, lax::mul(sign, lax::floor(lax::abs(lax::div(x, y)))));
                                      }>,
                    .batch = rules::batch_nary<rem_p>,
                    .lower = rules::lower_nary<"stablehlo.remainder">,
                    .examples = elementwise_of<kInt | kFloat, 2, Range{-3, 3}, Range{0.7, 1.1, 1}>});

// ---- larger and smaller ----

namespace {

// 1 where x is the result, 1/2 where y is it too, 0 elsewhere.
Array share(In x, In ans, In y) {
  auto all = [&ans](std::int64_t v) { return full(ans.aval(), Scalar(v, DType::int32)); };
  Array is_x = lax::eq(x, ans), one = all(1), zero = all(0);
  Array mine = lax::select(is_x, one, zero);
  Array is_y = lax::eq(y, ans), two = all(2), again = all(1);
  return lax::div(mine, lax::select(is_y, two, again));
}
// Complex numbers are ordered by their real parts, then by their imaginary parts.
template <Text kOp, auto kAhead>
void lower_extremum(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                    std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  if (!is_complex(out_avals[0]->dtype)) return rules::lower_nary<kOp>(ctx, params, in_avals, out_avals, in, out);
  std::string operands[] = {ctx.broadcast_to(in[0], in_avals[0], out_avals[0]),
                            ctx.broadcast_to(in[1], in_avals[1], out_avals[0])};
  AvalP avals[] = {out_avals[0], out_avals[0]};
  rules::lower_as<2, [](In x, In y) {
    Array re_x = lax::real(x), re_y = lax::real(y);
    Array first = lax::select(lax::eq(re_x, re_y), kAhead(lax::imag(x), lax::imag(y)), kAhead(re_x, re_y));
    return lax::select(first, x, y);
  }>(ctx, params, avals, out_avals, operands, out);
}

}  // namespace

Array lax::max(const Operand& x, const Operand& y) { return apply(max_p, x, y); }
LOCKSTEP_PRIMITIVE(max_p,
                   {.name = "max",
                    .abstract_eval = rules::nary_aval<max_p, kAny>,
                    .jvp = rules::jvp<max_p, [](In g, In ans, In x, In y) { return lax::mul(g, share(x, ans, y)); },
                                      [](In g, In ans, In x, In y) { return lax::mul(g, share(y, ans, x)); }>,
                    .batch = rules::batch_nary<max_p>,
                    .lower = lower_extremum<"stablehlo.maximum", [](In x, In y) { return lax::gt(x, y); }>,
                    .examples = elementwise_of<kAny, 2>});

Array lax::min(const Operand& x, const Operand& y) { return apply(min_p, x, y); }
LOCKSTEP_PRIMITIVE(min_p,
                   {.name = "min",
                    .abstract_eval = rules::nary_aval<min_p, kAny>,
                    .jvp = rules::jvp<min_p, [](In g, In ans, In x, In y) { return lax::mul(g, share(x, ans, y)); },
                                      [](In g, In ans, In x, In y) { return lax::mul(g, share(y, ans, x)); }>,
                    .batch = rules::batch_nary<min_p>,
                    .lower = lower_extremum<"stablehlo.minimum", [](In x, In y) { return lax::lt(x, y); }>,
                    .examples = elementwise_of<kAny, 2>});

// ---- powers ----

namespace {

void pow_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  check_dtype("pow", in[0], kInexact);
  check_dtype("pow", in[1], kNumber);
  if (is_inexact(in[1]->dtype)) check_same_dtype("pow", in);
  out.push_back(elementwise_aval("pow", in, in[0]->dtype));
}
Array one_where_zero(In x) {
  Array is_zero = lax::eq(x, scalar_like(x, 0));
  return lax::select(is_zero, full(x.aval(), Scalar(std::int64_t{1}, DType::int32)), x);
}
Array pow_base_tangent(In g, In ans, In x, In y) {
  auto all = [](In like, std::int64_t v) { return full(like.aval(), Scalar(v, DType::int32)); };
  if (!is_integer(y.dtype())) return lax::mul(g, lax::mul(y, lax::pow(x, lax::sub(y, all(y, 1)))));
  Array base = broadcast_operand(x, ans.shape());
  Array exponent = broadcast_operand(convert(y, x.dtype()), ans.shape());
  Array is_zero = lax::eq(exponent, scalar_like(exponent, 0)), zero = all(exponent, 0);
  Array nonzero = one_where_zero(exponent);
  Array slope = lax::mul(nonzero, lax::pow(base, lax::sub(exponent, all(exponent, 1))));
  return lax::mul(g, lax::select(is_zero, zero, slope));
}
Array pow_exponent_tangent(In g, In ans, In x, In) { return lax::mul(g, lax::mul(lax::log(one_where_zero(x)), ans)); }
void pow_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
               std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  AvalP avals[] = {in_avals[0], with_dtype(in_avals[1], in_avals[0]->dtype)};
  std::string operands[] = {in[0], ctx.convert(in[1], in_avals[1], avals[1])};
  rules::lower_nary<"stablehlo.power">(ctx, params, avals, out_avals, operands, out);
}
std::vector<Example> pow_examples() {
  auto all = examples::elementwise(kInexact, 2, {Range{0.5, 2}, Range{-2, 2, 1}});
  all.push_back({.label = "f32[2,3] to i32[2,3]",
                 .in = {examples::array({2, 3}, DType::float32), examples::array({2, 3}, DType::int32)}});
  all.push_back(
      {.label = "f32[3] to i32[]", .in = {examples::array({3}, DType::float32), examples::weak(2, DType::int32)}});
  all.push_back({.label = "f32[] to i32[3], 0 among the exponents",
                 .in = {examples::values({}, DType::float32, {1.5}), examples::values({3}, DType::int32, {0, 1, 2})}});
  return all;
}

}  // namespace
// Host integers stay integers as exponents.
Array lax::pow(const Operand& x, const Operand& y) {
  LocationScope scope(x.where);
  if (is_integer(y.array.dtype()) && is_inexact(x.array.dtype())) return bind_one(pow_p, {x.array, y.array});
  return apply(pow_p, x, y);
}
LOCKSTEP_PRIMITIVE(pow_p, {.name = "pow",
                           .abstract_eval = pow_aval,
                           .jvp = rules::jvp<pow_p, pow_base_tangent, pow_exponent_tangent>,
                           .batch = rules::batch_nary<pow_p>,
                           .lower = pow_lower,
                           .examples = pow_examples});

Array lax::nextafter(const Operand& x, const Operand& y) { return apply(nextafter_p, x, y); }
LOCKSTEP_PRIMITIVE(nextafter_p,
                   {.name = "nextafter",
                    .abstract_eval = rules::nary_aval<nextafter_p, kFloat>,
                    .jvp = rules::jvp_zero<nextafter_p>,
                    .batch = rules::batch_nary<nextafter_p>,
                    .lower = rules::lower_nary<"chlo.next_after">,
                    .examples = [] { return examples::not_differentiable(examples::elementwise(kFloat, 2)); }});

// ---- complex numbers from parts ----

namespace {

void complex_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  for (AvalP a : in)
    if (a->dtype != DType::float32 && a->dtype != DType::float64)
      throw_error(ErrorCode::dtype, "complex", "does not accept {} ({}): the parts must be float32 or float64",
                  name(a->dtype), a->text);
  check_same_dtype("complex", in);
  out.push_back(elementwise_aval("complex", in, complex_type(in[0]->dtype)));
}
std::vector<Array> complex_transpose(const Params*, std::span<const Array> cotangents,
                                     std::span<const TransposeIn> in) {
  std::vector<Array> out(2);
  if (!cotangents[0].has_value()) return out;
  if (in[0].linear()) out[0] = unbroadcast(lax::real(cotangents[0]), in[0].aval);
  if (in[1].linear()) out[1] = unbroadcast(lax::imag(lax::neg(cotangents[0])), in[1].aval);
  return out;
}

}  // namespace
Array lax::complex(const Operand& x, const Operand& y) { return apply(complex_p, x, y); }
LOCKSTEP_PRIMITIVE(complex_p, {.name = "complex",
                               .abstract_eval = complex_aval,
                               .jvp = rules::jvp_linear<complex_p>,
                               .transpose = complex_transpose,
                               .batch = rules::batch_nary<complex_p>,
                               .lower = rules::lower_nary<"stablehlo.complex">,
                               .examples = [] { return examples::only("f32", examples::elementwise(kFloat, 2)); }});

// ---- bits ----

Array lax::bitwise_and(const Operand& x, const Operand& y) { return apply(and_p, x, y); }
LOCKSTEP_PRIMITIVE(and_p, {.name = "and",
                           .abstract_eval = rules::nary_aval<and_p, kBits>,
                           .jvp = rules::jvp_zero<and_p>,
                           .batch = rules::batch_nary<and_p>,
                           .lower = rules::lower_nary<"stablehlo.and">,
                           .examples = elementwise_of<kBits, 2>});

Array lax::bitwise_or(const Operand& x, const Operand& y) { return apply(or_p, x, y); }
LOCKSTEP_PRIMITIVE(or_p, {.name = "or",
                          .abstract_eval = rules::nary_aval<or_p, kBits>,
                          .jvp = rules::jvp_zero<or_p>,
                          .batch = rules::batch_nary<or_p>,
                          .lower = rules::lower_nary<"stablehlo.or">,
                          .examples = elementwise_of<kBits, 2>});

Array lax::bitwise_xor(const Operand& x, const Operand& y) { return apply(xor_p, x, y); }
LOCKSTEP_PRIMITIVE(xor_p, {.name = "xor",
                           .abstract_eval = rules::nary_aval<xor_p, kBits>,
                           .jvp = rules::jvp_zero<xor_p>,
                           .batch = rules::batch_nary<xor_p>,
                           .lower = rules::lower_nary<"stablehlo.xor">,
                           .examples = elementwise_of<kBits, 2>});

Array lax::shift_left(const Operand& x, const Operand& y) { return apply(shift_left_p, x, y); }
LOCKSTEP_PRIMITIVE(shift_left_p, {.name = "shift_left",
                                  .abstract_eval = rules::nary_aval<shift_left_p, kInt>,
                                  .jvp = rules::jvp_zero<shift_left_p>,
                                  .batch = rules::batch_nary<shift_left_p>,
                                  .lower = rules::lower_nary<"stablehlo.shift_left">,
                                  .examples = elementwise_of<kInt, 2, Range{0, 9}>});

Array lax::shift_right_arithmetic(const Operand& x, const Operand& y) { return apply(shift_right_arithmetic_p, x, y); }
LOCKSTEP_PRIMITIVE(shift_right_arithmetic_p, {.name = "shift_right_arithmetic",
                                              .abstract_eval = rules::nary_aval<shift_right_arithmetic_p, kInt>,
                                              .jvp = rules::jvp_zero<shift_right_arithmetic_p>,
                                              .batch = rules::batch_nary<shift_right_arithmetic_p>,
                                              .lower = rules::lower_nary<"stablehlo.shift_right_arithmetic">,
                                              .examples = elementwise_of<kInt, 2, Range{0, 9}>});

Array lax::shift_right_logical(const Operand& x, const Operand& y) { return apply(shift_right_logical_p, x, y); }
LOCKSTEP_PRIMITIVE(shift_right_logical_p, {.name = "shift_right_logical",
                                           .abstract_eval = rules::nary_aval<shift_right_logical_p, kInt>,
                                           .jvp = rules::jvp_zero<shift_right_logical_p>,
                                           .batch = rules::batch_nary<shift_right_logical_p>,
                                           .lower = rules::lower_nary<"stablehlo.shift_right_logical">,
                                           .examples = elementwise_of<kInt, 2, Range{0, 9}>});

// ---- comparisons ----

namespace {

template <Text kDirection>
void lower_compare(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                   std::span<const std::string> in, std::vector<std::string>& out) {
  DType t = in_avals[0]->dtype;
  std::string x = ctx.broadcast_to(in[0], in_avals[0], out_avals[0]);
  std::string y = ctx.broadcast_to(in[1], in_avals[1], out_avals[0]);
  std::string type = mlir_type(out_avals[0]->shape, t);
  out.push_back(ctx.emit("stablehlo.compare {}, {}, {}, {} : ({}, {}) -> {}", kDirection.value, x, y,
                         is_inexact(t)          ? "FLOAT"
                         : is_signed_integer(t) ? "SIGNED"
                                                : "UNSIGNED",
                         type, type, out_avals[0]->mlir));
}

}  // namespace

Array lax::eq(const Operand& x, const Operand& y) { return apply(eq_p, x, y); }
LOCKSTEP_PRIMITIVE(eq_p, {.name = "eq",
                          .abstract_eval = rules::predicate_aval<eq_p, kAny | kKey>,
                          .jvp = rules::jvp_zero<eq_p>,
                          .batch = rules::batch_nary<eq_p>,
                          .lower = lower_compare<"EQ">,
                          .examples = elementwise_of<kAny, 2>});

Array lax::ne(const Operand& x, const Operand& y) { return apply(ne_p, x, y); }
LOCKSTEP_PRIMITIVE(ne_p, {.name = "ne",
                          .abstract_eval = rules::predicate_aval<ne_p, kAny | kKey>,
                          .jvp = rules::jvp_zero<ne_p>,
                          .batch = rules::batch_nary<ne_p>,
                          .lower = lower_compare<"NE">,
                          .examples = elementwise_of<kAny, 2>});

Array lax::ge(const Operand& x, const Operand& y) { return apply(ge_p, x, y); }
LOCKSTEP_PRIMITIVE(ge_p, {.name = "ge",
                          .abstract_eval = rules::predicate_aval<ge_p, kOrdered>,
                          .jvp = rules::jvp_zero<ge_p>,
                          .batch = rules::batch_nary<ge_p>,
                          .lower = lower_compare<"GE">,
                          .examples = elementwise_of<kOrdered, 2>});

Array lax::gt(const Operand& x, const Operand& y) { return apply(gt_p, x, y); }
LOCKSTEP_PRIMITIVE(gt_p, {.name = "gt",
                          .abstract_eval = rules::predicate_aval<gt_p, kOrdered>,
                          .jvp = rules::jvp_zero<gt_p>,
                          .batch = rules::batch_nary<gt_p>,
                          .lower = lower_compare<"GT">,
                          .examples = elementwise_of<kOrdered, 2>});

Array lax::le(const Operand& x, const Operand& y) { return apply(le_p, x, y); }
LOCKSTEP_PRIMITIVE(le_p, {.name = "le",
                          .abstract_eval = rules::predicate_aval<le_p, kOrdered>,
                          .jvp = rules::jvp_zero<le_p>,
                          .batch = rules::batch_nary<le_p>,
                          .lower = lower_compare<"LE">,
                          .examples = elementwise_of<kOrdered, 2>});

Array lax::lt(const Operand& x, const Operand& y) { return apply(lt_p, x, y); }
LOCKSTEP_PRIMITIVE(lt_p, {.name = "lt",
                          .abstract_eval = rules::predicate_aval<lt_p, kOrdered>,
                          .jvp = rules::jvp_zero<lt_p>,
                          .batch = rules::batch_nary<lt_p>,
                          .lower = lower_compare<"LT">,
                          .examples = elementwise_of<kOrdered, 2>});

}  // namespace lockstep
