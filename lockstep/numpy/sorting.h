// jax.numpy's functions that put elements in order, search ordered ones, or count them.
//
// NaN is ordered last, -0 and 0 are equal, complex numbers go by real, then imaginary part. Errors name the function:
// Error(axis), Error(shape), Error(dtype).
#pragma once

#include <optional>
#include <source_location>
#include <string_view>
#include <utility>

#include "lockstep/numpy/axes.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep::numpy {

// ---- order ----

struct SortOptions {
  OptionsTag tag{};
  bool stable = true;  // equal elements keep their order
  bool descending = false;
};
// Along one axis; none: of the flattened array.
Array sort(const Operand& a, const Axes& axis = -1, const SortOptions& options = {});
// The places of the elements in that order, integers of the default type.
Array argsort(const Operand& a, const Axes& axis = -1, const SortOptions& options = {});
// The same by several keys of one shape, of which the last counts most.
Array lexsort(const Arrays& keys, int axis = -1, std::source_location where = std::source_location::current());
Array sort_complex(const Operand& a);  // along the last axis, as complex numbers
// Along an axis: element kth where sorting would put it, smaller ones before it, larger ones after it. Not for complex
// numbers.
Array partition(const Operand& a, std::int64_t kth, int axis = -1);
Array argpartition(const Operand& a, std::int64_t kth, int axis = -1);

// ---- search ----

enum class Side { left, right };
// The first place in the sorted vector `a` where each element of v could be put in: before equal elements (left) or
// after them. int32.
Array searchsorted(const Operand& a, const Operand& v, Side side = Side::left);
// The number of the interval of each element of x: bins[i - 1] <= x < bins[i], or with `right` bins[i - 1] < x <=
// bins[i]. The bins are sorted, upwards or downwards.
Array digitize(const Operand& x, const Operand& bins, bool right = false);

// ---- sets ----

struct IsinOptions {
  OptionsTag tag{};
  bool invert = false;
};
// Whether each element occurs in test_elements.
Array isin(const Operand& element, const Operand& test_elements, const IsinOptions& options = {});

// Where the number of results depends on the values it must be known: without a size, Error(concretization) under jit.
// With one, the results are cut, or filled up with fill_value (unique: absent, the smallest element).
struct UniqueOptions {
  OptionsTag tag{};
  Axes axis{};  // one, whose slices are compared; none: of the flattened array
  bool equal_nan = true;
  std::optional<std::int64_t> size{};
  Array fill_value{};
};
// The different elements, sorted.
Array unique(const Operand& a, const UniqueOptions& options = {});
struct Unique {
  Array values;
  Array indices;          // of their first occurrences
  Array inverse_indices;  // of each element, the place of its value
  Array counts;
};
Unique unique_all(const Operand& a, const UniqueOptions& options = {.equal_nan = false});

// ---- counts ----

struct BincountOptions {
  OptionsTag tag{};
  Array weights{};  // added up instead of ones
  std::int64_t minlength = 0;
  std::optional<std::int64_t> length{};  // of the result; absent: as needed, Error(concretization) under jit
};
// How often each of 0, 1, ... occurs in a vector of integers; negative ones count as 0, those beyond are left out.
Array bincount(const Operand& x, const BincountOptions& options = {});

struct HistogramOptions {
  OptionsTag tag{};
  std::optional<std::pair<Array, Array>> range{};  // absent: from the smallest to the largest
  Array weights{};
  bool density = false;  // the integral is 1
};
// Of elements in intervals of equal width, the last of them closed: counts and the edges between them.
std::pair<Array, Array> histogram(const Operand& a, std::int64_t bins = 10, const HistogramOptions& options = {});
// In intervals between these edges.
std::pair<Array, Array> histogram(const Operand& a, const Array& bin_edges, const HistogramOptions& options = {});
Array histogram_bin_edges(const Operand& a, std::int64_t bins = 10, const HistogramOptions& options = {});

}  // namespace lockstep::numpy
