#include "lockstep/ops/reductions.h"

#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/lower/context.h"
#include "lockstep/ops/axes.h"
#include "lockstep/ops/builders.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/reducers.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

struct ReduceSumParams {
  Ints axes;
  None out_sharding;
};
struct ReduceParams {
  Ints axes;
};
struct ArgParams {
  Ints axes;
  DType index_dtype;
};
struct GeneralReduceParams {
  Ints dimensions;
  ClosedJaxpr jaxpr;
};

template <class P>
Array bind_reduction(const Primitive& primitive, const Operand& operand, P params) {
  LocationScope scope(operand.where);
  return bind_one(primitive, {operand.array}, make_params(std::move(params)));
}

}  // namespace

Array lax::reduce_sum(const Operand& operand, const Ints& axes) {
  return bind_reduction(reduce_sum_p, operand, ReduceSumParams{axes, {}});
}
Array lax::reduce_prod(const Operand& operand, const Ints& axes) {
  return bind_reduction(reduce_prod_p, operand, ReduceParams{axes});
}
Array lax::reduce_max(const Operand& operand, const Ints& axes) {
  return bind_reduction(reduce_max_p, operand, ReduceParams{axes});
}
Array lax::reduce_min(const Operand& operand, const Ints& axes) {
  return bind_reduction(reduce_min_p, operand, ReduceParams{axes});
}
Array lax::reduce_and(const Operand& operand, const Ints& axes) {
  return bind_reduction(reduce_and_p, operand, ReduceParams{axes});
}
Array lax::reduce_or(const Operand& operand, const Ints& axes) {
  return bind_reduction(reduce_or_p, operand, ReduceParams{axes});
}
Array lax::reduce_xor(const Operand& operand, const Ints& axes) {
  return bind_reduction(reduce_xor_p, operand, ReduceParams{axes});
}
Array lax::argmax(const Operand& operand, int axis, DType index_dtype) {
  return bind_reduction(argmax_p, operand, ArgParams{{axis}, canonicalize(index_dtype)});
}
Array lax::argmin(const Operand& operand, int axis, DType index_dtype) {
  return bind_reduction(argmin_p, operand, ArgParams{{axis}, canonicalize(index_dtype)});
}

Arrays lax::reduce(std::span<const Array> operands, std::span<const Array> init_values,
                   const ReduceFunction& computation, const Ints& dimensions, std::source_location where) {
  LocationScope scope(where);
  if (operands.empty() || operands.size() != init_values.size())
    throw_error(ErrorCode::invalid_argument, "reduce", "needs one initial value for each operand, not {} for {}",
                init_values.size(), operands.size());
  AvalList avals;
  for (std::size_t i = 0; i < operands.size(); ++i)
    avals.push_back(make_aval({}, operands[i].dtype(), operands[i].weak_type() && init_values[i].weak_type()));
  ClosedJaxpr jaxpr = trace_reducer(
      [&](auto a, auto b) {
        UserCode user;
        return computation(a, b);
      },
      avals, "reduce");
  for (auto& c : *jaxpr.consts)
    if (c->kind() != Value::Kind::scalar)
      throw_error(ErrorCode::invalid_argument, "reduce",
                  "the computation uses the array {} from outside; it may use its arguments and numbers only",
                  c->aval()->text);
  Arrays in(operands.begin(), operands.end());
  for (std::size_t i = 0; i < init_values.size(); ++i)
    in.push_back(init_values[i].weak_type() ? convert(init_values[i], operands[i].dtype()) : init_values[i]);
  return bind_many(reduce_p, in, make_params(GeneralReduceParams{dimensions, jaxpr}));
}
Array lax::reduce(const Operand& operand, const Operand& init_value, const BinaryFunction& computation,
                  const Ints& dimensions) {
  return reduce(
      {&operand.array, 1}, {&init_value.array, 1}, [&](auto a, auto b) { return Arrays{computation(a[0], b[0])}; },
      dimensions, operand.where)[0];
}

namespace {

void check_axes(const char* operation, AvalP a, const Ints& axes) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= a->rank())
      throw_error(ErrorCode::axis, operation, "axis {} is out of range for {}", axes[i], a->text);
    for (std::size_t k = 0; k < i; ++k)
      if (axes[k] == axes[i])
        throw_error(ErrorCode::axis, operation, "axis {} is repeated in {}", axes[i], to_tuple_string(axes));
  }
}

template <const Primitive& P, class Params_, DTypes kAccepted>
void reduction_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& axes = params->get<Params_>().axes;
  check_dtype(P.name, in[0], kAccepted);
  check_axes(P.name, in[0], axes);
  AvalP reduced = with_shape(in[0], without_axes(in[0]->shape, axes));
  out.push_back((kAccepted & kInexact) == 0 ? strong(reduced) : reduced);
}

template <const Primitive& P, class Params_>
BatchOut reduction_batch(const Params* params, const BatchIn& in) {
  Params_ p = params->get<Params_>();
  int dim = in.dims[0];
  p.axes = bump_dims(p.axes, dim);
  Ints kept = remaining(in.args[0].ndim(), p.axes);
  int out_dim = static_cast<int>(std::find(kept.begin(), kept.end(), dim) - kept.begin());
  return {{bind_one(P, {in.args[0]}, make_params(std::move(p)))}, {out_dim}};
}

std::vector<Array> sum_transpose(const Params* params, std::span<const Array> cotangents,
                                 std::span<const TransposeIn> in) {
  if (!cotangents[0].has_value()) return {Array()};
  const Shape& shape = in[0].aval->shape;
  Ints kept = remaining(shape.rank(), params->get<ReduceSumParams>().axes);
  return {lax::broadcast_in_dim(cotangents[0], shape, kept)};
}

// The tangents of the largest (smallest) elements; their mean where several are equal.
template <const Primitive& P>
JvpOut chooser_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  const Ints& axes = params->get<ReduceParams>().axes;
  const Array &x = primals[0], &t = tangents[0];
  Array ans = bind_one(P, {x}, params);
  if (!t.has_value()) return {{ans}, {Array()}};
  Array chosen = convert(lax::eq(x, lax::reshape(ans, keep_axes(x.shape(), axes))), t.dtype());
  Array counts = lax::reduce_sum(chosen, axes);
  return {{ans}, {lax::div(lax::reduce_sum(lax::mul(t, chosen), axes), counts)}};
}

// A reduction by halves along the leading axis, made of elementwise operations, as a function that can be
// differentiated. Arguments have been brought to [n, rest...].
Arrays reduce_tree(Arrays xs, const Arrays& init_values, const Reducer& reducer) {
  Shape rest = xs[0].shape().without(0);
  while (xs[0].shape(0) > 1) {
    std::int64_t n = xs[0].shape(0), half = (n + 1) / 2;
    Arrays a, b;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      a.push_back(lax::slice_in_dim(xs[i], 0, half));
      Array tail = lax::slice_in_dim(xs[i], half, n);
      if (n % 2 != 0) {
        lax::PaddingConfig padding(static_cast<std::size_t>(xs[i].ndim()));
        padding[0].high = 1;
        tail = lax::pad(tail, init_values[i], padding);
      }
      b.push_back(tail);
    }
    xs = reducer(a, b);
  }
  Arrays out;
  for (std::size_t i = 0; i < xs.size(); ++i)
    out.push_back(xs[0].shape(0) == 0 ? lax::broadcast(init_values[i], rest) : lax::squeeze(xs[i], {0}));
  return out;
}
JvpOut reduce_jvp(const Reducer& reducer, const Arrays& init_values, std::span<const Array> primals,
                  std::span<const Array> tangents, const Ints& axes) {
  const Shape& shape = primals[0].shape();
  Ints kept = remaining(shape.rank(), axes), order = axes;
  for (auto d : kept) order.push_back(d);
  Shape flat = take(shape, kept).with(0, take(shape, axes).elements());
  auto reshape = [&](const Array& a) { return lax::reshape(a, flat, order); };
  JvpTrace trace("reduce", nullptr);
  Arrays duals;
  for (std::size_t i = 0; i < primals.size(); ++i)
    duals.push_back(trace.dual(reshape(primals[i]), tangents[i].has_value() ? reshape(tangents[i]) : Array()));
  JvpOut out;
  for (auto& a : reduce_tree(std::move(duals), init_values, reducer)) {
    auto [primal, tangent] = trace.split(a);
    out.primals.push_back(primal);
    out.tangents.push_back(tangent);
  }
  return out;
}

JvpOut prod_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  auto multiply = [](auto a, auto b) { return Arrays{lax::mul(a[0], b[0])}; };
  return reduce_jvp(multiply, {scalar_like(primals[0], 1.0)}, primals, tangents, params->get<ReduceParams>().axes);
}

template <class Params_, Text kOp, Array (*kReducer)(const Array&, const Array&), Scalar (*kIdentity)(DType)>
void reduction_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                     std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  bool ordered = kReducer == reducer_max || kReducer == reducer_min;
  bool named = !(ordered && is_complex(in_avals[0]->dtype));
  out.push_back(emit_reduce(ctx, named ? kOp.value : nullptr, kReducer, kIdentity(in_avals[0]->dtype),
                            params->get<Params_>().axes, in_avals[0], out_avals[0], in[0]));
}
Scalar zero_of(DType t) { return Scalar(std::int64_t{0}, t); }
Scalar one_of(DType t) { return Scalar(std::int64_t{1}, t); }
Scalar ones_of(DType t) { return is_bool(t) ? Scalar(true) : Scalar(std::int64_t{-1}, t); }

template <const Primitive& P>
void arg_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<ArgParams>();
  check_axes(P.name, in[0], p.axes);
  if (!is_integer(p.index_dtype))
    throw_error(ErrorCode::dtype, P.name, "index_dtype must be an integer type, not {}", name(p.index_dtype));
  if (in[0]->shape[static_cast<std::size_t>(p.axes[0])] < 1)
    throw_error(ErrorCode::shape, P.name, "axis {} of {} is empty; there is no such element", p.axes[0], in[0]->text);
  out.push_back(with_dtype(with_shape(in[0], without_axes(in[0]->shape, p.axes)), p.index_dtype));
}

// Reduces (value, index) pairs; `better(a, b)` says that a comes before b. NaN is better than all else.
template <Array (*kBetter)(const Operand&, const Operand&), Scalar (*kIdentity)(DType)>
void arg_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
               std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<ArgParams>();
  AvalP value = make_aval({}, in_avals[0]->dtype), index = make_aval({}, p.index_dtype);
  AvalP indices = make_aval(in_avals[0]->shape, p.index_dtype);
  std::string iota = ctx.emit("stablehlo.iota dim = {} : {}", p.axes[0], indices->mlir);
  std::string init = ctx.constant(kIdentity(value->dtype), value), zero = ctx.constant(zero_of(index->dtype), index);
  AvalP pair[2] = {value, index};
  auto reducer = trace_reducer(
      [](auto a, auto b) {
        Array pick = lax::bitwise_or(kBetter(a[0], b[0]), lax::ne(a[0], a[0]));
        Array tie = lax::bitwise_and(lax::eq(a[0], b[0]), lax::lt(a[1], b[1]));
        return Arrays{lax::select(pick, a[0], b[0]), lax::select(lax::bitwise_or(pick, tie), a[1], b[1])};
      },
      pair, "argmax");
  AvalP types[4] = {in_avals[0], indices, value, index};
  AvalP results[2] = {make_aval(out_avals[0]->shape, value->dtype), out_avals[0]};
  std::string region = reducer_region(ctx, reducer);
  auto both = ctx.emit_many(2, fmt::format("\"stablehlo.reduce\"({}, {}, {}, {}) {} {{dimensions = {}}} : {}", in[0],
                                           iota, init, zero, region, i64_array(p.axes), function_type(types, results)));
  out.push_back(both[1]);
}

void general_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<GeneralReduceParams>();
  std::size_t n = in.size() / 2;
  for (std::size_t i = 0; i < n; ++i) {
    AvalP x = in[i], init = in[n + i];
    check_axes("reduce", x, p.dimensions);
    if (x->shape != in[0]->shape)
      throw_error(ErrorCode::shape, "reduce", "operands must have equal shapes, not {} and {}", in[0]->text, x->text);
    if (init->rank() != 0 || init->dtype != x->dtype)
      throw_error(ErrorCode::shape, "reduce", "the initial value of {} must be a scalar of its type, not {}", x->text,
                  init->text);
    AvalP computed = p.jaxpr->out_avals()[i];
    if (computed->rank() != 0 || computed->dtype != x->dtype || p.jaxpr->outvars.size() != n)
      throw_error(ErrorCode::dtype, "reduce",
                  "the computation must return a scalar of type {} for each operand, not {}", name(x->dtype),
                  to_string(p.jaxpr->out_avals()));
    Aval result = *with_shape(x, without_axes(x->shape, p.dimensions));
    result.weak_type = x->weak_type && init->weak_type;
    join_varying(result, in);
    out.push_back(intern(std::move(result)));
  }
}

JvpOut general_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  auto& p = params->get<GeneralReduceParams>();
  std::size_t n = primals.size() / 2;
  for (const Array& t : tangents.subspan(n))
    if (t.has_value())
      throw_error(ErrorCode::invalid_argument, "reduce",
                  "cannot be differentiated with respect to its initial values; wrap them in stop_gradient");
  Reducer reducer = [&](std::span<const Array> a, std::span<const Array> b) {
    // The jaxpr is of scalars; its elementwise operations are mapped over whole arrays.
    BatchTrace trace("reduce", a[0].size(), "");
    Arrays args;
    for (auto side : {a, b})
      for (const Array& x : side) args.push_back(trace.batched(lax::reshape(x, {x.size()}), 0));
    Arrays outs;
    for (const Array& x : eval_jaxpr(p.jaxpr, args)) {
      auto [value, dim] = trace.split(x);
      outs.push_back(lax::reshape(batch_axis_at_front(value, dim, trace.size()), a[0].shape()));
    }
    return outs;
  };
  Arrays init(primals.begin() + static_cast<std::ptrdiff_t>(n), primals.end());
  return reduce_jvp(reducer, init, primals.first(n), tangents.first(n), p.dimensions);
}

BatchOut general_batch(const Params* params, const BatchIn& in) {
  GeneralReduceParams p = params->get<GeneralReduceParams>();
  std::size_t n = in.args.size() / 2;
  Arrays args;
  for (std::size_t i = 0; i < in.args.size(); ++i) {
    if (i >= n && in.dims[i] != kNotMapped)
      throw_error(ErrorCode::missing_rule, "reduce", "cannot be mapped over its initial values");
    args.push_back(i < n ? batch_axis_at_front(in.args[i], in.dims[i], in.size) : in.args[i]);
  }
  for (auto& d : p.dimensions) ++d;
  return {bind_many(reduce_p, args, make_params(std::move(p))), std::vector<int>(n, 0)};
}

void general_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                   std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<GeneralReduceParams>();
  std::string region = reducer_region(ctx, p.jaxpr);
  out = ctx.emit_many(out_avals.size(),
                      fmt::format("\"stablehlo.reduce\"({}) {} {{dimensions = {}}} : {}", fmt::join(in, ", "), region,
                                  i64_array(p.dimensions), function_type(in_avals, out_avals)));
}

}  // namespace

namespace {

template <class Params_, DTypes kAccepted>
std::vector<Example> reduction_examples() {
  std::vector<Example> out;
  for (DType t : {DType::float32, DType::bfloat16, DType::complex64, DType::int32, DType::uint8, DType::bool_}) {
    if (!accepts(kAccepted, t)) continue;
    auto add = [&](const char* label, Shape shape, Ints axes) {
      Params_ params{};
      params.axes = std::move(axes);
      out.push_back({fmt::format("{} {}", short_name(t), label),
                     {examples::array(std::move(shape), t)},
                     make_params(std::move(params))});
    };
    add("middle", {2, 3, 4}, {1});
    add("first and last", {2, 3, 4}, {0, 2});
    add("all", {3, 2}, {0, 1});
    add("none", {3}, {});
    add("one element", {1, 2}, {0});
  }
  return out;
}
std::vector<Example> arg_examples() {
  auto params = [](int axis, DType t = DType::int32) { return make_params(ArgParams{{axis}, t}); };
  return {{"f32", {examples::array({3, 4}, DType::float32)}, params(0)},
          {"last", {examples::array({2, 3, 4}, DType::float32)}, params(2)},
          {"NaN and ties", {examples::values({2, 3}, DType::float32, {1, 1, 0, 2, __builtin_nan(""), 3})}, params(1)},
          {"i32 to i64", {examples::array({4, 2}, DType::int32)}, params(0, DType::int64)},
          {"u8", {examples::array({5}, DType::uint8)}, params(0)},
          {"bool", {examples::array({2, 3}, DType::bool_)}, params(1)}};
}

}  // namespace

LOCKSTEP_PRIMITIVE(reduce_sum_p, {.name = "reduce_sum",
                                  .abstract_eval = reduction_aval<reduce_sum_p, ReduceSumParams, kNumber>,
                                  .jvp = rules::jvp_linear<reduce_sum_p>,
                                  .transpose = sum_transpose,
                                  .batch = reduction_batch<reduce_sum_p, ReduceSumParams>,
                                  .lower = reduction_lower<ReduceSumParams, "stablehlo.add", reducer_add, zero_of>,
                                  .examples = reduction_examples<ReduceSumParams, kNumber>});
LOCKSTEP_PRIMITIVE(reduce_prod_p, {.name = "reduce_prod",
                                   .abstract_eval = reduction_aval<reduce_prod_p, ReduceParams, kNumber>,
                                   .jvp = prod_jvp,
                                   .batch = reduction_batch<reduce_prod_p, ReduceParams>,
                                   .lower = reduction_lower<ReduceParams, "stablehlo.multiply", reducer_mul, one_of>,
                                   .examples = reduction_examples<ReduceParams, kNumber>});
LOCKSTEP_PRIMITIVE(reduce_max_p, {.name = "reduce_max",
                                  .abstract_eval = reduction_aval<reduce_max_p, ReduceParams, kNumber | kBool>,
                                  .jvp = chooser_jvp<reduce_max_p>,
                                  .batch = reduction_batch<reduce_max_p, ReduceParams>,
                                  .lower = reduction_lower<ReduceParams, "stablehlo.maximum", reducer_max, min_value>,
                                  .examples = reduction_examples<ReduceParams, kOrdered>});
LOCKSTEP_PRIMITIVE(reduce_min_p, {.name = "reduce_min",
                                  .abstract_eval = reduction_aval<reduce_min_p, ReduceParams, kNumber | kBool>,
                                  .jvp = chooser_jvp<reduce_min_p>,
                                  .batch = reduction_batch<reduce_min_p, ReduceParams>,
                                  .lower = reduction_lower<ReduceParams, "stablehlo.minimum", reducer_min, max_value>,
                                  .examples = reduction_examples<ReduceParams, kOrdered>});
LOCKSTEP_PRIMITIVE(reduce_and_p, {.name = "reduce_and",
                                  .abstract_eval = reduction_aval<reduce_and_p, ReduceParams, kBits>,
                                  .jvp = rules::jvp_zero<reduce_and_p>,
                                  .batch = reduction_batch<reduce_and_p, ReduceParams>,
                                  .lower = reduction_lower<ReduceParams, "stablehlo.and", reducer_and, ones_of>,
                                  .examples = reduction_examples<ReduceParams, kBits>});
LOCKSTEP_PRIMITIVE(reduce_or_p, {.name = "reduce_or",
                                 .abstract_eval = reduction_aval<reduce_or_p, ReduceParams, kBits>,
                                 .jvp = rules::jvp_zero<reduce_or_p>,
                                 .batch = reduction_batch<reduce_or_p, ReduceParams>,
                                 .lower = reduction_lower<ReduceParams, "stablehlo.or", reducer_or, zero_of>,
                                 .examples = reduction_examples<ReduceParams, kBits>});
LOCKSTEP_PRIMITIVE(reduce_xor_p, {.name = "reduce_xor",
                                  .abstract_eval = reduction_aval<reduce_xor_p, ReduceParams, kBits>,
                                  .jvp = rules::jvp_zero<reduce_xor_p>,
                                  .batch = reduction_batch<reduce_xor_p, ReduceParams>,
                                  .lower = reduction_lower<ReduceParams, "stablehlo.xor", reducer_xor, zero_of>,
                                  .examples = reduction_examples<ReduceParams, kBits>});
LOCKSTEP_PRIMITIVE(argmax_p, {.name = "argmax",
                              .abstract_eval = arg_aval<argmax_p>,
                              .jvp = rules::jvp_zero<argmax_p>,
                              .batch = reduction_batch<argmax_p, ArgParams>,
                              .lower = arg_lower<lax::gt, min_value>,
                              .examples = arg_examples});
LOCKSTEP_PRIMITIVE(argmin_p, {.name = "argmin",
                              .abstract_eval = arg_aval<argmin_p>,
                              .jvp = rules::jvp_zero<argmin_p>,
                              .batch = reduction_batch<argmin_p, ArgParams>,
                              .lower = arg_lower<lax::lt, max_value>,
                              .examples = arg_examples});
LOCKSTEP_PRIMITIVE(reduce_p, {.name = "reduce",
                              .abstract_eval = general_aval,
                              .jvp = general_jvp,
                              .batch = general_batch,
                              .lower = general_lower,
                              .multiple_results = true});

}  // namespace lockstep
