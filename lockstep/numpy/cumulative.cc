// Running reductions and quantiles of numpy/reductions.h.
#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/numpy/reductions.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/cumulative.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/gather.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/sort.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"

namespace lockstep::numpy {
namespace {

// The one axis that is given; an absent one means the flattened array.
int single_axis(const char* name, Array& a, const Axes& axis) {
  if (!axis.given() || a.ndim() == 0) {
    a = lax::reshape(a, {a.size()});
    if (!axis.given()) return 0;
  }
  Ints axes = axis.resolve(name, a.ndim());
  if (axes.size() != 1) throw_error(ErrorCode::axis, name, "wants one axis, not {}", to_tuple_string(axes));
  return static_cast<int>(axes[0]);
}

Array running(const char* name, Array (*fn)(const Operand&, int, bool), bool skip_nan, double identity,
              const Operand& x, const CumulativeOptions& o) {
  LocationScope scope(x.where);
  std::string axes = o.axis.given() ? to_string(o.axis.resolve(name, std::max(1, x.array.ndim()))) : "";
  std::string key = axes + " " + (o.dtype ? std::string(lockstep::name(*o.dtype)) : "");
  return jitted(name, key, {x.array}, [&](auto in) {
    Array a = in[0];
    int axis = single_axis(name, a, o.axis);
    if (skip_nan) a = select_where(lax::ne(a, a), scalar_like(a, identity), a);
    DType result = o.dtype ? canonicalize(*o.dtype) : is_bool(a.dtype()) ? default_int() : a.dtype();
    DType computation = result;
    if (is_bool(result)) {  // bools are counted, so that nothing cancels
      a = lax::ne(a, scalar_like(a, 0.0));
      computation = default_int();
    }
    return lax::convert_element_type(fn(lax::convert_element_type(a, computation), axis, false), result);
  });
}

}  // namespace

Array cumsum(const Operand& a, const CumulativeOptions& o) { return running("cumsum", lax::cumsum, false, 0, a, o); }
Array cumprod(const Operand& a, const CumulativeOptions& o) { return running("cumprod", lax::cumprod, false, 1, a, o); }
Array nancumsum(const Operand& a, const CumulativeOptions& o) {
  return running("nancumsum", lax::cumsum, true, 0, a, o);
}
Array nancumprod(const Operand& a, const CumulativeOptions& o) {
  return running("nancumprod", lax::cumprod, true, 1, a, o);
}

Array quantile(const Operand& x, const Operand& quantiles, const QuantileOptions& o) {
  LocationScope scope(x.where);
  std::string key = fmt::format("{} {} {} {}", o.axis.given(), to_string(o.axis.resolve("quantile", x.array.ndim())),
                                static_cast<int>(o.method), o.keepdims);
  return jitted("quantile", key, {x.array, quantiles.array}, [&](auto in) {
    Array a = promote_inexact("quantile", in[0]), q = in[1];
    if (is_complex(a.dtype())) throw_error(ErrorCode::dtype, "quantile", "does not take complex numbers");
    if (q.ndim() > 1)
      throw_error(ErrorCode::shape, "quantile", "wants q as a number or a vector, not {}", q.aval()->text);
    q = promote_inexact("quantile", q);
    Ints axes = o.axis.resolve("quantile", a.ndim()), kept = remaining(a.ndim(), axes), order = kept;
    Shape kept_shape = take(a.shape(), kept), with_ones = keep_axes(a.shape(), axes);
    // The axes are brought together at the end.
    std::int64_t n = take(a.shape(), axes).elements();
    std::sort(axes.begin(), axes.end());
    for (auto d : axes) order.push_back(d);
    int axis = kept_shape.rank();
    a = lax::reshape(a, kept_shape.with(axis, n), order);
    Array has_nan = lax::expand_dims(lax::reduce_or(lax::ne(a, a), {axis}), {axis});
    a = lax::sort(select_where(has_nan, Array(nan), a), {.dimension = axis});

    Array last = scalar(Scalar(static_cast<double>(n - 1), q.dtype()), q.dtype());
    Array place = lax::mul(q, last), low = lax::floor(place), high = lax::ceil(place);
    Array high_weight = lax::sub(place, low), low_weight = lax::sub(scalar_like(high_weight, 1.0), high_weight);
    auto at = [&](const Array& where) {
      Array index = lax::convert_element_type(lax::clamp(scalar_like(where, 0.0), where, last), default_int());
      Ints offset;
      for (int i = 0; i < axis; ++i) offset.push_back(q.ndim() + i);
      return lax::gather(a, lax::expand_dims(index, {q.ndim()}), {offset, {axis}, {axis}, {}, {}},
                         kept_shape.with(axis, 1), {.mode = lax::GatherScatterMode::promise_in_bounds});
    };
    Array low_value = at(low), high_value = at(high), out;
    if (q.ndim() == 1) {
      low_weight = lax::broadcast_in_dim(low_weight, low_value.shape(), {0});
      high_weight = lax::broadcast_in_dim(high_weight, high_value.shape(), {0});
    }
    switch (o.method) {
      case QuantileMethod::linear: {
        Array part = lax::mul(convert(low_value, q.dtype()), convert(low_weight, q.dtype()));
        out = lax::add(part, lax::mul(convert(high_value, q.dtype()), convert(high_weight, q.dtype())));
        break;
      }
      case QuantileMethod::lower:
        out = low_value;
        break;
      case QuantileMethod::higher:
        out = high_value;
        break;
      case QuantileMethod::nearest:
        out = lax::select(lax::le(high_weight, scalar_like(high_weight, 0.5)), low_value, high_value);
        break;
      case QuantileMethod::midpoint:
        out = lax::mul(lax::add(low_value, high_value), scalar_like(low_value, 0.5));
        break;
    }
    if (o.keepdims) out = lax::reshape(out, q.ndim() == 1 ? with_ones.with(0, q.size()) : with_ones);
    return convert(out, a.dtype());
  });
}
Array percentile(const Operand& x, const Operand& q, const QuantileOptions& o) {
  LocationScope scope(x.where);
  return quantile(x, true_divide(promote_inexact("percentile", q.array), 100), o);
}
Array median(const Operand& x, const AnyAllOptions& o) {
  LocationScope scope(x.where);
  return quantile(x, 0.5, {.axis = o.axis, .method = QuantileMethod::midpoint, .keepdims = o.keepdims});
}

}  // namespace lockstep::numpy
