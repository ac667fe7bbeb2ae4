#include "lockstep/ops/sort.h"

#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/ops/axes.h"
#include "lockstep/ops/builders.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/gather.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/structural.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

struct SortParams {
  std::int64_t dimension;
  bool is_stable;
  std::int64_t num_keys;
};
struct TopKParams {
  std::int64_t axis;
  std::int64_t k;
};

// The elements of x at indices along one axis, for every place of the others.
Array take_along(const Array& x, const Array& indices, int axis) {
  Ints others = iota_ints(x.ndim()).without(axis);
  lax::GatherDimensionNumbers numbers{{}, {axis}, {axis}, others, others};
  return lax::gather(x, lax::expand_dims(indices, {x.ndim()}), numbers,
                     Shape::filled(static_cast<std::size_t>(x.ndim()), 1),
                     {.mode = lax::GatherScatterMode::promise_in_bounds});
}

}  // namespace

Array lax::sort(const Operand& operand, const SortOptions& options) {
  return lax::sort(std::span(&operand.array, 1), options, operand.where)[0];
}
Arrays lax::sort(std::span<const Array> operands, const SortOptions& o, std::source_location where) {
  LocationScope scope(where);
  if (operands.empty() || o.num_keys < 1 || static_cast<std::size_t>(o.num_keys) > operands.size())
    throw_error(ErrorCode::invalid_argument, "sort", "num_keys must be between 1 and the number of operands {}, not {}",
                operands.size(), o.num_keys);
  int dimension = canonical_axis("sort", o.dimension, operands[0].ndim());
  return bind_many(sort_p, operands, make_params(SortParams{dimension, o.is_stable, o.num_keys}));
}
std::pair<Array, Array> lax::sort_key_val(const Operand& keys, const Operand& values, int dimension, bool is_stable) {
  Arrays out =
      lax::sort(Arrays{keys.array, values.array}, {.dimension = dimension, .is_stable = is_stable}, keys.where);
  return {out[0], out[1]};
}
std::pair<Array, Array> lax::top_k(const Operand& operand, int k, int axis) {
  LocationScope scope(operand.where);
  axis = canonical_axis("top_k", axis, operand.array.ndim());
  Arrays out = bind_many(top_k_p, {&operand.array, 1}, make_params(TopKParams{axis, k}));
  return {out[0], out[1]};
}

namespace {

void sort_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  for (AvalP a : in) {
    if (a->shape != in[0]->shape)
      throw_error(ErrorCode::shape, "sort", "operands must have equal shapes, not {}", to_string(in));
    out.push_back(a);
  }
}
JvpOut sort_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  auto& p = params->get<SortParams>();
  int axis = static_cast<int>(p.dimension);
  Arrays in(primals.begin(), primals.end());
  in.push_back(lax::broadcasted_iota(DType::uint32, primals[0].shape(), axis));
  Arrays out = bind_many(sort_p, in, params), out_tangents;
  Array places = std::move(out.back());
  out.pop_back();
  for (const Array& t : tangents) out_tangents.push_back(t.has_value() ? take_along(t, places, axis) : Array());
  return {std::move(out), std::move(out_tangents)};
}
BatchOut sort_batch(const Params* params, const BatchIn& in) {
  SortParams p = params->get<SortParams>();
  int at = *std::find_if(in.dims.begin(), in.dims.end(), [](int d) { return d != kNotMapped; });
  Arrays args;
  for (std::size_t i = 0; i < in.args.size(); ++i) args.push_back(batch_axis_at(in.args[i], in.dims[i], in.size, at));
  if (at <= p.dimension) ++p.dimension;
  return {bind_many(sort_p, args, make_params(p)), std::vector<int>(args.size(), at)};
}

// What a key is compared by: floats with one zero and one NaN, so that the total order of their bits is the order.
std::string float_key(LowerContext& ctx, const std::string& x, AvalP type) {
  std::string compare_type = fmt::format("({0}, {0}) -> tensor<i1>", type->mlir);
  std::string zero = ctx.constant(Scalar(0.0, type->dtype));
  std::string is_zero = ctx.emit("stablehlo.compare EQ, {}, {}, FLOAT : {}", x, zero, compare_type);
  std::string one_zero = ctx.emit("stablehlo.select {}, {}, {} : tensor<i1>, {}", is_zero, zero, x, type->mlir);
  std::string is_nan = ctx.emit("stablehlo.compare NE, {0}, {0}, FLOAT : {1}", x, compare_type);
  std::string nan = ctx.constant(Scalar(std::numeric_limits<double>::quiet_NaN(), type->dtype));
  return ctx.emit("stablehlo.select {}, {}, {} : tensor<i1>, {}", is_nan, nan, one_zero, type->mlir);
}
struct Key {
  std::string x, y;
  AvalP type;
};
std::string comparator(LowerContext& ctx, std::span<const AvalP> types, std::size_t num_keys) {
  std::string head = "({\n^bb0(";
  std::vector<std::pair<std::string, std::string>> args;
  for (AvalP t : types) {
    std::string x = ctx.fresh(), y = ctx.fresh();
    fmt::format_to(std::back_inserter(head), "{}{}: {}, {}: {}", args.empty() ? "" : ", ", x, t->mlir, y, t->mlir);
    args.emplace_back(x, y);
  }
  ctx.begin_region();
  std::vector<Key> keys;
  for (std::size_t i = 0; i < num_keys; ++i) {
    auto& [x, y] = args[i];
    AvalP t = types[i];
    if (is_complex(t->dtype)) {
      AvalP part = make_aval({}, real_type(t->dtype));
      for (const char* op : {"real", "imag"}) {
        auto key = [&](const std::string& v) {
          return float_key(ctx, ctx.emit("stablehlo.{} {} : ({}) -> {}", op, v, t->mlir, part->mlir), part);
        };
        std::string kx = key(x), ky = key(y);
        keys.push_back({kx, ky, part});
      }
    } else if (is_floating(t->dtype)) {
      std::string kx = float_key(ctx, x, t), ky = float_key(ctx, y, t);
      keys.push_back({kx, ky, t});
    } else {
      keys.push_back({x, y, t});
    }
  }
  std::string less;
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    DType t = key->type->dtype;
    const char* kind = is_floating(t) ? "TOTALORDER" : is_signed_integer(t) ? "SIGNED" : "UNSIGNED";
    auto compare = [&](const char* direction) {
      return ctx.emit("stablehlo.compare {}, {}, {}, {} : ({}, {}) -> tensor<i1>", direction, key->x, key->y, kind,
                      key->type->mlir, key->type->mlir);
    };
    std::string first = compare("LT");
    if (!less.empty()) {
      std::string tie = ctx.emit("stablehlo.and {}, {} : tensor<i1>", compare("EQ"), less);
      first = ctx.emit("stablehlo.or {}, {} : tensor<i1>", first, tie);
    }
    less = first;
  }
  ctx.line(fmt::format("stablehlo.return {} : tensor<i1>", less));
  return head + "):\n" + ctx.end_region() + "})";
}
void sort_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<SortParams>();
  AvalList scalars;
  for (AvalP a : in_avals) scalars.push_back(make_aval({}, a->dtype));
  std::string region = comparator(ctx, scalars, static_cast<std::size_t>(p.num_keys));
  out =
      ctx.emit_many(in.size(), fmt::format("\"stablehlo.sort\"({}) <{{dimension = {} : i64, is_stable = {}}}> {} : {}",
                                           fmt::join(in, ", "), p.dimension, p.is_stable, region,
                                           function_type(in_avals, out_avals)));
}

void top_k_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<TopKParams>();
  check_dtype("top_k", in[0], kOrdered);
  Shape shape = in[0]->shape;
  std::int64_t& size = shape[static_cast<std::size_t>(p.axis)];
  if (p.k < 0 || p.k > size)
    throw_error(ErrorCode::shape, "top_k", "k = {} is out of range for axis {} of {}", p.k, p.axis, in[0]->text);
  size = p.k;
  out.push_back(with_shape(in[0], shape));
  out.push_back(with_dtype(with_shape(in[0], shape), DType::int32));
}
JvpOut top_k_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  Arrays out = bind_many(top_k_p, primals, params);
  Array tangent;
  if (tangents[0].has_value())
    tangent = take_along(tangents[0], out[1], static_cast<int>(params->get<TopKParams>().axis));
  return {std::move(out), {tangent, Array()}};
}
BatchOut top_k_batch(const Params* params, const BatchIn& in) {
  TopKParams p = params->get<TopKParams>();
  if (in.dims[0] <= p.axis) ++p.axis;
  return {bind_many(top_k_p, in.args, make_params(p)), {in.dims[0], in.dims[0]}};
}
void top_k_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                 std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<TopKParams>();
  int rank = in_avals[0]->rank();
  Ints swap = iota_ints(rank);
  std::swap(swap[static_cast<std::size_t>(p.axis)], swap.back());
  bool last = p.axis == rank - 1;
  auto transpose = [&](const std::string& x, const std::string& from, const std::string& to) {
    return last ? x : ctx.emit("stablehlo.transpose {}, dims = {} : ({}) -> {}", x, int_list(swap), from, to);
  };
  AvalP x = with_shape(in_avals[0], take(in_avals[0]->shape, swap));
  AvalP values = with_shape(out_avals[0], take(out_avals[0]->shape, swap));
  AvalP places = with_shape(out_avals[1], values->shape);
  std::string operand = transpose(in[0], in_avals[0]->mlir, x->mlir);
  auto both = ctx.emit_many(
      2, fmt::format("chlo.top_k({}, k = {}) : {} -> ({}, {})", operand, p.k, x->mlir, values->mlir, places->mlir));
  out.push_back(transpose(both[0], values->mlir, out_avals[0]->mlir));
  out.push_back(transpose(both[1], places->mlir, out_avals[1]->mlir));
}

}  // namespace

namespace {

std::vector<Example> sort_examples() {
  using examples::array;
  using enum DType;
  auto params = [](int dimension, int keys = 1) { return make_params(SortParams{dimension, true, keys}); };
  return {{"f32", {array({4, 3}, float32)}, params(0)},
          {"last", {array({2, 5}, float32)}, params(1)},
          {"i32", {array({6}, int32)}, params(0)},
          {"u8", {array({6}, uint8)}, params(0)},
          {"bool", {array({6}, bool_)}, params(0)},
          {"complex", {array({5}, complex64)}, params(0)},
          {"key and value", {array({4, 2}, int32), array({4, 2}, float32, {.seed = 1})}, params(0), 0, true},
          {"two keys", {array({5}, bool_), array({5}, float32), array({5}, int32)}, params(0, 2)},
          {"one", {array({1, 2}, float32)}, params(0)}};
}
std::vector<Example> top_k_examples() {
  using examples::array;
  auto params = [](int axis, int k) { return make_params(TopKParams{axis, k}); };
  return {{"last", {array({2, 5}, DType::float32)}, params(1, 2)},
          {"first", {array({5, 2}, DType::float32)}, params(0, 3)},
          {"all", {array({4}, DType::float32)}, params(0, 4)},
          {"i32", {array({6}, DType::int32)}, params(0, 2)}};
}

}  // namespace

LOCKSTEP_PRIMITIVE(sort_p, {.name = "sort",
                            .abstract_eval = sort_aval,
                            .jvp = sort_jvp,
                            .batch = sort_batch,
                            .lower = sort_lower,
                            .examples = sort_examples,
                            .multiple_results = true});
LOCKSTEP_PRIMITIVE(top_k_p, {.name = "top_k",
                             .abstract_eval = top_k_aval,
                             .jvp = top_k_jvp,
                             .batch = top_k_batch,
                             .lower = top_k_lower,
                             .examples = top_k_examples,
                             .multiple_results = true});

}  // namespace lockstep
