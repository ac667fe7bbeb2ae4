// psum, pmax, pmin: reductions over named axes. Batched over a named axis of vmap, that name becomes a position.
#include "lockstep/core/basic_ops.h"
#include "lockstep/lower/context.h"
#include "lockstep/ops/axes.h"
#include "lockstep/ops/builders.h"
#include "lockstep/ops/collective_axes.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reducers.h"
#include "lockstep/ops/replica_groups.h"
#include "lockstep/ops/structural.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

// A named axis, or a position if the name is empty.
struct ReducedAxis {
  std::string name;
  std::int64_t position = 0;
  bool operator==(const ReducedAxis&) const = default;
};
void print_param(Printer& p, const ReducedAxis& a) {
  print_text(p, a.name.empty() ? std::to_string(a.position) : "'" + a.name + "'");
}
std::size_t hash_param(const ReducedAxis& a) {
  return hash_combine(lockstep::hash_param(a.name), lockstep::hash_param(a.position));
}
struct AllReduceParams {
  std::vector<ReducedAxis> axes;
  std::optional<lax::AxisIndexGroups> axis_index_groups;

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (auto& a : axes)
      if (!a.name.empty()) out.push_back(a.name);
    return out;
  }
  Ints positions() const {
    Ints out;
    for (auto& a : axes)
      if (a.name.empty()) out.push_back(a.position);
    return out;
  }
};

Array bind_all_reduce(const Primitive& primitive, const Array& x, const lax::AxisName& axis_name,
                      const lax::CollectiveOptions& options) {
  check_index_groups(primitive.name, options.axis_index_groups);
  AllReduceParams params;
  for (auto& name : axis_name.names) {
    find_axis(primitive.name, name);
    params.axes.push_back({name});
  }
  params.axis_index_groups = options.axis_index_groups;
  return bind_one(primitive, {x}, make_params(std::move(params)));
}

}  // namespace

Array lax::psum(const Operand& operand, const AxisName& axis_name, const CollectiveOptions& options) {
  LocationScope scope(operand.where);
  Array x = is_bool(operand.array.dtype()) ? convert(operand.array, DType::int32) : operand.array;
  if (axis_name.names.empty()) return x;
  if (x.is_tracer()) return bind_all_reduce(psum_p, x, axis_name, options);
  std::int64_t n = group_size("psum", axis_name, options.axis_index_groups);
  if (x.value()->kind() != Value::Kind::scalar) return lax::mul(scalar_like(x, static_cast<double>(n)), x);
  auto& number = static_cast<const ScalarValue&>(*x.value()).scalar;
  DType t = number.dtype();
  Scalar total = is_complex(t)    ? Scalar(number.as_complex() * static_cast<double>(n), t)
                 : is_floating(t) ? Scalar(number.as_double() * static_cast<double>(n), t)
                                  : Scalar(number.as_int() * n, t);
  return scalar(total, t, x.weak_type());
}
Array lax::pmean(const Operand& operand, const AxisName& axis_name, const CollectiveOptions& options) {
  LocationScope scope(operand.where);
  Array total = psum(operand, axis_name, options);
  if (!is_inexact(total.dtype())) total = convert(total, canonicalize(DType::float64));
  return lax::div(total,
                  scalar_like(total, static_cast<double>(group_size("pmean", axis_name, options.axis_index_groups))));
}
Array lax::pmax(const Operand& x, const AxisName& axis_name, const CollectiveOptions& options) {
  LocationScope scope(x.where);
  return bind_all_reduce(pmax_p, x.array, axis_name, options);
}
Array lax::pmin(const Operand& x, const AxisName& axis_name, const CollectiveOptions& options) {
  LocationScope scope(x.where);
  return bind_all_reduce(pmin_p, x.array, axis_name, options);
}

namespace {

std::vector<std::string> all_reduce_names(const Params* params) { return params->get<AllReduceParams>().names(); }

template <const Primitive& P>
void all_reduce_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<AllReduceParams>();
  Ints positions = canonical_axes(P.name, p.positions(), in[0]->rank());
  if (p.axis_index_groups && !positions.empty())
    throw_error(ErrorCode::axis, P.name, "axis_index_groups can be used with named axes only");
  out.push_back(strong(with_shape(in[0], without_axes(in[0]->shape, positions))));
}

std::vector<Array> psum_transpose(const Params* params, std::span<const Array> cotangents,
                                  std::span<const TransposeIn> in) {
  if (!cotangents[0].has_value()) return {Array()};
  AllReduceParams p = params->get<AllReduceParams>();
  Array ct = cotangents[0];
  if (Ints positions = p.positions(); !positions.empty()) {
    const Shape& shape = in[0].aval->shape;
    ct = lax::broadcast_in_dim(ct, shape, remaining(shape.rank(), positions));
    std::erase_if(p.axes, [](const ReducedAxis& a) { return a.name.empty(); });
  }
  return {bind_one(psum_p, {ct}, make_params(std::move(p)))};
}

template <const Primitive& P>
BatchOut all_reduce_batch(const Params* params, const BatchIn& in) {
  AllReduceParams p = params->get<AllReduceParams>();
  Array x = in.args[0];
  int dim = in.dims[0];
  bool own = is_own_axis(in, p.names());
  if (own) refuse_groups(P.name, p.axis_index_groups);
  if (dim == kNotMapped) {
    if (own) std::erase_if(p.axes, [&](const ReducedAxis& a) { return a.name == in.axis_name; });
    if (!p.axes.empty()) x = bind_one(P, {x}, make_params(std::move(p)));
    if (own && &P == &psum_p) x = lax::mul(scalar_like(x, static_cast<double>(in.size)), x);
    return {{x}, {kNotMapped}};
  }
  if (!own && p.positions().empty()) return {{bind_one(P, {x}, params)}, {dim}};
  x = moveaxis(x, dim, 0);
  for (auto& a : p.axes) {
    if (a.name.empty())
      ++a.position;
    else if (own && a.name == in.axis_name)
      a = {{}, 0};
  }
  return {{bind_one(P, {x}, make_params(std::move(p)))}, {own ? kNotMapped : 0}};
}

template <const Primitive& P, Text kOp, Array (*kReducer)(const Array&, const Array&), Scalar (*kIdentity)(DType)>
void all_reduce_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                      std::span<const AvalP> out_avals, std::span<const std::string> in,
                      std::vector<std::string>& out) {
  auto& p = params->get<AllReduceParams>();
  std::string x = in[0];
  DType dtype = in_avals[0]->dtype;
  if (Ints positions = p.positions(); !positions.empty())
    x = emit_reduce(ctx, is_complex(dtype) && &P != &psum_p ? nullptr : kOp.value, kReducer, kIdentity(dtype),
                    positions, in_avals[0], out_avals[0], x);
  if (auto names = p.names(); !names.empty()) {
    AvalP element = make_aval({}, dtype);
    auto reducer = trace_reducer([](auto a, auto b) { return Arrays{kReducer(a[0], b[0])}; }, {&element, 1}, P.name);
    std::string groups = table_attribute(replica_groups(ctx, P.name, names, p.axis_index_groups));
    std::string region = reducer_region(ctx, reducer);
    x = ctx.emit("\"stablehlo.all_reduce\"({}) <{{{}, replica_groups = {}, use_global_device_ids}}> {} : ({}) -> {}", x,
                 kChannelHandle, groups, region, out_avals[0]->mlir, out_avals[0]->mlir);
  }
  out.push_back(x);
}
Scalar zero_of(DType t) { return Scalar(std::int64_t{0}, t); }

}  // namespace

LOCKSTEP_PRIMITIVE(psum_p, {.name = "psum",
                            .abstract_eval = all_reduce_aval<psum_p>,
                            .jvp = rules::jvp_linear<psum_p>,
                            .transpose = psum_transpose,
                            .batch = all_reduce_batch<psum_p>,
                            .lower = all_reduce_lower<psum_p, "stablehlo.add", reducer_add, zero_of>,
                            .axis_names = all_reduce_names});
LOCKSTEP_PRIMITIVE(pmax_p, {.name = "pmax",
                            .abstract_eval = all_reduce_aval<pmax_p>,
                            .batch = all_reduce_batch<pmax_p>,
                            .lower = all_reduce_lower<pmax_p, "stablehlo.maximum", reducer_max, min_value>,
                            .axis_names = all_reduce_names});
LOCKSTEP_PRIMITIVE(pmin_p, {.name = "pmin",
                            .abstract_eval = all_reduce_aval<pmin_p>,
                            .batch = all_reduce_batch<pmin_p>,
                            .lower = all_reduce_lower<pmin_p, "stablehlo.minimum", reducer_min, max_value>,
                            .axis_names = all_reduce_names});

}  // namespace lockstep
