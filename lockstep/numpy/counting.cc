// isin, unique, bincount, histogram and the functions that give the places of elements: numpy/sorting.h, numpy/shape.h.
#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/creation.h"
#include "lockstep/numpy/indexing.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/numpy/reductions.h"
#include "lockstep/numpy/series.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/numpy/sorting.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep::numpy {

Array isin(const Operand& element, const Operand& test_elements, const IsinOptions& o) {
  LocationScope scope(element.where);
  return jitted("isin", o.invert ? "invert" : "", {element.array, test_elements.array}, [&](auto in) {
    auto [a, tests] = promote_dtypes("isin", in[0], in[1]);
    Array x = lax::reshape(a, {a.size(), 1}), t = lax::reshape(tests, {1, tests.size()});
    return lax::reshape(o.invert ? all(x != t, -1) : any(x == t, -1), a.shape());
  });
}

// ---- counts ----

Array bincount(const Operand& operand, const BincountOptions& o) {
  LocationScope scope(operand.where);
  Array x = operand.array;
  if (is_bool(x.dtype())) x = convert(x, DType::int32);
  if (!is_integer(x.dtype()))
    throw_error(ErrorCode::dtype, "bincount", "takes integers, not {}", operand.array.aval()->text);
  if (x.ndim() != 1) throw_error(ErrorCode::shape, "bincount", "takes a vector, not {}", x.aval()->text);
  std::int64_t length = 0;
  if (o.length) {
    length = *o.length;
  } else {
    if (x.size() != 0) length = 1 + std::max<std::int64_t>(0, max(known_value(x, "bincount")).item_scalar().as_int());
    length = std::max(length, o.minlength);
  }
  Array weights = o.weights;
  if (!weights.has_value()) {
    weights = scalar(Scalar(std::int64_t{1}, default_int()), default_int());
  } else if (weights.shape() != x.shape()) {
    throw_error(ErrorCode::shape, "bincount", "wants weights of the shape of {}, not {}", x.aval()->text,
                weights.aval()->text);
  }
  Array counts = zeros(make_aval({length}, weights.dtype()));
  return counts.at(clip(x, 0)).add(weights, {.mode = "drop"});
}

namespace {

// The edges of intervals of equal width; the array is inexact.
Array equal_edges(const Array& a, std::int64_t bins, const HistogramOptions& o) {
  if (bins < 1) throw_error(ErrorCode::invalid_argument, "histogram", "wants at least one interval, not {}", bins);
  Array low, high;
  if (o.range) {
    low = convert(o.range->first, a.dtype()), high = convert(o.range->second, a.dtype());
  } else {
    low = min(a), high = max(a);
  }
  Array empty = lax::eq(low, high);
  Array first = select_where(empty, low - 0.5, low), last = select_where(empty, high + 0.5, high);
  return linspace(first, last, bins + 1, {.dtype = a.dtype()});
}
std::pair<Array, Array> count_between(const Array& array, const Array& given_weights, bool density,
                                      const std::function<Array(const Array&)>& edges_of) {
  Array a, weights;
  if (given_weights.has_value()) {
    if (given_weights.shape() != array.shape())
      throw_error(ErrorCode::shape, "histogram", "wants weights of the shape of {}, not {}", array.aval()->text,
                  given_weights.aval()->text);
    std::tie(a, weights) = promote_dtypes_inexact("histogram", array, given_weights);
  } else {
    a = promote_inexact("histogram", array);
    weights = ones_like(a);
  }
  Array edges = edges_of(a);
  std::int64_t n = edges.size();
  Array place = searchsorted(edges, a, Side::right);
  place = select_where(a == edges[-1], n - 1, place);
  Array counts = zeros(make_aval({n}, weights.dtype())).at(place).add(weights)[slice(1, end)];
  if (density) counts = counts / diff(edges) / sum(counts);
  return {counts, edges};
}

}  // namespace

std::pair<Array, Array> histogram(const Operand& a, std::int64_t bins, const HistogramOptions& o) {
  LocationScope scope(a.where);
  return count_between(a.array, o.weights, o.density, [&](const Array& x) { return equal_edges(x, bins, o); });
}
std::pair<Array, Array> histogram(const Operand& a, const Array& bin_edges, const HistogramOptions& o) {
  LocationScope scope(a.where);
  if (bin_edges.ndim() != 1)
    throw_error(ErrorCode::shape, "histogram", "wants a vector of edges, not {}", bin_edges.aval()->text);
  return count_between(a.array, o.weights, o.density, [&](const Array& x) { return convert(bin_edges, x.dtype()); });
}
Array histogram_bin_edges(const Operand& a, std::int64_t bins, const HistogramOptions& o) {
  LocationScope scope(a.where);
  return equal_edges(promote_inexact("histogram_bin_edges", a.array), bins, o);
}

// ---- places ----

Arrays nonzero(const Operand& operand, const NonzeroOptions& o) {
  LocationScope scope(operand.where);
  const Array& a = operand.array;
  if (!o.size) {
    if (o.fill_value.has_value()) throw_error(ErrorCode::invalid_argument, "nonzero", "a fill_value goes with a size");
    return nonzero(operand);
  }
  if (a.ndim() == 0)
    throw_error(ErrorCode::shape, "nonzero", "wants at least one dimension; atleast_1d gives a scalar one");
  std::int64_t size = *o.size;
  if (a.size() == 0 || size == 0)
    return Arrays(static_cast<std::size_t>(a.ndim()), zeros(make_aval({size}, default_int())));
  Array mask = is_bool(a.dtype()) ? a : a != 0;
  // How many elements come before each nonzero one.
  Array flat = cumsum(bincount(cumsum(mask), {.length = size}));
  Arrays out;
  std::int64_t stride = a.size();
  for (int i = 0; i < a.ndim(); ++i) {
    stride /= a.shape(i);
    out.push_back(remainder(floor_divide(flat, stride), a.shape(i)));
  }
  if (o.fill_value.has_value()) {
    Array beyond = arange(size) >= sum(mask);
    for (Array& place : out) place = select_where(beyond, o.fill_value, place);
  }
  return out;
}
Array flatnonzero(const Operand& a, const NonzeroOptions& o) {
  LocationScope scope(a.where);
  return nonzero(ravel(a), o)[0];
}
Array argwhere(const Operand& a, const NonzeroOptions& o) {
  LocationScope scope(a.where);
  if (!o.size) return argwhere(a);
  Arrays places = nonzero(atleast_1d(a), o);
  if (a.array.ndim() == 0) return zeros(make_aval({*o.size, 0}, places[0].dtype()));
  return stack(places, 1);
}

// ---- unique ----

namespace {

struct SortedSlices {
  Array values, first, order;  // along axis 0; whether a slice is the first of its kind; where it came from
};
SortedSlices sorted_slices(const Array& a, int axis, bool equal_nan) {
  Arrays out = jitted_many("_unique_sorted_mask", fmt::format("{} {}", axis, equal_nan), {&a, 1}, [&](auto in) {
    Array x = numpy::moveaxis(in[0], axis, 0);
    if (is_complex(x.dtype())) x = select_where(isnan(x), scalar_like(x, nan), x);
    std::int64_t size = x.shape(0), width = size == 0 ? 0 : x.size() / size;
    Array order = zeros(make_aval({1}, default_int()));
    if (width != 0) {
      Arrays keys = unstack(lax::reshape(x, {size, width}), 1);
      std::reverse(keys.begin(), keys.end());
      order = lexsort(keys);
    }
    x = x[order];
    Array later = x[slice(1, end)], before = x[slice(0, -1)];
    Array differ = lax::ne(later, before);
    if (is_inexact(x.dtype()) && equal_nan) differ = differ & !(isnan(later) & isnan(before));
    Ints others;
    for (int i = 1; i < x.ndim(); ++i) others.push_back(i);
    Array first = ones({x.shape(0)}, DType::bool_).at(slice(1, end)).set(any(differ, others));
    return Arrays{x, first, order};
  });
  return {out[0], out[1], out[2]};
}

}  // namespace

Unique unique_all(const Operand& operand, const UniqueOptions& o) {
  LocationScope scope(operand.where);
  const Array& a = operand.array;
  Array x = a;
  int axis = 0;
  if (o.axis.given()) {
    Ints axes = o.axis.resolve("unique", x.ndim());
    if (axes.size() != 1) throw_error(ErrorCode::axis, "unique", "wants one axis, not {}", to_tuple_string(axes));
    axis = static_cast<int>(axes[0]);
  } else {
    x = ravel(x);
  }
  std::int64_t n = x.shape(axis);
  if (x.size() == 0) throw_error(ErrorCode::shape, "unique", "wants at least one element; {} has none", a.aval()->text);
  auto [values, first, order] = sorted_slices(x, axis, o.equal_nan);
  std::int64_t size = o.size ? *o.size : sum(known_value(first, "unique")).item_scalar().as_int();
  Array at = nonzero(first, {.size = size})[0];
  Unique out;
  out.values = values[at];
  if (o.size && o.fill_value.has_value()) {
    Ints others;
    for (int i = 1; i < values.ndim(); ++i) others.push_back(i);
    Array valid = lax::expand_dims(arange(size) < sum(first), others);
    out.values = select_where(valid, out.values, convert(o.fill_value, values.dtype()));
  }
  out.values = numpy::moveaxis(out.values, 0, axis);
  out.indices = order[at];
  Array number = cumsum(first) - 1;
  out.inverse_indices = zeros(make_aval({n}, number.dtype())).at(order).set(number);
  if (!o.axis.given()) out.inverse_indices = lax::reshape(out.inverse_indices, a.shape());
  Array starts = nonzero(first, {.size = size + 1})[0], ends = starts[slice(1, end)];
  out.counts = diff(concatenate({starts[slice(0, 1)], select_where(ends != 0, ends, n)}));
  return out;
}
Array unique(const Operand& a, const UniqueOptions& o) { return unique_all(a, o).values; }

}  // namespace lockstep::numpy
