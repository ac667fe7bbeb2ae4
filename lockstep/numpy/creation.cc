#include "lockstep/numpy/creation.h"

#include <algorithm>
#include <cmath>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/ops/axes.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"

namespace lockstep::numpy {
namespace {

void check_shape(const char* name, const Shape& shape) {
  for (auto d : shape)
    if (d < 0) throw_error(ErrorCode::shape, name, "dimensions must not be negative: {}", to_string(shape));
}
Array filled(const char* name, const Shape& shape, double value, std::optional<DType> dtype) {
  check_shape(name, shape);
  DType t = canonicalize(dtype.value_or(DType::float64));
  return lockstep::full(make_aval(shape, t), Scalar(value, t));
}
std::optional<DType> canonical(std::optional<DType> t) { return t ? std::optional(canonicalize(*t)) : std::nullopt; }

}  // namespace

Array zeros(const Shape& shape, std::optional<DType> dtype, std::source_location where) {
  LocationScope scope(where);
  return filled("zeros", shape, 0, dtype);
}
Array ones(const Shape& shape, std::optional<DType> dtype, std::source_location where) {
  LocationScope scope(where);
  return filled("ones", shape, 1, dtype);
}
Array empty(const Shape& shape, std::optional<DType> dtype, std::source_location where) {
  LocationScope scope(where);
  return filled("empty", shape, 0, dtype);
}
Array full(const Shape& shape, const Operand& fill_value, std::optional<DType> dtype) {
  LocationScope scope(fill_value.where);
  check_shape("full", shape);
  const Array& v = fill_value.array;
  if (v.ndim() == 0) return lax::full(shape, v, canonical(dtype));
  broadcast_shapes("full", {shape, v.shape()});
  return broadcast_operand(dtype ? lax::convert_element_type(v, canonicalize(*dtype)) : v, shape);
}
Array ZerosLike::operator()(const Operand& a) const { return (*this)(a, std::nullopt); }
Array ZerosLike::operator()(const Operand& a, std::optional<DType> dtype, const std::optional<Shape>& shape) const {
  LocationScope scope(a.where);
  return lax::full_like(a, 0, canonical(dtype), shape);
}
Array OnesLike::operator()(const Operand& a) const { return (*this)(a, std::nullopt); }
Array OnesLike::operator()(const Operand& a, std::optional<DType> dtype, const std::optional<Shape>& shape) const {
  LocationScope scope(a.where);
  return lax::full_like(a, 1, canonical(dtype), shape);
}
Array full_like(const Operand& a, const Operand& fill_value, std::optional<DType> dtype,
                const std::optional<Shape>& shape) {
  LocationScope scope(a.where);
  if (fill_value.array.ndim() == 0) return lax::full_like(a, fill_value, canonical(dtype), shape);
  return full(shape.value_or(a.array.shape()), fill_value, dtype ? dtype : a.array.dtype());
}

namespace {

Array make_range(const Array* start, const Array& stop, const Array* step, std::optional<DType> dtype) {
  const Array* all[3] = {start, &stop, step};
  double values[3] = {0, 0, 1};
  std::optional<WeakDType> t;
  for (int i = 0; i < 3; ++i) {
    if (all[i] == nullptr) continue;
    if (all[i]->ndim() != 0 || is_complex(all[i]->dtype()))
      throw_error(ErrorCode::shape, "arange", "wants real numbers, not {}", all[i]->aval()->text);
    values[i] = all[i]->item_scalar().as_double();
    WeakDType own = all[i]->aval()->weak_dtype();
    t = t ? promote_types("arange", *t, own) : own;
  }
  if (values[2] == 0) throw_error(ErrorCode::invalid_argument, "arange", "the step must not be 0");
  DType result = canonicalize(dtype.value_or(t->dtype));
  auto size = static_cast<std::int64_t>(std::max(0.0, std::ceil((values[1] - values[0]) / values[2])));
  DType working = step != nullptr && is_floating(result) && itemsize(result) < 4 ? DType::float32 : result;
  Array out = lax::iota(working, size);
  if (step != nullptr) out = lax::mul(convert(*step, working), out);
  if (step != nullptr || values[0] != 0)
    out = lax::add(start ? convert(*start, working) : scalar(Scalar(0.0, working), working), out);
  return convert(out, result);
}

}  // namespace

Array arange(const Operand& stop, std::optional<DType> dtype) {
  LocationScope scope(stop.where);
  return make_range(nullptr, stop.array, nullptr, dtype);
}
Array arange(const Operand& start, const Operand& stop, std::optional<DType> dtype) {
  LocationScope scope(start.where);
  return make_range(&start.array, stop.array, nullptr, dtype);
}
Array arange(const Operand& start, const Operand& stop, const Operand& step, std::optional<DType> dtype) {
  LocationScope scope(start.where);
  return make_range(&start.array, stop.array, &step.array, dtype);
}

Array linspace(const Operand& from, const Operand& to, std::int64_t num, const LinspaceOptions& o) {
  LocationScope scope(from.where);
  if (num < 0)
    throw_error(ErrorCode::invalid_argument, "linspace", "the number of samples must not be negative: {}", num);
  std::string key = fmt::format("{} {} {} {}", num, o.endpoint, o.dtype ? name(*o.dtype) : "", o.axis);
  return jitted("_linspace", key, {from.array, to.array}, [&](auto in) {
    WeakDType common = promote_types("linspace", in[0].aval()->weak_dtype(), in[1].aval()->weak_dtype());
    DType result = o.dtype ? canonicalize(*o.dtype) : to_inexact(common.dtype), computation = to_inexact(result);
    Array start = lax::convert_element_type(in[0], computation), stop = lax::convert_element_type(in[1], computation);
    Shape bounds = broadcast_shapes("linspace", {start.shape(), stop.shape()});
    Array first = broadcast_operand(start, bounds), last = broadcast_operand(stop, bounds);
    int axis = canonical_axis("linspace", o.axis, bounds.rank() + 1);
    Shape with_axis = bounds.with(axis, 1);
    if (num == 0) return lockstep::zeros(make_aval(bounds.with(axis, 0), result));
    Array out = lax::reshape(first, with_axis);
    if (num > 1) {
      std::int64_t intervals = o.endpoint ? num - 1 : num;
      DType real = real_type(computation);
      Array n = scalar(Scalar(intervals, real), real);
      Shape along = Shape::filled(with_axis.size(), 1);
      along[static_cast<std::size_t>(axis)] = intervals;
      Array step = convert(lax::div(lax::reshape(lax::iota(real, intervals), along), n), computation);
      // In this form both ends come out exactly.
      Array share = lax::sub(scalar_like(step, 1.0), step);
      Array part = lax::mul(out, share);
      out = lax::add(part, lax::mul(lax::reshape(last, with_axis), step));
      if (o.endpoint) out = lax::concatenate({out, lax::expand_dims(last, {axis})}, axis);
    }
    if (is_integer(result)) out = lax::floor(out);
    return lax::convert_element_type(out, result);
  });
}
Array logspace(const Operand& start, const Operand& stop, std::int64_t num, const LogspaceOptions& o) {
  LocationScope scope(start.where);
  std::string key = fmt::format("{} {} {} {}", num, o.endpoint, o.dtype ? name(*o.dtype) : "", o.axis);
  return jitted("_logspace", key, {start.array, stop.array, o.base}, [&](auto in) {
    WeakDType common = promote_types("logspace", in[0].aval()->weak_dtype(), in[1].aval()->weak_dtype());
    DType result = o.dtype ? canonicalize(*o.dtype) : to_inexact(common.dtype), computation = to_inexact(result);
    Array from = lax::convert_element_type(in[0], computation), to = lax::convert_element_type(in[1], computation);
    Array exponents = linspace(from, to, num, {.endpoint = o.endpoint, .axis = o.axis});
    return lax::convert_element_type(power(lax::convert_element_type(in[2], computation), exponents), result);
  });
}
Array geomspace(const Operand& start, const Operand& stop, std::int64_t num, const LinspaceOptions& o) {
  LocationScope scope(start.where);
  std::string key = fmt::format("{} {} {} {}", num, o.endpoint, o.dtype ? name(*o.dtype) : "", o.axis);
  return jitted("_geomspace", key, {start.array, stop.array}, [&](auto in) {
    auto [from, to] = promote_dtypes_inexact("geomspace", in[0], in[1]);
    DType result = o.dtype ? canonicalize(*o.dtype) : from.dtype();
    // Both ends on the positive side.
    Array side = lax::sign(from), a = divide(from, side), b = divide(to, side);
    Array logs = linspace(log(a), log(b), num, {.endpoint = o.endpoint, .axis = o.axis});
    int axis = canonical_axis("geomspace", o.axis, logs.ndim());
    Shape ends = logs.shape();
    ends[static_cast<std::size_t>(axis)] = 1;
    Array out = lax::exp(logs);
    // The ends exactly.
    auto place = [&](const Array& v) { return lax::expand_dims(broadcast_operand(v, ends.without(axis)), {axis}); };
    if (num > 0) {
      Array tail = lax::slice_in_dim(out, 1, std::nullopt, 1, axis);
      out = lax::concatenate({place(a), tail}, axis);
      if (o.endpoint && num > 1) out = lax::concatenate({lax::slice_in_dim(out, 0, -1, 1, axis), place(b)}, axis);
    }
    Array sides = side.ndim() == 0 ? side : lax::expand_dims(broadcast_operand(side, ends.without(axis)), {axis});
    return lax::convert_element_type(multiply(out, sides), result);
  });
}

Array eye(std::int64_t rows, std::optional<std::int64_t> columns, std::int64_t k, std::optional<DType> dtype,
          std::source_location where) {
  LocationScope scope(where);
  Shape shape{rows, columns.value_or(rows)};
  check_shape("eye", shape);
  Array row = lax::broadcasted_iota(DType::int32, shape, 0), column = lax::broadcasted_iota(DType::int32, shape, 1);
  Array on = lax::eq(lax::add(row, scalar_like(row, Scalar(k, DType::int32))), column);
  return convert(on, canonicalize(dtype.value_or(DType::float64)));
}
Array identity(std::int64_t n, std::optional<DType> dtype, std::source_location where) {
  LocationScope scope(where);
  return eye(n, n, 0, dtype);
}

}  // namespace lockstep::numpy
