#include "lockstep/ops/identities.h"

#include "lockstep/ops/builders.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"

namespace lockstep {

Array lax::copy(const Operand& x) { return apply(copy_p, x); }
LOCKSTEP_PRIMITIVE(copy_p, {.name = "copy",
                            .abstract_eval = rules::same_avals,
                            .jvp = rules::jvp_linear<copy_p>,
                            .transpose = rules::transpose_self<copy_p>,
                            .batch = rules::batch_nary<copy_p>,
                            .lower = rules::lower_identity,
                            .examples = examples::elementwise_of<kAny, 1>});

Array lax::stop_gradient(const Operand& x) {
  LocationScope scope(x.where);
  if (!is_inexact(x.array.dtype())) return x.array;
  return bind_one(stop_gradient_p, {x.array});
}
LOCKSTEP_PRIMITIVE(stop_gradient_p,
                   {.name = "stop_gradient",
                    .abstract_eval = rules::same_avals,
                    .jvp = rules::jvp_zero<stop_gradient_p>,
                    .batch = rules::batch_nary<stop_gradient_p>,
                    .lower = rules::lower_identity,
                    .examples = [] { return examples::not_differentiable(examples::elementwise(kInexact, 1)); }});

// ---- optimization_barrier ----

namespace {

JvpOut barrier_jvp(const Params*, std::span<const Array> primals, std::span<const Array> tangents) {
  Arrays outs = bind_many(optimization_barrier_p, primals), some, out_tangents(primals.size());
  for (const Array& t : tangents)
    if (t.has_value()) some.push_back(t);
  if (some.empty()) return {std::move(outs), std::move(out_tangents)};
  some = bind_many(optimization_barrier_p, some);
  for (std::size_t i = 0, k = 0; i < tangents.size(); ++i)
    if (tangents[i].has_value()) out_tangents[i] = some[k++];
  return {std::move(outs), std::move(out_tangents)};
}
std::vector<Array> barrier_transpose(const Params*, std::span<const Array> cotangents,
                                     std::span<const TransposeIn> in) {
  Arrays some, out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in[i].linear() && cotangents[i].has_value()) some.push_back(cotangents[i]);
  if (some.empty()) return out;
  some = bind_many(optimization_barrier_p, some);
  for (std::size_t i = 0, k = 0; i < in.size(); ++i)
    if (in[i].linear() && cotangents[i].has_value()) out[i] = some[k++];
  return out;
}
BatchOut barrier_batch(const Params*, const BatchIn& in) {
  return {bind_many(optimization_barrier_p, in.args), std::vector<int>(in.dims.begin(), in.dims.end())};
}
void barrier_lower(LowerContext& ctx, const Params*, std::span<const AvalP>, std::span<const AvalP> out_avals,
                   std::span<const std::string> in, std::vector<std::string>& out) {
  std::string text = "stablehlo.optimization_barrier ", types;
  for (std::size_t i = 0; i < in.size(); ++i) {
    text += (i ? ", " : "") + in[i];
    types += (i ? ", " : "") + out_avals[i]->mlir;
  }
  out = ctx.emit_many(in.size(), text + " : " + types);
}
std::vector<Example> barrier_examples() {
  return {{.label = "one", .in = {examples::array({3}, DType::float32)}},
          {.label = "two", .in = {examples::array({2, 3}, DType::float32), examples::array({}, DType::int32)}}};
}

}  // namespace
Arrays lax::optimization_barrier(std::span<const Array> operands, std::source_location where) {
  LocationScope scope(where);
  if (operands.empty()) return {};
  return bind_many(optimization_barrier_p, operands);
}
LOCKSTEP_PRIMITIVE(optimization_barrier_p, {.name = "optimization_barrier",
                                            .abstract_eval = rules::same_avals,
                                            .jvp = barrier_jvp,
                                            .transpose = barrier_transpose,
                                            .batch = barrier_batch,
                                            .lower = barrier_lower,
                                            .examples = barrier_examples,
                                            .multiple_results = true});

// ---- arrays from nothing ----

namespace {

void iota_aval(const Params* params, std::span<const AvalP>, AvalList& out) {
  auto& p = params->get<IotaParams>();
  if (!is_integer(p.dtype) && !is_inexact(p.dtype))
    throw_error(ErrorCode::dtype, "iota", "cannot count in {}: it wants integer, floating or complex", name(p.dtype));
  for (auto d : p.shape)
    if (d < 0) throw_error(ErrorCode::shape, "iota", "shape {} has a negative size", to_tuple_string(p.shape));
  if (p.dimension < 0 || p.dimension >= p.shape.rank())
    throw_error(ErrorCode::axis, "iota", "dimension {} is not one of the {} of shape {}", p.dimension, p.shape.rank(),
                to_tuple_string(p.shape));
  out.push_back(make_aval(p.shape, p.dtype));
}
void iota_lower(LowerContext& ctx, const Params* params, std::span<const AvalP>, std::span<const AvalP> out_avals,
                std::span<const std::string>, std::vector<std::string>& out) {
  out.push_back(ctx.emit("stablehlo.iota dim = {} : {}", params->get<IotaParams>().dimension, out_avals[0]->mlir));
}
std::vector<Example> iota_examples() {
  auto example = [](Shape shape, std::int64_t dimension, DType t) {
    return Example{.label = std::string(short_name(t)) + to_string(shape),
                   .params = make_params(IotaParams{dimension, t, shape, {}})};
  };
  return {example({5}, 0, DType::int32), example({2, 3}, 1, DType::float32), example({0}, 0, DType::uint8),
          example({3, 2}, 0, DType::bfloat16), example({3}, 0, DType::complex64)};
}

}  // namespace
Array lax::iota(DType dtype, std::int64_t size, std::source_location where) {
  return broadcasted_iota(dtype, {size}, 0, where);
}
Array lax::broadcasted_iota(DType dtype, const Shape& shape, int dimension, std::source_location where) {
  LocationScope scope(where);
  return bind_one(iota_p, {}, make_params(IotaParams{dimension, canonicalize(dtype), shape, {}}));
}
LOCKSTEP_PRIMITIVE(iota_p,
                   {.name = "iota", .abstract_eval = iota_aval, .lower = iota_lower, .examples = iota_examples});

Array lax::full(const Shape& shape, const Operand& fill_value, std::optional<DType> dtype) {
  LocationScope scope(fill_value.where);
  const Array& value = fill_value.array;
  if (value.ndim() != 0) throw_error(ErrorCode::shape, "full", "fills with a scalar, got {}", value.aval()->text);
  return lax::broadcast(dtype ? convert(value, canonicalize(*dtype)) : value, shape);
}
Array lax::full_like(const Operand& x, const Operand& fill_value, std::optional<DType> dtype,
                     const std::optional<Shape>& shape) {
  LocationScope scope(x.where);
  const Array& like = x.array;
  if (fill_value.array.ndim() != 0)
    throw_error(ErrorCode::shape, "full_like", "fills with a scalar, got {}", fill_value.array.aval()->text);
  bool weak = !dtype && like.weak_type();
  Array value = convert(fill_value.array, dtype ? canonicalize(*dtype) : like.dtype(), weak);
  return lax::broadcast(value, shape ? *shape : like.shape());
}
Array lax::zeros_like(const Operand& x) { return full_like(x, 0); }
Array lax::ones_like(const Operand& x) { return full_like(x, 1); }

}  // namespace lockstep
