#include "lockstep/numpy/shape.h"

#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/promote.h"
#include "lockstep/ops/structural.h"
#include "lockstep/runtime/transfer.h"
#include "lockstep/support/error.h"

namespace lockstep {

Array Array::reshape(Shape shape, std::source_location where) const {
  LocationScope scope(where);
  return lax::reshape(*this, shape);
}
Array Array::T(std::source_location where) const {
  LocationScope scope(where);
  return numpy::transpose(*this);
}

namespace numpy {
namespace {

// An axis of which there can be only one; flattens the array if there is none.
int one_axis(const char* operation, const Axes& axis, Array& a) {
  if (!axis.given()) {
    a = ravel(a);
    return 0;
  }
  Ints axes = axis.resolve(operation, a.ndim());
  if (axes.size() != 1) throw_error(ErrorCode::axis, operation, "wants one axis, not {}", to_tuple_string(axes));
  return static_cast<int>(axes[0]);
}
void require_arrays(const char* operation, const Arrays& arrays) {
  if (arrays.empty()) throw_error(ErrorCode::invalid_argument, operation, "wants at least one array");
}

}  // namespace

// ---- shape ----

Array reshape(const Operand& a, const Shape& shape) { return lax::reshape(a, shape); }
Array transpose(const Operand& a, const Axes& axes) {
  LocationScope scope(a.where);
  Ints permutation = axes.resolve("transpose", a.array.ndim());
  if (!axes.given()) std::reverse(permutation.begin(), permutation.end());
  return lax::transpose(a, permutation);
}
Array matrix_transpose(const Operand& a) {
  LocationScope scope(a.where);
  if (a.array.ndim() < 2)
    throw_error(ErrorCode::shape, "matrix_transpose", "wants at least two dimensions, not {}", a.array.aval()->text);
  return swapaxes(a, -1, -2);
}
Array squeeze(const Operand& a, const Axes& axis) {
  LocationScope scope(a.where);
  if (axis.given()) return lax::squeeze(a, axis.resolve("squeeze", a.array.ndim()));
  Ints unit;
  for (int i = 0; i < a.array.ndim(); ++i)
    if (a.array.shape()[i] == 1) unit.push_back(i);
  return lax::squeeze(a, unit);
}
Array expand_dims(const Operand& a, const Axes& axis) {
  LocationScope scope(a.where);
  if (!axis.given()) throw_error(ErrorCode::axis, "expand_dims", "wants an axis");
  return lax::expand_dims(a, axis.list());
}
Array swapaxes(const Operand& a, int axis1, int axis2) {
  LocationScope scope(a.where);
  int rank = a.array.ndim();
  Ints permutation = iota_ints(rank);
  std::swap(permutation[canonical_axis("swapaxes", axis1, rank)], permutation[canonical_axis("swapaxes", axis2, rank)]);
  return lax::transpose(a, permutation);
}
Array moveaxis(const Operand& a, const Axes& source, const Axes& destination) {
  LocationScope scope(a.where);
  int rank = a.array.ndim();
  if (!source.given() || !destination.given() || source.list().size() != destination.list().size())
    throw_error(ErrorCode::axis, "moveaxis", "wants as many destinations as sources");
  Ints from = source.resolve("moveaxis", rank), to = destination.resolve("moveaxis", rank);
  Ints permutation = remaining(rank, from);
  for (auto i : argsort(to)) permutation = permutation.with(static_cast<int>(to[i]), from[i]);
  return lax::transpose(a, permutation);
}
Array broadcast_to(const Operand& a, const Shape& shape) {
  LocationScope scope(a.where);
  const Shape& from = a.array.shape();
  int added = shape.rank() - from.rank();
  bool fits = added >= 0;
  Ints dims;
  for (int i = 0; fits && i < from.rank(); ++i) {
    fits = from[i] == 1 || from[i] == shape[added + i];
    dims.push_back(added + i);
  }
  if (!fits)
    throw_error(ErrorCode::shape, "broadcast_to",
                "{} does not broadcast to {}: counted from the last, its dimensions must be equal or 1",
                a.array.aval()->text, to_string(shape));
  return lax::broadcast_in_dim(a, shape, dims);
}
Arrays broadcast_arrays(const Arrays& arrays, std::source_location where) {
  LocationScope scope(where);
  return broadcast_all("broadcast_arrays", arrays);
}
Array Ravel::operator()(const Operand& a) const { return lax::reshape(a, {a.array.size()}); }
namespace {
Array at_least(const char* name, const Operand& a, std::initializer_list<Ints> added) {
  LocationScope scope(a.where);
  int rank = a.array.ndim();
  return jitted(name, "", {a.array}, [&](std::span<const Array> in) {
    return rank < static_cast<int>(added.size()) ? lax::expand_dims(in[0], added.begin()[rank]) : in[0];
  });
}
}  // namespace
Array Atleast1d::operator()(const Operand& a) const { return at_least("atleast_1d", a, {{0}}); }
Array Atleast2d::operator()(const Operand& a) const { return at_least("atleast_2d", a, {{0, 1}, {0}}); }
Array Atleast3d::operator()(const Operand& a) const { return at_least("atleast_3d", a, {{0, 1, 2}, {0, 2}, {2}}); }

// ---- order ----

Array flip(const Operand& a, const Axes& axis) {
  LocationScope scope(a.where);
  Ints axes = axis.resolve("flip", a.array.ndim());
  return jitted("_flip", to_string(axes), {a.array}, [&](std::span<const Array> in) { return lax::rev(in[0], axes); });
}
Array Fliplr::operator()(const Operand& a) const { return flip(a, 1); }
Array Flipud::operator()(const Operand& a) const { return flip(a, 0); }
Array rot90(const Operand& a, int k, std::pair<int, int> axes) {
  LocationScope scope(a.where);
  int rank = a.array.ndim();
  if (rank < 2) throw_error(ErrorCode::shape, "rot90", "wants at least two dimensions, not {}", a.array.aval()->text);
  Ints plane = canonical_axes("rot90", {axes.first, axes.second}, rank);
  Ints permutation = iota_ints(rank);
  std::swap(permutation[plane[0]], permutation[plane[1]]);
  k = ((k % 4) + 4) % 4;
  return jitted("rot90", fmt::format("{} {}", k, to_string(plane)), {a.array}, [&](std::span<const Array> in) {
    switch (k) {
      case 1:
        return transpose(flip(in[0], plane[1]), permutation);
      case 2:
        return flip(flip(in[0], plane[0]), plane[1]);
      case 3:
        return flip(transpose(in[0], permutation), plane[1]);
      default:
        return in[0];
    }
  });
}
namespace {
// One shift for each axis: a single one serves all, a single axis takes all.
std::size_t matched(std::size_t shifts, const Ints& axes) {
  if (shifts != axes.size() && shifts != 1 && axes.size() != 1)
    throw_error(ErrorCode::shape, "roll", "{} shifts do not go with axes {}", shifts, to_tuple_string(axes));
  return std::max(shifts, axes.size());
}
}  // namespace
Array roll(const Operand& a, const Ints& shift, const Axes& axis) {
  LocationScope scope(a.where);
  if (!axis.given()) return lax::reshape(roll(ravel(a), shift, 0), a.array.shape());
  Ints axes = axis.resolve("roll", a.array.ndim());
  std::size_t n = matched(shift.size(), axes);
  return jitted("_roll_static", to_string(shift) + to_string(axes), {a.array}, [&](std::span<const Array> in) {
    Array out = in[0];
    for (std::size_t i = 0; i < n; ++i) {
      int along = static_cast<int>(axes[axes.size() == 1 ? 0 : i]);
      std::int64_t size = out.shape()[along], by = shift[shift.size() == 1 ? 0 : i];
      if (size == 0) continue;
      std::int64_t from = ((-by % size) + size) % size;
      out = lax::concatenate({lax::slice_in_dim(out, from, size, 1, along), lax::slice_in_dim(out, 0, from, 1, along)},
                             along);
    }
    return out;
  });
}

// ---- joins and splits ----

Array concatenate(const Arrays& arrays, const Axes& axis, std::source_location where) {
  LocationScope scope(where);
  require_arrays("concatenate", arrays);
  Arrays parts = arrays;
  if (!axis.given())
    for (Array& a : parts) a = ravel(a);
  parts = promote_dtypes("concatenate", parts);
  if (parts[0].ndim() == 0)
    throw_error(ErrorCode::shape, "concatenate", "scalars have no axis to be joined along; stack makes one");
  return lax::concatenate(parts, axis.given() ? one_axis("concatenate", axis, parts[0]) : 0);
}
Array stack(const Arrays& arrays, int axis, std::source_location where) {
  LocationScope scope(where);
  require_arrays("stack", arrays);
  return lax::stack(promote_dtypes("stack", arrays), axis);
}
namespace {
template <class F>
Arrays mapped(const char* operation, const Arrays& arrays, F f) {
  require_arrays(operation, arrays);
  Arrays out;
  for (const Array& a : arrays) out.push_back(f(a));
  return out;
}
}  // namespace
Array vstack(const Arrays& arrays, std::source_location where) {
  LocationScope scope(where);
  return concatenate(mapped("vstack", arrays, atleast_2d), 0);
}
Array hstack(const Arrays& arrays, std::source_location where) {
  LocationScope scope(where);
  Arrays parts = mapped("hstack", arrays, atleast_1d);
  return concatenate(parts, parts[0].ndim() == 1 ? 0 : 1);
}
Array dstack(const Arrays& arrays, std::source_location where) {
  LocationScope scope(where);
  return concatenate(mapped("dstack", arrays, atleast_3d), 2);
}
Array column_stack(const Arrays& arrays, std::source_location where) {
  LocationScope scope(where);
  return concatenate(
      mapped("column_stack", arrays, [](const Array& a) { return a.ndim() < 2 ? transpose(atleast_2d(a)) : a; }), 1);
}
Array append(const Operand& a, const Operand& values, const Axes& axis) {
  LocationScope scope(a.where);
  std::string key = axis.given() ? to_string(axis.list()) : "";
  return jitted("append", key, {a.array, values.array}, [&](std::span<const Array> in) {
    return concatenate({in[0], in[1]}, axis);
  });
}
Arrays unstack(const Operand& a, int axis) { return lax::unstack(a, axis); }

Ints Sections::sizes(std::string_view operation, std::int64_t size, bool equal) const {
  Ints out;
  if (parts_) {
    if (*parts_ <= 0 || (equal && size % *parts_ != 0))
      throw_error(ErrorCode::shape, std::string(operation), "a dimension of size {} does not split into {} {}parts",
                  size, *parts_, equal ? "equal " : "");
    for (std::int64_t i = 0; i < *parts_; ++i) out.push_back(size / *parts_ + (i < size % *parts_ ? 1 : 0));
    return out;
  }
  std::int64_t from = 0;
  for (std::int64_t place : places_) {
    std::int64_t to = std::clamp<std::int64_t>(place < 0 ? place + size : place, 0, size);
    out.push_back(std::max<std::int64_t>(0, to - from));
    from = std::max(from, to);
  }
  out.push_back(size - from);
  return out;
}
namespace {
Arrays split_along(const char* operation, const Operand& a, const Sections& sections, int axis, bool equal) {
  LocationScope scope(a.where);
  axis = canonical_axis(operation, axis, a.array.ndim());
  return lax::split(a, sections.sizes(operation, a.array.shape()[axis], equal), axis);
}
}  // namespace
Arrays split(const Operand& a, const Sections& sections, int axis) {
  return split_along("split", a, sections, axis, true);
}
Arrays array_split(const Operand& a, const Sections& sections, int axis) {
  return split_along("array_split", a, sections, axis, false);
}
Arrays hsplit(const Operand& a, const Sections& sections) {
  return split_along("hsplit", a, sections, a.array.ndim() == 1 ? 0 : 1, true);
}
Arrays vsplit(const Operand& a, const Sections& sections) { return split_along("vsplit", a, sections, 0, true); }
Arrays dsplit(const Operand& a, const Sections& sections) { return split_along("dsplit", a, sections, 2, true); }

// ---- repetition and padding ----

Array tile(const Operand& a, const Ints& reps) {
  LocationScope scope(a.where);
  Array x = a.array;
  Ints all = reps;
  while (all.rank() < x.ndim()) all = all.with(0, 1);
  if (all.rank() > x.ndim()) x = lax::expand_dims(x, iota_ints(all.rank() - x.ndim()));
  return lax::tile(x, all);
}
Array repeat(const Operand& a, std::int64_t repeats, const Axes& axis) {
  LocationScope scope(a.where);
  if (repeats < 0) throw_error(ErrorCode::invalid_argument, "repeat", "{} repeats: must not be negative", repeats);
  Array x = a.array;
  int along = one_axis("repeat", axis, x);
  Shape shape = x.shape();
  shape[along] *= repeats;
  return lax::reshape(broadcast_new_axis(x, repeats, along + 1), shape);
}
Array repeat(const Operand& a, const std::vector<std::int64_t>& repeats, const Axes& axis) {
  LocationScope scope(a.where);
  Array x = a.array;
  int along = one_axis("repeat", axis, x);
  std::int64_t size = x.shape()[along];
  if (repeats.size() == 1) return repeat(x, repeats[0], along);
  if (static_cast<std::int64_t>(repeats.size()) != size)
    throw_error(ErrorCode::shape, "repeat", "{} repeats do not fit a dimension of size {}", repeats.size(), size);
  std::vector<std::int32_t> places;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 0)
      throw_error(ErrorCode::invalid_argument, "repeat", "{} repeats: must not be negative", repeats[i]);
    places.insert(places.end(), static_cast<std::size_t>(repeats[i]), static_cast<std::int32_t>(i));
  }
  Array indices(runtime::make_concrete(make_aval({places.size()}, DType::int32), {.data = places.data()}));
  return take(x, indices, along, {.mode = "clip", .indices_are_sorted = true});
}

std::vector<PadWidth::Pair> PadWidth::resolve(int rank) const {
  std::vector<Pair> each = all_;
  if (each.size() == 1) each.resize(static_cast<std::size_t>(rank), all_[0]);
  bool negative = std::any_of(each.begin(), each.end(), [](const Pair& p) { return p.first < 0 || p.second < 0; });
  if (static_cast<int>(each.size()) != rank || negative)
    throw_error(
        ErrorCode::shape, "pad",
        "{} pairs of widths for an array of rank {}: there must be one, or one for each dimension, none of them "
        "negative",
        all_.size(), rank);
  return each;
}
namespace {

Array pad_constant(const Array& a, const std::vector<PadWidth::Pair>& widths, const Array& value) {
  lax::PaddingConfig config;
  for (auto [low, high] : widths) config.push_back({low, high, 0});
  return lax::pad(a, convert(value, a.dtype(), a.weak_type()), config);
}
Array pad_edge(const Array& a, int axis, PadWidth::Pair width) {
  std::int64_t n = a.shape()[axis];
  return lax::concatenate({repeat(lax::slice_in_dim(a, 0, 1, 1, axis), width.first, axis), a,
                           repeat(lax::slice_in_dim(a, n - 1, n, 1, axis), width.second, axis)},
                          axis);
}
Array pad_wrap(const Array& a, int axis, PadWidth::Pair width) {
  std::int64_t n = a.shape()[axis];
  Arrays parts(static_cast<std::size_t>(width.first / n + width.second / n + 1), a);
  if (std::int64_t rest = width.first % n) parts.insert(parts.begin(), lax::slice_in_dim(a, n - rest, n, 1, axis));
  if (std::int64_t rest = width.second % n) parts.push_back(lax::slice_in_dim(a, 0, rest, 1, axis));
  return lax::concatenate(parts, axis);
}
// Grown by at most one reflection at a time; `size` is that of the axis before any padding.
Array pad_reflect(Array a, int axis, std::int64_t size, std::int64_t padding, bool before, bool with_edge, bool odd) {
  std::int64_t offset = !with_edge && size > 1 ? 1 : 0;
  auto edge_of = [&](const Array& x) {
    return before ? lax::slice_in_dim(x, 0, 1, 1, axis) : lax::slice_in_dim(x, -1, std::nullopt, 1, axis);
  };
  Array edge = edge_of(a);
  while (padding > 0) {
    std::int64_t now = std::min(padding, size - offset), n = a.shape()[axis];
    padding -= now;
    std::int64_t from = before ? offset : n - now - offset;
    Array x = flip(lax::slice_in_dim(a, from, from + now, 1, axis), axis);
    if (odd) {
      x = 2 * edge - x;
      if (size > 1) edge = edge_of(x);
    }
    a = before ? lax::concatenate({x, a}, axis) : lax::concatenate({a, x}, axis);
  }
  return a;
}

}  // namespace
Array pad(const Operand& operand, const PadWidth& pad_width, std::string_view mode, const PadOptions& options) {
  LocationScope scope(operand.where);
  const Array& x = operand.array;
  if (x.ndim() == 0) return x;
  auto widths = pad_width.resolve(x.ndim());
  bool reflect = mode == "reflect", symmetric = mode == "symmetric", wrap = mode == "wrap", edge = mode == "edge";
  bool constant = mode == "constant" || mode == "empty";
  if (!reflect && !symmetric && !wrap && !edge && !constant)
    throw_error(ErrorCode::invalid_argument, "pad",
                "mode \"{}\" is unknown; there are constant, edge, reflect, symmetric, wrap and empty", mode);
  std::string key = fmt::format("{} {}", mode, options.reflect_odd);
  for (int i = 0; i < x.ndim(); ++i) {
    auto [before, after] = widths[static_cast<std::size_t>(i)];
    key += fmt::format(" {},{}", before, after);
    if (!constant && (before > 0 || after > 0) && x.shape()[i] == 0)
      throw_error(ErrorCode::shape, "pad", "mode \"{}\" has nothing to pad axis {} of {} with", mode, i,
                  x.aval()->text);
  }
  return jitted("_pad", key, {x, options.constant_values}, [&](std::span<const Array> in) {
    Array a = in[0];
    if (constant) return pad_constant(a, widths, mode == "empty" ? Array(0) : in[1]);
    for (int i = 0; i < a.ndim(); ++i) {
      auto width = widths[static_cast<std::size_t>(i)];
      std::int64_t size = a.shape()[i];
      if (width.first == 0 && width.second == 0) continue;
      if (reflect || symmetric) {
        a = pad_reflect(a, i, size, width.first, true, symmetric, options.reflect_odd);
        a = pad_reflect(a, i, size, width.second, false, symmetric, options.reflect_odd);
      } else {
        a = wrap ? pad_wrap(a, i, width) : pad_edge(a, i, width);
      }
    }
    return a;
  });
}

}  // namespace numpy
}  // namespace lockstep
