#include "lockstep/nn/nn.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/core/basic_ops.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/dot.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/special.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/call.h"
#include "lockstep/transforms/named_call.h"

namespace lockstep::nn {
namespace {

Array inexact(const char* name, const Array& x) {
  if (is_inexact(x.dtype())) return x;
  if (!is_integer(x.dtype()) && !is_bool(x.dtype()))
    throw_error(ErrorCode::dtype, name, "takes numbers, not {}", x.aval()->text);
  return convert(x, config::enable_x64() ? DType::float64 : DType::float32);
}
Ints axes_of(const char* name, const Ints& axis, int rank) {
  Ints out;
  for (auto a : axis) {
    if (a < -rank || a >= rank) throw_error(ErrorCode::axis, name, "axis {} is out of range for rank {}", a, rank);
    out.push_back(a < 0 ? a + rank : a);
  }
  std::sort(out.begin(), out.end());
  return out;
}
// A reduced array with its axes back, of size 1.
Array keep(const Array& reduced, const Array& x, const Ints& axes) {
  Shape shape = x.shape();
  Ints kept;
  for (int i = 0; i < x.ndim(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) != axes.end())
      shape[static_cast<std::size_t>(i)] = 1;
    else
      kept.push_back(i);
  }
  return lax::broadcast_in_dim(reduced, shape, kept);
}
Array max_of(const Array& x, const Ints& axes) {
  return lax::max(scalar(Scalar(-std::numeric_limits<double>::infinity(), x.dtype()), x.dtype()),
                  lax::reduce_max(x, axes));
}
std::int64_t count(const Array& x, const Ints& axes) {
  std::int64_t n = 1;
  for (auto a : axes) n *= x.shape()[static_cast<std::size_t>(a)];
  return n;
}
std::vector<std::int64_t> statics(const Ints& axes) { return {axes.begin(), axes.end()}; }
Array like(const Array& x, double v) { return scalar(Scalar(v, x.dtype()), x.dtype()); }

}  // namespace

Array softmax(const Operand& x, const Ints& axis) {
  LocationScope scope(x.where);
  Array v = inexact("softmax", x.array);
  Ints axes = axes_of("softmax", axis, v.ndim());
  Array top = lax::stop_gradient(keep(max_of(v, axes), v, axes));
  Array e = lax::exp(lax::sub(v, top));
  return lax::div(e, keep(lax::reduce_sum(e, axes), v, axes));
}
Array log_softmax(const Operand& x, const Ints& axis) {
  LocationScope scope(x.where);
  Array v = inexact("log_softmax", x.array);
  Ints axes = axes_of("log_softmax", axis, v.ndim());
  return named_call_one("log_softmax", statics(axes), {v}, [&](std::span<const Array> a) {
    Array top = lax::stop_gradient(keep(max_of(a[0], axes), a[0], axes));
    Array shifted = lax::sub(a[0], top);
    return lax::sub(shifted, lax::log(keep(lax::reduce_sum(lax::exp(shifted), axes), a[0], axes)));
  });
}
Array logsumexp(const Operand& x, std::optional<Ints> axis, const LogsumexpOptions& options) {
  LocationScope scope(x.where);
  Array v = inexact("logsumexp", x.array);
  Ints all;
  for (int i = 0; i < v.ndim(); ++i) all.push_back(i);
  Ints axes = axis ? axes_of("logsumexp", *axis, v.ndim()) : all;
  Array top = max_of(v, axes);
  Array zero = like(top, 0);
  Array finite = lax::is_finite(top);
  if (top.ndim() > 0) zero = lax::broadcast_in_dim(zero, top.shape(), {});
  top = lax::stop_gradient(lax::select(finite, top, zero));
  Array sum = lax::reduce_sum(lax::exp(lax::sub(v, keep(top, v, axes))), axes);
  Array out = lax::add(lax::log(lax::abs(sum)), top);
  return options.keepdims ? keep(out, v, axes) : out;
}

Array Relu::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  static const auto rule = std::make_shared<FlatJvpRule>([](std::span<const Array> p, std::span<const Array> t) {
    Array positive = lax::gt(p[0], scalar_like(p[0], 0));
    Array zero = zeros(t[0].aval());
    return JvpOut{{relu(p[0])}, {lax::select(positive, t[0], zero)}};
  });
  return bind_custom_jvp(
      [](std::span<const Array> a) {
        return Arrays{named_call_one("relu", {}, {a[0]},
                                     [](std::span<const Array> b) { return lax::max(b[0], scalar_like(b[0], 0)); })};
      },
      rule, std::span<const Array>(&x.array, 1), "relu")[0];
}
Array Silu::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return named_call_one("silu", {}, {inexact("silu", x.array)},
                        [](std::span<const Array> a) { return lax::mul(a[0], lax::logistic(a[0])); });
}
Array Sigmoid::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return lax::logistic(inexact("sigmoid", x.array));
}
Array Tanh::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return lax::tanh(inexact("tanh", x.array));
}
Array Softplus::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  // log(exp(x) + exp(0)), and its derivative exp(x - softplus(x)).
  static const auto rule = std::make_shared<FlatJvpRule>([](std::span<const Array> p, std::span<const Array> t) {
    Array y = softplus(p[0]);
    return JvpOut{{y}, {lax::mul(t[0], lax::exp(lax::sub(p[0], y)))}};
  });
  Array v = inexact("softplus", x.array);
  return bind_custom_jvp(
      [](std::span<const Array> a) {
        Array zero = scalar_like(a[0], 0);
        return Arrays{lax::add(lax::max(a[0], zero), lax::log1p(lax::exp(lax::neg(lax::abs(a[0])))))};
      },
      rule, std::span<const Array>(&v, 1), "softplus")[0];
}

Array gelu(const Operand& x, bool approximate) {
  LocationScope scope(x.where);
  Array v = inexact("gelu", x.array);
  if (!approximate)
    return lax::mul(like(v, 0.5), lax::mul(v, lax::erfc(lax::div(lax::neg(v), like(v, std::sqrt(2.0))))));
  Array inner =
      lax::mul(like(v, std::sqrt(2.0 / M_PI)), lax::add(v, lax::mul(like(v, 0.044715), lax::integer_pow(v, 3))));
  return lax::mul(v, lax::mul(like(v, 0.5), lax::add(like(v, 1.0), lax::tanh(inner))));
}
Array one_hot(const Operand& x, std::int64_t num_classes, const OneHotOptions& options) {
  LocationScope scope(x.where);
  Array v = x.array;
  if (!is_integer(v.dtype()) && !is_bool(v.dtype()) && !is_floating(v.dtype()))
    throw_error(ErrorCode::dtype, "one_hot", "takes integers, not {}", v.aval()->text);
  DType t = options.dtype ? canonicalize(*options.dtype) : (config::enable_x64() ? DType::float64 : DType::float32);
  int rank = v.ndim() + 1, axis = options.axis < 0 ? options.axis + rank : options.axis;
  if (axis < 0 || axis >= rank)
    throw_error(ErrorCode::axis, "one_hot", "axis {} is out of range for a result of rank {}", options.axis, rank);
  return named_call_one(
      "_one_hot", {num_classes, axis, static_cast<std::int64_t>(t)}, {v}, [&](std::span<const Array> a) {
        Shape iota_shape = Shape::filled(static_cast<std::size_t>(rank), 1);
        iota_shape[static_cast<std::size_t>(axis)] = num_classes;
        Array expanded = lax::expand_dims(a[0], {axis});
        DType index = is_bool(a[0].dtype()) ? DType::int32 : a[0].dtype();
        return convert(lax::eq(convert(expanded, index), lax::broadcasted_iota(index, iota_shape, axis)), t);
      });
}

Array standardize(const Operand& x, const Ints& axis, const StandardizeOptions& options) {
  LocationScope scope(x.where);
  Array v = inexact("standardize", x.array);
  Ints axes = axes_of("standardize", axis, v.ndim());
  std::vector<std::int64_t> key = statics(axes);
  key.push_back(std::bit_cast<std::int64_t>(options.epsilon));
  return named_call_one("standardize", key, {v}, [&](std::span<const Array> a) {
    Array n = like(a[0], static_cast<double>(count(a[0], axes)));
    auto mean = [&](const Array& y) { return lax::div(keep(lax::reduce_sum(y, axes), a[0], axes), n); };
    Array m = mean(a[0]);
    Array variance = lax::max(like(a[0], 0.0), lax::sub(mean(lax::square(a[0])), lax::square(m)));
    return lax::mul(lax::sub(a[0], m), lax::rsqrt(lax::add(variance, like(a[0], options.epsilon))));
  });
}
Array layer_norm(const Operand& x, const Array& scale, const Array& bias, double epsilon) {
  LocationScope scope(x.where);
  Array v = inexact("layer_norm", x.array);
  if (v.ndim() == 0)
    throw_error(ErrorCode::shape, "layer_norm", "needs at least one axis, the array is {}", v.aval()->text);
  int last = v.ndim() - 1;
  for (const Array* p : {&scale, &bias})
    if (p->shape() != Shape{v.shape().back()})
      throw_error(ErrorCode::shape, "layer_norm", "scale and bias must be {} for {}, one is {}",
                  to_string(Shape{v.shape().back()}), v.aval()->text, p->aval()->text);
  Ints axes{last};
  Array n = like(v, static_cast<double>(v.shape().back()));
  auto mean = [&](const Array& y) { return lax::div(keep(lax::reduce_sum(y, axes), v, axes), n); };
  Array centred = lax::sub(v, mean(v));
  Array y = lax::mul(centred, lax::rsqrt(lax::add(mean(lax::square(centred)), like(v, epsilon))));
  auto row = [&](const Array& p) { return lax::broadcast_in_dim(convert(p, v.dtype()), v.shape(), {last}); };
  return lax::add(lax::mul(y, row(scale)), row(bias));
}

Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                            const AttentionOptions& options) {
  LocationScope scope(query.where);
  Array q = query.array, k = key.array, v = value.array;
  if (q.ndim() != 4 || k.ndim() != 4 || v.ndim() != 4)
    throw_error(ErrorCode::shape, "dot_product_attention", "takes [batch, time, heads, width] arrays, got {}, {}, {}",
                q.aval()->text, k.aval()->text, v.aval()->text);
  auto [b, t, n, h] = q.shape<4>();
  auto [kb, s, kn, kh] = k.shape<4>();
  if (kb != b || kh != h || v.shape() != k.shape() || kn == 0 || n % kn != 0)
    throw_error(ErrorCode::shape, "dot_product_attention",
                "key and value must be alike, with the batch and width of query and a number of heads that divides its "
                "own; got {}, {}, {}",
                q.aval()->text, k.aval()->text, v.aval()->text);
  double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(h)));
  // Groups of query heads share a key head: [b, t, kn, g, h].
  std::int64_t g = n / kn;
  q = lax::reshape(q, {b, t, kn, g, h});
  DType accumulate = itemsize(q.dtype()) < 4 ? DType::float32 : q.dtype();
  lax::DotDimensionNumbers qk;
  Array logits = lax::dot_general(q, k, {{{4}, {3}}, {{0, 2}, {0, 2}}},
                                  {.preferred_element_type = accumulate});  // [b, kn, t, g, s]
  logits = lax::transpose(logits, {0, 1, 3, 2, 4});                         // [b, kn, g, t, s]
  logits = lax::mul(logits, like(logits, scale));
  logits = lax::reshape(logits, {b, n, t, s});
  auto expand = [&](const Array& a) {
    if (a.ndim() != 4)
      throw_error(ErrorCode::shape, "dot_product_attention", "bias and mask are [batch, heads, time, source], got {}",
                  a.aval()->text);
    return lax::broadcast_in_dim(a.shape() == logits.shape() ? a : a, logits.shape(), {0, 1, 2, 3});
  };
  if (options.bias) logits = lax::add(logits, convert(expand(*options.bias), logits.dtype()));
  Array allowed;
  if (options.mask) allowed = expand(*options.mask);
  if (options.is_causal) {
    Array rows = lax::broadcasted_iota(DType::int32, {t, s}, 0),
          columns = lax::broadcasted_iota(DType::int32, {t, s}, 1);
    Array causal = lax::broadcast_in_dim(lax::ge(rows, columns), logits.shape(), {2, 3});
    allowed = allowed.has_value() ? lax::bitwise_and(allowed, causal) : causal;
  }
  if (allowed.has_value()) {
    double lowest = -0.7 * (accumulate == DType::float64 ? std::numeric_limits<double>::max()
                                                         : double{std::numeric_limits<float>::max()});
    logits = lax::select(allowed, logits, lax::broadcast_in_dim(like(logits, lowest), logits.shape(), {}));
  }
  Array weights = convert(softmax(logits), q.dtype());
  weights = lax::reshape(weights, {b, kn, g, t, s});
  Array out = lax::dot_general(weights, v, {{{4}, {1}}, {{0, 1}, {0, 2}}}, {});  // [b, kn, g, t, h]
  return lax::reshape(lax::transpose(out, {0, 3, 1, 2, 4}), {b, t, n, h});
}

}  // namespace lockstep::nn
