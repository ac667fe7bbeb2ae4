#include "lockstep/numpy/sorting.h"

#include <algorithm>
#include <cmath>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/creation.h"
#include "lockstep/numpy/indexing.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/gather.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/sort.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/control_flow.h"

namespace lockstep::numpy {
namespace {

// The axis along which the array is sorted; an absent one flattens it.
int sorting_axis(const char* name, Array& a, const Axes& axis) {
  if (!axis.given()) {
    a = ravel(a);
    return 0;
  }
  Ints axes = axis.resolve(name, a.ndim());
  if (axes.size() != 1) throw_error(ErrorCode::axis, name, "wants one axis, not {}", to_tuple_string(axes));
  return static_cast<int>(axes[0]);
}
std::string key_of(const char* name, const Array& a, const Axes& axis, const SortOptions& o) {
  std::string along = axis.given() ? to_string(axis.resolve(name, a.ndim())) : "";
  return fmt::format("{} {} {}", along, o.stable, o.descending);
}
DType place_type(std::int64_t size) { return size > 0x7fffffff ? DType::int64 : default_int(); }

}  // namespace

Array sort(const Operand& operand, const Axes& axis, const SortOptions& o) {
  LocationScope scope(operand.where);
  return jitted("sort", key_of("sort", operand.array, axis, o), {operand.array}, [&](auto in) {
    Array a = in[0];
    int along = sorting_axis("sort", a, axis);
    Array out = lax::sort(a, {.dimension = along, .is_stable = o.stable});
    return o.descending ? lax::rev(out, {along}) : out;
  });
}
Array argsort(const Operand& operand, const Axes& axis, const SortOptions& o) {
  LocationScope scope(operand.where);
  return jitted("argsort", key_of("argsort", operand.array, axis, o), {operand.array}, [&](auto in) {
    Array a = in[0];
    int along = sorting_axis("argsort", a, axis);
    Array places = lax::broadcasted_iota(place_type(a.shape(along)), a.shape(), along);
    if (o.descending && o.stable) {  // the last of equal elements comes first, and is turned to the end
      a = lax::rev(a, {along});
      places = lax::rev(places, {along});
    }
    Array out = lax::sort_key_val(a, places, along, o.stable).second;
    return o.descending ? lax::rev(out, {along}) : out;
  });
}
Array lexsort(const Arrays& keys, int axis, std::source_location where) {
  LocationScope scope(where);
  if (keys.empty()) throw_error(ErrorCode::invalid_argument, "lexsort", "wants at least one key");
  for (const Array& k : keys)
    if (k.shape() != keys[0].shape())
      throw_error(ErrorCode::shape, "lexsort", "wants keys of one shape, not {} and {}", keys[0].aval()->text,
                  k.aval()->text);
  if (keys[0].ndim() == 0) return lax::full({}, 0, default_int());
  int along = canonical_axis("lexsort", axis, keys[0].ndim());
  return jitted_many("lexsort", std::to_string(along), keys, [&](auto in) {
    Arrays operands(in.rbegin(), in.rend());
    operands.push_back(lax::broadcasted_iota(place_type(in[0].shape(along)), in[0].shape(), along));
    int num_keys = static_cast<int>(in.size());
    return Arrays{lax::sort(operands, {.dimension = along, .num_keys = num_keys}).back()};
  })[0];
}
Array sort_complex(const Operand& operand) {
  LocationScope scope(operand.where);
  return jitted("sort_complex", "", {operand.array}, [&](auto in) {
    Array a = lax::sort(in[0]);
    bool wide = a.dtype() == DType::float64 || a.dtype() == DType::complex128 ||
                (is_integer(a.dtype()) && itemsize(a.dtype()) == 8);
    return lax::convert_element_type(a, wide ? DType::complex128 : DType::complex64);
  });
}

namespace {

struct Selection {
  int axis, kth;
};
Selection selection(const char* name, const Array& a, std::int64_t kth, int axis) {
  if (is_complex(a.dtype())) throw_error(ErrorCode::dtype, name, "does not take complex numbers: {}", a.aval()->text);
  int along = canonical_axis(name, axis, a.ndim());
  std::int64_t size = a.shape(along);
  if (kth < -size || kth >= size)
    throw_error(ErrorCode::invalid_argument, name, "there is no element {} along axis {} of {}", kth, axis,
                a.aval()->text);
  return {along, static_cast<int>(kth < 0 ? kth + size : kth)};
}
// Largest first where the array has its smallest.
Array reversed_order(const Array& a) { return is_unsigned_integer(a.dtype()) ? -(a + 1) : -a; }

}  // namespace

Array partition(const Operand& operand, std::int64_t kth, int axis) {
  LocationScope scope(operand.where);
  auto [along, k] = selection("partition", operand.array, kth, axis);
  return jitted("partition", fmt::format("{} {}", k, along), {operand.array}, [&, along = along, k = k](auto in) {
    Array a = swapaxes(in[0], along, -1);
    int last = a.ndim() - 1;
    Array bottom = lax::top_k(reversed_order(a), k + 1).first;
    bottom = is_unsigned_integer(a.dtype()) ? -bottom - 1 : -bottom;
    Array top = lax::top_k(a, static_cast<int>(a.shape(-1)) - k - 1).first;
    return swapaxes(lax::concatenate({bottom, top}, last), -1, along);
  });
}
Array argpartition(const Operand& operand, std::int64_t kth, int axis) {
  LocationScope scope(operand.where);
  auto [along, k] = selection("argpartition", operand.array, kth, axis);
  return jitted("argpartition", fmt::format("{} {}", k, along), {operand.array}, [&, along = along, k = k](auto in) {
    Array a = swapaxes(in[0], along, -1);
    int last = a.ndim() - 1;
    Array bottom = lax::top_k(reversed_order(a), k + 1).second;
    // The others are those that are not among them, in order of place.
    Array rest = lax::full(a.shape(), 1.0);
    Ints others = iota_ints(last);
    rest = lax::scatter(rest, lax::expand_dims(bottom, {bottom.ndim()}), zeros(make_aval(bottom.shape(), rest.dtype())),
                        {.inserted_window_dims = {last},
                         .scatter_dims_to_operand_dims = {last},
                         .operand_batching_dims = others,
                         .scatter_indices_batching_dims = others});
    Array top = lax::top_k(rest, static_cast<int>(a.shape(-1)) - k - 1).second;
    return swapaxes(lax::concatenate({bottom, top}, last), -1, along);
  });
}

namespace {

// x < y, or x <= y if `or_equal`, in the order of lax::sort.
Array precedes(const Array& x, const Array& y, bool or_equal) {
  if (is_complex(x.dtype())) {
    Array xr = lax::real(x), yr = lax::real(y);
    Array same = lax::bitwise_and(precedes(xr, yr, true), precedes(yr, xr, true));
    Array later = lax::bitwise_and(same, precedes(lax::imag(x), lax::imag(y), or_equal));
    return lax::bitwise_or(precedes(xr, yr, false), later);
  }
  Array out = or_equal ? lax::le(x, y) : lax::lt(x, y);
  if (!is_inexact(x.dtype())) return out;
  Array y_last = lax::ne(y, y);
  if (!or_equal) y_last = lax::bitwise_and(y_last, lax::eq(x, x));
  return lax::bitwise_or(out, y_last);
}

}  // namespace

Array searchsorted(const Operand& sorted, const Operand& v, Side side) {
  LocationScope scope(sorted.where);
  if (sorted.array.ndim() != 1)
    throw_error(ErrorCode::shape, "searchsorted", "wants a sorted vector, not {}", sorted.array.aval()->text);
  return jitted("searchsorted", side == Side::left ? "left" : "right", {sorted.array, v.array}, [&](auto in) {
    auto [a, x] = promote_dtypes("searchsorted", in[0], in[1]);
    std::int64_t n = a.size();
    DType place = n > 0x7fffffff ? DType::int64 : DType::int32;
    DType state = itemsize(place) == 8 ? DType::uint64 : DType::uint32;
    AvalP aval = make_aval(x.shape(), state);
    // Bisection: the place is in (low, high].
    int levels = static_cast<int>(std::ceil(std::log2(static_cast<double>(n + 1))));
    auto bisect = [&, a = a, x = x](std::span<const Array> bounds) {
      const Array &low = bounds[0], &high = bounds[1];
      Array two = scalar(Scalar(std::int64_t{2}, state), state);
      Array middle = lax::add(low, lax::div(lax::sub(high, low), two));
      Array element = lax::gather(a, lax::expand_dims(middle, {middle.ndim()}),
                                  {.collapsed_slice_dims = {0}, .start_index_map = {0}}, {1},
                                  {.mode = lax::GatherScatterMode::promise_in_bounds});
      Array left = precedes(x, element, side == Side::left);
      return Arrays{lax::select(left, low, middle), lax::select(left, middle, high)};
    };
    Array high = full(aval, Scalar(n, state));
    if (levels == 0) return zeros(make_aval(x.shape(), place));
    Arrays bounds = bind_scan(bisect, Arrays{zeros(aval), high}, {}, levels, false, 1, {}).carry;
    return lax::convert_element_type(bounds[1], place);
  });
}
Array digitize(const Operand& x, const Operand& bins, bool right) {
  LocationScope scope(x.where);
  if (bins.array.ndim() != 1)
    throw_error(ErrorCode::shape, "digitize", "wants a vector of bins, not {}", bins.array.aval()->text);
  if (bins.array.size() == 0) return zeros_like(x, DType::int32);
  return jitted("digitize", right ? "right" : "", {x.array, bins.array}, [&](auto in) {
    const Array &v = in[0], &edges = in[1];
    Side side = right ? Side::left : Side::right;
    Array up = searchsorted(edges, v, side), down = searchsorted(edges[slice(none, none, -1)], v, side);
    return select_where(edges[-1] >= edges[0], up, edges.size() - down);
  });
}

}  // namespace lockstep::numpy
