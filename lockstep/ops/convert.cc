#include "lockstep/ops/convert.h"

#include "lockstep/ops/builders.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/examples.h"
#include "lockstep/support/error.h"

namespace lockstep {

namespace {

void convert_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<ConvertElementTypeParams>();
  if (in[0]->dtype == DType::key || p.new_dtype == DType::key)
    throw_error(ErrorCode::dtype, "convert_element_type",
                "cannot convert {} to {}: keys are made and read by random::wrap_key_data and key_data", in[0]->text,
                name(p.new_dtype));
  out.push_back(with_dtype(in[0], p.new_dtype, p.weak_type));
}
JvpOut convert_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  auto& p = params->get<ConvertElementTypeParams>();
  Array out = bind_one(convert_element_type_p, primals, ParamsRef(params)), tangent;
  if (tangents[0].has_value() && is_inexact(p.new_dtype))
    tangent = bind_one(convert_element_type_p, tangents, ParamsRef(params));
  return {{std::move(out)}, {std::move(tangent)}};
}
Array convert_transpose(In ct, AvalP operand) {
  return is_inexact(operand->dtype) ? convert(ct, operand->dtype, operand->weak_type) : Array();
}
void convert_lower(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                   std::span<const std::string> in, std::vector<std::string>& out) {
  AvalP from = in_avals[0], to = out_avals[0];
  std::string x = in[0];
  if (is_complex(from->dtype) && !is_complex(to->dtype)) {
    AvalP real = with_dtype(from, real_type(from->dtype));
    x = ctx.emit("stablehlo.real {} : ({}) -> {}", x, from->mlir, real->mlir);
    from = real;
  }
  if (is_bool(to->dtype) && !is_bool(from->dtype)) {
    std::string zero = ctx.constant(Scalar(std::int64_t{0}, from->dtype), from);
    out.push_back(ctx.emit("stablehlo.compare NE, {}, {}, {} : ({}, {}) -> {}", x, zero,
                           is_floating(from->dtype)         ? "FLOAT"
                           : is_signed_integer(from->dtype) ? "SIGNED"
                                                            : "UNSIGNED",
                           from->mlir, from->mlir, to->mlir));
    return;
  }
  out.push_back(ctx.convert(x, from, to));
}
std::vector<Example> convert_examples() {
  std::vector<Example> all;
  for (DType from : {DType::float32, DType::bfloat16, DType::int32, DType::uint8, DType::bool_, DType::complex64})
    for (DType to : {DType::float32, DType::bfloat16, DType::int32, DType::uint8, DType::bool_, DType::complex64})
      all.push_back(
          {.label = std::string(short_name(from)) + " to " + std::string(short_name(to)),
           .in = {from == DType::float32 && to == DType::uint8 ? examples::array({2, 3}, from, {.low = 0, .high = 9})
                                                               : examples::array({2, 3}, from)},
           .params = make_params(ConvertElementTypeParams{to, false})});
  all.push_back({.label = "a weak scalar",
                 .in = {examples::weak(1.5)},
                 .params = make_params(ConvertElementTypeParams{DType::float32, false})});
  return all;
}

}  // namespace
Array lax::convert_element_type(const Operand& operand, DType new_dtype) {
  LocationScope scope(operand.where);
  return convert(operand.array, canonicalize(new_dtype));
}
LOCKSTEP_PRIMITIVE(convert_element_type_p, {.name = "convert_element_type",
                                            .abstract_eval = convert_aval,
                                            .jvp = convert_jvp,
                                            .transpose = rules::transpose_unary<convert_transpose>,
                                            .batch = rules::batch_nary<convert_element_type_p>,
                                            .lower = convert_lower,
                                            .examples = convert_examples});

namespace {

struct BitcastParams {
  DType new_dtype;
};
void bitcast_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  AvalP a = in[0];
  DType to = params->get<BitcastParams>().new_dtype;
  for (DType t : {a->dtype, to})
    if (a->dtype != to && !is_integer(t) && !is_floating(t))
      throw_error(ErrorCode::dtype, "bitcast_convert_type", "cannot read the bits of {} as {}: not defined for {}",
                  a->text, name(to), name(t));
  auto old_size = static_cast<std::int64_t>(itemsize(a->dtype)), new_size = static_cast<std::int64_t>(itemsize(to));
  Shape shape = a->shape;
  if (old_size > new_size) {
    shape.push_back(old_size / new_size);
  } else if (old_size < new_size) {
    if (shape.empty() || shape.back() * old_size != new_size)
      throw_error(ErrorCode::shape, "bitcast_convert_type",
                  "cannot read {} as {}: the last dimension must be {}, the number of {} in one {}", a->text, name(to),
                  new_size / old_size, name(a->dtype), name(to));
    shape.pop_back();
  }
  out.push_back(with_dtype(with_shape(a, std::move(shape)), to));
}
void bitcast_lower(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                   std::span<const std::string> in, std::vector<std::string>& out) {
  out.push_back(ctx.emit("stablehlo.bitcast_convert {} : ({}) -> {}", in[0], in_avals[0]->mlir, out_avals[0]->mlir));
}
// The last dimension may come or go: the mapped axis must not be it.
BatchOut bitcast_batch(const Params* params, const BatchIn& in) {
  return {{bind_one(bitcast_convert_type_p, {moveaxis(in.args[0], in.dims[0], 0)}, ParamsRef(params))}, {0}};
}
std::vector<Example> bitcast_examples() {
  auto example = [](Shape shape, DType from, DType to) {
    return Example{.label = std::string(short_name(from)) + to_string(shape) + " as " + std::string(short_name(to)),
                   .in = {examples::array(shape, from)},
                   .params = make_params(BitcastParams{to}),
                   .differentiable = false};
  };
  return {example({3}, DType::float32, DType::int32),    example({}, DType::int32, DType::float32),
          example({2, 3}, DType::float32, DType::uint8), example({3, 4}, DType::uint8, DType::uint32),
          example({2}, DType::uint16, DType::uint32),    example({0}, DType::bfloat16, DType::uint16)};
}

}  // namespace
Array lax::bitcast_convert_type(const Operand& operand, DType new_dtype) {
  return apply(bitcast_convert_type_p, operand, make_params(BitcastParams{canonicalize(new_dtype)}));
}
LOCKSTEP_PRIMITIVE(bitcast_convert_type_p, {.name = "bitcast_convert_type",
                                            .abstract_eval = bitcast_aval,
                                            .jvp = rules::jvp_zero<bitcast_convert_type_p>,
                                            .batch = bitcast_batch,
                                            .lower = bitcast_lower,
                                            .examples = bitcast_examples});

namespace {

struct ReducePrecisionParams {
  int exponent_bits, mantissa_bits;
};
void reduce_precision_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  check_dtype("reduce_precision", in[0], kFloat);
  auto& p = params->get<ReducePrecisionParams>();
  if (p.exponent_bits < 1 || p.mantissa_bits < 0)
    throw_error(ErrorCode::invalid_argument, "reduce_precision",
                "{} exponent and {} mantissa bits: there must be at least 1 and 0", p.exponent_bits, p.mantissa_bits);
  out.push_back(in[0]);
}
void reduce_precision_lower(LowerContext& ctx, const Params* params, std::span<const AvalP>,
                            std::span<const AvalP> out_avals, std::span<const std::string> in,
                            std::vector<std::string>& out) {
  auto& p = params->get<ReducePrecisionParams>();
  out.push_back(ctx.emit("stablehlo.reduce_precision {}, format = e{}m{} : {}", in[0], p.exponent_bits, p.mantissa_bits,
                         out_avals[0]->mlir));
}
std::vector<Example> reduce_precision_examples() {
  auto all = examples::elementwise(kFloat, 1, {examples::Range{}}, make_params(ReducePrecisionParams{5, 10}));
  return examples::not_differentiable(std::move(all));  // piecewise constant, but its derivative is taken to be 1
}

}  // namespace
Array lax::reduce_precision(const Operand& operand, int exponent_bits, int mantissa_bits) {
  return apply(reduce_precision_p, operand, make_params(ReducePrecisionParams{exponent_bits, mantissa_bits}));
}
LOCKSTEP_PRIMITIVE(reduce_precision_p, {.name = "reduce_precision",
                                        .abstract_eval = reduce_precision_aval,
                                        .jvp = rules::jvp_linear<reduce_precision_p>,
                                        .transpose = rules::transpose_self<reduce_precision_p>,
                                        .batch = rules::batch_nary<reduce_precision_p>,
                                        .lower = reduce_precision_lower,
                                        .examples = reduce_precision_examples});

}  // namespace lockstep
