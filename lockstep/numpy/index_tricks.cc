#include "lockstep/numpy/index_tricks.h"

#include <algorithm>

#include "lockstep/api/vmap.h"
#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/creation.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/numpy/reductions.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/numpy/sorting.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep::numpy {
namespace {

// Places in a rows x columns matrix on or above its k-th diagonal.
std::int64_t triangle_size(std::int64_t rows, std::int64_t columns, std::int64_t k) {
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < rows; ++i) n += std::clamp<std::int64_t>(columns - i - k, 0, columns);
  return n;
}
std::pair<Array, Array> places_of(const Array& mask, std::int64_t size) {
  Arrays out = nonzero(mask, {.size = size});
  return {out[0], out[1]};
}
// A vector repeated and cut to a size.
Array tiled_to(const Array& v, std::int64_t size) {
  Array out = v.size() < size ? tile(v, {(size + v.size() - 1) / v.size()}) : v;
  return out.size() > size ? lax::slice_in_dim(out, 0, size) : out;
}

}  // namespace

std::pair<Array, Array> triu_indices(std::int64_t n, std::int64_t k, std::optional<std::int64_t> m,
                                     std::source_location where) {
  LocationScope scope(where);
  std::int64_t columns = m.value_or(n);
  return places_of(triu(ones({n, columns}), k), triangle_size(n, columns, k));
}
std::pair<Array, Array> tril_indices(std::int64_t n, std::int64_t k, std::optional<std::int64_t> m,
                                     std::source_location where) {
  LocationScope scope(where);
  std::int64_t columns = m.value_or(n);
  return places_of(tril(ones({n, columns}), k), triangle_size(columns, n, -k));
}
Arrays diag_indices(std::int64_t n, int ndim, std::source_location where) {
  LocationScope scope(where);
  if (n < 0 || ndim < 0)
    throw_error(ErrorCode::invalid_argument, "diag_indices", "n and ndim must not be negative: {}, {}", n, ndim);
  return Arrays(static_cast<std::size_t>(ndim), lax::iota(default_int(), n));
}
Arrays ix_(const Arrays& arrays, std::source_location where) {
  LocationScope scope(where);
  Arrays out;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Array& a = arrays[i];
    if (a.ndim() != 1) throw_error(ErrorCode::shape, "ix_", "wants vectors, not {}", a.aval()->text);
    if (!is_integer(a.dtype())) throw_error(ErrorCode::dtype, "ix_", "wants integers, not {}", a.aval()->text);
    Shape shape = Shape::filled(arrays.size(), 1);
    shape[i] = a.size();
    out.push_back(lax::broadcast_in_dim(a, shape, {i}));
  }
  return out;
}
Array indices(const Shape& dimensions, const IndicesOptions& o, std::source_location where) {
  LocationScope scope(where);
  DType dtype = o.dtype ? canonicalize(*o.dtype) : default_int();
  Arrays out;
  for (int i = 0; i < dimensions.rank(); ++i)
    out.push_back(lax::broadcast_in_dim(lax::iota(dtype, dimensions[static_cast<std::size_t>(i)]), dimensions, {i}));
  return out.empty() ? zeros(make_aval({0}, dtype)) : stack(out);
}
Arrays unravel_index(const Operand& operand, const Shape& shape) {
  LocationScope scope(operand.where);
  if (!is_integer(operand.array.dtype()))
    throw_error(ErrorCode::dtype, "unravel_index", "wants integers, not {}", operand.array.aval()->text);
  Array rest = operand.array;
  Arrays out(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) std::tie(rest, out[i]) = divmod(rest, shape[i]);
  Array beyond = rest > 0, before = is_unsigned_integer(rest.dtype()) ? Array(false) : rest < -1;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = select_where(beyond, shape[i] - 1, select_where(before, 0, out[i]));
  return out;
}
Array ravel_multi_index(const Arrays& multi_index, const Shape& dims, std::string_view mode,
                        std::source_location where) {
  LocationScope scope(where);
  if (multi_index.size() != dims.size())
    throw_error(ErrorCode::shape, "ravel_multi_index", "{} indices do not go with the dimensions {}",
                multi_index.size(), to_tuple_string(dims));
  if (mode != "clip" && mode != "wrap" && mode != "ignore")
    throw_error(ErrorCode::invalid_argument, "ravel_multi_index",
                "mode \"{}\" is unknown; there are clip, wrap and ignore", mode);
  DType dtype = default_int();
  Array out = scalar(Scalar(std::int64_t{0}, dtype), dtype);
  std::int64_t stride = dims.elements();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    Array index = multi_index[i];
    if (!is_integer(index.dtype()))
      throw_error(ErrorCode::dtype, "ravel_multi_index", "wants integers, not {}", index.aval()->text);
    if (mode == "clip") index = clip(index, 0, dims[i] - 1);
    if (mode == "wrap") index = remainder(index, dims[i]);
    stride /= dims[i];
    out = out + convert(index, dtype) * stride;
  }
  return out;
}

Array select(const Arrays& conditions, const Arrays& choices, const Operand& default_value) {
  LocationScope scope(default_value.where);
  if (conditions.empty() || conditions.size() != choices.size())
    throw_error(ErrorCode::invalid_argument, "select",
                "wants as many conditions as choices, at least one, not {} and {}", conditions.size(), choices.size());
  Arrays all{default_value.array};
  all.insert(all.end(), choices.begin(), choices.end());
  all = promote_dtypes("select", all);
  // The first condition that holds; false before them all stands for the default.
  Arrays which{Array(false)};
  for (const Array& c : conditions) which.push_back(convert(c, DType::bool_));
  Array place = argmax(stack(broadcast_all("select", which)), 0);
  all.insert(all.begin(), place);
  all = broadcast_all("select", all);
  return lax::select_n(all[0], std::span(all).subspan(1));
}
Array compress(const Operand& condition, const Operand& operand, const CompressOptions& o) {
  LocationScope scope(operand.where);
  Array a = operand.array, holds = convert(condition.array, DType::bool_);
  if (holds.ndim() != 1)
    throw_error(ErrorCode::shape, "compress", "wants a vector of bools, not {}", condition.array.aval()->text);
  int axis = 0;
  if (o.axis.given()) {
    Ints axes = o.axis.resolve("compress", a.ndim());
    if (axes.size() != 1) throw_error(ErrorCode::axis, "compress", "wants one axis, not {}", to_tuple_string(axes));
    axis = static_cast<int>(axes[0]);
    a = numpy::moveaxis(a, axis, 0);
  } else {
    a = ravel(a);
  }
  if (holds.size() > a.shape(0))
    throw_error(ErrorCode::shape, "compress", "the condition {} is longer than the axis of {}", holds.aval()->text,
                operand.array.aval()->text);
  a = lax::slice_in_dim(a, 0, holds.size());
  std::int64_t size = o.size ? *o.size : sum(known_value(holds, "compress")).item_scalar().as_int();
  if (size < 0 || size > a.shape(0))
    throw_error(ErrorCode::invalid_argument, "compress", "size {} is not between 0 and {}", size, a.shape(0));
  Ints others;
  for (int i = 1; i < a.ndim(); ++i) others.push_back(i);
  a = select_where(lax::expand_dims(holds, others), a, convert(o.fill_value, a.dtype()));
  Array order = argsort(holds, -1, {.descending = true});
  return numpy::moveaxis(lax::slice_in_dim(a[order], 0, size), 0, axis);
}
Array extract(const Operand& condition, const Operand& a, const CompressOptions& o) {
  LocationScope scope(a.where);
  return compress(ravel(condition), ravel(a), o);
}

Array put(const Operand& operand, const Operand& where, const Operand& what, const PutOptions& o) {
  LocationScope scope(operand.where);
  const Array& a = operand.array;
  Array at = ravel(where), values = ravel(what);
  if (!is_integer(at.dtype()))
    throw_error(ErrorCode::dtype, "put", "wants integers as indices, not {}", at.aval()->text);
  if (a.size() == 0 || at.size() == 0 || values.size() == 0) return a;
  values = tiled_to(values, at.size());
  std::string_view mode = o.mode;
  IndexMode how = "promise_in_bounds";
  if (mode == "drop") {
    how = "drop";
  } else if (mode == "clip") {
    at = clip(at, 0, a.size() - 1);
  } else if (mode == "wrap") {
    at = remainder(at, a.size());
  } else {
    throw_error(ErrorCode::invalid_argument, "put", "mode \"{}\" is unknown; there are drop, clip and wrap", mode);
  }
  std::vector<Index> places;
  for (const Array& i : unravel_index(at, a.shape())) places.emplace_back(i);
  return a.at(IndexList(places)).set(values, {.mode = how});
}
Array put_along_axis(const Operand& operand, const Operand& where, const Operand& what, const Axes& axis) {
  LocationScope scope(operand.where);
  Array a = axis.given() ? operand.array : ravel(operand.array);
  const Array& at = where.array;
  if (!is_integer(at.dtype()))
    throw_error(ErrorCode::dtype, "put_along_axis", "wants integers as indices, not {}", at.aval()->text);
  if (a.ndim() != at.ndim())
    throw_error(ErrorCode::shape, "put_along_axis", "{} and indices {} must have equally many dimensions",
                a.aval()->text, at.aval()->text);
  Ints axes = axis.given() ? axis.resolve("put_along_axis", a.ndim()) : Ints{0};
  if (axes.size() != 1) throw_error(ErrorCode::axis, "put_along_axis", "wants one axis, not {}", to_tuple_string(axes));
  Array values = broadcast_to(what, at.shape());
  std::vector<Index> places;
  for (int i = 0; i < a.ndim(); ++i) {
    if (i == axes[0]) {
      places.emplace_back(at);
      continue;
    }
    Shape shape = Shape::filled(static_cast<std::size_t>(a.ndim()), 1);
    shape[static_cast<std::size_t>(i)] = a.shape(i);
    places.emplace_back(lax::broadcasted_iota(default_int(), shape, i));
  }
  Array out = a.at(IndexList(places)).set(values);
  return axis.given() ? out : lax::reshape(out, operand.array.shape());
}
Array fill_diagonal(const Operand& operand, const Operand& value) {
  LocationScope scope(operand.where);
  const Array& a = operand.array;
  if (a.ndim() < 2)
    throw_error(ErrorCode::shape, "fill_diagonal", "wants at least two dimensions, not {}", a.aval()->text);
  std::int64_t n = *std::min_element(a.shape().begin(), a.shape().end());
  if (a.ndim() > 2 && a.shape() != Shape::filled(a.shape().size(), n))
    throw_error(ErrorCode::shape, "fill_diagonal", "wants equal dimensions, not {}", a.aval()->text);
  std::vector<Index> places;
  for (const Array& i : diag_indices(n, a.ndim())) places.emplace_back(i);
  Array values = value.array.ndim() == 0 ? value.array : tiled_to(ravel(value), n);
  return a.at(IndexList(places)).set(values);
}

Array apply_along_axis(const std::function<Array(const Array&)>& f, int axis, const Operand& a) {
  LocationScope scope(a.where);
  int rank = a.array.ndim(), along = canonical_axis("apply_along_axis", axis, rank);
  std::function<Array(const Array&)> on = f;
  for (int i = 1; i < rank - along; ++i)
    on = [on, i](const Array& x) { return vmap(on, {.in_axes = i, .out_axes = -1})(x); };
  for (int i = 0; i < along; ++i) on = [on](const Array& x) { return vmap(on)(x); };
  return on(a.array);
}
Array apply_over_axes(const std::function<Array(const Array&, int)>& f, const Operand& a, const Ints& axes) {
  LocationScope scope(a.where);
  Array x = a.array;
  for (auto axis : axes) {
    Array y = f(x, static_cast<int>(axis));
    if (y.ndim() == x.ndim() - 1) y = expand_dims(y, axis);
    if (y.ndim() != x.ndim())
      throw_error(ErrorCode::shape, "apply_over_axes", "the function made {} of {}", y.aval()->text, x.aval()->text);
    x = y;
  }
  return x;
}

}  // namespace lockstep::numpy
