#include "lockstep/ops/select.h"

#include "lockstep/ops/builders.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"

namespace lockstep {

// ---- select_n ----

namespace {

void select_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  AvalP which = in[0];
  auto cases = in.subspan(1);
  if (cases.empty()) throw_error(ErrorCode::invalid_argument, "select_n", "has no cases to choose from");
  if (!is_bool(which->dtype) && !is_integer(which->dtype))
    throw_error(ErrorCode::dtype, "select_n", "chooses by {}; it must be bool or an integer", which->text);
  if (is_bool(which->dtype) && cases.size() > 2)
    throw_error(ErrorCode::invalid_argument, "select_n", "a bool ({}) chooses between 2 cases at most, got {}",
                which->text, cases.size());
  check_same_dtype("select_n", cases);
  bool weak = true;
  for (AvalP c : cases) {
    if (c->shape != cases[0]->shape)
      throw_error(ErrorCode::shape, "select_n", "cases have different shapes ({}); broadcast them first",
                  to_string(cases));
    weak = weak && c->weak_type;
  }
  if (which->rank() != 0 && which->shape != cases[0]->shape)
    throw_error(ErrorCode::shape, "select_n", "chooses by {} between {}: it must be a scalar or have their shape",
                which->text, to_string(cases));
  AvalP joined = elementwise_aval("select_n", in, cases[0]->dtype);
  out.push_back(with_dtype(joined, cases[0]->dtype, weak));
}
JvpOut select_jvp(const Params*, std::span<const Array> primals, std::span<const Array> tangents) {
  Array out = bind_one(select_n_p, primals), tangent, zero;
  Arrays with_tangents = {primals[0]};
  for (std::size_t i = 1; i < primals.size(); ++i)
    if (tangents[i].has_value() && !zero.has_value()) zero = zeros(tangents[i].aval());
  if (zero.has_value()) {
    for (std::size_t i = 1; i < primals.size(); ++i)
      with_tangents.push_back(tangents[i].has_value() ? tangents[i] : zero);
    tangent = bind_one(select_n_p, with_tangents);
  }
  return {{std::move(out)}, {std::move(tangent)}};
}
std::vector<Array> select_transpose(const Params*, std::span<const Array> cotangents, std::span<const TransposeIn> in) {
  std::vector<Array> out(in.size());
  const Array &ct = cotangents[0], &which = in[0].value;
  if (!ct.has_value()) return out;
  Array zero = zeros(ct.aval());
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (!in[i].linear()) continue;
    if (in.size() == 2)
      out[i] = ct;
    else if (is_bool(which.dtype()))
      out[i] = i == 1 ? lax::select(which, zero, ct) : lax::select(which, ct, zero);
    else
      out[i] = lax::select(lax::eq(which, scalar_like(which, static_cast<double>(i - 1))), ct, zero);
  }
  return out;
}
BatchOut select_batch(const Params*, const BatchIn& in) {
  Arrays args(in.args.begin(), in.args.end());
  const Array& first = args[1];
  bool cases_mapped_alike = true;
  for (std::size_t i = 1; i < args.size(); ++i)
    cases_mapped_alike = cases_mapped_alike && in.dims[i] == in.dims[1] && in.dims[i] != kNotMapped;
  if (cases_mapped_alike && (in.dims[0] == in.dims[1] || (in.dims[0] == kNotMapped && args[0].ndim() == 0))) {
    if (args[0].ndim() != 0 && args[0].shape() != first.shape())
      args[0] = lax::broadcast_in_dim(args[0], first.shape(), {in.dims[0]});
    return {{bind_one(select_n_p, args)}, {in.dims[1]}};
  }
  bool scalar_choice = args[0].ndim() == 0;
  if (!scalar_choice) args[0] = batch_axis_at_front(args[0], in.dims[0], in.size);
  for (std::size_t i = 1; i < args.size(); ++i) args[i] = batch_axis_at_front(args[i], in.dims[i], in.size);
  if (!scalar_choice && args[0].ndim() < args[1].ndim()) args[0] = lax::broadcast_in_dim(args[0], args[1].shape(), {0});
  return {{bind_one(select_n_p, args)}, {0}};
}
// Cases [first, first + count) by halving.
std::string lower_cases(LowerContext& ctx, const std::string& which, AvalP which_aval, AvalP out_aval,
                        std::span<const std::string> cases, std::int64_t first) {
  if (cases.size() == 1) return cases[0];
  std::size_t half = cases.size() / 2;
  AvalP pred = make_aval(which_aval->shape, DType::bool_);
  std::string limit = ctx.constant(Scalar(first + static_cast<std::int64_t>(half), which_aval->dtype), which_aval);
  std::string lower = ctx.emit("stablehlo.compare LT, {}, {}, {} : ({}, {}) -> {}", which, limit,
                               is_signed_integer(which_aval->dtype) ? "SIGNED" : "UNSIGNED", which_aval->mlir,
                               which_aval->mlir, pred->mlir);
  std::string a = lower_cases(ctx, which, which_aval, out_aval, cases.first(half), first);
  std::string b =
      lower_cases(ctx, which, which_aval, out_aval, cases.subspan(half), first + static_cast<std::int64_t>(half));
  return ctx.emit("stablehlo.select {}, {}, {} : {}, {}", lower, a, b, pred->mlir, out_aval->mlir);
}
void select_lower(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                  std::span<const std::string> in, std::vector<std::string>& out) {
  auto cases = in.subspan(1);
  if (!is_bool(in_avals[0]->dtype))
    out.push_back(lower_cases(ctx, in[0], in_avals[0], out_avals[0], cases, 0));
  else if (cases.size() == 1)
    out.push_back(cases[0]);
  else
    out.push_back(ctx.emit("stablehlo.select {}, {}, {} : {}, {}", in[0], cases[1], cases[0], in_avals[0]->mlir,
                           out_avals[0]->mlir));
}
std::vector<Example> select_examples() {
  using examples::array;
  auto example = [](Shape which, DType which_type, Shape shape, DType t, int cases) {
    Example e;
    e.in.push_back(which_type == DType::bool_ ? array(which, which_type)
                                              : array(which, which_type, {.low = 0, .high = double(cases)}));
    for (int i = 0; i < cases; ++i) e.in.push_back(is_inexact(t) ? array(shape, t, {.seed = i + 1}) : array(shape, t));
    for (auto& operand : e.in) e.label += (e.label.empty() ? "" : ", ") + operand.aval->text;
    return e;
  };
  return {
      example({}, DType::bool_, {}, DType::float32, 2),         example({}, DType::bool_, {2, 3}, DType::float32, 2),
      example({2, 3}, DType::bool_, {2, 3}, DType::float32, 2), example({3}, DType::bool_, {3}, DType::complex64, 2),
      example({3}, DType::bool_, {3}, DType::int32, 2),         example({2}, DType::bool_, {2}, DType::bool_, 2),
      example({0}, DType::bool_, {0}, DType::bfloat16, 2),      example({5}, DType::int32, {5}, DType::float32, 3),
      example({}, DType::int32, {2, 3}, DType::float32, 4),     example({3}, DType::bool_, {3}, DType::float32, 1),
      example({4}, DType::uint8, {4}, DType::uint8, 5)};
}

}  // namespace
Array lax::select(const Operand& pred, const Operand& on_true, const Operand& on_false) {
  LocationScope scope(pred.where);
  Array cases[] = {on_false.array, on_true.array};
  adopt_dtypes(cases);
  return bind_one(select_n_p, {pred.array, cases[0], cases[1]});
}
Array lax::select_n(const Operand& which, std::span<const Array> cases) {
  LocationScope scope(which.where);
  Arrays operands = {which.array};
  operands.insert(operands.end(), cases.begin(), cases.end());
  adopt_dtypes(std::span(operands).subspan(1));
  return bind_one(select_n_p, operands);
}
LOCKSTEP_PRIMITIVE(select_n_p, {.name = "select_n",
                                .abstract_eval = select_aval,
                                .jvp = select_jvp,
                                .transpose = select_transpose,
                                .batch = select_batch,
                                .lower = select_lower,
                                .examples = select_examples});

// ---- clamp ----

namespace {

void clamp_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  for (AvalP a : in) check_dtype("clamp", a, kAny);
  check_same_dtype("clamp", in);
  for (AvalP limit : {in[0], in[2]})
    if (limit->rank() != 0 && limit->shape != in[1]->shape)
      throw_error(ErrorCode::shape, "clamp", "a limit is {}; it must be a scalar or have the shape of {}", limit->text,
                  in[1]->text);
  out.push_back(elementwise_aval("clamp", in, in[1]->dtype));
}
Array passes(In condition, In g, In x) {
  return lax::select(condition, broadcast_operand(g, x.shape()), zeros(x.aval()));
}
BatchOut clamp_batch(const Params*, const BatchIn& in) {
  Arrays args(in.args.begin(), in.args.end());
  bool same = in.dims[0] == in.dims[1] && in.dims[2] == in.dims[1] && args[0].shape() == args[1].shape() &&
              args[2].shape() == args[1].shape();
  bool scalar_limits = args[0].ndim() == 0 && args[2].ndim() == 0 && in.dims[1] != kNotMapped;
  if (same || scalar_limits) return {{bind_one(clamp_p, args)}, {in.dims[1]}};
  args[1] = batch_axis_at_front(args[1], in.dims[1], in.size);
  for (std::size_t i : {0, 2}) {
    if (args[i].ndim() == 0) continue;
    args[i] = batch_axis_at_front(args[i], in.dims[i], in.size);
    if (args[i].ndim() < args[1].ndim()) args[i] = lax::broadcast_in_dim(args[i], args[1].shape(), {0});
  }
  return {{bind_one(clamp_p, args)}, {0}};
}
std::vector<Example> clamp_examples() {
  using examples::array;
  auto example = [](Shape limits, Shape shape, DType t) {
    bool number = is_inexact(t);
    auto operand = [&](Shape s, double low, double high, int seed) {
      return number ? array(s, t, {low, high, seed}) : array(s, t, {std::max(low, 0.0) * 3, high * 3, seed});
    };
    Example e;
    e.in = {operand(limits, -1, 0.2, 1), operand(shape, -2, 2, 2), operand(limits, 0.4, 1.5, 3)};
    for (auto& o : e.in) e.label += (e.label.empty() ? "" : ", ") + o.aval->text;
    return e;
  };
  return {example({}, {}, DType::float32),         example({}, {2, 3}, DType::float32),
          example({2, 3}, {2, 3}, DType::float32), example({}, {0}, DType::float32),
          example({3}, {3}, DType::bfloat16),      example({}, {5}, DType::int32),
          example({4}, {4}, DType::uint8)};
}

}  // namespace
Array lax::clamp(const Operand& min, const Operand& x, const Operand& max) {
  LocationScope scope(min.where);
  Array operands[] = {min.array, x.array, max.array};
  adopt_dtypes(operands);
  return bind_one(clamp_p, operands);
}
LOCKSTEP_PRIMITIVE(clamp_p,
                   {.name = "clamp",
                    .abstract_eval = clamp_aval,
                    .jvp = rules::jvp<clamp_p,
                                      [](In g, In, In min, In x, In max) {
                                        Array below = lax::gt(min, x);
                                        return passes(lax::bitwise_and(below, lax::lt(min, max)), g, x);
                                      },
                                      [](In g, In, In min, In x, In max) {
                                        Array above = lax::gt(x, min);
                                        return passes(lax::bitwise_and(above, lax::lt(x, max)), g, x);
                                      },
                                      [](In g, In, In, In x, In max) { return passes(lax::lt(max, x), g, x); }>,
                    .batch = clamp_batch,
                    .lower = rules::lower_nary<"stablehlo.clamp">,
                    .examples = clamp_examples});

}  // namespace lockstep
