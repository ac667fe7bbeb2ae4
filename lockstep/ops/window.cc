#include "lockstep/ops/window.h"

#include "lockstep/core/basic_ops.h"
#include "lockstep/ops/axes.h"
#include "lockstep/ops/builders.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/reducers.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/ops/window_rules.h"
#include "lockstep/trace/trace.h"

namespace lockstep {

std::int64_t lax::dilate_dim(std::int64_t size, std::int64_t dilation) {
  return size == 0 ? 0 : 1 + dilation * (size - 1);
}
std::int64_t lax::stride_dim(std::int64_t size, std::int64_t window, std::int64_t stride) {
  return size < window ? 0 : 1 + (size - window) / stride;
}
lax::PaddingPairs lax::padding_pairs(const char* operation, const Padding& padding, const Shape& sizes,
                                     const Shape& window, const Ints& strides) {
  if (padding.name.empty()) return padding.pairs;
  PaddingPairs pairs;
  bool lower = padding.name == "SAME_LOWER";
  if (!lower && padding.name != "SAME" && padding.name != "VALID")
    throw_error(ErrorCode::invalid_argument, operation, "padding \"{}\" is none of VALID, SAME, SAME_LOWER",
                padding.name);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (padding.name == "VALID") {
      pairs.emplace_back(0, 0);
      continue;
    }
    std::int64_t out = (sizes[i] + strides[i] - 1) / strides[i];
    std::int64_t total = std::max<std::int64_t>(0, (out - 1) * strides[i] + window[i] - sizes[i]);
    std::int64_t low = lower ? total - total / 2 : total / 2;
    pairs.emplace_back(low, total - low);
  }
  return pairs;
}

namespace {

Shape dilate(const Shape& sizes, const Ints& dilation) {
  Shape out = sizes;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = lax::dilate_dim(out[i], dilation[i]);
  return out;
}

enum class SelectPrim { ge, le };
void print_param(Printer& p, SelectPrim s) { print_text(p, s == SelectPrim::ge ? "ge" : "le"); }

struct GeneralWindowParams {
  Ints base_dilation;
  std::vector<None> consts;
  ClosedJaxpr jaxpr;
  lax::PaddingPairs padding;
  Ints window_dilation;
  Shape window_dimensions;
  Ints window_strides;

  WindowParams window() const { return {base_dilation, padding, window_dilation, window_dimensions, window_strides}; }
};
struct GatherParams {
  Ints base_dilation;
  lax::PaddingPairs padding;
  SelectPrim select_prim;
  Ints window_dilation;
  Shape window_dimensions;
  Ints window_strides;

  WindowParams window() const { return {base_dilation, padding, window_dilation, window_dimensions, window_strides}; }
};
struct ScatterParams {
  lax::PaddingPairs padding;
  SelectPrim select_prim;
  Shape window_dimensions;
  Ints window_strides;

  WindowParams window() const {
    Ints ones = Shape::filled(window_dimensions.size(), 1);
    return {ones, padding, ones, window_dimensions, window_strides};
  }
};
GeneralWindowParams general(const WindowParams& w, ClosedJaxpr jaxpr) {
  return {w.base_dilation, {}, std::move(jaxpr), w.padding, w.window_dilation, w.window_dimensions, w.window_strides};
}
GatherParams gather_of(const WindowParams& w, SelectPrim s) {
  return {w.base_dilation, w.padding, s, w.window_dilation, w.window_dimensions, w.window_strides};
}
ScatterParams scatter_of(const WindowParams& w, SelectPrim s) {
  return {w.padding, s, w.window_dimensions, w.window_strides};
}
// The same windows over an array with one more dimension, of which each window holds one element.
WindowParams with_dim(WindowParams p, int dim) {
  p.base_dilation = p.base_dilation.with(dim, 1);
  p.window_dilation = p.window_dilation.with(dim, 1);
  p.window_dimensions = p.window_dimensions.with(dim, 1);
  p.window_strides = p.window_strides.with(dim, 1);
  p.padding.insert(p.padding.begin() + dim, {0, 0});
  return p;
}

// A reducer given as a function of flat arrays, bound as the generic primitive.
Arrays bind_general(std::span<const Array> operands, std::span<const Array> inits, const Reducer& reducer,
                    const WindowParams& window) {
  AvalList avals;
  for (const Array& a : operands) avals.push_back(a.aval());
  Arrays in(operands.begin(), operands.end());
  in.insert(in.end(), inits.begin(), inits.end());
  return bind_many(reduce_window_p, in, make_params(general(window, trace_reducer(reducer, avals, "reduce_window"))));
}

}  // namespace

Array lax::reduce_window(const Operand& operand, const Operand& init_value, const BinaryFunction& computation,
                         const Shape& window_dimensions, const ReduceWindowOptions& o) {
  LocationScope scope(operand.where);
  const Array& x = operand.array;
  Array init = init_value.array.weak_type() ? convert(init_value.array, x.dtype()) : init_value.array;
  if (window_dimensions.size() != x.shape().size())
    throw_error(ErrorCode::shape, "reduce_window", "needs one window dimension for each dimension of {}, not {}",
                x.aval()->text, to_tuple_string(window_dimensions));
  Ints ones = Shape::filled(window_dimensions.size(), 1);
  WindowParams p{o.base_dilation.value_or(ones),
                 {},
                 o.window_dilation.value_or(ones),
                 window_dimensions,
                 o.window_strides.value_or(ones)};
  if (p.window_strides.size() == ones.size() && p.window_dilation.size() == ones.size())
    p.padding = padding_pairs("reduce_window", o.padding, x.shape(), dilate(window_dimensions, p.window_dilation),
                              p.window_strides);
  switch (init.dtype() == x.dtype() ? monoid_of(computation, init) : Monoid::none) {
    case Monoid::add:
      return bind_one(reduce_window_sum_p, {x}, make_params(p));
    case Monoid::max:
      return bind_one(reduce_window_max_p, {x}, make_params(p));
    case Monoid::min:
      return bind_one(reduce_window_min_p, {x}, make_params(p));
    default:
      break;
  }
  Reducer reducer = [&](auto a, auto b) {
    UserCode user;
    return Arrays{computation(a[0], b[0])};
  };
  return bind_general({&x, 1}, {&init, 1}, reducer, p)[0];
}

Shape window_result_shape(const char* operation, AvalP operand, const WindowParams& p) {
  std::size_t n = operand->shape.size();
  if (p.window_dimensions.size() != n || p.window_strides.size() != n || p.base_dilation.size() != n ||
      p.window_dilation.size() != n || p.padding.size() != n)
    throw_error(ErrorCode::shape, operation,
                "window_dimensions {}, window_strides {}, dilations {} and {} and padding must have one entry for each "
                "dimension of {}",
                to_tuple_string(p.window_dimensions), to_tuple_string(p.window_strides),
                to_tuple_string(p.base_dilation), to_tuple_string(p.window_dilation), operand->text);
  for (std::size_t i = 0; i < n; ++i)
    if (p.window_dimensions[i] < 1 || p.window_strides[i] < 1 || p.base_dilation[i] < 1 || p.window_dilation[i] < 1)
      throw_error(ErrorCode::shape, operation, "window dimensions, strides and dilations must be positive");
  Shape out = dilate(operand->shape, p.base_dilation), window = dilate(p.window_dimensions, p.window_dilation);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = lax::stride_dim(out[i] + p.padding[i].first + p.padding[i].second, window[i], p.window_strides[i]);
  return out;
}
lax::PaddingPairs vjp_lhs_padding(const Shape& in, const Shape& window, const Ints& strides, const Shape& out,
                                  const lax::PaddingPairs& padding, const Ints& lhs_dilation,
                                  const Ints& rhs_dilation) {
  lax::PaddingPairs pairs;
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::int64_t rhs = lax::dilate_dim(window[i], rhs_dilation[i]), before = rhs - padding[i].first - 1;
    pairs.emplace_back(
        before, lax::dilate_dim(in[i], lhs_dilation[i]) + rhs - 1 - lax::dilate_dim(out[i], strides[i]) - before);
  }
  return pairs;
}
std::vector<std::string> emit_reduce_window(LowerContext& ctx, const ClosedJaxpr& reducer, const WindowParams& p,
                                            std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                                            std::span<const std::string> in, std::span<const std::string> inits) {
  AvalList types(in_avals.begin(), in_avals.end());
  for (AvalP a : in_avals) types.push_back(make_aval({}, a->dtype));
  std::string padding;
  for (auto [low, high] : p.padding) padding += fmt::format("{}[{}, {}]", padding.empty() ? "" : ", ", low, high);
  padding = p.padding.empty() ? "dense<> : tensor<0x2xi64>"
                              : fmt::format("dense<[{}]> : tensor<{}x2xi64>", padding, p.padding.size());
  std::string region = reducer_region(ctx, reducer);
  return ctx.emit_many(
      out_avals.size(),
      fmt::format("\"stablehlo.reduce_window\"({}, {}) <{{base_dilations = {}, padding = {}, window_dilations = {}, "
                  "window_dimensions = {}, window_strides = {}}}> {} : {}",
                  fmt::join(in, ", "), fmt::join(inits, ", "), i64_array(p.base_dilation), padding,
                  i64_array(p.window_dilation), i64_array(p.window_dimensions), i64_array(p.window_strides), region,
                  function_type(types, out_avals)));
}

// ---- sum, max, min ----

namespace {

template <const Primitive& P, DTypes kAccepted>
void window_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  check_dtype(P.name, in[0], kAccepted);
  out.push_back(with_shape(in[0], window_result_shape(P.name, in[0], params->get<WindowParams>())));
}
template <const Primitive& P>
BatchOut window_batch(const Params* params, const BatchIn& in) {
  WindowParams p = with_dim(params->get<WindowParams>(), in.dims[0]);
  return {{bind_one(P, {in.args[0]}, make_params(std::move(p)))}, {in.dims[0]}};
}
std::vector<Array> window_sum_transpose(const Params* params, std::span<const Array> cotangents,
                                        std::span<const TransposeIn> in) {
  WindowParams p = params->get<WindowParams>();
  const Array& ct = cotangents[0];
  if (!ct.has_value()) return {Array()};
  auto pads = vjp_lhs_padding(in[0].aval->shape, p.window_dimensions, p.window_strides, ct.shape(), p.padding,
                              p.base_dilation, p.window_dilation);
  lax::PaddingConfig config;
  for (std::size_t i = 0; i < pads.size(); ++i)
    config.push_back({pads[i].first, pads[i].second, p.window_strides[i] - 1});
  Array padded = lax::pad(ct, scalar_like(ct, 0.0), config);
  p.window_strides = p.base_dilation;
  p.base_dilation = Shape::filled(pads.size(), 1);
  p.padding.assign(pads.size(), {0, 0});
  return {bind_one(reduce_window_sum_p, {padded}, make_params(std::move(p)))};
}
template <const Primitive& P, SelectPrim kSelect>
JvpOut window_chooser_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  Array ans = bind_one(P, {primals[0]}, params);
  if (!tangents[0].has_value()) return {{ans}, {Array()}};
  return {{ans},
          {bind_one(select_and_gather_add_p, {tangents[0], primals[0]},
                    make_params(gather_of(params->get<WindowParams>(), kSelect)))}};
}
template <Array (*kReducer)(const Array&, const Array&), Scalar (*kIdentity)(DType)>
void window_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                  std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  AvalP element = make_aval({}, in_avals[0]->dtype);
  auto reducer = trace_reducer([](auto a, auto b) { return Arrays{kReducer(a[0], b[0])}; }, {&element, 1}, "reducer");
  std::string init = ctx.constant(kIdentity(element->dtype), element);
  out = emit_reduce_window(ctx, reducer, params->get<WindowParams>(), in_avals, out_avals, in, {&init, 1});
}
Scalar zero_of(DType t) { return Scalar(std::int64_t{0}, t); }

}  // namespace

namespace {

WindowParams windows(Shape window, Ints strides, lax::PaddingPairs padding, Ints base = {1, 1},
                     Ints dilation = {1, 1}) {
  return {std::move(base), std::move(padding), std::move(dilation), std::move(window), std::move(strides)};
}
template <DTypes kAccepted>
std::vector<Example> window_examples() {
  std::vector<Example> out;
  for (DType t : {DType::float32, DType::int32}) {
    if (!accepts(kAccepted, t)) continue;
    auto add = [&](const char* label, WindowParams p) {
      out.push_back(
          {fmt::format("{} {}", short_name(t), label), {examples::array({4, 5}, t)}, make_params(std::move(p))});
    };
    add("plain", windows({2, 2}, {1, 1}, {{0, 0}, {0, 0}}));
    add("strided, padded", windows({2, 3}, {2, 1}, {{0, 0}, {1, 1}}));
    add("holes", windows({2, 1}, {1, 2}, {{1, 0}, {0, 0}}, {2, 1}));
  }
  return out;
}
std::vector<Example> select_gather_examples() {
  ExampleOperand t = examples::array({4, 5}, DType::float32, {.seed = 1}), x = examples::array({4, 5}, DType::float32);
  return {{"max", {t, x}, make_params(gather_of(windows({2, 2}, {2, 1}, {{0, 0}, {0, 0}}), SelectPrim::ge))},
          {"min", {t, x}, make_params(gather_of(windows({2, 2}, {1, 1}, {{0, 1}, {1, 0}}), SelectPrim::le))}};
}
std::vector<Example> select_scatter_examples() {
  ExampleOperand x = examples::array({4, 5}, DType::float32);
  auto source = [](Shape shape) { return examples::array(std::move(shape), DType::float32, {.seed = 1}); };
  return {
      {"max", {source({2, 4}), x}, make_params(scatter_of(windows({2, 2}, {2, 1}, {{0, 0}, {0, 0}}), SelectPrim::ge))},
      {"min", {source({4, 5}), x}, make_params(scatter_of(windows({2, 2}, {1, 1}, {{0, 1}, {1, 0}}), SelectPrim::le))}};
}

}  // namespace

LOCKSTEP_PRIMITIVE(reduce_window_sum_p, {.name = "reduce_window_sum",
                                         .abstract_eval = window_aval<reduce_window_sum_p, kNumber>,
                                         .jvp = rules::jvp_linear<reduce_window_sum_p>,
                                         .transpose = window_sum_transpose,
                                         .batch = window_batch<reduce_window_sum_p>,
                                         .lower = window_lower<reducer_add, zero_of>,
                                         .examples = window_examples<kNumber>});
LOCKSTEP_PRIMITIVE(reduce_window_max_p, {.name = "reduce_window_max",
                                         .abstract_eval = window_aval<reduce_window_max_p, kOrdered>,
                                         .jvp = window_chooser_jvp<reduce_window_max_p, SelectPrim::ge>,
                                         .batch = window_batch<reduce_window_max_p>,
                                         .lower = window_lower<reducer_max, min_value>,
                                         .examples = window_examples<kFloat | kInt>});
LOCKSTEP_PRIMITIVE(reduce_window_min_p, {.name = "reduce_window_min",
                                         .abstract_eval = window_aval<reduce_window_min_p, kOrdered>,
                                         .jvp = window_chooser_jvp<reduce_window_min_p, SelectPrim::le>,
                                         .batch = window_batch<reduce_window_min_p>,
                                         .lower = window_lower<reducer_min, max_value>,
                                         .examples = window_examples<kFloat | kInt>});

// ---- any computation ----

namespace {

void general_window_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  WindowParams p = params->get<GeneralWindowParams>().window();
  std::size_t n = in.size() / 2;
  for (std::size_t i = 0; i < n; ++i) {
    if (in[i]->shape != in[0]->shape)
      throw_error(ErrorCode::shape, "reduce_window", "operands must have equal shapes, not {} and {}", in[0]->text,
                  in[i]->text);
    if (in[n + i]->rank() != 0 || in[n + i]->dtype != in[i]->dtype)
      throw_error(ErrorCode::shape, "reduce_window", "the initial value of {} must be a scalar of its type, not {}",
                  in[i]->text, in[n + i]->text);
    AvalP computed = params->get<GeneralWindowParams>().jaxpr->out_avals()[i];
    if (computed->rank() != 0 || computed->dtype != in[i]->dtype)
      throw_error(ErrorCode::dtype, "reduce_window", "the computation must return a scalar of type {}, not {}",
                  name(in[i]->dtype), computed->text);
    out.push_back(strong(with_shape(in[i], window_result_shape("reduce_window", in[i], p))));
  }
}
JvpOut general_window_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  auto& p = params->get<GeneralWindowParams>();
  std::size_t n = primals.size() / 2;
  for (const Array& t : tangents.subspan(n))
    if (t.has_value())
      throw_error(ErrorCode::invalid_argument, "reduce_window",
                  "cannot be differentiated with respect to its initial values; wrap them in stop_gradient");
  Arrays operands(primals.begin(), primals.begin() + static_cast<std::ptrdiff_t>(n));
  Arrays inits(primals.begin() + static_cast<std::ptrdiff_t>(n), primals.end());
  for (std::size_t i = 0; i < n; ++i) {
    operands.push_back(instantiate_zeros(tangents[i], primals[i].aval()));
    inits.push_back(zeros(inits[i].aval()));
  }
  Reducer reducer = [&](std::span<const Array> a, std::span<const Array> b) {
    JvpTrace trace("reduce_window", nullptr);
    Arrays duals;
    for (auto side : {a, b})
      for (std::size_t i = 0; i < n; ++i) duals.push_back(trace.dual(side[i], side[n + i]));
    Arrays outs, out_tangents;
    for (const Array& r : eval_jaxpr(p.jaxpr, duals)) {
      auto [primal, tangent] = trace.split(r);
      outs.push_back(primal);
      out_tangents.push_back(instantiate_zeros(tangent, primal.aval()));
    }
    outs.insert(outs.end(), out_tangents.begin(), out_tangents.end());
    return outs;
  };
  Arrays both = bind_general(operands, inits, reducer, p.window());
  auto middle = both.begin() + static_cast<std::ptrdiff_t>(n);
  return {Arrays(both.begin(), middle), Arrays(middle, both.end())};
}
BatchOut general_window_batch(const Params* params, const BatchIn& in) {
  auto& p = params->get<GeneralWindowParams>();
  std::size_t n = in.args.size() / 2;
  Arrays args;
  for (std::size_t i = 0; i < in.args.size(); ++i) {
    if (i >= n && in.dims[i] != kNotMapped)
      throw_error(ErrorCode::missing_rule, "reduce_window", "cannot be mapped over its initial values");
    args.push_back(i < n ? batch_axis_at_front(in.args[i], in.dims[i], in.size) : in.args[i]);
  }
  return {bind_many(reduce_window_p, args, make_params(general(with_dim(p.window(), 0), p.jaxpr))),
          std::vector<int>(n, 0)};
}
void general_window_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                          std::span<const AvalP> out_avals, std::span<const std::string> in,
                          std::vector<std::string>& out) {
  auto& p = params->get<GeneralWindowParams>();
  std::size_t n = in.size() / 2;
  out = emit_reduce_window(ctx, p.jaxpr, p.window(), in_avals.first(n), out_avals, in.first(n), in.subspan(n));
}

}  // namespace

LOCKSTEP_PRIMITIVE(reduce_window_p, {.name = "reduce_window",
                                     .abstract_eval = general_window_aval,
                                     .jvp = general_window_jvp,
                                     .batch = general_window_batch,
                                     .lower = general_window_lower,
                                     .multiple_results = true});

// ---- derivatives of max and min ----

namespace {

Scalar identity_of(SelectPrim s, DType t) { return s == SelectPrim::ge ? min_value(t) : max_value(t); }
Array prefer(SelectPrim s, const Array& a, const Array& b) {
  return s == SelectPrim::ge ? lax::ge(a, b) : lax::le(a, b);
}

// Of (tangents, operand): the tangent at the chosen place of each window.
void select_gather_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  if (in[0]->shape != in[1]->shape)
    throw_error(ErrorCode::shape, "select_and_gather_add", "operands must have equal shapes, not {} and {}",
                in[0]->text, in[1]->text);
  out.push_back(
      with_shape(in[0], window_result_shape("select_and_gather_add", in[1], params->get<GatherParams>().window())));
}
std::vector<Array> select_gather_transpose(const Params* params, std::span<const Array> cotangents,
                                           std::span<const TransposeIn> in) {
  auto& p = params->get<GatherParams>();
  if (!cotangents[0].has_value()) return {Array(), Array()};
  Ints ones = Shape::filled(p.window_dilation.size(), 1);
  if (p.window_dilation != ones)
    throw_error(ErrorCode::missing_rule, "reduce_window",
                "max and min cannot be differentiated with window_dilation {}", to_tuple_string(p.window_dilation));
  Array operand = in[1].value;
  bool dilated = p.base_dilation != ones;
  if (dilated) {
    lax::PaddingConfig holes;
    for (auto d : p.base_dilation) holes.push_back({0, 0, d - 1});
    operand = lax::pad(operand, scalar_like(operand, identity_of(p.select_prim, operand.dtype())), holes);
  }
  Array out =
      bind_one(select_and_scatter_add_p, {cotangents[0], operand}, make_params(scatter_of(p.window(), p.select_prim)));
  if (dilated) out = lax::slice(out, Shape::filled(ones.size(), 0), out.shape(), p.base_dilation);
  return {out, Array()};
}
BatchOut select_gather_batch(const Params* params, const BatchIn& in) {
  auto& p = params->get<GatherParams>();
  Array t = batch_axis_at_front(in.args[0], in.dims[0], in.size);
  Array x = batch_axis_at_front(in.args[1], in.dims[1], in.size);
  return {{bind_one(select_and_gather_add_p, {t, x}, make_params(gather_of(with_dim(p.window(), 0), p.select_prim)))},
          {0}};
}
void select_gather_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                         std::span<const AvalP> out_avals, std::span<const std::string> in,
                         std::vector<std::string>& out) {
  auto& p = params->get<GatherParams>();
  AvalP avals[2] = {in_avals[1], in_avals[0]};
  auto reducer = trace_reducer(
      [&](auto a, auto b) {
        Array first = prefer(p.select_prim, a[0], b[0]);
        return Arrays{lax::select(first, a[0], b[0]), lax::select(first, a[1], b[1])};
      },
      avals, "reducer");
  AvalP results[2] = {make_aval(out_avals[0]->shape, in_avals[1]->dtype), out_avals[0]};
  std::string inits[2] = {ctx.constant(identity_of(p.select_prim, in_avals[1]->dtype)),
                          ctx.constant(zero_of(in_avals[0]->dtype))};
  std::string operands[2] = {in[1], in[0]};
  out.push_back(emit_reduce_window(ctx, reducer, p.window(), avals, results, operands, inits)[1]);
}

// Of (source, operand): each element of the source added at the chosen place of its window.
void select_scatter_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  Shape windows = window_result_shape("select_and_scatter_add", in[1], params->get<ScatterParams>().window());
  if (in[0]->shape != windows)
    throw_error(ErrorCode::shape, "select_and_scatter_add", "the source {} must have one element for each window: {}",
                in[0]->text, to_string(windows));
  out.push_back(with_dtype(in[1], in[0]->dtype));
}
std::vector<Array> select_scatter_transpose(const Params* params, std::span<const Array> cotangents,
                                            std::span<const TransposeIn> in) {
  auto& p = params->get<ScatterParams>();
  if (!cotangents[0].has_value()) return {Array(), Array()};
  return {bind_one(select_and_gather_add_p, {cotangents[0], in[1].value},
                   make_params(gather_of(p.window(), p.select_prim))),
          Array()};
}
BatchOut select_scatter_batch(const Params* params, const BatchIn& in) {
  auto& p = params->get<ScatterParams>();
  Array source = batch_axis_at_front(in.args[0], in.dims[0], in.size);
  Array x = batch_axis_at_front(in.args[1], in.dims[1], in.size);
  return {{bind_one(select_and_scatter_add_p, {source, x},
                    make_params(scatter_of(with_dim(p.window(), 0), p.select_prim)))},
          {0}};
}
// XLA's CPU backend cannot pad here: the operand is padded before, and the result cut afterwards.
void select_scatter_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                          std::span<const AvalP> out_avals, std::span<const std::string> in,
                          std::vector<std::string>& out) {
  auto& p = params->get<ScatterParams>();
  AvalP x = in_avals[1];
  lax::PaddingConfig pads;
  Ints start, stop;
  Shape padded_shape = x->shape;
  for (std::size_t i = 0; i < p.padding.size(); ++i) {
    auto [low, high] = p.padding[i];
    pads.push_back({low, high, 0});
    start.push_back(low);
    stop.push_back(low + x->shape[i]);
    padded_shape[i] += low + high;
  }
  auto pad = trace_to_jaxpr(
      [&](std::span<const Array> a) {
        return Arrays{lax::pad(a[0], scalar(identity_of(p.select_prim, x->dtype), x->dtype), pads)};
      },
      {&x, 1}, "pad");
  std::string operand = ctx.inline_jaxpr(pad, {&in[1], 1})[0];
  AvalP padded = make_aval(padded_shape, x->dtype), element = make_aval({}, x->dtype);
  AvalP scalar_out = make_aval({}, out_avals[0]->dtype), whole = make_aval(padded_shape, out_avals[0]->dtype);
  auto select =
      trace_reducer([&](auto a, auto b) { return Arrays{prefer(p.select_prim, a[0], b[0])}; }, {&element, 1}, "select");
  auto scatter = trace_reducer([](auto a, auto b) { return Arrays{reducer_add(a[0], b[0])}; }, {&scalar_out, 1}, "add");
  std::string zero = ctx.constant(zero_of(scalar_out->dtype), scalar_out);
  std::string select_text = reducer_region(ctx, select), scatter_text = reducer_region(ctx, scatter);
  // Both regions stand in one pair of parentheses.
  select_text.pop_back();
  scatter_text.erase(0, 1);
  AvalP types[3] = {padded, in_avals[0], scalar_out};
  std::string result = ctx.emit(
      "\"stablehlo.select_and_scatter\"({}, {}, {}) <{{window_dimensions = {}, window_strides = {}}}> {}, {} : {}",
      operand, in[0], zero, i64_array(p.window_dimensions), i64_array(p.window_strides), select_text, scatter_text,
      function_type(types, {&whole, 1}));
  auto cut = trace_to_jaxpr([&](std::span<const Array> a) { return Arrays{lax::slice(a[0], start, stop)}; },
                            {&whole, 1}, "cut");
  out.push_back(ctx.inline_jaxpr(cut, {&result, 1})[0]);
}

}  // namespace

LOCKSTEP_PRIMITIVE(select_and_gather_add_p, {.name = "select_and_gather_add",
                                             .abstract_eval = select_gather_aval,
                                             .jvp = rules::jvp_linear_in_first<select_and_gather_add_p>,
                                             .transpose = select_gather_transpose,
                                             .batch = select_gather_batch,
                                             .lower = select_gather_lower,
                                             .examples = select_gather_examples});
LOCKSTEP_PRIMITIVE(select_and_scatter_add_p, {.name = "select_and_scatter_add",
                                              .abstract_eval = select_scatter_aval,
                                              .jvp = rules::jvp_linear_in_first<select_and_scatter_add_p>,
                                              .transpose = select_scatter_transpose,
                                              .batch = select_scatter_batch,
                                              .lower = select_scatter_lower,
                                              .examples = select_scatter_examples});

}  // namespace lockstep
