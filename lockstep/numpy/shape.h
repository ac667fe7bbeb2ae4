// NumPy's functions that rearrange elements: shapes, joins and splits, repetition, padding, selection by position.
//
// Names and rules as in jax.numpy. Arrays of one call are promoted to a common dtype where NumPy does so. Axes may be
// negative. Errors name the function: Error(shape), Error(axis).
#pragma once

#include <optional>
#include <source_location>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/numpy/axes.h"
#include "lockstep/numpy/indexing.h"
#include "lockstep/trace/array.h"

namespace lockstep::numpy {

// ---- shape ----

Array reshape(const Operand& a, const Shape& shape);       // one size may be -1
Array transpose(const Operand& a, const Axes& axes = {});  // reversed axes if absent
Array matrix_transpose(const Operand& a);                  // the last two axes swapped
Array squeeze(const Operand& a, const Axes& axis = {});    // all axes of size 1 if absent
Array expand_dims(const Operand& a, const Axes& axis);
Array swapaxes(const Operand& a, int axis1, int axis2);
Array moveaxis(const Operand& a, const Axes& source, const Axes& destination);
Array broadcast_to(const Operand& a, const Shape& shape);
Arrays broadcast_arrays(const Arrays& arrays, std::source_location where = std::source_location::current());

inline constexpr struct Ravel { Array operator()(const Operand& a) const; } ravel{};
inline constexpr struct Atleast1d { Array operator()(const Operand& a) const; } atleast_1d{};
inline constexpr struct Atleast2d { Array operator()(const Operand& a) const; } atleast_2d{};
inline constexpr struct Atleast3d { Array operator()(const Operand& a) const; } atleast_3d{};

// ---- order ----

Array flip(const Operand& a, const Axes& axis = {});  // all axes if absent
inline constexpr struct Fliplr { Array operator()(const Operand& a) const; } fliplr{};
inline constexpr struct Flipud { Array operator()(const Operand& a) const; } flipud{};
Array rot90(const Operand& a, int k = 1, std::pair<int, int> axes = {0, 1});
// Shifted towards larger indices, what falls off coming in at the front. Absent axis: the flattened array is shifted.
// Several shifts go with several axes.
Array roll(const Operand& a, const Ints& shift, const Axes& axis = {});
Array roll_dynamic(const Operand& a, const Array& shift, const Axes& axis);
template <std::same_as<Array> T>  // traced shifts
Array roll(const Operand& a, const T& shift, const Axes& axis = {}) {
  return roll_dynamic(a, shift, axis);
}

// ---- joins and splits ----

// Absent axis: the arrays are flattened first.
Array concatenate(const Arrays& arrays, const Axes& axis = 0,
                  std::source_location where = std::source_location::current());
Array stack(const Arrays& arrays, int axis = 0, std::source_location where = std::source_location::current());
Array vstack(const Arrays& arrays, std::source_location where = std::source_location::current());
Array hstack(const Arrays& arrays, std::source_location where = std::source_location::current());
Array dstack(const Arrays& arrays, std::source_location where = std::source_location::current());
Array column_stack(const Arrays& arrays, std::source_location where = std::source_location::current());
Array append(const Operand& a, const Operand& values, const Axes& axis = {});
Arrays unstack(const Operand& a, int axis = 0);
// Into equal parts, or at these places.
class Sections {
 public:
  template <std::integral T>
  Sections(T parts) : parts_(static_cast<std::int64_t>(parts)) {}
  Sections(std::initializer_list<std::int64_t> places) : places_(places) {}
  Sections(std::vector<std::int64_t> places) : places_(std::move(places)) {}
  // The sizes of the parts. Error(shape) if they must be equal and cannot be.
  Ints sizes(std::string_view operation, std::int64_t size, bool equal) const;

 private:
  std::optional<std::int64_t> parts_;
  std::vector<std::int64_t> places_;
};
Arrays split(const Operand& a, const Sections& sections, int axis = 0);
Arrays array_split(const Operand& a, const Sections& sections, int axis = 0);  // the first may be larger by one
Arrays hsplit(const Operand& a, const Sections& sections);
Arrays vsplit(const Operand& a, const Sections& sections);
Arrays dsplit(const Operand& a, const Sections& sections);

// ---- repetition and padding ----

Array tile(const Operand& a, const Ints& reps);
// Each element this many times. Absent axis: of the flattened array.
Array repeat(const Operand& a, std::int64_t repeats, const Axes& axis = {});
// The i-th slice repeats[i] times.
Array repeat(const Operand& a, const std::vector<std::int64_t>& repeats, const Axes& axis = {});

// Elements to add before and after each dimension: the same everywhere, or one pair for each.
class PadWidth {
 public:
  using Pair = std::pair<std::int64_t, std::int64_t>;
  template <std::integral T>
  PadWidth(T both) : all_{{both, both}} {}
  template <std::integral T>
  PadWidth(T before, T after) : all_{{before, after}} {}
  PadWidth(std::initializer_list<Pair> each) : all_(each) {}
  PadWidth(std::vector<Pair> each) : all_(std::move(each)) {}
  std::vector<Pair> resolve(int rank) const;  // Error(shape) if there are neither one nor `rank` pairs

 private:
  std::vector<Pair> all_;
};
struct PadOptions {
  OptionsTag tag{};
  Array constant_values = 0;  // for mode "constant"
  bool reflect_odd = false;   // "reflect" and "symmetric": values reflected at the edge value too
};
// Modes: constant, edge, reflect (without the edge), symmetric (with it), wrap, empty (zeros).
Array pad(const Operand& a, const PadWidth& pad_width, std::string_view mode = "constant",
          const PadOptions& options = {});

// ---- triangles, diagonals, grids ----

// 1 where column <= row + k.
Array tri(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt, std::int64_t k = 0,
          DType dtype = DType::float32, std::source_location where = std::source_location::current());
Array tril(const Operand& a, std::int64_t k = 0);  // zero above the k-th diagonal
Array triu(const Operand& a, std::int64_t k = 0);  // zero below it
Array diagonal(const Operand& a, std::int64_t offset = 0, int axis1 = 0, int axis2 = 1);
Array diag(const Operand& a, std::int64_t k = 0);  // of a matrix, or a matrix of a vector
Array diagflat(const Operand& a, std::int64_t k = 0);
struct MeshgridOptions {
  OptionsTag tag{};
  bool sparse = false;
  std::string_view indexing = "xy";  // or "ij"
};
Arrays meshgrid(const Arrays& arrays, const MeshgridOptions& options = {},
                std::source_location where = std::source_location::current());

// ---- selection ----

// x where the condition holds, y elsewhere.
Array where(const Operand& condition, const Operand& x, const Operand& y);
// The places of all elements that are not zero, one array of indices for each dimension. Without a size their number
// depends on the values: Error(concretization) if they are traced. With one, they are cut, or filled up with
// fill_value (absent: 0).
struct NonzeroOptions {
  OptionsTag tag{};
  std::optional<std::int64_t> size{};
  Array fill_value{};
};
Arrays nonzero(const Operand& a);
Arrays nonzero(const Operand& a, const NonzeroOptions& options);
inline Arrays where(const Operand& condition) { return nonzero(condition); }
inline Arrays where(const Operand& condition, const NonzeroOptions& options) { return nonzero(condition, options); }
Array flatnonzero(const Operand& a);
Array flatnonzero(const Operand& a, const NonzeroOptions& options);
Array argwhere(const Operand& a);  // one row of indices each
Array argwhere(const Operand& a, const NonzeroOptions& options);

struct TakeOptions {
  OptionsTag tag{};
  const char* mode = "fill";  // or "clip", "wrap"
  bool unique_indices = false, indices_are_sorted = false;
  Array fill_value = {};  // empty: NaN, or an extreme value
};
// Slices at the indices along an axis. Absent axis: elements of the flattened array.
Array take(const Operand& a, const Operand& indices, const Axes& axis = {}, const TakeOptions& options = {});
struct TakeAlongAxisOptions {
  OptionsTag tag{};
  IndexMode mode = "fill";
  Array fill_value = {};
};
// One element per index: result[..., j, ...] = a[..., indices[..., j, ...], ...]. Dimensions other than the axis are
// equal or 1.
Array take_along_axis(const Operand& a, const Operand& indices, const Axes& axis = -1,
                      const TakeAlongAxisOptions& options = {});

}  // namespace lockstep::numpy
