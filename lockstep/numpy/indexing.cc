// x[index] becomes slices (with rev and squeeze) where all indices are static, a dynamic_slice where they are numbers
// and slices of unit step, and a gather otherwise; updates become scatters. Plans follow NumPy's rules for mixed
// indices: dimensions of index arrays come where the first of them stood, or first if something stood between them.
#include "lockstep/numpy/indexing.h"

#include <algorithm>
#include <string>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/promote.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/ops/axes.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/runtime/transfer.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep {

using Kind = Index::Kind;
using lax::GatherScatterMode;

Index::Index(const Array& a) : kind(Kind::array), array(a) {
  if (!is_bool(a.dtype()) && !is_integer(a.dtype()))
    throw_error(ErrorCode::dtype, "indexing", "an index must be integers or bools, not {}", a.aval()->text);
  if (a.value()->kind() == Value::Kind::scalar) {
    const Scalar& number = static_cast<const ScalarValue*>(a.value())->scalar;
    kind = is_bool(a.dtype()) ? Kind::boolean : Kind::integer;
    integer = is_bool(a.dtype()) ? number.truth() : number.as_int();
  }
}

IndexMode::IndexMode(const char* name) {
  std::string_view n = name;
  if (n == "clip")
    mode_ = GatherScatterMode::clip;
  else if (n == "fill" || n == "drop")
    mode_ = GatherScatterMode::fill_or_drop;
  else if (n == "promise_in_bounds")
    mode_ = GatherScatterMode::promise_in_bounds;
  else
    throw_error(ErrorCode::invalid_argument, "indexing",
                "mode \"{}\" is unknown; there are clip, fill, drop and promise_in_bounds", n);
}

namespace {

struct Range {  // a slice of a dimension: count elements from start by step
  std::int64_t start, stop, step, count;
};
Range range_of(const slice& s, std::int64_t size) {
  std::int64_t step = s.step.value().value_or(1);
  if (step == 0) throw_error(ErrorCode::invalid_argument, "indexing", "a slice's step must not be 0");
  std::int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
  auto place = [&](const SliceBound& bound, std::int64_t absent) {
    if (!bound.value()) return absent;
    std::int64_t v = *bound.value();
    return std::clamp(v < 0 ? v + size : v, low, high);
  };
  std::int64_t start = place(s.start, step < 0 ? high : low), stop = place(s.stop, step < 0 ? low : high);
  std::int64_t span = step < 0 ? start - stop : stop - start, stride = step < 0 ? -step : step;
  return {start, stop, step, span <= 0 ? 0 : (span + stride - 1) / stride};
}

// An index in its place: it stands for `count` dimensions from `axis`.
struct Placed {
  Index index;
  int axis, count;
  bool non_negative = false;  // an array that needs no wrapping
};

bool is_mask(const Index& i) { return i.kind == Kind::array && is_bool(i.array.dtype()); }

// Indices with dots and missing trailing ones written out as slices.
std::vector<Placed> place(const std::vector<Index>& items, AvalP aval) {
  int rank = aval->rank(), consumed = 0, dots_seen = 0;
  for (const Index& i : items) {
    dots_seen += i.kind == Kind::dots;
    consumed += is_mask(i)                                                                  ? i.array.ndim()
                : i.kind == Kind::integer || i.kind == Kind::slice || i.kind == Kind::array ? 1
                                                                                            : 0;
  }
  if (dots_seen > 1) throw_error(ErrorCode::invalid_argument, "indexing", "an index can hold dots only once");
  if (consumed > rank)
    throw_error(ErrorCode::shape, "indexing", "too many indices: {} has {} dimensions, but {} were indexed", aval->text,
                rank, consumed);
  std::vector<Placed> out;
  int axis = 0;
  auto fill = [&](int count) {
    for (int i = 0; i < count; ++i) out.push_back({Index(slice()), axis++, 1});
  };
  for (const Index& i : items) {
    if (i.kind == Kind::dots) {
      fill(rank - consumed);
      continue;
    }
    int count = is_mask(i) ? i.array.ndim() : i.kind == Kind::newaxis || i.kind == Kind::boolean ? 0 : 1;
    out.push_back({i, axis, count});
    axis += count;
  }
  fill(rank - axis);
  return out;
}

// ---- static slices ----

// Reversed, without these axes, with new ones.
Array finished(Array x, const Ints& reversed, const Ints& squeezed, const Ints& added) {
  if (!reversed.empty()) x = lax::rev(x, reversed);
  if (!squeezed.empty()) x = lax::squeeze(x, squeezed);
  if (!added.empty()) x = lax::expand_dims(x, added);
  return x;
}
// Where a new axis goes in the result: after the axes so far that stay.
std::int64_t new_axis_place(const Ints& starts, const Ints& squeezed, const Ints& added) {
  return starts.rank() - squeezed.rank() + added.rank();
}
[[noreturn]] void throw_empty_axis(AvalP aval, int axis) {
  throw_error(ErrorCode::invalid_argument, "indexing", "the index is out of bounds: axis {} of {} is empty", axis,
              aval->text);
}

std::optional<Array> static_slice(const Array& x, const std::vector<Placed>& indices, bool wrap, bool clip) {
  const Shape& shape = x.shape();
  Ints starts, limits, strides, reversed, squeezed, added;
  bool trivial = true;
  for (const Placed& p : indices) {
    std::int64_t size = p.count == 1 ? shape[p.axis] : 0;
    switch (p.index.kind) {
      case Kind::newaxis:
        added.push_back(new_axis_place(starts, squeezed, added));
        break;
      case Kind::integer: {
        std::int64_t at = wrap && p.index.integer < 0 ? p.index.integer + size : p.index.integer;
        if (size == 0) throw_empty_axis(x.aval(), p.axis);
        if (!clip && (at < 0 || at >= size)) return std::nullopt;
        at = std::clamp<std::int64_t>(at, 0, size - 1);
        starts.push_back(at), limits.push_back(at + 1), strides.push_back(1);
        squeezed.push_back(p.axis);
        trivial = false;
        break;
      }
      case Kind::slice: {
        Range r = range_of(p.index.range, size);
        if (r.step < 0) {
          starts.push_back(r.count == 0 ? 0 : r.start + (r.count - 1) * r.step);
          limits.push_back(r.count == 0 ? 0 : r.start + 1);
          reversed.push_back(p.axis);
        } else {
          starts.push_back(r.start);
          limits.push_back(std::max(r.start, r.stop));
        }
        strides.push_back(r.step < 0 ? -r.step : r.step);
        trivial = trivial && starts.back() == 0 && limits.back() == size && strides.back() == 1;
        break;
      }
      default:
        return std::nullopt;
    }
  }
  bool unit = std::all_of(strides.begin(), strides.end(), [](auto s) { return s == 1; });
  Array y = trivial ? x : lax::slice(x, starts, limits, unit ? std::nullopt : std::optional(strides));
  return finished(y, reversed, squeezed, added);
}

// ---- dynamic slices ----

DType index_dtype(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](auto d) { return d > std::int64_t{0x7fffffff}; }) ? DType::int64
                                                                                                      : DType::int32;
}
Array number(std::int64_t v, DType dtype) { return scalar(Scalar(v, dtype), dtype); }
// Negative numbers counted from the end. As in JAX, numbers are wrapped in the program too while it is traced.
Array wrapped(const Array& index, std::int64_t size) {
  if (!is_signed_integer(index.dtype())) return index;
  if (index.value()->kind() == Value::Kind::scalar && !is_staging()) {
    std::int64_t v = static_cast<const ScalarValue*>(index.value())->scalar.as_int();
    return v < 0 ? number(v + size, index.dtype()) : index;
  }
  Array negative = lax::lt(index, number(0, index.dtype()));
  Array from_end = lax::add(index, number(size, index.dtype()));
  return lax::select(negative, from_end, index);
}

std::optional<Array> dynamic_slice(const Array& x, const std::vector<Placed>& indices, bool wrap) {
  const Shape& shape = x.shape();
  for (const Placed& p : indices) {
    bool fits = p.index.kind == Kind::newaxis || p.index.kind == Kind::integer ||
                (p.index.kind == Kind::slice && std::abs(range_of(p.index.range, shape[p.axis]).step) == 1) ||
                (p.index.kind == Kind::array && !is_mask(p.index) && p.index.array.ndim() == 0);
    if (!fits) return std::nullopt;
  }
  Arrays starts;
  Shape sizes;
  Ints places, reversed, squeezed, added;
  DType dtype = index_dtype(shape);
  for (const Placed& p : indices) {
    if (p.index.kind == Kind::newaxis) {
      added.push_back(new_axis_place(places, squeezed, added));
      continue;
    }
    places.push_back(p.axis);
    if (p.index.kind == Kind::slice) {
      Range r = range_of(p.index.range, shape[p.axis]);
      starts.push_back(number(r.step < 0 ? r.start - std::max<std::int64_t>(r.count, 1) + 1 : r.start, dtype));
      sizes.push_back(r.count);
      if (r.step < 0) reversed.push_back(p.axis);
    } else {
      if (shape[p.axis] == 0) throw_empty_axis(x.aval(), p.axis);
      starts.push_back(p.index.kind == Kind::integer ? number(p.index.integer, dtype) : p.index.array);
      sizes.push_back(1);
      squeezed.push_back(p.axis);
    }
  }
  if (starts.size() > 1)
    for (Array& s : starts) s = convert(s, dtype);
  if (wrap)
    for (std::size_t i = 0; i < starts.size(); ++i) starts[i] = wrapped(starts[i], shape[i]);
  Array y = lax::dynamic_slice(x, starts, sizes, {.allow_negative_indices = false});
  return finished(y, reversed, squeezed, added);
}

// ---- gathers and scatters ----

struct GatherPlan {
  Shape slice_shape;   // of the result, new axes included
  Shape gather_sizes;  // slice sizes of the gather
  Array indices;       // index vectors along the last dimension
  lax::GatherDimensionNumbers dims;
  bool advanced = false;  // an index array may repeat and be unsorted
  Ints reversed;          // axes of the gather's result that run backwards
  Ints added;             // new axes of the result
  Ints bool_axes;         // axes to be given to x first, one for each single bool
};

// The places where a mask is true, one array for each of its dimensions.
Arrays places_of(const Array& mask) {
  if (mask.is_tracer())
    throw_error(ErrorCode::concretization, "indexing",
                "a mask decides about the result's shape, but {} is traced. Use numpy::where(mask, x, y) instead, or "
                "index outside jit and vmap",
                mask.aval()->text);
  runtime::HostView host = runtime::to_host(*runtime::as_concrete(mask.value()), "indexing");
  const Shape& shape = mask.shape();
  std::vector<std::vector<std::int32_t>> places(shape.size());
  for (std::int64_t flat = 0; flat < shape.elements(); ++flat) {
    if (host.data()[flat] == std::byte{0}) continue;
    std::int64_t rest = flat;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      places[static_cast<std::size_t>(i)].push_back(static_cast<std::int32_t>(rest % shape[i]));
      rest /= shape[i];
    }
  }
  Arrays out;
  for (auto& p : places)
    out.emplace_back(runtime::make_concrete(make_aval({p.size()}, DType::int32), {.data = p.data()}));
  return out;
}
std::vector<Placed> without_masks(std::vector<Placed> indices, AvalP aval) {
  std::vector<Placed> out;
  for (Placed& p : indices) {
    if (!is_mask(p.index)) {
      out.push_back(std::move(p));
      continue;
    }
    if (p.index.array.ndim() == 0) {
      out.push_back({Index(static_cast<bool>(p.index.array)), p.axis, 0});
      continue;
    }
    for (int i = 0; i < p.count; ++i)
      if (std::int64_t d = p.index.array.shape()[i]; d != 0 && d != aval->shape[p.axis + i])
        throw_error(ErrorCode::shape, "indexing", "a mask {} does not fit dimensions {} to {} of {}",
                    p.index.array.aval()->text, p.axis, p.axis + p.count - 1, aval->text);
    Arrays places = places_of(p.index.array);
    for (int i = 0; i < p.count; ++i) out.push_back({Index(places[static_cast<std::size_t>(i)]), p.axis + i, 1, true});
  }
  return out;
}
// Single bools become index arrays ([0] or []) into an axis of size 1 that x gets for each.
std::vector<Placed> without_bools(std::vector<Placed> indices, Shape& shape, Ints& bool_axes) {
  int shift = 0;
  for (Placed& p : indices) {
    p.axis += shift;
    if (p.index.kind != Kind::boolean) continue;
    shape = shape.with(p.axis, 1);
    bool_axes.push_back(p.axis);
    p = {Index(zeros(make_aval({p.index.integer}, DType::int32))), p.axis, 1, true};
    ++shift;
  }
  return indices;
}

GatherPlan plan_gather(const Array& x, std::vector<Placed> indices, bool contiguous, bool wrap) {
  GatherPlan plan;
  Shape shape = x.shape();
  indices = without_bools(std::move(indices), shape, plan.bool_axes);
  DType dtype = index_dtype(shape);
  auto is_number = [](const Placed& p) { return p.index.kind == Kind::integer || p.index.kind == Kind::array; };
  for (Placed& p : indices) {
    if (p.index.kind == Kind::integer && wrap && p.index.integer < 0) p.index.integer += shape[p.axis];
    if (p.index.kind == Kind::array && wrap && !p.non_negative) p.index.array = wrapped(p.index.array, shape[p.axis]);
    plan.advanced = plan.advanced || (p.index.kind == Kind::array && p.index.array.ndim() > 0);
  }
  Arrays advanced;
  Ints advanced_axes;
  std::size_t first_advanced = indices.size();
  if (plan.advanced)
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (!is_number(indices[i])) continue;
      first_advanced = std::min(first_advanced, i);
      advanced.push_back(indices[i].index.kind == Kind::integer ? Array(indices[i].index.integer)
                                                                : indices[i].index.array);
      advanced_axes.push_back(indices[i].axis);
    }

  // Arrays that will be broadcast along the index dimensions from `place`, one for each component of the index vectors.
  std::vector<std::pair<Array, int>> components;
  Shape index_shape;
  Ints collapsed;
  std::int64_t y_axis = 0, bare_y_axis = 0;  // of the result, with new axes and without
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Placed& p = indices[i];
    if (plan.advanced && i == (contiguous ? first_advanced : 0)) {
      int place = index_shape.rank();
      for (Array& a : numpy::broadcast_all("indexing", advanced)) {
        components.emplace_back(convert(a, dtype), place);
      }
      const Shape& common = components.back().first.shape();
      index_shape.append(common.begin(), common.end());
      plan.slice_shape.append(common.begin(), common.end());
      for (auto a : advanced_axes) plan.dims.start_index_map.push_back(a), collapsed.push_back(a);
      y_axis += common.rank(), bare_y_axis += common.rank();
    }
    if (p.index.kind == Kind::newaxis) {
      plan.slice_shape.push_back(1);
      plan.added.push_back(y_axis++);
    } else if (is_number(p)) {
      plan.gather_sizes.push_back(1);
      if (plan.advanced) continue;
      if (shape[p.axis] == 0) throw_empty_axis(x.aval(), p.axis);
      Array at = p.index.kind == Kind::integer ? number(p.index.integer, dtype) : convert(p.index.array, dtype);
      components.emplace_back(at, index_shape.rank());
      collapsed.push_back(p.axis);
      plan.dims.start_index_map.push_back(p.axis);
    } else {
      Range r = range_of(p.index.range, shape[p.axis]);
      plan.slice_shape.push_back(r.count);
      if (r.step == 1) {
        if (r.count != shape[p.axis]) {
          components.emplace_back(number(r.start, dtype), index_shape.rank());
          plan.dims.start_index_map.push_back(p.axis);
        }
        plan.gather_sizes.push_back(r.count);
        plan.dims.offset_dims.push_back(bare_y_axis);
      } else {
        Array at = lax::add(number(r.start, dtype), lax::mul(number(r.step, dtype), lax::iota(dtype, r.count)));
        if (r.step < 0) {
          plan.reversed.push_back(bare_y_axis);
          at = lax::rev(at, {0});
        }
        plan.gather_sizes.push_back(1);
        components.emplace_back(at, index_shape.rank());
        plan.dims.start_index_map.push_back(p.axis);
        index_shape.push_back(r.count);
        collapsed.push_back(p.axis);
      }
      ++y_axis, ++bare_y_axis;
    }
  }
  std::sort(collapsed.begin(), collapsed.end());
  plan.dims.collapsed_slice_dims = collapsed;

  if (components.empty()) {
    plan.indices = zeros(make_aval({0}, dtype));
  } else if (components.size() == 1) {
    plan.indices = lax::expand_dims(components[0].first, {components[0].first.ndim()});
  } else {
    int last = index_shape.rank();
    index_shape.push_back(1);
    Arrays parts;
    for (auto& [a, place] : components) {
      Ints dims = iota_ints(a.ndim());
      for (auto& d : dims) d += place;
      parts.push_back(lax::broadcast_in_dim(a, index_shape, dims));
    }
    plan.indices = lax::concatenate(parts, last);
  }
  return plan;
}
// Whether numbers and arrays stand side by side, as the user wrote them.
bool is_contiguous(const std::vector<Index>& items) {
  int runs = 0;
  bool inside = false;
  for (const Index& i : items) {
    bool number = i.kind == Kind::integer || i.kind == Kind::array;
    runs += number && !inside;
    inside = number;
  }
  return runs <= 1;
}
GatherPlan plan_for(const Array& x, const IndexList& index, bool wrap) {
  return plan_gather(x, without_masks(place(index.items, x.aval()), x.aval()), is_contiguous(index.items), wrap);
}

Array read(const Array& x, const IndexList& index, const GetOptions& options) {
  std::optional<GatherScatterMode> mode = options.mode.value();
  std::vector<Placed> indices = place(index.items, x.aval());
  if (mode != GatherScatterMode::fill_or_drop) {
    if (auto y = static_slice(x, indices, options.wrap_negative_indices, mode == GatherScatterMode::clip)) return *y;
    if (auto y = dynamic_slice(x, indices, options.wrap_negative_indices)) return *y;
  }
  std::optional<Scalar> fill;
  if (options.fill_value.has_value()) fill = options.fill_value.item_scalar();
  GatherPlan plan = plan_for(x, index, options.wrap_negative_indices);
  if (plan.slice_shape.elements() == 0)
    return full(make_aval(plan.slice_shape, x.dtype(), x.weak_type()), Scalar(std::int64_t{0}, DType::int32));
  Array y = plan.bool_axes.empty() ? x : lax::expand_dims(x, plan.bool_axes);
  if (!plan.dims.start_index_map.empty())
    y = lax::gather(y, plan.indices, plan.dims, plan.gather_sizes,
                    {.unique_indices = options.unique_indices || !plan.advanced,
                     .indices_are_sorted = options.indices_are_sorted || !plan.advanced,
                     .mode = mode,
                     .fill_value = fill});
  return finished(y, plan.reversed, {}, plan.added);
}

}  // namespace

Array Array::operator[](const IndexList& index) const {
  LocationScope scope(index.where);
  return read(*this, index, {});
}
IndexUpdate Array::at(const IndexList& index) const { return IndexUpdate(*this, index); }

Array IndexUpdate::get(const GetOptions& options) const {
  LocationScope scope(index_.where);
  return read(array_, index_, options);
}
Array IndexUpdate::update(const Array& x, const Operand& values, const Scatter& scatter,
                          const IndexOptions& options) const {
  LocationScope scope(values.where);
  GatherPlan plan = plan_for(x, index_, options.wrap_negative_indices);
  if (plan.slice_shape.elements() == 0) return x;
  auto [to, from] = numpy::promote_dtypes("at", x, values.array);
  Array y = lax::squeeze(numpy::broadcast_to(from, plan.slice_shape), plan.added);
  if (!plan.reversed.empty()) y = lax::rev(y, plan.reversed);
  if (!plan.bool_axes.empty()) to = lax::expand_dims(to, plan.bool_axes);
  Array out = scatter(to, plan.indices, y,
                      {.update_window_dims = plan.dims.offset_dims,
                       .inserted_window_dims = plan.dims.collapsed_slice_dims,
                       .scatter_dims_to_operand_dims = plan.dims.start_index_map},
                      {.indices_are_sorted = options.indices_are_sorted || !plan.advanced,
                       .unique_indices = options.unique_indices || !plan.advanced,
                       .mode = options.mode.value()});
  if (!plan.bool_axes.empty()) out = lax::squeeze(out, plan.bool_axes);
  return convert(out, x.dtype(), x.weak_type());
}
Array IndexUpdate::set(const Operand& values, const IndexOptions& options) const {
  return update(array_, values, lax::scatter, options);
}
Array IndexUpdate::add(const Operand& values, const IndexOptions& options) const {
  return update(array_, values, lax::scatter_add, options);
}
Array IndexUpdate::subtract(const Operand& values, const IndexOptions& options) const {
  return update(array_, values, lax::scatter_sub, options);
}
Array IndexUpdate::multiply(const Operand& values, const IndexOptions& options) const {
  return update(array_, values, lax::scatter_mul, options);
}
Array IndexUpdate::divide(const Operand& values, const IndexOptions& options) const {
  LocationScope scope(values.where);
  return array_ / update(lax::ones_like(array_), values, lax::scatter_mul, options);
}
Array IndexUpdate::power(const Operand& values, const IndexOptions& options) const {
  LocationScope scope(values.where);
  return numpy::power(array_, update(lax::ones_like(array_), values, lax::scatter_mul, options));
}
Array IndexUpdate::apply(const std::function<Array(const Array&)>& func, const IndexOptions& options) const {
  LocationScope scope(index_.where);
  auto scatter = [&](const Operand& x, const Operand& indices, const Operand& y,
                     const lax::ScatterDimensionNumbers& dims, const lax::ScatterOptions& how) {
    return lax::scatter_apply(x, indices, func, dims, y.array.shape(), how);
  };
  return update(array_, zeros(make_aval({}, array_.dtype())), scatter, options);
}
Array IndexUpdate::min(const Operand& values, const IndexOptions& options) const {
  return update(array_, values, lax::scatter_min, options);
}
Array IndexUpdate::max(const Operand& values, const IndexOptions& options) const {
  return update(array_, values, lax::scatter_max, options);
}

}  // namespace lockstep
