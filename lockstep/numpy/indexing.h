// NumPy's indexing: x[0], x[{dots, slice(1, end), newaxis}], x[mask], x.at({i, slice(0, 3)}).add(y).
//
// JAX's rules: negative indices count from the end; those out of bounds are clamped by reads and dropped by updates
// unless a mode says otherwise; slices are cut to what is there. Integers and slices are static, arrays of integers may
// be traced, arrays of bools must be known (not under jit).
#pragma once

#include <functional>
#include <optional>
#include <source_location>
#include <string_view>
#include <vector>

#include "lockstep/core/none.h"
#include "lockstep/ops/gather.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep {

struct dots_t {};
inline constexpr dots_t dots{};  // NumPy's ...: all dimensions that the other indices leave
inline constexpr none_t newaxis{};
struct end_t {};
inline constexpr end_t end{};  // where the dimension ends, in the direction of the slice

// One of the three numbers of a slice, or nothing.
class SliceBound {
 public:
  constexpr SliceBound(none_t) {}
  constexpr SliceBound(end_t) {}
  template <std::integral T>
  constexpr SliceBound(T value) : value_(static_cast<std::int64_t>(value)) {}
  constexpr const std::optional<std::int64_t>& value() const { return value_; }

 private:
  std::optional<std::int64_t> value_;
};

// Python's start:stop:step. slice() is all, slice(n) the first n (all but the last -n), slice(1, end) all but the
// first, slice(none, none, -1) everything reversed.
struct slice {
  constexpr slice() = default;
  constexpr explicit slice(SliceBound stop) : stop(stop) {}
  constexpr slice(SliceBound start, SliceBound stop, SliceBound step = none) : start(start), stop(stop), step(step) {}

  SliceBound start = none, stop = none, step = none;
};

// What stands for one dimension (or, dots and newaxis, several or none).
class Index {
 public:
  enum class Kind : std::uint8_t { integer, boolean, slice, newaxis, dots, array };
  template <std::integral T>
  Index(T i) : kind(std::same_as<T, bool> ? Kind::boolean : Kind::integer), integer(static_cast<std::int64_t>(i)) {}
  Index(const Array& a);  // integers or bools; a host number is as good as itself. Error(dtype) for others
  Index(struct slice s) : kind(Kind::slice), range(s) {}
  Index(none_t) : kind(Kind::newaxis) {}
  Index(dots_t) : kind(Kind::dots) {}

  Kind kind;
  std::int64_t integer = 0;
  struct slice range;
  Array array;
};

class IndexList {
 public:
  template <class T>
  requires(std::convertible_to<T, Index> && !std::same_as<std::remove_cvref_t<T>, IndexList>)
      IndexList(const T& index, std::source_location where = std::source_location::current())
      : items{Index(index)}, where(where) {}
  IndexList(std::initializer_list<Index> items, std::source_location where = std::source_location::current())
      : items(items), where(where) {}
  IndexList(std::vector<Index> items, std::source_location where = std::source_location::current())
      : items(std::move(items)), where(where) {}

  std::vector<Index> items;
  std::source_location where;
};

// "clip", "fill" or "drop", "promise_in_bounds", as in JAX, or lax's enum.
class IndexMode {
 public:
  IndexMode() = default;
  IndexMode(lax::GatherScatterMode mode) : mode_(mode) {}
  IndexMode(const char* name);  // Error(invalid_argument) for other names
  const std::optional<lax::GatherScatterMode>& value() const { return mode_; }

 private:
  std::optional<lax::GatherScatterMode> mode_;
};

struct IndexOptions {
  OptionsTag tag{};
  bool indices_are_sorted = false, unique_indices = false;  // promises about the indices, not checked
  IndexMode mode = {};
  bool wrap_negative_indices = true;
};
struct GetOptions {
  OptionsTag tag{};
  bool indices_are_sorted = false, unique_indices = false;
  IndexMode mode = {};
  Array fill_value = {};  // a known number, for mode "fill"; empty: NaN, or an extreme value
  bool wrap_negative_indices = true;
};

// x.at(index): copies of x with the elements at the index changed. Values are broadcast and keep x's dtype. All updates
// of a repeated place are applied, in no given order.
class IndexUpdate {
 public:
  IndexUpdate(Array array, IndexList index) : array_(std::move(array)), index_(std::move(index)) {}

  Array get(const GetOptions& options = {}) const;
  Array set(const Operand& values, const IndexOptions& options = {}) const;
  Array add(const Operand& values, const IndexOptions& options = {}) const;
  Array subtract(const Operand& values, const IndexOptions& options = {}) const;
  Array multiply(const Operand& values, const IndexOptions& options = {}) const;
  Array divide(const Operand& values, const IndexOptions& options = {}) const;
  Array power(const Operand& values, const IndexOptions& options = {}) const;
  // A function of a scalar applied to the elements: lax::scatter_apply.
  Array apply(const std::function<Array(const Array& element)>& func, const IndexOptions& options = {}) const;
  Array min(const Operand& values, const IndexOptions& options = {}) const;
  Array max(const Operand& values, const IndexOptions& options = {}) const;

 private:
  using Scatter = std::function<Array(const Operand&, const Operand&, const Operand&,
                                      const lax::ScatterDimensionNumbers&, const lax::ScatterOptions&)>;
  Array update(const Array& x, const Operand& values, const Scatter& scatter, const IndexOptions& options) const;

  Array array_;
  IndexList index_;
};

}  // namespace lockstep
