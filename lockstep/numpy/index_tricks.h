// jax.numpy's functions that make indices, and those that read and write at lists of them.
//
// Errors name the function: Error(axis), Error(shape), Error(dtype).
#pragma once

#include <functional>
#include <optional>
#include <source_location>
#include <string_view>
#include <utility>

#include "lockstep/numpy/axes.h"
#include "lockstep/numpy/indexing.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep::numpy {

// ---- making indices ----

// The places of a matrix's upper and lower triangle: rows and columns.
std::pair<Array, Array> triu_indices(std::int64_t n, std::int64_t k = 0, std::optional<std::int64_t> m = std::nullopt,
                                     std::source_location where = std::source_location::current());
std::pair<Array, Array> tril_indices(std::int64_t n, std::int64_t k = 0, std::optional<std::int64_t> m = std::nullopt,
                                     std::source_location where = std::source_location::current());
Arrays diag_indices(std::int64_t n, int ndim = 2, std::source_location where = std::source_location::current());
// Vectors of integers, each along an axis of its own: a[ix_(rows, columns)] reads a block.
Arrays ix_(const Arrays& arrays, std::source_location where = std::source_location::current());
struct IndicesOptions {
  OptionsTag tag{};
  std::optional<DType> dtype{};
};
// An array [rank, shape...] that holds each place's index.
Array indices(const Shape& dimensions, const IndicesOptions& options = {},
              std::source_location where = std::source_location::current());
// Places in the flattened array to indices, and back. Out of bounds: the nearest end; `mode` is "clip", "wrap" or
// "ignore".
Arrays unravel_index(const Operand& indices, const Shape& shape);
Array ravel_multi_index(const Arrays& multi_index, const Shape& dims, std::string_view mode = "clip",
                        std::source_location where = std::source_location::current());

// ---- reading ----

// Where the first condition holds its choice, ..., else the default.
Array select(const Arrays& conditions, const Arrays& choices, const Operand& default_value = 0);
struct CompressOptions {
  OptionsTag tag{};
  Axes axis{};                         // one; none: of the flattened array
  std::optional<std::int64_t> size{};  // absent: as many as hold, Error(concretization) under jit
  Array fill_value = 0;
};
// The slices where a vector of bools holds.
Array compress(const Operand& condition, const Operand& a, const CompressOptions& options = {});
Array extract(const Operand& condition, const Operand& a, const CompressOptions& options = {});  // of the flattened

// ---- writing: the results are copies ----

struct PutOptions {
  OptionsTag tag{};
  const char* mode = "drop";  // what is out of bounds; or "clip", "wrap"
};
// Values (repeated, or cut) at places of the flattened array.
Array put(const Operand& a, const Operand& indices, const Operand& values, const PutOptions& options = {});
// result[..., indices[..., j, ...], ...] = values[..., j, ...].
Array put_along_axis(const Operand& a, const Operand& indices, const Operand& values, const Axes& axis);
Array fill_diagonal(const Operand& a, const Operand& value);

// ---- functions along axes ----

// f on every vector along the axis, under vmap; what it returns takes the axis's place.
Array apply_along_axis(const std::function<Array(const Array& vector)>& f, int axis, const Operand& a);
// f(a, axis) for each axis in turn; an axis that f drops is put back with size 1.
Array apply_over_axes(const std::function<Array(const Array& a, int axis)>& f, const Operand& a, const Ints& axes);

}  // namespace lockstep::numpy
