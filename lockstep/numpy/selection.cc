// Triangles, diagonals, grids, where, nonzero, take: functions of numpy/shape.h that look at positions.
#include <algorithm>
#include <string_view>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/promote.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/runtime/transfer.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep::numpy {
namespace {

Array number_like(const Array& a, std::int64_t v) { return scalar(Scalar(v, a.dtype()), a.dtype()); }
DType index_dtype(std::int64_t size) { return size > 0x7fffffff ? DType::int64 : DType::int32; }
Array wrapped(const Array& indices, std::int64_t size) {
  if (!is_signed_integer(indices.dtype())) return indices;
  Array negative = lax::lt(indices, number_like(indices, 0));
  Array from_end = lax::add(indices, number_like(indices, size));
  return lax::select(negative, from_end, indices);
}
void require_matrix(const char* operation, const Array& a) {
  if (a.ndim() < 2) throw_error(ErrorCode::shape, operation, "wants at least two dimensions, not {}", a.aval()->text);
}
std::optional<Scalar> known_number(const Array& a) {
  return a.has_value() ? std::optional(a.item_scalar()) : std::nullopt;
}
// True where column <= row + k.
Array triangle(const Shape& shape, std::int64_t k) {
  Array rows = lax::broadcasted_iota(DType::int32, shape, 0);
  rows = lax::add(rows, number_like(rows, k));
  return lax::ge(rows, lax::broadcasted_iota(DType::int32, shape, 1));
}
Array lower_triangle(const char* operation, const Array& a, std::int64_t k) {
  require_matrix(operation, a);
  Shape matrix(a.shape().end() - 2, a.shape().end()), batch(a.shape().begin(), a.shape().end() - 2);
  return lax::broadcast(triangle(matrix, k), batch);
}

}  // namespace

Array tri(std::int64_t rows, std::optional<std::int64_t> columns, std::int64_t k, DType dtype,
          std::source_location where) {
  LocationScope scope(where);
  return convert(triangle({rows, columns.value_or(rows)}, k), dtype);
}
Array tril(const Operand& a, std::int64_t k) {
  LocationScope scope(a.where);
  return jitted("tril", std::to_string(k), {a.array}, [&](std::span<const Array> in) {
    Array lower = lower_triangle("tril", in[0], k);
    return lax::select(lower, in[0], zeros(in[0].aval()));
  });
}
Array triu(const Operand& a, std::int64_t k) {
  LocationScope scope(a.where);
  return jitted("triu", std::to_string(k), {a.array}, [&](std::span<const Array> in) {
    Array lower = lower_triangle("triu", in[0], k - 1);
    return lax::select(lower, zeros(in[0].aval()), in[0]);
  });
}
Array diagonal(const Operand& a, std::int64_t offset, int axis1, int axis2) {
  LocationScope scope(a.where);
  require_matrix("diagonal", a.array);
  std::string key = fmt::format("{} {} {}", offset, axis1, axis2);
  return jitted("diagonal", key, {a.array}, [&](std::span<const Array> in) {
    Array x = moveaxis(in[0], {axis1, axis2}, {-2, -1});
    std::int64_t rows = x.shape(-2) + std::min<std::int64_t>(offset, 0);
    std::int64_t columns = x.shape(-1) - std::max<std::int64_t>(offset, 0);
    std::int64_t size = std::max<std::int64_t>(0, std::min(rows, columns));
    Array i = lax::iota(DType::int32, size), j = i;
    if (offset != 0) {
      j = lax::iota(DType::int32, size);
      j = lax::add(number_like(j, std::abs(offset)), j);
    }
    return offset >= 0 ? x[{dots, i, j}] : x[{dots, j, i}];
  });
}
Array diag(const Operand& v, std::int64_t k) {
  LocationScope scope(v.where);
  if (v.array.ndim() != 1 && v.array.ndim() != 2)
    throw_error(ErrorCode::shape, "diag", "wants one or two dimensions, not {}", v.array.aval()->text);
  return jitted("_diag", std::to_string(k), {v.array}, [&](std::span<const Array> in) {
    const Array& a = in[0];
    if (a.ndim() == 2) return diagonal(a, k);
    Array zero = scalar_like(a, 0.0);
    Array padded = lax::pad(a, zero, {{std::max<std::int64_t>(0, -k), std::max<std::int64_t>(0, k), 0}});
    Shape shape{padded.size(), padded.size()};
    Array rows = lax::broadcasted_iota(DType::int32, shape, 0), columns = lax::broadcasted_iota(DType::int32, shape, 1);
    Array on = lax::eq(lax::add(rows, number_like(rows, k)), columns);
    return where(on, lax::expand_dims(padded, {1}), zero);
  });
}
Array diagflat(const Operand& v, std::int64_t k) {
  LocationScope scope(v.where);
  return diag(ravel(v), k);
}
Arrays meshgrid(const Arrays& arrays, const MeshgridOptions& options, std::source_location where) {
  LocationScope scope(where);
  if (options.indexing != "xy" && options.indexing != "ij")
    throw_error(ErrorCode::invalid_argument, "meshgrid", "indexing is \"xy\" or \"ij\", not \"{}\"", options.indexing);
  Arrays in = arrays;
  bool swap = options.indexing == "xy" && in.size() >= 2;
  if (swap) std::swap(in[0], in[1]);
  Shape shape;
  for (const Array& a : in) {
    if (a.ndim() != 1) throw_error(ErrorCode::shape, "meshgrid", "wants vectors, not {}", a.aval()->text);
    shape.push_back(options.sparse ? 1 : a.size());
  }
  Arrays out;
  for (std::size_t i = 0; i < in.size(); ++i) {
    Shape own = shape;
    own[i] = in[i].size();
    out.push_back(lax::broadcast_in_dim(in[i], own, {i}));
  }
  if (swap) std::swap(out[0], out[1]);
  return out;
}

Array where(const Operand& condition, const Operand& x, const Operand& y) {
  LocationScope scope(condition.where);
  return select_where(condition.array, x.array, y.array);
}
Arrays nonzero(const Operand& a) {
  LocationScope scope(a.where);
  if (a.array.ndim() == 0)
    throw_error(ErrorCode::shape, "nonzero", "wants at least one dimension; atleast_1d gives a scalar one");
  if (a.array.is_tracer())
    throw_error(ErrorCode::concretization, "nonzero",
                "how many elements are not zero is not known while {} is traced; use where(condition, x, y)",
                a.array.aval()->text);
  const Array& x = a.array;
  const Shape& shape = x.shape();
  runtime::HostView host = runtime::to_host(*runtime::as_concrete(x.value()), "nonzero");
  DType dtype = index_dtype(*std::max_element(shape.begin(), shape.end()));
  std::vector<std::vector<std::byte>> places(shape.size());
  std::int64_t count = 0;
  for (std::int64_t flat = 0; flat < x.size(); ++flat) {
    if (!Scalar::read(host.data() + static_cast<std::size_t>(flat) * itemsize(x.dtype()), x.dtype()).truth()) continue;
    ++count;
    std::int64_t rest = flat;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      auto& bytes = places[static_cast<std::size_t>(i)];
      bytes.resize(bytes.size() + itemsize(dtype));
      Scalar(rest % shape[i], dtype).write(bytes.data() + bytes.size() - itemsize(dtype));
      rest /= shape[i];
    }
  }
  Arrays out;
  for (auto& bytes : places)
    out.emplace_back(runtime::make_concrete(make_aval({count}, dtype), {.data = bytes.data()}));
  return out;
}
Array flatnonzero(const Operand& a) {
  LocationScope scope(a.where);
  return nonzero(ravel(a))[0];
}
Array argwhere(const Operand& a) {
  LocationScope scope(a.where);
  Arrays places = nonzero(atleast_1d(a));
  if (a.array.ndim() == 0) return lax::reshape(zeros(make_aval({0}, places[0].dtype())), {places[0].size(), 0});
  return stack(places, 1);
}

namespace {
int taking_axis(const char* operation, const Axes& axis, int rank) {
  Ints axes = axis.given() ? axis.resolve(operation, rank) : Ints{0};
  if (axes.size() != 1) throw_error(ErrorCode::axis, operation, "wants one axis, not {}", to_tuple_string(axes));
  return static_cast<int>(axes[0]);
}
void require_integers(const char* operation, const Array& indices) {
  if (!is_integer(indices.dtype()))
    throw_error(ErrorCode::dtype, operation, "indices must be integers, not {}", indices.aval()->text);
}
std::string text_of(const std::optional<Scalar>& number) { return number ? to_string(*number) : "none"; }
}  // namespace

Array take(const Operand& operand, const Operand& index, const Axes& axis, const TakeOptions& options) {
  LocationScope scope(operand.where);
  require_integers("take", index.array);
  int along = taking_axis("take", axis, operand.array.ndim());
  std::string_view mode = options.mode;
  if (mode != "fill" && mode != "clip" && mode != "wrap")
    throw_error(ErrorCode::invalid_argument, "take", "mode \"{}\" is unknown; there are fill, clip and wrap", mode);
  std::int64_t size = axis.given() ? operand.array.shape()[along] : operand.array.size();
  if (size == 0 && index.array.size() != 0)
    throw_error(ErrorCode::invalid_argument, "take", "axis {} of {} is empty: nothing can be taken", along,
                operand.array.aval()->text);
  std::optional<Scalar> fill = known_number(options.fill_value);
  std::string key = fmt::format("{} {} {} {} {} {}", axis.given(), along, mode, options.unique_indices,
                                options.indices_are_sorted, text_of(fill));
  return jitted("_take", key, {operand.array, index.array}, [&](std::span<const Array> in) {
    Array a = axis.given() ? in[0] : ravel(in[0]), indices = in[1];
    lax::GatherScatterMode how = lax::GatherScatterMode::clip;
    if (mode == "fill") {
      Array negative = lax::lt(indices, number_like(indices, 0));
      indices = select_where(negative, lax::add(indices, number_like(indices, size)), indices);
      how = lax::GatherScatterMode::fill_or_drop;
    } else if (mode == "wrap") {
      indices = remainder(indices, number_like(indices, size));
      how = lax::GatherScatterMode::promise_in_bounds;
    }
    Shape result(a.shape().begin(), a.shape().begin() + along), sizes = a.shape();
    result.append(indices.shape().begin(), indices.shape().end());
    result.append(a.shape().begin() + along + 1, a.shape().end());
    if (indices.size() == 0) return zeros(make_aval(result, a.dtype(), a.weak_type()));
    sizes[along] = 1;
    Ints offsets;
    for (int i = 0; i < result.rank(); ++i)
      if (i < along || i >= along + indices.ndim()) offsets.push_back(i);
    return lax::gather(a, lax::expand_dims(indices, {-1}),
                       {.offset_dims = offsets, .collapsed_slice_dims = {along}, .start_index_map = {along}}, sizes,
                       {.unique_indices = options.unique_indices,
                        .indices_are_sorted = options.indices_are_sorted,
                        .mode = how,
                        .fill_value = fill});
  });
}

namespace {
Array gather_along(Array a, Array indices, int along, std::optional<lax::GatherScatterMode> mode,
                   const std::optional<Scalar>& fill) {
  std::int64_t size = a.shape()[along];
  Shape others = a.shape();
  others[along] = 1;
  Shape both[] = {indices.shape(), others};
  Shape result = broadcast_shapes("take_along_axis", both);
  if (size == 0) return zeros(make_aval(result, a.dtype(), a.weak_type()));
  if (mode != lax::GatherScatterMode::promise_in_bounds) indices = wrapped(convert(indices, index_dtype(size)), size);
  // Dimensions of size 1 of the indices are read whole; the others go in step with the array's.
  lax::GatherDimensionNumbers dims;
  Shape index_shape, slice_sizes;
  Ints squeezed;
  for (int i = 0; i < a.ndim(); ++i) {
    std::int64_t here = slice_sizes.rank();
    if (i == along) {
      dims.start_index_map.push_back(here);
      dims.collapsed_slice_dims.push_back(here);
      slice_sizes.push_back(1);
    } else if (indices.shape()[i] == 1) {
      dims.offset_dims.push_back(i);
      slice_sizes.push_back(a.shape()[i]);
      continue;
    } else if (a.shape()[i] == 1) {
      squeezed.push_back(i);
    } else {
      dims.operand_batching_dims.push_back(here);
      dims.start_indices_batching_dims.push_back(index_shape.rank());
      slice_sizes.push_back(a.shape()[i] == 0 ? 0 : 1);
    }
    index_shape.push_back(result[i]);
  }
  index_shape.push_back(1);
  indices = lax::reshape(indices, index_shape);
  return lax::gather(lax::squeeze(a, squeezed), indices, dims, slice_sizes, {.mode = mode, .fill_value = fill});
}
}  // namespace
Array take_along_axis(const Operand& operand, const Operand& index, const Axes& axis,
                      const TakeAlongAxisOptions& options) {
  LocationScope scope(operand.where);
  require_integers("take_along_axis", index.array);
  int rank = axis.given() ? operand.array.ndim() : 1;
  if (rank != index.array.ndim())
    throw_error(ErrorCode::shape, "take_along_axis", "{} and indices {} must have equally many dimensions",
                operand.array.aval()->text, index.array.aval()->text);
  int along = taking_axis("take_along_axis", axis, rank);
  std::optional<Scalar> fill = known_number(options.fill_value);
  auto mode = options.mode.value();
  std::string key = fmt::format("{} {} {} {}", axis.given(), along, mode ? static_cast<int>(*mode) : -1, text_of(fill));
  return jitted("take_along_axis", key, {operand.array, index.array}, [&](std::span<const Array> in) {
    return gather_along(axis.given() ? in[0] : ravel(in[0]), in[1], along, mode, fill);
  });
}

Array roll_dynamic(const Operand& operand, const Array& shift, const Axes& axis) {
  LocationScope scope(operand.where);
  Array out = operand.array;
  if (!axis.given()) return lax::reshape(roll_dynamic(ravel(out), shift, 0), out.shape());
  Ints axes = axis.resolve("roll", out.ndim());
  if (shift.ndim() > 1 || !is_integer(shift.dtype()))
    throw_error(ErrorCode::shape, "roll", "shifts must be integers, a scalar or a vector, not {}", shift.aval()->text);
  std::size_t count = static_cast<std::size_t>(shift.size());
  if (count != axes.size() && count != 1 && axes.size() != 1)
    throw_error(ErrorCode::shape, "roll", "{} shifts do not go with axes {}", count, to_tuple_string(axes));
  return jitted("_roll_dynamic", to_string(axes), {out, shift}, [&](std::span<const Array> in) {
    Array out = in[0];
    Arrays shifts = in[1].ndim() == 0 ? Arrays{in[1]} : unstack(in[1]);
    for (std::size_t i = 0; i < std::max(shifts.size(), axes.size()); ++i) {
      int along = static_cast<int>(axes[axes.size() == 1 ? 0 : i]);
      std::int64_t size = out.shape()[along];
      if (size == 0) continue;
      Array by = convert(shifts[shifts.size() == 1 ? 0 : i], DType::int32);
      Array n = number_like(by, size);
      Array from = lax::sub(n, remainder(by, n));
      out = lax::dynamic_slice_in_dim(lax::concatenate({out, out}, along), from, size, along,
                                      {.allow_negative_indices = false});
    }
    return out;
  });
}

}  // namespace lockstep::numpy
