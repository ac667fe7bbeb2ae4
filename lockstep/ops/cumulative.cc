#include "lockstep/ops/cumulative.h"

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
namespace {

struct CumulativeParams {
  std::int64_t axis;
  bool reverse;
};
Array bind_cumulative(const Primitive& primitive, const Operand& x, int axis, bool reverse) {
  LocationScope scope(x.where);
  return bind_one(primitive, {x.array}, make_params(CumulativeParams{axis, reverse}));
}

// even[0], odd[0], even[1], odd[1], ...
Array interleave(const Array& even, const Array& odd, int axis) {
  bool same = even.shape(axis) == odd.shape(axis);
  auto spread = [&](const Array& a, std::int64_t low, std::int64_t high) {
    lax::PaddingConfig padding(static_cast<std::size_t>(a.ndim()));
    padding[static_cast<std::size_t>(axis)] = {low, high, 1};
    return lax::pad(a, scalar_like(a, 0.0), padding);
  };
  Array a = spread(even, 0, same ? 1 : 0), b = spread(odd, 1, same ? 0 : 1);
  return is_bool(a.dtype()) ? lax::bitwise_or(a, b) : lax::add(a, b);
}
// Combines neighbours, scans the pairs, which gives the odd places, and combines once more for the even ones.
Arrays scan_pairs(const lax::CombineFunction& fn, const Arrays& elems, int axis) {
  std::int64_t n = elems[0].shape(axis);
  if (n < 2) return elems;
  auto part = [&](const Arrays& from, std::int64_t start, std::optional<std::int64_t> limit, std::int64_t stride) {
    Arrays out;
    for (const Array& a : from) out.push_back(lax::slice_in_dim(a, start, limit, stride, axis));
    return out;
  };
  Arrays odd = scan_pairs(fn, fn(part(elems, 0, -1, 2), part(elems, 1, std::nullopt, 2)), axis);
  Arrays later = fn(n % 2 == 0 ? part(odd, 0, -1, 1) : odd, part(elems, 2, std::nullopt, 2));
  Arrays first = part(elems, 0, 1, 1), out;
  for (std::size_t i = 0; i < elems.size(); ++i)
    out.push_back(interleave(lax::concatenate({first[i], later[i]}, axis), odd[i], axis));
  return out;
}
Arrays scan(const lax::CombineFunction& fn, Arrays elems, int axis, bool reverse) {
  auto turn = [&](Arrays& arrays) {
    if (reverse)
      for (Array& a : arrays) a = lax::rev(a, {axis});
  };
  turn(elems);
  Arrays out = scan_pairs(fn, elems, axis);
  turn(out);
  return out;
}

}  // namespace

Array lax::cumsum(const Operand& x, int axis, bool reverse) { return bind_cumulative(cumsum_p, x, axis, reverse); }
Array lax::cumprod(const Operand& x, int axis, bool reverse) { return bind_cumulative(cumprod_p, x, axis, reverse); }
Array lax::cummax(const Operand& x, int axis, bool reverse) { return bind_cumulative(cummax_p, x, axis, reverse); }
Array lax::cummin(const Operand& x, int axis, bool reverse) { return bind_cumulative(cummin_p, x, axis, reverse); }
Array lax::cumlogsumexp(const Operand& x, int axis, bool reverse) {
  return bind_cumulative(cumlogsumexp_p, x, axis, reverse);
}

Arrays lax::associative_scan(const CombineFunction& fn, std::span<const Array> elems,
                             const AssociativeScanOptions& options, std::source_location where) {
  LocationScope scope(where);
  if (elems.empty()) return {};
  int axis = canonical_axis("associative_scan", options.axis, elems[0].ndim());
  Arrays in(elems.begin(), elems.end());
  for (const Array& a : in) {
    if (a.ndim() <= axis || a.shape(axis) != elems[0].shape(axis))
      throw_error(ErrorCode::shape, "associative_scan", "{} and {} differ in size along axis {}", elems[0].aval()->text,
                  a.aval()->text, axis);
  }
  return scan(
      [&](auto a, auto b) {
        UserCode user;
        return fn(a, b);
      },
      std::move(in), axis, options.reverse);
}

namespace {

template <const Primitive& P, DTypes kAccepted>
void cumulative_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<CumulativeParams>();
  check_dtype(P.name, in[0], kAccepted);
  if (p.axis < 0 || p.axis >= in[0]->rank())
    throw_error(ErrorCode::axis, P.name, "axis {} is out of range for {}", p.axis, in[0]->text);
  out.push_back(in[0]);
}
template <const Primitive& P>
BatchOut cumulative_batch(const Params* params, const BatchIn& in) {
  CumulativeParams p = params->get<CumulativeParams>();
  if (p.axis >= in.dims[0]) ++p.axis;
  return {{bind_one(P, {in.args[0]}, make_params(p))}, {in.dims[0]}};
}
std::vector<Array> cumsum_transpose(const Params* params, std::span<const Array> cotangents,
                                    std::span<const TransposeIn>) {
  CumulativeParams p = params->get<CumulativeParams>();
  if (!cotangents[0].has_value()) return {Array()};
  p.reverse = !p.reverse;
  return {bind_one(cumsum_p, {cotangents[0]}, make_params(p))};
}
// Through a scan of differentiable operations.
template <const Primitive& P, Array (*kCombine)(const Array&, const Array&)>
JvpOut cumulative_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  if (!tangents[0].has_value()) return {{bind_one(P, {primals[0]}, params)}, {Array()}};
  JvpTrace trace("cumulative", nullptr);
  Array dual = trace.dual(primals[0], tangents[0]);
  auto& p = params->get<CumulativeParams>();
  Arrays out =
      scan([](auto a, auto b) { return Arrays{kCombine(a[0], b[0])}; }, {dual}, static_cast<int>(p.axis), p.reverse);
  auto [primal, tangent] = trace.split(out[0]);
  return {{primal}, {tangent}};
}

Array log_add_exp(const Array& a, const Array& b) {
  Array largest = lax::max(a, b), delta = lax::sub(a, b);
  return lax::select(lax::ne(delta, delta), lax::add(a, b),
                     lax::add(largest, lax::log1p(lax::exp(lax::neg(lax::abs(delta))))));
}
// exp(x - total), where total = log(exp(x) + ...), without NaN from infinities.
Array share_of(const Array& x, const Array& total) {
  auto zero = [](const Array& a) { return zeros(strong(a.aval())); };
  Array infinity = scalar_like(x, max_value(x.dtype()));
  Array finite_x = lax::select(lax::eq(x, infinity), zero(x), x);
  Array finite_total = lax::select(lax::is_finite(total), total, zero(total));
  return lax::exp(lax::sub(finite_x, finite_total));
}
JvpOut cumlogsumexp_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  if (!tangents[0].has_value()) return {{bind_one(cumlogsumexp_p, {primals[0]}, params)}, {Array()}};
  auto combine = [](std::span<const Array> a, std::span<const Array> b) {
    Array total = log_add_exp(a[0], b[0]);
    return Arrays{total, lax::add(lax::mul(a[1], share_of(a[0], total)), lax::mul(b[1], share_of(b[0], total)))};
  };
  auto& p = params->get<CumulativeParams>();
  Arrays out = scan(combine, {primals[0], tangents[0]}, static_cast<int>(p.axis), p.reverse);
  return {{out[0]}, {out[1]}};
}

// As a window that grows to the whole axis; XLA makes a tree of it.
template <Array (*kReducer)(const Array&, const Array&), Scalar (*kIdentity)(DType)>
void cumulative_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                      std::span<const AvalP> out_avals, std::span<const std::string> in,
                      std::vector<std::string>& out) {
  auto& p = params->get<CumulativeParams>();
  auto axis = static_cast<std::size_t>(p.axis), rank = in_avals[0]->shape.size();
  std::int64_t n = in_avals[0]->shape[axis];
  if (n == 0) {
    out.push_back(in[0]);
    return;
  }
  Ints ones = Shape::filled(rank, 1);
  WindowParams window{ones, lax::PaddingPairs(rank), ones, ones, ones};
  window.window_dimensions[axis] = n;
  window.padding[axis] = p.reverse ? std::pair(std::int64_t{0}, n - 1) : std::pair(n - 1, std::int64_t{0});
  AvalP element = make_aval({}, in_avals[0]->dtype);
  auto reducer = trace_reducer([](auto a, auto b) { return Arrays{kReducer(a[0], b[0])}; }, {&element, 1}, "reducer");
  std::string init = ctx.constant(kIdentity(element->dtype), element);
  out = emit_reduce_window(ctx, reducer, window, in_avals, out_avals, in, {&init, 1});
}
Scalar zero_of(DType t) { return Scalar(std::int64_t{0}, t); }
Scalar one_of(DType t) { return Scalar(std::int64_t{1}, t); }

}  // namespace

namespace {

template <DTypes kAccepted>
std::vector<Example> cumulative_examples() {
  std::vector<Example> out;
  for (DType t : {DType::float32, DType::complex64, DType::int32}) {
    if (!accepts(kAccepted, t)) continue;
    auto add = [&](const char* label, Shape shape, int axis, bool reverse) {
      out.push_back({fmt::format("{} {}", short_name(t), label),
                     {examples::array(std::move(shape), t)},
                     make_params(CumulativeParams{axis, reverse})});
    };
    add("first", {5, 2}, 0, false);
    add("last reversed", {2, 4}, 1, true);
    add("one", {1}, 0, false);
    add("none", {0, 2}, 0, false);
  }
  return out;
}

}  // namespace

LOCKSTEP_PRIMITIVE(cumsum_p, {.name = "cumsum",
                              .abstract_eval = cumulative_aval<cumsum_p, kNumber>,
                              .jvp = rules::jvp_linear<cumsum_p>,
                              .transpose = cumsum_transpose,
                              .batch = cumulative_batch<cumsum_p>,
                              .lower = cumulative_lower<reducer_add, zero_of>,
                              .examples = cumulative_examples<kNumber>});
LOCKSTEP_PRIMITIVE(cumprod_p, {.name = "cumprod",
                               .abstract_eval = cumulative_aval<cumprod_p, kNumber>,
                               .jvp = cumulative_jvp<cumprod_p, reducer_mul>,
                               .batch = cumulative_batch<cumprod_p>,
                               .lower = cumulative_lower<reducer_mul, one_of>,
                               .examples = cumulative_examples<kNumber>});
LOCKSTEP_PRIMITIVE(cummax_p, {.name = "cummax",
                              .abstract_eval = cumulative_aval<cummax_p, kNumber>,
                              .jvp = cumulative_jvp<cummax_p, reducer_max>,
                              .batch = cumulative_batch<cummax_p>,
                              .lower = cumulative_lower<reducer_max, min_value>,
                              .examples = cumulative_examples<kNumber & ~kComplex>});
LOCKSTEP_PRIMITIVE(cummin_p, {.name = "cummin",
                              .abstract_eval = cumulative_aval<cummin_p, kNumber>,
                              .jvp = cumulative_jvp<cummin_p, reducer_min>,
                              .batch = cumulative_batch<cummin_p>,
                              .lower = cumulative_lower<reducer_min, max_value>,
                              .examples = cumulative_examples<kNumber & ~kComplex>});
LOCKSTEP_PRIMITIVE(cumlogsumexp_p, {.name = "cumlogsumexp",
                                    .abstract_eval = cumulative_aval<cumlogsumexp_p, kFloat>,
                                    .jvp = cumlogsumexp_jvp,
                                    .batch = cumulative_batch<cumlogsumexp_p>,
                                    .lower = cumulative_lower<log_add_exp, min_value>,
                                    .examples = cumulative_examples<kFloat>});

}  // namespace lockstep
