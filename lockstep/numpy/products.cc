// kron, cross, trace, cov, corrcoef of numpy/linalg.h.
#include <cmath>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/creation.h"
#include "lockstep/numpy/indexing.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/linalg.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/numpy/reductions.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"

namespace lockstep::numpy {

Array kron(const Operand& left, const Operand& right) {
  LocationScope scope(left.where);
  return jitted("kron", "", {left.array, right.array}, [](auto in) {
    auto [a, b] = promote_dtypes("kron", in[0], in[1]);
    int rank = std::max(a.ndim(), b.ndim());
    a = lax::broadcast_to_rank(a, rank), b = lax::broadcast_to_rank(b, rank);
    Shape out;
    Ints odd, even;
    for (int i = 0; i < rank; ++i) {
      out.push_back(a.shape(i) * b.shape(i));
      odd.push_back(2 * i + 1), even.push_back(2 * i);
    }
    return lax::reshape(lax::mul(lax::expand_dims(a, odd), lax::expand_dims(b, even)), out);
  });
}

Array cross(const Operand& left, const Operand& right, const CrossOptions& options) {
  LocationScope scope(left.where);
  CrossOptions o = options;
  if (o.axis) o.axisa = o.axisb = o.axisc = *o.axis;
  std::string key = fmt::format("{} {} {}", o.axisa, o.axisb, o.axisc);
  return jitted("cross", key, {left.array, right.array}, [&](auto in) {
    Array a = numpy::moveaxis(in[0], o.axisa, -1), b = numpy::moveaxis(in[1], o.axisb, -1);
    for (const Array* v : {&a, &b})
      if (v->shape(-1) != 2 && v->shape(-1) != 3)
        throw_error(ErrorCode::shape, "cross", "wants vectors of 2 or 3 components, not {} and {}",
                    left.array.aval()->text, right.array.aval()->text);
    auto part = [](const Array& v, int i) { return i < v.shape(-1) ? v[{dots, i}] : zeros_like(v[{dots, 0}]); };
    auto component = [&](int i, int j) { return part(a, i) * part(b, j) - part(a, j) * part(b, i); };
    if (a.shape(-1) == 2 && b.shape(-1) == 2) return component(0, 1);
    return numpy::moveaxis(stack({component(1, 2), component(2, 0), component(0, 1)}), 0, o.axisc);
  });
}

Array trace(const Operand& operand, std::int64_t offset, const TraceOptions& o) {
  LocationScope scope(operand.where);
  int rank = operand.array.ndim();
  int axis1 = canonical_axis("trace", o.axis1, rank), axis2 = canonical_axis("trace", o.axis2, rank);
  if (axis1 == axis2) throw_error(ErrorCode::axis, "trace", "wants two axes, not {} twice", axis1);
  std::string key = fmt::format("{} {} {} {}", offset, axis1, axis2, o.dtype ? lockstep::name(*o.dtype) : "");
  return jitted("trace", key, {operand.array}, [&](auto in) {
    Array a = numpy::moveaxis(in[0], {axis1, axis2}, {-2, -1});
    Array on = eye(a.shape(-2), a.shape(-1), offset, DType::bool_);
    return sum(select_where(on, a, zeros_like(a)), {.axis = {-2, -1}, .dtype = o.dtype});
  });
}

Array cov(const Operand& m, const CovOptions& o) {
  LocationScope scope(m.where);
  Array x = promote_inexact("cov", m.array), y = o.y;
  if (y.has_value()) std::tie(x, y) = promote_dtypes_inexact("cov", m.array, y);
  for (const Array* a : {&x, &y})
    if (a->has_value() && a->ndim() > 2)
      throw_error(ErrorCode::shape, "cov", "wants one or two dimensions, not {}", a->aval()->text);
  bool one = x.ndim() == 1;
  x = atleast_2d(x);
  if (!o.rowvar && !one) x = x.T();
  if (y.has_value()) {
    y = atleast_2d(y);
    if (!o.rowvar && y.shape(0) != 1) y = y.T();
    x = concatenate({x, y});
  }
  auto checked = [&](const Array& w, bool integers) {
    if (w.has_value() && (w.shape() != Shape{x.shape(1)} || (integers && !is_integer(w.dtype()))))
      throw_error(ErrorCode::shape, "cov", "wants {}weights for {} samples, not {}", integers ? "integer " : "",
                  x.shape(1), w.aval()->text);
    return w.has_value() ? abs(w) : w;
  };
  Array fweights = checked(o.fweights, true), aweights = checked(o.aweights, false), w = fweights;
  if (aweights.has_value()) w = w.has_value() ? w * aweights : aweights;
  int ddof = o.ddof.value_or(o.bias ? 0 : 1);
  Array mean = average(x, 1, {.weights = w}), divisor;
  if (!w.has_value()) {
    divisor = static_cast<double>(x.shape(1) - ddof);
  } else {
    Array total = convert(sum(w), x.dtype());
    divisor = ddof == 0 ? total : !aweights.has_value() ? total - ddof : total - ddof * sum(w * aweights) / total;
  }
  Array centred = x - lax::expand_dims(mean, {1});
  Array weighted = w.has_value() ? centred * lax::expand_dims(w, {0}) : centred;
  return squeeze(true_divide(dot(centred, conj(weighted.T())), divisor));
}
Array corrcoef(const Operand& x, const CorrcoefOptions& o) {
  LocationScope scope(x.where);
  Array c = cov(x, {.y = o.y, .rowvar = o.rowvar});
  if (c.ndim() == 0) return c / c;
  Array deviation = convert(sqrt(real(diag(c))), c.dtype());
  c = c / lax::expand_dims(deviation, {1}) / lax::expand_dims(deviation, {0});
  Array re = clip(real(c), -1, 1);
  return is_complex(c.dtype()) ? lax::complex(re, clip(imag(c), -1, 1)) : re;
}

}  // namespace lockstep::numpy
